/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Line plots for a page of HTML: each is a <figure> with a caption, an inline SVG and a legend. The
 * legend is HTML, so that it wraps and keeps its size on a small screen. Colours are the style
 * sheet's (plot_style()), for light and for dark; no scripts.
 */
#ifndef WEFT_CLI_PLOT_H
#define WEFT_CLI_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { PLOT_POINTS_MAX = 600, PLOT_COLOURS = 6 };

enum plot_scale { PLOT_LINEAR, PLOT_LOG };
enum plot_unit { PLOT_PLAIN, PLOT_NS, PLOT_BYTES, PLOT_GBPS, PLOT_PART }; /* PART: 1 is 100 % */

struct plot_series {
	const char *name;
	const double *x; /* NULL: i * x_step */
	const double *y;
	size_t n;
	double x_step;
};

struct plot_axis {
	const char *label; /* without the unit, which follows from what is drawn */
	enum plot_scale scale;
	enum plot_unit unit;
	double least, most; /* at least this range, if least < most */
};

struct plot {
	const char *title, *text; /* text: a sentence below it; NULL */
	struct plot_axis x, y;
	bool step; /* a value holds until the next one; else they are joined by lines */
	/* The part of x that does not count, from its beginning; 0: there is none. */
	double shade_until;
	const char *shade_name;
	const struct plot_series *series;
	size_t nseries;
};

/* Points that are not finite, or cannot be on a logarithmic axis, are gaps. False: no point could
 * be drawn, and nothing was written. */
bool plot_put(FILE *f, const struct plot *plot);
/* What the page's <style> needs for them. Of the page's variables it takes --ink, --ink-2, --line,
 * --shade and --card. */
void plot_put_style(FILE *f);

#endif
