/* See fuzz.h.
 *
 * SPDX-License-Identifier: MIT */
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <heddle.h>

/* Under a sanitizer Heddle would pass every call through. Misuse is counted, not printed; nothing happens behind the target's back. */
const char *heddle_options = "passthrough:off,onerror:ignore,purge:off";

enum { START_BYTES = 4096, END_BYTES = 64 };

unsigned fz_reports;

static void count_report(const void *p, const char *code) {
  (void)p, (void)code;
  fz_reports++;
}

void fz_count_reports(void) { hd_misuse_hook_set(count_report); }

_Noreturn void fz_fail(const char *file, int line, const char *condition, const char *format, ...) {
  va_list list;
  va_start(list, format);
  fprintf(stderr, "FAIL %s:%d: %s: ", file, line, condition);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  abort();
}

static unsigned char byte_of(unsigned tag, size_t at) { return (unsigned char)(tag * 31 + at * 7 + (at >> 8) + 1); }

/* The next byte of a block that is looked at: between its ends there are none. */
static size_t next_of(size_t at, size_t bytes) {
  return at + 1 == START_BYTES && bytes > START_BYTES + END_BYTES ? bytes - END_BYTES : at + 1;
}

void fz_fill(void *p, size_t bytes, unsigned tag) {
  for (size_t at = 0; at < bytes; at = next_of(at, bytes)) ((unsigned char *)p)[at] = byte_of(tag, at);
}

void fz_want_whole(const void *p, size_t bytes, unsigned tag, const char *what) {
  for (size_t at = 0; at < bytes; at = next_of(at, bytes))
    FZ_CHECK(((const unsigned char *)p)[at] == byte_of(tag, at), "%s: byte %zu of %zu at %p", what, at, bytes, p);
}

void fz_want(const void *p, size_t bytes, unsigned tag, const char *what) {
  fz_want_whole(p, bytes < START_BYTES ? bytes : START_BYTES, tag, what);
}

bool fz_is_zero(const void *p, size_t bytes) {
  for (size_t at = 0; at < bytes; at = next_of(at, bytes))
    if (((const unsigned char *)p)[at] != 0) return false;
  return true;
}
