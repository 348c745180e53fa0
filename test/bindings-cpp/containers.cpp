// heddle::allocator, heap_allocator and arena_allocator under the standard containers: the same random operations on a container with
// std::allocator and one with ours must always show the same content. Every block of ours lies in Heddle's memory.
//
//   containers [-n operations]      HEDDLE_TEST_SEED=number repeats a run
//
// SPDX-License-Identifier: MIT
#include <heddle/heddle.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "../support/support.h"

namespace {

template <class A>
using text = std::basic_string<char, std::char_traits<char>, typename std::allocator_traits<A>::template rebind_alloc<char>>;
template <class A, class T>
using rebound = typename std::allocator_traits<A>::template rebind_alloc<T>;

// ---- properties, checked by the compiler ------------------------------------------------------------------------------

template <class A>
using traits = std::allocator_traits<A>;
using plain = heddle::allocator<int>;
using on_heap = heddle::heap_allocator<int>;
using on_arena = heddle::arena_allocator<int>;

static_assert(std::is_empty_v<plain> && traits<plain>::is_always_equal::value);
static_assert(traits<plain>::propagate_on_container_move_assignment::value);
static_assert(std::is_nothrow_default_constructible_v<plain> && std::is_nothrow_copy_constructible_v<plain>);
static_assert(std::is_nothrow_constructible_v<plain, heddle::allocator<char>>);
static_assert(sizeof(std::vector<int, plain>) == sizeof(std::vector<int>));
static_assert(std::is_nothrow_move_assignable_v<std::vector<int, plain>>);
static_assert(std::is_nothrow_move_constructible_v<std::map<int, int, std::less<>, rebound<plain, std::pair<const int, int>>>>);
static_assert(std::is_same_v<traits<plain>::rebind_alloc<long>, heddle::allocator<long>>);
static_assert(plain() == heddle::allocator<char>() && !(plain() != heddle::allocator<char>()));
static_assert(!traits<on_heap>::is_always_equal::value && !traits<on_arena>::is_always_equal::value);
static_assert(traits<on_heap>::propagate_on_container_swap::value && !traits<on_heap>::propagate_on_container_copy_assignment::value);
static_assert(std::is_nothrow_move_assignable_v<std::vector<int, on_heap>>);
static_assert(std::is_nothrow_move_assignable_v<std::vector<int, on_arena>>);
static_assert(std::is_default_constructible_v<on_heap> && !std::is_default_constructible_v<on_arena>);
[[maybe_unused]] heddle::allocator<void> nothing_yet;  // a valid type that others are rebound from

#if defined(__cpp_lib_constexpr_vector)
constexpr int sum_at_compile_time() {
  std::vector<int, plain> numbers;
  for (int i = 1; i <= 10; i++) numbers.push_back(i);
  int sum = 0;
  for (int i : numbers) sum += i;
  return sum;
}
static_assert(sum_at_compile_time() == 55);
#endif

// ---- random operations on two containers at once ------------------------------------------------------------------------

std::string random_text(ts_rng &rng) {
  std::string text(ts_below(&rng, 4) == 0 ? ts_below(&rng, 3000) : ts_below(&rng, 40), ' ');
  for (char &c : text) c = static_cast<char>('a' + ts_below(&rng, 26));
  return text;
}

template <class A>
bool in_heddle(const text<A> &value) {
  const char *inside = reinterpret_cast<const char *>(&value);
  bool is_short = value.data() >= inside && value.data() < inside + sizeof value;
  return is_short || hd_owns(value.data());
}

// Sequences: vector, deque, list. The front is only touched where that is cheap enough for all of them.
template <class Ours, class Theirs, class A>
void fuzz_sequence(const char *name, ts_rng &rng, uint64_t rounds, const A &allocator) {
  Ours ours(allocator), other(allocator);
  Theirs theirs, their_other;
  for (uint64_t i = 0; i < rounds; i++) {
    std::string value = random_text(rng);
    text<A> copy(value.begin(), value.end(), rebound<A, char>(allocator));
    size_t at = theirs.empty() ? 0 : ts_below(&rng, theirs.size());
    switch (ts_below(&rng, 12)) {
      case 0: case 1: case 2: case 3: ours.push_back(copy), theirs.push_back(value); break;
      case 4: ours.insert(std::next(ours.begin(), at), copy), theirs.insert(std::next(theirs.begin(), at), value); break;
      case 5: case 6:
        if (theirs.empty()) break;
        ours.erase(std::next(ours.begin(), at)), theirs.erase(std::next(theirs.begin(), at));
        break;
      case 7: std::swap(ours, other), std::swap(theirs, their_other); break;
      case 8: other = ours, their_other = theirs; break;
      case 9: other = std::move(ours), ours.clear(), their_other = std::move(theirs), theirs.clear(); break;
      case 10: ours.resize(at, copy), theirs.resize(at, value); break;
      default: ours = Ours(other, allocator), theirs = their_other; break;
    }
    if (theirs.size() > 300) ours.clear(), theirs.clear();
    TS_CHECK(ours.size() == theirs.size() && other.size() == their_other.size(), "%s: sizes after operation %d", name, (int)i);
    if (i % 16 != 0) continue;
    bool same = std::equal(ours.begin(), ours.end(), theirs.begin(), [](auto &a, auto &b) {
      return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin()) && in_heddle<A>(a);
    });
    TS_CHECK(same, "%s: content after operation %d", name, (int)i);
  }
}

// Maps: map and unordered_map, from int to text.
template <class Ours, class Theirs, class A>
void fuzz_map(const char *name, ts_rng &rng, uint64_t rounds, const A &allocator) {
  Ours ours(allocator), other(allocator);
  Theirs theirs, their_other;
  for (uint64_t i = 0; i < rounds; i++) {
    std::string value = random_text(rng);
    text<A> copy(value.begin(), value.end(), rebound<A, char>(allocator));
    int key = static_cast<int>(ts_below(&rng, 400));
    switch (ts_below(&rng, 9)) {
      case 0: case 1: case 2: case 3: ours.insert_or_assign(key, copy), theirs.insert_or_assign(key, value); break;
      case 4: case 5: ours.erase(key), theirs.erase(key); break;
      case 6: std::swap(ours, other), std::swap(theirs, their_other); break;
      case 7: ours.merge(other), theirs.merge(their_other); break;
      default: other = ours, their_other = theirs; break;
    }
    TS_CHECK(ours.size() == theirs.size(), "%s: sizes after operation %d", name, (int)i);
    if (i % 64 != 0) continue;
    for (auto &[k, v] : theirs) {
      auto found = ours.find(k);
      bool same = found != ours.end() && std::equal(v.begin(), v.end(), found->second.begin(), found->second.end());
      TS_CHECK(same && hd_owns(&found->second) && in_heddle<A>(found->second), "%s: key %d after operation %d", name, k, (int)i);
    }
  }
}

template <class A>
void fuzz_all(ts_rng &rng, uint64_t rounds, const A &allocator) {
  using string = text<A>;
  using pair = rebound<A, std::pair<const int, string>>;
  rebound<A, string> strings(allocator);
  fuzz_sequence<std::vector<string, rebound<A, string>>, std::vector<std::string>>("vector", rng, rounds, strings);
  fuzz_sequence<std::deque<string, rebound<A, string>>, std::deque<std::string>>("deque", rng, rounds, strings);
  fuzz_sequence<std::list<string, rebound<A, string>>, std::list<std::string>>("list", rng, rounds, strings);
  pair pairs(allocator);
  fuzz_map<std::map<int, string, std::less<int>, pair>, std::map<int, std::string>>("map", rng, rounds, pairs);
  fuzz_map<std::unordered_map<int, string, std::hash<int>, std::equal_to<int>, pair>, std::unordered_map<int, std::string>>(
      "unordered_map", rng, rounds, pairs);
}

// ---- what the fuzzing does not reach ----------------------------------------------------------------------------------

template <size_t alignment>
struct alignas(alignment) wide {
  unsigned char bytes[alignment];
};

template <size_t alignment, class Allocator>
void check_alignment(Allocator allocator) {
  rebound<Allocator, wide<alignment>> wides(allocator);
  std::vector<wide<alignment>, decltype(wides)> many(wides);
  std::list<wide<alignment>, decltype(wides)> nodes(wides);
  for (int i = 0; i < 50; i++) many.emplace_back(), nodes.emplace_back();
  for (auto &one : many) TS_CHECK(reinterpret_cast<uintptr_t>(&one) % alignment == 0, "vector, alignment %zu", alignment);
  for (auto &one : nodes) TS_CHECK(reinterpret_cast<uintptr_t>(&one) % alignment == 0, "list, alignment %zu", alignment);
}

template <class Allocator>
void check_alignments(Allocator allocator) {
  check_alignment<1>(allocator), check_alignment<16>(allocator), check_alignment<32>(allocator);
  check_alignment<64>(allocator), check_alignment<256>(allocator), check_alignment<4096>(allocator);
}

template <class T, class Allocator>
void check_at_least(Allocator allocator) {
  for (size_t count = 0; count < 3000; count = count * 5 / 4 + 1) {
    auto [p, room] = allocator.allocate_at_least(count);
    TS_CHECK(p != nullptr && room >= count && room * sizeof(T) <= hd_usable_size(p), "%zu gave %zu", count, room);
    std::fill_n(reinterpret_cast<unsigned char *>(p), room * sizeof(T), 0x5a);
    if (alignof(T) <= 16) TS_CHECK(room == heddle::good_count<T>(count), "%zu gave %zu", count, room);
    allocator.deallocate(p, count + (room - count) / 2);
  }
}

void check_shared_pointers() {
  std::atomic<int> ended{0};
  struct counted {
    std::atomic<int> *count;
    char rest[100];
    ~counted() { ++*count; }
  };
  std::vector<std::shared_ptr<counted>, heddle::allocator<std::shared_ptr<counted>>> many;
  for (int i = 0; i < 100; i++) {
    many.push_back(std::allocate_shared<counted>(heddle::allocator<counted>(), counted{&ended, {}}));
    TS_CHECK(hd_owns(many.back().get()), "shared object %d", i);
  }
  int temporaries = ended.exchange(0);
  TS_CHECK(temporaries == 100, "%d temporaries", temporaries);
  std::thread([mine = std::move(many)]() mutable { mine.clear(); }).join();  // freed by another thread
  TS_CHECK(ended == 100, "%d of 100 objects ended", ended.load());
}

// Moves take the memory along; copies into a container stay on its own heap.
void check_heaps() {
  heddle::heap a("a"), b("b");
  using vector = std::vector<int, heddle::heap_allocator<int>>;
  vector on_a(1000, 7, a.get()), on_b(1000, 8, b.get()), free_one(10, 9);
  const int *data = on_a.data();
  TS_CHECK(a.owns(data) && b.owns(on_b.data()) && hd_heap_of(free_one.data()) == nullptr, "each on its heap");
  std::swap(on_a, on_b);
  TS_CHECK(on_b.data() == data && on_b.get_allocator().heap() == a.get() && b.owns(on_a.data()), "a swap swaps the heaps");
  on_a = std::move(on_b);
  TS_CHECK(on_a.data() == data && on_a.get_allocator().heap() == a.get() && on_a[999] == 7, "a move takes the heap along");
  free_one = on_a;
  TS_CHECK(hd_heap_of(free_one.data()) == nullptr && free_one == on_a, "a copy stays where it is copied to");
  vector moved(std::move(on_a), b.get());
  TS_CHECK(b.owns(moved.data()) && moved[999] == 7, "a move to another heap copies");
  TS_CHECK(on_a.get_allocator() != moved.get_allocator() && heddle::heap_allocator<char>(b.get()) == moved.get_allocator(), "equality");
  vector().swap(free_one), vector().swap(on_a);
}

}  // namespace

int main(int argc, char **argv) {
  uint64_t seed = ts_seed(), rounds = ts_option(argc, argv, "-n", 1500);
  ts_rng rng{seed};
  heddle::heap heap("containers");
  heddle::arena arena;
  fuzz_all(rng, rounds, heddle::allocator<int>());
  fuzz_all(rng, rounds, heddle::heap_allocator<int>(heap.get()));
  fuzz_all(rng, rounds / 2, heddle::arena_allocator<int>(arena.get()));
  fuzz_all(rng, rounds / 2, heddle::arena_allocator<int>(arena.get(), heddle::side::right));
  TS_CHECK(heap.stats().live_count == 0, "%zu blocks are left on the heap", heap.stats().live_count);
  check_alignments(heddle::allocator<int>());
  check_alignments(heddle::heap_allocator<int>(heap.get()));
  check_alignments(heddle::arena_allocator<int>(arena.get()));
  check_alignments(heddle::arena_allocator<int>(arena.get(), heddle::side::right));
  check_at_least<char>(heddle::allocator<char>());
  check_at_least<wide<8>>(heddle::allocator<wide<8>>());
  check_at_least<wide<64>>(heddle::allocator<wide<64>>());
  check_at_least<int>(heddle::heap_allocator<int>(heap.get()));
  check_shared_pointers();
  check_heaps();
  ts_print(1, "containers: ok, %d rounds\n", (int)rounds);
  return 0;
}
