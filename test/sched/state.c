/* Snapshots of everything that a run changes: the program's own data, the tracked ranges of os_sched.c, and for each fibre a copy
 * of the program's thread-local variables. What must survive lies outside (sched.c maps its state). See sched.h.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/counters.h"
#include "sched.h"

enum { RANGE_MAX = 16, THREAD_BYTES = 256, IDENTITIES = SCHED_FIBRES + 1 };

typedef struct range {
  uint8_t *start;
  size_t bytes;
  uint8_t *copy;
} range;

static struct {
  range range[RANGE_MAX];
  unsigned count;
  uint8_t *thread_start;
  size_t thread_bytes;
  uint8_t thread[IDENTITIES][THREAD_BYTES];
  uint8_t thread_copy[IDENTITIES][THREAD_BYTES];
} *state;

extern char __data_start[], _end[];

static int find_thread_variables(struct dl_phdr_info *info, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
    state->thread_start = info->dlpi_tls_data;
    state->thread_bytes = info->dlpi_phdr[i].p_memsz;
  }
  return 1; /* the first one is the program itself */
}

static void *map(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

void state_init(void) {
  state = map(sizeof *state);
  dl_iterate_phdr(find_thread_variables, NULL);
  if (state->thread_start == NULL || state->thread_bytes > THREAD_BYTES) abort();
  for (unsigned i = 0; i < IDENTITIES; i++) memcpy(state->thread[i], state->thread_start, state->thread_bytes);
  state_track(__data_start, (size_t)(_end - __data_start));
}

void state_track(void *start, size_t bytes) {
  if (state->count == RANGE_MAX) abort();
  range *new = &state->range[state->count++];
  new->start = start;
  new->bytes = bytes;
  new->copy = map(bytes);
}

void state_save(void) {
  for (unsigned i = 0; i < state->count; i++) memcpy(state->range[i].copy, state->range[i].start, state->range[i].bytes);
  memcpy(state->thread[sched_self()], state->thread_start, state->thread_bytes);
  memcpy(state->thread_copy, state->thread, sizeof state->thread);
}

void state_restore(void) {
  for (unsigned i = 0; i < state->count; i++) memcpy(state->range[i].start, state->range[i].copy, state->range[i].bytes);
  memcpy(state->thread, state->thread_copy, sizeof state->thread);
  memcpy(state->thread_start, state->thread[sched_self()], state->thread_bytes);
}

bool state_is_tracked(const void *address) {
  const uint8_t *p = address;
  if (p >= (const uint8_t *)&hdi_counters && p < (const uint8_t *)(&hdi_counters + 1)) return false; /* nothing hangs on them */
  for (unsigned i = 0; i < state->count; i++) {
    if ((size_t)(p - state->range[i].start) < state->range[i].bytes) return true;
  }
  return false;
}

void state_switch_thread(unsigned from, unsigned to) {
  memcpy(state->thread[from], state->thread_start, state->thread_bytes);
  memcpy(state->thread_start, state->thread[to], state->thread_bytes);
}
