/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pages for the buffers of streams. Those of a stream that has ended serve the next one: to map
 * half a megabyte and have the kernel clear it costs a short connection more than all else. A few
 * are kept, and what is in them; nothing is read or sent of a buffer but what was written there
 * before. They are registered anew for each stream, so that what its peer knew of the last one's
 * is of no use.
 */
#ifndef WEFT_RSOCKET_PAGES_H
#define WEFT_RSOCKET_PAGES_H

#include <stddef.h>

/* Whole pages of their own, so that a child's copy on write never touches other memory; NULL. */
void *pages_take(size_t bytes);
void pages_give(void *, size_t bytes);

#endif
