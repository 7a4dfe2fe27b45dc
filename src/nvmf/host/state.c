/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which state an association is in, and that it is lost. Theory of operation in host.h. */
#include <assert.h>

#include "nvmf/host/internal.h"

#define BIT(state) (1u << (state))
#define DOWN	   (BIT(HOST_WAITING) | BIT(HOST_CLOSED) | BIT(HOST_FAILED))

/* What may follow each state. */
static const struct {
	const char *name;
	uint32_t next;
} states[] = {
	[HOST_IDLE] = {"idle", BIT(HOST_OPENING) | BIT(HOST_CLOSED)},
	[HOST_OPENING] = {"opening", BIT(HOST_CONNECT) | DOWN},
	[HOST_CONNECT] = {"connect", BIT(HOST_AUTHENTICATE) | BIT(HOST_READ_CAP) | DOWN},
	[HOST_AUTHENTICATE] = {"authenticate", BIT(HOST_SECURE) | BIT(HOST_READ_CAP) | DOWN},
	[HOST_SECURE] = {"secure", BIT(HOST_OPENING) | DOWN},
	[HOST_READ_CAP] = {"read CAP", BIT(HOST_READ_VS) | DOWN},
	[HOST_READ_VS] = {"read VS", BIT(HOST_ENABLE) | DOWN},
	[HOST_ENABLE] = {"enable", BIT(HOST_WAIT_READY) | DOWN},
	[HOST_WAIT_READY] = {"wait for ready", BIT(HOST_IDENTIFY) | DOWN},
	[HOST_IDENTIFY] = {"identify", BIT(HOST_SET_EVENTS) | BIT(HOST_SET_QUEUES) |
					       BIT(HOST_NAMESPACES) | BIT(HOST_LIVE) | DOWN},
	[HOST_SET_EVENTS] = {"set events",
			     BIT(HOST_SET_QUEUES) | BIT(HOST_NAMESPACES) | BIT(HOST_LIVE) | DOWN},
	[HOST_SET_QUEUES] = {"set queues", BIT(HOST_IO_CONNECT) | DOWN},
	[HOST_IO_CONNECT] = {"connect I/O queues", BIT(HOST_NAMESPACES) | BIT(HOST_LIVE) | DOWN},
	[HOST_NAMESPACES] = {"look at namespaces", BIT(HOST_LIVE) | DOWN},
	[HOST_LIVE] = {"live", BIT(HOST_SHUTDOWN) | DOWN},
	[HOST_WAITING] = {"waiting", BIT(HOST_OPENING) | BIT(HOST_CLOSED) | BIT(HOST_FAILED)},
	[HOST_SHUTDOWN] = {"shutdown", BIT(HOST_SHUTDOWN_WAIT) | BIT(HOST_CLOSED)},
	[HOST_SHUTDOWN_WAIT] = {"wait for shutdown", BIT(HOST_CLOSED)},
	[HOST_CLOSED] = {"closed", 0},
	[HOST_FAILED] = {"failed", BIT(HOST_CLOSED)},
};
_Static_assert(ARRAY_SIZE(states) == HOST_STATES, "a row for each state");

const char *host_state_name(enum host_state state)
{
	return state < HOST_STATES ? states[state].name : "unknown";
}

void host_set_ready(struct host *h)
{
	h->ready = h->state == HOST_LIVE && !h->lost_namespaces;
}

/* The one place where the state changes. */
void host_set_state(struct host *h, enum host_state to, uint64_t now_ns)
{
	enum host_state from = h->state;

	assert(states[from].next & BIT(to));
	h->state = to;
	host_set_ready(h);
	h->state_deadline_ns = UINT64_MAX;
	h->poll_ns = UINT64_MAX;
	if (h->config.changed)
		h->config.changed(h->config.arg, from, to, now_ns);
}

void host_lose(struct host *h, const struct host_failure *why)
{
	if (h->lost)
		return;
	h->lost = true;
	h->failure = *why;
	h->failure.state = h->state;
}

void host_refused(struct host *h, uint16_t qid, const struct host_request *req)
{
	host_lose(h, &(struct host_failure){
			     .kind = HOST_FAIL_STATUS,
			     .qid = qid,
			     .status = req->cqe.status,
			     .result = req->cqe.result,
			     .opcode = req->sqe.opcode,
			     .fctype = req->sqe.opcode == NVME_FABRICS ? nvmf_fctype(&req->sqe) : 0,
		     });
}

void host_close_queues(struct host *h, uint16_t first)
{
	for (uint16_t i = first; i <= h->config.io_queues; i++) {
		if (h->queues[i].state == HOST_QUEUE_CLOSED)
			continue;
		h->queues[i].state = HOST_QUEUE_CLOSED;
		h->transport->close(h->transport_arg, i);
	}
}
