/* Hosts: the first blocks of a small class lie in a page of blocks of a power of two, with those of other classes, until there were so many
 * that it gets a page.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "alone.h"
#include "core/alloc.h"
#include "core/page.h"
#include "core/thread.h"
#include "heddle.h"

enum { SOME = 40 };

static hd_class *class_of(size_t bytes) { return &hdi_heap_self->class[hdi_sizeclass_of(bytes)]; }

static size_t host_bytes(size_t bytes) {
  size_t host = 16;
  while (host < bytes) host *= 2;
  return host;
}

static void *take(size_t bytes) {
  uint8_t *p = hd_malloc(bytes);
  TS_CHECK(p != NULL, "%zu bytes", bytes);
  memset(p, 0xa5, hd_usable_size(p));
  return p;
}

/* A system page full, but no more than that of 128 bytes. */
static size_t hosted_most(size_t bytes) { return 4096 / hd_max(host_bytes(bytes), 128); }

/* Until the class has a page, of which the last one is. */
static void *take_most(size_t bytes) {
  for (size_t i = 0; i < hosted_most(bytes); i++) {
    const void *p = take(bytes);
    TS_CHECK(hd_usable_size(p) == host_bytes(bytes) && class_of(bytes)->page_count == 0, "%zu bytes: a page for block %zu", bytes, i);
  }
  return take(bytes);
}

static void each_class_has_one(void) {
  for (size_t bytes = 1; bytes <= HD_SMALL_MAX; bytes++) {
    void *p = take(bytes);
    TS_CHECK(hd_usable_size(p) == host_bytes(bytes), "%zu bytes: usable %zu", bytes, hd_usable_size(p));
    bool is_host = hd_good_size(bytes) == host_bytes(bytes);
    TS_CHECK(class_of(bytes)->page_count == is_host, "%zu bytes: %u pages", bytes, class_of(bytes)->page_count);
    hd_free(p);
    class_of(bytes)->hosted = 0;
  }
}

static void classes_share_a_page(void) {
  const hd_unit *page = hdi_space_find(take(129));
  for (size_t bytes = 130; bytes <= 256; bytes++) {
    class_of(bytes)->hosted = 0;
    TS_CHECK(hdi_space_find(take(bytes)) == page, "%zu bytes lie elsewhere", bytes);
  }
}

static void few_blocks_need_few_pages(void) {
  for (int i = 0; i < SOME; i++) take(17 + (size_t)i * 25);
  TS_CHECK(hdi_heap_page_units(hdi_heap_self) == 6, "%u pages", hdi_heap_page_units(hdi_heap_self));
}

static void some_more_have_a_page(void) {
  for (unsigned i = 2; i < hdi_sizeclass_of(HD_SMALL_MAX); i++) {
    size_t bytes = hdi_sizeclass_bytes(i);
    if (bytes != host_bytes(bytes)) TS_CHECK(hd_usable_size(take_most(bytes)) == bytes, "%zu bytes: no page", bytes);
  }
}

static void it_is_the_class_page(void) {
  void *p = take_most(100);
  TS_CHECK(hd_usable_size(p) == hd_good_size(100), "usable %zu", hd_usable_size(p));
  TS_CHECK(class_of(100)->page == hdi_space_find(p), "not the class's page");
  TS_CHECK(take(100) == (char *)p + hd_good_size(100), "not beside it");
}

/* However few of them live. */
static void freed_ones_count(void) {
  for (size_t i = 0; i < hosted_most(300); i++) hd_free(take(300));
  void *p = take(300);
  TS_CHECK(hd_usable_size(p) == hd_good_size(300), "usable %zu", hd_usable_size(p));
}

/* As Pascal's memory manager counts on: by the usable size it knows what GetMem(0) gave, and its lists begin with 32 bytes. */
static void short_ones_have_their_own(void) {
  for (size_t bytes = 0; bytes <= 32; bytes++) {
    TS_CHECK(hd_usable_size(take(bytes)) == (bytes <= 16 ? 16 : 32), "%zu bytes", bytes);
  }
}

static void they_lie_at_multiples(void) {
  for (size_t alignment = 16; alignment <= HD_SMALL_MAX; alignment *= 2) {
    for (size_t bytes = alignment; bytes <= HD_SMALL_MAX; bytes += alignment) {
      class_of(bytes)->hosted = 0;
      void *p = hd_aligned_alloc(alignment, bytes);
      TS_CHECK(p != NULL && (uintptr_t)p % alignment == 0, "%p for %zu bytes, multiples of %zu", p, bytes, alignment);
    }
  }
}

static void they_are_cleared(void) {
  hd_free(take(1000));
  for (size_t bytes = 17; bytes <= HD_SMALL_MAX; bytes += 13) {
    class_of(bytes)->hosted = 0;
    hd_free(take(bytes));
    uint8_t *p = hd_calloc(1, bytes);
    for (size_t at = 0; at < hd_usable_size(p); at++) TS_CHECK(p[at] == 0, "byte %zu of %zu", at, bytes);
  }
}

static void not_in_heaps_of_ones_own(void) {
  for (int one_user = 0; one_user < 2; one_user++) {
    hd_heap *heap = hd_heap_create(&(hd_heap_config){.struct_bytes = sizeof(hd_heap_config), .one_user = one_user != 0});
    for (size_t bytes = 17; bytes <= HD_SMALL_MAX; bytes++) {
      const void *p = hd_heap_malloc(heap, bytes);
      TS_CHECK(hd_usable_size(p) == hd_good_size(bytes), "%zu bytes: usable %zu", bytes, hd_usable_size(p));
    }
    hd_heap_destroy(heap);
  }
}

static void *free_it(void *p) {
  hd_free(p);
  return NULL;
}

static void others_may_free_them(void) {
  pthread_t thread;
  void *p = take(200), *kept = take(200);
  TS_CHECK(pthread_create(&thread, NULL, free_it, p) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  TS_CHECK(hd_owns(kept) && hd_usable_size(kept) == 256, "the other one is gone");
  hd_free(kept);
}

/* Takes as much of a host as a class may have, and ends. */
static void *live_shortly(void *heap) {
  void *block[HD_HOSTED_MOST];
  for (size_t i = 0; i < hosted_most(200); i++) block[i] = take(200);
  *(hd_heap **)heap = hdi_heap_self;
  TS_CHECK(class_of(200)->page_count == 0, "%u pages", class_of(200)->page_count);
  for (size_t i = 0; i < hosted_most(200); i++) hd_free(block[i]);
  return NULL;
}

/* Without any rest between them. */
static void the_next_thread_begins_anew(void) {
  hd_heap *heap[3] = {NULL, NULL, NULL};
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    TS_CHECK(pthread_create(&thread, NULL, live_shortly, &heap[i]) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  }
  TS_CHECK(heap[1] == heap[0] && heap[2] == heap[0], "no heir of the first one's heap");
}

/* Whoever gets a heap that rests is served as its first thread was. */
static void at_rest_it_begins_anew(void) {
  void *p = take_most(100), *kept = take(600);
  (void)p;
  hd_thread_idle();
  TS_CHECK(class_of(100)->hosted == 0 && class_of(600)->hosted == 0, "they count what was before");
  TS_CHECK(hd_usable_size(take(600)) == 1024 && hd_usable_size(kept) == 1024, "no host for it");
  TS_CHECK(hd_usable_size(take(100)) == hd_good_size(100), "the class has a page, and a host");
  hd_thread_idle();
  TS_CHECK(hd_usable_size(hd_calloc(1, 100)) == hd_good_size(100), "the class has a page, and a host for calloc");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ALONE(each_class_has_one),
      ALONE(classes_share_a_page),
      ALONE(few_blocks_need_few_pages),
      ALONE(some_more_have_a_page),
      ALONE(it_is_the_class_page),
      ALONE(freed_ones_count),
      ALONE(short_ones_have_their_own),
      ALONE(they_lie_at_multiples),
      ALONE(they_are_cleared),
      ALONE(not_in_heaps_of_ones_own),
      ALONE(others_may_free_them),
      ALONE(the_next_thread_begins_anew),
      ALONE(at_rest_it_begins_anew),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
