/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The target's side of NVMe/TCP, PDU by PDU, with hosts that do what hosts should not. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcp_bed.h"

static uint8_t some[2 << 20];

static void fill(void)
{
	for (size_t i = 0; i < sizeof(some); i++)
		some[i] = (uint8_t)(i * 31 + i / 251);
}

/* --- what is agreed on --------------------------------------------------------------------------
 */

static void digests_are_had_where_the_host_asks_for_them(void **state)
{
	(void)state;
	for (uint8_t dgst = 0; dgst < 4; dgst++) {
		const struct nvme_tcp_icreq req = {.dgst = dgst};
		struct peer *p = peer_open();
		struct nvme_tcp_icresp r = peer_init(p, &req);

		assert_int_equal(r.pfv, 0);
		assert_int_equal(r.cpda, 0);
		assert_int_equal(r.dgst, dgst);
		assert_int_equal(r.maxh2cdata, TARGET_DATA_MAX);
		peer_close(p);
	}
}

/* --- data that hosts send -----------------------------------------------------------------------
 */

static void read_back(struct peer *p, uint64_t slba, const uint8_t *want, uint32_t len)
{
	struct nvme_sqe s = peer_rw(NVME_IO_READ, 99, slba, len);
	const struct pdu *u;
	struct cursor c;
	struct nvme_tcp_data d;

	peer_command(p, &s, NULL, 0);
	u = peer_next(p, NVME_TCP_C2H_DATA);
	c = cursor_init(u->head, 16);
	nvme_tcp_data_get(&c, &d);
	assert_int_equal(d.cccid, 99);
	assert_int_equal(d.datao, 0);
	assert_int_equal(d.datal, len);
	assert_true(u->ch.flags & NVME_TCP_DATA_LAST);
	assert_int_equal(u->len, len);
	assert_true(u->fine);
	assert_memory_equal(u->data, want, len);
	if (!(u->ch.flags & NVME_TCP_DATA_SUCCESS))
		assert_int_equal(peer_response(p).status, NVME_SC_SUCCESS);
}

static void data_in_the_capsule_are_written(void **state)
{
	(void)state;
	fill();
	for (uint8_t dgst = 0; dgst < 4; dgst++) {
		const struct nvme_tcp_icreq req = {.dgst = dgst, .hpda = (uint8_t)(dgst * 9)};
		struct pair p = pair_open(&req, 0);
		struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, dgst, 8192);

		s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = 8192};
		peer_command(p.io, &s, some + dgst, 8192);
		assert_int_equal(peer_response(p.io).status, NVME_SC_SUCCESS);
		read_back(p.io, dgst, some + dgst, 8192);
		pair_close(&p);
	}
}

static void stored(struct store_op *op, int error)
{
	assert_int_equal(error, 0);
	op->len = 0;
}

/* By nobody's command. */
static void store_write(uint64_t offset, void *data, size_t len)
{
	struct iovec iov = {data, len};
	struct store_op op = {.opcode = STORE_WRITE,
			      .offset = offset,
			      .len = len,
			      .iov = &iov,
			      .iov_count = 1,
			      .done = stored};

	store_submit(bed.slow.below, &op);
	assert_int_equal(op.len, 0);
}

/* The host says how many R2Ts at a time it takes; the data are divided among them. */
static void more_data_are_asked_for_at_once(void **state)
{
	static const struct {
		uint32_t maxr2t, len, count, piece;
	} cases[] = {
		{0, 512, 1, 512},
		{0, 1 << 20, 1, 1 << 20},
		{1, 1 << 20, 2, 512 << 10},
		{0xffffffff, 1 << 20, 4, 256 << 10},
		{7, 100 << 10, 1, 100 << 10},
		{7, 200 << 10, 2, 100 << 10},
		{2, (300 << 10) + 512, 3, 104 << 10}, /* pieces are whole pages */
	};

	(void)state;
	fill();
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct nvme_tcp_icreq req = {.maxr2t = cases[i].maxr2t, .dgst = i % 4};
		struct pair p = pair_open(&req, 0);
		struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, cases[i].len);
		struct nvme_tcp_r2t r[4];
		uint32_t at = 0;

		peer_command(p.io, &s, NULL, 0);
		for (unsigned k = 0; k < cases[i].count; k++) {
			r[k] = peer_r2t(p.io);
			assert_int_equal(r[k].cccid, 5);
			assert_int_equal(r[k].r2to, at);
			assert_int_equal(r[k].r2tl, min_of(cases[i].piece, cases[i].len - at));
			at += r[k].r2tl;
		}
		assert_int_equal(at, cases[i].len);
		assert_int_equal(p.io->taken, p.io->came);
		/* The last one's data first, each in two pieces. */
		for (unsigned k = cases[i].count; k-- > 0;) {
			struct nvme_tcp_data d = {.cccid = 5,
						  .ttag = r[k].ttag,
						  .datao = r[k].r2to,
						  .datal = r[k].r2tl / 2};

			peer_data(p.io, &d, 0, some + d.datao);
			d.datao += d.datal;
			d.datal = r[k].r2tl - d.datal;
			assert_int_equal(p.io->taken, p.io->came);
			peer_data(p.io, &d, NVME_TCP_DATA_LAST, some + d.datao);
		}
		assert_int_equal(peer_response(p.io).status, NVME_SC_SUCCESS);
		read_back(p.io, 0, some, cases[i].len);
		pair_close(&p);
	}
}

/* The first R2T is answered while the socket has not taken the others, which is the host's right.
 */
static void an_r2t_is_answered_before_the_next_are_sent(void **state)
{
	const uint32_t piece = 256 << 10;

	(void)state;
	fill();
	for (unsigned dgst = 0; dgst < 4; dgst++) {
		const struct nvme_tcp_icreq req = {.maxr2t = 3, .dgst = (uint8_t)dgst};
		const uint32_t hdgst = dgst & NVME_TCP_IC_HDGST ? NVME_TCP_DIGEST_LEN : 0;
		const struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 4 * piece);
		struct pair p = pair_open(&req, 0);

		p.io->full = true;
		peer_command(p.io, &s, NULL, 0);
		for (unsigned k = 0; k < 4; k++) {
			struct nvme_tcp_data d = {.cccid = 5, .datal = piece};
			struct nvme_tcp_r2t r;

			/* Up to the last byte of the next, which is not its R2T yet. */
			peer_take_some(p.io, 24 + hdgst + (k ? 0 : 23));
			r = peer_r2t(p.io);
			d.ttag = r.ttag;
			d.datao = r.r2to;
			peer_data(p.io, &d, NVME_TCP_DATA_LAST, some + d.datao);
			assert_int_equal(p.io->taken, p.io->came);
		}
		p.io->full = false;
		peer_take(p.io);
		assert_int_equal(peer_response(p.io).status, NVME_SC_SUCCESS);
		read_back(p.io, 0, some, 4 * piece);
		pair_close(&p);
	}
}

static void damaged_data_are_not_written(void **state)
{
	const struct nvme_tcp_icreq req = {.dgst = 3};
	struct pair p = pair_open(&req, 0);
	struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 4096);
	struct nvme_tcp_r2t r;
	struct nvme_tcp_data d;
	struct tcp_out o;
	struct wcursor w;
	static const uint8_t zeroes[4096];

	(void)state;
	fill();
	/* In the capsule. */
	s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = 4096};
	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &p.io->tx, NVME_TCP_CMD, 0, 4096);
	nvme_sqe_put(&w, &s);
	tcp_out_pdu_end(&o);
	tcp_out_data(&o, &p.io->tx, some, 4096, 0);
	o.tail[2] ^= 1;
	tcp_tx_push(&p.io->tx, &o);
	peer_send(p.io);
	assert_int_equal(peer_response(p.io).status & NVME_STATUS_CODE,
			 NVME_SC_TRANSIENT_TRANSPORT);
	/* Asked for: the first of two pieces is damaged; all of them are awaited. */
	s = peer_rw(NVME_IO_WRITE, 6, 0, 4096);
	peer_command(p.io, &s, NULL, 0);
	r = peer_r2t(p.io);
	d = (struct nvme_tcp_data){.cccid = 6, .ttag = r.ttag, .datal = 1024};
	tcp_out_clear(&o);
	w = tcp_out_pdu(&o, &p.io->tx, NVME_TCP_H2C_DATA, 0, d.datal);
	nvme_tcp_data_put(&w, &d);
	tcp_out_pdu_end(&o);
	tcp_out_data(&o, &p.io->tx, some, d.datal, 0);
	o.tail[0] ^= 0x80;
	tcp_tx_push(&p.io->tx, &o);
	peer_send(p.io);
	assert_int_equal(p.io->taken, p.io->came);
	d.datao = 1024;
	d.datal = 3072;
	peer_data(p.io, &d, NVME_TCP_DATA_LAST, some + 1024);
	assert_int_equal(peer_response(p.io).status & NVME_STATUS_CODE,
			 NVME_SC_TRANSIENT_TRANSPORT);
	read_back(p.io, 0, zeroes, sizeof(zeroes));
	pair_close(&p);
}

/* --- commands -----------------------------------------------------------------------------------
 */

static void the_data_of_connect_may_be_asked_for(void **state)
{
	const struct nvmf_connect co = {.sqsize = DEPTH - 1};
	const struct nvmf_connect_data d = {
		.cntlid = NVMF_CNTLID_DYNAMIC, .subnqn = NQN, .hostnqn = HOSTNQN};
	const struct nvme_tcp_icreq req = {.dgst = 3};
	uint8_t data[NVMF_CONNECT_DATA_LEN];
	struct wcursor w = wcursor_init(data, sizeof(data));
	struct nvme_sqe s = peer_sqe(0, 3, sizeof(data));
	struct peer *p = peer_open();
	struct nvme_tcp_r2t r;
	struct nvme_tcp_data h2c;

	(void)state;
	nvmf_connect_data_put(&w, &d);
	nvmf_connect_to_sqe(&co, &s);
	peer_init(p, &req);
	peer_command(p, &s, NULL, 0);
	r = peer_r2t(p);
	assert_int_equal(r.r2tl, sizeof(data));
	h2c = (struct nvme_tcp_data){.cccid = 3, .ttag = r.ttag, .datal = r.r2tl};
	peer_data(p, &h2c, NVME_TCP_DATA_LAST, data);
	assert_int_equal(peer_response(p).status, NVME_SC_SUCCESS);
	peer_close(p);
}

static unsigned int waited; /* of answers, when they were to be sent first */

static void note(struct tcp_queue *q)
{
	waited = waited ? waited : q->tx.bare;
}

/* The host has other commands to send for them meanwhile; what has data takes longer. */
static void many_answers_do_not_wait_for_all(void **state)
{
	static const uint8_t opcodes[] = {NVME_IO_READ, NVME_IO_WRITE_ZEROES};
	struct pair p = pair_open(NULL, NVMF_CATTR_NO_SQ_FLOW);

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		bed.slow.hold = true;
		for (uint16_t cid = 0; cid < DEPTH; cid++) {
			struct nvme_sqe s = peer_rw(opcodes[i], cid, 0, 512);

			peer_command(p.io, &s, NULL, 0);
		}
		waited = 0;
		bed.tt->flush = note;
		slow_release();
		bed.tt->flush = NULL;
		assert_int_equal(waited, i ? TCP_ENOUGH_BARE : 0);
		peer_take(p.io);
	}
	pair_close(&p);
}

/* Who has done without SQ head pointers is told nothing that it does not know. */
static void success_is_said_with_the_data(void **state)
{
	struct pair p = pair_open(NULL, NVMF_CATTR_NO_SQ_FLOW);
	struct nvme_sqe s = peer_rw(NVME_IO_READ, 5, 0, 4096);
	const struct pdu *u;

	(void)state;
	peer_command(p.io, &s, NULL, 0);
	u = peer_next(p.io, NVME_TCP_C2H_DATA);
	assert_int_equal(u->ch.flags, NVME_TCP_DATA_LAST | NVME_TCP_DATA_SUCCESS);
	assert_int_equal(p.io->taken, p.io->came);
	/* What fails is told of. */
	s = peer_rw(NVME_IO_READ, 6, 1 << 20, 4096);
	peer_command(p.io, &s, NULL, 0);
	assert_int_equal(peer_response(p.io).status & NVME_STATUS_CODE, NVME_SC_LBA_RANGE);
	pair_close(&p);
	/* Others are. */
	p = pair_open(NULL, 0);
	s = peer_rw(NVME_IO_READ, 5, 0, 4096);
	peer_command(p.io, &s, NULL, 0);
	u = peer_next(p.io, NVME_TCP_C2H_DATA);
	assert_int_equal(u->ch.flags, NVME_TCP_DATA_LAST);
	assert_int_equal(peer_response(p.io).sqhd, 2);
	pair_close(&p);
}

/* Memory of the store's goes out, which somebody writes to before it has gone. */
static void what_was_read_goes_out_as_it_was_then(void **state)
{
	const uint32_t len = 256 << 10;
	const struct nvme_tcp_icreq req = {.dgst = NVME_TCP_IC_HDGST | NVME_TCP_IC_DDGST};
	struct pair p = pair_open(&req, 0);
	struct nvme_sqe s = peer_rw(NVME_IO_READ, 99, 8, len);
	const struct pdu *u;
	uint8_t other[4096];

	(void)state;
	fill();
	store_write(0, some, len + 4096);
	p.io->full = true;
	peer_command(p.io, &s, NULL, 0);
	memset(other, 'o', sizeof(other));
	store_write(64 << 10, other, sizeof(other));
	p.io->full = false;
	peer_take(p.io);
	u = peer_next(p.io, NVME_TCP_C2H_DATA);
	assert_true(u->fine);
	assert_int_equal(u->len, len);
	assert_memory_equal(u->data, some + 4096, len);
	assert_int_equal(peer_response(p.io).status, NVME_SC_SUCCESS);
	memcpy(some + (64 << 10), other, sizeof(other));
	read_back(p.io, 0, some, len);
	pair_close(&p);
}

static void data_are_aligned_as_the_host_wants_them(void **state)
{
	(void)state;
	fill();
	for (uint8_t hpda = 0; hpda <= NVME_TCP_PDA_MAX; hpda += 3) {
		const struct nvme_tcp_icreq req = {.hpda = hpda, .dgst = NVME_TCP_IC_HDGST};
		struct pair p = pair_open(&req, 0);
		struct nvme_sqe s = peer_rw(NVME_IO_READ, 5, 0, 512);

		peer_command(p.io, &s, NULL, 0); /* the bed's host looks at where they are */
		assert_int_equal(peer_next(p.io, NVME_TCP_C2H_DATA)->ch.pdo,
				 nvme_tcp_pdo(24, true, hpda));
		pair_close(&p);
	}
}

/* --- hosts that do not do their part ------------------------------------------------------------
 */

static void who_does_not_send_what_was_asked_for_loses_the_connection(void **state)
{
	struct pair p = pair_open(NULL, 0);
	struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 1 << 20);
	struct nvme_tcp_data d = {.cccid = 5, .datal = 512};

	(void)state;
	peer_command(p.io, &s, NULL, 0);
	d.ttag = peer_r2t(p.io).ttag;
	assert_int_equal(bed.shares.budget[SHARE_FOR_IO].used, 1 << 20);
	peer_turn(p.io);
	assert_int_equal(bed.t->ops->next_deadline(bed.t), bed.now_ns + TCP_MOVE_NS);
	/* A little now and then is not enough. */
	for (int i = 0; i < 4; i++) {
		bed.now_ns += TCP_MOVE_NS / 4 - 1;
		peer_turn(p.io);
		assert_non_null(p.io->q);
		assert_int_equal(p.io->q->state, TCP_QUEUE_UP);
		peer_data(p.io, &d, 0, some);
		d.datao += 512;
	}
	bed.now_ns += 4;
	p.io->q = NULL; /* is freed at the end of this turn */
	bed.t->ops->process(bed.t, bed.now_ns, true);
	assert_int_equal(bed.shares.budget[SHARE_FOR_IO].used, 0);
	assert_int_equal(bed.shares.queue_count, 1);
	pair_close(&p);
}

static void who_does_not_take_responses_loses_the_connection(void **state)
{
	struct pair p = pair_open(NULL, 0);
	struct nvme_sqe s = peer_rw(NVME_IO_READ, 5, 0, 1 << 20);
	uint8_t bytes[72] = {NVME_TCP_CMD, 0, 72, 0, 72};
	struct wcursor w = wcursor_init(bytes + 8, 64);

	(void)state;
	nvme_sqe_put(&w, &s);
	assert_true(tcp_queue_input(p.io->q, bytes, sizeof(bytes)));
	assert_true(p.io->q->tx.bytes > 1 << 20);
	bed.now_ns += TCP_MOVE_NS;
	p.io->q = NULL;
	bed.t->ops->process(bed.t, bed.now_ns, true);
	assert_int_equal(bed.shares.budget[SHARE_FOR_IO].used, 0);
	pair_close(&p);
}

/* What a store still does is done before the memory goes. */
static void who_goes_in_the_middle_leaves_nothing_behind(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct pair p = pair_open(NULL, 0);
		struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 5, 0, 64 << 10);

		bed.slow.hold = true;
		peer_command(p.io, &s, NULL, 0); /* asked for, and not sent */
		(void)peer_r2t(p.io);
		s = peer_rw(NVME_IO_READ, 6, 0, 64 << 10);
		peer_command(p.io, &s, NULL, 0); /* a store's */
		s = peer_rw(NVME_IO_WRITE, 7, 0, 4096);
		s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = 4096};
		peer_command(p.io, &s, some, 4096);
		if (i & 1) { /* half a capsule */
			const uint8_t bytes[100] = {NVME_TCP_CMD, 0, 72, 72, 0, 16};

			peer_bytes(p.io, bytes, sizeof(bytes));
			assert_non_null(p.io->q->incoming);
		}
		assert_int_equal(bed.slow.count, 2);
		tcp_queue_kill(i & 2 ? p.io->q : p.admin->q);
		p.io->q = p.admin->q = NULL;
		bed.t->ops->process(bed.t, bed.now_ns, true);
		assert_int_not_equal(bed.shares.pool.used, 0);
		slow_release();
		assert_int_equal(bed.t->ops->next_deadline(bed.t), 0);
		bed.t->ops->shutdown(bed.t);
		bed.t->ops->process(bed.t, bed.now_ns, true);
		assert_true(bed.t->ops->idle(bed.t));
		bed.tt->shutting_down = false;
		assert_int_equal(bed.shares.pool.used, 0);
		pair_close(&p);
	}
}

static void a_crowd_without_connect_makes_room(void **state)
{
	static struct peer *crowd[SHARE_YOUNG_HOST_MAX + 4];
	const struct nvme_tcp_icreq req = {0};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++)
		crowd[i] = peer_open();
	assert_in_range(bed.shares.young_count, 1, SHARE_YOUNG_HOST_MAX);
	for (unsigned i = 0; i < 4; i++) { /* the oldest have given way */
		assert_int_equal(crowd[i]->q->state, TCP_QUEUE_DYING);
		crowd[i]->q = NULL;
	}
	peer_turn(crowd[4]);
	peer_init(crowd[ARRAY_SIZE(crowd) - 1], &req);
	peer_connect(crowd[ARRAY_SIZE(crowd) - 1], 0, NVMF_CNTLID_DYNAMIC, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(crowd); i++)
		peer_close(crowd[i]);
}

/* --- two groups ------------------------------------------------------------------------------- */

static struct target_group *group_of(const struct peer *p)
{
	return p->q->tq.group;
}

static void io_queues_are_dealt_out_to_groups(void **state)
{
	struct pair p = pair_open(NULL, 0);
	struct peer *next = peer_open();

	(void)state;
	peer_init(next, &(struct nvme_tcp_icreq){0});
	peer_connect(next, 2, 1, 0);
	assert_ptr_equal(group_of(p.admin), &bed.target.group);
	assert_ptr_equal(group_of(p.io), &bed.group2);
	assert_ptr_equal(group_of(next), &bed.target.group);
	assert_int_equal(bed.shares.queue_count, 2);
	assert_int_equal(bed.shares2.queue_count, 1);
	peer_close(next);
	pair_close(&p);
}

/* The first group sees no more of it than the headers; what came behind them goes along. */
static void what_came_behind_the_headers_goes_along(void **state)
{
	struct pair p = pair_open(NULL, 0);
	struct nvme_sqe s;

	(void)state;
	p.io->taken = p.io->came;
	for (uint16_t cid = 1; cid <= 3; cid++) {
		s = peer_rw(NVME_IO_READ, cid, cid, 512);
		peer_command(p.io, &s, NULL, 0);
	}
	peer_close(p.io);
	/* A second command behind Connect is one more than a young queue has room for. */
	p.io = peer_open();
	peer_init(p.io, &(struct nvme_tcp_icreq){0});
	bed.target.turn = &bed.target.group;
	peer_connect_send(p.io, 1, 1, 0);
	assert_int_equal(peer_response(p.io).status, NVME_SC_SUCCESS);
	assert_ptr_equal(group_of(p.io), &bed.group2);
	pair_close(&p);
}

/* And at once: a descriptor that is nobody's share is not kept for a while. */
static void where_there_is_no_room_it_ends(void **state)
{
	struct pair p = pair_open(NULL, 0);
	struct peer *next = peer_open();
	int sockets[2];

	(void)state;
	peer_init(next, &(struct nvme_tcp_icreq){0});
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	next->q->fd = sockets[0];
	bed.shares2.queue_count = SHARE_QUEUES_MAX;
	bed.target.turn = &bed.target.group;
	peer_connect_send(next, 2, 1, 0);
	bed.shares2.queue_count = 1;
	assert_int_equal(next->taken, next->came);
	assert_int_equal(bed.target.counters->queues_failed, 1);
	assert_int_equal(fcntl(sockets[0], F_GETFD), -1);
	close(sockets[1]);
	next->q = NULL; /* it is freed */
	peer_close(next);
	/* Others live. */
	peer_turn(p.io);
	assert_int_equal(p.io->q->state, TCP_QUEUE_UP);
	pair_close(&p);
}

/* They may be many: each that comes would be dearer. */
static void who_waits_for_its_host_s_end_is_not_looked_at_for_others(void **state)
{
	struct peer *p = peer_open();
	struct tcp_queue *q = p->q;
	int sockets[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	q->fd = sockets[0];
	tcp_queue_kill(q);
	bed.t->ops->process(bed.t, bed.now_ns, true);
	assert_true(q->torn_down && q->fd >= 0);
	assert_int_equal(bed.t->ops->next_deadline(bed.t), bed.now_ns + TCP_LINGER_NS);
	q->torn_down = false;
	tcp_tear_down_dying(bed.tt);
	assert_false(q->torn_down);
	q->torn_down = true;
	p->q = NULL;
	bed.now_ns += TCP_LINGER_NS;
	bed.t->ops->process(bed.t, bed.now_ns, true);
	assert_int_equal(fcntl(sockets[0], F_GETFD), -1);
	close(sockets[1]);
	peer_close(p);
}

/* Of whatever length they may be: disks past the page cache take no other memory. */
static void data_in_capsules_begin_with_a_page(void **state)
{
	struct pair p;

	(void)state;
	target_port_capsules(&bed.port, 10000);
	p = pair_open(NULL, 0);
	assert_true(p.io->q->cmd_count > 1);
	for (uint32_t i = 0; i < p.io->q->cmd_count; i++)
		assert_int_equal((uintptr_t)p.io->q->cmds[i].capsule % 4096, 0);
	pair_close(&p);
}

static void who_arrives_at_the_end_goes(void **state)
{
	struct peer *p = peer_open();

	(void)state;
	peer_init(p, &(struct nvme_tcp_icreq){0});
	bed.t2->ops->shutdown(bed.t2);
	peer_connect_send(p, 1, 1, 0);
	assert_int_equal(p->taken, p->came);
	p->q = NULL;
	peer_close(p);
	assert_true(bed.t2->ops->idle(bed.t2));
}

/* Its port may be listened on again when the last that came by it has gone, wherever that was. */
static void a_port_knows_who_came_by_it(void **state)
{
	struct pair p = pair_open(NULL, 0);

	(void)state;
	assert_int_equal(bed.port.connections, 2);
	pair_close(&p);
	assert_int_equal(bed.port.connections, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TCP_BED_TEST(digests_are_had_where_the_host_asks_for_them),
		TCP_BED_TEST(data_in_the_capsule_are_written),
		TCP_BED_TEST(data_in_capsules_begin_with_a_page),
		TCP_BED_TEST(more_data_are_asked_for_at_once),
		TCP_BED_TEST(an_r2t_is_answered_before_the_next_are_sent),
		TCP_BED_TEST(damaged_data_are_not_written),
		TCP_BED_TEST(the_data_of_connect_may_be_asked_for),
		TCP_BED_TEST(many_answers_do_not_wait_for_all),
		TCP_BED_TEST(success_is_said_with_the_data),
		TCP_BED_TEST(what_was_read_goes_out_as_it_was_then),
		TCP_BED_TEST(data_are_aligned_as_the_host_wants_them),
		TCP_BED_TEST(who_does_not_send_what_was_asked_for_loses_the_connection),
		TCP_BED_TEST(who_does_not_take_responses_loses_the_connection),
		TCP_BED_TEST(who_goes_in_the_middle_leaves_nothing_behind),
		TCP_BED_TEST(who_waits_for_its_host_s_end_is_not_looked_at_for_others),
		TCP_BED_TEST(a_crowd_without_connect_makes_room),
		TCP_BED_TEST_2(digests_are_had_where_the_host_asks_for_them),
		TCP_BED_TEST_2(data_in_the_capsule_are_written),
		TCP_BED_TEST_2(more_data_are_asked_for_at_once),
		TCP_BED_TEST_2(damaged_data_are_not_written),
		TCP_BED_TEST_2(the_data_of_connect_may_be_asked_for),
		TCP_BED_TEST_2(success_is_said_with_the_data),
		TCP_BED_TEST_2(data_are_aligned_as_the_host_wants_them),
		TCP_BED_TEST_2(who_does_not_take_responses_loses_the_connection),
		TCP_BED_TEST_2(a_crowd_without_connect_makes_room),
		TCP_BED_TEST_2(io_queues_are_dealt_out_to_groups),
		TCP_BED_TEST_2(what_came_behind_the_headers_goes_along),
		TCP_BED_TEST_2(where_there_is_no_room_it_ends),
		TCP_BED_TEST_2(who_arrives_at_the_end_goes),
		TCP_BED_TEST_2(a_port_knows_who_came_by_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
