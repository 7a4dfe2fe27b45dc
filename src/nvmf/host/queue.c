/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The commands of one queue: numbering, sending, answers, deadlines. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nvmf/host/internal.h"

void queue_init(struct host_queue *q, struct handle_place *places, uint16_t capacity)
{
	*q = (struct host_queue){.places = places, .capacity = capacity};
	list_init(&q->wait);
	list_init(&q->sent);
}

void queue_open(struct host_queue *q, uint16_t entries, uint16_t limit)
{
	assert(list_empty(&q->sent) && entries <= q->capacity);
	handles_init(&q->cids, q->places, entries, HOST_CID_GENERATION_BITS);
	q->state = HOST_QUEUE_OPEN;
	q->full = false;
	q->outstanding = 0;
	q->entries = entries;
	q->limit = limit < entries - 1 ? limit : (uint16_t)(entries - 1);
}

uint64_t queue_deadline(const struct host_queue *q)
{
	if (q->state == HOST_QUEUE_OPENING)
		return q->open_deadline_ns;
	if (q->state != HOST_QUEUE_OPEN)
		return UINT64_MAX;
	/* The event request has no deadline and is alone in that. */
	list_for_each(req, &q->sent, struct host_request, node)
		if (req->deadline_ns != UINT64_MAX)
			return req->deadline_ns;
	return UINT64_MAX;
}

static bool own_request(const struct host *h, uint16_t qid, const struct host_request *req)
{
	return req == &h->queues[qid].own || req == &h->keep_alive || req == &h->event ||
	       req == &h->look.request;
}

/* In which states a request goes out; the others wait. */
static bool may_send(const struct host *h, uint16_t qid, const struct host_request *req)
{
	return h->state == HOST_LIVE || own_request(h, qid, req);
}

static bool send_one(struct host *h, uint16_t qid, struct host_request *req, uint64_t now_ns)
{
	struct host_queue *q = &h->queues[qid];
	bool in_capsule = req->dir == NVMF_DIR_TO_CTRL && qid > 0 && req->data_len &&
			  req->data_len <= h->capsule_max;
	uint32_t cid;
	int err = handles_take(&q->cids, req, 0, &cid);

	assert(err == 0); /* limit is below the number of places */
	req->sqe.cid = (uint16_t)cid;
	req->sqe.flags = (uint8_t)((req->sqe.flags & NVME_SQE_FUSE_MASK) | NVME_SQE_PSDT_SGL);
	err = h->transport->submit(h->transport_arg, qid, req, in_capsule);
	if (err) {
		handles_release(&q->cids, cid);
		h->counters->queue_full += err == -EAGAIN;
		if (err == -EAGAIN) {
			q->full = true;
			return false;
		}
		if (err == -ENOMEM && !own_request(h, qid, req)) {
			list_remove(&req->node);
			list_push_tail(&h->refused, &req->node);
			return true;
		}
		host_lose_for(h, HOST_FAIL_LOST, qid, NULL);
		return false;
	}
	req->attempts++;
	h->counters->commands++;
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

		if (!may_send(h, qid, req) || !send_one(h, qid, req, now_ns))
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

void queues_refuse(struct host *h, uint64_t now_ns)
{
	struct list refused, *at;

	/* Those of now: whoever is told may submit the next. */
	list_init(&refused);
	while ((at = list_pop_head(&h->refused)))
		list_push_tail(&refused, at);
	while ((at = list_pop_head(&refused)))
		finish(list_entry(at, struct host_request, node), -ENOMEM, now_ns);
}

static void drain(struct host *h, uint16_t qid, bool again, int error, uint64_t now_ns)
{
	struct host_queue *q = &h->queues[qid];
	struct list ended, *at;

	assert(q->state == HOST_QUEUE_CLOSED);
	q->outstanding = 0;
	list_init(&ended);
	while (!list_empty(&q->sent)) {
		struct host_request *req = list_entry(q->sent.prev, struct host_request, node);

		list_remove(&req->node);
		if (own_request(h, qid, req))
			continue;
		if (again && req->again && req->attempts < HOST_ATTEMPTS_MAX)
			list_push_head(&q->wait, &req->node);
		else
			list_push_head(&ended, &req->node);
	}
	list_for_each(req, &q->wait, struct host_request, node) {
		if (own_request(h, qid, req)) {
			list_remove(&req->node);
		} else if (!again) {
			list_remove(&req->node);
			list_push_tail(&ended, &req->node);
		}
	}
	while ((at = list_pop_head(&ended)))
		finish(list_entry(at, struct host_request, node), error, now_ns);
}

void queues_drain(struct host *h, uint16_t first, bool again, int error, uint64_t now_ns)
{
	queues_refuse(h, now_ns);
	for (uint16_t i = first; i <= h->config.io_queues; i++)
		drain(h, i, again, error, now_ns);
}

void queues_end(struct host *h, int error, uint64_t now_ns)
{
	queues_drain(h, 0, false, error, now_ns);
	if (h->config.over)
		h->config.over(h->config.arg, now_ns);
}

static bool any_within(const struct list *requests, const uint8_t *addr, size_t len)
{
	list_for_each(req, requests, struct host_request, node) {
		struct iovec one;
		struct pieces p = host_request_data(req, 0, &one);

		for (size_t left = req->data_len; left;) {
			struct iovec v = pieces_take(&p, left);
			const uint8_t *at = v.iov_base;

			if (at < addr + len && addr < at + v.iov_len)
				return true;
			left -= v.iov_len;
		}
	}
	return false;
}

bool host_uses(const struct host *h, const void *addr, size_t len)
{
	for (uint16_t i = 0; i <= h->config.io_queues; i++)
		if (any_within(&h->queues[i].wait, addr, len) ||
		    any_within(&h->queues[i].sent, addr, len))
			return true;
	return false;
}

static void count(struct host_counters *n, uint16_t qid, const struct host_request *req)
{
	bool io = qid && req->sqe.opcode != NVME_FABRICS;

	if (req->cqe.status & NVME_STATUS_CODE) {
		n->errors++;
	} else if (io && req->dir == NVMF_DIR_TO_HOST) {
		n->reads++;
		n->read_bytes += req->data_len;
	} else if (io && req->dir == NVMF_DIR_TO_CTRL) {
		n->writes++;
		n->written_bytes += req->data_len;
	}
}

void queue_respond(struct host *h, uint16_t qid, const void *capsule, uint32_t len, uint64_t now_ns)
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
	req = handles_find(&q->cids, cqe.cid);
	if (!req) {
		host_lose_for(h, HOST_FAIL_PROTOCOL, qid,
			      "a response to a command that is not outstanding");
		return;
	}
	if (cqe.sqhd >= q->entries && !h->transport->no_sq_flow) {
		host_lose_for(h, HOST_FAIL_PROTOCOL, qid,
			      "a submission queue head beyond the queue");
		return;
	}
	handles_release(&q->cids, cqe.cid);
	q->outstanding--;
	q->last_ns = now_ns;
	list_remove(&req->node);
	req->cqe = cqe;
	h->transport->release(h->transport_arg, qid, req);
	count(h->counters, qid, req);
	finish(req, 0, now_ns);
	queue_pump(h, qid, now_ns);
}
