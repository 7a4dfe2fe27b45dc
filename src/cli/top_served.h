/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What targets do at present, for `weft top`: of each host with each namespace, between two looks.
 */
#ifndef WEFT_CLI_TOP_SERVED_H
#define WEFT_CLI_TOP_SERVED_H

#include "cli/served.h"
#include "cli/snapshot.h"

struct top_served {
	int pid;
	char subsystem[SERVED_NQN_MAX], host[SERVED_NQN_MAX];
	uint32_t row; /* of the host, in its process */
	uint64_t nsid;
	bool connected;
	uint64_t commands, errors, read_bytes, written_bytes; /* in the meantime */
	uint64_t latency_ns, timed; /* all commands' together, and of how many */
};

/* To be freed; the busiest first. False: no memory. */
bool top_served(const struct snapshot *now, const struct snapshot *before, struct top_served **ret,
		size_t *ret_count) must_use;

#define TOP_SERVED_TITLES                 \
	"    PID NS   HOST AND SUBSYSTEM" \
	"                               IOPS     READ/s    WRITE/s   LATENCY  ERR/s"
/* A line of what it did in so many seconds. */
void top_served_text(char *text, size_t room, const struct top_served *t, double seconds);

#endif
