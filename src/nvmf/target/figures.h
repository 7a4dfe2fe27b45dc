/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What each host does with each namespace, in tables that others can look at: the columns are in
 * figures.def, the memory is handed in. Each group of a target has its own, and its thread alone
 * writes there; who looks adds up.
 *
 * A row is taken when there is something to count, and none is ever taken from a host that is
 * connected. What a host has done stays when it goes, until its place is needed: then the one that
 * went first is added to "others" of its subsystem, and where that has no place to what is
 * nobody's, row 0 of each table. So sums never become less, and hosts with ever new names push out
 * nobody who is there. (A group knows of its own queues alone: of a host that has gone from one and
 * is in another, the former's part may go to "others" once hundreds of others have come there.)
 * Hosts that discover are all "others".
 *
 * Latency is from the turn in which a command came to the end of the turn in which it was answered,
 * as told by figures_settle(): nobody reads the clock for it.
 *
 * What a queue has done goes with it. By status it has a row for each that came; where there is
 * none, the queue's other_errors is one more.
 */
#ifndef WEFT_NVMF_TARGET_FIGURES_H
#define WEFT_NVMF_TARGET_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

struct target_queue;
struct target_req;

#define FIGURES_HOSTS	     512
#define FIGURES_OPS	     8192
#define FIGURES_ERRORS	     1024
#define FIGURES_QUEUES	     2048
#define FIGURES_QUEUE_ERRORS 2048
#define FIGURES_REASONS	     64

#define FIGURES_NQN_WORDS    28 /* of 8 bytes: for NVME_NQN_MAX and a NUL */
#define FIGURES_REASON_WORDS 8
#define FIGURES_BUCKETS	     21
#define FIGURES_BUCKET_SHIFT 12	      /* the first bucket: up to 2^12 ns */
#define FIGURES_OTHERS	     "others" /* no NQN */

#define FIGURES_QUEUE_BUCKETS	   8  /* there may be many queues */
#define FIGURES_QUEUE_BUCKET_SHIFT 14 /* each is four times the one before */

/* An opcode is FIGURES_IO | opcode, FIGURES_ADMIN | opcode or FIGURES_FABRICS | type. */
enum figures_class {
	FIGURES_IO = 0x000,
	FIGURES_ADMIN = 0x100,
	FIGURES_FABRICS = 0x200,
	FIGURES_UNKNOWN = 0x300, /* there is no such command */
};

#define COLUMN(name, ...)      uint64_t name;
#define NQN_COLUMNS(name, ...) uint64_t name[FIGURES_NQN_WORDS];
struct figures_host_row {
#define HOST	  COLUMN
#define HOST_TEXT NQN_COLUMNS
#include "nvmf/target/figures.def"
};
struct figures_op_row {
#define OP		      COLUMN
#define OP_BUCKETS(name, ...) uint64_t name[FIGURES_BUCKETS];
#include "nvmf/target/figures.def"
};
struct figures_error_row {
#define ERROR COLUMN
#include "nvmf/target/figures.def"
};
struct figures_queue_row {
#define QUEUE			 COLUMN
#define QUEUE_BUCKETS(name, ...) uint64_t name[FIGURES_QUEUE_BUCKETS];
#include "nvmf/target/figures.def"
};
struct figures_queue_error_row {
#define QUEUE_ERROR COLUMN
#include "nvmf/target/figures.def"
};
struct figures_reason_row {
#define REFUSAL			COLUMN
#define REFUSAL_TEXT(name, ...) uint64_t name[FIGURES_REASON_WORDS];
#include "nvmf/target/figures.def"
};
#undef COLUMN
#undef NQN_COLUMNS

#define FIGURES_PENDING 32
#define FIGURES_CACHE	32 /* a power of two */

struct target_figures {
	/* Of as many rows as the constants above say, of zeros; the caller's. */
	struct figures_host_row *hosts;
	struct figures_op_row *ops;
	struct figures_error_row *errors;
	struct figures_queue_row *queues;
	struct figures_queue_error_row *queue_errors;
	struct figures_reason_row *reasons;

	struct figures_host {
		uint32_t hash, refs;  /* of its names; queues */
		uint64_t gone;	      /* when, as a number of those gone */
		uint16_t ops, errors; /* the first of a list; 0: none */
		bool others;
	} host[FIGURES_HOSTS];
	struct figures_link {
		uint32_t key;
		uint16_t status, next;
	} op[FIGURES_OPS], error[FIGURES_ERRORS];
	uint16_t queue_next[FIGURES_QUEUES], queue_error_next[FIGURES_QUEUE_ERRORS];
	/* The first of a list; 0: none. */
	uint16_t ops_free, errors_free, queues_free, queue_errors_free;
	uint64_t gone, now_ns;
	struct figures_pending {
		uint16_t op, queue;
		uint32_t count;
		uint64_t since_ns;
	} pending[FIGURES_PENDING]; /* answered, and the turn is not over */
	uint32_t pending_count;
};

/* Of a queue. */
struct figures_of_queue {
	bool on;
	uint16_t host, row; /* row 0: of this queue alone nothing is shown */
	uint16_t errors;    /* the first of a list; 0: none */
	struct {
		uint32_t key;
		uint16_t op;
	} cache[FIGURES_CACHE];
};

/* The tables are there. */
void figures_init(struct target_figures *f);
/* A queue has a controller, and, after its last command, none any more. */
void figures_queue_begin(struct target_figures *f, struct target_queue *q);
void figures_queue_end(struct target_figures *f, struct target_queue *q);
/* A request is answered. */
void figures_count(struct target_figures *f, struct target_queue *q, const struct target_req *r);
/* A connection came to nothing. What stands in brackets a peer may have chosen, and a row stays: it
 * is counted without. */
void figures_refused(struct target_figures *f, const char *why);
/* What was answered is on its way by now. */
void figures_settle(struct target_figures *f, uint64_t now_ns);

/* The bucket of a latency. */
static inline unsigned figures_bucket(uint64_t ns)
{
	unsigned log = ns > 1 ? 64u - (unsigned)__builtin_clzll(ns - 1) : 0;

	if (log <= FIGURES_BUCKET_SHIFT)
		return 0;
	log -= FIGURES_BUCKET_SHIFT;
	return log < FIGURES_BUCKETS ? log : FIGURES_BUCKETS - 1;
}

/* That of a queue. */
static inline unsigned figures_queue_bucket(uint64_t ns)
{
	unsigned log = ns > 1 ? 64u - (unsigned)__builtin_clzll(ns - 1) : 0, n;

	if (log <= FIGURES_QUEUE_BUCKET_SHIFT)
		return 0;
	n = (log - FIGURES_QUEUE_BUCKET_SHIFT + 1) / 2;
	return n < FIGURES_QUEUE_BUCKETS ? n : FIGURES_QUEUE_BUCKETS - 1;
}

#endif
