/* A program that runs untrusted scripts, each in a state of its own that may hold 16 MiB: one is well behaved, one eats all it gets, and
 * after each everything is gone at once.
 *   cc example.c -I/usr/include/lua5.4 -lheddle -llua5.4 -lm -o example && ./example
 * SPDX-License-Identifier: MIT */
#include <heddle/lua.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

static const char *const scripts[] = {
    "local words = {} for i = 1, 1000 do words[i] = 'word ' .. i end print(#table.concat(words, ', '))",
    "local all = {} while true do all[#all + 1] = { string.rep('x', 100) .. #all } end",
};

int main(void) {
  hd_lua_config config = {.struct_bytes = sizeof config, .name = "script", .cap_bytes = 16 << 20};
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    hd_lua_heap *heap = hd_lua_heap_create(&config);
    lua_State *L = heap == NULL ? NULL : lua_newstate(hd_lua_alloc, heap);
    if (L == NULL) {
      fputs("no memory for a state\n", stderr);
      return 1;
    }
    luaL_openlibs(L);
    if (luaL_dostring(L, scripts[i]) != LUA_OK) printf("script %zu: %s\n", i + 1, lua_tostring(L, -1));
    hd_lua_stats stats = {.struct_bytes = sizeof stats};
    hd_lua_heap_stats_get(heap, &stats);
    printf("script %zu: %llu KiB at the peak, %llu blocks left\n", i + 1, (unsigned long long)stats.peak_bytes / 1024,
           (unsigned long long)stats.block_count);
    hd_lua_heap_destroy(heap); /* in place of lua_close: nothing here has a finalizer that matters */
  }
  return 0;
}
