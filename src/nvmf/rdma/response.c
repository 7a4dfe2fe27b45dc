/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Responses. Those that are ready when a turn ends go together: the data of all, then the responses
 * of all, in one post. An RNIC sends like packets that follow one another at less cost than
 * packets of two kinds by turns, and each response still stands behind its data.
 */
#include "nvmf/rdma/target.h"

#define BATCH_CMDS 32
#define BATCH_WRS  (BATCH_CMDS + TARGET_SGL_MAX) /* any one fits */

struct batch {
	struct ibv_recv_wr recv[BATCH_CMDS];
	struct ibv_sge recv_sge[BATCH_CMDS][2];
	struct ibv_send_wr write[BATCH_WRS], send[BATCH_CMDS];
	struct ibv_sge write_sge[BATCH_WRS][2], cqe_sge[BATCH_CMDS];
	uint32_t cmds, writes, bytes;
};

void rdma_recv_wr(struct rdma_recv *rv, struct ibv_recv_wr *wr, struct ibv_sge sge[2])
{
	sge[0] = (struct ibv_sge){
		.addr = (uintptr_t)rv->capsule, .length = NVME_SQE_LEN, .lkey = rv->lkey};
	sge[1] = (struct ibv_sge){
		.addr = (uintptr_t)rv->data, .length = rv->data_room, .lkey = rv->lkey};
	*wr = (struct ibv_recv_wr){
		.wr_id = (uintptr_t)&rv->hook, .sg_list = sge, .num_sge = rv->data ? 2 : 1};
}

/*
 * A response invalidates one key: of several that a host asks for the last, as SPDK's target does.
 * A host invalidates the others itself, as it does with all when a target cannot.
 */
static bool wants_invalidate(struct rdma_cmd *c, uint32_t *ret_key)
{
	if (!rdma_cmd_queue(c)->dev->send_inv)
		return false;
	for (uint32_t i = c->req.sgl_count; i > 0; i--) {
		struct nvme_sgl g = target_req_sgl(&c->req, i - 1);

		if (g.type != NVME_SGL_KEYED_DATA_BLOCK || g.subtype != NVME_SGL_INVALIDATE ||
		    !g.len)
			continue;
		*ret_key = g.key;
		return true;
	}
	return false;
}

/* One for each descriptor: of the data, of the zeroes behind it, or of the one's end and the
 * other's beginning. */
static void add_writes(struct batch *b, struct rdma_cmd *c)
{
	struct rdma_queue *q = rdma_cmd_queue(c);
	const struct target_req *r = &c->req;
	uint32_t at = 0;

	for (uint32_t i = 0; i < r->sgl_count; i++) {
		struct nvme_sgl g = target_req_sgl(r, i);
		struct ibv_sge *sge = b->write_sge[b->writes];
		uint32_t data = min_of(g.len, r->data_len - at);
		int sges = 0;

		if (!g.len)
			continue;
		if (data)
			sge[sges++] = (struct ibv_sge){.addr = (uintptr_t)r->data + at,
						       .length = data,
						       .lkey = q->dev->pool_mr->lkey};
		if (data < g.len)
			sge[sges++] = (struct ibv_sge){.addr = (uintptr_t)q->rt->zeroes,
						       .length = g.len - data,
						       .lkey = q->dev->zeroes_mr->lkey};
		b->write[b->writes] = (struct ibv_send_wr){
			.wr_id = (uintptr_t)&c->write_hook,
			.next = &b->write[b->writes + 1],
			.sg_list = sge,
			.num_sge = sges,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {.remote_addr = g.addr, .rkey = g.key},
		};
		b->writes++;
		b->bytes += g.len;
		at += data;
	}
}

static void add_send(struct batch *b, struct rdma_cmd *c)
{
	struct wcursor w = wcursor_init(c->cqe, NVME_CQE_LEN);
	struct ibv_send_wr *send = &b->send[b->cmds];
	struct rdma_queue *q = rdma_cmd_queue(c);
	uint32_t key;

	nvme_cqe_put(&w, &c->req.cqe);
	b->cqe_sge[b->cmds] = (struct ibv_sge){
		.addr = (uintptr_t)c->cqe, .length = NVME_CQE_LEN, .lkey = c->cqe_lkey};
	*send = (struct ibv_send_wr){
		.wr_id = (uintptr_t)&c->send_hook,
		.next = send + 1,
		.sg_list = &b->cqe_sge[b->cmds],
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	if (wants_invalidate(c, &key)) {
		send->opcode = IBV_WR_SEND_WITH_INV;
		send->invalidate_rkey = key;
		send->wr.rdma.rkey = key; /* where libsiw takes it from */
	} else if (q->inline_send) {	  /* siw cannot do both */
		send->send_flags |= IBV_SEND_INLINE;
	}
}

static void add(struct batch *b, struct rdma_cmd *c)
{
	/* Before the receive is given away: the descriptors may stand in it. */
	if (c->send_wrs > 1)
		add_writes(b, c);
	add_send(b, c);
	rdma_recv_wr(c->recv, &b->recv[b->cmds], b->recv_sge[b->cmds]);
	b->recv[b->cmds].next = &b->recv[b->cmds + 1];
	c->recv = NULL;
	c->state = RDMA_CMD_SENDING;
	rdma_cmd_queue(c)->sends_free -= c->send_wrs;
	b->cmds++;
}

/* The receives first: the host may use their places as soon as it has the responses. */
static int post(struct rdma_queue *q, struct batch *b)
{
	struct ibv_send_wr *bad;
	struct ibv_recv_wr *bad_recv;
	int error;

	b->recv[b->cmds - 1].next = NULL;
	b->send[b->cmds - 1].next = NULL;
	if (b->writes)
		b->write[b->writes - 1].next = b->send;
	error = ibv_post_recv(q->id->qp, b->recv, &bad_recv);
	return error ? error : ibv_post_send(q->id->qp, b->writes ? b->write : b->send, &bad);
}

void rdma_responses_post(struct rdma_queue *q)
{
	q->send_wait_bytes = 0;
	while (!q->dying && !list_empty(&q->send_wait)) {
		struct batch b;
		int error;

		b.cmds = b.writes = b.bytes = 0;
		while (!list_empty(&q->send_wait) && b.cmds < BATCH_CMDS &&
		       b.bytes < RDMA_BATCH_BYTES) {
			struct rdma_cmd *c = list_entry(q->send_wait.next, struct rdma_cmd, link);

			if (q->sends_free < c->send_wrs || b.writes + c->send_wrs - 1 > BATCH_WRS)
				break;
			list_remove(&c->link);
			add(&b, c);
		}
		if (!b.cmds)
			return;
		error = post(q, &b);
		if (error)
			rdma_post_failed(q, "posting a response", error);
	}
}
