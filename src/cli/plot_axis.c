/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/plot_axis.h"

#include <math.h>
#include <stdio.h>

#include "base/compiler.h"

struct unit {
	double divisor;
	const char *name;
};

/* Of each, the smallest first; the last has divisor 0. */
static const struct unit units[][8] = {
	[PLOT_PLAIN] = {{1, ""}},
	[PLOT_NS] = {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}},
	[PLOT_BYTES] = {{1, "B"}, {1e3, "KB"}, {1e6, "MB"}, {1e9, "GB"}, {1e12, "TB"}},
	[PLOT_GBPS] = {{1e-3, "Mb/s"}, {1, "Gb/s"}, {1e3, "Tb/s"}},
	[PLOT_PART] = {{0.01, "%"}},
};

bool axis_can(enum plot_scale scale, double v)
{
	/* Far beyond any figure of a run: so that what is reckoned with it stays a number. */
	return isfinite(v) && fabs(v) < 1e100 && (scale == PLOT_LINEAR || v > 1e-100);
}

/* The largest unit of which v is one or more. */
static const struct unit *unit_of(enum plot_unit kind, double v)
{
	const struct unit *u = units[kind];

	while (u[1].divisor > 0 && v >= u[1].divisor * (1 - 1e-9))
		u++;
	return u;
}

static void tick(struct axis *a, double v)
{
	if (a->nticks < AXIS_TICKS_MAX)
		a->tick[a->nticks++] = v;
}

/* 1, 2 or 5 times a power of ten, the next one not below v. */
static double round_up_125(double v)
{
	double power = pow(10, floor(log10(v)));
	double m = v / power;

	return power * (m <= 1 + 1e-9 ? 1 : m <= 2 + 1e-9 ? 2 : m <= 5 + 1e-9 ? 5 : 10);
}

static void make_linear(struct axis *a, size_t ticks)
{
	const struct unit *u;
	double step, k;

	if (a->least > 0)
		a->least = 0;
	if (a->most < 0)
		a->most = 0;
	if (a->most - a->least < 1e-90) /* too little to be divided */
		a->most = a->least + 1;
	u = unit_of(a->unit, fmax(a->most, -a->least));
	a->divisor = u->divisor;
	a->unit_name = u->name;
	step = round_up_125((a->most - a->least) / a->divisor / (double)ticks);
	a->decimals = step < 1 ? (int)fmin(ceil(-log10(step) - 1e-9), 9) : 0;
	step *= a->divisor;
	a->least = floor(a->least / step + 1e-9) * step;
	for (k = a->least; k <= a->most + step * 1e-6; k += step)
		tick(a, k);
}

/* The value axis ends at a tick, so that no line runs along an edge without a number. */
static void end_at_tick(struct axis *a)
{
	double step = a->nticks > 1 ? a->tick[1] - a->tick[0] : 0;

	if (step > 0 && a->most > a->tick[a->nticks - 1] + step * 1e-6) {
		a->most = a->tick[a->nticks - 1] + step;
		tick(a, a->most);
	}
}

/* 1, 2, 5, 10 and so on: for less than two decades, which have too few powers of ten. */
static void tick_125(struct axis *a)
{
	static const double parts[] = {1, 2, 5};

	for (double k = floor(log10(a->least)); k <= ceil(log10(a->most)); k++)
		for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
			double v = parts[i] * pow(10, k);

			if (v >= a->least * 0.999 && v <= a->most * 1.001)
				tick(a, v);
		}
}

static void make_log(struct axis *a, size_t ticks)
{
	double powers, stride, k;

	if (a->most < a->least * 1.01) { /* a single value */
		a->least /= 10;
		a->most *= 10;
	}
	powers = log10(a->most / a->least);
	if (powers < 2) {
		tick_125(a);
	} else {
		stride = fmax(1, ceil(powers / (double)ticks));
		k = ceil(log10(a->least) - 1e-6);
		k = ceil(k / stride) * stride; /* so that 1 is among them */
		for (; pow(10, k) <= a->most * 1.001; k += stride)
			tick(a, pow(10, k));
	}
	if (a->nticks > 1)
		return;
	a->nticks = 0; /* hardly a range: its ends tell it */
	tick(a, a->least);
	tick(a, a->most);
}

void axis_init(struct axis *a, const struct plot_axis *as, double least, double most, size_t ticks)
{
	a->scale = as->scale;
	a->unit = as->unit;
	a->least = least;
	a->most = most;
	a->nticks = 0;
	a->divisor = 1;
	a->unit_name = "";
	a->decimals = 0;
	if (as->least < as->most) {
		a->least = fmin(least, as->least);
		a->most = fmax(most, as->most);
	}
	if (a->scale == PLOT_LOG) {
		make_log(a, ticks);
		return;
	}
	make_linear(a, ticks);
	if (a->length < 0)
		end_at_tick(a);
}

double axis_at(const struct axis *a, double v)
{
	double part = a->scale == PLOT_LOG ? log(v / a->least) / log(a->most / a->least)
					   : (v - a->least) / (a->most - a->least);

	return a->start + part * a->length;
}

const char *axis_text(char *buf, size_t room, const struct axis *a, double v)
{
	const struct unit *u;

	if (a->scale == PLOT_LINEAR) {
		double shown = v / a->divisor;

		/* No "-0". */
		snprintf(buf, room, "%.*f", a->decimals, fabs(shown) < 1e-9 ? 0 : shown);
		if (fabs(shown) >= 1e7)
			snprintf(buf, room, "%.3g", shown);
		return buf;
	}
	u = unit_of(a->unit, v);
	snprintf(buf, room, "%.3g%s%s", v / u->divisor, *u->name ? " " : "", u->name);
	if (a->unit == PLOT_PLAIN && v >= 1000 && v < 1e7)
		snprintf(buf, room, "%.0f", v);
	return buf;
}
