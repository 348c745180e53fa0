/* Loaded into programs that run under an emulator: a program of the same machine that they start runs under it as well, where the
 * system does not see to that by itself. Preloaded by test/cross/emulate, which is also what such a start becomes.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARGUMENTS = 256, ENTRIES = 1024 };

/* Whether a file is a program of the machine that this one is for. */
static int is_ours(const char *path) {
  Elf32_Ehdr own, other; /* what is compared lies before the first field that differs in width */
  int here = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), there = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t a = here < 0 ? -1 : read(here, &own, sizeof own), b = there < 0 ? -1 : read(there, &other, sizeof other);
  if (here >= 0) close(here);
  if (there >= 0) close(there);
  if (a != sizeof own || b != sizeof other || memcmp(other.e_ident, ELFMAG, SELFMAG) != 0) return 0;
  return own.e_machine == other.e_machine && own.e_ident[EI_CLASS] == other.e_ident[EI_CLASS];
}

/* The emulator is a script of this machine, whose programs could not load what the guest preloads: it goes by another name. */
static char *const *renamed(char *const environment[], char *room[ENTRIES], char preload[PATH_MAX]) {
  size_t count = 0;
  for (size_t i = 0; environment[i] != NULL && count < ENTRIES - 1; i++) {
    bool ours = strncmp(environment[i], "LD_PRELOAD=", 11) == 0;
    if (ours) snprintf(preload, PATH_MAX, "CROSS_%s", environment[i]);
    room[count++] = ours ? preload : environment[i];
  }
  room[count] = NULL;
  return room;
}

int execve(const char *path, char *const arguments[], char *const environment[]) {
  const char *emulate = getenv("CROSS_EMULATE"), *machine = getenv("CROSS_MACHINE");
  char real[PATH_MAX], preload[PATH_MAX];
  char *room[ENTRIES];
  char *more[ARGUMENTS + 4] = {(char *)"emulate", (char *)machine, real};
  if (strcmp(path, "/proc/self/exe") == 0) {
    ssize_t length = readlink(path, real, sizeof real - 1);
    if (length > 0) real[length] = 0, path = real;
  }
  if (emulate == NULL || machine == NULL || !is_ours(path)) return (int)syscall(SYS_execve, path, arguments, environment);
  if (path != real) strncpy(real, path, sizeof real - 1);
  for (size_t i = 1; i < ARGUMENTS && arguments[i] != NULL; i++) more[2 + i] = arguments[i];
  return (int)syscall(SYS_execve, emulate, more, renamed(environment, room, preload));
}

int execv(const char *path, char *const arguments[]) { return execve(path, arguments, environ); }

/* The tests give whole paths. */
int execvpe(const char *file, char *const arguments[], char *const environment[]) { return execve(file, arguments, environment); }

int execl(const char *path, const char *first, ...) {
  char *arguments[ARGUMENTS] = {(char *)first};
  va_list more;
  va_start(more, first);
  for (size_t i = 1; i < ARGUMENTS - 1 && arguments[i - 1] != NULL; i++) arguments[i] = va_arg(more, char *);
  va_end(more);
  return execve(path, arguments, environ);
}
