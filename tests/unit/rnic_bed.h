/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A test bed for the RNIC core: two cores with one connected QP each (RC unless told otherwise), in
 * virtual time, and every packet in the test's hands. Nothing moves unless the test says so.
 */
#ifndef WEFT_TESTS_RNIC_BED_H
#define WEFT_TESTS_RNIC_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/units.h"
#include "rnic/rnic.h"

#define BED_MEM	    (1u << 20)
#define BED_PKT_MAX (4096 + PKT_HDR_MAX + 4)
#define BED_EVENTS  16
#define BED_QKEY    0x11111111u

#define MS NSEC_PER_MSEC
#define US NSEC_PER_USEC

struct bed_pkt {
	int from; /* which side sent it */
	struct flow flow;
	struct pkt_hdr h;
	const uint8_t *payload; /* within data, without pad */
	uint32_t payload_len;
	size_t len;
	uint8_t data[BED_PKT_MAX];
};

struct bed_side {
	struct bed *bed;
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_cq *scq, *rcq;
	struct rnic_qp *qp;
	struct rnic_srq *srq; /* with opts.srq */
	struct rnic_mr *mr;   /* all of mem, every right */
	uint8_t *mem;
	uint64_t random;
	uint32_t notified;
	uint32_t suspected; /* times the path MTU was */
	uint32_t failures;
	struct rnic_failure failure; /* the last */
	struct gid failed_to;
	uint32_t nevents;
	enum rnic_event events[BED_EVENTS];
	uint32_t paged_in;	   /* pages asked for, and granted */
	const uint8_t *gone;	   /* not to be had from here on, if not NULL */
	const uint8_t *read_only;  /* not to be written from here on */
	struct rnic_counters seen; /* with opts.rows */
	struct rnic_qp_row rows[4];
	long allocs;	  /* outstanding */
	long allocs_left; /* fail after so many; negative: never */
};

struct bed_opts {
	enum rnic_mtu mtu;     /* 1024 */
	uint32_t rate_mbps;    /* of both addresses; no limit */
	uint8_t tos;	       /* likewise */
	uint32_t window_bytes; /* the core's default */
	uint32_t socket_bytes;
	uint32_t max_qps, max_keys;
	const struct cc_ops *cc;
	const struct cc_params *cc_params;
	const struct cc_ops *qp_cc; /* of the queue pairs, not of the instances; and the next */
	const struct cc_params *qp_cc_params;
	uint32_t psn[2];	/* first PSN each side sends */
	uint32_t access;	/* of both QPs; all */
	uint8_t rd_atomic;	/* 4 */
	uint8_t timeout;	/* 14: 67 ms */
	uint8_t retry_cnt;	/* 7 */
	uint8_t rnr_retry;	/* 7 */
	uint8_t min_rnr_timer;	/* 12: 0.64 ms */
	uint32_t cqe;		/* 256 */
	struct rnic_qp_cap cap; /* 64 WRs, 4 SGEs, 64 inline */
	bool not_all_signaled;
	bool selective;		/* both QPs repeat what is lost, and no more */
	enum rnic_qp_type type; /* RC; all ends in RTS, with Q_Key BED_QKEY */
	uint32_t rows;		/* of the QPs that are seen from outside, at most 4 */
	bool rocev1;		/* both addresses are RoCEv1's */
	bool one_host;		/* and both are the same */
	bool srq;		/* both QPs receive from an SRQ of cap.max_recv_wr */
	bool zero_rd_atomic, zero_timeout, zero_retry, zero_rnr_retry; /* really 0, not default */
};

struct bed {
	struct bed_side side[2];
	uint64_t now;
	struct bed_opts opts;
	/* Each packet before it is delivered; false drops it. NULL: deliver all. */
	bool (*filter)(struct bed *, struct bed_pkt *);
	void *filter_arg;
	uint32_t delivered, dropped;
	struct bed_pkt *log; /* every packet sent, in order */
	uint32_t nlog, caplog;
};

/* Defaults are filled in for what is zero. Both QPs end in RTS. */
struct bed *bed_open(const struct bed_opts *);
void bed_close(struct bed *);
void bed_connect(struct bed *); /* both QPs RESET -> RTS; for beds whose QPs were reset */
void bed_flows(struct bed *, int side, struct rnic_qp_attr *);
/* Another connected pair in the place of side[].qp; returns those that were there in ret_old. */
void bed_second_pair(struct bed *, struct rnic_qp *ret_old[2]);
int bed_modify(struct bed *, int side, enum rnic_qp_state);

/* Takes at most one packet from a side; NULL when it has none. Valid until the next one is taken.
 */
struct bed_pkt *bed_tx1(struct bed *, int side);
bool bed_deliver(struct bed *, const struct bed_pkt *); /* what rnic_rx() says */
/* Makes up a packet from a side to the other's QP; h's addressing is filled in. */
bool bed_forge(struct bed *, int from, struct pkt_hdr h, const void *payload, uint32_t len);
/* How many packets of an opcode a side has sent, and the nth of them. */
uint32_t bed_sent(struct bed *, int side, uint8_t opcode);
struct bed_pkt *bed_nth(struct bed *, int side, uint8_t opcode, uint32_t n);
/* Drops the nth packet of an opcode from a side, the first being 0, once; a filter. */
struct bed_drop {
	int side;
	int opcode;	      /* -1: any */
	uint32_t from, count; /* these of them */
	uint32_t seen;
};
bool bed_drop_some(struct bed *, struct bed_pkt *); /* filter_arg: struct bed_drop */
bool bed_drop_all(struct bed *, struct bed_pkt *);
void bed_drop(struct bed *, struct bed_drop *); /* from now on */
const struct rnic_counters *bed_counters(struct bed *, int side);
/* Moves packets both ways until nobody has anything to send. Time stands still. */
void bed_run(struct bed *);
/* Lets time pass, running what becomes due and the packets that follow. */
void bed_sleep(struct bed *, uint64_t ns);

struct rnic_sge bed_sge(struct bed *, int side, uint32_t off, uint32_t len);
int bed_send(struct bed *, int side, uint64_t wr_id, uint32_t off, uint32_t len);
int bed_recv(struct bed *, int side, uint64_t wr_id, uint32_t off, uint32_t len);
/* WRITE or READ between the same offsets' memories. */
int bed_rdma(struct bed *, int side, uint64_t wr_id, uint32_t opcode, uint32_t off,
	     uint32_t remote_off, uint32_t len);
int bed_atomic(struct bed *, int side, uint64_t wr_id, uint32_t opcode, uint32_t off,
	       uint32_t remote_off, uint64_t compare_add, uint64_t swap);
void bed_fill(struct bed *, int side, uint32_t off, uint32_t len, uint8_t seed);
uint64_t bed_remote_addr(struct bed *, int peer, uint32_t off);

/* Takes one completion and compares. */
void bed_expect(struct bed *, int side, bool recv, uint64_t wr_id, enum rnic_wc_status);
struct rnic_wc bed_wc(struct bed *, int side, bool recv);
void bed_expect_none(struct bed *, int side);
enum rnic_qp_state bed_state(struct bed *, int side);
bool bed_saw_event(struct bed *, int side, enum rnic_event);

#endif
