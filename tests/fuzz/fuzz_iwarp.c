/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A queue pair of iWARP and a peer that follows no rule: the input is the peer's stream, raw or as
 * segments that are framed as they should be, and what the consumer does between them. Nothing may
 * be written outside what is registered, every work request completes once and in order, and what
 * goes out is FPDUs. Input: a byte of configuration, then steps, each a byte that names it and its
 * arguments.
 */
#include "fuzz.h"

#include <string.h>

#include "base/bytes.h"
#include "mem.h"
#include "rnic/iwarp/iwarp.h"

enum { STEPS_MAX = 400, GUARD = 4096, REGION = 16384, PAYLOAD_MAX = 3000, WRS = 8 };
enum step { RAW, SEGMENT, RECV, SEND, TRANSMIT, CLOSED, STATE, NO_MEMORY, EMSS, STEPS };
/* Of a segment's second byte; the low four bits are the opcode. */
enum { NOT_LAST = 16, WRONG_VERSION = 32, WRONG_NUMBER = 64, WRONG_KEY = 128 };

static struct {
	uint8_t before[GUARD], region[REGION], after[GUARD];
} memory __attribute__((aligned(64)));

static struct world {
	struct fuzz_mem mem;
	struct rnic *rnic;
	struct rnic_pd *pd;
	struct rnic_mr *mr;
	struct rnic_cq *scq, *rcq;
	struct rnic_qp *qp;
	struct rnic_stream_init init;
	struct fpdu_out peer;
	struct fpdu_in sent; /* to the peer */
	uint64_t now, sends, sends_done, recvs, recvs_done;
	uint32_t random;
	const uint8_t *in, *in_end;
} w;

static uint8_t take(void)
{
	return w.in < w.in_end ? *w.in++ : 0;
}

static uint16_t take16(void)
{
	uint8_t high = take();

	return (uint16_t)(high << 8 | take());
}

/* ---- upcalls -------------------------------------------------------------------------------- */

static void *do_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return fuzz_mem_alloc(&w.mem, bytes);
}

static void do_free(void *ctx, void *p)
{
	(void)ctx;
	fuzz_mem_free(&w.mem, p);
}

static uint32_t do_random(void *ctx)
{
	(void)ctx;
	return w.random = w.random * 1664525 + 1013904223;
}

static void on_notify(void *ctx, void *user)
{
	(void)ctx, (void)user;
}

static void on_event(void *ctx, enum rnic_event event, void *user)
{
	(void)ctx, (void)event;
	must(user == &w);
}

static const struct rnic_ops ops = {do_alloc, do_free, do_random, on_notify, on_event, NULL};

/* ---- the peer ------------------------------------------------------------------------------- */

/* Exactly these bytes, so that who reads beyond is noticed. */
static void feed(const uint8_t *p, size_t len)
{
	uint8_t *exactly = malloc(len + !len);

	must(exactly);
	memcpy(exactly, p, len);
	rnic_stream_rx(w.qp, exactly, len, w.now);
	free(exactly);
}

static void raw(void)
{
	size_t n = min_of((size_t)take(), (size_t)(w.in_end - w.in));

	feed(w.in, n);
	w.in += n;
	/* What is framed after that is out of step; the input may begin anew by a STATE. */
}

static uint64_t address(uint16_t off)
{
	return (uintptr_t)memory.region + off;
}

/* The body that the opcode calls for, some of it as it should be. */
static size_t body(uint8_t *to, uint8_t opcode, uint32_t key, uint16_t off, uint16_t len)
{
	switch (opcode) {
	case RDMAP_READ_REQUEST:
		rdmap_read_request_put(to, &(struct rdmap_read_request){.sink_stag = 1,
									.size = len,
									.source_stag = key,
									.source_to = address(off)});
		return RDMAP_READ_REQUEST_LEN;
	case RDMAP_ATOMIC_REQUEST: {
		bool swaps = len & 1;

		rdmap_atomic_request_put(to,
					 &(struct rdmap_atomic_request){
						 .op = swaps ? RDMAP_COMPARE_SWAP : RDMAP_FETCH_ADD,
						 .stag = key,
						 .to = address(len & 2 ? off : off & 0xfff8),
						 .data_mask = swaps ? UINT64_MAX : 0,
						 .compare_mask = swaps ? UINT64_MAX : 0});
		return RDMAP_ATOMIC_REQUEST_LEN;
	}
	case RDMAP_ATOMIC_RESPONSE:
		rdmap_atomic_response_put(
			to, &(struct rdmap_atomic_response){.id = w.qp->sq.una, .value = len});
		return RDMAP_ATOMIC_RESPONSE_LEN;
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SE:
		memset(to, 7, RDMAP_IMMEDIATE_LEN);
		return RDMAP_IMMEDIATE_LEN;
	case RDMAP_TERMINATE: {
		size_t n = min_of((size_t)(len % 60), (size_t)(w.in_end - w.in));

		memcpy(to, w.in, n);
		w.in += n;
		return n;
	}
	default:
		memset(to, 9, PAYLOAD_MAX);
		return len % PAYLOAD_MAX;
	}
}

static void segment(void)
{
	uint8_t how = take(), opcode = how & 15, hdr[DDP_HDR_MAX], payload[PAYLOAD_MAX], all[8192];
	uint16_t off = take16(), len = take16();
	const struct send_wqe *asked = sq_at(&w.qp->sq, w.qp->sq.una);
	struct iovec iov[FPDU_BATCH_IOVS], v = {payload, 0};
	uint8_t room[FPDU_BATCH_ROOM];
	struct fpdu_batch b = {
		.iov = iov, .iovs_max = ARRAY_SIZE(iov), .room = room, .room_max = sizeof(room)};
	struct ddp_hdr h = {
		.last = !(how & NOT_LAST),
		.dv = how & WRONG_VERSION ? take() & 3 : DDP_VERSION,
		.rv = RDMAP_VERSION,
		.opcode = opcode,
		.stag = rnic_mr_rkey(w.mr) ^ (how & WRONG_KEY ? 0x100u : 0),
		.to = address(off),
	};
	size_t n = 0;

	if (rdmap_kind(opcode, &h.tagged, &h.qn) && !h.tagged) {
		const struct arriving *a = &iwarp_of(w.qp)->arriving[h.qn];

		h.msn = a->msn + (how & WRONG_NUMBER ? take() : 0);
		h.mo = a->mo;
	} else if (opcode == RDMAP_READ_RESPONSE && asked->num_sge) {
		h.to = asked->sge[0].addr + iwarp_of(w.qp)->answered +
		       (how & WRONG_NUMBER ? off : 0);
	}
	v.iov_len = body(payload, opcode, h.stag, off, len);
	must(fpdu_out_put(&w.peer, &b, hdr, ddp_hdr_put(hdr, &h), &v, v.iov_len != 0));
	for (size_t i = 0; i < b.iovs; n += iov[i++].iov_len)
		memcpy(all + n, iov[i].iov_base, iov[i].iov_len);
	for (size_t at = 0, some = 1 + take() * 16u; at < n; at += some)
		feed(all + at, min_of(some, n - at));
}

/* ---- the consumer --------------------------------------------------------------------------- */

static void poll_cqs(void)
{
	struct rnic_wc wc;

	while (rnic_cq_poll(w.scq, &wc, 1))
		must(wc.wr_id == w.sends_done++);
	while (rnic_cq_poll(w.rcq, &wc, 1))
		must(wc.wr_id == w.recvs_done++);
	must(w.sends_done <= w.sends && w.recvs_done <= w.recvs);
}

static struct rnic_sge any_sge(uint16_t off, uint16_t len, bool wrong)
{
	return (struct rnic_sge){address(off % REGION), len % PAYLOAD_MAX,
				 rnic_mr_lkey(w.mr) ^ (wrong ? 0x100u : 0)};
}

static void post_recv(void)
{
	struct rnic_sge sge = any_sge(take16(), take16(), take() == 255);

	if (rnic_post_recv(w.qp, &(struct rnic_recv_wr){w.recvs, &sge, 1}) == 0)
		w.recvs++;
}

static void post_send(void)
{
	uint8_t opcode = take() & 15, flags = take();
	struct rnic_sge sge = any_sge(take16(), take16(), flags & 128);
	struct rnic_send_wr wr = {
		.wr_id = w.sends,
		.sge = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.flags = flags & (RNIC_SEND_FENCE | RNIC_SEND_SOLICITED | RNIC_SEND_INLINE),
		.rkey = 1,
	};

	if (opcode == RNIC_WR_ATOMIC_CMP_AND_SWP || opcode == RNIC_WR_ATOMIC_FETCH_AND_ADD)
		sge.length = flags & 64 ? sge.length : 8;
	/* What is inline is read at once. */
	if ((wr.flags & RNIC_SEND_INLINE) && sge.addr + sge.length > (uintptr_t)memory.after)
		return;
	if (rnic_post_send(w.qp, &wr, w.now) == 0)
		w.sends++;
}

static int take_sent(void *ctx, const uint8_t *ulpdu, size_t len)
{
	struct ddp_hdr h;
	uint32_t qn;
	bool tagged;

	(void)ctx;
	must(ddp_hdr_get(&h, ulpdu, len) > 0);
	must(h.dv == DDP_VERSION && h.rv == RDMAP_VERSION);
	must(rdmap_kind(h.opcode, &tagged, &qn) && tagged == h.tagged && (tagged || qn == h.qn));
	return 0;
}

static void transmit(size_t max)
{
	struct iovec iov[FPDU_BATCH_IOVS];
	uint8_t room[FPDU_BATCH_ROOM];
	struct fpdu_batch b = {
		.iov = iov, .iovs_max = ARRAY_SIZE(iov), .room = room, .room_max = sizeof(room)};
	struct rnic_qp *qp = rnic_stream_next(w.rnic);

	if (!qp)
		return;
	must(qp == w.qp);
	rnic_stream_tx(qp, &b, max, w.now);
	w.mem.fail_next = false; /* the peer's */
	for (size_t i = 0; i < b.iovs; i++)
		must(fpdu_in_feed(&w.sent, iov[i].iov_base, iov[i].iov_len, take_sent, NULL) == 0);
	must(!fpdu_in_midst(&w.sent));
}

static void begin(void)
{
	const struct rnic_qp_attr a = {.state = RNIC_QPS_INIT, .access_flags = 0xf};

	must(rnic_qp_modify(w.qp, &a, RNIC_QP_STATE | RNIC_QP_ACCESS_FLAGS, w.now) == 0);
	must(rnic_stream_begin(w.qp, &w.init, w.now) == 0);
	fpdu_in_end(&w.sent);
	fpdu_in_init(&w.sent, w.init.crc, w.init.markers_out, &ops, NULL);
	w.peer = (struct fpdu_out){.crc = w.init.crc, .markers = w.init.markers_in};
}

static void state(uint8_t to)
{
	const struct rnic_qp_attr a = {.state = to % 7};

	if (a.state == RNIC_QPS_RESET) {
		/* Its completions are gone with it. */
		poll_cqs();
		must(rnic_qp_modify(w.qp, &a, RNIC_QP_STATE, w.now) == 0);
		w.sends_done = w.sends;
		w.recvs_done = w.recvs;
		begin();
		return;
	}
	(void)!rnic_qp_modify(w.qp, &a, RNIC_QP_STATE, w.now);
}

static void step(void)
{
	switch ((enum step)(take() % STEPS)) {
	case RAW:
		raw();
		break;
	case SEGMENT:
		segment();
		break;
	case RECV:
		post_recv();
		break;
	case SEND:
		post_send();
		break;
	case TRANSMIT:
		transmit(1 + take() * 64u);
		break;
	case CLOSED:
		rnic_stream_closed(w.qp, take() & 1, w.now);
		break;
	case STATE:
		state(take());
		break;
	case NO_MEMORY:
		w.mem.fail_next = true;
		break;
	case EMSS:
		rnic_stream_set_emss(w.qp, take16());
		break;
	case STEPS:
		break;
	}
	w.mem.fail_next = w.mem.fail_next && w.in < w.in_end;
	(void)rnic_stream_fate(w.qp);
	poll_cqs();
}

/* ---- all ------------------------------------------------------------------------------------ */

static void create(uint8_t how)
{
	const struct rnic_config config = {.slot = 1, .max_qps = 4, .max_keys = 8};
	struct rnic_qp_init init = {.type = RNIC_QPT_IWARP,
				    .cap = {WRS, WRS, 2, 1, 64},
				    .sq_sig_all = true,
				    .qp_user = &w};

	w.init = (struct rnic_stream_init){
		.crc = how & 1,
		.markers_in = how & 2,
		.markers_out = how & 4,
		.immediate = how & 8,
		.atomics = how & 16,
		.ird = 3,
		.ord = how >> 5 & 3,
		.emss = 600,
	};
	must(rnic_create(&w.rnic, &config, &ops, NULL) == 0);
	must(rnic_pd_create(w.rnic, &w.pd) == 0);
	must(rnic_cq_create(w.rnic, 64, &w, &w.scq) == 0);
	must(rnic_cq_create(w.rnic, 64, &w, &w.rcq) == 0);
	must(rnic_mr_create(w.pd, memory.region, REGION, (uintptr_t)memory.region, 0xf, &w.mr) ==
	     0);
	init.send_cq = w.scq;
	init.recv_cq = w.rcq;
	must(rnic_qp_create(w.pd, &init, &w.qp) == 0);
	begin();
}

static void destroy(void)
{
	const struct rnic_qp_attr err = {.state = RNIC_QPS_ERR};

	must(rnic_qp_modify(w.qp, &err, RNIC_QP_STATE, w.now) == 0);
	poll_cqs();
	must(w.sends_done == w.sends && w.recvs_done == w.recvs);
	transmit(SIZE_MAX);
	must(rnic_qp_destroy(w.qp) == 0);
	must(rnic_mr_destroy(w.mr) == 0);
	must(rnic_cq_destroy(w.scq) == 0 && rnic_cq_destroy(w.rcq) == 0);
	must(rnic_pd_destroy(w.pd) == 0);
	rnic_destroy(w.rnic);
	fpdu_in_end(&w.sent);
	must(w.mem.blocks == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	w = (struct world){.in = data, .in_end = data + size, .random = 1};
	memset(&memory, 0x55, sizeof(memory));
	create(take());
	for (int i = 0; i < STEPS_MAX && w.in < w.in_end; i++)
		step();
	w.mem.fail_next = false;
	destroy();
	for (size_t i = 0; i < GUARD; i++)
		must(memory.before[i] == 0x55 && memory.after[i] == 0x55);
	return 0;
}
