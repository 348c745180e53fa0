// SPDX-License-Identifier: MIT
#include "search.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <heddle/arena.hpp>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>

#include "text.hpp"

namespace logsearch {
namespace {

// A block on its way from the reader to a worker.
struct block {
  std::size_t number = 0;
  std::unique_ptr<char[]> owned;           // the bytes, unless the arena has them
  heddle::arena arena{heddle::arena::adopt(nullptr)};
  std::string_view bytes;
};

// A queue between threads. take() waits, and says false once it is closed and empty.
template <class T>
class channel {
 public:
  void put(T value) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.push(std::move(value));
    }
    ready_.notify_one();
  }
  bool take(T &value) {
    std::unique_lock<std::mutex> lock(mutex_);
    ready_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return false;
    value = std::move(queue_.front());
    queue_.pop();
    return true;
  }
  void close() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::queue<T> queue_;
  bool closed_ = false;
};

// Calls visit(line) for each line of text, without its end.
template <class Visit>
void each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const void *end = std::memchr(text.data(), '\n', text.size());
    std::size_t bytes = end == nullptr ? text.size() : static_cast<std::size_t>(static_cast<const char *>(end) - text.data());
    visit(text.substr(0, bytes));
    text.remove_prefix(end == nullptr ? bytes : bytes + 1);
  }
}

// One search under way.
class run {
 public:
  run(const log_file &log, const matcher &pattern, how way, strings whose, unsigned workers)
      : log_(log), pattern_(pattern), way_(way), whose_(whose), hits_(log.block_count()) {
    static_cast<void>(whose_);  // without Qt nobody asks
    // Two blocks more than workers, so that the reader may be ahead of them and no further.
    for (unsigned i = 0; i < workers + 2; i++) {
      block empty;
      if (uses_arena()) empty.arena = heddle::arena(arena_config());
      idle_.put(std::move(empty));
    }
  }

  found finish(unsigned workers) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < workers; i++) threads.emplace_back([this] { work(); });
    found result;
    std::thread reader([this, &result] { result.complete = read_all(); });
    reader.join();
    for (auto &thread : threads) thread.join();
    for (std::size_t i = 0; i < hits_.size(); i++) {
      for (std::uint32_t line : hits_[i]) result.lines.push_back(std::uint64_t{i} * log_.block_lines() + line);
    }
    return result;
  }

 private:
  bool uses_arena() const { return way_ == how::arena || way_ == how::mark; }

  // Reserved is room for the largest block in all its forms, so that it never takes a second chunk; memory costs only what is touched,
  // and that it keeps for the next block.
  hd_arena_config arena_config() const {
    hd_arena_config config{};
    config.name = "block";
    for (std::size_t i = 0; i < log_.block_count(); i++) config.chunk_bytes = std::max(config.chunk_bytes, 8 * log_.block_bytes(i));
    config.keep_bytes = HD_ARENA_KEEP_ALL;
    return config;
  }

  static char *room_for(block &next, std::size_t bytes) {
    if (!next.arena) {
      next.owned.reset(new char[bytes]);
      return next.owned.get();
    }
    // Aligned to 16, and so is what comes behind: points there take their short way.
    void *p = next.arena.allocate(bytes, 16);
    if (p == nullptr) throw std::bad_alloc();
    return static_cast<char *>(p);
  }

  bool read_all() {
    bool complete = true;
    block next;
    for (std::size_t i = 0; complete && i < log_.block_count() && idle_.take(next); i++) {
      std::size_t bytes = log_.block_bytes(i);
      char *to = room_for(next, bytes);
      complete = log_.read(i, to);
      next.number = i;
      next.bytes = {to, bytes};
      if (complete) full_.put(std::move(next));
    }
    full_.close();
    return complete;
  }

  void work() {
    matcher::asker asker(pattern_);
    block mine;
    while (full_.take(mine)) {
      std::vector<std::uint32_t> &hits = hits_[mine.number];
      if (uses_arena()) search_in_arena(mine, asker, hits);
#if LOGSEARCH_QT
      else if (whose_ == strings::qt) search_with(qt_strings{}, mine.bytes, asker, hits);
#endif
      else search_with(plain_strings<std::allocator<char>>{}, mine.bytes, asker, hits);
      if (mine.arena) mine.arena.reset();
      mine.owned.reset();
      idle_.put(std::move(mine));
    }
  }

  template <class Strings>
  void search_with(const Strings &strings, std::string_view bytes, const matcher::asker &asker, std::vector<std::uint32_t> &hits) const {
    if (way_ == how::line) search_lines(strings, bytes, asker, hits);
    else search_block(strings, bytes, asker, hits);
  }

  template <class Strings>
  static bool search_line(const Strings &strings, std::string_view line, const matcher::asker &asker) {
    auto shown = strings.decode(line);
    auto matched = strings.encode(shown);
    return asker.matches(Strings::view(matched));
  }

  template <class Strings>
  static void search_lines(const Strings &strings, std::string_view bytes, const matcher::asker &asker, std::vector<std::uint32_t> &hits) {
    std::uint32_t number = 0;
    each_line(bytes, [&](std::string_view line) {
      if (search_line(strings, line, asker)) hits.push_back(number);
      number++;
    });
  }

  template <class Strings>
  static void search_block(const Strings &strings, std::string_view bytes, const matcher::asker &asker, std::vector<std::uint32_t> &hits) {
    auto shown = strings.decode(bytes);
    auto matched = strings.encode(shown);
    std::uint32_t number = 0;
    each_line(Strings::view(matched), [&](std::string_view line) {
      if (asker.matches(line)) hits.push_back(number);
      number++;
    });
  }

  void search_in_arena(block &mine, const matcher::asker &asker, std::vector<std::uint32_t> &hits) const {
    plain_strings<heddle::arena_allocator<char>> strings{mine.arena.get()};
    if (way_ == how::arena) return search_lines(strings, mine.bytes, asker, hits);
    std::uint32_t number = 0;
    each_line(mine.bytes, [&](std::string_view line) {
      heddle::mark mark(mine.arena);
      if (search_line(strings, line, asker)) hits.push_back(number);
      number++;
    });
  }

  const log_file &log_;
  const matcher &pattern_;
  how way_;
  strings whose_;
  std::vector<std::vector<std::uint32_t>> hits_;  // by block; each is written by the one worker that has the block
  channel<block> idle_, full_;
};

}  // namespace

found search(const log_file &log, const matcher &pattern, how way, strings whose, unsigned workers) {
  return run(log, pattern, way, whose, workers).finish(workers);
}

}  // namespace logsearch
