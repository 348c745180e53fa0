// The search: a reader hands out blocks of lines, workers convert and match them. SPDX-License-Identifier: MIT
#ifndef LOGSEARCH_SEARCH_HPP
#define LOGSEARCH_SEARCH_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "log.hpp"
#include "matcher.hpp"

namespace logsearch {

// Where the memory of converted lines comes from.
enum class how {
  line,   // each line is converted by itself: two strings from the allocator
  block,  // each block is converted at once: two strings a block, and views into them
  arena,  // as line, but the strings come from the block's arena and all go together when the block is done
  mark    // as arena, and what a line has taken is taken back behind it, by a memory point
};

// Whose strings hold what the allocator gives. arena and mark always take plain ones.
enum class strings { plain, qt };

inline constexpr how all_ways[] = {how::line, how::block, how::arena, how::mark};
inline constexpr const char *names_of_ways[] = {"line", "block", "arena", "mark"};

#if LOGSEARCH_QT
inline constexpr bool has_qt = true;
#else
inline constexpr bool has_qt = false;
#endif

struct found {
  bool complete = false;              // false: the file could not be read to its end
  std::vector<std::uint64_t> lines;   // numbers of the lines that match, from 0, in order
};

// Search the whole log. threads: starts one reader and `workers` workers, and joins them.
found search(const log_file &log, const matcher &pattern, how way, strings whose, unsigned workers);

}  // namespace logsearch
#endif
