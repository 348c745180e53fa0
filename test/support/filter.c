/* Filters of system calls. See filter.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "filter.h"

#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "support.h"

enum { MOST = 200 };

bool ts_filter_rules(struct sock_filter *rules, unsigned short count) {
  struct sock_fprog program = {count, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

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
  return ts_filter_rules(rules, at);
}

bool ts_filter_value(long call, unsigned argument, unsigned value) {
  unsigned low = offsetof(struct seccomp_data, args) + 8 * argument + (BYTE_ORDER == BIG_ENDIAN ? 4 : 0);
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return ts_filter_rules(rules, sizeof rules / sizeof *rules);
}
