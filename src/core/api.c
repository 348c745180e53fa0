/* The public functions of the malloc family and of heaps: thin covers. See include/heddle.h and alloc.h.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "core/alloc.h"
#include "core/check.h"
#include "core/purge.h"
#include "core/remote.h"
#include "core/gate.h"
#include "core/hardened.h"
#include "core/space_fixed.h"
#include "core/thread.h"
#include "heddle.h"
#include "os/os.h"

HD_EXPORT HOT void *hd_malloc(size_t bytes) { return hdi_alloc(bytes); }
HD_EXPORT HOT void hd_free(void *p) { hdi_free(p); }
HD_EXPORT HOT void *hd_calloc(size_t count, size_t bytes) { return hdi_alloc_zeroed(count, bytes); }
HD_EXPORT void *hd_zalloc(size_t bytes) { return hdi_alloc_zeroed(1, bytes); }
HD_EXPORT void *hd_realloc(void *p, size_t bytes) { return hdi_realloc(p, bytes); }
HD_EXPORT void *hd_expand(void *p, size_t bytes) { return hdi_expand(p, bytes); }
HD_EXPORT size_t hd_usable_size(const void *p) { return hdi_usable(p); }
HD_EXPORT bool hd_owns(const void *p) { return hdi_space_find(p) != NULL; }

static void *overflow(void) {
  errno = ENOMEM;
  return NULL;
}

HD_EXPORT void *hd_reallocarray(void *p, size_t count, size_t bytes) {
  size_t total = 0;
  return hd_multiply(count, bytes, &total) ? hdi_realloc(p, total) : overflow();
}

HD_EXPORT void *hd_recalloc(void *p, size_t count, size_t bytes) {
  size_t total = 0;
  if (!hd_multiply(count, bytes, &total)) return overflow();
  if (p == NULL) return hdi_alloc_zeroed(1, total);
  size_t old = hdi_usable(p);
  uint8_t *block = hdi_realloc(p, total);
  if (block == NULL) return NULL;
  size_t usable = hdi_usable(block);
  size_t from = block == p ? old : hd_min(old, total); /* a copy made shorter ends in what lay there before */
  if (usable > from) memset(block + from, 0, usable - from);
  return block;
}

HD_EXPORT void hd_free_sized(void *p, size_t bytes) { hdi_free_sized(p, bytes, 1); }
HD_EXPORT void hd_free_aligned_sized(void *p, size_t alignment, size_t bytes) { hdi_free_sized(p, bytes, alignment); }

HD_EXPORT void *hd_aligned_alloc(size_t alignment, size_t bytes) { return hdi_alloc_aligned(alignment, bytes); }
HD_EXPORT void *hd_aligned_zalloc(size_t alignment, size_t bytes) { return hdi_alloc_aligned_slow(alignment, bytes, true); }

HD_EXPORT int hd_posix_memalign(void **out, size_t alignment, size_t bytes) {
  if (!hd_is_power_of_2(alignment) || alignment % sizeof(void *) != 0 || alignment > hdi_align_max) return EINVAL;
  void *p = hdi_alloc_aligned(alignment, bytes);
  if (p == NULL) return errno;
  *out = p;
  return 0;
}

HD_EXPORT void *hd_aligned_realloc(void *p, size_t alignment, size_t bytes) {
  if (p == NULL) return hdi_alloc_aligned(alignment, bytes);
  if (bytes == 0) {
    hdi_free(p);
    return NULL;
  }
  size_t old = hdi_usable(p);
  if (bytes <= old && bytes >= old / 2 && !hdi_hardened_is_on()) return p;
  if (hdi_hardened_is_on() && bytes >= old / 2 && hdi_expand(p, bytes) != NULL) return p;
  void *block = hdi_alloc_aligned(alignment, bytes);
  if (block == NULL) return NULL;
  memcpy(block, p, hd_min(old, bytes));
  hdi_free(p);
  return block;
}

static char *copy_text(const char *text, size_t length) {
  char *copy = hdi_alloc(length + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

HD_EXPORT char *hd_strdup(const char *text) { return text == NULL ? NULL : copy_text(text, strlen(text)); }

HD_EXPORT char *hd_strndup(const char *text, size_t max_bytes) { return text == NULL ? NULL : copy_text(text, strnlen(text, max_bytes)); }

HD_EXPORT size_t hd_good_size(size_t bytes) {
  if (bytes > PTRDIFF_MAX) return 0;
  hdi_thread_init();
  if (hdi_hardened_is_on()) return bytes;
  if (bytes <= HD_MEDIUM_MAX) return hdi_sizeclass_bytes(hdi_sizeclass_of(bytes));
  return hd_round_up(bytes, hdi_os.page_bytes);
}

/* ---- heaps ------------------------------------------------------------------------------------------------------- */

enum { MEMORY_MIN = 1024 * 1024 };

/* The caller's struct as ours: callers made for an older library have a shorter one. false: that is none of the known lengths. */
static bool read_config(hd_heap_config *config, const hd_heap_config *given) {
  memset(config, 0, sizeof *config);
  if (given == NULL) return true;
  size_t bytes = given->struct_bytes == 0 ? sizeof *config : given->struct_bytes;
  if (bytes < offsetof(hd_heap_config, one_user)) return false;
  memcpy(config, given, hd_min(bytes, sizeof *config));
  return true;
}

static bool bad_config(const hd_heap_config *config) {
  if (config->memory == NULL) return config->memory_bytes != 0;
  return config->memory_bytes < MEMORY_MIN || config->memory_bytes > UINTPTR_MAX - (uintptr_t)config->memory;
}

static hd_space *make_own_space(const hd_heap_config *config) {
  uint8_t *start = (uint8_t *)hd_round_up((uintptr_t)config->memory, 64);
  size_t bytes = config->memory_bytes - (size_t)(start - (uint8_t *)config->memory);
  hd_space *space = (hd_space *)start;
  if (!hdi_space_init_fixed(space, start, bytes, sizeof *space)) return NULL;
  return hdi_space_publish(space) ? space : NULL;
}

HD_EXPORT hd_heap *hd_heap_create(const hd_heap_config *given) {
  hd_heap_config config;
  if (!read_config(&config, given) || bad_config(&config)) {
    errno = EINVAL;
    return NULL;
  }
  if (!hdi_thread_init_space()) return overflow();
  hd_space *space = config.memory == NULL ? &hdi_space : make_own_space(&config);
  hd_heap *heap = space == NULL ? NULL : hdi_thread_new_heap(space, true);
  if (heap == NULL) {
    if (space != NULL && space != &hdi_space) hdi_space_retract(space); /* its memory is the caller's again */
    return overflow();
  }
  hdi_lock_take(&heap->lock);
  hd_store_owned(&heap->own_space, config.memory != NULL);
  hd_store_owned(&heap->one_user, config.one_user);
  heap->limit_units = config.limit_bytes == 0 ? 0 : hd_max(config.limit_bytes >> HD_UNIT_SHIFT, 1);
  if (config.name != NULL) strncpy(heap->name, config.name, sizeof heap->name - 1);
  hdi_lock_drop(&heap->lock);
  return heap;
}

static void hold(hd_heap *heap) {
  if (heap->one_user) hdi_gate_enter(heap);
  else hdi_lock_take(&heap->lock);
}

static void let_go(hd_heap *heap) {
  if (heap->one_user) hdi_gate_leave(heap);
  else hdi_lock_drop(&heap->lock);
}

HD_EXPORT void hd_heap_reset(hd_heap *heap) {
  hold(heap);
  hdi_heap_give_all(heap);
  let_go(heap);
  hdi_purge_note();
}

HD_EXPORT void hd_heap_destroy(hd_heap *heap) {
  if (heap == NULL) return;
  hd_heap_reset(heap);
  bool one_user = heap->one_user;
  if (one_user) hdi_gate_enter(heap);
  hdi_lock_take(&heap->lock);
  hd_space *space = heap->space;
  bool own_space = heap->own_space;
  if (own_space) hdi_space_retract(space);
  hdi_thread_retire_heap(heap);
  hdi_lock_drop(&heap->lock);
  if (one_user) hdi_gate_leave(heap);
}

HD_EXPORT void *hd_heap_malloc(hd_heap *heap, size_t bytes) { return hdi_alloc_from(heap, bytes, false); }
HD_EXPORT void *hd_heap_zalloc(hd_heap *heap, size_t bytes) { return hdi_alloc_from(heap, bytes, true); }

HD_EXPORT void *hd_heap_calloc(hd_heap *heap, size_t count, size_t bytes) {
  size_t total = 0;
  return hd_multiply(count, bytes, &total) ? hdi_alloc_from(heap, total, true) : overflow();
}

HD_EXPORT void *hd_heap_realloc(hd_heap *heap, void *p, size_t bytes) { return hdi_realloc_from(heap, p, bytes); }

HD_EXPORT void hd_heap_free(hd_heap *heap, void *p) {
  if (heap->one_user) hdi_free_of_user(heap, p);
  else hdi_free(p);
}

HD_EXPORT void *hd_heap_aligned_alloc(hd_heap *heap, size_t alignment, size_t bytes) {
  return hdi_alloc_aligned_from(heap, alignment, bytes, false);
}

HD_EXPORT hd_heap *hd_heap_of(const void *p) {
  hd_unit *unit = p == NULL ? NULL : hdi_space_find(p);
  return unit == NULL ? NULL : hdi_heap_explicit_owner(unit);
}

/* ---- collecting -------------------------------------------------------------------------------------------------- */

HD_EXPORT bool hd_collect(size_t keep_bytes) {
  hdi_thread_init();
  return hdi_space.units != NULL && hdi_purge_collect(keep_bytes) > 0;
}

HD_EXPORT void hd_thread_idle(void) {
  hd_heap *heap = hdi_heap_mine();
  if (hdi_heap_is_empty(heap)) return;
  hdi_hardened_flush(heap);
  hdi_gate_enter(heap);
  hdi_remote_flush(heap);
  hdi_remote_drain(heap);
  hdi_heap_rest(heap);
  hdi_gate_leave(heap);
  hdi_purge_note();
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

HD_EXPORT int hd_version(void) { return HEDDLE_VERSION; }

#define TEXT(x) #x
#define NUMBER_TEXT(x) TEXT(x)
#ifdef HD_DEBUG
#define FLAVOUR " (debug)"
#else
#define FLAVOUR " (release)"
#endif

HD_EXPORT const char *hd_version_text(void) {
  return NUMBER_TEXT(HEDDLE_VERSION_MAJOR) "." NUMBER_TEXT(HEDDLE_VERSION_MINOR) "." NUMBER_TEXT(HEDDLE_VERSION_PATCH) FLAVOUR;
}
