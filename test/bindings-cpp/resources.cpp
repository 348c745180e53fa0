// memory_resource, arena_resource and pool_resource under std::pmr: raw blocks against a shadow, containers against std's, what equality
// means, what release takes back, and several threads on a shared one.
//
//   resources [-n operations]       HEDDLE_TEST_SEED=number repeats a run
//
// SPDX-License-Identifier: MIT
#include <heddle/heddle.hpp>

#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "../support/support.h"

namespace {

struct block {
  unsigned char *p;
  size_t bytes, alignment;
  unsigned char fill;
};

void check_block(const block &one) {
  for (size_t i = 0; i < one.bytes; i++) TS_CHECK(one.p[i] == one.fill, "byte %zu of %zu changed", i, one.bytes);
}

// Random sizes and alignments; each block keeps its own bytes to the end, so an overlap shows.
void fuzz_blocks(ts_rng &rng, std::pmr::memory_resource &resource, uint64_t rounds, bool frees) {
  std::vector<block> live;
  for (uint64_t i = 0; i < rounds; i++) {
    if (live.size() < 200 && ts_below(&rng, 5) < 3) {
      size_t bytes = ts_below(&rng, 8) == 0 ? ts_below(&rng, 100000) : ts_below(&rng, 1100);
      size_t alignment = ts_below(&rng, 6) == 0 ? size_t{1} << ts_below(&rng, 13) : 16;
      void *p = resource.allocate(bytes, alignment);
      TS_CHECK(hd_owns(p), "%p is not Heddle's", p);
      TS_CHECK(reinterpret_cast<uintptr_t>(p) % alignment == 0, "%p, alignment %zu", p, alignment);
      block one{static_cast<unsigned char *>(p), bytes, alignment, static_cast<unsigned char>(ts_next(&rng))};
      std::memset(p, one.fill, bytes);
      live.push_back(one);
    } else if (!live.empty()) {
      size_t at = ts_below(&rng, live.size());
      check_block(live[at]);
      if (frees || ts_below(&rng, 2) == 0) resource.deallocate(live[at].p, live[at].bytes, live[at].alignment);
      live[at] = live.back();
      live.pop_back();
    }
  }
  for (const block &one : live) check_block(one), resource.deallocate(one.p, one.bytes, one.alignment);
}

// The pool's classes: every size up to 1 KiB + 1 must have its own bytes.
void every_size(std::pmr::memory_resource &resource) {
  std::vector<block> live;
  for (size_t bytes = 0; bytes <= 1040; bytes++) {
    for (int twice = 0; twice < 2; twice++) {
      block one{static_cast<unsigned char *>(resource.allocate(bytes)), bytes, 16, static_cast<unsigned char>(bytes * 7 + twice)};
      TS_CHECK(reinterpret_cast<uintptr_t>(one.p) % 16 == 0, "%zu bytes at %p", bytes, (void *)one.p);
      std::memset(one.p, one.fill, bytes);
      live.push_back(one);
    }
  }
  for (const block &one : live) check_block(one);
  for (const block &one : live) resource.deallocate(one.p, one.bytes, one.alignment);
}

void fuzz_containers(ts_rng &rng, std::pmr::memory_resource &resource, uint64_t rounds) {
  std::pmr::unordered_map<int, std::pmr::string> ours(&resource);
  std::pmr::map<std::pmr::string, std::pmr::vector<int>> lists(&resource);
  std::unordered_map<int, std::string> theirs;
  std::map<std::string, std::vector<int>> their_lists;
  for (uint64_t i = 0; i < rounds; i++) {
    int key = static_cast<int>(ts_below(&rng, 300));
    std::string value(ts_below(&rng, 200), static_cast<char>('a' + key % 26));
    if (ts_below(&rng, 3) != 0) {
      ours[key] = value;
      theirs[key] = value;
      lists[std::pmr::string(value, &resource)].push_back(key);
      their_lists[value].push_back(key);
    } else {
      ours.erase(key), theirs.erase(key);
      lists.erase(std::pmr::string(value, &resource)), their_lists.erase(value);
    }
  }
  TS_CHECK(ours.size() == theirs.size() && lists.size() == their_lists.size(), "sizes");
  for (auto &[key, value] : theirs) TS_CHECK(ours.count(key) == 1 && std::string_view(ours[key]) == value, "key %d", key);
  for (auto &[key, list] : their_lists) {
    auto found = lists.find(std::pmr::string(key, &resource));
    TS_CHECK(found != lists.end() && std::equal(list.begin(), list.end(), found->second.begin(), found->second.end()), "a list");
    TS_CHECK(found->second.get_allocator().resource() == &resource && hd_owns(found->second.data()), "a list's place");
  }
}

void check_equality() {
  heddle::heap heap;
  heddle::memory_resource a(heap), b(heap), c;
  TS_CHECK(a == a && a != c && c != a, "resources of two heaps are different");
#if defined(__cpp_rtti)
  TS_CHECK(a == b && c == *heddle::thread_heap_resource(), "resources of one heap are equal");
  std::pmr::vector<int> from(100, 1, &a), to(&b);
  const int *data = from.data();
  to = std::move(from);
  TS_CHECK(to.data() == data && heap.owns(data), "a move between equal resources keeps the block");
#endif
  TS_CHECK(a != *std::pmr::new_delete_resource(), "a foreign resource");
  std::pmr::vector<int> elsewhere(100, 3, &c), here(&a);
  here = std::move(elsewhere);
  TS_CHECK(heap.owns(here.data()) && here.size() == 100 && here[99] == 3, "a move between different ones copies");
  heddle::arena_resource x, y;
  heddle::pool_resource p, q;
  TS_CHECK(x != y && x == x && p != q && p == p && p != x, "arenas and pools are equal to themselves alone");
}

void check_default() {
  std::pmr::memory_resource *before = std::pmr::set_default_resource(heddle::thread_heap_resource());
  std::pmr::vector<std::pmr::string> words;
  for (int i = 0; i < 100; i++) words.emplace_back("a text that is too long for the string itself");
  TS_CHECK(hd_owns(words.data()) && hd_owns(words[99].data()), "the default resource");
  std::pmr::set_default_resource(before);
}

// Points by scope: what was laid after one is gone, exactly; a pmr container may live in each round.
void check_arena_scopes() {
  heddle::arena arena;
  heddle::arena_resource left(arena), right(arena, heddle::side::right);
  for (int round = 0; round < 50; round++) {
    heddle::mark mark(left);
    heddle::mark other(right);
    std::pmr::vector<std::pmr::string> words(&left);
    std::pmr::string text(&right);
    for (int i = 0; i < 200; i++) words.emplace_back(100, static_cast<char>('a' + i % 26)), text += "words";
    TS_CHECK(arena.owns(words[199].data()) && arena.owns(text.data()), "round %d", round);
    TS_CHECK(words[199][99] == 'a' + 199 % 26 && text.size() == 1000, "round %d", round);
  }
  TS_CHECK(arena.stats().used_left == 0 && arena.stats().used_right == 0, "something is left after the scopes");
  std::pmr::vector<int> stays(1000, 1, &left);
  left.release();
  TS_CHECK(arena.stats().used_left == 0, "release takes everything");
  heddle::arena_resource of_thread(hd_arena_thread());
  std::pmr::vector<int> numbers(100, 5, &of_thread);
  TS_CHECK(hd_arena_owns(hd_arena_thread(), numbers.data()), "the thread's arena");
}

void check_pool_release() {
  heddle::pool_resource pools(false, "pools");
  for (int round = 0; round < 3; round++) {
    for (size_t bytes = 1; bytes < 5000; bytes += 37) std::memset(pools.allocate(bytes), 1, bytes);
    hd_pool_stats stats = pools.stats();
    TS_CHECK(stats.used == (1024 - 1) / 37 + 1, "%zu pooled blocks", stats.used);
    TS_CHECK(pools.large().stats().live_count == 135 + 1 - 28, "%zu large blocks", pools.large().stats().live_count);
    pools.release();
    TS_CHECK(pools.stats().used == 0 && pools.large().stats().live_count == 0, "release takes everything");
  }
  std::pmr::vector<int> empty(&pools);
  empty.push_back(1);
}

void check_threads(uint64_t seed) {
  heddle::pool_resource pools(true);
  heddle::memory_resource common;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      ts_rng rng{ts_hash(seed, static_cast<uint64_t>(t))};
      fuzz_blocks(rng, pools, 3000, true);
      fuzz_containers(rng, pools, 1000);
      fuzz_blocks(rng, common, 3000, true);
    });
  }
  for (auto &thread : threads) thread.join();
  TS_CHECK(pools.stats().used == 0, "%zu blocks are left", pools.stats().used);
}

}  // namespace

int main(int argc, char **argv) {
  uint64_t seed = ts_seed(), rounds = ts_option(argc, argv, "-n", 8000);
  ts_rng rng{seed};
  heddle::heap heap("resources");
  heddle::memory_resource thread_heap, own_heap(heap);
  heddle::pool_resource pools;
  for (std::pmr::memory_resource *resource : {static_cast<std::pmr::memory_resource *>(&thread_heap),
                                              static_cast<std::pmr::memory_resource *>(&own_heap),
                                              static_cast<std::pmr::memory_resource *>(&pools)}) {
    fuzz_blocks(rng, *resource, rounds, true);
    every_size(*resource);
    fuzz_containers(rng, *resource, rounds);
  }
  TS_CHECK(heap.stats().live_count == 0 && pools.stats().used == 0 && pools.large().stats().live_count == 0, "something is left");
  heddle::arena_resource arena;
  fuzz_blocks(rng, arena, rounds, false);
  every_size(arena);
  fuzz_containers(rng, arena, rounds / 4);
  check_equality();
  check_default();
  check_arena_scopes();
  check_pool_release();
  check_threads(seed);
  ts_print(1, "resources: ok, %d rounds\n", (int)rounds);
  return 0;
}
