/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Congestion control: an algorithm is told what becomes of a queue pair's packets, and says how
 * many bytes may be on the way and how fast they may leave. One table of operations per algorithm;
 * those that it does not care for are NULL and cost a look at the table.
 *
 * Bytes are counted as a receiver's socket buffer counts them. What the sockets hold that several
 * queue pairs send to is nobody's business here (rnic/ib/budget.c).
 */
#ifndef WEFT_RNIC_CC_CC_H
#define WEFT_RNIC_CC_CC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/heap.h"

#define CC_OWN_WORDS 10

struct cc_ops;

/* Of a queue pair; several have the same. */
struct cc_params {
#define X(name, normally, least, most, unit, text) uint32_t name;
#include "rnic/cc/params.def"
#undef X
};

extern const struct cc_params cc_defaults;

struct cc {
	const struct cc_ops *ops;
	const struct cc_params *params;
	uint32_t window_max; /* no algorithm may have more on the way */
	bool used;	     /* half of the window or more was, in the last round trip */
	/* What it says: */
	uint32_t window;    /* bytes, at most window_max */
	uint32_t rate_kbps; /* 0: no limit */
	uint64_t tick_ns;   /* when it wants to be called again; DEADLINE_NEVER */
	/* And what it keeps. */
	uint64_t own[CC_OWN_WORDS];
};

struct cc_ops {
	const char *name;
	/* Its rate spreads its window, which is of what this side has asked for: answers to READs
	 * are in the window of who reads. */
	bool rate_of_window;
	void (*start)(struct cc *, uint64_t now);
	void (*sent)(struct cc *, uint32_t bytes, uint64_t now);
	void (*acked)(struct cc *, uint32_t bytes, uint64_t now);
	/* So much was; again: in the same round trip as what was lost before it. */
	void (*lost)(struct cc *, uint32_t bytes, bool again, uint64_t now);
	/* The peer says that ours do. Who has this, answers to it: packets say so (ECN). */
	void (*cnp)(struct cc *, uint64_t now);
	void (*rtt)(struct cc *, uint64_t rtt_ns, uint64_t now);
	void (*tick)(struct cc *, uint64_t now);
};

/* A window that each loss halves, and what is acknowledged brings back. */
extern const struct cc_ops cc_halving;
/* What it does, for others that have nothing better to do about a loss. */
void cc_halve(struct cc *, uint32_t bytes, bool again, uint64_t now);
void cc_regrow(struct cc *, uint32_t acked, uint64_t now);
/* A rate that notifications cut, and time and bytes bring back; the window as with halving. */
extern const struct cc_ops cc_dcqcn;
/* A window that round trips cut that take too long. */
extern const struct cc_ops cc_delay;
/* As much on the way as may be, whatever happens. */
extern const struct cc_ops cc_none;

/* By its name, which ends with the string or before len; NULL: there is no such. */
const struct cc_ops *cc_find(const char *name, size_t len);
/* By which it is told of outside; 0: it is none of these. */
uint32_t cc_number(const struct cc_ops *);
/* The next behind one, or the first behind NULL; NULL: there are no more. */
const struct cc_ops *cc_next(const struct cc_ops *);

/* One of them: 0, -ENOENT, or -ERANGE with what it may be. */
int cc_set_param(struct cc_params *, const char *name, size_t len, uint64_t value,
		 uint32_t *ret_least, uint32_t *ret_most) must_use;

static inline void cc_start(struct cc *cc, const struct cc_ops *ops, const struct cc_params *params,
			    uint32_t window_max, uint64_t now)
{
	*cc = (struct cc){
		.ops = ops,
		.params = params,
		.window_max = window_max,
		.window = window_max,
		.tick_ns = DEADLINE_NEVER,
	};
	if (ops->start)
		ops->start(cc, now);
}

#endif
