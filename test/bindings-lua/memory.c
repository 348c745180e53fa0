/* A long-lived interpreter: 200 MB at the peak, then a collection, and nothing is called any more.
 * whole: nothing of the burst survives; after a second (and the time of one look) RSS is back at the baseline + 10 %, and 2.5 % of the
 * peak for the maps of its pages, which the library keeps.
 * scattered: one in a thousand survives, all over; RSS is below 30 MB within 3 s.
 *   lua_memory whole|scattered
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "states.h"

#define MIB ((size_t)1 << 20)

static const char start[] = "kept = {} for i = 1, 60000 do kept[i] = { i, tostring(i) } end collectgarbage() collectgarbage()";
static const char burst[] =
    "t = {} for i = 1, 690000 do t[i] = { id = i, name = 'name' .. i, list = { i } } "
    "if scatter and i % 1000 == 0 then kept[#kept + 1] = { i, 'kept' .. i } end end";
/* Each collection halves the table of strings, which Lua itself holds. */
static const char drop[] = "t = nil for i = 1, 8 do collectgarbage() end";

/* Milliseconds until RSS is at most `bytes`, or 4000. */
static uint64_t wait_for(size_t bytes) {
  uint64_t begin = ts_now_ms();
  while (ts_rss() > bytes && ts_now_ms() - begin < 4000) ts_sleep_ms(50);
  return ts_now_ms() - begin;
}

int main(int argc, char **argv) {
  bool scatter = argc > 1 && strcmp(argv[1], "scattered") == 0;
  hd_lua_heap *heap = lua_heap_with_cap(0);
  lua_State *L = lua_state_of(heap);
  lua_pushboolean(L, scatter);
  lua_setglobal(L, "scatter");
  lua_must(L, start);
  size_t base = ts_rss();
  lua_must(L, burst);
  size_t peak = ts_rss();
  TS_CHECK(peak > base + 150 * MIB, "a peak of %zu MiB", peak / MIB);
  lua_must(L, drop);
  size_t goal = scatter ? 30 * 1000000 : base + base / 10 + peak / 40;
  uint64_t took = wait_for(goal);
  printf("base %.1f MiB, peak %.1f MiB, after %llu ms %.1f MiB\n", (double)base / MIB, (double)peak / MIB, (unsigned long long)took,
         (double)ts_rss() / MIB);
  TS_CHECK(took <= (scatter ? 3000 : 1300), "RSS %zu MiB after %llu ms", ts_rss() / MIB, (unsigned long long)took);
  lua_must(L, "for i = 1, 60000 do assert(kept[i][1] == i and kept[i][2] == tostring(i)) end");
  hd_lua_heap_destroy(heap);
  puts("ok");
  return 0;
}
