/* The functions that a Crystal compiler calls for memory, as a C library on libheddle: libheddle-crystal.{a,so}.
 *
 * Compilers look for them by name. Programs with Crystal's own standard library define the malloc and realloc forms themselves
 * (there the shard beside this file is the way); this library is for preludes and runtimes that do not, and for compilers that call the
 * calloc forms. All definitions are weak, so a program's own ones win.
 *
 *   cleared      the calloc forms, and the part that recalloc adds
 *   not cleared  the malloc forms, because the compiler itself clears what it gets from them, and what realloc adds
 *   atomic       the caller promises that no pointers will lie in the block; to Heddle, which does not collect, it is all the same
 *
 * size     0..PTRDIFF_MAX; 0 gives a block of its own
 * returns  a block aligned to 16, for hd_free; NULL with ENOMEM when there is no memory
 * threads  any
 *
 * The names without 64 take 32-bit sizes, as older compilers call them.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_CRYSTAL_H
#define HEDDLE_CRYSTAL_H

#include <heddle.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Blocks whose content is undefined. */
HEDDLE_API HEDDLE_MALLOC void *__crystal_malloc64(uint64_t size);
HEDDLE_API HEDDLE_MALLOC void *__crystal_malloc_atomic64(uint64_t size);
HEDDLE_API HEDDLE_MALLOC void *__crystal_malloc(uint32_t size);
HEDDLE_API HEDDLE_MALLOC void *__crystal_malloc_atomic(uint32_t size);

/** The same under a name that promises it: for callers that write all of the block before they read it. */
HEDDLE_API HEDDLE_MALLOC void *__crystal_malloc_uninitialized64(uint64_t size);
HEDDLE_API HEDDLE_MALLOC void *__crystal_malloc_uninitialized(uint32_t size);

/** Blocks that read as zero. Memory that is known to be zero is neither cleared nor touched. */
HEDDLE_API HEDDLE_MALLOC void *__crystal_calloc64(uint64_t size);
HEDDLE_API HEDDLE_MALLOC void *__crystal_calloc_atomic64(uint64_t size);
HEDDLE_API HEDDLE_MALLOC void *__crystal_calloc(uint32_t size);
HEDDLE_API HEDDLE_MALLOC void *__crystal_calloc_atomic(uint32_t size);

/** Resize a block, keeping the first min(old, new) bytes; p NULL allocates, size 0 frees p and returns NULL. On failure p stays valid. */
HEDDLE_API void *__crystal_realloc64(void *p, uint64_t size);
HEDDLE_API void *__crystal_realloc(void *p, uint32_t size);

/** Resize a block of old_size bytes; all bytes from old_size to size read as zero.
 *  old_size  the size that was last asked for; with p NULL it does not matter
 *  cost      as realloc, and O(size - old_size) where that memory has been used before */
HEDDLE_API void *__crystal_recalloc64(void *p, uint64_t old_size, uint64_t size);
HEDDLE_API void *__crystal_recalloc(void *p, uint32_t old_size, uint32_t size);

#ifdef __cplusplus
}
#endif
#endif
