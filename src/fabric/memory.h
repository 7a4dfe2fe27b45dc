/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where cores that are simulated have their memory from: the process's, zeroed. */
#ifndef WEFT_FABRIC_MEMORY_H
#define WEFT_FABRIC_MEMORY_H

#include <stddef.h>
#include <stdlib.h>

static inline void *fabric_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static inline void fabric_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

#endif
