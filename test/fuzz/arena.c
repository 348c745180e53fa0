/* Fuzz target: arena scripts. Blocks, points, marks, resizing and resets on both stacks of a fixed, growing or shared arena, or frames;
 * blocks keep their content and lie apart, marks that are gone are refused, and the stacks come back to where they were.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include <heddle/arena.h>
#include <heddle/frame.h>

#include "fuzz.h"

enum { BLOCKS = 200, POINTS = 40, STEPS_MAX = 400, LOST = 16 };

struct block {
  unsigned char *at;
  size_t bytes, alignment;
  unsigned tag;
};

static struct {
  struct block block[BLOCKS];
  struct {
    hd_mark mark;
    bool named;
    size_t used;
    unsigned blocks;
  } point[POINTS];
  unsigned blocks, points;
} stack[2];

static hd_arena *arena;
static hd_mark lost[LOST]; /* marks that are gone */
static unsigned lost_count, tags;
static bool fixed;

static size_t used(int right) {
  hd_arena_stats stats = {.struct_bytes = sizeof stats};
  FZ_CHECK(hd_arena_stats_get(arena, &stats), "no statistics");
  FZ_CHECK(stats.used_left <= stats.peak_left && stats.used_right <= stats.peak_right, "peaks");
  if (fixed) FZ_CHECK(stats.used_left + stats.used_right + stats.remaining == stats.capacity, "room between the stacks");
  return right ? stats.used_right : stats.used_left;
}

static size_t some_size(struct fz *in) {
  unsigned how = fz_byte(in);
  if (how < 200) return how;
  if (how < 230) return fz_word(in);
  if (how < 252) return fz_size(in) >> 4;
  return SIZE_MAX - fz_byte(in);
}

static void check_block(const struct block *b, const char *what) { fz_want_whole(b->at, b->bytes, b->tag, what); }

static void check_apart(const unsigned char *p, size_t bytes, const struct block *but) {
  for (int side = 0; side < 2; side++)
    for (unsigned i = 0; i < stack[side].blocks; i++) {
      const struct block *b = &stack[side].block[i];
      bool apart = b->bytes == 0 || p >= b->at + b->bytes || b->at >= p + bytes;
      FZ_CHECK(b == but || apart, "%p (%zu) lies in %p (%zu)", (const void *)p, bytes, (const void *)b->at, b->bytes);
    }
}

static void add(int right, unsigned char *p, size_t bytes, size_t alignment) {
  struct block *b = &stack[right].block[stack[right].blocks++];
  *b = (struct block){p, bytes, alignment, ++tags};
  fz_fill(p, bytes, b->tag);
}

static void lay(int right, struct fz *in) {
  unsigned how = fz_byte(in);
  size_t bytes = some_size(in), n = bytes ? bytes : 1, alignment = how % 16 == 15 ? 24 : how % 16 == 0 ? 0 : (size_t)1 << how % 13;
  bool zeroed = how & 16;
  if (stack[right].blocks == BLOCKS) return;
  errno = 0;
  unsigned char *p;
  if (zeroed) p = right ? hd_arena_zalloc_aligned_right(arena, alignment, bytes) : hd_arena_zalloc_aligned(arena, alignment, bytes);
  else if (how & 32) p = right ? hd_arena_alloc_right(arena, bytes) : hd_arena_alloc(arena, bytes), alignment = 16;
  else p = right ? hd_arena_alloc_aligned_right(arena, alignment, bytes) : hd_arena_alloc_aligned(arena, alignment, bytes);
  FZ_CHECK(errno == (p ? 0 : alignment == 24 ? EINVAL : ENOMEM), "errno %d", errno);
  if (p == NULL) return;
  FZ_CHECK(alignment != 24 && (uintptr_t)p % (alignment ? alignment : 1) == 0, "%p for alignment %zu", (void *)p, alignment);
  FZ_CHECK(hd_arena_owns(arena, p), "not its owner");
  check_apart(p, n, NULL);
  if (zeroed) FZ_CHECK(fz_is_zero(p, n), "not zero");
  add(right, p, n, alignment);
}

static void resize(int right, struct fz *in) {
  unsigned which = fz_byte(in);
  size_t bytes = some_size(in), n = bytes ? bytes : 1;
  if (stack[right].blocks == 0 || stack[right].blocks == BLOCKS) return;
  struct block *b = &stack[right].block[which & 1 ? stack[right].blocks - 1 : which % stack[right].blocks];
  if (b->bytes == 0) return; /* left behind by a move */
  check_block(b, "before resizing");
  errno = 0;
  unsigned char *p = right ? hd_arena_realloc_aligned_right(arena, b->alignment, b->at, b->bytes, bytes)
                           : hd_arena_realloc_aligned(arena, b->alignment, b->at, b->bytes, bytes);
  FZ_CHECK(errno == (p ? 0 : ENOMEM), "errno %d", errno);
  if (p == NULL) {
    check_block(b, "after a refused resize");
    return;
  }
  check_apart(p, n, b);
  fz_want(p, n < b->bytes ? n : b->bytes, b->tag, "the prefix");
  unsigned below = stack[right].points ? stack[right].point[stack[right].points - 1].blocks : 0; /* blocks before the last point */
  bool last = b == &stack[right].block[stack[right].blocks - 1] && stack[right].blocks > below;
  if (p != b->at && !(right && last)) { /* a new block; the old one stays behind, and is nobody's */
    add(right, p, n, b->alignment);
    b->bytes = 0;
    return;
  }
  b->at = p;
  b->bytes = n;
  fz_fill(p, n, b->tag);
}

static void point(int right, bool named) {
  if (stack[right].points == POINTS) return;
  size_t before = used(right);
  hd_mark mark = {NULL, 0};
  errno = 0;
  bool done;
  if (named) mark = right ? hd_arena_mark_right(arena) : hd_arena_mark(arena), done = mark.point != NULL;
  else done = right ? hd_arena_push_right(arena) : hd_arena_push(arena);
  FZ_CHECK(errno == (done ? 0 : ENOMEM), "errno %d", errno);
  if (!done) return;
  unsigned at = stack[right].points++;
  stack[right].point[at].mark = mark;
  stack[right].point[at].named = named;
  stack[right].point[at].used = before;
  stack[right].point[at].blocks = stack[right].blocks;
}

/* The stack is as it was before a point, or empty. */
static void back_to(int right, unsigned points, size_t used_then, unsigned blocks) {
  FZ_CHECK(used(right) == used_then, "back to %zu, not %zu", used(right), used_then);
  for (unsigned i = points; i < stack[right].points; i++)
    if (stack[right].point[i].named) lost[lost_count++ % LOST] = stack[right].point[i].mark;
  stack[right].points = points;
  stack[right].blocks = blocks;
}

static void pop(int right) {
  unsigned points = stack[right].points;
  bool any = right ? hd_arena_pop_right(arena) : hd_arena_pop(arena);
  FZ_CHECK(any == (points > 0), "pop with %u points", points);
  if (any) back_to(right, points - 1, stack[right].point[points - 1].used, stack[right].point[points - 1].blocks);
  else back_to(right, 0, 0, 0);
}

static void release(int right, struct fz *in) {
  unsigned which = fz_byte(in);
  if (stack[right].points == 0) return;
  unsigned at = which / 2 % stack[right].points;
  if (!stack[right].point[at].named) return;
  if (which & 1) {
    FZ_CHECK(hd_arena_release(arena, stack[right].point[at].mark), "a live mark was refused");
    back_to(right, at, stack[right].point[at].used, stack[right].point[at].blocks);
  } else {
    FZ_CHECK(hd_arena_rewind(arena, stack[right].point[at].mark), "a live mark was refused");
    back_to(right, at + 1, used(right), stack[right].point[at].blocks);
  }
}

static void stale(struct fz *in) {
  unsigned which = fz_byte(in);
  hd_mark mark = lost_count ? lost[which % (lost_count < LOST ? lost_count : LOST)] : (hd_mark){NULL, which};
  if (which & 128) mark = (hd_mark){stack[0].blocks ? stack[0].block[0].at : (void *)&tags, which & 15};
  size_t left = used(0), right = used(1);
  errno = 0;
  FZ_CHECK(!(which & 64 ? hd_arena_release(arena, mark) : hd_arena_rewind(arena, mark)) && errno == EINVAL, "a mark that is none");
  FZ_CHECK(used(0) == left && used(1) == right, "a refused mark changed something");
}

static void reset(unsigned which) {
  if (which == 0) hd_arena_reset_left(arena);
  else if (which == 1) hd_arena_reset_right(arena);
  else hd_arena_reset(arena);
  if (which != 1) back_to(0, 0, 0, 0);
  if (which != 0) back_to(1, 0, 0, 0);
}

static void start(unsigned kind) {
  hd_arena_config config = {.struct_bytes = sizeof config, .name = "fuzz", .keep_bytes = kind & 8 ? 1 : 0, .guard = kind & 16};
  static const size_t rooms[] = {0, 1, 65536, 1 << 20};
  config.capacity_bytes = rooms[kind % 4];
  config.shared = kind % 8 == 7;
  if (kind % 4 == 0) config.limit_bytes = kind & 4 ? 1 << 20 : 32 << 20;
  fixed = config.capacity_bytes != 0;
  memset(lost, 0, sizeof lost);
  lost_count = 0;
  arena = hd_arena_create(&config);
  FZ_CHECK(arena != NULL, "no arena of kind %u", kind);
}

static void check_all(const char *what) {
  for (int right = 0; right < 2; right++)
    for (unsigned i = 0; i < stack[right].blocks; i++) check_block(&stack[right].block[i], what);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct fz in = {data, bytes};
  start(fz_byte(&in));
  for (unsigned step = 0; step < STEPS_MAX && in.left > 0; step++) {
    unsigned what = fz_byte(&in);
    int right = what >> 7;
    switch (what % 16) {
      case 0: point(right, true); break;
      case 1: point(right, false); break;
      case 2: pop(right); break;
      case 3: release(right, &in); break;
      case 4: stale(&in); break;
      case 5: reset(what / 16 % 3); break;
      case 6: hd_arena_trim(arena, what & 16 ? 0 : 100000); break;
      case 7: check_all("in between"); break;
      case 8:
      case 9:
      case 10: resize(right, &in); break;
      default: lay(right, &in);
    }
  }
  check_all("at the end");
  hd_arena_destroy(arena);
  stack[0].blocks = stack[0].points = stack[1].blocks = stack[1].points = 0;
  return 0;
}
