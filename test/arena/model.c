/* Random scripts on arenas against a model of what must happen.
 *
 * Of a fixed arena the model knows everything: which request fits, at which address the block lies, how far each stack has come, the
 * peaks and the smallest room. Of a growing one it knows what must not happen: overlap, wrong alignment, lost content, blocks outside.
 * Every block is filled with a pattern of its own, checked when it goes, so memory handed out twice is found.
 *
 *   arena_model [-n steps] [-c config]     HEDDLE_TEST_SEED=... repeats a run
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/arena.h"

enum { BLOCKS = 3000, POINTS = 200, LOST = 32 };

struct block {
  uint8_t *p;
  size_t bytes, alignment;
  uint64_t tag;
};

struct point {
  hd_mark mark;
  size_t used;   /* of the stack before it */
  unsigned blocks;
};

struct stack {
  struct block block[BLOCKS];
  struct point point[POINTS];
  unsigned blocks, points;
  size_t used, peak;   /* exact in fixed arenas */
  size_t cut;          /* how far it came with its first block that found no room for its size rounded up */
};

static struct {
  hd_arena *arena, *other;
  struct stack stack[2];
  hd_mark lost[LOST];   /* points that are gone */
  unsigned lost_count;
  hd_mark foreign;
  uint8_t *base;
  size_t room, least;
  uint64_t tag;
  bool fixed, shared, cuts;   /* cuts: what was expected last takes less than its size rounded up */
} m;

static struct ts_rng rng;

static size_t below(size_t bound) { return (size_t)ts_below(&rng, bound); }

/* ---- blocks --------------------------------------------------------------------------------------------------------------- */

static void fill(const struct block *b) {
  for (size_t i = 0; i < b->bytes; i++) b->p[i] = (uint8_t)(b->tag * 31 + i * 7);
}

static void check_content(const struct block *b, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    TS_CHECK(b->p[i] == (uint8_t)(b->tag * 31 + i * 7), "byte %zu of %zu at %p", i, b->bytes, (void *)b->p);
  }
}

static void check_apart(const uint8_t *p, size_t bytes, const struct block *except) {
  for (int right = 0; right < 2; right++) {
    const struct stack *s = &m.stack[right];
    for (unsigned i = 0; i < s->blocks; i++) {
      const struct block *b = &s->block[i];
      if (b != except) TS_CHECK(p + bytes <= b->p || b->p + b->bytes <= p, "block at %p overlaps the one at %p", (void *)p, (void *)b->p);
    }
    for (unsigned i = 0; i < s->points; i++) {
      const uint8_t *point = s->point[i].mark.point;
      if (point != NULL) TS_CHECK(p + bytes <= point || point + 32 <= p, "block at %p overlaps a point", (void *)p);
    }
  }
}

/* ---- what a fixed arena must do ------------------------------------------------------------------------------------------- */

typedef unsigned __int128 wide;

static size_t between(void) { return m.room - m.stack[0].used - m.stack[1].used; }

/* Where a block must lie, and how far its stack then reaches; NULL when it must not fit. */
static uint8_t *expected(int right, size_t alignment, size_t bytes, size_t *used) {
  wide base = (uintptr_t)m.base;
  wide a = alignment == 0 ? 1 : alignment;
  wide n = bytes == 0 ? 1 : bytes;
  if (m.shared && a < 16) a = 16;
  wide step = a < 16 ? a : 16;
  wide low = base + m.stack[0].used;
  wide high = base + m.room - m.stack[1].used;
  m.cuts = false;
  if (m.shared) n = (n + 15) / 16 * 16;
  if (right) {
    if (n > high) return NULL;
    wide p = (high - n) / a * a;
    if (p < low) return NULL;
    *used = (size_t)(base + m.room - p);
    return (uint8_t *)(uintptr_t)p;
  }
  wide p = (low + a - 1) / a * a;
  if (p + n > high) return NULL;
  wide end = p + (n + step - 1) / step * step;
  m.cuts = end > high;
  *used = (size_t)((end < high ? end : high) - base);
  return (uint8_t *)(uintptr_t)p;
}

static void reach(int right, size_t used) {
  struct stack *s = &m.stack[right];
  s->used = used;
  if (m.cuts && s->cut == 0) s->cut = used;
  if (used > s->peak) s->peak = used;
  if (between() < m.least) m.least = between();
}

static void check_stats(void) {
  hd_arena_stats now = {.struct_bytes = sizeof now};
  TS_CHECK(hd_arena_stats_get(m.arena, &now), "stats");
  TS_CHECK(now.committed <= now.capacity, "committed %zu of %zu", now.committed, now.capacity);
  if (!m.fixed) {
    for (int right = 0; right < 2; right++) {
      size_t sum = 0;
      for (unsigned i = 0; i < m.stack[right].blocks; i++) sum += m.stack[right].block[i].bytes;
      size_t used = right ? now.used_right : now.used_left;
      TS_CHECK(used >= sum && used <= now.capacity, "used %zu, blocks %zu, chunks %zu", used, sum, now.capacity);
    }
    TS_CHECK(now.peak_left >= now.used_left && now.peak_right >= now.used_right, "peaks");
    return;
  }
  TS_CHECK(now.used_left == m.stack[0].used, "used %zu, not %zu", now.used_left, m.stack[0].used);
  TS_CHECK(now.used_right == m.stack[1].used, "used %zu, not %zu", now.used_right, m.stack[1].used);
  TS_CHECK(now.remaining == between() && hd_arena_remaining(m.arena) == between(), "remaining %zu, not %zu", now.remaining, between());
  TS_CHECK(now.peak_left == m.stack[0].peak, "peak %zu, not %zu", now.peak_left, m.stack[0].peak);
  TS_CHECK(now.peak_right == m.stack[1].peak, "peak %zu, not %zu", now.peak_right, m.stack[1].peak);
  TS_CHECK(now.least == m.least && now.peak == m.room - m.least, "least %zu, not %zu", now.least, m.least);
}

/* ---- steps ---------------------------------------------------------------------------------------------------------------- */

static size_t some_alignment(void) {
  static const size_t often[] = {0, 1, 2, 4, 8, 16, 16, 16, 16, 32, 64};
  return below(8) != 0 ? often[below(sizeof often / sizeof often[0])] : (size_t)1 << below(22);
}

static size_t some_size(void) {
  switch (below(m.room > 4 << 20 ? 200 : 24)) {
    case 0: return m.fixed ? below(between() + 40) : below(300000);
    case 1: return m.fixed ? between() - below(between() < 40 ? between() + 1 : 40) : below(100000);
    case 2: return (size_t)1 << below(20);
    case 3: return below(20000);
    default: return below(400);
  }
}

static void *call(int right, bool zeroed, size_t alignment, size_t bytes) {
  if (zeroed && alignment == 16 && below(2)) return right ? hd_arena_zalloc_right(m.arena, bytes) : hd_arena_zalloc(m.arena, bytes);
  if (zeroed) {
    return right ? hd_arena_zalloc_aligned_right(m.arena, alignment, bytes) : hd_arena_zalloc_aligned(m.arena, alignment, bytes);
  }
  if (alignment == 16 && below(4)) return right ? hd_arena_alloc_right(m.arena, bytes) : hd_arena_alloc(m.arena, bytes);
  return right ? hd_arena_alloc_aligned_right(m.arena, alignment, bytes) : hd_arena_alloc_aligned(m.arena, alignment, bytes);
}

static void add_block(int right, void *p, size_t alignment, size_t bytes) {
  struct stack *s = &m.stack[right];
  struct block *b = &s->block[s->blocks++];
  *b = (struct block){p, bytes == 0 ? 1 : bytes, alignment, m.tag++};
  fill(b);
}

static void step_alloc(int right) {
  size_t alignment = some_alignment();
  size_t bytes = some_size();
  bool zeroed = below(3) == 0;
  size_t used = 0;
  uint8_t *right_place = m.fixed ? expected(right, alignment, bytes, &used) : NULL;
  if (m.stack[right].blocks == BLOCKS) return;
  errno = 0;
  uint8_t *p = call(right, zeroed, alignment, bytes);
  if (m.fixed) TS_CHECK(p == right_place, "%zu bytes aligned to %zu: %p, not %p", bytes, alignment, (void *)p, (void *)right_place);
  TS_CHECK(errno == (p == NULL ? ENOMEM : 0), "errno %d", errno);
  if (p == NULL) return;
  TS_CHECK((uintptr_t)p % (alignment == 0 ? 1 : alignment) == 0, "%p aligned to %zu", (void *)p, alignment);
  check_apart(p, bytes == 0 ? 1 : bytes, NULL);
  if (zeroed) {
    for (size_t i = 0; i < bytes; i++) TS_CHECK(p[i] == 0, "byte %zu of %zu is %u", i, bytes, p[i]);
  }
  if (m.fixed) reach(right, used);
  TS_CHECK(hd_arena_owns(m.arena, p) && !hd_arena_owns(m.other, p), "owner of %p", (void *)p);
  add_block(right, p, alignment, bytes);
}

static void step_refused(int right) {
  static const size_t alignments[] = {3, 24, 6, 48, SIZE_MAX, ((size_t)1 << 40) + 1};
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 8, SIZE_MAX - 15, (size_t)1 << 63, PTRDIFF_MAX, (size_t)1 << 60};
  size_t alignment = alignments[below(6)];
  errno = 0;
  TS_CHECK(call(right, below(2), alignment, 8) == NULL && errno == EINVAL, "alignment %zu", alignment);
  size_t bytes = sizes[below(6)];
  alignment = below(2) ? 16 : (size_t)1 << below(64);
  errno = 0;
  TS_CHECK(call(right, below(2), alignment, bytes) == NULL && errno == ENOMEM, "%zu bytes", bytes);
}

/* Whether the block is the last thing on its stack. One that was made smaller while others lay behind it still holds its old room, so the
 * arena, which sees sizes only, may not take it for the last; nor any left one while there is one that was cut short. */
static bool is_last(int right, const struct block *b) {
  const struct stack *s = &m.stack[right];
  size_t step = b->alignment < 16 ? b->alignment + (b->alignment == 0) : 16;
  size_t reached = s->used - (size_t)(b->p - m.base);
  if (m.fixed && !right && (s->cut != 0 || reached != (b->bytes + step - 1) / step * step)) return false;
  return b == &s->block[s->blocks - 1] && (s->points == 0 || s->point[s->points - 1].blocks < s->blocks);
}

/* Where realloc must put the block of a fixed arena. */
static uint8_t *expected_resized(int right, struct block *b, size_t bytes, size_t *used) {
  struct stack *s = &m.stack[right];
  size_t was = s->used;
  *used = was;
  m.cuts = false;
  if (is_last(right, b) && !m.shared) {
    s->used = right ? (size_t)(m.base + m.room - (b->p + b->bytes)) : (size_t)(b->p - m.base);
    uint8_t *p = expected(right, b->alignment, bytes, used);
    s->used = was;
    if (p != NULL) return p;
    *used = was;
  }
  m.cuts = false;
  if (bytes <= b->bytes) return b->p;
  return expected(right, b->alignment, bytes, used);
}

static void step_realloc(int right) {
  struct stack *s = &m.stack[right];
  if (s->blocks == 0 || s->blocks == BLOCKS) return;
  struct block *b = &s->block[below(3) == 0 ? below(s->blocks) : s->blocks - 1];
  size_t bytes = some_size();
  size_t n = bytes == 0 ? 1 : bytes;
  size_t used = 0;
  bool last = is_last(right, b);
  uint8_t *place = m.fixed ? expected_resized(right, b, bytes, &used) : NULL;
  check_content(b, b->bytes);
  errno = 0;
  uint8_t *p = right ? hd_arena_realloc_aligned_right(m.arena, b->alignment, b->p, b->bytes, bytes)
                     : hd_arena_realloc_aligned(m.arena, b->alignment, b->p, b->bytes, bytes);
  if (m.fixed) TS_CHECK(p == place, "%zu to %zu bytes at %p: %p, not %p", b->bytes, bytes, (void *)b->p, (void *)p, (void *)place);
  TS_CHECK(errno == (p == NULL ? ENOMEM : 0), "errno %d", errno);
  if (p == NULL) return check_content(b, b->bytes);
  TS_CHECK((uintptr_t)p % (b->alignment == 0 ? 1 : b->alignment) == 0, "%p aligned to %zu", (void *)p, b->alignment);
  if (m.fixed) reach(right, used);
  struct block new = {p, n, b->alignment, b->tag};
  check_content(&new, n < b->bytes ? n : b->bytes);
  /* The last block of the right stack keeps its end; anything else that moved is a new block, and the old one stays behind. */
  size_t gap = (size_t)((uintptr_t)b->p + b->bytes - (uintptr_t)p - n);
  bool same = p == b->p || (right && last && gap < (b->alignment == 0 ? 1 : b->alignment));
  check_apart(p, n, same ? b : NULL);
  if (!same) return add_block(right, p, b->alignment, bytes);
  *b = new;
  fill(b);
}

static void step_point(int right) {
  struct stack *s = &m.stack[right];
  size_t used = 0;
  uint8_t *place = m.fixed ? expected(right, 16, HD_ARENA_POINT_BYTES, &used) : NULL;
  if (s->points == POINTS) return;
  struct point *point = &s->point[s->points];
  *point = (struct point){{NULL, 0}, s->used, s->blocks};
  errno = 0;
  bool done = true;
  if (below(2)) point->mark = right ? hd_arena_mark_right(m.arena) : hd_arena_mark(m.arena), done = point->mark.point != NULL;
  else done = right ? hd_arena_push_right(m.arena) : hd_arena_push(m.arena);
  if (m.fixed) TS_CHECK(done == (place != NULL), "a point in %zu bytes", between());
  TS_CHECK(errno == (done ? 0 : ENOMEM), "errno %d", errno);
  if (!done) return;
  if (m.fixed) reach(right, used);
  s->points++;
}

/* The stack is back where it was before a point, or empty. */
static void went_back(int right, unsigned points, size_t used, unsigned blocks) {
  struct stack *s = &m.stack[right];
  for (unsigned i = points; i < s->points; i++) {
    if (s->point[i].mark.point != NULL) m.lost[m.lost_count++ % LOST] = s->point[i].mark;
  }
  s->points = points;
  s->used = used;
  if (used < s->cut) s->cut = 0;
  s->blocks = blocks;
}

static void check_above(int right, unsigned blocks) {
  for (unsigned i = blocks; i < m.stack[right].blocks; i++) check_content(&m.stack[right].block[i], m.stack[right].block[i].bytes);
}

static void step_pop(int right) {
  struct stack *s = &m.stack[right];
  bool any = s->points != 0;
  struct point to = any ? s->point[s->points - 1] : (struct point){{NULL, 0}, 0, 0};
  check_above(right, to.blocks);
  TS_CHECK((right ? hd_arena_pop_right(m.arena) : hd_arena_pop(m.arena)) == any, "pop with %u points", s->points);
  went_back(right, any ? s->points - 1 : 0, to.used, to.blocks);
}

static void step_release(int right) {
  struct stack *s = &m.stack[right];
  if (s->points == 0) return;
  unsigned i = below(3) != 0 ? s->points - 1 : (unsigned)below(s->points);
  struct point to = s->point[i];
  if (to.mark.point == NULL) return;
  bool keep = below(3) == 0;
  check_above(right, to.blocks);
  TS_CHECK(keep ? hd_arena_rewind(m.arena, to.mark) : hd_arena_release(m.arena, to.mark), "release of a live mark");
  if (!keep) return went_back(right, i, to.used, to.blocks);
  went_back(right, i + 1, to.used, to.blocks);
  hd_arena_stats now = {.struct_bytes = sizeof now};
  hd_arena_stats_get(m.arena, &now);
  uint8_t *edge = right ? to.mark.point : (uint8_t *)to.mark.point + HD_ARENA_POINT_BYTES;
  s->used = right ? now.used_right : now.used_left;
  if (m.fixed) TS_CHECK(s->used == (size_t)(right ? m.base + m.room - edge : edge - m.base), "rewound to %zu", s->used);
}

static void step_stale(void) {
  hd_mark never = {m.stack[0].blocks ? m.stack[0].block[0].p : NULL, below(100)};
  hd_mark bad[] = {m.foreign, {NULL, 0}, never, m.lost[below(LOST)]};
  errno = 0;
  hd_mark mark = bad[below(4)];
  TS_CHECK(!(below(2) ? hd_arena_release(m.arena, mark) : hd_arena_rewind(m.arena, mark)), "a mark that is none");
  TS_CHECK(errno == EINVAL, "errno %d", errno);
}

static void step_reset(void) {
  size_t which = below(3);
  for (int right = 0; right < 2; right++) {
    if (which != 2 && which != (size_t)right) continue;
    check_above(right, 0);
    went_back(right, 0, 0, 0);
  }
  if (which == 0) hd_arena_reset_left(m.arena);
  else if (which == 1) hd_arena_reset_right(m.arena);
  else hd_arena_reset(m.arena);
}

static void step(void) {
  int right = (int)below(2);
  size_t dice = below(1000);
  if (dice < 550) step_alloc(right);
  else if (dice < 630) step_realloc(right);
  else if (dice < 740) step_point(right);
  else if (dice < 820) step_pop(right);
  else if (dice < 900) step_release(right);
  else if (dice < 930) step_stale();
  else if (dice < 945) step_refused(right);
  else if (dice < 950) hd_arena_trim(m.arena, below(2) ? 0 : below(1 << 20));
  else if (dice < 955) step_reset();
  else check_stats();
}

/* ---- arenas --------------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *what;
  hd_arena_config config;
} kinds[] = {
    {"fixed, a page", {.capacity_bytes = 1}},
    {"fixed, 64 KiB", {.name = "m64", .capacity_bytes = 65536}},
    {"fixed, 3 MiB, little kept", {.capacity_bytes = 3 << 20, .keep_bytes = 1}},
    {"fixed, 1 MiB, guarded", {.capacity_bytes = 1000000, .guard = true}},
    {"fixed, 16 MiB", {.capacity_bytes = 16 << 20}},
    {"shared, 2 MiB", {.capacity_bytes = 2 << 20, .shared = true, .keep_bytes = 100000}},
    {"growing", {.name = "grows"}},
    {"growing, 1 MiB at most, guarded", {.limit_bytes = 1 << 20, .guard = true}},
    {"growing, nothing kept", {.keep_bytes = 1, .chunk_bytes = 200000}},
};

static void start(size_t kind) {
  hd_arena_config config = kinds[kind].config;
  config.struct_bytes = sizeof config;
  memset(&m, 0, sizeof m);
  m.arena = hd_arena_create(&config);
  m.other = hd_arena_create(NULL);
  TS_CHECK(m.arena != NULL && m.other != NULL, "no arena");
  m.foreign = hd_arena_mark(m.other);
  m.fixed = config.capacity_bytes != 0;
  m.shared = config.shared;
  if (!m.fixed) return;
  m.base = hd_arena_alloc_aligned(m.arena, 1, 1);
  hd_arena_reset(m.arena);
  m.room = hd_arena_remaining(m.arena);
  size_t page = ts_os_page();
  TS_CHECK(m.room == (config.capacity_bytes + page - 1) / page * page, "room %zu", m.room);
  m.stack[0].peak = m.shared ? 16 : 1;
  m.least = m.room - m.stack[0].peak;
}

static void finish(void) {
  bool empty = m.stack[0].blocks + m.stack[1].blocks + m.stack[0].points + m.stack[1].points == 0;
  check_above(0, 0);
  check_above(1, 0);
  check_stats();
  TS_CHECK(hd_arena_destroy(m.arena) == empty || m.stack[0].used + m.stack[1].used != 0, "destroy of an arena");
  TS_CHECK(!hd_arena_destroy(m.other), "an arena with a point is not empty");
}

int main(int argc, char **argv) {
  uint64_t seed = ts_seed();
  uint64_t steps = ts_option(argc, argv, "-n", 12000);
  uint64_t only = ts_option(argc, argv, "-c", 99);
  hd_stats before = {.struct_bytes = sizeof before};
  hd_stats after = {.struct_bytes = sizeof after};
  hd_stats_get(&before);
  for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
    if (only != 99 && only != kind) continue;
    snprintf(ts_replay, sizeof ts_replay, "HEDDLE_TEST_SEED=%llu %s -n %llu -c %zu   # %s", (unsigned long long)seed, argv[0],
             (unsigned long long)steps, kind, kinds[kind].what);
    rng.state = ts_hash(seed, kind);
    for (uint64_t round = 0; round < (kind < 2 ? 60 : 4); round++) {
      start(kind);
      for (uint64_t i = 0; i < steps / 4; i++) step();
      finish();
    }
  }
  hd_stats_get(&after);
  TS_CHECK(after.object_count == before.object_count, "%zu regions left over", after.object_count - before.object_count);
  return 0;
}
