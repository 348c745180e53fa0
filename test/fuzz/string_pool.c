/* Fuzz target: scripts of string pools, plain and interning. Strings keep their bytes and numbers, equal ones are found, and a flush
 * takes back exactly what came after its mark.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include <heddle/string_pool.h>

#include "fuzz.h"

enum { STRINGS = 500, STEPS_MAX = 400, LIMIT = 20000 };

static hd_string_pool *pool;
static struct string {
  unsigned char bytes[64]; /* the start of longer ones */
  size_t length;
} string[STRINGS];
static unsigned count;
static bool interns;

static bool is_equal(unsigned index, const void *bytes, size_t length) {
  return string[index].length == length && memcmp(hd_string_pool_text(pool, index), bytes, length) == 0;
}

static uint64_t find(const void *bytes, size_t length) {
  for (unsigned i = 0; i < count; i++)
    if (is_equal(i, bytes, length)) return i;
  return HD_STRING_NONE;
}

static void append(struct fz *in) {
  static unsigned char made[4096];
  unsigned how = fz_byte(in);
  size_t length = how & 128 ? fz_word(in) % sizeof made : how % 24;
  unsigned seed = fz_byte(in);
  if (count == STRINGS) return;
  for (size_t i = 0; i < length; i++) made[i] = (unsigned char)(seed * (i + 1) >> 2);
  const void *bytes = made;
  if (how & 64 && count > 0) { /* a string of the pool itself, or a part of one */
    unsigned from = seed % count;
    length = string[from].length / (1 + how % 2);
    bytes = hd_string_pool_text(pool, from);
  }
  uint64_t known = interns ? find(bytes, length) : HD_STRING_NONE;
  if (interns) FZ_CHECK(hd_string_pool_find(pool, bytes, length) == known, "find of %zu bytes", length);
  memcpy(made, bytes, bytes == made ? 0 : length);
  errno = 0;
  uint64_t index = how & 1 ? hd_string_pool_append(pool, bytes, length) : HD_STRING_NONE;
  if ((how & 1) == 0) {
    uint32_t narrow = hd_string_pool_append_32(pool, bytes, length);
    index = narrow == HD_STRING_NONE_32 ? HD_STRING_NONE : narrow;
  }
  FZ_CHECK(errno == (index == HD_STRING_NONE ? ENOMEM : 0), "errno %d", errno);
  if (index == HD_STRING_NONE) return;
  FZ_CHECK(index == (known != HD_STRING_NONE ? known : count), "number %llu of %u", (unsigned long long)index, count);
  const char *text = hd_string_pool_text(pool, index);
  FZ_CHECK(hd_string_pool_length(pool, index) == length && memcmp(text, made, length) == 0 && text[length] == 0, "stored bytes");
  if (index < count) return;
  string[count].length = length;
  memcpy(string[count++].bytes, made, length < 64 ? length : 64);
}

static void check(void) {
  size_t used = 0;
  for (unsigned i = 0; i < count; i++) {
    const char *text = hd_string_pool_text(pool, i);
    size_t length = string[i].length;
    used += length + 1;
    FZ_CHECK(hd_string_pool_length(pool, i) == length && memcmp(text, string[i].bytes, length < 64 ? length : 64) == 0, "string %u", i);
    FZ_CHECK(hd_string_pool_index(pool, text) == i, "index of string %u", i);
    if (length > 0) FZ_CHECK(hd_string_pool_index(pool, text + 1) == HD_STRING_NONE, "index of the inside of string %u", i);
  }
  hd_string_pool_stats stats = {.struct_bytes = sizeof stats};
  FZ_CHECK(hd_string_pool_stats_get(pool, &stats) && stats.used == used && stats.count == count, "%zu bytes, not %zu", stats.used, used);
  FZ_CHECK(stats.used <= stats.limit && stats.max >= used && stats.allocated >= used, "limits");
  FZ_CHECK(hd_string_pool_text(pool, count) == NULL && hd_string_pool_length(pool, count) == 0, "a string that is none");
}

static void flush(unsigned mark) {
  errno = 0;
  bool done = hd_string_pool_flush(pool, mark);
  FZ_CHECK(done == (mark <= count) && errno == (done ? 0 : EINVAL), "flush to %u of %u", mark, count);
  if (done) count = mark;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct fz in = {data, bytes};
  unsigned how = fz_byte(&in);
  hd_string_pool_config config = {.struct_bytes = sizeof config, .name = "fuzz", .limit_bytes = LIMIT, .intern = how & 1};
  interns = config.intern;
  config.limit_count = how & 2 ? 50 : 0;
  config.step_bytes = how & 4 ? 100 : 0;
  config.kept_bytes = how & 8 ? 5000 : 0;
  pool = hd_string_pool_create(&config);
  FZ_CHECK(pool != NULL, "no pool, errno %d", errno);
  count = 0;
  for (unsigned step = 0; step < STEPS_MAX && in.left > 0; step++) {
    unsigned what = fz_byte(&in);
    if (what % 16 == 0) check();
    else if (what % 16 == 1) flush(fz_byte(&in) % (count + 2));
    else append(&in);
  }
  check();
  FZ_CHECK(hd_string_pool_destroy(pool) == count, "strings that were held");
  return 0;
}
