/* The clocks of the contract on Linux. See os.h.
 *
 * Not by the C library's clock_gettime: a library that gives programs another time (libfaketime) stands before that one, may read a file
 * for each answer, and so would come back here, in the middle of what asked. The kernel's own page of functions is asked directly, as the
 * C library does it; where there is none, or it is of an unknown form, the call is made.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/linux_clock.h"
#include "os/linux_syscall.h"
#include "os/os.h"

typedef int clock_function(clockid_t clock, hd_linux_time *now);

#if defined(__aarch64__) || defined(__s390x__)
HD_START_TEXT(clock_name, "__kernel_clock_gettime");
#else
HD_START_TEXT(clock_name, "__vdso_clock_gettime");
#endif

static int ask(clockid_t clock, hd_linux_time *now) { return (int)hd_syscall3(SYS_clock_gettime, clock, now, 0); }

/* What the page's own table says. */
typedef struct page_of_functions {
  uintptr_t base;
  const char *names;
  const ElfW(Sym) * symbols;
  const Elf32_Word *hash; /* of the old form, in words of 32 bits but on IBM Z: how many buckets, how many symbols */
} page_of_functions;

#if defined(__s390x__)
static size_t count_symbols(const page_of_functions *page) { return (size_t)((const uint64_t *)(const void *)page->hash)[1]; }
#else
static size_t count_symbols(const page_of_functions *page) { return page->hash[1]; }
#endif

static bool read_table(page_of_functions *page, const ElfW(Dyn) * entry) {
  for (; entry->d_tag != DT_NULL; entry++) {
    const void *where = (const void *)(page->base + entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) page->names = where;
    if (entry->d_tag == DT_SYMTAB) page->symbols = where;
    if (entry->d_tag == DT_HASH) page->hash = where;
  }
  return page->names != NULL && page->symbols != NULL && page->hash != NULL;
}

static const void *find_function(const page_of_functions *page, const char *name) {
  for (size_t i = 0, count = count_symbols(page); i < count; i++) {
    const ElfW(Sym) *symbol = &page->symbols[i];
    if (symbol->st_shndx != SHN_UNDEF && strcmp(page->names + symbol->st_name, name) == 0)
      return (const void *)(page->base + symbol->st_value);
  }
  return NULL;
}

/* The function of the kernel's page, or the call. */
static SLOW clock_function *find_clock(void) {
  int kept = errno; /* getauxval sets it where there is no such page */
  const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
  errno = kept;
  if (file == NULL || file->e_ident[EI_MAG0] != ELFMAG0 || file->e_ident[EI_MAG1] != ELFMAG1) return ask;
  const ElfW(Phdr) *part = (const ElfW(Phdr) *)((const char *)file + file->e_phoff);
  const ElfW(Dyn) *table = NULL;
  page_of_functions page = {0, NULL, NULL, NULL};
  bool loaded = false;
  for (size_t i = 0; i < file->e_phnum; i++, part++) {
    if (part->p_type == PT_LOAD && !loaded) {
      page.base = (uintptr_t)file + part->p_offset - part->p_vaddr;
      loaded = true;
    }
    if (part->p_type == PT_DYNAMIC) table = (const ElfW(Dyn) *)((const char *)file + part->p_offset);
  }
  if (!loaded || table == NULL || !read_table(&page, table)) return ask;
  const void *found = find_function(&page, clock_name);
  clock_function *clock = ask;
  if (found != NULL) memcpy(&clock, &found, sizeof clock);
  return clock;
}

__attribute__((noinline)) uint64_t hdi_linux_clock_ns(clockid_t clock) {
  static _Atomic(clock_function *) known;
  hd_linux_time now = {0, 0};
  clock_function *read = hd_load_relaxed(&known);
  if (read == NULL) {
    read = find_clock();
    hd_store_relaxed(&known, read);
  }
  if (read(clock, &now) != 0) ask(clock, &now);
  return (uint64_t)now.seconds * 1000000000 + (uint64_t)now.nanoseconds;
}

uint64_t hdi_os_spent_ns(void) { return hdi_linux_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t hdi_os_now_ms(void) { return hdi_linux_clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000; }
