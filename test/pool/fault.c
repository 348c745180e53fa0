/* No memory, at every call that could be refused: the n-th call of the layer below fails, once or from then on. Nobody crashes, what
 * succeeded stays right, nothing leaks, and afterwards everything works again.
 *
 * Linked with --wrap for the functions below.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../support/support.h"
#include "core/region.h"
#include "core/space.h"
#include "core/store.h"
#include "heddle/handle.h"
#include "heddle/pool.h"
#include "heddle/string_pool.h"

static size_t calls, first_refused, last_refused; /* calls [first_refused, last_refused) fail */

static bool refuse(void) {
  size_t call = calls++;
  return call >= first_refused && call < last_refused;
}

void *__real_hdi_store_take(size_t bytes);
void *__wrap_hdi_store_take(size_t bytes) { return refuse() ? NULL : __real_hdi_store_take(bytes); }

void *__real_hdi_region_reserve(hd_area_kind kind, const char *name, size_t bytes);
void *__wrap_hdi_region_reserve(hd_area_kind kind, const char *name, size_t bytes) {
  if (!refuse()) return __real_hdi_region_reserve(kind, name, bytes);
  errno = ENOMEM;
  return NULL;
}

size_t __real_hdi_region_purge(void *region, size_t offset, size_t bytes, size_t *start);
size_t __wrap_hdi_region_purge(void *region, size_t offset, size_t bytes, size_t *start) {
  return refuse() ? (*start = offset, 0) : __real_hdi_region_purge(region, offset, bytes, start);
}

/* Each workload returns whether everything it asked for was granted. */

static bool pools(void) {
  enum { COUNT = 30 };
  static uint8_t *items[COUNT];
  hd_pool_config config = {.struct_bytes = sizeof config, .name = "fault", .item_bytes = 1000000, .kept = 3};
  errno = 0;
  hd_pool *pool = hd_pool_create(&config);
  if (pool == NULL) {
    TS_CHECK(errno == ENOMEM, "errno %d", errno);
    return false;
  }
  size_t got = 0;
  bool all = true;
  for (size_t i = 0; i < COUNT; i++) {
    errno = 0;
    uint8_t *item = hd_pool_take_zeroed(pool);
    TS_CHECK(errno == (item == NULL ? ENOMEM : 0), "errno %d", errno);
    if (item == NULL) all = false;
    else {
      TS_CHECK(item[0] == 0 && item[5000] == 0 && item[999999] == 0, "zeroed");
      for (size_t at = 0; at < 1000000; at += 4000) item[at] = 0x55;
      item[999999] = 0x55;
      items[got++] = item;
    }
  }
  for (size_t i = 0; i < got; i += 2) hd_pool_give(pool, items[i]);
  hd_pool_flush(pool);
  hd_pool_stats stats = {.struct_bytes = sizeof stats};
  hd_pool_stats_get(pool, &stats);
  TS_CHECK(stats.used == got / 2 && stats.count == got && stats.max == got, "used %zu of %zu", stats.used, got);
  for (size_t i = 0; i < got / 2; i++) {
    uint8_t *item = hd_pool_take_zeroed(pool);
    if (item == NULL) all = false;
    else for (size_t at = 0; at < 1000000; at += 4000) TS_CHECK(item[at] == 0, "zeroed at %zu", at);
  }
  hd_pool_reset(pool);
  TS_CHECK(hd_pool_destroy(pool) == 0, "reset");
  return all;
}

static bool strings(void) {
  hd_string_pool_config config = {.struct_bytes = sizeof config, .name = "fault", .intern = true};
  errno = 0;
  hd_string_pool *pool = hd_string_pool_create(&config);
  if (pool == NULL) {
    TS_CHECK(errno == ENOMEM, "errno %d", errno);
    return false;
  }
  bool all = true;
  uint64_t count = 0;
  for (uint64_t i = 0; i < 15000; i++) {
    uint64_t index = hd_string_pool_append(pool, &i, sizeof i);
    if (index == HD_STRING_NONE) all = false;
    else TS_CHECK(index == count++, "number %llu", (unsigned long long)index);
  }
  for (uint64_t i = 0; i < count; i += 100) {
    TS_CHECK(hd_string_pool_find(pool, hd_string_pool_text(pool, i), 8) == i, "string %llu is found", (unsigned long long)i);
  }
  TS_CHECK(hd_string_pool_flush(pool, 5), "flush");
  TS_CHECK(hd_string_pool_find(pool, hd_string_pool_text(pool, 4), 8) == 4, "found after the flush");
  TS_CHECK(hd_string_pool_destroy(pool) == 5, "five left");
  return all;
}

static bool handles(void) {
  static hd_handle table_of[2000];
  hd_handles_config config = {.struct_bytes = sizeof config, .name = "fault"};
  errno = 0;
  hd_handles *table = hd_handles_create(&config);
  if (table == NULL) {
    TS_CHECK(errno == ENOMEM, "errno %d", errno);
    return false;
  }
  for (size_t i = 0; i < 2000; i++) {
    table_of[i] = hd_handles_alloc(table, 1000);
    TS_CHECK(table_of[i] != 0, "a handle");
    memset(hd_handles_get(table, table_of[i]), (int)i, 1000);
  }
  for (size_t i = 0; i < 2000; i++) {
    if (i % 3) hd_handles_free(table, table_of[i]);
  }
  hd_handles_trim(table);
  while (!hd_handles_compact(table, 50000).done) {}
  for (size_t i = 0; i < 2000; i += 3) TS_CHECK(((uint8_t *)hd_handles_get(table, table_of[i]))[999] == (uint8_t)i, "content");
  hd_handles_reset(table);
  TS_CHECK(hd_handles_destroy(table) == 0, "reset");
  return true;
}

static size_t units_out(void) { return hdi_space.top - hdi_space.free_units; }

static void every_call(const char *name, bool (*workload)(void)) {
  first_refused = last_refused = SIZE_MAX;
  TS_CHECK(workload(), "%s works", name);
  calls = 0;
  TS_CHECK(workload(), "%s works", name);
  size_t total = calls, units = units_out(), used = hdi_store_used();
  TS_CHECK(total > 3, "%s makes calls that can fail", name);
  for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
    for (size_t n = 0; n < total; n += 1 + (n > 40 ? total / 20 : 0)) {
      calls = 0;
      first_refused = n;
      last_refused = from_then_on ? SIZE_MAX : n + 1;
      workload();
      first_refused = last_refused = SIZE_MAX;
      TS_CHECK(units_out() == units && hdi_store_used() == used, "%s leaks nothing when call %zu fails", name, n);
      TS_CHECK(n % 8 != 0 || workload(), "%s works again", name);
    }
  }
  printf("%s: %zu calls\n", name, total);
}

int main(void) {
  TS_CHECK(hd_option_set("purge", "off") == HD_OK, "runs that are being purged would be counted as leaks");
  every_call("pools", pools);
  every_call("strings", strings);
  every_call("handles", handles);
  return 0;
}
