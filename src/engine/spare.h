/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Is there a processor to spare? Where one is, who expects something soon may look for it instead
 * of sleeping: to be woken takes longer than it mostly has to wait. Where none is, whoever looks
 * keeps others from what it waits for.
 */
#ifndef WEFT_ENGINE_SPARE_H
#define WEFT_ENGINE_SPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct spare {
	int fd;		     /* of /proc/loadavg, which says how many run or would; -1: unknown */
	unsigned processors; /* that we may use, if these are all there are; else 0 */
	uint64_t seen_ns;    /* when it was looked at */
	bool is;
};

void spare_open(struct spare *);
void spare_close(struct spare *);
/* From a thread that runs. It may be the answer of a moment ago. */
bool spare_processor(struct spare *, uint64_t now) must_use;

#endif
