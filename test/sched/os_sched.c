/* The operating-system contract for the explorer, and what else of the system the core asks: thread-exit keys and fork handlers.
 * Memory is real but small: beyond what a snapshot covers any access faults. Waiting, waking and yielding are the scheduler's;
 * the heavy barrier empties every store buffer. See sched.h.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/unit.h"
#include "os/next.h"
#include "os/os.h"
#include "sched.h"
#include "thread_pointer.h"

enum {
  WINDOW_BYTES = 256 * 1024 * 1024, /* larger ones are refused, so that the core takes its smallest */
  UNITS = 128,                      /* that a model may use */
  STORE_BYTES = 192 * 1024,
  KEYS = 4
};

hd_os_facts hdi_os;

static unsigned gone; /* bit per identity */
static uint8_t *window, *store_range;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void hdi_os_init(void) {
  hdi_os.page_bytes = 4096;
  hdi_os.ram_bytes = HD_GIB;
  hdi_os.cpu_count = 1;
}

static bool open_range(void *start, size_t bytes) { return mprotect(start, bytes, PROT_READ | PROT_WRITE) == 0; }

/* The core reserves, in this order: the window, its unit table, the store; later small things. */
void *hdi_os_reserve(size_t bytes, size_t alignment, bool readable) {
  if (bytes > WINDOW_BYTES) return NULL;
  if (sched_running()) sched_fail("address space reserved in a run: do it in the model's setup");
  uint8_t *range = mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return NULL;
  range = (uint8_t *)hd_round_up((uintptr_t)range, alignment);
  size_t tracked = hd_min(bytes, STORE_BYTES);
  if (window == NULL) {
    window = range;
    return open_range(range, (size_t)UNITS * HD_UNIT_BYTES) ? range : NULL;
  }
  if (readable) tracked = UNITS * sizeof(hd_unit);
  else if (store_range == NULL) store_range = range;
  else tracked = hd_min(bytes, 4096);
  if (!open_range(range, tracked)) return NULL;
  state_track(range, tracked);
  return range;
}

void hdi_os_unreserve(void *address, size_t bytes) { (void)address, (void)bytes; }
hd_claim hdi_os_claim(void *address, size_t bytes) {
  (void)address, (void)bytes;
  return HD_CLAIM_REFUSED; /* the core then reserves, and everything lies where a snapshot covers it */
}
void hdi_os_unclaim(void *address, size_t bytes) { (void)address, (void)bytes; }
bool hdi_os_commit(void *address, size_t bytes) { return address != NULL && bytes != 0; }

bool hdi_os_close(void *address, size_t bytes) {
  (void)address, (void)bytes;
  return false;
}

bool hdi_os_guard(void *address, size_t bytes, bool on) {
  (void)address, (void)bytes, (void)on;
  return false;
}

bool hdi_os_purge(void *address, size_t bytes) {
  sched_system_call();
  memset(address, 0, bytes);
  return true;
}

bool hdi_os_move(void *from, void *to, size_t bytes) {
  (void)from, (void)to, (void)bytes;
  return false;
}
void hdi_os_huge(void *address, size_t bytes, bool on) { (void)address, (void)bytes, (void)on; }
uint64_t hdi_os_touch(void *address, size_t bytes) {
  (void)address, (void)bytes;
  return 0;
}
size_t hdi_os_resident_bytes(void) { return 0; }
size_t hdi_os_resident_in(const void *address, size_t bytes) {
  (void)address, (void)bytes;
  return 0;
}
size_t hdi_os_resident_until(const void *address, size_t bytes, size_t *end) {
  (void)address, (void)bytes;
  return *end = 0;
}
bool hdi_os_resident_pages(const void *address, size_t pages, uint8_t *resident) {
  (void)address, (void)pages, (void)resident;
  return false;
}

void *sched_thread_pointer(void) {
  static _Alignas(128) char pointer[SCHED_FIBRES + 1][128]; /* nearer ones than real threads have would make the same mark: hdi_lock_me */
  return pointer[sched_self()];
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

void hdi_os_wait(atomic_uint *word, unsigned expected, unsigned timeout_ms) {
  hooks_flush(sched_self());
  if (atomic_load(word) != expected) return;
  sched_wait(word, timeout_ms != UINT32_MAX);
}

void hdi_os_wake(atomic_uint *word) {
  hooks_flush(sched_self());
  sched_wake(word);
}

bool hdi_os_heavy_barrier(void) {
  hooks_flush_all();
  return true;
}
bool hdi_os_heavy_barrier_init(void) { return true; }

void hdi_os_yield(void) {
  hooks_flush(sched_self());
  sched_yield_now();
}

bool hdi_os_helper_start(void (*run)(void), void *stack, size_t stack_bytes, atomic_uint *alive) {
  (void)run, (void)stack, (void)stack_bytes, (void)alive;
  return false; /* models run the collector themselves */
}

bool hdi_os_helper_outranks(void) { return false; }

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

uint64_t hdi_os_spent_ns(void) { return 0; }
uint64_t hdi_os_now_ms(void) { return 1000000; }
unsigned hdi_os_thread_id(void) { return 100 + sched_self(); }
unsigned hdi_os_process_id(void) { return 100; }
bool hdi_os_thread_alive(unsigned thread_id) { return (gone >> (thread_id - 100) & 1) == 0; }
uint64_t hdi_os_random(void) { return 0; }

void hdi_os_write(int fd, const char *text, size_t length) {
  if (write(fd, text, length) < 0) return;
}
long hdi_os_read_file(const char *path, char *buffer, size_t bytes) {
  (void)path, (void)buffer, (void)bytes;
  return -1;
}
_Noreturn void hdi_os_abort(void) { sched_fail("the core aborted"); }

const hd_next *hdi_next_get(void) {
  static const hd_next none;
  return &none;
}
bool hdi_next_is_watched(void) { return false; }

/* ---- threads and fork: the linker sends the core's calls here (--wrap) ------------------------------------------- */

static struct {
  void (*destructor)(void *);
  void *value[SCHED_FIBRES + 1];
} keys[KEYS];
static unsigned key_count;
static void (*fork_handler[3])(void);

int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
  if (key_count == KEYS) return 11;
  keys[key_count].destructor = destructor;
  *key = key_count++;
  return 0;
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value) {
  keys[key].value[sched_self()] = (void *)(uintptr_t)value;
  return 0;
}

int __wrap___register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
int __wrap___register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
  (void)library;
  fork_handler[0] = prepare;
  fork_handler[1] = parent;
  fork_handler[2] = child;
  return 0;
}

void os_sched_thread_ends(void) {
  for (unsigned i = 0; i < key_count; i++) {
    void *value = keys[i].value[sched_self()];
    keys[i].value[sched_self()] = NULL;
    if (value != NULL && keys[i].destructor != NULL) keys[i].destructor(value);
  }
}

void os_sched_thread_gone(void) {
  hooks_flush(sched_self());
  gone |= 1u << sched_self();
}

void os_sched_fork_prepare(void) { fork_handler[0](); }
void os_sched_fork_parent(void) { fork_handler[1](); }
void os_sched_fork_child(void) { fork_handler[2](); }
