/* Shapes of data structures: a cache that grows and shrinks, strings that grow by realloc, large buffers, containers as C++ has them.
 *
 * SPDX-License-Identifier: MIT */
#include "soak.h"

#include <string.h>

/* ---- cache ------------------------------------------------------------------------------------------------------- */

/* Least recently used goes first; a hit moves its entry to the front, so that neighbours in memory end at different times. */
struct entry {
  struct entry *newer, *older;
  size_t place; /* in all[] */
  size_t value_bytes;
  unsigned char *value;
  char key[24];
};

static struct {
  struct entry *newest, *oldest, **all;
  size_t count, room, bytes;
} cache;

static void prepare_cache(void) {
  cache.room = soak_bytes / 256;
  cache.all = soak_map(cache.room * sizeof(struct entry *));
}

static void link_first(struct entry *e) {
  e->newer = NULL;
  e->older = cache.newest;
  if (cache.newest) {
    cache.newest->newer = e;
  } else {
    cache.oldest = e;
  }
  cache.newest = e;
}

static void unlink_entry(struct entry *e) {
  *(e->newer ? &e->newer->older : &cache.newest) = e->older;
  *(e->older ? &e->older->newer : &cache.oldest) = e->newer;
}

static void insert_entry(struct soak_lane *lane) {
  /* One byte more than the struct, for the stamp. */
  struct entry *e = soak_take(lane, sizeof *e + 1);
  e->value_bytes = soak_size(lane, 64, 16 * KIB);
  e->value = soak_take(lane, e->value_bytes);
  e->place = cache.count;
  memset(e->key, 'k', sizeof e->key);
  TS_CHECK(cache.count < cache.room, "the cache's table is too small");
  cache.all[cache.count++] = e;
  cache.bytes += sizeof *e + 1 + e->value_bytes;
  link_first(e);
}

static void evict_entry(struct soak_lane *lane) {
  struct entry *e = cache.oldest;
  unlink_entry(e);
  cache.all[e->place] = cache.all[--cache.count];
  cache.all[e->place]->place = e->place;
  cache.bytes -= sizeof *e + 1 + e->value_bytes;
  soak_give(lane, e->value, e->value_bytes);
  soak_give(lane, e, sizeof *e + 1);
}

static void use_cache(struct soak_lane *lane, size_t limit, unsigned ms) {
  for (uint64_t end = ts_now_ms() + ms; soak_running() && ts_now_ms() < end;) {
    for (unsigned i = 0; i < 500; i++) {
      /* Three hits to a miss, the front of the table more often than its end. */
      if (cache.count > 0 && i % 4 != 0) {
        struct entry *e = cache.all[ts_below(&lane->rng, 1 + ts_below(&lane->rng, cache.count))];
        unlink_entry(e);
        link_first(e);
      } else {
        insert_entry(lane);
      }
      for (unsigned evicted = 0; cache.bytes > limit && evicted < 8; evicted++) evict_entry(lane);
    }
  }
}

static void run_cache(void) {
  struct soak_lane *lane = soak_lane(0);
  while (cache.bytes < soak_bytes && soak_running()) insert_entry(lane);
  for (; soak_running(); soak_cycle()) {
    use_cache(lane, soak_bytes, 400);
    while (cache.bytes > soak_bytes / 2 && soak_running()) evict_entry(lane); /* memory was asked back */
    use_cache(lane, soak_bytes / 2, SOAK_SETTLE_MS + 300);
  }
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

static struct soak_table texts;
enum { TEXT_MEAN_BYTES = 4096 };

static void prepare_strings(void) { soak_table_prepare(&texts, soak_bytes / TEXT_MEAN_BYTES); }

/* Append some bytes to a text; one that is long enough is cut to a quarter, or ends. */
static void edit_text(struct soak_lane *lane, struct soak_block *text) {
  size_t longest = (size_t)1 << (8 + ts_below(&lane->rng, 9));
  if (text->p == NULL) {
    soak_make(lane, text, soak_size(lane, 16, 64));
  } else if (text->bytes < longest) {
    size_t bytes = text->bytes + 1 + ts_below(&lane->rng, text->bytes / 2 + 16);
    text->p = soak_resize(lane, text->p, text->bytes, bytes);
    text->bytes = bytes;
  } else if (ts_below(&lane->rng, 2) == 0 && text->bytes >= 64) {
    text->p = soak_resize(lane, text->p, text->bytes, text->bytes / 4);
    text->bytes /= 4;
  } else {
    soak_drop(lane, text);
  }
}

static void run_strings(void) {
  struct soak_lane *lane = soak_lane(0);
  texts.count = texts.room;
  for (size_t edits = 0; soak_running();) {
    for (unsigned i = 0; i < 1000; i++) edit_text(lane, &texts.slots[ts_below(&lane->rng, texts.count)]);
    if (++edits % 200 == 0) soak_cycle();
  }
}

/* ---- large ------------------------------------------------------------------------------------------------------- */

static struct soak_table buffers;

static void prepare_large(void) { soak_table_prepare(&buffers, 1024); }

static void run_large(void) {
  struct soak_lane *lane = soak_lane(0);
  soak_table_fill(lane, &buffers, soak_bytes, 32 * KIB, 8 * MIB);
  for (size_t steps = 0; soak_running();) {
    struct soak_block *buffer = &buffers.slots[ts_below(&lane->rng, buffers.count)];
    size_t bytes = soak_size(lane, 32 * KIB, 8 * MIB);
    if (ts_below(&lane->rng, 3) == 0) {
      buffer->p = soak_resize(lane, buffer->p, buffer->bytes, bytes);
      buffer->bytes = bytes;
    } else {
      soak_drop(lane, buffer);
      soak_make(lane, buffer, bytes);
    }
    if (++steps % 512 == 0) soak_cycle();
  }
}

/* ---- containers -------------------------------------------------------------------------------------------------- */

/* A vector doubles; a list or tree has a node an element; a hash table has both, and is made anew when it is full; a string beside
 * each node, often too short to need a block. Each container lives until it has the size it was meant for, and a while longer. */
enum kind { VECTOR, NODES, HASH, KINDS };

struct node {
  struct node *next;
  uint32_t node_bytes, text_bytes;
  unsigned char *text;
  char stamp[8];
};

struct container {
  enum kind kind;
  size_t count, wanted, element_bytes, rest;
  struct soak_block storage; /* vector's elements, hash table's buckets */
  struct node *nodes;
};

static struct container *containers;
static size_t container_count;
enum { CONTAINER_MEAN_BYTES = 64 * 1024 };

static void prepare_containers(void) {
  container_count = soak_bytes / CONTAINER_MEAN_BYTES;
  containers = soak_map(container_count * sizeof *containers);
}

static void begin_container(struct soak_lane *lane, struct container *c) {
  memset(c, 0, sizeof *c);
  c->kind = (enum kind)ts_below(&lane->rng, KINDS);
  c->element_bytes = 8 * (1 + ts_below(&lane->rng, 8));
  c->wanted = soak_size(lane, 64, c->kind == VECTOR ? 16384 : 4096);
  c->rest = ts_below(&lane->rng, 64);
}

/* As vectors do it: a new block, a copy, the old one freed. */
static void make_room(struct soak_lane *lane, struct container *c, size_t unit) {
  if (c->storage.p && (c->count + 1) * unit <= c->storage.bytes) return;
  struct soak_block larger;
  soak_make(lane, &larger, c->storage.p ? c->storage.bytes * 2 : 4 * unit + 16);
  soak_drop(lane, &c->storage);
  c->storage = larger;
}

static void add_node(struct soak_lane *lane, struct container *c) {
  uint32_t bytes = (uint32_t)(sizeof(struct node) + c->element_bytes);
  struct node *node = soak_take(lane, bytes);
  node->next = c->nodes;
  node->node_bytes = bytes;
  node->text_bytes = (uint32_t)soak_size(lane, 8, 128);
  node->text = node->text_bytes > 15 ? soak_take(lane, node->text_bytes) : NULL;
  c->nodes = node;
}

static void end_container(struct soak_lane *lane, struct container *c) {
  soak_drop(lane, &c->storage);
  for (struct node *node = c->nodes, *next; node; node = next) {
    next = node->next;
    if (node->text) soak_give(lane, node->text, node->text_bytes);
    soak_give(lane, node, node->node_bytes);
  }
}

static void grow_container(struct soak_lane *lane, struct container *c) {
  if (c->wanted == 0) begin_container(lane, c);
  for (unsigned i = 0; i < 64 && c->count < c->wanted; i++, c->count++) {
    if (c->kind != NODES) make_room(lane, c, c->kind == VECTOR ? c->element_bytes : sizeof(void *));
    if (c->kind != VECTOR) add_node(lane, c);
  }
  if (c->count < c->wanted || c->rest-- > 0) return;
  end_container(lane, c);
  begin_container(lane, c);
}

static void run_containers(void) {
  struct soak_lane *lane = soak_lane(0);
  for (; soak_running(); soak_cycle())
    for (size_t i = 0; i < container_count * 4; i++) grow_container(lane, &containers[ts_below(&lane->rng, container_count)]);
}

const struct soak_shape soak_data_shapes[] = {
    {"cache", "least-recently-used cache that is halved every few seconds", prepare_cache, run_cache},
    {"strings", "texts that grow by realloc and are cut", prepare_strings, run_strings},
    {"large", "buffers of 32 KiB to 8 MiB, made and resized", prepare_large, run_large},
    {"containers", "vectors, nodes and hash tables with strings", prepare_containers, run_containers},
    {0}};
