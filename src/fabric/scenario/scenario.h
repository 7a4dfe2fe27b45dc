/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A scenario, as its file says it (weft-scenario(5)): a network, what its hosts do, how long, and
 * what is expected of it. Whatever the file leaves out has the default.
 */
#ifndef WEFT_FABRIC_SCENARIO_SCENARIO_H
#define WEFT_FABRIC_SCENARIO_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/topology.h"
#include "fabric/traffic/kinds.h"

/* What a figure of the run should be. */
struct expectation {
	char *figure;
	char *of;		       /* a group, or a port; NULL: of all */
	unsigned subject;	       /* enum run_subject: which of them, and more */
	char *published;	       /* where it stands, and as what; NULL */
	char *text;		       /* in words; NULL */
	double least, most;	       /* -INFINITY, INFINITY: no limit */
	double value;		       /* what it is to be near to; NAN: only limits are given */
	double within;		       /* and how near: a part of it */
	uint64_t bytes_from, bytes_to; /* of flows of these sizes */
	uint64_t from_ns, until_ns;    /* within this time of the run; 0, 0: after the warm-up */
	int line;		       /* of the file */
};

struct scenario {
	char *name; /* of the file, without directories and suffix */
	char *about;
	uint64_t seed;
	uint64_t duration_ns, warmup_ns, step_ns;
	bool until_done; /* it ends before that if all flows have */
	struct network_nature network;
	struct traffic *traffic;
	size_t ntraffic;
	struct expectation *expect;
	size_t nexpect;
};

/* 0, or -errno and a sentence in err that names the file, the line and what is wrong. */
int scenario_read(struct scenario **ret, const char *file, char *err, size_t err_len) must_use;
int scenario_parse(struct scenario **ret, const char *name, const char *text, size_t len, char *err,
		   size_t err_len) must_use;
void scenario_free(struct scenario *);

#endif
