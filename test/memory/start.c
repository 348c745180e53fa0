/* What a program that does next to nothing has in memory of the library: nothing of its constants. One page fault there brings in up to
 * 64 KiB, with the tables for unwinding beside them. Runs without any HEDDLE variable, whose reading needs the options' names.
 * And of its variables one page that is written: what small programs write lies together.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/support.h"

static const char *constants;
static size_t constants_bytes;
static uintptr_t variables, variables_end;

/* The constants are the segment that may only be read and does not start the file; variables may be written, but for the part that only
 * the loader writes. */
static int find_segments(struct dl_phdr_info *object, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  if (strstr(object->dlpi_name, "libheddle.so") == NULL) return 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    uintptr_t start = (uintptr_t)(object->dlpi_addr + segment->p_vaddr), end = start + segment->p_memsz;
    if (segment->p_type == PT_LOAD && segment->p_flags == (PF_R | PF_W)) {
      if (variables < start) variables = start;
      variables_end = end;
    }
    if (segment->p_type == PT_GNU_RELRO && variables < end) variables = end / ts_os_page() * ts_os_page();
    if (segment->p_type != PT_LOAD || segment->p_flags != PF_R || segment->p_offset == 0) continue;
    constants = (const char *)start;
    constants_bytes = segment->p_memsz;
  }
  return 1;
}

/* Pages of the variables that are written: present, and this process's own. What was only read is the kernel's one page of zeros. */
static size_t written_variables(void) {
  const uint64_t written = (uint64_t)1 << 63 | (uint64_t)1 << 56;
  size_t count = 0;
  int map = open("/proc/self/pagemap", O_RDONLY);
  TS_CHECK(map >= 0, "no /proc/self/pagemap");
  for (uintptr_t page = variables / ts_os_page(); page * ts_os_page() < variables_end; page++) {
    uint64_t entry = 0;
    TS_CHECK(pread(map, &entry, sizeof entry, (off_t)(page * sizeof entry)) == sizeof entry, "no entry for a page");
    count += (entry & written) == written;
  }
  close(map);
  return count;
}

int main(void) {
  for (size_t bytes = 1; bytes < 200000; bytes += bytes / 2 + 1) free(malloc(bytes));
  dl_iterate_phdr(find_segments, NULL);
  TS_CHECK(constants_bytes > 4 * ts_os_page(), "no constants of libheddle.so found: is it preloaded?");
  size_t resident = ts_resident(constants, constants_bytes);
  TS_CHECK(resident == 0, "%zu KiB of the library's constants are in memory", resident >> 10);
  TS_CHECK(variables_end > variables, "no variables of libheddle.so found");
  size_t written = written_variables();
  TS_CHECK(written == 1, "%zu pages of the library's variables are written", written);
  return 0;
}
