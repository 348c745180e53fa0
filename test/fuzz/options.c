/* Fuzz target: the reader of options. The input is the text of one layer: the variable HEDDLE, a variable of its own, the file, or a
 * call of hd_option_set. Whatever stands there: every option keeps within its range, what is read back sets the same, reading twice
 * changes nothing, and warnings are whole lines.
 *
 * The target never allocates, so options that are fixed at the start are read as well. The system's calls are replaced by link-time
 * wrapping: the file is the input, and what is written is looked at.
 *
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include <heddle.h>

#include "core/options.h"
#include "fuzz.h"

extern char **environ;

static const struct entry {
  const char *name;
  int64_t min, max;
  int64_t *value;
} table[] = {
#define OPTION(field, name, type, standard, min, max, unit, late, text) {name, min, max, &hdi_options.field},
#include "core/options.def"
#undef OPTION
};

enum { OPTION_COUNT = sizeof table / sizeof table[0], TEXT_MAX = 5000 };

static const char *file_text;
static size_t file_bytes;

long __wrap_hdi_os_read_file(const char *path, char *buffer, size_t bytes);
void __wrap_hdi_os_write(int fd, const char *text, size_t length);

long __wrap_hdi_os_read_file(const char *path, char *buffer, size_t bytes) {
  (void)path;
  size_t part = file_bytes < bytes ? file_bytes : bytes;
  if (part > 0) memcpy(buffer, file_text, part);
  return (long)part;
}

void __wrap_hdi_os_write(int fd, const char *text, size_t length) {
  FZ_CHECK(fd == 2 && length > 8 && length < 300, "%zu characters to %d", length, fd);
  FZ_CHECK(memcmp(text, "heddle: ", 8) == 0, "a warning of another form");
  FZ_CHECK(length == 255 || text[length - 1] == '\n', "a warning without its end"); /* cut at the length of its buffer */
}

static void check_options(void) {
  for (unsigned i = 0; i < OPTION_COUNT; i++) {
    char text[64];
    int64_t value = *table[i].value;
    FZ_CHECK(value >= table[i].min && value <= table[i].max, "%s is %lld", table[i].name, (long long)value);
    size_t length = hd_option_get(table[i].name, text, sizeof text);
    FZ_CHECK(length > 0 && length < sizeof text && strlen(text) == length, "%s as text of %zu", table[i].name, length);
    FZ_CHECK(hd_option_set(table[i].name, text) == HD_OK && *table[i].value == value, "%s read back from '%s'", table[i].name, text);
    for (size_t room = 0; room <= length; room++) {
      char cut[64] = "#";
      FZ_CHECK(hd_option_get(table[i].name, cut, room) == length && strlen(cut) == (room ? room - 1 : 1), "%s cut at %zu", text, room);
    }
  }
}

static void read_layers(char *first, char *second) {
  char *variables[] = {first, second, NULL};
  char **saved = environ;
  environ = variables;
  hdi_options_read();
  environ = saved;
}

/* "name", a value behind the first ':' or '='. */
static void call_set(char *text) {
  size_t name = strcspn(text, ":=");
  char *value = text[name] ? text + name + 1 : text + name;
  text[name] = 0;
  hd_options before = hdi_options;
  if (hd_option_set(text, value) != HD_OK) FZ_CHECK(memcmp(&before, &hdi_options, sizeof before) == 0, "a refused value was set");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static hd_options standard;
  static bool started;
  static char text[TEXT_MAX + 16];
  if (!started) {
    hd_option_get("help", NULL, 0); /* the process's own layers are read once */
    standard = hdi_options;
    started = true;
  }
  if (bytes == 0 || bytes > TEXT_MAX) return 0;
  unsigned layer = data[0] % 4;
  hdi_options = standard;
  file_bytes = 0;
  memset(text, 0, sizeof text);
  if (layer == 3) {
    memcpy(text, data + 1, bytes - 1);
    call_set(text);
    check_options();
    return 0;
  }
  memcpy(text, layer == 0 ? "HEDDLE=" : "HEDDLE_", 7);
  if (layer == 2) file_text = (const char *)data + 1, file_bytes = bytes - 1;
  else memcpy(text + 7, data + 1, bytes - 1);
  read_layers(layer == 2 ? NULL : text, NULL);
  check_options();
  hd_options once = hdi_options;
  read_layers(layer == 2 ? NULL : text, NULL);
  FZ_CHECK(memcmp(&once, &hdi_options, sizeof once) == 0, "read twice");
  hdi_options = standard;
  return 0;
}
