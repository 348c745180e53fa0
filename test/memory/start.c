/* What a program that does next to nothing has in memory of the library: nothing of its constants. One page fault there brings in up to
 * 64 KiB, with the tables for unwinding beside them. Runs without any HEDDLE variable, whose reading needs the options' names.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"

static const char *constants;
static size_t constants_bytes;

/* They are the segment that may only be read and does not start the file. */
static int find_constants(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  if (strstr(object->dlpi_name, "libheddle.so") == NULL) return 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || segment->p_flags != PF_R || segment->p_offset == 0) continue;
    constants = (const char *)(uintptr_t)(object->dlpi_addr + segment->p_vaddr);
    constants_bytes = segment->p_memsz;
  }
  return 1;
}

int main(void) {
  for (size_t bytes = 1; bytes < 200000; bytes += bytes / 2 + 1) free(malloc(bytes));
  dl_iterate_phdr(find_constants, NULL);
  TS_CHECK(constants_bytes > 4 * ts_os_page(), "no constants of libheddle.so found: is it preloaded?");
  size_t resident = ts_resident(constants, constants_bytes);
  TS_CHECK(resident == 0, "%zu KiB of the library's constants are in memory", resident >> 10);
  return 0;
}
