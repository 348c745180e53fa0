// Does a line contain the pattern? Hyperscan answers where it was found by the build, and takes any regular expression of its own;
// memmem answers elsewhere, and takes words with | between them. SPDX-License-Identifier: MIT
#ifndef LOGSEARCH_MATCHER_HPP
#define LOGSEARCH_MATCHER_HPP

#include <string>
#include <string_view>
#include <vector>

#if LOGSEARCH_HYPERSCAN
#include <hs/hs.h>
#endif

namespace logsearch {

class matcher {
 public:
  explicit matcher(const std::string &pattern);
  ~matcher();
  matcher(const matcher &) = delete;
  matcher &operator=(const matcher &) = delete;

  // "" or what is wrong with the pattern.
  const std::string &error() const { return error_; }

  // What a thread needs to ask; one for each.
  class asker {
   public:
    explicit asker(const matcher &of);
    ~asker();
    asker(const asker &) = delete;
    asker &operator=(const asker &) = delete;
    // line: valid UTF-8.
    bool matches(std::string_view line) const;

   private:
    const matcher &of_;
#if LOGSEARCH_HYPERSCAN
    hs_scratch_t *scratch_ = nullptr;
#endif
  };

 private:
  std::string error_;
#if LOGSEARCH_HYPERSCAN
  hs_database_t *database_ = nullptr;
#else
  std::vector<std::string> words_;
#endif
};

}  // namespace logsearch
#endif
