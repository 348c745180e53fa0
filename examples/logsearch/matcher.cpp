// SPDX-License-Identifier: MIT
#include "matcher.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace logsearch {

#if LOGSEARCH_HYPERSCAN

matcher::matcher(const std::string &pattern) {
  hs_compile_error_t *failed = nullptr;
  unsigned flags = HS_FLAG_UTF8 | HS_FLAG_UCP | HS_FLAG_SINGLEMATCH;
  if (pattern.empty()) {
    error_ = "it is empty";
  } else if (hs_compile(pattern.c_str(), flags, HS_MODE_BLOCK, nullptr, &database_, &failed) != HS_SUCCESS) {
    error_ = failed->message;
    hs_free_compile_error(failed);
  }
}

matcher::~matcher() { hs_free_database(database_); }

matcher::asker::asker(const matcher &of) : of_(of) {
  if (hs_alloc_scratch(of.database_, &scratch_) != HS_SUCCESS) {
    std::fputs("logsearch: no memory for Hyperscan\n", stderr);
    std::abort();
  }
}

matcher::asker::~asker() { hs_free_scratch(scratch_); }

bool matcher::asker::matches(std::string_view line) const {
  auto stop_at_first = [](unsigned, unsigned long long, unsigned long long, unsigned, void *) { return 1; };
  return hs_scan(of_.database_, line.data(), static_cast<unsigned>(line.size()), 0, scratch_, stop_at_first, nullptr) == HS_SCAN_TERMINATED;
}

#else

matcher::matcher(const std::string &pattern) {
  for (std::size_t at = 0; at <= pattern.size();) {
    std::size_t end = std::min(pattern.find('|', at), pattern.size());
    words_.push_back(pattern.substr(at, end - at));
    if (words_.back().empty()) error_ = "an empty word";
    at = end + 1;
  }
  if (pattern.find_first_of("\\^$.*+?()[]{}") != std::string::npos) {
    error_ = "this build has no Hyperscan: only words with | between them, without any of \\^$.*+?()[]{}";
  }
}

matcher::~matcher() = default;
matcher::asker::asker(const matcher &of) : of_(of) {}
matcher::asker::~asker() = default;

bool matcher::asker::matches(std::string_view line) const {
  for (const std::string &word : of_.words_) {
    if (memmem(line.data(), line.size(), word.data(), word.size()) != nullptr) return true;
  }
  return false;
}

#endif

}  // namespace logsearch
