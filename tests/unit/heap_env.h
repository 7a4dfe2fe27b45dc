/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A target's environment that has nothing but the heap. */
#ifndef WEFT_TESTS_UNIT_HEAP_ENV_H
#define WEFT_TESTS_UNIT_HEAP_ENV_H

#include <stdlib.h>

#include "nvmf/target/target.h"

static inline void *heap_env_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static inline void heap_env_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static const struct target_env heap_env = {.alloc = heap_env_alloc, .free = heap_env_free};

#endif
