// heddle::memory_resource: std::pmr over the calling thread's heap, or over a heap of its own.
//
//   std::pmr::vector<int> numbers(heddle::thread_heap_resource());
//   heddle::heap heap("index");
//   heddle::memory_resource resource(heap);
//   std::pmr::unordered_map<int, std::pmr::string> map(&resource);
//
// Failure: see failure.hpp. threads: any. Two resources are equal when their heap is the same; without run-time type information
// (-fno-rtti) only a resource and itself are, so that containers copy where they could have moved.
//
// SPDX-License-Identifier: MIT
#ifndef HEDDLE_MEMORY_RESOURCE_HPP
#define HEDDLE_MEMORY_RESOURCE_HPP

#include "heap.hpp"

#if HEDDLE_PMR
namespace heddle {

class memory_resource final : public std::pmr::memory_resource {
 public:
  memory_resource() noexcept = default;
  explicit memory_resource(hd_heap *heap) noexcept : heap_(heap) {}
  explicit memory_resource(const heddle::heap &heap) noexcept : heap_(heap.get()) {}

  // NULL: the calling thread's.
  [[nodiscard]] hd_heap *heap() const noexcept { return heap_; }

 private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override { return detail::obtain_from(heap_, bytes, alignment); }
  void do_deallocate(void *p, std::size_t bytes, std::size_t) override { hd_free_sized(p, bytes); }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti) || defined(_CPPRTTI)
    const auto *same = dynamic_cast<const memory_resource *>(&other);
    return same != nullptr && same->heap_ == heap_;
#else
    return this == &other;
#endif
  }

  hd_heap *heap_ = nullptr;
};

// The one for the thread's heap, for example for std::pmr::set_default_resource. It is never destroyed, so that objects of static
// storage may use it to the end of the process.
inline memory_resource *thread_heap_resource() noexcept {
  alignas(memory_resource) static unsigned char place[sizeof(memory_resource)];
  static memory_resource *const resource = ::new (static_cast<void *>(place)) memory_resource();
  return resource;
}

}  // namespace heddle
#endif
#endif
