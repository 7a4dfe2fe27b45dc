/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine of `weft bench`: keeps a number of commands under way and counts. As with fio there
 * may be several jobs of one kind, each with as many commands under way, an order and figures of
 * its own; they have queues of their own, too, and share the loop. What was written is known to all
 * of them.
 */
#ifndef WEFT_CLI_BENCH_H
#define WEFT_CLI_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/bench_pattern.h"
#include "cli/histogram.h"
#include "cli/progress.h"
#include "cli/remote.h"

enum bench_mode {
	BENCH_READ,
	BENCH_WRITE,
	BENCH_RW,
	BENCH_RANDREAD,
	BENCH_RANDWRITE,
	BENCH_RANDRW,
	BENCH_TRIM,
	BENCH_RANDTRIM,
};
/* What a command does: fio's directions. */
enum bench_side_kind { BENCH_READS, BENCH_WRITES, BENCH_TRIMS, BENCH_SIDES };
enum { BENCH_DEPTH_MAX = 4096, BENCH_JOBS_MAX = WEFT_IO_QUEUES_MAX };

struct bench_config {
	enum bench_mode mode;
	uint32_t block_bytes, depth; /* depth: of each job */
	uint32_t jobs, queues;	     /* queues: of each job */
	uint32_t read_percent;	     /* of BENCH_RW and BENCH_RANDRW */
	uint64_t offset;	     /* where the area begins */
	uint64_t area_bytes;	     /* how long it is; 0: to the namespace's end */
	uint64_t runtime_ns;	     /* 0: until each job has transferred area_bytes */
	uint64_t ramp_ns;	     /* what comes before is not counted */
	uint64_t interval_ns; /* at least so much from one command's start to a job's next; 0: none
			       */
	bool verify, read_back;
	struct pattern pattern; /* of verify */
	uint64_t seed;
};

struct bench_side {
	uint64_t ios, bytes;
	struct histogram latency;
};

/* What our RNIC has done, and why it was not faster. */
struct bench_rnic {
	uint64_t tx_packets, rx_packets, retransmits, naks_received, naks_sent, sacks_received,
		sacks_sent, rnr_naks_received, rnr_naks_sent, probes, timeouts, window_stalls,
		budget_stalls, drops, socket_drops;
};

/* One of several that do the same. */
struct bench_job {
	struct bench *bench;
	uint64_t next, started, random;
	uint64_t due_ns;  /* with an interval: when the next command may be started */
	uint64_t last_ns; /* when the last command was answered */
	struct bench_side sides[BENCH_SIDES];
};

struct bench_slot {
	struct bench *bench;
	struct bench_job *job;
	struct weft_queue *queue;
	uint8_t *buffer;
	uint64_t index;	   /* block of the area */
	uint64_t start_ns; /* when it was submitted */
	bool busy;
	enum bench_side_kind kind;
};

struct bench {
	struct bench_config config;
	struct remote *remote;
	struct weft_namespace ns;
	uint64_t blocks; /* of block_bytes in the area */
	struct bench_job *jobs;
	struct bench_slot *slots; /* jobs * depth */
	uint32_t slot_count;
	uint32_t *generations; /* verify: of each block; 0: not written by this run */
	uint8_t *taken;	       /* verify: a command on the block is under way */
	uint64_t to_start;     /* of each job */
	uint64_t check_next;   /* the next block to be read back */
	uint64_t start_ns, end_ns;
	uint64_t ramp_end_ns; /* 0: it is over */
	struct progress progress;
	unsigned int busy;
	bool stopping, failed, checking;
	struct bench_side sides[BENCH_SIDES], check; /* of all jobs; check: the reading back */
	uint64_t last_ns;			     /* when the last command was answered */
	uint64_t took_ns, check_ns;
	double cpu_user_s, cpu_system_s;
	uint64_t switches, major_faults, minor_faults; /* of this process, meanwhile */
	bool seen;			/* by weft's own RNIC, which tells what follows: */
	struct bench_rnic before, rnic; /* until it began, and meanwhile */
};

/* False: told. The remote and the namespace are set; config is sane. */
bool bench_init(struct bench *b) must_use;
/*
 * Runs, and reads back what was written if that is wanted. False: told, and the figures are those
 * of the time until the last answer.
 */
bool bench_run(struct bench *b) must_use;
/* After the remote is closed. */
void bench_fini(struct bench *b);

#endif
