/* Bits, sizes and compiler words. No state, no allocator knowledge.
 * SPDX-License-Identifier: MIT */
#ifndef HD_BASE_BITS_H
#define HD_BASE_BITS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HD_LIKELY(x) __builtin_expect(!!(x), 1)
#define HD_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* FAST marks what a hit of malloc or free runs through, SLOW what must stay out of its way. HOT starts at a cache line: the same
 * instructions cost up to a tenth more where they lie across one line more. */
#define FAST static inline __attribute__((always_inline))
#define SLOW __attribute__((noinline, cold))
#define HOT __attribute__((aligned(64)))
/* On a variable without a value: src/heddle.ld puts it behind those that every process writes; HEAP: right behind them. */
#define HD_HEAP_DATA __attribute__((section(".bss.heap")))
#define HD_LATER_DATA __attribute__((section(".bss.later")))
/* On a table without addresses that every process reads: it lies on the page of those that the loader writes, which is closed then. */
#define HD_LOADER_DATA __attribute__((section(".data.rel.ro")))
#define HD_HIDDEN __attribute__((visibility("hidden"))) /* on a variable's declaration: reached without a table of addresses */
/* A text that every start reads, or many programs do soon after it. It stands in the page of data that is written anyway: where constants
 * lie, the first that is read brings up to 64 KiB of the file into memory. */
#define HD_START_TEXT(name, text) static char name[] __attribute__((section(".data.start"), aligned(1))) = text
#define HD_EXPORT __attribute__((visibility("default")))

/* The loop behind it is written out. GCC does so for the asking since version 8. */
#if defined(__clang__) || __GNUC__ >= 8
#define HD_UNROLL_4 _Pragma("GCC unroll 4")
#else
#define HD_UNROLL_4
#endif

/* What tells this thread from others. GCC knows it on x86 since version 11; there it points to itself. */
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ < 11 && !defined(HD_SCHED)
FAST void *hd_thread_pointer(void) {
  void *self;
  __asm__("mov %%fs:0, %0" : "=r"(self));
  return self;
}
#else
FAST void *hd_thread_pointer(void) { return __builtin_thread_pointer(); }
#endif

#define HD_KIB ((size_t)1 << 10)
#define HD_MIB ((size_t)1 << 20)
#define HD_GIB ((size_t)1 << 30)

/* Position of the lowest set bit; word must not be 0. */
FAST size_t hd_lowest_bit(uint64_t word) {
#if defined(__x86_64__)
  /* The builtin gives an int, which costs a sign extension, and an idle instruction that breaks a dependency. */
  size_t bit;
  __asm__("rep bsfq %1, %0" : "=r"(bit) : "r"(word) : "cc"); /* tzcnt where the CPU has it, bsf elsewhere */
  return bit;
#else
  return (size_t)__builtin_ctzll(word);
#endif
}

/* Position of the highest set bit; word must not be 0. */
#if defined(__x86_64__)
FAST size_t hd_highest_bit(uint64_t word) {
  uint64_t bit; /* the builtin counts from the other end and back */
  __asm__("bsrq %1, %0" : "=r"(bit) : "r"(word) : "cc");
  return (size_t)bit;
}
#else
FAST size_t hd_highest_bit(uint64_t word) { return 63u - (unsigned)__builtin_clzll(word); }
#endif

/* Bits set in word, without the library call that the compiler makes where the CPU may lack the instruction. */
FAST unsigned hd_bit_count(uint64_t word) {
  word = word - ((word >> 1) & 0x5555555555555555u);
  word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
  word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return (unsigned)((word * 0x0101010101010101u) >> 56);
}

/* A word with the lowest count bits set, count 0..64. */
FAST uint64_t hd_low_mask(unsigned count) { return count >= 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1; }

FAST bool hd_is_power_of_2(size_t value) { return value != 0 && (value & (value - 1)) == 0; }

/* value rounded up to a multiple of step, a power of two. The caller knows that the sum does not overflow. */
FAST size_t hd_round_up(size_t value, size_t step) { return (value + step - 1) & ~(step - 1); }
FAST size_t hd_round_down(size_t value, size_t step) { return value & ~(step - 1); }

FAST size_t hd_min(size_t a, size_t b) { return a < b ? a : b; }
FAST size_t hd_max(size_t a, size_t b) { return a > b ? a : b; }

/* *product = a * b; false when it overflows. */
FAST bool hd_multiply(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }

/* The number x with odd * x == 1 modulo 2^64 (Newton's iteration doubles the right bits, five rounds from 5 make 64). */
FAST uint64_t hd_inverse(uint64_t odd) {
  uint64_t x = (3 * odd) ^ 2;
  for (int round = 0; round < 4; round++) x *= 2 - odd * x;
  return x;
}

FAST uint64_t hd_rotate_right(uint64_t value, unsigned count) { return (value >> (count & 63)) | (value << (-count & 63)); }

#endif
