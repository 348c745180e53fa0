/* One misuse a run: misuse CASE. What each must lead to stands in table.py. A case that goes on after its misuse (onerror:report
 * or ignore) then checks that the heap is still sound and prints "sound".
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <heddle/arena.h>
#include <heddle/pool.h>
#include <pthread.h>
#include <signal.h>
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
static void double_medium(void) { twice(make(18000)); }
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
static void interior_medium(void) { free_at(18000, 4096); }
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
  void *p = NULL;
  for (int i = 0; i < 64; i++) p = make(48); /* the first of them lie in a page of 64-byte blocks */
  target = (void *)(((uintptr_t)p & ~(uintptr_t)65535) + 65536 - 16);
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

static void usable_interior(void) {
  target = (char *)make(64) + 16;
  ts_print(1, "%zu\n", sut->usable_size(target));
}

/* Of 32 bits' addresses those that nobody has claimed may be anybody's. */
static void realloc_far(void) {
  target = (char *)make(64) + ((size_t)(sizeof(void *) > 4 ? 1024 : 8) << 20);
  target = sut->realloc(target, 10);
}

static void realloc_stack(void) {
  _Alignas(64) char area[4096];
  memset(area, 0, sizeof area);
  target = area + 1024;
  target = sut->realloc(target, 10);
}

static void foreign_code(void) {
  target = (void *)((uintptr_t)ts_print & ~(uintptr_t)15);
  sut->free(target);
}

/* ---- writes past the end ---------------------------------------------------------------------------------------- */

/* Every byte changes, whatever stands there. */
static void flip(void *p, size_t bytes) {
  for (volatile unsigned char *at = p, *end = at + bytes; at < end; at++) *at = (unsigned char)~*at;
}

static void over(size_t bytes, size_t by) {
  static void *around[64]; /* what a long write hits */
  for (int i = 0; i < 64; i++) around[i] = make(bytes);
  target = around[20];
  flip((char *)target + bytes, by);
  sut->free(target);
}

static void over_small_1(void) { over(60, 1); }
static void over_small_8(void) { over(60, 8); }
static void over_small_16(void) { over(60, 16); }
static void over_small_4096(void) { over(60, 4096); }
static void over_full_class_1(void) { over(56, 1); }
static void over_full_class_8(void) { over(56, 8); }
static void over_medium_1(void) { over(18000, 1); }
static void over_medium_8(void) { over(18000, 8); }
static void over_medium_16(void) { over(18000, 16); }
static void over_medium_4096(void) { over(18000, 4096); }
static void over_large_1(void) { over(300000, 1); }
static void over_large_8(void) { over(300000, 8); }
static void over_large_16(void) { over(300000, 16); }
static void over_large_4096(void) { over(300000, 4096); }
static void over_large_odd_1(void) { over(300001, 1); }
static void over_large_odd_16(void) { over(300001, 16); }
static void over_zero(void) { over(0, 1); }

static void over_string_end(void) {
  char *p = make(24);
  p[24] = 0;
  sut->free(p);
}

static void over_calloc(void) {
  char *p = sut->calloc(3, 100);
  flip(p + 300, 1);
  sut->free(p);
}

static void over_realloc(void) {
  char *p = sut->realloc(make(40), 100);
  flip(p + 100, 1);
  sut->free(p);
}

static void over_shrunk(void) {
  char *p = sut->realloc(make(50), 40);
  flip(p + 40, 1);
  sut->free(p);
}

static void over_aligned(void) {
  char *p = sut->aligned_alloc(256, 200);
  flip(p + 200, 1);
  sut->free(p);
}

static void over_aligned_large(void) {
  char *p = sut->aligned_alloc((size_t)1 << 21, 300000);
  flip(p + 300000, 1);
  sut->free(p);
}

static void over_strdup(void) {
  char *p = sut->strdup("0123456789");
  flip(p + 11, 1);
  sut->free(p);
}

static void over_found_by_realloc(void) {
  char *p = make(60);
  flip(p + 60, 1);
  target = sut->realloc(p, 5000);
}

static void over_found_by_usable(void) {
  char *p = make(60);
  flip(p + 60, 1);
  ts_print(1, "%zu\n", sut->usable_size(p));
}

static void over_found_by_other_thread(void) {
  char *p = make(60);
  flip(p + 60, 1);
  in_thread(free_body, p);
}

/* Usable size is what was asked for, or more: none of it is past the end. */
static void over_not_usable(void) {
  char *p = make(60);
  flip(p, sut->usable_size(p));
  sut->free(p);
}

static void under_small(void) {
  static char *all[3000];
  size_t victim = 700;
  for (int i = 0; i < 3000; i++) all[i] = make(64);
  while (((uintptr_t)all[victim] & 65535) < 256) victim++;
  flip(all[victim] - 1, 1);
  for (int i = 0; i < 3000; i++) sut->free(all[i]);
}

static void under_large(void) {
  char *p = make(300000);
  flip(p - 1, 1);
  sut->free(p);
}

static void under_large_far(void) {
  char *p = make(300000);
  flip(p - 4096, 1);
  sut->free(p);
}

/* ---- uses of freed blocks --------------------------------------------------------------------------------------- */

static char *freed(size_t bytes) {
  target = make(bytes);
  sut->free(target);
  return target;
}

/* Frees until the oldest in quarantine has left it. */
static void free_many(void) {
  for (int i = 0; i < 2000; i++) sut->free(make(48));
}

static void write_freed_small(void) {
  freed(60)[3] = 1;
  free_many();
}

static void write_freed_other_thread(void) {
  char *p = make(60);
  target = p;
  sut->free(target);
  ((char *)target)[40] = 1;
  free_many();
}

static void write_freed_at_exit(void) { freed(60)[59] = 1; }

static void write_freed_collected(void) {
  freed(60)[0] = 1;
  sut->collect(0);
}

static void write_freed_medium_start(void) {
  freed(18000)[8] = 1;
  free_many();
  for (int i = 0; i < 50; i++) sut->free(make(18000));
}

/* Of more than 1 KiB only the beginning, the middle and the end are looked at. */
static void write_freed_medium_inside(void) {
  freed(18000)[5000] = 1;
  for (int i = 0; i < 50; i++) sut->free(make(18000));
}

static void write_freed_large(void) { freed(300000)[100] = 1; }
static void write_freed_huge(void) { freed((size_t)100 << 20)[70000000] = 1; }

static void read_freed_small(void) { ts_print(1, "%d\n", ((volatile char *)freed(60))[10]); }
static void read_freed_large(void) { ts_print(1, "%d\n", ((volatile char *)freed(300000))[299999]); }

/* With a guard page for every small block. */
static void sample_over(void) { over(48, 1); }
static void sample_read_freed(void) { ts_print(1, "%d\n", ((volatile char *)freed(48))[10]); }
static void sample_under(void) { flip((char *)make(48) - 4096, 1); }
static void sample_double(void) { twice(make(48)); }

/* ---- sized frees ------------------------------------------------------------------------------------------------ */

#if SIZE_MAX == UINT32_MAX
#define WITH_SIZE(function) function "j"
#else
#define WITH_SIZE(function) function "m"
#endif

static void *find(const char *name) {
  void *symbol = dlsym(RTLD_DEFAULT, name);
  TS_CHECK(symbol != NULL, "no %s", name);
  return symbol;
}

static void delete_sized(const char *name, size_t bytes, size_t said) {
  void (*function)(void *, size_t) = NULL;
  *(void **)(void *)&function = find(name);
  function(make(bytes), said);
}

static void delete_aligned(const char *name, size_t bytes, size_t said, size_t alignment) {
  void (*function)(void *, size_t, size_t) = NULL;
  *(void **)(void *)&function = find(name);
  function(sut->aligned_alloc(256, bytes), said, alignment);
}

static void sized_free(void) { sut->free_sized(make(50), 60); }
static void sized_free_large(void) { sut->free_sized(make(300000), 300001); }
static void sized_free_class(void) { sut->free_sized(make(50), 64); }
static void sized_free_zero(void) { sut->free_sized(make(50), 0); }
static void sized_free_aligned(void) { sut->free_aligned_sized(sut->aligned_alloc(256, 100), 256, 256); }

/* The space may begin at a multiple of 1 TiB, and one block in it with it. */
static void sized_free_alignment(void) {
  const size_t alignment = (size_t)1 << 40;
  void *p = sut->aligned_alloc(256, 100);
  if ((uintptr_t)p % alignment == 0) p = sut->aligned_alloc(256, 100);
  sut->free_aligned_sized(p, alignment, 100);
}

static void sized_delete(void) { delete_sized(WITH_SIZE("_ZdlPv"), 24, 32); }
static void sized_delete_array(void) { delete_sized(WITH_SIZE("_ZdaPv"), 800, 8); }
static void sized_delete_aligned(void) { delete_aligned(WITH_SIZE("_ZdlPv") "St11align_val_t", 100, 104, 256); }
static void sized_delete_aligned_array(void) { delete_aligned(WITH_SIZE("_ZdaPv") "St11align_val_t", 100, 10, 256); }
static void sized_after_realloc(void) { sut->free_sized(sut->realloc(make(50), 200), 50); }
static void sized_interior(void) { sut->free_sized((char *)make(64) + 16, 48); }

static void sized_double(void) {
  target = make(64);
  sut->free_sized(target, 64);
  sut->free_sized(target, 64);
}

static void sized_right(void) {
  delete_sized(WITH_SIZE("_ZdlPv"), 24, 24);
  delete_aligned(WITH_SIZE("_ZdaPv") "St11align_val_t", 100, 100, 256);
  sut->free_sized(sut->calloc(3, 100), 300);
  sut->free_sized(sut->realloc(make(50), 200), 200);
  sut->free_sized(NULL, 10);
}

/* Families are not kept apart: new[] and delete, new and free. */
static void mismatch_new_free(void) {
  void *(*new_array)(size_t) = NULL;
  void (*delete_plain)(void *) = NULL;
  *(void **)(void *)&new_array = find(WITH_SIZE("_Zna"));
  *(void **)(void *)&delete_plain = find("_ZdlPv");
  delete_plain(new_array(100));
  sut->free(new_array(100));
  delete_plain(make(100));
}

static void memalign_wrong(void) {
  void *p = NULL;
  TS_CHECK(sut->posix_memalign(&p, 3, 100) != 0 && sut->posix_memalign(&p, 24, 100) != 0, "posix_memalign");
  TS_CHECK(p == NULL && sut->aligned_alloc(48, 100) == NULL, "aligned_alloc");
}

/* ---- memory of objects ------------------------------------------------------------------------------------------ */

static void *arena_memory(void) {
  __typeof__(hd_arena_create) *create = NULL;
  __typeof__(hd_arena_zalloc) *zalloc = NULL;
  *(void **)(void *)&create = find("hd_arena_create");
  *(void **)(void *)&zalloc = find("hd_arena_zalloc");
  return zalloc(create(NULL), 100);
}

static void *pool_memory(void) {
  __typeof__(hd_pool_create) *create = NULL;
  __typeof__(hd_pool_take_slow) *take = NULL;
  *(void **)(void *)&create = find("hd_pool_create");
  *(void **)(void *)&take = find("hd_pool_take_slow");
  const hd_pool_config config = {.struct_bytes = sizeof config, .name = "items", .item_bytes = 48};
  return take(create(&config), false);
}

static void free_arena(void) {
  target = arena_memory();
  sut->free(target);
}

static void realloc_arena(void) {
  target = arena_memory();
  target = sut->realloc(target, 1000);
}

static void sized_arena(void) {
  target = arena_memory();
  sut->free_sized(target, 100);
}

static void free_pool(void) {
  target = pool_memory();
  sut->free(target);
}

static void usable_pool(void) {
  target = pool_memory();
  ts_print(1, "%zu\n", sut->usable_size(target));
}

static void heap_over(void) {
  hd_heap *heap = sut->heap_create(NULL);
  target = sut->heap_malloc(heap, 60);
  flip((char *)target + 60, 4);
  sut->free(target);
}

static void heap_usable_after_destroy(void) {
  hd_heap *heap = sut->heap_create(NULL);
  target = sut->heap_malloc(heap, 64);
  sut->heap_destroy(heap);
  ts_print(1, "%zu\n", sut->usable_size(target));
}

static void heap_large_after_destroy(void) {
  hd_heap *heap = sut->heap_create(NULL);
  target = sut->heap_malloc(heap, 300000);
  sut->heap_destroy(heap);
  sut->free(target);
}

static void heap_one_user_double(void) {
  const hd_heap_config config = {.struct_bytes = sizeof config, .one_user = true};
  hd_heap *heap = sut->heap_create(&config);
  twice(sut->heap_malloc(heap, 64));
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
    CASE(never_free_run), CASE(never_far), CASE(foreign_stack), CASE(foreign_static), CASE(foreign_mapped), CASE(heap_free_after_destroy),
    CASE(heap_double_free), CASE(heap_double_free_large), CASE(heap_free_after_reset), CASE(heap_wrong_realloc), CASE(usable_interior),
    CASE(realloc_far), CASE(realloc_stack), CASE(foreign_code), CASE(over_small_1), CASE(over_small_8), CASE(over_small_16),
    CASE(over_small_4096), CASE(over_full_class_1), CASE(over_full_class_8), CASE(over_medium_1), CASE(over_medium_8),
    CASE(over_medium_16), CASE(over_medium_4096), CASE(over_large_1), CASE(over_large_8), CASE(over_large_16), CASE(over_large_4096),
    CASE(over_large_odd_1), CASE(over_large_odd_16), CASE(over_zero), CASE(over_string_end), CASE(over_calloc), CASE(over_realloc),
    CASE(over_shrunk), CASE(over_aligned), CASE(over_aligned_large), CASE(over_strdup), CASE(over_found_by_realloc),
    CASE(over_found_by_usable), CASE(over_found_by_other_thread), CASE(over_not_usable), CASE(under_small), CASE(under_large),
    CASE(under_large_far), CASE(write_freed_small), CASE(write_freed_other_thread), CASE(write_freed_at_exit),
    CASE(write_freed_collected), CASE(write_freed_medium_start), CASE(write_freed_medium_inside), CASE(write_freed_large),
    CASE(write_freed_huge), CASE(read_freed_small), CASE(read_freed_large), CASE(sample_over), CASE(sample_read_freed),
    CASE(sample_under), CASE(sample_double), CASE(sized_free), CASE(sized_free_large), CASE(sized_free_class), CASE(sized_free_zero),
    CASE(sized_free_aligned), CASE(sized_free_alignment), CASE(sized_delete), CASE(sized_delete_array), CASE(sized_delete_aligned),
    CASE(sized_delete_aligned_array), CASE(sized_after_realloc), CASE(sized_interior), CASE(sized_double), CASE(sized_right),
    CASE(mismatch_new_free), CASE(memalign_wrong), CASE(free_arena), CASE(realloc_arena), CASE(sized_arena), CASE(free_pool),
    CASE(usable_pool), CASE(heap_over), CASE(heap_usable_after_destroy), CASE(heap_large_after_destroy), CASE(heap_one_user_double),
    CASE(none), CASE(libc_block),
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

/* Not of the table: a program that handles its faults by itself. */
static void own_handler(int number) {
  (void)number;
  ts_print(2, "the program's own\n");
  _exit(7);
}

static void own_fault_handler(void) {
  signal(SIGSEGV, own_handler);
  over_large_1();
}

int main(int argc, char **argv) {
  sut = ts_sut();
  if (argc == 2 && strcmp(argv[1], "own_fault_handler") == 0) own_fault_handler();
  for (size_t c = 0; c < CASE_COUNT && argc == 2; c++) {
    if (strcmp(cases[c].name, argv[1]) != 0) continue;
    cases[c].run();
    check_sound();
    return 0;
  }
  for (size_t c = 0; c < CASE_COUNT; c++) ts_print(argc == 2 ? 2 : 1, "%s\n", cases[c].name);
  return argc == 2 ? 2 : 0;
}
