/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An RNIC core with a UC, a UD and an RC QP, of which the last two take their receives from one
 * SRQ, and both halves of XRC, with an SRQ within the target's domain and one in another; and a
 * peer that follows no rule: the input makes up its packets, and what the consumer does
 * between them. Nothing may be written outside what is registered, no receive completes twice, and
 * none that belongs to a queue of its own is lost.
 * Input: steps, each a byte that names it and its arguments.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "mem.h"
#include "rnic/ib/ib.h"

enum { UC, UD, RC, XRC_RECV, XRC_SEND, QPS };
enum { NEAR, FAR, XRC_SRQS };
enum { STEPS_MAX = 400, GUARD = 4096, REGION = 16384, RECV_MAX = 6000, WRS = 8, GRH = 40 };

static struct {
	uint8_t before[GUARD], region[REGION], after[GUARD];
} memory __attribute__((aligned(64)));

static struct world {
	struct fuzz_mem mem;
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_mr *mr;
	struct rnic_cq *cq;
	struct rnic_srq *srq;
	struct rnic_xrcd *xrcd[XRC_SRQS];
	struct rnic_srq *xrc_srq[XRC_SRQS];
	struct rnic_qp *qp[QPS];
	uint64_t xrc_posted, xrc_done;
	uint64_t now, recvs_posted, recvs_done, srq_posted, srq_done;
	uint32_t psn[QPS], random;
	const uint8_t *in, *in_end;
} w;

static uint8_t take(void)
{
	return w.in < w.in_end ? *w.in++ : 0;
}

static uint16_t take16(void)
{
	uint8_t high = take();

	return (uint16_t)(high << 8 | take());
}

static void *do_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return fuzz_mem_alloc(&w.mem, bytes);
}

static void do_free(void *ctx, void *p)
{
	(void)ctx;
	fuzz_mem_free(&w.mem, p);
}

static uint32_t do_random(void *ctx)
{
	(void)ctx;
	return w.random = w.random * 1664525 + 1013904223;
}

static void on_notify(void *ctx, void *user)
{
	(void)ctx, (void)user;
}

static void on_event(void *ctx, enum rnic_event event, void *user)
{
	(void)ctx;
	must(user == &w || event == RNIC_EVENT_CQ_ERR);
}

static const struct rnic_ops ops = {do_alloc, do_free, do_random, on_notify, on_event, NULL};

static const struct flow to_us = {.sgid = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}},
				  .dgid = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}}};

static const struct gid group = {{[10] = 0xff, [11] = 0xff, 239, 0, 0, 1}};

static void bring_up(int i)
{
	struct rnic_qp_attr a = {
		.state = RNIC_QPS_INIT,
		.port_num = 1,
		.access_flags = 0xf,
		.qkey = 0x1234,
		.path_mtu = RNIC_MTU_1024,
		.dest_qpn = 0x020005,
		.flow = {.sgid = to_us.dgid, .dgid = to_us.sgid},
		.max_rd_atomic = 2,
		.max_dest_rd_atomic = 2,
		.timeout = 10,
	};
	uint32_t connected = RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN | RNIC_QP_RQ_PSN;
	uint32_t rc_rtr = RNIC_QP_MAX_DEST_RD_ATOMIC | RNIC_QP_MIN_RNR_TIMER;
	uint32_t rc_rts =
		RNIC_QP_TIMEOUT | RNIC_QP_RETRY_CNT | RNIC_QP_RNR_RETRY | RNIC_QP_MAX_QP_RD_ATOMIC;
	uint32_t rtr = (i == UD ? 0 : connected) | (i == RC || i == XRC_RECV ? rc_rtr : 0);
	uint32_t rts = i == RC || i == XRC_SEND ? rc_rts : i == XRC_RECV ? RNIC_QP_TIMEOUT : 0;

	must(rnic_qp_modify(w.qp[i], &a,
			    RNIC_QP_STATE | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT |
				    (i == UD ? RNIC_QP_QKEY : RNIC_QP_ACCESS_FLAGS),
			    w.now) == 0);
	a.state = RNIC_QPS_RTR;
	must(rnic_qp_modify(w.qp[i], &a, RNIC_QP_STATE | rtr, w.now) == 0);
	a.state = RNIC_QPS_RTS;
	must(rnic_qp_modify(w.qp[i], &a, RNIC_QP_STATE | RNIC_QP_SQ_PSN | rts, w.now) == 0);
	w.psn[i] = 0;
}

static void poll_cq(void)
{
	struct rnic_wc wc[16];
	int n;

	while ((n = rnic_cq_poll(w.cq, wc, 16)))
		for (int i = 0; i < n; i++) {
			bool srq = wc[i].qp_num != rnic_qp_num(w.qp[UC]);
			bool xrc = wc[i].qp_num == rnic_qp_num(w.qp[XRC_RECV]);

			if (!(wc[i].opcode & RNIC_WC_RECV))
				continue;
			must(wc[i].wr_id == (xrc ? 3 : srq ? 2 : 1)); /* none of the other domain */
			must(wc[i].qp_num != rnic_qp_num(w.qp[XRC_SEND]));
			if (xrc)
				w.xrc_done++;
			else if (srq)
				w.srq_done++;
			else
				w.recvs_done++;
			if (wc[i].status == RNIC_WC_SUCCESS && wc[i].opcode == RNIC_WC_RECV)
				must(wc[i].byte_len <= RECV_MAX);
			if (wc[i].qp_num == rnic_qp_num(w.qp[UD]) &&
			    wc[i].status == RNIC_WC_SUCCESS)
				must(wc[i].byte_len >= GRH && (wc[i].wc_flags & RNIC_WC_GRH));
		}
	must(w.srq_done <= w.srq_posted && w.recvs_done <= w.recvs_posted);
	must(w.xrc_done <= w.xrc_posted);
}

/* ---- steps ------------------------------------------------------------------------------------
 */

/* Mostly the one that may be reached. */
static uint32_t srqn_of(uint8_t how)
{
	uint32_t n = rnic_srq_num(w.xrc_srq[how % 8 == 7 ? FAR : NEAR]);

	return how % 8 == 6 ? n ^ how : n;
}

static void step_packet(void)
{
	static const uint8_t services[QPS] = {SERVICE_UC, SERVICE_UD, SERVICE_RC, SERVICE_XRC,
					      SERVICE_XRC};
	static uint8_t data[PKT_HDR_MAX + 8192];
	int to = take() % QPS;
	uint8_t kind = take(), flags = take();
	uint32_t len = take16() % 5000;
	struct pkt_hdr h = {
		.bth = {.opcode = (uint8_t)((flags & 1 ? 0 : services[to]) | kind % 32),
			.se = flags & 2,
			.ackreq = flags & 4,
			.pkey = PKEY_DEFAULT,
			.dqpn = rnic_qp_num(w.qp[to]),
			.pad = (uint8_t)(-len & 3)},
		.reth = {.va = (uintptr_t)memory.region + take16() % (REGION + 100),
			 .rkey = rnic_mr_rkey(w.mr) + (flags & 8 ? 1 : 0),
			 .dma_len = flags & 16 ? len : take16()},
		.aeth = {.syndrome = take()},
		.deth = {.qkey = flags & 32 ? 0x4321 : 0x1234, .sqpn = 0x020005},
	};
	struct packet_rx rx = {.flow = to_us, .data = data};

	if (flags & 64)
		w.psn[to] = psn_add(w.psn[to], (uint32_t)(take() - 128));
	if (to >= XRC_RECV)
		h.xrc_srqn = srqn_of(take());
	h.bth.psn = w.psn[to];
	w.psn[to] = psn_add(w.psn[to], 1);
	if (!opcode_table[h.bth.opcode].name)
		return;
	h.atomic.va = h.reth.va;
	h.atomic.rkey = h.reth.rkey;
	if (flags & 128)
		rx.flow.sgid.raw[15] = 9;
	if (kind & 128) {
		h.bth.dqpn = MULTICAST_QPN;
		rx.flow.dgid = group;
		rx.flow.scope = kind >> 6 & 1;
	}
	rx.len = pkt_hdr_encode(&h, data) + len + h.bth.pad;
	rnic_rx(w.rnic, &rx, w.now);
}

static void step_recv(void)
{
	uint32_t len = take16() % (RECV_MAX + 1);
	struct rnic_sge sge[2] = {
		{(uintptr_t)memory.region + 100, len / 3, rnic_mr_lkey(w.mr)},
		{(uintptr_t)memory.region + 4000, len - len / 3, rnic_mr_lkey(w.mr)}};
	uint8_t how = take();
	struct rnic_recv_wr wr = {.sge = sge, .num_sge = 2};

	if (how % 16 == 15)
		sge[1].lkey ^= 1;
	if (how & 32) {
		int which = how & 64 ? FAR : NEAR;

		wr.wr_id = which == FAR ? 4 : 3;
		if (rnic_post_srq_recv(w.xrc_srq[which], &wr) == 0 && which == NEAR)
			w.xrc_posted++;
		must(rnic_post_recv(w.qp[XRC_RECV], &wr) == -EINVAL);
	} else if (how & 16) {
		wr.wr_id = 1;
		if (rnic_post_recv(w.qp[UC], &wr) == 0)
			w.recvs_posted++;
		must(rnic_post_recv(w.qp[UD], &wr) == -EINVAL);
	} else {
		wr.wr_id = 2;
		if (rnic_post_srq_recv(w.srq, &wr) == 0)
			w.srq_posted++;
	}
}

static void step_send(void)
{
	struct rnic_sge sge = {(uintptr_t)memory.region, take16() % REGION, rnic_mr_lkey(w.mr)};
	uint8_t how = take();
	struct rnic_send_wr wr = {
		.sge = &sge,
		.num_sge = 1,
		.opcode = how % 12 == 11 ? RNIC_WR_ATOMIC_WRITE : how % 12,
		.xrc_srqn = 0x020001,
		.flags = how & 16 ? RNIC_SEND_SIGNALED : 0,
		.remote_addr = 0x1000,
		.ud = {.flow = how & 32 ? NULL : &to_us,
		       .qpn = 0x020005,
		       .qkey = (uint32_t)how << 24},
	};

	if (how & 64)
		sge.lkey ^= 1;
	/* BIND_MW and LOCAL_INV of nothing fail, as they must. */
	if (rnic_post_send(w.qp[take() % QPS], &wr, w.now))
		return;
}

static void step_state(void)
{
	int i = take() % QPS;
	struct rnic_qp_attr a = {.cur_state = RNIC_QPS_SQE};

	switch (take() % 4) {
	case 0:
		a.state = RNIC_QPS_ERR;
		break;
	case 1:
		a.state = RNIC_QPS_RTS; /* from SQE, or SQD */
		break;
	case 2:
		a.state = RNIC_QPS_SQD;
		break;
	default:
		a.state = RNIC_QPS_ERR;
		must(rnic_qp_modify(w.qp[i], &a, RNIC_QP_STATE, w.now) == 0);
		poll_cq(); /* RESET takes away what is not taken */
		a.state = RNIC_QPS_RESET;
		must(rnic_qp_modify(w.qp[i], &a, RNIC_QP_STATE, w.now) == 0);
		bring_up(i);
		return;
	}
	if (rnic_qp_modify(w.qp[i], &a, RNIC_QP_STATE, w.now))
		return;
}

static void step_transmit(void)
{
	struct packet_tx tx[4];
	size_t n;

	for (int i = 0; i < 200 && (n = rnic_tx(w.rnic, tx, 4, w.now)); i++)
		for (size_t k = 0; k < n; k++)
			for (uint8_t v = 0; v < tx[k].niov; v++) {
				const uint8_t *p = tx[k].iov[v].iov_base;

				must(tx[k].iov[v].iov_len == 0 ||
				     (p >= memory.region &&
				      p + tx[k].iov[v].iov_len <= memory.region + REGION));
			}
	w.now += (uint64_t)take() << 16;
	rnic_tick(w.rnic, w.now);
}

static void step_srq(void)
{
	uint8_t how = take();

	if (how & 1 ? rnic_srq_set_limit(w.srq, how >> 1) : rnic_srq_resize(w.srq, how >> 1))
		return;
}

static void xrc_srq_open(int which)
{
	struct rnic_srq_attr attr = {.max_wr = WRS, .max_sge = 2};

	must(rnic_xrc_srq_create(w.pd, &attr, w.xrcd[which], w.cq, &w, &w.xrc_srq[which]) == 0);
}

/* An SRQ of XRC may go at any time, and takes along what nobody has completed. */
static void step_xrc_srq(void)
{
	int which = take() % XRC_SRQS;

	must(rnic_srq_destroy(w.xrc_srq[which]) == 0);
	if (which == NEAR)
		w.xrc_posted = w.xrc_done;
	xrc_srq_open(which);
}

/* Another interface's group of the same address is another one. */
static void step_group(void)
{
	uint8_t how = take();
	int i = how >> 2 & 1 ? RC : UD, err;
	bool edge;

	if (how & 1)
		err = rnic_qp_attach(w.qp[i], &group, how >> 1 & 1, &edge);
	else
		err = rnic_qp_detach(w.qp[i], &group, how >> 1 & 1, &edge);
	must(err == 0 || err == -EINVAL || err == -ENOMEM);
	must(i == UD || err);
}

/* ---- the run ----------------------------------------------------------------------------------
 */

static void begin(void)
{
	static const enum rnic_qp_type types[QPS] = {RNIC_QPT_UC, RNIC_QPT_UD, RNIC_QPT_RC,
						     RNIC_QPT_XRC_RECV, RNIC_QPT_XRC_SEND};
	struct rnic_srq_attr attr = {.max_wr = WRS, .max_sge = 2};

	must(rnic_create(&w.rnic, &(struct rnic_config){.slot = 1}, &ops, &w) == 0);
	must(rnic_pd_create(w.rnic, &w.pd) == 0);
	must(rnic_mr_create(w.pd, memory.region, REGION, (uintptr_t)memory.region, 0xf, &w.mr) ==
	     0);
	must(rnic_cq_create(w.rnic, 4096, &w, &w.cq) == 0);
	must(rnic_srq_create(w.pd, &attr, &w, &w.srq) == 0);
	for (int i = 0; i < XRC_SRQS; i++) {
		must(rnic_xrcd_create(w.rnic, &w.xrcd[i]) == 0);
		xrc_srq_open(i);
	}
	for (int i = 0; i < QPS; i++) {
		struct rnic_qp_init init = {
			.type = types[i],
			.send_cq = i == XRC_RECV ? NULL : w.cq,
			.recv_cq = i >= XRC_RECV ? NULL : w.cq,
			.srq = i == UD || i == RC ? w.srq : NULL,
			.xrcd = i == XRC_RECV ? w.xrcd[NEAR] : NULL,
			.path_mtu = RNIC_MTU_1024,
			.cap = {WRS, WRS, 2, 2, 64},
			.qp_user = &w,
		};

		must(rnic_qp_create(i == XRC_RECV ? NULL : w.pd, &init, &w.qp[i]) == 0);
		bring_up(i);
	}
}

static void end(void)
{
	const struct rnic_qp_attr a = {.state = RNIC_QPS_ERR};
	const struct rq *near = &w.xrc_srq[NEAR]->rq;
	uint32_t left = w.srq->rq.prod - w.srq->rq.cons;

	for (int i = 0; i < QPS; i++)
		must(rnic_qp_modify(w.qp[i], &a, RNIC_QP_STATE, w.now) == 0);
	poll_cq();
	must(w.recvs_done == w.recvs_posted);
	must(w.srq_done + left == w.srq_posted);
	must(w.xrc_done + (near->prod - near->cons) == w.xrc_posted);
	for (uint32_t scope = 0; scope < 2; scope++) {
		bool last;

		if (rnic_qp_detach(w.qp[UD], &group, scope, &last) == 0)
			must(last);
	}
	for (int i = 0; i < QPS; i++)
		must(rnic_qp_destroy(w.qp[i]) == 0);
	for (int i = 0; i < XRC_SRQS; i++) {
		must(rnic_srq_destroy(w.xrc_srq[i]) == 0);
		must(rnic_xrcd_destroy(w.xrcd[i]) == 0);
	}
	must(rnic_srq_destroy(w.srq) == 0);
	must(rnic_cq_destroy(w.cq) == 0);
	must(rnic_mr_destroy(w.mr) == 0);
	must(rnic_pd_destroy(w.pd) == 0);
	rnic_destroy(w.rnic);
	must(w.mem.blocks == 0);
	for (size_t i = 0; i < GUARD; i++)
		must(memory.before[i] == 0 && memory.after[i] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const steps[])(void) = {step_packet,  step_packet,   step_packet, step_recv,
					      step_send,    step_transmit, step_state,	step_srq,
					      step_xrc_srq, step_group};

	w = (struct world){.in = data, .in_end = data + size, .now = 1000000, .random = 1};
	begin();
	for (int i = 0; i < STEPS_MAX && w.in < w.in_end; i++) {
		steps[take() % ARRAY_SIZE(steps)]();
		poll_cq();
	}
	end();
	return 0;
}
