/* The list of models, and what they share.
 * SPDX-License-Identifier: MIT */
#include "models.h"

#include "core/purge.h"
#include "core/thread.h"

extern const sched_model model_push_collect, model_region_release, model_page_reuse, model_block_reuse;
extern const sched_model model_adopt, model_rest, model_exit_free, model_heap_destroy, model_heap_retire;
extern const sched_model model_parcels, model_parcel_collect, model_turns, model_turns_adopt;
extern const sched_model model_loose, model_loose_collect;
extern const sched_model model_fork_free, model_purge_alloc, model_last_bit, model_put_back, model_put_back_user, model_look;

const sched_model *const sched_models[] = {
    &model_push_collect, &model_adopt,     &model_heap_destroy, &model_region_release, &model_page_reuse,     &model_exit_free,
    &model_fork_free,    &model_purge_alloc, &model_last_bit,   &model_block_reuse,    &model_parcels,        &model_parcel_collect,
    &model_put_back,     &model_put_back_user, &model_turns,     &model_turns_adopt,    &model_look,
    &model_rest,       &model_loose,       &model_loose_collect, &model_heap_retire,
    NULL,
};

void model_fill(unsigned identity, size_t bytes, unsigned count, void **block) {
  sched_as(identity);
  hdi_thread_heap()->lone = HD_LONE_MOST; /* pages of all classes, from the first block on */
  for (unsigned i = 0; i < count; i++) block[i] = take(bytes);
  if (hdi_space_find(block[0])->head->state != HD_PAGE_FULL) sched_fail("the model's first page is not full");
  sched_as(SCHED_CHECKER);
}

void model_make_heap(unsigned identity) {
  sched_as(identity);
  if (hdi_thread_heap() == NULL) sched_fail("no heap for thread %u", identity);
  hdi_heap_self->lone = HD_LONE_MOST;
  sched_as(SCHED_CHECKER);
}

void model_leave_parcels(unsigned identity, unsigned count) {
  sched_as(identity);
  for (unsigned i = count; i < HD_PARCELS; i++) atomic_store(&hdi_heap_self->parcel[i].owner, hdi_heap_self);
  sched_as(SCHED_CHECKER);
}

void model_collector(void) { hdi_purge_collect(0); }

void model_check(void) {
  shadow_finish();
  shadow_check_space(0);
}
