/* A small library that allocates in its constructor, in calls and in its destructor; loaded and unloaded by dlopen.c.
 *
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

void *plugin_make(size_t bytes);
void plugin_end(void *block);

static char *name;
static void *large;

__attribute__((constructor)) static void load(void) {
  name = strdup("plugin");
  large = calloc(1, 100000);
}

__attribute__((destructor)) static void unload(void) {
  free(name);
  free(large);
}

void *plugin_make(size_t bytes) {
  char *p = malloc(bytes);
  if (p) memset(p, name[0], bytes);
  return p;
}

void plugin_end(void *block) { free(block); }
