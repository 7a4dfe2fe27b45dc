/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A queue's commands and their data: receives, RDMA READs and WRITEs, responses. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "nvmf/transport/rdma_target_internal.h"

static struct rdma_cmd *cmd_of(struct target_req *r)
{
	return container_of(r, struct rdma_cmd, req);
}

static struct rdma_queue *queue_of(struct target_queue *tq)
{
	return container_of(tq, struct rdma_queue, tq);
}

static struct rdma_queue *cmd_queue(struct rdma_cmd *c)
{
	return c->send_hook.queue;
}

static void failed(struct rdma_queue *q, const char *what, int error)
{
	if (error < 0) /* some providers */
		error = errno;
	if (!q->dying)
		log_warn("nvmf", "queue %u of %s: %s fails: %s", q->tq.qid,
			 q->tq.ctrl ? q->tq.ctrl->hostnqn : "a host", what, strerror(error));
	rdma_queue_kill(q);
}

/* True if a completion is to be acted upon. A failed one is the end of its connection. */
static bool completed(struct rdma_hook *h, const struct ibv_wc *wc, const char *what)
{
	struct rdma_queue *q = h->queue;

	if (wc->status == IBV_WC_SUCCESS)
		return !q->torn_down;
	if (wc->status != IBV_WC_WR_FLUSH_ERR && !q->dying)
		log_warn("nvmf", "queue %u of %s: %s fails: %s", q->tq.qid,
			 q->tq.ctrl ? q->tq.ctrl->hostnqn : "a host", what,
			 ibv_wc_status_str(wc->status));
	if (!q->torn_down)
		rdma_queue_kill(q);
	return false;
}

/* --- receives --------------------------------------------------------------------------------- */

static int post_recv(struct rdma_queue *q, struct rdma_recv *rv)
{
	struct ibv_sge sge[2] = {
		{.addr = (uintptr_t)rv->capsule, .length = NVME_SQE_LEN, .lkey = q->mr->lkey},
		{.addr = (uintptr_t)rv->data,
		 .length = q->tq.capsule_data_max,
		 .lkey = q->mr->lkey},
	};
	struct ibv_recv_wr wr = {
		.wr_id = (uintptr_t)&rv->hook, .sg_list = sge, .num_sge = rv->data ? 2 : 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(q->id->qp, &wr, &bad);
}

static void start_cmd(struct rdma_queue *q, struct rdma_recv *rv)
{
	struct list *n = list_pop_head(&q->free);
	struct rdma_cmd *c = list_entry(n, struct rdma_cmd, link);
	size_t data_len = rv->len > NVME_SQE_LEN ? rv->len - NVME_SQE_LEN : 0;

	c->state = RDMA_CMD_TARGET;
	c->recv = rv;
	target_req_recv(&q->tq, &c->req, rv->capsule, min_of(rv->len, (uint32_t)NVME_SQE_LEN),
			rv->data, data_len, q->rt->now_ns);
}

static void recv_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_recv *rv = container_of(h, struct rdma_recv, hook);
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "a receive"))
		return;
	q->heard = true;
	list_remove(&q->silent);
	rv->len = wc->byte_len;
	if (list_empty(&q->free) || !list_empty(&q->pending))
		list_push_tail(&q->pending, &rv->link);
	else
		start_cmd(q, rv);
}

static void release(struct rdma_cmd *c)
{
	struct rdma_queue *q = cmd_queue(c);
	struct rdma_target *rt = q->rt;
	bool freed = c->data || c->scratch;

	if (c->data)
		data_pool_put(&rt->pool, c->data);
	if (c->scratch)
		data_pool_put(&rt->pool, c->scratch);
	c->data = c->scratch = NULL;
	c->recv = NULL;
	c->state = RDMA_CMD_FREE;
	list_push_tail(&q->free, &c->link);
	if (freed)
		rdma_pool_pump(rt);
}

/* --- responses -------------------------------------------------------------------------------- */

static bool wants_invalidate(const struct rdma_cmd *c)
{
	const struct nvme_sgl *g = &c->req.sqe.sgl;

	return cmd_queue((struct rdma_cmd *)c)->dev->send_inv &&
	       g->type == NVME_SGL_KEYED_DATA_BLOCK && g->subtype == NVME_SGL_INVALIDATE && g->len;
}

/* Data, if there is any for the host, and the response right behind it, in one post. */
static void post_response(struct rdma_cmd *c)
{
	struct rdma_queue *q = cmd_queue(c);
	const struct nvme_sgl *g = &c->req.sqe.sgl;
	struct wcursor w = wcursor_init(c->cqe, NVME_CQE_LEN);
	struct ibv_sge data_sge = {.addr = (uintptr_t)c->req.data, .length = c->req.data_len};
	struct ibv_sge cqe_sge = {
		.addr = (uintptr_t)c->cqe, .length = NVME_CQE_LEN, .lkey = q->mr->lkey};
	struct ibv_send_wr send = {
		.wr_id = (uintptr_t)&c->send_hook,
		.sg_list = &cqe_sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr write = {
		.wr_id = (uintptr_t)&c->write_hook,
		.next = &send,
		.sg_list = &data_sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = {.remote_addr = g->addr, .rkey = g->key},
	};
	struct ibv_send_wr *bad;
	struct rdma_recv *rv = c->recv;
	int error;

	nvme_cqe_put(&w, &c->req.cqe);
	if (wants_invalidate(c)) {
		send.opcode = IBV_WR_SEND_WITH_INV;
		send.invalidate_rkey = g->key;
		send.wr.rdma.rkey = g->key; /* where libsiw takes it from */
	} else if (q->inline_send) {	    /* siw cannot do both */
		send.send_flags |= IBV_SEND_INLINE;
	}
	data_sge.lkey = q->dev->pool_mr->lkey;
	c->state = RDMA_CMD_SENDING;
	q->sends_free -= c->send_wrs;
	/* The receive first: the host may use the place as soon as it has the response. */
	c->recv = NULL;
	error = post_recv(q, rv);
	if (!error)
		error = ibv_post_send(q->id->qp, c->send_wrs == 2 ? &write : &send, &bad);
	if (error)
		failed(q, "posting a response", error);
}

static void send_pump(struct rdma_queue *q);

static void send_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_cmd *c = container_of(h, struct rdma_cmd, send_hook);
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "sending a response"))
		return;
	q->sends_free += c->send_wrs;
	release(c);
	send_pump(q);
	while (!list_empty(&q->pending) && !list_empty(&q->free))
		start_cmd(q, list_entry(list_pop_head(&q->pending), struct rdma_recv, link));
}

/* Unsignaled: heard of only when it failed. */
static void write_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	(void)completed(h, wc, "an RDMA WRITE to the host");
}

static void op_respond(struct target_req *r)
{
	struct rdma_cmd *c = cmd_of(r);
	struct rdma_queue *q = cmd_queue(c);

	c->send_wrs = target_req_has_reply_data(r) ? 2 : 1;
	if (q->torn_down) {
		release(c);
	} else if (q->sends_free < c->send_wrs || !list_empty(&q->send_wait)) {
		c->state = RDMA_CMD_SEND_WAIT;
		list_push_tail(&q->send_wait, &c->link);
	} else {
		post_response(c);
	}
}

/* --- fetching a host's data ------------------------------------------------------------------- */

/* Into the pool, at to. */
static void post_read_wr(struct rdma_queue *q, struct rdma_hook *h, void *to, uint32_t len,
			 uint64_t from, uint32_t key)
{
	struct ibv_sge sge = {.addr = (uintptr_t)to, .length = len, .lkey = q->dev->pool_mr->lkey};
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)h,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = from, .rkey = key},
	};
	struct ibv_send_wr *bad;
	int error;

	q->sends_free--;
	q->reads_free--;
	error = ibv_post_send(q->id->qp, &wr, &bad);
	if (error)
		failed(q, "posting an RDMA READ", error);
}

static void post_read(struct rdma_cmd *c)
{
	const struct nvme_sgl *g = &c->req.sqe.sgl;

	c->state = RDMA_CMD_READING;
	post_read_wr(cmd_queue(c), &c->read_hook, c->req.data, c->req.data_len, g->addr, g->key);
}

static void read_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_cmd *c = container_of(h, struct rdma_cmd, read_hook);
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "an RDMA READ from the host"))
		return;
	q->sends_free++;
	q->reads_free++;
	c->state = RDMA_CMD_TARGET;
	target_req_ready(&c->req, NVME_SC_SUCCESS);
	send_pump(q);
}

/* Responses before READs: they make room, READs ask for more. */
static void send_pump(struct rdma_queue *q)
{
	while (!q->dying && !list_empty(&q->send_wait)) {
		struct rdma_cmd *c = list_entry(q->send_wait.next, struct rdma_cmd, link);

		if (q->sends_free < c->send_wrs)
			return;
		list_remove(&c->link);
		post_response(c);
	}
	while (!q->dying && !list_empty(&q->read_wait) && q->sends_free && q->reads_free)
		post_read(list_entry(list_pop_head(&q->read_wait), struct rdma_cmd, link));
}

static void nudge_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "an RDMA READ of no bytes from the host"))
		return;
	q->sends_free++;
	q->reads_free++;
	send_pump(q);
}

void rdma_queue_nudge(struct rdma_queue *q)
{
	assert(q->sends_free && q->reads_free); /* no command was there to take any */
	q->nudge_hook = (struct rdma_hook){.done = nudge_done, .queue = q};
	post_read_wr(q, &q->nudge_hook, q->rt->pool.base, 0, 0, 0);
}

/* Memory for all that a command needs, or for none of it. */
static bool take_memory(struct rdma_cmd *c)
{
	struct target_req *r = &c->req;
	struct data_pool *pool = &cmd_queue(c)->rt->pool;

	if (!r->data && r->data_len) {
		c->data = data_pool_get(pool, r->data_len);
		if (!c->data)
			return false;
	}
	if (r->scratch_len) {
		c->scratch = data_pool_get(pool, r->scratch_len);
		if (!c->scratch) {
			if (c->data)
				data_pool_put(pool, c->data);
			c->data = NULL;
			return false;
		}
	}
	if (c->data)
		r->data = c->data;
	r->scratch = c->scratch;
	return true;
}

static void have_memory(struct rdma_cmd *c)
{
	struct rdma_queue *q = cmd_queue(c);
	struct target_req *r = &c->req;

	if (r->dir != NVMF_DIR_TO_CTRL || r->in_capsule) {
		c->state = RDMA_CMD_TARGET;
		target_req_ready(r, NVME_SC_SUCCESS);
	} else if (!q->sends_free || !q->reads_free || !list_empty(&q->read_wait)) {
		c->state = RDMA_CMD_READ_WAIT;
		list_push_tail(&q->read_wait, &c->link);
	} else {
		post_read(c);
	}
}

static void op_fetch(struct target_req *r)
{
	struct rdma_cmd *c = cmd_of(r);
	struct rdma_target *rt = cmd_queue(c)->rt;

	if (!list_empty(&rt->pool_wait) || !take_memory(c)) {
		c->state = RDMA_CMD_POOL_WAIT;
		list_push_tail(&rt->pool_wait, &c->link);
		return;
	}
	have_memory(c);
}

void rdma_pool_pump(struct rdma_target *rt)
{
	while (!list_empty(&rt->pool_wait)) {
		struct rdma_cmd *c = list_entry(rt->pool_wait.next, struct rdma_cmd, link);

		if (!take_memory(c))
			return;
		list_remove(&c->link);
		have_memory(c);
	}
}

static bool op_cancel(struct target_req *r)
{
	struct rdma_cmd *c = cmd_of(r);

	if (c->state != RDMA_CMD_POOL_WAIT && c->state != RDMA_CMD_READ_WAIT)
		return false;
	list_remove(&c->link);
	c->state = RDMA_CMD_TARGET;
	return true;
}

static void op_disconnect(struct target_queue *tq)
{
	rdma_queue_kill(queue_of(tq));
}

const struct target_transport_ops rdma_target_ops = {
	.trtype = NVMF_TRTYPE_RDMA,
	.keyed_sgl = true,
	.fetch = op_fetch,
	.cancel = op_cancel,
	.respond = op_respond,
	.disconnect = op_disconnect,
};

/* --- opening and closing ---------------------------------------------------------------------- */

static size_t page_up(size_t n)
{
	return (n + DATA_POOL_PAGE - 1) & ~(size_t)(DATA_POOL_PAGE - 1);
}

/* One area, one registration: in-capsule data on pages of its own, then capsules, then CQEs. */
static int take_queue_memory(struct rdma_queue *q)
{
	size_t data = (size_t)q->depth * q->tq.capsule_data_max;
	size_t capsules = (size_t)q->depth * NVME_SQE_LEN;
	uint8_t *p;

	q->memory_len = page_up(data + capsules + (size_t)q->cmd_count * NVME_CQE_LEN);
	p = mmap(NULL, q->memory_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	q->memory = p;
	q->mr = ibv_reg_mr(q->dev->pd, p, q->memory_len, IBV_ACCESS_LOCAL_WRITE);
	if (!q->mr)
		return -errno;
	q->recvs = calloc(q->depth, sizeof(*q->recvs));
	q->cmds = calloc(q->cmd_count, sizeof(*q->cmds));
	if (!q->recvs || !q->cmds)
		return -ENOMEM;
	for (uint32_t i = 0; i < q->depth; i++) {
		struct rdma_recv *rv = &q->recvs[i];

		rv->hook = (struct rdma_hook){.done = recv_done, .queue = q};
		if (q->tq.capsule_data_max)
			rv->data = p + (size_t)i * q->tq.capsule_data_max;
		rv->capsule = p + data + (size_t)i * NVME_SQE_LEN;
	}
	for (uint32_t i = 0; i < q->cmd_count; i++) {
		struct rdma_cmd *c = &q->cmds[i];

		c->read_hook = (struct rdma_hook){.done = read_done, .queue = q};
		c->write_hook = (struct rdma_hook){.done = write_done, .queue = q};
		c->send_hook = (struct rdma_hook){.done = send_done, .queue = q};
		c->cqe = p + data + capsules + (size_t)i * NVME_CQE_LEN;
		list_push_tail(&q->free, &c->link);
	}
	return 0;
}

static int make_qp(struct rdma_queue *q)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = q,
		.send_cq = q->cq->cq,
		.recv_cq = q->cq->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = q->sends_free,
			.max_recv_wr = q->depth,
			.max_send_sge = 1,
			.max_recv_sge = 2,
			.max_inline_data = NVME_CQE_LEN},
	};

	if (rdma_create_qp(q->id, q->dev->pd, &attr) != 0) {
		attr.cap.max_inline_data = 0; /* a device without inline data */
		if (rdma_create_qp(q->id, q->dev->pd, &attr) != 0)
			return -errno;
	}
	q->inline_send = attr.cap.max_inline_data >= NVME_CQE_LEN;
	return 0;
}

int rdma_queue_open(struct rdma_queue *q)
{
	uint32_t wrs_max = (uint32_t)q->dev->attr.max_qp_wr;
	int error;

	list_init(&q->free);
	list_init(&q->pending);
	list_init(&q->read_wait);
	list_init(&q->send_wait);
	/*
	 * A place is given back to the host before its response is known to be sent, so there
	 * are more commands than places; should they run out, received capsules wait.
	 */
	q->cmd_count = 2u * q->depth;
	q->sends_free = min_of(2 * q->cmd_count, wrs_max);
	error = take_queue_memory(q);
	if (!error)
		error = make_qp(q);
	for (uint32_t i = 0; i < q->depth && !error; i++)
		error = -post_recv(q, &q->recvs[i]);
	return error;
}

void rdma_queue_close(struct rdma_queue *q)
{
	if (q->mr)
		ibv_dereg_mr(q->mr);
	if (q->memory)
		munmap(q->memory, q->memory_len);
	free(q->recvs);
	free(q->cmds);
}

/*
 * Without a QP no completion will come: what was being sent or fetched ends here. What a store
 * works on ends when the store is done, and finds the queue torn down.
 */
void rdma_queue_abandon(struct rdma_queue *q)
{
	assert(q->torn_down);
	/* Out of all lines first: what is released below lets the next in line go on. */
	for (uint32_t i = 0; i < q->cmd_count; i++) {
		struct rdma_cmd *c = &q->cmds[i];

		if (c->state == RDMA_CMD_POOL_WAIT || c->state == RDMA_CMD_READ_WAIT ||
		    c->state == RDMA_CMD_SEND_WAIT)
			list_remove(&c->link);
	}
	for (uint32_t i = 0; i < q->cmd_count; i++) {
		struct rdma_cmd *c = &q->cmds[i];

		switch (c->state) {
		case RDMA_CMD_POOL_WAIT:
		case RDMA_CMD_READ_WAIT:
		case RDMA_CMD_READING:
			c->state = RDMA_CMD_TARGET;
			target_req_ready(&c->req, NVME_SC_ABORT_QUEUE);
			break;
		case RDMA_CMD_SEND_WAIT:
		case RDMA_CMD_SENDING:
			release(c);
			break;
		case RDMA_CMD_FREE:
		case RDMA_CMD_TARGET:
			break;
		}
	}
}
