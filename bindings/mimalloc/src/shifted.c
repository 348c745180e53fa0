/* See mi.h. A Heddle block starts at a multiple of 16 and is freed by its start, so a request like "aligned to 64 at offset 8" gets a
 * block whose start is remembered here. A hash table with linear probing; as long as it is empty nobody looks.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "mi.h"

typedef struct shifted {
  uintptr_t p, base; /* p 0: empty */
} shifted;

size_t mi_shifted_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static shifted *table;
static size_t table_size; /* a power of two */

static size_t home_of(uintptr_t p) { return (p * 0x9e3779b97f4a7c15u >> 20) & (table_size - 1); }

/* Where p stands, or the empty place where it would. */
static shifted *find(uintptr_t p) {
  size_t at = home_of(p);
  while (table[at].p != 0 && table[at].p != p) at = (at + 1) & (table_size - 1);
  return &table[at];
}

static bool grow(void) {
  size_t old_size = table_size;
  shifted *old = table;
  size_t size = old_size == 0 ? 64 : 2 * old_size;
  shifted *made = hd_calloc(size, sizeof *made);
  if (made == NULL) return false;
  table = made;
  table_size = size;
  for (size_t i = 0; i < old_size; i++) {
    if (old[i].p != 0) *find(old[i].p) = old[i];
  }
  hd_free(old);
  return true;
}

bool mi_shifted_add(void *p, void *base) {
  pthread_mutex_lock(&lock);
  bool room = 2 * (mi_shifted_count + 1) <= table_size || grow();
  if (room) {
    *find((uintptr_t)p) = (shifted){(uintptr_t)p, (uintptr_t)base};
    __atomic_add_fetch(&mi_shifted_count, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&lock);
  return room;
}

void *mi_shifted_base(const void *p) {
  pthread_mutex_lock(&lock);
  uintptr_t base = p == NULL || table == NULL ? 0 : find((uintptr_t)p)->base;
  pthread_mutex_unlock(&lock);
  return base != 0 ? (void *)base : (void *)(uintptr_t)p;
}

/* Those behind an emptied place may have been pushed past it: put them in again. */
static void close_gap(size_t at) {
  for (at = (at + 1) & (table_size - 1); table[at].p != 0; at = (at + 1) & (table_size - 1)) {
    shifted entry = table[at];
    table[at] = (shifted){0, 0};
    *find(entry.p) = entry;
  }
}

void *mi_shifted_remove(void *p) {
  pthread_mutex_lock(&lock);
  shifted *entry = p == NULL || table == NULL ? NULL : find((uintptr_t)p);
  if (entry != NULL && entry->p != 0) {
    p = (void *)entry->base;
    *entry = (shifted){0, 0};
    close_gap((size_t)(entry - table));
    __atomic_sub_fetch(&mi_shifted_count, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&lock);
  return p;
}

/* Those in a heap that is about to be destroyed. */
void mi_shifted_forget(const hd_heap *heap) {
  if (!mi_any_shifted()) return;
  pthread_mutex_lock(&lock);
  for (size_t at = 0; at < table_size;) {
    if (table[at].p == 0 || hd_heap_of((void *)table[at].base) != heap) {
      at++;
      continue;
    }
    table[at] = (shifted){0, 0};
    __atomic_sub_fetch(&mi_shifted_count, 1, __ATOMIC_RELAXED);
    close_gap(at); /* may move another one here: look again */
  }
  pthread_mutex_unlock(&lock);
}
