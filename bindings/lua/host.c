/* Run a Lua script under one of three allocators and say what it took; compare.py runs it again and again.
 *   host state|thread|plain directory/script.lua [rounds]
 * state: hd_lua_alloc with a heap of its own. thread: hd_lua_alloc with the thread's heap. plain: realloc and free of the process,
 * as luaL_newstate does, which LD_PRELOAD makes any allocator's.
 * SPDX-License-Identifier: MIT */
#include <heddle/lua.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *plain_alloc(void *ud, void *p, size_t old_bytes, size_t new_bytes) {
  (void)ud, (void)old_bytes;
  if (new_bytes != 0) return realloc(p, new_bytes);
  free(p);
  return NULL;
}

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long status_kib(const char *key) {
  char line[128];
  long kib = 0;
  FILE *status = fopen("/proc/self/status", "r");
  while (status != NULL && fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, key, strlen(key)) == 0) kib = strtol(line + strlen(key), NULL, 10);
  }
  if (status != NULL) fclose(status);
  return kib;
}

static int run(lua_State *L, const char *path, const char *rounds) {
  char directory[4096];
  const char *slash = strrchr(path, '/');
  snprintf(directory, sizeof directory, "%.*s", slash == NULL ? 1 : (int)(slash - path), slash == NULL ? "." : path);
  luaL_openlibs(L);
  lua_pushnumber(L, strtod(rounds, NULL));
  lua_setglobal(L, "rounds");
  if (luaL_loadfile(L, path) == 0) {
    lua_pushstring(L, directory);
    if (lua_pcall(L, 1, 0, 0) == 0) return 0;
  }
  fprintf(stderr, "host: %s\n", lua_tostring(L, -1));
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fputs("usage: host state|thread|plain directory/script.lua [rounds]\n", stderr);
    return 2;
  }
  bool plain = strcmp(argv[1], "plain") == 0;
  hd_lua_heap *heap = strncmp(argv[1], "state", 5) == 0 ? hd_lua_heap_create(NULL) : NULL;
  double start = cpu_seconds();
  lua_State *L = lua_newstate(plain ? plain_alloc : hd_lua_alloc, heap);
  if (L == NULL) {
    fputs("host: lua_newstate gave no state\n", stderr);
    return 1;
  }
  int failed = run(L, argv[2], argc > 3 ? argv[3] : "1");
  if (heap == NULL || strcmp(argv[1], "state+close") == 0) lua_close(L);
  hd_lua_heap_destroy(heap);
  printf("cpu_ms=%.2f peak_mib=%.1f\n", (cpu_seconds() - start) * 1e3, (double)status_kib("VmHWM:") / 1024);
  return failed;
}
