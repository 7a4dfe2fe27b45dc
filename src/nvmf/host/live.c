/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What runs while an association lives: the keep-alive and the event request. */
#include "nvmf/host/internal.h"
#include "wire/nvme_log.h"

static void arm_event(struct host *h, uint64_t now_ns)
{
	/* It may stay out for ever: a queue that takes one command at a time is for the others. */
	if (h->queues[0].limit < 2)
		return;
	h->event.sqe = (struct nvme_sqe){.opcode = NVME_ADMIN_ASYNC_EVENT};
	h->event_out = true;
	queue_push_own(h, 0, &h->event, now_ns);
}

void live_event_done(struct host_request *req, uint64_t now_ns)
{
	struct host *h = req->arg;
	uint32_t result = (uint32_t)req->cqe.result;

	h->event_out = false;
	/* A controller that refuses the request (limit exceeded) would refuse the next as well. */
	if (req->cqe.status & NVME_STATUS_CODE)
		return;
	if (h->config.event)
		h->config.event(h->config.arg, result);
	if (h->state != HOST_LIVE)
		return;
	arm_event(h, now_ns);
	if (NVME_AER_TYPE(result) == NVME_AER_NOTICE &&
	    NVME_AER_INFO(result) == NVME_NOTICE_NS_CHANGED)
		namespaces_changed(h, now_ns);
}

void live_keep_alive_done(struct host_request *req, uint64_t now_ns)
{
	struct host *h = req->arg;

	(void)now_ns;
	h->keep_alive_out = false;
}

/* Sent at half its timeout; one that is still out a whole timeout after it was sent is lost. */
void live_tick(struct host *h, uint64_t now_ns)
{
	uint64_t timeout_ns = h->config.keep_alive_ms * NSEC_PER_MSEC;

	if (now_ns < h->keep_alive_due_ns)
		return;
	if (h->keep_alive_out) {
		if (now_ns >= h->keep_alive_sent_ns + timeout_ns)
			host_lose_for(h, HOST_FAIL_KEEP_ALIVE, 0, NULL);
		h->keep_alive_due_ns = h->keep_alive_sent_ns + timeout_ns;
		return;
	}
	h->keep_alive.sqe = (struct nvme_sqe){.opcode = NVME_ADMIN_KEEP_ALIVE};
	h->keep_alive_out = true;
	h->keep_alive_sent_ns = now_ns;
	h->keep_alive_due_ns = now_ns + timeout_ns / 2;
	queue_push_own(h, 0, &h->keep_alive, now_ns);
}

void live_enter(struct host *h, uint64_t now_ns)
{
	if (h->was_live) {
		h->reconnects++;
		h->counters->reconnects++;
	}
	h->was_live = true;
	if (h->config.keep_alive_ms)
		h->keep_alive_due_ns = now_ns + h->config.keep_alive_ms * NSEC_PER_MSEC / 2;
	if (!host_is_for_discovery(h) || host_events(h))
		arm_event(h, now_ns);
	/* Requests that waited for a queue which the controller does not grant any more. */
	for (uint16_t i = h->io_queues + 1; i <= h->config.io_queues; i++)
		for (struct list *at; (at = list_pop_head(&h->queues[i].wait));)
			list_push_tail(&h->queues[1].wait, at);
	for (uint16_t i = 0; i <= h->io_queues; i++)
		queue_pump(h, i, now_ns);
}
