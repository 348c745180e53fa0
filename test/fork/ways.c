/* Ways to start a process and what its child does with the heap it inherits: forks by many threads at once, nested forks, blocks of the
 * parent's other threads freed in the child, heaps adopted there, memory that goes back there, explicit heaps, pools and arenas, a
 * system that refuses the helper thread, too little memory, vfork, posix_spawn, system and popen.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../life/cases.h"
#include "../support/filter.h"
#include "../support/support.h"
#include "../support/sut.h"
#include "child.h"
#ifdef TS_API
#include <heddle/arena.h>
#include <heddle/pool.h>
#endif

/* A directory for the child that is started: from glibc 2.29 on. */
#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 29)
#define posix_spawn_file_actions_addchdir_np(actions, path) TS_CHECK(chdir(path) == 0, "no way to " path)
#endif

extern char **environ;
enum { THREADS = 8, DEPTH = 5, MANY = 200000, MIB = 1 << 20 };

static void run_threads(int count, void *(*body)(void *)) {
  pthread_t thread[16];
  for (int t = 0; t < count; t++) TS_CHECK(pthread_create(&thread[t], NULL, body, (void *)(uintptr_t)t) == 0, "pthread_create");
  for (int t = 0; t < count; t++) pthread_join(thread[t], NULL);
}

static void settle(void) {
  if (ts_sut()->collect) ts_sut()->collect(0);
}

/* ---- who forks -------------------------------------------------------------------------------------------------- */

static void use_both(void *salt) {
  use_memory((unsigned)(uintptr_t)salt);
  use_memory_in_thread((unsigned)(uintptr_t)salt + 1);
}

static void *fork_25(void *salt) {
  for (uintptr_t n = 0; n < 25; n++) child_run(use_both, (void *)(n * 10 + (uintptr_t)salt));
  return NULL;
}

static void from_threads_at_once(void) {
  busy_start(2);
  run_threads(THREADS, fork_25);
  busy_stop();
}

/* At each depth threads are about, blocks of all generations are freed, and the next generation is forked by a thread. */
static void *of_depth[DEPTH + 1][200];
static void descend(void *level);

static void *descend_in_thread(void *level) {
  child_run(descend, level);
  return NULL;
}

static void descend(void *level) {
  uintptr_t depth = (uintptr_t)level;
  for (uintptr_t d = 0; d < depth; d++)
    for (size_t i = depth; i < 200; i += DEPTH + 1) ts_sut()->free(of_depth[d][i]);
  for (size_t i = 0; i < 200; i++) of_depth[depth][i] = ts_sut()->malloc(depth * 100 + i);
  use_both(level);
  if (depth == DEPTH) return;
  alarm(0); /* each generation has its own seconds */
  pthread_t thread;
  TS_CHECK(pthread_create(&thread, NULL, descend_in_thread, (void *)(depth + 1)) == 0, "pthread_create");
  use_memory(77);
  pthread_join(thread, NULL);
}

static void nested(void) {
  for (int i = 0; i < 10; i++) {
    for (size_t b = 0; b < 200; b++) of_depth[0][b] = ts_sut()->malloc(b);
    descend(NULL);
    for (size_t b = 0; b < 200; b++) ts_sut()->free(of_depth[0][b]);
  }
}

/* A process that becomes its own successor, as daemons and test harnesses do, with a thread alive each time: what that thread had
 * free must not be lost for ever. */
static _Noreturn void *wait_for_ever(void *filled) {
  use_memory(11);
  for (int i = 0; i < 2000; i++) ts_sut()->free(ts_sut()->malloc((size_t)i));
  atomic_store((atomic_bool *)filled, true);
  for (;;) pause();
}

static void successor(void *left) {
  static size_t early;
  uintptr_t generations = (uintptr_t)left;
  pthread_t thread;
  atomic_bool filled = false;
  TS_CHECK(pthread_create(&thread, NULL, wait_for_ever, &filled) == 0, "pthread_create");
  while (!atomic_load(&filled)) usleep(100);
  use_memory(12);
  settle();
  if (generations == 80) early = ts_rss();
  if (generations == 0) {
    size_t late = ts_rss();
    TS_CHECK(late < early + 8 * (size_t)MIB, "RSS grew from %zu to %zu KiB in 80 generations", early >> 10, late >> 10);
    return;
  }
  alarm(0);
  child_run(successor, (void *)(generations - 1));
}

static void generations(void) { successor((void *)(uintptr_t)100); }

/* ---- what the child inherits ------------------------------------------------------------------------------------ */

static void *held[MANY];
static atomic_bool filled;

static void *fill_and_stay(void *stay) {
  for (size_t i = 0; i < MANY; i++) memset(held[i] = ts_sut()->malloc(100 + i % 300), 1, 100);
  atomic_store(&filled, true);
  while (stay) pause();
  return NULL;
}

static void fill_held(bool stay) {
  pthread_t thread;
  TS_CHECK(pthread_create(&thread, NULL, fill_and_stay, stay ? &filled : NULL) == 0, "pthread_create");
  while (!atomic_load(&filled)) usleep(1000);
  if (!stay) pthread_join(thread, NULL);
}

static void free_held(size_t step) {
  for (size_t i = 0; i < MANY; i += step) {
    ts_sut()->free(held[i]);
    held[i] = NULL;
  }
}

/* How it goes back: by a call, or by the child's own helper. */
static void expect_back(size_t before, bool by_itself) {
  size_t now = 0;
  for (int wait = 0; wait < 200; wait++) {
    if (!by_itself) settle();
    now = ts_rss();
    if (now < before / 2) return;
    ts_sleep_ms(100);
    use_memory((unsigned)wait);
    alarm(CHILD_SECONDS);
  }
  ts_fail(__FILE__, __LINE__, "memory goes back in the child", "RSS %zu KiB with all blocks, %zu KiB without", before >> 10, now >> 10);
}

static void free_in_child(void *by_itself) {
  size_t before = ts_rss();
  free_held(1);
  expect_back(before, by_itself != NULL);
}

/* The blocks' thread vanished in the fork, and nobody owns its heap. */
static void of_vanished_thread(void) {
  fill_held(true);
  child_run(free_in_child, NULL);
  child_run(free_in_child, &filled);
}

static void of_ended_thread(void) {
  fill_held(false);
  child_run(free_in_child, NULL);
  child_run(free_in_child, &filled);
}

static void of_forking_thread(void) {
  fill_and_stay(NULL);
  child_run(free_in_child, NULL);
  child_run(free_in_child, &filled);
}

/* Threads of the child take over heaps of threads that had ended in the parent: their free blocks serve again. */
static void *take_many(void *argument) {
  (void)argument;
  for (size_t i = 0; i < MANY; i += 2) memset(held[i] = ts_sut()->malloc(100 + i % 300), 2, 100);
  return NULL;
}

static void adopt_in_child(void *argument) {
  (void)argument;
  size_t before = ts_rss();
  run_threads(1, take_many);
  size_t after = ts_rss();
  TS_CHECK(after < before + 12 * (size_t)MIB, "RSS %zu KiB, %zu KiB after a thread that could adopt", before >> 10, after >> 10);
}

static void adoption(void) {
  use_memory(1); /* the main thread has a heap of its own, and will not adopt that one */
  fill_held(false);
  free_held(2);
  child_run(adopt_in_child, NULL);
}

/* ---- heaps, pools, arenas --------------------------------------------------------------------------------------- */

static hd_heap *shared_heap;
static atomic_bool stop;

static void *use_heap(void *salt) {
  void *kept[100] = {0};
  for (size_t i = (size_t)salt; !atomic_load(&stop); i++) {
    ts_sut()->free(kept[i % 100]);
    kept[i % 100] = ts_sut()->heap_malloc(shared_heap, i % 37 == 0 ? 90000 : i * 7 % 2000);
    TS_CHECK(kept[i % 100] != NULL, "no block of the heap");
    if (i % 512 == 0) usleep(100);
  }
  for (int i = 0; i < 100; i++) ts_sut()->free(kept[i]);
  return NULL;
}

static bool count_block(const hd_area *area, void *block, size_t bytes, void *user) {
  (void)area;
  if (block != NULL && bytes > 0) ++*(size_t *)user;
  return true;
}

static void heap_in_child(void *argument) {
  (void)argument;
  size_t live = 0;
  void *mine[300];
  for (size_t i = 0; i < 300; i++) TS_CHECK((mine[i] = ts_sut()->heap_malloc(shared_heap, i * 61)) != NULL, "no block in the child");
  TS_CHECK(ts_sut()->heap_walk(shared_heap, true, count_block, &live) && live >= 300, "%zu blocks in the child's heap", live);
  for (size_t i = 0; i < 300; i++) ts_sut()->free(mine[i]);
  ts_sut()->heap_reset(shared_heap);
  ts_sut()->free(ts_sut()->heap_malloc(shared_heap, 100));
  ts_sut()->heap_destroy(shared_heap);
}

static void forks_with_heap(hd_heap_config *config) {
  if (!ts_sut()->heap_create) cases_skip("no heaps in this process");
  pthread_t thread[4];
  shared_heap = ts_sut()->heap_create(config);
  TS_CHECK(shared_heap != NULL, "no heap");
  for (uintptr_t t = 0; t < 4; t++) TS_CHECK(pthread_create(&thread[t], NULL, use_heap, (void *)(t * 100)) == 0, "pthread_create");
  for (int n = 0; n < 200; n++) child_run(heap_in_child, NULL);
  atomic_store(&stop, true);
  for (int t = 0; t < 4; t++) pthread_join(thread[t], NULL);
  ts_sut()->heap_destroy(shared_heap);
}

static void heap_in_use(void) { forks_with_heap(&(hd_heap_config){.struct_bytes = sizeof(hd_heap_config), .name = "shared"}); }

static void heap_in_own_memory(void) {
  static _Alignas(64) char memory[128 * MIB];
  forks_with_heap(&(hd_heap_config){.struct_bytes = sizeof(hd_heap_config), .memory = memory, .memory_bytes = sizeof memory});
}

#ifdef TS_API
static hd_arena *arena;
static hd_pool *pools[2];
static hd_heap *user_heap;

static void objects_in_child(void *argument) {
  for (int i = 0; i < 2000; i++) {
    char *p = hd_arena_alloc(arena, 100), *q = hd_arena_alloc(hd_arena_thread(), 100);
    void *a = hd_pool_take(pools[0]), *b = hd_pool_take(pools[1]), *c = hd_heap_malloc(user_heap, 500);
    TS_CHECK(p && q && a && b && c, "no memory in the child");
    p[0] = q[0] = 1;
    hd_pool_give(pools[0], a);
    hd_pool_give(pools[1], b);
    if (i % 2) hd_heap_free(user_heap, c);
    else hd_free(c);
  }
  if (argument != NULL) return;
  hd_arena_destroy(arena);
  for (int i = 0; i < 2; i++) hd_pool_destroy(pools[i]);
  hd_heap_destroy(user_heap);
}

/* Objects of the forking thread, and a shared pool that nobody else is busy with: usable in parent and child alike. */
static void objects(void) {
  hd_pool_config config = {.struct_bytes = sizeof config, .item_bytes = 48};
  pools[0] = hd_pool_create(&config);
  config.shared = true;
  pools[1] = hd_pool_create(&config);
  arena = hd_arena_create(NULL);
  user_heap = hd_heap_create(&(hd_heap_config){.struct_bytes = sizeof(hd_heap_config), .one_user = true});
  TS_CHECK(pools[0] && pools[1] && arena && user_heap, "no objects");
  busy_start(3);
  for (int n = 0; n < 50; n++) {
    child_run(objects_in_child, NULL);
    objects_in_child(arena);
  }
  busy_stop();
}
#else
static void objects(void) { cases_skip("pools and arenas are tested with the linked library"); }
#endif

/* ---- a system that refuses -------------------------------------------------------------------------------------- */

/* clone with the flags of the helper (a thread that the C library does not know: no CLONE_PARENT_SETTID) fails with EAGAIN. */
static void refuse_helper(void) {
#if defined(__x86_64__)
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_PARENT_SETTID, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  if (!ts_filter_rules(rules, sizeof rules / sizeof *rules)) cases_skip("no seccomp filters here");
#else
  cases_skip("the filter is written for x86-64");
#endif
}

static void without_helper(void) {
  refuse_helper();
  fill_held(true);
  child_run(free_in_child, NULL);
  busy_start(3);
  for (uintptr_t n = 0; n < 50; n++) child_run(use_both, (void *)n);
  busy_stop();
  free_held(1);
}

/* No new address space: what does not fit fails with ENOMEM, what was freed can be had again. */
static void in_little_memory(void *argument) {
  struct rlimit limit = {(rlim_t)1, (rlim_t)1};
  size_t taken = 0;
  void *last = NULL;
  TS_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
  for (void **p; (p = ts_sut()->malloc(100000)) != NULL; taken++) {
    *p = last;
    last = p;
    TS_CHECK(taken < 1000000, "the limit does not hold");
  }
  TS_CHECK(errno == ENOMEM, "errno %d", errno);
  free_held(3);
  for (size_t i = 0; i < MANY / 10; i += 3) TS_CHECK((held[i] = ts_sut()->malloc(100 + i % 300)) != NULL, "block %zu of those freed", i);
  while (last != NULL) {
    void *next = *(void **)last;
    ts_sut()->free(last);
    last = next;
  }
  if (taken > 0) TS_CHECK((last = ts_sut()->malloc(100000)) != NULL, "a large block that was freed");
  if (argument != NULL) child_run(in_little_memory, NULL);
}

static void little_memory(void) {
  fill_and_stay(NULL);
  busy_start(2);
  for (int n = 0; n < 5; n++) child_run(in_little_memory, &filled);
  busy_stop();
}

/* ---- other ways ------------------------------------------------------------------------------------------------- */

static void *start_programs(void *salt) {
  for (int n = 0; n < 8; n++) {
    use_memory((unsigned)(uintptr_t)salt + (unsigned)n);
    pid_t pid = vfork();
    if (pid == 0) {
      execl("/bin/true", "true", (char *)NULL);
      _exit(127);
    }
    child_await(pid);
    TS_CHECK(system("true") == 0, "system");
    char line[32] = "";
    FILE *pipe = popen("echo whole", "r");
    TS_CHECK(pipe != NULL && fgets(line, sizeof line, pipe) != NULL && strcmp(line, "whole\n") == 0, "popen gave '%s'", line);
    TS_CHECK(pclose(pipe) == 0, "pclose");
  }
  return NULL;
}

static void programs_at_once(void) {
  busy_start(2);
  run_threads(3, start_programs);
  busy_stop();
}

/* A child of vfork that allocates lives in the parent's memory; what it leaves there is the parent's. */
static void vfork_allocates(void) {
  static void *volatile left;
  for (volatile size_t n = 0; n < 200; n++) {
    pid_t pid = vfork();
    if (pid == 0) {
      left = ts_sut()->malloc(n * 50);
      ts_sut()->free(ts_sut()->malloc(100000));
      _exit(left == NULL);
    }
    child_await(pid);
    ts_sut()->free(left);
    use_memory((unsigned)n);
  }
}

static void spawn_with_everything(void) {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  sigset_t signals;
  struct sched_param parameters = {0};
  busy_start(3);
  for (int n = 0; n < 30; n++) {
    pid_t pid;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    posix_spawnattr_setschedpolicy(&attributes, SCHED_OTHER);
    posix_spawnattr_setschedparam(&attributes, &parameters);
    sigaddset(&signals, SIGUSR1);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSCHEDULER | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_RESETIDS;
    posix_spawnattr_setflags(&attributes, flags);
    for (int fd = 20; fd < 80; fd++) posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0); /* a list that grows */
    for (int fd = 20; fd < 80; fd += 2) posix_spawn_file_actions_addclose(&actions, fd);
    posix_spawn_file_actions_adddup2(&actions, 21, 1);
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    char *argv[] = {"sh", "-c", "test \"$PWD\" = / && test -e /proc/self/fd/21 && ! test -e /proc/self/fd/22", NULL};
    TS_CHECK(posix_spawnp(&pid, "sh", &actions, &attributes, argv, environ) == 0, "posix_spawnp");
    child_await(pid);
    TS_CHECK(posix_spawn(&pid, "/nonexistent", &actions, &attributes, argv, environ) == ENOENT, "spawn of nothing");
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  busy_stop();
}

static void hang(void *argument) {
  (void)argument;
  pause();
}

/* The canary: a child that hangs is reported within its seconds. */
static void hanging_child(void) { child_run(hang, NULL); }

static const struct test_case all[] = {
    {.name = "hanging-child", .run = hanging_child, .limit_s = 4 * CHILD_SECONDS, .status = 1, .report = "the child hung"},
    {.name = "from-threads-at-once", .run = from_threads_at_once, .limit_s = 60},
    {.name = "nested", .run = nested, .limit_s = 60},
    {.name = "generations", .run = generations, .limit_s = 60},
    {.name = "of-vanished-thread", .run = of_vanished_thread, .limit_s = 60},
    {.name = "of-ended-thread", .run = of_ended_thread, .limit_s = 60},
    {.name = "of-forking-thread", .run = of_forking_thread, .limit_s = 60},
    {.name = "adoption", .run = adoption, .limit_s = 30},
    {.name = "heap-in-use", .run = heap_in_use, .limit_s = 60},
    {.name = "heap-in-own-memory", .run = heap_in_own_memory, .limit_s = 60},
    {.name = "objects", .run = objects, .limit_s = 30},
    {.name = "without-helper", .run = without_helper, .limit_s = 60},
    {.name = "little-memory", .run = little_memory, .limit_s = 30},
    {.name = "programs-at-once", .run = programs_at_once, .limit_s = 60},
    {.name = "vfork-allocates", .run = vfork_allocates, .limit_s = 30},
    {.name = "spawn-with-everything", .run = spawn_with_everything, .limit_s = 60},
};

int main(int argc, char **argv) {
  if (argc == 1) ts_expect_heddle();
  return cases_main(argc, argv, "fork ways (" TS_FLAVOUR ")", all, sizeof all / sizeof *all);
}
