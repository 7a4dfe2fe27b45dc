/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The engine of `weft bench`: keeps a number of commands under way and counts. */
#ifndef WEFT_CLI_BENCH_H
#define WEFT_CLI_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/histogram.h"
#include "cli/progress.h"
#include "cli/session.h"

enum bench_mode { BENCH_READ, BENCH_WRITE, BENCH_RANDREAD, BENCH_RANDWRITE, BENCH_RANDRW };
enum { BENCH_DEPTH_MAX = 4096 };

struct bench_config {
	enum bench_mode mode;
	uint32_t block_bytes, depth;
	uint32_t read_percent; /* of BENCH_RANDRW */
	uint64_t area_bytes;   /* from the namespace's start; 0: all of it */
	uint64_t runtime_ns;   /* 0: until area_bytes were transferred */
	uint64_t interval_ns;  /* at least so much from one command's start to the next; 0: none */
	bool verify;
	uint64_t seed;
};

struct bench_side {
	uint64_t ios, bytes;
	struct histogram latency;
};

/* What our RNIC has done, and why it was not faster. */
struct bench_rnic {
	uint64_t tx_packets, rx_packets, retransmits, naks_received, naks_sent, rnr_naks_received,
		rnr_naks_sent, probes, timeouts, window_stalls, budget_stalls, drops, socket_drops;
};

struct bench_slot {
	struct bench *bench;
	struct host_request req;
	uint8_t *buffer;
	uint64_t index;	   /* block of the area */
	uint64_t start_ns; /* when it was submitted */
	bool busy, writing;
};

struct bench {
	struct bench_config config;
	struct session *session;
	struct host_namespace ns;
	uint64_t blocks; /* of block_bytes in the area */
	struct bench_slot *slots;
	uint32_t *generations; /* verify: of each block; 0: not written by this run */
	uint8_t *taken;	       /* verify: a command on the block is under way */
	uint64_t next, started, to_start, random;
	uint64_t start_ns, end_ns;
	uint64_t due_ns; /* with an interval: when the next command may be started */
	struct progress progress;
	unsigned int busy;
	bool stopping, failed, checking;
	struct bench_side read, write, check; /* check: the reading back */
	uint64_t last_ns;		      /* when the last command was answered */
	uint64_t took_ns, check_ns;
	double cpu_user_s, cpu_system_s;
	uint64_t switches, major_faults, minor_faults; /* of this process, meanwhile */
	bool seen;			/* by weft's own RNIC, which tells what follows: */
	struct bench_rnic before, rnic; /* until it began, and meanwhile */
};

/* False: told. The session and the namespace are set; config is sane. */
bool bench_init(struct bench *b) must_use;
/*
 * Runs, and reads back what was written if that is wanted. False: told, and the figures are those
 * of the time until the last answer.
 */
bool bench_run(struct bench *b) must_use;
/* After the session is closed. */
void bench_fini(struct bench *b);

#endif
