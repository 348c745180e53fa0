/* The shape of explicit heaps, arenas and pools that are made, used and destroyed. Only the program that has libheddle.a linked in has
 * it: other allocators have nothing like it.
 *
 * SPDX-License-Identifier: MIT */
#include "soak.h"

#ifdef TS_API
#include <heddle/arena.h>
#include <heddle/pool.h>

enum kind { HEAP, ARENA, POOL, KINDS };
enum { ITEM_BYTES = 96, OBJECT_BYTES = 512 * 1024 };

struct object {
  enum kind kind;
  void *handle;
  int64_t live; /* bytes that go with it when it is destroyed */
};

static struct object *objects;
static size_t object_count;
static struct soak_block *escaped; /* blocks of an explicit heap on their way to a plain free */
enum { ESCAPED = 64, SIZES = 8 };

static void prepare_objects(void) {
  object_count = soak_bytes / OBJECT_BYTES;
  objects = soak_map(object_count * sizeof *objects);
  escaped = soak_map(ESCAPED * sizeof *escaped);
}

/* A heap of its own serves a part of a program, and that has a few sizes. (With every size from 16 bytes to 8 KiB a heap of under 1 MiB
 * consists of half-empty pages.) */
static void fill_heap(struct soak_lane *lane, struct object *object, size_t wanted) {
  size_t sizes[SIZES];
  for (unsigned i = 0; i < SIZES; i++) sizes[i] = soak_size(lane, 16, 8 * KIB);
  for (size_t made = 0; object->live < (int64_t)wanted; made++) {
    size_t bytes = sizes[ts_below(&lane->rng, SIZES)];
    void *p = hd_heap_malloc(object->handle, bytes);
    TS_CHECK(p != NULL, "hd_heap_malloc(%zu)", bytes);
    soak_stamp(p, bytes);
    if (made % 16 == 0) {
      struct soak_block *way = &escaped[made / 16 % ESCAPED];
      if (way->p) hd_free(way->p);
      *way = (struct soak_block){p, bytes};
    } else {
      object->live += (int64_t)bytes;
    }
  }
  for (unsigned i = 0; i < ESCAPED; i++) {
    if (escaped[i].p == NULL) continue;
    soak_check(escaped[i].p, escaped[i].bytes);
    hd_free(escaped[i].p);
    escaped[i].p = NULL;
  }
}

static void fill_arena(struct soak_lane *lane, struct object *object, size_t wanted) {
  for (unsigned turn = 0; turn < 3; turn++) {
    hd_arena_reset(object->handle);
    for (object->live = 0; object->live < (int64_t)wanted;) {
      size_t bytes = soak_size(lane, 16, 8 * KIB);
      void *p = hd_arena_alloc(object->handle, bytes);
      TS_CHECK(p != NULL, "hd_arena_alloc(%zu)", bytes);
      soak_stamp(p, bytes);
      object->live += (int64_t)bytes;
    }
  }
}

static void fill_pool(struct soak_lane *lane, struct object *object, size_t wanted) {
  void *some[256];
  for (unsigned i = 0; i < 256; i++) some[i] = NULL;
  while (object->live < (int64_t)wanted) {
    void **slot = &some[ts_below(&lane->rng, 256)];
    if (*slot && ts_below(&lane->rng, 2) == 0) {
      soak_check(*slot, ITEM_BYTES);
      hd_pool_give(object->handle, *slot);
      object->live -= ITEM_BYTES;
    }
    *slot = hd_pool_take(object->handle);
    TS_CHECK(*slot != NULL, "hd_pool_take");
    soak_stamp(*slot, ITEM_BYTES);
    object->live += ITEM_BYTES;
  }
}

static void make_object(struct soak_lane *lane, struct object *object) {
  hd_pool_config config = {.struct_bytes = sizeof config, .item_bytes = ITEM_BYTES};
  size_t wanted = soak_size(lane, OBJECT_BYTES / 4, OBJECT_BYTES * 3);
  object->kind = (enum kind)ts_below(&lane->rng, KINDS);
  object->live = 0;
  switch (object->kind) {
  case HEAP: object->handle = hd_heap_create(NULL); break;
  case ARENA: object->handle = hd_arena_create(NULL); break;
  default: object->handle = hd_pool_create(&config);
  }
  TS_CHECK(object->handle != NULL, "an object of kind %d", (int)object->kind);
  switch (object->kind) {
  case HEAP: fill_heap(lane, object, wanted); break;
  case ARENA: fill_arena(lane, object, wanted); break;
  default: fill_pool(lane, object, wanted);
  }
  soak_count(lane, object->live, 1);
}

static void destroy_object(struct soak_lane *lane, struct object *object) {
  if (object->handle == NULL) return;
  switch (object->kind) {
  case HEAP: hd_heap_destroy(object->handle); break;
  case ARENA: hd_arena_destroy(object->handle); break;
  default: hd_pool_destroy(object->handle);
  }
  soak_count(lane, -object->live, 1);
  object->handle = NULL;
}

static void run_objects(void) {
  struct soak_lane *lane = soak_lane(0);
  for (size_t steps = 0; soak_running();) {
    struct object *object = &objects[ts_below(&lane->rng, object_count)];
    destroy_object(lane, object);
    make_object(lane, object);
    if (++steps % 32 == 0) soak_cycle();
  }
}

const struct soak_shape soak_object_shapes[] = {
    {"objects", "explicit heaps, arenas and pools, made and destroyed", prepare_objects, run_objects}, {0}};
#else
const struct soak_shape soak_object_shapes[] = {{0}};
#endif
