/* The interface of mimalloc 2.1, served by Heddle: an engine written for mimalloc compiles and links unchanged.
 *
 * Names, arguments and meanings are those of mimalloc's public documentation; where this library differs, the line says so and the
 * README lists it. Heaps (mi_heap_t) may here be used by any thread, not just the one that made them.
 * Failures: NULL with errno ENOMEM, or EINVAL for an alignment that is no power of two.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_MIMALLOC_H
#define HEDDLE_MIMALLOC_H

#define MI_MALLOC_VERSION 217 /* the interface's; heddle's own is in heddle.h */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define mi_decl_export __attribute__((visibility("default")))
#define mi_attr_malloc __attribute__((malloc))
#define mi_attr_alloc_size(s) __attribute__((alloc_size(s)))
#define mi_attr_alloc_size2(s1, s2) __attribute__((alloc_size(s1, s2)))
#define mi_attr_alloc_align(a) __attribute__((alloc_align(a)))
#define mi_decl_nodiscard __attribute__((warn_unused_result))
#else
#define mi_decl_export
#define mi_attr_malloc
#define mi_attr_alloc_size(s)
#define mi_attr_alloc_size2(s1, s2)
#define mi_attr_alloc_align(a)
#define mi_decl_nodiscard
#endif
#define mi_cdecl
#define mi_decl_restrict
#ifdef __cplusplus
#undef mi_decl_nodiscard
#define mi_decl_nodiscard [[nodiscard]]
#define mi_attr_noexcept noexcept
extern "C" {
#else
#define mi_attr_noexcept
#endif

#define HEDDLE_MI mi_decl_nodiscard mi_decl_export

/* ---- the malloc family: mi_realloc(p, 0) gives a block of its own, not NULL ---------------------------------------- */

HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_malloc(size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(1, 2) void *mi_calloc(size_t count, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_zalloc(size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(1, 2) void *mi_mallocn(size_t count, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(2) void *mi_realloc(void *p, size_t newsize) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(2, 3) void *mi_reallocn(void *p, size_t count, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(2) void *mi_reallocf(void *p, size_t newsize) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(2) void *mi_rezalloc(void *p, size_t newsize) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(2, 3) void *mi_recalloc(void *p, size_t newcount, size_t size) mi_attr_noexcept;
mi_decl_export void *mi_expand(void *p, size_t newsize) mi_attr_noexcept;
mi_decl_export void mi_free(void *p) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc char *mi_strdup(const char *s) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc char *mi_strndup(const char *s, size_t n) mi_attr_noexcept;
HEDDLE_MI char *mi_realpath(const char *fname, char *resolved_name) mi_attr_noexcept;

#define MI_SMALL_WSIZE_MAX (128)
#define MI_SMALL_SIZE_MAX (MI_SMALL_WSIZE_MAX * sizeof(void *))
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_malloc_small(size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_zalloc_small(size_t size) mi_attr_noexcept;

HEDDLE_MI size_t mi_usable_size(const void *p) mi_attr_noexcept;
HEDDLE_MI size_t mi_good_size(size_t size) mi_attr_noexcept;

/* ---- aligned: any power of two; in the _at forms p + offset is what lies at a multiple of it ------------------------ */

#define MI_ALIGNMENT_MAX ((size_t)1 << 40)
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_malloc_aligned(size_t size, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_zalloc_aligned(size_t size, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_zalloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(1, 2) void *mi_calloc_aligned(size_t count, size_t size, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(1, 2) void *mi_calloc_aligned_at(size_t count, size_t size, size_t alignment,
                                                                              size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(2) void *mi_realloc_aligned(void *p, size_t newsize, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(2) void *mi_realloc_aligned_at(void *p, size_t newsize, size_t alignment, size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(2) void *mi_rezalloc_aligned(void *p, size_t newsize, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(2) void *mi_rezalloc_aligned_at(void *p, size_t newsize, size_t alignment, size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(2, 3) void *mi_recalloc_aligned(void *p, size_t newcount, size_t size, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(2, 3) void *mi_recalloc_aligned_at(void *p, size_t newcount, size_t size, size_t alignment,
                                                                 size_t offset) mi_attr_noexcept;

/* ---- POSIX, BSD and C++ names -------------------------------------------------------------------------------------- */

HEDDLE_MI size_t mi_malloc_size(const void *p) mi_attr_noexcept;
HEDDLE_MI size_t mi_malloc_good_size(size_t size) mi_attr_noexcept;
HEDDLE_MI size_t mi_malloc_usable_size(const void *p) mi_attr_noexcept;
mi_decl_export int mi_posix_memalign(void **p, size_t alignment, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_memalign(size_t alignment, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_aligned_alloc(size_t alignment, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_valloc(size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_pvalloc(size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(2, 3) void *mi_reallocarray(void *p, size_t count, size_t size) mi_attr_noexcept;
mi_decl_export int mi_reallocarr(void *p, size_t count, size_t size) mi_attr_noexcept;
mi_decl_export void mi_cfree(void *p) mi_attr_noexcept;
mi_decl_export void mi_free_size(void *p, size_t size) mi_attr_noexcept;
mi_decl_export void mi_free_size_aligned(void *p, size_t size, size_t alignment) mi_attr_noexcept;
mi_decl_export void mi_free_aligned(void *p, size_t alignment) mi_attr_noexcept;

/* As operator new: the new-handler is asked, then std::bad_alloc thrown; in a program without C++ the process ends. */
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_new(size_t size);
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_new_aligned(size_t size, size_t alignment);
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_new_nothrow(size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(1) void *mi_new_aligned_nothrow(size_t size, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(1, 2) void *mi_new_n(size_t count, size_t size);
HEDDLE_MI mi_attr_alloc_size(2) void *mi_new_realloc(void *p, size_t newsize);
HEDDLE_MI mi_attr_alloc_size2(2, 3) void *mi_new_reallocn(void *p, size_t newcount, size_t size);

/* ---- heaps --------------------------------------------------------------------------------------------------------- */

typedef struct mi_heap_s mi_heap_t;

HEDDLE_MI mi_heap_t *mi_heap_new(void);
mi_decl_export void mi_heap_delete(mi_heap_t *heap);  /* its blocks live on, as the backing heap's */
mi_decl_export void mi_heap_destroy(mi_heap_t *heap); /* its blocks are freed, all at once */
mi_decl_export mi_heap_t *mi_heap_set_default(mi_heap_t *heap); /* of the calling thread; the one before is returned */
mi_decl_export mi_heap_t *mi_heap_get_default(void);
mi_decl_export mi_heap_t *mi_heap_get_backing(void); /* one handle for all threads: the caller's own heap */
mi_decl_export void mi_heap_collect(mi_heap_t *heap, bool force) mi_attr_noexcept;

HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_heap_malloc(mi_heap_t *heap, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_heap_malloc_small(mi_heap_t *heap, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_heap_zalloc(mi_heap_t *heap, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(2, 3) void *mi_heap_calloc(mi_heap_t *heap, size_t count, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(2, 3) void *mi_heap_mallocn(mi_heap_t *heap, size_t count, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(3) void *mi_heap_realloc(mi_heap_t *heap, void *p, size_t newsize) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(3, 4) void *mi_heap_reallocn(mi_heap_t *heap, void *p, size_t count, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(3) void *mi_heap_reallocf(mi_heap_t *heap, void *p, size_t newsize) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(3) void *mi_heap_rezalloc(mi_heap_t *heap, void *p, size_t newsize) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(3, 4) void *mi_heap_recalloc(mi_heap_t *heap, void *p, size_t newcount, size_t size) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc char *mi_heap_strdup(mi_heap_t *heap, const char *s) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc char *mi_heap_strndup(mi_heap_t *heap, const char *s, size_t n) mi_attr_noexcept;
HEDDLE_MI char *mi_heap_realpath(mi_heap_t *heap, const char *fname, char *resolved_name) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_heap_malloc_aligned(mi_heap_t *heap, size_t size,
                                                                            size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_heap_malloc_aligned_at(mi_heap_t *heap, size_t size, size_t alignment,
                                                                               size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_heap_zalloc_aligned(mi_heap_t *heap, size_t size,
                                                                            size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_heap_zalloc_aligned_at(mi_heap_t *heap, size_t size, size_t alignment,
                                                                               size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(2, 3) void *mi_heap_calloc_aligned(mi_heap_t *heap, size_t count, size_t size,
                                                                                size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(2, 3) void *mi_heap_calloc_aligned_at(mi_heap_t *heap, size_t count, size_t size,
                                                                                   size_t alignment, size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(3) void *mi_heap_realloc_aligned(mi_heap_t *heap, void *p, size_t newsize, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(3) void *mi_heap_realloc_aligned_at(mi_heap_t *heap, void *p, size_t newsize, size_t alignment,
                                                                 size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(3) void *mi_heap_rezalloc_aligned(mi_heap_t *heap, void *p, size_t newsize, size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size(3) void *mi_heap_rezalloc_aligned_at(mi_heap_t *heap, void *p, size_t newsize, size_t alignment,
                                                                  size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(3, 4) void *mi_heap_recalloc_aligned(mi_heap_t *heap, void *p, size_t newcount, size_t size,
                                                                   size_t alignment) mi_attr_noexcept;
HEDDLE_MI mi_attr_alloc_size2(3, 4) void *mi_heap_recalloc_aligned_at(mi_heap_t *heap, void *p, size_t newcount, size_t size,
                                                                      size_t alignment, size_t offset) mi_attr_noexcept;
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size(2) void *mi_heap_alloc_new(mi_heap_t *heap, size_t size);
HEDDLE_MI mi_attr_malloc mi_attr_alloc_size2(2, 3) void *mi_heap_alloc_new_n(mi_heap_t *heap, size_t count, size_t size);

/* ---- looking at heaps: the backing heap stands for the heaps of all threads ------------------------------------------ */

typedef struct mi_heap_area_s {
  void *blocks;           /* first byte */
  size_t reserved;        /* length in bytes */
  size_t committed;       /* of it, in use: here the same */
  size_t used;            /* live blocks */
  size_t block_size;      /* size of one */
  size_t full_block_size; /* the same */
  int heap_tag;           /* 0 */
} mi_heap_area_t;

typedef bool(mi_block_visit_fun)(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t block_size, void *arg);

mi_decl_export bool mi_heap_contains_block(mi_heap_t *heap, const void *p);
mi_decl_export bool mi_heap_check_owned(mi_heap_t *heap, const void *p);
mi_decl_export bool mi_check_owned(const void *p);
mi_decl_export bool mi_heap_visit_blocks(const mi_heap_t *heap, bool visit_blocks, mi_block_visit_fun *visitor, void *arg);
HEDDLE_MI bool mi_is_in_heap_region(const void *p) mi_attr_noexcept;
HEDDLE_MI bool mi_is_redirected(void) mi_attr_noexcept; /* false: malloc is redirected by libheddle, not by this library */

/* ---- the process --------------------------------------------------------------------------------------------------- */

typedef void(mi_cdecl mi_deferred_free_fun)(bool force, unsigned long long heartbeat, void *arg);
typedef void(mi_cdecl mi_output_fun)(const char *msg, void *arg);
typedef void(mi_cdecl mi_error_fun)(int err, void *arg);

mi_decl_export void mi_register_deferred_free(mi_deferred_free_fun *fun, void *arg) mi_attr_noexcept; /* called by the collect functions */
mi_decl_export void mi_register_output(mi_output_fun *out, void *arg) mi_attr_noexcept;
mi_decl_export void mi_register_error(mi_error_fun *fun, void *arg); /* called with ENOMEM, EOVERFLOW or EINVAL for failed requests */
mi_decl_export void mi_collect(bool force) mi_attr_noexcept;
mi_decl_export int mi_version(void) mi_attr_noexcept;
mi_decl_export void mi_process_init(void) mi_attr_noexcept;
mi_decl_export void mi_thread_init(void) mi_attr_noexcept;
mi_decl_export void mi_thread_done(void) mi_attr_noexcept;
mi_decl_export void mi_stats_reset(void) mi_attr_noexcept; /* nothing: Heddle's statistics are states, not sums */
mi_decl_export void mi_stats_merge(void) mi_attr_noexcept; /* nothing: they are always whole */
mi_decl_export void mi_stats_print(void *out) mi_attr_noexcept; /* out is ignored, as documented */
mi_decl_export void mi_stats_print_out(mi_output_fun *out, void *arg) mi_attr_noexcept;
mi_decl_export void mi_thread_stats_print_out(mi_output_fun *out, void *arg) mi_attr_noexcept;
mi_decl_export void mi_process_info(size_t *elapsed_msecs, size_t *user_msecs, size_t *system_msecs, size_t *current_rss, size_t *peak_rss,
                                    size_t *current_commit, size_t *peak_commit, size_t *page_faults) mi_attr_noexcept;

/* Memory set aside beforehand: not offered; each says so (ENOMEM, false, NULL). Heddle reserves and gives back by itself. */
typedef int mi_arena_id_t;
mi_decl_export int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes, size_t timeout_msecs) mi_attr_noexcept;
mi_decl_export int mi_reserve_huge_os_pages_at(size_t pages, int numa_node, size_t timeout_msecs) mi_attr_noexcept;
mi_decl_export int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs, bool exclusive,
                                                  mi_arena_id_t *arena_id) mi_attr_noexcept;
mi_decl_export int mi_reserve_huge_os_pages(size_t pages, double max_secs, size_t *pages_reserved) mi_attr_noexcept;
mi_decl_export int mi_reserve_os_memory(size_t size, bool commit, bool allow_large) mi_attr_noexcept;
mi_decl_export int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large, bool exclusive,
                                           mi_arena_id_t *arena_id) mi_attr_noexcept;
mi_decl_export bool mi_manage_os_memory(void *start, size_t size, bool is_committed, bool is_large, bool is_zero,
                                        int numa_node) mi_attr_noexcept;
mi_decl_export bool mi_manage_os_memory_ex(void *start, size_t size, bool is_committed, bool is_large, bool is_zero, int numa_node,
                                           bool exclusive, mi_arena_id_t *arena_id) mi_attr_noexcept;
mi_decl_export void *mi_arena_area(mi_arena_id_t arena_id, size_t *size);
mi_decl_export void mi_debug_show_arenas(void) mi_attr_noexcept;
HEDDLE_MI mi_heap_t *mi_heap_new_in_arena(mi_arena_id_t arena_id);

/* ---- options: purge_delay is Heddle's (milliseconds, -1: never); the others are kept and have no effect ---------------- */

typedef enum mi_option_e {
  mi_option_show_errors,
  mi_option_show_stats,
  mi_option_verbose,
  mi_option_eager_commit,
  mi_option_arena_eager_commit,
  mi_option_purge_decommits,
  mi_option_allow_large_os_pages,
  mi_option_reserve_huge_os_pages,
  mi_option_reserve_huge_os_pages_at,
  mi_option_reserve_os_memory,
  mi_option_deprecated_segment_cache,
  mi_option_deprecated_page_reset,
  mi_option_abandoned_page_purge,
  mi_option_deprecated_segment_reset,
  mi_option_eager_commit_delay,
  mi_option_purge_delay,
  mi_option_use_numa_nodes,
  mi_option_disallow_os_alloc,
  mi_option_os_tag,
  mi_option_max_errors,
  mi_option_max_warnings,
  mi_option_max_segment_reclaim,
  mi_option_destroy_on_exit,
  mi_option_arena_reserve,
  mi_option_arena_purge_mult,
  mi_option_purge_extend_delay,
  mi_option_abandoned_reclaim_on_free,
  mi_option_disallow_arena_alloc,
  mi_option_retry_on_oom,
  _mi_option_last,
  /* older names */
  mi_option_large_os_pages = mi_option_allow_large_os_pages,
  mi_option_eager_region_commit = mi_option_arena_eager_commit,
  mi_option_reset_decommits = mi_option_purge_decommits,
  mi_option_reset_delay = mi_option_purge_delay,
  mi_option_abandoned_page_reset = mi_option_abandoned_page_purge,
  mi_option_limit_os_alloc = mi_option_disallow_os_alloc
} mi_option_t;

HEDDLE_MI bool mi_option_is_enabled(mi_option_t option);
mi_decl_export void mi_option_enable(mi_option_t option);
mi_decl_export void mi_option_disable(mi_option_t option);
mi_decl_export void mi_option_set_enabled(mi_option_t option, bool enable);
mi_decl_export void mi_option_set_enabled_default(mi_option_t option, bool enable);
HEDDLE_MI long mi_option_get(mi_option_t option);
HEDDLE_MI long mi_option_get_clamp(mi_option_t option, long min, long max);
HEDDLE_MI size_t mi_option_get_size(mi_option_t option); /* of an option in KiB: its bytes */
mi_decl_export void mi_option_set(mi_option_t option, long value);
mi_decl_export void mi_option_set_default(mi_option_t option, long value); /* unless it was set before */

#ifdef __cplusplus
}
#endif

/* ---- by type ------------------------------------------------------------------------------------------------------- */

#define mi_malloc_tp(tp) ((tp *)mi_malloc(sizeof(tp)))
#define mi_zalloc_tp(tp) ((tp *)mi_zalloc(sizeof(tp)))
#define mi_calloc_tp(tp, n) ((tp *)mi_calloc(n, sizeof(tp)))
#define mi_mallocn_tp(tp, n) ((tp *)mi_mallocn(n, sizeof(tp)))
#define mi_reallocn_tp(p, tp, n) ((tp *)mi_reallocn(p, n, sizeof(tp)))
#define mi_recalloc_tp(p, tp, n) ((tp *)mi_recalloc(p, n, sizeof(tp)))
#define mi_heap_malloc_tp(hp, tp) ((tp *)mi_heap_malloc(hp, sizeof(tp)))
#define mi_heap_zalloc_tp(hp, tp) ((tp *)mi_heap_zalloc(hp, sizeof(tp)))
#define mi_heap_calloc_tp(hp, tp, n) ((tp *)mi_heap_calloc(hp, n, sizeof(tp)))
#define mi_heap_mallocn_tp(hp, tp, n) ((tp *)mi_heap_mallocn(hp, n, sizeof(tp)))
#define mi_heap_reallocn_tp(hp, p, tp, n) ((tp *)mi_heap_reallocn(hp, p, n, sizeof(tp)))
#define mi_heap_recalloc_tp(hp, p, tp, n) ((tp *)mi_heap_recalloc(hp, p, n, sizeof(tp)))

#ifdef __cplusplus
#include "mimalloc-stl.hpp"
#endif
#undef HEDDLE_MI
#endif
