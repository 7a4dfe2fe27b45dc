/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The target on NVMe/TCP as hosts see it that follow no rule: any bytes and any PDU on any
 * connection at any time, what is right beside what is not, responses that are not taken, stores
 * that answer late, connections that end. What it sends are PDUs, a store is asked only for what it
 * has, and when the connections are gone nothing is left.
 * Input: a sequence of steps, each a byte that names it and its arguments.
 */
#include "fuzz.h"

#include <string.h>

#include "mem.h"
#include "nvmf/tcp/target.h"
#include "wire/nvme_fabrics.h"

#define CONNS	   4
#define STORE_SIZE (256u << 10)
#define OPS	   (CONNS * 130)
#define STEPS_MAX  300
#define SUBNQN	   "nqn.2024-01.test:one"
#define HOSTNQN	   "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001"

struct conn {
	struct tcp_queue *q;	 /* NULL: there is none */
	struct tcp_tx tx;	 /* by which PDUs for it are made */
	struct tcp_rx rx;	 /* what it sends */
	struct nvme_tcp_r2t r2t; /* the last */
	uint8_t place[TARGET_DATA_MAX];
};

static struct world {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns;
	struct target_port port;
	struct shares shares;
	struct transport_target *t;
	struct tcp_target *tt;
	struct store store;
	uint8_t disk[STORE_SIZE];
	struct store_op *op[OPS]; /* under way */
	int ops, loans;
	bool slow;
	struct conn conn[CONNS];
	struct fuzz_mem mem;
	uint64_t now;
	uint16_t cntlid; /* of the controller that was made last */
	const uint8_t *in, *in_end;
} * w;

static uint8_t data[TARGET_DATA_MAX + 4096];

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

/* ---- the store ----------------------------------------------------------------------------------
 */

static void op_finish(struct store_op *op, int error)
{
	uint8_t *at = w->disk + op->offset;

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
	if (op->opcode != STORE_FLUSH)
		must(op->offset <= s->size && op->len <= s->size - op->offset && op->len);
	if (!w->slow) {
		op_finish(op, 0);
		return;
	}
	must(w->ops < OPS);
	w->op[w->ops++] = op;
}

/* In pieces of no regular length: what is read as it is now, what is written in memory of its own
 * and in the room, by turns. */
struct loan {
	struct store_loan loan;
	struct iovec iov[STORE_LOAN_PIECES];
	void *own[STORE_LOAN_PIECES];
};

static void end_loan(struct store_loan *l)
{
	struct loan *mine = container_of(l, struct loan, loan);

	for (uint32_t i = 0; i < l->count; i++)
		free(mine->own[i]);
	free(mine);
	must(w->loans-- > 0);
}

static struct store_loan *disk_lend(struct store *s, const struct store_op *op, void *room)
{
	struct loan *l;

	must(op->len && op->offset <= s->size && op->len <= s->size - op->offset);
	if (op->len < 1024 || (w->slow && op->opcode == STORE_READ))
		return NULL;
	l = calloc(1, sizeof(*l));
	must(l);
	l->loan = (struct store_loan){.iov = l->iov, .end = end_loan};
	for (uint64_t at = 0, n; at < op->len; at += n) {
		const uint32_t i = l->loan.count++;

		n = i == STORE_LOAN_PIECES - 1 ? op->len - at
					       : min_of(op->len - at, op->len / 7 + 13 * i + 1);
		l->iov[i] = (struct iovec){(uint8_t *)room + at, n};
		if (op->opcode == STORE_WRITE && i % 2)
			continue;
		l->iov[i].iov_base = l->own[i] = malloc(n);
		must(l->own[i]);
		if (op->opcode == STORE_READ)
			memcpy(l->own[i], w->disk + op->offset + at, n);
	}
	w->loans++;
	return &l->loan;
}

static const struct store_ops disk_ops = {.name = "fuzz", .submit = disk_submit, .lend = disk_lend};

static void op_answer(int at, int error)
{
	struct store_op *op = w->op[at];

	w->op[at] = w->op[--w->ops];
	op_finish(op, error);
}

/* ---- what it sends ------------------------------------------------------------------------------
 */

static void on_event(struct conn *c, enum tcp_rx_event e)
{
	struct cursor cur;

	must(e != TCP_RX_BAD);
	if (e == TCP_RX_HEADER) {
		tcp_rx_place(&c->rx, c->place);
		return;
	}
	must(c->rx.data_fine);
	cur = tcp_rx_header(&c->rx);
	if (c->rx.ch.type == NVME_TCP_R2T) {
		nvme_tcp_r2t_get(&cur, &c->r2t);
	} else if (c->rx.ch.type == NVME_TCP_RESP) {
		struct nvme_cqe q;

		nvme_cqe_get(&cur, &q);
		if (!q.status && q.result && q.result < 0xffff)
			w->cntlid = (uint16_t)q.result;
	} else if (c->rx.ch.type == NVME_TCP_ICRESP) {
		struct nvme_tcp_icresp r;

		nvme_tcp_icresp_get(&cur, &r);
		c->rx.hdgst = c->tx.hdgst = r.dgst & NVME_TCP_IC_HDGST;
		c->rx.ddgst = c->tx.ddgst = r.dgst & NVME_TCP_IC_DDGST;
	}
}

/* The host takes up to so many bytes. */
static void take_output(struct conn *c, size_t room)
{
	struct iovec iov;

	while (c->q && room && tcp_tx_iov(&c->q->tx, &iov, 1)) {
		size_t n = min_of(iov.iov_len, room);
		const uint8_t *p = iov.iov_base, *end = p + n;
		enum tcp_rx_event e;

		while ((e = tcp_rx_eat(&c->rx, &p, end)) != TCP_RX_MORE)
			on_event(c, e);
		tcp_tx_sent(&c->q->tx, n);
		room -= n;
	}
}

/* ---- what hosts send ----------------------------------------------------------------------------
 */

static void forget_dying(void)
{
	for (int i = 0; i < CONNS; i++)
		if (w->conn[i].q && w->conn[i].q->state == TCP_QUEUE_DYING) {
			take_output(&w->conn[i], SIZE_MAX);
			w->conn[i].q = NULL;
		}
}

/* Those that ended in a turn are freed with it. */
static void forget_gone(void)
{
	for (int i = 0; i < CONNS; i++) {
		bool there = false;

		list_for_each(q, &w->tt->queues, struct tcp_queue, link)
			there |= q == w->conn[i].q;
		list_for_each(q, &w->tt->dying, struct tcp_queue, link)
			there |= q == w->conn[i].q;
		if (!there)
			w->conn[i].q = NULL;
	}
}

static void feed(struct conn *c, const uint8_t *p, size_t len)
{
	struct iovec to;
	uint32_t wants = 0;

	if (!c->q)
		return;
	if (tcp_rx_wants(&c->q->rx, &to, 1)) { /* as the socket would */
		wants = (uint32_t)min_of(to.iov_len, len);
		memcpy(to.iov_base, p, wants);
		tcp_rx_placed(&c->q->rx, wants);
	}
	if (!tcp_queue_input(c->q, p + wants, len - wants))
		__builtin_trap(); /* there is one group */
	forget_dying();
}

/* What is built with the connection's tx; some byte of it may be another. */
static void send_built(struct conn *c, struct tcp_out *o)
{
	static uint8_t bytes[TARGET_DATA_MAX + 8192];
	uint8_t damage = take(), pieces = take();
	struct iovec iov[8];
	size_t len = 0, at = 0;
	unsigned n;

	tcp_tx_push(&c->tx, o);
	n = tcp_tx_iov(&c->tx, iov, 8);
	for (unsigned i = 0; i < n; i++) {
		memcpy(bytes + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	tcp_tx_drop(&c->tx);
	if (damage & 1)
		bytes[take32() % len] ^= (uint8_t)(1u << (damage >> 1 & 7));
	if (pieces & 1) { /* in two */
		at = take32() % len;
		feed(c, bytes, at);
	}
	feed(c, bytes + at, len - at);
}

static void step_icreq(struct conn *c)
{
	struct nvme_tcp_icreq r;
	struct wcursor cur;
	struct tcp_out o;

	r.pfv = take() == 0xff;
	r.hpda = take() & 0x3f;
	r.dgst = take() & 3;
	r.maxr2t = take() & 7;
	tcp_out_init(&o, NULL);
	cur = tcp_out_pdu(&o, &c->tx, NVME_TCP_ICREQ, 0, 0);
	nvme_tcp_icreq_put(&cur, &r);
	tcp_out_pdu_end(&o);
	send_built(c, &o);
	take_output(c, SIZE_MAX);
}

static struct nvme_sqe connect_command(void)
{
	struct wcursor cur = wcursor_init(data, NVMF_CONNECT_DATA_LEN);
	struct nvmf_connect co = {.qid = take() & 3};
	struct nvmf_connect_data d = {.cntlid = co.qid ? w->cntlid : NVMF_CNTLID_DYNAMIC};
	struct nvme_sqe s = {0};

	co.sqsize = 1 + (take() & 127);
	co.cattr = take() & 4;
	memcpy(d.subnqn, SUBNQN, sizeof(SUBNQN));
	memcpy(d.hostnqn, HOSTNQN, sizeof(HOSTNQN));
	nvmf_connect_data_put(&cur, &d);
	nvmf_connect_to_sqe(&co, &s);
	s.sgl.len = NVMF_CONNECT_DATA_LEN;
	return s;
}

static struct nvme_sqe some_command(void)
{
	static const uint8_t opcodes[] = {
		NVME_IO_READ,	     NVME_IO_WRITE,	      NVME_IO_COMPARE,
		NVME_IO_DSM,	     NVME_IO_FLUSH,	      NVME_IO_WRITE_ZEROES,
		NVME_ADMIN_IDENTIFY, NVME_ADMIN_GET_LOG_PAGE, NVME_ADMIN_ASYNC_EVENT};
	uint8_t kind = take();
	struct nvme_sqe s = {.nsid = 1};
	uint32_t blocks = 1 + (take32() & 0x1ff);

	if (kind < 64)
		return connect_command();
	if (kind < 80) {
		struct nvmf_prop p = {.offset = NVME_PROP_CC,
				      .value = NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16};

		nvmf_prop_to_sqe(&p, NVMF_PROPERTY_SET, &s);
		return s;
	}
	s.opcode = opcodes[kind % ARRAY_SIZE(opcodes)];
	nvme_rw_set(&s, take(), blocks, 0);
	s.sgl.len = blocks * 512;
	if (s.opcode == NVME_ADMIN_IDENTIFY) {
		s.cdw10 = take() & 3;
		s.sgl.len = 4096;
	}
	return s;
}

static void step_command(struct conn *c)
{
	struct nvme_sqe s = some_command();
	uint8_t how = take();
	bool in_capsule = how & 1;
	uint32_t len;
	struct wcursor cur;
	struct tcp_out o;

	s.flags = NVME_SQE_PSDT_SGL;
	s.cid = take();
	s.sgl.type = in_capsule ? NVME_SGL_DATA_BLOCK : NVME_SGL_TRANSPORT_DATA_BLOCK;
	s.sgl.subtype = in_capsule ? NVME_SGL_OFFSET : NVME_SGL_TRANSPORT;
	len = in_capsule ? min_of(s.sgl.len, 12288u) : 0;
	if (how & 2)
		s.sgl.len = take32() & 0xfffff;
	if (how & 4)
		s.sgl.addr = take();
	tcp_out_init(&o, NULL);
	cur = tcp_out_pdu(&o, &c->tx, NVME_TCP_CMD, 0, len);
	nvme_sqe_put(&cur, &s);
	tcp_out_pdu_end(&o);
	if (len)
		tcp_out_data(&o, &c->tx, data, len, 0);
	send_built(c, &o);
}

/* What the last R2T asked for, or nearly. */
static void step_data(struct conn *c)
{
	struct nvme_tcp_data d = {.cccid = c->r2t.cccid,
				  .ttag = c->r2t.ttag,
				  .datao = c->r2t.r2to,
				  .datal = c->r2t.r2tl};
	uint8_t how = take(), flags = take() & 1 ? NVME_TCP_DATA_LAST : 0;
	struct wcursor cur;
	struct tcp_out o;

	if (how & 1)
		d.datal = d.datal / 2 & ~3u;
	if (how & 2)
		d.ttag = (uint16_t)(d.ttag + take() - 4);
	if (how & 4)
		d.datao += take32() & 0xfffff;
	if (how & 8)
		d.cccid ^= take();
	d.datal = min_of(d.datal ? d.datal : 4, TARGET_DATA_MAX + 4);
	tcp_out_init(&o, NULL);
	cur = tcp_out_pdu(&o, &c->tx, NVME_TCP_H2C_DATA, flags, d.datal);
	nvme_tcp_data_put(&cur, &d);
	tcp_out_pdu_end(&o);
	tcp_out_data(&o, &c->tx, data, d.datal, 0);
	c->r2t.r2to += d.datal;
	c->r2t.r2tl -= min_of(c->r2t.r2tl, d.datal);
	send_built(c, &o);
}

static void step_bytes(struct conn *c)
{
	size_t n = min_of((size_t)take(), (size_t)(w->in_end - w->in));

	feed(c, w->in, n);
	w->in += n;
}

static void step_open(struct conn *c)
{
	const uint8_t key[16] = {take() & 1};

	if (c->q)
		return;
	tcp_rx_init(&c->rx, 0x3ff, TARGET_DATA_MAX);
	tcp_tx_init(&c->tx);
	c->r2t = (struct nvme_tcp_r2t){0};
	c->q = tcp_queue_create(w->tt, &w->port, -1, key, "here", "there");
	forget_dying(); /* what gave way to it */
}

static void step_turn(uint64_t ns)
{
	w->now += ns;
	if (w->now >= target_next_deadline(&w->target))
		target_tick(&w->target, w->now);
	forget_dying();
	/* A connection that ends in this turn is gone with it; what it had to say is not looked at.
	 */
	w->tt->now_ns = w->now;
	for (struct timer *tm; (tm = timer_pop_due(&w->tt->timers, w->now));)
		tcp_queue_tick(container_of(tm, struct tcp_queue, timer));
	forget_dying();
	w->t->ops->process(w->t, w->now, true);
	forget_gone();
	forget_dying();
}

static void step(void)
{
	uint8_t what = take();
	struct conn *c = &w->conn[what >> 4 & (CONNS - 1)];

	switch (what & 0xf) {
	case 0:
		step_open(c);
		break;
	case 1:
		step_bytes(c);
		break;
	case 2:
		step_icreq(c);
		break;
	case 3:
	case 4:
	case 5:
		step_command(c);
		break;
	case 6:
	case 7:
		step_data(c);
		break;
	case 8:
		take_output(c, take32() & 0xffff);
		break;
	case 9:
		take_output(c, SIZE_MAX);
		break;
	case 10:
		step_turn(NSEC_PER_MSEC);
		break;
	case 11:
		step_turn((uint64_t)take() * NSEC_PER_SEC / 8);
		break;
	case 12:
		if (c->q)
			tcp_queue_kill(c->q);
		c->q = NULL;
		step_turn(0);
		break;
	case 13:
		w->slow = take() & 1;
		break;
	default:
		if (w->ops)
			op_answer(take() % w->ops, take() & 1 ? -5 : 0);
		forget_dying();
		break;
	}
}

static void *env_alloc(void *ctx, size_t bytes)
{
	return fuzz_mem_alloc(ctx, bytes);
}

static void env_free(void *ctx, void *p)
{
	fuzz_mem_free(ctx, p);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	const struct target_env env = {.alloc = env_alloc, .free = env_free};
	struct target_env with;
	char why[64];

	if (!w)
		w = malloc(sizeof(*w));
	must(w);
	memset(w, 0, sizeof(*w));
	w->in = input;
	w->in_end = input + size;
	w->now = NSEC_PER_SEC;
	with = env;
	with.ctx = &w->mem;
	target_init(&w->target, &with, w->now);
	memcpy(w->subsys.nqn, SUBNQN, sizeof(SUBNQN));
	must(target_subsys_add(&w->target, &w->subsys) == 0);
	w->store = (struct store){.ops = &disk_ops, .size = STORE_SIZE, .block_size = 512};
	w->ns = (struct target_ns){.nsid = 1, .store = &w->store, .lba_shift = 9};
	must(target_ns_add(&w->subsys, &w->ns) == 0);
	must(shares_init(&w->shares, 1 << 20) == 0);
	must(tcp_transport.target_create(&w->target.group, &w->shares, NULL, &w->t, why,
					 sizeof(why)) == 0);
	w->tt = tcp_target_of(w->t);
	w->tt->now_ns = w->now;
	w->port = (struct target_port){.ops = &tcp_target_ops};
	target_port_add(&w->target, &w->port);
	for (int i = 0; i < CONNS; i++)
		tcp_tx_init(&w->conn[i].tx);
	for (int i = 0; i < STEPS_MAX && w->in < w->in_end; i++)
		step();
	w->slow = false;
	w->t->ops->shutdown(w->t);
	forget_gone();
	while (w->ops)
		op_answer(0, 0);
	step_turn(0);
	w->t->ops->shutdown(w->t); /* what flushes at the end */
	step_turn(0);
	must(w->t->ops->idle(w->t));
	must(w->shares.pool.used == 0 && w->shares.queue_count == 0 && w->loans == 0);
	w->t->ops->destroy(w->t);
	shares_fini(&w->shares);
	must(target_idle(&w->target));
	target_fini(&w->target);
	must(w->mem.blocks == 0);
	return 0;
}
