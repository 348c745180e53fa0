/* See options.h.
 * SPDX-License-Identifier: MIT */
#include "core/options.h"

#include <stddef.h>
#include <string.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/text.h"
#include "core/report.h"
#include "os/os.h"

extern char **environ;
extern const char *heddle_options __attribute__((weak));

hd_options hdi_options = {
#define OPTION(field, name, type, standard, min, max, unit, late, text) .field = (standard),
#include "core/options.def"
#undef OPTION
};

enum type { FLAG, NUMBER, STATS, PASSTHROUGH, ONERROR, THP };

/* The words of each type, in the order of their values; the rest is empty, and all of NUMBER. */
static const char words[][4][8] = {
    [FLAG] = {"off", "on"},
    [NUMBER] = {""},
    [STATS] = {"off", "on", "json"},
    [PASSTHROUGH] = {"off", "on", "auto"},
    [ONERROR] = {"abort", "report", "ignore"},
    [THP] = {"auto", "never", "always"},
};

/* Without pointers, as all tables of texts here: each would be a relocation of 24 bytes, which every process has in memory. */
enum { NAME_BYTES = 18, UNIT_BYTES = 8, TEXT_BYTES = 80 };

typedef struct option {
  char name[NAME_BYTES], unit[UNIT_BYTES], text[TEXT_BYTES];
  uint8_t type; /* enum type */
  bool late;
  uint16_t at; /* where its value stands in hdi_options */
  int64_t min, max;
} option;

#define OPTION(field, name, type, standard, min, max, unit, late, text) \
  _Static_assert(sizeof name <= NAME_BYTES && sizeof unit <= UNIT_BYTES && sizeof text <= TEXT_BYTES, name);
#include "core/options.def"
#undef OPTION

static const option table[] = {
#define OPTION(field, name, type, standard, min, max, unit, late, text) \
  {name, unit, text, type, late, offsetof(hd_options, field), min, max},
#include "core/options.def"
#undef OPTION
};

enum { OPTION_COUNT = sizeof table / sizeof table[0], FILE_BYTES = 4096 };

static int64_t *value_of(const option *item) { return (int64_t *)(void *)((char *)&hdi_options + item->at); }

static bool running; /* after init: options that are not `late` are fixed */

static const option *find(const char *name, size_t length) {
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (hdi_text_equal(name, length, table[i].name)) return &table[i];
  }
  return NULL;
}

static bool read_value(const option *item, const char *text, size_t length, int64_t *value) {
  if (item->type == NUMBER) {
    uint64_t number = 0;
    if (!hdi_text_read_bytes(text, length, &number) || number > INT64_MAX) return false;
    *value = (int64_t)number;
    return *value >= item->min && *value <= item->max;
  }
  if (length == 0) text = "on", length = 2; /* a bare key means on */
  if (item->type == FLAG || item->type == STATS) {
    if (hdi_text_equal(text, length, "1") || hdi_text_equal(text, length, "yes") || hdi_text_equal(text, length, "true")) {
      text = "on", length = 2;
    }
    if (hdi_text_equal(text, length, "0") || hdi_text_equal(text, length, "no") || hdi_text_equal(text, length, "false")) {
      text = "off", length = 3;
    }
  }
  for (int64_t word = 0; words[item->type][word][0] != 0; word++) {
    if (hdi_text_equal(text, length, words[item->type][word])) {
      *value = word;
      return true;
    }
  }
  return false;
}

static hd_status set(const char *name, size_t name_length, const char *text, size_t length) {
  const option *item = find(name, name_length);
  int64_t value = 0;
  if (item == NULL) return HD_ERR_UNKNOWN;
  if (running && !item->late) return HD_ERR_LATE;
  if (!read_value(item, text, length, &value)) return HD_ERR_VALUE;
  hd_store_owned(value_of(item), value);
  return HD_OK;
}

SLOW static void warn(const char *what, const char *name, size_t length, const char *source) {
  char buffer[128];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  hdi_text_put_n(&text, name, length);
  hdi_text_put(&text, "' in ");
  hdi_text_put(&text, source);
  hdi_text_put(&text, " (HEDDLE=help lists all)");
  hdi_report_warning(what, buffer);
}

/* One "key:value" or "key=value" or "key". Each is reported on its own, so each bad one warns once. */
static void set_pair(const char *pair, size_t length, const char *source) {
  while (length > 0 && (*pair == ' ' || *pair == '\t')) pair++, length--;
  while (length > 0 && (pair[length - 1] == ' ' || pair[length - 1] == '\t' || pair[length - 1] == '\r')) length--;
  if (length == 0 || *pair == '#') return;
  size_t key = 0;
  while (key < length && pair[key] != ':' && pair[key] != '=') key++;
  const char *value = pair + key + 1;
  size_t value_length = key < length ? length - key - 1 : 0;
  while (value_length > 0 && *value == ' ') value++, value_length--;
  hd_status status = set(pair, key, value, value_length);
  if (status == HD_ERR_UNKNOWN) warn("unknown option '", pair, key, source);
  else if (status == HD_ERR_VALUE) warn("bad value for option '", pair, key, source);
}

static void set_list(const char *list, size_t length, const char *source) {
  size_t start = 0;
  for (size_t at = 0; at <= length; at++) {
    if (at < length && list[at] != ',' && list[at] != '\n' && list[at] != ';') continue;
    set_pair(list + start, at - start, source);
    start = at + 1;
  }
}

HD_START_TEXT(variable, "HEDDLE");
HD_START_TEXT(variable_file, "HEDDLE_FILE");
HD_START_TEXT(variable_prefix, "HEDDLE_");
HD_START_TEXT(options_file, "/etc/heddle.conf");

/* What stands behind the prefix; NULL if the text starts with something else. */
static const char *behind(const char *text, const char *prefix) {
  while (*prefix != 0 && *text == *prefix) text++, prefix++;
  return *prefix == 0 ? text : NULL;
}

/* A set-user-ID program must not print what HEDDLE_FILE names, or obey who started it. */
static const char *environment(const char *name) {
  if (hdi_os.secure) return NULL;
  for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
    const char *rest = behind(*entry, name);
    if (rest != NULL && *rest == '=') return rest + 1;
  }
  return NULL;
}

/* A function of its own: the buffer is a page of stack, which a process without such a file does not touch. */
static SLOW bool obey_file(const char *path) {
  char buffer[FILE_BYTES];
  long length = hdi_os_read_file(path, buffer, sizeof buffer);
  if (length > 0) set_list(buffer, (size_t)length, path);
  return length >= 0;
}

SLOW static void obey_named_file(const char *path) {
  if (!obey_file(path)) hdi_report_warning("can't read the options file ", path);
}

/* Whether there is one is asked first, but not of a file that was named: it may be a pipe. */
static void read_file(void) {
  const char *named = environment(variable_file);
  if (HD_UNLIKELY(named != NULL)) obey_named_file(named);
  else if (HD_UNLIKELY(hdi_os_read_file(options_file, NULL, 0) >= 0)) obey_file(options_file);
}

/* HEDDLE_PURGE_DELAY=500 for purge-delay. Names that are no option are left alone: other tools use the prefix too. */
static void read_single_variables(void) {
  if (hdi_os.secure) return;
  for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
    const char *at = behind(*entry, variable_prefix);
    if (at == NULL) continue;
    char name[32];
    size_t length = 0;
    for (; *at != 0 && *at != '=' && length < sizeof name; at++) {
      name[length++] = *at == '_' ? '-' : *at >= 'A' && *at <= 'Z' ? (char)(*at | 0x20) : *at;
    }
    if (*at != '=' || find(name, length) == NULL) continue;
    if (set(name, length, at + 1, strlen(at + 1)) == HD_ERR_VALUE) warn("bad value for option '", name, length, "the environment");
  }
}

static void put_value(hd_text *text, const option *item, int64_t value) {
  if (item->type != NUMBER) hdi_text_put(text, words[item->type][value]);
  else hdi_text_decimal(text, (uint64_t)value);
}

SLOW static void print_table(bool help) {
  char buffer[4096];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  hdi_text_put(&text, "heddle ");
  hdi_text_put(&text, hd_version_text());
  hdi_text_put(&text, help ? ": options, as HEDDLE=\"key:value,key:value\" or HEDDLE_KEY=value\n" : "\n");
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    char value[32];
    hd_text part;
    hdi_text_start(&part, value, sizeof value);
    put_value(&part, &table[i], *value_of(&table[i]));
    hdi_text_put(&text, "  ");
    hdi_text_pad(&text, table[i].name, 18);
    hdi_text_pad(&text, value, 8);
    if (help) {
      hdi_text_put(&text, " ");
      for (int word = 0; words[table[i].type][word][0] != 0; word++) {
        hdi_text_put(&text, word == 0 ? "(" : "|");
        hdi_text_put(&text, words[table[i].type][word]);
      }
      hdi_text_put(&text, table[i].type != NUMBER ? ") " : table[i].unit);
      if (table[i].type == NUMBER) hdi_text_put(&text, " ");
      hdi_text_put(&text, table[i].text);
    }
    hdi_text_put(&text, "\n");
  }
  hdi_os_write(2, buffer, hdi_text_length(&text));
}

void hdi_options_read(void) {
  if (&heddle_options != NULL && heddle_options != NULL) set_list(heddle_options, strlen(heddle_options), "heddle_options");
  read_file();
  const char *list = environment(variable);
  if (list != NULL) set_list(list, strlen(list), "HEDDLE");
  read_single_variables();
}

/* A program may ask before its first allocation. What it sets then is stronger than what is read here. */
static void read_once(void) {
  static atomic_uint done;
  if (hd_exchange(&done, 1u) == 0) hdi_options_read();
}

void hdi_options_init(void) {
  read_once();
  running = true;
  if (hdi_options.help) print_table(true);
  else if (hdi_options.verbose) print_table(false);
}

HD_EXPORT hd_status hd_option_set(const char *name, const char *value) {
  if (name == NULL || value == NULL) return HD_ERR_UNKNOWN;
  read_once();
  return set(name, strlen(name), value, strlen(value));
}

HD_EXPORT size_t hd_option_get(const char *name, char *buffer, size_t bytes) {
  hd_text text;
  hdi_text_start(&text, buffer, bytes);
  read_once();
  const option *item = name == NULL ? NULL : find(name, strlen(name));
  if (item != NULL) put_value(&text, item, hd_load_owned(value_of(item)));
  return text.wanted;
}
