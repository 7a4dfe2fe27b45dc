/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The commands of one queue: numbering, sending, answers, deadlines. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nvmf/host/internal.h"

void queue_init(struct host_queue *q, struct slot *slots, uint16_t capacity)
{
	*q = (struct host_queue){.slots = slots, .capacity = capacity};
	list_init(&q->wait);
	list_init(&q->sent);
}

void queue_open(struct host_queue *q, uint16_t entries, uint16_t limit)
{
	assert(list_empty(&q->sent) && entries <= q->capacity);
	slots_init(&q->cids, q->slots, entries, HOST_CID_GENERATION_BITS);
	q->state = HOST_QUEUE_OPEN;
	q->full = false;
	q->outstanding = 0;
	q->entries = entries;
	q->limit = limit < entries - 1 ? limit : (uint16_t)(entries - 1);
}

uint64_t queue_deadline(const struct host_queue *q)
{
	if (q->state != HOST_QUEUE_OPEN)
		return UINT64_MAX;
	/* The event request has no deadline and is alone in that. */
	list_for_each(req, &q->sent, struct host_request, node)
		if (req->deadline_ns != UINT64_MAX)
			return req->deadline_ns;
	return UINT64_MAX;
}

/* In which states a request goes out; the others wait. */
static bool may_send(const struct host *h, const struct host_request *req)
{
	return h->state == HOST_LIVE || host_own_request(h, req);
}

static bool send_one(struct host *h, uint16_t qid, struct host_request *req, uint64_t now_ns)
{
	struct host_queue *q = &h->queues[qid];
	bool in_capsule = req->direction == HOST_DATA_OUT && qid > 0 && req->data_len &&
			  req->data_len <= h->capsule_max;
	uint32_t cid;
	int err = slots_take(&q->cids, req, 0, &cid);

	assert(err == 0); /* limit is below the number of slots */
	req->sqe.cid = (uint16_t)cid;
	req->sqe.flags = (uint8_t)((req->sqe.flags & NVME_SQE_FUSE_MASK) | NVME_SQE_PSDT_SGL);
	err = h->transport->submit(h->transport_arg, qid, req, in_capsule);
	if (err) {
		slots_release(&q->cids, cid);
		if (err == -EAGAIN)
			q->full = true;
		else
			host_lose_for(h, HOST_FAIL_LOST, qid, NULL);
		return false;
	}
	req->attempts++;
	if (req != &h->event)
		req->deadline_ns = now_ns + h->config.command_timeout_ns;
	else
		req->deadline_ns = UINT64_MAX;
	q->outstanding++;
	list_remove(&req->node);
	list_push_tail(&q->sent, &req->node);
	return true;
}

void queue_pump(struct host *h, uint16_t qid, uint64_t now_ns)
{
	struct host_queue *q = &h->queues[qid];

	while (q->state == HOST_QUEUE_OPEN && !h->lost && !q->full && q->outstanding < q->limit &&
	       !list_empty(&q->wait)) {
		struct host_request *req = list_entry(q->wait.next, struct host_request, node);

		if (!may_send(h, req) || !send_one(h, qid, req, now_ns))
			return;
	}
}

void queue_push_own(struct host *h, uint16_t qid, struct host_request *req, uint64_t now_ns)
{
	list_push_head(&h->queues[qid].wait, &req->node);
	queue_pump(h, qid, now_ns);
}

static void finish(struct host_request *req, int error, uint64_t now_ns)
{
	req->error = error;
	req->done(req, now_ns);
}

void queue_drain(struct host *h, uint16_t qid, bool again, int error, uint64_t now_ns)
{
	struct host_queue *q = &h->queues[qid];
	struct list ended, *at;

	assert(q->state == HOST_QUEUE_CLOSED);
	q->outstanding = 0;
	list_init(&ended);
	while (!list_empty(&q->sent)) {
		struct host_request *req = list_entry(q->sent.prev, struct host_request, node);

		list_remove(&req->node);
		if (host_own_request(h, req))
			continue;
		if (again && req->again && req->attempts < HOST_ATTEMPTS_MAX)
			list_push_head(&q->wait, &req->node);
		else
			list_push_head(&ended, &req->node);
	}
	list_for_each(req, &q->wait, struct host_request, node) {
		if (host_own_request(h, req)) {
			list_remove(&req->node);
		} else if (!again) {
			list_remove(&req->node);
			list_push_tail(&ended, &req->node);
		}
	}
	while ((at = list_pop_head(&ended)))
		finish(list_entry(at, struct host_request, node), error, now_ns);
}

static void respond(struct host *h, uint16_t qid, const void *capsule, uint32_t len,
		    uint64_t now_ns)
{
	struct host_queue *q = &h->queues[qid];
	struct cursor c = cursor_init(capsule, len);
	struct host_request *req;
	struct nvme_cqe cqe;

	if (len != NVME_CQE_LEN) {
		host_lose_for(h, HOST_FAIL_PROTOCOL, qid, "a response that is not 16 bytes long");
		return;
	}
	nvme_cqe_get(&c, &cqe);
	req = slots_find(&q->cids, cqe.cid);
	if (!req) {
		host_lose_for(h, HOST_FAIL_PROTOCOL, qid,
			      "a response to a command that is not outstanding");
		return;
	}
	if (cqe.sqhd >= q->entries) {
		host_lose_for(h, HOST_FAIL_PROTOCOL, qid,
			      "a submission queue head beyond the queue");
		return;
	}
	slots_release(&q->cids, cqe.cid);
	q->outstanding--;
	q->last_ns = now_ns;
	list_remove(&req->node);
	h->transport->release(h->transport_arg, qid, req);
	req->cqe = cqe;
	finish(req, 0, now_ns);
	queue_pump(h, qid, now_ns);
}

/* The public entries that concern one queue's commands. */

void host_queue_response(struct host *h, uint16_t qid, const void *capsule, uint32_t len,
			 uint64_t now_ns)
{
	if (qid > h->config.io_queues || h->queues[qid].state != HOST_QUEUE_OPEN || h->lost)
		return;
	host_enter(h);
	respond(h, qid, capsule, len, now_ns);
	host_leave(h, now_ns);
}

void host_queue_writable(struct host *h, uint16_t qid, uint64_t now_ns)
{
	if (qid > h->config.io_queues || h->queues[qid].state != HOST_QUEUE_OPEN)
		return;
	host_enter(h);
	h->queues[qid].full = false;
	queue_pump(h, qid, now_ns);
	host_leave(h, now_ns);
}

int host_submit(struct host *h, uint16_t qid, struct host_request *req, uint64_t now_ns)
{
	if (h->state != HOST_LIVE && !(h->was_live && h->state < HOST_SHUTDOWN))
		return -ENOTCONN;
	if (qid > h->io_queues || req->data_len > h->transfer_max || !req->done ||
	    (req->direction == HOST_DATA_NONE) != (req->data_len == 0))
		return -EINVAL;
	req->error = 0;
	req->attempts = 0;
	req->cqe = (struct nvme_cqe){0};
	host_enter(h);
	list_push_tail(&h->queues[qid].wait, &req->node);
	queue_pump(h, qid, now_ns);
	host_leave(h, now_ns);
	return 0;
}
