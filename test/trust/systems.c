/* Between the library and the system, by the linker's --wrap: what stands here refuses, or says otherwise, as a test wants it.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "systems.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"
#include "os/next.h"
#include "os/os.h"

struct refuse refuse;

static bool is_refused(int *count) {
  if (*count > 0) return (*count)-- > 0;
  return *count < 0;
}

#define WRAPPED(result, name, ...)    \
  result __real_hdi_##name(__VA_ARGS__); \
  result __wrap_hdi_##name(__VA_ARGS__); \
  result __wrap_hdi_##name(__VA_ARGS__)

WRAPPED(void, os_init, void) {
  __real_hdi_os_init();
  if (refuse.init != NULL) refuse.init();
}

WRAPPED(hd_claim, os_claim, void *address, size_t bytes) {
  if (refuse.claim_after > 0) refuse.claim_after--;
  else if (is_refused(&refuse.claim)) return HD_CLAIM_REFUSED;
  return __real_hdi_os_claim(address, bytes);
}

WRAPPED(bool, os_commit, void *address, size_t bytes) {
  if (bytes >= refuse.commit_from && is_refused(&refuse.commit)) return false;
  return __real_hdi_os_commit(address, bytes);
}

WRAPPED(void *, os_reserve, size_t bytes, size_t alignment, bool readable) {
  if (refuse.reserve_after > 0) refuse.reserve_after--;
  else if ((refuse.reserve_below == 0 || bytes < refuse.reserve_below) && is_refused(&refuse.reserve)) return NULL;
  return __real_hdi_os_reserve(bytes, alignment, readable);
}

static bool refuse_meanwhile(void) {
  void (*others)(void) = refuse.meanwhile;
  refuse.meanwhile = NULL;
  if (others != NULL) others();
  return false;
}

WRAPPED(bool, os_guard, void *address, size_t bytes, bool on) {
  if (on && refuse.guard_after > 0) refuse.guard_after--;
  else if (is_refused(on ? &refuse.guard : &refuse.unguard)) return refuse_meanwhile();
  return __real_hdi_os_guard(address, bytes, on);
}

WRAPPED(bool, os_close, void *address, size_t bytes) { return !is_refused(&refuse.guard) && __real_hdi_os_close(address, bytes); }

WRAPPED(bool, os_move, void *from, void *to, size_t bytes) {
  return !is_refused(&refuse.move) && __real_hdi_os_move(from, to, bytes);
}

WRAPPED(bool, os_purge, void *address, size_t bytes) { return !is_refused(&refuse.purge) && __real_hdi_os_purge(address, bytes); }
WRAPPED(bool, os_heavy_barrier, void) { return !is_refused(&refuse.barrier) && __real_hdi_os_heavy_barrier(); }
WRAPPED(bool, os_heavy_barrier_init, void) { return !is_refused(&refuse.barrier_init) && __real_hdi_os_heavy_barrier_init(); }

WRAPPED(size_t, os_resident_in, const void *address, size_t bytes) {
  refuse.asked += bytes;
  return refuse.seems_resident ? bytes : __real_hdi_os_resident_in(address, bytes);
}

WRAPPED(size_t, os_resident_until, const void *address, size_t bytes, size_t *end) {
  refuse.asked += bytes;
  return __real_hdi_os_resident_until(address, bytes, end);
}

WRAPPED(long, os_read_file, const char *path, char *buffer, size_t bytes) {
  if (refuse.file == NULL) return __real_hdi_os_read_file(path, buffer, bytes);
  size_t length = strnlen(refuse.file, bytes);
  memcpy(buffer, refuse.file, length);
  return (long)length;
}

WRAPPED(void, os_wait, atomic_uint *word, unsigned expected, unsigned timeout_ms) {
  __real_hdi_os_wait(word, expected, refuse.hasty ? 1 : timeout_ms);
}

WRAPPED(const hd_next *, next_get, void) {
  static const hd_next none;
  return refuse.next ? &none : __real_hdi_next_get();
}

int __real_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
  return is_refused(&refuse.key) ? EAGAIN : __real_pthread_key_create(key, destructor);
}

int run_systems(const struct system *systems, size_t count) {
  int failed = 0;
  for (size_t i = 0; i < count; i++) {
    int status = 0;
    pid_t child = fork();
    TS_CHECK(child >= 0, "fork");
    if (child == 0) {
      alarm(100);
      systems[i].run();
      exit(0);
    }
    TS_CHECK(waitpid(child, &status, 0) == child, "wait");
    if (status == 0) ts_print(1, "%s: ok\n", systems[i].name);
    else ts_print(1, "%s: FAILED, status %#x\n", systems[i].name, (unsigned)status);
    failed += status != 0;
  }
  return failed != 0;
}
