/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the counters of each room are called and mean: their .def lists. */
#ifndef WEFT_CLI_SEEN_NAMES_H
#define WEFT_CLI_SEEN_NAMES_H

struct seen_name {
	const char *key, *unit, *text;
};

/* NULL: it is another version's. */
const struct seen_name *seen_name(const char *room, const char *key);

#endif
