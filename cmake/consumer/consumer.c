/* Uses an installed Heddle: the API, and the plain malloc, which is Heddle's in all but the static form.
 * Arguments: 1 if malloc should be Heddle's, else 0. */
#include <heddle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  bool expected = argc > 1 && strcmp(argv[1], "1") == 0;
  hd_heap *heap = hd_heap_create(NULL);
  char *text = hd_heap_malloc(heap, 100);
  char *plain = malloc(100);
  if (heap == NULL || text == NULL || plain == NULL) return 1;
  strcpy(text, "in a heap");
  if (hd_version() != HEDDLE_VERSION || hd_heap_of(text) != heap || strcmp(text, "in a heap") != 0) return 2;
  if (hd_owns(plain) != expected || hd_override_active(NULL) != expected) {
    fprintf(stderr, "consumer: malloc is %sHeddle's\n", expected ? "not " : "");
    return 3;
  }
  free(plain);
  hd_heap_destroy(heap);
  return 0;
}
