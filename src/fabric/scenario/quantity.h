/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Quantities as people write them: 100G, 1.5us, 64KB, 30%. */
#ifndef WEFT_FABRIC_SCENARIO_QUANTITY_H
#define WEFT_FABRIC_SCENARIO_QUANTITY_H

#include <stdbool.h>

enum quantity {
	QUANTITY_NUMBER, /* no unit */
	QUANTITY_RATE,	 /* Mb/s: 100G, 40Gb/s, 400M */
	QUANTITY_TIME,	 /* ns: 10ms, 1us, 0.5s */
	QUANTITY_BYTES,	 /* 64KB (1000), 64KiB (1024), 100 */
	QUANTITY_PART,	 /* of one: 30%, 0.3, 1e-5, 1/8 */
};

/* False: it is none. */
bool quantity_parse(enum quantity, const char *text, double *ret);
/* What one looks like, for messages. */
const char *quantity_like(enum quantity);

#endif
