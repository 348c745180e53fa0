/* Malloc and free take turns at a group where a program takes and frees the same few blocks (decision 34).
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "alone.h"
#include "core/alloc.h"
#include "core/claim.h"
#include "core/page.h"
#include "heddle.h"
#include "pages.h"

enum { TINY = 16, LONG = 1024, LONGEST = HD_SMALL_MAX, PER_PAGE = HD_UNIT_BYTES / TINY, LEAST = 4, LONG_TURN = 8 };

static void *kept[4 * PER_PAGE];
static unsigned keeps;

static hd_class *class_of(size_t bytes) { return &hdi_heap_self->class[hdi_sizeclass_of(bytes)]; }

static void *take(size_t bytes) {
  own_pages();
  void *p = hd_malloc(bytes);
  TS_CHECK(p != NULL, "%zu bytes", bytes);
  return p;
}

static void keep(size_t bytes) { kept[keeps++] = take(bytes); }

static void pairs(size_t bytes, unsigned count) {
  while (count-- > 0) hd_free(take(bytes));
}

/* So many that the page's credit has run out twice in a row, whatever it was. */
static void many_pairs(size_t bytes) { pairs(bytes, 2 * HD_CREDIT_CURRENT); }

static bool takes_turns(size_t bytes) {
  const hd_class *class = class_of(bytes);
  return class->turn != 0 && hdi_slot_word(&class_of(bytes)->slot) == &class->page->apart;
}

/* Every block of the group that the page has handed out is live, in a word, or apart, and no two of these. */
static void check_group(size_t bytes) {
  const hd_unit *page = class_of(bytes)->page;
  uint64_t word = page->words[page->group], apart = page->apart;
  TS_CHECK((word & apart) == 0, "%llx are in both", (unsigned long long)(word & apart));
  unsigned from = page->group * 64u, to = (unsigned)hd_min(page->fresh, from + 64);
  for (unsigned i = from; i < to; i++) {
    bool is_free = ((word | apart) >> (i - from) & 1) != 0;
    TS_CHECK(is_free == (hd_load_relaxed(&page->map[i]) == HD_BLOCK_FREE), "block %u of the group", i - from);
  }
}

static void from_the_8192nd_on(void) {
  keep(TINY);
  TS_CHECK(hd_bit_count(hdi_slot_bits(&class_of(TINY)->slot)) == 63, "set up otherwise");
  void *last = take(TINY);
  hd_free(last);
  TS_CHECK(!takes_turns(TINY) && take(TINY) == last, "turns from the start");
  hd_free(last);
  pairs(TINY, HD_CREDIT_CURRENT - 3);
  TS_CHECK(class_of(TINY)->page->credit == 1, "credit of %u", class_of(TINY)->page->credit);
  pairs(TINY, HD_CREDIT_CURRENT);
  TS_CHECK(!takes_turns(TINY), "too early");
  pairs(TINY, 1);
  TS_CHECK(takes_turns(TINY), "not after %u frees in a row", 2 * HD_CREDIT_CURRENT);
  check_group(TINY);
  int again = 0;
  for (int i = 0; i < 1000; i++) {
    void *p = take(TINY);
    again += p == last;
    hd_free(last = p);
    check_group(TINY);
  }
  TS_CHECK(again <= 1000 / 32, "what was freed last is taken first, %d times", again);
  TS_CHECK(takes_turns(TINY) && class_of(TINY)->page_count == 1, "not any more");
  TS_CHECK(hdi_page_used(class_of(TINY)->page) == 1, "%u in use in place of 1", hdi_page_used(class_of(TINY)->page));
}

/* Keep blocks until all of a page's first group have been handed out, or all of the page. */
static void touch_group(size_t bytes) {
  while (class_of(bytes)->page == NULL || class_of(bytes)->page->fresh < hd_min(64, HD_UNIT_BYTES / bytes)) keep(bytes);
}

static void shorter_turns_of_larger_blocks(void) {
  const struct {
    size_t bytes;
    unsigned turn;
  } expected[] = {{TINY, 64}, {256, 32}, {512, 16}, {LONG, LONG_TURN}, {LONGEST, LONG_TURN}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    size_t bytes = expected[i].bytes;
    touch_group(bytes);
    while (keeps > 0) hd_free(kept[--keeps]);
    many_pairs(bytes);
    TS_CHECK(takes_turns(bytes), "no turns of %zu bytes", bytes);
    while (class_of(bytes)->page->apart != 0) pairs(bytes, 1);
    pairs(bytes, 1);
    unsigned now = 1 + hd_bit_count(class_of(bytes)->page->apart);
    TS_CHECK(now == expected[i].turn, "%u blocks of %zu bytes a turn in place of %u", now, bytes, expected[i].turn);
    check_group(bytes);
  }
}

/* Until less than half of a turn comes back. Nothing is lost, and nothing handed out twice: each byte goes from free to live once. */
static void until_blocks_are_kept(void) {
  keep(TINY);
  many_pairs(TINY);
  hd_unit *page = class_of(TINY)->page;
  while (page->apart != 0) keep(TINY);
  for (int i = 0; i < 2 * LEAST; i++) hd_free(kept[--keeps]);
  TS_CHECK(takes_turns(TINY), "set up otherwise");
  keep(TINY);
  TS_CHECK(!takes_turns(TINY) && class_of(TINY)->turn == 0, "though a block in eight came back");
  hd_free(kept[--keeps]);
  void *last = kept[keeps];
  TS_CHECK(take(TINY) == last, "what was freed last is not taken first");
  hd_free(last);
  many_pairs(TINY);
  while (class_of(TINY)->page_count == 1) {
    keep(TINY);
    if (class_of(TINY)->page_count == 1) check_group(TINY);
  }
  TS_CHECK(keeps == PER_PAGE + 1, "%u blocks of a page of %u", keeps - 1, PER_PAGE);
  TS_CHECK(hdi_page_count_live(page) == PER_PAGE, "%u are live", hdi_page_count_live(page));
}

/* Until none comes back: the next one is the first of the group behind. */
static void until_all_blocks_are_kept(void) {
  keep(TINY);
  many_pairs(TINY);
  hd_unit *page = class_of(TINY)->page;
  while (page->apart != 0) pairs(TINY, 1);
  while (keeps < 64) keep(TINY);
  TS_CHECK(takes_turns(TINY) && page->words[0] == 0 && page->apart == 0 && page->fresh == 64, "set up otherwise");
  keep(TINY);
  TS_CHECK(kept[64] == page->base + 64 * TINY, "block at %td of the page", (uint8_t *)kept[64] - page->base);
  TS_CHECK(class_of(TINY)->turn == 0 && page->group == 1, "turns where nothing comes back");
  TS_CHECK(class_of(TINY)->page == page && hdi_page_used(page) == keeps, "%u in use in place of %u", hdi_page_used(page), keeps);
  check_group(TINY);
}

/* What calloc takes where malloc's part is used up begins the next turn just so, and reads as zero. */
static void of_calloc_too(void) {
  keep(TINY);
  many_pairs(TINY);
  void *last = NULL;
  int again = 0;
  for (int i = 0; i < 1000; i++) {
    uint8_t *p = hd_calloc(1, TINY);
    TS_CHECK(p != NULL, "no memory");
    for (int at = 0; at < TINY; at++) TS_CHECK(p[at] == 0, "byte %d", at);
    memset(p, 0xff, TINY);
    again += p == last;
    hd_free(last = p);
    TS_CHECK(takes_turns(TINY), "not any more after %d pairs", i);
    check_group(TINY);
  }
  TS_CHECK(again <= 1000 / 32, "what was freed last is taken first, %d times", again);
  TS_CHECK(hdi_page_used(class_of(TINY)->page) == 1, "%u in use in place of 1", hdi_page_used(class_of(TINY)->page));
}

/* A signal handler has begun the next turn after malloc found nothing, and before it entered the gate: malloc goes on with that one. */
static void as_a_handler_has_begun(void) {
  keep(TINY);
  many_pairs(TINY);
  hd_class *class = class_of(TINY);
  hd_unit *page = class->page;
  while (page->apart != 0) pairs(TINY, 1);
  pairs(TINY, 1);
  uint64_t apart = page->apart, word = page->words[0];
  unsigned turn = class->turn, first = hd_lowest_bit(apart);
  TS_CHECK(takes_turns(TINY) && hd_bit_count(apart) == 62 && hd_bit_count(word) == 1, "set up otherwise");
  void *p = hdi_alloc_claim(TINY, &class->slot);
  TS_CHECK(p == page->base + first * TINY, "block at %td in place of number %u", (uint8_t *)p - page->base, first);
  TS_CHECK(takes_turns(TINY) && class->turn == turn, "another turn of %u", class->turn);
  TS_CHECK(page->apart == (apart & (apart - 1)) && page->words[0] == word, "%llx are apart", (unsigned long long)page->apart);
  check_group(TINY);
}

static void not_with_few_blocks(void) {
  touch_group(LONG);
  while (hd_bit_count(hdi_slot_bits(&class_of(LONG)->slot)) >= LEAST) keep(LONG);
  many_pairs(LONG);
  many_pairs(LONG);
  TS_CHECK(!takes_turns(LONG) && class_of(LONG)->page->apart == 0, "turns of less than %u", LEAST);
  hd_free(kept[--keeps]);
  many_pairs(LONG);
  TS_CHECK(takes_turns(LONG), "no turns of %u", LEAST);
}

/* Where the program uses fewer, the group's next blocks make a whole turn, and no more of them are touched. */
static void with_blocks_never_handed_out(void) {
  static const size_t sizes[] = {LONG, LONGEST};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    pairs(sizes[i], 1);
    const hd_unit *page = class_of(sizes[i])->page;
    TS_CHECK(page->fresh < LONG_TURN, "set up otherwise");
    many_pairs(sizes[i]);
    TS_CHECK(takes_turns(sizes[i]), "no turns of %zu bytes", sizes[i]);
    TS_CHECK(page->fresh == LONG_TURN && hdi_page_used(page) == 0, "%u touched, %u in use", page->fresh, hdi_page_used(page));
    check_group(sizes[i]);
    while (keeps < LONG_TURN) keep(sizes[i]);
    TS_CHECK(hdi_page_used(page) == LONG_TURN && page->fresh == LONG_TURN, "%u in use of %u", hdi_page_used(page), page->fresh);
    while (keeps > 0) hd_free(kept[--keeps]);
  }
}

/* The last blocks of a page, which are fewer than a turn. */
static void no_further_than_the_page(void) {
  touch_group(LONGEST);
  hd_unit *page = class_of(LONGEST)->page;
  while (hdi_slot_bits(&class_of(LONGEST)->slot) != 0) keep(LONGEST);
  for (unsigned i = 0; i < LEAST + 1; i++) hd_free(kept[--keeps]);
  many_pairs(LONGEST);
  TS_CHECK(takes_turns(LONGEST) && class_of(LONGEST)->page == page, "set up otherwise");
  TS_CHECK(page->fresh == page->capacity, "%u of %u", page->fresh, (unsigned)page->capacity);
  check_group(LONGEST);
}

/* A heap of many pages takes back what rests in a class that claims nothing, and a turn is no claim. */
static void not_when_the_slot_is_taken_away(void) {
  while (keeps < PER_PAGE / 2 + 64) keep(TINY);
  while (keeps > 0) hd_free(kept[--keeps]);
  many_pairs(TINY);
  TS_CHECK(takes_turns(TINY) && hdi_page_used(class_of(TINY)->page) == 0, "set up otherwise");
  while (keeps < 4 * PER_PAGE && class_of(TINY)->page != NULL) keep(LONG);
  TS_CHECK(class_of(TINY)->page == NULL && class_of(TINY)->turn == 0, "after %u KiB", keeps);
  many_pairs(TINY);
  many_pairs(TINY);
  TS_CHECK(takes_turns(TINY), "no turns in the next page");
  check_group(TINY);
}

/* What others free only the bytes say, so the word is no measure of what has come back. */
static void not_where_others_free(void) {
  keep(TINY);
  class_of(TINY)->shared = true;
  many_pairs(TINY);
  TS_CHECK(!takes_turns(TINY), "though others free");
  class_of(TINY)->shared = false;
  many_pairs(TINY);
  TS_CHECK(takes_turns(TINY), "set up otherwise");
  class_of(TINY)->shared = true;
  pairs(TINY, 64);
  TS_CHECK(!takes_turns(TINY) && class_of(TINY)->turn == 0, "though others have begun to free");
}

/* Turns take more of the first cache than what was freed last does, which is too much where many classes do. */
static void for_one_class_at_a_time(void) {
  enum { OTHER = 64 };
  keep(TINY);
  keep(OTHER);
  for (unsigned i = 0; i < 4 * HD_CREDIT_CURRENT; i++) {
    pairs(TINY, 1);
    pairs(OTHER, 1);
    TS_CHECK(!takes_turns(TINY) && !takes_turns(OTHER), "though two are as busy, after %u pairs of each", i);
  }
  many_pairs(TINY);
  TS_CHECK(takes_turns(TINY) && !takes_turns(OTHER), "the one that runs out twice in a row");
  many_pairs(OTHER);
  TS_CHECK(takes_turns(OTHER), "the other one then");
  pairs(TINY, 64);
  TS_CHECK(!takes_turns(TINY) && class_of(TINY)->turn == 0, "and the first no more");
  check_group(TINY);
  check_group(OTHER);
}

/* Blocks that read as zero lie apart already. */
static void not_with_clean_blocks(void) {
  enum { CLEAN = 512, MANY = 300 };
  while (keeps < 3 * LEAST || hd_bit_count(class_of(CLEAN)->page->apart) < 2) kept[keeps++] = hd_calloc(1, CLEAN);
  hd_class *class = class_of(CLEAN);
  uint64_t apart = class->page->apart;
  class->page->credit = 2 * LEAST;
  hdi_heap_self->turner = class->page->class_index; /* as after an earlier time */
  for (int i = 0; i < 2 * LEAST; i++) hd_free(kept[--keeps]);
  TS_CHECK(class->page->credit == HD_CREDIT_CURRENT, "no event");
  TS_CHECK(class->turn == 0 && class->zeroed && class->page->apart == apart, "what is clean is mixed with the rest");
  for (int i = 0; i < MANY; i++) {
    uint8_t *p = hd_calloc(1, CLEAN);
    for (int at = 0; at < CLEAN; at++) TS_CHECK(p[at] == 0, "byte %d", at);
    memset(p, 0xff, CLEAN);
    if (i % 2 == 0) hd_free(p);
  }
}

static void not_in_heaps_of_ones_own(void) {
  hd_heap_config config = {.struct_bytes = sizeof config, .one_user = true};
  hd_heap *heap = hd_heap_create(&config);
  hd_class *class = &heap->class[hdi_sizeclass_of(TINY)];
  for (unsigned i = 0; i < 3 * HD_CREDIT_CURRENT; i++) hd_heap_free(heap, hd_heap_malloc(heap, TINY));
  TS_CHECK(class->page != NULL && class->turn == 0, "turns in an explicit heap");
  hd_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ALONE(from_the_8192nd_on),    ALONE(shorter_turns_of_larger_blocks), ALONE(until_blocks_are_kept),    ALONE(not_with_few_blocks),
      ALONE(not_where_others_free), ALONE(not_with_clean_blocks),          ALONE(not_in_heaps_of_ones_own),
      ALONE(not_when_the_slot_is_taken_away), ALONE(for_one_class_at_a_time), ALONE(with_blocks_never_handed_out),
      ALONE(no_further_than_the_page), ALONE(until_all_blocks_are_kept), ALONE(of_calloc_too), ALONE(as_a_handler_has_begun),
  };
  return cmocka_run_group_tests_name("pairs", tests, NULL, NULL);
}
