/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Fabrics commands: Connect, Property Get and Set. Base 2.0 section 6. */
#include "nvmf/target/internal.h"

/* --- Connect --------------------------------------------------------------------------------
 *
 * A parameter that is wrong is named in the result: IATTR says whether it stands in the SQE or
 * in the data, IPO at which byte.
 */

static void refuse(struct target_req *r, uint16_t status, const struct nvmf_connect_data *d)
{
	struct target_event e = {.type = TARGET_EVENT_CONNECT_REFUSED,
				 .queue = r->queue,
				 .peer = r->queue->raddr,
				 .status = status & NVME_STATUS_CODE};
	char hostnqn[NVME_NQN_LEN + 1] = "", subnqn[NVME_NQN_LEN + 1] = "";

	if (d) {
		memcpy(hostnqn, d->hostnqn, NVME_NQN_LEN);
		memcpy(subnqn, d->subnqn, NVME_NQN_LEN);
		e.hostnqn = hostnqn;
		e.subnqn = subnqn;
	}
	target_emit(r->queue->target, &e);
	req_complete(r, status);
}

static void refuse_data(struct target_req *r, uint16_t offset, const struct nvmf_connect_data *d)
{
	r->cqe.result = nvmf_connect_ipo(true, offset);
	refuse(r, FAIL(NVME_SC_CONNECT_INVALID_PARAM), d);
}

static void refuse_sqe(struct target_req *r, uint16_t offset, const struct nvmf_connect_data *d)
{
	r->cqe.result = nvmf_connect_ipo(false, offset);
	r->error_location = offset;
	refuse(r, FAIL(NVME_SC_CONNECT_INVALID_PARAM), d);
}

static struct target_subsys *find_subsys(struct target *t, const char nqn[NVME_NQN_LEN])
{
	list_for_each(s, &t->subsystems, struct target_subsys, link)
		if (nvmf_nqn_equal(nqn, s->nqn))
			return s;
	return NULL;
}

static bool host_allowed(const struct target_subsys *s, const char hostnqn[NVME_NQN_LEN])
{
	for (uint32_t i = 0; s->hosts && i < s->host_count; i++)
		if (nvmf_nqn_equal(hostnqn, s->hosts[i]))
			return true;
	return s->hosts == NULL;
}

static struct target_ctrl *find_ctrl(struct target_subsys *s, uint16_t cntlid)
{
	list_for_each(c, &s->ctrls, struct target_ctrl, link)
		if (c->cntlid == cntlid)
			return c;
	return NULL;
}

static void connected(struct target_req *r, const struct nvmf_connect *co, struct target_ctrl *c)
{
	struct target_queue *q = r->queue;

	q->ctrl = c;
	q->subsys = c->subsys;
	memcpy(q->hostid, c->hostid, sizeof(q->hostid));
	q->entries = (uint16_t)(co->sqsize + 1);
	q->sqhd = 0;
	q->no_sq_flow = co->cattr & NVMF_CATTR_NO_SQ_FLOW;
	c->queues[q->qid] = q;
	if (!q->qid)
		memcpy(c->raddr, q->raddr, sizeof(c->raddr));
	timer_cancel(&q->target->connect_timers, &q->connect_timer);
	target_emit(q->target, &(struct target_event){.type = q->qid ? TARGET_EVENT_QUEUE_NEW
								     : TARGET_EVENT_CTRL_NEW,
						      .ctrl = c,
						      .queue = q,
						      .peer = q->raddr});
	r->cqe.result = c->cntlid;
	req_complete(r, NVME_SC_SUCCESS);
}

/* False if the transport has no room for the queue; the host was told then. */
static bool admitted(struct target_req *r, const struct nvmf_connect_data *d)
{
	struct target_queue *q = r->queue;

	if (!q->ops->admit || q->ops->admit(q) == 0)
		return true;
	refuse(r, NVME_SC_CONNECT_CTRL_BUSY, d);
	return false;
}

static void connect_admin(struct target_req *r, const struct nvmf_connect *co,
			  const struct nvmf_connect_data *d, struct target_subsys *s)
{
	struct target_ctrl *c;

	/* The controllers here are dynamic: a host gets the next one that is free. */
	if (d->cntlid != NVMF_CNTLID_DYNAMIC) {
		refuse_data(r, NVMF_CONNECT_DATA_CNTLID, d);
		return;
	}
	if (!ctrl_has_room(s, r->queue->peer)) {
		refuse(r, NVME_SC_CONNECT_CTRL_BUSY, d);
		return;
	}
	if (!admitted(r, d))
		return;
	c = ctrl_create(s, d, r->queue->peer, co->kato_ms);
	if (!c) {
		refuse(r, NVME_SC_CONNECT_CTRL_BUSY, d);
		return;
	}
	connected(r, co, c);
}

static void connect_io(struct target_req *r, const struct nvmf_connect *co,
		       const struct nvmf_connect_data *d, struct target_subsys *s)
{
	struct target_ctrl *c = find_ctrl(s, d->cntlid);

	if (!c || s->discovery) {
		refuse_data(r, NVMF_CONNECT_DATA_CNTLID, d);
	} else if (memcmp(c->hostnqn, d->hostnqn, NVME_NQN_LEN) != 0) {
		refuse_data(r, NVMF_CONNECT_DATA_HOSTNQN, d);
	} else if (memcmp(c->hostid, d->hostid, sizeof(c->hostid)) != 0) {
		refuse_data(r, 0, d);
	} else if (!(c->csts & NVME_CSTS_RDY) || co->qid > TARGET_IO_QUEUES_MAX) {
		refuse_sqe(r, NVMF_CONNECT_SQE_QID, d);
	} else if (c->queues[co->qid]) {
		refuse(r, FAIL(NVME_SC_CMD_SEQ_ERROR), d);
	} else if (admitted(r, d)) {
		c->io_queues++;
		c->traffic = true;
		connected(r, co, c);
	}
}

static void execute_connect(struct target_req *r)
{
	struct target_queue *q = r->queue;
	struct cursor cur = cursor_init(r->data, NVMF_CONNECT_DATA_LEN);
	struct nvmf_connect_data d;
	struct nvmf_connect co;
	struct target_subsys *s;

	/* A second Connect may have come while the data of the first was on its way. */
	if (q->ctrl || q->entries) {
		req_complete(r, FAIL(NVME_SC_CMD_SEQ_ERROR));
		return;
	}
	nvmf_connect_from_sqe(&co, &r->sqe);
	nvmf_connect_data_get(&cur, &d);
	if (co.recfmt != 0) {
		refuse(r, FAIL(NVME_SC_CONNECT_FORMAT), &d);
		return;
	}
	if (co.qid != q->qid) {
		refuse_sqe(r, NVMF_CONNECT_SQE_QID, &d);
		return;
	}
	/* The size is zero-based; a queue of one entry could hold no command. */
	if (co.sqsize == 0 || co.sqsize >= TARGET_QUEUE_ENTRIES_MAX ||
	    co.sqsize >= q->entries_max) {
		refuse_sqe(r, NVMF_CONNECT_SQE_SQSIZE, &d);
		return;
	}
	s = memchr(d.subnqn, 0, NVME_NQN_LEN) ? find_subsys(q->target, d.subnqn) : NULL;
	if (!s) {
		refuse_data(r, NVMF_CONNECT_DATA_SUBNQN, &d);
		return;
	}
	/* A host without a name comes where any host may come, as with Linux's target: SPDK's
	 * perf is one. */
	if (!nvmf_nqn_valid(d.hostnqn, sizeof(d.hostnqn)) && (d.hostnqn[0] || s->hosts)) {
		refuse_data(r, NVMF_CONNECT_DATA_HOSTNQN, &d);
		return;
	}
	if (!host_allowed(s, d.hostnqn)) {
		refuse(r, FAIL(NVME_SC_CONNECT_INVALID_HOST), &d);
		return;
	}
	if (q->qid == 0)
		connect_admin(r, &co, &d, s);
	else
		connect_io(r, &co, &d, s);
}

uint16_t parse_connect(struct target_req *r)
{
	/* A queue that has or had a controller is not connected a second time. */
	if (r->queue->ctrl || r->queue->entries)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	r->execute = execute_connect;
	return req_expects(r, NVMF_CONNECT_DATA_LEN);
}

/* --- properties ------------------------------------------------------------------------------ */

static void execute_property_get(struct target_req *r)
{
	const struct target_ctrl *c = r->queue->ctrl;
	struct nvmf_prop p;
	uint16_t status = NVME_SC_SUCCESS;

	nvmf_prop_from_sqe(&p, &r->sqe);
	if (p.wide && p.offset == NVME_PROP_CAP)
		r->cqe.result = c->cap;
	else if (!p.wide && p.offset == NVME_PROP_VS)
		r->cqe.result = NVME_VS(1, 4, 0);
	else if (!p.wide && p.offset == NVME_PROP_CC)
		r->cqe.result = c->cc;
	else if (!p.wide && p.offset == NVME_PROP_CSTS)
		r->cqe.result = c->csts;
	else
		status = req_fail_at(r, 44, FAIL(NVME_SC_INVALID_FIELD));
	req_complete(r, status);
}

uint16_t parse_property_get(struct target_req *r)
{
	r->execute = execute_property_get;
	return NVME_SC_SUCCESS;
}

static void execute_property_set(struct target_req *r)
{
	struct nvmf_prop p;

	nvmf_prop_from_sqe(&p, &r->sqe);
	if (p.wide || p.offset != NVME_PROP_CC) {
		req_complete(r, req_fail_at(r, 44, FAIL(NVME_SC_INVALID_FIELD)));
		return;
	}
	ctrl_set_cc(r->queue->ctrl, (uint32_t)p.value);
	req_complete(r, NVME_SC_SUCCESS);
}

uint16_t parse_property_set(struct target_req *r)
{
	r->execute = execute_property_set;
	return NVME_SC_SUCCESS;
}

uint16_t parse_fabrics(struct target_req *r)
{
	uint8_t type = nvmf_fctype(&r->sqe);

	if (type == NVMF_CONNECT)
		return parse_connect(r);
	if (!r->queue->ctrl)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	if (r->queue->qid == 0 && type == NVMF_PROPERTY_GET)
		return parse_property_get(r);
	if (r->queue->qid == 0 && type == NVMF_PROPERTY_SET)
		return parse_property_set(r);
	return req_fail_at(r, 4, FAIL(NVME_SC_INVALID_OPCODE));
}
