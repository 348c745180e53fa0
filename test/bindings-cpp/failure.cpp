// No memory, lengths that overflow, bad configurations. Where exceptions are on, the one that failure.hpp names; where they are off, a
// line on stderr and abort, each in a child of its own.
// SPDX-License-Identifier: MIT
#include <heddle/heddle.hpp>

#include <csignal>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "../support/support.h"

namespace {

constexpr size_t most = static_cast<size_t>(PTRDIFF_MAX);
volatile size_t too_many = most / sizeof(long) + 1;  // volatile: the compiler must not find out and warn
volatile size_t too_much = most - 4096;

void length() { (void)heddle::allocator<long>().allocate(too_many); }
void length_max() { (void)heddle::allocator<long>().allocate_at_least(SIZE_MAX); }
void memory() { (void)heddle::allocator<char>().allocate(too_much); }
void limit() {
  heddle::heap heap("small", 2 << 20);
  std::vector<char, heddle::heap_allocator<char>> text(heap.get());
  text.resize(16 << 20);
}
void wide_limit() {
  struct alignas(256) wide { char bytes[256]; };
  heddle::heap heap("small", 2 << 20);
  (void)heddle::heap_allocator<wide>(heap.get()).allocate(1 << 16);
}
void resource() { (void)heddle::thread_heap_resource()->allocate(too_much); }
void arena_room() {
  heddle::arena arena(1 << 20);
  heddle::arena_resource on(arena);
  (void)on.allocate((1 << 20) + 1);
}
void arena_allocator() {
  heddle::arena arena(1 << 20);
  std::vector<long, heddle::arena_allocator<long>> numbers(arena.get());
  for (;;) numbers.push_back(1);
}
void arena_length() {
  heddle::arena arena;
  (void)heddle::arena_allocator<long>(arena.get()).allocate(too_many);
}
void no_room_for_mark() {
  heddle::arena arena(4096);
  (void)arena.allocate(arena.remaining());
  heddle::mark mark(arena);
}
void pool_limit() {
  hd_pool_config config{};
  config.maximum = 2;
  heddle::object_pool<int> pool(config);
  for (int i = 0; i < 3; i++) (void)pool.make(i);
}
void pooled() { (void)heddle::pool_resource().allocate(too_much); }
void bad_heap() { char place[17]; (void)heddle::heap::in(place, sizeof place); }
void bad_arena() {
  hd_arena_config config{};
  config.shared = true;  // needs a capacity
  heddle::arena arena(config);
}
void bad_pool() { heddle::pool pool(0); }

enum class ending { memory, length, argument };
struct failing {
  const char *name;
  void (*run)();
  ending how;
};
const failing all[] = {
    {"length", length, ending::length},
    {"length_max", length_max, ending::length},
    {"memory", memory, ending::memory},
    {"limit", limit, ending::memory},
    {"wide_limit", wide_limit, ending::memory},
    {"resource", resource, ending::memory},
    {"arena_room", arena_room, ending::memory},
    {"arena_allocator", arena_allocator, ending::memory},
    {"arena_length", arena_length, ending::length},
    {"no_room_for_mark", no_room_for_mark, ending::memory},
    {"pool_limit", pool_limit, ending::memory},
    {"pooled", pooled, ending::memory},
    {"bad_arena", bad_arena, ending::argument},
    {"bad_pool", bad_pool, ending::argument},
    {"bad_heap", bad_heap, ending::argument},
};

#if HEDDLE_EXCEPTIONS
void check(const failing &one) {
  ending how{};
  try {
    one.run();
    TS_CHECK(false, "%s did not fail", one.name);
  } catch (const std::bad_array_new_length &) {
    how = ending::length;
  } catch (const std::bad_alloc &) {
    how = ending::memory;
  } catch (const std::invalid_argument &error) {
    how = ending::argument;
    TS_CHECK(std::strstr(error.what(), "configuration is not valid") != nullptr, "%s: %s", one.name, error.what());
  }
  TS_CHECK(how == one.how, "%s ended in kind %d instead of %d", one.name, (int)how, (int)one.how);
}

int asked;
void handler() {
  if (++asked == 3) std::set_new_handler(nullptr);
}

// As operator new: the handler is asked until there is none.
void check_new_handler() {
  std::set_new_handler(handler);
  check(all[2]);
  TS_CHECK(asked == 3 && std::get_new_handler() == nullptr, "the handler was asked %d times", asked);
}

// An object whose constructor throws gives its item back; a failed growth leaves a container as it was.
void check_guarantees() {
  struct thrower {
    explicit thrower(bool fail) {
      if (fail) throw 1;
    }
  };
  heddle::object_pool<thrower> pool;
  for (int i = 0; i < 10; i++) {
    try {
      (void)pool.make(true);
      TS_CHECK(false, "it did not throw");
    } catch (int) {
    }
  }
  TS_CHECK(pool.size() == 0, "%zu items are lost", pool.size());
  heddle::heap heap("small", 4 << 20);
  std::vector<int, heddle::heap_allocator<int>> numbers(heap.get());
  try {
    for (int i = 0;; i++) numbers.push_back(i);
  } catch (const std::bad_alloc &) {
  }
  TS_CHECK(numbers.size() > 1000, "%zu numbers", numbers.size());
  for (size_t i = 0; i < numbers.size(); i++) TS_CHECK(numbers[i] == (int)i, "number %zu", i);
  numbers.clear(), numbers.shrink_to_fit();
  numbers.assign(1000, 5);
  TS_CHECK(heap.stats().live_count == 1, "the heap works on");
}
#else
void run_one(void *one) { static_cast<const failing *>(one)->run(); }

void check(const failing &one) {
  static const char *const lines[] = {"heddle: out of memory\n", "heddle: more elements than an array can have\n",
                                      "configuration is not valid\n"};
  ts_outcome outcome;
  ts_fork_run(run_one, const_cast<failing *>(&one), 20, &outcome);
  TS_CHECK(ts_signalled(&outcome, SIGABRT), "%s: status %d", one.name, outcome.status);
  TS_CHECK(std::strstr(outcome.error, lines[static_cast<int>(one.how)]) != nullptr, "%s said: %s", one.name, outcome.error);
}
void check_new_handler() {}
void check_guarantees() {}
#endif

// What says so by an empty object, whatever is on.
void check_quiet() {
  hd_arena_config arena{};
  arena.shared = true;
  TS_CHECK(!heddle::arena::try_create(arena) && errno == EINVAL, "a bad arena");
  hd_pool_config pool{};
  TS_CHECK(!heddle::pool::try_create(pool) && errno == EINVAL, "a bad pool");
  hd_heap_config heap{};
  heap.memory = &heap;
  heap.memory_bytes = 1;
  TS_CHECK(!heddle::heap::try_create(heap) && errno == EINVAL, "a bad heap");
  hd_frame_config frame{};
  frame.capacity_bytes = SIZE_MAX;
  TS_CHECK(!heddle::frame::try_create(frame), "an enormous frame");
  hd_arena_config enormous{};
  enormous.capacity_bytes = too_much;
  TS_CHECK(!heddle::arena::try_create(enormous) && errno == ENOMEM, "an enormous arena");
}

}  // namespace

int main() {
  check_quiet();
  for (const failing &one : all) check(one);
  check_new_handler();
  check_guarantees();
  ts_print(1, "failure: ok\n");
  return 0;
}
