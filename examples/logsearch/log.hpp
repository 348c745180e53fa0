// The log that is searched: made by a generator that writes the same bytes for the same seed on any machine.
// SPDX-License-Identifier: MIT
#ifndef LOGSEARCH_LOG_HPP
#define LOGSEARCH_LOG_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace logsearch {

// What is searched where no pattern is given: some words that are rare in the generated log, one of them not ASCII.
inline constexpr const char *default_pattern = "timed out|checksum mismatch|Zeitüberschreitung";

// Append line number `index` of the log that `seed` names, with its line end.
void append_line(std::string &out, std::uint64_t seed, std::uint64_t index);

// Write a log of `lines` lines. false: it can't be written, and errno says why.
bool write_log(const char *path, std::uint64_t seed, std::uint64_t lines);

// A log file, and where its blocks begin: what a viewer knows once it has opened a file.
class log_file {
 public:
  explicit log_file(const char *path, std::size_t block_lines);
  log_file(const log_file &) = delete;
  log_file &operator=(const log_file &) = delete;
  ~log_file();

  // "" or why the file can't be read.
  const std::string &error() const { return error_; }

  std::size_t block_count() const { return starts_.size() - 1; }
  std::size_t block_lines() const { return block_lines_; }
  std::size_t block_bytes(std::size_t block) const { return static_cast<std::size_t>(starts_[block + 1] - starts_[block]); }
  std::uint64_t bytes() const { return starts_.back(); }
  std::uint64_t lines() const { return lines_; }

  // Read a block of block_bytes(block) bytes to `to`. false: the file has changed, or can't be read.
  bool read(std::size_t block, char *to) const;

 private:
  void index();

  int file_;
  std::size_t block_lines_;
  std::uint64_t lines_ = 0;
  std::vector<std::uint64_t> starts_{0};  // of each block, and the end of the last
  std::string error_;
};

}  // namespace logsearch
#endif
