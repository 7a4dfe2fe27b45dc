/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host_peer.h"
#include "plain_host.h"
#include "wire/nvme_log.h"

static int peer_open(void *t, uint16_t qid, uint16_t entries, uint16_t cntlid)
{
	struct peer *p = t;

	(void)cntlid;
	p->opens++;
	if (p->refuse_open)
		return -ECONNREFUSED;
	assert_false(p->open[qid]);
	p->to_open[qid] = entries;
	return 0;
}

static void peer_close(void *t, uint16_t qid)
{
	struct peer *p = t;

	p->closes++;
	p->open[qid] = false;
	p->to_open[qid] = 0;
	for (uint32_t i = 0; i < p->sent_count; i++)
		if (p->sent[i].qid == qid)
			p->sent[i].answered = true;
}

static int peer_submit(void *t, uint16_t qid, struct host_request *req, bool in_capsule)
{
	struct peer *p = t;
	struct sent *s;

	p->submits++;
	assert_true(p->open[qid]);
	if (p->submit_broken)
		return -EIO;
	if (p->submit_again) {
		p->submit_again--;
		return -EAGAIN;
	}
	if (p->submit_no_memory) {
		p->submit_no_memory--;
		return -ENOMEM;
	}
	/* The invariant: an ID that is out is not given again. */
	for (uint32_t i = 0; i < p->sent_count; i++)
		if (p->sent[i].qid == qid && !p->sent[i].answered)
			assert_int_not_equal(p->sent[i].sqe.cid, req->sqe.cid);
	assert_int_not_equal(req->sqe.cid, 0xffff);
	assert_in_range(host_slot_of(req->sqe.cid), 0, p->queues[qid].entries - 1);
	assert_int_equal(req->sqe.flags & NVME_SQE_PSDT_MASK, NVME_SQE_PSDT_SGL);
	assert_in_range(p->sent_count, 0, PEER_SENT_MAX - 1);
	s = &p->sent[p->sent_count++];
	*s = (struct sent){.qid = qid, .sqe = req->sqe, .req = req, .in_capsule = in_capsule};
	return 0;
}

static void peer_release(void *t, uint16_t qid, struct host_request *req)
{
	struct peer *p = t;

	(void)qid;
	(void)req;
	p->releases++;
}

static void peer_event(void *arg, uint32_t result)
{
	struct peer *p = arg;

	p->events++;
	p->last_event = result;
}

static void peer_changed(void *arg, enum host_state from, enum host_state to, uint64_t now_ns)
{
	struct peer *p = arg;

	(void)from;
	assert_int_equal(now_ns, p->now_ns);
	if (p->trail_len < ARRAY_SIZE(p->trail))
		p->trail[p->trail_len++] = to;
}

static void peer_lost(void *arg, uint32_t nsid)
{
	struct peer *p = arg;

	p->lost++;
	p->last_lost = nsid;
}

struct peer *peer_new(void)
{
	struct peer *p = calloc(1, sizeof(*p));

	p->now_ns = NSEC_PER_MSEC;
	p->config = plain_host("nqn.2024-01.test:disk", 2, PEER_ENTRIES);
	p->config.keep_alive_ms = 10000;
	p->config.reconnect_delay_ns = NSEC_PER_SEC;
	p->config.loss_timeout_ns = 30 * NSEC_PER_SEC;
	p->config.changed = peer_changed;
	p->config.event = peer_event;
	p->config.namespace_lost = peer_lost;
	p->config.arg = p;
	p->transport = (struct host_transport){
		.open = peer_open,
		.close = peer_close,
		.submit = peer_submit,
		.release = peer_release,
		.keyed = true,
	};
	p->cap = 127 | 3ull << NVME_CAP_TO_SHIFT | NVME_CAP_CSS_NVM;
	p->csts = NVME_CSTS_RDY;
	p->csts_after_shn = NVME_CSTS_RDY | NVME_CSTS_SHST_DONE;
	p->vs = NVME_VS(1, 3, 0);
	for (int i = 0; i < PEER_NAMESPACES; i++)
		p->ns[i] = (struct peer_ns){.block_shift = 9, .blocks = 1000};
	p->queues_granted = 128;
	p->id = (struct nvme_id_ctrl){
		.mdts = 5,
		.cntlid = 7,
		.sgls = NVME_SGLS_SUPPORTED | NVME_SGLS_KEYED | NVME_SGLS_OFFSET,
		.ioccsz = 4 + 4096 / 16,
		.iorcsz = 1,
		.oaes = NVME_OAES_NS_ATTR,
		.maxcmd = 128,
	};
	return p;
}

void peer_init(struct peer *p)
{
	assert_int_equal(
		host_init(&p->host, &p->config, &p->transport, p, p->queues, p->places, p->scratch),
		0);
}

void peer_free(struct peer *p)
{
	free(p);
}

void peer_answer(struct peer *p, struct sent *s, uint16_t status, uint64_t result)
{
	struct nvme_cqe cqe = {.result = result, .cid = s->sqe.cid, .status = status};
	uint8_t capsule[NVME_CQE_LEN];
	struct wcursor w = wcursor_init(capsule, sizeof(capsule));

	assert_false(s->answered);
	s->answered = true;
	nvme_cqe_put(&w, &cqe);
	host_queue_response(&p->host, s->qid, capsule, sizeof(capsule), p->now_ns);
}

static uint16_t answer_identify(struct peer *p, const struct sent *s)
{
	const struct peer_ns *ns = &p->ns[s->sqe.nsid ? s->sqe.nsid - 1 : 0];
	struct wcursor w = wcursor_init(s->req->data, s->req->data_len);
	struct nvme_id_ns id = {.nsze = ns->blocks, .lbaf[0].ds = ns->block_shift};
	uint8_t bytes[16];

	memset(s->req->data, 0, s->req->data_len);
	switch (s->sqe.cdw10) {
	case NVME_CNS_ACTIVE_NS_LIST:
		p->lists++;
		for (uint32_t i = s->sqe.nsid; i < PEER_NAMESPACES; i++)
			if (p->ns[i].blocks)
				wcursor_le32(&w, i + 1);
		return p->status_of_list;
	case NVME_CNS_NS:
		p->looks++;
		assert_in_range(s->sqe.nsid, 1, PEER_NAMESPACES);
		memset(id.nguid, ns->nguid, sizeof(id.nguid));
		nvme_id_ns_put(&w, &id);
		return ns->status;
	case NVME_CNS_NS_DESC_LIST:
		p->looks++;
		memset(bytes, ns->uuid, sizeof(bytes));
		if (ns->uuid)
			nvme_ns_desc_put(&w, NVME_NIDT_UUID, bytes, sizeof(bytes));
		return ns->status_of_descs;
	default:
		nvme_id_ctrl_put(&w, &p->id);
		return 0;
	}
}

/* Answers the host's own commands; true if it did. */
static bool answer_own(struct peer *p, struct sent *s)
{
	const struct nvme_sqe *sqe = &s->sqe;
	uint16_t status = s->req == &p->queues[s->qid].own ? p->status_of_step[p->host.state] : 0;
	uint64_t result = 0;
	struct nvmf_prop prop;

	if (s->req == &p->host.event)
		return false;
	if (s->req == &p->host.keep_alive) {
		p->keep_alives++;
		peer_answer(p, s, 0, 0);
		return true;
	}
	if (sqe->opcode == NVME_FABRICS && nvmf_fctype(sqe) == NVMF_CONNECT) {
		struct cursor c = cursor_init(s->req->data, s->req->data_len);

		nvmf_connect_from_sqe(&p->connect[s->qid], sqe);
		nvmf_connect_data_get(&c, &p->connect_data[s->qid]);
		assert_int_equal(p->connect[s->qid].qid, s->qid);
		result = 7;
	} else if (sqe->opcode == NVME_FABRICS && nvmf_fctype(sqe) == NVMF_PROPERTY_GET) {
		nvmf_prop_from_sqe(&prop, sqe);
		result = prop.offset == NVME_PROP_CAP  ? p->cap
			 : prop.offset == NVME_PROP_VS ? p->vs
			 : NVME_CC_SHN(p->cc)	       ? p->csts_after_shn
						       : p->csts;
	} else if (sqe->opcode == NVME_FABRICS && nvmf_fctype(sqe) == NVMF_PROPERTY_SET) {
		nvmf_prop_from_sqe(&prop, sqe);
		assert_int_equal(prop.offset, NVME_PROP_CC);
		p->cc = (uint32_t)prop.value;
	} else if (sqe->opcode == NVME_ADMIN_IDENTIFY) {
		status = status ? status : answer_identify(p, s);
	} else if (sqe->opcode == NVME_ADMIN_GET_LOG_PAGE) {
		assert_int_equal(sqe->cdw10 & 0xff, NVME_LID_CHANGED_NS);
		assert_false(sqe->cdw10 & NVME_GET_LOG_RAE);
		p->logs++;
	} else if (sqe->opcode == NVME_ADMIN_SET_FEATURES &&
		   NVME_FEATURE_FID(sqe->cdw10) == NVME_FID_NUM_QUEUES) {
		result = NVME_NUM_QUEUES(p->queues_granted, p->queues_granted);
	}
	peer_answer(p, s, status, status ? p->result_of_refusal : result);
	return true;
}

static bool own(const struct peer *p, const struct host_request *req)
{
	for (int i = 0; i <= PEER_QUEUES; i++)
		if (req == &p->queues[i].own)
			return true;
	return req == &p->host.keep_alive || req == &p->host.event || req == &p->host.look.request;
}

bool peer_round(struct peer *p)
{
	uint32_t count = p->sent_count;
	uint16_t to_open[1 + PEER_QUEUES];
	bool any = false;

	memcpy(to_open, p->to_open, sizeof(to_open));
	for (uint16_t i = 0; i <= PEER_QUEUES; i++) {
		uint16_t entries = to_open[i];

		/* One that was opened may have lost all of them. */
		if (!entries || !p->to_open[i] || (i ? p->silent_io_open : p->silent_open))
			continue;
		p->to_open[i] = 0;
		p->open[i] = true;
		host_queue_opened(&p->host, i, p->limit ? p->limit : entries, p->now_ns);
		any = true;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct sent *s = &p->sent[i];

		if (s->answered || !own(p, s->req))
			continue;
		if (p->mute_from && p->bring_up_answered + 1 >= p->mute_from)
			continue;
		if (answer_own(p, s)) {
			p->bring_up_answered++;
			any = true;
		}
	}
	return any;
}

void peer_run(struct peer *p)
{
	while (peer_round(p))
		;
}

void peer_bring_up(struct peer *p)
{
	peer_init(p);
	host_start(&p->host, p->now_ns);
	peer_run(p);
	if (p->host.state != HOST_LIVE)
		fail_msg("the host is in state '%s', failure %d", host_state_name(p->host.state),
			 p->host.failure.kind);
}

void peer_advance(struct peer *p, uint64_t by_ns)
{
	uint64_t end_ns = p->now_ns + by_ns;

	for (;;) {
		uint64_t next = host_next_deadline(&p->host);

		if (next > end_ns)
			break;
		if (next > p->now_ns)
			p->now_ns = next;
		host_tick(&p->host, p->now_ns);
		assert_true(host_next_deadline(&p->host) > p->now_ns);
		peer_run(p);
	}
	p->now_ns = end_ns;
}

struct sent *peer_next(struct peer *p, uint16_t qid)
{
	for (uint32_t i = 0; i < p->sent_count; i++)
		if (p->sent[i].qid == qid && !p->sent[i].answered && !own(p, p->sent[i].req))
			return &p->sent[i];
	return NULL;
}

unsigned int peer_outstanding(const struct peer *p, uint16_t qid)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < p->sent_count; i++)
		n += p->sent[i].qid == qid && !p->sent[i].answered && !own(p, p->sent[i].req);
	return n;
}
