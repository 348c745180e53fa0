// The owners of heaps, arenas, marks, frames and pools: they end what they own once, move without it, and call what they stand for.
// SPDX-License-Identifier: MIT
#include <heddle/heddle.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "../support/support.h"

namespace {

template <class T>
constexpr bool owns_alone =
    std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> && !std::is_copy_constructible_v<T> &&
    !std::is_copy_assignable_v<T> && std::is_nothrow_destructible_v<T>;
static_assert(owns_alone<heddle::heap> && owns_alone<heddle::arena> && owns_alone<heddle::mark> && owns_alone<heddle::frame>);
static_assert(owns_alone<heddle::pool> && owns_alone<heddle::object_pool<std::string>>);
static_assert(!std::is_move_constructible_v<heddle::pool_resource> && !std::is_copy_constructible_v<heddle::arena_resource>);
static_assert(sizeof(heddle::heap) == sizeof(void *) && sizeof(heddle::arena) == sizeof(void *) && sizeof(heddle::pool) == sizeof(void *));

size_t objects() {
  hd_stats stats{};
  stats.struct_bytes = sizeof stats;
  TS_CHECK(hd_stats_get(&stats), "statistics");
  return stats.object_count;
}

size_t heaps() {
  hd_stats stats{};
  stats.struct_bytes = sizeof stats;
  TS_CHECK(hd_stats_get(&stats), "statistics");
  return stats.heap_count;
}

void check_heap() {
  size_t before = heaps();
  {
    heddle::heap heap("limited", 4 << 20);
    void *p = heap.allocate(1000);
    TS_CHECK(p != nullptr && heap.owns(p) && hd_heap_of(p) == heap.get(), "a block of the heap");
    p = heap.reallocate(p, 5000);
    TS_CHECK(heap.owns(p) && reinterpret_cast<uintptr_t>(heap.allocate(10, 512)) % 512 == 0, "resized, aligned");
    TS_CHECK(heap.stats().live_count == 2 && heap.allocate(8 << 20) == nullptr, "two blocks, and a limit");
    heap.deallocate(p);
    TS_CHECK(heap.stats().live_count == 1, "one block");
    heddle::heap moved(std::move(heap));
    TS_CHECK(!heap && moved && moved.stats().live_count == 1, "a moved heap");
    moved.reset();
    TS_CHECK(moved.stats().live_count == 0, "a reset heap");
    heap = heddle::heap("second");
    moved = std::move(heap);
    TS_CHECK(moved && !heap && heaps() == before + 1, "assignment ends the old heap");
    heddle::heap adopted = heddle::heap::adopt(moved.release());
    TS_CHECK(!moved && adopted.allocate(1) != nullptr, "adopted");
  }
  TS_CHECK(heaps() == before, "%zu heaps instead of %zu", heaps(), before);
  alignas(64) static unsigned char room[2 << 20];
  heddle::heap placed = heddle::heap::in(room, sizeof room);
  auto *p = static_cast<unsigned char *>(placed.allocate(100));
  TS_CHECK(p >= room && p < room + sizeof room, "a heap in memory of ours");
}

void check_arena() {
  size_t before = objects();
  {
    heddle::arena arena(1 << 20, "fixed");
    TS_CHECK(objects() == before + 1 && arena.remaining() == 1 << 20, "a fixed arena");
    struct point { int x, y; };
    point *p = arena.make<point>(point{1, 2});
    long *zeros = arena.make_array<long>(100);
    TS_CHECK(p->x == 1 && p->y == 2 && zeros[0] == 0 && zeros[99] == 0 && arena.owns(zeros), "made objects");
    void *right = arena.allocate(100, 64, heddle::side::right);
    TS_CHECK(right > zeros && reinterpret_cast<uintptr_t>(right) % 64 == 0, "the right stack");
    TS_CHECK(arena.allocate(2 << 20) == nullptr && errno == ENOMEM, "too much");
    TS_CHECK(arena.allocate(1, 3) == nullptr && errno == EINVAL, "a bad alignment");
    arena.reset(heddle::side::right);
    TS_CHECK(arena.stats().used_right == 0 && arena.stats().used_left != 0, "one side reset");
    arena.reset();
    arena.trim();
    heddle::arena moved(std::move(arena));
    TS_CHECK(!arena && moved && moved.stats().used_left == 0, "a moved arena");
    arena = heddle::arena::adopt(moved.release());
    TS_CHECK(arena && !moved, "adopted");
  }
  TS_CHECK(objects() == before, "%zu objects instead of %zu", objects(), before);
}

void check_marks() {
  heddle::arena arena;
  auto used = [&] { return arena.stats().used_left; };
  size_t start = used();
  heddle::mark outer(arena);
  size_t after_outer = used();
  {
    heddle::mark inner(arena);
    TS_CHECK(arena.allocate(1000) != nullptr && used() > after_outer + 1000, "laid");
    TS_CHECK(inner.rewind() && used() < after_outer + 1000, "rewound");
    heddle::mark moved(std::move(inner));
    TS_CHECK(!inner.release() && moved.release() && used() == after_outer && !moved.release(), "released once");
  }
  heddle::mark gone(arena);
  TS_CHECK(outer.release() && used() == start, "an outer point takes the inner ones with it");
  TS_CHECK(!gone.rewind() && !gone.release(), "a point that is gone");
  hd_mark left_behind = heddle::mark(arena).dismiss();
  TS_CHECK(used() > start && hd_arena_release(arena.get(), left_behind), "dismissed");
  heddle::mark first(arena), second(arena, heddle::side::right);
  TS_CHECK(arena.allocate(1, 1, heddle::side::right) != nullptr, "laid on the right");
  second = std::move(first);
  TS_CHECK(arena.stats().used_right == 0 && used() > start, "assignment releases the old point");
}

void check_frame() {
  hd_frame_config config{};
  config.doubled = true;
  heddle::frame frame(config);
  std::vector<int, heddle::arena_allocator<int>> last(frame.allocator<int>());
  for (int round = 0; round < 20; round++) {
    std::vector<int, heddle::arena_allocator<int>> now(1000, round, frame.allocator<int>());
    TS_CHECK(round == 0 || (last.size() == 1000 && last[999] == round - 1), "round %d: the last one is still there", round);
    TS_CHECK(frame.allocate(10, 128) != nullptr && frame.count() == uint64_t(round) + 1, "round %d", round);
    last = std::move(now);
    TS_CHECK(frame.begin() == frame.arena(), "round %d: the arena", round);
  }
  TS_CHECK(frame.peak() >= 4000 && frame.peak() < 8000, "a peak of %zu", frame.peak());
  heddle::frame moved(std::move(frame));
  TS_CHECK(!frame && moved.arena() != nullptr, "moved frames");
}

int living;
struct counted {
  int value;
  explicit counted(int v) : value(v) { living++; }
  counted(const counted &) = delete;
  ~counted() { living--; }
};

void check_pools() {
  size_t before = objects();
  {
    heddle::pool pool(24, "items");
    void *a = pool.take(), *b = pool.take_zeroed();
    TS_CHECK(a != b && pool.owns(a) && pool.stats().used == 2 && std::memcmp(b, "\0\0\0\0\0\0\0", 8) == 0, "two items");
    pool.give(a);
    heddle::pool moved(std::move(pool));
    TS_CHECK(!pool && !moved.owns(a) && moved.owns(b), "a moved pool");
    TS_CHECK(moved.destroy() == 1 && !moved, "destroy says what is left");

    heddle::object_pool<counted> objects_pool("counted");
    counted *one = objects_pool.make(1);
    {
      auto two = objects_pool.make_unique(2);
      TS_CHECK(living == 2 && one->value == 1 && two->value == 2 && objects_pool.items().owns(two.get()), "two objects");
    }
    TS_CHECK(living == 1 && objects_pool.size() == 1, "one object");
    for (int i = 0; i < 1000; i++) TS_CHECK(objects_pool.make(i)->value == i, "object %d", i);
    objects_pool.destroy(one);
    objects_pool.destroy(nullptr);
    TS_CHECK(living == 1000, "%d objects", living);
    heddle::object_pool<counted> target;
    (void)target.make(5);
    target = std::move(objects_pool);
    TS_CHECK(living == 1000 && target.size() == 1000, "assignment ends the old objects: %d", living);
    target.clear();
    TS_CHECK(living == 0 && target.size() == 0, "cleared");
    (void)target.make(6);
    struct alignas(128) aligned { char bytes[200]; };
    heddle::object_pool<aligned> wide;
    for (int i = 0; i < 10; i++) TS_CHECK(reinterpret_cast<uintptr_t>(wide.make()) % 128 == 0, "aligned object %d", i);
  }
  TS_CHECK(living == 0, "%d objects outlived their pool", living);
  TS_CHECK(objects() == before, "%zu regions instead of %zu", objects(), before);
}

}  // namespace

int main() {
  check_heap();
  check_arena();
  check_marks();
  check_frame();
  check_pools();
  std::unique_ptr<char, heddle::deleter> copy(hd_strdup("text"));
  TS_CHECK(std::strcmp(copy.get(), "text") == 0, "a C string with an owner");
  ts_print(1, "owners: ok\n");
  return 0;
}
