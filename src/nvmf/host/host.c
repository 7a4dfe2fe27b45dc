/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The states of an association: what each begins, what its answer leads to, what a loss means.
 * Theory of operation in host.h.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "nvmf/host/internal.h"
#include "wire/nvme_log.h"

#define POLL_FIRST_NS  (1 * NS_PER_MS)
#define POLL_MAX_NS    (100 * NS_PER_MS)
#define CAP_TO_UNIT_NS (500 * NS_PER_MS)
#define TRANSFER_MAX   (NVME_SGL_KEYED_LEN_MAX & ~0xfffu)
#define CAPSULE_UNIT   16
#define LOSS_ENDLESS   UINT64_MAX
#define BIT(state)     (1u << (state))
#define DOWN	       (BIT(HOST_WAITING) | BIT(HOST_CLOSED) | BIT(HOST_FAILED))

/* What may follow each state. */
static const struct {
	const char *name;
	uint32_t next;
} states[] = {
	[HOST_IDLE] = {"idle", BIT(HOST_OPENING) | BIT(HOST_CLOSED)},
	[HOST_OPENING] = {"opening", BIT(HOST_CONNECT) | DOWN},
	[HOST_CONNECT] = {"connect", BIT(HOST_READ_CAP) | DOWN},
	[HOST_READ_CAP] = {"read CAP", BIT(HOST_READ_VS) | DOWN},
	[HOST_READ_VS] = {"read VS", BIT(HOST_ENABLE) | DOWN},
	[HOST_ENABLE] = {"enable", BIT(HOST_WAIT_READY) | DOWN},
	[HOST_WAIT_READY] = {"wait for ready", BIT(HOST_IDENTIFY) | DOWN},
	[HOST_IDENTIFY] = {"identify",
			   BIT(HOST_SET_EVENTS) | BIT(HOST_SET_QUEUES) | BIT(HOST_LIVE) | DOWN},
	[HOST_SET_EVENTS] = {"set events", BIT(HOST_SET_QUEUES) | BIT(HOST_LIVE) | DOWN},
	[HOST_SET_QUEUES] = {"set queues", BIT(HOST_IO_OPENING) | DOWN},
	[HOST_IO_OPENING] = {"open I/O queue", BIT(HOST_IO_CONNECT) | DOWN},
	[HOST_IO_CONNECT] = {"connect I/O queue", BIT(HOST_IO_OPENING) | BIT(HOST_LIVE) | DOWN},
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

static void begin_open(struct host *h, uint16_t qid, uint16_t entries);
static void step_done(struct host_request *req, uint64_t now_ns);
static void event_done(struct host_request *req, uint64_t now_ns);
static void keep_alive_done(struct host_request *req, uint64_t now_ns);

/* The one place where the state changes. */
static void set_state(struct host *h, enum host_state to, uint64_t now_ns)
{
	enum host_state from = h->state;

	assert(states[from].next & BIT(to));
	h->state = to;
	h->state_deadline_ns = UINT64_MAX;
	h->poll_ns = UINT64_MAX;
	if (h->config.changed)
		h->config.changed(h->config.arg, from, to, now_ns);
}

int host_init(struct host *h, const struct host_config *config,
	      const struct host_transport *transport, void *transport_arg,
	      struct host_queue *queues, struct slot *slots, void *scratch)
{
	if (config->io_queues > HOST_IO_QUEUES_MAX ||
	    (config->io_queues &&
	     (config->io_entries < 2 || config->io_entries > HOST_ENTRIES_MAX)) ||
	    strnlen(config->subnqn, NVME_NQN_LEN) > NVME_NQN_MAX ||
	    strnlen(config->hostnqn, NVME_NQN_LEN) > NVME_NQN_MAX)
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
	if (h->discovery)
		h->config.io_queues = 0;
	h->step.done = step_done;
	h->step.arg = h;
	h->event.done = event_done;
	h->event.arg = h;
	h->keep_alive.done = keep_alive_done;
	h->keep_alive.arg = h;
	queue_init(&queues[0], slots, HOST_ADMIN_ENTRIES);
	slots += HOST_ADMIN_ENTRIES;
	for (uint16_t i = 1; i <= config->io_queues; i++, slots += config->io_entries)
		queue_init(&queues[i], slots, config->io_entries);
	return 0;
}

/* --- loss ---------------------------------------------------------------------------------- */

void host_lose(struct host *h, const struct host_failure *why)
{
	if (h->lost)
		return;
	h->lost = true;
	h->failure = *why;
	h->failure.state = h->state;
}

static void close_queues(struct host *h, uint16_t first)
{
	for (uint16_t i = first; i <= h->config.io_queues; i++) {
		if (h->queues[i].state == HOST_QUEUE_CLOSED)
			continue;
		h->queues[i].state = HOST_QUEUE_CLOSED;
		h->transport->close(h->transport_arg, i);
	}
}

static void drain_queues(struct host *h, uint16_t first, bool again, int error, uint64_t now_ns)
{
	for (uint16_t i = first; i <= h->config.io_queues; i++)
		queue_drain(h, i, again, error, now_ns);
}

/* Whether another attempt may end differently. */
static bool worth_another(const struct host_failure *f)
{
	switch (f->kind) {
	case HOST_FAIL_STATUS:
		return !(f->status & NVME_STATUS_DNR);
	case HOST_FAIL_PROTOCOL:
	case HOST_FAIL_UNFIT:
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
	h->keep_alive_out = h->event_out = false;
	h->keep_alive_due_ns = UINT64_MAX;
	close_queues(h, 0);
	if (h->state == HOST_SHUTDOWN || h->state == HOST_SHUTDOWN_WAIT) {
		set_state(h, HOST_CLOSED, now_ns);
		drain_queues(h, 0, false, -ECANCELED, now_ns);
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
		set_state(h, HOST_WAITING, now_ns);
		h->state_deadline_ns = now_ns + h->config.reconnect_delay_ns;
	} else {
		set_state(h, HOST_FAILED, now_ns);
	}
	drain_queues(h, 0, again, error, now_ns);
}

void host_enter(struct host *h)
{
	h->depth++;
}

void host_leave(struct host *h, uint64_t now_ns)
{
	while (h->depth == 1 && h->lost)
		handle_loss(h, now_ns);
	h->depth--;
}

/* --- bring-up ------------------------------------------------------------------------------ */

static void send_step(struct host *h, const struct nvme_sqe *sqe, enum host_direction direction,
		      uint32_t len, uint64_t now_ns)
{
	h->step.sqe = *sqe;
	h->step.direction = direction;
	h->step.data = len ? h->scratch : NULL;
	h->step.data_len = len;
	queue_push_own(h, h->state == HOST_IO_CONNECT ? h->opening : 0, &h->step, now_ns);
}

static void send_connect(struct host *h, uint16_t qid, uint64_t now_ns)
{
	struct wcursor w = wcursor_init(h->scratch, HOST_SCRATCH_LEN);
	struct nvmf_connect c = {
		.qid = qid,
		.sqsize = (uint16_t)(h->queues[qid].entries - 1),
		.kato_ms = qid == 0 ? h->config.keep_alive_ms : 0,
	};
	struct nvmf_connect_data d = {.cntlid = qid == 0 ? NVMF_CNTLID_DYNAMIC : h->cntlid};
	struct nvme_sqe sqe = {0};

	memcpy(d.hostid, h->config.hostid, sizeof(d.hostid));
	memcpy(d.subnqn, h->config.subnqn, sizeof(d.subnqn));
	memcpy(d.hostnqn, h->config.hostnqn, sizeof(d.hostnqn));
	nvmf_connect_data_put(&w, &d);
	nvmf_connect_to_sqe(&c, &sqe);
	send_step(h, &sqe, HOST_DATA_OUT, NVMF_CONNECT_DATA_LEN, now_ns);
}

static void send_property(struct host *h, uint8_t fctype, enum nvme_prop offset, uint64_t value,
			  uint64_t now_ns)
{
	struct nvmf_prop p = {.wide = offset == NVME_PROP_CAP, .offset = offset, .value = value};
	struct nvme_sqe sqe = {0};

	nvmf_prop_to_sqe(&p, fctype, &sqe);
	send_step(h, &sqe, HOST_DATA_NONE, 0, now_ns);
}

static void send_feature(struct host *h, enum nvme_fid fid, uint32_t value, uint64_t now_ns)
{
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_SET_FEATURES, .cdw10 = fid, .cdw11 = value};

	send_step(h, &sqe, HOST_DATA_NONE, 0, now_ns);
}

static uint32_t enable_bits(const struct host *h)
{
	return NVME_CC_EN | (uint32_t)NVME_CAP_MPSMIN(h->cap) << 7 | NVME_CC_IOSQES_64 |
	       NVME_CC_IOCQES_16;
}

static void begin_open(struct host *h, uint16_t qid, uint16_t entries)
{
	struct host_queue *q = &h->queues[qid];

	q->state = HOST_QUEUE_OPENING;
	q->entries = entries;
	if (h->transport->open(h->transport_arg, qid, entries, qid ? h->cntlid : 0))
		host_lose_for(h, HOST_FAIL_OPEN, qid, NULL);
}

static uint16_t io_entries(const struct host *h)
{
	uint32_t entries = h->config.io_entries;
	uint32_t mqes = (uint32_t)NVME_CAP_MQES(h->cap) + 1;

	entries = min_of(entries, mqes);
	if (h->id.maxcmd)
		entries = min_of(entries, (uint32_t)h->id.maxcmd + 1);
	return (uint16_t)max_of(entries, 2u);
}

static void enter_live(struct host *h, uint64_t now_ns);

/* Enters a state of the bring-up or the shutdown and sends what it sends. */
static void begin(struct host *h, enum host_state state, uint64_t now_ns)
{
	struct nvme_sqe sqe = {0};

	set_state(h, state, now_ns);
	switch (state) {
	case HOST_OPENING:
		h->state_deadline_ns = now_ns + h->config.open_timeout_ns;
		begin_open(h, 0, HOST_ADMIN_ENTRIES);
		break;
	case HOST_CONNECT:
		send_connect(h, 0, now_ns);
		break;
	case HOST_READ_CAP:
		send_property(h, NVMF_PROPERTY_GET, NVME_PROP_CAP, 0, now_ns);
		break;
	case HOST_READ_VS:
		send_property(h, NVMF_PROPERTY_GET, NVME_PROP_VS, 0, now_ns);
		break;
	case HOST_ENABLE:
		send_property(h, NVMF_PROPERTY_SET, NVME_PROP_CC, enable_bits(h), now_ns);
		break;
	case HOST_WAIT_READY:
		h->state_deadline_ns = now_ns + (NVME_CAP_TO(h->cap) + 1u) * CAP_TO_UNIT_NS;
		h->poll_interval_ns = POLL_FIRST_NS;
		send_property(h, NVMF_PROPERTY_GET, NVME_PROP_CSTS, 0, now_ns);
		break;
	case HOST_IDENTIFY:
		sqe.opcode = NVME_ADMIN_IDENTIFY;
		sqe.cdw10 = NVME_CNS_CTRL;
		send_step(h, &sqe, HOST_DATA_IN, NVME_IDENTIFY_LEN, now_ns);
		break;
	case HOST_SET_EVENTS:
		send_feature(h, NVME_FID_ASYNC_EVENT, h->id.oaes & NVME_OAES_NS_ATTR, now_ns);
		break;
	case HOST_SET_QUEUES:
		send_feature(h, NVME_FID_NUM_QUEUES,
			     NVME_NUM_QUEUES(h->config.io_queues, h->config.io_queues), now_ns);
		break;
	case HOST_IO_OPENING:
		h->state_deadline_ns = now_ns + h->config.open_timeout_ns;
		begin_open(h, h->opening, io_entries(h));
		break;
	case HOST_IO_CONNECT:
		send_connect(h, h->opening, now_ns);
		break;
	case HOST_SHUTDOWN:
		send_property(h, NVMF_PROPERTY_SET, NVME_PROP_CC,
			      enable_bits(h) | NVME_CC_SHN_NORMAL, now_ns);
		break;
	case HOST_SHUTDOWN_WAIT:
		h->poll_interval_ns = POLL_FIRST_NS;
		send_property(h, NVMF_PROPERTY_GET, NVME_PROP_CSTS, 0, now_ns);
		break;
	case HOST_LIVE:
		enter_live(h, now_ns);
		break;
	case HOST_IDLE:
	case HOST_WAITING:
	case HOST_CLOSED:
	case HOST_FAILED:
	case HOST_STATES:
		assert(!"a state that begins nothing");
	}
}

static void arm_event(struct host *h, uint64_t now_ns)
{
	/* It may stay out for ever: a queue that takes one command at a time is for the others. */
	if (h->queues[0].limit < 2)
		return;
	h->event.sqe = (struct nvme_sqe){.opcode = NVME_ADMIN_ASYNC_EVENT};
	h->event_out = true;
	queue_push_own(h, 0, &h->event, now_ns);
}

static void enter_live(struct host *h, uint64_t now_ns)
{
	if (h->was_live)
		h->reconnects++;
	h->was_live = true;
	if (h->config.keep_alive_ms)
		h->keep_alive_due_ns = now_ns + h->config.keep_alive_ms * NS_PER_MS / 2;
	if (!h->discovery)
		arm_event(h, now_ns);
	/* Requests that waited for a queue which the controller does not grant any more. */
	for (uint16_t i = h->io_queues + 1; i <= h->config.io_queues; i++)
		for (struct list *at; (at = list_pop_head(&h->queues[i].wait));)
			list_push_tail(&h->queues[1].wait, at);
	for (uint16_t i = 0; i <= h->io_queues; i++)
		queue_pump(h, i, now_ns);
}

static void after_identify(struct host *h, uint64_t now_ns)
{
	if (h->config.io_queues)
		begin(h, HOST_SET_QUEUES, now_ns);
	else
		begin(h, HOST_LIVE, now_ns);
}

static void take_identify(struct host *h, uint64_t now_ns)
{
	struct cursor c = cursor_init(h->scratch, NVME_IDENTIFY_LEN);
	unsigned int shift = 12 + (unsigned int)NVME_CAP_MPSMIN(h->cap);
	uint32_t max = h->transport->transfer_max ? h->transport->transfer_max : TRANSFER_MAX;

	nvme_id_ctrl_get(&c, &h->id);
	max = min_of(max, TRANSFER_MAX);
	if (h->id.mdts && h->id.mdts + shift < 24)
		max = min_of(max, 1u << (h->id.mdts + shift));
	h->transfer_max = max;
	if (h->transport->keyed && !(h->id.sgls & NVME_SGLS_KEYED)) {
		host_lose_for(h, HOST_FAIL_UNFIT, 0, "the controller takes no keyed SGLs");
		return;
	}
	/* IOCCSZ is in units of 16 bytes and counts the command. Data that does not follow the
	 * command at once (ICDOFF) is left to SGLs. */
	h->capsule_max = 0;
	if (h->config.io_queues) {
		if (h->id.ioccsz < NVME_SQE_LEN / CAPSULE_UNIT || h->id.iorcsz < 1) {
			host_lose_for(h, HOST_FAIL_UNFIT, 0,
				      "its I/O capsules are smaller than a command (IOCCSZ)");
			return;
		}
		if (h->id.icdoff == 0 && (h->id.sgls & NVME_SGLS_OFFSET))
			h->capsule_max = (uint32_t)min_of((uint64_t)h->id.ioccsz * CAPSULE_UNIT -
								  NVME_SQE_LEN,
							  (uint64_t)max);
	}
	if (!h->discovery && (h->id.oaes & NVME_OAES_NS_ATTR))
		begin(h, HOST_SET_EVENTS, now_ns);
	else
		after_identify(h, now_ns);
}

static void take_csts(struct host *h, uint32_t csts, uint64_t now_ns)
{
	bool ready = csts & NVME_CSTS_RDY;

	if (h->state == HOST_SHUTDOWN_WAIT) {
		if ((csts & NVME_CSTS_SHST_MASK) == NVME_CSTS_SHST_DONE) {
			close_queues(h, 0);
			set_state(h, HOST_CLOSED, now_ns);
			drain_queues(h, 0, false, -ECANCELED, now_ns);
			return;
		}
	} else if (csts & NVME_CSTS_CFS) {
		host_lose_for(h, HOST_FAIL_FATAL, 0, NULL);
		return;
	} else if (ready) {
		begin(h, HOST_IDENTIFY, now_ns);
		return;
	}
	h->poll_ns = now_ns + h->poll_interval_ns;
	h->poll_interval_ns = min_of(h->poll_interval_ns * 2, POLL_MAX_NS);
}

static void refuse_step(struct host *h)
{
	const struct host_request *req = &h->step;

	host_lose(h, &(struct host_failure){
			     .kind = HOST_FAIL_STATUS,
			     .qid = h->state == HOST_IO_CONNECT ? h->opening : 0,
			     .status = req->cqe.status,
			     .result = req->cqe.result,
			     .opcode = req->sqe.opcode,
			     .fctype = req->sqe.opcode == NVME_FABRICS ? nvmf_fctype(&req->sqe) : 0,
		     });
}

static void step_done(struct host_request *req, uint64_t now_ns)
{
	struct host *h = req->arg;
	uint32_t granted;

	/* A controller without this feature sends no events: nothing is lost by that. */
	if ((req->cqe.status & NVME_STATUS_CODE) && h->state != HOST_SET_EVENTS) {
		refuse_step(h);
		return;
	}
	switch (h->state) {
	case HOST_CONNECT:
		h->cntlid = NVMF_CONNECT_CNTLID(req->cqe.result);
		if (NVMF_CONNECT_AUTHREQ(req->cqe.result)) {
			host_lose_for(h, HOST_FAIL_UNFIT, 0, "it demands in-band authentication");
			return;
		}
		begin(h, HOST_READ_CAP, now_ns);
		break;
	case HOST_READ_CAP:
		h->cap = req->cqe.result;
		begin(h, HOST_READ_VS, now_ns);
		break;
	case HOST_READ_VS:
		h->vs = (uint32_t)req->cqe.result;
		begin(h, HOST_ENABLE, now_ns);
		break;
	case HOST_ENABLE:
		begin(h, HOST_WAIT_READY, now_ns);
		break;
	case HOST_WAIT_READY:
	case HOST_SHUTDOWN_WAIT:
		take_csts(h, (uint32_t)req->cqe.result, now_ns);
		break;
	case HOST_IDENTIFY:
		take_identify(h, now_ns);
		break;
	case HOST_SET_EVENTS:
		after_identify(h, now_ns);
		break;
	case HOST_SET_QUEUES:
		granted = min_of(NVME_NUM_QUEUES_SQ((uint32_t)req->cqe.result),
				 NVME_NUM_QUEUES_CQ((uint32_t)req->cqe.result));
		h->io_queues = (uint16_t)min_of(granted, (uint32_t)h->config.io_queues);
		h->opening = 1;
		begin(h, HOST_IO_OPENING, now_ns);
		break;
	case HOST_IO_CONNECT:
		if (h->opening < h->io_queues) {
			h->opening++;
			begin(h, HOST_IO_OPENING, now_ns);
		} else {
			begin(h, HOST_LIVE, now_ns);
		}
		break;
	case HOST_SHUTDOWN: {
		uint64_t deadline_ns = h->shutdown_deadline_ns;

		begin(h, HOST_SHUTDOWN_WAIT, now_ns);
		h->state_deadline_ns = deadline_ns;
		break;
	}
	case HOST_IDLE:
	case HOST_OPENING:
	case HOST_IO_OPENING:
	case HOST_LIVE:
	case HOST_WAITING:
	case HOST_CLOSED:
	case HOST_FAILED:
	case HOST_STATES:
		assert(!"no step is outstanding in this state");
	}
}

/* --- live ---------------------------------------------------------------------------------- */

static void event_done(struct host_request *req, uint64_t now_ns)
{
	struct host *h = req->arg;

	h->event_out = false;
	/* A controller that refuses the request (limit exceeded) would refuse the next as well. */
	if (req->cqe.status & NVME_STATUS_CODE)
		return;
	if (h->config.event)
		h->config.event(h->config.arg, (uint32_t)req->cqe.result);
	if (h->state == HOST_LIVE)
		arm_event(h, now_ns);
}

static void keep_alive_done(struct host_request *req, uint64_t now_ns)
{
	struct host *h = req->arg;

	(void)now_ns;
	h->keep_alive_out = false;
}

/* Sent at half its timeout; one that is still out a whole timeout after it was sent is lost. */
static void keep_alive_tick(struct host *h, uint64_t now_ns)
{
	uint64_t timeout_ns = h->config.keep_alive_ms * NS_PER_MS;

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

static bool answered_since(const struct host *h, uint64_t ns)
{
	for (uint16_t i = 0; i <= h->config.io_queues; i++)
		if (h->queues[i].last_ns > ns)
			return true;
	return false;
}

static void command_tick(struct host *h, uint64_t now_ns)
{
	uint64_t timeout_ns = h->config.command_timeout_ns;

	for (uint16_t i = 0; i <= h->config.io_queues && !h->lost; i++) {
		if (queue_deadline(&h->queues[i]) > now_ns)
			continue;
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
	case HOST_OPENING:
	case HOST_IO_OPENING:
		host_lose_for(h, HOST_FAIL_OPEN, h->state == HOST_OPENING ? 0 : h->opening,
			      "no answer in time");
		break;
	case HOST_WAIT_READY:
		host_lose_for(h, HOST_FAIL_NOT_READY, 0, NULL);
		break;
	case HOST_WAITING:
		if (now_ns < h->loss_deadline_ns)
			begin(h, HOST_OPENING, now_ns);
		else
			give_up(h);
		break;
	case HOST_SHUTDOWN:
	case HOST_SHUTDOWN_WAIT:
		host_lose_for(h, HOST_FAIL_TIMEOUT, 0, "shutdown was not reported in time");
		break;
	case HOST_IDLE:
	case HOST_CONNECT:
	case HOST_READ_CAP:
	case HOST_READ_VS:
	case HOST_ENABLE:
	case HOST_IDENTIFY:
	case HOST_SET_EVENTS:
	case HOST_SET_QUEUES:
	case HOST_IO_CONNECT:
	case HOST_LIVE:
	case HOST_CLOSED:
	case HOST_FAILED:
	case HOST_STATES:
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
	host_enter(h);
	if (now_ns >= h->state_deadline_ns)
		state_tick(h, now_ns);
	if (!h->lost && now_ns >= attempt_deadline(h))
		give_up(h);
	if (!h->lost && now_ns >= h->poll_ns) {
		h->poll_ns = UINT64_MAX;
		send_property(h, NVMF_PROPERTY_GET, NVME_PROP_CSTS, 0, now_ns);
	}
	if (!h->lost && h->keep_alive_due_ns != UINT64_MAX)
		keep_alive_tick(h, now_ns);
	if (!h->lost)
		command_tick(h, now_ns);
	host_leave(h, now_ns);
}

void host_start(struct host *h, uint64_t now_ns)
{
	assert(h->state == HOST_IDLE);
	host_enter(h);
	begin(h, HOST_OPENING, now_ns);
	host_leave(h, now_ns);
}

void host_queue_opened(struct host *h, uint16_t qid, uint16_t limit, uint64_t now_ns)
{
	bool admin = h->state == HOST_OPENING && qid == 0;
	bool io = h->state == HOST_IO_OPENING && qid == h->opening;

	if (h->lost || (!admin && !io) || h->queues[qid].state != HOST_QUEUE_OPENING)
		return;
	host_enter(h);
	if (limit == 0) {
		host_lose_for(h, HOST_FAIL_PROTOCOL, qid, "a receive queue of no entries");
	} else {
		queue_open(&h->queues[qid], h->queues[qid].entries, limit);
		begin(h, admin ? HOST_CONNECT : HOST_IO_CONNECT, now_ns);
	}
	host_leave(h, now_ns);
}

void host_queue_lost(struct host *h, uint16_t qid, const char *violation, uint64_t now_ns)
{
	enum host_failure_kind kind = HOST_FAIL_LOST;

	if (qid > h->config.io_queues || h->queues[qid].state == HOST_QUEUE_CLOSED)
		return;
	if (violation)
		kind = HOST_FAIL_PROTOCOL;
	else if (h->queues[qid].state == HOST_QUEUE_OPENING)
		kind = HOST_FAIL_OPEN;
	host_enter(h);
	host_lose_for(h, kind, qid, violation);
	host_leave(h, now_ns);
}

void host_reset(struct host *h, uint64_t now_ns)
{
	if (h->state != HOST_LIVE)
		return;
	host_enter(h);
	host_lose_for(h, HOST_FAIL_LOST, 0, "reset by this host");
	host_leave(h, now_ns);
}

void host_shutdown(struct host *h, uint64_t now_ns)
{
	if (h->state == HOST_CLOSED || h->state == HOST_SHUTDOWN || h->state == HOST_SHUTDOWN_WAIT)
		return;
	host_enter(h);
	h->keep_alive_due_ns = UINT64_MAX;
	if (h->state == HOST_LIVE && !h->lost) {
		close_queues(h, 1);
		h->shutdown_deadline_ns = now_ns + h->config.shutdown_timeout_ns;
		begin(h, HOST_SHUTDOWN, now_ns);
		h->state_deadline_ns = h->shutdown_deadline_ns;
		drain_queues(h, 1, false, -ECANCELED, now_ns);
	} else {
		h->lost = false;
		close_queues(h, 0);
		set_state(h, HOST_CLOSED, now_ns);
		drain_queues(h, 0, false, -ECANCELED, now_ns);
	}
	host_leave(h, now_ns);
}
