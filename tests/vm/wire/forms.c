/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The forms of a request: none of its bytes, immediate data (iWARP has it between two wefts alone),
 * solicited, invalidating; SRQs. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "end.h"

static const char imm_bytes[4] = "imm";

static uint32_t imm(void)
{
	uint32_t v;

	memcpy(&v, imm_bytes, sizeof(v));
	return v;
}

/* The responder's: one message has come. */
static void came(struct end *e, enum ibv_wc_opcode op, uint32_t len, bool with_imm)
{
	struct ibv_wc wc = success(e);

	NEED(wc.opcode == op && !!(wc.wc_flags & IBV_WC_WITH_IMM) == with_imm,
	     "came as opcode %d, flags %#x", wc.opcode, wc.wc_flags);
	/* What a WRITE with immediate brought is in byte_len, too. */
	NEED(wc.byte_len == len, "%u bytes came, not %u", wc.byte_len, len);
	if (with_imm)
		NEED(wc.imm_data == imm(), "immediate data %#x", wc.imm_data);
}

static void go(struct end *e, enum ibv_wr_opcode op, uint32_t len)
{
	struct ibv_send_wr wr = request(e, op, 0);

	wr.imm_data = imm();
	post(e, &wr, 0, len);
	success(e);
}

void zero(struct end *e)
{
	join(e, &(struct terms){0});
	e->buf[0] = e->requester ? 1 : 2;
	for (int i = 0; !e->requester && i < 3; i++)
		post_recv(e, 0, i || e->iwarp ? 100 : 0); /* siw takes none without a place */
	meet(e);
	if (e->requester) {
		go(e, IBV_WR_SEND, 0);
		if (!e->iwarp) {
			go(e, IBV_WR_SEND_WITH_IMM, 0);
			go(e, IBV_WR_RDMA_WRITE_WITH_IMM, 0);
		}
		go(e, IBV_WR_RDMA_WRITE, 0);
		go(e, IBV_WR_RDMA_READ, 0);
		NEED(e->buf[0] == 1, "a READ of nothing brought something");
	} else {
		came(e, IBV_WC_RECV, 0, false);
		if (!e->iwarp) {
			came(e, IBV_WC_RECV, 0, true);
			came(e, IBV_WC_RECV_RDMA_WITH_IMM, 0, true);
		}
	}
	meet(e);
	NEED(e->requester || e->buf[0] == 2, "a WRITE of nothing wrote something");
	part(e);
}

void immediate(struct end *e)
{
	static const uint32_t lens[] = {1, 1000, 1024, 5000, 70000};
	const unsigned n = sizeof(lens) / sizeof(lens[0]);

	join(e, &(struct terms){0});
	for (unsigned i = 0; i < n; i++) {
		for (int k = 0; k < 2; k++) {
			if (!e->requester)
				post_recv(e, 0, k ? 0 : 70000);
			meet(e);
			if (e->requester) {
				fill(e, 0, lens[i], 2 * i + (unsigned)k);
				go(e, k ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM,
				   lens[i]);
			} else {
				came(e, k ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, lens[i], true);
				check(e, 0, lens[i], 2 * i + (unsigned)k, "with immediate");
			}
		}
	}
	part(e);
}

/* ---- solicited events, inline data ------------------------------------------------------------
 */

static bool notified(struct end *e, int ms)
{
	struct pollfd p = {.fd = e->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *ctx;

	if (poll(&p, 1, ms) != 1)
		return false;
	NEED(!ibv_get_cq_event(e->channel, &cq, &ctx), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void inline_send(struct end *e, enum ibv_wr_opcode op, unsigned flags)
{
	struct ibv_send_wr wr = request(e, op, 0);

	wr.send_flags |= IBV_SEND_INLINE | flags;
	fill(e, 0, 50, flags);
	post(e, &wr, 0, 50);
	memset(e->buf, 0, 50); /* it is the device's no longer */
	success(e);
}

void solicited(struct end *e)
{
	join(e, &(struct terms){0});
	for (unsigned i = 0; !e->requester && i < 3; i++)
		post_recv(e, i * 100, 100);
	if (!e->requester)
		NEED(!ibv_req_notify_cq(e->cq, 1), "ibv_req_notify_cq");
	meet(e);
	if (e->requester) {
		inline_send(e, IBV_WR_SEND, 0);
		inline_send(e, e->iwarp ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, 0);
	}
	meet(e);
	if (!e->requester)
		NEED(!notified(e, 100), "an event for what nobody solicited");
	meet(e);
	if (e->requester)
		inline_send(e, IBV_WR_SEND, IBV_SEND_SOLICITED);
	else if (e->weft || !e->iwarp) /* siw tells of none that was solicited */
		NEED(notified(e, PATIENCE_MS), "no event");
	for (unsigned i = 0; !e->requester && i < 3; i++) {
		success(e);
		check(e, i * 100, 50, i < 2 ? 0 : IBV_SEND_SOLICITED, "inline");
	}
	part(e);
}

/* ---- shared receives ------------------------------------------------------------------------- */

void srq(struct end *e)
{
	enum { COUNT = 6, SIZE = 3000, LIMIT = 4 };
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 16, .max_sge = 2}};
	struct ibv_srq_attr limit = {.srq_limit = LIMIT};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_srq *srq = NULL;

	if (!e->requester) {
		srq = ibv_create_srq(e->pd, &init);
		NEED(srq, "ibv_create_srq: %s", strerror(errno));
	}
	join(e, &(struct terms){.srq = srq});
	for (unsigned i = 0; srq && i < COUNT; i++)
		post_recv(e, i * SIZE, SIZE);
	if (srq)
		NEED(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), "ibv_modify_srq");
	meet(e);
	for (unsigned i = 0; i < COUNT; i++) {
		if (e->requester) {
			fill(e, 0, SIZE, i);
			post_op(e, IBV_WR_SEND, 0, SIZE, 0);
		}
		success(e);
		if (srq)
			check(e, i * SIZE, SIZE, i, "by the SRQ");
	}
	meet(e); /* the last acknowledgement may be lost, and an error state gives no other */
	if (srq) {
		NEED(event(e, 5000) == IBV_EVENT_SRQ_LIMIT_REACHED, "no limit event");
		NEED(!ibv_modify_qp(e->qp, &err, IBV_QP_STATE), "ERR");
		/* rxe has none, and iWARP knows none. */
		NEED(!e->weft || e->iwarp || event(e, 5000) == IBV_EVENT_QP_LAST_WQE_REACHED,
		     "no last WQE event");
	}
	part(e);
	if (srq)
		NEED(!ibv_destroy_srq(srq), "ibv_destroy_srq");
}

/* ---- windows --------------------------------------------------------------------------------- */

static void bind_window(struct end *e, struct ibv_mw *mw)
{
	struct ibv_send_wr wr = request(e, IBV_WR_BIND_MW, 0), *bad;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = e->mr,
		.addr = (uintptr_t)e->buf,
		.length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	errno = ibv_post_send(e->qp, &wr, &bad);
	NEED(!errno, "bind: %s", strerror(errno));
	mw->rkey = wr.bind_mw.rkey;
	success(e);
}

/* A window is bound, used, invalidated by the peer's SEND, and gone. */
void invalidate(struct end *e)
{
	struct ibv_send_wr wr;
	struct ibv_mw *mw = NULL;
	uint32_t rkey;
	struct ibv_wc wc;

	join(e, &(struct terms){0});
	if (!e->requester) {
		mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_2);
		NEED(mw, "ibv_alloc_mw: %s", strerror(errno));
		bind_window(e, mw);
		post_recv(e, 8192, 100);
	}
	rkey = (uint32_t)swap(e, mw ? mw->rkey : 0);
	if (e->requester) {
		fill(e, 0, 4000, 1);
		wr = request(e, IBV_WR_RDMA_WRITE, 0);
		wr.wr.rdma.rkey = rkey;
		post(e, &wr, 0, 4000);
		success(e);
		wr = request(e, IBV_WR_SEND_WITH_INV, 0);
		wr.invalidate_rkey = rkey;
		post(e, &wr, 0, 100);
		success(e);
	} else {
		wc = success(e);
		/* rxe gives applications the kernel's flag, 4, which is another one to them. */
		NEED((wc.wc_flags & IBV_WC_WITH_INV || (!e->weft && wc.wc_flags & 4)) &&
			     wc.invalidated_rkey == mw->rkey && wc.byte_len == 100,
		     "flags %#x, key %#x for %#x", wc.wc_flags, wc.invalidated_rkey, mw->rkey);
		check(e, 0, 4000, 1, "WRITE by window");
	}
	meet(e);
	if (e->requester) {
		wr = request(e, IBV_WR_RDMA_WRITE, 0);
		wr.wr.rdma.rkey = rkey;
		post(e, &wr, 0, 100);
		wc = completion(e);
		NEED(wc.status == IBV_WC_REM_ACCESS_ERR, "after the invalidation: %s",
		     ibv_wc_status_str(wc.status));
	}
	part(e);
	if (mw)
		NEED(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");
}

/* The SEND that invalidates comes twice; so much for the window, which is invalid already. */
void invalidate_again(struct end *e)
{
	struct ibv_send_wr wr;
	struct ibv_mw *mw = NULL;
	struct ibv_wc wc;
	uint32_t rkey;

	join(e, &(struct terms){0});
	if (!e->requester) {
		mw = ibv_alloc_mw(e->pd, IBV_MW_TYPE_2);
		NEED(mw, "ibv_alloc_mw: %s", strerror(errno));
		bind_window(e, mw);
		post_recv(e, 8192, 100);
		post_recv(e, 8192, 100);
	}
	rkey = (uint32_t)swap(e, mw ? mw->rkey : 0);
	wr = request(e, IBV_WR_SEND_WITH_INV, 0);
	wr.invalidate_rkey = rkey;
	if (e->requester)
		post(e, &wr, 0, 100);
	success(e);
	if (e->requester)
		post(e, &wr, 0, 100);
	wc = completion(e);
	NEED(e->requester ? wc.status == IBV_WC_REM_ACCESS_ERR : wc.status != IBV_WC_SUCCESS,
	     "the second time: %s", ibv_wc_status_str(wc.status));
	part(e);
	if (mw)
		NEED(!ibv_dealloc_mw(mw), "ibv_dealloc_mw");
}
