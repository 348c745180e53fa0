// heddle::heap: a heap of hd_heap_create that ends with its scope.
//
//   heddle::heap heap("parser", 64 << 20);       a name and a limit; both may be left out
//   void *p = heap.allocate(100);                nullptr where the limit is reached
//   heap.deallocate(p);                          or hd_free(p), from any thread
//   heap.reset();                                or all at once
//
// Movable, not copyable; a moved-from heap is empty and may be assigned to. SPDX-License-Identifier: MIT
#ifndef HEDDLE_HEAP_HPP
#define HEDDLE_HEAP_HPP

#include "failure.hpp"

namespace heddle {

class heap {
 public:
  // Fails as failure.hpp says: no memory, or a bad config.
  heap() : heap(hd_heap_config{}) {}
  explicit heap(const char *name, std::size_t limit_bytes = 0) : heap(config_of(name, limit_bytes)) {}
  explicit heap(const hd_heap_config &config) : heap(try_create(config)) {
    if (!heap_) detail::creation_failed("a heap's configuration is not valid");
  }

  // A heap in memory of the caller's: at least 1 MiB, untouched by others as long as the heap lives.
  [[nodiscard]] static heap in(void *memory, std::size_t memory_bytes) { return heap(config_in(memory, memory_bytes)); }

  // An empty heap where there is no memory (errno ENOMEM) or the config is bad (EINVAL).
  [[nodiscard]] static heap try_create(hd_heap_config config) noexcept {
    config.struct_bytes = sizeof config;
    return heap(adopted{}, hd_heap_create(&config));
  }

  // Takes over what hd_heap_create made.
  [[nodiscard]] static heap adopt(hd_heap *made) noexcept { return heap(adopted{}, made); }

  [[nodiscard]] explicit operator bool() const noexcept { return heap_ != nullptr; }
  [[nodiscard]] hd_heap *get() const noexcept { return heap_.get(); }
  [[nodiscard]] hd_heap *release() noexcept { return heap_.release(); }

  // A block, or nullptr with ENOMEM, or EINVAL for a bad alignment. threads: any.
  [[nodiscard]] void *allocate(std::size_t bytes) noexcept { return hd_heap_malloc(get(), bytes); }
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment) noexcept { return hd_heap_aligned_alloc(get(), alignment, bytes); }
  [[nodiscard]] void *reallocate(void *p, std::size_t bytes) noexcept { return hd_heap_realloc(get(), p, bytes); }
  void deallocate(void *p) noexcept { hd_free(p); }

  // Frees every block at once, as hd_heap_reset.
  void reset() noexcept { hd_heap_reset(get()); }

  [[nodiscard]] bool owns(const void *block) const noexcept { return heap_ && hd_heap_of(block) == get(); }
  [[nodiscard]] hd_stats stats() const noexcept {
    hd_stats stats{};
    stats.struct_bytes = sizeof stats;
    hd_heap_stats_get(get(), &stats);
    return stats;
  }

 private:
  struct adopted {};
  heap(adopted, hd_heap *made) noexcept : heap_(made) {}

  static hd_heap_config config_of(const char *name, std::size_t limit_bytes) noexcept {
    hd_heap_config config{};
    config.name = name;
    config.limit_bytes = limit_bytes;
    return config;
  }
  static hd_heap_config config_in(void *memory, std::size_t memory_bytes) noexcept {
    hd_heap_config config{};
    config.memory = memory;
    config.memory_bytes = memory_bytes;
    return config;
  }

  detail::owner<hd_heap, hd_heap_destroy> heap_;
};

}  // namespace heddle
#endif
