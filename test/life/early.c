/* First calls in the middle of something: in the constructor of a library that dlopen loads, in a signal handler that interrupted the
 * first call, in the child of a fork and in threads while another thread is in its first call or right behind it; and in a set-user-ID
 * program.
 *
 *   EARLY_PLUGIN=PATH early [case...]
 *
 * A first call is held open by options that are read from a pipe. Built with the linked library: under preload the loader has made
 * the first call.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle.h>

#include "../support/support.h"
#include "cases.h"

enum { THREADS = 16, NOBODY = 65534 };
static char directory[] = "/tmp/heddle-early-XXXXXX";
static char path[64];

/* ---- a first call that is held open ----------------------------------------------------------------------------- */

static void make_pipe(void) {
  TS_CHECK(mkdtemp(directory) != NULL, "mkdtemp: %d", errno);
  snprintf(path, sizeof path, "%s/options", directory);
  TS_CHECK(mkfifo(path, 0600) == 0, "mkfifo: %d", errno);
  setenv("HEDDLE_FILE", path, 1);
}

/* Returns when somebody stands in the middle of the start, reading; it goes on when the result is closed. */
static int wait_for_reader(void) {
  int fd;
  while ((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
    TS_CHECK(errno == ENXIO, "open: %d", errno);
    usleep(200);
  }
  unlink(path);
  rmdir(directory);
  return fd;
}

static void use(size_t bytes) {
  char *p = hd_malloc(bytes);
  TS_CHECK(p != NULL, "malloc(%zu): %d", bytes, errno);
  memset(p, 1, bytes);
  hd_free(p);
}

static void *first(void *argument) {
  use(100);
  return argument;
}

static void in_child(void) {
  pthread_t thread;
  use(1000);
  TS_CHECK(pthread_create(&thread, NULL, first, NULL) == 0, "pthread_create");
  pthread_join(thread, NULL);
  pid_t pid = fork();
  if (pid == 0) {
    use(10);
    _exit(0);
  }
  int status = -1;
  TS_CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the grandchild ended with 0x%x", status);
}

/* The thread that started the allocator is not in the child: somebody else has to. */
static void fork_in_start(void) {
  pthread_t thread;
  make_pipe();
  TS_CHECK(pthread_create(&thread, NULL, first, NULL) == 0, "pthread_create");
  int fd = wait_for_reader();
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) {
    close(fd);
    unsetenv("HEDDLE_FILE"); /* the child starts anew, and the pipe is gone */
    in_child();
    _exit(0);
  }
  TS_CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child ended with 0x%x", status);
  close(fd);
  pthread_join(thread, NULL);
  use(100);
}

/* Some threads make the process's first calls, others fork at that moment: whatever their children inherit must be usable. */
static pthread_barrier_t together;

static void *call_first(void *argument) {
  pthread_barrier_wait(&together);
  for (size_t i = 0; i < 50; i++) use(1 + i * 6007);
  return argument;
}

static void *fork_meanwhile(void *turns) {
  int status = -1;
  pthread_barrier_wait(&together);
  for (volatile uintptr_t i = 0; i < (uintptr_t)turns; i++) {
  }
  pid_t pid = fork();
  if (pid == 0) {
    alarm(2);
    for (size_t i = 0; i < 50; i++) use(1 + i * 6007);
    _exit(0);
  }
  TS_CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ended with 0x%x", status);
  return NULL;
}

static void first_calls_and_forks_once(void) {
  pthread_t thread[THREADS];
  pthread_barrier_init(&together, NULL, THREADS);
  for (int t = 0; t < THREADS; t++) {
    uintptr_t turns = (unsigned)getpid() * 7919u * (unsigned)t % 60000;
    int failed = pthread_create(&thread[t], NULL, t < THREADS / 2 ? call_first : fork_meanwhile, (void *)turns);
    TS_CHECK(failed == 0, "pthread_create");
  }
  for (int t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
}

static void first_calls_and_forks(void) {
  char *again[] = {"/proc/self/exe", "--in", "first-calls-and-forks-once", NULL};
  struct ts_outcome outcome;
  for (int round = 0; round < 100; round++) {
    ts_exec_run(again, NULL, 10, &outcome);
    TS_CHECK(ts_exited(&outcome, 0), "round %d, status 0x%x: %s", round, outcome.status, outcome.error);
  }
}

/* Whether that goes well is chance without handlers; that they are there before any call is not. */
#ifdef __GLIBC__
static volatile int handlers, handlers_at_load; /* or a compiler takes the constructor's work over */

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library) {
  int (*next)(void (*)(void), void (*)(void), void (*)(void), void *) = NULL;
  void *found = dlsym(RTLD_NEXT, "__register_atfork");
  memcpy(&next, &found, sizeof next);
  handlers++;
  return next(prepare, parent, child, library);
}

static __attribute__((constructor)) void loaded(void) { handlers_at_load = handlers; }

static void handlers_before_calls(void) {
  TS_CHECK(handlers_at_load == 1, "%d at the start of the program", handlers_at_load);
  use(100);
  TS_CHECK(handlers == 1, "%d after a call", handlers);
}
#endif

static void threads_in_start(void) {
  pthread_t thread[THREADS];
  make_pipe();
  for (int t = 0; t < THREADS; t++) TS_CHECK(pthread_create(&thread[t], NULL, first, NULL) == 0, "pthread_create");
  int fd = wait_for_reader();
  ts_sleep_ms(50); /* let the others come and wait */
  close(fd);
  for (int t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
}

/* No allocator promises anything in a handler that interrupted it. Here the call fails or works, and neither hangs nor breaks. */
static void on_signal(int number) {
  int kept = errno;
  (void)number;
  void *p = hd_malloc(100), *q = hd_calloc(10, 100000);
  if (p == NULL) TS_CHECK(errno == ENOMEM, "errno %d", errno);
  hd_free(p);
  hd_free(q);
  hd_free(NULL);
  errno = kept;
}

static void signal_in_start(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  make_pipe();
  sigaction(SIGUSR1, &action, NULL);
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) {
    int fd = wait_for_reader();
    ts_sleep_ms(20);
    for (int i = 0; i < 5; i++) {
      kill(parent, SIGUSR1);
      ts_sleep_ms(10);
    }
    close(fd);
    _exit(0);
  }
  use(100);
  waitpid(pid, NULL, 0);
  use(5000000);
}

/* ---- set-user-ID ------------------------------------------------------------------------------------------------ */

/* Started by secure(), as a program of another user: no word of the environment may be obeyed, or the file be shown. */
static void as_other_user(void) {
  char value[32];
  if (getauxval(AT_SECURE) == 0) cases_skip("set-user-ID has no effect here");
  use(100);
  hd_option_get("purge-delay", value, sizeof value);
  TS_CHECK(strcmp(value, "750") == 0, "purge-delay is %s in a set-user-ID program", value);
}

static void secure(void) {
  char self[64];
  if (geteuid() != 0) cases_skip("needs root, to make a program of another user");
  TS_CHECK(mkdtemp(directory) != NULL, "mkdtemp: %d", errno);
  chmod(directory, 0755);
  snprintf(self, sizeof self, "%s/early", directory);
  char *copy[] = {"cp", "/proc/self/exe", self, NULL};
  struct ts_outcome outcome;
  snprintf(path, sizeof path, "/proc/%d/exe", (int)getpid());
  copy[1] = path;
  ts_exec_run(copy, NULL, 10, &outcome);
  TS_CHECK(ts_exited(&outcome, 0), "cp: %s", outcome.error);
  TS_CHECK(chown(self, NOBODY, NOBODY) == 0 && chmod(self, 04755) == 0, "chown, chmod: %d", errno);
  char *argv[] = {self, "--in", "as-other-user", NULL};
  char *env[] = {"HEDDLE=verbose,purge-delay:10", "HEDDLE_FILE=/etc/passwd", "HEDDLE_PURGE_DELAY=20", NULL};
  ts_exec_run(argv, env, 10, &outcome);
  unlink(self);
  rmdir(directory);
  if (ts_exited(&outcome, 77)) cases_skip(outcome.error);
  TS_CHECK(ts_exited(&outcome, 0) && outcome.error[0] == 0, "status 0x%x: %s", outcome.status, outcome.error);
}

/* ---- a library's constructor ------------------------------------------------------------------------------------ */

/* The plugin has a copy of the allocator of its own, hidden; its constructor makes that copy's first calls. */
static void in_library(void) {
  void *library = dlopen(getenv("EARLY_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  TS_CHECK(library != NULL, "dlopen: %s", dlerror());
  use(100);
  dlclose(library);
}

static void *open_library(void *argument) {
  in_library();
  return argument;
}

static void in_library_in_thread(void) {
  pthread_t thread[4];
  for (int t = 0; t < 4; t++) TS_CHECK(pthread_create(&thread[t], NULL, open_library, NULL) == 0, "pthread_create");
  for (int t = 0; t < 4; t++) pthread_join(thread[t], NULL);
}

static const struct test_case all[] = {
    {.name = "fork-in-start", .run = fork_in_start},
    {.name = "first-calls-and-forks-once", .run = first_calls_and_forks_once},
    {.name = "first-calls-and-forks", .run = first_calls_and_forks, .limit_s = 60},
#ifdef __GLIBC__
    {.name = "handlers-before-calls", .run = handlers_before_calls},
#endif
    {.name = "threads-in-start", .run = threads_in_start},
    {.name = "signal-in-start", .run = signal_in_start},
    {.name = "secure", .run = secure},
    {.name = "library-constructor", .run = in_library},
    {.name = "library-constructor-in-threads", .run = in_library_in_thread},
    {.name = "as-other-user", .run = as_other_user},
};

int main(int argc, char **argv) {
  return cases_main(argc, argv, "early", all, sizeof all / sizeof *all);
}
