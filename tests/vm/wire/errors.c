/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a request comes to that may not be: the requester's status, and what the responder sees of
 * it. Each on a queue pair of its own, since it ends it (IBA volume 1, 9.7.4 and table 58).
 */
#include <stdio.h>

#include "end.h"

enum { FAR = BUF_LEN - 100 };

/* What the responder has registered and allows. */
enum there { ALL, READ_ONLY, WRITE_ONLY, QP_FORBIDS, SHORT_RECV, BAD_RECV };

static const struct fault {
	const char *name;
	enum ibv_wr_opcode op;
	uint32_t len;
	size_t remote;
	bool bad_rkey;
	enum there there;
	enum ibv_wc_status status; /* the requester's */
	enum ibv_wc_status recv;   /* the responder's receive: flushed unless it is the fault */
	int event;		   /* the responder's; -1: none */
	enum ibv_wc_status rxe_status, rxe_recv; /* where rxe as the responder does it its way */
} faults[] = {
	{"WRITE with a wrong rkey", IBV_WR_RDMA_WRITE, 100, 0, true, ALL, IBV_WC_REM_ACCESS_ERR,
	 IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
	{"WRITE of 5000 with a wrong rkey", IBV_WR_RDMA_WRITE, 5000, 0, true, ALL,
	 IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
	{"READ with a wrong rkey", IBV_WR_RDMA_READ, 100, 0, true, ALL, IBV_WC_REM_ACCESS_ERR,
	 IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
	{"WRITE past the end", IBV_WR_RDMA_WRITE, 200, FAR, false, ALL, IBV_WC_REM_ACCESS_ERR,
	 IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
	{"READ past the end", IBV_WR_RDMA_READ, 5000, FAR, false, ALL, IBV_WC_REM_ACCESS_ERR,
	 IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
	{"WRITE where READ is allowed", IBV_WR_RDMA_WRITE, 100, 0, false, READ_ONLY,
	 IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
	{"READ where WRITE is allowed", IBV_WR_RDMA_READ, 100, 0, false, WRITE_ONLY,
	 IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
	{"atomic where WRITE is allowed", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 0, false, WRITE_ONLY,
	 IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_ACCESS_ERR},
	{"atomic at an odd address", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4, false, ALL,
	 IBV_WC_REM_INV_REQ_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_REQ_ERR},
	{"WRITE that the queue pair forbids", IBV_WR_RDMA_WRITE, 100, 0, false, QP_FORBIDS,
	 IBV_WC_REM_INV_REQ_ERR, IBV_WC_WR_FLUSH_ERR, IBV_EVENT_QP_REQ_ERR},
	{"SEND longer than the receive", IBV_WR_SEND, 200, 0, false, SHORT_RECV,
	 IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, -1, IBV_WC_REM_OP_ERR, IBV_WC_LOC_QP_OP_ERR},
	{"SEND of 5000 longer than the receive", IBV_WR_SEND, 5000, 0, false, SHORT_RECV,
	 IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, -1, IBV_WC_REM_OP_ERR, IBV_WC_LOC_QP_OP_ERR},
	{"SEND to a receive with a wrong key", IBV_WR_SEND, 100, 0, false, BAD_RECV,
	 IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR, -1, IBV_WC_REM_OP_ERR, IBV_WC_LOC_QP_OP_ERR},
};

static void post_bad_recv(struct end *e)
{
	struct ibv_sge sge = {(uintptr_t)e->buf, 100, e->mr->lkey ^ 0xff00};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	NEED(!ibv_post_recv(e->qp, &wr, &bad), "post a receive");
}

static unsigned wrong;

static void expect(const struct fault *f, const char *what, int got, int want)
{
	if (got == want)
		return;
	fprintf(stderr, "%s: %s %d, not %d\n", f->name, what, got, want);
	wrong++;
}

static void respond(struct end *e, const struct fault *f)
{
	enum ibv_wc_status want = !e->weft && f->rxe_status ? f->rxe_recv : f->recv;
	int got;

	expect(f, "the receive's status", completion(e).status, want);
	got = event(e, e->weft && f->event >= 0 ? 5000 : 20);
	if (got == IBV_EVENT_COMM_EST) /* a request came before RTS */
		got = event(e, e->weft && f->event >= 0 ? 5000 : 20);
	expect(f, "event", got, e->weft ? f->event : -1); /* rxe tells of none of these */
	expect(f, "the responder's state", state_of(e), IBV_QPS_ERR);
}

static void ask(struct end *e, const struct fault *f, uint32_t rkey)
{
	enum ibv_wc_status want = !e->peer.weft && f->rxe_status ? f->rxe_status : f->status;
	struct ibv_send_wr wr = request(e, f->op, f->remote);

	rkey ^= f->bad_rkey ? 0xff00 : 0;
	if (f->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.rkey = rkey;
	else
		wr.wr.rdma.rkey = rkey;
	post(e, &wr, 0, f->len);
	expect(f, "the status", completion(e).status, want);
	expect(f, "the state", state_of(e), IBV_QPS_ERR);
	expect(f, "an event at the requester", event(e, 20), -1);
}

/* rxe refuses this one when it is posted. */
static bool goes_out(const struct end *e, const struct fault *f)
{
	return (e->requester ? e->weft : e->peer.weft) || !(f->remote & 7) ||
	       f->op != IBV_WR_ATOMIC_FETCH_AND_ADD;
}

void errors(struct end *e)
{
	const unsigned n = sizeof(faults) / sizeof(faults[0]);
	struct ibv_mr *mr[3] = {
		[ALL] = e->mr,
		[READ_ONLY] = ibv_reg_mr(e->pd, e->buf, BUF_LEN,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
		[WRITE_ONLY] = ibv_reg_mr(e->pd, e->buf, BUF_LEN,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
	};

	NEED(mr[READ_ONLY] && mr[WRITE_ONLY], "ibv_reg_mr");
	for (unsigned i = 0; i < n; i++) {
		const struct fault *f = &faults[i];
		uint32_t rkey;

		join(e, &(struct terms){.no_remote = f->there == QP_FORBIDS});
		if (!e->requester && f->there == BAD_RECV)
			post_bad_recv(e);
		else if (!e->requester)
			post_recv(e, 0, f->there == SHORT_RECV ? 100 : 1000);
		rkey = (uint32_t)swap(e, mr[f->there <= WRITE_ONLY ? f->there : ALL]->rkey);
		if (e->requester && goes_out(e, f))
			ask(e, f, rkey);
		else if (goes_out(e, f))
			respond(e, f);
		part(e);
	}
	NEED(!wrong, "%u of these faults came to something else", wrong);
	if (e->requester)
		printf("%u faults, ", n);
	ibv_dereg_mr(mr[READ_ONLY]);
	ibv_dereg_mr(mr[WRITE_ONLY]);
}
