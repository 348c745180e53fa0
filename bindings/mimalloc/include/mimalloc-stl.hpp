// The C++ part of mimalloc.h: allocators for the standard containers. Included by it, also from inside nothing else.
// SPDX-License-Identifier: MIT
#ifndef HEDDLE_MIMALLOC_STL_HPP
#define HEDDLE_MIMALLOC_STL_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

/// An allocator of the calling thread's default heap; all are equal.
template <class T>
struct mi_stl_allocator {
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = value_type &;
  using const_reference = const value_type &;
  using pointer = value_type *;
  using const_pointer = const value_type *;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::true_type;
  template <class U>
  struct rebind {
    using other = mi_stl_allocator<U>;
  };

  mi_stl_allocator() noexcept = default;
  mi_stl_allocator(const mi_stl_allocator &) noexcept = default;
  template <class U>
  mi_stl_allocator(const mi_stl_allocator<U> &) noexcept {}
  mi_stl_allocator &operator=(const mi_stl_allocator &) noexcept = default;
  mi_stl_allocator select_on_container_copy_construction() const { return *this; }

  T *allocate(size_type count) {
    if (alignof(T) <= 16) return static_cast<T *>(mi_new_n(count, sizeof(T)));
    if (count > PTRDIFF_MAX / sizeof(T)) return static_cast<T *>(mi_new_n(count, sizeof(T)));  // which throws
    return static_cast<T *>(mi_new_aligned(count * sizeof(T), alignof(T)));
  }
  T *allocate(size_type count, const void *) { return allocate(count); }
  void deallocate(T *p, size_type) { mi_free(p); }
};

template <class T, class U>
bool operator==(const mi_stl_allocator<T> &, const mi_stl_allocator<U> &) noexcept {
  return true;
}
template <class T, class U>
bool operator!=(const mi_stl_allocator<T> &, const mi_stl_allocator<U> &) noexcept {
  return false;
}

namespace heddle_mi {

// Fails as operator new does, also where exceptions are off.
inline void give_up() { (void)mi_new(PTRDIFF_MAX); }

// What the allocators with a heap share. Destroy: the last copy destroys the heap instead of deleting it, and single blocks are not freed.
template <class T, bool Destroy>
struct heap_allocator {
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_copy_assignment = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  heap_allocator() : heap(mi_heap_new(), Destroy ? mi_heap_destroy : mi_heap_delete) {
    if (!heap) give_up();
  }
  explicit heap_allocator(mi_heap_t *lent) : heap(lent, [](mi_heap_t *) {}) {}
  template <class U>
  heap_allocator(const heap_allocator<U, Destroy> &other) noexcept : heap(other.heap) {}

  T *allocate(size_type count) {
    if (count > PTRDIFF_MAX / sizeof(T)) give_up();
    void *p = alignof(T) <= 16 ? nullptr : mi_heap_malloc_aligned(heap.get(), count * sizeof(T), alignof(T));
    if (p == nullptr) p = mi_heap_alloc_new(heap.get(), alignof(T) <= 16 ? count * sizeof(T) : PTRDIFF_MAX);
    return static_cast<T *>(p);
  }
  void deallocate(T *p, size_type) {
    if (!Destroy) mi_free(p);
  }
  void collect(bool force) { mi_heap_collect(heap.get(), force); }
  bool is_equal(const heap_allocator &other) const noexcept { return heap == other.heap; }

  std::shared_ptr<mi_heap_t> heap;
};

}  // namespace heddle_mi

/// An allocator with a heap of its own, shared by its copies; the heap is deleted with the last one and its blocks live on.
template <class T>
struct mi_heap_stl_allocator : heddle_mi::heap_allocator<T, false> {
  using heddle_mi::heap_allocator<T, false>::heap_allocator;
  mi_heap_stl_allocator() = default;
  template <class U>
  mi_heap_stl_allocator(const mi_heap_stl_allocator<U> &other) noexcept : heddle_mi::heap_allocator<T, false>(other) {}
  template <class U>
  struct rebind {
    using other = mi_heap_stl_allocator<U>;
  };
};

/// The same, but the heap is destroyed, with all that is left in it.
template <class T>
struct mi_heap_destroy_stl_allocator : heddle_mi::heap_allocator<T, true> {
  using heddle_mi::heap_allocator<T, true>::heap_allocator;
  mi_heap_destroy_stl_allocator() = default;
  template <class U>
  mi_heap_destroy_stl_allocator(const mi_heap_destroy_stl_allocator<U> &other) noexcept : heddle_mi::heap_allocator<T, true>(other) {}
  template <class U>
  struct rebind {
    using other = mi_heap_destroy_stl_allocator<U>;
  };
};

template <class T, class U, bool Destroy>
bool operator==(const heddle_mi::heap_allocator<T, Destroy> &a, const heddle_mi::heap_allocator<U, Destroy> &b) noexcept {
  return a.heap == b.heap;
}
template <class T, class U, bool Destroy>
bool operator!=(const heddle_mi::heap_allocator<T, Destroy> &a, const heddle_mi::heap_allocator<U, Destroy> &b) noexcept {
  return a.heap != b.heap;
}

#endif
