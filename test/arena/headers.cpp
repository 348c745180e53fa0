// The public headers as C++17, and one call of each kind through them.
// SPDX-License-Identifier: MIT
#include "heddle/weaver.h"
#include "heddle/frame.h"
#include "heddle/arena.h"

int main() {
  hd_arena *arena = hd_arena_create(nullptr);
  hd_mark mark = hd_arena_mark_right(arena);
  auto *numbers = static_cast<int *>(hd_arena_alloc_aligned_right(arena, alignof(int), 10 * sizeof(int)));
  for (int i = 0; i < 10; i++) numbers[i] = i;
  bool good = numbers[9] == 9 && hd_arena_release(arena, mark) && hd_arena_destroy(arena);
  hd_frame *frame = hd_frame_create(nullptr);
  good = good && hd_frame_alloc(frame, 10) != nullptr && hd_frame_begin(frame) != nullptr;
  hd_frame_destroy(frame);
  void *weaver = Wcreate_arena(100);
  good = good && _Walloc(weaver, 8, true, 50) != nullptr && !Wdestroy_arena(weaver);
  return good ? 0 : 1;
}
