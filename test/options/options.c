/* Shows what the options came to: options [name[=value]]... prints a line for each: name=value asks, name=value sets first.
 * With the macro WEAK_OPTIONS the program defines heddle_options, the layer right above the built-in values.
 *
 *   options [--stats-json] [--alloc bytes] NAME... NAME=VALUE...
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"

#include <heddle.h>

#ifdef WEAK_OPTIONS
const char *heddle_options = WEAK_OPTIONS;
#endif

static const char *const status_name[] = {"ok", "unknown", "value", "late", "nomem"};

static void *find(const char *name) {
  void *symbol = dlsym(RTLD_DEFAULT, name);
  TS_CHECK(symbol != NULL, "no %s: Heddle is not loaded", name);
  return symbol;
}

static void set(char *pair) {
  hd_status (*option_set)(const char *, const char *);
  void *symbol = find("hd_option_set");
  memcpy(&option_set, &symbol, sizeof symbol);
  char *value = strchr(pair, '=');
  *value++ = 0;
  ts_print(1, "set %s %s: %s\n", pair, value, status_name[option_set(pair, value)]);
}

static void get(const char *name) {
  size_t (*option_get)(const char *, char *, size_t);
  void *symbol = find("hd_option_get");
  memcpy(&option_get, &symbol, sizeof symbol);
  char text[64] = "untouched", tiny[3] = "zz";
  size_t length = option_get(name, text, sizeof text);
  if (length == 0) {
    ts_print(1, "%s: none\n", name);
    return;
  }
  TS_CHECK(length == strlen(text), "the length of %s is %zu, the text '%s'", name, length, text);
  TS_CHECK(option_get(name, tiny, sizeof tiny) == length && strlen(tiny) <= 2, "truncation of %s", name);
  TS_CHECK(option_get(name, NULL, 0) == length, "length alone of %s", name);
  ts_print(1, "%s: %s\n", name, text);
}

static void print_json(void) {
  static char text[65536];
  size_t (*stats_json)(char *, size_t);
  void *symbol = find("hd_stats_json");
  memcpy(&stats_json, &symbol, sizeof symbol);
  size_t length = stats_json(text, sizeof text);
  TS_CHECK(length > 0 && length < sizeof text && length == strlen(text), "length %zu", length);
  TS_CHECK(stats_json(NULL, 0) > 0, "length without a buffer");
  ts_print(1, "%s", text);
}

int main(int argc, char **argv) {
  void *volatile kept = NULL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--stats-json") == 0) print_json();
    else if (strcmp(argv[i], "--alloc") == 0 && i + 1 < argc) kept = malloc((size_t)atol(argv[++i]));
    else if (strchr(argv[i], '=')) set(argv[i]);
    else get(argv[i]);
  }
  if (kept) ((char *)kept)[0] = 1; /* kept to the end: statistics at exit show it */
  return 0;
}
