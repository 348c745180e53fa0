#!/usr/bin/env python3
"""Break the core on purpose and see the models notice: each mutant is one change of one core file, in a copy.

A mutant counts as killed when its model fails. It counts against us when the model passes, when its text is no longer in the
source, or when the model fails without any change, for then a kill means nothing.
"""
import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from mutants import Gone, copy_broken, report  # noqa: E402

UNHOOKED = ["sched", "state", "hooks", "os_sched", "shadow"]
WRAPPED = "-Wl,--wrap=pthread_key_create,--wrap=pthread_setspecific,--wrap=__register_atfork"


class Mutant(NamedTuple):
    model: str
    name: str
    file: str
    edits: list


CLAIMED_IS_PURGED = [
    ("return page->state != HD_PAGE_CURRENT || index / 64 != page->group || (claimed >> index % 64 & 1) == 0;",
     "return (void)claimed, true;")]
COUNT_TAKEN_BY_STORE = [
    ("return atomic_fetch_and_explicit(&page->remote_count, HD_REMOTE_QUEUED, memory_order_acq_rel) & ~HD_REMOTE_QUEUED;",
     "uint32_t count = hd_load_relaxed(&page->remote_count); "
     "hd_store_relaxed(&page->remote_count, count & HD_REMOTE_QUEUED); return count & ~HD_REMOTE_QUEUED;")]
KEEP_IF_UNREAD = "  bool keep = !heap->explicit_heap && !hdi_store_is_held();\n"
UNMARKING = "  for (uint32_t i = 0; i < page->run_units; i++) {\n    hd_store_relaxed(&page[i].owner, (uintptr_t)0);"

MUTANTS = [
    Mutant("push_collect", "mail counted by a load and a store", "core/remote.c", [
        ("    if (HD_LIKELY(now == owner)) hdi_heap_credit_remote(owner, page, hd_exchange(&page->remote_count, 0u) & ~HD_REMOTE_QUEUED);",
         "    uint32_t count = hd_load_relaxed(&page->remote_count) & ~HD_REMOTE_QUEUED; hd_store_relaxed(&page->remote_count, 0u);"
         " if (now == owner) hdi_heap_credit_remote(owner, page, count);")]),
    Mutant("push_collect", "page pushed by a store", "core/remote.c", [
        ("while (!hd_swap_if(&owner->inbox, &head, page));", "while ((hd_store_release(&owner->inbox, page), false));")]),
    Mutant("push_collect", "page pushed without being marked as queued", "core/remote.c", [
        ("if (queue) sum |= HD_REMOTE_QUEUED;", "")]),

    Mutant("adopt", "an orphan stays in the list", "core/thread.c", [("pool.orphans = heap->next_orphan;", "")]),
    Mutant("adopt", "a late heap is taken from a thread that lives", "core/thread.c", [
        (" || hdi_os_thread_alive(late)", "")]),
    Mutant("adopt", "the orphan is offered before its last settling", "core/thread.c", [
        ("  hdi_gate_enter(heap);\n  hdi_remote_flush(heap);\n  hdi_remote_drain(heap);",
         "  hdi_lock_take(&pool.lock);\n  heap->next_orphan = pool.orphans;\n  pool.orphans = heap;\n"
         "  hdi_lock_drop(&pool.lock);\n  hdi_remote_flush(heap);\n  hdi_remote_drain(heap);\n  hdi_gate_enter(heap);")]),

    Mutant("loose", "a page is taken over by a store", "core/remote.c", [
        ("!hd_swap_if(&page->owner, &word, (uintptr_t)self)", "(hd_store_release(&page->owner, (uintptr_t)self), false)")]),
    Mutant("loose", "a page is taken back by a store", "core/remote.h", [
        ("  return hd_swap_if(&page->owner, &word, (uintptr_t)self);",
         "  hd_store_release(&page->owner, (uintptr_t)self);\n  return word != 0;")]),
    Mutant("loose", "what others have told of a page is lost with its owner", "core/remote.c", [
        ("count + hdi_remote_take(page));", "count);\n  (void)hdi_remote_take(page);")]),
    Mutant("loose", "mail for a page of another's is taken in", "core/remote.c", [("if (HD_LIKELY(now == owner))", "if (now != NULL)")]),
    Mutant("loose_collect", "a page is taken over while a collector is at it", "core/remote.c", [
        ("return hd_swap_if(&page->owner, &word, word | HD_OWNER_SWEPT);", "return hd_load_acquire(&page->owner) == word;")]),
    Mutant("loose_collect", "a collector keeps a page", "core/remote.c", [
        ("  hd_swap_if(&page->owner, &word, (uintptr_t)heap | HD_OWNER_LOOSE);", "  (void)word;")]),

    Mutant("heap_retire", "a collector does not look whose heap it has stopped", "core/purge.c", [
        ("return hdi_gate_settle(heap, tries) && has_gate(heap);",
         "return hdi_gate_settle(heap, tries);")]),

    Mutant("heap_destroy", "another thread's free does not take the heap's lock", "core/alloc.c", [
        ("  hdi_lock_take(&owner->lock);\n  bool live", "  bool live")]),
    Mutant("heap_destroy", "a retired heap stays in the list", "core/thread.c", [("pool.retired = heap->next_orphan;", "")]),
    Mutant("heap_destroy", "a large block is freed without the heap's lock", "core/alloc.c", [
        ("    hdi_lock_take(&heap->lock);\n    hdi_large_free(heap, unit);\n    hdi_lock_drop(&heap->lock);",
         "    hdi_large_free(heap, unit);")]),

    Mutant("region_release", "a queued page is released", "core/heap.c", [("if (hdi_remote_is_queued(page)) break;", "")]),
    Mutant("region_release", "page pushed before its count is in", "core/remote.c", [
        ("if (queue) sum |= HD_REMOTE_QUEUED;", "if (queue) sum |= HD_REMOTE_QUEUED, push(hdi_heap_of_word(word), page), queue = false;")]),
    Mutant("region_release", "counts added by a load and a store", "core/remote.c", [
        ("while (!hd_swap_if(&page->remote_count, &old, sum));",
         "while ((hd_store_release(&page->remote_count, sum), false));")]),

    Mutant("page_reuse", "byte written after the announcement", "core/alloc.c", [
        ("  hd_store_release(state, HD_BLOCK_FREE); /* R1 */\n  if (hdi_heap_is_empty(self))", "  if (hdi_heap_is_empty(self))"),
        ("  else hdi_remote_count_slow(self, head);\n",
         "  else hdi_remote_count_slow(self, head);\n  hd_store_release(state, HD_BLOCK_FREE);\n")]),
    Mutant("region_release", "a flushed table keeps its pages", "core/remote.c", [
        ("    hd_store_owned(&entry->page, NULL);\n    announce(NULL, page, entry->limit - entry->left);",
         "    announce(NULL, page, entry->limit - entry->left);")]),
    Mutant("page_reuse", "taken from the inbox, but still marked as queued", "core/remote.c", [
        ("hd_exchange(&page->remote_count, 0u)", "hd_exchange(&page->remote_count, HD_REMOTE_QUEUED)")]),
    Mutant("page_reuse", "counted and queued in two steps", "core/remote.c", [
        ("if (queue) sum |= HD_REMOTE_QUEUED;", ""),
        ("  if (queue) push(hdi_heap_of_word(word), page);",
         "  if (queue && (atomic_fetch_or(&page->remote_count, HD_REMOTE_QUEUED) & HD_REMOTE_QUEUED) == 0)"
         " push(hdi_heap_of_word(word), page);")]),
    Mutant("push_collect", "the link is read after the page may be queued again", "core/remote.c", [
        ("    hd_unit *next = page->remote_next;", "   "), ("    page = next;", "    page = page->remote_next;")]),

    Mutant("block_reuse", "a block is written after it is free", "core/alloc.c", [
        ("  *(volatile uintptr_t *)p = 0;\n", ""),
        ("  else hdi_remote_count(self, head);\n",
         "  else hdi_remote_count(self, head);\n  *(volatile uintptr_t *)p = 0;\n")]),
    Mutant("block_reuse", "blocks in use count as free", "core/claim.h", [
        ("(hd_load_acquire(&map[i]) == HD_BLOCK_FREE) << i", "(hd_load_acquire(&map[i]) <= HD_BLOCK_LIVE) << i")]),
    Mutant("block_reuse", "a free by another thread writes the byte of its neighbour", "core/alloc.c", [
        ("  hd_store_release(state, HD_BLOCK_FREE); /* R1: pairs", "  hd_store_release(state + 1, HD_BLOCK_FREE); /* R1: pairs")]),

    Mutant("exit_free", "a thread keeps its heap after its end", "core/thread.c", [
        ("  hdi_heap_self = &hdi_heap_empty;\n  give_orphan", "  give_orphan")]),
    Mutant("exit_free", "a thread's counts end with it", "core/thread.c", [
        ("  hdi_remote_flush(heap);\n  hdi_remote_drain(heap);", "  hdi_remote_drain(heap);")]),
    Mutant("exit_free", "a page's count taken by a load and a store", "core/remote.c", COUNT_TAKEN_BY_STORE),

    Mutant("fork_free", "threads wait for the forking one", "core/lock.c", [
        ("if (unless_fork && hdi_lock_is_forking()) return false;", "")]),
    Mutant("fork_free", "a run is deferred by a store", "core/unit.h", [
        ("while (!hd_swap_if(list, &first->next, first)) {\n  }", "hd_store_release(list, first);")]),
    Mutant("fork_free", "a run is put aside under the hands of others", "core/space.c", [
        ("if (hd_swap_if(&space->aside, &aside, aside + ((uint64_t)units << 32) - (units << 1)))",
         "hd_store_release(&space->aside, aside + ((uint64_t)units << 32) - (units << 1));\n    if (true)")]),
    Mutant("fork_free", "the top is moved by a store", "core/space.c", [
        ("if (hd_swap_if(&space->top, &top, top + skip + units)) {",
         "hd_store_release(&space->top, top + skip + units);\n    {")]),
    Mutant("fork_free", "the heaps' list is not locked for the fork", "core/thread.c", [
        ("  hdi_lock_fork_open(&pool.lock, step, lay_open, gather);\n", "")]),

    Mutant("purge_alloc", "the gate without its barrier", "core/gate.c", [("return hdi_os_heavy_barrier();", "return true;")]),
    Mutant("purge_alloc", "the collector does not look who is inside", "core/gate.c", [
        ("while (hd_load_acquire(&heap->busy) != 0) {", "while (tries < 0) {")]),
    Mutant("purge_alloc", "claimed blocks are purged", "core/page.c", CLAIMED_IS_PURGED),
    Mutant("purge_alloc", "the owner does not look at the gate", "core/gate.h", [
        ("if (HD_LIKELY(hd_load_acquire(&heap->stopped) == 0)) return true;", "return true;")]),
    Mutant("purge_alloc", "a free puts into the magazine outside the gate", "core/alloc.c", [
        ("  if (HD_UNLIKELY(!hdi_gate_try(heap))) {\n    free_later(p, heap);\n    return;\n  }\n  if (HD_UNLIKELY(!hdi_heap_keep",
         "  (void)free_later;\n  if (HD_UNLIKELY(!hdi_heap_keep")]),
    Mutant("purge_alloc", "a malloc takes what the magazine held before the gate", "core/alloc.c", [
        ("  if (HD_UNLIKELY(!hdi_gate_try(heap))) return hdi_alloc_slow(bytes);\n"
         "  if (HD_UNLIKELY(magazine->top == magazine->first)) return alloc_from_slot(bytes, heap);\n",
         "  hd_cached *top = magazine->top;\n  if (!hdi_gate_try(heap)) return hdi_alloc_slow(bytes);\n"
         "  if (top == magazine->first) return alloc_from_slot(bytes, heap);\n  magazine->top = top;\n")]),
    Mutant("purge_alloc", "what is in the magazine is free by its byte", "core/heap.h", [
        ("hd_store_relaxed(state, HD_BLOCK_CACHED);", "hd_store_relaxed(state, HD_BLOCK_FREE);")]),
    Mutant("adopt", "a thread leaves its magazines full", "core/heap.c", [
        ("    empty_magazine(heap, hdi_heap_magazine(heap, i));\n    open_magazine(heap, i);\n", "    (void)empty_magazine;\n")]),

    Mutant("parcels", "a parcel is pushed by a store", "core/parcel.c", [
        ("while (!hd_swap_if(&owner->arrived, &first, parcel));", "while ((hd_store_release(&owner->arrived, parcel), false));")]),
    Mutant("parcels", "what has arrived is taken by a load and a store", "core/parcel.c", [
        ("hd_exchange(&owner->arrived, NULL);", "hd_load_acquire(&owner->arrived); hd_store_release(&owner->arrived, NULL);")]),
    Mutant("parcels", "a parcel is returned before it is read", "core/parcel.c", [
        ("    for (uint32_t i = 0; i < parcel->count; i++) take_in", "    hd_store_release(&parcel->owner, NULL);\n"
         "    for (uint32_t i = 0; i < parcel->count; i++) take_in")]),
    Mutant("parcels", "the link is read after the parcel was returned", "core/parcel.c", [
        ("    hd_parcel *next = parcel->next;\n", ""), ("    parcel = next;", "    parcel = parcel->next;")]),
    Mutant("parcels", "a parcel is filled while it is on its way", "core/parcel.c", [
        ("if (is_back(&self->parcel[i])) return", "if (i == 0 || is_back(&self->parcel[i])) return")]),
    Mutant("parcels", "a parcel that was sent still has room", "core/parcel.c", [
        ("  parcel->room = 0;\n  hd_store_owned", "  hd_store_owned")]),
    Mutant("parcels", "a block's byte is written after its parcel was sent", "core/parcel.c", [
        ("    hd_store_relaxed(state, HD_BLOCK_SENT);\n", ""),
        ("  hdi_gate_leave(self);\n  return parcel != NULL;",
         "  if (parcel != NULL) hd_store_relaxed(state, HD_BLOCK_SENT);\n  hdi_gate_leave(self);\n  return parcel != NULL;")]),
    Mutant("parcels", "a thread that ends keeps the parcel that it fills", "core/remote.c", [("  hdi_parcel_flush(self);\n", "")]),
    Mutant("parcel_collect", "a block is put into a parcel outside the gate", "core/parcel.c", [
        ("if (HD_UNLIKELY(hdi_gate_is_inside(self) || !hdi_gate_try(self))) return false;", "")]),
    Mutant("parcel_collect", "parcels are taken in for heaps that are not held", "core/purge.c", [
        ("!needs(heap) || !hold(heap, self)) continue;\n    settle(heap);\n    let_go(heap);",
         "!needs(heap)) continue;\n    bool held = hold(heap, self);\n    settle(heap);\n    if (held) let_go(heap);")]),

    Mutant("last_bit", "a block's byte is free before its bit is set", "core/page.h", [
        ("  hd_store_owned(word, *word | (uint64_t)1 << (index & 63));\n", ""),
        ("  hd_store_release(map + index, HD_BLOCK_FREE);\n  return credit == 0;",
         "  hd_store_release(map + index, HD_BLOCK_FREE);\n  hd_store_owned(word, *word | (uint64_t)1 << (index & 63));\n"
         "  return credit == 0;")]),
    Mutant("put_back", "a group into which blocks go back is purged by what its word held", "core/purge.c", [
        ("bool freely = heap->held == HD_HOLD_GATE && hdi_page_frees_freely(page);", "bool freely = false;")]),
    Mutant("put_back_user", "the blocks of a heap with one user are taken not to go back", "core/page.h", [
        ("(HD_OWNER_MEDIUM | HD_OWNER_EXPLICIT)) != HD_OWNER_MEDIUM;", "HD_OWNER_BITS) == 0;")]),
    Mutant("turns", "what is put apart stays in the group's word", "core/heap.c", [("  hd_store_owned(word, *word & ~bits);\n", "")]),
    Mutant("turns", "what lies apart is purged", "core/page.c", CLAIMED_IS_PURGED),
    Mutant("turns_adopt", "a page's count taken by a load and a store", "core/remote.c", COUNT_TAKEN_BY_STORE),
    Mutant("rest", "an orphan that goes to rest stays in the list", "core/thread.c", [
        ("    if (before == NULL) pool.orphans = after;\n    else before->next_orphan = after;\n", "    (void)after;\n")]),
    Mutant("rest", "an orphan is offered again before it is at rest", "core/thread.c", [
        ("    hdi_heap_rest(heap);\n    rank(heap);\n    heap->rested = HD_AT_REST;\n    hdi_gate_leave(heap);\n    give_orphan(heap);\n",
         "    hdi_gate_leave(heap);\n    heap->rested = HD_AT_REST;\n    give_orphan(heap);\n    hdi_heap_rest(heap);\n"
         "    rank(heap);\n")]),
    Mutant("look", "a map goes to the shelf while somebody reads it", "core/page.c", [(" && !hdi_store_is_held();\n", ";\n")]),
    Mutant("look", "a map is given back before its page is unmarked", "core/page.c", [
        (KEEP_IF_UNREAD, ""), (UNMARKING, KEEP_IF_UNREAD + UNMARKING)]),
    Mutant("look", "nobody is told that the store is held", "core/store.c", [("  hd_store_relaxed(&store.held, true);\n", "")]),
]


class Builder:
    def __init__(self, options):
        self.cc = options.cc
        self.source = Path(options.source)
        self.include = options.include
        self.out = Path(options.out)

    def flags(self, source, hooked):
        common = ["-std=gnu11", "-g", "-fno-builtin", "-fno-pie", "-w", f"-I{source}", f"-I{self.include}"]
        if not hooked:
            return [*common, "-O2"]
        return [*common, "-O1", "-fsanitize=thread", "-include", str(HERE / "thread_pointer.h")]

    def compile(self, source, file, target, hooked):
        command = [self.cc, *self.flags(source, hooked), "-c", str(file), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"does not compile: {done.stderr.strip().splitlines()[0] if done.stderr else file}")

    def build(self, source, name, base=None, changed=None):
        """An explorer of the core in `source`; with base and changed, only what differs from that build is compiled."""
        folder = self.out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        jobs = [(file, True) for part in ("base", "core") for file in sorted((source / part).glob("*.c"))]
        jobs += [(file, True) for file in sorted(HERE.glob("model*.c"))]
        jobs += [(HERE / f"{stem}.c", False) for stem in UNHOOKED]
        objects = []
        for file, hooked in jobs:
            target = folder / f"{file.stem}.o"
            if base is not None and changed.suffix == ".c" and file != changed:
                target = base / f"{file.stem}.o"
            else:
                self.compile(source, file, target, hooked)
            objects.append(str(target))
        subprocess.run([self.cc, "-no-pie", "-o", str(folder / "sched"), *objects, WRAPPED], check=True)
        return folder


def explore(folder, model, options):
    command = [str(folder / "sched"), "--model", model, "--limit", str(options.limit), "--seed", str(options.seed)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    except subprocess.TimeoutExpired:
        return None, "no end after 50 s"
    failure = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    schedules = re.search(r"after (\d+) schedules", done.stdout)
    text = failure[0].split(": ", 1)[1] if failure else ""
    if schedules:
        text += f" (schedule {int(schedules.group(1)) + 1})"
    return done.returncode, text or f"status {done.returncode}"


def try_mutant(builder, base, number, mutant, options):
    """(killed, what happened)"""
    name = f"mutant-{mutant.model}-{number}"
    source = builder.out / f"{name}-src"
    try:
        changed = copy_broken(builder.source, source, mutant.file, mutant.edits)
        folder = builder.build(source, name, base, changed)
        status, what = explore(folder, mutant.model, options)
    except (Gone, RuntimeError) as error:
        return False, str(error)
    shutil.rmtree(source)
    if status is None:
        return True, what
    return status == 1, what if status == 1 else "SURVIVED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default=HERE.parents[1] / "src", help="the core's sources")
    parser.add_argument("--include", default=HERE.parents[1] / "include")
    parser.add_argument("--out", default=HERE.parents[1] / "build" / "sched-mutants", help="where to build")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--model", action="append", help="only the mutants of this model")
    parser.add_argument("--limit", type=int, default=120000, help="schedules a mutant")
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    models = options.model or sorted({mutant.model for mutant in MUTANTS})
    chosen = [(number, mutant) for number, mutant in enumerate(MUTANTS) if mutant.model in models]
    if not chosen:
        parser.error(f"no mutants of {', '.join(models)}")
    builder = Builder(options)
    tag = "-".join(options.model) if options.model else "all"
    try:
        base = builder.build(builder.source, f"base-{tag}")
    except RuntimeError as error:
        print(f"mutants: the unchanged core {error}", file=sys.stderr)
        return 1
    bad = 0
    for model in models:
        status, what = explore(base, model, options)
        if status != 0:
            bad += 1
            print(f"BROKEN    {model:15} fails without a change: {what}")
    bad += report(chosen, lambda item: try_mutant(builder, base, *item, options),
                  lambda item: f"{item[1].model:15} {item[1].name}", options.jobs)
    print(f"{len(chosen)} mutants, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
