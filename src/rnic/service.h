/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The service of a queue pair: a row of operations for its whole life. The rest of the core
 * dispatches by it and knows none by name; services.def lists them all.
 *
 * What a service keeps of a queue pair stands behind struct rnic_qp, in the same piece of memory.
 */
#ifndef WEFT_RNIC_SERVICE_H
#define WEFT_RNIC_SERVICE_H

#include "rnic/rnic.h"

struct send_wqe;

/* A packet in, with its headers read. */
struct pkt {
	struct pkt_hdr h;
	uint32_t flags; /* of its opcode */
	const uint8_t *payload;
	uint32_t len;
	uint8_t *mem; /* where a WRITE's payload or an atomic goes, once it was checked */
};

/* What a queue pair is made of. */
enum qp_part {
	PART_PD = 1 << 0,
	PART_SEND_CQ = 1 << 1, /* and a send queue */
	PART_RECV_CQ = 1 << 2, /* and a receive queue */
	PART_SRQ = 1 << 3,
	PART_XRCD = 1 << 4,
};

/* A change of state and the attributes that it calls for, and allows besides. What is not listed
 * is not allowed, but for the ways to RESET and to ERR, which call for nothing. */
struct transition {
	enum rnic_qp_state from, to;
	uint32_t required, optional; /* enum rnic_qp_attr_mask, without the state's own */
};

struct service {
	enum rnic_qp_type type;
	uint8_t opcodes;    /* enum opcode_service: the high bits of its opcodes */
	uint32_t parts;	    /* enum qp_part: those that it must be given */
	uint32_t may_parts; /* and those that it may */
	uint32_t wrs;	    /* 1 << enum rnic_wr_opcode: the work requests it takes */
	/* Each work request has an address of its own, and a receive is from anybody: path MTU and
	 * groups are those of the port. */
	bool datagrams;
	uint32_t read_sge; /* how many pieces of memory a READ may go to; 0: as many as others */
	const struct transition *transitions;
	size_t ntransitions;
	size_t qp_size; /* bytes: struct rnic_qp and what is its own */

	/* Its beginning, once its memory is there and zeroed; and its state RESET, also at the end.
	 */
	void (*init)(struct rnic_qp *);
	void (*reset)(struct rnic_qp *);
	/* These attributes were set. */
	void (*modified)(struct rnic_qp *, const struct rnic_qp_attr *, uint32_t mask);
	void (*start_recv)(struct rnic_qp *); /* INIT -> RTR */
	void (*start_send)(struct rnic_qp *); /* RTR -> RTS */
	/* To ERR, before the queues are flushed: nothing is on the way any more. */
	void (*stop)(struct rnic_qp *);
	/* To ERR by its own consumer: what is owed to the peer goes no more. */
	void (*hush)(struct rnic_qp *);
	/* Has all come that the peer is known to have sent? */
	bool (*whole)(const struct rnic_qp *);
	void (*query)(const struct rnic_qp *, struct rnic_qp_attr *); /* the PSNs */

	/* What a WQE has beside what all have; NULL: nothing. */
	void (*post)(struct rnic_qp *, struct send_wqe *, const struct rnic_send_wr *);
	/* One packet, if there is one that may go. */
	bool (*tx)(struct rnic_qp *, struct packet_tx *, uint64_t now);
	/* The same of what waits for no rate: a lone acknowledgement or NAK, and the answers that
	 * are in the peer's window. NULL: there is none. */
	bool (*tx_word)(struct rnic_qp *, struct packet_tx *);
	/* May what is posted wait for company: is there something on the way that will be answered,
	 * or, where nothing is, has it sent more since the last poll? NULL: never. */
	bool (*awaits)(const struct rnic_qp *);
	/* Its turn to send is over; more: only because it has sent enough. */
	void (*yield)(struct rnic_qp *, bool more);
	/* Was it the, or an, expected one: see rnic_rx(). */
	bool (*rx)(struct rnic_qp *, struct pkt *, const struct packet_rx *, uint64_t now);
	/* From now on it repeats selectively, as its peer will, and takes weft's own opcodes:
	 * -ENOMEM. NULL: it cannot. */
	int (*selective)(struct rnic_qp *);
	void (*timer)(struct rnic_qp *, uint64_t now); /* rnic_qp.timer; NULL: it arms none */
};

#define WRS_ALL (((1u << (RNIC_WR_SEND_WITH_INV + 1)) - 1) | 1u << RNIC_WR_ATOMIC_WRITE)

#define X(name) extern const struct service service_##name;
#include "rnic/services.def"
#undef X

#endif
