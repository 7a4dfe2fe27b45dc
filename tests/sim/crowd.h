/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Cores that write to one other, which is behind a queue, or read from it, and are behind queues
 * themselves: each has always something to ask for from when it begins.
 */
#ifndef WEFT_TESTS_SIM_CROWD_H
#define WEFT_TESTS_SIM_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/link.h"
#include "rnic/cc/cc.h"
#include "rnic/rnic.h"

#define CROWD_MAX     8
#define CROWD_MESSAGE (64u << 10)

struct crowd_nature {
	struct link_nature wire;
	int senders;
	const struct cc_ops *cc;
	const struct cc_ops *first; /* of the first sender; NULL: as the others */
	const struct cc_params *params;
	uint32_t window_bytes; /* 0: what a core has without being told */
	uint8_t path_mtu;
	bool selective;
	bool reads;
	unsigned depth; /* messages that a sender has posted */
	uint64_t seed;
};

struct crowd;

/* Fails the test where it cannot. */
struct crowd *crowd_open(const struct crowd_nature *);
void crowd_close(struct crowd *);
/* From 1 on. */
void crowd_begin(struct crowd *, int sender);
void crowd_run_until(struct crowd *, uint64_t ns);
/* What arrives is counted from now on; crowd_got() says how much came and how it was shared. */
void crowd_count(struct crowd *);

struct crowd_got {
	double bytes, fairness; /* of all; Jain's index */
};
struct crowd_got crowd_got(const struct crowd *);

const struct link_counters *crowd_link(const struct crowd *);
const struct rnic_counters *crowd_counters(const struct crowd *, int host);
/* The most that has been in the queue since this was asked, bytes; of those who read the first's.
 */
uint64_t crowd_queue_peak(struct crowd *);

_Noreturn void crowd_fail(const char *fmt, ...) printf_like(1, 2);

#endif
