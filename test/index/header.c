/* The header alone, as strict C11. header.cpp includes this file as C++17.
 * SPDX-License-Identifier: MIT */
#include <heddle/index_pool.h>

int main(void) {
  hd_index_config config;
  memset(&config, 0, sizeof config);
  config.struct_bytes = sizeof config;
  config.slot_bytes = 24;
  config.maximum = 100;
  hd_index_pool *pool = hd_index_pool_create(&config);
  if (pool == NULL) return 1;
  uint32_t index = hd_index_pool_take_zeroed(pool, 3);
  unsigned char *p = (unsigned char *)hd_index_pool_at(pool, index);
  if (index != 1 || p[71] != 0 || hd_index_pool_slots(pool, index) != 3) return 1;
  if (hd_index_pool_index(pool, p) != index || hd_index_pool_index(pool, p + 1) != 0) return 1;
  hd_index_pool_give(pool, index);
  if (hd_index_pool_slots(pool, index) != 0 || hd_index_pool_free_count(pool, 3) != 1) return 1;
  hd_index_pool_destroy(pool);
  return 0;
}
