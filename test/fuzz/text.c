/* Fuzz target: text without allocation. A script of pieces is put into a buffer of any size and compared with what snprintf makes; sizes
 * are read and compared with a reader of our own; statistics are cut at any length.
 *
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <heddle.h>

#include "base/text.h"
#include "fuzz.h"

enum { ROOM = 400 };

static char expected[4096];
static size_t wanted;

static uint64_t number(struct fz *in) {
  uint64_t value = 0;
  for (unsigned i = fz_byte(in) % 9; i > 0; i--) value = value << 8 | fz_byte(in);
  return value;
}

static void expect_bytes(uint64_t bytes) {
  static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB"};
  unsigned step = 0;
  while (step < 4 && bytes >> 10 * (step + 1) != 0) step++;
  if (step == 0) wanted += (size_t)sprintf(expected + wanted, "%" PRIu64 " B", bytes);
  else
    wanted += (size_t)sprintf(expected + wanted, "%" PRIu64 ".%u %s", bytes >> 10 * step,
                              (unsigned)((bytes >> 10 * (step - 1) & 1023) * 10 / 1024), unit[step - 1]);
}

static void put_piece(hd_text *text, struct fz *in) {
  char piece[40];
  unsigned what = fz_byte(in);
  unsigned length = fz_byte(in) % (sizeof piece - 1);
  int width = (int)(fz_byte(in) % 81) - 40;
  uint64_t value = number(in);
  memset(piece, 'a' + (int)(what % 26), length);
  piece[length] = 0;
  switch (what % 5) {
    case 0: hdi_text_put(text, piece), wanted += (size_t)sprintf(expected + wanted, "%s", piece); break;
    case 1: hdi_text_decimal(text, value), wanted += (size_t)sprintf(expected + wanted, "%" PRIu64, value); break;
    case 2: hdi_text_hex(text, value), wanted += (size_t)sprintf(expected + wanted, "0x%" PRIx64, value); break;
    case 3: hdi_text_pad(text, piece, width), wanted += (size_t)sprintf(expected + wanted, "%*s", -width, piece); break;
    default: hdi_text_bytes(text, value), expect_bytes(value);
  }
}

static void put(struct fz *in) {
  char buffer[ROOM + 1];
  hd_text text;
  size_t room = fz_word(in) % ROOM;
  memset(buffer, '#', sizeof buffer);
  hdi_text_start(&text, room ? buffer : NULL, room);
  wanted = 0;
  expected[0] = 0;
  while (in->left > 0 && wanted < sizeof expected - 200) put_piece(&text, in);
  size_t length = wanted < room ? wanted : room - (room > 0);
  FZ_CHECK(text.wanted == wanted && hdi_text_length(&text) == length, "wanted %zu, not %zu", text.wanted, wanted);
  if (room == 0) return;
  FZ_CHECK(memcmp(buffer, expected, length) == 0 && buffer[length] == 0, "'%.*s', not '%s'", (int)length, buffer, expected);
  FZ_CHECK(buffer[room] == '#', "written behind the buffer");
}

/* Decimal digits, then nothing, or one of kmgt, then perhaps i, then perhaps b, in either case. */
static bool read_plainly(const char *s, size_t length, uint64_t *value) {
  unsigned __int128 sum = 0;
  size_t at = 0;
  for (; at < length && s[at] >= '0' && s[at] <= '9'; at++) {
    sum = sum * 10 + (unsigned)(s[at] - '0');
    if (sum > UINT64_MAX) return false;
  }
  if (at == 0) return false;
  if (at < length) {
    const char *units = "kKmMgGtT", *found = s[at] ? strchr(units, s[at]) : NULL;
    if (found == NULL) return false;
    sum <<= 10 * ((found - units) / 2 + 1);
    at++;
    if (at < length && (s[at] == 'i' || s[at] == 'I')) at++;
    if (at < length && (s[at] == 'b' || s[at] == 'B')) at++;
  }
  *value = (uint64_t)sum;
  return at == length && sum <= UINT64_MAX;
}

static void read_size(struct fz *in) {
  uint64_t got = 7, right = 7;
  const char *text = (const char *)in->at;
  bool done = hdi_text_read_bytes(text, in->left, &got), want = read_plainly(text, in->left, &right);
  FZ_CHECK(done == want && (!done || got == right), "%.*s read as %" PRIu64 ", not %" PRIu64, (int)in->left, text, got, right);
}

static void print_stats(struct fz *in, bool json) {
  static char buffer[8192];
  size_t room = fz_word(in) % 4096;
  memset(buffer, '#', sizeof buffer);
  size_t whole = json ? hd_stats_json(buffer, room) : hd_stats_text(buffer, room);
  FZ_CHECK(whole > 100 && whole < 4096 && buffer[room] == '#', "statistics of %zu characters", whole);
  if (room > 0) FZ_CHECK(strlen(buffer) == (whole < room ? whole : room - 1), "cut at %zu", room);
  if (json && whole < room) FZ_CHECK(buffer[0] == '{' && buffer[whole - 1] == '\n' && buffer[whole - 2] == '}', "no whole object");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct fz in = {data, bytes};
  unsigned what = fz_byte(&in);
  if (what % 8 < 4) put(&in);
  else if (what % 8 < 7) read_size(&in);
  else print_stats(&in, what & 8);
  return 0;
}
