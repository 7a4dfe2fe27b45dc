/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A scenario is run, and this is what came of it. All times are virtual, and begin at 0; all is the
 * same for the same scenario and seed.
 */
#ifndef WEFT_FABRIC_SCENARIO_RUN_H
#define WEFT_FABRIC_SCENARIO_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/scenario/scenario.h"

/* One figure over time: v[i] is of the step that begins at i * step_ns of the run. */
struct run_series {
	double *v; /* the result's */
	size_t n;
};

/* What one entry under `traffic:` did. */
struct run_group {
	const char *name, *kind;
	/* In all the run; a flow is a message, or an unbounded stream. */
	size_t flows, done, failed;
	uint64_t bytes;	     /* that have arrived, after the warm-up */
	double goodput_gbps; /* the mean after the warm-up: of payload */
	/* Jain's index over the goodputs of its sources after the warm-up: 1 for equal ones. */
	double fairness;
	struct run_series goodput; /* Gb/s */
	/* Of each step; 1 where nothing came. n 0: there is one source, or too many. */
	struct run_series fairness_over_time;
};

struct run_flow {
	size_t group;	   /* its index */
	uint32_t from, to; /* hosts */
	uint64_t bytes, start_ns;
	uint64_t took_ns;  /* 0: it was not done when the run ended */
	uint64_t ideal_ns; /* what it would take in an empty network */
	bool failed;
};

/* Flows that are done, by size: each as long as `most` bytes or less, and longer than those of the
 * class before. */
struct run_sizes {
	uint64_t most;
	size_t flows;
	double p50, p95, p99; /* slowdown: took / ideal */
	uint64_t fct_p50_ns, fct_p95_ns, fct_p99_ns;
};

/* One end of a link, as who sends there. */
struct run_port {
	char *name; /* "leaf1 -> host3": at whose end, and towards whom */
	bool of_switch;
	uint64_t frames, bytes;			/* sent */
	uint64_t dropped, lost;			/* no room; by the link's errors */
	uint64_t marked;			/* by ECN */
	uint64_t pauses_sent, pauses_got;	/* PFC frames that stop something */
	uint64_t paused_ns;			/* it was stopped, any priority */
	uint64_t watchdog;			/* times that it no longer believed a pause */
	double utilization;			/* of its line, a part of all the time */
	uint64_t queue_most;			/* bytes before it, after the warm-up */
	double queue_p50, queue_p90, queue_p99; /* of samples of it, bytes */
	struct run_series queue;		/* the most in each step, bytes; n 0: nothing was */
};

struct run_totals {
	/* Of all the run: */
	uint64_t packets;    /* data packets that arrived at hosts */
	uint64_t happenings; /* of the world */
	/* After the warm-up, as what is counted of ports: */
	uint64_t frames; /* that went over any link */
	uint64_t dropped, lost, marked, pauses, watchdog, cnps, resent, timeouts;
	/* InfiniBand: what the manager has sent, what its first sweep took, before the run, and
	 * those later that did not find all. */
	uint64_t smps, subnet_ns, sweeps_failed;
	uint64_t ended_ns;   /* when the run was over */
	uint64_t counted_ns; /* of that, after the warm-up */
	double wall_s;	     /* of the real world, and so not the same every time */
};

/* A line of `expect:`, judged. */
struct run_verdict {
	const struct expectation *expected;
	double got;
	bool met;
};

struct run_result {
	const struct scenario *scenario;
	uint64_t seed, step_ns;
	struct run_totals totals;
	struct run_group *groups;
	size_t ngroups;
	struct run_flow *flows; /* the bounded ones, by when they began */
	size_t nflows;
	struct run_sizes *sizes; /* classes that have flows */
	size_t nsizes;
	struct run_port *ports; /* all of them, in the topology's order */
	size_t nports;
	struct run_verdict *verdicts;
	size_t nverdicts;
	struct run_series pauses, marks; /* per step, of the whole network */
};

struct run_options {
	uint64_t seed;	     /* 0: the scenario's */
	const char *capture; /* a file; NULL: none */
	const char
		*link; /* whose frames: "leaf1 -> host3" and its other direction; NULL: the first */
	/* Called now and then; NULL. False: stop, which run() says by -ECANCELED. */
	bool (*progress)(void *ctx, uint64_t now_ns, uint64_t end_ns, uint64_t packets);
	void *ctx;
};

/* 0, or -errno and a sentence in err. The scenario must stay as long as the result. */
int run(struct run_result **ret, const struct scenario *, const struct run_options *, char *err,
	size_t err_len) must_use;
void run_free(struct run_result *);

/* What a figure may be `of:`, and what else says of what it is. */
enum run_subject {
	RUN_OF_RUN = 0,
	RUN_OF_TRAFFIC = 1 << 0, /* an entry, or all */
	RUN_OF_PORT = 1 << 1,	 /* one, or all */
	RUN_OF_ONE = 1 << 2,	 /* and not of all */
	RUN_OF_TIME = 1 << 3,	 /* `from`, `until` */
	RUN_OF_SIZES = 1 << 4,	 /* `bytes_from`, `bytes_to` */
};

/* What `figure:` may name, by its number; NULL: there are no more. */
const char *run_figure(size_t i, const char **ret_unit, const char **ret_text);
/* By its name. -ENOENT; else 0 and the subject's bits. */
int run_figure_subject(const char *name, unsigned *ret) must_use;

#endif
