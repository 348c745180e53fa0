/* The contract with the operating system: everything the core asks of it, and nothing else. One file per system
 * implements it (os_linux.c); the build chooses the file. Tests put a fault-injecting layer between.
 *
 * Address ranges pass through three states:
 *   reserved   address space only; any access faults; costs no memory
 *   clean      readable and writable, reads as zero, costs no memory until touched
 *   dirty      holds content, costs memory
 * commit: reserved -> clean. purge: dirty -> clean. move: the source becomes clean, the target dirty with its content.
 *
 * Every call may fail, at any time, and says so; a failure changes nothing. No call here allocates, takes a lock of the
 * C library or writes errno: the purge helper runs on a bare kernel thread that has no thread-local storage of its own.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_OS_H
#define HD_OS_OS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the machine offers; filled once by hdi_os_init, constant afterwards. */
typedef struct hd_os_facts {
  size_t page_bytes;      /* the system's page size, a power of two, found at run time */
  size_t huge_bytes;      /* size of a transparent huge page, 0 if there are none */
  size_t ram_bytes;       /* memory of the machine */
  unsigned cpu_count;     /* processors this process may use */
  bool can_move;          /* hdi_os_move works */
  bool huge_always;       /* the system gives huge pages unasked */
  bool secure;            /* the program has rights that who started it lacks: the environment is not to be trusted */
} hd_os_facts;

extern __attribute__((visibility("hidden"))) hd_os_facts hdi_os;

/* Fill hdi_os. Called once, before anything else. */
void hdi_os_init(void);

/* Reserve bytes of address space at a multiple of alignment (power of two >= 64 KiB). Readable ranges read as zero.
 * NULL when the system refuses. */
void *hdi_os_reserve(size_t bytes, size_t alignment, bool readable);

/* Give a reserved range back whole. */
void hdi_os_unreserve(void *address, size_t bytes);

/* Make a range clean that belongs to nobody: not reserved before, and not mapped by anybody else. */
typedef enum hd_claim { HD_CLAIM_DONE, HD_CLAIM_TAKEN /* part of it is somebody's */, HD_CLAIM_REFUSED /* by the system */ } hd_claim;
hd_claim hdi_os_claim(void *address, size_t bytes);

/* Take back a claim that may have been made, in part or not at all. */
void hdi_os_unclaim(void *address, size_t bytes);

/* reserved -> clean; parts of the range may be clean or dirty already, and stay that. false when the system refuses. */
bool hdi_os_commit(void *address, size_t bytes);

/* clean or dirty -> reserved (on), or back to clean (off). Whole system pages; parts of the range may be there already, and stay what they
 * are. false when the system refuses; what was in the range may be gone then. */
bool hdi_os_guard(void *address, size_t bytes, bool on);

/* The same as on, but the memory stays, and is found again after off. Parts that are reserved already may hold some, or none. */
bool hdi_os_close(void *address, size_t bytes);

/* dirty -> clean, the memory goes back to the system at once. false when the system refuses; then it stays dirty. */
bool hdi_os_purge(void *address, size_t bytes);

/* Move the pages of [from, from+bytes) to the clean range at to, without copying; from becomes clean. false: nothing has changed. */
bool hdi_os_move(void *from, void *to, size_t bytes);

/* Ask for huge pages in a range, or ask for none. A hint. */
void hdi_os_huge(void *address, size_t bytes, bool on);

/* Make a range of whole pages resident, with what it holds. Nanoseconds of the calling thread's own time that it took; 0: unknown, and
 * nothing may have happened. */
uint64_t hdi_os_touch(void *address, size_t bytes);

/* Nanoseconds of processor time that all threads of the process have taken; 0: unknown. */
uint64_t hdi_os_spent_ns(void);

/* Milliseconds of a clock that never goes back. Coarse (some ms) and cheap. */
uint64_t hdi_os_now_ms(void);

/* Sleep while *word == expected, at most timeout_ms (UINT32_MAX: for ever); may return early. */
void hdi_os_wait(atomic_uint *word, unsigned expected, unsigned timeout_ms);

/* Wake all who wait on word. */
void hdi_os_wake(atomic_uint *word);

/* A full memory barrier in every running thread of the process. false: not available, nothing happened. */
bool hdi_os_heavy_barrier(void);

/* Prepare hdi_os_heavy_barrier. false: it will never work in this process. */
bool hdi_os_heavy_barrier_init(void);

/* Start run() on a bare thread that the C library does not know: no thread-local storage, all signals blocked.
 * run must only call this contract. *alive becomes 0, with a wake, when the thread is gone. false on refusal. */
bool hdi_os_helper_start(void (*run)(void), void *stack, size_t stack_bytes, atomic_uint *alive);

/* Whether the helper's thread has rights that the process has given up since it started. A thread keeps what it was born with, and the C
 * library changes the rights of those alone that it knows. By the helper. */
bool hdi_os_helper_outranks(void);

/* Let others run. */
void hdi_os_yield(void);

/* The kernel's number of the calling thread; and whether such a thread lives in this process. */
unsigned hdi_os_thread_id(void);
bool hdi_os_thread_alive(unsigned thread_id);

/* The kernel's number of the calling process. A child of vfork has its own, though it runs in its parent's memory. */
unsigned hdi_os_process_id(void);

/* Random bits from the system (weak ones when it refuses). */
uint64_t hdi_os_random(void);

/* Bytes of this process that are resident; 0 when unknown. */
size_t hdi_os_resident_bytes(void);

/* The same for a range of whole pages; and where the last resident one of them ends, in bytes from the range's start: behind the range when
 * that is unknown. Where the process's system calls are filtered one page in 64 is looked at in ranges of more than 128. */
size_t hdi_os_resident_in(const void *address, size_t bytes);
size_t hdi_os_resident_until(const void *address, size_t bytes, size_t *end);

/* The same page for page: 1 or 0. false: unknown. What is not resident may have been swapped out. */
bool hdi_os_resident_pages(const void *address, size_t pages, uint8_t *resident);

/* Write text to a file descriptor, whole or not at all as far as the system allows. */
void hdi_os_write(int fd, const char *text, size_t length);

/* Read up to bytes of a small file. Length read, or -1. With 0 bytes: whether it can be opened. */
long hdi_os_read_file(const char *path, char *buffer, size_t bytes);

/* Call report with the address whenever an access faults, unless the program handles that itself already; afterwards the process ends as it
 * would have without. report runs in a signal handler. false: the program does, or the system refuses. */
bool hdi_os_fault_hook(void (*report)(const void *address));

/* End the process with SIGABRT, also when that signal is blocked or handled. */
_Noreturn void hdi_os_abort(void);

#endif
