/* Fuzz target: the reader of saved index pools, whose files come from anywhere. The first byte says what the fuzzer made up: the whole
 * file, or its header's figures, slots and map, to which the right checksums are then added so that the reader goes on.
 * A refused file leaves the pool as it was; a pool that was loaded agrees with itself and serves.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include <heddle/index_pool.h>

#include "fuzz.h"

/* Where the fields of the header are. */
enum { MAGIC_AT = 0, VERSION_AT = 12, END_AT = 32, USED_AT = 40, COUNT_AT = 48, SLOTS_AT = 56, MAP_AT = 64, HASH_AT = 120, HEADER = 128 };
enum { SLOT = 8, LIMIT = 2000, FILE_MAX = 1 << 16 };

static unsigned char file[FILE_MAX];
static size_t file_bytes, file_at;

static uint64_t mix(uint64_t lane, uint64_t word) {
  uint64_t x = (lane ^ word) * UINT64_C(0x9fb21c651e98df25);
  return x ^ (x >> 32);
}

/* The checksum, made a second time from its description. */
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

static void put64(size_t at, uint64_t value) { memcpy(file + at, &value, 8); }

static bool write_file(void *user, const void *data, size_t bytes) {
  (void)user;
  memcpy(file + file_bytes, data, bytes);
  file_bytes += bytes;
  return true;
}

static bool read_file(void *user, void *data, size_t bytes, size_t *done) {
  (void)user;
  *done = bytes < file_bytes - file_at ? bytes : file_bytes - file_at;
  memcpy(data, file + file_at, *done);
  file_at += *done;
  return true;
}

/* A good file's header with figures of the input's, and the input as slots and map behind it. */
static void seal(struct fz *in, hd_index_pool *pool) {
  hd_index_pool *pattern = pool;
  FZ_CHECK(hd_index_pool_save_to(pattern, write_file, NULL, NULL) == HD_INDEX_OK, "%s", hd_index_pool_error(pattern));
  unsigned how = fz_byte(in);
  size_t used = fz_word(in) % (LIMIT + 50), count = fz_word(in) % (LIMIT + 50);
  size_t slots = how & 1 ? in->left : fz_word(in) % 3000; /* mostly as many as the map has bytes */
  size_t map = in->left < slots ? in->left : slots;
  memset(file + HEADER, 0, sizeof file - HEADER);
  memcpy(file + HEADER + slots * SLOT, in->at, map);
  put64(END_AT, slots + 1);
  put64(USED_AT, used);
  put64(COUNT_AT, count);
  if (how & 2) { /* counts that agree with the map, so far as it is one of small objects */
    used = count = 0;
    for (size_t at = 0; at < map;) {
      unsigned state = in->at[at], length = state & 127;
      if (length == 0 || length > HD_INDEX_EXACT_SLOTS) break;
      if (state < 128) used += length, count++;
      at += length;
    }
    put64(USED_AT, used);
    put64(COUNT_AT, count);
  }
  if (how & 4) file[VERSION_AT + how % 100] ^= (unsigned char)(1u << how % 8);
  put64(SLOTS_AT, checksum(file + HEADER, slots * SLOT));
  put64(MAP_AT, checksum(file + HEADER + slots * SLOT, slots));
  put64(HASH_AT, checksum(file, HASH_AT));
  file_bytes = HEADER + slots * (SLOT + 1);
}

static hd_index_pool *make(bool tokens) {
  hd_index_config config = {.struct_bytes = sizeof config, .name = "file", .slot_bytes = SLOT, .object_slots = tokens, .maximum = LIMIT};
  hd_index_pool *pool = hd_index_pool_create(&config);
  FZ_CHECK(pool != NULL, "no pool, errno %d", errno);
  return pool;
}

/* A pool that came from a file is used as any other. */
static void use(hd_index_pool *pool) {
  uint32_t taken[40];
  unsigned count = 0;
  for (uint32_t slots = 1; slots <= 40; slots++) {
    uint32_t index = hd_index_pool_take(pool, slots);
    if (index == 0) continue;
    memset(hd_index_pool_at(pool, index), 0xee, (size_t)slots * SLOT);
    taken[count++] = index;
  }
  FZ_CHECK(hd_index_pool_check(pool) == NULL, "%s", hd_index_pool_check(pool));
  for (uint32_t at = hd_index_pool_next(pool, 0), seen = 0; at != 0; at = hd_index_pool_next(pool, at))
    if (seen++ % 3 == 0) hd_index_pool_give(pool, at);
  hd_index_pool_merge(pool);
  FZ_CHECK(hd_index_pool_check(pool) == NULL && count <= 40 && taken[0] != UINT32_MAX, "%s", hd_index_pool_check(pool));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct fz in = {data, bytes};
  unsigned how = fz_byte(&in);
  hd_index_pool *pool = make(how & 1);
  uint32_t kept = hd_index_pool_take(pool, 1);
  fz_fill(hd_index_pool_at(pool, kept), SLOT, 5);
  file_bytes = file_at = 0;
  if (how & 2) {
    seal(&in, pool);
  } else {
    file_bytes = in.left < FILE_MAX ? in.left : FILE_MAX;
    memcpy(file, in.at, file_bytes);
  }
  fz_count_reports();
  if (hd_index_pool_load_from(pool, read_file, NULL) == HD_INDEX_OK) {
    FZ_CHECK(hd_index_pool_check(pool) == NULL, "loaded: %s", hd_index_pool_check(pool));
    unsigned before = fz_reports;
    if ((how & 1) == 0) use(pool);
    FZ_CHECK(fz_reports == before, "a report from a good pool");
  } else {
    FZ_CHECK(hd_index_pool_check(pool) == NULL && hd_index_pool_slots(pool, kept) == 1, "a refused file changed the pool");
    FZ_CHECK(strlen(hd_index_pool_error(pool)) > 20, "no sentence");
    fz_want(hd_index_pool_at(pool, kept), SLOT, 5, "an object after a refused file");
  }
  hd_index_pool_destroy(pool);
  return 0;
}
