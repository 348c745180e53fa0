/* An engine in small, written for mimalloc with the override header: words of a text in hash tables, one per thread, merged; lines that
 * grow; a heap per page of work. Its result is compared with one that was computed by hand.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mimalloc-override.h>

enum { THREADS = 4, WORDS = 30000, BUCKETS = 512 };

typedef struct entry {
  struct entry *next;
  char *word;
  size_t count;
} entry;

typedef struct table {
  entry **bucket;
  size_t distinct;
} table;

static size_t hash(const char *word) {
  size_t h = 5381;
  for (; *word != 0; word++) h = h * 33 + (unsigned char)*word;
  return h % BUCKETS;
}

static void add(table *table, const char *word, size_t count) {
  entry **at = &table->bucket[hash(word)];
  while (*at != NULL && strcmp((*at)->word, word) != 0) at = &(*at)->next;
  if (*at == NULL) {
    *at = calloc(1, sizeof **at);
    (*at)->word = strdup(word);
    table->distinct++;
  }
  (*at)->count += count;
}

static void *work(void *number) {
  table *made = malloc(sizeof *made);
  *made = (table){calloc(BUCKETS, sizeof *made->bucket), 0};
  mi_heap_t *page = mi_heap_new();
  for (size_t i = 0; i < WORDS; i++) {
    char *word = mi_heap_malloc(page, 24);
    snprintf(word, 24, "word%zu", (i * 7 + *(size_t *)number) % 1000);
    add(made, word, 1);
    if (i % 1000 != 999) continue;
    mi_heap_destroy(page);
    page = mi_heap_new();
  }
  mi_heap_delete(page);
  return made;
}

/* Blocks of another thread's are freed here. */
static void merge(table *all, table *part) {
  for (size_t i = 0; i < BUCKETS; i++) {
    for (entry *at = part->bucket[i], *next; at != NULL; at = next) {
      next = at->next;
      add(all, at->word, at->count);
      free(at->word);
      free(at);
    }
  }
  free(part->bucket);
  free(part);
}

int main(void) {
  pthread_t thread[THREADS];
  size_t number[THREADS];
  table all = {calloc(BUCKETS, sizeof *all.bucket), 0};
  for (size_t i = 0; i < THREADS; i++) {
    number[i] = i;
    pthread_create(&thread[i], NULL, work, &number[i]);
  }
  for (size_t i = 0; i < THREADS; i++) {
    void *part = NULL;
    pthread_join(thread[i], &part);
    merge(&all, part);
  }
  char *line = NULL;
  size_t length = 0, total = 0;
  for (size_t i = 0; i < BUCKETS; i++) {
    for (entry *at = all.bucket[i], *next; at != NULL; at = next) {
      size_t word = strlen(at->word);
      next = at->next;
      line = realloc(line, length + word + 1);
      memcpy(line + length, at->word, word + 1);
      length += word;
      total += at->count;
      free(at->word);
      free(at);
    }
  }
  /* 1000 words: "word" and 1, 2 or 3 digits. */
  bool right = all.distinct == 1000 && total == THREADS * WORDS && length == 4 * 1000 + 10 + 2 * 90 + 3 * 900 && mi_is_in_heap_region(line);
  free(line);
  free(all.bucket);
  puts(right ? "ok" : "FAIL");
  return right ? 0 : 1;
}
