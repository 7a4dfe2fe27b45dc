// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rsocket/counted.h"

#include "base/sight.h"

static const char keys[] =
#define X(name, unit, text) #name " "
#include "rsocket/counters.def"
#undef X
	;

static struct rsocket_counters unseen;

_Atomic(struct rsocket_counters *) rsocket_counters = &unseen;

void rs_counted(void)
{
	struct rsocket_counters *none = &unseen, *seen;

	if (atomic_load(&rsocket_counters) != none)
		return;
	seen = sight_take("rsocket", keys, SIGHT_COLUMNS(*seen), 1);
	if (seen && !atomic_compare_exchange_strong(&rsocket_counters, &none, seen))
		sight_release(seen); /* another thread was faster */
}

void rs_counted_forked(void)
{
	atomic_store(&rsocket_counters, &unseen);
}
