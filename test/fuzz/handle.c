/* Fuzz target: scripts of handles. Blocks keep their content through resizing and compaction, pinned ones stay where they are, handles
 * of freed blocks are stale, and the counters add up.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include <heddle/handle.h>

#include "fuzz.h"

enum { BLOCKS = 200, STEPS_MAX = 400, LOST = 16, LIMIT = 1 << 20 };

static hd_handles *table;
static struct block {
  hd_handle handle;
  size_t bytes;
  unsigned tag, pins;
  void *pinned_at;
} block[BLOCKS];
static hd_handle lost[LOST];
static unsigned live, tags, lost_count;
static size_t alignment;
static bool narrow;

static void check(void) {
  hd_handles_stats stats = {.struct_bytes = sizeof stats};
  size_t used = 0, pinned = 0;
  FZ_CHECK(hd_handles_stats_get(table, &stats), "no statistics");
  for (unsigned i = 0; i < live; i++) {
    unsigned char *p = hd_handles_get(table, block[i].handle);
    FZ_CHECK(p != NULL && (uintptr_t)p % alignment == 0 && hd_handles_bytes(table, block[i].handle) == block[i].bytes, "block %u", i);
    FZ_CHECK(block[i].pins == 0 || p == block[i].pinned_at, "a pinned block moved");
    fz_want_whole(p, block[i].bytes, block[i].tag, "a block");
    used += block[i].bytes;
    pinned += block[i].pins > 0;
  }
  FZ_CHECK(stats.used == used && stats.count == live && stats.pinned_count == pinned, "%zu bytes, not %zu", stats.used, used);
  FZ_CHECK(stats.used + stats.overhead + stats.holes == stats.top && stats.top <= stats.limit, "sums");
  FZ_CHECK((stats.holes == 0) == (stats.hole_count == 0) && stats.largest_hole <= stats.holes, "holes");
}

static size_t some_size(struct fz *in) {
  unsigned how = fz_byte(in);
  if (how < 180) return how;
  if (how < 250) return fz_word(in) % 20000;
  return how < 254 ? fz_size(in) % 300000 : SIZE_MAX / 2 - 10 + how % 16;
}

static void alloc(struct fz *in) {
  size_t bytes = some_size(in);
  if (live == BLOCKS) return;
  errno = 0;
  hd_handle handle = narrow && bytes & 1 ? hd_handles_alloc_32(table, bytes) : hd_handles_alloc(table, bytes);
  FZ_CHECK(errno == (handle ? 0 : ENOMEM), "errno %d", errno);
  if (handle == 0) return;
  FZ_CHECK(!narrow || handle <= UINT32_MAX, "a long handle");
  for (unsigned i = 0; i < live; i++) FZ_CHECK(block[i].handle != handle, "a handle twice");
  for (unsigned i = 0; i < LOST; i++) FZ_CHECK(lost[i] != handle, "a handle that was freed a moment ago");
  block[live] = (struct block){handle, bytes, ++tags, 0, NULL};
  fz_fill(hd_handles_get(table, handle), bytes, tags);
  live++;
}

static void resize(struct fz *in) {
  unsigned which = fz_byte(in);
  size_t bytes = some_size(in);
  if (live == 0) return;
  struct block *b = &block[which % live];
  errno = 0;
  bool done = hd_handles_resize(table, b->handle, bytes);
  FZ_CHECK(errno == 0 ? done : !done && (errno == ENOMEM || (errno == EBUSY && b->pins > 0)), "errno %d", errno);
  size_t now = done ? bytes : b->bytes;
  unsigned char *p = hd_handles_get(table, b->handle);
  FZ_CHECK(p != NULL && hd_handles_bytes(table, b->handle) == now, "resized to %zu", now);
  fz_want(p, now < b->bytes ? now : b->bytes, b->tag, "a resized block");
  b->bytes = now;
  fz_fill(p, now, b->tag);
}

static void free_one(unsigned which) {
  if (live == 0) return;
  struct block *b = &block[which % live];
  fz_want_whole(hd_handles_get(table, b->handle), b->bytes, b->tag, "a block to free");
  unsigned before = fz_reports;
  hd_handles_free(table, b->handle);
  FZ_CHECK(fz_reports == before && hd_handles_get(table, b->handle) == NULL, "freed");
  lost[lost_count++ % LOST] = b->handle;
  *b = block[--live];
}

static void stale(unsigned which) {
  hd_handle handle = which & 1 ? lost[which / 2 % LOST] : which & 2 ? which : (hd_handle)which << 33 | which;
  for (unsigned i = 0; i < live; i++)
    if (block[i].handle == handle) return;
  unsigned before = fz_reports;
  FZ_CHECK(hd_handles_get(table, handle) == NULL && hd_handles_bytes(table, handle) == 0, "a handle of nothing");
  errno = 0;
  FZ_CHECK(hd_handles_pin(table, handle) == NULL && errno == EINVAL, "a pin on nothing");
  FZ_CHECK(!hd_handles_unpin(table, handle) && !hd_handles_resize(table, handle, 10) && errno == EINVAL, "nothing resized");
  hd_handles_free(table, handle);
  FZ_CHECK(fz_reports == before + (handle != 0), "%u reports", fz_reports - before);
}

static void pin(unsigned which) {
  if (live == 0) return;
  struct block *b = &block[which / 2 % live];
  if (which & 1) {
    b->pinned_at = hd_handles_pin(table, b->handle);
    FZ_CHECK(b->pinned_at == hd_handles_get(table, b->handle), "pinned");
    b->pins++;
  } else {
    FZ_CHECK(hd_handles_unpin(table, b->handle) == (b->pins > 0), "%u pins", b->pins);
    if (b->pins > 0) b->pins--;
  }
}

static void compact(size_t bytes) {
  hd_compaction done = hd_handles_compact(table, bytes);
  FZ_CHECK((done.moved_count == 0) == (done.moved_bytes == 0), "%zu blocks of %zu bytes moved", done.moved_count, done.moved_bytes);
  check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct fz in = {data, bytes};
  unsigned how = fz_byte(&in);
  hd_handles_config config = {.struct_bytes = sizeof config, .name = "fuzz", .limit_bytes = LIMIT};
  narrow = how & 1;
  config.handle_bits = narrow ? 32 : 64;
  config.alignment = alignment = how & 2 ? (size_t)16 << how / 16 % 13 : 16;
  config.limit_count = how & 4 ? 100 : 0;
  config.kept_bytes = how & 8 ? 100000 : 0;
  fz_count_reports();
  table = hd_handles_create(&config);
  FZ_CHECK(table != NULL, "no table, errno %d", errno);
  memset(lost, 0, sizeof lost);
  live = lost_count = 0;
  for (unsigned step = 0; step < STEPS_MAX && in.left > 0; step++) {
    unsigned what = fz_byte(&in);
    switch (what % 16) {
      case 0: check(); break;
      case 1: compact(what * 20); break;
      case 2: stale(fz_byte(&in)); break;
      case 3: pin(fz_byte(&in)); break;
      case 4: hd_handles_trim(table); break;
      case 5: if (what > 230) hd_handles_reset(table), live = 0; break;
      case 6:
      case 7: resize(&in); break;
      case 8:
      case 9:
      case 10: free_one(fz_byte(&in)); break;
      default: alloc(&in);
    }
  }
  check();
  FZ_CHECK(hd_handles_destroy(table) == live, "blocks that were live");
  return 0;
}
