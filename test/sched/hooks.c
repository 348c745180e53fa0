/* What the compiler calls before each access in code built with -fsanitize=thread, here the switch points of the explorer; and the
 * store buffers. Nothing of the sanitizer's own run time is linked. See sched.h.
 *
 * The store buffer holds atomic stores weaker than sequentially consistent, in order. Plain stores pass it, as the language
 * allows for everything but what stands before a release.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "sched.h"

enum { PENDING_MAX = 4 };

typedef struct pending {
  void *address;
  unsigned bytes;
  uint64_t value;
} pending;

static struct {
  pending store[PENDING_MAX];
  unsigned count;
} buffer[SCHED_FIBRES + 1];

#define CALLER __builtin_return_address(0)

/* ---- store buffers ----------------------------------------------------------------------------------------------- */

void hooks_reset(void) { memset(buffer, 0, sizeof buffer); }

bool hooks_pending(unsigned fibre) { return buffer[fibre].count != 0; }

void hooks_flush(unsigned fibre) {
  for (unsigned i = 0; i < buffer[fibre].count; i++) {
    const pending *store = &buffer[fibre].store[i];
    memcpy(store->address, &store->value, store->bytes); /* little end first */
  }
  buffer[fibre].count = 0;
}

void hooks_flush_all(void) {
  for (unsigned i = 0; i < SCHED_FIBRES; i++) hooks_flush(i);
}

static uint64_t load(const void *address, unsigned bytes, const void *place) {
  sched_access(address, false, place);
  uint64_t value = 0;
  memcpy(&value, address, bytes);
  unsigned self = sched_self();
  for (unsigned i = 0; i < buffer[self].count; i++) {
    if (buffer[self].store[i].address == address) value = buffer[self].store[i].value;
  }
  return value;
}

static void store(void *address, unsigned bytes, uint64_t value, int order, const void *place) {
  bool shared = sched_access(address, true, place);
  unsigned self = sched_self();
  if (sched_delays(shared && order != __ATOMIC_SEQ_CST && buffer[self].count < PENDING_MAX)) {
    buffer[self].store[buffer[self].count++] = (pending){address, bytes, value};
    return;
  }
  hooks_flush(self);
  memcpy(address, &value, bytes);
}

/* Before a read-modify-write: it waits for the stores before it. */
static void enter_update(void *address, const void *place) {
  sched_access(address, true, place);
  hooks_flush(sched_self());
}

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

#define FETCH(bits, name, operator)                                                          \
  uint##bits##_t __tsan_atomic##bits##_fetch_##name(uint##bits##_t *p, uint##bits##_t value, int order); \
  uint##bits##_t __tsan_atomic##bits##_fetch_##name(uint##bits##_t *p, uint##bits##_t value, int order) { \
    (void)order;                                                                             \
    enter_update(p, CALLER);                                                                 \
    uint##bits##_t old = *p;                                                                 \
    *p = (uint##bits##_t)(old operator value);                                               \
    return old;                                                                              \
  }

#define ATOMICS(bits)                                                                                   \
  uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *p, int order);                         \
  uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *p, int order) {                        \
    (void)order;                                                                                        \
    return (uint##bits##_t)load(p, bits / 8, CALLER);                                                   \
  }                                                                                                     \
  void __tsan_atomic##bits##_store(uint##bits##_t *p, uint##bits##_t value, int order);                  \
  void __tsan_atomic##bits##_store(uint##bits##_t *p, uint##bits##_t value, int order) {                 \
    store(p, bits / 8, value, order, CALLER);                                                           \
  }                                                                                                     \
  uint##bits##_t __tsan_atomic##bits##_exchange(uint##bits##_t *p, uint##bits##_t value, int order);     \
  uint##bits##_t __tsan_atomic##bits##_exchange(uint##bits##_t *p, uint##bits##_t value, int order) {    \
    (void)order;                                                                                        \
    enter_update(p, CALLER);                                                                            \
    uint##bits##_t old = *p;                                                                            \
    *p = value;                                                                                         \
    return old;                                                                                         \
  }                                                                                                     \
  static uint##bits##_t swap_##bits##_if(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t value, const void *place) {\
    enter_update(p, place);                                                                             \
    uint##bits##_t old = *p;                                                                            \
    if (old == expected) *p = value;                                                                    \
    return old;                                                                                         \
  }                                                                                                     \
  int __tsan_atomic##bits##_compare_exchange_strong(uint##bits##_t *p, uint##bits##_t *expected,        \
                                                    uint##bits##_t value, int order, int fail_order);   \
  int __tsan_atomic##bits##_compare_exchange_strong(uint##bits##_t *p, uint##bits##_t *expected,        \
                                                    uint##bits##_t value, int order, int fail_order) {  \
    (void)order, (void)fail_order;                                                                      \
    uint##bits##_t old = swap_##bits##_if(p, *expected, value, CALLER);                                 \
    bool done = old == *expected;                                                                       \
    *expected = old;                                                                                    \
    return done;                                                                                        \
  }                                                                                                     \
  /* Clang's */                                                                                         \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(uint##bits##_t *p, uint##bits##_t expected, \
                                                            uint##bits##_t value, int order, int fail_order);\
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(uint##bits##_t *p, uint##bits##_t expected, \
                                                            uint##bits##_t value, int order, int fail_order) {\
    (void)order, (void)fail_order;                                                                      \
    return swap_##bits##_if(p, expected, value, CALLER);                                                \
  }                                                                                                     \
  FETCH(bits, add, +)                                                                                   \
  FETCH(bits, sub, -)                                                                                   \
  FETCH(bits, and, &)                                                                                   \
  FETCH(bits, or, |)                                                                                    \
  FETCH(bits, xor, ^)

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) {
  if (order == __ATOMIC_SEQ_CST) hooks_flush(sched_self());
}
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) { (void)order; }

/* ---- plain accesses ---------------------------------------------------------------------------------------------- */

#define PLAIN(name, is_write)                                    \
  void __tsan_##name(void *p);                                   \
  void __tsan_##name(void *p) { sched_access(p, is_write, CALLER); }

PLAIN(read1, false)
PLAIN(read2, false)
PLAIN(read4, false)
PLAIN(read8, false)
PLAIN(read16, false)
PLAIN(write1, true)
PLAIN(write2, true)
PLAIN(write4, true)
PLAIN(write8, true)
PLAIN(write16, true)
PLAIN(unaligned_read2, false)
PLAIN(unaligned_read4, false)
PLAIN(unaligned_read8, false)
PLAIN(unaligned_read16, false)
PLAIN(unaligned_write2, true)
PLAIN(unaligned_write4, true)
PLAIN(unaligned_write8, true)
PLAIN(unaligned_write16, true)

void __tsan_read_range(void *p, size_t bytes);
void __tsan_read_range(void *p, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 8) sched_access((char *)p + at, false, CALLER);
}
void __tsan_write_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 8) sched_access((char *)p + at, true, CALLER);
}

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
