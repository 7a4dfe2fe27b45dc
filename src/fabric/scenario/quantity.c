/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/scenario/quantity.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	enum quantity quantity;
	const char *name;
	double times;
};

static const struct unit units[] = {
	{QUANTITY_NUMBER, "", 1},
	{QUANTITY_RATE, "T", 1e6},
	{QUANTITY_RATE, "G", 1e3},
	{QUANTITY_RATE, "M", 1},
	{QUANTITY_RATE, "Tb/s", 1e6},
	{QUANTITY_RATE, "Gb/s", 1e3},
	{QUANTITY_RATE, "Mb/s", 1},
	{QUANTITY_TIME, "s", 1e9},
	{QUANTITY_TIME, "ms", 1e6},
	{QUANTITY_TIME, "us", 1e3},
	{QUANTITY_TIME, "ns", 1},
	{QUANTITY_BYTES, "", 1},
	{QUANTITY_BYTES, "B", 1},
	{QUANTITY_BYTES, "KB", 1e3},
	{QUANTITY_BYTES, "MB", 1e6},
	{QUANTITY_BYTES, "GB", 1e9},
	{QUANTITY_BYTES, "KiB", 1024},
	{QUANTITY_BYTES, "MiB", 1048576},
	{QUANTITY_BYTES, "GiB", 1073741824},
	{QUANTITY_PART, "", 1},
	{QUANTITY_PART, "%", .01},
};

bool quantity_parse(enum quantity q, const char *text, double *ret)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || !isfinite(v))
		return false;
	if (q == QUANTITY_PART && *end == '/') {
		const char *below = end + 1;
		double d = strtod(below, &end);

		if (end == below || !(d > 0) || *end)
			return false;
		*ret = v / d;
		return true;
	}
	while (*end == ' ')
		end++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].quantity == q && !strcmp(units[i].name, end)) {
			*ret = v * units[i].times;
			return true;
		}
	return v == 0 && !*end ? (*ret = 0, true) : false;
}

const char *quantity_like(enum quantity q)
{
	static const char *const like[] = {
		[QUANTITY_NUMBER] = "a number",
		[QUANTITY_RATE] = "a rate, as 100G or 2500M",
		[QUANTITY_TIME] = "a time, as 10ms, 1.5us or 300ns",
		[QUANTITY_BYTES] = "so many bytes, as 4096, 64KB or 1MiB",
		[QUANTITY_PART] = "a part, as 30%, 0.3, 1/8 or 1e-5",
	};

	return like[q];
}
