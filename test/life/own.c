/* A library with a hidden copy of the allocator in it: its constructor, its functions and its destructor use that copy.
 *
 * SPDX-License-Identifier: MIT */
#include <heddle.h>
#include <stdlib.h>
#include <string.h>

void *own_make(size_t bytes);
void own_end(void *block);

static char *name;
static __thread void *of_thread; /* in the plugin's own thread-local storage */

__attribute__((constructor)) static void load(void) {
  name = hd_strdup("own");
  void *huge = hd_malloc((size_t)100 << 20);
  if (name == NULL || huge == NULL || !hd_owns(name)) abort();
  hd_free(huge);
}

__attribute__((destructor)) static void unload(void) { hd_free(name); }

void *own_make(size_t bytes) {
  hd_free(of_thread);
  of_thread = hd_malloc(100);
  char *p = hd_malloc(bytes);
  if (p != NULL) memset(p, name[0], bytes);
  return p;
}

void own_end(void *block) { hd_free(block); }
