/* A cap per state: it raises Lua's own memory error, is never passed by a byte, and the state recovers after a collection; two states
 * do not share one. And every small cap from too little for a state to enough.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "states.h"

#define MIB ((uint64_t)1 << 20)

static const char fill[] = "kept = {} local i = 0 while true do i = i + 1 kept[i] = { i, 'text number ' .. i } end";

/* What a host does about a full state; a chunk of text would itself need memory. */
static void let_go(lua_State *L, const char *global) {
  lua_pushnil(L);
  lua_setglobal(L, global);
  for (int i = 0; i < 8; i++) lua_gc(L, LUA_GCCOLLECT, 0); /* LuaJIT halves its string buffer each time */
}

static void raises_and_recovers(void) {
  hd_lua_heap *heap = lua_heap_with_cap(8 * MIB);
  lua_State *L = lua_state_of(heap);
  for (int round = 0; round < 3; round++) {
    int status = lua_run(L, fill);
    TS_CHECK(status == LUA_ERRMEM, "status %d: %s", status, lua_tostring(L, -1));
    TS_CHECK(strcmp(lua_tostring(L, -1), "not enough memory") == 0, "%s", lua_tostring(L, -1));
    lua_settop(L, 0);
    hd_lua_stats full = lua_figures(heap);
    TS_CHECK(full.refused_count > 0 && full.peak_bytes <= 8 * MIB, "a peak of %llu bytes", (unsigned long long)full.peak_bytes);
    TS_CHECK(full.peak_bytes > 5 * MIB, "refused at %llu bytes already", (unsigned long long)full.peak_bytes);
    let_go(L, "kept");
    TS_CHECK(lua_figures(heap).used_bytes < MIB, "%llu bytes after a collection", (unsigned long long)lua_figures(heap).used_bytes);
    lua_must(L, "local t = {} for i = 1, 10000 do t[i] = { i } end assert(#t == 10000)");
  }
  lua_must(L, "collectgarbage()");
  TS_CHECK(lua_run(L, "big = string.rep('x', 9 * 1024 * 1024)") == LUA_ERRMEM, "one string above the cap");
  lua_settop(L, 0);
  hd_lua_heap_set_cap(heap, 0);
  lua_must(L, "big = string.rep('x', 9 * 1024 * 1024)");
  TS_CHECK(lua_figures(heap).cap_bytes == 0 && lua_figures(heap).peak_bytes > 9 * MIB, "without a cap");
  hd_lua_heap_set_cap(heap, 4 * MIB); /* below what is in use: nothing grows until the string is gone */
  TS_CHECK(lua_run(L, "local t = {} for i = 1, 100 do t[i] = { i } end") == LUA_ERRMEM, "a cap below what is in use");
  lua_settop(L, 0);
  hd_lua_heap_set_cap(heap, 2 * lua_figures(heap).used_bytes); /* LuaJIT's collector wants memory itself, and panics without */
  let_go(L, "big");
  hd_lua_heap_set_cap(heap, 4 * MIB);
  lua_must(L, "local t = {} for i = 1, 100 do t[i] = { i } end");
  lua_close(L);
  hd_lua_heap_destroy(heap);
}

/* A full state beside one that goes on; the first is dropped as it is. */
static void one_each(void) {
  hd_lua_heap *small = lua_heap_with_cap(2 * MIB), *large = lua_heap_with_cap(0);
  lua_State *full = lua_state_of(small), *free_state = lua_state_of(large);
  TS_CHECK(lua_run(full, fill) == LUA_ERRMEM, "full");
  lua_must(free_state, "t = {} for i = 1, 100000 do t[i] = { i } end");
  hd_lua_heap_destroy(small);
  lua_must(free_state, "for i = 1, 100000 do assert(t[i][1] == i) end");
  hd_lua_heap_destroy(large);
}

/* Every cap from almost nothing up: a state that does not start, or starts and runs into it, or passes. */
static void every_cap(void) {
  unsigned refused = 0, ran_out = 0;
  for (uint64_t cap = 1024; cap <= 64 * 1024; cap += 256) {
#ifdef LUA_JITLIBNAME /* its lua_newstate crashes when it is refused memory */
    hd_lua_heap *heap = lua_heap_with_cap(0);
    lua_State *L = lua_newstate(hd_lua_alloc, heap);
    hd_lua_heap_set_cap(heap, cap);
    refused += lua_figures(heap).used_bytes > cap;
#else
    hd_lua_heap *heap = lua_heap_with_cap(cap);
    lua_State *L = lua_newstate(hd_lua_alloc, heap);
    refused += L == NULL;
    TS_CHECK(lua_figures(heap).peak_bytes <= cap, "cap %llu", (unsigned long long)cap);
#endif
    if (L != NULL) {
      int status = lua_run(L, "local t = {} for i = 1, 300 do t[i] = { i, {} } end");
      TS_CHECK(status == 0 || status == LUA_ERRMEM, "status %d with a cap of %llu", status, (unsigned long long)cap);
      ran_out += status != 0;
      lua_close(L);
    }
    hd_lua_stats left = lua_figures(heap);
    TS_CHECK(left.used_bytes == 0 && left.block_count == 0, "cap %llu", (unsigned long long)cap);
    hd_lua_heap_destroy(heap);
  }
  TS_CHECK(refused > 0 && ran_out > 10, "%u states refused, %u ran out", refused, ran_out);
}

int main(void) {
  raises_and_recovers();
  one_each();
  every_cap();
  puts("ok");
  return 0;
}
