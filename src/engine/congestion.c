/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/congestion.h"

#include <stdlib.h>

#include "base/log.h"

const struct cc_ops *congestion_wanted(void)
{
	const char *name = secure_getenv("WEFT_CC");
	const struct cc_ops *cc = name ? cc_find(name) : &cc_halving;

	if (cc)
		return cc;
	log_warn("engine", "WEFT_CC=%s is none of %s and %s; it is %s now", name, cc_halving.name,
		 cc_none.name, cc_halving.name);
	return &cc_halving;
}
