/* Heddle for Lua: the allocator of a Lua state, with a heap per state.
 *
 *   hd_lua_heap *heap = hd_lua_heap_create(&(hd_lua_config){.struct_bytes = sizeof(hd_lua_config), .cap_bytes = 64 << 20});
 *   lua_State *L = lua_newstate(hd_lua_alloc, heap);
 *   ...
 *   lua_close(L);                      // runs finalizers and frees object by object; leave it out when there are none that matter
 *   hd_lua_heap_destroy(heap);         // everything that is left, at once
 *
 * For Lua 5.1 to 5.4 and LuaJIT; Lua's headers are not needed. A heap belongs to one state and is used like it: by one thread at
 * a time. Free pages go back to the system in the background, see the option `purge-delay` in heddle-options(7).
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_LUA_H
#define HEDDLE_LUA_H

#include "../heddle.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The heap of one Lua state: opaque. */
typedef struct hd_lua_heap hd_lua_heap;

/** Zero-initialise, then set what matters. */
typedef struct hd_lua_config {
  size_t struct_bytes; /* sizeof(hd_lua_config): the caller's version of this struct */
  const char *name;    /* shown in statistics, copied (31 bytes); NULL for none */
  uint64_t cap_bytes;  /* most bytes that Lua may hold, as Lua counts them; 0: no cap */
} hd_lua_config;

/** What a state holds. Bytes are those that Lua asked for, exactly: used_bytes is what lua_gc(L, LUA_GCCOUNT) * 1024 +
 *  lua_gc(L, LUA_GCCOUNTB) says. Fields are only ever added at the end. */
typedef struct hd_lua_stats {
  size_t struct_bytes;    /* set by the caller to sizeof(hd_lua_stats) before the call */
  uint64_t used_bytes;    /* in blocks that Lua holds now */
  uint64_t peak_bytes;    /* the most it ever held */
  uint64_t cap_bytes;     /* the cap; 0: none */
  uint64_t block_count;   /* blocks that Lua holds now */
  uint64_t refused_count; /* requests refused, by the cap or for want of memory; Lua retries each once after a collection */
} hd_lua_stats;

/** Create the heap of a Lua state.
 *  config   NULL: unnamed, no cap
 *  returns  the heap; NULL with ENOMEM, or EINVAL for a bad config
 *  threads  any */
HEDDLE_API hd_lua_heap *hd_lua_heap_create(const hd_lua_config *config);

/** Free everything the state holds, and the heap. The state need not have been closed, and must not be used afterwards: no lua_
 *  function on it, not even lua_close. What finalizers (__gc) would have released stays open. NULL is ignored.
 *  cost     O(pages of the heap) */
HEDDLE_API void hd_lua_heap_destroy(hd_lua_heap *heap);

/** Lua's allocator function (lua_Alloc), for lua_newstate and lua_setallocf.
 *  heap       a hd_lua_heap, or NULL: the blocks come from the calling thread's heap, uncounted and without a cap
 *  p          NULL or a block of this function with the same heap
 *  old_bytes  its size; when p is NULL it is a type tag and ignored
 *  new_bytes  0 frees p and returns NULL
 *  returns    block aligned to 16; NULL when the cap or the system refuses, p then being unchanged. Lua runs a collection, tries
 *             again, and raises its own memory error. Making a block smaller never fails
 *  errno      ENOMEM with NULL, except after a free
 *  threads    one at a time for a heap; any when it is NULL
 *  cost       hd_malloc's, hd_realloc's, hd_free's, and a few additions */
HEDDLE_API void *hd_lua_alloc(void *heap, void *p, size_t old_bytes, size_t new_bytes);

/** Change the cap; 0: none. Below what is in use it refuses every growth until enough has been freed.
 *  threads  as hd_lua_alloc */
HEDDLE_API void hd_lua_heap_set_cap(hd_lua_heap *heap, uint64_t cap_bytes);

/** Fill *stats, whose struct_bytes the caller has set; fields beyond it stay untouched.
 *  returns  false when stats is NULL or struct_bytes is too small
 *  threads  as hd_lua_alloc; cost O(1) */
HEDDLE_API bool hd_lua_heap_stats_get(const hd_lua_heap *heap, hd_lua_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
