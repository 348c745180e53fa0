// How often the program allocates. Only the program logsearch_count knows: it has count.cpp linked in, which stands before malloc and
// so would push aside an allocator that is preloaded. SPDX-License-Identifier: MIT
#ifndef LOGSEARCH_COUNT_HPP
#define LOGSEARCH_COUNT_HPP

#include <cstdint>

// Calls so far; a realloc of NULL counts as an allocation. NULL in a program without count.cpp.
struct allocation_counts {
  std::uint64_t allocations, resizes, frees, bytes;
};
__attribute__((weak)) allocation_counts count_allocations();

#endif
