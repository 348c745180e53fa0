/* Atomic operations with their orders in the name, and the switch points of the schedule explorer.
 * Built with HD_SCHED each operation first calls hd_sched_point(), so that a test can choose who runs next.
 * SPDX-License-Identifier: MIT */
#ifndef HD_BASE_ATOMIC_H
#define HD_BASE_ATOMIC_H

#include <stdatomic.h>

#ifdef HD_SCHED
void hd_sched_point(void);
#define HD_POINT() hd_sched_point()
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

/* A relaxed load of a word that the compiler may fold into another instruction. Sanitizers and the explorer see an atomic one;
 * elsewhere it is a plain load of an aligned word, which on every machine we build for is the same access. */
#if defined(HD_SCHED) || defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
#define hd_load_stable(type, p) (HD_POINT(), __atomic_load_n((type *)(p), __ATOMIC_RELAXED))
#else
#define hd_load_stable(type, p) (*(type __attribute__((may_alias)) *)(p))
#endif

/* Whether fast paths may use assembly whose accesses tools can't see. */
#if defined(__x86_64__) && !defined(HD_SCHED) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define HD_FAST_ASM 1
#endif

/* Orders this thread's plain accesses for a signal or a heavy barrier of another thread; no instruction. */
#define hd_compiler_fence() atomic_signal_fence(memory_order_seq_cst)

static inline void hd_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
