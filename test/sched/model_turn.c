/* Models of malloc and free that take turns at a group (decision 34): other threads free into it meanwhile, a collector looks at it, its
 * thread ends and another goes on. See models.c.
 * SPDX-License-Identifier: MIT */
#include "core/page.h"
#include "core/thread.h"
#include "models.h"

enum { FREED = 3, TAKEN = 16, TURN = 8 };

static void *block[TAKEN];

/* The slot stands for the page's first group, and the next free runs its credit out, as the last of 4,096 does; for the second time. */
static void turns_setup(void) {
  shadow_start();
  model_make_heap(0);
  sched_as(0);
  for (unsigned i = 0; i < TAKEN; i++) block[i] = take(BYTES_64);
  for (unsigned i = 0; i < FREED; i++) give(block[i]);
  hd_unit *page = hdi_space_find(block[0])->head;
  SCHED_CHECK(page->credit == HD_CREDIT_CURRENT - FREED && hdi_slot_word(&hdi_heap_self->class[page->class_index].slot) == page->words);
  page->credit = 1;
  hdi_heap_self->turner = page->class_index;
  sched_as(SCHED_CHECKER);
}

/* Eight blocks lie apart from that free on: those that are free, and four that were never handed out. What is freed then goes into the
 * group's word. */
static void turns_begin(void) {
  give(block[FREED]);
  SCHED_CHECK(hdi_heap_self->class[hdi_sizeclass_of(BYTES_64)].turn == TURN);
}

/* A turn is used up, and the next begins, or too little has come back for one. */
static void turns_owner(void) {
  unsigned back = sched_pick(2) == 1 ? TURN : 1;
  turns_begin();
  for (unsigned i = 0; i < TURN; i++) {
    void *p = take(BYTES_64);
    if (i < back) give(p);
  }
  take(BYTES_64);
}

const sched_model model_turns = {
    .name = "turns",
    .about = "malloc and free take turns at a system page's blocks, while a collector looks for system pages that are free",
    .setup = turns_setup,
    .fibre = {turns_owner, model_collector},
    .check = model_check,
};

/* ---- turns_adopt: in the middle of a turn ------------------------------------------------------------------------- */

/* All that lies apart, and one more: the turn is over, and what others have freed is looked at. */
static void use_up(void) {
  for (unsigned i = 0; i < TURN + 1; i++) take(BYTES_64);
}

static void adopt_owner(void) {
  turns_begin();
  give(take(BYTES_64));
  if (sched_pick(2) == 1) os_sched_thread_ends();
  else use_up();
}

/* Without a heap: each free is announced at once. */
static void adopt_freer(void) {
  give(block[FREED + 1]);
  give(block[FREED + 2]);
}

static void adopt_heir(void) {
  give(take(BYTES_64));
  use_up();
}

const sched_model model_turns_adopt = {
    .name = "turns_adopt",
    .about = "a thread ends in the middle of a turn, or goes on, one takes its heap over, and one frees blocks of the group",
    .setup = turns_setup,
    .fibre = {adopt_owner, adopt_freer, adopt_heir},
    .check = model_check,
};
