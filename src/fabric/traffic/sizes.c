/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/traffic/sizes.h"

#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"

/* Web search: Alizadeh et al., DCTCP (SIGCOMM 2010), as the HPCC artifact has its points. */
static const struct size_point web_search[] = {
	{1, 0},	      {10000, .15},  {20000, .2},   {30000, .3},   {50000, .4},	    {80000, .53},
	{200000, .6}, {1000000, .7}, {2000000, .8}, {5000000, .9}, {10000000, .97}, {30000000, 1},
};

/* Hadoop: Roy et al., Inside the Social Network's (Datacenter) Network (SIGCOMM 2015), likewise. */
static const struct size_point hadoop[] = {
	{1, 0},	    {180, .1},	{216, .2},   {560, .3},	   {900, .4},	   {1100, .5},
	{1870, .6}, {3160, .7}, {10000, .8}, {400000, .9}, {3160000, .95}, {10000000, 1},
};

static const struct {
	const char *name;
	struct sizes sizes;
} published[] = {
	{"web-search", {web_search, ARRAY_SIZE(web_search)}},
	{"hadoop", {hadoop, ARRAY_SIZE(hadoop)}},
};

const struct sizes *sizes_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(published); i++)
		if (!strcmp(published[i].name, name))
			return &published[i].sizes;
	return NULL;
}

const char *sizes_next(const char *name)
{
	size_t i = 0;

	while (name && i < ARRAY_SIZE(published) && strcmp(published[i++].name, name))
		;
	return i < ARRAY_SIZE(published) ? published[i].name : NULL;
}

double sizes_mean(const struct sizes *s)
{
	double mean = s->points[0].bytes * s->points[0].below;

	for (size_t i = 1; i < s->n; i++)
		mean += (s->points[i].bytes + s->points[i - 1].bytes) / 2 *
			(s->points[i].below - s->points[i - 1].below);
	return mean;
}

uint64_t sizes_draw(const struct sizes *s, struct prng *r)
{
	double at = (double)(prng_u64(r) >> 11) / 9007199254740992.0; /* 2^53 */
	const struct size_point *p = s->points;
	size_t i = 0;
	double bytes;

	while (i + 1 < s->n && p[i].below < at)
		i++;
	if (i == 0)
		return (uint64_t)max_of(p[0].bytes, 1.0);
	bytes = p[i - 1].bytes + (p[i].bytes - p[i - 1].bytes) * (at - p[i - 1].below) /
					 (p[i].below - p[i - 1].below);
	return (uint64_t)max_of(bytes, 1.0);
}
