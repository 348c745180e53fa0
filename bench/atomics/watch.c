/* What an instrumented build of Heddle costs its neighbours: counts atomic operations and cache lines that change hands.
 *
 * watch.sh compiles the library with the compiler's thread instrumentation, which turns each load, store and atomic of it into a call, and
 * links this file in place of the sanitizer's run time. The calls do what the program asked for, and count, thread by thread:
 *   rmw      atomic read-modify-writes: exchange, compare and swap, fetch and add
 *   stores   plain and atomic stores
 *   lines    stores and read-modify-writes to a 64-byte line that another thread wrote last: on a machine with many cores each of them
 *            fetches the line from the other core. This is false and true sharing of everything the library itself writes, whatever the
 *            number of cores here. Blocks' contents are the program's and do not count.
 * Totals go as one line to the file named by HEDDLE_WATCH when the process ends. Threads past SLOTS_MAX share the last slot. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HOOK __attribute__((visibility("default"))) /* the version script keeps them inside all the same */

enum { SLOTS_MAX = 8192, TABLE_BITS = 20, LINE_BITS = 6, WRITER_BITS = 13 };

typedef struct {
    _Alignas(64) atomic_ulong rmw;
    atomic_ulong stores, lines;
} slot;

static slot slots[SLOTS_MAX];
static atomic_uint slots_taken;
static atomic_ulong last_writer[1 << TABLE_BITS]; /* line number and writer's slot + 1, where the line's hash leads */
static __thread unsigned my_number;               /* slot + 1; 0 before the first count */

static slot *my_slot(void)
{
    if (my_number == 0) {
        unsigned number = atomic_fetch_add(&slots_taken, 1) + 1;
        my_number = number < SLOTS_MAX ? number : SLOTS_MAX - 1;
    }
    return &slots[my_number];
}

/* A slot has one writer, but for the shared last one, where a lost count does no harm. */
static void count(atomic_ulong *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void wrote(const volatile void *address)
{
    slot *mine = my_slot();
    uintptr_t line = (uintptr_t)address >> LINE_BITS;
    atomic_ulong *entry = &last_writer[(line * 0x9e3779b97f4a7c15u) >> (64 - TABLE_BITS)];
    unsigned long was = atomic_load_explicit(entry, memory_order_relaxed), now = line << WRITER_BITS | my_number;
    count(&mine->stores);
    if (was == now)
        return;
    if (was >> WRITER_BITS == (now >> WRITER_BITS))
        count(&mine->lines);
    atomic_store_explicit(entry, now, memory_order_relaxed);
}

static void changed(const volatile void *address)
{
    count(&my_slot()->rmw);
    wrote(address);
}

void watch_totals(unsigned long *rmw, unsigned long *stores, unsigned long *lines);

void watch_totals(unsigned long *rmw, unsigned long *stores, unsigned long *lines)
{
    *rmw = *stores = *lines = 0;
    for (int i = 0; i < SLOTS_MAX; i++) {
        *rmw += atomic_load(&slots[i].rmw);
        *stores += atomic_load(&slots[i].stores);
        *lines += atomic_load(&slots[i].lines);
    }
}

static __attribute__((destructor)) void report(void)
{
    const char *path = getenv("HEDDLE_WATCH");
    unsigned long rmw, stores, lines;
    char text[128];
    if (!path)
        return;
    watch_totals(&rmw, &stores, &lines);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int length = snprintf(text, sizeof text, "rmw=%lu stores=%lu lines=%lu\n", rmw, stores, lines);
    if (file < 0 || write(file, text, (size_t)length) != length || close(file) != 0)
        _exit(3);
}

/* ---- what the compiler calls ---- */

HOOK void __tsan_init(void) {}
HOOK void __tsan_func_entry(void *caller) { (void)caller; }
HOOK void __tsan_func_exit(void) {}

#define READ(name) \
    HOOK void __tsan_##name(void *address) { (void)address; }
#define WRITE(name) \
    HOOK void __tsan_##name(void *address) { wrote(address); }
READ(read1) READ(read2) READ(read4) READ(read8) READ(read16)
READ(unaligned_read2) READ(unaligned_read4) READ(unaligned_read8) READ(unaligned_read16)
WRITE(write1) WRITE(write2) WRITE(write4) WRITE(write8) WRITE(write16)
WRITE(unaligned_write2) WRITE(unaligned_write4) WRITE(unaligned_write8) WRITE(unaligned_write16)

HOOK void __tsan_read_range(void *address, unsigned long bytes) { (void)address, (void)bytes; }

HOOK void __tsan_write_range(void *address, unsigned long bytes)
{
    for (unsigned long at = 0; at < bytes; at += 1u << LINE_BITS)
        wrote((char *)address + at);
}

/* The strongest order serves every order that is asked for. */
#define ORDER __ATOMIC_SEQ_CST
#define FETCH(bits, what) \
    HOOK uint##bits##_t __tsan_atomic##bits##_fetch_##what(volatile uint##bits##_t *word, uint##bits##_t value, int order) \
    { \
        (void)order; \
        changed(word); \
        return __atomic_fetch_##what(word, value, ORDER); \
    }
#define COMPARE(bits, how, weak) \
    HOOK int __tsan_atomic##bits##_compare_exchange_##how( \
        volatile uint##bits##_t *word, uint##bits##_t *expected, uint##bits##_t value, int order, int failure) \
    { \
        (void)order, (void)failure; \
        changed(word); \
        return __atomic_compare_exchange_n(word, expected, value, weak, ORDER, ORDER); \
    }
#define ATOMICS(bits) \
    HOOK uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *word, int order) \
    { \
        (void)order; \
        return __atomic_load_n(word, ORDER); \
    } \
    HOOK void __tsan_atomic##bits##_store(volatile uint##bits##_t *word, uint##bits##_t value, int order) \
    { \
        (void)order; \
        wrote(word); \
        __atomic_store_n(word, value, ORDER); \
    } \
    HOOK uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *word, uint##bits##_t value, int order) \
    { \
        (void)order; \
        changed(word); \
        return __atomic_exchange_n(word, value, ORDER); \
    } \
    FETCH(bits, add) FETCH(bits, sub) FETCH(bits, and) FETCH(bits, or) FETCH(bits, xor) COMPARE(bits, strong, 0) COMPARE(bits, weak, 1)
ATOMICS(8) ATOMICS(16) ATOMICS(32) ATOMICS(64)

HOOK void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(ORDER);
}

HOOK void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    __atomic_signal_fence(ORDER);
}
