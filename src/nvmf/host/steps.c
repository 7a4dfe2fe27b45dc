/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How an association comes up, and how it ends politely: tables of steps. A queue goes through one
 * table at a time, row by row; a row's command, or connection, is answered before the next one
 * begins. The admin queue's state is the host's. I/O queues go through theirs side by side.
 */
#include <errno.h>
#include <string.h>

#include "nvmf/auth/hash.h"
#include "nvmf/host/internal.h"
#include "wire/nvme_auth.h"
#include "wire/nvme_log.h"

#define POLL_FIRST_NS  (1 * NSEC_PER_MSEC)
#define POLL_MAX_NS    (100 * NSEC_PER_MSEC)
#define CAP_TO_UNIT_NS (500 * NSEC_PER_MSEC)
#define TRANSFER_MAX   (NVME_SGL_KEYED_LEN_MAX & ~0xfffu)
#define CAPSULE_UNIT   16

struct host_step {
	enum host_state state; /* of the host, while its admin queue is at this row */
	/* Whether there is anything to do; NULL: always. */
	bool (*wanted)(const struct host *h, uint16_t qid);
	/* Sends a command, or opens the connection. */
	void (*begin)(struct host *h, uint16_t qid, uint64_t now_ns);
	/* Takes what the command brought; false: this is not the end of it. NULL: nothing. */
	bool (*end)(struct host *h, uint16_t qid, const struct nvme_cqe *cqe, uint64_t now_ns);
	bool optional; /* a controller that refuses it is used all the same */
};

static void go_on(struct host *h, uint16_t qid, uint64_t now_ns);

/* --- commands --------------------------------------------------------------------------------- */

static void answered(struct host_request *req, uint64_t now_ns)
{
	struct host_queue *q = container_of(req, struct host_queue, own);
	struct host *h = req->arg;
	const struct host_step *s = q->step;
	uint16_t qid = (uint16_t)(q - h->queues);

	if ((req->cqe.status & NVME_STATUS_CODE) && !s->optional)
		host_refused(h, qid, req);
	else if (!s->end || s->end(h, qid, &req->cqe, now_ns))
		go_on(h, qid, now_ns);
}

static void send_from(struct host *h, uint16_t qid, const struct nvme_sqe *sqe, enum nvmf_dir dir,
		      void *data, uint32_t len, uint64_t now_ns)
{
	struct host_request *req = &h->queues[qid].own;

	req->sqe = *sqe;
	req->dir = dir;
	req->data = len ? data : NULL;
	req->data_len = len;
	req->done = answered;
	req->arg = h;
	queue_push_own(h, qid, req, now_ns);
}

static void send(struct host *h, uint16_t qid, const struct nvme_sqe *sqe, enum nvmf_dir dir,
		 uint32_t len, uint64_t now_ns)
{
	send_from(h, qid, sqe, dir, h->scratch, len, now_ns);
}

static void send_property(struct host *h, uint8_t fctype, enum nvme_prop offset, uint64_t value,
			  uint64_t now_ns)
{
	struct nvmf_prop p = {.wide = offset == NVME_PROP_CAP, .offset = offset, .value = value};
	struct nvme_sqe sqe = {0};

	nvmf_prop_to_sqe(&p, fctype, &sqe);
	send(h, 0, &sqe, NVMF_DIR_NONE, 0, now_ns);
}

static void send_feature(struct host *h, enum nvme_fid fid, uint32_t value, uint64_t now_ns)
{
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_SET_FEATURES, .cdw10 = fid, .cdw11 = value};

	send(h, 0, &sqe, NVMF_DIR_NONE, 0, now_ns);
}

static uint32_t enable_bits(const struct host *h)
{
	return NVME_CC_EN | (uint32_t)NVME_CAP_MPSMIN(h->cap) << 7 | NVME_CC_IOSQES_64 |
	       NVME_CC_IOCQES_16;
}

/* --- the admin queue -------------------------------------------------------------------------- */

static void open_queue(struct host *h, uint16_t qid, uint16_t entries, uint64_t now_ns)
{
	struct host_queue *q = &h->queues[qid];

	q->state = HOST_QUEUE_OPENING;
	q->entries = entries;
	q->open_deadline_ns = now_ns + h->config.open_timeout_ns;
	if (h->transport->open(h->transport_arg, qid, entries, qid ? h->cntlid : 0))
		host_lose_for(h, HOST_FAIL_OPEN, qid, NULL);
}

/* What all queues that connect at a time send: never written while the transport may be sending it.
 */
static void write_connect_data(struct host *h, uint16_t cntlid)
{
	struct wcursor w = wcursor_init(h->scratch, HOST_SCRATCH_LEN);
	struct nvmf_connect_data d = {.cntlid = cntlid};

	memcpy(d.hostid, h->config.hostid, sizeof(d.hostid));
	memcpy(d.subnqn, h->config.subnqn, sizeof(d.subnqn));
	memcpy(d.hostnqn, h->config.hostnqn, sizeof(d.hostnqn));
	nvmf_connect_data_put(&w, &d);
}

static void begin_open(struct host *h, uint16_t qid, uint64_t now_ns)
{
	write_connect_data(h, NVMF_CNTLID_DYNAMIC);
	h->auth.why = NULL;
	open_queue(h, qid, HOST_ADMIN_ENTRIES, now_ns);
}

static void send_connect(struct host *h, uint16_t qid, uint64_t now_ns)
{
	struct nvmf_connect c = {
		.qid = qid,
		.sqsize = (uint16_t)(h->queues[qid].entries - 1),
		.cattr = h->transport->no_sq_flow ? NVMF_CATTR_NO_SQ_FLOW : 0,
		.kato_ms = qid == 0 ? h->config.keep_alive_ms : 0,
	};
	struct nvme_sqe sqe = {0};

	nvmf_connect_to_sqe(&c, &sqe);
	send(h, qid, &sqe, NVMF_DIR_TO_CTRL, NVMF_CONNECT_DATA_LEN, now_ns);
}

/* A controller that is to prove itself does so whether or not it asks us to; by a key that came of
 * that, it has. */
static bool take_connect(struct host *h, uint16_t qid, const struct nvme_cqe *cqe, uint64_t now_ns)
{
	const bool demanded = NVMF_CONNECT_ATR(cqe->result);
	const bool wanted = h->config.ctrl_key.len || h->config.concat;
	enum host_failure_kind kind = HOST_FAIL_UNFIT;
	const char *why = NULL;

	(void)now_ns;
	if (qid == 0)
		h->cntlid = NVMF_CONNECT_CNTLID(cqe->result);
	h->queues[qid].authenticate = demanded || (wanted && !h->discovery && !h->secured);
	if (NVMF_CONNECT_ASCR(cqe->result) && !h->config.concat) {
		why = "it demands a channel that authentication secures (secure channel "
		      "concatenation), which was not asked for";
	} else if (demanded && !h->config.key.len) {
		kind = HOST_FAIL_AUTH;
		why = "it demands in-band authentication (DH-HMAC-CHAP), and there is no key for "
		      "it";
	} else if (qid && h->queues[qid].authenticate && !h->queues[0].authenticate) {
		why = "it demands authentication of I/O queues alone";
	}
	if (why)
		host_lose_for(h, kind, qid, why);
	return !why;
}

/* --- authentication --------------------------------------------------------------------------- */

static void send_message(struct host *h, uint16_t qid, uint8_t fctype, uint64_t now_ns)
{
	const struct nvmf_auth_cmd cmd = {.spsp0 = NVMF_AUTH_SPSP,
					  .spsp1 = NVMF_AUTH_SPSP,
					  .secp = NVMF_AUTH_SECP,
					  .len = h->auth.len};
	struct nvme_sqe sqe = {0};

	nvmf_auth_cmd_to_sqe(&cmd, fctype, &sqe);
	send_from(h, qid, &sqe, fctype == NVMF_AUTH_SEND ? NVMF_DIR_TO_CTRL : NVMF_DIR_TO_HOST,
		  host_auth_message(h), h->auth.len, now_ns);
}

static bool authenticate_next(struct host *h, uint16_t qid, enum host_auth_next next,
			      uint64_t now_ns)
{
	switch (next) {
	case HOST_AUTH_SEND:
		send_message(h, qid, NVMF_AUTH_SEND, now_ns);
		return false;
	case HOST_AUTH_FETCH:
		send_message(h, qid, NVMF_AUTH_RECV, now_ns);
		return false;
	case HOST_AUTH_DONE:
		h->authenticated = true;
		return true;
	case HOST_AUTH_FAILED:
		break;
	}
	host_lose_for(h, HOST_FAIL_AUTH, qid, h->auth.why);
	return false;
}

static bool must_authenticate(const struct host *h, uint16_t qid)
{
	return h->queues[qid].authenticate;
}

static void begin_auth(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)authenticate_next(h, qid, host_auth_begin(h, qid), now_ns);
}

static bool go_on_with_auth(struct host *h, uint16_t qid, const struct nvme_cqe *cqe,
			    uint64_t now_ns)
{
	(void)cqe;
	return authenticate_next(h, qid, host_auth_go_on(h), now_ns);
}

/* The key that came of it is for connections to come. */
static bool use_psk(struct host *h)
{
	int error = h->transport->secure(h->transport_arg, &h->auth.psk);

	auth_wipe(&h->auth.psk, sizeof(h->auth.psk));
	h->secured |= !error;
	if (error)
		host_lose_for(h, HOST_FAIL_UNFIT, 0,
			      "TLS cannot be used here: out of memory, or OpenSSL lacks TLS 1.3");
	return !error;
}

static bool has_psk(const struct host *h, uint16_t qid)
{
	(void)qid;
	return h->auth.psk.len;
}

/* Not at once: this is called by what has come on the connection that ends. */
static void begin_secure(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	host_close_queues(h, 0);
	if (use_psk(h))
		h->state_deadline_ns = now_ns;
}

/* --- the controller --------------------------------------------------------------------------- */

static void read_cap(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	send_property(h, NVMF_PROPERTY_GET, NVME_PROP_CAP, 0, now_ns);
}

static bool take_cap(struct host *h, uint16_t qid, const struct nvme_cqe *cqe, uint64_t now_ns)
{
	(void)qid;
	(void)now_ns;
	h->cap = cqe->result;
	return true;
}

static void read_vs(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	send_property(h, NVMF_PROPERTY_GET, NVME_PROP_VS, 0, now_ns);
}

static bool take_vs(struct host *h, uint16_t qid, const struct nvme_cqe *cqe, uint64_t now_ns)
{
	(void)qid;
	(void)now_ns;
	h->vs = (uint32_t)cqe->result;
	return true;
}

static void enable(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	send_property(h, NVMF_PROPERTY_SET, NVME_PROP_CC, enable_bits(h), now_ns);
}

void steps_poll(struct host *h, uint64_t now_ns)
{
	h->poll_ns = UINT64_MAX;
	send_property(h, NVMF_PROPERTY_GET, NVME_PROP_CSTS, 0, now_ns);
}

static bool look_again(struct host *h, uint64_t now_ns)
{
	h->poll_ns = now_ns + h->poll_interval_ns;
	h->poll_interval_ns = min_of(h->poll_interval_ns * 2, POLL_MAX_NS);
	return false;
}

static void await_ready(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	h->state_deadline_ns = now_ns + (NVME_CAP_TO(h->cap) + 1u) * CAP_TO_UNIT_NS;
	h->poll_interval_ns = POLL_FIRST_NS;
	steps_poll(h, now_ns);
}

static bool is_ready(struct host *h, uint16_t qid, const struct nvme_cqe *cqe, uint64_t now_ns)
{
	(void)qid;
	if (cqe->result & NVME_CSTS_CFS) {
		host_lose_for(h, HOST_FAIL_FATAL, 0, NULL);
		return false;
	}
	return cqe->result & NVME_CSTS_RDY ? true : look_again(h, now_ns);
}

static void identify(struct host *h, uint16_t qid, uint64_t now_ns)
{
	struct nvme_sqe sqe = {.opcode = NVME_ADMIN_IDENTIFY, .cdw10 = NVME_CNS_CTRL};

	send(h, qid, &sqe, NVMF_DIR_TO_HOST, NVME_IDENTIFY_LEN, now_ns);
}

static bool take_identify(struct host *h, uint16_t qid, const struct nvme_cqe *cqe, uint64_t now_ns)
{
	struct cursor c = cursor_init(h->scratch, NVME_IDENTIFY_LEN);
	unsigned int shift = 12 + (unsigned int)NVME_CAP_MPSMIN(h->cap);
	uint32_t max = h->transport->transfer_max ? h->transport->transfer_max : TRANSFER_MAX;

	(void)qid;
	(void)cqe;
	(void)now_ns;
	nvme_id_ctrl_get(&c, &h->id);
	max = min_of(max, TRANSFER_MAX);
	if (h->id.mdts && h->id.mdts + shift < 24)
		max = min_of(max, 1u << (h->id.mdts + shift));
	h->transfer_max = max;
	if (h->transport->keyed && !(h->id.sgls & NVME_SGLS_KEYED)) {
		host_lose_for(h, HOST_FAIL_UNFIT, 0, "the controller takes no keyed SGLs");
		return false;
	}
	/* IOCCSZ is in units of 16 bytes and counts the command. Data that does not follow the
	 * command at once (ICDOFF) is left to SGLs. */
	h->capsule_max = 0;
	if (h->config.io_queues) {
		if (h->id.ioccsz < NVME_SQE_LEN / CAPSULE_UNIT || h->id.iorcsz < 1) {
			host_lose_for(h, HOST_FAIL_UNFIT, 0,
				      "its I/O capsules are smaller than a command (IOCCSZ)");
			return false;
		}
		if (h->id.icdoff == 0 && (h->id.sgls & NVME_SGLS_OFFSET))
			h->capsule_max = (uint32_t)min_of((uint64_t)h->id.ioccsz * CAPSULE_UNIT -
								  NVME_SQE_LEN,
							  (uint64_t)max);
	}
	return true;
}

static bool wants_events(const struct host *h, uint16_t qid)
{
	(void)qid;
	return host_events(h);
}

static void set_events(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	send_feature(h, NVME_FID_ASYNC_EVENT, host_events(h), now_ns);
}

static bool wants_io(const struct host *h, uint16_t qid)
{
	(void)qid;
	return h->config.io_queues;
}

static void set_queues(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	send_feature(h, NVME_FID_NUM_QUEUES,
		     NVME_NUM_QUEUES(h->config.io_queues, h->config.io_queues), now_ns);
}

static bool take_queues(struct host *h, uint16_t qid, const struct nvme_cqe *cqe, uint64_t now_ns)
{
	uint32_t granted = min_of(NVME_NUM_QUEUES_SQ((uint32_t)cqe->result),
				  NVME_NUM_QUEUES_CQ((uint32_t)cqe->result));

	(void)qid;
	(void)now_ns;
	h->io_queues = (uint16_t)min_of(granted, (uint32_t)h->config.io_queues);
	return true;
}

/* --- the I/O queues --------------------------------------------------------------------------- */

static void begin_io_queues(struct host *h, uint16_t qid, uint64_t now_ns);
static void io_queue_up(struct host *h, uint16_t qid, uint64_t now_ns);

static uint16_t io_entries(const struct host *h)
{
	uint32_t entries = h->config.io_entries;
	uint32_t mqes = (uint32_t)NVME_CAP_MQES(h->cap) + 1;

	entries = min_of(entries, mqes);
	if (h->id.maxcmd)
		entries = min_of(entries, (uint32_t)h->id.maxcmd + 1);
	return (uint16_t)max_of(entries, 2u);
}

static void begin_io_open(struct host *h, uint16_t qid, uint64_t now_ns)
{
	open_queue(h, qid, io_entries(h), now_ns);
}

static const struct host_step io_steps[] = {
	{HOST_IO_CONNECT, .begin = begin_io_open},
	{HOST_IO_CONNECT, .begin = send_connect, .end = take_connect},
	{HOST_IO_CONNECT, must_authenticate, begin_auth, go_on_with_auth},
	{HOST_IO_CONNECT, .begin = io_queue_up},
};

/* One authentication at a time. */
static void begin_more_io(struct host *h, uint64_t now_ns)
{
	const int most = h->queues[0].authenticate ? 1 : HOST_CONNECTING_MAX;

	while (!h->lost && h->io_begun < h->io_queues && h->io_begun - h->io_up < most) {
		struct host_queue *q = &h->queues[++h->io_begun];

		q->step = io_steps;
		q->step->begin(h, h->io_begun, now_ns);
	}
}

static void begin_io_queues(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	h->io_begun = h->io_up = 0;
	write_connect_data(h, h->cntlid);
	begin_more_io(h, now_ns);
}

static void io_queue_up(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	if (++h->io_up == h->io_queues)
		go_on(h, 0, now_ns);
	else
		begin_more_io(h, now_ns);
}

/* --- the namespaces --------------------------------------------------------------------------- */

static bool knows_namespaces(const struct host *h, uint16_t qid)
{
	(void)qid;
	return !list_empty(&h->known);
}

static void namespaces_seen(struct host *h, uint64_t now_ns)
{
	go_on(h, 0, now_ns);
}

static void look_at_namespaces(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	namespaces_look(h, namespaces_seen, now_ns);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void begin_shutdown(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	h->state_deadline_ns = h->shutdown_deadline_ns;
	send_property(h, NVMF_PROPERTY_SET, NVME_PROP_CC, enable_bits(h) | NVME_CC_SHN_NORMAL,
		      now_ns);
}

static void await_shutdown(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	h->state_deadline_ns = h->shutdown_deadline_ns;
	h->poll_interval_ns = POLL_FIRST_NS;
	steps_poll(h, now_ns);
}

static bool is_shut_down(struct host *h, uint16_t qid, const struct nvme_cqe *cqe, uint64_t now_ns)
{
	(void)qid;
	if ((cqe->result & NVME_CSTS_SHST_MASK) == NVME_CSTS_SHST_DONE) {
		host_close_queues(h, 0);
		return true;
	}
	if (cqe->result & NVME_CSTS_CFS) {
		host_lose_for(h, HOST_FAIL_FATAL, 0, NULL);
		return false;
	}
	return look_again(h, now_ns);
}

static void closed(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	queues_end(h, -ECANCELED, now_ns);
}

/* --- the tables ------------------------------------------------------------------------------- */

static void alive(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	live_enter(h, now_ns);
}

static const struct host_step bring_up[] = {
	{HOST_OPENING, .begin = begin_open},
	{HOST_CONNECT, .begin = send_connect, .end = take_connect},
	{HOST_AUTHENTICATE, must_authenticate, begin_auth, go_on_with_auth},
	{HOST_SECURE, has_psk, begin_secure},
	{HOST_READ_CAP, .begin = read_cap, .end = take_cap},
	{HOST_READ_VS, .begin = read_vs, .end = take_vs},
	{HOST_ENABLE, .begin = enable},
	{HOST_WAIT_READY, .begin = await_ready, .end = is_ready},
	{HOST_IDENTIFY, .begin = identify, .end = take_identify},
	{HOST_SET_EVENTS, wants_events, set_events, .optional = true},
	{HOST_SET_QUEUES, wants_io, set_queues, take_queues},
	{HOST_IO_CONNECT, wants_io, begin_io_queues},
	{HOST_NAMESPACES, knows_namespaces, look_at_namespaces},
	{HOST_LIVE, .begin = alive},
};

static void authenticated_again(struct host *h, uint16_t qid, uint64_t now_ns)
{
	(void)qid;
	(void)now_ns;
	h->auth.again = false;
	if (h->auth.psk.len)
		(void)use_psk(h);
}

static const struct host_step authenticate_again[] = {
	{HOST_LIVE, .begin = begin_auth, .end = go_on_with_auth},
	{HOST_LIVE, .begin = authenticated_again},
};

static const struct host_step shut_down[] = {
	{HOST_SHUTDOWN, .begin = begin_shutdown},
	{HOST_SHUTDOWN_WAIT, .begin = await_shutdown, .end = is_shut_down},
	{HOST_CLOSED, .begin = closed},
};

static void begin(struct host *h, uint16_t qid, const struct host_step *s, uint64_t now_ns)
{
	while (s->wanted && !s->wanted(h, qid))
		s++;
	h->queues[qid].step = s;
	if (qid == 0 && s->state != h->state)
		host_set_state(h, s->state, now_ns);
	s->begin(h, qid, now_ns);
}

static void go_on(struct host *h, uint16_t qid, uint64_t now_ns)
{
	begin(h, qid, h->queues[qid].step + 1, now_ns);
}

void steps_bring_up(struct host *h, uint64_t now_ns)
{
	begin(h, 0, bring_up, now_ns);
}

void steps_shut_down(struct host *h, uint64_t now_ns)
{
	begin(h, 0, shut_down, now_ns);
}

void steps_authenticate(struct host *h, uint64_t now_ns)
{
	h->auth.again = true;
	begin(h, 0, authenticate_again, now_ns);
}

void steps_opened(struct host *h, uint16_t qid, uint64_t now_ns)
{
	go_on(h, qid, now_ns);
}
