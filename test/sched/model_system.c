/* Models of fork and of the collector. See models.c.
 * SPDX-License-Identifier: MIT */
#include "core/thread.h"
#include "heddle.h"
#include "models.h"

static void *block[64], *small[64 + 4];

/* ---- fork_free: one thread forks while two take and free; both sides of the fork go on ----------------------------- */

enum { FREE_UNITS = 5 };
static bool is_child;

static void fork_setup(void) {
  shadow_start();
  model_fill(1, BYTES_8, 16, block);
  sched_as(0);
  block[20] = take(BYTES_8);
  give(take(FREE_UNITS * HD_UNIT_BYTES));
  hd_collect(0); /* the space's, and put aside for the fork: too little for all that is taken meanwhile */
}

static void fork_forker(void) {
  enum { PARENT, CHILD, LATE_PARENT };
  os_sched_fork_prepare();
  unsigned side = sched_pick(3);
  is_child = side == CHILD;
  if (side == LATE_PARENT) { /* the C library waits for its stream locks here, and their holders may allocate */
    sched_receive(0);
    sched_receive(1);
  }
  if (is_child) {
    sched_others_vanish();
    os_sched_fork_child();
  } else {
    os_sched_fork_parent();
  }
  give(block[5]); /* of another thread, which in the child does not exist */
  void *p = take(BYTES_10);
  void *q = take(3 * HD_UNIT_BYTES);
  take(BYTES_8);
  give(q);
  give(p);
  os_sched_thread_ends();
}

static void fork_taker(void) {
  void *p = take(BYTES_16);
  give(block[0]);
  void *q = take(2 * HD_UNIT_BYTES);
  give(q);
  give(p);
  hd_thread_idle();
  sched_send(0, block);
}

static void fork_newborn(void) {
  give(block[1]);
  void *p = take(BYTES_8); /* its first: it needs a heap */
  give(p);
  give(take(2 * HD_UNIT_BYTES));
  hd_thread_idle();
  sched_send(1, block);
}

static void fork_check(void) {
  /* What the vanished threads had in their hands is lost: at most a run each way, and what they had cached. */
  if (is_child) shadow_expect_loss();
  shadow_finish();
  shadow_check_space(is_child ? 12 : 0);
}

const sched_model model_fork_free = {
    .name = "fork_free",
    .about = "a thread forks while others take and free; parent and child go on",
    .setup = fork_setup,
    .fibre = {fork_forker, fork_taker, fork_newborn},
    .check = fork_check,
};

/* ---- purge_alloc: the collector stops heaps whose threads take and free ------------------------------------------- */

static void purge_setup(void) {
  shadow_start();
  model_fill(0, BYTES_8, 16, block);
  model_fill(0, BYTES_64, 64 + 4, small);
  sched_as(0);
  for (unsigned i = 42; i < 64; i++) give(small[i]); /* the page becomes partly used, and system pages in it idle */
  model_make_heap(1);
}

/* Small blocks are taken without the gate. */
static void purge_owner_small(void) {
  give(small[0]);
  take(BYTES_64);
  give(small[1]);
  take(BYTES_64);
  give(small[40]);
}

static void purge_owner(void) {
  if (sched_pick(2) == 1) {
    purge_owner_small();
    return;
  }
  give(block[0]);
  void *p = take(BYTES_8);
  give(block[1]);
  void *q = take(BYTES_8);
  give(p);
  give(q);
}

static void purge_freer(void) {
  give(small[41]);
  give(block[4]);
  give(block[5]);
}

const sched_model model_purge_alloc = {
    .name = "purge_alloc",
    .about = "the collector stops, drains and purges heaps whose threads take and free",
    .setup = purge_setup,
    .fibre = {purge_owner, purge_freer, model_collector},
    .check = model_check,
};

/* ---- last_bit: the last block of a page is freed just when a collector looks whether all are free ------------------------ */

enum { LAST = 9, LAST_BUT_ONE = 10 };

/* The page waits in its class's list, with two live blocks, and another thread has told that it freed one of them. */
static void last_setup(void) {
  shadow_start();
  model_fill(0, BYTES_64, 64 + 4, small);
  sched_as(0);
  for (unsigned i = 0; i < 64; i++) {
    if (i != LAST && i != LAST_BUT_ONE) give(small[i]);
  }
  model_make_heap(1);
  sched_as(1);
  give(small[LAST_BUT_ONE]);
  hd_thread_idle();
  sched_as(SCHED_CHECKER);
}

static void last_owner(void) {
  give(small[LAST]);
  take(BYTES_16); /* pages whose maps and words may lie where those of the other one did */
  take(BYTES_10);
  take(BYTES_8);
}

const sched_model model_last_bit = {
    .name = "last_bit",
    .about = "the owner frees its last block of a page while a collector takes in what others freed, and releases the page",
    .setup = last_setup,
    .fibre = {last_owner, model_collector},
    .check = model_check,
};

/* ---- put_back: blocks go back into the slot's group and out again without the gate, while a collector looks at their system page ---- */

static hd_heap *user_heap; /* used instead of the thread's, if there is one */

static void give_back(void *p) {
  if (user_heap == NULL) {
    give(p);
    return;
  }
  shadow_dead(p);
  hd_heap_free(user_heap, p);
}

static void *take_out(void) { return user_heap == NULL ? take(BYTES_64) : take_from(user_heap, BYTES_64); }

static void put_back_setup(void) {
  shadow_start();
  model_make_heap(0);
  user_heap = NULL;
  sched_as(0);
  for (unsigned i = 0; i < 4; i++) small[i] = take_out(); /* a system page: all that is claimed of a page's first group */
  sched_as(SCHED_CHECKER);
}

static void put_back_user_setup(void) {
  shadow_start();
  sched_as(0);
  hdi_thread_heap();
  user_heap = hd_heap_create(&(hd_heap_config){.struct_bytes = sizeof(hd_heap_config), .one_user = true});
  for (unsigned i = 0; i < 4; i++) small[i] = take_out();
  for (unsigned i = 0; i < 4; i++) give_back(small[i]);
  for (unsigned i = 0; i < 4; i++) small[i] = take_out(); /* from the group's word: the first time they read as zero, and lay apart */
  sched_as(SCHED_CHECKER);
}

static void put_back_owner(void) {
  for (unsigned i = 0; i < 4; i++) give_back(small[i]);
  if (sched_pick(2) == 1) give_back(take_out());
  take_out();
}

const sched_model model_put_back = {
    .name = "put_back",
    .about = "a thread's frees go back into its slot's group, and out again, while a collector purges the free system pages around them",
    .setup = put_back_setup,
    .fibre = {put_back_owner, model_collector},
    .check = model_check,
};

const sched_model model_put_back_user = {
    .name = "put_back_user",
    .about = "the same in a heap with one user",
    .setup = put_back_user_setup,
    .fibre = {put_back_owner, model_collector},
    .check = model_check,
};

/* ---- look: somebody reads a page's map just when the page goes, and its map becomes another page's ---------------------------------- */

static hd_unit *looked_at;

static void look_setup(void) {
  shadow_start();
  model_fill(0, BYTES_64, 64 + 4, small);
  sched_as(0);
  for (unsigned i = 0; i < 64; i++) {
    if (i != LAST) give(small[i]);
  }
  looked_at = hdi_space_find(small[LAST]);
  sched_as(SCHED_CHECKER);
}

static void look_owner(void) {
  give(small[LAST]);
  for (unsigned i = 0; i < 3; i++) take(BYTES_32);
}

static void look_looker(void) {
  hd_page_view view;
  uint8_t states[HD_PAGE_BLOCKS_MAX];
  if (!hdi_page_look(looked_at, &view, states)) return;
  bool is_old = view.block_bytes == BYTES_64;
  SCHED_CHECK(view.block_bytes == (is_old ? BYTES_64 : BYTES_32) && view.capacity == HD_UNIT_BYTES / view.block_bytes);
  SCHED_CHECK(view.live <= (is_old ? 1u : 3u));
  for (uint32_t i = 0; is_old && i < view.capacity; i++) SCHED_CHECK(states[i] == HD_BLOCK_FREE || i == LAST);
}

const sched_model model_look = {
    .name = "look",
    .about = "a walk reads a page's map while its owner frees its last block, and makes another page with that map",
    .setup = look_setup,
    .fibre = {look_owner, look_looker},
    .check = model_check,
};
