/* Fails in the way that is asked for: the runner of test/cross must see each of them.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
  const char *way = count > 1 ? words[1] : "status";
  if (strcmp(way, "good") == 0) return 0;
  if (strcmp(way, "signal") == 0) abort();
  while (strcmp(way, "hang") == 0) sleep(1);
  return 3;
}
