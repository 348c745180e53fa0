/* Models of the counted remote frees: push/collect, page release, reuse of a released page. See models.c.
 * SPDX-License-Identifier: MIT */
#include "core/thread.h"
#include "heddle.h"
#include "models.h"

static void *block[64], *whole[8];

/* ---- push_collect: two threads free blocks of a full page while its owner refills --------------------------------- */

static void push_setup(void) {
  shadow_start();
  model_fill(0, BYTES_8, 16, block);
  model_make_heap(1);
  model_leave_parcels(1, 0);
}

static void push_owner(void) {
  take(BYTES_8);
  give(block[4]);
  void *p = take(BYTES_8);
  take(BYTES_8);
  give(p);
}

static void push_with_heap(void) {
  give(block[0]);
  give(block[1]);
}

static void push_without_heap(void) {
  give(block[8]); /* of the second page */
  give(block[2]);
}

const sched_model model_push_collect = {
    .name = "push_collect",
    .about = "two threads free blocks of a full page while its owner refills from it",
    .setup = push_setup,
    .fibre = {push_owner, push_with_heap, push_without_heap},
    .check = model_check,
};

/* ---- region_release: the last blocks of a page of several units, counts still in the freeing threads' tables ------ */

static void region_setup(void) {
  shadow_start();
  model_fill(0, BYTES_21, 22, block);
  sched_as(0);
  for (unsigned i = 3; i < 21; i++) give(block[i]);
  hdi_heap_self->class[hdi_sizeclass_of(BYTES_8)].busy = true; /* or it would borrow these blocks */
  for (unsigned i = 0; i < 8; i++) whole[i] = take(BYTES_8);
  model_make_heap(1);
  model_make_heap(2);
  model_leave_parcels(1, 0);
  model_leave_parcels(2, 0);
}

/* A page of one unit: taken from, full, and then emptied by its owner while a push of it may be on its way. The magazine has no room. */
static void region_owner_small(void) {
  hd_magazine *magazine = hdi_heap_magazine(hdi_heap_self, hdi_sizeclass_of(BYTES_8));
  magazine->end = magazine->top;
  void *p = take(BYTES_8);
  void *q = take(BYTES_8);
  for (unsigned i = 1; i < 8; i++) give(whole[i]);
  give(p);
  give(q);
}

static void region_owner(void) {
  if (sched_pick(2) == 1) {
    region_owner_small();
    return;
  }
  give(block[2]);
  hd_thread_idle();
  void *p = take(4 * HD_UNIT_BYTES);
  give(p);
}

static void region_idle(void) {
  give(block[0]);
  hd_thread_idle();
}

static void region_exit(void) {
  give(whole[0]);
  give(block[1]);
  os_sched_thread_ends();
}

const sched_model model_region_release = {
    .name = "region_release",
    .about = "a page of four units is released while other threads announce late",
    .setup = region_setup,
    .fibre = {region_owner, region_idle, region_exit},
    .check = model_check,
};

/* ---- page_reuse: a released page becomes one of another class, while a thread that freed blocks of both still counts - */

static void reuse_setup(void) {
  shadow_start();
  model_fill(0, BYTES_8, 9, block);
  sched_as(0);
  for (unsigned i = 3; i < 8; i++) give(block[i]);
  hdi_heap_self->class[hdi_sizeclass_of(BYTES_10)].busy = true; /* a page of its own, not a block of the larger class */
  model_make_heap(1);
  model_make_heap(2);
  model_leave_parcels(1, 0);
  model_leave_parcels(2, 0);
}

static void reuse_owner(void) {
  give(block[2]);
  hd_thread_idle();
  sched_send(0, take(BYTES_10));
  take(BYTES_10);
  hd_thread_idle();
}

static void reuse_freer(void) {
  give(block[0]);
  if (sched_pick(2) == 1) hd_thread_idle();
  give(sched_receive(0));
  hd_thread_idle();
}

static void reuse_other(void) {
  give(block[1]);
  hd_thread_idle();
}

const sched_model model_page_reuse = {
    .name = "page_reuse",
    .about = "a page is released and used for another class while a thread has freed blocks of both",
    .setup = reuse_setup,
    .fibre = {reuse_owner, reuse_freer, reuse_other},
    .check = model_check,
};

/* ---- block_reuse: the owner claims blocks that others are just freeing, and its program writes into them ------------ */

static void blocks_setup(void) {
  shadow_start();
  sched_as(0);
  for (unsigned i = 0; i < 64; i++) block[i] = take(BYTES_64);
  for (unsigned i = 16; i < 24; i++) { /* by others, so that it takes a claim to have them: what others free meanwhile is in it */
    sched_as(1 + i % 2);
    give(block[i]);
  }
  sched_as(0);
}

static void blocks_owner(void) {
  take(BYTES_64);
  take(BYTES_64);
}

/* Without a heap: each free is announced at once. */
static void blocks_freer(void) { give(block[0]); }

static void blocks_other(void) { give(block[1]); }

const sched_model model_block_reuse = {
    .name = "block_reuse",
    .about = "a block is handed out again while the thread that freed it is not through yet",
    .setup = blocks_setup,
    .fibre = {blocks_owner, blocks_freer, blocks_other},
    .check = model_check,
};
