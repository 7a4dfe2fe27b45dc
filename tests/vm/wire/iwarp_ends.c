/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How iWARP's connections begin and end: private data, refusals, faults and what is told of them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "by_cm.h"

/* ---- private data ---------------------------------------------------------------------------- */

static struct ibv_qp_init_attr_ex plain_qp(const struct end *e)
{
	return (struct ibv_qp_init_attr_ex){.qp_type = IBV_QPT_RC,
					    .send_cq = e->cq,
					    .recv_cq = e->cq,
					    .cap = {4, 4, 1, 1, 0},
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = e->pd};
}

static void exchange(struct end *e, uint8_t asked, uint8_t answered, bool reject)
{
	struct ibv_qp_init_attr_ex init = plain_qp(e);

	if (e->requester) {
		cm_resolve(e);
		cm_make_qp(e, &init);
		cm_connect(e, asked);
		if (reject)
			cm_happens(e, RDMA_CM_EVENT_REJECTED, e->weft ? answered : NO_DATA);
		else
			cm_happens(e, RDMA_CM_EVENT_ESTABLISHED, answered);
		meet(e);
		cm_leave(e);
		return;
	}
	cm_listen(e);
	e->id = cm_happens(e, RDMA_CM_EVENT_CONNECT_REQUEST, asked);
	if (reject) {
		cm_reject(e, answered);
		meet(e);
		cm_leave(e);
		return;
	}
	cm_make_qp(e, &init);
	cm_accept(e, answered);
	cm_happens(e, RDMA_CM_EVENT_ESTABLISHED, NO_DATA);
	meet(e);
	cm_happens(e, RDMA_CM_EVENT_DISCONNECTED, NO_DATA);
	cm_leave(e);
}

/* siw counts what it sends in one byte, four of which the set-up takes, and takes 256 with these;
 * what a rejection brings it loses at times. */
static uint8_t most_data(bool from_weft, bool to_weft)
{
	return from_weft ? to_weft ? 255 : 252 : 251;
}

void private_data(struct end *e)
{
	static const uint8_t len[] = {0, 1, 3, 100, 251, 255};
	enum { N = sizeof(len) };
	bool other = swap(e, e->weft);
	uint8_t asked = e->requester ? most_data(e->weft, other) : most_data(other, e->weft),
		told = e->requester ? most_data(other, e->weft) : most_data(e->weft, other);

	e->peer.rd_atomic = 1;
	for (unsigned i = 0; i < 2 * N; i++) {
		uint8_t a = len[i % N], b = len[N - 1 - i % N];

		exchange(e, a < asked ? a : asked, b < told ? b : told, i >= N);
	}
}

/* siw of Linux 6.1 says of no queue pair in which state it is. */
static bool ended(struct end *e)
{
	return !e->weft || state_of(e) == IBV_QPS_ERR;
}

/* ---- faults ---------------------------------------------------------------------------------- */

enum { FAR = BUF_LEN - 100, NONE = -1 };

/* What the responder has registered, or posted. */
enum there { ALL, READ_ONLY, WRITE_ONLY, OTHERS, SHORT_RECV, NO_RECV };

/* Each ends the connection. The requester's status is that of TCP's having it, unless it waits for
 * an answer; the event and the receive are the responder's. siw tells of less. */
static const struct denial {
	const char *name;
	enum ibv_wr_opcode op;
	uint32_t len;
	size_t remote;
	bool bad_key;
	enum there there;
	int event, siw_event;
	enum ibv_wc_status recv;
} denials_of[] = {
	{"WRITE with a wrong key", IBV_WR_RDMA_WRITE, 100, 0, true, ALL, IBV_EVENT_QP_ACCESS_ERR,
	 NONE, IBV_WC_WR_FLUSH_ERR},
	{"WRITE past the end", IBV_WR_RDMA_WRITE, 200, FAR, false, ALL, IBV_EVENT_QP_ACCESS_ERR,
	 IBV_EVENT_QP_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
	{"WRITE where READ is allowed", IBV_WR_RDMA_WRITE, 100, 0, false, READ_ONLY,
	 IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
	{"WRITE to another domain's", IBV_WR_RDMA_WRITE, 100, 0, false, OTHERS,
	 IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR},
	{"READ with a wrong key", IBV_WR_RDMA_READ, 100, 0, true, ALL, IBV_EVENT_QP_ACCESS_ERR,
	 IBV_EVENT_QP_REQ_ERR, IBV_WC_WR_FLUSH_ERR},
	{"READ past the end", IBV_WR_RDMA_READ, 5000, FAR, false, ALL, IBV_EVENT_QP_ACCESS_ERR,
	 IBV_EVENT_QP_REQ_ERR, IBV_WC_WR_FLUSH_ERR},
	{"READ where WRITE is allowed", IBV_WR_RDMA_READ, 100, 0, false, WRITE_ONLY,
	 IBV_EVENT_QP_ACCESS_ERR, NONE, IBV_WC_WR_FLUSH_ERR},
	{"READ of another domain's", IBV_WR_RDMA_READ, 100, 0, false, OTHERS,
	 IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_REQ_ERR, IBV_WC_WR_FLUSH_ERR},
	{"SEND longer than the receive", IBV_WR_SEND, 200, 0, false, SHORT_RECV,
	 IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_FATAL, IBV_WC_LOC_LEN_ERR},
	{"SEND of 5000 longer than the receive", IBV_WR_SEND, 5000, 0, false, SHORT_RECV,
	 IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_FATAL, IBV_WC_LOC_LEN_ERR},
	{"SEND without a receive", IBV_WR_SEND, 100, 0, false, NO_RECV, IBV_EVENT_QP_REQ_ERR, NONE,
	 IBV_WC_SUCCESS},
};

static char wrong[1000]; /* what came otherwise */

static void expect(const struct denial *d, const char *what, int got, int want)
{
	size_t used = strlen(wrong);

	if (got != want)
		snprintf(wrong + used, sizeof(wrong) - used, "%s: %s %d, not %d; ", d->name, what,
			 got, want);
}

/* siw looks at no right to READ. */
static bool served(const struct denial *d, bool by_weft)
{
	return !by_weft && d->there == WRITE_ONLY;
}

static void deny(struct end *e, const struct denial *d)
{
	/* siw says its Terminate, and then leaves the queue pair and its connection as they are. */
	const bool stays = !e->weft && d->op == IBV_WR_RDMA_READ;

	if (d->recv != IBV_WC_SUCCESS && !stays)
		expect(d, "the receive's status", (int)completion(e).status, (int)d->recv);
	expect(d, "event", event(e, 1000), e->weft ? d->event : d->siw_event);
	if (stays)
		return;
	cm_happens(e, RDMA_CM_EVENT_DISCONNECTED, NO_DATA);
	expect(d, "state", ended(e), true);
}

static void ask(struct end *e, const struct denial *d, uint32_t key)
{
	struct ibv_send_wr wr = request(e, d->op, d->remote);
	struct ibv_wc wc;
	bool cut_short;

	wr.wr.rdma.rkey = key ^ (d->bad_key ? 0xff00 : 0);
	post(e, &wr, 0, d->len);
	wc = completion(e);
	/* It may have been refused before siw has sent the last of it, or said so. */
	cut_short = !e->weft && wc.status == IBV_WC_LOC_QP_OP_ERR;
	if (d->op != IBV_WR_RDMA_READ && !cut_short)
		expect(d, "the status", (int)wc.status, IBV_WC_SUCCESS);
	else
		expect(d, "a READ's success", wc.status == IBV_WC_SUCCESS, served(d, e->peer.weft));
	if (served(d, e->peer.weft))
		return;
	cm_happens(e, RDMA_CM_EVENT_DISCONNECTED, NO_DATA);
	expect(d, "state", ended(e), true);
}

void denials(struct end *e)
{
	const unsigned n = sizeof(denials_of) / sizeof(denials_of[0]);
	struct ibv_pd *other = ibv_alloc_pd(e->ctx);
	struct ibv_mr *mr[] = {
		[ALL] = e->mr,
		[READ_ONLY] = ibv_reg_mr(e->pd, e->buf, BUF_LEN,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
		[WRITE_ONLY] = ibv_reg_mr(e->pd, e->buf, BUF_LEN,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
		[OTHERS] = ibv_reg_mr(other, e->buf, BUF_LEN,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					      IBV_ACCESS_REMOTE_READ),
	};

	for (unsigned i = 0; i < n; i++) {
		const struct denial *d = &denials_of[i];
		uint32_t key;

		join(e, &(struct terms){0});
		if (!e->requester && d->there != NO_RECV)
			post_recv(e, 0, d->there == SHORT_RECV ? 100 : 1000);
		key = (uint32_t)swap(e, mr[d->there <= OTHERS ? d->there : ALL]->rkey);
		if (e->requester)
			ask(e, d, key);
		else
			deny(e, d);
		part(e);
	}
	NEED(!wrong[0], "%s", wrong);
	if (e->requester)
		printf("%u faults, ", n);
	for (unsigned i = READ_ONLY; i <= OTHERS; i++)
		ibv_dereg_mr(mr[i]);
	ibv_dealloc_pd(other);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Who has a receive posted and loses its peer: all is flushed, the event says so. */
static void bereft(struct end *e)
{
	struct ibv_wc wc = completion(e);

	NEED(wc.status == IBV_WC_WR_FLUSH_ERR, "the receive: %s", ibv_wc_status_str(wc.status));
	cm_happens(e, RDMA_CM_EVENT_DISCONNECTED, NO_DATA);
	NEED(ended(e), "state %d", state_of(e));
}

enum ending { IN_ORDER, BY_ERROR, BY_DESTRUCTION, BY_IDENTIFIER };

static void end_so(struct end *e, enum ending how)
{
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};

	switch (how) {
	case IN_ORDER:
		NEED(!rdma_disconnect(e->id), "rdma_disconnect: %s", strerror(errno));
		bereft(e);
		break;
	case BY_ERROR:
		NEED(!ibv_modify_qp(e->qp, &err, IBV_QP_STATE), "ERR: %s", strerror(errno));
		break;
	case BY_DESTRUCTION:
		rdma_destroy_qp(e->id);
		break;
	case BY_IDENTIFIER:
		cm_leave(e);
	}
}

/* Each end ends it, in each way, in turn. */
void endings(struct end *e)
{
	for (unsigned i = 0; i < 8; i++) {
		enum ending how = i / 2;

		join(e, &(struct terms){0});
		post_recv(e, 0, 1000);
		meet(e);
		if (e->requester == i % 2)
			end_so(e, how);
		else
			bereft(e);
		part(e);
	}
}

/* The requester is killed: the responder's program is told. */
void killed(struct end *e)
{
	join(e, &(struct terms){0});
	post_recv(e, 0, 1000);
	meet(e);
	if (e->requester) {
		puts("until it is killed");
		pause();
	}
	bereft(e);
	cm_leave(e);
}
