/* Fuzz target: chains of resizing. Four blocks of any kind are resized in all ways, in between neighbours that come and go; content,
 * zeroes, alignment and place are checked after each step.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include <heddle.h>

#include "fuzz.h"

enum { CHAINS = 4, NEIGHBOURS = 8, STEPS_MAX = 300, MARK = 4242 };

static struct chain {
  unsigned char *at;
  size_t bytes, alignment;
  unsigned tag;
  bool zeroed; /* made and resized by hd_recalloc alone: zero in its whole length, so it is not filled */
} chain[CHAINS];

static void *neighbour[NEIGHBOURS];
static hd_heap *heap;

/* Mostly near what is there, where blocks grow in place, shrink, and pass from one kind to the next. */
static size_t some_size(struct fz *in, size_t now) {
  unsigned how = fz_byte(in);
  size_t near = fz_word(in);
  switch (how & 7) {
    case 0: return near & 0xfff;
    case 1: return now + (near & 0xff);
    case 2: return now - (now < (near & 0xff) ? now : near & 0xff);
    case 3: return now * 2 + (near & 15);
    case 4: return now / 2;
    case 5: return (near << 4) % (1 << 20);
    case 6: return ((size_t)1 << how % 24) - 1 + (near & 3);
    default: return how > 250 ? SIZE_MAX / 2 - 100 + near : (size_t)65536 * (near & 63) + (near >> 6 & 3) - 1;
  }
}

static void make(struct chain *c, struct fz *in) {
  unsigned how = fz_byte(in);
  c->alignment = 16;
  c->zeroed = false;
  c->bytes = some_size(in, 0) % (8 << 20);
  if (how % 5 == 0) c->at = hd_malloc(c->bytes);
  if (how % 5 == 1) c->at = hd_recalloc(NULL, 1, c->bytes), c->zeroed = true;
  if (how % 5 == 2) c->at = hd_aligned_alloc(c->alignment = (size_t)16 << how / 5 % 14, c->bytes);
  if (how % 5 == 3) c->at = hd_heap_malloc(heap, c->bytes);
  if (how % 5 == 4) c->at = hd_realloc(NULL, c->bytes);
  FZ_CHECK(c->at != NULL, "%zu bytes", c->bytes);
  if (!c->zeroed) fz_fill(c->at, c->bytes, c->tag);
}

static void *call(struct chain *c, unsigned how, size_t bytes) {
  hd_heap *owner = hd_heap_of(c->at);
  if (c->zeroed) return hd_recalloc(c->at, 1, bytes);
  if (c->alignment > 16) return hd_aligned_realloc(c->at, c->alignment, bytes);
  if (how % 8 < 3) return hd_expand(c->at, bytes);
  if (how % 8 == 3 && owner != NULL) return hd_heap_realloc(owner, c->at, bytes);
  if (how % 8 == 4) return hd_reallocarray(c->at, 1, bytes);
  return hd_realloc(c->at, bytes);
}

static void resize(struct chain *c, struct fz *in) {
  unsigned how = fz_byte(in);
  size_t bytes = some_size(in, c->bytes), kept = bytes < c->bytes ? bytes : c->bytes;
  if (bytes > (size_t)16 << 20 && bytes < SIZE_MAX / 4) bytes &= 0xfffff, kept = bytes < c->bytes ? bytes : c->bytes;
  bool expands = !c->zeroed && c->alignment <= 16 && how % 8 < 3;
  size_t usable = hd_usable_size(c->at);
  errno = MARK;
  unsigned char *p = call(c, how, bytes);
  if (p == NULL) {
    FZ_CHECK(expands ? errno == MARK : bytes == 0 ? errno == MARK : errno == ENOMEM, "errno %d for %zu bytes", errno, bytes);
    FZ_CHECK(!expands || bytes > usable, "expand to %zu, usable %zu", bytes, usable);
    FZ_CHECK(expands || bytes == 0 || bytes > SIZE_MAX >> 18 || hd_heap_of(c->at) != NULL, "no memory for %zu bytes", bytes);
    if (!expands && bytes == 0) c->at = NULL;
    else if (!c->zeroed) fz_want_whole(c->at, c->bytes, c->tag, "a block that stayed");
    return;
  }
  FZ_CHECK(errno == MARK && bytes <= PTRDIFF_MAX, "errno %d, %zu bytes", errno, bytes);
  FZ_CHECK(hd_usable_size(p) >= bytes && (uintptr_t)p % c->alignment == 0, "%p, usable %zu of %zu", (void *)p, hd_usable_size(p), bytes);
  FZ_CHECK(!expands || p == c->at, "expand moved %p to %p", (void *)c->at, (void *)p);
  if (c->zeroed) FZ_CHECK(fz_is_zero(p, bytes), "recalloc from %zu to %zu bytes is not zero", c->bytes, bytes);
  else fz_want(p, kept, c->tag, "a resized block");
  c->at = p;
  c->bytes = bytes;
  if (!c->zeroed) fz_fill(p, bytes, c->tag);
}

static void finish(void) {
  for (unsigned i = 0; i < CHAINS; i++) {
    if (chain[i].at != NULL && !chain[i].zeroed) fz_want_whole(chain[i].at, chain[i].bytes, chain[i].tag, "at the end");
    hd_free(chain[i].at);
    chain[i].at = NULL;
  }
  for (unsigned i = 0; i < NEIGHBOURS; i++) hd_free(neighbour[i]), neighbour[i] = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct fz in = {data, bytes};
  if (heap == NULL) heap = hd_heap_create(NULL);
  FZ_CHECK(heap != NULL, "no heap");
  for (unsigned step = 0; step < STEPS_MAX && in.left > 0; step++) {
    unsigned what = fz_byte(&in);
    struct chain *c = &chain[what % CHAINS];
    void **beside = &neighbour[(what >> 2) % NEIGHBOURS];
    c->tag = what % CHAINS;
    if ((what >> 5) == 7) {
      hd_free(*beside);
      *beside = hd_malloc(some_size(&in, c->bytes) % (1 << 20));
    } else if (c->at == NULL) {
      make(c, &in);
    } else {
      resize(c, &in);
    }
  }
  finish();
  return 0;
}
