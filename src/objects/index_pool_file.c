/* Index pools: the format of saved pools, written through a writer and read through a reader. See index_pool.h.
 *
 *     header (128 bytes) | slots 1 .. end-1 | map of slots 1 .. end-1
 *
 * Numbers are in the byte order of the machine that wrote them, which the header names. Header, slots and map have a checksum each.
 * A pool is loaded into memory of its own, checked there, and only then takes the place of the old one.
 * SPDX-License-Identifier: MIT */
#include <errno.h>

#include "core/region.h"
#include "objects/index_pool.h"
#include "os/os.h"

enum { VERSION = 1, HASH_LANES = 4, HASH_BLOCK = HASH_LANES * 8 };

static const uint32_t endian_mark = 0x01020304u;
static const uint32_t endian_swapped = 0x04030201u;
static const unsigned char magic[8] = {0x89, 'H', 'D', 'I', 'X', '\r', '\n', 0x1a};

typedef struct header {
  unsigned char magic[8];
  uint32_t endian, version, header_bytes;
  uint32_t slot_bytes, object_slots;
  uint32_t exact_slots;      /* HD_INDEX_EXACT_SLOTS: the meaning of map bytes */
  uint64_t end;              /* index of the first slot that is not in the file */
  uint64_t used, used_count; /* slots in live objects; live objects */
  uint64_t slots_hash, map_hash;
  char name[HD_INDEX_NAME];
  uint64_t reserved[2];      /* 0 */
  uint64_t header_hash;      /* of all before */
} header;

_Static_assert(sizeof(header) == 128, "the header has no gaps");

/* ---- checksum ------------------------------------------------------------------------------------------------------ */

/* Four lanes take every fourth word. Each step maps a lane one to one for any word, and the joining at the end maps each lane one to
 * one for any others, so damage within one word is always found, and other damage but for one case in 2^64. */
static uint64_t absorb(uint64_t lane, uint64_t word) {
  lane = (lane ^ word) * 0x9fb21c651e98df25u;
  return lane ^ lane >> 32;
}

static uint64_t hash(const void *data, size_t bytes) {
  const uint8_t *at = data;
  uint64_t lane[HASH_LANES] = {0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u, 0x082efa98ec4e6c89u};
  uint64_t word[HASH_LANES];
  size_t left = bytes;
  for (; left >= HASH_BLOCK; left -= HASH_BLOCK, at += HASH_BLOCK) {
    memcpy(word, at, HASH_BLOCK);
    for (unsigned i = 0; i < HASH_LANES; i++) lane[i] = absorb(lane[i], word[i]);
  }
  memset(word, 0, sizeof word);
  if (left > 0) memcpy(word, at, left);
  for (unsigned i = 0; i < HASH_LANES; i++) lane[i] = absorb(lane[i], word[i]);
  uint64_t result = bytes;
  for (unsigned i = 0; i < HASH_LANES; i++) result = absorb(hd_rotate_right(result, 29), lane[i]);
  return result;
}

/* ---- errors -------------------------------------------------------------------------------------------------------- */

HD_EXPORT const char *hd_index_pool_error(const hd_index_pool *pool) { return hdi_index_pool_body(pool)->error; }

hd_index_status hdi_index_pool_fail(hd_index_body *body, const char *verb, const char *place, hd_index_status status, const char *why) {
  hd_text text;
  hdi_index_pool_text(body, &text, body->error, sizeof body->error);
  hdi_text_put(&text, "cannot ");
  hdi_text_put(&text, verb);
  hdi_text_put(&text, " ");
  hdi_text_put(&text, place);
  hdi_text_put(&text, ": ");
  hdi_text_put(&text, why);
  if (status == HD_INDEX_IO) {
    hdi_text_put(&text, ", errno ");
    hdi_text_decimal(&text, (uint64_t)errno);
  }
  return status;
}

/* ---- saving -------------------------------------------------------------------------------------------------------- */

hd_index_status hdi_index_pool_prepare(hd_index_body *body, const hd_index_save *how) {
  body->error[0] = 0;
  if (body->busy) return hdi_index_pool_fail(body, "save", "the pool", HD_INDEX_INVALID, "one of its callbacks is running");
  if (how == NULL) return HD_INDEX_OK;
  if (how->struct_bytes != sizeof *how || (how->compact && how->moved == NULL)) {
    return hdi_index_pool_fail(body, "save", "the pool", HD_INDEX_INVALID, "hd_index_save is not filled in");
  }
  if (how->compact) {
    hdi_index_pool_rebuild(body); /* a compaction that is under way has left gaps behind it */
    (void)hd_index_pool_compact(&body->fast, 0, how->moved, how->user);
  }
  return HD_INDEX_OK;
}

hd_index_status hdi_index_pool_save(hd_index_body *body, hd_index_writer *writer, void *user, const char *place) {
  const hd_index_pool *pool = &body->fast;
  size_t count = (size_t)pool->end - 1;
  const uint8_t *slots = pool->slots + pool->slot_bytes, *map = pool->map + 1;
  header head = {
      .endian = endian_mark,
      .version = VERSION,
      .header_bytes = sizeof head,
      .slot_bytes = pool->slot_bytes,
      .object_slots = pool->object_slots,
      .exact_slots = HD_INDEX_EXACT_SLOTS,
      .end = pool->end,
      .used = pool->used,
      .used_count = pool->taken - pool->given,
      .slots_hash = hash(slots, count * pool->slot_bytes),
      .map_hash = hash(map, count),
  };
  memcpy(head.magic, magic, sizeof magic);
  memcpy(head.name, body->name, sizeof head.name);
  head.header_hash = hash(&head, offsetof(header, header_hash));
  bool done = writer(user, &head, sizeof head);
  if (done && count > 0) done = writer(user, slots, count * pool->slot_bytes) && writer(user, map, count);
  return done ? HD_INDEX_OK : hdi_index_pool_fail(body, "write", place, HD_INDEX_IO, "the system refuses");
}

HD_EXPORT hd_index_status hd_index_pool_save_to(hd_index_pool *pool, hd_index_writer *writer, void *user, const hd_index_save *how) {
  hd_index_body *body = hdi_index_pool_body(pool);
  hd_index_status status = hdi_index_pool_prepare(body, how);
  return status == HD_INDEX_OK ? hdi_index_pool_save(body, writer, user, "through the writer") : status;
}

/* ---- loading ------------------------------------------------------------------------------------------------------- */

typedef struct source {
  hd_index_body *body;
  hd_index_reader *reader;
  void *user;
  const char *place;
} source;

static hd_index_status refuse(const source *from, hd_index_status status, const char *why) {
  return hdi_index_pool_fail(from->body, "load", from->place, status, why);
}

static hd_index_status fetch(const source *from, void *data, size_t bytes) {
  size_t done = 0;
  if (!from->reader(from->user, data, bytes, &done)) return refuse(from, HD_INDEX_IO, "the system refuses to read");
  return done == bytes ? HD_INDEX_OK : refuse(from, HD_INDEX_TRUNCATED, "it ends too early");
}

static hd_index_status check_header(const source *from, const header *head) {
  const hd_index_body *body = from->body;
  if (memcmp(head->magic, magic, sizeof magic) != 0) return refuse(from, HD_INDEX_FOREIGN, "not a saved index pool");
  if (head->endian == endian_swapped) return refuse(from, HD_INDEX_ENDIAN, "written in the other byte order");
  if (head->endian != endian_mark) return refuse(from, HD_INDEX_DAMAGED, "its header is damaged");
  if (head->version != VERSION) return refuse(from, HD_INDEX_VERSION, "of a version that this library does not read");
  if (head->header_hash != hash(head, offsetof(header, header_hash))) return refuse(from, HD_INDEX_DAMAGED, "its header is damaged");
  if (head->slot_bytes != body->fast.slot_bytes) return refuse(from, HD_INDEX_MISMATCH, "its slots have another size");
  if (head->object_slots != body->fast.object_slots) return refuse(from, HD_INDEX_MISMATCH, "its objects have another size");
  if (head->header_bytes != sizeof *head || head->exact_slots != HD_INDEX_EXACT_SLOTS || head->end == 0 || head->used >= head->end) {
    return refuse(from, HD_INDEX_DAMAGED, "its header contradicts itself");
  }
  if (head->end - 1 > body->size) return refuse(from, HD_INDEX_TOO_LARGE, "it has more slots than the pool's limit allows");
  return HD_INDEX_OK;
}

/* Whether the map tiles [1, end) with objects as the header counts them. */
static bool map_agrees(const hd_index_body *body, const uint8_t *map, const header *head) {
  uint64_t used = 0, used_count = 0;
  for (uint64_t at = 1; at < head->end;) {
    uint32_t slots = hdi_index_map_checked(map, at, head->end);
    bool free = hdi_index_map_is_free(map, at);
    if (slots == 0) return false;
    if (body->fast.object_slots != 0 && slots % body->fast.object_slots != 0) return false;
    if (body->fast.object_slots != 0 && slots != body->fast.object_slots && !free) return false;
    if (!free) used += slots, used_count++;
    at += slots;
  }
  return used == head->used && used_count == head->used_count;
}

static hd_index_status fetch_content(const source *from, const header *head, const hd_index_memory *memory, bool whole) {
  const hd_index_body *body = from->body;
  size_t count = (size_t)head->end - 1, slot_bytes = body->fast.slot_bytes;
  uint8_t *slots = memory->region + slot_bytes, *map = memory->region + memory->map_offset;
  hd_index_status status = fetch(from, slots, count * slot_bytes);
  if (status == HD_INDEX_OK) status = fetch(from, map + 1, count);
  if (status != HD_INDEX_OK) return status;
  if (hash(slots, count * slot_bytes) != head->slots_hash || hash(map + 1, count) != head->map_hash) {
    return refuse(from, HD_INDEX_DAMAGED, "a checksum is wrong, it is damaged");
  }
  if (!map_agrees(body, map, head)) return refuse(from, HD_INDEX_DAMAGED, "its map of objects contradicts itself");
  uint8_t behind = 0;
  size_t more = 0;
  if (whole && (!from->reader(from->user, &behind, 1, &more) || more != 0))
    return refuse(from, HD_INDEX_DAMAGED, "it goes on behind its end");
  return HD_INDEX_OK;
}

/* The loaded memory takes the place of the old one. */
static void adopt(hd_index_body *body, const header *head, const hd_index_memory *memory) {
  hd_index_pool *pool = &body->fast;
  hdi_index_pool_release(body, &body->memory, body->touched);
  body->memory = *memory;
  pool->slots = memory->region;
  pool->map = memory->region + memory->map_offset;
  pool->end = head->end;
  pool->used = head->used;
  pool->given = pool->taken;
  pool->taken += head->used_count;
  if (pool->used > pool->used_high) pool->used_high = pool->used;
  if (pool->end > body->top) body->top = pool->end;
  body->touched = pool->end;
  hdi_index_pool_rebuild(body);
  body->allocated = head->end - 1 > body->initial ? head->end - 1 : body->initial;
  hdi_index_pool_rearm(body);
  hdi_index_pool_note(body);
}

hd_index_status hdi_index_pool_load(hd_index_body *body, hd_index_reader *reader, void *user, bool whole, const char *place) {
  source from = {body, reader, user, place};
  header head;
  hd_index_memory memory;
  body->error[0] = 0;
  if (body->busy) return refuse(&from, HD_INDEX_INVALID, "one of its callbacks is running");
  hd_index_status status = fetch(&from, &head, sizeof head);
  if (status == HD_INDEX_OK) status = check_header(&from, &head);
  if (status != HD_INDEX_OK) return status;
  if (!hdi_index_pool_reserve(body, &memory)) return refuse(&from, HD_INDEX_NOMEM, "no memory to load it into");
  status = fetch_content(&from, &head, &memory, whole);
  if (status == HD_INDEX_OK) adopt(body, &head, &memory);
  else hdi_index_pool_release(body, &memory, head.end);
  return status;
}

HD_EXPORT hd_index_status hd_index_pool_load_from(hd_index_pool *pool, hd_index_reader *reader, void *user) {
  return hdi_index_pool_load(hdi_index_pool_body(pool), reader, user, false, "through the reader");
}
