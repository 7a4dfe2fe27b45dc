/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Fabrics commands: Connect, Property Get and Set. Base 2.0 section 6. */
#include "nvmf/target/internal.h"

/* --- Connect --------------------------------------------------------------------------------
 *
 * The admin plane looks whether the host may have the queue, the queue's group has the transport
 * admit it, the admin plane takes it in, and the group knows its controller from then on. Where it
 * is refused, at whatever point, the queue is what it was before: the host may send another.
 *
 * A parameter that is wrong is named in the result: IATTR says whether it stands in the SQE or
 * in the data, IPO at which byte.
 */

/* The group's. */
static void answered(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target_queue *q = r->queue;

	q->connecting = false;
	if (q->late_qid && !q->disconnected) /* then the admin plane may be telling of its end */
		q->qid = TARGET_QID_UNKNOWN;
	req_complete(r, r->cqe.status);
}

static void refuse(struct target_req *r, uint16_t status, const struct nvmf_connect_data *d)
{
	struct target_event e = {.type = TARGET_EVENT_CONNECT_REFUSED,
				 .queue = r->queue,
				 .peer = r->queue->raddr,
				 .status = status & NVME_STATUS_CODE};
	char hostnqn[NVME_NQN_LEN + 1] = "", subnqn[NVME_NQN_LEN + 1] = "";

	memcpy(hostnqn, d->hostnqn, NVME_NQN_LEN);
	memcpy(subnqn, d->subnqn, NVME_NQN_LEN);
	e.hostnqn = hostnqn;
	e.subnqn = subnqn;
	target_emit(r->queue->target, &e);
	r->cqe.status = status;
	group_tell(&r->queue->target->group, r->queue->group, &r->msg, answered);
}

static uint16_t bad_data(struct target_req *r, uint16_t offset)
{
	r->cqe.result = nvmf_connect_ipo(true, offset);
	return FAIL(NVME_SC_CONNECT_INVALID_PARAM);
}

static uint16_t bad_sqe(struct target_req *r, uint16_t offset)
{
	r->cqe.result = nvmf_connect_ipo(false, offset);
	return req_fail_at(r, offset, FAIL(NVME_SC_CONNECT_INVALID_PARAM));
}

/* Of those that are offered where the host came to, unless that port has gone since. */
static struct target_subsys *find_subsys(const struct target_queue *q, const char nqn[NVME_NQN_LEN])
{
	list_for_each(s, &q->target->subsystems, struct target_subsys, link)
		if (q->port && !list_empty(&q->port->link) && target_offers(q->port, s) &&
		    (nvmf_nqn_equal(nqn, s->nqn) ||
		     (s->discovery && nvmf_nqn_equal(nqn, NVMF_DISCOVERY_NQN))))
			return s;
	return NULL;
}

static struct target_ctrl *find_ctrl(struct target_subsys *s, uint16_t cntlid)
{
	list_for_each(c, &s->ctrls, struct target_ctrl, link)
		if (c->cntlid == cntlid)
			return c;
	return NULL;
}

static uint16_t check_admin(struct target_req *r, const struct nvmf_connect_data *d,
			    const struct target_subsys *s)
{
	/* The controllers here are dynamic: a host gets the next one that is free. */
	if (d->cntlid != NVMF_CNTLID_DYNAMIC)
		return bad_data(r, NVMF_CONNECT_DATA_CNTLID);
	/* An admin queue is where the admin plane is. */
	if (r->queue->group != &r->queue->target->group)
		return bad_sqe(r, NVMF_CONNECT_SQE_QID);
	if (tls_is_taken(r->queue))
		return FAIL(NVME_SC_CONNECT_INVALID_HOST);
	return ctrl_has_room(s, r->queue->peer) ? NVME_SC_SUCCESS : NVME_SC_CONNECT_CTRL_BUSY;
}

static uint16_t check_io(struct target_req *r, const struct nvmf_connect *co,
			 const struct nvmf_connect_data *d, struct target_subsys *s)
{
	const struct target_ctrl *c = find_ctrl(s, d->cntlid);

	if (!c || s->discovery)
		return bad_data(r, NVMF_CONNECT_DATA_CNTLID);
	if (memcmp(c->hostnqn, d->hostnqn, NVME_NQN_LEN) != 0)
		return bad_data(r, NVMF_CONNECT_DATA_HOSTNQN);
	if (memcmp(c->hostid, d->hostid, sizeof(c->hostid)) != 0)
		return bad_data(r, 0);
	/* Nobody comes beside one who has proved who he is. */
	if (c->secure != r->queue->secure)
		return FAIL(NVME_SC_CONNECT_INVALID_HOST);
	/* Nor by the key that another association has proved. */
	if (r->queue->psk && (!c->queues[0] || c->queues[0]->psk != r->queue->psk))
		return FAIL(NVME_SC_CONNECT_INVALID_HOST);
	if (!(c->csts & NVME_CSTS_RDY) || co->qid > io_queues_max(s))
		return bad_sqe(r, NVMF_CONNECT_SQE_QID);
	return c->queues[co->qid] ? FAIL(NVME_SC_CMD_SEQ_ERROR) : NVME_SC_SUCCESS;
}

struct connect {
	struct nvmf_connect co;
	struct nvmf_connect_data data;
	struct target_subsys *subsys;
};

/* Whether the host may have what it asks for, as things are. */
static uint16_t check(struct target_req *r, struct connect *c)
{
	const struct nvmf_connect_data *d = &c->data;
	struct cursor cur = cursor_init(r->data, NVMF_CONNECT_DATA_LEN);
	struct target_queue *q = r->queue;
	struct target_subsys *s;

	nvmf_connect_from_sqe(&c->co, &r->sqe);
	nvmf_connect_data_get(&cur, &c->data);
	if (q->owner || q->left) /* by another Connect; the connection has ended */
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	if (c->co.recfmt != 0)
		return FAIL(NVME_SC_CONNECT_FORMAT);
	if (c->co.qid != q->qid && q->qid != TARGET_QID_UNKNOWN)
		return bad_sqe(r, NVMF_CONNECT_SQE_QID);
	/* The size is zero-based; a queue of one entry could hold no command. */
	if (c->co.sqsize == 0 || c->co.sqsize >= q->entries_max ||
	    (c->co.qid && c->co.sqsize >= io_entries_max(q, q->entries_max)))
		return bad_sqe(r, NVMF_CONNECT_SQE_SQSIZE);
	/* By TLS, who and what the handshake was about. */
	if (q->secure && (!nvmf_nqn_equal(d->hostnqn, q->tls_hostnqn) ||
			  !nvmf_nqn_equal(d->subnqn, q->tls_subnqn)))
		return FAIL(NVME_SC_CONNECT_INVALID_HOST);
	s = memchr(d->subnqn, 0, NVME_NQN_LEN) ? find_subsys(q, d->subnqn) : NULL;
	if (!s)
		return bad_data(r, NVMF_CONNECT_DATA_SUBNQN);
	/* A host without a name comes where any host may come, as with Linux's target: SPDK's
	 * perf is one. */
	if (!nvmf_nqn_valid(d->hostnqn, sizeof(d->hostnqn)) && (d->hostnqn[0] || s->hosts))
		return bad_data(r, NVMF_CONNECT_DATA_HOSTNQN);
	if (!target_allows(s, d->hostnqn))
		return FAIL(NVME_SC_CONNECT_INVALID_HOST);
	c->subsys = s;
	return c->co.qid ? check_io(r, &c->co, d, s) : check_admin(r, d, s);
}

/* The group's. */
static void connected(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target_queue *q = r->queue;
	struct nvmf_connect co;

	nvmf_connect_from_sqe(&co, &r->sqe);
	if (q->disconnected) {
		req_complete(r, NVME_SC_ABORT_QUEUE);
		return;
	}
	q->ctrl = r->connected;
	q->entries = (uint16_t)(co.sqsize + 1);
	q->sqhd = 0;
	q->no_sq_flow = co.cattr & NVMF_CATTR_NO_SQ_FLOW;
	q->authenticated = !NVMF_CONNECT_ATR(r->cqe.result);
	if (q->group->figures)
		figures_queue_begin(q->group->figures, q);
	if (q->authenticated)
		timer_cancel(&q->group->connect_timers, &q->connect_timer);
	else
		timer_arm(&q->group->connect_timers, &q->connect_timer,
			  q->group->now_ns + TARGET_AUTH_NS);
	req_complete(r, NVME_SC_SUCCESS);
}

static void join(struct target_req *r, const struct connect *con, struct target_ctrl *c)
{
	struct target_queue *q = r->queue;

	q->owner = r->connected = c;
	q->subsys = c->subsys;
	q->subsys->queues++;
	memcpy(q->hostid, c->hostid, sizeof(q->hostid));
	c->attached++;
	/* Who has come by a key that an authentication generated has proved himself by that. A host
	 * that has a key only since its admin queue came proves itself on what comes from then on:
	 * anybody can know its names. */
	q->unproved = !q->psk && (c->must_prove || host_must_prove(c->subsys, c->hostnqn));
	if (con->co.qid && q->unproved)
		list_push_tail(&c->unbound, &q->unbound);
	else
		(void)ctrl_bind_queue(c, q); /* that there is none was looked at */
	if (!con->co.qid) {
		tls_take(q);
		memcpy(c->raddr, q->raddr, sizeof(c->raddr));
		ctrl_arm_kato(c);
		if (c->subsys->discovery)
			discovery_begin(c);
	}
	target_emit(q->target, &(struct target_event){.type = con->co.qid ? TARGET_EVENT_QUEUE_NEW
									  : TARGET_EVENT_CTRL_NEW,
						      .ctrl = c,
						      .queue = q,
						      .peer = q->raddr});
	r->cqe.result = c->cntlid | (q->unproved ? NVMF_CONNECT_ATR_BIT : 0);
	group_tell(&q->target->group, q->group, &r->msg, connected);
}

/* The admin plane's: what was looked at before may be otherwise by now. */
static void take_in(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	uint16_t status = r->cqe.status;
	struct target_ctrl *c = NULL;
	struct connect con;
	uint16_t now = check(r, &con);

	if (!status)
		status = now;
	if (!status) {
		c = con.co.qid ? find_ctrl(con.subsys, con.data.cntlid)
			       : ctrl_create(con.subsys, &con.data, r->queue, con.co.kato_ms);
		if (!c)
			status = NVME_SC_CONNECT_CTRL_BUSY;
	}
	if (status)
		refuse(r, status, &con.data);
	else
		join(r, &con, c);
}

/* The group's. Only now the transport has all that the queue takes: not for anybody who asks. */
static void admit(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target_queue *q = r->queue;
	struct nvmf_connect co;

	if (q->disconnected) {
		req_complete(r, NVME_SC_ABORT_QUEUE);
		return;
	}
	nvmf_connect_from_sqe(&co, &r->sqe);
	q->qid = co.qid;
	q->entries_asked = (uint16_t)(co.sqsize + 1);
	r->cqe.status = q->ops->admit && q->ops->admit(q) != 0 ? NVME_SC_CONNECT_CTRL_BUSY
							       : NVME_SC_SUCCESS;
	group_tell(q->group, &q->target->group, m, take_in);
}

static void look_at(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct connect con;
	uint16_t status = check(r, &con);

	if (status)
		refuse(r, status, &con.data);
	else
		group_tell(&r->queue->target->group, r->queue->group, m, admit);
}

static void execute_connect(struct target_req *r)
{
	struct target_queue *q = r->queue;

	/* A second Connect may have come while the data of the first was on its way. */
	if (q->connecting || q->entries) {
		req_complete(r, FAIL(NVME_SC_CMD_SEQ_ERROR));
		return;
	}
	q->connecting = true;
	group_tell(q->group, &q->target->group, &r->msg, look_at);
}

uint16_t parse_connect(struct target_req *r)
{
	/* A queue that has or had a controller is not connected a second time. */
	if (r->queue->ctrl || r->queue->entries)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	r->execute = execute_connect;
	return req_expects(r, NVMF_CONNECT_DATA_LEN);
}

/* --- Disconnect ------------------------------------------------------------------------------
 *
 * It ends the I/O queue on which it comes, as a command: what waits on that is aborted, what is
 * under way goes to its end, and the controller has forgotten the queue when its host hears of it:
 * the queue's ID is free. The connection is left to the host, for a moment. Base 2.0 section 6.4.
 */

#define SQE_RECFMT 40

static void deleted(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target_queue *q = r->queue;

	if (!q->disconnected) {
		q->parted = true;
		timer_arm(&q->group->connect_timers, &q->connect_timer,
			  q->group->now_ns + TARGET_PARTING_NS);
	}
	req_complete(r, NVME_SC_SUCCESS);
}

/* The admin plane's: unless the controller has ended meanwhile. */
static void delete_queue(struct target_msg *m)
{
	struct target_queue *q = msg_req(m)->queue;

	if (q->owner) {
		q->parts = q->owner;
		ctrl_forget_queue(q->owner, q);
	}
	group_tell(&q->target->group, q->group, m, deleted);
}

/* Nothing else is on the queue. */
static void execute_parting(struct target_req *r)
{
	r->queue->parting = NULL;
	group_tell(r->queue->group, &r->queue->target->group, &r->msg, delete_queue);
}

static struct target_req *not_aborted(const struct target_queue *q, const struct target_req *but)
{
	list_for_each(r, &q->reqs, struct target_req, link)
		if (r != but && !r->aborting && r->state != TARGET_REQ_HELD)
			return r;
	return NULL;
}

/* The group's: nothing more of it is held by the admin plane. */
static void part(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target_queue *q = r->queue;
	struct target_req *victim;

	(void)fused_abort_first(q, NULL, NVME_SC_ABORT_QUEUE);
	while ((victim = not_aborted(q, r)))
		(void)req_abort(victim, NVME_SC_ABORT_QUEUE);
	r->execute = execute_parting;
	q->parting = r;
	if (list_is_single(&q->reqs))
		execute_parting(r);
}

static void end_what_is_held(struct target_msg *m)
{
	struct target_queue *q = msg_req(m)->queue;

	held_abort_all(q, NVME_SC_ABORT_QUEUE);
	group_tell(&q->target->group, q->group, m, part);
}

static void execute_disconnect(struct target_req *r)
{
	r->queue->ending = true;
	group_tell(r->queue->group, &r->queue->target->group, &r->msg, end_what_is_held);
}

uint16_t parse_disconnect(struct target_req *r)
{
	if (!r->queue->qid)
		return FAIL(NVME_SC_DISCONNECT_INVALID_QTYPE);
	if (r->sqe.cdw10 & 0xffff)
		return req_fail_at(r, SQE_RECFMT, FAIL(NVME_SC_CONNECT_FORMAT));
	if (r->queue->ending)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	r->execute = execute_disconnect;
	return NVME_SC_SUCCESS;
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
		r->cqe.result = c->vs;
	else if (!p.wide && p.offset == NVME_PROP_CC)
		r->cqe.result = c->cc;
	else if (!p.wide && p.offset == NVME_PROP_CSTS)
		r->cqe.result = c->csts;
	else if (!p.wide && p.offset == NVME_PROP_CRTO)
		r->cqe.result = TARGET_READY;
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
