/* Machines with fewer addresses than most: 256 GiB, or 512. The heap lies where those systems put nothing, and is claimed piece by piece
 * there as well; where even that can't be it is reserved as a whole.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "apart.h"
#include "core/space.h"
#include "heddle.h"
#include "os/os.h"

#define MIB ((size_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

enum { BLOCKS = 60 };

static uint64_t end_of_addresses;
static size_t ram_gib;

void __real_hdi_os_init(void);
void __wrap_hdi_os_init(void);
void __wrap_hdi_os_init(void) {
  __real_hdi_os_init();
  hdi_os.ram_bytes = (size_t)(ram_gib * GIB);
}

hd_claim __real_hdi_os_claim(void *address, size_t bytes);
hd_claim __wrap_hdi_os_claim(void *address, size_t bytes);
hd_claim __wrap_hdi_os_claim(void *address, size_t bytes) {
  if ((uintptr_t)address + bytes > end_of_addresses) return HD_CLAIM_REFUSED;
  return __real_hdi_os_claim(address, bytes);
}

static size_t address_space(void) { return ts_status_bytes("VmSize:"); }

static void use(void) {
  uint8_t *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t bytes = i * i * i * 50;
    TS_CHECK((blocks[i] = hd_calloc(1, bytes)) != NULL, "no block of %zu", bytes);
    for (size_t at = 0; at < bytes; at += 1000) TS_CHECK(blocks[i][at] == 0, "byte %zu", at);
    memset(blocks[i], (int)i + 1, bytes);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i > 0) TS_CHECK(blocks[i][i * i * i * 50 - 1] == i + 1, "block %zu", i);
    hd_free(blocks[i]);
  }
}

/* 256 GiB: the heap ends below what such a system has at two thirds. A limit that is set later leaves what there is usable. */
static void near(void *unused) {
  (void)unused;
  end_of_addresses = 128 * GIB;
  ram_gib = 8;
  size_t before = address_space();
  use();
  TS_CHECK((uintptr_t)hdi_space.base == 64 * GIB && hdi_space.open, "base %p", (void *)hdi_space.base);
  TS_CHECK(hdi_space.unit_count == (64 * GIB) >> HD_UNIT_SHIFT, "%zu units", hdi_space.unit_count);
  TS_CHECK(address_space() - before < 512 * MIB, "%zu MiB more", (address_space() - before) / MIB);
  const struct rlimit limit = {address_space() + 64 * MIB, address_space() + 64 * MIB};
  TS_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
  use();
}

static void reserved(void *unused) {
  (void)unused;
  use();
  TS_CHECK(!hdi_space.open, "the space is open");
  TS_CHECK(hdi_space.unit_count >= (64 * GIB) >> HD_UNIT_SHIFT, "%zu units", hdi_space.unit_count);
}

static void far(void *unused) {
  (void)unused;
  end_of_addresses = UINT64_MAX;
  ram_gib = 8;
  use();
  TS_CHECK((uintptr_t)hdi_space.base > ((uintptr_t)1 << 46) && hdi_space.open, "base %p", (void *)hdi_space.base);
}

static void test_near(void **state) {
  (void)state;
  run_apart(near, 30);
}

static void test_no_choice(void **state) {
  (void)state;
  ram_gib = 8;
  end_of_addresses = 32 * GIB;
  run_apart(reserved, 30);
}

/* The place for the heap would be too small. */
static void test_large_machine(void **state) {
  (void)state;
  ram_gib = 33;
  end_of_addresses = 128 * GIB;
  run_apart(reserved, 30);
}

static void test_far(void **state) {
  (void)state;
  run_apart(far, 30);
}

int main(void) {
  if (sizeof(void *) < 8) return 0; /* other addresses altogether */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_near),
      cmocka_unit_test(test_no_choice),
      cmocka_unit_test(test_large_machine),
      cmocka_unit_test(test_far),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
