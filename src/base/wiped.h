/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that had a secret in it, or may have had: it is overwritten before it is given back, also
 * where it moves. */
#ifndef WEFT_BASE_WIPED_H
#define WEFT_BASE_WIPED_H

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

/* p may be NULL; used: bytes of it that were written. */
static inline void wiped_free(void *p, size_t used)
{
	if (p)
		explicit_bzero(p, used);
	free(p);
}

/* As realloc(3). NULL: no memory, and p is as it was. */
static inline void *wiped_grow(void *p, size_t used, size_t room)
{
	void *more = malloc(room);

	if (!more)
		return NULL;
	if (p)
		memcpy(more, p, used);
	wiped_free(p, used);
	return more;
}

#endif
