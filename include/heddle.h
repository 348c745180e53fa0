/* Heddle: a memory manager that programs run on.
 *
 * This header is the whole C interface of the heap: the malloc family under the prefix hd_, first-class heaps, walking,
 * collecting, options and statistics. All functions may be called before main, from constructors, from any thread, from
 * thread-exit destructors and atexit handlers, and in the child of a fork. None is async-signal-safe. Every success keeps
 * errno; failures say ENOMEM (no memory or a size above PTRDIFF_MAX) or EINVAL (a bad alignment or argument).
 *
 * Blocks of all families mix: what hd_malloc returned may go to free() of the override library, hd_realloc, hd_heap_realloc
 * of the same heap, and so on. Every block is aligned to 16 bytes at least, whatever its size.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_H
#define HEDDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 1
#define HEDDLE_VERSION_PATCH 0
#define HEDDLE_VERSION (HEDDLE_VERSION_MAJOR * 10000 + HEDDLE_VERSION_MINOR * 100 + HEDDLE_VERSION_PATCH)

#if defined(__GNUC__) || defined(__clang__)
#define HEDDLE_MALLOC __attribute__((malloc, warn_unused_result))
#define HEDDLE_SIZE(i) __attribute__((alloc_size(i)))
#define HEDDLE_SIZE2(i, j) __attribute__((alloc_size(i, j)))
#define HEDDLE_API __attribute__((visibility("default")))
#else
#define HEDDLE_MALLOC
#define HEDDLE_SIZE(i)
#define HEDDLE_SIZE2(i, j)
#define HEDDLE_API
#endif

/** Result of the calls that can fail in more than one way. */
typedef enum hd_status {
  HD_OK = 0,           /* done */
  HD_ERR_UNKNOWN = 1,  /* no option, heap or field of that name */
  HD_ERR_VALUE = 2,    /* the value can't be read or lies outside its range */
  HD_ERR_LATE = 3,     /* this option can only be set before the first allocation */
  HD_ERR_NOMEM = 4     /* the operating system gave no memory */
} hd_status;

/** A heap of its own: opaque. See hd_heap_create. */
typedef struct hd_heap hd_heap;

/* ---- the malloc family ------------------------------------------------------------------------------------------ */

/** Allocate a block.
 *  bytes    0..PTRDIFF_MAX; 0 gives a block of its own that must be freed
 *  returns  block aligned to 16, usable size >= bytes, content undefined; NULL on failure
 *  errno    ENOMEM on failure
 *  threads  any
 *  cost     about 16 instructions when this thread's heap has a free block of the class; O(1) amortised */
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE(1) void *hd_malloc(size_t bytes);

/** Allocate count * bytes bytes that read as zero. Memory that is known to be zero is not cleared again.
 *  returns  as hd_malloc; NULL with ENOMEM also when the product overflows
 *  cost     as hd_malloc, and O(size) only where the memory has been used before; while more than one thread has a heap, new memory of up
 *           to 1 MiB is touched page by page, so that a table that is read before it is written to is not faulted in twice */
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE2(1, 2) void *hd_calloc(size_t count, size_t bytes);

/** Allocate bytes bytes that read as zero: hd_calloc(1, bytes). */
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE(1) void *hd_zalloc(size_t bytes);

/** Resize a block, keeping the first min(old, new) bytes.
 *  p        block from any Heddle allocation, or NULL (acts as hd_malloc)
 *  bytes    new size, 0..PTRDIFF_MAX; 0 frees p and returns NULL, as the C library's realloc does
 *  returns  block aligned to 16, usable size >= bytes; NULL on failure, and p stays valid and unchanged
 *  errno    ENOMEM on failure
 *  threads  any thread, whichever allocated p
 *  cost     O(1) in place or by moving pages; else copies min(old, new) bytes */
HEDDLE_API HEDDLE_SIZE(2) void *hd_realloc(void *p, size_t bytes);

/** hd_realloc(p, count * bytes) with the product checked; NULL with ENOMEM when it overflows. */
HEDDLE_API HEDDLE_SIZE2(2, 3) void *hd_reallocarray(void *p, size_t count, size_t bytes);

/** Resize as hd_reallocarray does and clear what lies behind the old usable size. Only blocks that were allocated zeroed and
 *  resized only by hd_recalloc are zero in their whole new length: the old usable size is taken as the old length. */
HEDDLE_API HEDDLE_SIZE2(2, 3) void *hd_recalloc(void *p, size_t count, size_t bytes);

/** Grow or shrink a block where it stands.
 *  returns  p when its usable size is now >= bytes, else NULL with p unchanged
 *  errno    never set
 *  cost     O(1) */
HEDDLE_API void *hd_expand(void *p, size_t bytes);

/** Give a block back. NULL is ignored. Keeps errno.
 *  p        block from any Heddle allocation, or a pointer of the process's next allocator, which then gets it
 *  misuse   a double free, an interior pointer and a pointer never handed out end in one line on stderr (see `onerror`)
 *  threads  any thread, whichever allocated p, also after that thread's end
 *  cost     about 21 instructions from the owning thread; no atomic operation from another one */
HEDDLE_API void hd_free(void *p);

/** hd_free for callers that know the size they asked for (C23). A hint only: a wrong size is reported in hardened mode. */
HEDDLE_API void hd_free_sized(void *p, size_t bytes);

/** hd_free for callers that know alignment and size they asked for (C23). */
HEDDLE_API void hd_free_aligned_sized(void *p, size_t alignment, size_t bytes);

/** Allocate with an alignment.
 *  alignment  a power of two up to 2^40; anything else is EINVAL
 *  bytes      0..PTRDIFF_MAX; need not be a multiple of alignment
 *  errno      EINVAL, ENOMEM */
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE(2) void *hd_aligned_alloc(size_t alignment, size_t bytes);

/** hd_aligned_alloc of memory that reads as zero. */
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE(2) void *hd_aligned_zalloc(size_t alignment, size_t bytes);

/** POSIX form: alignment must also be a multiple of sizeof(void *).
 *  returns  0, EINVAL or ENOMEM; *out is written on success only
 *  errno    kept with EINVAL, ENOMEM with ENOMEM, as the C library does */
HEDDLE_API int hd_posix_memalign(void **out, size_t alignment, size_t bytes);

/** Resize a block and keep its alignment, which must be the one it was allocated with. */
HEDDLE_API HEDDLE_SIZE(3) void *hd_aligned_realloc(void *p, size_t alignment, size_t bytes);

/** Copy a string, or its first max_bytes bytes, into a block of its own. NULL gives NULL. */
HEDDLE_API HEDDLE_MALLOC char *hd_strdup(const char *text);
HEDDLE_API HEDDLE_MALLOC char *hd_strndup(const char *text, size_t max_bytes);

/** Bytes that p's owner may use, >= what was asked for. 0 for NULL. cost O(1).
 *  A compiler that checks lengths (_FORTIFY_SOURCE=3) knows of what was asked for alone: who means to use all asks for hd_good_size. */
HEDDLE_API size_t hd_usable_size(const void *p);

/** Usable size that hd_malloc(bytes) gives at least: that of its size class. The first blocks of a class may have more, up to the
 *  next power of two. 0 when bytes > PTRDIFF_MAX. cost O(1), allocates nothing. */
HEDDLE_API size_t hd_good_size(size_t bytes);

/** Whether p lies in memory that Heddle manages (also inside a block or in free memory). threads any; cost O(1). */
HEDDLE_API bool hd_owns(const void *p);

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

/** Limits and place of a heap; zero-initialise, then set what matters. */
typedef struct hd_heap_config {
  size_t struct_bytes;   /* sizeof(hd_heap_config): the caller's version of this struct */
  const char *name;      /* shown in statistics, copied (31 bytes); NULL for none */
  size_t limit_bytes;    /* most bytes of pages this heap may hold; 0: no limit. Allocation beyond it gives NULL, ENOMEM */
  void *memory;          /* memory of the caller's to live in, or NULL: the common memory */
  size_t memory_bytes;   /* its length, at least 1 MiB; it must stay valid and untouched until hd_heap_destroy returned */
  bool one_user;         /* calls with this heap as argument never overlap: it has no lock, and is as fast as hd_malloc */
} hd_heap_config;

/** Create a heap.
 *  config   NULL: unnamed, no limit, common memory
 *  returns  the heap; NULL with ENOMEM, or EINVAL for a bad config
 *  threads  any thread may use the heap at any time; calls on one heap exclude each other by a lock. With one_user the caller
 *           sees to that, by one thread or a lock of its own; hd_free of its blocks is for any thread even so */
HEDDLE_API hd_heap *hd_heap_create(const hd_heap_config *config);

/** Free every block of the heap at once and the heap itself. No block or pointer to the heap may be used afterwards, and no
 *  call on the heap or hd_free of its blocks may be under way in another thread. NULL is ignored.
 *  cost     O(pages of the heap) */
HEDDLE_API void hd_heap_destroy(hd_heap *heap);

/** Free every block of the heap at once; the heap stays usable. Same rules as hd_heap_destroy. */
HEDDLE_API void hd_heap_reset(hd_heap *heap);

/** The malloc family on a heap: sizes, results, errno and misuse as in the functions without heap. Blocks are freed by
 *  hd_free from any thread. threads any. */
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE(2) void *hd_heap_malloc(hd_heap *heap, size_t bytes);
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE(2) void *hd_heap_zalloc(hd_heap *heap, size_t bytes);
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE2(2, 3) void *hd_heap_calloc(hd_heap *heap, size_t count, size_t bytes);
HEDDLE_API HEDDLE_SIZE(3) void *hd_heap_realloc(hd_heap *heap, void *p, size_t bytes);
HEDDLE_API HEDDLE_MALLOC HEDDLE_SIZE(3) void *hd_heap_aligned_alloc(hd_heap *heap, size_t alignment, size_t bytes);

/** hd_free for whoever uses the heap: without any atomic operation when the heap has one user. p may be any block, or NULL. */
HEDDLE_API void hd_heap_free(hd_heap *heap, void *p);

/** The heap that block p belongs to; NULL when p is not a block of a heap made by hd_heap_create. */
HEDDLE_API hd_heap *hd_heap_of(const void *p);

/* ---- walking ---------------------------------------------------------------------------------------------------- */

/** What an area of a walk is: pages and large blocks of heaps, or the region of an object that carves it up by itself. */
typedef enum hd_area_kind {
  HD_AREA_PAGE = 0,
  HD_AREA_LARGE = 1,
  HD_AREA_ARENA = 2,
  HD_AREA_POOL = 3,
  HD_AREA_INDEX_POOL = 4,
  HD_AREA_STRING_POOL = 5,
  HD_AREA_HANDLES = 6
} hd_area_kind;

/** One page, large block or object's region as a walk shows it. Fields are only ever added at the end. */
typedef struct hd_area {
  hd_heap *heap;         /* a heap made by hd_heap_create, or NULL: a thread's heap, or an object's region */
  const void *address;   /* first byte */
  size_t bytes;          /* length of the area */
  size_t block_bytes;    /* usable size of each block; of a region: bytes touched so far */
  size_t block_capacity; /* blocks the area can hold; 0 for regions */
  size_t block_used;     /* live blocks in it; 0 for regions */
  hd_area_kind kind;     /* what it is */
  const char *name;      /* of a region's object, valid during the visit; else NULL */
} hd_area;

/** Called for each area (block NULL), then, when blocks were asked for, for each live block in it; what lies in a region is known
 *  to its object alone, so it shows no blocks. Return false to stop. It must not allocate or free. */
typedef bool hd_visitor(const hd_area *area, void *block, size_t block_bytes, void *user);

/** Visit the areas of one heap, or of all heaps (heap NULL), and with blocks true their live blocks.
 *  The picture is exact while no other thread allocates or frees; otherwise it is a picture of slightly different moments.
 *  returns  false when the visitor stopped it */
HEDDLE_API bool hd_heap_walk(hd_heap *heap, bool blocks, hd_visitor *visitor, void *user);

/* ---- collecting ------------------------------------------------------------------------------------------------- */

/** Take in what other threads freed, and give free memory back to the operating system.
 *  keep_bytes  free memory that may stay resident
 *  returns     true when pages were given back
 *  cost        O(heap) and system calls; other threads go on meanwhile */
HEDDLE_API bool hd_collect(size_t keep_bytes);

/** Tell Heddle that the calling thread will not allocate for a while: its caches go to the common store, and with them the pages in which
 *  nothing is in use. Else a thread that waits keeps, of each size up to 2 KiB that it has used, the system pages of up to 64 blocks.
 *  cost  O(size classes used); the next blocks take some hundred instructions each until they have pages again */
HEDDLE_API void hd_thread_idle(void);

/* ---- options ---------------------------------------------------------------------------------------------------- */

/** Set one option by name, as in the environment variable HEDDLE ("purge-delay", "500").
 *  returns  HD_OK, HD_ERR_UNKNOWN, HD_ERR_VALUE or HD_ERR_LATE
 *  see      heddle-options(7) */
HEDDLE_API hd_status hd_option_set(const char *name, const char *value);

/** Read one option as text into buffer (always terminated when bytes > 0).
 *  returns  the text's full length, 0 when there is no such option */
HEDDLE_API size_t hd_option_get(const char *name, char *buffer, size_t bytes);

/** An application may define this: "key:value,key:value", stronger than the built-in values and weaker than the
 *  configuration file and the environment. */
extern const char *heddle_options;

/** Called in the thread that misused p, after the line of the report and before what `onerror` says. It may look at nothing but its
 *  arguments, and must not allocate; it should return. p: the address, or the handle or index of an object as one. code: "HD-E03"
 *  and so on, see the manual. */
typedef void hd_misuse_hook(const void *p, const char *code);

/** Have misuse told to the program, for a language that makes errors of its own of it. NULL: nobody.
 *  threads  any */
HEDDLE_API void hd_misuse_hook_set(hd_misuse_hook *hook);

/* ---- statistics ------------------------------------------------------------------------------------------------- */

#define HD_STATS_VERSION 1

/** Where memory is. All in bytes unless the name says count. Fields are only ever added at the end. */
typedef struct hd_stats {
  size_t version;          /* HD_STATS_VERSION of the library */
  size_t struct_bytes;     /* set by the caller to sizeof(hd_stats) before the call */
  size_t live;             /* in blocks that the program holds (usable sizes) */
  size_t live_count;       /* how many such blocks */
  size_t free_in_pages;    /* free blocks and unused ends in pages */
  size_t large;            /* the part of live that is in large blocks of their own */
  size_t cached;           /* free runs that are resident, all or some of them, and wait for reuse or purge */
  size_t metadata;         /* Heddle's own tables, heaps and maps */
  size_t mapped;           /* address range in use (runs ever handed out), without the reserve */
  size_t reserved;         /* reserved address range */
  size_t purged_total;     /* given back to the operating system since the start */
  size_t page_count;       /* pages of blocks in use */
  size_t heap_count;       /* heaps of living threads and explicit heaps */
  size_t orphan_count;     /* heaps of ended threads that wait for adoption */
  size_t os_call_count;    /* system calls that changed mappings */
  size_t moved_total;      /* bytes moved by page-table moves instead of copies */
  size_t resident;         /* the process's resident set, as the system reports it; 0 if unknown */
  size_t objects;          /* touched memory of arenas, pools and handles; not part of live */
  size_t object_count;     /* regions of such objects */
} hd_stats;

/** Fill *stats, whose struct_bytes the caller has set; fields beyond the library's version stay untouched.
 *  returns  false when stats is NULL or struct_bytes is too small
 *  threads  any; others go on meanwhile
 *  cost     O(pages) */
HEDDLE_API bool hd_stats_get(hd_stats *stats);

/** The same for one heap: live, live_count, free_in_pages, large, page_count. */
HEDDLE_API bool hd_heap_stats_get(hd_heap *heap, hd_stats *stats);

/** Print statistics as a table or as JSON into buffer, as snprintf does.
 *  returns  length of the full text */
HEDDLE_API size_t hd_stats_text(char *buffer, size_t bytes);
HEDDLE_API size_t hd_stats_json(char *buffer, size_t bytes);

/* ---- the library ------------------------------------------------------------------------------------------------ */

/** HEDDLE_VERSION of the library in use. */
HEDDLE_API int hd_version(void);

/** "0.1.0 (release)" of the library in use. */
HEDDLE_API const char *hd_version_text(void);

/** Whether malloc of this process is Heddle's, and if not, a sentence with the reason in *reason (may be NULL). */
HEDDLE_API bool hd_override_active(const char **reason);

#ifdef __cplusplus
}
#endif
#endif
