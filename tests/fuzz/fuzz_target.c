/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The NVMe-oF target as hosts see it that follow no rule: any command on any connection at any
 * time, data that comes late or not, stores that fail, connections that end, namespaces and
 * subsystems that leave and come again. Every command is answered once, no more data than the host
 * has room for, a store is asked only for what it has and while its namespace is there, and when
 * the connections are gone nothing is left.
 * Input: a sequence of steps, each a byte that names it and its arguments.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "mem.h"
#include "nvmf/target/target.h"

#define CONNS	   5
#define SLOTS	   8 /* commands of a connection */
#define STORES	   2
#define STORE_SIZE 65536
#define OPS	   (CONNS * SLOTS + 8)
#define STEPS_MAX  400
#define SUBNQN	   "nqn.2024-01.test:one"
#define HOSTNQN	   "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001"

enum slot_state { SLOT_FREE, SLOT_BUSY, SLOT_FETCHING, SLOT_MOVING };

struct slot {
	struct target_req req;
	enum slot_state state;
	uint16_t cid;
	uint8_t capsule[NVMF_CONNECT_DATA_LEN + 64]; /* in-capsule data */
};

enum presence { HERE, LEAVING, AWAY };

struct conn {
	struct target_queue q;
	bool open, ending;
	struct slot slot[SLOTS];
};

struct disk {
	struct store store;
	uint8_t data[STORE_SIZE];
};

static struct world {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns[STORES];
	struct target_port port;
	enum presence subsys_is, ns_is[STORES];
	struct disk disk[STORES];
	struct store_op *op[OPS]; /* under way */
	int ops;
	struct conn conn[CONNS];
	struct fuzz_mem mem;
	uint64_t now;
	uint16_t cntlid;   /* of the controller made last */
	unsigned admitted; /* queues, or not: by the transport whose IDs come with Connect */
	bool slow;	   /* stores answer later */
	const uint8_t *in, *in_end;
} * w;

static uint8_t take(void)
{
	return w->in < w->in_end ? *w->in++ : 0;
}

static uint32_t take32(void)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 8 | take();
	return v;
}

/* ---- stores ------------------------------------------------------------------------------------
 */

static void op_finish(struct store_op *op, int error)
{
	struct disk *d = container_of(op->store, struct disk, store);
	uint8_t *at = d->data + op->offset;

	for (uint32_t i = 0; !error && store_op_moves_data(op) && i < op->iov_count; i++) {
		const struct iovec *piece = &op->iov[i];

		if (op->opcode == STORE_READ)
			memcpy(piece->iov_base, at, piece->iov_len);
		else
			memcpy(at, piece->iov_base, piece->iov_len);
		at += piece->iov_len;
	}
	op->done(op, error);
}

static void disk_submit(struct store *s, struct store_op *op)
{
	if (op->opcode != STORE_FLUSH) {
		must(op->offset <= s->size && op->len <= s->size - op->offset);
		must(op->offset % s->block_size == 0 && op->len % s->block_size == 0);
		must(op->len);
	}
	must(!s->read_only || op->opcode == STORE_READ || op->opcode == STORE_FLUSH);
	must(w->ns_is[container_of(s, struct disk, store) - w->disk] != AWAY);
	must(w->subsys_is != AWAY);
	op->store = s;
	if (!w->slow) {
		op_finish(op, 0);
		return;
	}
	must(w->ops < OPS);
	w->op[w->ops++] = op;
}

/* Every second of what is under way had not begun. */
static bool disk_cancel(struct store *s, struct store_op *op)
{
	must(w->ns_is[container_of(s, struct disk, store) - w->disk] != AWAY);
	for (int i = 0; i < w->ops; i += 2)
		if (w->op[i] == op) {
			w->op[i] = w->op[--w->ops];
			return true;
		}
	return false;
}

static uint64_t disk_moment(struct store *s, uint64_t offset, uint64_t len)
{
	must(offset <= s->size && len <= s->size - offset && len);
	return max_of(len / 1024 * 512, (uint64_t)512);
}

static const struct store_ops disk_ops = {
	.name = "fuzz", .submit = disk_submit, .moment = disk_moment, .cancel = disk_cancel};

static void op_answer(int at, int error)
{
	struct store_op *op = w->op[at];

	w->op[at] = w->op[--w->ops];
	op_finish(op, error);
}

/* ---- the transport ------------------------------------------------------------------------------
 */

static struct slot *slot_of(struct target_req *r)
{
	return container_of(r, struct slot, req);
}

static void fetch(struct target_req *r)
{
	must(slot_of(r)->state == SLOT_BUSY);
	must(r->data_len <= TARGET_DATA_MAX && r->scratch_len <= TARGET_SCRATCH_MAX);
	slot_of(r)->state = SLOT_FETCHING;
}

static bool cancel(struct target_req *r)
{
	struct slot *s = slot_of(r);

	must(s->state == SLOT_FETCHING || s->state == SLOT_MOVING);
	if (s->state == SLOT_MOVING)
		return false;
	s->state = SLOT_BUSY;
	return true;
}

static void respond(struct target_req *r)
{
	struct slot *s = slot_of(r);

	must(s->state == SLOT_BUSY && r->cqe.cid == s->cid);
	must(r->cqe.sqid == (r->queue->qid == TARGET_QID_UNKNOWN ? 0 : r->queue->qid));
	if (target_req_has_reply_data(r)) {
		uint32_t sum = 0;
		uint64_t room = 0;

		for (uint32_t i = 0; i < r->sgl_count; i++)
			room += target_req_sgl(r, i).len;
		must(r->sgl_count && r->sgl_count <= TARGET_SGL_MAX);
		must((r->data || !r->data_len) && (uint64_t)r->data_len + r->zero_len == room);
		for (uint32_t i = 0; i < r->data_len; i++) /* it is all there */
			sum += ((const uint8_t *)r->data)[i];
		must(sum || !sum);
	}
	if (!r->in_capsule)
		free(r->data);
	free(r->scratch);
	s->state = SLOT_FREE;
}

static void disconnect(struct target_queue *q)
{
	container_of(q, struct conn, q)->ending = true;
}

/* Every third has no room; of the same queue the next may have. */
static int admit(struct target_queue *q)
{
	must(q->qid != TARGET_QID_UNKNOWN && !q->ctrl);
	return ++w->admitted % 3 ? 0 : -ENOMEM;
}

static const struct target_transport_ops transport = {
	.trtype = NVMF_TRTYPE_RDMA,
	.treq = NVMF_TREQ_NO_SQ_FLOW,
	.sgl = NVME_SGL_KEYED_DATA_BLOCK,
	.sgl_max = TARGET_SGL_MAX,
	.mdts = TARGET_MDTS,
	.entries_max = TARGET_QUEUE_ENTRIES_MAX,
	.capsule_data_max = TARGET_CAPSULE_DATA,
	.fetch = fetch,
	.cancel = cancel,
	.respond = respond,
	.disconnect = disconnect,
};

/* As on TCP: the queue ID comes with Connect, and data by the transport's own means. */
static const struct target_transport_ops late_transport = {
	.trtype = NVMF_TRTYPE_TCP,
	.sgl = NVME_SGL_TRANSPORT_DATA_BLOCK,
	.sgl_max = 1,
	.mdts = TARGET_MDTS - 1,
	.entries_max = TARGET_QUEUE_ENTRIES_MAX,
	.capsule_data_max = TARGET_CAPSULE_DATA,
	.fetch = fetch,
	.cancel = cancel,
	.respond = respond,
	.admit = admit,
	.disconnect = disconnect,
};

static struct nvme_sgl outside(const struct conn *c, uint32_t len)
{
	if (c->q.ops == &late_transport)
		return (struct nvme_sgl){.type = NVME_SGL_TRANSPORT_DATA_BLOCK,
					 .subtype = NVME_SGL_TRANSPORT,
					 .len = len};
	return (struct nvme_sgl){
		.type = NVME_SGL_KEYED_DATA_BLOCK, .addr = 4096, .key = 7, .len = len};
}

/* The data of a command is there, or did not come. */
static void fetched(struct slot *s, uint16_t status)
{
	struct target_req *r = &s->req;

	if (!r->in_capsule && r->data_len) {
		r->data = malloc(r->data_len);
		must(r->data);
		memset(r->data, 0x5a, r->data_len);
		if (r->dir == NVMF_DIR_TO_CTRL)
			memcpy(r->data, s->capsule,
			       min_of(r->data_len, (uint32_t)sizeof(s->capsule)));
	}
	if (r->scratch_len) {
		r->scratch = malloc(r->scratch_len);
		must(r->scratch);
	}
	s->state = SLOT_BUSY;
	target_req_ready(r, status);
}

static void open_conn(struct conn *c, uint8_t arg)
{
	if (c->open)
		return;
	*c = (struct conn){.open = true};
	c->q.ops = arg & 0x40 ? &late_transport : &transport;
	c->q.port = &w->port;
	memcpy(c->q.traddr, "192.0.2.1", 10);
	c->q.qid = arg & 0x40	? TARGET_QID_UNKNOWN
		   : arg & 0x80 ? (uint16_t)(arg & 0x7f)
				: (uint16_t)(c - w->conn);
	c->q.entries_max = SLOTS + 1;
	c->q.capsule_data_max = c->q.qid ? sizeof(c->slot[0].capsule) : 0;
	target_queue_init(&c->q, &w->target, w->now);
}

static void close_conn(struct conn *c)
{
	if (!c->open)
		return;
	for (int i = 0; i < SLOTS; i++)
		if (c->slot[i].state == SLOT_FETCHING || c->slot[i].state == SLOT_MOVING)
			c->slot[i].state = SLOT_BUSY;
	target_queue_disconnected(&c->q);
	c->ending = false;
	c->open = c->q.live > 0; /* what a store works on still comes back */
}

/* ---- commands ----------------------------------------------------------------------------------
 */

enum usual {
	CONNECT,
	SET_CC,
	GET_PROPERTY,
	IDENTIFY,
	GET_LOG,
	GET_FEATURES,
	SET_FEATURES,
	ASYNC_EVENT,
	ABORT,
	KEEP_ALIVE,
	READ,
	WRITE,
	FLUSH,
	COMPARE,
	WRITE_ZEROES,
	DSM,
	VERIFY,
	FUSED_COMPARE,
	FUSED_WRITE,
	COPY,
	WRITE_UNCORRECTABLE,
	DISCONNECT,
	USUAL
};

static const uint8_t opcode_of[USUAL] = {
	[CONNECT] = NVME_FABRICS,
	[SET_CC] = NVME_FABRICS,
	[GET_PROPERTY] = NVME_FABRICS,
	[IDENTIFY] = NVME_ADMIN_IDENTIFY,
	[GET_LOG] = NVME_ADMIN_GET_LOG_PAGE,
	[GET_FEATURES] = NVME_ADMIN_GET_FEATURES,
	[SET_FEATURES] = NVME_ADMIN_SET_FEATURES,
	[ASYNC_EVENT] = NVME_ADMIN_ASYNC_EVENT,
	[ABORT] = NVME_ADMIN_ABORT,
	[KEEP_ALIVE] = NVME_ADMIN_KEEP_ALIVE,
	[READ] = NVME_IO_READ,
	[WRITE] = NVME_IO_WRITE,
	[FLUSH] = NVME_IO_FLUSH,
	[COMPARE] = NVME_IO_COMPARE,
	[WRITE_ZEROES] = NVME_IO_WRITE_ZEROES,
	[DSM] = NVME_IO_DSM,
	[VERIFY] = NVME_IO_VERIFY,
	[FUSED_COMPARE] = NVME_IO_COMPARE,
	[FUSED_WRITE] = NVME_IO_WRITE,
	[COPY] = NVME_IO_COPY,
	[WRITE_UNCORRECTABLE] = NVME_IO_WRITE_UNCORRECTABLE,
	[DISCONNECT] = NVME_FABRICS,
};

static void make_connect(struct conn *c, struct slot *s, struct nvme_sqe *sqe)
{
	static const struct nvmf_connect usual = {.sqsize = SLOTS - 1};
	struct nvmf_connect co = usual;
	uint16_t qid = c->q.qid == TARGET_QID_UNKNOWN ? (uint16_t)(c - w->conn) : c->q.qid;
	struct nvmf_connect_data d = {.cntlid = qid ? w->cntlid : NVMF_CNTLID_DYNAMIC};
	struct wcursor out = wcursor_init(s->capsule, NVMF_CONNECT_DATA_LEN);
	uint8_t how = take();

	co.qid = qid;
	co.kato_ms = how & 1 ? 5000 : 0;
	memcpy(d.subnqn, how & 2 ? NVMF_DISCOVERY_NQN : SUBNQN,
	       how & 2 ? sizeof(NVMF_DISCOVERY_NQN) : sizeof(SUBNQN));
	memcpy(d.hostnqn, HOSTNQN, sizeof(HOSTNQN));
	nvmf_connect_data_put(&out, &d);
	nvmf_connect_to_sqe(&co, sqe);
	sqe->sgl.len = NVMF_CONNECT_DATA_LEN;
}

static void make_property(struct nvme_sqe *sqe, uint8_t more)
{
	struct nvmf_prop p = {
		.offset = NVME_PROP_CC,
		.value = NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16,
	};

	if (more & 1)
		p.value = take32();
	if (more & 2)
		p.offset = take();
	p.wide = more & 4;
	nvmf_prop_to_sqe(&p, more & 8 ? NVMF_PROPERTY_GET : NVMF_PROPERTY_SET, sqe);
}

static void make_command(struct conn *c, struct slot *s, struct nvme_sqe *sqe)
{
	uint8_t kind = take(), more = kind / USUAL;
	struct nvme_get_log log;
	uint32_t nlb;

	sqe->opcode = opcode_of[kind % USUAL];
	sqe->flags = NVME_SQE_PSDT_SGL;
	sqe->sgl = outside(c, 4096);
	switch ((enum usual)(kind % USUAL)) {
	case CONNECT:
		make_connect(c, s, sqe);
		break;
	case SET_CC:
		make_property(sqe, more & 1);
		break;
	case GET_PROPERTY:
		make_property(sqe, more | 8);
		break;
	case IDENTIFY:
		sqe->nsid = more;
		sqe->cdw10 = take();
		break;
	case GET_LOG:
		log = (struct nvme_get_log){.lid = take()};
		log.len = 4u * (1 + take());
		log.offset = 4u * take();
		log.rae = more & 1;
		nvme_get_log_to_sqe(&log, sqe);
		sqe->sgl.len = (uint32_t)log.len;
		break;
	case GET_FEATURES:
	case SET_FEATURES:
	case ABORT:
		sqe->cdw10 = (uint32_t)take() << 16 | take();
		sqe->cdw11 = take32();
		sqe->sgl.len = 16;
		break;
	case DISCONNECT:
		sqe->nsid = NVMF_DISCONNECT;
		break;
	case ASYNC_EVENT:
	case KEEP_ALIVE:
		break;
	case FLUSH:
		sqe->nsid = more;
		break;
	case DSM:
		sqe->nsid = more;
		sqe->cdw10 = take() & 3;
		sqe->cdw11 = NVME_DSM_AD;
		sqe->sgl.len = 64;
		for (int i = 0; i < 64; i++)
			s->capsule[i] = i % 4 ? 0 : take();
		break;
	case COPY:
		sqe->nsid = more & 3;
		nvme_rw_set(sqe, take(), 1 + (take() & 3), more & 4 ? NVME_RW_FUA : 0);
		sqe->sgl.len = 4 * NVME_COPY_RANGE_LEN;
		for (int i = 0; i < 4 * NVME_COPY_RANGE_LEN; i++)
			s->capsule[i] = i % 8 ? 0 : take();
		break;
	case FUSED_COMPARE:
	case FUSED_WRITE:
		sqe->nsid = more & 1 ? 2 : 1;
		sqe->flags |=
			kind % USUAL == FUSED_WRITE ? NVME_SQE_FUSE_SECOND : NVME_SQE_FUSE_FIRST;
		nvme_rw_set(sqe, more >> 1 & 1, 1, more & 4 ? NVME_RW_FUA : 0);
		sqe->sgl.len = 512;
		break;
	case VERIFY:
	case READ:
	case WRITE:
	case COMPARE:
	case WRITE_ZEROES:
	case WRITE_UNCORRECTABLE:
		nlb = 1u + take();
		sqe->nsid = more & 3;
		nvme_rw_set(sqe, take(), nlb, more & 4 ? NVME_RW_FUA : 0);
		sqe->sgl.len = nlb << 9;
		break;
	case USUAL:
		break;
	}
}

/* The same bytes in pieces, described in the capsule. */
static void make_list(const struct conn *c, struct slot *s, struct nvme_sqe *sqe)
{
	struct wcursor out = wcursor_init(s->capsule, sizeof(s->capsule));
	uint8_t how = take(), count = how % (TARGET_SGL_MAX + 2);
	struct nvme_sgl piece = outside(c, sqe->sgl.len);

	for (uint8_t i = 0; i < count; i++) {
		uint32_t rest = piece.len;

		if (i + 1 < count)
			piece.len = min_of(rest, 64u * take());
		nvme_sgl_put(&out, &piece);
		piece.len = rest - piece.len;
	}
	sqe->sgl = (struct nvme_sgl){.type = NVME_SGL_LAST_SEGMENT,
				     .subtype = NVME_SGL_OFFSET,
				     .len = (uint32_t)count * NVME_SGL_LEN};
}

static void command(struct conn *c, uint8_t arg)
{
	struct nvme_sqe sqe = {0};
	uint8_t bytes[NVME_SQE_LEN];
	struct wcursor out = wcursor_init(bytes, sizeof(bytes));
	uint8_t *exact, changes;
	struct slot *s = NULL;
	size_t len = sizeof(bytes);

	for (int i = 0; i < SLOTS && !s; i++)
		if (c->slot[i].state == SLOT_FREE)
			s = &c->slot[i];
	if (!c->open || !s)
		return;
	make_command(c, s, &sqe);
	sqe.cid = arg;
	changes = take();
	if (changes & 4) { /* data in the capsule */
		sqe.sgl.type = NVME_SGL_DATA_BLOCK;
		sqe.sgl.subtype = NVME_SGL_OFFSET;
		sqe.sgl.addr = changes & 8 ? take() : 0;
	}
	if (changes & 64)
		make_list(c, s, &sqe);
	nvme_sqe_put(&out, &sqe);
	for (int i = changes & 3; i > 0; i--) {
		uint8_t at = take() % sizeof(bytes);

		bytes[at] = take();
	}
	if (changes & 16)
		s->capsule[take32() % sizeof(s->capsule)] = take();
	if (changes >= 250)
		len = take() % sizeof(bytes);
	exact = malloc(len + !len);
	must(exact);
	memcpy(exact, bytes, len);
	s->state = SLOT_BUSY;
	s->cid = len >= 4 ? (uint16_t)(bytes[2] | bytes[3] << 8) : 0;
	target_req_recv(&c->q, &s->req, exact, len, s->capsule,
			changes & 32 ? take() : sizeof(s->capsule), w->now);
	free(exact);
}

/* ---- the steps ---------------------------------------------------------------------------------
 */

static void on_event(void *ctx, const struct target_event *e)
{
	must(ctx == w);
	if (e->type == TARGET_EVENT_CTRL_NEW)
		w->cntlid = e->ctrl->cntlid;
	if (e->type == TARGET_EVENT_CONNECT_REFUSED)
		must(e->status && (!e->hostnqn || strlen(e->hostnqn) <= NVME_NQN_LEN));
}

static void *do_alloc(void *ctx, size_t bytes)
{
	return fuzz_mem_alloc(&((struct world *)ctx)->mem, bytes);
}

static void do_free(void *ctx, void *p)
{
	fuzz_mem_free(&((struct world *)ctx)->mem, p);
}

/* One turn does what it may of commands in many steps; the last comes. */
static void turns(void)
{
	do
		target_tick(&w->target, w->now);
	while (target_next_deadline(&w->target) == 0);
}

static void pass_time(uint64_t to)
{
	w->now = max_of(w->now, to);
	turns();
	must(target_next_deadline(&w->target) > w->now);
}

static bool busy(void)
{
	for (int i = 0; i < CONNS; i++)
		for (int j = 0; j < SLOTS; j++)
			if (w->conn[i].slot[j].state != SLOT_FREE)
				return true;
	return w->ops > 0;
}

static void ns_gone(struct target_ns *ns)
{
	must(w->ns_is[ns - w->ns] == LEAVING);
	w->ns_is[ns - w->ns] = AWAY;
}

static void subsys_gone(struct target_subsys *s)
{
	must(s == &w->subsys && w->subsys_is == LEAVING);
	w->subsys_is = AWAY;
}

/* A namespace or the subsystem leaves, or comes again once it was gone. */
static void come_and_go(uint8_t what)
{
	static struct target_subsys *const nothing[1];
	uint8_t i = what & 1;

	switch (what >> 1) {
	case 31:
		if (w->subsys_is == HERE && w->ns_is[i] == HERE) {
			w->ns_is[i] = LEAVING;
			target_ns_remove(&w->subsys, &w->ns[i], ns_gone);
		} else if (w->ns_is[i] == AWAY) {
			w->ns_is[i] = HERE;
			must(!target_ns_add(&w->subsys, &w->ns[i]));
		}
		break;
	case 30:
		if (w->subsys_is == HERE) {
			w->subsys_is = LEAVING;
			target_subsys_remove(&w->subsys, subsys_gone);
		} else if (w->subsys_is == AWAY) {
			w->subsys_is = HERE;
			must(!target_subsys_add(&w->target, &w->subsys));
		}
		break;
	case 29:
		target_port_offer(&w->target, &w->port, i ? nothing : NULL, 0);
		break;
	}
}

static void step(void)
{
	uint8_t what = take(), arg = take();
	struct conn *c = &w->conn[arg % CONNS];
	struct slot *s = &c->slot[what / 16 % SLOTS];

	switch (what % 10) {
	case 0:
		open_conn(c, arg);
		break;
	case 1:
	case 2:
		command(c, arg);
		break;
	case 3:
		if (s->state == SLOT_FETCHING)
			s->state = SLOT_MOVING;
		break;
	case 4:
		if (s->state == SLOT_FETCHING || s->state == SLOT_MOVING)
			fetched(s, arg >= 200 ? NVME_SC_DATA_XFER_ERROR : NVME_SC_SUCCESS);
		break;
	case 5:
		if (w->ops)
			op_answer(arg % w->ops, what >= 200 ? -EIO : 0);
		break;
	case 6:
		close_conn(c);
		break;
	case 7:
		if (arg & 1)
			pass_time(w->now + arg * 100000000ull);
		else if (target_next_deadline(&w->target) != DEADLINE_NEVER)
			pass_time(target_next_deadline(&w->target));
		break;
	case 8:
		w->slow = arg & 1;
		w->mem.fail_next = arg & 2;
		come_and_go(arg >> 2);
		break;
	case 9: /* a disk grows or shrinks, while nothing is under way that was for the old size */
		if (busy())
			break;
		w->disk[arg & 1].store.size = 512u * (1 + arg / 2);
		target_ns_changed(&w->ns[arg & 1], &w->subsys);
		break;
	}
	for (int i = 0; i < CONNS; i++)
		if (w->conn[i].open && w->conn[i].ending)
			close_conn(&w->conn[i]);
}

/* ---- beginning and end --------------------------------------------------------------------------
 */

static void begin(const uint8_t *data, size_t size)
{
	const struct target_env env = {
		.ctx = w, .alloc = do_alloc, .free = do_free, .event = on_event};

	memset(w, 0, offsetof(struct world, disk));
	memset(w->conn, 0, sizeof(w->conn));
	w->ops = 0;
	w->subsys_is = HERE;
	w->mem = (struct fuzz_mem){0};
	w->now = NSEC_PER_SEC;
	w->cntlid = 0;
	w->slow = false;
	w->in = data;
	w->in_end = data + size;
	target_init(&w->target, &env, w->now);
	memcpy(w->subsys.nqn, SUBNQN, sizeof(SUBNQN));
	must(!target_subsys_add(&w->target, &w->subsys));
	for (int i = 0; i < STORES; i++) {
		w->ns_is[i] = HERE;
		w->disk[i].store = (struct store){
			.ops = &disk_ops,
			.size = STORE_SIZE,
			.block_size = 512,
			.read_only = i == 1,
			.volatile_cache = i == 0,
		};
		w->ns[i] = (struct target_ns){
			.nsid = 1u + (uint32_t)i, .store = &w->disk[i].store, .lba_shift = 9};
		must(!target_ns_add(&w->subsys, &w->ns[i]));
	}
	w->port = (struct target_port){.ops = &transport, .adrfam = NVMF_ADRFAM_IPV4};
	memcpy(w->port.traddr, "192.0.2.1", 10);
	memcpy(w->port.trsvcid, "4420", 5);
	target_port_add(&w->target, &w->port);
}

static void wind_up(void)
{
	for (int i = 0; i < CONNS; i++)
		close_conn(&w->conn[i]);
	while (w->ops)
		op_answer(0, 0);
	turns();
	for (int i = 0; i < CONNS; i++) {
		must(w->conn[i].q.live == 0);
		for (int j = 0; j < SLOTS; j++)
			must(w->conn[i].slot[j].state == SLOT_FREE);
	}
	must(target_next_deadline(&w->target) == DEADLINE_NEVER);
	must(w->subsys_is != LEAVING);
	for (int i = 0; i < STORES; i++)
		must(w->ns_is[i] != LEAVING);
	must(w->target.ctrl_count == 0);
	target_fini(&w->target);
	must(w->mem.blocks == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!w)
		w = calloc(1, sizeof(*w));
	must(w);
	begin(data, size);
	for (int i = 0; i < STEPS_MAX && w->in < w->in_end; i++)
		step();
	wind_up();
	return 0;
}
