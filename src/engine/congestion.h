/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Congestion control in words, as users say it: an algorithm, parameters (NAME=NUMBER,
 * rnic/cc/params.def), or both, with commas between. */
#ifndef WEFT_ENGINE_CONGESTION_H
#define WEFT_ENGINE_CONGESTION_H

#include <stdbool.h>

#include "base/compiler.h"
#include "rnic/cc/cc.h"

/* Where words stand, for the log. */
struct congestion_place {
	const char *name; /* of a variable; or a file and a line in it */
	bool line;
};

/* Sets what they say, and leaves the rest. Of a parameter that there is not, or not so, the log
 * tells. So it does of an algorithm that there is not: false. */
bool congestion_say(const char *words, struct congestion_place, const struct cc_ops **cc,
		    struct cc_params *params) must_use;

#endif
