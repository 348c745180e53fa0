/* Something for the compiler to chew on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP(n) \
  static int step_##n(int x) { \
    switch (x % 5) { \
      case 0: return x * n + 1; \
      case 1: return x / (n + 1); \
      case 2: return x ^ (n << 3); \
      default: break; \
    } \
    for (int i = 0; i < n; i++) x = (x << 1) ^ (x >> 3) ^ i; \
    return x; \
  }
#define TEN(n) STEP(n##0) STEP(n##1) STEP(n##2) STEP(n##3) STEP(n##4) STEP(n##5) STEP(n##6) STEP(n##7) STEP(n##8) STEP(n##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)

typedef struct pair {
  char *name;
  int value;
} pair;

static int by_value(const void *a, const void *b) { return ((const pair *)a)->value - ((const pair *)b)->value; }

int main(int argc, char **argv) {
  pair pairs[100];
  for (int i = 0; i < 100; i++) {
    char text[32];
    snprintf(text, sizeof text, "%s%d", argv[0], i);
    pairs[i] = (pair){strdup(text), step_17(i) + step_25(i) * step_99(argc)};
  }
  qsort(pairs, 100, sizeof *pairs, by_value);
  printf("%s\n", pairs[step_42(3) & 63].name);
  return 0;
}
