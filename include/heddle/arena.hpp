// Arenas in C++: owners, points that end with their scope, and allocators over them. What arenas are: arena.h.
//
//   heddle::arena arena;                                  growing; heddle::arena(capacity_bytes) has a fixed room
//   {
//     heddle::mark mark(arena);                           all that is laid from here on goes with the scope
//     std::vector<int, heddle::arena_allocator<int>> numbers(arena.get());
//     heddle::arena_resource resource(arena);
//     std::pmr::string text("laid in the arena", &resource);
//   }
//
// Nothing is given back by itself: a vector that grows leaves its old memory behind until a mark goes or the arena is reset, so reserve
// where the size is known. Objects whose destructor matters must be gone before their memory is.
// Failure: see failure.hpp. threads: one at a time, but for arenas whose config says `shared`.
//
// SPDX-License-Identifier: MIT
#ifndef HEDDLE_ARENA_HPP
#define HEDDLE_ARENA_HPP

#include <type_traits>
#include <utility>

#include "arena.h"
#include "failure.hpp"

namespace heddle {

// Which of an arena's two stacks.
enum class side : bool { left, right };

namespace detail {

// nullptr where there is no room.
inline void *lay(hd_arena *arena, side on, std::size_t alignment, std::size_t bytes) noexcept {
  return on == side::left ? hd_arena_alloc_aligned(arena, alignment, bytes) : hd_arena_alloc_aligned_right(arena, alignment, bytes);
}

}  // namespace detail

// Owns an arena. Movable, not copyable; a moved-from arena is empty and may be assigned to.
class arena {
 public:
  arena() : arena(hd_arena_config{}) {}
  explicit arena(std::size_t capacity_bytes, const char *name = nullptr) : arena(config_of(capacity_bytes, name)) {}
  explicit arena(const hd_arena_config &config) : arena(try_create(config)) {
    if (!arena_) detail::creation_failed("an arena's configuration is not valid");
  }

  // An empty arena where there is no memory (errno ENOMEM) or the config is bad (EINVAL).
  [[nodiscard]] static arena try_create(hd_arena_config config) noexcept {
    config.struct_bytes = sizeof config;
    return arena(adopted{}, hd_arena_create(&config));
  }

  // Takes over what hd_arena_create made.
  [[nodiscard]] static arena adopt(hd_arena *made) noexcept { return arena(adopted{}, made); }

  [[nodiscard]] explicit operator bool() const noexcept { return arena_ != nullptr; }
  [[nodiscard]] hd_arena *get() const noexcept { return arena_.get(); }
  [[nodiscard]] hd_arena *release() noexcept { return arena_.release(); }

  // A block, or nullptr with ENOMEM, or EINVAL for a bad alignment.
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = 16, side on = side::left) noexcept {
    return detail::lay(get(), on, alignment, bytes);
  }

  // An object whose destructor nobody needs to call.
  template <class T, class... Arguments>
  [[nodiscard]] T *make(Arguments &&...arguments) {
    static_assert(std::is_trivially_destructible_v<T>, "an arena calls no destructors");
    void *p = allocate(sizeof(T), alignof(T));
    if (p == nullptr) detail::out_of_memory();
    return ::new (p) T(std::forward<Arguments>(arguments)...);
  }

  // An array of count such objects, value-initialised.
  template <class T>
  [[nodiscard]] T *make_array(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>, "an arena calls no destructors");
    T *array = static_cast<T *>(allocate(detail::bytes_of<T>(count), alignof(T)));
    if (array == nullptr) detail::out_of_memory();
    std::uninitialized_value_construct_n(array, count);
    return array;
  }

  void reset() noexcept { hd_arena_reset(get()); }
  void reset(side on) noexcept { on == side::left ? hd_arena_reset_left(get()) : hd_arena_reset_right(get()); }
  void trim(std::size_t keep_bytes = 0) noexcept { hd_arena_trim(get(), keep_bytes); }

  [[nodiscard]] std::size_t remaining() const noexcept { return hd_arena_remaining(get()); }
  [[nodiscard]] bool owns(const void *p) const noexcept { return arena_ && hd_arena_owns(get(), p); }
  [[nodiscard]] hd_arena_stats stats() const noexcept {
    hd_arena_stats stats{};
    stats.struct_bytes = sizeof stats;
    hd_arena_stats_get(get(), &stats);
    return stats;
  }

 private:
  struct adopted {};
  arena(adopted, hd_arena *made) noexcept : arena_(made) {}

  static hd_arena_config config_of(std::size_t capacity_bytes, const char *name) noexcept {
    hd_arena_config config{};
    config.capacity_bytes = capacity_bytes;
    config.name = name;
    return config;
  }

  detail::owner<hd_arena, hd_arena_destroy> arena_;
};

#if HEDDLE_PMR
// std::pmr over an arena: monotonic, deallocate does nothing. Two are equal when they are the same object.
class arena_resource final : public std::pmr::memory_resource {
 public:
  // An arena of its own: growing, or as the config says.
  arena_resource() : owned_(), arena_(owned_.get()) {}
  explicit arena_resource(const hd_arena_config &config) : owned_(config), arena_(owned_.get()) {}

  // An arena of someone else's, which must outlive it; hd_arena_thread() is one that always does.
  explicit arena_resource(hd_arena *arena, side on = side::left) noexcept
      : owned_(heddle::arena::adopt(nullptr)), arena_(arena), side_(on) {}
  explicit arena_resource(const heddle::arena &arena, side on = side::left) noexcept : arena_resource(arena.get(), on) {}

  arena_resource(const arena_resource &) = delete;
  arena_resource &operator=(const arena_resource &) = delete;

  [[nodiscard]] hd_arena *arena() const noexcept { return arena_; }
  [[nodiscard]] heddle::side side() const noexcept { return side_; }

  // Takes back everything on its side.
  void release() noexcept { side_ == heddle::side::left ? hd_arena_reset_left(arena_) : hd_arena_reset_right(arena_); }

 private:
  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    void *p = detail::lay(arena_, side_, alignment, bytes);
    if (p == nullptr) detail::out_of_memory();
    return p;
  }
  void do_deallocate(void *, std::size_t, std::size_t) override {}
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

  heddle::arena owned_;
  hd_arena *arena_;
  heddle::side side_ = heddle::side::left;
};
#endif

// An allocator for containers that live no longer than an arena. It goes along when a container is moved or swapped, and stays where
// a container is copied to; two are equal when arena and side are.
template <class T>
class arena_allocator {
 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::false_type;

  constexpr arena_allocator(hd_arena *arena, heddle::side on = heddle::side::left) noexcept : arena_(arena), side_(on) {}
  template <class U>
  constexpr arena_allocator(const arena_allocator<U> &other) noexcept : arena_(other.arena()), side_(other.side()) {}

  [[nodiscard]] T *allocate(size_type count) {
    void *p = detail::lay(arena_, side_, alignof(T), detail::bytes_of<T>(count));
    if (p == nullptr) detail::out_of_memory();
    return static_cast<T *>(p);
  }
  void deallocate(T *, size_type) noexcept {}

  [[nodiscard]] constexpr hd_arena *arena() const noexcept { return arena_; }
  [[nodiscard]] constexpr heddle::side side() const noexcept { return side_; }

 private:
  hd_arena *arena_;
  heddle::side side_;
};

template <class T, class U>
constexpr bool operator==(const arena_allocator<T> &a, const arena_allocator<U> &b) noexcept {
  return a.arena() == b.arena() && a.side() == b.side();
}
template <class T, class U>
constexpr bool operator!=(const arena_allocator<T> &a, const arena_allocator<U> &b) noexcept {
  return !(a == b);
}

// A memory point that goes with its scope, and takes all with it that was laid later. Movable, not copyable.
class mark {
 public:
  explicit mark(hd_arena *arena, side on = side::left) : arena_(arena), mark_(hd_arena_mark_on(arena, on == side::right)) {
    if (mark_.point == nullptr) detail::out_of_memory();
  }
  explicit mark(const heddle::arena &arena, side on = side::left) : mark(arena.get(), on) {}
#if HEDDLE_PMR
  explicit mark(const arena_resource &resource) : mark(resource.arena(), resource.side()) {}
#endif

  mark(mark &&other) noexcept : arena_(std::exchange(other.arena_, nullptr)), mark_(other.mark_) {}
  mark &operator=(mark &&other) noexcept {
    if (this != &other) {
      release();
      arena_ = std::exchange(other.arena_, nullptr);
      mark_ = other.mark_;
    }
    return *this;
  }
  ~mark() { release(); }

  // Takes the point away now. false: it was gone, for example with an earlier one.
  bool release() noexcept {
    hd_arena *from = std::exchange(arena_, nullptr);
    return from != nullptr && hd_arena_release(from, mark_);
  }
  // Takes away what was laid after the point, and keeps the point: for the next round of a loop. false: the point was gone.
  bool rewind() noexcept { return arena_ != nullptr && hd_arena_rewind(arena_, mark_); }
  // Leaves the point in the arena and hands it over.
  hd_mark dismiss() noexcept {
    arena_ = nullptr;
    return mark_;
  }

 private:
  hd_arena *arena_;
  hd_mark mark_;
};

}  // namespace heddle
#endif
