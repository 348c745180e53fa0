/* Memory errors at every place: a script is run with the n-th growth refused, for n = 1, 2, 3, ... until it passes. Lua must end with
 * its own memory error or with success, never crash; afterwards the state works, and after lua_close nothing is left.
 *   lua_sweep once|onward
 * once: only the n-th is refused (Lua collects and gets it at the second try). onward: all from the n-th on, until the script ended.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "states.h"

/* LuaJIT's lua_newstate itself follows a null pointer when the second of its requests is refused; and in a few places LuaJIT forgets
 * one small block. */
#ifdef LUA_JITLIBNAME
enum { NEWSTATE_IS_SAFE = false, FORGOTTEN = 1 };
#else
enum { NEWSTATE_IS_SAFE = true, FORGOTTEN = 0 };
#endif

struct faulty {
  hd_lua_heap *heap;
  uint64_t calls, fail_at; /* growths so far; the one to refuse, 0: none */
  bool onward, armed;
};

static void *faulty_alloc(void *ud, void *p, size_t old_bytes, size_t new_bytes) {
  struct faulty *faulty = ud;
  bool grows = new_bytes > (p == NULL ? 0 : old_bytes);
  if (faulty->armed && grows) {
    uint64_t call = ++faulty->calls;
    if (call == faulty->fail_at || (faulty->onward && call > faulty->fail_at)) return NULL;
  }
  return hd_lua_alloc(faulty->heap, p, old_bytes, new_bytes);
}

static const char work[] =
    "local t = {} "
    "for i = 1, 40 do t[i] = { id = i, name = 'n' .. i, f = function(s) return i + s end } end "
    "local text = '' for i = 1, 12 do text = text .. t[i].name .. string.rep('-', i * 3) end "
    "local back = text:gsub('n', 'name'):upper() "
    "local c = coroutine.wrap(function() for i = 1, 3 do coroutine.yield({ i }) end end) "
    "local sum = 0 for i = 1, 3 do sum = sum + c()[1] end "
    "local m = setmetatable({}, { __index = function(_, k) return k .. k end, __mode = 'k' }) "
    "table.sort(t, function(a, b) return a.id > b.id end) "
    "local joined = table.concat({ string.format('%d %s', sum, m.x), back }, ' ') "
    "assert(sum == 6 and #joined > 100 and t[1].f(1) == 41 and select('#', (table.unpack or unpack)(t)) == 40)";

/* A few of LuaJIT's places raise the same words as an ordinary error, and from 5.4.6 on Lua other words where its stack can't grow. */
static bool is_memory_error(lua_State *L, int status) {
  const char *text = lua_tostring(L, -1);
  bool no_stack = text != NULL && strstr(text, "too many results to unpack") != NULL;
  return status == LUA_ERRMEM || no_stack || (FORGOTTEN && text != NULL && strstr(text, "not enough memory") != NULL);
}

static int open_libraries(lua_State *L) {
  luaL_openlibs(L);
  return 0;
}

/* The libraries, without a panic when there is no memory for them. */
static int open_protected(lua_State *L) {
#if LUA_VERSION_NUM >= 502
  lua_pushcfunction(L, open_libraries);
  return lua_pcall(L, 0, 0, 0);
#else
  return lua_cpcall(L, open_libraries, NULL);
#endif
}

/* One run with the n-th growth refused; whether the script passed without ever getting there. */
static bool run(uint64_t n, bool onward) {
  struct faulty faulty = {.heap = hd_lua_heap_create(NULL), .fail_at = n, .onward = onward, .armed = NEWSTATE_IS_SAFE};
  TS_CHECK(faulty.heap != NULL, "a heap");
  lua_State *L = lua_newstate(faulty_alloc, &faulty);
  faulty.armed = true;
  if (L != NULL) {
    int status = open_protected(L);
    if (status == 0) status = lua_run(L, work);
    faulty.armed = false;
    TS_CHECK(status == 0 || is_memory_error(L, status), "refusal %llu: status %d, %s", (unsigned long long)n, status, lua_tostring(L, -1));
    TS_CHECK(status != 0 || !onward || faulty.calls < n, "refusal %llu went unseen", (unsigned long long)n);
    lua_settop(L, 0);
    TS_CHECK(open_protected(L) == 0, "the libraries open afterwards");
    lua_must(L, work);
    lua_gc(L, LUA_GCCOLLECT, 0);
    TS_CHECK(lua_figures(faulty.heap).used_bytes == lua_counted(L), "counts differ after refusal %llu", (unsigned long long)n);
    lua_close(L);
  }
  hd_lua_stats left = lua_figures(faulty.heap);
  TS_CHECK(left.block_count <= FORGOTTEN, "refusal %llu leaves %llu bytes", (unsigned long long)n, (unsigned long long)left.used_bytes);
  hd_lua_heap_destroy(faulty.heap);
  return faulty.calls < n;
}

int main(int argc, char **argv) {
  bool onward = argc > 1 && strcmp(argv[1], "onward") == 0;
  uint64_t n = 1;
  while (!run(n, onward)) n++;
  TS_CHECK(n > 300, "the script makes %llu allocations, too few to mean anything", (unsigned long long)n);
  printf("ok: %llu places\n", (unsigned long long)n);
  return 0;
}
