/* The system refuses: the n-th of the calls below fails, once or from then on, for every n of a workload that makes a pool, fills it,
 * saves it, loads it, compacts, shrinks and destroys it. Whatever fails, the pool stays whole and the file the old or the new one.
 * The linker puts the functions here between (see CMakeLists.txt).
 * SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <heddle/index_pool.h>

#include "../support/support.h"
#include "core/region.h"
#include "core/store.h"

static struct {
  unsigned calls, fail_at;
  bool on, for_ever;
  unsigned failed;
  unsigned lost; /* of these, writes, syncs of files and renames: what was saved is not safe */
} fault;

static bool fails(void) {
  if (!fault.on) return false;
  unsigned call = ++fault.calls;
  bool now = call == fault.fail_at || (fault.for_ever && call > fault.fail_at);
  fault.failed += now;
  if (now) errno = ENOMEM;
  return now;
}

#define WRAP(result, name, parameters, arguments, refusal) \
  result __real_##name parameters;                         \
  result __wrap_##name parameters;                         \
  result __wrap_##name parameters { return fails() ? refusal : __real_##name arguments; }

WRAP(void *, hdi_region_reserve, (hd_area_kind kind, const char *name, size_t bytes), (kind, name, bytes), NULL)
WRAP(size_t, hdi_region_purge, (void *region, size_t at, size_t bytes, size_t *start), (region, at, bytes, start), 0)
WRAP(void *, hdi_store_take, (size_t bytes), (bytes), NULL)
WRAP(ssize_t, read, (int fd, void *data, size_t bytes), (fd, data, bytes), -1)

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
  struct stat what;
  if (!fails()) return __real_fsync(fd);
  fault.lost += fstat(fd, &what) == 0 && S_ISREG(what.st_mode);
  return -1;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
  if (!fails()) return __real_rename(from, to);
  fault.lost++;
  return -1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  int mode = (flags & O_CREAT) != 0 ? va_arg(list, int) : 0;
  va_end(list);
  return fails() ? -1 : __real_open(path, flags, mode);
}

/* A disk that fills up takes half of it first. */
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes) {
  if (!fails()) return __real_write(fd, data, bytes > 4000 ? bytes / 2 : bytes);
  (void)!__real_write(fd, data, bytes / 2);
  fault.lost++;
  return -1;
}

/* Whatever it says, the descriptor is closed. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
  bool failed = fails();
  int result = __real_close(fd);
  if (failed) errno = EIO;
  return failed ? -1 : result;
}

/* ---- the workload ---------------------------------------------------------------------------------------------------- */

enum { OBJECTS = 3000 };

static char directory[64], path[128];
static uint32_t held[OBJECTS], held_slots[OBJECTS];

static void moved(hd_index_pool *pool, uint32_t from, uint32_t to, uint32_t slots, void *user) {
  (void)pool, (void)slots, (void)user;
  for (unsigned i = 0; i < OBJECTS; i++) {
    if (held[i] == from) held[i] = to;
  }
}

static uint32_t content(unsigned i) { return i * 2654435761u + 1; }

static void verify(hd_index_pool *pool) {
  bool on = fault.on;
  uint32_t live = 0;
  fault.on = false;
  const char *wrong = hd_index_pool_check(pool);
  TS_CHECK(wrong == NULL, "%s", wrong);
  for (unsigned i = 0; i < OBJECTS; i++) {
    if (held[i] == 0) continue;
    live++;
    TS_CHECK(hd_index_pool_slots(pool, held[i]) == held_slots[i], "object %u", i);
    TS_CHECK(*(uint32_t *)hd_index_pool_at(pool, held[i]) == content(i), "object %u", i);
  }
  hd_index_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_index_pool_stats_get(pool, &stats) && stats.used_count == live, "%u objects", live);
  fault.on = on;
}

static void work(hd_index_pool *pool) {
  for (unsigned i = 0; i < OBJECTS; i++) {
    held_slots[i] = i % 50 == 0 ? 150 : 1 + i % 7;
    held[i] = hd_index_pool_take(pool, held_slots[i]);
    TS_CHECK(held[i] != 0, "growing needs nothing of the system");
    *(uint32_t *)hd_index_pool_at(pool, held[i]) = content(i);
  }
  verify(pool);
  bool saved = hd_index_pool_save(pool, path, NULL) == HD_INDEX_OK;
  TS_CHECK(saved ? fault.lost == 0 : fault.failed > 0, "save: %s", hd_index_pool_error(pool));
  verify(pool);
  bool loaded = saved && hd_index_pool_load(pool, path) == HD_INDEX_OK;
  TS_CHECK(loaded || fault.failed > 0, "load: %s", hd_index_pool_error(pool));
  verify(pool);
  for (unsigned i = 0; i < OBJECTS; i++) {
    if (i % 3 == 0) continue;
    hd_index_pool_give(pool, held[i]);
    held[i] = 0;
  }
  hd_index_pool_shrink(pool);
  verify(pool);
  hd_index_save how = {.struct_bytes = sizeof how, .compact = true, .moved = moved};
  fault.lost = 0;
  bool replaced = hd_index_pool_save(pool, path, &how) == HD_INDEX_OK;
  TS_CHECK(replaced ? fault.lost == 0 : fault.failed > 0, "save: %s", hd_index_pool_error(pool));
  verify(pool);
  hd_index_pool_shrink(pool);
  verify(pool);
}

/* The file, if there is one, is a whole pool; nothing else lies in the directory. */
static void look_at_files(void) {
  hd_index_config config = {.struct_bytes = sizeof config, .slot_bytes = 8, .maximum = 100000};
  hd_index_pool *pool = hd_index_pool_create(&config);
  DIR *files = opendir(directory);
  TS_CHECK(pool != NULL && files != NULL, "can't look at the files");
  for (struct dirent *entry = readdir(files); entry != NULL; entry = readdir(files)) {
    if (entry->d_name[0] == '.') continue;
    TS_CHECK(strcmp(entry->d_name, "pool") == 0, "%s was left behind", entry->d_name);
    TS_CHECK(hd_index_pool_load(pool, path) == HD_INDEX_OK, "a broken file: %s", hd_index_pool_error(pool));
  }
  closedir(files);
  hd_index_pool_destroy(pool);
}

static void run(unsigned fail_at, bool for_ever) {
  hd_index_config config = {.struct_bytes = sizeof config, .name = "fault", .slot_bytes = 8, .maximum = 100000, .step = 100};
  fault.calls = fault.failed = fault.lost = 0;
  fault.fail_at = fail_at;
  fault.for_ever = for_ever;
  fault.on = true;
  errno = 0;
  hd_index_pool *pool = hd_index_pool_create(&config);
  TS_CHECK(pool != NULL || (fault.failed > 0 && errno == ENOMEM), "no pool");
  if (pool != NULL) work(pool);
  hd_index_pool_destroy(pool);
  fault.on = false;
  look_at_files();
}

static uint64_t figures(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  hd_stats_get(&stats);
  return stats.object_count * 1000000 + hdi_store_used();
}

int main(void) {
  strcpy(directory, "/tmp/heddle-index-XXXXXX");
  TS_CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  snprintf(path, sizeof path, "%s/pool", directory);
  run(0, false);
  unsigned calls = fault.calls;
  uint64_t before = figures();
  TS_CHECK(calls > 20, "only %u calls pass through the test", calls);
  for (unsigned n = 1; n <= calls; n++) {
    snprintf(ts_replay, sizeof ts_replay, "call %u of %u", n, calls);
    run(n, false);
    TS_CHECK(fault.failed == 1, "nothing failed");
    if (n % 2 == 0) (void)unlink(path);
    run(n, true);
    TS_CHECK(figures() == before, "something leaks: %llu, not %llu", (unsigned long long)figures(), (unsigned long long)before);
  }
  (void)unlink(path);
  (void)rmdir(directory);
  return 0;
}
