// heddle::frame: memory for one round of a loop, or for two. What frames are: frame.h.
//
//   heddle::frame frame;                        single and growing; a hd_frame_config says otherwise
//   for (;;) {
//     frame.begin();                            all of the last round is gone
//     std::vector<int, heddle::arena_allocator<int>> list(frame.arena());
//   }
//
// Failure: see failure.hpp. threads: one at a time. SPDX-License-Identifier: MIT
#ifndef HEDDLE_FRAME_HPP
#define HEDDLE_FRAME_HPP

#include "arena.hpp"
#include "frame.h"

namespace heddle {

// Owns frames. Movable, not copyable; a moved-from one is empty and may be assigned to.
class frame {
 public:
  frame() : frame(hd_frame_config{}) {}
  explicit frame(const hd_frame_config &config) : frame(try_create(config)) {
    if (!frame_) detail::creation_failed("a frame's configuration is not valid");
  }

  // An empty object where there is no memory (errno ENOMEM) or the config is bad (EINVAL).
  [[nodiscard]] static frame try_create(hd_frame_config config) noexcept {
    config.struct_bytes = sizeof config;
    return frame(adopted{}, hd_frame_create(&config));
  }

  [[nodiscard]] explicit operator bool() const noexcept { return frame_ != nullptr; }
  [[nodiscard]] hd_frame *get() const noexcept { return frame_.get(); }

  // The next round begins; what it returns is the arena of the round, also to be had by arena().
  hd_arena *begin() noexcept { return hd_frame_begin(get()); }
  [[nodiscard]] hd_arena *arena() const noexcept { return frame_->arena; }
  // nullptr with ENOMEM, or EINVAL for a bad alignment.
  [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = 16) noexcept {
    return hd_frame_alloc_aligned(get(), alignment, bytes);
  }
  template <class T>
  [[nodiscard]] arena_allocator<T> allocator() const noexcept {
    return arena_allocator<T>(arena());
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return hd_frame_count(get()); }
  [[nodiscard]] std::size_t peak() const noexcept { return hd_frame_peak(get()); }

 private:
  struct adopted {};
  frame(adopted, hd_frame *made) noexcept : frame_(made) {}
  detail::owner<hd_frame, hd_frame_destroy> frame_;
};

}  // namespace heddle
#endif
