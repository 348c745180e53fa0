/* The operations of the model test. See ops.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "ops.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../support/support.h"

/* errno before each call; no call of the family may set this value. */
#define ERRNO_MARK 4242
#define HEAP_MEMORY_BYTES ((size_t)4 << 20)
#define HEAP_LIMIT_BYTES ((size_t)8 << 20)
#define MAIL_COUNT 64

const char *const canary_name[CANARY_COUNT] = {"none", "overlap", "zero", "errno", "align", "prefix", "usable", "stats"};

enum verb {
  MALLOC, CALLOC, ZALLOC, ALIGNED, ALIGNED_ZERO, POSIX, MEMALIGN, STRDUP, STRNDUP, HEAP_MALLOC, HEAP_ZALLOC, HEAP_CALLOC,
  HEAP_ALIGNED, REALLOC, REALLOCARRAY, RECALLOC, EXPAND, ALIGNED_REALLOC, HEAP_REALLOC, FREE, FREE_SIZED, CHECK_SIZE, SWAP,
  HEAP_CREATE, HEAP_RESET, HEAP_DESTROY, COLLECT, FREE_MANY, VERB_COUNT
};

/* Of 10,000 operations, how many are of each verb. */
static const uint16_t weight[VERB_COUNT] = {
    [MALLOC] = 2000, [CALLOC] = 700,   [ZALLOC] = 200,     [ALIGNED] = 400, [ALIGNED_ZERO] = 200, [POSIX] = 300,
    [MEMALIGN] = 200, [STRDUP] = 150,  [STRNDUP] = 100,    [HEAP_MALLOC] = 400, [HEAP_ZALLOC] = 150, [HEAP_CALLOC] = 100,
    [HEAP_ALIGNED] = 100, [REALLOC] = 900, [REALLOCARRAY] = 200, [RECALLOC] = 200, [EXPAND] = 200, [ALIGNED_REALLOC] = 150,
    [HEAP_REALLOC] = 200, [FREE] = 2400, [FREE_SIZED] = 300, [CHECK_SIZE] = 337, [SWAP] = 100, [HEAP_CREATE] = 6,
    [HEAP_RESET] = 2, [HEAP_DESTROY] = 2, [COLLECT] = 1, [FREE_MANY] = 2,
};

struct op {
  enum verb verb;
  int slot, heap;
  size_t bytes, alignment;
  uint64_t key;
};

/* What an allocation promised. */
struct promise {
  size_t bytes, alignment;
  bool zero, aligned;
  int heap;
};

/* ---- choosing an operation -------------------------------------------------------------------------------------- */

static size_t pick_size(struct ts_rng *rng) {
  uint64_t r = ts_below(rng, 100000);
  if (r < 45000) return ts_below(rng, 257);
  if (r < 70000) return ((8 + ts_below(rng, 8)) << (1 + ts_below(rng, 13))) - 1 + ts_below(rng, 3);
  if (r < 90000) return ts_below(rng, 4096);
  if (r < 98800) return ts_below(rng, 66000);
  if (r < 99900) return ts_below(rng, (size_t)1 << 20);
  if (r < 99990) return ts_below(rng, (size_t)8 << 20);
  if (r < 99994) return ts_below(rng, (size_t)128 << 20);
  return (size_t)PTRDIFF_MAX + 1 + ts_below(rng, PTRDIFF_MAX);
}

static struct op choose(uint64_t seed, uint64_t index) {
  struct ts_rng rng = {ts_hash(seed, index)};
  unsigned total = 0, at = 0;
  for (int v = 0; v < VERB_COUNT; v++) total += weight[v];
  unsigned r = (unsigned)ts_below(&rng, total);
  enum verb verb = MALLOC;
  while (r >= (at += weight[verb])) verb++;
  struct op op = {.verb = verb, .slot = (int)ts_below(&rng, SLOT_COUNT), .heap = (int)ts_below(&rng, HEAP_COUNT)};
  op.bytes = pick_size(&rng);
  op.alignment = (size_t)16 << ts_below(&rng, ts_below(&rng, 16) ? 9 : 18);
  op.key = ts_next(&rng);
  return op;
}

/* ---- canaries --------------------------------------------------------------------------------------------------- */

static bool strikes(struct model *model, enum canary canary) {
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
  if (plain && promise->bytes >= 16 && strikes(model, CANARY_OVERLAP)) return inside_live(model, p);
  if (promise->bytes >= 16 && strikes(model, CANARY_ALIGN)) return p + 8;
  if (promise->zero && promise->bytes && strikes(model, CANARY_ZERO)) p[promise->bytes / 2] ^= 1;
  return p;
}

static size_t usable_of(struct model *model, const void *p) {
  size_t usable = model->sut->usable_size(p);
  return usable > 16 && strikes(model, CANARY_USABLE) ? 0 : usable;
}

/* ---- accepting what came back ----------------------------------------------------------------------------------- */

static bool may_refuse(struct model *model, const struct promise *promise) {
  if (promise->bytes > PTRDIFF_MAX) return true;
  const struct explicit_heap *heap = promise->heap >= 0 ? &model->heap[promise->heap] : NULL;
  return heap && (heap->memory || heap->limit_bytes);
}

/* glibc's malloc, on which the driver is tried out, sets errno in some successful calls. */
static bool strict(const struct model *model) { return model->sut->owns != NULL; }

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
  if (!model->sut->heap_of) return;
  hd_heap *owner = model->sut->heap_of(p), *expected = promise->heap < 0 ? NULL : model->heap[promise->heap].handle;
  if (owner != expected) model_fail(model, "heap", "hd_heap_of(%p) is %p instead of %p", (const void *)p, (void *)owner, (void *)expected);
  if (promise->heap < 0 || !model->heap[promise->heap].memory) return;
  const unsigned char *low = model->heap[promise->heap].memory, *high = low + model->heap[promise->heap].memory_bytes;
  if (p < low || p + usable > high) model_fail(model, "heap", "%p is not in the memory of its heap", (const void *)p);
}

/* Enter the block p into slot. */
static void enter(struct model *model, int slot, unsigned char *p, const struct promise *promise, uint64_t key) {
  check_place(model, p, promise, promise->bytes);
  size_t usable = usable_of(model, p);
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

static void check_content(struct model *model, const struct block *block) {
  size_t bad = pattern_check(block, block->at, block->bytes);
  if (bad != SIZE_MAX)
    model_fail(model, "content", "live block %p (%zu bytes) was damaged at byte %zu", (void *)block->at, block->bytes, bad);
}

/* ---- freeing ---------------------------------------------------------------------------------------------------- */

static void free_slot(struct model *model, int slot, bool sized) {
  const struct ts_sut *sut = model->sut;
  struct block block = model->shadow.slot[slot];
  if (!block.at) return;
  check_content(model, &block);
  size_t usable = sut->usable_size(block.at);
  if (usable != block.usable) model_fail(model, "usable", "usable size of %p went from %zu to %zu", (void *)block.at, block.usable, usable);
  shadow_remove(&model->shadow, slot);
  errno = ERRNO_MARK;
  if (sized && block.aligned && sut->free_aligned_sized) sut->free_aligned_sized(block.at, block.alignment, block.bytes);
  else if (sized && !block.aligned && sut->free_sized) sut->free_sized(block.at, block.bytes);
  else sut->free(block.at);
  if (strikes(model, CANARY_ERRNO)) errno = EAGAIN;
  if (errno != ERRNO_MARK) model_fail(model, "errno", "free of %p (%zu bytes) set errno to %d", (void *)block.at, block.bytes, errno);
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
  if (op->verb == HEAP_MALLOC) return sut->heap_malloc(heap, promise->bytes);
  promise->alignment = op->alignment;
  promise->aligned = true;
  return sut->heap_aligned_alloc(heap, op->alignment, promise->bytes);
}

static void allocate(struct model *model, const struct op *op) {
  const struct ts_sut *sut = model->sut;
  struct promise promise = {.bytes = op->bytes, .alignment = 16, .heap = -1};
  if (op->verb >= HEAP_MALLOC && !model->heap[op->heap].handle) return;
  free_slot(model, op->slot, op->key & 1);
  void *p;
  errno = ERRNO_MARK;
  if (op->verb == MALLOC) {
    p = sut->malloc(op->bytes);
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
  if (!old.at) return;
  struct promise promise = {.bytes = op->bytes, .alignment = 16, .heap = old.heap};
  check_content(model, &old);
  unsigned char *p = call_resize(model, op, &old, &promise);
  int error = errno;
  if (!p && promise.bytes > 0) {
    accept_null(model, &promise, error);
    check_content(model, &old);
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
  if (kept > 0 && strikes(model, CANARY_PREFIX)) p[0] ^= 1;
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
  if (!old.at || !model->sut->expand) return;
  check_content(model, &old);
  /* Mostly near the present size, where it can succeed. */
  size_t bytes = op->key & 3 ? old.usable + op->bytes % 4096 - (op->bytes % 4096 <= old.usable ? op->bytes % 4096 / 2 : 0) : op->bytes;
  errno = ERRNO_MARK;
  unsigned char *p = model->sut->expand(old.at, bytes);
  if (errno != ERRNO_MARK) model_fail(model, "errno", "expand set errno to %d", errno);
  if (p && p != old.at) model_fail(model, "expand", "expand moved %p to %p", (void *)old.at, (void *)p);
  if (!p && bytes <= old.usable)
    model_fail(model, "expand", "expand of %p to %zu bytes refused, usable %zu", (void *)old.at, bytes, old.usable);
  if (!p) {
    check_content(model, &old);
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
  check_content(model, block);
  if (sut->usable_size(block->at) != block->usable) model_fail(model, "usable", "usable size of %p changed", (void *)block->at);
  if (sut->owns && !sut->owns(block->at)) model_fail(model, "owns", "hd_owns(%p) is false", (void *)block->at);
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
  check_content(model, &model->shadow.slot[slot]);
}

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

static void heap_create(struct model *model, const struct op *op) {
  struct explicit_heap *heap = &model->heap[op->heap];
  if (!model->sut->heap_create || heap->handle) return;
  hd_heap_config config = {.struct_bytes = sizeof config, .name = "model"};
  heap->memory = NULL;
  heap->limit_bytes = 0;
  if (op->key % 4 == 1) heap->limit_bytes = config.limit_bytes = HEAP_LIMIT_BYTES;
  if (op->key % 4 == 2) {
    heap->memory_bytes = config.memory_bytes = HEAP_MEMORY_BYTES;
    heap->memory = mmap(NULL, HEAP_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap->memory == MAP_FAILED) model_fail(model, "driver", "mmap failed");
    config.memory = heap->memory;
  }
  errno = ERRNO_MARK;
  heap->handle = model->sut->heap_create(op->key % 4 == 0 ? NULL : &config);
  if (!heap->handle) model_fail(model, "null", "hd_heap_create returned NULL, errno %d", errno);
  if (errno != ERRNO_MARK) model_fail(model, "errno", "hd_heap_create set errno to %d", errno);
}

static void heap_clear(struct model *model, int index, bool destroy) {
  struct explicit_heap *heap = &model->heap[index];
  if (!heap->handle) return;
  for (int s = 0; s < SLOT_COUNT; s++) {
    struct block *block = &model->shadow.slot[s];
    if (!block->at || block->heap != index) continue;
    check_content(model, block);
    shadow_remove(&model->shadow, s);
  }
  if (!destroy) {
    model->sut->heap_reset(heap->handle);
    return;
  }
  model->sut->heap_destroy(heap->handle);
  heap->handle = NULL;
  if (heap->memory) munmap(heap->memory, heap->memory_bytes);
}

/* ---- statistics ------------------------------------------------------------------------------------------------- */

struct walk {
  struct model *model;
  hd_heap *heap;
  size_t known, unknown, used;
};

static bool visit(const hd_area *area, void *block, size_t block_bytes, void *user) {
  struct walk *walk = user;
  if (walk->heap && area->heap != walk->heap) model_fail(walk->model, "walk", "the walk of a heap shows an area of another");
  if (!block) {
    walk->used += area->block_used;
    return true;
  }
  int slot = shadow_find(&walk->model->shadow, block);
  if (slot < 0) {
    walk->unknown++;
    return true;
  }
  walk->known++;
  size_t usable = walk->model->shadow.slot[slot].usable;
  if (block_bytes != usable) model_fail(walk->model, "walk", "the walk shows %p with %zu bytes, usable %zu", block, block_bytes, usable);
  return true;
}

static void check_walk(struct model *model, hd_heap *heap, size_t expected, size_t foreign) {
  struct walk walk = {.model = model, .heap = heap};
  if (!model->sut->heap_walk(heap, true, visit, &walk)) model_fail(model, "walk", "the walk stopped early");
  if (walk.known != expected || walk.unknown != foreign)
    model_fail(model, "walk", "the walk shows %zu of %zu blocks and %zu unknown ones (expected %zu)", walk.known, expected,
               walk.unknown, foreign);
  if (walk.used != expected + foreign) model_fail(model, "walk", "areas count %zu live blocks, walked %zu", walk.used, expected + foreign);
}

static void read_stats(struct model *model, hd_heap *heap, hd_stats *stats) {
  *stats = (hd_stats){.struct_bytes = sizeof *stats};
  bool done = heap ? model->sut->heap_stats_get(heap, stats) : model->sut->stats_get(stats);
  if (!done) model_fail(model, "stats", "hd_stats_get failed");
  if (strikes(model, CANARY_STATS)) stats->live_count++;
}

void model_rebase(struct model *model) {
  if (!model->sut->stats_get) return;
  hd_stats stats;
  read_stats(model, NULL, &stats);
  model->base_count = stats.live_count - model->shadow.live_count;
  model->base_live = stats.live - model->shadow.live_usable;
}

static void check_heap(struct model *model, int index) {
  struct explicit_heap *heap = &model->heap[index];
  if (!heap->handle) return;
  size_t count = 0, usable = 0;
  for (int s = 0; s < SLOT_COUNT; s++) {
    const struct block *block = &model->shadow.slot[s];
    if (block->at && block->heap == index) count++, usable += block->usable;
  }
  if (heap->limit_bytes && usable > heap->limit_bytes)
    model_fail(model, "heap", "a heap of %zu bytes holds %zu", heap->limit_bytes, usable);
  hd_stats stats;
  read_stats(model, heap->handle, &stats);
  if (stats.live_count != count || stats.live != usable)
    model_fail(model, "stats", "heap: %zu blocks, %zu bytes; the shadow has %zu, %zu", stats.live_count, stats.live, count, usable);
  check_walk(model, heap->handle, count, 0);
}

void model_quiet_check(struct model *model) {
  if (!model->sut->stats_get) return;
  hd_stats stats;
  read_stats(model, NULL, &stats);
  size_t count = stats.live_count - model->base_count, live = stats.live - model->base_live;
  if (count != model->shadow.live_count || live != model->shadow.live_usable)
    model_fail(model, "stats", "statistics: %zu blocks, %zu bytes; the shadow has %zu, %zu", count, live, model->shadow.live_count,
               model->shadow.live_usable);
  if (!model->shadow.tracked) return;
  check_walk(model, NULL, model->shadow.live_count, model->base_count);
  for (int h = 0; h < HEAP_COUNT; h++) check_heap(model, h);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

void model_empty(struct model *model, bool own_heaps) {
  for (int s = 0; s < SLOT_COUNT; s++) free_slot(model, s, s & 1);
  if (model->racing)
    for (int s = 0; s < MAIL_COUNT; s++) {
      model_swap_mail(model, s);
      free_slot(model, s, false);
    }
  for (int h = 0; own_heaps && h < HEAP_COUNT; h++) heap_clear(model, h, true);
}

void model_run_op(struct model *model, uint64_t index) {
  struct op op = choose(model->seed, index);
  model->index = index;
  if (op.verb < REALLOC) allocate(model, &op);
  else if (op.verb == EXPAND) expand(model, &op);
  else if (op.verb < FREE) resize(model, &op);
  else if (op.verb <= FREE_SIZED) free_slot(model, op.slot, op.verb == FREE_SIZED);
  else if (op.verb == CHECK_SIZE) check_sizes(model, &op);
  else if (op.verb == SWAP && model->racing) model_swap_mail(model, op.slot);
  else if (op.verb == HEAP_CREATE && !model->racing) heap_create(model, &op);
  else if (op.verb == HEAP_RESET && !model->racing) heap_clear(model, op.heap, false);
  else if (op.verb == HEAP_DESTROY && !model->racing) heap_clear(model, op.heap, true);
  else if (op.verb == COLLECT && model->sut->collect) model->sut->collect(op.bytes);
  else if (op.verb == FREE_MANY)
    for (int s = op.slot; s < SLOT_COUNT && s < op.slot + SLOT_COUNT / 4; s++) free_slot(model, s, false);
}
