/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "rnic/cc/cc.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"

const struct cc_params cc_defaults = {
#define X(name, normally, least, most, unit, text) .name = normally,
#include "rnic/cc/params.def"
#undef X
};

static const struct {
	const char *name;
	size_t at;
	uint32_t least, most;
} params[] = {
#define X(name, normally, least, most, unit, text) \
	{#name, offsetof(struct cc_params, name), least, most},
#include "rnic/cc/params.def"
#undef X
};

static const struct cc_ops *const all[] = {
#define X(name) &cc_##name,
#include "rnic/cc/algorithms.def"
#undef X
};

static bool is(const char *known, const char *name, size_t len)
{
	return strlen(known) == len && memcmp(known, name, len) == 0;
}

const struct cc_ops *cc_find(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (is(all[i]->name, name, len))
			return all[i];
	return NULL;
}

/* By the name: an algorithm has another table while it wants to be told of more. */
uint32_t cc_number(const struct cc_ops *ops)
{
	for (uint32_t i = 0; ops && i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i]->name, ops->name) == 0)
			return i + 1;
	return 0;
}

const struct cc_ops *cc_next(const struct cc_ops *ops)
{
	size_t i = 0;

	while (ops && all[i++] != ops)
		;
	return i < ARRAY_SIZE(all) ? all[i] : NULL;
}

int cc_set_param(struct cc_params *p, const char *name, size_t len, uint64_t value,
		 uint32_t *ret_least, uint32_t *ret_most)
{
	uint32_t v = (uint32_t)value;

	for (size_t i = 0; i < ARRAY_SIZE(params); i++) {
		if (!is(params[i].name, name, len))
			continue;
		if (value < params[i].least || value > params[i].most) {
			*ret_least = params[i].least;
			*ret_most = params[i].most;
			return -ERANGE;
		}
		memcpy((char *)p + params[i].at, &v, sizeof(v));
		return 0;
	}
	return -ENOENT;
}
