/* The operations of the model test. See ops.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "parts.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "../support/support.h"

#define MAIL_COUNT 64
#define ADDRESS_SPACE (SIZE_MAX >> 18) /* more than this no system has */

const char *const canary_name[CANARY_COUNT] = {"none", "overlap", "zero", "errno", "align", "prefix", "usable", "stats"};

/* What an allocation promised. */
struct promise {
  size_t bytes, alignment;
  bool zero, aligned;
  int heap;
  bool may_fail; /* whatever the options */
};

/* ---- canaries --------------------------------------------------------------------------------------------------- */

bool model_strikes(struct model *model, enum canary canary) {
  if (model->canary != canary || model->index < model->canary_at) return false;
  model->canary = CANARY_NONE;
  return true;
}

/* An address inside some live block that is long enough, to be handed out a second time. */
static unsigned char *inside_live(struct model *model, unsigned char *instead) {
  for (int s = 0; s < SLOT_COUNT; s++) {
    struct block *block = &model->shadow.slot[s];
    if (block->at && block->usable >= 48 && block->at != instead) return block->at + 16;
  }
  return instead;
}

/* Damage the result of an allocation. The true block is lost: a canary's run ends soon. */
static unsigned char *tamper(struct model *model, unsigned char *p, const struct promise *promise) {
  if (!p || promise->bytes > 4096) return p;
  bool plain = promise->alignment <= 16; /* elsewhere the damage would be noticed as a bad alignment */
  if (plain && promise->bytes >= 16 && model_strikes(model, CANARY_OVERLAP)) return inside_live(model, p);
  if (promise->bytes >= 16 && model_strikes(model, CANARY_ALIGN)) return p + 8;
  if (promise->zero && promise->bytes && model_strikes(model, CANARY_ZERO)) p[promise->bytes / 2] ^= 1;
  return p;
}

static size_t usable_of(struct model *model, const void *p, const struct promise *promise) {
  if (promise->heap < OWNER_THREAD) return promise->bytes;
  size_t usable = model->sut->usable_size(p);
  return usable > 16 && model_strikes(model, CANARY_USABLE) ? 0 : usable;
}

/* ---- accepting what came back ----------------------------------------------------------------------------------- */

static bool may_refuse(struct model *model, const struct promise *promise) {
  if (promise->bytes > ADDRESS_SPACE || promise->may_fail || model->limited) return true;
  const struct explicit_heap *heap = promise->heap >= 0 ? &model->heap[promise->heap] : NULL;
  return heap && (heap->memory || heap->limit_bytes);
}

/* glibc's malloc, on which the driver is tried out and to which Heddle may pass through, sets errno in some successful calls. */
static bool strict(const struct model *model) { return model->sut->owns != NULL && !model->passed_through; }

/* NULL: is it allowed, and is errno right? */
static void accept_null(struct model *model, const struct promise *promise, int error) {
  if (!may_refuse(model, promise)) model_fail(model, "null", "NULL for %zu bytes, alignment %zu", promise->bytes, promise->alignment);
  if (error != ENOMEM) model_fail(model, "errno", "errno %d instead of ENOMEM for %zu bytes", error, promise->bytes);
}

/* Where the block is, judged by the shadow alone: the allocator would end the process over a pointer that is not a block. */
static void check_place(struct model *model, const unsigned char *p, const struct promise *promise, size_t bytes) {
  if (promise->bytes > PTRDIFF_MAX) model_fail(model, "size", "block %p for %zu bytes", (const void *)p, promise->bytes);
  if ((uintptr_t)p & (promise->alignment - 1))
    model_fail(model, "align", "%p is not aligned to %zu (%zu bytes)", (const void *)p, promise->alignment, promise->bytes);
  int other = shadow_overlap(&model->shadow, p, bytes);
  if (other >= 0)
    model_fail(model, "overlap", "%p (%zu bytes) overlaps the live block %p (%zu bytes)", (const void *)p, bytes,
               (void *)model->shadow.slot[other].at, model->shadow.slot[other].bytes);
}

static void check_heap_of(struct model *model, const unsigned char *p, const struct promise *promise, size_t usable) {
  if (!model->sut->heap_of || promise->heap < OWNER_THREAD) return;
  hd_heap *owner = model->sut->heap_of(p), *expected = promise->heap < 0 ? NULL : model->heap[promise->heap].handle;
  if (owner != expected) model_fail(model, "heap", "hd_heap_of(%p) is %p instead of %p", (const void *)p, (void *)owner, (void *)expected);
  if (promise->heap < 0 || !model->heap[promise->heap].memory) return;
  const unsigned char *low = model->heap[promise->heap].memory, *high = low + model->heap[promise->heap].memory_bytes;
  if (p < low || p + usable > high) model_fail(model, "heap", "%p is not in the memory of its heap", (const void *)p);
}

/* Enter the block p into slot. */
static void enter(struct model *model, int slot, unsigned char *p, const struct promise *promise, uint64_t key) {
  check_place(model, p, promise, promise->bytes);
  size_t usable = usable_of(model, p, promise);
  if (usable < promise->bytes) model_fail(model, "usable", "usable size %zu of %zu bytes at %p", usable, promise->bytes, (void *)p);
  check_place(model, p, promise, usable);
  check_heap_of(model, p, promise, usable);
  model->shadow.slot[slot] = (struct block){.at = p, .bytes = promise->bytes, .usable = usable, .alignment = promise->alignment,
                                            .aligned = promise->aligned, .heap = promise->heap, .key = key};
  shadow_insert(&model->shadow, slot);
}

static void accept(struct model *model, const struct op *op, void *result, const struct promise *promise) {
  int error = errno;
  unsigned char *p = tamper(model, result, promise);
  if (!p) {
    accept_null(model, promise, error);
    return;
  }
  if (error != ERRNO_MARK && strict(model)) model_fail(model, "errno", "a successful allocation set errno to %d", error);
  enter(model, op->slot, p, promise, op->key);
  if (promise->zero) {
    size_t bad = zero_check(p, 0, promise->bytes);
    if (bad != SIZE_MAX) model_fail(model, "zero", "byte %zu of %p (%zu bytes) is not zero", bad, (void *)p, promise->bytes);
  }
  pattern_write(&model->shadow.slot[op->slot]);
}

void model_check_content(struct model *model, const struct block *block) {
  size_t bad = pattern_check(block, block->at, block->bytes);
  if (bad != SIZE_MAX)
    model_fail(model, "content", "live block %p (%zu bytes) was damaged at byte %zu", (void *)block->at, block->bytes, bad);
}

/* ---- freeing ---------------------------------------------------------------------------------------------------- */

void model_free_slot(struct model *model, int slot, bool sized) {
  const struct ts_sut *sut = model->sut;
  struct block block = model->shadow.slot[slot];
  if (!block.at) return;
  model_check_content(model, &block);
  if (block.heap < OWNER_THREAD) {
    shadow_remove(&model->shadow, slot);
    if (block.heap == OWNER_POOL) model_pool_give(model, block.at);
    return;
  }
  size_t usable = sut->usable_size(block.at);
  if (usable != block.usable) model_fail(model, "usable", "usable size of %p went from %zu to %zu", (void *)block.at, block.usable, usable);
  shadow_remove(&model->shadow, slot);
  errno = ERRNO_MARK;
  if (sized && block.aligned && sut->free_aligned_sized) sut->free_aligned_sized(block.at, block.alignment, block.bytes);
  else if (sized && !block.aligned && sut->free_sized) sut->free_sized(block.at, block.bytes);
  else sut->free(block.at);
  if (model_strikes(model, CANARY_ERRNO)) errno = EAGAIN;
  if (errno != ERRNO_MARK) model_fail(model, "errno", "free of %p (%zu bytes) set errno to %d", (void *)block.at, block.bytes, errno);
}

/* The free of a heap's user, who may give it any block. */
static void free_by_heap(struct model *model, const struct op *op) {
  struct block block = model->shadow.slot[op->slot];
  hd_heap *heap = block.at ? model->heap[block.heap >= 0 ? block.heap : op->heap].handle : NULL;
  if (!heap || !model->sut->heap_free || block.heap < OWNER_THREAD) {
    model_free_slot(model, op->slot, false);
    return;
  }
  model_check_content(model, &block);
  shadow_remove(&model->shadow, op->slot);
  errno = ERRNO_MARK;
  model->sut->heap_free(heap, block.at);
  if (errno != ERRNO_MARK) model_fail(model, "errno", "hd_heap_free of %p set errno to %d", (void *)block.at, errno);
}

/* All blocks of one owner are gone at once. */
void model_drop_heap(struct model *model, int heap) {
  for (int s = 0; s < SLOT_COUNT; s++) {
    struct block *block = &model->shadow.slot[s];
    if (!block->at || block->heap != heap) continue;
    model_check_content(model, block);
    shadow_remove(&model->shadow, s);
  }
}

/* ---- allocating ------------------------------------------------------------------------------------------------- */

static void *duplicate(struct model *model, const struct op *op, struct promise *promise) {
  static _Thread_local char text[4096];
  size_t length = op->bytes % sizeof text;
  memset(text, 'a' + (int)(op->key % 26), length);
  text[length] = 0;
  size_t most = op->verb == STRNDUP ? op->key % sizeof text : length;
  promise->bytes = (length < most ? length : most) + 1;
  errno = ERRNO_MARK;
  char *copy = op->verb == STRNDUP ? model->sut->strndup(text, most) : model->sut->strdup(text);
  if (copy && (strlen(copy) != promise->bytes - 1 || memcmp(copy, text, promise->bytes - 1) != 0))
    model_fail(model, "content", "strdup made a different string");
  return copy;
}

static void *allocate_aligned(struct model *model, const struct op *op, struct promise *promise) {
  const struct ts_sut *sut = model->sut;
  size_t alignment = promise->alignment = op->alignment;
  promise->aligned = true;
  void *p = NULL;
  errno = ERRNO_MARK;
  if (op->verb == POSIX) {
    int status = sut->posix_memalign(&p, alignment, promise->bytes);
    int wanted = status == ENOMEM ? ENOMEM : ERRNO_MARK; /* as the C library does */
    if (errno != wanted && strict(model)) model_fail(model, "errno", "posix_memalign returned %d and left errno %d", status, errno);
    if ((status == 0) != (p != NULL)) model_fail(model, "null", "posix_memalign returned %d with %p", status, p);
    if (status) errno = status;
  } else if (op->verb == ALIGNED_ZERO && sut->aligned_zalloc) {
    promise->zero = true;
    p = sut->aligned_zalloc(alignment, promise->bytes);
  } else if (op->verb == MEMALIGN && sut->memalign) {
    p = sut->memalign(alignment, promise->bytes);
  } else if (op->verb == VALLOC && sut->valloc) {
    promise->alignment = ts_os_page();
    p = sut->valloc(promise->bytes);
  } else if (op->verb == PVALLOC && sut->pvalloc) {
    promise->alignment = ts_os_page();
    p = sut->pvalloc(promise->bytes); /* the whole pages are promised, too */
    if (p) promise->bytes = ((promise->bytes ? promise->bytes : 1) + ts_os_page() - 1) / ts_os_page() * ts_os_page();
  } else {
    p = sut->aligned_alloc(alignment, promise->bytes);
  }
  return p;
}

static void *allocate_from_heap(struct model *model, const struct op *op, struct promise *promise) {
  const struct ts_sut *sut = model->sut;
  hd_heap *heap = model->heap[op->heap].handle;
  promise->heap = op->heap;
  promise->zero = op->verb == HEAP_ZALLOC || op->verb == HEAP_CALLOC;
  errno = ERRNO_MARK;
  if (op->verb == HEAP_ZALLOC) return sut->heap_zalloc(heap, promise->bytes);
  if (op->verb == HEAP_CALLOC) return sut->heap_calloc(heap, 1, promise->bytes);
  if (op->verb == HEAP_MALLOC && op->key % 16 == 0) return sut->heap_realloc(heap, NULL, promise->bytes);
  if (op->verb == HEAP_MALLOC) return sut->heap_malloc(heap, promise->bytes);
  promise->alignment = op->alignment;
  promise->aligned = true;
  return sut->heap_aligned_alloc(heap, op->alignment, promise->bytes);
}

static void *allocate_from_object(struct model *model, const struct op *op, struct promise *promise) {
  promise->may_fail = true; /* the pool has a limit, and in some flavours there are none */
  promise->heap = op->verb == POOL_TAKE ? OWNER_POOL : OWNER_ARENA;
  errno = ERRNO_MARK;
  if (op->verb == POOL_TAKE) return model_pool_take(model, op, &promise->bytes, &promise->zero);
  promise->alignment = op->alignment;
  promise->bytes = promise->bytes ? promise->bytes : 1;
  return model_arena_lay(model, op, &promise->zero);
}

static void allocate(struct model *model, const struct op *op) {
  const struct ts_sut *sut = model->sut;
  struct promise promise = {.bytes = op->bytes, .alignment = 16, .heap = -1};
  if (op->verb >= HEAP_MALLOC && !model->heap[op->heap].handle) return;
  model_free_slot(model, op->slot, op->key & 1);
  void *p;
  errno = ERRNO_MARK;
  if (op->verb == MALLOC) {
    p = op->key % 16 ? sut->malloc(op->bytes) : sut->realloc(NULL, op->bytes);
  } else if (op->verb == ZALLOC && sut->zalloc) {
    promise.zero = true;
    p = sut->zalloc(op->bytes);
  } else if (op->verb <= ZALLOC) {
    size_t count = 1 + op->key % 9;
    promise.bytes = op->bytes / count * count;
    promise.zero = true;
    p = sut->calloc(count, op->bytes / count);
  } else if (op->verb >= HEAP_MALLOC) {
    p = allocate_from_heap(model, op, &promise);
  } else if (op->verb >= POOL_TAKE) {
    p = allocate_from_object(model, op, &promise);
  } else if (op->verb >= STRDUP) {
    p = duplicate(model, op, &promise);
  } else {
    p = allocate_aligned(model, op, &promise);
  }
  accept(model, op, p, &promise);
}

/* ---- resizing --------------------------------------------------------------------------------------------------- */

static void *call_resize(struct model *model, const struct op *op, const struct block *old, struct promise *promise) {
  const struct ts_sut *sut = model->sut;
  size_t count = 1 + op->key % 5;
  errno = ERRNO_MARK;
  if (op->verb == REALLOCARRAY || (op->verb == RECALLOC && sut->recalloc)) {
    promise->bytes = op->bytes / count * count;
    return (op->verb == RECALLOC ? sut->recalloc : sut->reallocarray)(old->at, count, op->bytes / count);
  }
  if (op->verb == ALIGNED_REALLOC && sut->aligned_realloc && old->aligned && old->heap < 0) {
    promise->alignment = old->alignment;
    promise->aligned = true;
    return sut->aligned_realloc(old->at, old->alignment, op->bytes);
  }
  if (op->verb == HEAP_REALLOC && old->heap >= 0) return sut->heap_realloc(model->heap[old->heap].handle, old->at, op->bytes);
  return sut->realloc(old->at, op->bytes);
}

/* A block of an explicit heap may leave it in plain realloc: ask where it lives now. */
static int heap_index(struct model *model, const void *p) {
  hd_heap *owner = model->sut->heap_of ? model->sut->heap_of(p) : NULL;
  for (int h = 0; owner && h < HEAP_COUNT; h++)
    if (model->heap[h].handle == owner) return h;
  return -1;
}

static void resize(struct model *model, const struct op *op) {
  struct block old = model->shadow.slot[op->slot];
  if (!old.at || old.heap < OWNER_THREAD) return;
  struct promise promise = {.bytes = op->bytes, .alignment = 16, .heap = old.heap};
  model_check_content(model, &old);
  unsigned char *p = call_resize(model, op, &old, &promise);
  int error = errno;
  if (!p && promise.bytes > 0) {
    accept_null(model, &promise, error);
    model_check_content(model, &old);
    return;
  }
  shadow_remove(&model->shadow, op->slot);
  if (error != ERRNO_MARK && strict(model)) model_fail(model, "errno", "a successful realloc set errno to %d", error);
  if (promise.bytes == 0) {
    if (!p) return;
    model_fail(model, "size", "realloc to 0 bytes returned %p", (void *)p);
  }
  if (op->verb != HEAP_REALLOC) promise.heap = heap_index(model, p);
  size_t kept = old.bytes < promise.bytes ? old.bytes : promise.bytes;
  if (kept > 0 && model_strikes(model, CANARY_PREFIX)) p[0] ^= 1;
  size_t bad = pattern_check(&old, p, kept);
  if (bad != SIZE_MAX)
    model_fail(model, "prefix", "realloc of %p (%zu bytes) to %p (%zu bytes) lost byte %zu", (void *)old.at, old.bytes, (void *)p,
               promise.bytes, bad);
  if (op->verb == RECALLOC && model->sut->recalloc) {
    bad = zero_check(p, old.usable, promise.bytes);
    if (bad != SIZE_MAX)
      model_fail(model, "zero", "recalloc from %zu usable to %zu bytes: byte %zu is not zero", old.usable, promise.bytes, bad);
  }
  enter(model, op->slot, p, &promise, op->key);
  pattern_write(&model->shadow.slot[op->slot]);
}

static void expand(struct model *model, const struct op *op) {
  struct block old = model->shadow.slot[op->slot];
  if (!old.at || old.heap < OWNER_THREAD || !model->sut->expand) return;
  model_check_content(model, &old);
  /* Mostly near the present size, where it can succeed. */
  size_t bytes = op->key & 3 ? old.usable + op->bytes % 4096 - (op->bytes % 4096 <= old.usable ? op->bytes % 4096 / 2 : 0) : op->bytes;
  errno = ERRNO_MARK;
  unsigned char *p = model->sut->expand(old.at, bytes);
  if (errno != ERRNO_MARK) model_fail(model, "errno", "expand set errno to %d", errno);
  if (p && p != old.at) model_fail(model, "expand", "expand moved %p to %p", (void *)old.at, (void *)p);
  if (!p && bytes <= old.usable && !(model->passed_through && old.heap < 0))
    model_fail(model, "expand", "expand of %p to %zu bytes refused, usable %zu", (void *)old.at, bytes, old.usable);
  if (!p) {
    model_check_content(model, &old);
    return;
  }
  size_t kept = old.bytes < bytes ? old.bytes : bytes, bad = pattern_check(&old, p, kept);
  if (bad != SIZE_MAX) model_fail(model, "prefix", "expand of %p to %zu bytes lost byte %zu", (void *)p, bytes, bad);
  shadow_remove(&model->shadow, op->slot);
  struct promise promise = {.bytes = bytes, .alignment = old.alignment, .aligned = old.aligned, .heap = old.heap};
  enter(model, op->slot, p, &promise, op->key);
  pattern_write(&model->shadow.slot[op->slot]);
}

static void check_sizes(struct model *model, const struct op *op) {
  const struct ts_sut *sut = model->sut;
  if (sut->good_size) {
    size_t good = sut->good_size(op->bytes);
    if (op->bytes > PTRDIFF_MAX ? good != 0 : good < op->bytes) model_fail(model, "usable", "good size of %zu is %zu", op->bytes, good);
  }
  struct block *block = &model->shadow.slot[op->slot];
  if (!block->at) return;
  model_check_content(model, block);
  if (block->heap < OWNER_THREAD) return;
  if (sut->usable_size(block->at) != block->usable) model_fail(model, "usable", "usable size of %p changed", (void *)block->at);
  bool foreign = model->passed_through && block->heap < 0;
  if (sut->owns && sut->owns(block->at) == foreign)
    model_fail(model, "owns", "hd_owns(%p) is %s", (void *)block->at, foreign ? "true" : "false");
}

/* ---- blocks that wander between threads ------------------------------------------------------------------------- */

static struct {
  pthread_mutex_t lock;
  struct block block;
} mail[MAIL_COUNT];
static pthread_once_t mail_once = PTHREAD_ONCE_INIT;

static void mail_open(void) {
  for (int i = 0; i < MAIL_COUNT; i++) pthread_mutex_init(&mail[i].lock, NULL);
}

void model_swap_mail(struct model *model, int slot) {
  pthread_once(&mail_once, mail_open);
  int box = slot % MAIL_COUNT;
  struct block mine = model->shadow.slot[slot], theirs;
  if (mine.at) shadow_remove(&model->shadow, slot);
  pthread_mutex_lock(&mail[box].lock);
  theirs = mail[box].block;
  mail[box].block = mine;
  pthread_mutex_unlock(&mail[box].lock);
  if (!theirs.at) return;
  model->shadow.slot[slot] = theirs;
  shadow_insert(&model->shadow, slot);
  model_check_content(model, &model->shadow.slot[slot]);
}

/* ---- calls that must be refused, or do nothing ------------------------------------------------------------------- */

static void want_refusal(struct model *model, const void *p, int error, const char *what) {
  int got = errno;
  if (p) model_fail(model, "refused", "%s returned %p", what, p);
  if (got != error) model_fail(model, "errno", "%s left errno %d instead of %d", what, got, error);
}

static void refused(struct model *model, const struct op *op) {
  const struct ts_sut *sut = model->sut;
  struct block *block = &model->shadow.slot[op->slot];
  hd_heap *heap = model->heap[op->heap].handle;
  bool resizable = block->at && block->heap >= OWNER_THREAD;
  size_t many = SIZE_MAX / 2 + 2 + op->bytes % 4096, odd = 3 * op->alignment;
  void *p = NULL;
  errno = ERRNO_MARK;
  if (!strict(model)) return;
  switch (op->key % 8) {
    case 0: want_refusal(model, sut->aligned_alloc(odd, op->bytes), EINVAL, "aligned_alloc of a bad alignment"); break;
    case 1: want_refusal(model, sut->calloc(many, 2), ENOMEM, "calloc of an overflow"); break;
    case 2: if (heap) want_refusal(model, sut->heap_calloc(heap, 2, many), ENOMEM, "heap_calloc of an overflow"); break;
    case 3: if (heap) want_refusal(model, sut->heap_aligned_alloc(heap, odd, op->bytes), EINVAL, "heap_aligned_alloc"); break;
    case 4: if (resizable) want_refusal(model, sut->reallocarray(block->at, 4, many), ENOMEM, "reallocarray of an overflow"); break;
    case 5: if (resizable) want_refusal(model, sut->recalloc(block->at, many, 4), ENOMEM, "recalloc of an overflow"); break;
    case 6: if (resizable) want_refusal(model, sut->realloc(block->at, many), ENOMEM, "realloc of too much"); break;
    default:
      if (sut->posix_memalign(&p, op->key & 8 ? sizeof(void *) / 2 : odd, op->bytes) != EINVAL)
        model_fail(model, "refused", "posix_memalign of a bad alignment");
      want_refusal(model, p, ERRNO_MARK, "posix_memalign of a bad alignment");
  }
  if (block->at) model_check_content(model, block);
}

static void check_text(struct model *model, size_t (*print)(char *, size_t), size_t bytes) {
  char text[4096];
  memset(text, '#', sizeof text);
  size_t whole = print(text, bytes);
  size_t length = whole < bytes ? whole : bytes - 1;
  if (whole < 100 || whole > sizeof text) model_fail(model, "text", "statistics of %zu characters", whole);
  if (bytes && strnlen(text, sizeof text) != length) model_fail(model, "text", "statistics cut at %zu: length %zu", bytes, strlen(text));
  if (text[bytes] != '#') model_fail(model, "text", "statistics written behind %zu bytes", bytes);
}

static void nothing(struct model *model, const struct op *op) {
  const struct ts_sut *sut = model->sut;
  hd_heap *heap = model->heap[op->heap].handle;
  errno = ERRNO_MARK;
  sut->free(NULL);
  if (sut->free_sized) sut->free_sized(NULL, op->bytes);
  if (sut->free_aligned_sized) sut->free_aligned_sized(NULL, op->alignment, op->bytes);
  if (heap && sut->heap_free) sut->heap_free(heap, NULL);
  if (sut->expand && sut->expand(NULL, op->bytes)) model_fail(model, "nothing", "expand of NULL");
  if (sut->usable_size(NULL) != 0) model_fail(model, "nothing", "usable size of NULL");
  if (sut->owns && (sut->owns(NULL) || sut->owns(&errno))) model_fail(model, "nothing", "hd_owns of what is no block");
  if (sut->stats_text && op->key % 8 == 0) check_text(model, sut->stats_text, op->bytes % 2048);
  if (sut->stats_json && op->key % 8 == 1) check_text(model, sut->stats_json, op->bytes % 2048);
  if (errno != ERRNO_MARK) model_fail(model, "errno", "calls with NULL set errno to %d", errno);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

void model_read_options(struct model *model) {
  char text[32];
  if (!model->sut->option_get) return;
  void *p = model->sut->malloc(1);
  model->passed_through = !model->sut->owns(p);
  model->sut->free(p);
  model->limited = model->sut->option_get("limit", text, sizeof text) && strcmp(text, "0") != 0;
  model->forgiving = model->sut->option_get("onerror", text, sizeof text) && strcmp(text, "abort") != 0;
}

void model_empty(struct model *model, bool own_heaps) {
  for (int s = 0; s < SLOT_COUNT; s++) model_free_slot(model, s, s & 1);
  if (model->racing)
    for (int s = 0; s < MAIL_COUNT; s++) {
      model_swap_mail(model, s);
      model_free_slot(model, s, false);
    }
  for (int h = 0; own_heaps && h < HEAP_COUNT; h++) model_heap_clear(model, h, true);
  model_objects_destroy(model);
}

struct op model_op(const struct model *model, uint64_t index) {
  return model->list ? model->list[index] : op_choose(model->seed, index);
}

static void run_rare(struct model *model, const struct op *op) {
  if (op->verb == SWAP && model->racing) model_swap_mail(model, op->slot);
  else if (op->verb == MISUSE) model_misuse(model, op);
  else if (op->verb == COLLECT && model->sut->collect) model->sut->collect(op->bytes);
  else if (op->verb == IDLE && model->sut->thread_idle) model->sut->thread_idle();
  else if (op->verb == FREE_MANY)
    for (int s = op->slot; s < SLOT_COUNT && s < op->slot + SLOT_COUNT / 4; s++) model_free_slot(model, s, false);
  if (model->racing) return;
  if (op->verb == HEAP_CREATE) model_heap_create(model, op);
  else if (op->verb == HEAP_RESET) model_heap_clear(model, op->heap, false);
  else if (op->verb == HEAP_DESTROY) model_heap_clear(model, op->heap, true);
  else if (op->verb == ARENA_RESET) model_arena_reset(model, op);
}

void model_run_op(struct model *model, uint64_t index, const struct op *op) {
  model->index = index;
  if (op->verb < REALLOC) allocate(model, op);
  else if (op->verb < EXPAND) resize(model, op);
  else if (op->verb == EXPAND) expand(model, op);
  else if (op->verb <= FREE_SIZED) model_free_slot(model, op->slot, op->verb == FREE_SIZED);
  else if (op->verb == HEAP_FREE) free_by_heap(model, op);
  else if (op->verb == CHECK_SIZE) check_sizes(model, op);
  else if (op->verb == NOTHING) nothing(model, op);
  else if (op->verb == REFUSED) refused(model, op);
  else run_rare(model, op);
}
