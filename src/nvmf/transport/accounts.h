/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who holds how many bytes of what. There is an account for as long as it has any: so neither the
 * holders nor what they can hold of are counted beforehand, and no two of them share one. The room
 * for all is taken at the beginning.
 */
#ifndef WEFT_NVMF_TRANSPORT_ACCOUNTS_H
#define WEFT_NVMF_TRANSPORT_ACCOUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define ACCOUNTS_BUCKETS 4096 /* a power of two */

struct account {
	struct account *next; /* of its bucket, or of those that are free */
	const void *holder;
	uint64_t of;
	size_t bytes;
};

struct accounts {
	struct account *all, *free;
	size_t begun, len; /* so many of all were ever in use */
	struct account *bucket[ACCOUNTS_BUCKETS];
};

/* most: accounts that there are at one time. -ENOMEM: fini does no harm. */
int accounts_init(struct accounts *a, size_t most) must_use;
void accounts_fini(struct accounts *a);
size_t accounts_held(struct accounts *a, const void *holder, uint64_t of);
/* bytes is not 0; no more is given back than is held. */
void accounts_take(struct accounts *a, const void *holder, uint64_t of, size_t bytes);
void accounts_put(struct accounts *a, const void *holder, uint64_t of, size_t bytes);

#endif
