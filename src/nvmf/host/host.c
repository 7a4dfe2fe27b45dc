/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The entries of the host: what begins, what a loss means, what the clock brings. Theory of
 * operation in host.h; states are in state.c, steps in steps.c, commands in queue.c.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nvmf/auth/hash.h"
#include "nvmf/host/internal.h"

#define LOSS_ENDLESS UINT64_MAX

int host_init(struct host *h, const struct host_config *config,
	      const struct host_transport *transport, void *transport_arg,
	      struct host_queue *queues, struct handle_place *places, void *scratch)
{
	if (config->io_queues > HOST_IO_QUEUES_MAX ||
	    (config->io_queues &&
	     (config->io_entries < 2 || config->io_entries > HOST_ENTRIES_MAX)) ||
	    strnlen(config->subnqn, NVME_NQN_LEN) > NVME_NQN_MAX ||
	    strnlen(config->hostnqn, NVME_NQN_LEN) > NVME_NQN_MAX ||
	    ((config->ctrl_key.len || config->concat) && !config->key.len) ||
	    (config->key.len && !config->random) || (config->concat && !transport->secure))
		return -EINVAL;
	*h = (struct host){
		.config = *config,
		.transport = transport,
		.transport_arg = transport_arg,
		.queues = queues,
		.scratch = scratch,
		.discovery = strcmp(config->subnqn, NVMF_DISCOVERY_NQN) == 0,
		.state_deadline_ns = UINT64_MAX,
		.poll_ns = UINT64_MAX,
		.keep_alive_due_ns = UINT64_MAX,
	};
	h->counters = config->counters ? config->counters : &h->own_counters;
	if (h->discovery)
		h->config.io_queues = 0;
	list_init(&h->known);
	list_init(&h->refused);
	h->event.done = live_event_done;
	h->event.arg = h;
	h->keep_alive.done = live_keep_alive_done;
	h->keep_alive.arg = h;
	queue_init(&queues[0], places, HOST_ADMIN_ENTRIES);
	places += HOST_ADMIN_ENTRIES;
	for (uint16_t i = 1; i <= config->io_queues; i++, places += config->io_entries)
		queue_init(&queues[i], places, config->io_entries);
	return 0;
}

void host_forget(struct host *h)
{
	auth_wipe(&h->config.key, sizeof(h->config.key));
	auth_wipe(&h->config.ctrl_key, sizeof(h->config.ctrl_key));
	auth_wipe(&h->auth, sizeof(h->auth));
}

/* --- loss ---------------------------------------------------------------------------------- */

/* Whether another attempt may end differently. */
static bool worth_another(const struct host_failure *f)
{
	switch (f->kind) {
	case HOST_FAIL_STATUS:
		return !(f->status & NVME_STATUS_DNR);
	case HOST_FAIL_PROTOCOL:
	case HOST_FAIL_UNFIT:
	case HOST_FAIL_AUTH:
		return false;
	case HOST_FAIL_NONE:
	case HOST_FAIL_OPEN:
	case HOST_FAIL_LOST:
	case HOST_FAIL_TIMEOUT:
	case HOST_FAIL_KEEP_ALIVE:
	case HOST_FAIL_NOT_READY:
	case HOST_FAIL_FATAL:
		return true;
	}
	return false;
}

static void handle_loss(struct host *h, uint64_t now_ns)
{
	int error = h->failure.kind == HOST_FAIL_TIMEOUT ? -ETIMEDOUT : -ENOTCONN;
	uint64_t give_up_ns = h->loss_deadline_ns;
	bool again;

	h->lost = false;
	h->counters->losses++;
	h->counters->timeouts += h->failure.kind == HOST_FAIL_TIMEOUT;
	h->keep_alive_out = h->event_out = h->look.out = false;
	h->auth.again = h->authenticated = false;
	h->keep_alive_due_ns = UINT64_MAX;
	host_close_queues(h, 0);
	auth_wipe(&h->auth.psk, sizeof(h->auth.psk));
	if (h->secured) {
		h->secured = false;
		(void)h->transport->secure(h->transport_arg, NULL);
	}
	if (h->auth.leaves)
		h->broken_off = true;
	if (h->state == HOST_SHUTDOWN || h->state == HOST_SHUTDOWN_WAIT || h->auth.leaves) {
		h->auth.leaves = false;
		host_set_state(h, HOST_CLOSED, now_ns);
		queues_end(h, -ECANCELED, now_ns);
		return;
	}
	if (h->state == HOST_LIVE) {
		give_up_ns = h->config.loss_timeout_ns;
		if (give_up_ns != LOSS_ENDLESS)
			give_up_ns += now_ns;
		h->attempt = (struct host_failure){0};
	} else {
		h->attempt = h->failure;
	}
	again = h->was_live && h->config.loss_timeout_ns && worth_another(&h->failure) &&
		(give_up_ns == LOSS_ENDLESS || now_ns < give_up_ns);
	if (again) {
		h->loss_deadline_ns = give_up_ns;
		host_set_state(h, HOST_WAITING, now_ns);
		h->state_deadline_ns = now_ns + h->config.reconnect_delay_ns;
		h->state_deadline_ns = min_of(h->state_deadline_ns, give_up_ns);
		queues_drain(h, 0, true, error, now_ns);
	} else {
		host_set_state(h, HOST_FAILED, now_ns);
		queues_end(h, error, now_ns);
	}
}

static void enter(struct host *h)
{
	h->depth++;
}

static void shut_down(struct host *h, uint64_t now_ns)
{
	host_close_queues(h, 1);
	h->keep_alive_due_ns = UINT64_MAX;
	h->shutdown_deadline_ns = now_ns + h->config.shutdown_timeout_ns;
	steps_shut_down(h, now_ns);
	queues_drain(h, 1, false, -ECANCELED, now_ns);
}

static void leave(struct host *h, uint64_t now_ns)
{
	if (h->depth == 1 && h->auth.leaves && !h->auth.again && !h->lost) {
		h->auth.leaves = false;
		shut_down(h, now_ns);
	}
	while (h->depth == 1 && h->lost)
		handle_loss(h, now_ns);
	if (h->depth == 1)
		queues_refuse(h, now_ns);
	h->depth--;
}

/* --- time ---------------------------------------------------------------------------------- */

static bool answered_since(const struct host *h, uint64_t ns)
{
	for (uint16_t i = 0; i <= h->config.io_queues; i++)
		if (h->queues[i].last_ns > ns)
			return true;
	return false;
}

static void queues_tick(struct host *h, uint64_t now_ns)
{
	uint64_t timeout_ns = h->config.command_timeout_ns;

	for (uint16_t i = 0; i <= h->config.io_queues && !h->lost; i++) {
		if (queue_deadline(&h->queues[i]) > now_ns)
			continue;
		if (h->queues[i].state == HOST_QUEUE_OPENING)
			host_lose_for(h, HOST_FAIL_OPEN, i, "no answer in time");
		list_for_each(req, &h->queues[i].sent, struct host_request, node) {
			bool fabrics = req->sqe.opcode == NVME_FABRICS;

			if (req->deadline_ns > now_ns)
				continue;
			host_lose(h, &(struct host_failure){
					     .kind = HOST_FAIL_TIMEOUT,
					     .qid = i,
					     .opcode = req->sqe.opcode,
					     .fctype = fabrics ? nvmf_fctype(&req->sqe) : 0,
					     .answers = answered_since(h, req->deadline_ns -
										  timeout_ns),
				     });
			break;
		}
	}
}

/*
 * The time for reconnecting is over. What it failed for is what the last whole attempt said, not
 * that the time cut another one short.
 */
static void give_up(struct host *h)
{
	if (h->attempt.kind != HOST_FAIL_NONE)
		host_lose(h, &h->attempt);
	else
		host_lose_for(h, HOST_FAIL_OPEN, 0, "no answer in time");
}

static void state_tick(struct host *h, uint64_t now_ns)
{
	switch (h->state) {
	case HOST_WAIT_READY:
		host_lose_for(h, HOST_FAIL_NOT_READY, 0, NULL);
		break;
	case HOST_SECURE:
		steps_bring_up(h, now_ns);
		break;
	case HOST_WAITING:
		if (now_ns < h->loss_deadline_ns)
			steps_bring_up(h, now_ns);
		else
			give_up(h);
		break;
	case HOST_SHUTDOWN:
	case HOST_SHUTDOWN_WAIT:
		host_lose_for(h, HOST_FAIL_TIMEOUT, 0, "shutdown was not reported in time");
		break;
	default:
		assert(!"this state has no deadline");
	}
}

/* An attempt to reconnect ends when the time for reconnecting does. */
static uint64_t attempt_deadline(const struct host *h)
{
	bool trying = h->was_live && h->state >= HOST_OPENING && h->state < HOST_LIVE;

	return trying ? h->loss_deadline_ns : UINT64_MAX;
}

/* --- entries ------------------------------------------------------------------------------- */

uint64_t host_next_deadline(const struct host *h)
{
	uint64_t next = min_of(h->state_deadline_ns, h->poll_ns);

	if (h->lost || !list_empty(&h->refused))
		return 0;
	next = min_of(next, h->keep_alive_due_ns);
	next = min_of(next, attempt_deadline(h));
	for (uint16_t i = 0; i <= h->config.io_queues; i++) {
		uint64_t at = queue_deadline(&h->queues[i]);

		next = min_of(next, at);
	}
	return next;
}

void host_tick(struct host *h, uint64_t now_ns)
{
	enter(h);
	if (now_ns >= h->state_deadline_ns)
		state_tick(h, now_ns);
	if (!h->lost && now_ns >= attempt_deadline(h))
		give_up(h);
	if (!h->lost && now_ns >= h->poll_ns)
		steps_poll(h, now_ns);
	if (!h->lost && h->keep_alive_due_ns != UINT64_MAX)
		live_tick(h, now_ns);
	if (!h->lost)
		queues_tick(h, now_ns);
	leave(h, now_ns);
}

void host_start(struct host *h, uint64_t now_ns)
{
	assert(h->state == HOST_IDLE);
	enter(h);
	steps_bring_up(h, now_ns);
	leave(h, now_ns);
}

void host_queue_opened(struct host *h, uint16_t qid, uint16_t limit, uint64_t now_ns)
{
	if (h->lost || qid > h->config.io_queues || h->queues[qid].state != HOST_QUEUE_OPENING)
		return;
	enter(h);
	if (limit == 0) {
		host_lose_for(h, HOST_FAIL_PROTOCOL, qid, "a receive queue of no entries");
	} else {
		queue_open(&h->queues[qid], h->queues[qid].entries, limit);
		steps_opened(h, qid, now_ns);
	}
	leave(h, now_ns);
}

void host_queue_lost(struct host *h, uint16_t qid, const char *violation, uint64_t now_ns)
{
	enum host_failure_kind kind = HOST_FAIL_LOST;

	if (qid > h->config.io_queues || h->queues[qid].state == HOST_QUEUE_CLOSED)
		return;
	if (violation) {
		kind = HOST_FAIL_PROTOCOL;
	} else if (h->auth.why) { /* which the controller was being told */
		kind = HOST_FAIL_AUTH;
		violation = h->auth.why;
	} else if (h->queues[qid].state == HOST_QUEUE_OPENING) {
		kind = HOST_FAIL_OPEN;
	}
	enter(h);
	host_lose_for(h, kind, qid, violation);
	leave(h, now_ns);
}

void host_reset(struct host *h, uint64_t now_ns)
{
	if (h->state != HOST_LIVE)
		return;
	enter(h);
	host_lose_for(h, HOST_FAIL_LOST, 0, "reset by this host");
	leave(h, now_ns);
}

int host_authenticate(struct host *h, uint64_t now_ns)
{
	if (h->state != HOST_LIVE || h->lost)
		return -ENOTCONN;
	if (!h->config.key.len)
		return -EINVAL;
	if (h->auth.again)
		return -EALREADY;
	enter(h);
	steps_authenticate(h, now_ns);
	leave(h, now_ns);
	return 0;
}

void host_shutdown(struct host *h, uint64_t now_ns)
{
	if (h->state == HOST_CLOSED || h->state == HOST_SHUTDOWN || h->state == HOST_SHUTDOWN_WAIT)
		return;
	enter(h);
	if (h->state == HOST_LIVE && !h->lost && h->auth.again) {
		/* Its commands and those of an authentication would be the same request. */
		h->auth.leaves = true;
	} else if (h->state == HOST_LIVE && !h->lost) {
		shut_down(h, now_ns);
	} else {
		h->keep_alive_due_ns = UINT64_MAX;
		h->broken_off = h->was_live && h->state != HOST_FAILED;
		h->lost = false;
		host_close_queues(h, 0);
		host_set_state(h, HOST_CLOSED, now_ns);
		queues_end(h, -ECANCELED, now_ns);
	}
	leave(h, now_ns);
}

void host_queue_response(struct host *h, uint16_t qid, const void *capsule, uint32_t len,
			 uint64_t now_ns)
{
	if (qid > h->config.io_queues || h->queues[qid].state != HOST_QUEUE_OPEN || h->lost)
		return;
	enter(h);
	queue_respond(h, qid, capsule, len, now_ns);
	leave(h, now_ns);
}

void host_queue_writable(struct host *h, uint16_t qid, uint64_t now_ns)
{
	if (qid > h->config.io_queues || h->queues[qid].state != HOST_QUEUE_OPEN)
		return;
	enter(h);
	h->queues[qid].full = false;
	queue_pump(h, qid, now_ns);
	leave(h, now_ns);
}

/* Where not any may go. */
static int may_submit(const struct host *h, uint16_t qid, const struct host_request *req)
{
	if (h->state != HOST_LIVE && !(h->was_live && h->state < HOST_SHUTDOWN))
		return -ENOTCONN;
	return qid && namespaces_lost(h, &req->sqe) ? -ENODEV : 0;
}

int host_submit(struct host *h, uint16_t qid, struct host_request *req, uint64_t now_ns)
{
	int err = h->ready ? 0 : may_submit(h, qid, req);

	if (err)
		return err;
	if (qid > h->io_queues || req->data_len > h->transfer_max || !req->done ||
	    (req->dir == NVMF_DIR_NONE) != (req->data_len == 0))
		return -EINVAL;
	req->error = 0;
	req->attempts = 0;
	req->cqe = (struct nvme_cqe){0};
	/* Not leave(): who submits is not called back. What went wrong comes with the next tick. */
	enter(h);
	list_push_tail(&h->queues[qid].wait, &req->node);
	queue_pump(h, qid, now_ns);
	h->depth--;
	return 0;
}
