/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What hosts do: an entry under `traffic:` of a scenario. */
#ifndef WEFT_FABRIC_TRAFFIC_KINDS_H
#define WEFT_FABRIC_TRAFFIC_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/traffic/sizes.h"

enum traffic_kind {
#define X(id, name, keys, text) TRAFFIC_##id,
#include "fabric/traffic/kinds.def"
#undef X
	TRAFFIC_KINDS
};

extern const char *const traffic_names[TRAFFIC_KINDS];
extern const char *const traffic_keys[TRAFFIC_KINDS]; /* words, with blanks between */

#define NVME_DEPTH_MAX 31
#define NVME_BYTES_MAX (256u << 10)

struct host_set {
	unsigned *v;
	unsigned n;
};

struct trace_line {
	uint64_t start_ns, bytes;
	unsigned from, to;
	size_t number; /* in the file */
};

struct traffic {
	enum traffic_kind kind;
	char *name;
	struct host_set from, to;
	uint64_t bytes;
	struct sizes sizes;
	struct size_point *own_points; /* of sizes, where they are no published ones */
	bool reads;		       /* by RDMA READ, from `to`; else by RDMA WRITE */
	bool tree;		       /* allreduce: rather than a ring */
	bool paired;		       /* the first of `from` to the first of `to`, and so on */
	unsigned count, depth, fan_in;
	double load; /* of the hosts' links */
	uint64_t start_ns, stop_ns, every_ns;
	uint64_t media_ns;	  /* nvme: of an operation of a disk */
	int dscp;		  /* -1: the hosts' */
	struct trace_line *trace; /* by start */
	size_t ntrace;
};

/* Does that of `from` send to that of `to`, by their places there? */
static inline bool traffic_meets(const struct traffic *t, unsigned a, unsigned b)
{
	return t->from.v[a] != t->to.v[b] && (!t->paired || a == b);
}

/* How many pairs that makes. */
static inline size_t traffic_pairs(const struct traffic *t)
{
	size_t n = 0;

	for (unsigned a = 0; a < t->from.n; a++)
		for (unsigned b = 0; b < t->to.n; b++)
			n += traffic_meets(t, a, b);
	return n;
}

#endif
