/* Saved index pools: round trips, and files that must be refused while the pool stays as it is.
 *
 * Every byte of a small file is changed in several ways, and the file is cut at every length. Files with right checksums and a map
 * that contradicts itself are made with a second implementation of the checksum, written here from its description.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <heddle/index_pool.h>

#include "../support/support.h"

/* Where the fields of the header are. */
enum { ENDIAN_AT = 8, VERSION_AT = 12, END_AT = 32, USED_AT = 40, COUNT_AT = 48, SLOTS_AT = 56, MAP_AT = 64, HASH_AT = 120, HEADER = 128 };
enum { MOST = 1 << 16 };

static char directory[64], path[128];
static unsigned char image[MOST], changed[MOST + 16];
static size_t image_bytes;

static hd_index_pool *make(uint32_t slot_bytes, uint32_t object_slots, uint64_t maximum) {
  hd_index_config config = {
      .struct_bytes = sizeof config, .name = "saved", .slot_bytes = slot_bytes, .object_slots = object_slots, .maximum = maximum};
  hd_index_pool *pool = hd_index_pool_create(&config);
  TS_CHECK(pool != NULL, "no pool");
  return pool;
}

/* Live objects of 1, 3, 120 and 2 slots, free ones between. */
static void fill(hd_index_pool *pool, unsigned char value) {
  uint32_t one = hd_index_pool_take(pool, 1), gap = hd_index_pool_take(pool, 5), three = hd_index_pool_take(pool, 3);
  uint32_t big = hd_index_pool_take(pool, 120), hole = hd_index_pool_take(pool, 130), two = hd_index_pool_take(pool, 2);
  memset(hd_index_pool_at(pool, 1), value, (size_t)(two + 1) * 8);
  memset(hd_index_pool_at(pool, three), value + 1, 24);
  memset(hd_index_pool_at(pool, big), value + 2, 120 * 8);
  hd_index_pool_give(pool, gap);
  hd_index_pool_give(pool, hole);
  TS_CHECK(one == 1 && two == 260, "indexes %u %u", one, two);
}

typedef struct picture {
  hd_index_stats stats;
  uint64_t content;
} picture;

static bool add(hd_index_pool *pool, uint32_t index, uint32_t slots, void *user) {
  picture *p = user;
  const unsigned char *at = hd_index_pool_at(pool, index);
  p->content = ts_hash(p->content, index * 1000003u + slots);
  for (size_t i = 0; i < slots * p->stats.item_bytes; i++) p->content = ts_hash(p->content, at[i]);
  return true;
}

static picture look(hd_index_pool *pool) {
  picture p;
  memset(&p, 0, sizeof p);
  p.stats.struct_bytes = sizeof p.stats;
  const char *wrong = hd_index_pool_check(pool);
  TS_CHECK(wrong == NULL, "%s", wrong);
  hd_index_pool_stats_get(pool, &p.stats);
  hd_index_pool_walk(pool, add, &p);
  return p;
}

static void same(hd_index_pool *pool, const picture *before, const char *what) {
  picture now = look(pool);
  TS_CHECK(memcmp(&now, before, sizeof now) == 0, "the pool changed: %s", what);
}

static size_t read_whole(const char *from, unsigned char *to) {
  int fd = open(from, O_RDONLY);
  ssize_t bytes = read(fd, to, MOST);
  TS_CHECK(fd >= 0 && bytes >= 0 && bytes < MOST, "can't read %s", from);
  close(fd);
  return (size_t)bytes;
}

static void write_whole(const char *to, const unsigned char *from, size_t bytes) {
  int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  TS_CHECK(fd >= 0 && write(fd, from, bytes) == (ssize_t)bytes, "can't write %s", to);
  close(fd);
}

static unsigned files_in(const char *where) {
  char command[128];
  unsigned count = 0;
  snprintf(command, sizeof command, "ls -A %s | wc -l", where);
  FILE *pipe = popen(command, "r");
  TS_CHECK(pipe != NULL && fscanf(pipe, "%u", &count) == 1, "%s", command);
  pclose(pipe);
  return count;
}

/* ---- round trips --------------------------------------------------------------------------------------------------- */

static void round_trip(void) {
  hd_index_pool *pool = make(8, 0, 1000), *other = make(8, 0, 1000);
  fill(pool, 7);
  picture saved = look(pool);
  errno = 5;
  TS_CHECK(hd_index_pool_save(pool, path, NULL) == HD_INDEX_OK && errno == 5, "%s, errno %d", hd_index_pool_error(pool), errno);
  same(pool, &saved, "by a save");
  TS_CHECK(files_in(directory) == 1, "files left behind");
  hd_index_pool_take(other, 9);
  errno = 5;
  TS_CHECK(hd_index_pool_load(other, path) == HD_INDEX_OK && errno == 5, "%s, errno %d", hd_index_pool_error(other), errno);
  picture loaded = look(other);
  TS_CHECK(loaded.content == saved.content && loaded.stats.used == saved.stats.used && loaded.stats.free == saved.stats.free, "content");
  TS_CHECK(loaded.stats.free_count == 2 && loaded.stats.large_free == 130, "free lists");
  TS_CHECK(hd_index_pool_take(other, 5) == 2 && hd_index_pool_take(other, 129) == 130, "free objects are not used");
  /* Save over the old file, through a link, and as a stream with something behind it. */
  char link[140], target[140];
  snprintf(link, sizeof link, "%s/link", directory);
  TS_CHECK(symlink(path, link) == 0 && hd_index_pool_save(other, link, NULL) == HD_INDEX_OK, "%s", hd_index_pool_error(other));
  TS_CHECK(readlink(link, target, sizeof target) > 0 && files_in(directory) == 2, "the link was replaced");
  int fd = open(path, O_RDWR | O_TRUNC);
  TS_CHECK(hd_index_pool_save_fd(pool, fd, NULL) == HD_INDEX_OK && write(fd, "tail", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0, "save_fd");
  TS_CHECK(hd_index_pool_load_fd(other, fd) == HD_INDEX_OK && read(fd, target, 8) == 4 && memcmp(target, "tail", 4) == 0, "load_fd");
  close(fd);
  TS_CHECK(look(other).content == saved.content, "content through a descriptor");
  hd_index_pool_reset(pool);
  TS_CHECK(hd_index_pool_save(pool, path, NULL) == HD_INDEX_OK && hd_index_pool_load(other, path) == HD_INDEX_OK, "an empty pool");
  TS_CHECK(look(other).stats.used_count == 0 && hd_index_pool_take(other, 1) == 1, "an empty pool");
  unlink(link);
  hd_index_pool_destroy(pool);
  hd_index_pool_destroy(other);
}

typedef struct memory {
  const unsigned char *at;
  size_t left;
} memory;

static bool read_memory(void *user, void *data, size_t bytes, size_t *done) {
  memory *from = user;
  *done = bytes < from->left ? bytes : from->left;
  memcpy(data, from->at, *done);
  from->at += *done;
  from->left -= *done;
  return true;
}

static hd_index_status load_memory(hd_index_pool *pool, const unsigned char *from, size_t bytes) {
  memory source = {from, bytes};
  return hd_index_pool_load_from(pool, read_memory, &source);
}

/* ---- refused files ------------------------------------------------------------------------------------------------- */

static void expect(hd_index_pool *pool, const picture *before, size_t bytes, hd_index_status status, const char *text) {
  write_whole(path, changed, bytes);
  hd_index_status got = hd_index_pool_load(pool, path);
  const char *error = hd_index_pool_error(pool);
  TS_CHECK(got == status && strstr(error, text) != NULL, "status %d, not %d: %s", got, status, error);
  TS_CHECK(strstr(error, "index pool 'saved': cannot ") == error, "%s", error);
  same(pool, before, text);
}

static void damaged(void) {
  hd_index_pool *pool = make(8, 0, 1000), *target = make(8, 0, 1000);
  fill(pool, 7);
  fill(target, 100);
  picture before = look(target);
  TS_CHECK(hd_index_pool_save(pool, path, NULL) == HD_INDEX_OK, "%s", hd_index_pool_error(pool));
  image_bytes = read_whole(path, image);
  TS_CHECK(image_bytes == HEADER + 261 * 9, "a file of %zu bytes", image_bytes);
  memcpy(changed, image, image_bytes);
  for (size_t at = 0; at < image_bytes; at++) {
    static const unsigned char flips[] = {1, 0x80, 0xff};
    for (unsigned i = 0; i < sizeof flips; i++) {
      changed[at] = image[at] ^ flips[i];
      TS_CHECK(load_memory(target, changed, image_bytes) != HD_INDEX_OK, "byte %zu changed by %x was not found", at, flips[i]);
      if (at % 16 == 0) same(target, &before, "by a damaged file");
    }
    changed[at] = image[at];
  }
  for (size_t length = image_bytes; length-- > 0;) {
    TS_CHECK(load_memory(target, image, length) == HD_INDEX_TRUNCATED, "cut at %zu: %s", length, hd_index_pool_error(target));
    if (length % 16 != 0) continue;
    same(target, &before, "by a short file");
    expect(target, &before, length, HD_INDEX_TRUNCATED, "too early");
  }
  same(target, &before, "at last");
  /* The free object of 5 slots as one of 2 and one of 3: a map as good as the old, and yet not what was saved. */
  memcpy(changed, image, image_bytes);
  TS_CHECK(changed[HEADER + 261 * 8 + 1] == (HD_INDEX_FREE | 5), "where the map is");
  changed[HEADER + 261 * 8 + 1] = HD_INDEX_FREE | 2;
  changed[HEADER + 261 * 8 + 3] = HD_INDEX_FREE | 3;
  expect(target, &before, image_bytes, HD_INDEX_DAMAGED, "checksum");
  memcpy(changed, image, image_bytes);
  expect(target, &before, image_bytes + 1, HD_INDEX_DAMAGED, "behind its end");
  memset(changed, 'x', 300);
  expect(target, &before, 300, HD_INDEX_FOREIGN, "not a saved index pool");
  memcpy(changed, image, image_bytes);
  for (int i = 0; i < 4; i++) changed[ENDIAN_AT + i] = image[ENDIAN_AT + 3 - i];
  expect(target, &before, image_bytes, HD_INDEX_ENDIAN, "byte order");
  memcpy(changed, image, image_bytes);
  changed[VERSION_AT] = 2;
  expect(target, &before, image_bytes, HD_INDEX_VERSION, "version");
  hd_index_pool_destroy(pool);
  hd_index_pool_destroy(target);
}

static void mismatched(void) {
  hd_index_pool *slots = make(16, 0, 1000), *tokens = make(8, 1, 1000), *small = make(8, 0, 260), *exact = make(8, 0, 261);
  picture before = look(slots);
  memcpy(changed, image, image_bytes);
  expect(slots, &before, image_bytes, HD_INDEX_MISMATCH, "slots have another size");
  before = look(tokens);
  expect(tokens, &before, image_bytes, HD_INDEX_MISMATCH, "objects have another size");
  before = look(small);
  expect(small, &before, image_bytes, HD_INDEX_TOO_LARGE, "limit");
  TS_CHECK(hd_index_pool_load(exact, path) == HD_INDEX_OK, "%s", hd_index_pool_error(exact));
  before = look(exact);
  unlink(path);
  TS_CHECK(hd_index_pool_load(exact, path) == HD_INDEX_IO && errno == ENOENT, "a missing file");
  TS_CHECK(hd_index_pool_load(exact, directory) == HD_INDEX_IO && errno == EISDIR, "a directory");
  same(exact, &before, "by a missing file");
  hd_index_pool_destroy(slots);
  hd_index_pool_destroy(tokens);
  hd_index_pool_destroy(small);
  hd_index_pool_destroy(exact);
}

/* ---- right checksums, wrong content ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t lane, uint64_t word) {
  uint64_t x = (lane ^ word) * UINT64_C(0x9fb21c651e98df25);
  return x ^ (x >> 32);
}

static uint64_t checksum(const unsigned char *data, size_t bytes) {
  uint64_t lane[4] = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344), UINT64_C(0xa4093822299f31d0),
                      UINT64_C(0x082efa98ec4e6c89)};
  for (size_t at = 0; at <= bytes; at += 32) {
    unsigned char block[32] = {0};
    memcpy(block, data + at, bytes - at < 32 ? bytes - at : 32);
    for (int i = 0; i < 4; i++) {
      uint64_t word;
      memcpy(&word, block + 8 * i, 8);
      lane[i] = mix(lane[i], word);
    }
  }
  uint64_t all = bytes;
  for (int i = 0; i < 4; i++) all = mix(all >> 29 | all << 35, lane[i]);
  return all;
}

static void put64(size_t at, uint64_t value) { memcpy(changed + at, &value, 8); }

static uint64_t get64(size_t at) {
  uint64_t value;
  memcpy(&value, image + at, 8);
  return value;
}

static void seal(size_t slots) {
  put64(SLOTS_AT, checksum(changed + HEADER, slots * 8));
  put64(MAP_AT, checksum(changed + HEADER + slots * 8, slots));
  put64(HASH_AT, checksum(changed, HASH_AT));
}

static void contradictory(void) {
  struct ts_rng rng = {ts_seed()};
  hd_index_pool *target = make(8, 0, 1000);
  fill(target, 100);
  picture before = look(target);
  size_t map = HEADER + 261 * 8;
  memcpy(changed, image, image_bytes);
  seal(261);
  TS_CHECK(memcmp(changed, image, image_bytes) == 0, "the checksum is not as described");
  /* Any single byte of the map, any value. */
  unsigned accepted = 0;
  for (size_t at = 0; at < 261; at++) {
    for (unsigned i = 0; i < 24; i++) {
      unsigned char value = (unsigned char)ts_next(&rng);
      if (value == image[map + at]) continue;
      memcpy(changed, image, image_bytes);
      changed[map + at] = value;
      seal(261);
      if (load_memory(target, changed, image_bytes) == HD_INDEX_OK) accepted++;
      else TS_CHECK(strstr(hd_index_pool_error(target), "map of objects contradicts itself") != NULL, "%s", hd_index_pool_error(target));
      if (at % 32 == 0) TS_CHECK(hd_index_pool_check(target) == NULL, "%s", hd_index_pool_check(target));
    }
  }
  TS_CHECK(accepted == 0, "%u contradictory maps were accepted", accepted);
  same(target, &before, "by a contradictory file");
  static const struct {
    size_t at;
    uint64_t value;
  } heads[] = {{END_AT, 0}, {USED_AT, 5000}, {USED_AT, 0}, {COUNT_AT, 3}, {END_AT, UINT64_MAX}, {END_AT, 1}, {END_AT, 100}};
  for (unsigned i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    memcpy(changed, image, image_bytes);
    put64(heads[i].at, heads[i].value);
    seal(heads[i].at == END_AT && heads[i].value < 261 && heads[i].value > 0 ? heads[i].value - 1 : 261);
    write_whole(path, changed, image_bytes);
    TS_CHECK(hd_index_pool_load(target, path) != HD_INDEX_OK, "header %u was accepted, used %llu", i, (unsigned long long)get64(USED_AT));
    same(target, &before, "by a contradictory header");
  }
  hd_index_pool_destroy(target);
}

/* ---- saving where the system refuses ---------------------------------------------------------------------------------- */

static void refuses_save(hd_index_pool *pool, const char *where, int error, const char *text) {
  picture before = look(pool);
  hd_index_status status = hd_index_pool_save(pool, where, NULL);
  int got = errno;
  const char *said = hd_index_pool_error(pool);
  TS_CHECK(status == HD_INDEX_IO && got == error, "status %d, errno %d, %s", status, got, said);
  TS_CHECK(strstr(said, text) != NULL && strstr(said, where) != NULL, "%s", said);
  same(pool, &before, "by a save that failed");
}

static void full_disk(void) {
  hd_index_pool *pool = make(8, 0, 1000);
  fill(pool, 9);
  TS_CHECK(hd_index_pool_save(pool, path, NULL) == HD_INDEX_OK, "%s", hd_index_pool_error(pool));
  size_t bytes = read_whole(path, image);
  struct stat device;
  refuses_save(pool, "/dev/full", ENOSPC, "cannot write");
  TS_CHECK(stat("/dev/full", &device) == 0 && S_ISCHR(device.st_mode), "/dev/full was replaced");
  TS_CHECK(hd_index_pool_save(pool, "/dev/null", NULL) == HD_INDEX_OK, "%s", hd_index_pool_error(pool));
  refuses_save(pool, directory, EISDIR, "cannot open");
  char missing[160];
  snprintf(missing, sizeof missing, "%s/none/pool", directory);
  refuses_save(pool, missing, ENOENT, "cannot create a file beside");
  refuses_save(pool, "/proc/none", ENOENT, "cannot create a file beside");
  int fd = open("/dev/full", O_WRONLY);
  TS_CHECK(hd_index_pool_save_fd(pool, fd, NULL) == HD_INDEX_IO && errno == ENOSPC, "a full descriptor");
  close(fd);
  TS_CHECK(hd_index_pool_save_fd(pool, -1, NULL) == HD_INDEX_IO && errno == EBADF, "a bad descriptor");
  /* The limit on file sizes stands for a disk that fills up in the middle: the old file stays. */
  struct rlimit limit = {1000, RLIM_INFINITY};
  signal(SIGXFSZ, SIG_IGN);
  hd_index_pool_take(pool, 300);
  TS_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
  refuses_save(pool, path, EFBIG, "cannot write");
  limit.rlim_cur = RLIM_INFINITY;
  TS_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
  TS_CHECK(files_in(directory) == 1 && read_whole(path, changed) == bytes && memcmp(changed, image, bytes) == 0, "the old file changed");
  /* Permissions do not bind root: be somebody else for the moment. */
  bool root = geteuid() == 0;
  TS_CHECK(chmod(directory, 0555) == 0 && (!root || seteuid(65534) == 0), "chmod, seteuid");
  refuses_save(pool, path, EACCES, "cannot create a file beside");
  TS_CHECK((!root || seteuid(0) == 0) && chmod(directory, 0700) == 0, "seteuid, chmod");
  char *long_path = malloc(5001);
  memset(long_path, 'a', 5000);
  long_path[5000] = 0;
  TS_CHECK(hd_index_pool_save(pool, long_path, NULL) == HD_INDEX_IO && errno == ENAMETOOLONG, "%s", hd_index_pool_error(pool));
  free(long_path);
  TS_CHECK(hd_index_pool_save(pool, NULL, NULL) == HD_INDEX_INVALID, "no path");
  hd_index_save how = {.struct_bytes = sizeof how, .compact = true};
  TS_CHECK(hd_index_pool_save(pool, path, &how) == HD_INDEX_INVALID, "compact without a callback");
  hd_index_pool_destroy(pool);
}

int main(void) {
  strcpy(directory, "/tmp/heddle-index-XXXXXX");
  TS_CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  snprintf(path, sizeof path, "%s/pool", directory);
  round_trip();
  damaged();
  mismatched();
  contradictory();
  full_disk();
  unlink(path);
  rmdir(directory);
  return 0;
}
