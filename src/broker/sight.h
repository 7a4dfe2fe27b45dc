/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is seen of the broker from outside (base/sight.h): its own counters and its CM's. */
#ifndef WEFT_BROKER_SIGHT_H
#define WEFT_BROKER_SIGHT_H

#include <stdint.h>

#include "base/compiler.h"
#include "cm/cm.h"

struct broker_counters { /* one line each in broker/counters.def, which also documents them */
#define X(name, unit, text) uint64_t name;
#include "broker/counters.def"
#undef X
};

struct broker_sight {
	struct broker_counters *broker;
	struct cm_counters *cm;
};

int broker_sight_take(struct broker_sight *) must_use; /* -ENOMEM */
void broker_sight_release(struct broker_sight *);

#endif
