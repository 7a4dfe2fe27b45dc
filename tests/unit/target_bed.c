/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"

/* --- a store that can be slow or fail -----------------------------------------------------------
 */

static void slow_submit(struct store *s, struct store_op *op)
{
	struct slow_store *slow = container_of(s, struct slow_store, store);

	slow->flushes += op->opcode == STORE_FLUSH;
	slow->writes_fua += op->opcode == STORE_WRITE && op->flags & STORE_FUA;
	if (slow->fail) {
		int error = slow->fail;

		slow->fail = 0;
		op->done(op, error);
	} else if (slow->hold) {
		slow->held[slow->count++] = op;
	} else {
		store_submit(slow->below, op);
	}
}

static bool slow_cancel(struct store *s, struct store_op *op)
{
	struct slow_store *slow = container_of(s, struct slow_store, store);

	for (unsigned i = 0; slow->cancels && i < slow->count; i++)
		if (slow->held[i] == op) {
			slow->held[i] = slow->held[--slow->count];
			return true;
		}
	return false;
}

static const struct store_ops slow_ops = {
	.name = "slow", .submit = slow_submit, .cancel = slow_cancel};

void slow_release(struct bed *b)
{
	unsigned n = b->slow.count;

	b->slow.count = 0;
	b->slow.hold = false;
	for (unsigned i = 0; i < n; i++)
		store_submit(b->slow.below, b->slow.held[i]);
}

/* --- the transport ------------------------------------------------------------------------------
 */

static struct bed_cmd *cmd_of(struct target_req *r)
{
	return container_of(r, struct bed_cmd, req);
}

/* The host's memory behind the keyed descriptors; a wrong one would break the connection. */
static void move(struct bed_cmd *c, uint8_t *data, size_t len, bool to_host)
{
	for (uint32_t i = 0; i < c->req.sgl_count; i++) {
		struct nvme_sgl g = target_req_sgl(&c->req, i);
		uint8_t *at;

		assert_int_equal(g.type, NVME_SGL_KEYED_DATA_BLOCK);
		assert_true(g.len <= len);
		if (!g.len)
			continue;
		assert_int_equal(g.key, BED_KEY);
		assert_true(g.addr <= BED_MEMORY && g.len <= BED_MEMORY - g.addr);
		at = c->queue->bed->memory + g.addr;
		memcpy(to_host ? at : data, to_host ? data : at, g.len);
		data += g.len;
		len -= g.len;
	}
	assert_int_equal(len, 0);
}

void bed_fetch_now(struct bed_cmd *c)
{
	struct target_req *r = &c->req;

	assert_true(c->fetching);
	c->fetching = false;
	c->mem = malloc(r->data_len + r->scratch_len);
	r->scratch = (uint8_t *)c->mem + r->data_len;
	memset(c->mem, 0xa5, r->data_len + r->scratch_len); /* what others left there */
	if (!r->in_capsule)
		r->data = c->mem;
	if (r->dir == NVMF_DIR_TO_CTRL && !r->in_capsule)
		move(c, r->data, r->data_len, false);
	target_req_ready(r, NVME_SC_SUCCESS);
}

static void op_fetch(struct target_req *r)
{
	struct bed_cmd *c = cmd_of(r);

	assert_true(r->data_len <= TARGET_DATA_MAX && r->scratch_len <= TARGET_SCRATCH_MAX);
	c->fetching = true;
	if (!c->queue->hold_fetches)
		bed_fetch_now(c);
}

static bool op_cancel(struct target_req *r)
{
	struct bed_cmd *c = cmd_of(r);
	bool waiting = c->fetching;

	c->fetching = false;
	return waiting;
}

static void op_respond(struct target_req *r)
{
	struct bed_cmd *c = cmd_of(r);
	uint8_t wire[NVME_CQE_LEN];
	struct wcursor w = wcursor_init(wire, sizeof(wire));
	struct cursor cur = cursor_init(wire, sizeof(wire));

	assert_true(c->busy && !c->answered); /* one response per command */
	c->answered = true;
	if (target_req_has_reply_data(r) && !c->queue->tq.disconnected) {
		uint32_t len = r->data_len + r->zero_len;
		uint8_t *all = calloc(1, len);

		if (r->data_len)
			memcpy(all, r->data, r->data_len);
		move(c, all, len, true);
		free(all);
	}
	nvme_cqe_put(&w, &r->cqe);
	nvme_cqe_get(&cur, &c->cqe);
	free(c->mem);
	c->mem = NULL;
}

static void op_disconnect(struct target_queue *tq)
{
	container_of(tq, struct bed_queue, tq)->disconnect_asked = true;
}

static void op_arrive(struct target_queue *tq)
{
	struct bed_queue *q = container_of(tq, struct bed_queue, tq);

	q->arrived = true;
	target_queue_init(tq, &q->bed->target, q->bed->now);
}

static void put_tsas(uint8_t tsas[256])
{
	tsas[0] = BED_TSAS;
}

const struct target_transport_ops bed_ops = {
	.trtype = NVMF_TRTYPE_RDMA,
	.treq = NVMF_TREQ_NO_SQ_FLOW,
	.tsas = put_tsas,
	.sgl = NVME_SGL_KEYED_DATA_BLOCK,
	.sgl_max = TARGET_SGL_MAX,
	.mdts = TARGET_MDTS,
	.entries_max = TARGET_QUEUE_ENTRIES_MAX,
	.capsule_data_max = TARGET_CAPSULE_DATA,
	.fetch = op_fetch,
	.cancel = op_cancel,
	.respond = op_respond,
	.disconnect = op_disconnect,
	.arrive = op_arrive,
};

void bed_queue_open(struct bed *b, struct bed_queue *q, uint16_t qid)
{
	bed_queue_open_in(NULL, b, q, qid);
}

void bed_queue_open_in(struct target_group *g, struct bed *b, struct bed_queue *q, uint16_t qid)
{
	/* Pages that no command has come to stay nobody's. */
	for (unsigned i = 0; i < ARRAY_SIZE(q->cmds); i++)
		if (q->cmds[i].queue)
			memset(&q->cmds[i], 0, sizeof(q->cmds[i]));
	q->disconnect_asked = q->hold_fetches = q->arrived = false;
	q->next_cid = 0;
	q->bed = b;
	q->tq = (struct target_queue){.group = g,
				      .ops = &bed_ops,
				      .port = &b->port,
				      .traddr = "192.0.2.7",
				      .qid = qid,
				      .entries_max = 64,
				      .capsule_data_max = qid ? TARGET_CAPSULE_DATA : 0};
	target_queue_init(&q->tq, &b->target, b->now);
}

/* As a transport does: it lets go of what is in fetch. */
void bed_queue_close(struct bed_queue *q)
{
	if (!q->bed)
		return;
	for (unsigned i = 0; i < ARRAY_SIZE(q->cmds); i++)
		q->cmds[i].fetching = false;
	target_queue_disconnected(&q->tq);
}

static struct bed_cmd *send(struct bed_queue *q, struct nvme_sqe *s, size_t sqe_len, void *data,
			    size_t len)
{
	uint8_t wire[NVME_SQE_LEN];
	struct wcursor w = wcursor_init(wire, sizeof(wire));

	for (unsigned i = 0; i < ARRAY_SIZE(q->cmds); i++) {
		struct bed_cmd *c = &q->cmds[i];

		if (c->busy)
			continue;
		*c = (struct bed_cmd){.queue = q, .busy = true};
		s->cid = q->next_cid++;
		nvme_sqe_put(&w, s);
		target_req_recv(&q->tq, &c->req, wire, sqe_len, data, len, q->bed->now);
		return c;
	}
	fail_msg("no command free");
	return NULL;
}

struct bed_cmd *bed_send(struct bed_queue *q, struct nvme_sqe *s)
{
	return send(q, s, NVME_SQE_LEN, q->bed->capsule_data, 0);
}

struct bed_cmd *bed_send_data(struct bed_queue *q, struct nvme_sqe *s, const void *data, size_t len)
{
	assert_true(len <= TARGET_CAPSULE_DATA);
	memcpy(q->bed->capsule_data, data, len);
	return send(q, s, NVME_SQE_LEN, q->bed->capsule_data, len);
}

void bed_release(struct bed_cmd *c)
{
	assert_true(c->answered);
	c->busy = false;
}

static uint16_t answer(struct bed_cmd *c, uint64_t *ret_result)
{
	assert_true(c->answered);
	assert_int_equal(c->cqe.cid, c->req.sqe.cid);
	assert_int_equal(c->cqe.sqid, c->queue->tq.qid);
	if (ret_result)
		*ret_result = c->cqe.result;
	bed_release(c);
	return PLAIN(c->cqe.status);
}

uint16_t bed_exec(struct bed_queue *q, struct nvme_sqe *s, uint64_t *ret_result)
{
	struct bed_cmd *c = bed_send(q, s);

	/* What takes more than a turn. */
	while (!c->answered && !list_empty(&q->tq.group->later))
		(void)target_group_process(q->tq.group, q->bed->now);
	return answer(c, ret_result);
}

struct nvme_sqe bed_sqe(uint8_t opcode, uint32_t nsid, uint32_t len)
{
	struct nvme_sqe s = {.opcode = opcode, .flags = NVME_SQE_PSDT_SGL, .nsid = nsid};

	s.sgl.type = NVME_SGL_KEYED_DATA_BLOCK;
	s.sgl.len = len;
	if (len) {
		s.sgl.subtype = NVME_SGL_INVALIDATE;
		s.sgl.key = BED_KEY;
	}
	return s;
}

/* --- set-up -------------------------------------------------------------------------------------
 */

static void *bed_alloc(void *ctx, size_t bytes)
{
	((struct bed *)ctx)->allocated++;
	return calloc(1, bytes);
}

static void bed_free(void *ctx, void *p)
{
	((struct bed *)ctx)->allocated--;
	free(p);
}

/* Not the same twice. */
static void bed_random(void *ctx, void *p, size_t len)
{
	static uint64_t x = 0x9e3779b97f4a7c15;
	uint8_t *at = p;

	(void)ctx;
	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		at[i] = (uint8_t)(x >> 32);
	}
}

static void bed_event(void *ctx, const struct target_event *e)
{
	struct bed *b = ctx;

	b->ctrls_new += e->type == TARGET_EVENT_CTRL_NEW;
	b->ctrls_gone += e->type == TARGET_EVENT_CTRL_GONE;
	b->refused += e->type == TARGET_EVENT_CONNECT_REFUSED;
	b->store_failed += e->type == TARGET_EVENT_STORE_FAILED;
	b->stalled += e->type == TARGET_EVENT_STALLED;
	b->stalls_over += e->type == TARGET_EVENT_STALL_OVER;
	if (e->ns)
		b->of_store = *e;
}

struct bed *bed_create(void)
{
	struct bed *b = calloc(1, sizeof(*b));
	struct target_env env = {.ctx = b,
				 .alloc = bed_alloc,
				 .free = bed_free,
				 .event = bed_event,
				 .random = bed_random};

	assert_non_null(b);
	b->now = 1000 * NSEC_PER_SEC;
	target_init(&b->target, &env, b->now);
	strcpy(b->subsys.nqn, BED_NQN);
	strcpy(b->subsys.serial, "SERIAL");
	strcpy(b->subsys.model, "model");
	strcpy(b->subsys.firmware, "1.0");
	assert_int_equal(target_subsys_add(&b->target, &b->subsys), 0);
	assert_int_equal(store_mem_create(BED_BLOCKS * 512ull, 512, 0, &b->slow.below), 0);
	b->slow.store = *b->slow.below;
	b->slow.store.ops = &slow_ops;
	b->slow.store.volatile_cache = true;
	b->ns = (struct target_ns){.nsid = 1, .store = &b->slow.store, .lba_shift = 9};
	memset(b->ns.uuid, 0x11, 16);
	assert_int_equal(target_ns_add(&b->subsys, &b->ns), 0);
	assert_int_equal(store_mem_create(1 << 20, 512, 0, &b->ro_store), 0);
	b->ro = (struct target_ns){
		.nsid = 2, .store = b->ro_store, .lba_shift = 9, .read_only = true};
	assert_int_equal(target_ns_add(&b->subsys, &b->ro), 0);
	assert_int_equal(store_mem_create(1 << 20, 512, 0, &b->big_store), 0);
	b->big = (struct target_ns){.nsid = 5, .store = b->big_store, .lba_shift = 12};
	assert_int_equal(target_ns_add(&b->subsys, &b->big), 0);
	b->port = (struct target_port){.ops = &bed_ops,
				       .adrfam = NVMF_ADRFAM_IPV4,
				       .wildcard = true,
				       .traddr = "0.0.0.0",
				       .trsvcid = "4420"};
	target_port_add(&b->target, &b->port);
	return b;
}

void bed_destroy(struct bed *b)
{
	slow_release(b);
	bed_queue_close(&b->io);
	bed_queue_close(&b->other);
	bed_queue_close(&b->admin);
	assert_int_equal(b->admin.tq.live + b->io.tq.live + b->other.tq.live, 0);
	target_fini(&b->target);
	assert_int_equal(b->allocated, 0); /* every controller is gone, and what else there was */
	store_destroy(b->slow.below);
	store_destroy(b->ro_store);
	store_destroy(b->big_store);
	free(b);
}

struct bed_connect bed_connect_args(uint16_t qid, uint16_t cntlid)
{
	struct bed_connect a = {
		.co = {.qid = qid, .sqsize = 31, .kato_ms = qid ? 0 : 5000},
		.data = {.cntlid = cntlid},
	};

	memset(a.data.hostid, 0x77, sizeof(a.data.hostid));
	strcpy(a.data.subnqn, BED_NQN);
	strcpy(a.data.hostnqn, BED_HOSTNQN);
	return a;
}

struct bed_cmd *bed_send_connect(struct bed_queue *q, const struct bed_connect *a)
{
	struct nvme_sqe s = bed_sqe(NVME_FABRICS, 0, NVMF_CONNECT_DATA_LEN);
	struct wcursor w = wcursor_init(q->bed->memory, NVMF_CONNECT_DATA_LEN);

	nvmf_connect_to_sqe(&a->co, &s);
	nvmf_connect_data_put(&w, &a->data);
	return bed_send(q, &s);
}

uint16_t bed_connect(struct bed_queue *q, const struct bed_connect *a, uint64_t *ret_result)
{
	return answer(bed_send_connect(q, a), ret_result);
}

uint16_t bed_property_set(struct bed_queue *q, uint32_t offset, uint32_t value)
{
	struct nvme_sqe s = bed_sqe(NVME_FABRICS, 0, 0);
	struct nvmf_prop p = {.offset = offset, .value = value};

	nvmf_prop_to_sqe(&p, NVMF_PROPERTY_SET, &s);
	return bed_exec(q, &s, NULL);
}

uint64_t bed_property_get(struct bed_queue *q, uint32_t offset, bool wide)
{
	struct nvme_sqe s = bed_sqe(NVME_FABRICS, 0, 0);
	struct nvmf_prop p = {.offset = offset, .wide = wide};
	uint64_t value;

	nvmf_prop_to_sqe(&p, NVMF_PROPERTY_GET, &s);
	assert_int_equal(bed_exec(q, &s, &value), NVME_SC_SUCCESS);
	return value;
}

struct bed *bed_enabled(void)
{
	struct bed *b = bed_create();
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	uint64_t cntlid;

	bed_queue_open(b, &b->admin, 0);
	assert_int_equal(bed_connect(&b->admin, &a, &cntlid), NVME_SC_SUCCESS);
	assert_int_equal(cntlid, 1);
	assert_int_equal(bed_property_set(&b->admin, NVME_PROP_CC,
					  NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16),
			 NVME_SC_SUCCESS);
	assert_int_equal(bed_property_get(&b->admin, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
	return b;
}

struct bed *bed_with_io(void)
{
	struct bed *b = bed_enabled();
	struct bed_connect a = bed_connect_args(1, 1);

	bed_queue_open(b, &b->io, 1);
	assert_int_equal(bed_connect(&b->io, &a, NULL), NVME_SC_SUCCESS);
	return b;
}
