/* dlopen without RTLD_DEEPBIND. What is loaded with that flag (PHP's extensions are) finds the C library's malloc and free before Heddle's,
 * while strdup, getline and its program go on giving it Heddle's blocks; the first of them that it freed would end the process.
 * In libheddle.so alone: a program that links the object chooses its own flags. See decision 15.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "core/options.h"
#include "heddle.h"

/* Other C libraries do not have it. */
#ifdef RTLD_DEEPBIND
typedef void *(*open_function)(const char *, int);

static open_function find_next(void) {
  static _Atomic(open_function) found;
  open_function next = hd_load_relaxed(&found);
  if (next == NULL) {
    *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
    hd_store_relaxed(&found, next);
  }
  return next;
}

/* The call has to be the last thing done: whose RUNPATH is searched, and in which namespace, the C library tells by the return address. */
HD_EXPORT void *dlopen(const char *file, int mode) {
  open_function next = find_next();
  if ((mode & RTLD_DEEPBIND) != 0 && hd_override_active(NULL) && !hdi_options.deepbind) mode &= ~RTLD_DEEPBIND;
  return next(file, mode);
}
#endif
