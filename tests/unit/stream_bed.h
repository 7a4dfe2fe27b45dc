/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A test bed for queue pairs of iWARP: two cores with one each, and the streams between them in the
 * test's hands. Nothing moves unless the test says so.
 */
#ifndef WEFT_TESTS_STREAM_BED_H
#define WEFT_TESTS_STREAM_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "rnic/iwarp/fpdu_in.h"
#include "rnic/iwarp/fpdu_out.h"
#include "rnic/stream.h"

#define SB_MEM	  (8u << 20)
#define SB_EVENTS 16

/* What one side has sent and the other has not had yet. */
struct sb_wire {
	uint8_t *bytes;
	size_t begin, end, room;
};

struct sb_side {
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_cq *scq, *rcq;
	struct rnic_qp *qp;
	struct rnic_mr *mr; /* all of mem, every right */
	uint8_t *mem;
	struct sb_wire out;
	struct fpdu_out forged;
	uint64_t random;
	uint32_t nevents;
	enum rnic_event events[SB_EVENTS];
	struct rnic_failure failure; /* the last */
	long allocs;
};

struct sb_opts {
	struct rnic_stream_init init[2]; /* of each side; both must fit */
	uint32_t access;		 /* of both queue pairs; 0: all */
	uint32_t depth;			 /* work requests; 0: 64 */
	bool no_streams;		 /* the queue pairs stay in INIT */
};

struct sb {
	struct sb_side side[2];
	struct sb_opts opts;
	uint64_t now;
	uint32_t seed;
};

/* With CRC, ird and ord of 4, and what RFC 7306 has. */
struct sb_opts sb_defaults(void);
/* Both queue pairs have their streams. */
struct sb *sb_open(const struct sb_opts *, uint32_t seed);
void sb_close(struct sb *);

uint32_t sb_any(struct sb *, uint32_t below);
/* Lets a side send, at most so many bytes and an FPDU; true: there is more. */
bool sb_tx(struct sb *, int side, size_t max);
/* The same, of what it is asked for, while the memory that is read changes. */
void sb_tx_of_changing_memory(struct sb *, int side);
/* Gives the other side so many of the bytes that are on the way, as far as there are; how many. */
size_t sb_deliver(struct sb *, int from, size_t max);
/* All there is, both ways, until nobody has anything to send. */
void sb_run(struct sb *);
/* One step by a piece of any size; true: something moved. */
bool sb_step_randomly(struct sb *);
/* Until nothing does. */
void sb_run_randomly(struct sb *);

/* Puts a made-up segment on the way from a side that says nothing of its own. */
void sb_forge(struct sb *, int from, const struct ddp_hdr *, const void *payload, size_t len);
/* What a side has on the way ends with a Terminate, and there is no more to come. */
struct rdmap_terminate sb_terminate(struct sb *, int side);

struct rnic_sge sb_sge(struct sb *, int side, uint32_t off, uint32_t len);
int sb_recv(struct sb *, int side, uint64_t wr_id, uint32_t off, uint32_t len);
/* wr: all but its memory and where it goes. */
int sb_post(struct sb *, int side, struct rnic_send_wr wr, uint32_t off, uint32_t len,
	    uint32_t remote_off);
struct rnic_wc sb_wc(struct sb *, int side, bool recv);
void sb_expect(struct sb *, int side, bool recv, uint64_t wr_id, enum rnic_wc_status);
void sb_expect_none(struct sb *, int side);
enum rnic_qp_state sb_state(struct sb *, int side);
bool sb_saw_event(struct sb *, int side, enum rnic_event);

#endif
