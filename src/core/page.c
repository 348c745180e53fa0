/* See page.h.
 * SPDX-License-Identifier: MIT */
#include "core/page.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/check.h"
#include "core/counters.h"
#include "core/remote.h"
#include "core/space_huge.h"
#include "core/store.h"
#include "os/os.h"

/* Bytes of a page's map, and of its words. Behind the map is room for the words where the store rounds up; elsewhere they lie alone. They
 * share no cache line with it, since malloc waits for its word, and others write to the map. */
static size_t map_bytes(size_t capacity) { return hd_round_up(capacity, 64); }
static size_t word_bytes(size_t capacity) { return map_bytes(capacity) / 64 * sizeof(uint64_t); }
static bool words_fit(size_t capacity) { return map_bytes(capacity) + word_bytes(capacity) <= hdi_store_bytes(map_bytes(capacity)); }

/* Line 0 but for the owner and the kind, which make it valid. Stale and foreign pointers may lead others here at any time. */
static void set_line(hd_unit *unit, const hd_unit *made) {
  hd_store_owned(&unit->base, made->base);
  hd_store_owned(&unit->inverse, made->inverse);
  hd_store_owned(&unit->map, made->map);
  hd_store_owned(&unit->capacity, made->capacity);
  hd_store_owned(&unit->block_bytes, made->block_bytes);
  hd_store_owned(&unit->head, made->head);
  hd_store_owned(&unit->class_index, made->class_index);
  hd_store_owned(&unit->state, HD_PAGE_NONE);
  hd_store_owned(&unit->remote_limit, made->remote_limit);
  hd_store_owned(&unit->in_heap, made->in_heap);
  hd_store_relaxed(&unit->live, 0u);
}

bool hdi_page_init(hd_heap *heap, hd_unit *page, unsigned class_index, unsigned units, bool zeroed) {
  uint32_t block_bytes = hdi_sizeclass_bytes(class_index);
  uint32_t capacity = (uint32_t)(((size_t)units << HD_UNIT_SHIFT) / block_bytes);
  bool medium = units > 1 || (class_index > HD_SMALL_CLASSES && !heap->explicit_heap);
  uintptr_t owner = (uintptr_t)heap | (medium ? HD_OWNER_MEDIUM : 0) | (heap->explicit_heap ? HD_OWNER_EXPLICIT : 0);
  if (heap->hardened != NULL) owner |= HD_OWNER_EXPLICIT | HD_OWNER_HARDENED;
  hd_block_state *map = hdi_shelf_take(&heap->shelf, map_bytes(capacity));
  uint64_t *words = (uint64_t *)(void *)((uint8_t *)map + map_bytes(capacity));
  if (map != NULL && !words_fit(capacity)) words = hdi_shelf_take(&heap->shelf, word_bytes(capacity));
  if (map != NULL && words == NULL) hdi_store_give((void *)map, map_bytes(capacity));
  if (map == NULL || words == NULL) return false;
  hd_unit made = {
      .base = hdi_space_address(heap->space, page),
      .inverse = hdi_unit_inverse(block_bytes),
      .map = map,
      .capacity = capacity,
      .block_bytes = block_bytes,
      .head = page,
      .class_index = (uint8_t)class_index,
      .remote_limit = hdi_remote_limit(capacity, block_bytes),
      .in_heap = (uint16_t)(class_index <= HD_SMALL_CLASSES ? offsetof(hd_heap, class[class_index]) : hdi_heap_magazine_at(class_index)),
  };
  for (unsigned i = 0; i < units; i++) {
    hd_unit *unit = page + i;
    set_line(unit, &made);
    hd_store_relaxed(&unit->owner, owner);
    hd_store_release(&unit->kind, HD_UNIT_PAGE); /* pairs with hdi_page_look */
  }
  hd_store_owned(&page->words, words);
  page->zeroed = zeroed;
  hd_store_owned(&page->credit, 0);
  if (!heap->explicit_heap) page->fetch_at = HD_FETCH_NOTHING;
  page->rest = 0; /* held, group, counted and apart: when it becomes CURRENT, which it does at once */
  hd_store_owned(&page->fresh, 0);
  hd_store_relaxed(&page->remote_count, 0u);
  return true;
}

bool hdi_page_torn;

void hdi_page_clear(hd_heap *heap, hd_unit *page) {
  for (uint32_t i = 0; i < page->run_units; i++) {
    hd_store_relaxed(&page[i].owner, (uintptr_t)0);
    hd_store_relaxed(&page[i].kind, HD_UNIT_NONE);
  }
  size_t capacity = page->capacity;
  bool keep = !heap->explicit_heap && !hdi_store_is_held();
  memset(page->words, 0, word_bytes(capacity));
  if (!words_fit(capacity)) hdi_shelf_give(&heap->shelf, page->words, word_bytes(capacity), keep);
  if (hdi_page_torn) memset((void *)page->map, HD_BLOCK_FREE, capacity);
  hdi_shelf_give(&heap->shelf, (void *)page->map, map_bytes(capacity), keep);
  hd_store_owned(&page->state, HD_PAGE_NONE);
}

/* Two words at a time, where the processor can. */
#if defined(__SSE2__) && !defined(HD_SANITIZE_THREAD)
/* Made in a register: programs that run briefly read no page of constants. */
static inline __m128i repeat(uint32_t pattern) {
  __asm__("" : "+r"(pattern));
  return _mm_set1_epi32((int)pattern);
}

static inline __m128i count_pairs(const uint64_t *word, const uint64_t *end) {
  const __m128i twos = repeat(0x55555555), fours = repeat(0x33333333), bytes = repeat(0x0f0f0f0f), zero = _mm_setzero_si128();
  __m128i count = zero;
  for (; end - word > 1; word += 2) {
    __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)word);
    bits = _mm_sub_epi8(bits, _mm_and_si128(_mm_srli_epi64(bits, 1), twos));
    bits = _mm_add_epi8(_mm_and_si128(bits, fours), _mm_and_si128(_mm_srli_epi64(bits, 2), fours));
    bits = _mm_and_si128(_mm_add_epi8(bits, _mm_srli_epi64(bits, 4)), bytes);
    count = _mm_add_epi64(count, _mm_sad_epu8(bits, zero));
  }
  return count;
}

static inline uint32_t count_bits(const uint64_t *word, const uint64_t *end) {
  __m128i pairs = count_pairs(word, end);
  uint32_t last = ((end - word) & 1) != 0 ? hd_bit_count(end[-1]) : 0;
  return last + (uint32_t)_mm_cvtsi128_si32(pairs) + (uint32_t)_mm_extract_epi16(pairs, 4);
}
#else
static inline uint32_t count_bits(const uint64_t *word, const uint64_t *end) {
  uint32_t count = 0;
  for (; word < end; word++) count += hd_bit_count(*word);
  return count;
}
#endif

uint8_t hdi_page_counting;

#if defined(__x86_64__)
SLOW void hdi_page_ask_processor(void) {
  if (hd_load_owned(&hdi_page_counting) != HD_COUNT_UNASKED) return;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  __cpuid(1, a, b, c, d);
  hd_store_owned(&hdi_page_counting, (uint8_t)(HD_COUNT_BY_PAIRS + (c & bit_POPCNT) / bit_POPCNT));
}

static inline uint32_t count_all(const uint64_t *word, const uint64_t *end) {
  if (HD_UNLIKELY(hd_load_owned(&hdi_page_counting) != HD_COUNT_SINGLY)) return count_bits(word, end);
  uint64_t count = 0;
  for (; word < end; word++) {
    uint64_t bits;
    __asm__("popcntq %1, %0" : "=r"(bits) : "rm"(*word) : "cc");
    count += bits;
  }
  return (uint32_t)count;
}
#else
void hdi_page_ask_processor(void) {}
static inline uint32_t count_all(const uint64_t *word, const uint64_t *end) { return count_bits(word, end); }
#endif

uint32_t hdi_page_count_words(const hd_unit *page) {
  uint32_t apart = page->state == HD_PAGE_CURRENT && page->apart != 0 ? hd_bit_count(page->apart) : 0;
  return apart + count_all(page->words, page->words + (page->fresh + 63) / 64);
}

uint32_t hdi_page_count_live(const hd_unit *page) {
  uint32_t live = 0;
  for (uint32_t i = 0; i < page->capacity; i++) live += hd_load_relaxed(&page->map[i]) == HD_BLOCK_LIVE;
  return live;
}

/* While the store is held a page that is still one stays so: hdi_page_clear gives its map back after it has unmarked the units, and to the
 * store, not to a shelf. */
bool hdi_page_look(hd_unit *page, hd_page_view *view, uint8_t *states) {
  if (!hdi_store_hold()) return false;
  bool there = hd_load_acquire(&page->kind) == HD_UNIT_PAGE && page->head == page; /* pairs with hdi_page_init */
  if (there) {
    *view = (hd_page_view){
        .heap = hdi_heap_explicit_owner(page),
        .base = page->base,
        .bytes = (size_t)hd_peek(&page->run_units) << HD_UNIT_SHIFT,
        .block_bytes = page->block_bytes,
        .capacity = (uint32_t)page->capacity,
        .live = hdi_page_count_live(page),
    };
    for (uint32_t i = 0; states != NULL && i < view->capacity; i++) states[i] = hd_load_relaxed(&page->map[i]);
  }
  return hdi_store_let_go() && there;
}

static bool is_idle(const hd_unit *page, size_t index, uint64_t claimed) {
  if (hd_load_relaxed(&page->map[index]) != HD_BLOCK_FREE) return false;
  return page->state != HD_PAGE_CURRENT || index / 64 != page->group || (claimed >> index % 64 & 1) == 0;
}

/* Whether blocks [from, to) are all free and not claimed. */
static bool all_idle(const hd_unit *page, size_t from, size_t to, uint64_t claimed) {
  for (size_t i = from; i < to; i++) {
    if (!is_idle(page, i, claimed)) return false;
  }
  return true;
}

static bool purge_range(hd_unit *page, size_t from, size_t to) {
  hdi_counters_os_call(1);
  hdi_space_before_purge(page->base + from, to - from);
  if (!hdi_os_purge(page->base + from, to - from)) {
    hd_store_owned(&page->swept, false); /* the next time again */
    return false;
  }
  hdi_counters_purged(to - from);
  return true;
}

size_t hdi_page_purge_free(hd_unit *page, uint64_t claimed) {
  size_t step = hdi_os.page_bytes;
  size_t bytes = (size_t)page->run_units << HD_UNIT_SHIFT; /* what was never handed out may lie in a huge page that is resident */
  size_t purged = 0;
  size_t start = SIZE_MAX; /* of the idle stretch that is open */
  for (size_t at = 0; at < bytes + step; at += step) {
    size_t first = at / page->block_bytes;
    size_t last = hd_min((at + step - 1) / page->block_bytes + 1, page->capacity);
    bool idle = at < bytes && all_idle(page, first, last, claimed);
    if (idle && start == SIZE_MAX) start = at;
    if (idle || start == SIZE_MAX) continue;
    if (purge_range(page, start, at)) purged += at - start;
    start = SIZE_MAX;
  }
  return purged;
}
