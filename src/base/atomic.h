/* Atomic operations with their orders in the name, and forms for words that are plain on the machine and shared all the same.
 * Built with HD_DELAY each operation first calls hd_delay_point(), where a test lets the others go ahead now and then.
 * SPDX-License-Identifier: MIT */
#ifndef HD_BASE_ATOMIC_H
#define HD_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* gcc and clang tell it differently. The schedule explorer compiles the core with the thread sanitizer's calls too, and HD_SCHED. */
#ifdef __has_feature
#define HD_HAS_FEATURE(name) __has_feature(name)
#else
#define HD_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || HD_HAS_FEATURE(thread_sanitizer)
#define HD_SANITIZE_THREAD 1
#endif
#if defined(__SANITIZE_ADDRESS__) || HD_HAS_FEATURE(address_sanitizer)
#define HD_SANITIZE_ADDRESS 1
#endif

#ifdef HD_DELAY
void hd_delay_point(void);
#define HD_POINT() hd_delay_point()
#else
#define HD_POINT() ((void)0)
#endif

#define hd_load_relaxed(p) (HD_POINT(), atomic_load_explicit((p), memory_order_relaxed))
#define hd_load_acquire(p) (HD_POINT(), atomic_load_explicit((p), memory_order_acquire))
#define hd_store_relaxed(p, v) (HD_POINT(), atomic_store_explicit((p), (v), memory_order_relaxed))
#define hd_store_release(p, v) (HD_POINT(), atomic_store_explicit((p), (v), memory_order_release))
#define hd_exchange(p, v) (HD_POINT(), atomic_exchange_explicit((p), (v), memory_order_acq_rel))
#define hd_add(p, v) (HD_POINT(), atomic_fetch_add_explicit((p), (v), memory_order_relaxed))
#define hd_sub(p, v) (HD_POINT(), atomic_fetch_sub_explicit((p), (v), memory_order_relaxed))
/* Compare and swap; on failure *expected is what stands there. */
#define hd_swap_if(p, expected, v) \
  (HD_POINT(), atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel, memory_order_acquire))

/* A relaxed load of a word that the compiler may fold into another instruction. The thread sanitizer and the explorer see an atomic
 * one; elsewhere it is a plain load of an aligned word, which on every machine we build for is the same access. */
#if defined(HD_SANITIZE_THREAD) || !(defined(__x86_64__) || defined(__aarch64__))
#define HD_PLAIN_WORDS 0
#define hd_load_stable(type, p) (HD_POINT(), __atomic_load_n((type *)(p), __ATOMIC_RELAXED))
#else
#define HD_PLAIN_WORDS 1
#define hd_load_stable(type, p) (*(type __attribute__((may_alias)) *)(p))
#endif

/* A word with one owner, who writes it by hd_store_owned, while others may hd_peek at it from outside: they see some value that stood
 * there, and decide nothing by it that they do not find out again in a safe way. Owners read such a word as they like; hd_load_owned is
 * for code that runs for owners and strangers alike. Store and load are plain ones under the same conditions as above, and in the
 * explorer, which holds atomic stores back and would not show them to the owner's plain loads. */
#define hd_peek(p) (HD_POINT(), __atomic_load_n((p), __ATOMIC_RELAXED))
#if HD_PLAIN_WORDS || defined(HD_SCHED)
#define hd_load_owned(p) (*(p))
#define hd_store_owned(p, v) ((void)(*(p) = (v)))
#else
#define hd_load_owned(p) hd_peek(p)
#define hd_store_owned(p, v) (HD_POINT(), __atomic_store_n((p), (v), __ATOMIC_RELAXED))
#endif

/* A stable load that later loads must not overtake: x86 keeps loads in order by itself. */
#if defined(__x86_64__)
#define hd_load_stable_first(type, p) hd_load_stable(type, p)
#else
#define hd_load_stable_first(type, p) (HD_POINT(), __atomic_load_n((type *)(p), __ATOMIC_ACQUIRE))
#endif

/* Whether fast paths may use assembly whose accesses tools can't see. */
#if defined(__x86_64__) && !defined(HD_SANITIZE_THREAD) && !defined(HD_SANITIZE_ADDRESS)
#define HD_FAST_ASM 1
#endif

/* Orders this thread's plain accesses for a signal or a heavy barrier of another thread; no instruction. */
#define hd_compiler_fence() atomic_signal_fence(memory_order_seq_cst)

/* Change a byte from one value to another. RISC-V swaps nothing smaller than a word: there the word around it is swapped, and whoever
 * writes another byte of it meanwhile makes that fail, so that it is tried again. */
static inline bool hd_swap_byte_if(_Atomic uint8_t *p, uint8_t from, uint8_t to) {
#if defined(__riscv)
  typedef uint32_t __attribute__((may_alias)) word;
  word *around = (word *)((uintptr_t)p & ~(uintptr_t)3);
  const unsigned shift = (unsigned)((uintptr_t)p & 3) * 8;
  uint32_t old = __atomic_load_n(around, __ATOMIC_RELAXED);
  while ((uint8_t)(old >> shift) == from) {
    uint32_t changed = old ^ (uint32_t)(from ^ to) << shift;
    if (__atomic_compare_exchange_n(around, &old, changed, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return true;
  }
  return false;
#else
  return hd_swap_if(p, &from, to);
#endif
}

static inline void hd_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
