/* The unit table's entry: all that is known about 64 KiB of memory, out of line.
 *
 * Memory is handed around in units of 64 KiB. A page is a run of 1 to 8 units cut into equal blocks; a large block is a
 * run of its own; the rest are free runs. Line 0 is what every free() reads; it changes only when the unit changes its use,
 * owner or state. Line 1 is written by the owner all the time.
 *
 * Who writes: space.c while the unit is free or changes hands, page.c while it is a page, large.c while it is a large block,
 * remote.c the owner word and the remote words. Everything but the atomic fields belongs to the owner, or to whoever has
 * the owner's gate (gate.h).
 *
 * Line 0 stays readable after release: a free() of a stale pointer still finds what stood there and can name the mistake.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_UNIT_H
#define HD_CORE_UNIT_H

#include <stdatomic.h>

#include "base/atomic.h"
#include "base/bits.h"

enum {
  HD_UNIT_SHIFT = 16,
  HD_UNIT_BYTES = 1 << HD_UNIT_SHIFT,
  HD_UNIT_ENTRY_SHIFT = 7 /* log2 sizeof(hd_unit) */
};

/* What a unit is used for. Inner units of large blocks, regions and free runs keep HD_UNIT_NONE: only the ends are marked. */
enum hd_unit_kind {
  HD_UNIT_NONE = 0,   /* never used, or the inside of a free run or large block */
  HD_UNIT_CLEAN,      /* first or last unit of a free run that reads as zero */
  HD_UNIT_DIRTY,      /* first or last unit of a free run with old content */
  HD_UNIT_SPARSE,     /* the same of one that stays whole, because little of it is resident */
  HD_UNIT_PAGE,       /* a unit of a page */
  HD_UNIT_LARGE,      /* first unit of a large block */
  HD_UNIT_REGION,     /* first unit of an arena's or pool's region */
  HD_UNIT_PASSED,     /* not ours: somebody else's memory lies here, and the space goes on behind it */
};

/* Life of a page; see page.h. */
enum hd_page_state { HD_PAGE_NONE = 0, HD_PAGE_CURRENT, HD_PAGE_FULL, HD_PAGE_PARTIAL };

/* Values of a block's byte in the byte map. Virgin blocks are 0 too, so that a fresh map need not be written. QUARANTINED: freed in
 * hardened mode, but not yet for anybody to have. CACHED: freed, and in its heap's magazine. SENT: freed by another thread, and in one of
 * its parcels. */
enum { HD_BLOCK_FREE = 0, HD_BLOCK_LIVE = 1, HD_BLOCK_QUARANTINED = 2, HD_BLOCK_CACHED = 3, HD_BLOCK_SENT = 4 };

/* The group after it is the first one. */
#define HD_NO_GROUP UINT16_MAX

/* Credit of a CURRENT page, which frees count down from until somebody looks at its words. So many without a look are of a program that
 * takes and frees the same few blocks (decision 34). */
#define HD_CREDIT_CURRENT 4096u

/* Together with any block's address it is negative, where addresses have more than 32 bits. */
#define HD_FETCH_NOTHING PTRDIFF_MIN

/* Low bits of the owner word: a page whose free() goes by way of its head and, if it is a thread's, of a magazine; memory of an explicit
 * heap, whose free() takes that heap's lock; a large block of such a heap, which has no map; and memory of hardened mode. The last has
 * EXPLICIT as well, though its heap is a thread's: that one bit keeps all fast ways away from it. LOOSE: a page that its heap has filled,
 * and that another may take over (remote.h); SWEPT: a collector is at such a page. */
enum {
  HD_OWNER_MEDIUM = 1,
  HD_OWNER_EXPLICIT = 2,
  HD_OWNER_LARGE = 4,
  HD_OWNER_HARDENED = 8,
  HD_OWNER_LOOSE = 16,
  HD_OWNER_SWEPT = 32,
  HD_OWNER_BITS = 63
};

typedef _Atomic uint8_t hd_block_state;

typedef struct hd_unit hd_unit;
struct hd_unit {
  /* line 0 */
  _Atomic uintptr_t owner;    /* pages: the heap with low bits; 0 for all others */
  uint8_t *base;              /* pages and large: address of the first block; regions: their start */
  uint64_t inverse;           /* pages: hdi_unit_inverse of block_bytes */
  union {
    hd_block_state *map;      /* pages: one byte a block */
    const char *name;         /* regions: the object's name, or NULL */
  };
  uint64_t capacity;          /* pages: blocks; large: 1; regions: 0 */
  union {
    size_t block_bytes;       /* pages: size of a block; large: usable size */
    _Atomic size_t touched;   /* regions: bytes that cost memory */
  };
  hd_unit *head;              /* pages, large, regions: the run's first unit */
  uint8_t class_index;        /* pages; regions: enum hd_area_kind */
  uint8_t state;              /* enum hd_page_state */
  _Atomic uint8_t kind;       /* enum hd_unit_kind */
  uint16_t remote_limit;      /* pages: frees from one other heap until it tells; see remote.c */
  uint16_t in_heap;           /* pages: where their class lies in the heap, or its magazine if it has one */
  /* line 1 */
  _Alignas(64) uint32_t credit; /* pages: local frees until something must be done; see page.h */
  uint32_t fresh;             /* blocks ever handed out are those below this index */
  uint64_t *words;            /* pages: a bit for each block that the owner has freed, or may hand out; see page.h */
  union {
    struct {                  /* PARTIAL: the class's list, the first one's prev is its end; free runs: their bin */
      hd_unit *next, *prev;
    };
    struct {                  /* CURRENT */
      uint64_t apart;         /* what the slot takes from in place of the group's word: blocks that read as zero, or a turn's */
      uint32_t held;          /* blocks live or in a word, as far as the owner knows */
      uint16_t group;         /* that the slot stands for, or HD_NO_GROUP */
      uint16_t counted;       /* blocks in the words when credit was HD_CREDIT_CURRENT: with what was freed since, there are no more */
    };
  };
  union {
    struct {                  /* runs of an explicit heap: its list of them, as table index + 1 */
      uint32_t run_next, run_prev;
    };
    ptrdiff_t fetch_at;       /* pages of a thread's heap: from a freed block to what is fetched, or HD_FETCH_NOTHING */
  };
  uint32_t run_units;         /* units of the run; also at the last unit of a free run */
  union {
    uint32_t stamp;           /* free runs: when freed, in ticks */
    uint32_t mail;            /* pages in an inbox: FULL ones from here on, or about so many */
  };
  _Atomic uint32_t remote_count; /* counted remote frees not yet taken in; bit 31: queued in the owner's inbox */
  union {
    uint8_t zeroed;           /* pages: blocks never handed out read as zero */
    uint8_t plain;            /* large: a dirty run when it is freed, and no sparse one: calloc's, or longer than at first */
  };
  union {
    _Atomic uint8_t live;     /* large: 1 while the program holds the block, 0 while a heap keeps its run; regions: 1 */
    bool swept;               /* pages: free system pages were given back, and nothing was claimed since; purge.c */
  };
  uint16_t rest;              /* FULL and PARTIAL: blocks in use beyond credit */
  hd_unit *remote_next;       /* link in the owner's inbox */
};

_Static_assert(sizeof(hd_unit) == 1 << HD_UNIT_ENTRY_SHIFT, "an entry is two cache lines");
_Static_assert(offsetof(hd_unit, credit) == 64, "line 1 starts at credit");

#define HD_REMOTE_QUEUED 0x80000000u

/* Onto a list through next that others put units on as well. Who wants them takes the list as a whole, by an exchange. */
static inline void hdi_unit_push(_Atomic(hd_unit *) *list, hd_unit *first) {
  first->next = hd_load_relaxed(list);
  while (!hd_swap_if(list, &first->next, first)) {
  }
}

FAST bool hdi_unit_is_hardened(hd_unit *unit) {
  return (atomic_load_explicit(&unit->owner, memory_order_relaxed) & HD_OWNER_HARDENED) != 0;
}

/* What an offset in a page is multiplied with, so that the index of its block stands HD_UNIT_SHIFT bits up and below it is nothing: the
 * inverse of the odd part of the block's size, put up by what the even part lacks. */
static inline uint64_t hdi_unit_inverse(uint32_t block_bytes) {
  unsigned even = (unsigned)hd_lowest_bit(block_bytes);
  return hd_inverse(block_bytes >> even) << (HD_UNIT_SHIFT - even);
}

/* Index of the block at p in a page: below unit->capacity exactly when p is the start of one of its blocks, for any address p at all (bits
 * from 52 on, which no address has to itself, may be lost). The product with the inverse divides exactly where that is possible; elsewhere
 * it is enormous, or has bits below the index, which the rotation puts above it. One comparison therefore answers interior, misaligned and
 * foreign pointers together. */
FAST uint64_t hdi_unit_block_index(const hd_unit *unit, const void *p) {
  uint64_t index = (uint64_t)((uintptr_t)p - (uintptr_t)hd_load_owned(&unit->base));
  index *= hd_load_owned(&unit->inverse);
  return hd_rotate_right(index, HD_UNIT_SHIFT);
}

#endif
