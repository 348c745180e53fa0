// Pools in C++: owners, pools of one type of object, and std::pmr over pools. What pools are: pool.h.
//
//   heddle::object_pool<node> nodes("nodes");
//   node *n = nodes.make(1, 2);                 constructs; nodes.destroy(n) ends it
//   auto owned = nodes.make_unique(3, 4);       a std::unique_ptr that goes back to the pool
//
//   heddle::pool_resource resource;             small blocks from pools by size, the rest from a heap of its own
//   std::pmr::list<int> list(&resource);
//
// Failure: see failure.hpp. threads: one at a time; any number where the config says `shared`.
//
// SPDX-License-Identifier: MIT
#ifndef HEDDLE_POOL_HPP
#define HEDDLE_POOL_HPP

#include <type_traits>
#include <utility>

#include "heap.hpp"
#include "pool.h"

namespace heddle {

// Owns a pool. Movable, not copyable; a moved-from pool is empty and may be assigned to.
class pool {
 public:
  explicit pool(std::size_t item_bytes, const char *name = nullptr) : pool(config_of(item_bytes, name)) {}
  explicit pool(const hd_pool_config &config) : pool(try_create(config)) {
    if (!pool_) detail::creation_failed("a pool's configuration is not valid");
  }

  // An empty pool where there is no memory (errno ENOMEM) or the config is bad (EINVAL).
  [[nodiscard]] static pool try_create(hd_pool_config config) noexcept {
    config.struct_bytes = sizeof config;
    return pool(adopted{}, hd_pool_create(&config));
  }

  [[nodiscard]] explicit operator bool() const noexcept { return pool_ != nullptr; }
  [[nodiscard]] hd_pool *get() const noexcept { return pool_.get(); }

  // nullptr with ENOMEM where the limit is reached or there is no memory.
  [[nodiscard]] void *take() noexcept { return hd_pool_take(get()); }
  [[nodiscard]] void *take_zeroed() noexcept { return hd_pool_take_zeroed(get()); }
  void give(void *item) noexcept { hd_pool_give(get(), item); }

  [[nodiscard]] bool owns(const void *item) const noexcept { return pool_ && hd_pool_owns(get(), item); }
  void reset() noexcept { hd_pool_reset(get()); }
  std::size_t flush() noexcept { return hd_pool_flush(get()); }
  // Ends the pool now. returns: how many items were still live.
  std::size_t destroy() noexcept { return hd_pool_destroy(pool_.release()); }

  [[nodiscard]] hd_pool_stats stats() const noexcept {
    hd_pool_stats stats{};
    stats.struct_bytes = sizeof stats;
    hd_pool_stats_get(get(), &stats);
    return stats;
  }

 private:
  struct adopted {};
  pool(adopted, hd_pool *made) noexcept : pool_(made) {}

  static hd_pool_config config_of(std::size_t item_bytes, const char *name) noexcept {
    hd_pool_config config{};
    config.item_bytes = item_bytes;
    config.name = name;
    return config;
  }

  detail::owner<hd_pool, hd_pool_destroy> pool_;
};

// Objects of one type. Those that still live when the pool ends are destroyed with it, in no particular order; their destructors must
// not give other objects of the same pool back then.
template <class T>
class object_pool {
 public:
  // Ends an object of the pool; for std::unique_ptr.
  struct giver {
    hd_pool *pool;
    void operator()(T *object) const noexcept {
      object->~T();
      hd_pool_give(pool, object);
    }
  };
  using unique = std::unique_ptr<T, giver>;

  // name and limits of the config count; size and alignment are T's.
  explicit object_pool(const char *name = nullptr) : object_pool(named(name)) {}
  explicit object_pool(hd_pool_config config) : pool_(config_of(config)) {}
  object_pool(object_pool &&) noexcept = default;
  object_pool &operator=(object_pool &&other) noexcept {
    if (this != &other) {
      clear();
      pool_ = std::move(other.pool_);
    }
    return *this;
  }
  ~object_pool() { clear(); }

  // Failure to get memory is as in failure.hpp; what T's constructor throws passes, and the item goes back.
  template <class... Arguments>
  [[nodiscard]] T *make(Arguments &&...arguments) {
    void *item = pool_.take();
    if (item == nullptr) detail::out_of_memory();
    returning guard{pool_.get(), item};
    T *object = ::new (item) T(std::forward<Arguments>(arguments)...);
    guard.item = nullptr;
    return object;
  }
  template <class... Arguments>
  [[nodiscard]] unique make_unique(Arguments &&...arguments) {
    return unique(make(std::forward<Arguments>(arguments)...), giver{pool_.get()});
  }
  // NULL is ignored.
  void destroy(T *object) noexcept {
    if (object != nullptr) giver{pool_.get()}(object);
  }

  // Destroys every live object.
  void clear() noexcept {
    if (!pool_) return;
    if constexpr (!std::is_trivially_destructible_v<T>) hd_pool_walk(pool_.get(), end_one, nullptr);
    pool_.reset();
  }

  [[nodiscard]] std::size_t size() const noexcept { return pool_.stats().used; }
  [[nodiscard]] const heddle::pool &items() const noexcept { return pool_; }

 private:
  struct returning {
    hd_pool *pool;
    void *item;
    ~returning() {
      if (item != nullptr) hd_pool_give(pool, item);
    }
  };

  static bool end_one(void *item, std::size_t, void *) {
    static_cast<T *>(item)->~T();
    return true;
  }
  static hd_pool_config named(const char *name) noexcept {
    hd_pool_config config{};
    config.name = name;
    return config;
  }
  static hd_pool_config config_of(hd_pool_config config) noexcept {
    config.item_bytes = sizeof(T);
    config.alignment = alignof(T);
    return config;
  }

  heddle::pool pool_;
};

#if HEDDLE_PMR
// std::pmr over pools: blocks up to 1 KiB come from a pool of their size, larger ones and those with an alignment above 16 from a heap
// of its own. release() and the destructor take everything back. A block given twice or with another size is reported (HD-E08).
// Two are equal when they are the same object.
class pool_resource final : public std::pmr::memory_resource {
 public:
  // shared: any number of threads; else one at a time.
  explicit pool_resource(bool shared = false, const char *heap_name = nullptr) : large_(heap_name) {
    hd_pool_class table[class_count];
    hd_pool_config common{};
    common.struct_bytes = sizeof common;
    common.shared = shared;
    for (std::size_t i = 0; i < class_count; i++) table[i] = {"pool_resource", bytes_of_class(i), 0};
    pools_.reset(hd_class_pools_create(table, class_count, &common));
    if (!pools_) detail::creation_failed("a pool_resource's configuration is not valid");
  }

  pool_resource(const pool_resource &) = delete;
  pool_resource &operator=(const pool_resource &) = delete;

  // Takes every block back; it stays usable.
  void release() noexcept {
    for (std::size_t i = 0; i < class_count; i++) hd_pool_reset(pools_->pools[i]);
    large_.reset();
  }

  // Sums over its pools, see hd_class_pools_stats_get; and the heap of the large blocks.
  [[nodiscard]] hd_pool_stats stats() const noexcept {
    hd_pool_stats stats{};
    stats.struct_bytes = sizeof stats;
    hd_class_pools_stats_get(pools_.get(), &stats);
    return stats;
  }
  [[nodiscard]] const heddle::heap &large() const noexcept { return large_; }

  // The largest block that a pool serves.
  static constexpr std::size_t pooled_bytes = 1024;

 private:
  // Steps of 16 up to 128, then four sizes to each doubling: there no more than a fifth is lost to rounding.
  static constexpr std::size_t class_count = 20;

  static constexpr std::size_t bytes_of_class(std::size_t index) noexcept {
    return index < 8 ? 16 * (index + 1) : (5 + (index - 8) % 4) << (5 + (index - 8) / 4);
  }
  static constexpr std::size_t class_of(std::size_t bytes) noexcept {
    if (bytes <= 128) return (bytes - (bytes != 0)) / 16;
    std::size_t shift = bytes <= 256 ? 5 : bytes <= 512 ? 6 : 7;
    return 8 + (shift - 5) * 4 + ((bytes - 1) >> shift) - 4;
  }
  static bool is_pooled(std::size_t bytes, std::size_t alignment) noexcept {
    return bytes <= pooled_bytes && alignment <= detail::alignment_always;
  }

  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (!is_pooled(bytes, alignment)) return detail::obtain_from(large_.get(), bytes, alignment);
    void *p = hd_class_pools_take(pools_.get(), class_of(bytes));
    if (p == nullptr) detail::out_of_memory();
    return p;
  }
  void do_deallocate(void *p, std::size_t bytes, std::size_t alignment) override {
    if (!is_pooled(bytes, alignment)) return hd_free_sized(p, bytes);
    hd_class_pools_give(pools_.get(), class_of(bytes), p);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

  heddle::heap large_;
  detail::owner<hd_class_pools, hd_class_pools_destroy> pools_;
};
#endif

}  // namespace heddle
#endif
