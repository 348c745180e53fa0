/* Class pools: one pool for each kind of a table. Owns hd_class_pools.
 * Threads: as the pools themselves. Below: pool.c through its public functions.
 * SPDX-License-Identifier: MIT */
#include <errno.h>

#include "base/bits.h"
#include "base/text.h"
#include "core/region.h"
#include "core/store.h"
#include "heddle/pool.h"

enum { CLASS_MOST = 2000, NAME_WIDTH = 24, NUMBER_WIDTH = 12 };

static size_t struct_bytes(size_t count) { return sizeof(hd_class_pools) + count * sizeof(hd_pool *); }

HD_EXPORT hd_class_pools *hd_class_pools_create(const hd_pool_class *table, size_t count, const hd_pool_config *common) {
  if (table == NULL || count == 0 || count > CLASS_MOST || (common != NULL && common->struct_bytes < sizeof *common)) {
    errno = EINVAL;
    return NULL;
  }
  hd_class_pools *pools = hdi_region_start() ? hdi_store_take(struct_bytes(count)) : NULL;
  if (pools == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  pools->count = count;
  pools->pools = (hd_pool **)(pools + 1);
  for (size_t kind = 0; kind < count; kind++) {
    if (table[kind].item_bytes == 0) continue;
    hd_pool_config config = {.struct_bytes = sizeof config};
    if (common != NULL) config = *common;
    config.name = table[kind].name;
    config.item_bytes = table[kind].item_bytes;
    config.kept = table[kind].kept;
    pools->pools[kind] = hd_pool_create(&config);
    if (pools->pools[kind] != NULL) continue;
    int error = errno;
    hd_class_pools_destroy(pools);
    errno = error;
    return NULL;
  }
  return pools;
}

HD_EXPORT size_t hd_class_pools_destroy(hd_class_pools *pools) {
  if (pools == NULL) return 0;
  size_t left = 0, bytes = struct_bytes(pools->count);
  for (size_t kind = 0; kind < pools->count; kind++) left += hd_pool_destroy(pools->pools[kind]);
  memset(pools, 0, bytes);
  hdi_store_give(pools, bytes);
  return left;
}

HD_EXPORT size_t hd_class_pools_flush(hd_class_pools *pools) {
  size_t bytes = 0;
  for (size_t kind = 0; kind < pools->count; kind++) {
    if (pools->pools[kind] != NULL) bytes += hd_pool_flush(pools->pools[kind]);
  }
  return bytes;
}

HD_EXPORT bool hd_class_pools_stats_get(hd_class_pools *pools, hd_pool_stats *stats) {
  if (stats == NULL || stats->struct_bytes < sizeof *stats) return false;
  *stats = (hd_pool_stats){.struct_bytes = stats->struct_bytes};
  for (size_t kind = 0; kind < pools->count; kind++) {
    hd_pool_stats one = {.struct_bytes = sizeof one};
    if (pools->pools[kind] == NULL || !hd_pool_stats_get(pools->pools[kind], &one)) continue;
    stats->used += one.used;
    stats->list += one.list;
    stats->max += one.max;
    stats->count += one.count;
    stats->allocated += one.allocated;
    stats->bytes += one.bytes;
    stats->touched += one.touched;
    stats->growth_count += one.growth_count;
    stats->release_count += one.release_count;
  }
  return true;
}

static void put_number(hd_text *text, uint64_t value) {
  char digits[24];
  hd_text number;
  hdi_text_start(&number, digits, sizeof digits);
  hdi_text_decimal(&number, value);
  hdi_text_put(text, " ");
  hdi_text_pad(text, digits, -NUMBER_WIDTH);
}

static void put_line(hd_text *text, const char *name, const hd_pool_stats *stats) {
  hdi_text_pad(text, name, NAME_WIDTH);
  const uint64_t columns[] = {stats->item_bytes, stats->kept, stats->used, stats->list, stats->max, stats->count, stats->bytes};
  for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) put_number(text, columns[i]);
  hdi_text_put(text, "\n");
}

HD_EXPORT size_t hd_class_pools_text(hd_class_pools *pools, char *buffer, size_t bytes) {
  static const char *const heads[] = {"item bytes", "kept", "used", "list", "max", "count", "bytes"};
  hd_pool_stats stats = {.struct_bytes = sizeof stats};
  hd_text text;
  hdi_text_start(&text, buffer, bytes);
  hdi_text_pad(&text, "pool", NAME_WIDTH);
  for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    hdi_text_put(&text, " ");
    hdi_text_pad(&text, heads[i], -NUMBER_WIDTH);
  }
  hdi_text_put(&text, "\n");
  for (size_t kind = 0; kind < pools->count; kind++) {
    if (pools->pools[kind] == NULL || !hd_pool_stats_get(pools->pools[kind], &stats)) continue;
    put_line(&text, hd_pool_name(pools->pools[kind]), &stats);
  }
  hd_class_pools_stats_get(pools, &stats);
  put_line(&text, "all", &stats);
  return text.wanted;
}
