/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "stream_bed.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define SLOT(i) ((uint8_t)(i + 1))

/* ---- upcalls -------------------------------------------------------------------------------- */

static void *take_memory(void *ctx, size_t bytes)
{
	struct sb_side *s = ctx;

	s->allocs++;
	return calloc(1, bytes);
}

static void give_memory(void *ctx, void *p)
{
	struct sb_side *s = ctx;

	s->allocs--;
	free(p);
}

static uint32_t any_number(void *ctx)
{
	struct sb_side *s = ctx;

	s->random = s->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(s->random >> 32);
}

static void notified(void *ctx, void *cq_user)
{
	(void)ctx;
	(void)cq_user;
}

static void event(void *ctx, enum rnic_event e, void *user)
{
	struct sb_side *s = ctx;

	(void)user;
	assert_true(s->nevents < SB_EVENTS);
	s->events[s->nevents++] = e;
}

static void failed(void *ctx, const struct rnic_failure *f)
{
	struct sb_side *s = ctx;

	s->failure = *f;
}

static const struct rnic_ops ops = {
	.alloc = take_memory,
	.free = give_memory,
	.random = any_number,
	.cq_notify = notified,
	.async_event = event,
	.qp_failed = failed,
};

/* ---- life ----------------------------------------------------------------------------------- */

#define ALL_RIGHTS                                                                      \
	(RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ | \
	 RNIC_ACCESS_REMOTE_ATOMIC)

struct sb_opts sb_defaults(void)
{
	const struct rnic_stream_init init = {
		.crc = true, .immediate = true, .atomics = true, .ird = 4, .ord = 4, .emss = 1448};

	return (struct sb_opts){.init = {init, init}};
}

static void open_side(struct sb *b, int i)
{
	struct sb_side *s = &b->side[i];
	const struct rnic_config config = {.slot = SLOT(i), .max_qps = 16, .max_keys = 64};
	uint32_t depth = b->opts.depth ? b->opts.depth : 64;
	struct rnic_qp_init init = {
		.type = RNIC_QPT_IWARP,
		.cap = {depth, depth, 4, 4, 64},
		.sq_sig_all = true,
	};
	const struct rnic_qp_attr attr = {
		.state = RNIC_QPS_INIT,
		.access_flags = b->opts.access ? b->opts.access : ALL_RIGHTS,
	};

	s->forged = (struct fpdu_out){.crc = b->opts.init[i].crc};
	s->random = b->seed * 2u + (uint32_t)i + 1;
	s->mem = calloc(1, SB_MEM);
	assert_int_equal(rnic_create(&s->rnic, &config, &ops, s), 0);
	assert_int_equal(rnic_pd_create(s->rnic, &s->pd), 0);
	assert_int_equal(rnic_cq_create(s->rnic, 4 * depth, s, &s->scq), 0);
	assert_int_equal(rnic_cq_create(s->rnic, 4 * depth, s, &s->rcq), 0);
	init.send_cq = s->scq;
	init.recv_cq = s->rcq;
	init.qp_user = s;
	assert_int_equal(
		rnic_mr_create(s->pd, s->mem, SB_MEM, (uintptr_t)s->mem, ALL_RIGHTS, &s->mr), 0);
	assert_int_equal(rnic_qp_create(s->pd, &init, &s->qp), 0);
	assert_int_equal(rnic_qp_modify(s->qp, &attr, RNIC_QP_STATE | RNIC_QP_ACCESS_FLAGS, b->now),
			 0);
	if (b->opts.no_streams)
		return;
	assert_int_equal(rnic_stream_begin(s->qp, &b->opts.init[i], b->now), 0);
	assert_int_equal(sb_state(b, i), RNIC_QPS_RTS);
}

struct sb *sb_open(const struct sb_opts *opts, uint32_t seed)
{
	struct sb *b = calloc(1, sizeof(*b));

	b->opts = *opts;
	b->seed = seed;
	for (int i = 0; i < 2; i++)
		open_side(b, i);
	return b;
}

void sb_close(struct sb *b)
{
	for (int i = 0; i < 2; i++) {
		struct sb_side *s = &b->side[i];

		if (s->qp)
			assert_int_equal(rnic_qp_destroy(s->qp), 0);
		assert_int_equal(rnic_mr_destroy(s->mr), 0);
		assert_int_equal(rnic_cq_destroy(s->scq), 0);
		assert_int_equal(rnic_cq_destroy(s->rcq), 0);
		assert_int_equal(rnic_pd_destroy(s->pd), 0);
		rnic_destroy(s->rnic);
		assert_int_equal(s->allocs, 0);
		free(s->out.bytes);
		free(s->mem);
	}
	free(b);
}

/* ---- the streams ---------------------------------------------------------------------------- */

uint32_t sb_any(struct sb *b, uint32_t below)
{
	b->seed = b->seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)b->seed * below >> 32);
}

static void append(struct sb_wire *w, const void *p, size_t len)
{
	while (w->room < w->end + len) {
		w->room = w->room ? 2 * w->room : 65536;
		w->bytes = realloc(w->bytes, w->room);
		assert_non_null(w->bytes);
	}
	memcpy(w->bytes + w->end, p, len);
	w->end += len;
}

static void append_batch(struct sb_side *s, const struct fpdu_batch *batch)
{
	for (size_t i = 0; i < batch->iovs; i++)
		append(&s->out, batch->iov[i].iov_base, batch->iov[i].iov_len);
}

bool sb_tx(struct sb *b, int side, size_t max)
{
	struct sb_side *s = &b->side[side];
	struct iovec iov[FPDU_BATCH_IOVS];
	uint8_t room[FPDU_BATCH_ROOM];
	struct fpdu_batch batch = {
		.iov = iov, .iovs_max = ARRAY_SIZE(iov), .room = room, .room_max = sizeof(room)};
	struct rnic_qp *qp = rnic_stream_next(s->rnic);
	bool more;

	if (!qp)
		return false;
	assert_ptr_equal(qp, s->qp);
	more = rnic_stream_tx(qp, &batch, max, b->now);
	append_batch(s, &batch);
	return more;
}

void sb_tx_of_changing_memory(struct sb *b, int side)
{
	struct sb_side *s = &b->side[side];
	struct iovec iov[FPDU_BATCH_IOVS];
	uint8_t room[FPDU_BATCH_ROOM], copies[1 << 17];
	struct fpdu_batch batch = {
		.iov = iov,
		.iovs_max = ARRAY_SIZE(iov),
		.room = room,
		.room_max = sizeof(room),
		.copies = copies,
		.copies_max = sizeof(copies),
	};

	assert_ptr_equal(rnic_stream_next(s->rnic), s->qp);
	while (rnic_stream_tx(s->qp, &batch, sizeof(copies) / 2, b->now))
		assert_true(batch.bytes < sizeof(copies) / 2);
	for (size_t i = 0; i < SB_MEM; i++)
		s->mem[i] ^= 0xff;
	append_batch(s, &batch);
}

size_t sb_deliver(struct sb *b, int from, size_t max)
{
	struct sb_wire *w = &b->side[from].out;
	size_t n = min_of(w->end - w->begin, max);
	uint8_t *exactly; /* so that who reads beyond is noticed */

	if (!n)
		return 0;
	exactly = malloc(n);
	memcpy(exactly, w->bytes + w->begin, n);
	w->begin += n;
	if (w->begin == w->end)
		w->begin = w->end = 0;
	rnic_stream_rx(b->side[!from].qp, exactly, n, b->now);
	free(exactly);
	return n;
}

void sb_run(struct sb *b)
{
	bool moved;

	do {
		moved = false;
		for (int i = 0; i < 2; i++) {
			moved |= sb_tx(b, i, SIZE_MAX);
			moved |= sb_deliver(b, i, SIZE_MAX) != 0;
		}
	} while (moved);
}

bool sb_step_randomly(struct sb *b)
{
	static const uint32_t sizes[] = {1, 3, 20, 700, 3000, 100000};
	int side = (int)sb_any(b, 2);
	size_t n = 1 + sb_any(b, sizes[sb_any(b, ARRAY_SIZE(sizes))]);

	return sb_any(b, 2) ? sb_tx(b, side, n) : sb_deliver(b, side, n) != 0;
}

void sb_run_randomly(struct sb *b)
{
	unsigned int still = 0;

	while (still < 50)
		still = sb_step_randomly(b) ? 0 : still + 1;
}

void sb_forge(struct sb *b, int from, const struct ddp_hdr *h, const void *payload, size_t len)
{
	struct sb_side *s = &b->side[from];
	struct iovec iov[FPDU_BATCH_IOVS], v = {(void *)payload, len};
	uint8_t room[FPDU_BATCH_ROOM], hdr[DDP_HDR_MAX];
	struct fpdu_batch batch = {
		.iov = iov, .iovs_max = ARRAY_SIZE(iov), .room = room, .room_max = sizeof(room)};

	assert_true(fpdu_out_put(&s->forged, &batch, hdr, ddp_hdr_put(hdr, h), &v, len != 0));
	append_batch(s, &batch);
}

static int take_last(void *ctx, const uint8_t *ulpdu, size_t len)
{
	struct rdmap_terminate *ret = ctx;
	struct ddp_hdr h;
	int n = ddp_hdr_get(&h, ulpdu, len);

	assert_true(n > 0);
	if (h.opcode != RDMAP_TERMINATE)
		return 0;
	assert_int_equal(h.qn, DDP_QN_TERMINATE);
	assert_int_equal(h.msn, 1);
	assert_int_equal(h.mo, 0);
	assert_true(h.last);
	assert_int_equal(rdmap_terminate_get(ret, ulpdu + n, len - (size_t)n), 0);
	return 1; /* the last */
}

struct rdmap_terminate sb_terminate(struct sb *b, int side)
{
	struct sb_side *s = &b->side[side];
	struct rdmap_terminate ret;
	struct fpdu_in in;

	assert_true(rnic_stream_fate(s->qp) < RNIC_STREAM_ENDS);
	assert_false(sb_tx(b, side, SIZE_MAX));
	assert_int_equal(rnic_stream_fate(s->qp), RNIC_STREAM_ENDS);
	fpdu_in_init(&in, b->opts.init[side].crc, false, &ops, s);
	assert_int_equal(fpdu_in_feed(&in, s->out.bytes + s->out.begin, s->out.end - s->out.begin,
				      take_last, &ret),
			 1);
	assert_int_equal(in.at, s->out.end - s->out.begin);
	fpdu_in_end(&in);
	return ret;
}

/* ---- work ----------------------------------------------------------------------------------- */

struct rnic_sge sb_sge(struct sb *b, int side, uint32_t off, uint32_t len)
{
	struct sb_side *s = &b->side[side];

	return (struct rnic_sge){(uintptr_t)s->mem + off, len, rnic_mr_lkey(s->mr)};
}

int sb_recv(struct sb *b, int side, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct rnic_sge sge = sb_sge(b, side, off, len);

	return rnic_post_recv(b->side[side].qp,
			      &(struct rnic_recv_wr){.wr_id = wr_id, .sge = &sge, .num_sge = 1});
}

int sb_post(struct sb *b, int side, struct rnic_send_wr wr, uint32_t off, uint32_t len,
	    uint32_t remote_off)
{
	struct sb_side *peer = &b->side[!side];
	struct rnic_sge sge = sb_sge(b, side, off, len);

	wr.sge = &sge;
	wr.num_sge = len != 0;
	if (!wr.rkey)
		wr.rkey = rnic_mr_rkey(peer->mr);
	if (!wr.remote_addr)
		wr.remote_addr = (uintptr_t)peer->mem + remote_off;
	return rnic_post_send(b->side[side].qp, &wr, b->now);
}

struct rnic_wc sb_wc(struct sb *b, int side, bool recv)
{
	struct sb_side *s = &b->side[side];
	struct rnic_wc wc;

	assert_int_equal(rnic_cq_poll(recv ? s->rcq : s->scq, &wc, 1), 1);
	return wc;
}

void sb_expect(struct sb *b, int side, bool recv, uint64_t wr_id, enum rnic_wc_status status)
{
	struct rnic_wc wc = sb_wc(b, side, recv);

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
}

void sb_expect_none(struct sb *b, int side)
{
	assert_true(rnic_cq_empty(b->side[side].scq));
	assert_true(rnic_cq_empty(b->side[side].rcq));
}

enum rnic_qp_state sb_state(struct sb *b, int side)
{
	struct rnic_qp_attr attr;

	rnic_qp_query(b->side[side].qp, &attr, NULL);
	return attr.state;
}

bool sb_saw_event(struct sb *b, int side, enum rnic_event e)
{
	for (uint32_t i = 0; i < b->side[side].nevents; i++)
		if (b->side[side].events[i] == e)
			return true;
	return false;
}
