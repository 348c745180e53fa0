// C++: the allocators in standard containers, operators new and delete, bad_alloc and the new-handler.
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <mimalloc-new-delete.h>
#include <mimalloc.h>

#include "../support/support.h"

struct alignas(128) Wide {
  char bytes[128];
};

template <template <class> class Allocator>
static void containers() {
  std::vector<int, Allocator<int>> numbers;
  std::map<int, int, std::less<int>, Allocator<std::pair<const int, int>>> map;
  std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, Allocator<std::pair<const int, int>>> hashed;
  std::list<Wide, Allocator<Wide>> wide;
  std::basic_string<char, std::char_traits<char>, Allocator<char>> text;
  for (int i = 0; i < 5000; i++) {
    numbers.push_back(i);
    map[i * 7 % 5000] = i;
    hashed[i] = i;
    if (i % 50 == 0) wide.emplace_back();
    text += 'x';
  }
  for (auto &one : wide) TS_CHECK(reinterpret_cast<std::uintptr_t>(&one) % 128 == 0, "aligned to 128");
  auto copy = numbers;
  auto moved = std::move(numbers);
  TS_CHECK(copy == moved && map.size() == 5000 && hashed.at(4999) == 4999 && text.size() == 5000, "content");
  map.clear();
  std::swap(copy, moved);
  auto shared = std::allocate_shared<int>(Allocator<int>(), 5);
  TS_CHECK(*shared == 5, "allocate_shared");
}

static void operators() {
  auto *p = new int[1000];
  TS_CHECK(mi_is_in_heap_region(p), "operator new is mimalloc's");
  delete[] p;
  auto *wide = new Wide;
  TS_CHECK(reinterpret_cast<std::uintptr_t>(wide) % 128 == 0 && mi_is_in_heap_region(wide), "aligned new");
  delete wide;
  std::string text(1000, 'a');
  std::thread([moved = std::move(text)] { TS_CHECK(moved.size() == 1000, "moved to a thread"); }).join();
  volatile std::size_t big = static_cast<std::size_t>(PTRDIFF_MAX) - 64;
  TS_CHECK(new (std::nothrow) char[big] == nullptr, "nothrow");
}

static int asked;
static void handler() {
  if (++asked == 3) std::set_new_handler(nullptr);
}

template <class F>
static void must_throw(const char *what, F &&f) {
  bool thrown = false;
  try {
    f();
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  TS_CHECK(thrown, "%s throws std::bad_alloc", what);
}

static void failures() {
  volatile std::size_t big = static_cast<std::size_t>(PTRDIFF_MAX);
  must_throw("mi_new", [&] { (void)mi_new(big); });
  must_throw("mi_new_aligned", [&] { (void)mi_new_aligned(big, 64); });
  must_throw("mi_new_n", [&] { (void)mi_new_n(big, 8); });
  must_throw("mi_new_reallocn", [&] { (void)mi_new_reallocn(nullptr, big, 8); });
  must_throw("mi_heap_alloc_new", [&] { (void)mi_heap_alloc_new(mi_heap_get_default(), big); });
  must_throw("mi_heap_alloc_new_n", [&] { (void)mi_heap_alloc_new_n(mi_heap_get_default(), big, 8); });
  must_throw("an allocator", [&] { (void)mi_stl_allocator<int>().allocate(big); });
  must_throw("an allocator of wide things", [&] { (void)mi_stl_allocator<Wide>().allocate(big); });
  must_throw("a heap's allocator", [&] { (void)mi_heap_stl_allocator<int>().allocate(big); });
  must_throw("a heap's allocator of wide things", [&] { (void)mi_heap_stl_allocator<Wide>().allocate(big); });
  std::set_new_handler(handler);
  must_throw("operator new", [&] { ::operator delete(::operator new(big)); });
  TS_CHECK(asked == 3, "the handler was asked %d times", asked);
}

// A container's blocks outlive the allocator's heap; and a destroyed heap takes a leaked container along.
static void lives() {
  int *kept = nullptr;
  {
    mi_heap_stl_allocator<int> own;
    mi_heap_stl_allocator<long> same(own);
    TS_CHECK(own == same && own != mi_heap_stl_allocator<int>(), "equal when the heap is the same");
    kept = own.allocate(100);
    kept[99] = 99;
  }
  TS_CHECK(kept[99] == 99, "alive after its heap");
  mi_free(kept);
  mi_heap_destroy_stl_allocator<int> whole;
  std::vector<int, mi_heap_destroy_stl_allocator<int>> numbers(1000, 7, whole);
  (void)whole.allocate(1000);
  TS_CHECK(numbers[999] == 7, "content");
}

int main() {
  containers<mi_stl_allocator>();
  containers<mi_heap_stl_allocator>();
  containers<mi_heap_destroy_stl_allocator>();
  operators();
  failures();
  lives();
  std::puts("ok");
}
