/* What a small program has in memory of the library: nothing of its constants, and of its code only what lies in the first segment (see
 * src/heddle.ld); and a larger one, whose memory goes back and whose blocks grow, no more than the second one, too. One page fault in the
 * last brings in 64 KiB. What the loader reads of it is four pages. Runs without any HEDDLE variable, whose reading needs the options'
 * names. And of its variables one page that is written, with the first heap in it; and one of the window, beside those with its blocks.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"

struct segment {
  const char *start;
  size_t bytes;
};
/* front: what the loader reads; code: what most programs run, what larger ones do, and the rest */
static struct segment front, constants[2], code[3];
static int constant_count, codes;
static uintptr_t variables, variables_end;

/* The constants are the segments that may only be read and do not start the file; variables may be written, but for the part that only
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
    if (segment->p_type == PT_LOAD && segment->p_flags == (PF_R | PF_X) && codes < 3) code[codes++] = found;
    if (segment->p_type == PT_LOAD && segment->p_offset == 0) front = found;
    bool constant = segment->p_type == PT_LOAD && segment->p_flags == PF_R && segment->p_offset != 0;
    if (constant && constant_count < 2) constants[constant_count++] = found;
  }
  return 1;
}

/* Pages that are written of the window with its table, and of the store: where the library maps memory of its own (space_grow.c). */
static size_t written_in_window(void) {
  const uintptr_t lowest = (uintptr_t)1 << 46, highest = lowest + ((uintptr_t)1 << 44) + ((uintptr_t)1 << 42); /* the last window's end */
  static char text[64 * 1024];
  size_t count = 0, length = 0;
  int maps = open("/proc/self/maps", O_RDONLY);
  for (ssize_t got = 1; got > 0 && length < sizeof text - 1; length += (size_t)got) {
    got = read(maps, text + length, sizeof text - 1 - length);
    TS_CHECK(got >= 0, "no /proc/self/maps");
  }
  close(maps);
  for (char *line = text; line != NULL && *line != 0; line = strchr(line, '\n'), line += line != NULL) {
    char *end = NULL;
    uintptr_t start = strtoul(line, &end, 16);
    if (start >= lowest && start < highest) count += ts_own_pages((const void *)start, strtoul(end + 1, NULL, 16) - start);
  }
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

/* So many blocks of one size that its page's credit runs out again and again, alone and beside other sizes; then more pages than a heap has
 * before it looks what rests in them. These stay: to give runs back is a larger program's work. */
static void run_busily(void) {
  enum { TIMES = 50000, PAGES = 100, PAGE_BLOCKS = 64 * 1024 / 1000 };
  for (int i = 0; i < TIMES; i++) free(malloc(100));
  for (size_t i = 0; i < TIMES; i++) free(malloc(i % 3 * 100));
  for (int i = 0; i < PAGES * PAGE_BLOCKS; i++) TS_CHECK(malloc(1000) != NULL, "no memory");
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

static size_t constants_resident(void) {
  size_t bytes = 0;
  for (int i = 0; i < constant_count; i++) bytes += resident(constants[i]);
  return bytes;
}

#ifdef HEDDLE_TEST_RARE_CODE
enum { BLOCKS = 4096, MOST = 6 << 20, PURGE_US = 1200 * 1000 };

/* Waves of blocks, each of another size, and one buffer that grows to 6 MiB and shrinks again. */
static void *work_in_waves(void *unused) {
  static _Thread_local void *block[BLOCKS];
  for (size_t bytes = 100; bytes < 30000; bytes = bytes * 2 + 77) {
    size_t count = MOST / bytes < BLOCKS ? MOST / bytes : BLOCKS;
    for (size_t i = 0; i < count; i++) block[i] = memset(malloc(bytes), 1, bytes);
    for (size_t i = 0; i < count; i++) free(block[i * 7919 % count]), block[i * 7919 % count] = NULL;
  }
  char *buffer = NULL;
  for (size_t bytes = 4096; bytes < MOST; bytes += bytes / 2) {
    buffer = realloc(buffer, bytes);
    memset(buffer, 1, bytes);
  }
  free(realloc(buffer, 100000));
  return unused;
}

/* A child begins with none of the file's pages in memory. */
static void fork_once(void) {
  int status = 0;
  pid_t child = fork();
  TS_CHECK(child >= 0, "no child");
  if (child == 0) {
    free(malloc(100));
    _exit(resident(code[2]) == 0 ? 0 : 1);
  }
  TS_CHECK(waitpid(child, &status, 0) == child && status == 0, "a child runs code that few programs do");
}

/* Alone and in two threads at once; then what was freed goes back. */
static void run_much(void) {
  work_in_waves(NULL);
  pthread_t thread[2];
  for (int i = 0; i < 2; i++) TS_CHECK(pthread_create(&thread[i], NULL, work_in_waves, NULL) == 0, "a thread");
  for (int i = 0; i < 2; i++) TS_CHECK(pthread_join(thread[i], NULL) == 0, "a thread");
  usleep(PURGE_US);
  work_in_waves(NULL);
  fork_once();
}
#endif

/* Blocks of two sizes and the buffers of two files. */
static void run_very_little(void) {
  static const size_t bytes[] = {60, 100, 4096, 4096};
  enum { COUNT = sizeof bytes / sizeof *bytes };
  char *block[COUNT];
  for (int i = 0; i < COUNT; i++) block[i] = memset(malloc(bytes[i]), 1, 16);
  size_t written = written_in_window();
#ifdef HEDDLE_TEST_RARE_CODE
  size_t variables_written = ts_own_pages((const void *)variables, variables_end - variables);
  TS_CHECK(variables_written == 1, "%zu pages of the library's variables are written", variables_written);
#endif
  TS_CHECK(ts_os_page() != 4096 || written == COUNT + 1, "%zu pages for blocks in %d", written, COUNT);
  for (int i = 0; i < COUNT; i++) free(block[i]);
}

int main(void) {
  dl_iterate_phdr(find_segments, NULL);
  TS_CHECK(variables_end > variables, "no variables of libheddle.so found: is it preloaded?");
  run_very_little();
  for (size_t bytes = 1; bytes < 200000; bytes += bytes / 2 + 1) free(malloc(bytes));
  size_t written = ts_own_pages((const void *)variables, variables_end - variables);
  TS_CHECK(written <= 3, "%zu pages of the library's variables are written, with the first heap", written);
  run_a_little();
  run_busily();
  TS_CHECK(constants[0].bytes + constants[1].bytes > 4 * ts_os_page(), "no constants of libheddle.so found");
#ifdef HEDDLE_TEST_RARE_CODE
  size_t read = constants_resident();
  TS_CHECK(read == 0, "%zu KiB of the library's constants are in memory", read >> 10);
  TS_CHECK(front.bytes > 0 && front.bytes <= 16 * 1024, "the loader reads %zu bytes: are there pointers in a table of texts?", front.bytes);
  TS_CHECK(codes == 3 && code[2].bytes > code[0].bytes, "the code that few programs run is not apart");
  TS_CHECK(resident(code[0]) > 0 && resident(code[0]) <= 48 * 1024, "%zu KiB of what most programs run", resident(code[0]) >> 10);
  for (int i = 1; i < 3; i++) {
    TS_CHECK(resident(code[i]) == 0, "%zu KiB of the code that few programs run are in memory", resident(code[i]) >> 10);
  }
  run_much();
  TS_CHECK(resident(code[1]) > 0 && resident(code[1]) <= 28 * 1024, "%zu KiB of what larger programs run", resident(code[1]) >> 10);
  TS_CHECK(resident(code[2]) == 0, "%zu KiB of the code that few programs run are in memory", resident(code[2]) >> 10);
  TS_CHECK(constants_resident() == 0, "a larger program has read constants");
#endif
  return 0;
}
