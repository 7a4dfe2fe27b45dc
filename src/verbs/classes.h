/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What packets of a device's queue pairs carry, and the congestion control that these have: for
 * weft-devices(1), which looks for it by name, as only this libibverbs has it. */
#ifndef WEFT_VERBS_CLASSES_H
#define WEFT_VERBS_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "engine/congestion_rules.h"

struct ibv_context;

/* Queue pairs that one line of the file is about, or all others. */
struct shown_class {
	char whom[CONGESTION_TEXT_MAX];	   /* as the line says it; empty: all others */
	char said_by[CONGESTION_TEXT_MAX]; /* where the line is, "WEFT_CC" or "default" */
	const char *algorithm;
	struct cc_params params;
	uint8_t tos, priority; /* where the program says nothing else */
	uint8_t cnp_tos, cnp_priority;
};

/* The nth of a device, in the order of the file; false: there is none. size: of *ret, as who asks
 * knows it. */
bool weft_private_class(struct ibv_context *, unsigned int n, struct shown_class *ret, size_t size);

#endif
