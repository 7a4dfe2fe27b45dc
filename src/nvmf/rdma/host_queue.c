/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Work requests of the host's queues.
 *
 * Per command: [bind window] send [local invalidate]. Commands that completions lead to are posted
 * together when the completions are through.
 *
 * A command that offers a key is over when the key is not: until then the target may write by it to
 * what is about to be the caller's again. Mostly the response invalidates it. Where it does not, as
 * it was asked for in vain, or the command failed before the target had read the key, we do, and
 * answer when that is complete.
 *
 * A capsule with data is over when the response is there and the send is complete: until then the
 * device may read the data again, to repeat it, though the response proves that they were received.
 * One without is inline, where the device can, and over with its response; of these only every
 * signal_every-th work request is signaled. Each completion gives back the send queue entries of
 * all before it.
 *
 * wr_id: kind << 56 | qid << 40 | generation << 24 | index of the receive, slot of the command
 * (WR_CAPSULE, WR_INVALIDATE), or number of entries given back.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "nvmf/rdma/host.h"

enum { WR_RECV = 1, WR_SEND = 2, WR_CAPSULE = 3, WR_INVALIDATE = 4 };
enum { POLL_BATCH = 16, POLL_BATCHES_MAX = 16, PAGE = 4096 };

static uint64_t wr_id(unsigned int kind, const struct rdma_host_queue *q, uint32_t value)
{
	return (uint64_t)kind << 56 | (uint64_t)q->qid << 40 | (uint64_t)q->generation << 24 |
	       value;
}

static uint8_t *capsule_of(struct rdma_host_queue *q, uint32_t slot)
{
	return q->buffer + (size_t)slot * NVME_SQE_LEN;
}

static uint8_t *response_of(struct rdma_host_queue *q, uint32_t index)
{
	return q->buffer + (size_t)q->entries * NVME_SQE_LEN + (size_t)index * NVME_CQE_LEN;
}

static int post_receive(struct rdma_host_queue *q, uint32_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)response_of(q, index),
		.length = NVME_CQE_LEN,
		.lkey = q->mr->lkey,
	};
	struct ibv_recv_wr wr = {.wr_id = wr_id(WR_RECV, q, index), .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return -ibv_post_recv(q->id->qp, &wr, &bad);
}

static int alloc_windows(struct rdma_host_queue *q)
{
	for (uint32_t i = 0; i < q->entries; i++) {
		q->commands[i].mw = ibv_alloc_mw(q->r->pd, IBV_MW_TYPE_2);
		if (!q->commands[i].mw) {
			int err = -errno;

			rdma_host_say(q->r,
				      "%s has no memory window left for command %u of queue %u; "
				      "say fewer --nr-io-queues or a smaller --queue-size",
				      q->r->verbs->device->name, i, q->qid);
			return err;
		}
	}
	return 0;
}

static int create_qp(struct rdma_host_queue *q)
{
	struct rdma_host *r = q->r;
	uint32_t limit = (uint32_t)r->attr.max_qp_wr;
	uint32_t gather = (uint32_t)min_of(r->attr.max_sge - 1, (int)GATHER_MAX);
	int failed;
	struct ibv_qp_init_attr attr = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.qp_type = IBV_QPT_RC,
		.cap =
			{
				.max_send_wr =
					min_of((uint32_t)q->entries * WRS_PER_COMMAND, limit),
				.max_recv_wr = q->entries,
				.max_send_sge = 1 + gather,
				.max_recv_sge = 1,
				.max_inline_data = NVME_SQE_LEN,
			},
	};

	if (q->entries > limit) {
		rdma_host_say(r, "%s takes %u entries a queue, not %u; say a smaller --queue-size",
			      r->verbs->device->name, limit, q->entries);
		return -EINVAL;
	}
	failed = rdma_create_qp(q->id, r->pd, &attr);
	if (failed && errno == EINVAL) { /* it may have nothing inline */
		attr.cap.max_inline_data = 0;
		failed = rdma_create_qp(q->id, r->pd, &attr);
	}
	if (failed) {
		int err = -errno;

		rdma_host_say(r, "cannot create a queue pair on %s: %s", r->verbs->device->name,
			      strerror(-err));
		return err;
	}
	/* The device may have given more; what was asked for is what is counted. */
	q->send_room = min_of((uint32_t)q->entries * WRS_PER_COMMAND, limit);
	q->signal_every = max_of(q->send_room / 4, 1u);
	q->inlines = attr.cap.max_inline_data >= NVME_SQE_LEN;
	q->gather_max = gather;
	return 0;
}

int rdma_host_queue_setup(struct rdma_host_queue *q)
{
	struct rdma_host *r = q->r;
	size_t bytes = (size_t)q->entries * (NVME_SQE_LEN + NVME_CQE_LEN);
	int err;

	q->commands = calloc(q->entries, sizeof(*q->commands));
	q->buffer = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
	if (!q->commands || !q->buffer) {
		rdma_host_say(r, "out of memory");
		return -ENOMEM;
	}
	q->mr = ibv_reg_mr(r->pd, q->buffer, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!q->mr) {
		err = -errno;
		rdma_host_say(r, "cannot register %zu bytes with %s: %s", bytes,
			      r->verbs->device->name, strerror(-err));
		return err;
	}
	q->under_way = q->uninvalidated = 0;
	q->data_way = (struct data_way){0};
	q->unsignaled = 0;
	q->starved = q->flushed = false;
	q->nudge_ns = DEADLINE_NEVER;
	q->batch.wrs = q->batch.commands = 0;
	err = r->windows ? alloc_windows(q) : 0;
	if (!err)
		err = create_qp(q);
	for (uint32_t i = 0; !err && i < q->entries; i++) {
		err = post_receive(q, i);
		if (err)
			rdma_host_say(r, "cannot post a receive: %s", strerror(-err));
	}
	return err;
}

void rdma_host_queue_teardown(struct rdma_host_queue *q)
{
	if (q->id && q->id->qp)
		rdma_destroy_qp(q->id);
	for (uint32_t i = 0; q->commands && i < q->entries; i++)
		if (q->commands[i].mw)
			ibv_dealloc_mw(q->commands[i].mw);
	if (q->mr)
		ibv_dereg_mr(q->mr);
	rdma_host_data_drop(q);
	free(q->buffer);
	free(q->commands);
	q->mr = NULL;
	q->buffer = NULL;
	q->commands = NULL;
}

static struct ibv_send_wr *batch_add(struct rdma_host_queue *q, unsigned int opcode)
{
	struct rdma_host_batch *b = &q->batch;
	struct ibv_send_wr *wr = &b->wr[b->wrs];

	*wr = (struct ibv_send_wr){.wr_id = wr_id(WR_SEND, q, 0), .opcode = opcode};
	if (b->wrs)
		b->wr[b->wrs - 1].next = wr;
	b->wrs++;
	q->unsignaled++;
	q->send_room--;
	return wr;
}

/* Its completion gives back what it and all before it took; how much that is. */
static uint32_t signal_it(struct rdma_host_queue *q, struct ibv_send_wr *wr)
{
	const uint32_t gives_back = q->unsignaled;

	wr->send_flags |= IBV_SEND_SIGNALED;
	wr->wr_id = wr_id(WR_SEND, q, gives_back);
	q->unsignaled = 0;
	return gives_back;
}

static int post_batch(struct rdma_host_queue *q)
{
	struct rdma_host_batch *b = &q->batch;
	struct ibv_send_wr *bad;
	int err;

	if (b->wrs == 0)
		return 0;
	err = ibv_post_send(q->id->qp, &b->wr[0], &bad);
	if (err)
		rdma_host_say(q->r, "connection to %s:%s lost: cannot send: %s", q->r->host,
			      q->r->port, strerror(err));
	/* Drivers read the window's old key while they post its binding. */
	for (unsigned int i = 0; !err && i < b->wrs; i++)
		if (b->wr[i].opcode == IBV_WR_BIND_MW)
			b->wr[i].bind_mw.mw->rkey = b->wr[i].bind_mw.rkey;
	b->wrs = b->commands = 0;
	return err ? -EIO : 0;
}

void rdma_host_queues_flush(struct rdma_host *r)
{
	for (uint16_t i = 0; i <= r->config.io_queues; i++)
		if (r->queues[i].state == RQ_UP && post_batch(&r->queues[i]))
			host_queue_lost(r->h, i, NULL, r->now_ns);
}

/* A WRITE of no bytes. Signaled: many of them must not fill the send queue. */
static int nudge(struct rdma_host_queue *q)
{
	struct ibv_sge sge = {.addr = (uintptr_t)q->buffer, .lkey = q->mr->lkey};
	struct ibv_send_wr *wr;

	if (q->send_room == 0)
		return 0;
	wr = batch_add(q, IBV_WR_RDMA_WRITE);
	wr->sg_list = &sge;
	wr->num_sge = 1;
	signal_it(q, wr);
	return post_batch(q);
}

/*
 * More than once, at longer and longer intervals: how long the target's siw takes to come to the
 * point from which on it sees what arrives is not known here.
 */
void rdma_host_queues_nudge(struct rdma_host *r)
{
	r->nudge_ns = DEADLINE_NEVER;
	for (uint16_t i = 0; i <= r->config.io_queues; i++) {
		struct rdma_host_queue *q = &r->queues[i];

		if (q->state != RQ_UP)
			continue;
		if (q->nudge_ns <= r->now_ns) {
			q->nudge_wait_ns *= 2;
			q->nudge_ns = r->now_ns + q->nudge_wait_ns;
			if (nudge(q)) {
				host_queue_lost(r->h, i, NULL, r->now_ns);
				continue;
			}
		}
		r->nudge_ns = min_of(r->nudge_ns, q->nudge_ns);
	}
}

/* A fresh key for this command's data, which lie at `at`; the region's own where there are no
 * windows. */
static void name_data(struct rdma_host_queue *q, struct rdma_host_command *cmd,
		      struct host_request *req, const struct ibv_sge *at,
		      const struct region *region)
{
	struct ibv_send_wr *wr;

	req->sqe.sgl = (struct nvme_sgl){
		.addr = at->addr,
		.len = req->data_len,
		.key = region->mr->rkey,
		.type = NVME_SGL_KEYED_DATA_BLOCK,
		.subtype = NVME_SGL_ADDRESS,
	};
	if (!q->r->windows)
		return;
	assert(!cmd->bound);
	cmd->key = ibv_inc_rkey(cmd->mw->rkey);
	wr = batch_add(q, IBV_WR_BIND_MW);
	wr->bind_mw.mw = cmd->mw;
	wr->bind_mw.rkey = cmd->key;
	wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = region->mr,
		.addr = at->addr,
		.length = req->data_len,
		.mw_access_flags = req->dir == NVMF_DIR_TO_HOST ? IBV_ACCESS_REMOTE_WRITE
								: IBV_ACCESS_REMOTE_READ,
	};
	cmd->keyed = cmd->bound = true;
	req->sqe.sgl.key = cmd->key;
	req->sqe.sgl.subtype = NVME_SGL_INVALIDATE;
}

int rdma_host_queue_submit(void *t, uint16_t qid, struct host_request *req, bool in_capsule)
{
	struct rdma_host *r = rdma_host_of(t);
	struct rdma_host_queue *q = &r->queues[qid];
	uint16_t slot = host_slot_of(req->sqe.cid);
	struct rdma_host_command *cmd = &q->commands[slot];
	struct ibv_send_wr *send;
	struct ibv_sge *sge = q->batch.sge[q->batch.commands];
	struct region *region = NULL;
	struct wcursor w = wcursor_init(capsule_of(q, slot), NVME_SQE_LEN);
	int pieces = 0;

	assert(q->state == RQ_UP && slot < q->entries);
	if (q->send_room < WRS_PER_COMMAND) {
		q->starved = true;
		return -EAGAIN;
	}
	if (in_capsule && data_way_fetches(&q->data_way, q->under_way, r->now_ns))
		in_capsule = false;
	if (req->data_len)
		pieces = rdma_host_data_place(q, cmd, req, in_capsule, &sge[1], &region);
	if (pieces < 0) {
		q->starved |= pieces == -EAGAIN;
		return pieces == -EAGAIN ? -EAGAIN : -ENOMEM;
	}
	assert(!cmd->sending);
	cmd->req = req;
	cmd->keyed = cmd->answered = cmd->invalidating = false;
	if (in_capsule)
		req->sqe.sgl = (struct nvme_sgl){.len = req->data_len,
						 .type = NVME_SGL_DATA_BLOCK,
						 .subtype = NVME_SGL_OFFSET};
	else if (region)
		name_data(q, cmd, req, &sge[1], region);
	else
		req->sqe.sgl = (struct nvme_sgl){.type = NVME_SGL_KEYED_DATA_BLOCK};
	nvme_sqe_put(&w, &req->sqe);
	sge[0] = (struct ibv_sge){(uintptr_t)capsule_of(q, slot), NVME_SQE_LEN, q->mr->lkey};
	send = batch_add(q, IBV_WR_SEND);
	send->sg_list = sge;
	send->num_sge = in_capsule ? 1 + pieces : 1;
	if (q->inlines && send->num_sge == 1)
		send->send_flags |= IBV_SEND_INLINE;
	cmd->sending = !(send->send_flags & IBV_SEND_INLINE);
	if (cmd->sending) {
		cmd->gives_back = signal_it(q, send);
		send->wr_id = wr_id(WR_CAPSULE, q, slot);
	} else if (q->unsignaled >= q->signal_every) {
		signal_it(q, send);
	}
	q->under_way++;
	q->batch.commands++;
	if (r->batching && q->batch.commands < BATCH_COMMANDS)
		return 0;
	return post_batch(q);
}

void rdma_host_queue_release(void *t, uint16_t qid, struct host_request *req)
{
	struct rdma_host *r = rdma_host_of(t);
	struct rdma_host_queue *q = &r->queues[qid];
	struct rdma_host_command *cmd = &q->commands[host_slot_of(req->sqe.cid)];

	rdma_host_data_release(q, cmd, req);
	cmd->req = NULL;
	q->under_way--;
}

void rdma_host_queues_unstarve(struct rdma_host *r)
{
	r->bounce_freed = false;
	for (uint16_t i = 0; i <= r->config.io_queues; i++) {
		struct rdma_host_queue *q = &r->queues[i];

		if (q->state != RQ_UP || !q->starved || q->send_room < WRS_PER_COMMAND)
			continue;
		q->starved = false;
		host_queue_writable(r->h, i, r->now_ns);
	}
}

/* What a failed completion says about the connection. */
static void complain(struct rdma_host_queue *q, const struct ibv_wc *wc)
{
	struct rdma_host *r = q->r;
	const char *why = ibv_wc_status_str(wc->status);

	if (wc->status == IBV_WC_RETRY_EXC_ERR)
		why = "the target does not answer any more";
	else if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
		why = "the target has no room for commands";
	rdma_host_say(r, "connection to %s:%s lost: %s", r->host, r->port, why);
}

static void failed(struct rdma_host_queue *q, const struct ibv_wc *wc)
{
	struct rdma_host *r = q->r;
	const char *violation = NULL;

	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		q->flushed = r->flushed = true;
		return;
	}
	complain(q, wc);
	if (wc->status == IBV_WC_LOC_LEN_ERR && wc->wr_id >> 56 == WR_RECV)
		violation = "a response that is longer than 16 bytes";
	host_queue_lost(r->h, q->qid, violation, r->now_ns);
}

/*
 * Linux's rxe (6.1) hands the kernel's flag values to user space, where its "with invalidate"
 * has the bit of IBV_WC_IP_CSUM_OK. That one means nothing on a connected queue pair.
 */
static bool invalidated(const struct rdma_host_command *cmd, const struct ibv_wc *wc)
{
	if (wc->wc_flags & IBV_WC_WITH_INV)
		return true;
	return (wc->wc_flags & IBV_WC_IP_CSUM_OK) && cmd->keyed && wc->invalidated_rkey == cmd->key;
}

/* The command that a response is to; NULL: none that is outstanding, which is the host's to judge.
 */
static struct rdma_host_command *command_of(struct rdma_host_queue *q, const struct nvme_cqe *cqe)
{
	uint16_t slot = host_slot_of(cqe->cid);
	struct rdma_host_command *cmd = slot < q->entries ? &q->commands[slot] : NULL;

	return cmd && cmd->req && cmd->req->sqe.cid == cqe->cid ? cmd : NULL;
}

/* What has to be answered may be: nobody else reaches its data. */
static void answer(struct rdma_host_queue *q, struct rdma_host_command *cmd)
{
	if (q->state == RQ_UP && cmd->answered && !cmd->sending && !cmd->bound)
		host_queue_response(q->r->h, q->qid, cmd->response, sizeof(cmd->response),
				    q->r->now_ns);
}

/* False: the connection is lost. */
static bool post_invalidate(struct rdma_host_queue *q, struct rdma_host_command *cmd)
{
	struct ibv_send_wr *wr = batch_add(q, IBV_WR_LOCAL_INV);

	cmd->invalidating = true;
	wr->invalidate_rkey = cmd->key;
	cmd->invalidate_gives_back = signal_it(q, wr);
	wr->wr_id = wr_id(WR_INVALIDATE, q, (uint32_t)(cmd - q->commands));
	q->batch.commands++;
	if (q->r->batching && q->batch.commands < BATCH_COMMANDS)
		return true;
	if (post_batch(q) == 0)
		return true;
	host_queue_lost(q->r->h, q->qid, NULL, q->r->now_ns);
	return false;
}

/* The response has left its key valid. Where the send queue is full, work requests that give back
 * room are on their way. */
static void invalidate(struct rdma_host_queue *q, struct rdma_host_command *cmd)
{
	if (q->send_room)
		(void)post_invalidate(q, cmd);
	else
		q->uninvalidated++;
}

static void invalidate_more(struct rdma_host_queue *q)
{
	for (uint32_t i = 0; i < q->entries && q->uninvalidated && q->send_room; i++) {
		struct rdma_host_command *cmd = &q->commands[i];

		if (!cmd->req || !cmd->answered || !cmd->bound || cmd->invalidating)
			continue;
		q->uninvalidated--;
		if (!post_invalidate(q, cmd))
			return;
	}
}

/* Whether what the response invalidated is what its command offered. */
static const char *check_key(struct rdma_host_command *cmd, const struct ibv_wc *wc)
{
	if (!invalidated(cmd, wc))
		return NULL;
	if (!cmd->keyed || cmd->key != wc->invalidated_rkey)
		return "a response that invalidates a key which is not its command's";
	cmd->bound = false;
	return NULL;
}

static void received(struct rdma_host_queue *q, uint32_t index, const struct ibv_wc *wc)
{
	struct rdma_host *r = q->r;
	uint8_t response[NVME_CQE_LEN];
	uint32_t len = wc->byte_len;
	const char *violation = NULL;
	struct cursor c = cursor_init(response, sizeof(response));
	struct rdma_host_command *cmd = NULL;
	struct nvme_cqe cqe;

	q->nudge_ns = DEADLINE_NEVER;
	memcpy(response, response_of(q, index), sizeof(response));
	/* Given back first: what the answer leads to may be the next command. */
	if (post_receive(q, index)) {
		rdma_host_say(r, "connection to %s:%s lost: cannot post a receive", r->host,
			      r->port);
		host_queue_lost(r->h, q->qid, NULL, r->now_ns);
		return;
	}
	nvme_cqe_get(&c, &cqe);
	if (len == NVME_CQE_LEN)
		cmd = command_of(q, &cqe);
	if (cmd && cmd->answered)
		violation = "two responses to a command";
	else if (cmd)
		violation = check_key(cmd, wc);
	if (violation) {
		host_queue_lost(r->h, q->qid, violation, r->now_ns);
	} else if (cmd && (cmd->sending || cmd->bound)) {
		cmd->answered = true;
		memcpy(cmd->response, response, sizeof(response));
		if (cmd->bound)
			invalidate(q, cmd);
	} else {
		host_queue_response(r->h, q->qid, response, len, r->now_ns);
	}
}

static void has_room(struct rdma_host_queue *q, uint32_t given_back)
{
	q->send_room += given_back;
	if (q->uninvalidated)
		invalidate_more(q);
	if (q->state == RQ_UP && q->starved && q->send_room >= WRS_PER_COMMAND) {
		q->starved = false;
		host_queue_writable(q->r->h, q->qid, q->r->now_ns);
	}
}

/* The response may have come before. */
static void sent(struct rdma_host_queue *q, struct rdma_host_command *cmd)
{
	const uint16_t generation = q->generation;

	cmd->sending = false;
	has_room(q, cmd->gives_back);
	if (q->generation == generation)
		answer(q, cmd);
}

static void invalidation_complete(struct rdma_host_queue *q, struct rdma_host_command *cmd)
{
	const uint16_t generation = q->generation;

	cmd->bound = false;
	has_room(q, cmd->invalidate_gives_back);
	if (q->generation == generation)
		answer(q, cmd);
}

static void completed(struct rdma_host *r, const struct ibv_wc *wc)
{
	uint16_t qid = (uint16_t)(wc->wr_id >> 40);
	struct rdma_host_queue *q;

	assert(qid <= r->config.io_queues);
	q = &r->queues[qid];
	if (q->state != RQ_UP && q->state != RQ_CONNECTING)
		return;
	if ((uint16_t)(wc->wr_id >> 24) != q->generation)
		return;
	if (wc->status != IBV_WC_SUCCESS) {
		failed(q, wc);
	} else if (wc->wr_id >> 56 == WR_RECV) {
		received(q, (uint32_t)(wc->wr_id & 0xffffff), wc);
	} else if (wc->wr_id >> 56 == WR_CAPSULE) {
		sent(q, &q->commands[wc->wr_id & 0xffffff]);
	} else if (wc->wr_id >> 56 == WR_INVALIDATE) {
		invalidation_complete(q, &q->commands[wc->wr_id & 0xffffff]);
	} else {
		has_room(q, (uint32_t)(wc->wr_id & 0xffffff));
	}
}

bool rdma_host_queues_poll(struct rdma_host *r)
{
	struct ibv_wc wc[POLL_BATCH];
	bool any = false;

	for (int batch = 0; batch < POLL_BATCHES_MAX && r->cq; batch++) {
		int n = ibv_poll_cq(r->cq, POLL_BATCH, wc);

		if (n <= 0)
			break;
		any = true;
		for (int i = 0; i < n; i++)
			completed(r, &wc[i]);
		if (n < POLL_BATCH)
			break;
	}
	return any;
}
