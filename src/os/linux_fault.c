/* Faults on Linux: hdi_os_fault_hook of os.h, a handler of SIGSEGV that speaks once and steps aside.
 *
 * After the report the default action is put back. A fault then happens again at the same instruction and ends the process, with the
 * core file it would have had; a signal that somebody sent is sent again.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "os/linux_syscall.h"
#include "os/os.h"

static void (*tell)(const void *address);

static void handle(int number, siginfo_t *info, void *context) {
  int kept = errno;
  (void)context;
  if (info->si_code > 0) tell(info->si_addr);
  signal(number, SIG_DFL);
  if (info->si_code <= 0) hd_syscall3(SYS_tgkill, hd_syscall3(SYS_getpid, 0, 0, 0), hdi_os_thread_id(), number);
  errno = kept;
}

static bool take(int number) {
  struct sigaction now, wanted;
  if (sigaction(number, NULL, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) return false;
  memset(&wanted, 0, sizeof wanted);
  sigemptyset(&wanted.sa_mask);
  wanted.sa_sigaction = handle;
  wanted.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return sigaction(number, &wanted, NULL) == 0;
}

bool hdi_os_fault_hook(void (*report)(const void *address)) {
  int kept = errno;
  tell = report;
  bool taken = take(SIGSEGV);
  errno = kept;
  return taken;
}
