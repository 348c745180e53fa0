/* Each header stands alone, as C11 and (alone.cpp) as C++17, and its inline functions work from there.
 * SPDX-License-Identifier: MIT */
#include "heddle/handle.h"
#include "heddle/pool.h"
#include "heddle/string_pool.h"

#include "../support/support.h"

int main(void) {
  hd_pool_config pools = {};
  pools.struct_bytes = sizeof pools;
  pools.item_bytes = 24;
  hd_pool *pool = hd_pool_create(&pools);
  void *item = hd_pool_take(pool), *zeroed = hd_pool_take_zeroed(pool);
  TS_CHECK(item != NULL && zeroed != NULL && item != zeroed, "two items");
  hd_pool_give(pool, item);
  TS_CHECK(hd_pool_destroy(pool) == 1, "one left");

  hd_string_pool_config strings = {};
  strings.struct_bytes = sizeof strings;
  hd_string_pool *names = hd_string_pool_create(&strings);
  uint64_t name = hd_string_pool_append(names, "heddle", 6);
  TS_CHECK(hd_string_pool_length(names, name) == 6 && hd_string_pool_text(names, name)[6] == 0, "a string");
  TS_CHECK(hd_string_pool_mark(names) == 1 && hd_string_pool_flush(names, 0), "flushed");
  TS_CHECK(hd_string_pool_destroy(names) == 0, "none left");

  hd_handles_config handles = {};
  handles.struct_bytes = sizeof handles;
  hd_handles *table = hd_handles_create(&handles);
  hd_handle handle = hd_handles_alloc(table, 100);
  TS_CHECK(hd_handles_get(table, handle) != NULL && hd_handles_bytes(table, handle) == 100, "a block");
  /* Without a limit of the program's a table is for many blocks, on every machine. */
  for (int i = 1; i < 1000; i++) TS_CHECK(hd_handles_alloc(table, 16) != 0, "block %d", i);
  TS_CHECK(hd_handles_destroy(table) == 1000, "all left");
  return 0;
}
