/* What a small program has in memory of the library: nothing of its constants, and of its code only what lies in the first segment (see
 * src/heddle.ld). One page fault in the others brings in up to 64 KiB. Runs without any HEDDLE variable, whose reading needs the options'
 * names. And of its variables one page that is written: what small programs write lies together.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/support.h"

struct segment {
  const char *start;
  size_t bytes;
};
static struct segment constants, code[2]; /* code: what most programs run, and the rest */
static int codes;
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
    struct segment found = {(const char *)start, segment->p_memsz};
    if (segment->p_type == PT_LOAD && segment->p_flags == (PF_R | PF_X) && codes < 2) code[codes++] = found;
    if (segment->p_type == PT_LOAD && segment->p_flags == PF_R && segment->p_offset != 0) constants = found;
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

static void *make(void *bytes) {
  return malloc(*(size_t *)bytes);
}

static void *spend(void *block) {
  free(block);
  for (size_t bytes = 1; bytes < 5000; bytes += 100) free(malloc(bytes));
  return NULL;
}

/* Each size by each of the usual calls, made and freed by threads too. What resizes large blocks lies with the rest. */
static void run_a_little(void) {
  for (size_t bytes = 1; bytes < 40000; bytes += bytes / 2 + 1) {
    free(malloc(5 * bytes));
    free(calloc(1, bytes));
    free(realloc(realloc(NULL, bytes), bytes + bytes / 2 + 100));
    void *aligned = NULL;
    TS_CHECK(posix_memalign(&aligned, 64, bytes) == 0 && aligned != NULL, "%zu bytes", bytes);
    pthread_t thread;
    TS_CHECK(pthread_create(&thread, NULL, spend, aligned) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    void *block = NULL;
    TS_CHECK(pthread_create(&thread, NULL, make, &bytes) == 0 && pthread_join(thread, &block) == 0 && block != NULL, "a thread");
    free(block);
  }
}

static size_t resident(struct segment segment) {
  return ts_resident(segment.start, segment.bytes);
}

int main(void) {
  for (size_t bytes = 1; bytes < 200000; bytes += bytes / 2 + 1) free(malloc(bytes));
  dl_iterate_phdr(find_segments, NULL);
  TS_CHECK(variables_end > variables, "no variables of libheddle.so found: is it preloaded?");
  size_t written = written_variables();
  TS_CHECK(written == 1, "%zu pages of the library's variables are written", written);
  run_a_little();
  TS_CHECK(constants.bytes > 4 * ts_os_page(), "no constants of libheddle.so found");
  TS_CHECK(resident(constants) == 0, "%zu KiB of the library's constants are in memory", resident(constants) >> 10);
#ifdef HEDDLE_TEST_RARE_CODE
  TS_CHECK(codes == 2 && code[1].bytes > code[0].bytes, "the code that few programs run is not apart");
  TS_CHECK(resident(code[0]) > 0 && resident(code[0]) <= 44 * 1024, "%zu KiB of what most programs run", resident(code[0]) >> 10);
  TS_CHECK(resident(code[1]) == 0, "%zu KiB of the code that few programs run are in memory", resident(code[1]) >> 10);
#endif
  return 0;
}
