/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/seen_names.h"

#include <string.h>

#include "base/compiler.h"

#define X(name, unit, text) {#name, unit, text},
static const struct seen_name core[] = {
#include "rnic/counters.def"
};
static const struct seen_name port[] = {
#include "port/counters.def"
};
static const struct seen_name cm[] = {
#include "cm/counters.def"
};
static const struct seen_name broker[] = {
#include "broker/counters.def"
};
static const struct seen_name target[] = {
#include "nvmf/target/counters.def"
};
static const struct seen_name host[] = {
#include "nvmf/host/counters.def"
};
static const struct seen_name rsocket[] = {
#include "rsocket/counters.def"
};
static const struct seen_name queue_pairs[] = {
#include "rnic/qp_shown.def"
#undef X
#define X(name, unit, text)
#define Q(name, unit, text) {#name, unit, text},
#include "rnic/counters.def"
#undef X
};

static const struct {
	const char *room;
	const struct seen_name *v;
	size_t count;
} rooms[] = {
	{"core", core, ARRAY_SIZE(core)},
	{"port", port, ARRAY_SIZE(port)},
	{"xdp", port, ARRAY_SIZE(port)},
	{"rocev1", port, ARRAY_SIZE(port)},
	{"target", target, ARRAY_SIZE(target)},
	{"host", host, ARRAY_SIZE(host)},
	{"rsocket", rsocket, ARRAY_SIZE(rsocket)},
	{"broker", broker, ARRAY_SIZE(broker)},
	{"cm", cm, ARRAY_SIZE(cm)},
	{"queue-pairs", queue_pairs, ARRAY_SIZE(queue_pairs)},
};

const struct seen_name *seen_name(const char *room, const char *key)
{
	for (size_t r = 0; r < ARRAY_SIZE(rooms); r++)
		for (size_t i = 0; strcmp(rooms[r].room, room) == 0 && i < rooms[r].count; i++)
			if (strcmp(rooms[r].v[i].key, key) == 0)
				return &rooms[r].v[i];
	return NULL;
}
