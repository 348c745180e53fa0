/* Models of pages that change owners (decision 39): a thread that waits has filled them, and others free its blocks. See models.c.
 * SPDX-License-Identifier: MIT */
#include "core/page.h"
#include "core/remote.h"
#include "core/thread.h"
#include "heddle.h"
#include "models.h"

enum { PER_PAGE = 32, ENOUGH = 8 /* frees that are told */ };

static void *block[2 * PER_PAGE + 1];
static hd_heap *owner;

/* The hint on top of the owner's inbox, as if there were many. A collector that puts a page back counts anew. */
static void say_much(void) {
  hd_unit *top = atomic_load(&owner->inbox);
  if (top != NULL) top->mail = HD_MUCH_MAIL;
}

/* A thread that takes blocks of the class itself frees all but one of those that would be told. */
static void free_nearly_enough(unsigned identity, unsigned from) {
  sched_as(identity);
  take(BYTES_32);
  for (unsigned i = 0; i < ENOUGH - 1; i++) give(block[from + i]);
}

/* Two pages are full. The second waits in its owner's inbox. */
static void fill_and_tell(unsigned teller) {
  shadow_start();
  model_fill(0, BYTES_32, 2 * PER_PAGE + 1, block);
  model_make_heap(teller);
  sched_as(teller);
  for (unsigned i = 0; i < ENOUGH; i++) give(block[PER_PAGE + i]);
  hd_unit *told = hdi_space_find(block[PER_PAGE])->head, *page = hdi_space_find(block[0])->head;
  SCHED_CHECK(hdi_remote_is_queued(told) && told != page);
  owner = hdi_heap_owner(page);
  say_much();
  SCHED_CHECK((atomic_load(&page->owner) & HD_OWNER_LOOSE) != 0 && atomic_load(&page->remote_count) == 0);
  sched_as(SCHED_CHECKER);
}

/* Of the first page all that is missing is one more free, of either thread. */
static void loose_setup(void) {
  fill_and_tell(1);
  model_make_heap(2);
  free_nearly_enough(1, 0);
  free_nearly_enough(2, ENOUGH);
  sched_as(SCHED_CHECKER);
}

/* Frees a block of a page that may be its own again, or another's by now; or looks at its mail, some of which may not be its own. */
static void loose_owner(void) {
  if (sched_pick(2) == 1) hd_thread_idle();
  give(block[3 * ENOUGH]);
  take(BYTES_32);
}

/* Tells of what it has freed, or takes the page, and takes blocks of it. */
static void loose_first(void) {
  give(block[ENOUGH - 1]);
  for (unsigned i = 0; i < 3; i++) take(BYTES_32);
}

static void loose_second(void) {
  give(block[2 * ENOUGH - 1]);
  give(take(BYTES_32));
}

const sched_model model_loose = {
    .name = "loose",
    .about = "two threads are about to take a full page over, while its owner takes it back or reads its mail",
    .setup = loose_setup,
    .fibre = {loose_owner, loose_first, loose_second},
    .check = model_check,
};

/* ---- loose_collect: while a collector is at work, which cannot have stopped a heap that is made meanwhile ---------- */

static void collect_setup(void) {
  fill_and_tell(2);
  free_nearly_enough(2, 0);
  sched_as(SCHED_CHECKER);
}

/* A thread's first block; then frees that are enough to be told, and blocks of the page, if it has become its own. */
static void collect_newborn(void) {
  take(BYTES_32);
  for (unsigned i = 0; i < ENOUGH; i++) {
    say_much();
    give(block[ENOUGH + i]);
  }
  for (unsigned i = 0; i < 4; i++) take(BYTES_32);
}

const sched_model model_loose_collect = {
    .name = "loose_collect",
    .about = "a collector gives back system pages of a full page that a new thread is about to take over, or its owner to take back",
    .setup = collect_setup,
    .fibre = {loose_owner, collect_newborn, model_collector},
    .check = model_check,
};
