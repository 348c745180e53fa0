// Allocators for the standard containers, C++17 and later.
//
//   std::vector<int, heddle::allocator<int>> numbers;                    the calling thread's heap
//   heddle::heap heap("parser", 64 << 20);
//   std::vector<int, heddle::heap_allocator<int>> capped(heap.get());    a heap of its own, with a limit
//
// heddle::allocator is empty and all of its kind are equal: containers swap, move and splice without a copy, and a block may be freed by
// any thread. heddle::heap_allocator holds a heap. It goes along when a container is moved or swapped, and stays where a container is
// copied to; two are equal when their heap is.
//
// Failure: see failure.hpp. heddle::allocator first asks the process's new-handler, as operator new does. threads: any.
//
// SPDX-License-Identifier: MIT
#ifndef HEDDLE_ALLOCATOR_HPP
#define HEDDLE_ALLOCATOR_HPP

#include <type_traits>

#include "failure.hpp"

#if defined(__cpp_constexpr_dynamic_alloc) && defined(__cpp_lib_is_constant_evaluated)
#define HEDDLE_CONSTEXPR20 constexpr
#define HEDDLE_IS_CONSTANT() std::is_constant_evaluated()
#else
#define HEDDLE_CONSTEXPR20 inline
#define HEDDLE_IS_CONSTANT() false
#endif

namespace heddle {

// What allocate_at_least gives: a block and how many objects it has room for.
#if defined(__cpp_lib_allocate_at_least)
template <class T>
using allocation_result = std::allocation_result<T *, std::size_t>;
#else
template <class T>
struct allocation_result {
  T *ptr;
  std::size_t count;
};
#endif

// How many objects of type T fit into the block that is handed out for `count` of them.
template <class T>
[[nodiscard]] std::size_t good_count(std::size_t count) {
  return hd_good_size(detail::bytes_of<T>(count)) / sizeof(T);
}

template <class T>
class allocator {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_move_assignment = std::true_type;
  using is_always_equal = std::true_type;

  constexpr allocator() noexcept = default;
  template <class U>
  constexpr allocator(const allocator<U> &) noexcept {}

  // Room for count objects, aligned for T. cost: as hd_malloc, inlined up to its call.
  [[nodiscard]] HEDDLE_CONSTEXPR20 T *allocate(size_type count) {
    if (HEDDLE_IS_CONSTANT()) return std::allocator<T>().allocate(count);
    return static_cast<T *>(detail::obtain(detail::bytes_of<T>(count), alignof(T)));
  }

  // The same, and all of the room that the block has: more than count where a size class leaves some.
  [[nodiscard]] HEDDLE_CONSTEXPR20 allocation_result<T> allocate_at_least(size_type count) {
    if (HEDDLE_IS_CONSTANT() || alignof(T) > detail::alignment_always) return {allocate(count), count};
    size_type room = good_count<T>(count);
    return {allocate(room), room};
  }

  // count: what allocate was asked for, or anything from there to what allocate_at_least gave.
  HEDDLE_CONSTEXPR20 void deallocate(T *p, size_type count) noexcept {
    if (HEDDLE_IS_CONSTANT()) return std::allocator<T>().deallocate(p, count);
    hd_free_sized(p, count * sizeof(T));
  }
};

template <class T, class U>
constexpr bool operator==(const allocator<T> &, const allocator<U> &) noexcept {
  return true;
}
template <class T, class U>
constexpr bool operator!=(const allocator<T> &, const allocator<U> &) noexcept {
  return false;
}

// The heap must outlive every container that uses it, and what was moved out of those.
template <class T>
class heap_allocator {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  // heap: NULL is the calling thread's heap.
  constexpr heap_allocator(hd_heap *heap = nullptr) noexcept : heap_(heap) {}
  template <class U>
  constexpr heap_allocator(const heap_allocator<U> &other) noexcept : heap_(other.heap()) {}

  [[nodiscard]] T *allocate(size_type count) {
    return static_cast<T *>(detail::obtain_from(heap_, detail::bytes_of<T>(count), alignof(T)));
  }
  [[nodiscard]] allocation_result<T> allocate_at_least(size_type count) {
    size_type room = alignof(T) > detail::alignment_always ? count : good_count<T>(count);
    return {allocate(room), room};
  }
  void deallocate(T *p, size_type count) noexcept { hd_free_sized(p, count * sizeof(T)); }

  [[nodiscard]] constexpr hd_heap *heap() const noexcept { return heap_; }

 private:
  hd_heap *heap_;
};

template <class T, class U>
constexpr bool operator==(const heap_allocator<T> &a, const heap_allocator<U> &b) noexcept {
  return a.heap() == b.heap();
}
template <class T, class U>
constexpr bool operator!=(const heap_allocator<T> &a, const heap_allocator<U> &b) noexcept {
  return a.heap() != b.heap();
}

}  // namespace heddle
#endif
