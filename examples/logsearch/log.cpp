// Making a log, and opening one. SPDX-License-Identifier: MIT
#include "log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace logsearch {
namespace {

const char *const levels[] = {"DEBUG", "INFO ", "INFO ", "INFO ", "WARN ", "ERROR"};
const char *const places[] = {"net.session", "db.pool", "http.router", "auth.token", "cache.shard", "job.queue", "fs.journal"};
const char *const users[] = {"anna", "bob", "Jürgen Müller", "carol", "dave", "李小龍", "eve", "Zoë", "mallory", "Łukasz"};
const char *const rare[] = {"timed out", "checksum mismatch", "Zeitüberschreitung"};
const char *const words[] = {"accepted", "connection", "closed", "retry", "buffer", "flushed", "page",   "index", "merged", "lookup",
                             "missed",   "segment",    "commit", "lease", "renewed", "by",     "leader", "shard", "moved",  "timed"};

// The random numbers of one line (splitmix64).
class dice {
 public:
  dice(std::uint64_t seed, std::uint64_t index) : state_(seed * 0x9e3779b97f4a7c15u + index * 0xd1342543de82ef95u) { next(); }
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  template <std::size_t count>
  const char *one_of(const char *const (&list)[count]) {
    return list[below(count)];
  }

 private:
  std::uint64_t state_;
};

void append_head(std::string &out, dice &roll, std::uint64_t index) {
  char head[96];
  unsigned ms = static_cast<unsigned>(index * 7 % 1000), s = static_cast<unsigned>(index / 140);
  int n = std::snprintf(head, sizeof head, "2026-03-%02u %02u:%02u:%02u.%03u %s [worker-%02u] ", 1 + s / 86400 % 28, s / 3600 % 24,
                        s / 60 % 60, s % 60, ms, roll.one_of(levels), static_cast<unsigned>(roll.below(16)));
  out.append(head, static_cast<std::size_t>(n));
  out.append(roll.one_of(places)).append(": ");
}

void append_words(std::string &out, dice &roll, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; i++) out.append(i == 0 ? "" : " ").append(roll.one_of(words));
}

void append_request(std::string &out, dice &roll) {
  out.append("request ").append(std::to_string(roll.below(100000000))).append(" of ");
  out.append(roll.below(8) == 0 ? roll.one_of(users) : "anonymous");
  out.append(" took ").append(std::to_string(roll.below(5000))).append(" ms, status ").append(roll.below(20) == 0 ? "503" : "200");
}

}  // namespace

void append_line(std::string &out, std::uint64_t seed, std::uint64_t index) {
  dice roll(seed, index);
  std::uint64_t kind = roll.below(1000);
  if (kind != 0) append_head(out, roll, index);  // else an empty line, as logs have
  if (kind >= 500) append_request(out, roll);
  if (kind > 0 && kind < 500) append_words(out, roll, 4 + roll.below(14));
  if (kind >= 990) out.append(", trace "), append_words(out, roll, 200 + roll.below(400));
  if (kind >= 100 && kind < 106) out.append(" (").append(roll.one_of(rare)).append(" after ").append(std::to_string(kind)).append(")");
  out.append(kind % 50 == 3 ? "\r\n" : "\n");
}

bool write_log(const char *path, std::uint64_t seed, std::uint64_t lines) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path, "wb"), std::fclose);
  if (!file) return false;
  std::string text;
  for (std::uint64_t i = 0; i < lines; i++) {
    append_line(text, seed, i);
    if (i + 1 == lines) text.pop_back();  // the last line has no end, so that this case is met
    if (text.size() < 1 << 16 && i + 1 < lines) continue;
    if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size()) return false;
    text.clear();
  }
  return std::fclose(file.release()) == 0;
}

// ---- opening ------------------------------------------------------------------------------------------------------------

log_file::log_file(const char *path, std::size_t block_lines) : file_(open(path, O_RDONLY | O_CLOEXEC)), block_lines_(block_lines) {
  if (file_ >= 0) index();
  else error_ = std::strerror(errno);
}

log_file::~log_file() {
  if (file_ >= 0) close(file_);
}

void log_file::index() {
  std::vector<char> buffer(1 << 20);
  std::uint64_t offset = 0;
  bool open_line = false;
  for (;;) {
    ssize_t n = ::read(file_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) error_ = std::strerror(errno);
    if (n <= 0) break;
    const char *at = buffer.data(), *end = at + n;
    while (const void *found = std::memchr(at, '\n', static_cast<std::size_t>(end - at))) {
      at = static_cast<const char *>(found) + 1;
      if (++lines_ % block_lines_ == 0) starts_.push_back(offset + static_cast<std::uint64_t>(at - buffer.data()));
      if (at == end) break;
    }
    open_line = at != end;
    offset += static_cast<std::uint64_t>(n);
  }
  lines_ += open_line;
  if (starts_.back() != offset) starts_.push_back(offset);
}

bool log_file::read(std::size_t block, char *to) const {
  std::uint64_t at = starts_[block], end = starts_[block + 1];
  while (at < end) {
    ssize_t n = pread(file_, to, static_cast<std::size_t>(end - at), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    at += static_cast<std::uint64_t>(n);
  }
  return true;
}

}  // namespace logsearch
