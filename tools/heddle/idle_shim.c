/* Keeps a program alive at its end so that `heddle compare --idle` can read its resident set.
 *
 * Preloaded before the allocator. Only the process that the tool started, which setsid made a leader, waits: it tells the
 * tool through one FIFO and waits on another, so that it needs no clock of its own and is really idle meanwhile.
 * It allocates nothing. Without the tool at the other end it ends after HD_IDLE_LIMIT_MS at the latest. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_flag waited = ATOMIC_FLAG_INIT;

static void wait_for_tool(void) {
  const char *ready = getenv("HD_IDLE_READY");
  const char *go = getenv("HD_IDLE_GO");
  const char *limit = getenv("HD_IDLE_LIMIT_MS");
  if (!ready || !go || !limit) return;
  pid_t self = (pid_t)syscall(SYS_getpid);
  if (getsid(0) != self || atomic_flag_test_and_set(&waited)) return;

  /* Both ends exist before we start; O_NONBLOCK makes a tool that died an error instead of a wait. */
  int out = open(ready, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (out < 0) return;
  int in = open(go, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (in >= 0 && write(out, "r", 1) == 1) {
    struct pollfd wait = {.fd = in, .events = POLLIN};
    poll(&wait, 1, atoi(limit));
  }
  if (in >= 0) close(in);
  close(out);
}

__attribute__((destructor)) static void at_exit(void) { wait_for_tool(); }

/* Programs that leave without exit handlers come through here. */
__attribute__((noreturn)) void _exit(int status) {
  wait_for_tool();
  for (;;) syscall(SYS_exit_group, status);
}

__attribute__((noreturn)) void _Exit(int status) { _exit(status); }
