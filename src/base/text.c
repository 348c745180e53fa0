/* See text.h.
 * SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <string.h>

void hdi_text_start(hd_text *text, char *buffer, size_t bytes) {
  text->buffer = buffer;
  text->bytes = bytes;
  text->wanted = 0;
  if (bytes > 0) buffer[0] = 0;
}

void hdi_text_put_n(hd_text *text, const char *string, size_t length) {
  if (text->wanted + 1 < text->bytes) {
    size_t room = text->bytes - 1 - text->wanted;
    size_t part = length < room ? length : room;
    memcpy(text->buffer + text->wanted, string, part);
    text->buffer[text->wanted + part] = 0;
  }
  text->wanted += length;
}

void hdi_text_put(hd_text *text, const char *string) { hdi_text_put_n(text, string, strlen(string)); }

void hdi_text_decimal(hd_text *text, uint64_t value) {
  char digits[20];
  size_t at = sizeof digits;
  do digits[--at] = (char)('0' + value % 10);
  while ((value /= 10) != 0);
  hdi_text_put_n(text, digits + at, sizeof digits - at);
}

void hdi_text_hex(hd_text *text, uint64_t value) {
  char digits[18];
  size_t at = sizeof digits;
  do digits[--at] = "0123456789abcdef"[value & 15];
  while ((value >>= 4) != 0);
  digits[--at] = 'x';
  digits[--at] = '0';
  hdi_text_put_n(text, digits + at, sizeof digits - at);
}

void hdi_text_pad(hd_text *text, const char *string, int width) {
  size_t length = strlen(string);
  size_t want = (size_t)(width < 0 ? -width : width);
  if (width > 0) hdi_text_put_n(text, string, length);
  for (size_t i = length; i < want; i++) hdi_text_put_n(text, " ", 1);
  if (width <= 0) hdi_text_put_n(text, string, length);
}

void hdi_text_bytes(hd_text *text, uint64_t bytes) {
  static const char *const unit[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  unsigned step = 0;
  uint64_t rest = 0; /* below the unit, in 1024ths of it */
  while (bytes >= 1024 && step < 4) {
    rest = bytes % 1024;
    bytes /= 1024;
    step++;
  }
  hdi_text_decimal(text, bytes);
  if (step > 0) {
    hdi_text_put(text, ".");
    hdi_text_decimal(text, rest * 10 / 1024);
  }
  hdi_text_put(text, unit[step]);
}

size_t hdi_text_length(const hd_text *text) {
  if (text->bytes == 0) return 0;
  return text->wanted < text->bytes ? text->wanted : text->bytes - 1;
}

bool hdi_text_read_bytes(const char *string, size_t length, uint64_t *value) {
  static const char suffix[] = "kmgt";
  uint64_t number = 0;
  size_t at = 0;
  for (; at < length && string[at] >= '0' && string[at] <= '9'; at++) {
    if (__builtin_mul_overflow(number, (uint64_t)10, &number)) return false;
    if (__builtin_add_overflow(number, (uint64_t)(string[at] - '0'), &number)) return false;
  }
  if (at == 0) return false;
  if (at < length) {
    const char *found = memchr(suffix, string[at] | 0x20, sizeof suffix - 1);
    if (found == NULL) return false;
    unsigned shift = 10 * (unsigned)(found - suffix + 1);
    if (number > UINT64_MAX >> shift) return false;
    number <<= shift;
    at++;
    if (at < length && (string[at] | 0x20) == 'i') at++;
    if (at < length && (string[at] | 0x20) == 'b') at++;
  }
  *value = number;
  return at == length;
}

bool hdi_text_equal(const char *a, size_t length, const char *b) { return strlen(b) == length && memcmp(a, b, length) == 0; }
