/* Models of parcels: blocks that other threads freed, on their way to their owner. See models.c.
 * SPDX-License-Identifier: MIT */
#include "core/thread.h"
#include "heddle.h"
#include "models.h"

static void *block[16];

/* ---- parcels: two threads send blocks, by one parcel that comes back and goes again, while their owner frees and takes ------ */

static void parcels_setup(void) {
  shadow_start();
  model_fill(0, BYTES_9, 10, block);
  model_make_heap(1);
  model_make_heap(2);
  model_leave_parcels(1, 1);
  model_leave_parcels(2, 1);
}

static void parcels_owner(void) {
  give(block[9]);
  void *p = take(BYTES_9);
  take(BYTES_9); /* looks what has arrived */
  give(p);
}

/* Two of these blocks fill a parcel. */
static void parcels_sender(void) {
  for (unsigned i = 0; i < 3; i++) give(block[i]);
  hd_thread_idle();
}

static void parcels_other(void) {
  for (unsigned i = 3; i < 6; i++) give(block[i]);
  os_sched_thread_ends();
}

const sched_model model_parcels = {
    .name = "parcels",
    .about = "two threads send blocks by parcel while their owner takes them in, frees and takes",
    .setup = parcels_setup,
    .fibre = {parcels_owner, parcels_sender, parcels_other},
    .check = model_check,
};

/* ---- parcel_collect: a collector sends what one thread is filling, and takes in for an owner that it has stopped ------------- */

static void collect_setup(void) {
  shadow_start();
  model_fill(0, BYTES_8, 16, block);
  model_make_heap(1);
}

static void collect_owner(void) {
  give(block[7]);
  void *p = take(BYTES_8);
  give(block[6]);
  give(p);
}

static void collect_sender(void) {
  for (unsigned i = 0; i < 3; i++) give(block[i]);
}

const sched_model model_parcel_collect = {
    .name = "parcel_collect",
    .about = "a collector sends a thread's open parcel, and takes in for the owner",
    .setup = collect_setup,
    .fibre = {collect_owner, collect_sender, model_collector},
    .check = model_check,
};
