/* What the Lua tests share: states of Lua 5.4 or LuaJIT, scripts, an allocator that fails where it is told to.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_LUA_STATES_H
#define TEST_LUA_STATES_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "../support/support.h"
#include "heddle/lua.h"

static inline hd_lua_stats lua_figures(const hd_lua_heap *heap) {
  hd_lua_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_lua_heap_stats_get(heap, &stats), "statistics of a heap");
  return stats;
}

/* What Lua itself says it holds. */
static inline uint64_t lua_counted(lua_State *L) {
  return (uint64_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + (uint64_t)lua_gc(L, LUA_GCCOUNTB, 0);
}

static inline hd_lua_heap *lua_heap_with_cap(uint64_t cap_bytes) {
  hd_lua_config config = {.struct_bytes = sizeof config, .name = "test", .cap_bytes = cap_bytes};
  hd_lua_heap *heap = hd_lua_heap_create(&config);
  TS_CHECK(heap != NULL, "a heap");
  return heap;
}

static inline lua_State *lua_state_of(hd_lua_heap *heap) {
  lua_State *L = lua_newstate(hd_lua_alloc, heap);
  TS_CHECK(L != NULL, "a state");
  luaL_openlibs(L);
  return L;
}

/* Run text; the result of lua_pcall. An error's text is left on the stack. */
static inline int lua_run(lua_State *L, const char *text) {
  int status = luaL_loadstring(L, text);
  return status != 0 ? status : lua_pcall(L, 0, 0, 0);
}

static inline void lua_must(lua_State *L, const char *text) {
  int status = lua_run(L, text);
  TS_CHECK(status == 0, "'%s' says %s", text, lua_tostring(L, -1));
}

#endif
