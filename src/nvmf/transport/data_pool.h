/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory for the data of commands: one area, registered once with each device, handed out in
 * contiguous, page-aligned blocks by a buddy allocator. Its books are kept beside the area, so
 * that pages that were never used stay unused.
 */
#ifndef WEFT_NVMF_TRANSPORT_DATA_POOL_H
#define WEFT_NVMF_TRANSPORT_DATA_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define DATA_POOL_PAGE	    4096u
#define DATA_POOL_ORDERS    9 /* blocks of 4 KiB to 1 MiB */
#define DATA_POOL_BLOCK_MAX (DATA_POOL_PAGE << (DATA_POOL_ORDERS - 1))

struct data_pool {
	uint8_t *base;
	size_t len;
	uint32_t *next, *prev; /* per page: free list of its order, if a free block begins there */
	uint8_t *order;	       /* per page: of the block that begins there */
	uint8_t *state;	       /* per page: enum in the source */
	uint32_t free_head[DATA_POOL_ORDERS];
	size_t used; /* bytes handed out, rounded up to blocks */
};

/* len is rounded up to a multiple of DATA_POOL_BLOCK_MAX. -ENOMEM. */
int data_pool_init(struct data_pool *p, size_t len) must_use;
void data_pool_fini(struct data_pool *p);
/* How large a block for len bytes is. */
size_t data_pool_block(size_t len);
/* A block of at least len bytes, or NULL: none is free now, or len is beyond the largest. */
void *data_pool_get(struct data_pool *p, size_t len);
void data_pool_put(struct data_pool *p, void *block);

#endif
