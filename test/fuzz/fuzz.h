/* What the fuzz targets share: reading a script from bytes, and failing.
 *
 * A target is one file with one function, LLVMFuzzerTestOneInput. libFuzzer calls it with inputs that it makes up (clang/CMakeLists.txt),
 * replay.c with those that are kept in files (any compiler). What a target may rely on: it starts with the memory as the last input
 * left it, so it takes down whatever it made; the same input does the same.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/** End the process, as a crash that the fuzzer keeps, unless the condition holds. */
#define FZ_CHECK(condition, ...) ((condition) ? (void)0 : fz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__))
_Noreturn void fz_fail(const char *file, int line, const char *condition, const char *format, ...) __attribute__((format(printf, 4, 5)));

/** The rest of an input. */
struct fz {
  const uint8_t *at;
  size_t left;
};

/** The next byte; 0 behind the end. */
static inline unsigned fz_byte(struct fz *in) {
  if (in->left == 0) return 0;
  in->left--;
  return *in->at++;
}

/** Two bytes, three bytes. */
static inline unsigned fz_word(struct fz *in) {
  unsigned high = fz_byte(in);
  return high << 8 | fz_byte(in);
}

static inline size_t fz_size(struct fz *in) {
  size_t high = fz_byte(in);
  return high << 16 | fz_word(in);
}

/** Content that tells where it belongs: the first 4 KiB and the last bytes. */
void fz_fill(void *p, size_t bytes, unsigned tag);
/** Whether it still stands in the first bytes of a block, or in a whole block that has the size it was filled with. */
void fz_want(const void *p, size_t bytes, unsigned tag, const char *what);
void fz_want_whole(const void *p, size_t bytes, unsigned tag, const char *what);
/** Whether a range reads as zero. */
bool fz_is_zero(const void *p, size_t bytes);

/** Misuse reported so far, once fz_count_reports has been called. */
extern unsigned fz_reports;
void fz_count_reports(void);

#endif
