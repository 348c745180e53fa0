/* Where operations come from. See ops.h.
 *
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "ops.h"

static const struct {
  const char *name;
  unsigned weight;
} verbs[VERB_COUNT] = {
#define VERB(name, weight) {#name, weight},
    MODEL_VERBS(VERB)
#undef VERB
};

#define ADD(name, weight) +weight
enum { WEIGHT_TOTAL = 0 MODEL_VERBS(ADD) };
#undef ADD

/* ---- from a seed ------------------------------------------------------------------------------------------------ */

static size_t pick_size(struct ts_rng *rng) {
  uint64_t r = ts_below(rng, 100000);
  if (r < 45000) return ts_below(rng, 257);
  if (r < 70000) return ((8 + ts_below(rng, 8)) << (1 + ts_below(rng, 13))) - 1 + ts_below(rng, 3);
  if (r < 90000) return ts_below(rng, 4096);
  if (r < 98800) return ts_below(rng, 66000);
  if (r < 99900) return ts_below(rng, (size_t)1 << 20);
  if (r < 99990) return ts_below(rng, (size_t)8 << 20);
  if (r < 99994) return ts_below(rng, (size_t)128 << 20);
  return (size_t)PTRDIFF_MAX + 1 + ts_below(rng, PTRDIFF_MAX);
}

struct op op_choose(uint64_t seed, uint64_t index) {
  struct ts_rng rng = {ts_hash(seed, index)};
  unsigned r = (unsigned)ts_below(&rng, WEIGHT_TOTAL), at = 0;
  int verb = 0;
  while (r >= (at += verbs[verb].weight)) verb++;
  struct op op = {.verb = (enum verb)verb, .slot = (int)ts_below(&rng, SLOT_COUNT), .heap = (int)ts_below(&rng, HEAP_COUNT)};
  op.bytes = pick_size(&rng);
  op.alignment = (size_t)16 << ts_below(&rng, ts_below(&rng, 16) ? 9 : 18);
  op.key = ts_next(&rng);
  return op;
}

/* ---- from bytes ------------------------------------------------------------------------------------------------- */

/* What a fuzzer should do most: half of the values of its first byte. */
static const enum verb frequent[] = {MALLOC, CALLOC, ALIGNED, HEAP_MALLOC, REALLOC, REALLOC, RECALLOC, EXPAND, FREE, FREE, HEAP_CREATE};

/* Six bytes an operation: verb; slot and more to choose; heap and alignment; the size as a mantissa of 12 bits and a shift. Shifts
 * stay at 4 MiB, but for the last ones, which no allocator can serve. */
size_t op_read_bytes(const uint8_t *data, size_t bytes, struct op *op) {
  if (bytes < 6) return 0;
  unsigned shift = data[4] >> 4;
  size_t mantissa = (size_t)(data[4] & 15) << 8 | data[5];
  unsigned verb = data[0] & 127;
  op->verb = data[0] & 128 ? frequent[verb % (sizeof frequent / sizeof *frequent)] : (enum verb)(verb % VERB_COUNT);
  op->slot = data[1] % SLOT_COUNT;
  op->heap = data[2] % HEAP_COUNT;
  op->alignment = (size_t)16 << (data[2] >> 2) % 18;
  op->bytes = shift < 15 ? mantissa << (shift < 4 ? 0 : shift - 4) : SIZE_MAX / 2 - 2048 + mantissa;
  op->key = ts_hash((uint64_t)data[1] << 8 | data[3], data[5]) & ~(uint64_t)255;
  op->key |= data[3];
  return 6;
}

/* ---- as text ---------------------------------------------------------------------------------------------------- */

void op_write_text(const struct op *op, char *line, size_t bytes) {
  snprintf(line, bytes, "%s slot %d heap %d bytes %zu alignment %zu key %llu", verbs[op->verb].name, op->slot, op->heap, op->bytes,
           op->alignment, (unsigned long long)op->key);
}

bool op_read_text(const char *line, struct op *op) {
  char name[32];
  unsigned long long key;
  if (sscanf(line, "%31s slot %d heap %d bytes %zu alignment %zu key %llu", name, &op->slot, &op->heap, &op->bytes, &op->alignment,
             &key) != 6)
    return false;
  op->key = key;
  for (int v = 0; v < VERB_COUNT; v++)
    if (strcmp(name, verbs[v].name) == 0) {
      op->verb = (enum verb)v;
      return op->slot >= 0 && op->slot < SLOT_COUNT && op->heap >= 0 && op->heap < HEAP_COUNT && op->alignment >= 16 &&
             (op->alignment & (op->alignment - 1)) == 0;
    }
  return false;
}
