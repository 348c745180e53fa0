/* Models of threads and explicit heaps that end while others still free their blocks. See models.c.
 * SPDX-License-Identifier: MIT */
#include "core/purge.h"
#include "core/thread.h"
#include "heddle.h"
#include "models.h"

static void *block[64];

/* ---- adopt: a thread ends, another frees its blocks, a third adopts its heap --------------------------------------- */

static void adopt_setup(void) {
  shadow_start();
  model_fill(0, BYTES_8, 16, block);
  model_make_heap(1);
  /* Only every eighth birth looks for heaps of threads that came back late: let the next be one. */
  for (unsigned i = 0; i < 6; i++) {
    model_make_heap(SCHED_CHECKER);
    hdi_heap_self = &hdi_heap_empty;
  }
}

static void adopt_leaver(void) {
  give(block[7]);
  os_sched_thread_ends();
  /* A later exit handler of the program: the thread takes a heap again, which only its disappearance gives away. */
  void *p = take(BYTES_8);
  give(p);
  os_sched_thread_gone();
}

static void adopt_freer(void) {
  give(block[0]);
  give(block[1]);
  os_sched_thread_ends();
}

static void adopt_newcomer(void) {
  void *p = take(BYTES_8);
  give(block[2]);
  take(BYTES_8);
  give(p);
}

const sched_model model_adopt = {
    .name = "adopt",
    .about = "a thread ends and comes back late, one frees its blocks, a new one adopts a heap",
    .setup = adopt_setup,
    .fibre = {adopt_leaver, adopt_freer, adopt_newcomer},
    .check = model_check,
};

/* ---- rest: a collector lets an orphan's classes go of their pages, while threads end, free its blocks and adopt it ---- */

static void rest_leaver(void) {
  give(block[7]);
  give(block[8]);
  os_sched_thread_ends();
}

static void rest_newcomer(void) {
  give(block[2]);
  void *p = take(BYTES_8);
  give(block[3]);
  take(BYTES_8);
  give(p);
}

const sched_model model_rest = {
    .name = "rest",
    .about = "a thread ends, another frees its blocks and adopts its heap, and a collector lets the heap's classes go of their pages",
    .setup = adopt_setup,
    .fibre = {rest_leaver, model_collector, rest_newcomer},
    .check = model_check,
};

/* ---- exit_free: threads end whose tables hold counts for a page that the owner works on --------------------------- */

static void exit_setup(void) {
  shadow_start();
  model_fill(0, BYTES_16, 32, block);
  model_make_heap(1);
  model_make_heap(2);
  model_leave_parcels(1, 0);
  model_leave_parcels(2, 0);
}

static void exit_owner(void) {
  give(block[6]);
  give(block[7]);
  for (int i = 0; i < 3; i++) take(BYTES_16); /* the third looks for what others have counted */
  hd_thread_idle();
}

static void exit_freer(void) {
  give(block[0]);
  give(block[16]);
  os_sched_thread_ends();
  give(block[17]); /* from a later exit handler: no heap any more */
}

static void exit_both(void) {
  give(block[2]);
  give(block[18]);
  give(block[19]);
  void *p = take(BYTES_16);
  os_sched_thread_ends();
  give(p);
}

const sched_model model_exit_free = {
    .name = "exit_free",
    .about = "threads end with counts in their tables, and free once more afterwards",
    .setup = exit_setup,
    .fibre = {exit_owner, exit_freer, exit_both},
    .check = model_check,
};

/* ---- heap_destroy: an explicit heap ends after another thread's frees, is made again; a third thread is born or collects */

static hd_heap *heap;

static void destroy_setup(void) {
  shadow_start();
  heap = hd_heap_create(NULL);
  for (unsigned i = 0; i < 4; i++) block[i] = take_from(heap, BYTES_8);
  block[4] = take_from(heap, 2 * HD_UNIT_BYTES);
}

static void destroy_owner(void) {
  void *late = take_from(heap, BYTES_10);
  sched_receive(0);
  shadow_dead(block[2]);
  shadow_dead(block[3]);
  shadow_dead(late);
  hd_heap_destroy(heap);
  hd_heap *second = hd_heap_create(NULL);
  give(take_from(second, BYTES_8));
}

static void destroy_freer(void) {
  give(block[0]);
  give(block[4]);
  give(block[1]);
  sched_send(0, block);
}

static void destroy_third(void) {
  if (sched_pick(2) == 0) {
    hdi_purge_collect(0);
  } else {
    void *p = take(BYTES_8);
    hd_thread_idle();
    give(p);
  }
}

const sched_model model_heap_destroy = {
    .name = "heap_destroy",
    .about = "an explicit heap is destroyed after another thread's frees, and made again; a third thread is born or collects",
    .setup = destroy_setup,
    .fibre = {destroy_owner, destroy_freer, destroy_third},
    .check = model_check,
};

/* ---- heap_retire: a heap of one user ends while a collector is about to stop it, and is made again as one that is used under its lock */

static void retire_setup(void) {
  shadow_start();
  model_make_heap(1);
  heap = hd_heap_create(&(hd_heap_config){.struct_bytes = sizeof(hd_heap_config), .one_user = true});
  block[0] = take_from(heap, BYTES_8);
  block[1] = take_from(heap, BYTES_8);
  give(block[0]); /* the heap keeps it for its next one */
}

static void retire_user(void) {
  shadow_dead(block[1]);
  hd_heap_destroy(heap);
  hd_heap *second = hd_heap_create(NULL);
  void *p = take_from(second, BYTES_8), *q = take_from(second, BYTES_8);
  give(p);
  p = take_from(second, BYTES_8);
  give(q);
  give(p);
}

const sched_model model_heap_retire = {
    .name = "heap_retire",
    .about = "a heap of one user ends while a collector is about to stop it, and is made again as one that is used under its lock",
    .setup = retire_setup,
    .fibre = {retire_user, model_collector},
    .check = model_check,
};
