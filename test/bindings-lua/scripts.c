/* The binding's scripts on a state of their own: right results, Lua's count equal to Heddle's to the byte at every collection, nothing
 * left after lua_close, everything gone after a destroy without lua_close.
 *   lua_scripts directory rounds
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "states.h"

static const char *directory;

static void script(lua_State *L, const char *name, double rounds) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.lua", directory, name);
  lua_pushnumber(L, rounds);
  lua_setglobal(L, "rounds");
  TS_CHECK(luaL_loadfile(L, path) == 0, "%s", lua_tostring(L, -1));
  lua_pushstring(L, directory);
  TS_CHECK(lua_pcall(L, 1, 0, 0) == 0, "%s", lua_tostring(L, -1));
}

static void same_count(lua_State *L, const hd_lua_heap *heap, const char *when) {
  uint64_t ours = lua_figures(heap).used_bytes, theirs = lua_counted(L);
  TS_CHECK(ours == theirs, "%s: Heddle counts %llu bytes, Lua %llu", when, (unsigned long long)ours, (unsigned long long)theirs);
}

static void closed(const char *name, double rounds) {
  hd_lua_heap *heap = hd_lua_heap_create(NULL);
  lua_State *L = lua_state_of(heap);
  same_count(L, heap, "fresh");
  script(L, name, rounds);
  same_count(L, heap, name);
  lua_gc(L, LUA_GCCOLLECT, 0);
  same_count(L, heap, "collected");
  TS_CHECK(lua_figures(heap).peak_bytes > lua_figures(heap).used_bytes, "a peak above what is left");
  lua_close(L);
  hd_lua_stats left = lua_figures(heap);
  TS_CHECK(left.used_bytes == 0 && left.block_count == 0, "%llu bytes in %llu blocks left", (unsigned long long)left.used_bytes,
           (unsigned long long)left.block_count);
  hd_lua_heap_destroy(heap);
}

static size_t live_bytes(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_stats_get(&stats), "statistics");
  return stats.live;
}

static void destroyed(const char *name, double rounds) {
  size_t before = live_bytes();
  hd_lua_heap *heap = hd_lua_heap_create(NULL);
  script(lua_state_of(heap), name, rounds);
  hd_lua_heap_destroy(heap);
  TS_CHECK(live_bytes() <= before, "%zu bytes before, %zu after", before, live_bytes());
}

/* Without a heap: lua_newstate's ud is NULL. */
static void of_the_thread(const char *name, double rounds) {
  lua_State *L = lua_state_of(NULL);
  script(L, name, rounds);
  lua_close(L);
}

int main(int argc, char **argv) {
  static const char *const names[] = {"tables", "strings", "closures", "heavy"};
  TS_CHECK(argc == 3, "directory and rounds");
  directory = argv[1];
  double rounds = atof(argv[2]);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    closed(names[i], rounds);
    destroyed(names[i], rounds);
    of_the_thread(names[i], rounds);
  }
  puts("ok");
  return 0;
}
