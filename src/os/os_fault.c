/* A layer between the core and the operating system, for tests: it refuses calls by plan, pretends page sizes, and keeps a ledger.
 *
 * The linker puts it there: with --wrap=hdi_os_claim a call of the core arrives at __wrap_hdi_os_claim below, and __real_hdi_os_claim is
 * the system's. No library that users get contains it.
 *
 * Refusing: each call that a system may refuse has a number, from 1. A plan says which numbers are refused; os.h says what a refusal
 * looks like. The ledger knows the state of each range of addresses (reserved, open) and ends the process, in one line, where a call does
 * not fit it: a commit outside what is reserved, a purge of what is not open, a range given back twice or in parts, anything that is not
 * whole pages of the size pretended. What is left in it at the end is what the library keeps.
 *
 * A program that is not a test of ours says what it wants in the environment: HEDDLE_FAULT=mode:once,n:17,kind:claim,most:16m,page:64k.
 *
 * The helper thread comes through here too: no C library, no thread-local storage. A fork may leave the ledger's lock to a thread that the
 * child does not have: then the child takes the lock over, and the ledger, perhaps half written, is closed in that process.
 * SPDX-License-Identifier: MIT */
#include "os/os_fault.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/text.h"
#include "os/linux_syscall.h"
#include "os/os.h"

enum { SPANS_MAX = 8192, RESIDENT_PIECE = 1024 };

/* States of a span, as bits, so that a call can ask for one of several. */
enum { NOBODY = 0, RESERVED = 1, OPEN = 2 };

static struct {
  _Atomic unsigned mode, kind;
  atomic_size_t n, most_bytes;
  atomic_size_t calls, calls_of[HD_FAULT_KIND_COUNT], refused;
  atomic_bool ever;
  size_t page_bytes, real_page_bytes;
} fault;

static const char *const kind_names[] = {
#define HD_FAULT_KIND(kind, name) name,
    HD_FAULT_KINDS(HD_FAULT_KIND)
#undef HD_FAULT_KIND
};

/* ---- the plan ----------------------------------------------------------------------------------------------------------- */

void hdi_fault_set(const hd_fault_plan *plan) {
  hd_store_relaxed(&fault.mode, HD_FAULT_OFF);
  hd_store_relaxed(&fault.kind, plan->kind);
  hd_store_relaxed(&fault.n, plan->n);
  hd_store_relaxed(&fault.most_bytes, plan->most_bytes);
  hd_store_relaxed(&fault.calls, 0u);
  hd_store_relaxed(&fault.refused, 0u);
  for (unsigned kind = 0; kind < HD_FAULT_KIND_COUNT; kind++) hd_store_relaxed(&fault.calls_of[kind], 0u);
  hd_store_release(&fault.mode, plan->mode);
}

void hdi_fault_clear(void) {
  hd_store_relaxed(&fault.most_bytes, 0u);
  hd_store_relaxed(&fault.mode, HD_FAULT_OFF);
}

size_t hdi_fault_calls(void) { return hd_load_relaxed(&fault.calls); }
size_t hdi_fault_calls_of(hd_fault_kind kind) { return hd_load_relaxed(&fault.calls_of[kind]); }
size_t hdi_fault_refused(void) { return hd_load_relaxed(&fault.refused); }
bool hdi_fault_ever(void) { return hd_load_relaxed(&fault.ever); }
void hdi_fault_pages(size_t page_bytes) { fault.page_bytes = page_bytes; }
const char *hdi_fault_kind_name(hd_fault_kind kind) { return kind_names[kind]; }

static bool is_due(hd_fault_kind kind, size_t call, size_t call_of_kind) {
  size_t n = hd_load_relaxed(&fault.n);
  switch (hd_load_acquire(&fault.mode)) {
    case HD_FAULT_ONCE:
      return call == n;
    case HD_FAULT_FROM:
      return call >= n;
    case HD_FAULT_EVERY:
      return n != 0 && call % n == 0;
    case HD_FAULT_KIND_ONCE:
      return kind == hd_load_relaxed(&fault.kind) && call_of_kind == n;
    case HD_FAULT_KIND_TWICE:
      return kind == hd_load_relaxed(&fault.kind) && (call_of_kind == n || call_of_kind == n + 1);
    default:
      return false;
  }
}

static bool refuse(hd_fault_kind kind) {
  size_t call_of_kind = hd_add(&fault.calls_of[kind], 1u) + 1;
  bool due = is_due(kind, hd_add(&fault.calls, 1u) + 1, call_of_kind);
  if (!due) return false;
  hd_add(&fault.refused, 1u);
  hd_store_relaxed(&fault.ever, true);
  return true;
}

static bool refuse_range(hd_fault_kind kind, size_t bytes) {
  size_t most = hd_load_relaxed(&fault.most_bytes);
  if (refuse(kind)) return true;
  if (most == 0 || bytes <= most) return false;
  hd_store_relaxed(&fault.ever, true);
  return true;
}

/* ---- the ledger --------------------------------------------------------------------------------------------------------- */

/* Sorted by address, without overlap. id: which reserved range; 0: claimed. */
typedef struct span {
  uintptr_t start, end;
  unsigned state, id;
} span;

static struct {
  _Atomic long holder; /* the process that has the lock */
  atomic_bool closed;
  unsigned ids, count;
  span spans[SPANS_MAX];
} ledger;

static long process(void) { return hd_syscall3(SYS_getpid, 0, 0, 0); }

static void lock_ledger(void) {
  long self = process(), holder = 0;
  while (!hd_swap_if(&ledger.holder, &holder, self)) {
    if (holder != self && hd_swap_if(&ledger.holder, &holder, self)) {
      hd_store_relaxed(&ledger.closed, true);
      return;
    }
    hdi_os_yield();
    holder = 0;
  }
}

static void unlock_ledger(void) { hd_store_release(&ledger.holder, 0L); }

static _Noreturn void breach(const char *verb, const char *what, uintptr_t start, uintptr_t end) {
  char buffer[256];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  hdi_text_put(&text, "os_fault: ");
  hdi_text_put(&text, verb);
  hdi_text_put(&text, " of ");
  hdi_text_hex(&text, start);
  hdi_text_put(&text, " to ");
  hdi_text_hex(&text, end);
  hdi_text_put(&text, ": ");
  hdi_text_put(&text, what);
  hdi_text_put(&text, "\n");
  hdi_os_write(2, buffer, hdi_text_length(&text));
  hdi_os_abort();
}

/* The first span that ends behind the address. */
static unsigned find(uintptr_t address) {
  unsigned low = 0, high = ledger.count;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (ledger.spans[middle].end > address) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Whether all of a range is in one of the states; NOBODY: whether none of it is in any. */
static bool is_all(uintptr_t start, uintptr_t end, unsigned states) {
  unsigned at = find(start);
  if (states == NOBODY) return at == ledger.count || ledger.spans[at].start >= end;
  for (; start < end; at++) {
    if (at == ledger.count || ledger.spans[at].start > start || (ledger.spans[at].state & states) == 0) return false;
    start = ledger.spans[at].end;
  }
  return true;
}

static void insert(unsigned at, span made) {
  if (ledger.count == SPANS_MAX) breach("a call", "the ledger is full", made.start, made.end);
  memmove(ledger.spans + at + 1, ledger.spans + at, (ledger.count - at) * sizeof(span));
  ledger.spans[at] = made;
  ledger.count++;
}

static void cut(uintptr_t address) {
  unsigned at = find(address);
  if (at == ledger.count || ledger.spans[at].start >= address) return;
  span rest = ledger.spans[at];
  ledger.spans[at].end = rest.start = address;
  insert(at + 1, rest);
}

static void join(unsigned at) {
  if (at == 0 || at >= ledger.count) return;
  span *left = ledger.spans + at - 1, *right = ledger.spans + at;
  if (left->end != right->start || left->state != right->state || left->id != right->id) return;
  left->end = right->end;
  memmove(right, right + 1, (ledger.count - at - 1) * sizeof(span));
  ledger.count--;
}

static void write_span(uintptr_t start, uintptr_t end, unsigned state, unsigned id) {
  cut(start);
  cut(end);
  unsigned from = find(start), to = from;
  while (to < ledger.count && ledger.spans[to].start < end) to++;
  if (state != NOBODY && to > from) id = ledger.spans[from].id;
  memmove(ledger.spans + from, ledger.spans + to, (ledger.count - to) * sizeof(span));
  ledger.count -= to - from;
  if (state == NOBODY) return;
  insert(from, (span){start, end, state, id});
  join(from + 1);
  join(from);
}

/* What a call that has been granted makes of a range; and one that only needs it to be in a state, when before == after. */
static void enter(const char *verb, const void *address, size_t bytes, unsigned before, unsigned after, unsigned id) {
  uintptr_t start = (uintptr_t)address, end = start + bytes;
  if (bytes == 0 || ((start | end) & (hdi_os.page_bytes - 1)) != 0) breach(verb, "not whole pages", start, end);
  if (hd_load_relaxed(&ledger.closed)) return;
  lock_ledger();
  if (!is_all(start, end, before)) {
    unlock_ledger();
    breach(verb, "the range is in another state", start, end);
  }
  if (before != after) write_span(start, end, after, id);
  unlock_ledger();
}

static void need_open(const char *verb, const void *address, size_t bytes) { enter(verb, address, bytes, OPEN, OPEN, 0); }

/* A reserved range goes back whole: neither neighbour may be a piece of it. */
static void leave(void *address, size_t bytes) {
  uintptr_t start = (uintptr_t)address, end = start + bytes;
  enter("unreserve", address, bytes, RESERVED | OPEN, RESERVED | OPEN, 0);
  lock_ledger();
  cut(start);
  cut(end);
  unsigned first = find(start), last = find(end - 1);
  unsigned id = first < ledger.count ? ledger.spans[first].id : 0;
  bool part = id != 0 && ((first > 0 && ledger.spans[first - 1].id == id) || (last + 1 < ledger.count && ledger.spans[last + 1].id == id));
  if (!part) write_span(start, end, NOBODY, 0);
  unlock_ledger();
  if (part) breach("unreserve", "a part of what was reserved", start, end);
}

hd_fault_ledger hdi_fault_ledger_get(void) {
  hd_fault_ledger found = {0, 0, 0};
  unsigned last_id = 0;
  lock_ledger();
  for (unsigned i = 0; i < ledger.count; i++) {
    const span *at = ledger.spans + i;
    if (at->state == OPEN) found.open_bytes += at->end - at->start;
    else found.reserved_bytes += at->end - at->start;
    found.range_count += at->id != 0 && at->id != last_id; /* the pieces of a range lie side by side */
    last_id = at->id;
  }
  unlock_ledger();
  return found;
}

/* ---- the start ---------------------------------------------------------------------------------------------------------- */

static hd_fault_plan planned; /* by the environment */

static unsigned index_of(const char *const *names, unsigned count, const char *text, size_t length) {
  unsigned at = 0;
  while (at < count && !hdi_text_equal(text, length, names[at])) at++;
  if (at == count) breach("HEDDLE_FAULT", "a word that is not known", 0, 0);
  return at;
}

static void read_setting(const char *key, size_t key_length, const char *value, size_t length) {
  static const char *const modes[] = {"off", "once", "from", "every", "kind"};
  static const char *const keys[] = {"mode", "kind", "n", "most", "page"};
  uint64_t number = 0;
  unsigned which = index_of(keys, 5, key, key_length);
  if (which > 1 && !hdi_text_read_bytes(value, length, &number)) breach("HEDDLE_FAULT", "not a number", 0, 0);
  if (which == 0) planned.mode = (hd_fault_mode)index_of(modes, 5, value, length);
  else if (which == 1) planned.kind = (hd_fault_kind)index_of(kind_names, HD_FAULT_KIND_COUNT, value, length);
  else if (which == 2) planned.n = (size_t)number;
  else if (which == 3) planned.most_bytes = (size_t)number;
  else fault.page_bytes = (size_t)number;
}

static void read_environment(void) {
  extern char **environ;
  static const char name[] = "HEDDLE_FAULT=";
  char **at = environ;
  while (at != NULL && *at != NULL && strncmp(*at, name, sizeof name - 1) != 0) at++;
  if (at == NULL || *at == NULL) return;
  for (const char *text = *at + sizeof name - 1; *text != 0;) {
    size_t length = strcspn(text, ","), key_length = strcspn(text, ":");
    if (key_length >= length) breach("HEDDLE_FAULT", "a word without a value", 0, 0);
    read_setting(text, key_length, text + key_length + 1, length - key_length - 1);
    text += length + (text[length] == ',');
  }
  hdi_fault_set(&planned);
}

/* ---- the calls ---------------------------------------------------------------------------------------------------------- */

#define WRAPPED(result, name, ...)          \
  result __real_hdi_os_##name(__VA_ARGS__); \
  result __wrap_hdi_os_##name(__VA_ARGS__); \
  result __wrap_hdi_os_##name(__VA_ARGS__)

WRAPPED(void, init, void) {
  __real_hdi_os_init();
  fault.real_page_bytes = hdi_os.page_bytes;
  if (fault.page_bytes == 0) read_environment();
  if (fault.page_bytes == 0) return;
  if (!hd_is_power_of_2(fault.page_bytes) || fault.page_bytes < hdi_os.page_bytes) breach("init", "not a page size of this machine", 0, 0);
  hdi_os.page_bytes = fault.page_bytes;
}

WRAPPED(void *, reserve, size_t bytes, size_t alignment, bool readable) {
  if (refuse_range(HD_FAULT_RESERVE, 0)) return NULL;
  void *range = __real_hdi_os_reserve(bytes, alignment, readable);
  if (range == NULL) return NULL;
  lock_ledger();
  unsigned id = ++ledger.ids;
  unlock_ledger();
  enter("reserve", range, bytes, NOBODY, RESERVED, id);
  return range;
}

WRAPPED(void, unreserve, void *address, size_t bytes) {
  leave(address, bytes); /* first: another thread may get the addresses at once */
  __real_hdi_os_unreserve(address, bytes);
}

WRAPPED(hd_claim, claim, void *address, size_t bytes) {
  hd_claim claimed = refuse_range(HD_FAULT_CLAIM, bytes) ? HD_CLAIM_REFUSED : __real_hdi_os_claim(address, bytes);
  if (claimed == HD_CLAIM_DONE) enter("claim", address, bytes, NOBODY, OPEN, 0);
  return claimed;
}

/* Who claimed may be gone since before the ledger knew of it. */
WRAPPED(void, unclaim, void *address, size_t bytes) {
  uintptr_t start = (uintptr_t)address, end = start + bytes;
  lock_ledger();
  cut(start);
  cut(end);
  write_span(start, end, NOBODY, 0);
  unlock_ledger();
  __real_hdi_os_unclaim(address, bytes);
}

/* The table of a reserved window shares pages between its steps: some may be open already. */
WRAPPED(bool, commit, void *address, size_t bytes) {
  if (refuse_range(HD_FAULT_COMMIT, bytes) || !__real_hdi_os_commit(address, bytes)) return false;
  enter("commit", address, bytes, RESERVED | OPEN, OPEN, 0);
  return true;
}

WRAPPED(bool, guard, void *address, size_t bytes, bool on) {
  if (refuse(HD_FAULT_GUARD) || !__real_hdi_os_guard(address, bytes, on)) return false;
  enter(on ? "guard" : "unguard", address, bytes, RESERVED | OPEN, on ? RESERVED : OPEN, 0);
  return true;
}

WRAPPED(bool, close, void *address, size_t bytes) {
  if (refuse(HD_FAULT_GUARD) || !__real_hdi_os_close(address, bytes)) return false;
  enter("close", address, bytes, RESERVED | OPEN, RESERVED, 0);
  return true;
}

WRAPPED(bool, purge, void *address, size_t bytes) {
  need_open("purge", address, bytes);
  return !refuse(HD_FAULT_PURGE) && __real_hdi_os_purge(address, bytes);
}

WRAPPED(bool, move, void *from, void *to, size_t bytes) {
  need_open("move", from, bytes);
  need_open("move", to, bytes);
  return !refuse(HD_FAULT_MOVE) && __real_hdi_os_move(from, to, bytes);
}

WRAPPED(void, huge, void *address, size_t bytes, bool on) {
  enter("huge", address, bytes, RESERVED | OPEN, RESERVED | OPEN, 0); /* a hint for a stretch of the window, guard pages and all */
  if (!refuse(HD_FAULT_HUGE)) __real_hdi_os_huge(address, bytes, on);
}

WRAPPED(uint64_t, touch, void *address, size_t bytes) {
  need_open("touch", address, bytes);
  return refuse(HD_FAULT_TOUCH) ? 0 : __real_hdi_os_touch(address, bytes);
}

WRAPPED(void, wait, atomic_uint *word, unsigned expected, unsigned timeout_ms) {
  if (!refuse(HD_FAULT_WAIT)) __real_hdi_os_wait(word, expected, timeout_ms);
}

WRAPPED(bool, heavy_barrier, void) { return !refuse(HD_FAULT_BARRIER) && __real_hdi_os_heavy_barrier(); }
WRAPPED(bool, heavy_barrier_init, void) { return !refuse(HD_FAULT_BARRIER) && __real_hdi_os_heavy_barrier_init(); }

WRAPPED(bool, helper_start, void (*run)(void), void *stack, size_t stack_bytes, atomic_uint *alive) {
  need_open("helper_start", stack, stack_bytes);
  return !refuse(HD_FAULT_HELPER) && __real_hdi_os_helper_start(run, stack, stack_bytes, alive);
}

WRAPPED(long, read_file, const char *path, char *buffer, size_t bytes) {
  return refuse(HD_FAULT_READ) ? -1 : __real_hdi_os_read_file(path, buffer, bytes);
}

/* Weak bits then, the weakest there are. */
WRAPPED(uint64_t, random, void) { return refuse(HD_FAULT_RANDOM) ? 0 : __real_hdi_os_random(); }

WRAPPED(size_t, resident_bytes, void) {
  if (refuse(HD_FAULT_RESIDENT)) return 0;
  return __real_hdi_os_resident_bytes() / (hdi_os.page_bytes / fault.real_page_bytes);
}

/* A page that is pretended is resident when a part of it is. */
static bool look_at_page(const uint8_t *page, bool *resident) {
  unsigned char present[RESIDENT_PIECE];
  size_t parts = hdi_os.page_bytes / fault.real_page_bytes, part = 0;
  if (hd_syscall3(SYS_mincore, page, hdi_os.page_bytes, present) < 0) return false;
  while (part < parts && (present[part] & 1) == 0) part++;
  *resident = part < parts;
  return true;
}

WRAPPED(size_t, resident_until, const void *address, size_t bytes, size_t *end) {
  *end = bytes;
  if (refuse(HD_FAULT_RESIDENT)) return 0;
  if (hdi_os.page_bytes == fault.real_page_bytes) return __real_hdi_os_resident_until(address, bytes, end);
  size_t found = 0, last = 0;
  for (size_t at = 0; at < bytes; at += hdi_os.page_bytes) {
    bool resident = false;
    if (!look_at_page((const uint8_t *)address + at, &resident)) return 0;
    if (!resident) continue;
    found++;
    last = at + hdi_os.page_bytes;
  }
  *end = last;
  return found * hdi_os.page_bytes;
}

WRAPPED(bool, resident_pages, const void *address, size_t pages, uint8_t *resident) {
  if (refuse(HD_FAULT_RESIDENT)) return false;
  if (hdi_os.page_bytes == fault.real_page_bytes) return __real_hdi_os_resident_pages(address, pages, resident);
  for (size_t i = 0; i < pages; i++) {
    bool is = false;
    if (!look_at_page((const uint8_t *)address + i * hdi_os.page_bytes, &is)) return false;
    resident[i] = is;
  }
  return true;
}

WRAPPED(size_t, resident_in, const void *address, size_t bytes) {
  size_t end = 0;
  return __wrap_hdi_os_resident_until(address, bytes, &end);
}

int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value) {
  return refuse(HD_FAULT_EXIT) ? ENOMEM : __real_pthread_setspecific(key, value);
}
