/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "tcp_bed.h"

#include <stdlib.h>
#include <string.h>

#include "heap_env.h"
#include "store/store.h"

struct tcp_bed bed;

/* --- the target ---------------------------------------------------------------------------------
 */

static void slow_submit(struct store *s, struct store_op *op)
{
	struct slow_store *slow = container_of(s, struct slow_store, store);

	if (slow->hold)
		slow->held[slow->count++] = op;
	else
		store_submit(slow->below, op);
}

static struct store_loan *slow_lend(struct store *s, const struct store_op *op, void *room)
{
	struct slow_store *slow = container_of(s, struct slow_store, store);

	return slow->hold && op->opcode == STORE_READ ? NULL : store_lend(slow->below, op, room);
}

static const struct store_ops slow_ops = {.name = "slow", .submit = slow_submit, .lend = slow_lend};

void slow_release(void)
{
	bed.slow.hold = false;
	while (bed.slow.count)
		store_submit(bed.slow.below, bed.slow.held[--bed.slow.count]);
}

int tcp_bed_set_up(void **state)
{
	char why[128];

	(void)state;
	memset(&bed, 0, sizeof(bed));
	bed.now_ns = NSEC_PER_SEC;
	target_init(&bed.target, &heap_env, bed.now_ns);
	strcpy(bed.subsys.nqn, NQN);
	assert_int_equal(target_subsys_add(&bed.target, &bed.subsys), 0);
	assert_int_equal(store_mem_create(2 << 20, 512, 0, &bed.slow.below), 0);
	bed.slow.store = *bed.slow.below;
	bed.slow.store.ops = &slow_ops;
	bed.ns = (struct target_ns){.nsid = 1, .store = &bed.slow.store, .lba_shift = 9};
	assert_int_equal(target_ns_add(&bed.subsys, &bed.ns), 0);
	assert_int_equal(shares_init(&bed.shares, 4 << 20), 0);
	assert_int_equal(tcp_transport.target_create(&bed.target.group, &bed.shares, NULL, &bed.t,
						     why, sizeof(why)),
			 0);
	bed.tt = tcp_target_of(bed.t);
	bed.tt->now_ns = bed.now_ns;
	bed.port = (struct target_port){
		.ops = &tcp_target_ops, .adrfam = NVMF_ADRFAM_IPV4, .traddr = "10.0.0.1"};
	target_port_add(&bed.target, &bed.port);
	return 0;
}

int tcp_bed_set_up_2(void **state)
{
	char why[128];

	if (tcp_bed_set_up(state) != 0)
		return -1;
	target_group_init(&bed.group2, &bed.target, NULL, NULL, NULL, bed.now_ns);
	assert_int_equal(shares_init(&bed.shares2, 4 << 20), 0);
	return tcp_transport.target_create(&bed.group2, &bed.shares2, bed.t, &bed.t2, why,
					   sizeof(why));
}

static struct auth_key tls_key = {.hash = NVMF_AUTH_SHA256, .len = 32, .key = "k"};

static bool find_tls_key(void *ctx, const char *hostnqn, struct auth_key *ret)
{
	(void)ctx;
	*ret = tls_key;
	return strcmp(hostnqn, HOSTNQN) == 0;
}

int tcp_bed_set_up_tls(void **state)
{
	const struct auth_psk_way way = {.version = 1};

	if (tcp_bed_set_up_2(state) != 0)
		return -1;
	bed.target.env.tls_key = find_tls_key;
	target_port_secure(&bed.target, &bed.port, TARGET_TLS_REQUIRED);
	assert_true(auth_psk_derive(&tls_key, way, HOSTNQN, NQN, &bed.psk));
	bed.hosts = tcp_tls_context_create(false);
	return bed.hosts ? 0 : -1;
}

void run_groups(void)
{
	for (bool any = bed.t2; any;) {
		any = target_group_process(&bed.target.group, bed.now_ns);
		any |= target_group_process(&bed.group2, bed.now_ns);
	}
}

/* One turn of everybody. */
static void run_all(void)
{
	bed.t->ops->process(bed.t, bed.now_ns, true);
	run_groups();
	if (bed.t2)
		bed.t2->ops->process(bed.t2, bed.now_ns, true);
	run_groups();
}

static void end_second(void)
{
	bed.t2->ops->shutdown(bed.t2);
	run_all();
	run_all();
	assert_true(bed.t2->ops->idle(bed.t2));
	bed.t2->ops->destroy(bed.t2);
	assert_int_equal(bed.shares2.pool.used, 0);
	assert_int_equal(bed.shares2.queue_count, 0);
	shares_fini(&bed.shares2);
	target_group_fini(&bed.group2);
}

/* Nothing is left behind, whatever the test did. */
int tcp_bed_tear_down(void **state)
{
	(void)state;
	slow_release();
	bed.t->ops->shutdown(bed.t);
	run_all();
	run_all();
	assert_true(bed.t->ops->idle(bed.t));
	if (bed.t2)
		end_second();
	bed.t->ops->destroy(bed.t);
	assert_int_equal(bed.shares.pool.used, 0);
	assert_int_equal(bed.shares.queue_count, 0);
	shares_fini(&bed.shares);
	tcp_tls_context_destroy(bed.hosts);
	target_fini(&bed.target);
	store_destroy(bed.slow.below);
	return 0;
}

/* --- hosts --------------------------------------------------------------------------------------
 */

struct peer *peer_open(void)
{
	struct peer *p = calloc(1, sizeof(*p));
	uint8_t key[16] = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(2 + bed.host)};

	assert_non_null(p);
	tcp_rx_init(&p->rx, 0x3ff, TARGET_DATA_MAX);
	tcp_tx_init(&p->tx);
	p->q = tcp_queue_create(bed.tt, &bed.port, -1, key, "10.0.0.1", "10.0.0.2");
	assert_non_null(p->q);
	if (bed.hosts) {
		p->tls = tcp_tls_of_host(bed.hosts, &bed.psk);
		assert_non_null(p->tls);
	}
	return p;
}

void peer_close(struct peer *p)
{
	if (p->q)
		tcp_queue_kill(p->q);
	run_all();
	run_all();
	tcp_tls_destroy(p->tls);
	free(p);
}

static void on_event(struct peer *p, enum tcp_rx_event e)
{
	struct pdu *u = &p->pdus[p->came];

	assert_int_not_equal(e, TCP_RX_BAD);
	assert_true(p->came < ARRAY_SIZE(p->pdus));
	if (e == TCP_RX_HEADER) {
		u->ch = p->rx.ch;
		memcpy(u->head, p->rx.head + NVME_TCP_CH_LEN, u->ch.hlen - NVME_TCP_CH_LEN);
		u->len = p->rx.data_len;
		if (p->used + u->len > sizeof(p->memory))
			p->used = 0;
		u->data = p->memory + p->used;
		p->used += u->len;
		tcp_rx_place(&p->rx, u->data);
		return;
	}
	u->fine = p->rx.data_fine;
	p->came++;
	if (u->ch.type == NVME_TCP_ICRESP) { /* from here on as was agreed */
		struct cursor c = cursor_init(u->head, sizeof(u->head));
		struct nvme_tcp_icresp r;

		nvme_tcp_icresp_get(&c, &r);
		p->rx.hdgst = p->tx.hdgst = r.dgst & NVME_TCP_IC_HDGST;
		p->rx.ddgst = p->tx.ddgst = r.dgst & NVME_TCP_IC_DDGST;
		p->tx.pda = r.cpda;
	}
}

static void eat(struct peer *p, const uint8_t *at, size_t len)
{
	const uint8_t *end = at + len;
	enum tcp_rx_event e;

	while ((e = tcp_rx_eat(&p->rx, &at, end)) != TCP_RX_MORE)
		on_event(p, e);
}

static void take_records(struct peer *p)
{
	static uint8_t copy[128 << 10], said[TCP_TLS_RECORD];
	const void *out;
	size_t len, got;

	while (p->q && p->q->tls && (len = tcp_queue_output(p->q, &out))) {
		assert_true(len <= sizeof(copy));
		memcpy(copy, out, len);
		tcp_tls_sent(p->q->tls, len);
		tcp_tls_feed(p->tls, copy, len);
		while (tcp_tls_take(p->tls, &p->rx, said, sizeof(said), &got) > 0)
			eat(p, said, got);
	}
}

void peer_take_some(struct peer *p, size_t len)
{
	struct iovec iov;
	size_t n;

	for (; len && p->q && tcp_tx_iov(&p->q->tx, &iov, 1); len -= n) {
		n = min_of(len, iov.iov_len);
		eat(p, iov.iov_base, n);
		tcp_tx_sent(&p->q->tx, n);
	}
}

void peer_take(struct peer *p)
{
	if (p->tls)
		take_records(p);
	else if (!p->full || (p->q && p->q->state == TCP_QUEUE_DYING))
		peer_take_some(p, SIZE_MAX);
}

void peer_turn(struct peer *p)
{
	if (p->q && p->q->state == TCP_QUEUE_DYING) {
		peer_take(p);
		p->q = NULL;
	}
	if (bed.now_ns >= target_next_deadline(&bed.target))
		target_tick(&bed.target, bed.now_ns);
	run_all();
	peer_take(p);
}

bool peer_wire(struct peer *p, const void *bytes, size_t len)
{
	bed.tt->now_ns = bed.now_ns;
	return p->tls ? tcp_queue_wire(p->q, bytes, len) : tcp_queue_input(p->q, bytes, len);
}

/* Until both sides know the other has the key. */
static void shake_hands(struct peer *p)
{
	uint8_t copy[4096];
	const void *out;
	size_t len;

	while ((len = tcp_tls_out(p->tls, &out))) {
		assert_true(len <= sizeof(copy));
		memcpy(copy, out, len);
		tcp_tls_sent(p->tls, len);
		assert_true(peer_wire(p, copy, len));
		take_records(p);
	}
	assert_int_equal(tcp_tls_state(p->tls), TCP_TLS_UP);
	assert_true(p->q->tq.secure);
}

size_t peer_seal(struct peer *p, const void *bytes, size_t len, uint8_t *ret, size_t room)
{
	const uint8_t *from = bytes, *end = from + len;
	size_t made = 0, n;
	const void *out;

	if (tcp_tls_state(p->tls) == TCP_TLS_SHAKING)
		shake_hands(p);
	for (; from < end; from += n) {
		struct tcp_out o;
		struct tcp_tx tx;

		n = min_of((size_t)(end - from), p->record ? p->record : (size_t)TCP_TLS_RECORD);
		tcp_tx_init(&tx);
		tcp_out_init(&o, NULL);
		o.data = from;
		o.data_len = (uint32_t)n;
		tcp_tx_push(&tx, &o);
		tcp_tls_put(p->tls, &tx);
		assert_int_equal(tx.bytes, 0);
		len = tcp_tls_out(p->tls, &out);
		assert_true(made + len <= room);
		memcpy(ret + made, out, len);
		tcp_tls_sent(p->tls, len);
		made += len;
	}
	return made;
}

void peer_bytes(struct peer *p, const void *bytes, size_t len)
{
	static uint8_t records[4 << 20];

	if (!p->q)
		return;
	if (p->keep) {
		memcpy(p->keep + p->kept, bytes, len);
		p->kept += len;
		return;
	}
	if (p->tls) {
		len = peer_seal(p, bytes, len, records, sizeof(records));
		bytes = records;
	}
	if (!peer_wire(p, bytes, len)) {
		assert_non_null(bed.t2);
		tcp_hand(p->q);
	}
	run_groups();
	peer_take(p);
	if (p->q->state == TCP_QUEUE_DYING)
		peer_turn(p);
}

void peer_send(struct peer *p)
{
	static uint8_t bytes[(2 << 20) + 4096];
	struct iovec iov;
	size_t len = 0;

	while (tcp_tx_iov(&p->tx, &iov, 1)) {
		assert_true(len + iov.iov_len <= sizeof(bytes));
		memcpy(bytes + len, iov.iov_base, iov.iov_len);
		len += iov.iov_len;
		tcp_tx_sent(&p->tx, iov.iov_len);
	}
	peer_bytes(p, bytes, len);
}

const struct pdu *peer_next(struct peer *p, enum nvme_tcp_type type)
{
	assert_true(p->taken < p->came);
	assert_int_equal(p->pdus[p->taken].ch.type, type);
	return &p->pdus[p->taken++];
}

void peer_terminated(struct peer *p, uint16_t fes, uint32_t fei)
{
	const struct pdu *u = peer_next(p, NVME_TCP_C2H_TERM);
	struct cursor c = cursor_init(u->head, 16);
	struct nvme_tcp_term t;

	nvme_tcp_term_get(&c, &t);
	assert_int_equal(t.fes, fes);
	assert_int_equal(t.fei, fei);
	assert_in_range(u->len, NVME_TCP_CH_LEN, NVME_TCP_TERM_DATA_MAX);
	assert_int_equal(p->taken, p->came);
	assert_null(p->q);
}

struct nvme_tcp_icresp peer_init(struct peer *p, const struct nvme_tcp_icreq *req)
{
	struct nvme_tcp_icresp r;
	struct tcp_out o;
	struct wcursor w;
	struct cursor c;

	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &p->tx, NVME_TCP_ICREQ, 0, 0);
	nvme_tcp_icreq_put(&w, req);
	tcp_out_pdu_end(&o);
	tcp_tx_push(&p->tx, &o);
	p->rx.pda = req->hpda;
	peer_send(p);
	c = cursor_init(peer_next(p, NVME_TCP_ICRESP)->head, 120);
	nvme_tcp_icresp_get(&c, &r);
	return r;
}

void peer_command(struct peer *p, const struct nvme_sqe *s, const void *data, uint32_t len)
{
	struct tcp_out o;
	struct wcursor w;

	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &p->tx, NVME_TCP_CMD, 0, len);
	nvme_sqe_put(&w, s);
	tcp_out_pdu_end(&o);
	if (len)
		tcp_out_data(&o, &p->tx, data, len, 0);
	tcp_tx_push(&p->tx, &o);
	peer_send(p);
}

void peer_data(struct peer *p, const struct nvme_tcp_data *d, uint8_t flags, const void *data)
{
	struct tcp_out o;
	struct wcursor w;

	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &p->tx, NVME_TCP_H2C_DATA, flags, d->datal);
	nvme_tcp_data_put(&w, d);
	tcp_out_pdu_end(&o);
	tcp_out_data(&o, &p->tx, data, d->datal, 0);
	tcp_tx_push(&p->tx, &o);
	peer_send(p);
}

struct nvme_tcp_r2t peer_r2t(struct peer *p)
{
	struct cursor c = cursor_init(peer_next(p, NVME_TCP_R2T)->head, 16);
	struct nvme_tcp_r2t r;

	nvme_tcp_r2t_get(&c, &r);
	return r;
}

struct nvme_cqe peer_response(struct peer *p)
{
	struct cursor c = cursor_init(peer_next(p, NVME_TCP_RESP)->head, NVME_CQE_LEN);
	struct nvme_cqe q;

	nvme_cqe_get(&c, &q);
	return q;
}

struct nvme_sqe peer_sqe(uint8_t opcode, uint16_t cid, uint32_t len)
{
	struct nvme_sqe s = {.opcode = opcode, .flags = NVME_SQE_PSDT_SGL, .cid = cid, .nsid = 1};

	s.sgl = (struct nvme_sgl){
		.type = NVME_SGL_TRANSPORT_DATA_BLOCK, .subtype = NVME_SGL_TRANSPORT, .len = len};
	return s;
}

struct nvme_sqe peer_rw(uint8_t opcode, uint16_t cid, uint64_t slba, uint32_t len)
{
	struct nvme_sqe s = peer_sqe(opcode, cid, len);

	nvme_rw_set(&s, slba, len / 512, 0);
	return s;
}

void peer_connect_send(struct peer *p, uint16_t qid, uint16_t cntlid, uint8_t cattr)
{
	const struct nvmf_connect co = {.qid = qid, .sqsize = DEPTH - 1, .cattr = cattr};
	const struct nvmf_connect_data d = {.cntlid = cntlid, .subnqn = NQN, .hostnqn = HOSTNQN};
	uint8_t data[NVMF_CONNECT_DATA_LEN];
	struct wcursor w = wcursor_init(data, sizeof(data));
	struct nvme_sqe s = peer_sqe(0, 0, 0);

	nvmf_connect_data_put(&w, &d);
	nvmf_connect_to_sqe(&co, &s);
	s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = sizeof(data)};
	peer_command(p, &s, data, sizeof(data));
}

uint16_t peer_connect(struct peer *p, uint16_t qid, uint16_t cntlid, uint8_t cattr)
{
	struct nvme_cqe q;

	peer_connect_send(p, qid, cntlid, cattr);
	q = peer_response(p);
	assert_int_equal(q.status, NVME_SC_SUCCESS);
	return (uint16_t)q.result;
}

static void enable(struct peer *p)
{
	struct nvmf_prop prop = {.offset = NVME_PROP_CC,
				 .value = NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16};
	struct nvme_sqe s = peer_sqe(0, 1, 0);

	nvmf_prop_to_sqe(&prop, NVMF_PROPERTY_SET, &s);
	peer_command(p, &s, NULL, 0);
	assert_int_equal(peer_response(p).status, NVME_SC_SUCCESS);
}

struct pair pair_open(const struct nvme_tcp_icreq *req, uint8_t cattr)
{
	static const struct nvme_tcp_icreq zeroes;
	struct pair p = {.admin = peer_open(), .io = NULL};
	uint16_t cntlid;

	peer_init(p.admin, req ? req : &zeroes);
	cntlid = peer_connect(p.admin, 0, NVMF_CNTLID_DYNAMIC, cattr);
	enable(p.admin);
	p.io = peer_open();
	peer_init(p.io, req ? req : &zeroes);
	assert_int_equal(peer_connect(p.io, 1, cntlid, cattr), cntlid);
	return p;
}

/* The queues of a controller end together. */
void pair_close(struct pair *p)
{
	peer_close(p->io);
	peer_close(p->admin);
}
