/* Filters of system calls. See filter.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "filter.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "support.h"

enum { MOST = 200 };

bool ts_filter_calls(enum ts_filter what, const long *calls, size_t count) {
  unsigned listed = what == TS_FILTER_ALLOW ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS;
  unsigned other = what == TS_FILTER_ALLOW ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW;
  struct sock_filter rules[2 * MOST + 2];
  unsigned short at = 0;
  TS_CHECK(count <= MOST, "%zu calls", count);
  rules[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++) {
    rules[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    rules[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
  }
  rules[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, other);
  struct sock_fprog program = {at, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
