/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A port's counters, where others can see them. */
#ifndef WEFT_PORT_COUNTERS_H
#define WEFT_PORT_COUNTERS_H

#include "base/sight.h"
#include "port/port.h"

/* A table of this name; NULL: no memory. To be given back by sight_release(). */
static inline struct port_counters *port_counters_take(const char *table)
{
	static const char keys[] =
#define X(name, unit, text) #name " "
#include "port/counters.def"
#undef X
		;

	return sight_take(table, keys, SIGHT_COLUMNS(struct port_counters), 1);
}

#endif
