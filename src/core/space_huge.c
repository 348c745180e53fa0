/* See space_huge.h.
 * SPDX-License-Identifier: MIT */
#include "core/space_huge.h"

#include "core/counters.h"
#include "core/options.h"
#include "core/sizeclass.h"
#include "core/space_grow.h"
#include "os/os.h"

enum {
  BLOCK_UNITS = HD_HUGE_UNITS,
  BLOCK_BYTES = BLOCK_UNITS << HD_UNIT_SHIFT,
  STEP_BLOCKS = HD_COMMIT_UNITS / BLOCK_UNITS,
  PLAIN_UNITS = 64,        /* the first 4 MiB have no larger pages of any kind that the system may give unasked */
  HUGE_BLOCKS = 65536,     /* huge pages in the first 128 GiB, */
  AGAIN_BLOCKS = 16384,    /* once more in the first 32: there each may be a range that the system has to keep; */
  HUGE_FIRST_UNITS = 192,  /* but not in a process's first 12 MiB, of which one that is half empty would be too much, */
  FAST_FIRST_UNITS = 64,   /* or 4 MiB where the program takes memory so fast that page faults are most of what it does: */
  FAST_UNIT_NS = 46875,    /* a MiB in 0.75 ms, */
  SLOW_UNIT_NS = 187500,   /* or up to 3 ms where page faults are slow */
  FAULTS_SHARE = 40,       /* and so many of 100 parts of that time; */
  HUGE_LOOK_UNITS = 128,   /* where 8 MiB below are resident, without pages that are being filled just now if need be; */
  HUGE_DEEP_UNITS = 512,   /* or a quarter of them, and those that begin 32 MiB below; nothing deeper counts */
  LONG_UNITS = 16,         /* a run of 1 MiB or more, which is longer than any page; */
  DEEP_SHARE = 8,          /* than that, or than an eighth of what lies below, */
  DEEPEST_UNITS = 4096,    /* or than 256 MiB; */
  LACK_OF_UNIT = 8,        /* but for an eighth, if a single unit comes next: it may be a class's that is needed now and then; */
  LACK_OF_RUN = 4,         /* or a quarter, if a run does, which will be filled */
  LEAST_OF_UNIT = 4,       /* and of the units that are looked for at least a quarter must be found, for a single one, */
  LEAST_OF_RUN = 8,        /* or an eighth, for a run */
  TAKE_BACK_BYTES = 16 << 20, /* shorter runs would cut the memory into too many ranges for the system */
  QUICK_NS = 1000000,      /* a huge page that comes within a millisecond is good enough; */
  FEW_BYTES = 128 * 1024,  /* one that doesn't is compared with so many small ones, */
  MUCH = 2,                /* and dear if it takes more than twice the time of those in its place; */
  THERE_NS = 20000,        /* and what is there in less has been touched before */
  QUICK_LEAST = 8,         /* where one was dear so many in a row must not be, */
  LOOK_SHARE = 8,          /* which may be looked for in an eighth of a long run */
  LOOK_FIRST = 4,          /* long runs, which may never be touched, are looked at after 8 MiB of them; */
  REST_FIRST = 16,         /* what was found holds for 32 MiB, and for twice as many each time that it is found again, */
  REST_MOST = 256,         /* up to 512 MiB */
  GROWN_UNITS = 512,       /* with 32 MiB resident a process is no small one, */
  GROWN_LOOK_UNITS = 16384, /* if that is found in its first GiB, */
  GROWN_PAUSE = 31,        /* where it is looked for with pauses, of one long run, three, seven and so on up to so many */
  LOOK_MOST_UNITS = HD_NARROW ? 2048 : 32768, /* 2 GiB; longer runs are less often data than addresses to choose from */
  SHORT_BLOCK = 4096       /* a block of this size touches all system pages that it lies in, or nearly */
};

_Static_assert((int)SHORT_BLOCK <= (int)HD_ONE_UNIT_MAX, "handed_out is for pages of one unit");

/* A bit for each block of 2 MiB: where huge pages were asked for; where that was taken back, and nobody asks before all of the block has
 * been free and given back. */
static HD_LATER_DATA struct {
  _Atomic uint64_t asked, lost;
} huge[HUGE_BLOCKS / 64];

/* A child of a fork has to take so many units before it is as large as a process of 12 MiB. */
static atomic_size_t child_lacks;

/* What huge pages cost here: see ask(). In blocks. */
static struct {
  atomic_bool dear;       /* small pages in their place cost less */
  atomic_uint step, rest; /* for how many blocks that was to hold, and holds still */
  atomic_uint quick;      /* looks since a dear one was found */
} price = {.rest = LOOK_FIRST};

static void put_in(_Atomic uint64_t *set, uint64_t bits) { atomic_fetch_or_explicit(set, bits, memory_order_relaxed); }
static void take_out(_Atomic uint64_t *set, uint64_t bits) { atomic_fetch_and_explicit(set, ~bits, memory_order_relaxed); }
static uint64_t bit_of(size_t block) { return (uint64_t)1 << block % 64; }
static bool is_asked(size_t block) { return (hd_load_relaxed(&huge[block / 64].asked) & bit_of(block)) != 0; }

static size_t block_of(const uint8_t *address) { return (size_t)(address - hdi_space.base) / BLOCK_BYTES; }

static bool can_ask(size_t block) { return !is_asked(block) && (hd_load_relaxed(&huge[block / 64].lost) & bit_of(block)) == 0; }

/* Ask for the blocks from `at` on, up to the first one where somebody has, or must not. Returns where that is. */
SLOW static size_t ask_from(size_t at, size_t last) {
  size_t start = at;
  for (; at < last && can_ask(at); at++) put_in(&huge[at / 64].asked, bit_of(at));
  if (at == start) return at;
  hdi_counters_os_call(1);
  hdi_os_huge(hdi_space.base + start * BLOCK_BYTES, (at - start) * BLOCK_BYTES, true);
  return at;
}

SLOW static uint64_t cost_of_few(void) {
  void *few = hdi_os_reserve(FEW_BYTES, HD_UNIT_BYTES, false);
  if (few == NULL) return 0;
  uint64_t ns = hdi_os_commit(few, FEW_BYTES) ? hdi_os_touch(few, FEW_BYTES) : 0;
  hdi_os_unreserve(few, FEW_BYTES);
  hdi_counters_os_call(4);
  return ns;
}

/* Whether they were dear, and are left out for a while. */
static bool is_pausing(void) { return hd_load_relaxed(&price.dear) && hd_load_relaxed(&price.rest) > 0; }

/* LOOK: at the first of them, and at the next, if that is still the answer. */
enum answer { LEAVE, ASK, LOOK };

/* What to do about so many blocks. Of what may never be touched nothing is learnt: it follows what is known. */
static enum answer answer(size_t blocks, hd_touch touch) {
  bool dear = hd_load_relaxed(&price.dear);
  if (!dear && touch != HD_TOUCH_LIKELY) return touch == HD_TOUCH_SURE ? LOOK : ASK;
  size_t rest = hd_load_relaxed(&price.rest);
  hd_store_relaxed(&price.rest, (unsigned)(rest - hd_min(rest, blocks)));
  if (rest > blocks) return dear ? LEAVE : ASK;
  return touch == HD_TOUCH_PERHAPS ? ASK : LOOK;
}

static bool is_dear(uint64_t ns) { return HD_UNLIKELY(ns > QUICK_NS) && ns > cost_of_few() * (BLOCK_BYTES / FEW_BYTES) * MUCH; }

/* Touch a block that has been asked for, and see what that costs: what to do about those that follow. A host that has taken some memory
 * back gives quick ones and dear ones by turns, and one dear one costs what many quick ones save: a quick one is proof only where none
 * was dear before. */
SLOW static enum answer look_at(size_t block) {
  bool was_dear = hd_load_relaxed(&price.dear);
  hdi_counters_os_call(1);
  uint64_t ns = hdi_os_touch(hdi_space.base + block * BLOCK_BYTES, hdi_os.page_bytes);
  if (ns != 0 && ns < THERE_NS) return was_dear ? LOOK : ASK; /* another thread was faster */
  unsigned quick = is_dear(ns) ? 0 : hd_load_relaxed(&price.quick) + 1;
  hd_store_relaxed(&price.quick, quick);
  if (was_dear && quick > 0 && quick < QUICK_LEAST) return LOOK;
  bool dear = quick == 0;
  unsigned step = dear == was_dear ? hd_load_relaxed(&price.step) * 2 : 0;
  step = (unsigned)hd_min(hd_max(step, REST_FIRST), REST_MOST);
  hd_store_relaxed(&price.step, step);
  hd_store_relaxed(&price.rest, step);
  hd_store_relaxed(&price.dear, dear);
  return dear ? LEAVE : ASK;
}

/* Ask for the blocks that lie in units [from, to), as far as nobody has, with a call for each stretch.
 *
 * Some systems are slow to find a huge page: virtual machines whose host takes free memory back, huge pages of it and not what is left
 * of others (4.5 ms on one of them, in place of 0.25, where 2 MiB of small pages take 0.65), or where others' memory has to be moved out
 * of the way first. So of what will be touched anyway the first page is touched here, and if that is dear, what follows is left to small
 * pages for a while. */
static void ask(size_t from, size_t to, hd_touch touch) {
  size_t first = (from + BLOCK_UNITS - 1) / BLOCK_UNITS;
  size_t last = hd_min(to / BLOCK_UNITS, HUGE_BLOCKS);
  while (first < last && !can_ask(first)) first++;
  if (first >= last) return;
  enum answer now = answer(last - first, touch);
  for (size_t looks = (last - first + LOOK_SHARE - 1) / LOOK_SHARE; now == LOOK && looks > 0; looks--) {
    ask_from(first, first + 1);
    now = look_at(first++);
  }
  if (now != ASK) return;
  for (size_t at = first; at < last; at++) at = ask_from(at, last);
}

static bool can_be_huge(const hd_space *space) { return space == &hdi_space && hdi_os.huge_bytes == BLOCK_BYTES; }

bool hdi_space_asks_huge(const hd_space *space) { return can_be_huge(space) && hdi_options.thp == HD_THP_AUTO; }

void hdi_space_huge_step(const hd_space *space, size_t have, size_t next) {
  if (space != &hdi_space) return;
  bool all = hdi_os.huge_always || hdi_options.thp != HD_THP_AUTO;
  size_t end = all ? next : hd_min(next, PLAIN_UNITS);
  if (end > have) hdi_os_huge(space->base + (have << HD_UNIT_SHIFT), (end - have) << HD_UNIT_SHIFT, hdi_options.thp == HD_THP_ALWAYS);
}

/* What tells how densely the program fills its memory: so many units, and how many bytes of them it has filled. Of the units of pages that
 * are being filled just now nothing is known yet. */
typedef struct evidence {
  size_t units, bytes, open_units;
} evidence;

/* Who knows how much of a unit is filled. */
enum witness { NOBODY, NOBODY_YET, THE_SYSTEM, THE_PAGE };

/* Whom to ask: everybody if a run comes next, or other runs alone; pages if a page does, or of those only the ones that are not being
 * filled just now. */
enum whom { EVERYBODY, RUNS, PAGES, PAGES_NOT_OPEN };

static bool is_for_run(enum whom whom) { return whom <= RUNS; }

/* A unit of a page, or with a block of its own. Of a longer block the first unit is taken for one as well, which changes little. */
static bool is_page(const hd_unit *unit) {
  unsigned kind = hd_load_relaxed(&unit->kind);
  return kind == HD_UNIT_PAGE || kind == HD_UNIT_LARGE;
}

/* Whether its class takes blocks from it at the moment, and will touch the rest of it. */
static bool is_open(const hd_unit *unit) {
  return hd_load_acquire(&unit->kind) == HD_UNIT_PAGE && hd_peek(&hd_load_owned(&unit->head)->state) == HD_PAGE_CURRENT;
}

/* What lies in a huge page is resident, touched or not. If that were proof, one huge page would bring all others. So there only pages tell,
 * if their blocks are so short that each touches all that it lies in; and they tell of pages alone. Units of longer blocks tell of runs
 * alone: those are filled by their nature. Where nobody has told for a while the next huge page is left out, and will tell. */
static enum witness witness_of(const hd_space *space, size_t at, enum whom whom) {
  const hd_unit *unit = space->units + at;
  if (whom == PAGES_NOT_OPEN && is_open(unit)) return NOBODY_YET;
  if (whom == RUNS && hd_load_relaxed(&unit->kind) == HD_UNIT_PAGE) return NOBODY;
  if (!hdi_space_is_huge(space->base + (at << HD_UNIT_SHIFT))) return is_for_run(whom) || is_page(unit) ? THE_SYSTEM : NOBODY;
  bool tells = !is_for_run(whom) && hd_load_acquire(&unit->kind) == HD_UNIT_PAGE && hd_load_owned(&unit->block_bytes) <= SHORT_BLOCK;
  return tells ? THE_PAGE : NOBODY;
}

/* How much of a page of one unit has been handed out. It may change its use meanwhile; then the answer is as good as another. */
static size_t handed_out(const hd_unit *page) {
  size_t bytes = hd_peek(&page->fresh) * hd_load_owned(&page->block_bytes);
  return hd_min(bytes, HD_UNIT_BYTES);
}

static size_t resident(const hd_space *space, size_t from, size_t to) {
  return from == to ? 0 : hdi_os_resident_in(space->base + (from << HD_UNIT_SHIFT), (to - from) << HD_UNIT_SHIFT);
}

/* How many units below this one count. The more there are, the fewer have to be left out. */
static size_t depth(size_t below) { return hd_min(below, hd_min(hd_max(HUGE_DEEP_UNITS, below / DEEP_SHARE), DEEPEST_UNITS)); }

/* From below downwards, until enough units have told. */
static evidence look_below(const hd_space *space, size_t below, enum whom whom) {
  evidence seen = {0, 0, 0};
  size_t last = below - depth(below);
  size_t at = below, end = below; /* [at, end): a stretch to ask the system about */
  while (at > last && seen.units < HUGE_LOOK_UNITS) {
    enum witness witness = witness_of(space, --at, whom);
    seen.units += witness > NOBODY_YET;
    seen.open_units += witness == NOBODY_YET;
    if (witness == THE_SYSTEM) continue;
    seen.bytes += resident(space, at + 1, end);
    if (witness == THE_PAGE) seen.bytes += handed_out(space->units + at);
    end = at;
  }
  seen.bytes += resident(space, at, end);
  return seen;
}

/* Whether that much evidence is proof. There may be no more open pages than others: else the next ones will be like them. */
static bool proves(evidence seen, enum whom whom) {
  bool run = is_for_run(whom);
  size_t least = HUGE_LOOK_UNITS / (run ? LEAST_OF_RUN : LEAST_OF_UNIT), lack = seen.units / (run ? LACK_OF_RUN : LACK_OF_UNIT);
  return seen.units >= hd_max(least, seen.open_units) && seen.bytes >> HD_UNIT_SHIFT >= seen.units - lack;
}

/* A program that has filled the memory below will fill what comes next. A class's newest page is half empty even so, and one thread may
 * have a hundred of those; but runs between them that are filled speak for the next long run. Where many threads grow at once, theirs
 * lie on top, and the proof lies deeper. */
static bool is_dense_below(const hd_space *space, size_t first, size_t next) {
  enum whom whom = next > 1 ? EVERYBODY : PAGES;
  evidence seen = look_below(space, first, whom);
  if (proves(seen, whom)) return true;
  if (next >= LONG_UNITS && proves(look_below(space, first, RUNS), RUNS)) return true;
  if (whom == PAGES && proves(look_below(space, first, PAGES_NOT_OPEN), PAGES_NOT_OPEN)) return true;
  if (seen.bytes >> HD_UNIT_SHIFT < HUGE_LOOK_UNITS / 4 || first < HUGE_DEEP_UNITS) return false;
  return proves(look_below(space, first - HUGE_DEEP_UNITS + HUGE_LOOK_UNITS, whom), whom);
}

/* How long each unit took up to here, behind which a small process goes on, since the last block began. What all threads did counts. Of
 * memory that was given back, and is taken again below, nothing is known before the next block. */
static uint64_t unit_ns(size_t at) {
  static atomic_size_t last_at;
  static _Atomic uint64_t last_ns;
  size_t before = hd_load_relaxed(&last_at);
  uint64_t now = hdi_os_spent_ns(), spent = now - hd_load_relaxed(&last_ns);
  hd_store_relaxed(&last_at, at);
  hd_store_relaxed(&last_ns, now);
  return at >= FAST_FIRST_UNITS && at > before && now != 0 ? spent / (at - before) : UINT64_MAX;
}

/* Whether page faults are so much of that time. What they cost differs by four from machine to machine, and is found out once. */
SLOW static bool is_most_faults(uint64_t ns) {
  static _Atomic uint64_t cost;
  if (hd_load_relaxed(&cost) == 0) hd_store_relaxed(&cost, cost_of_few() / (FEW_BYTES >> HD_UNIT_SHIFT));
  return ns * FAULTS_SHARE <= hd_load_relaxed(&cost) * 100;
}

/* Whether a program that comes to a block with its next units, from `from` on, will fill it. */
static bool is_filling(const hd_space *space, size_t from, size_t next, uint64_t ns) {
  return ns <= SLOW_UNIT_NS && is_dense_below(space, from, next) && (HD_LIKELY(ns <= FAST_UNIT_NS) || is_most_faults(ns));
}

/* Of a long run its owner knows more: see hdi_space_want_huge.
 *
 * Who asks may have to wait for as long as a huge page takes to come to another thread, and meanwhile a third one touches the block; then
 * it will be none. So the block behind is asked for as well, and whoever enters that has only to look at it. A long run says nothing of
 * what comes behind it. */
void hdi_space_huge_enter(const hd_space *space, size_t from, size_t to, size_t end, hd_touch touch) {
  size_t lacks = hd_load_relaxed(&child_lacks);
  if (HD_UNLIKELY(lacks != 0)) hd_store_relaxed(&child_lacks, lacks - hd_min(lacks, to - from));
  if (!hdi_space_asks_huge(space) || to - from >= HD_HUGE_RUN_UNITS) return;
  size_t first = hd_round_up(from, BLOCK_UNITS);
  size_t last = hd_min(hd_round_up(to, BLOCK_UNITS), hd_round_down(end, BLOCK_UNITS));
  size_t block = first / BLOCK_UNITS, behind = last / BLOCK_UNITS;
  if (first == 0 || first >= last) return;
  if (behind >= HUGE_BLOCKS) return;
  size_t next = touch == HD_TOUCH_SURE ? 1 : to - from;
  bool small = first < HUGE_FIRST_UNITS || lacks != 0, ahead = !small && touch != HD_TOUCH_PERHAPS && next < LONG_UNITS;
  if (ahead && is_asked(block)) {
    if (answer(1, touch) == LOOK) look_at(block);
    if (is_asked(behind)) return;
  }
  if (!is_filling(space, from, next, small ? unit_ns(first) : 0)) return;
  ask(first, last, touch);
  if (ahead && last + BLOCK_UNITS <= end && !is_pausing()) ask_from(behind, behind + 1);
}

/* What was once resident may have been given back since; who had it may well have it again. */
bool hdi_space_huge_is_little(void) {
  static atomic_bool grown;
  static atomic_uint wait, pause;
  size_t top = hd_load_relaxed(&hdi_space.top), seen = 0;
  if (hd_load_relaxed(&grown)) return true;
  if (top < GROWN_UNITS) return false;
  unsigned left = hd_load_relaxed(&wait);
  hd_store_relaxed(&wait, left - (left > 0));
  if (left > 0) return false;
  for (size_t at = 0; at < hd_min(top, GROWN_LOOK_UNITS) && seen < (size_t)GROWN_UNITS << HD_UNIT_SHIFT; at += HUGE_LOOK_UNITS) {
    seen += resident(&hdi_space, at, hd_min(top, at + HUGE_LOOK_UNITS));
  }
  bool enough = seen >= (size_t)GROWN_UNITS << HD_UNIT_SHIFT;
  hd_store_relaxed(&grown, enough);
  hd_store_relaxed(&pause, (unsigned)hd_min(2 * hd_load_relaxed(&pause) + 1, GROWN_PAUSE));
  hd_store_relaxed(&wait, hd_load_relaxed(&pause));
  return enough;
}

/* A limit counts units, whether they are touched or not. */
size_t hdi_space_huge_grain(const hd_space *space, size_t units) {
  bool wanted = hdi_options.thp != HD_THP_NEVER && hd_load_owned(&hdi_options.limit) == 0;
  return units >= HD_HUGE_RUN_UNITS && !HD_NARROW && wanted && can_be_huge(space) ? BLOCK_UNITS : 1;
}

void hdi_space_want_huge(hd_space *space, const hd_unit *first, size_t units, hd_touch touch) {
  size_t at = (size_t)(first - space->units);
  if (hdi_space_asks_huge(space)) ask(at, at + units, units <= LOOK_MOST_UNITS ? touch : HD_TOUCH_PERHAPS);
}

bool hdi_space_is_huge(const uint8_t *address) {
  size_t block = block_of(address);
  return block < HUGE_BLOCKS && (hdi_options.thp == HD_THP_ALWAYS || is_asked(block));
}

/* Blocks [from, to) are as they were before anybody asked. Between those that were asked for may lie somebody else's memory. */
SLOW static void take_back(size_t from, size_t to) {
  for (size_t at = from; at < to; at++) {
    size_t start = at;
    for (; at < to && is_asked(at); at++) take_out(&huge[at / 64].asked, bit_of(at));
    if (at > start) hdi_os_huge(hdi_space.base + start * BLOCK_BYTES, (at - start) * BLOCK_BYTES, false);
  }
}

SLOW void hdi_space_leave_huge(const uint8_t *address, size_t bytes) {
  take_back(block_of(address + BLOCK_BYTES - 1), hd_min(block_of(address + bytes), HUGE_BLOCKS));
}

/* What its parent asked for ahead is not for a child that may stay small. */
SLOW void hdi_space_huge_fork_child(void) {
  size_t top = hd_load_relaxed(&hdi_space.top), next = hd_round_up(top, BLOCK_UNITS) / BLOCK_UNITS;
  hd_store_relaxed(&child_lacks, hd_round_down(hd_min(top, HUGE_FIRST_UNITS), BLOCK_UNITS));
  take_back(next, hd_min(next + 1, HUGE_BLOCKS));
}

/* By steps of 32 MiB, or the system would have a range to keep for each block that has a gap. */
SLOW static void lose(size_t block) {
  size_t first = hd_round_down(block, STEP_BLOCKS);
  uint64_t bits = hd_low_mask(STEP_BLOCKS) << first % 64;
  if ((hd_load_relaxed(&huge[first / 64].asked) & bits) == 0) return;
  put_in(&huge[first / 64].lost, bits);
  take_back(first, first + STEP_BLOCKS);
}

SLOW void hdi_space_before_purge(const uint8_t *address, size_t bytes) {
  size_t block = block_of(address);
  if (block >= HUGE_BLOCKS) return;
  if (bytes >= TAKE_BACK_BYTES) hdi_space_leave_huge(address, bytes);
  if (bytes >= hdi_os.huge_bytes) return;
  lose(block);
  lose(hd_min(block_of(address + bytes - 1), HUGE_BLOCKS - 1));
}

SLOW void hdi_space_huge_again(const hd_space *space, const hd_unit *run) {
  size_t from = (size_t)(run - space->units), last = hd_min((from + run->run_units) / BLOCK_UNITS, AGAIN_BLOCKS);
  if (!can_be_huge(space)) return;
  for (size_t at = (from + BLOCK_UNITS - 1) / BLOCK_UNITS; at < last; at++) {
    _Atomic uint64_t *lost = &huge[at / 64].lost;
    if (hd_load_relaxed(lost) == 0) at |= 63;
    else if ((hd_load_relaxed(lost) & bit_of(at)) != 0) take_out(lost, bit_of(at));
  }
}
