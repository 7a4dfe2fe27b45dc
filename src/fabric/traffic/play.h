/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A play: all that the hosts of a network do, entry by entry of a scenario's `traffic:`, and what
 * has come of it. A message is an item; whoever has it sent hears when it is done.
 */
#ifndef WEFT_FABRIC_TRAFFIC_PLAY_H
#define WEFT_FABRIC_TRAFFIC_PLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/network.h"
#include "fabric/traffic/conn.h"
#include "fabric/traffic/kinds.h"

struct play;
struct group;

/* Who does what an entry says. */
struct kind {
	int (*start)(struct group *) must_use; /* -ENOMEM */
	void (*fini)(struct group *);	       /* NULL: there is nothing but its `own` to free */
};

extern const struct kind *const play_kinds[TRAFFIC_KINDS]; /* kinds.c */

struct item {
	struct group *group;
	struct conn *conn;
	uint64_t bytes;
	uint64_t begun_ns; /* posted */
	size_t flow;	   /* its record; SIZE_MAX: it is a stream's */
	void (*done)(struct item *, bool good);
	void *ctx; /* of who has it sent */
	unsigned from, to;
	struct item *next, **prev; /* of all that are under way */
};

/* The record of a bounded message. */
struct flow_record {
	uint32_t group, from, to;
	bool failed;
	uint64_t bytes, start_ns, took_ns, ideal_ns;
};

struct group {
	struct play *play;
	const struct traffic *traffic;
	const struct kind *kind;
	uint32_t index;
	size_t flows, done, failed;
	uint64_t bytes;		 /* after the warm-up */
	double *by_source;	 /* bytes after the warm-up, of each host */
	double *bins;		 /* bytes of each step */
	struct host_set sources; /* who is in `from`, each host once */
	unsigned *place;	 /* of each host among them, from 1 on; 0: it is none */
	float *source_bins;	 /* of each source, step by step; NULL: that is too much, or one */
	void *own;		 /* of its kind */
	bool over;		 /* nothing new will begin */
	struct happening next;
	double rest_ns; /* of the last gap, less than one */
};

struct play {
	struct network *network;
	const struct kind *const *kinds; /* by enum traffic_kind */
	struct fabric *fabric;
	struct prng random;
	uint64_t begin_ns, warmup_ns, end_ns, step_ns; /* warm-up: from the beginning */
	size_t nbins;
	struct group *groups;
	size_t ngroups;
	struct flow_record *flows;
	size_t nflows, room;
	struct item *items; /* that are under way */
	size_t under_way;
	char *err; /* what went wrong in the middle of it */
	size_t err_len;
	bool failed;
};

int play_create(struct play **ret, struct network *, const struct kind *const *kinds,
		const struct traffic *, size_t n, uint64_t duration_ns, uint64_t warmup_ns,
		uint64_t step_ns, char *err, size_t err_len) must_use;
void play_destroy(struct play *);
/* All is done that has an end. */
bool play_is_done(const struct play *);

/* ---- for the kinds --------------------------------------------------------------------------- */

static inline uint64_t play_now(const struct play *p)
{
	return fabric_now(p->fabric) - p->begin_ns;
}

/* A message on a connection of its own, which goes when it is done. */
void play_message(struct group *, unsigned from, unsigned to, uint64_t bytes,
		  void (*done)(struct item *, bool good), void *ctx);
/* One on a connection that stays. bounded: it has a record. */
void play_post(struct group *, struct conn *, uint64_t bytes, bool bounded,
	       void (*done)(struct item *, bool good), void *ctx);
/* One that its kind has sent and ends itself; its connection says between whom it is. ideal_ns:
 * what it would take in an empty network; 0: it has no record. */
struct item *play_begin(struct group *, struct conn *, uint64_t bytes, uint64_t ideal_ns,
			void (*done)(struct item *, bool good), void *ctx);
void play_end(struct item *, bool good);
/* Something has come that nobody waited for. */
void play_arrived(struct group *, unsigned from, uint64_t bytes);
/* The play can not go on. */
void play_fail(struct play *, const char *fmt, ...) printf_like(2, 3);
/* next happens then, if that is before the end and the entry's stop; else the group is over. */
void group_next(struct group *, uint64_t at);
double play_exponential(struct play *, double mean);
unsigned host_set_draw(struct play *, const struct host_set *);
/* Two different hosts of these; false: there are none. */
bool play_draw_pair(struct play *, const struct traffic *, unsigned *ret_from, unsigned *ret_to);

#endif
