/* What the models share. The sizes are named by the blocks of a page: few, so that pages fill and empty in a few steps.
 * SPDX-License-Identifier: MIT */
#ifndef SCHED_MODELS_H
#define SCHED_MODELS_H

#include "sched.h"
#include "shadow.h"

enum {
  BYTES_9 = 56 * 1024, /* pages of 9 blocks; two of them fill a parcel */
  BYTES_8 = 8192,   /* pages of 8 blocks; every remote free that is counted is announced at once */
  BYTES_10 = 6144,
  BYTES_16 = 4096,  /* 16 blocks; every second remote free is announced */
  BYTES_21 = 12288, /* 21 blocks on four units; every second is announced */
  BYTES_32 = 2048,
  BYTES_64 = 1024   /* 64 blocks, four on a system page; small: the owner takes blocks outside its gate */
};

/* Thread `identity` takes `count` blocks of this size into block[]: more than a page of them, so that the first page is FULL. */
void model_fill(unsigned identity, size_t bytes, unsigned count, void **block);
/* The thread gets a heap, without any page. */
void model_make_heap(unsigned identity);
/* The thread, which has a heap, has so many parcels at hand; the others are on their way to an owner who does not look. With none its
 * frees of others' blocks are counted. */
void model_leave_parcels(unsigned identity, unsigned count);
/* A fibre: a collector's look at everything. */
void model_collector(void);
/* All accounts right; everything freed; everything released. */
void model_check(void);

#endif
