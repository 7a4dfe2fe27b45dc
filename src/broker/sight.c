/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/sight.h"

#include <errno.h>

#include "base/sight.h"

#define X(name, unit, text) #name " "
static const char broker_keys[] =
#include "broker/counters.def"
	;
static const char cm_keys[] =
#include "cm/counters.def"
	;
#undef X

int broker_sight_take(struct broker_sight *s)
{
	s->broker = sight_take("broker", broker_keys, SIGHT_COLUMNS(*s->broker), 1);
	s->cm = sight_take("cm", cm_keys, SIGHT_COLUMNS(*s->cm), 1);
	if (s->broker && s->cm)
		return 0;
	broker_sight_release(s);
	return -ENOMEM;
}

void broker_sight_release(struct broker_sight *s)
{
	sight_release(s->broker);
	sight_release(s->cm);
	*s = (struct broker_sight){0};
}
