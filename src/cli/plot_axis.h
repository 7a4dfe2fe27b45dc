/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* An axis of a plot: where a value is on it, and the round numbers that are written along it. */
#ifndef WEFT_CLI_PLOT_AXIS_H
#define WEFT_CLI_PLOT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/plot.h"

enum { AXIS_TICKS_MAX = 16 };

struct axis {
	enum plot_scale scale;
	enum plot_unit unit;
	double least, most;   /* of values */
	double start, length; /* in the picture; a negative length goes up */
	double tick[AXIS_TICKS_MAX];
	size_t nticks;
	double divisor; /* of linear axes: values are written in this unit */
	const char *unit_name;
	int decimals;
};

/* Whether a value has a place on an axis of this scale. */
bool axis_can(enum plot_scale scale, double v);
/* least, most: of the values; a linear axis begins at 0 if they are positive. ticks: at most about
 * so many. */
void axis_init(struct axis *a, const struct plot_axis *as, double least, double most, size_t ticks);
double axis_at(const struct axis *a, double v);
/* As it is written at a tick; returns buf. */
const char *axis_text(char *buf, size_t room, const struct axis *a, double v);

#endif
