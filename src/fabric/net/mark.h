/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which frames a switch marks (RFC 3168) by the length of the queue that they leave: none up to a
 * first length, more and more up to a second, and all beyond (WRED on the present length). */
#ifndef WEFT_FABRIC_NET_MARK_H
#define WEFT_FABRIC_NET_MARK_H

#include <stdint.h>

struct mark_nature {
	uint64_t from, all; /* bytes; all 0: it marks nothing */
	uint32_t ppm;	    /* of those at `all` */
};

/* Parts per million. */
static inline uint32_t mark_chance(const struct mark_nature *m, uint64_t queued)
{
	if (!m->all || queued <= m->from)
		return 0;
	if (queued > m->all || m->all <= m->from)
		return 1000000;
	return (uint32_t)((queued - m->from) * m->ppm / (m->all - m->from));
}

#endif
