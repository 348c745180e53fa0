/* See report.h.
 * SPDX-License-Identifier: MIT */
#include "core/report.h"

#include "base/atomic.h"
#include "base/text.h"
#include "core/check.h"
#include "core/options.h"
#include "core/space.h"
#include "os/os.h"

static hd_misuse_hook *_Atomic hook;

HD_EXPORT void hd_misuse_hook_set(hd_misuse_hook *wanted) { hd_store_release(&hook, wanted); /* pairs with the load in tell */ }

static void tell(hd_text *text, const void *p, const char *code) {
  hdi_text_put(text, " [");
  hdi_text_put(text, code);
  hdi_text_put(text, "]\n");
  if (hd_load_owned(&hdi_options.onerror) != HD_ONERROR_IGNORE) hdi_os_write(2, text->buffer, hdi_text_length(text));
  hd_misuse_hook *call = hd_load_acquire(&hook);
  if (call != NULL) call(p, code);
}

void hdi_report_finish(hd_text *text, const void *p, const char *code) {
  tell(text, p, code);
  if (hd_load_owned(&hdi_options.onerror) == HD_ONERROR_ABORT) hdi_os_abort();
}

static void put_what(hd_text *text, const char *verb, const char *what, const void *p) {
  hdi_text_put(text, "heddle: ");
  hdi_text_put(text, what);
  hdi_text_put(text, verb);
  hdi_text_put(text, " of ");
  hdi_text_hex(text, (uintptr_t)p);
}

/* Without the closing bracket. */
static void put_class_start(hd_text *text, const hd_unit *unit) {
  bool large = unit->class_index == 0;
  hdi_text_put(text, large ? " (large, " : " (");
  hdi_text_decimal(text, unit->block_bytes);
  hdi_text_put(text, large ? " bytes" : "-byte class");
}

static void put_class(hd_text *text, const hd_unit *unit) {
  put_class_start(text, unit);
  hdi_text_put(text, ")");
}

static void put_count(hd_text *text, size_t count) {
  hdi_text_decimal(text, count);
  hdi_text_put(text, count == 1 ? " byte" : " bytes");
}

/* The class, and what was asked for where that is another number. */
static void put_class_asked(hd_text *text, const hd_unit *unit, size_t asked) {
  put_class_start(text, unit);
  if (unit->class_index != 0 && asked != SIZE_MAX) {
    hdi_text_put(text, ", ");
    put_count(text, asked);
    hdi_text_put(text, " asked");
  }
  hdi_text_put(text, ")");
}

const char *hdi_area_kind_text(hd_area_kind kind) {
  static const char *const texts[] = {"a page",        "a large block", "an arena",          "a pool",
                                      "an index pool", "a string pool", "a table of handles"};
  return (size_t)kind < sizeof texts / sizeof texts[0] ? texts[kind] : "an object";
}

static void put_region(hd_text *text, const hd_unit *region) {
  hdi_text_put(text, ", memory of ");
  hdi_text_put(text, hdi_area_kind_text((hd_area_kind)region->class_index));
  if (region->name == NULL) return;
  hdi_text_put(text, " '");
  hdi_text_put(text, region->name);
  hdi_text_put(text, "'");
}

/* The first unit of the large block (or of the freed one whose run a heap keeps) or region that covers this unit, or NULL: only first units
 * are marked, so look back. */
static const hd_unit *covering_run(const hd_unit *unit) {
  const hd_space *space = hdi_space_of(unit);
  for (const hd_unit *at = unit; at >= space->units; at--) {
    unsigned kind = hd_load_relaxed(&((hd_unit *)(uintptr_t)at)->kind);
    if (kind == HD_UNIT_LARGE || kind == HD_UNIT_REGION) return (size_t)(unit - at) < hd_peek(&at->run_units) ? at : NULL;
    if (kind != HD_UNIT_NONE) return NULL;
  }
  return NULL;
}

static bool is_double(const hd_unit *unit, const void *p) {
  /* What stood here last is still readable: the start of one of its blocks was a block. */
  return unit->base != NULL && hdi_unit_block_index(unit, p) < unit->capacity;
}

void hdi_report_misuse(const char *verb, const void *p, hd_unit *unit) {
  char buffer[256];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  if (unit == NULL) {
    put_what(&text, verb, "", p);
    hdi_text_put(&text, ", a pointer that was never handed out");
    hdi_report_finish(&text, p, "HD-E02");
    return;
  }
  unsigned kind = hd_load_relaxed(&unit->kind);
  const hd_unit *large = kind == HD_UNIT_NONE || kind == HD_UNIT_LARGE || kind == HD_UNIT_REGION ? covering_run(unit) : NULL;
  bool was_free = hdi_text_equal(verb, 4, "free");
  if (large != NULL && hd_load_relaxed(&large->kind) == HD_UNIT_REGION) {
    put_what(&text, verb, "", p);
    put_region(&text, large);
    hdi_report_finish(&text, p, "HD-E07");
  } else if (large != NULL && large->base != p) {
    put_what(&text, verb, "", p);
    hdi_text_put(&text, ", an interior pointer");
    put_class(&text, large);
    hdi_report_finish(&text, p, "HD-E01");
  } else if (is_double(unit, p)) {
    const hd_unit *head = kind == HD_UNIT_PAGE ? unit->head : unit;
    uint64_t index = hdi_unit_block_index(unit, p);
    if (kind == HD_UNIT_PAGE && index >= head->fresh) {
      put_what(&text, verb, "", p);
      hdi_text_put(&text, ", a pointer that was never handed out");
      put_class(&text, unit);
      hdi_report_finish(&text, p, "HD-E02");
      return;
    }
    put_what(&text, was_free ? "free" : verb, was_free ? "double " : "", p);
    if (!was_free) hdi_text_put(&text, ", a freed block");
    put_class(&text, unit);
    hdi_report_finish(&text, p, was_free ? "HD-E03" : "HD-E04");
  } else if (kind == HD_UNIT_PAGE && (uintptr_t)p - (uintptr_t)unit->base < unit->capacity * unit->block_bytes) {
    put_what(&text, verb, "", p);
    hdi_text_put(&text, ", an interior pointer");
    put_class(&text, unit);
    hdi_report_finish(&text, p, "HD-E01");
  } else {
    put_what(&text, verb, "", p);
    hdi_text_put(&text, ", a pointer that was never handed out");
    hdi_report_finish(&text, p, "HD-E02");
  }
}

/* ---- hardened mode ----------------------------------------------------------------------------------------------- */

void hdi_report_overflow(const char *verb, const void *p, const hd_unit *unit, size_t asked) {
  char buffer[256];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  put_what(&text, verb, "", p);
  hdi_text_put(&text, ", written past its end");
  put_class_asked(&text, unit, asked);
  hdi_report_finish(&text, p, "HD-E10");
}

void hdi_report_written(const void *p, const hd_unit *unit, size_t at) {
  char buffer[256];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  put_what(&text, "free", "write after ", p);
  hdi_text_put(&text, ", at byte ");
  hdi_text_decimal(&text, at);
  put_class(&text, unit);
  hdi_report_finish(&text, p, "HD-E11");
}

void hdi_report_size(const void *p, const hd_unit *unit, const char *what, size_t said, size_t asked) {
  char buffer[256];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  put_what(&text, "free", "sized ", p);
  hdi_text_put(&text, ", said to have ");
  hdi_text_put(&text, what);
  hdi_text_put(&text, " ");
  hdi_text_decimal(&text, said);
  put_class_asked(&text, unit, asked);
  hdi_report_finish(&text, p, "HD-E13");
}

/* No policy here: the fault ends the process. */
void hdi_report_fault(const void *address) {
  char buffer[256];
  hd_text text;
  const hd_unit *unit = hdi_space_find(address);
  const hd_unit *run = unit == NULL ? NULL : covering_run(unit);
  if (run == NULL || !hdi_unit_is_hardened((hd_unit *)(uintptr_t)run)) return;
  uintptr_t at = (uintptr_t)address;
  uintptr_t start = (uintptr_t)run->base;
  uintptr_t end = start + run->block_bytes;
  hdi_text_start(&text, buffer, sizeof buffer);
  hdi_text_put(&text, "heddle: access to ");
  hdi_text_hex(&text, at);
  hdi_text_put(&text, ", ");
  put_count(&text, at < start ? start - at : at < end ? at - start : at - end + 1);
  hdi_text_put(&text, at < start ? " before the start of a " : at < end ? " into a " : " behind the end of a ");
  hdi_text_put(&text, hd_load_relaxed(&((hd_unit *)(uintptr_t)run)->live) == 1 ? "block of " : "freed block of ");
  put_count(&text, run->block_bytes);
  tell(&text, address, "HD-E12");
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static void report_plain(const char *verb, const void *p, const char *why, const char *code) {
  char buffer[256];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  put_what(&text, verb, "", p);
  hdi_text_put(&text, why);
  hdi_report_finish(&text, p, code);
}

void hdi_report_other_heap(const char *verb, const void *p) {
  report_plain(verb, p, ", which is no block of the heap it was given with", "HD-E05");
}

void hdi_report_foreign(const char *verb, const void *p) { report_plain(verb, p, ", a pointer from outside Heddle's memory", "HD-E05"); }

void hdi_report_warning(const char *text, const char *detail) {
  char buffer[256];
  hd_text line;
  hdi_text_start(&line, buffer, sizeof buffer);
  hdi_text_put(&line, "heddle: ");
  hdi_text_put(&line, text);
  hdi_text_put(&line, detail);
  hdi_text_put(&line, "\n");
  hdi_os_write(2, buffer, hdi_text_length(&line));
}

_Noreturn void hdi_check_failed(const char *what, const char *file, int line) {
  char buffer[256];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  hdi_text_put(&text, "heddle: internal check failed: ");
  hdi_text_put(&text, what);
  hdi_text_put(&text, " at ");
  hdi_text_put(&text, file);
  hdi_text_put(&text, ":");
  hdi_text_decimal(&text, (uint64_t)line);
  hdi_text_put(&text, " [HD-E06]\n");
  hdi_os_write(2, buffer, hdi_text_length(&text));
  hdi_os_abort();
}
