// malloc and its family with a counter in front; behind it is the C library's own, under the names that glibc has for it.
// SPDX-License-Identifier: MIT
#include "count.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

extern "C" {
void *__libc_malloc(std::size_t);
void *__libc_calloc(std::size_t, std::size_t);
void *__libc_realloc(void *, std::size_t);
void *__libc_memalign(std::size_t, std::size_t);
void __libc_free(void *);
}

namespace {

std::atomic<std::uint64_t> allocations, resizes, frees, bytes;

void *counted(void *p, std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(size, std::memory_order_relaxed);
  return p;
}

}  // namespace

allocation_counts count_allocations() { return {allocations.load(), resizes.load(), frees.load(), bytes.load()}; }

extern "C" {

void *malloc(std::size_t size) { return counted(__libc_malloc(size), size); }
void *calloc(std::size_t count, std::size_t size) { return counted(__libc_calloc(count, size), count * size); }
void *memalign(std::size_t alignment, std::size_t size) { return counted(__libc_memalign(alignment, size), size); }
void *aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }

int posix_memalign(void **out, std::size_t alignment, std::size_t size) {
  if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  void *p = memalign(alignment, size);
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}

void *realloc(void *p, std::size_t size) {
  if (p == nullptr) return malloc(size);
  resizes.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(p, size);
}

void free(void *p) {
  if (p != nullptr) frees.fetch_add(1, std::memory_order_relaxed);
  __libc_free(p);
}

}
