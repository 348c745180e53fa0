"""The seeded faults: each is one wrong line in one source file, and the layer that has to notice.

`layer` is the first one, in the order of seeded_layers.py, that reports the fault; the gate runs it alone. The old text stands in the
file exactly once.

SPDX-License-Identifier: MIT
"""
from typing import NamedTuple


class Fault(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    layer: str


SIZES = [
    Fault("a size one above a class gets that class", "core/sizeclass.h",
          "return bytes == 0 ? 1 : (unsigned)((bytes + 15) >> 4);", "return bytes == 0 ? 1 : (unsigned)((bytes + 14) >> 4);", "unit.sizeclass"),
    Fault("a medium edge size gets the next class", "core/sizeclass.h",
          "(unsigned)((bytes - 1) >> (doubling + 7));", "(unsigned)(bytes >> (doubling + 7));", "unit.sizeclass"),
    Fault("the inverse is right in 32 bits only", "base/bits.h", "round < 4; round++", "round < 3; round++", "unit.page"),
    Fault("a number with a suffix may overflow", "base/text.c", "    if (number > UINT64_MAX >> shift) return false;\n", "", "unit.text"),
    Fault("a page holds one block too many", "core/page.c", "(((size_t)units << HD_UNIT_SHIFT) / block_bytes)",
          "((((size_t)units << HD_UNIT_SHIFT) + block_bytes - 1) / block_bytes)", "unit.page"),
    Fault("the alignment's class is half of it", "core/alloc.c", "(hdi_sizeclass_bytes(i) & (alignment - 1)) == 0",
          "(hdi_sizeclass_bytes(i) & (alignment / 2 - 1)) == 0", "unit.alloc"),
    Fault("a large block is not aligned", "core/large.c", "hd_max(alignment >> HD_UNIT_SHIFT, 1), zeroed)", "1, zeroed)", "unit.alloc"),
    Fault("a large block's usable size is a page too big", "core/large.h", "return hd_round_up(bytes, hdi_os.page_bytes);",
          "return hd_round_up(bytes, hdi_os.page_bytes) + hdi_os.page_bytes;", "unit.alloc"),
]

CLAIMS = [
    Fault("the byte behind the last block counts as free", "core/page.c",
          "  memset((void *)(map + capacity), HD_BLOCK_NONE, hd_round_up(capacity, 64) - capacity);\n", "", "unit.page"),
    Fault("a map goes back with its end still written", "core/page.c",
          "  memset((void *)(page->map + from), HD_BLOCK_FREE, map_bytes(page) - from);\n", "", "unit.page"),
    Fault("a virgin block is handed out twice", "core/claim.h", "  page->fresh += count;\n", "  page->fresh += count - (count > 1);\n", "unit.takeover"),
    Fault("virgin blocks are claimed as touched ones", "core/claim.h",
          "return touched >= 64 ? bits : bits & hd_low_mask(touched);", "return (void)touched, bits;", "unit.page"),
    Fault("claimed again beyond what was handed out", "core/claim.h", "  if (touched < 64) bits &= ~(UINT64_MAX << touched);\n", "", "unit.takeover"),
    Fault("a full group counts one block less", "core/claim.h", "(bits == UINT64_MAX ? 64 : hd_bit_count(bits)));",
          "(bits == UINT64_MAX ? 63 : hd_bit_count(bits)));", "unit.heap"),
    Fault("a block claimed again counts as zeroed", "core/claim.h",
          "page->credit + count);\n  class->zeroed = false;\n", "page->credit + count);\n", "unit.page"),
    Fault("the free that runs a page out is not noticed", "core/alloc.h", "subl $1, %[credit]", "subl $0, %[credit]", "unit.takeover"),
    Fault("a page that becomes PARTIAL forgets its rest", "core/heap.c",
          "  hd_store_owned(&page->credit, hdi_page_used(page));\n  hd_store_owned(&page->state, HD_PAGE_PARTIAL);",
          "  hd_store_owned(&page->state, HD_PAGE_PARTIAL);", "unit.takeover"),
    Fault("remote frees of a FULL page are not taken off", "core/heap.c",
          "hd_store_owned(&page->credit, used - count);", "hd_store_owned(&page->credit, used);", ""),
    Fault("what is unclaimed stays counted", "core/heap.c", "page->credit - hd_bit_count(slot->bits));", "page->credit);", ""),
    Fault("a page that takes over may run out at once", "core/heap.c",
          "page->rest + 1 + hdi_claim_count(bits)", "page->rest + hdi_claim_count(bits)", "unit.takeover"),
    Fault("a released page stays in its class's count", "core/heap.c",
          "  heap->class[page->class_index].page_count--;\n", "", "unit.takeover"),
]

ZEROES = [
    Fault("every page counts as clean", "core/page.c", "  page->zeroed = zeroed;\n", "  page->zeroed = true;\n", "unit.heap"),
    Fault("the middle of a short block is not cleared", "core/alloc.c", "  *(hd_pair *)(p + bytes - 32) = zero;\n", "", "unit.alloc"),
    Fault("long blocks are not cleared", "core/alloc.c",
          "if (bytes < ZERO_BY_PURGE || heap->own_space || !hdi_os_purge(p, whole)) memset(p, 0, whole);",
          "if (bytes < ZERO_BY_PURGE) memset(p, 0, whole);", "unit.alloc"),
    Fault("a dirty run is handed out as clean", "core/space.c",
          "*zeroed = kind == HD_UNIT_CLEAN;\n  return carve", "*zeroed = true;\n  return carve", "unit.heap"),
    Fault("the end of a shrunk block counts as clean", "core/large.c",
          "hdi_space_give(space_of(first), first + wanted, units - wanted, true);",
          "hdi_space_give(space_of(first), first + wanted, units - wanted, false);", "unit.alloc"),
    Fault("what was copied away counts as clean", "core/large.c", "give(NULL, first, first->run_units, copied);",
          "give(NULL, first, first->run_units, false);", ""),
    Fault("only a block's usable part is moved", "core/large.c",
          "size_t old_bytes = (size_t)first->run_units << HD_UNIT_SHIFT;",
          "size_t old_bytes = hd_round_up(first->block_bytes, HD_UNIT_BYTES);", ""),
    Fault("the system may keep what was purged", "os/os_linux.c",
          "bool hdi_os_purge(void *address, size_t bytes) { return advise(address, bytes, MADV_DONTNEED); }",
          "bool hdi_os_purge(void *address, size_t bytes) { return advise(address, bytes, 8); }", "unit.page"),
    Fault("recalloc clears from the old usable size", "core/api.c", "size_t from = block == p ? old : hd_min(old, total);",
          "size_t from = old;", "unit.alloc"),
    Fault("metadata is not cleared when taken again", "core/store.c", "  item->next = NULL;\n  if (is_purged(bin)) store.idle -=",
          "  if (is_purged(bin)) store.idle -=", "unit.store"),
]

RESIZING = [
    Fault("realloc keeps all but the odd end", "core/alloc.c", "  memcpy(target, p, hd_min(old, bytes));\n",
          "  memcpy(target, p, hd_min(old, bytes) & ~(size_t)7);\n", "unit.alloc"),
    Fault("a block may stay that is a byte too short", "core/alloc.c", "return bytes <= old && (", "return bytes <= old + 1 && (", "unit.alloc"),
    Fault("expand promises a byte too many", "core/alloc.c", "return bytes <= unit->block_bytes ? p : NULL;",
          "return bytes <= unit->block_bytes + 1 ? p : NULL;", "model"),
    Fault("errno of a shrink that had no memory", "core/alloc.c", "    errno = kept; /* to shrink needs no memory */\n", "", "model"),
    Fault("a large block that moves loses its end", "core/large.c",
          "memcpy(to, first->base, hd_min(first->block_bytes, bytes));", "memcpy(to, first->base, hd_min(first->block_bytes, bytes) / 2);", "unit.alloc"),
    Fault("a large block shrinks by one unit more", "core/large.c",
          "hdi_space_give(space_of(first), first + wanted, units - wanted, true);",
          "hdi_space_give(space_of(first), first + wanted - 1, units - wanted + 1, true);", "unit.heap"),
    Fault("what a large block gives back stays on the heap's account", "core/large.c",
          "    refund(first, units - wanted);\n    hdi_space_give", "    hdi_space_give", "unit.heap"),
    Fault("a block grows past its heap's limit", "core/large.c",
          "  if (heap->limit_units != 0 && more > heap->limit_units - heap->held_units) return false;\n", "", "unit.heap"),
    Fault("a run grows into a shorter one", "core/space.c",
          "(kind == HD_UNIT_DIRTY || kind == HD_UNIT_CLEAN) && next->run_units >= more)",
          "(kind == HD_UNIT_DIRTY || kind == HD_UNIT_CLEAN))", "unit.space"),
    Fault("a run grows at the top without a look whether it may", "core/space.c",
          "done = space->unit_count - top >= more && commit_to(space, top + more) && hd_swap_if",
          "done = space->unit_count - top >= more && hd_swap_if", "growth"),
    Fault("aligned_realloc copies the new length", "core/api.c", "  memcpy(block, p, hd_min(old, bytes));\n",
          "  memcpy(block, p, bytes);\n", ""),
]

ERRORS = [
    Fault("out of memory is EAGAIN", "core/alloc.c", "static void *no_memory(void) {\n  errno = ENOMEM;",
          "static void *no_memory(void) {\n  errno = EAGAIN;", "unit.heap"),
    Fault("a bad alignment is ENOMEM", "core/alloc.c", "  errno = EINVAL;\n", "  errno = ENOMEM;\n", "unit.alloc"),
    Fault("calloc's product may wrap", "core/alloc.c",
          "if (HD_UNLIKELY(!hd_multiply(count, bytes, &total))) return no_memory();", "total = count * bytes;", "unit.alloc"),
    Fault("posix_memalign takes alignments below a pointer's", "core/api.c", "alignment % sizeof(void *) != 0 || ", "", "unit.alloc"),
    Fault("pvalloc's size may wrap", "override/malloc_elf.c", "if (bytes > PTRDIFF_MAX - page) {", "if (false) {", "limits.process"),
    Fault("pvalloc does not round up", "override/malloc_elf.c", "hd_round_up(hd_max(bytes, 1), page)", "hd_max(bytes, 1)", "symbols"),
    Fault("memalign rounds down", "override/malloc_elf.c", "while (rounded < alignment && ", "while (rounded * 2 <= alignment && ", "symbols"),
    Fault("reallocarray's product may wrap", "override/libc_extras.c",
          "if (hd_multiply(count, bytes, &total)) return realloc(p, total);",
          "if (hd_multiply(count, bytes, &total) || true) return realloc(p, total);", "limits.process"),
    Fault("strndup does not end its copy", "override/libc_extras.c", "  copy[length] = 0;\n", "", "limits.process"),
    Fault("a nothrow new throws", "override/cxx_elf.c", "return hdi_alloc(bytes);", "return new_or_throw(bytes);", "operators"),
    Fault("children keep what the option takes from them", "override/start_elf.c", "bool ours = memmem(at, length, \"libheddle\", 9) != NULL;",
          "bool ours = memmem(at, length, \"libheddle\", 9) == NULL;", "options"),
    Fault("a limit stops one unit early", "core/space.c", "used + units <= limit >> HD_UNIT_SHIFT;", "used + units < limit >> HD_UNIT_SHIFT;", ""),
    Fault("an option's value may be out of range", "core/options.c", "return *value >= item->min && *value <= item->max;", "return true;", "unit.options"),
    Fault("an option that is fixed can be changed", "core/options.c", "  if (running && !item->late) return HD_ERR_LATE;\n", "", "unit.options"),
]

MISUSE = [
    Fault("a double free is not looked for", "core/alloc.h",
          "  if (HD_UNLIKELY(hd_load_stable(uint8_t, state) != HD_BLOCK_LIVE)) {\n    hdi_free_dead(unit, state);\n    return;\n  }\n"
          "  if (HD_UNLIKELY(hdi_free_local(unit, state))) hdi_free_event(heap, unit);\n}\n\n/* ---- heaps with one user",
          "  if (HD_UNLIKELY(hdi_free_local(unit, state))) hdi_free_event(heap, unit);\n}\n\n/* ---- heaps with one user", "misuse"),
    Fault("another thread's double free is not looked for", "core/alloc.c",
          "  hd_block_state *state = unit->map + index;\n  if (HD_UNLIKELY(hd_load_relaxed(state) != HD_BLOCK_LIVE)) {\n    hdi_free_dead(unit, state);\n"
          "    return;\n  }\n  hd_unit *head = unit->head;\n  /* The cache line",
          "  hd_block_state *state = unit->map + index;\n  hd_unit *head = unit->head;\n  /* The cache line", "misuse"),
    Fault("an interior pointer into a large block is accepted", "core/alloc.c", "if (HD_UNLIKELY(unit->base != p || hd_load_relaxed",
          "if (HD_UNLIKELY(hd_load_relaxed", "misuse"),
    Fault("a pointer that was never handed out goes to the next allocator", "core/alloc.c",
          "  if (hdi_space_covers(p)) {\n    hdi_report_misuse(\"free\", p, NULL);\n    return;\n  }\n", "", "misuse"),
    Fault("realloc takes a freed block", "core/alloc.c",
          "return known && hd_load_relaxed(&unit->map[index]) == HD_BLOCK_LIVE ? unit : NULL;", "return known ? unit : NULL;", "misuse"),
    Fault("heap_realloc takes another heap's block", "core/alloc.c",
          "if (unit == NULL || hdi_heap_explicit_owner(unit) != heap) {", "if (unit == NULL) {", "misuse"),
    Fault("the pointer of a misfit is not found again", "core/alloc.c", "hd_rotate_right(index, 64u - unit->shift)",
          "hd_rotate_right(index, unit->shift)", "model"),
    Fault("a virgin block is called a double free", "core/report.c", "if (kind == HD_UNIT_PAGE && index >= head->fresh) {", "if (index > head->capacity) {", "misuse"),
]

RUNS = [
    Fault("a run is not joined with the one on its left", "core/space.c",
          "if (at > 0 && hd_load_relaxed(&first[-1].kind) == kind) {", "if (at == SIZE_MAX) {", "unit.region"),
    Fault("a run joined with the one on its right keeps its length", "core/space.c", "      units += right_units;\n", "", "unit.region"),
    Fault("what lies before an aligned run is lost", "core/space.c", "  if (skip > 0) insert(space, run, skip, kind, stamp);\n", "", "unit.space"),
    Fault("a fixed space has no end", "core/space.c",
          "    if (units > space->unit_count - top || skip > space->unit_count - top - units) return NULL;\n", "", "unit.heap"),
    Fault("a run can be taken while it is purged", "core/space.c", "      detach(space, run);\n      return run;", "      return run;", "unit.region"),
    Fault("a space that is gone is still found", "core/api.c", "  if (own_space) hdi_space_retract(space);\n", "", "unit.heap"),
    Fault("destroyed heaps leave their places taken", "core/space.c", "    set_place(here, NULL);\n", "", ""),
    Fault("a heap's limit stops one unit early", "core/heap.c", "units > heap->limit_units - heap->held_units) return NULL;",
          "units >= heap->limit_units - heap->held_units) return NULL;", "unit.heap"),
    Fault("a run leaves a heap's list in one direction", "core/heap.c",
          "  if (first->run_next != 0) run_at(heap, first->run_next)->run_prev = first->run_prev;\n", "", "unit.heap"),
    Fault("a reset heap's maps go back as they are", "core/heap.c",
          "      for (uint32_t i = 0; i < first->capacity; i++) hd_store_relaxed(&first->map[i], HD_BLOCK_FREE);\n", "", "model"),
    Fault("a reset heap keeps its mail", "core/heap.c", "  hd_store_relaxed(&heap->inbox, NULL);\n", "", ""),
    Fault("a heap made anew has the last one's limit", "core/thread.c", "  heap->held_units = heap->limit_units = 0;\n", "", ""),
    Fault("the longest cached runs stay", "core/heap.c", "units <= HD_CACHE_RUN && heap->cached_units > 0;",
          "units < HD_CACHE_RUN && heap->cached_units > 0;", ""),
    Fault("the cache of runs has no bound", "core/heap.c", " && heap->cached_units + units <= HD_CACHE_UNITS) {", ") {", "recycle"),
    Fault("a heap's memory in too small a place", "core/api.c", "config->memory_bytes < MEMORY_MIN || ", "", "limits"),
    Fault("an item is listed twice after a purge of the store", "core/store.c", "at > 0; at -= bytes) push", "at + bytes > 0 && at < PAGE; at -= bytes) push", "unit.store"),
    Fault("metadata is purged while in use", "core/store.c", "while (end < count && store.free_kib[end] == PAGE >> PURGE_SHIFT) end++;",
          "while (end < count && store.free_kib[end] >= 3) end++;", "unit.store"),
]

RETURN = [
    Fault("a page's last block is not looked at before purging", "core/page.c", "hd_min((at + step - 1) / page->block_bytes + 1, page->capacity);",
          "hd_min((at + step - 1) / page->block_bytes, page->capacity);", "unit.page"),
    Fault("the purge delay is ignored", "core/purge.c", "hdi_space_tick() - delay, SIZE_MAX", "hdi_space_tick(), SIZE_MAX", ""),
    Fault("free runs never go back", "core/purge.c",
          "if (hd_load_owned(&hdi_options.purge)) hdi_space_purge(&hdi_space, hdi_space_tick() - delay, SIZE_MAX);", "(void)delay;", ""),
    Fault("collect keeps nothing", "core/purge.c", "dirty - keep_units);", "dirty);", ""),
    Fault("what was freed in this tick is not collected", "core/space.c", "(int32_t)(until - run->stamp) >= 0;", "(int32_t)(until - run->stamp) > 0;", "unit.region"),
    Fault("collect leaves what it released in caches", "core/purge.c",
          "  if (hold_all(self) || self != NULL) settle_held(); /* once more", "  (void)hold_all(self); /* once more", ""),
    Fault("a small heap has a helper", "core/purge.h", "HD_PURGE_MIN_UNITS = 160", "HD_PURGE_MIN_UNITS = 1", ""),
    Fault("purging is on whatever the option says", "core/purge.c", "if (!hd_load_owned(&hdi_options.purge) || now -", "if (now -", ""),
    Fault("nobody looks for memory before giving up", "core/alloc.c", "  hdi_purge_collect(0);\n  void *p = take_gated", "  void *p = take_gated", ""),
    Fault("a count that makes room for another is lost", "core/remote.c",
          "    if (entry->page != NULL) announce(entry->page, entry->limit - entry->left);\n", "", ""),
    Fault("a flush tells more than was counted", "core/remote.c", "    entry->page = NULL;\n    announce(page, entry->limit - entry->left);",
          "    entry->page = NULL;\n    announce(page, entry->limit);", "unit.takeover"),
    Fault("a free of a one-user heap's block is not announced", "core/alloc.c", "  hdi_remote_count_slow(&hdi_heap_empty, head);\n", "  (void)head;\n", ""),
    Fault("huge pages are asked for whatever the option says", "core/space.c", " && hdi_options.thp == HD_THP_AUTO;", ";", ""),
]

THREADS = [
    Fault("a block is written after it is free", "core/alloc.c", '  if (unit->block_bytes <= WRITE_MAX) *(volatile uintptr_t *)p = 0;\n  hd_store_release(state, HD_BLOCK_FREE); /* R1: pairs with the fence of a claim */\n  if (HD_UNLIKELY(hdi_heap_is_empty(self))) count_without_heap(head);\n  else hdi_remote_count(self, head);\n', '  hd_store_release(state, HD_BLOCK_FREE); /* R1: pairs with the fence of a claim */\n  if (HD_UNLIKELY(hdi_heap_is_empty(self))) count_without_heap(head);\n  else hdi_remote_count(self, head);\n  if (unit->block_bytes <= WRITE_MAX) *(volatile uintptr_t *)p = 0;\n', ""),
    Fault("a large block is freed outside the gate", "core/alloc.c",
          "    hdi_gate_enter(self);\n    hdi_large_free(self, unit);\n    hdi_gate_leave(self);\n", "    hdi_large_free(self, unit);\n", ""),
    Fault("a thread's cached runs stay when it ends", "core/thread.c",
          "  hdi_heap_drop_cache(heap);\n  bool waits", "  bool waits", ""),
    Fault("an orphan behind the last one is lost", "core/thread.c", "    if (last) pool.last_orphan->next_orphan = heap;\n", "", ""),
    Fault("the heaps of lost threads stay lost in a child", "core/thread.c",
          "      fork_orphan(heap);\n", "      hd_store_relaxed(&heap->life, (uint32_t)HD_HEAP_DEAD);\n", ""),
    Fault("a child finds the store locked", "core/thread.c", "  hdi_store_fork(step);\n", "  if (step != HD_FORK_CHILD) hdi_store_fork(step);\n", ""),
    Fault("a child believes that it is forking", "core/thread.c", "  hdi_lock_fork_child();\n", "", ""),
    Fault("a lock does not know who waited for it", "core/lock.c",
          "  hd_store_relaxed(&lock->holder, __builtin_thread_pointer());\n  return true;\n}\n\n/* A fork handler", "  return true;\n}\n\n/* A fork handler", ""),
    Fault("nobody is woken when a lock is dropped", "core/lock.h", "hd_exchange(&lock->word, 0u) == 2)", "hd_exchange(&lock->word, 0u) == 3)", "unit.lock"),
    Fault("the helper takes the program's signals", "os/linux_helper.c", "hd_syscall6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all,",
          "hd_syscall6(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&all,", ""),
    Fault("one block too many in the statistics", "core/stats.c", "  stats->live_count += area->block_used;", "  stats->live_count += area->block_used + 1;", "model"),
    Fault("a walk passes over what follows a run", "core/stats.c", "kind == HD_UNIT_DIRTY) ? step : 1;", "kind == HD_UNIT_DIRTY) ? step + 1 : 1;", "unit.region"),
    Fault("the walk of one heap shows all of them", "core/stats.c", "if (walk->heap != NULL && view.heap != walk->heap) return true;", "", "model"),
]

OBJECTS = [
    Fault("the touched end of a region counts as clean", "core/region.c", "(clean_from + HD_UNIT_BYTES - 1) >> HD_UNIT_SHIFT, units);",
          "clean_from >> HD_UNIT_SHIFT, units);", "unit.region"),
    Fault("a region is purged to its last odd byte", "core/region.c", "size_t to = hd_round_down(offset + bytes, hdi_os.page_bytes);",
          "size_t to = hd_round_up(offset + bytes, hdi_os.page_bytes);", "unit.region"),
    Fault("the end of a shrunk region counts as clean", "core/region.c", "first + units, old - units, dirty);", "first + units, old - units, false);", ""),
    Fault("an arena's chunk goes back as clean from its start", "objects/arena_room.c", "start + chunk->fresh[0], start + room", "start, start + room", "model"),
    Fault("a chunk stays on an arena's account", "objects/arena_room.c", "  a->held_bytes -= room;\n", "", ""),
    Fault("an arena's block that moves loses a byte", "objects/arena_stack.c", "memcpy(copy, p, old_bytes);", "memcpy(copy, p, old_bytes - 1);", ""),
    Fault("a mark on a point that is gone is accepted", "objects/arena_stack.c",
          "if (point == mark.point) return serial_of(point) == mark.serial ? point : NULL;", "if (point == mark.point) return point;", ""),
    Fault("used items of a pool count as fresh ones", "objects/pool_segment.c", "*fresh = claim & ~segment->dirty[group];", "*fresh = claim;", "model"),
    Fault("a pool purges what an item shares with its neighbour", "objects/pool_segment.c",
          "if (low < first && present_in(segment, low, first) == 0) from", "if (low < first) from", ""),
    Fault("an item given the slow way stays counted", "objects/pool.c", "    body->work->used--;\n", "", ""),
    Fault("a handle's slot is used again under the same number", "objects/handle.c",
          "  slot->generation = (slot->generation + 1) & own->generation_mask;\n", "", ""),
    Fault("a string's hash alone makes it equal", "objects/string_pool.c",
          "    if (hd_string_pool_length(&pool->front, index) != length) continue;\n", "", ""),
    Fault("the table of strings has a hole after a removal", "objects/string_pool.c", "    if (stays) continue;\n", "    if (stays || true) continue;\n", ""),
    Fault("a bin's count stays when its object goes", "objects/index_pool_free.c", "    body->fast.list[slots].count--;\n", "", ""),
]

FAULTS = [*SIZES, *CLAIMS, *ZEROES, *RESIZING, *ERRORS, *MISUSE, *RUNS, *RETURN, *THREADS, *OBJECTS]

# Harmless, and gone: what the script itself must tell.
CANARIES = [
    Fault("nothing is wrong", "core/remote.c", "return (uint32_t)hd_max(1, capacity / 8);", "return (uint32_t)hd_max(capacity / 8, 1);", "unit.page"),
    Fault("the text is gone", "core/remote.c", "no such text", "", "unit.page"),
]
