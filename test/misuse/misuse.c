/* One misuse a run: misuse CASE. What each must lead to stands in table.py. A case that goes on after its misuse (onerror:report
 * or ignore) then checks that the heap is still sound and prints "sound".
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/support.h"
#include "../support/sut.h"

static const struct ts_sut *sut;

/* The pointer goes through a volatile so that the compiler neither warns of these mistakes nor uses them. */
static void *volatile target;

static void *make(size_t bytes) {
  void *p = sut->malloc(bytes);
  TS_CHECK(p != NULL, "malloc(%zu)", bytes);
  memset(p, 0x11, bytes);
  return p;
}

static void *free_body(void *p) {
  sut->free(p);
  return NULL;
}

static void *make_body(void *argument) { return make((size_t)(uintptr_t)argument); }

static void *in_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  void *result = NULL;
  TS_CHECK(pthread_create(&thread, NULL, body, argument) == 0, "pthread_create");
  pthread_join(thread, &result);
  return result;
}

/* A second thread that stays alive, so that its heap is not adopted by the next. */
static pthread_barrier_t meet;
static void *free_and_wait(void *p) {
  sut->free(p);
  pthread_barrier_wait(&meet);
  pthread_barrier_wait(&meet);
  return NULL;
}

static void twice(void *p) {
  target = p;
  sut->free(p);
  sut->free(target);
}

/* ---- double frees ----------------------------------------------------------------------------------------------- */

static void double_small(void) { twice(make(64)); }
static void double_tiny(void) { twice(make(1)); }
static void double_zero(void) { twice(sut->malloc(0)); }
static void double_medium(void) { twice(make(20000)); }
static void double_large(void) { twice(make(300000)); }
static void double_huge(void) { twice(make((size_t)20 << 20)); }
static void double_calloc(void) { twice(sut->calloc(3, 100)); }
static void double_aligned(void) { twice(sut->aligned_alloc(256, 200)); }
static void double_aligned_large(void) { twice(sut->aligned_alloc((size_t)1 << 21, 300000)); }

static void double_later(void) {
  void *kept[500];
  target = make(64);
  sut->free(target);
  /* Blocks of another class between the two frees, and of the same class before: the block is neither in use nor newest. */
  for (int i = 0; i < 500; i++) kept[i] = make(100 + (size_t)i * 7);
  for (int i = 0; i < 500; i++) sut->free(kept[i]);
  sut->free(target);
}

static void double_in_full_page(void) {
  static void *all[3000];
  for (int i = 0; i < 3000; i++) all[i] = make(64);
  target = all[700];
  sut->free(all[700]);
  sut->free(target);
}

static void double_after_reuse(void) {
  static void *all[3000];
  for (int i = 0; i < 3000; i++) all[i] = make(64);
  target = all[700];
  for (int i = 0; i < 3000; i++) sut->free(all[i]);
  void *again = NULL;
  for (int i = 0; i < 20000 && again != target; i++) again = make(64);
  TS_CHECK(again == target, "the block did not come back");
  sut->free(again);
  sut->free(target);
}

static void double_other_then_own(void) {
  target = make(64);
  in_thread(free_body, target);
  sut->free(target);
}

static void double_own_then_other(void) {
  target = make(64);
  sut->free(target);
  in_thread(free_body, target);
}

static void double_other_then_other(void) {
  target = make(64);
  in_thread(free_body, target);
  in_thread(free_body, target);
}

static void double_one_other_thread(void) {
  pthread_t thread;
  target = make(64);
  pthread_barrier_init(&meet, NULL, 2);
  TS_CHECK(pthread_create(&thread, NULL, free_and_wait, target) == 0, "pthread_create");
  pthread_barrier_wait(&meet);
  sut->free(target);
  pthread_barrier_wait(&meet);
  pthread_join(thread, NULL);
}

static void double_large_other_thread(void) {
  target = make(500000);
  in_thread(free_body, target);
  sut->free(target);
}

static void double_medium_other_thread(void) {
  target = make(30000);
  in_thread(free_body, target);
  in_thread(free_body, target);
}

static void double_across_death(void) { twice(in_thread(make_body, (void *)64)); }

static void double_through_realloc(void) {
  void *p = make(64);
  target = p;
  void *q = sut->realloc(p, 100000);
  TS_CHECK(q != p, "realloc stayed in place");
  sut->free(target);
}

static void double_realloc_zero(void) {
  target = make(64);
  TS_CHECK(sut->realloc(target, 0) == NULL, "realloc to 0");
  sut->free(target);
}

static void realloc_freed(void) {
  target = make(64);
  sut->free(target);
  target = sut->realloc(target, 1000);
}

static void usable_freed(void) {
  target = make(64);
  sut->free(target);
  ts_print(1, "%zu\n", sut->usable_size(target));
}

/* ---- pointers that are no blocks -------------------------------------------------------------------------------- */

static void free_at(size_t bytes, size_t offset) {
  char *p = make(bytes);
  target = p + offset;
  sut->free(target);
}

static void interior_small(void) { free_at(64, 16); }
static void interior_misaligned(void) { free_at(64, 1); }
static void interior_eight(void) { free_at(1000, 8); }
static void interior_medium(void) { free_at(20000, 4096); }
static void interior_large(void) { free_at(300000, 16); }
static void interior_large_far(void) { free_at(300000, 131072 + 64); }
static void interior_aligned(void) {
  char *p = sut->aligned_alloc(4096, 10000);
  target = p + 4096;
  sut->free(target);
}

static void interior_realloc(void) {
  target = (char *)make(64) + 16;
  target = sut->realloc(target, 10);
}

static void interior_other_thread(void) {
  target = (char *)make(64) + 32;
  in_thread(free_body, target);
}

/* 65,536 bytes hold 1,365 blocks of 48 and 16 bytes more. */
static void never_page_end(void) {
  uintptr_t page = (uintptr_t)make(48) & ~(uintptr_t)65535;
  target = (void *)(page + 65536 - 16);
  sut->free(target);
}

static void never_virgin(void) {
  uintptr_t page = (uintptr_t)make(32) & ~(uintptr_t)65535;
  target = (void *)(page + 65536 - 64); /* a block's place, but nobody got it yet */
  sut->free(target);
}

static void never_free_run(void) {
  char *p = make((size_t)4 << 20);
  target = p + ((size_t)2 << 20);
  sut->free(p);
  sut->free(target);
}

static void never_far(void) {
  char *p = make(64);
  target = p + ((size_t)1 << 30);
  sut->free(target);
}

/* ---- pointers of others ----------------------------------------------------------------------------------------- */

static void foreign_stack(void) {
  _Alignas(64) char area[4096];
  memset(area, 0, sizeof area);
  target = area + 1024;
  sut->free(target);
}

static void foreign_static(void) {
  static _Alignas(64) char area[4096];
  target = area + 1024;
  sut->free(target);
}

static void foreign_mapped(void) {
  char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  target = p + 65536;
  sut->free(target);
}

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

static void heap_free_after_destroy(void) {
  hd_heap *heap = sut->heap_create(NULL);
  target = sut->heap_malloc(heap, 64);
  sut->heap_destroy(heap);
  sut->free(target);
}

static void heap_double_free(void) {
  hd_heap *heap = sut->heap_create(NULL);
  twice(sut->heap_malloc(heap, 64));
}

static void heap_double_free_large(void) {
  hd_heap *heap = sut->heap_create(NULL);
  twice(sut->heap_malloc(heap, 300000));
}

static void heap_free_after_reset(void) {
  hd_heap *heap = sut->heap_create(NULL);
  target = sut->heap_malloc(heap, 64);
  sut->heap_reset(heap);
  sut->free(target);
}

static void heap_wrong_realloc(void) {
  hd_heap *heap = sut->heap_create(NULL), *other = sut->heap_create(NULL);
  target = sut->heap_malloc(heap, 64);
  target = sut->heap_realloc(other, target, 1000);
}

/* ---- no misuse -------------------------------------------------------------------------------------------------- */

static void none(void) { sut->free(make(64)); }

static void libc_block(void) {
  /* getline's buffer, and a block that libc made for itself before Heddle could be asked, must both be accepted. */
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen("/proc/self/status", "r");
  TS_CHECK(file && getline(&line, &room, file) > 0, "getline");
  fclose(file);
  sut->free(line);
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
#define CASE(name) {#name, name}
    CASE(double_small), CASE(double_tiny), CASE(double_zero), CASE(double_medium), CASE(double_large), CASE(double_huge),
    CASE(double_calloc), CASE(double_aligned), CASE(double_aligned_large), CASE(double_later), CASE(double_in_full_page),
    CASE(double_after_reuse), CASE(double_other_then_own), CASE(double_own_then_other), CASE(double_other_then_other),
    CASE(double_one_other_thread), CASE(double_large_other_thread), CASE(double_medium_other_thread), CASE(double_across_death),
    CASE(double_through_realloc), CASE(double_realloc_zero), CASE(realloc_freed), CASE(usable_freed), CASE(interior_small),
    CASE(interior_misaligned), CASE(interior_eight), CASE(interior_medium), CASE(interior_large), CASE(interior_large_far),
    CASE(interior_aligned), CASE(interior_realloc), CASE(interior_other_thread), CASE(never_page_end), CASE(never_virgin),
    CASE(never_free_run), CASE(never_far), CASE(foreign_stack), CASE(foreign_static), CASE(foreign_mapped),
    CASE(heap_free_after_destroy), CASE(heap_double_free), CASE(heap_double_free_large), CASE(heap_free_after_reset),
    CASE(heap_wrong_realloc), CASE(none), CASE(libc_block),
};
#define CASE_COUNT (sizeof cases / sizeof *cases)

/* After a misuse that was let pass: does the heap still hand out distinct blocks? */
static void check_sound(void) {
  static unsigned char *block[2000];
  for (size_t i = 0; i < 2000; i++) {
    size_t bytes = i % 4 ? 64 : 300 * i;
    block[i] = sut->malloc(bytes + 8);
    memcpy(block[i], &i, sizeof i);
    block[i][bytes + 7] = (unsigned char)i;
  }
  for (size_t i = 0; i < 2000; i++) {
    size_t bytes = i % 4 ? 64 : 300 * i;
    TS_CHECK(memcmp(block[i], &i, sizeof i) == 0 && block[i][bytes + 7] == (unsigned char)i, "block %zu was handed out twice", i);
    sut->free(block[i]);
  }
  ts_print(1, "sound\n");
}

int main(int argc, char **argv) {
  sut = ts_sut();
  for (size_t c = 0; c < CASE_COUNT && argc == 2; c++) {
    if (strcmp(cases[c].name, argv[1]) != 0) continue;
    cases[c].run();
    check_sound();
    return 0;
  }
  for (size_t c = 0; c < CASE_COUNT; c++) ts_print(argc == 2 ? 2 : 1, "%s\n", cases[c].name);
  return argc == 2 ? 2 : 0;
}
