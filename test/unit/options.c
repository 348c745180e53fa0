/* The options table at run time: every option by name, its words, its limits, garbage.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/options.h"
#include "heddle.h"

static const struct entry {
  const char *name, *type;
  int64_t standard, min, max;
  int64_t *value;
  bool late;
} table[] = {
#define OPTION(field, name, type, standard, min, max, unit, late, text) {name, #type, standard, min, max, &hdi_options.field, late},
#include "core/options.def"
#undef OPTION
};
#define OPTION_COUNT (sizeof table / sizeof *table)

/* First of all: nothing has been allocated yet. The layers count already, and what the program sets is stronger than they. */
static void test_before_the_first_allocation(void **state) {
  (void)state;
  char text[32];
  setenv("HEDDLE", "purge-delay:123,onerror:report", 1);
  assert_int_equal(hd_option_get("onerror", text, sizeof text), strlen("report"));
  assert_int_equal(hd_option_get("purge-delay", text, sizeof text), 3);
  assert_string_equal(text, "123");
  assert_int_equal(hd_option_set("purge-delay", "7"), HD_OK);
  hd_free(hd_malloc(1)); /* starts the library: from here on only late options may change */
  hd_option_get("purge-delay", text, sizeof text);
  assert_string_equal(text, "7");
  assert_int_equal(hd_option_set("purge-delay", "750"), HD_OK);
  assert_int_equal(hd_option_set("onerror", "abort"), HD_OK);
}

static void test_table_is_sane(void **state) {
  (void)state;
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    assert_true(table[i].min <= table[i].standard && table[i].standard <= table[i].max);
    for (const char *c = table[i].name; *c; c++) assert_true((*c >= 'a' && *c <= 'z') || *c == '-');
    for (size_t j = 0; j < i; j++) assert_string_not_equal(table[i].name, table[j].name);
  }
}

static void test_get_gives_what_set_reads(void **state) {
  (void)state;
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    char text[64];
    int64_t before = *table[i].value;
    assert_true(hd_option_get(table[i].name, text, sizeof text) > 0);
    hd_status status = hd_option_set(table[i].name, text);
    assert_int_equal(status, table[i].late ? HD_OK : HD_ERR_LATE);
    assert_true(*table[i].value == before);
  }
}

static void test_numbers_keep_their_range(void **state) {
  (void)state;
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (strcmp(table[i].type, "NUMBER") != 0 || !table[i].late) continue;
    int64_t before = *table[i].value;
    char text[64];
    snprintf(text, sizeof text, "%lld", (long long)table[i].max);
    assert_int_equal(hd_option_set(table[i].name, text), HD_OK);
    assert_true(*table[i].value == table[i].max);
    snprintf(text, sizeof text, "%llu", (unsigned long long)table[i].max + 1);
    assert_int_equal(hd_option_set(table[i].name, text), HD_ERR_VALUE);
    assert_true(*table[i].value == table[i].max);
    *table[i].value = before;
  }
}

static void test_garbage(void **state) {
  (void)state;
  assert_int_equal(hd_option_set(NULL, "1"), HD_ERR_UNKNOWN);
  assert_int_equal(hd_option_set("", "1"), HD_ERR_UNKNOWN);
  assert_int_equal(hd_option_set("purge-dela", "1"), HD_ERR_UNKNOWN);
  assert_int_equal(hd_option_set("purge-delayed", "1"), HD_ERR_UNKNOWN);
  assert_int_equal(hd_option_get("no-such", NULL, 0), 0);
  assert_int_equal(hd_option_get(NULL, NULL, 0), 0);
  struct ts_rng rng = {ts_seed()};
  hd_options before = hdi_options;
  for (int i = 0; i < 200000; i++) {
    char text[16];
    size_t length = ts_below(&rng, sizeof text - 1);
    for (size_t c = 0; c < length; c++) text[c] = (char)(1 + ts_below(&rng, 255));
    text[length] = 0;
    const struct entry *entry = &table[ts_below(&rng, OPTION_COUNT)];
    hd_status status = hd_option_set(i % 2 ? entry->name : text, text);
    if (status == HD_OK) assert_true(entry->late && *entry->value >= entry->min && *entry->value <= entry->max);
  }
  hdi_options = before;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_before_the_first_allocation), cmocka_unit_test(test_table_is_sane),
      cmocka_unit_test(test_get_gives_what_set_reads),
      cmocka_unit_test(test_numbers_keep_their_range),
      cmocka_unit_test(test_garbage),
  };
  return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
