/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What ends a stream of iWARP, and what is said of it to the peer and to the application. */
#include "stream_bed.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "rnic/iwarp/iwarp.h"

#define RAW(ddp, rdmap, ...) ((struct ddp_hdr){.dv = (ddp), .rv = (rdmap), __VA_ARGS__})
#define PART(...)	     RAW(DDP_VERSION, RDMAP_VERSION, __VA_ARGS__)
#define HDR(...)	     PART(.last = true, __VA_ARGS__)
#define SEND_HDR(...)	     HDR(.opcode = RDMAP_SEND, .msn = 1, __VA_ARGS__)

static struct sb *open_bed(void)
{
	const struct sb_opts opts = sb_defaults();

	return sb_open(&opts, 1);
}

static uint64_t address(struct sb *b, int side, uint32_t off)
{
	return (uintptr_t)b->side[side].mem + off;
}

static uint32_t key(struct sb *b, int side)
{
	return rnic_mr_rkey(b->side[side].mr);
}

/* The peer says this; the stream ends by that. */
static struct rdmap_terminate refused(struct sb *b, const struct ddp_hdr *h, const void *payload,
				      size_t len, uint16_t cause, enum rnic_event event)
{
	struct rdmap_terminate t;

	sb_forge(b, 1, h, payload, len);
	sb_deliver(b, 1, SIZE_MAX);
	t = sb_terminate(b, 0);
	if (t.cause != cause)
		fail_msg("%s (%04x), not %s (%04x)", rdmap_term_name(t.cause), t.cause,
			 rdmap_term_name(cause), cause);
	assert_int_equal(rnic_stream_terminated(b->side[0].qp), cause);
	assert_int_equal(sb_state(b, 0), RNIC_QPS_ERR);
	assert_int_equal(b->side[0].nevents, 1);
	assert_int_equal(b->side[0].events[0], event);
	return t;
}

static void refused_alone(const struct ddp_hdr *h, size_t len, uint16_t cause,
			  enum rnic_event event)
{
	static const uint8_t payload[2000];
	struct sb *b = open_bed();
	struct rdmap_terminate t;

	assert_int_equal(sb_recv(b, 0, 7, 0, 1000), 0);
	t = refused(b, h, payload, len, cause, event);
	assert_true(t.has_len && t.has_ddp && !t.has_request);
	assert_int_equal(t.segment_len, len + (h->tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN));
	assert_int_equal(t.ddp.opcode, h->opcode);
	assert_int_equal(t.ddp.tagged, h->tagged);
	sb_expect(b, 0, true, 7,
		  cause == DDP_TERM_TOO_LONG	   ? RNIC_WC_LOC_LEN_ERR
		  : cause == RDMAP_TERM_INVALIDATE ? RNIC_WC_REM_INV_REQ_ERR
						   : RNIC_WC_WR_FLUSH_ERR);
	sb_expect_none(b, 0);
	sb_close(b);
}

/* ---- segments ------------------------------------------------------------------------------- */

static void headers_that_are_none_end_it(void **state)
{
	static const struct {
		struct ddp_hdr h;
		uint16_t cause;
		enum rnic_event event;
	} wrong[] = {
		{RAW(2, 1, .opcode = RDMAP_SEND, .msn = 1), DDP_TERM_UNTAGGED_VERSION,
		 RNIC_EVENT_QP_FATAL},
		{RAW(0, 1, .tagged = true), DDP_TERM_VERSION, RNIC_EVENT_QP_FATAL},
		{RAW(1, 2, .opcode = RDMAP_SEND, .msn = 1), RDMAP_TERM_VERSION,
		 RNIC_EVENT_QP_FATAL},
		{HDR(.opcode = 0xc, .msn = 1), RDMAP_TERM_OPCODE, RNIC_EVENT_QP_REQ_ERR},
		{HDR(.opcode = 0xf, .tagged = true), RDMAP_TERM_OPCODE, RNIC_EVENT_QP_REQ_ERR},
		{HDR(.opcode = RDMAP_SEND, .tagged = true), RDMAP_TERM_OPCODE,
		 RNIC_EVENT_QP_REQ_ERR},
		{HDR(.opcode = RDMAP_WRITE, .msn = 1), RDMAP_TERM_OPCODE, RNIC_EVENT_QP_REQ_ERR},
		{SEND_HDR(.qn = 4), DDP_TERM_QN, RNIC_EVENT_QP_FATAL},
		{SEND_HDR(.qn = UINT32_MAX), DDP_TERM_QN, RNIC_EVENT_QP_FATAL},
		{SEND_HDR(.qn = 1), DDP_TERM_QN, RNIC_EVENT_QP_FATAL},
		{HDR(.opcode = RDMAP_SEND, .msn = 2), DDP_TERM_MSN, RNIC_EVENT_QP_FATAL},
		{HDR(.opcode = RDMAP_SEND, .msn = 0), DDP_TERM_MSN, RNIC_EVENT_QP_FATAL},
		{SEND_HDR(.mo = 1), DDP_TERM_MO, RNIC_EVENT_QP_FATAL},
		{HDR(.opcode = RDMAP_READ_RESPONSE, .tagged = true), RDMAP_TERM_OPCODE,
		 RNIC_EVENT_QP_REQ_ERR},
		{HDR(.opcode = RDMAP_ATOMIC_RESPONSE, .qn = 3, .msn = 1), RDMAP_TERM_OPCODE,
		 RNIC_EVENT_QP_REQ_ERR},
		{HDR(.opcode = RDMAP_READ_REQUEST, .qn = 1, .msn = 1), RDMAP_TERM_OPERATION,
		 RNIC_EVENT_QP_REQ_ERR},
		{HDR(.opcode = RDMAP_ATOMIC_REQUEST, .qn = 1, .msn = 1), RDMAP_TERM_OPERATION,
		 RNIC_EVENT_QP_REQ_ERR},
		{HDR(.opcode = RDMAP_IMMEDIATE, .msn = 1), RDMAP_TERM_OPERATION,
		 RNIC_EVENT_QP_REQ_ERR},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
		refused_alone(&wrong[i].h, 100, wrong[i].cause, wrong[i].event);
}

static void sends_need_a_receive_that_holds_them(void **state)
{
	static const uint8_t data[2000];
	struct sb *b = open_bed();

	(void)state;
	refused(b, &SEND_HDR(), data, 10, DDP_TERM_NO_BUFFER, RNIC_EVENT_QP_REQ_ERR);
	sb_close(b);
	refused_alone(&SEND_HDR(), 1001, DDP_TERM_TOO_LONG, RNIC_EVENT_QP_REQ_ERR);
	refused_alone(&HDR(.opcode = RDMAP_SEND_INVALIDATE, .msn = 1, .stag = 0x12345678), 10,
		      RDMAP_TERM_INVALIDATE, RNIC_EVENT_QP_FATAL);
}

/* In two segments, of which the second is the one that is too much, or of another kind. */
static void segments_of_a_message_belong_together(void **state)
{
	static const uint8_t data[600];
	struct sb *b = open_bed();

	(void)state;
	assert_int_equal(sb_recv(b, 0, 1, 0, 1000), 0);
	sb_forge(b, 1, &PART(.opcode = RDMAP_SEND, .msn = 1), data, 600);
	refused(b, &SEND_HDR(.mo = 600), data, 401, DDP_TERM_TOO_LONG, RNIC_EVENT_QP_REQ_ERR);
	sb_close(b);

	b = open_bed();
	assert_int_equal(sb_recv(b, 0, 1, 0, 1000), 0);
	sb_forge(b, 1, &PART(.opcode = RDMAP_SEND, .msn = 1), data, 600);
	refused(b, &HDR(.opcode = RDMAP_SEND_SE, .msn = 1, .mo = 600), data, 1, RDMAP_TERM_OPCODE,
		RNIC_EVENT_QP_REQ_ERR);
	sb_close(b);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void writes_go_where_they_may(void **state)
{
	static const uint8_t data[100] = "x";
	struct rnic_pd *other;
	struct rnic_mr *mr;
	struct sb *b = open_bed();

	(void)state;
	sb_forge(b, 1, &HDR(.tagged = true, .stag = 1, .to = 77), NULL,
		 0); /* no bytes, no matter */
	sb_forge(b, 1, &HDR(.tagged = true, .stag = key(b, 0), .to = address(b, 0, 5)), data, 100);
	sb_deliver(b, 1, SIZE_MAX);
	assert_memory_equal(b->side[0].mem + 5, data, 100);
	assert_int_equal(sb_state(b, 0), RNIC_QPS_RTS);
	refused(b, &HDR(.tagged = true, .stag = key(b, 0) ^ 0x100), data, 100, DDP_TERM_STAG,
		RNIC_EVENT_QP_ACCESS_ERR);
	sb_close(b);

	b = open_bed();
	refused(b, &HDR(.tagged = true, .stag = key(b, 0), .to = address(b, 0, SB_MEM - 99)), data,
		100, DDP_TERM_BOUNDS, RNIC_EVENT_QP_ACCESS_ERR);
	sb_close(b);

	b = open_bed();
	refused(b, &HDR(.tagged = true, .stag = key(b, 0), .to = UINT64_MAX - 98), data, 100,
		DDP_TERM_WRAP, RNIC_EVENT_QP_ACCESS_ERR);
	sb_close(b);

	b = open_bed();
	assert_int_equal(rnic_pd_create(b->side[0].rnic, &other), 0);
	assert_int_equal(rnic_mr_create(other, b->side[0].mem, 100, 0,
					RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE, &mr),
			 0);
	refused(b, &HDR(.tagged = true, .stag = rnic_mr_rkey(mr)), data, 100,
		DDP_TERM_STAG_OF_OTHERS, RNIC_EVENT_QP_ACCESS_ERR);
	assert_int_equal(rnic_mr_destroy(mr), 0);
	assert_int_equal(rnic_pd_destroy(other), 0);
	sb_close(b);
}

static void rights_of_the_queue_pair_count(void **state)
{
	struct sb_opts opts = sb_defaults();
	uint8_t body[RDMAP_READ_REQUEST_LEN];
	struct rdmap_read_request r = {.size = 4};
	struct rdmap_terminate t;
	struct sb *b;

	(void)state;
	opts.access = RNIC_ACCESS_LOCAL_WRITE;
	b = sb_open(&opts, 1);
	refused(b, &HDR(.tagged = true, .stag = key(b, 0), .to = address(b, 0, 0)), "abcd", 4,
		RDMAP_TERM_ACCESS, RNIC_EVENT_QP_ACCESS_ERR);
	assert_int_equal(b->side[0].failure.cause, RNIC_CAUSE_OPERATION);
	sb_close(b);

	b = sb_open(&opts, 1);
	r.source_stag = key(b, 0);
	r.source_to = address(b, 0, 0);
	rdmap_read_request_put(body, &r);
	t = refused(b, &HDR(.opcode = RDMAP_READ_REQUEST, .qn = 1, .msn = 1), body, sizeof(body),
		    RDMAP_TERM_ACCESS, RNIC_EVENT_QP_ACCESS_ERR);
	assert_true(t.has_request);
	assert_int_equal(t.request.source_to, r.source_to);
	assert_int_equal(b->side[0].failure.cause, RNIC_CAUSE_OPERATION);
	sb_close(b);
}

/* By a READ of nothing the peer says that it is ready: that is no right. */
static void an_rtr_needs_no_right(void **state)
{
	struct sb_opts opts = sb_defaults();
	uint8_t body[RDMAP_READ_REQUEST_LEN];
	const struct rdmap_read_request r = {0};
	struct sb *b;

	(void)state;
	opts.access = RNIC_ACCESS_LOCAL_WRITE;
	opts.init[0].listens_first = true;
	opts.init[0].rtr = MPA_RTR_READ;
	b = sb_open(&opts, 1);
	rdmap_read_request_put(body, &r);
	sb_forge(b, 1, &HDR(.opcode = RDMAP_READ_REQUEST, .qn = 1, .msn = 1), body, sizeof(body));
	sb_deliver(b, 1, SIZE_MAX);
	assert_int_equal(sb_state(b, 0), RNIC_QPS_RTS);
	refused(b, &HDR(.opcode = RDMAP_READ_REQUEST, .qn = 1, .msn = 2), body, sizeof(body),
		RDMAP_TERM_ACCESS, RNIC_EVENT_QP_ACCESS_ERR);
	sb_close(b);
}

static void atomics_are_as_they_should_be(void **state)
{
	static const struct {
		struct rdmap_atomic_request r; /* beside what is right in it */
		uint32_t access;	       /* 0: all */
		uint16_t cause;
		enum rnic_cause why;
	} wrong[] = {
		{{.op = RDMAP_FETCH_ADD, .to = 4}, 0, RDMAP_TERM_OPERATION, RNIC_CAUSE_STREAM},
		{{.op = RDMAP_FETCH_ADD, .data_mask = 1},
		 0,
		 RDMAP_TERM_OPERATION,
		 RNIC_CAUSE_STREAM},
		{{.op = RDMAP_COMPARE_SWAP,
		  .data_mask = UINT64_MAX - 1,
		  .compare_mask = UINT64_MAX},
		 0,
		 RDMAP_TERM_OPERATION,
		 RNIC_CAUSE_STREAM},
		{{.op = RDMAP_COMPARE_SWAP,
		  .data_mask = UINT64_MAX,
		  .compare_mask = UINT64_MAX - 1},
		 0,
		 RDMAP_TERM_OPERATION,
		 RNIC_CAUSE_STREAM},
		{{.op = 3}, 0, RDMAP_TERM_OPERATION, RNIC_CAUSE_STREAM},
		{{.op = RDMAP_FETCH_ADD},
		 RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ,
		 RDMAP_TERM_ACCESS,
		 RNIC_CAUSE_OPERATION},
		{{.op = RDMAP_FETCH_ADD, .stag = 0x100},
		 0,
		 RDMAP_TERM_STAG,
		 RNIC_CAUSE_RKEY_UNKNOWN},
		{{.op = RDMAP_FETCH_ADD, .to = SB_MEM},
		 0,
		 RDMAP_TERM_BOUNDS,
		 RNIC_CAUSE_RKEY_BOUNDS},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct rdmap_atomic_request r = wrong[i].r;
		struct sb_opts opts = sb_defaults();
		uint8_t body[RDMAP_ATOMIC_REQUEST_LEN];
		struct sb *b;

		opts.access = wrong[i].access;
		b = sb_open(&opts, 1);
		r.stag ^= key(b, 0);
		r.to += address(b, 0, 0);
		r.data = 1;
		rdmap_atomic_request_put(body, &r);
		refused(b, &HDR(.opcode = RDMAP_ATOMIC_REQUEST, .qn = 1, .msn = 1), body,
			sizeof(body), wrong[i].cause,
			wrong[i].cause == RDMAP_TERM_OPERATION ? RNIC_EVENT_QP_REQ_ERR
							       : RNIC_EVENT_QP_ACCESS_ERR);
		assert_int_equal(b->side[0].failure.cause, wrong[i].why);
		for (unsigned k = 0; k < 16; k++)
			assert_int_equal(b->side[0].mem[k], 0);
		sb_close(b);
	}
}

static void more_atomics_than_agreed_on_end_it(void **state)
{
	struct sb *b = open_bed();
	uint8_t body[RDMAP_ATOMIC_REQUEST_LEN];
	const struct rdmap_atomic_request r = {
		.op = RDMAP_FETCH_ADD, .stag = key(b, 0), .to = address(b, 0, 0), .data = 1};

	(void)state;
	rdmap_atomic_request_put(body, &r);
	for (uint32_t i = 1; i <= b->opts.init[0].ird; i++) {
		sb_forge(b, 1, &HDR(.opcode = RDMAP_ATOMIC_REQUEST, .qn = 1, .msn = i), body,
			 sizeof(body));
		sb_deliver(b, 1, SIZE_MAX);
	}
	refused(b, &HDR(.opcode = RDMAP_ATOMIC_REQUEST, .qn = 1, .msn = b->opts.init[0].ird + 1u),
		body, sizeof(body), DDP_TERM_NO_BUFFER, RNIC_EVENT_QP_REQ_ERR);
	sb_close(b);
}

static void reads_come_from_where_they_may(void **state)
{
	static const struct {
		uint32_t wrong_key;
		uint64_t to; /* 0: all is well with it */
		uint32_t size;
		uint16_t cause;
	} wrong[] = {
		{0x100, 0, 4, RDMAP_TERM_STAG},
		{0, 1, 4, RDMAP_TERM_BOUNDS},
		{0, 0, SB_MEM + 1, RDMAP_TERM_BOUNDS},
		{0, UINT64_MAX - 2, 4, RDMAP_TERM_WRAP},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct sb *b = open_bed();
		uint8_t body[RDMAP_READ_REQUEST_LEN];
		const struct rdmap_read_request r = {
			.size = wrong[i].size,
			.source_stag = key(b, 0) ^ wrong[i].wrong_key,
			.source_to = wrong[i].to ? wrong[i].to : address(b, 0, 0),
		};
		struct rdmap_terminate t;

		rdmap_read_request_put(body, &r);
		t = refused(b, &HDR(.opcode = RDMAP_READ_REQUEST, .qn = 1, .msn = 1), body,
			    sizeof(body), wrong[i].cause, RNIC_EVENT_QP_ACCESS_ERR);
		assert_true(t.has_len && t.has_ddp && t.has_request);
		assert_int_equal(t.request.source_stag, r.source_stag);
		sb_close(b);
	}
}

static void reads_end_it_that_are_more_than(uint16_t agreed_on)
{
	struct sb_opts opts = sb_defaults();
	struct sb *b;
	uint8_t body[RDMAP_READ_REQUEST_LEN];
	struct rdmap_read_request r = {.size = 4};
	struct rdmap_terminate t;

	opts.init[0].ird = opts.init[1].ird = agreed_on;
	b = sb_open(&opts, 1);
	r.source_stag = key(b, 0);
	r.source_to = address(b, 0, 0);
	rdmap_read_request_put(body, &r);
	for (uint32_t i = 1; i <= 4; i++)
		sb_forge(b, 1, &HDR(.opcode = RDMAP_READ_REQUEST, .qn = 1, .msn = i), body,
			 sizeof(body));
	t = refused(b, &HDR(.opcode = RDMAP_READ_REQUEST, .qn = 1, .msn = 5), body, sizeof(body),
		    DDP_TERM_NO_BUFFER, RNIC_EVENT_QP_REQ_ERR);
	assert_int_equal(t.ddp.msn, 5);
	sb_close(b);
}

/* siw takes three for four. */
static void more_reads_than_agreed_on_end_it(void **state)
{
	(void)state;
	reads_end_it_that_are_more_than(4);
	reads_end_it_that_are_more_than(3);
}

/* A region that goes while it is read: what has been sent of it is all. */
static void a_region_may_go_under_a_read(void **state)
{
	struct sb *b = open_bed();
	struct rnic_mr *mr;

	(void)state;
	assert_int_equal(rnic_mr_create(b->side[0].pd, b->side[0].mem, 100000, 0,
					RNIC_ACCESS_REMOTE_READ, &mr),
			 0);
	assert_int_equal(sb_post(b, 1,
				 (struct rnic_send_wr){.wr_id = 1,
						       .opcode = RNIC_WR_RDMA_READ,
						       .rkey = rnic_mr_rkey(mr),
						       .remote_addr = 4096},
				 0, 50000, 0),
			 0);
	sb_tx(b, 1, SIZE_MAX);
	sb_deliver(b, 1, SIZE_MAX);
	assert_true(sb_tx(b, 0, 3000));
	assert_int_equal(rnic_mr_destroy(mr), 0);
	assert_int_equal(sb_terminate(b, 0).cause, RDMAP_TERM_STAG);
	sb_deliver(b, 0, SIZE_MAX);
	sb_expect(b, 1, false, 1, RNIC_WC_REM_ACCESS_ERR);
	assert_int_equal(rnic_stream_terminated(b->side[1].qp), RDMAP_TERM_STAG);
	assert_int_equal(rnic_stream_fate(b->side[1].qp), RNIC_STREAM_ENDS);
	assert_false(sb_tx(b, 1, SIZE_MAX));
	assert_int_equal(b->side[1].out.end, 0); /* a Terminate is not answered by one */
	sb_close(b);
}

/* As with any RNIC the peer has what was there at some time; a wrong CRC would be the end. */
static void memory_may_change_under_a_read(void **state)
{
	static const uint32_t lens[] = {100, 1000, 5000};
	struct sb *b = open_bed();

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		b->side[1].mem[0] = 0;
		assert_int_equal(
			sb_post(b, 1,
				(struct rnic_send_wr){.wr_id = i, .opcode = RNIC_WR_RDMA_READ}, 0,
				lens[i], 0),
			0);
		sb_tx(b, 1, SIZE_MAX);
		sb_deliver(b, 1, SIZE_MAX);
		b->side[0].mem[0] = 7;
		sb_tx_of_changing_memory(b, 0);
		sb_deliver(b, 0, SIZE_MAX);
		sb_expect(b, 1, false, i, RNIC_WC_SUCCESS);
		assert_int_equal(b->side[1].mem[0], 7);
	}
	sb_close(b);
}

/* What is counted is what programs send and are sent. */
static void payload_is_counted(void **state)
{
	struct sb *b = open_bed();

	(void)state;
	assert_int_equal(sb_post(b, 1,
				 (struct rnic_send_wr){.wr_id = 1, .opcode = RNIC_WR_RDMA_READ}, 0,
				 3000, 0),
			 0);
	assert_int_equal(
		sb_post(b, 1,
			(struct rnic_send_wr){.wr_id = 2, .opcode = RNIC_WR_ATOMIC_FETCH_AND_ADD},
			0, 8, 0),
		0);
	sb_run(b);
	assert_int_equal(rnic_counters(b->side[0].rnic)->tx_bytes, 3000);
	assert_int_equal(rnic_counters(b->side[0].rnic)->rx_bytes, 0);
	assert_int_equal(rnic_counters(b->side[1].rnic)->rx_bytes, 3000);
	sb_close(b);
}

/* ---- answers -------------------------------------------------------------------------------- */

static struct sb *asking(void)
{
	struct sb *b = open_bed();

	assert_int_equal(sb_post(b, 0,
				 (struct rnic_send_wr){.wr_id = 3, .opcode = RNIC_WR_RDMA_READ},
				 100, 50, 0),
			 0);
	assert_false(sb_tx(b, 0, SIZE_MAX));
	b->side[0].out.begin = b->side[0].out.end = 0;
	return b;
}

static void answers_are_to_what_was_asked(void **state)
{
	static const uint8_t data[100];
	static const struct {
		uint32_t wrong_key, off;
		size_t len;
		bool last;
		uint16_t cause;
		enum rnic_cause why;
	} wrong[] = {
		{0x100, 100, 50, true, DDP_TERM_STAG, RNIC_CAUSE_STREAM},
		{0, 101, 50, true, DDP_TERM_BOUNDS, RNIC_CAUSE_STREAM},
		{0, 100, 51, true, DDP_TERM_BOUNDS, RNIC_CAUSE_RESPONSE},
		{0, 100, 51, false, DDP_TERM_BOUNDS, RNIC_CAUSE_RESPONSE},
		{0, 100, 49, true, DDP_TERM_BOUNDS, RNIC_CAUSE_RESPONSE},
		{0, 100, 0, true, DDP_TERM_BOUNDS, RNIC_CAUSE_RESPONSE},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct sb *b = asking();

		refused(b,
			&PART(.opcode = RDMAP_READ_RESPONSE, .tagged = true, .last = wrong[i].last,
			      .stag = key(b, 0) ^ wrong[i].wrong_key,
			      .to = address(b, 0, wrong[i].off)),
			data, wrong[i].len, wrong[i].cause, RNIC_EVENT_QP_ACCESS_ERR);
		assert_int_equal(b->side[0].failure.cause, wrong[i].why);
		sb_expect(b, 0, false, 3, RNIC_WC_WR_FLUSH_ERR);
		sb_close(b);
	}
}

static void an_atomic_is_not_answered_as_a_read(void **state)
{
	uint8_t body[RDMAP_ATOMIC_RESPONSE_LEN] = {0};
	struct sb *b = asking();

	(void)state;
	refused(b, &HDR(.opcode = RDMAP_ATOMIC_RESPONSE, .qn = 3, .msn = 1), body, sizeof(body),
		RDMAP_TERM_OPCODE, RNIC_EVENT_QP_REQ_ERR);
	sb_close(b);
}

static void what_is_not_agreed_on_is_not_known(void **state)
{
	struct sb_opts opts = sb_defaults();
	uint8_t body[RDMAP_ATOMIC_REQUEST_LEN] = {0};
	struct sb *b;

	(void)state;
	opts.init[0].immediate = opts.init[0].atomics = false;
	b = sb_open(&opts, 1);
	refused(b, &HDR(.opcode = RDMAP_ATOMIC_REQUEST, .qn = 1, .msn = 1), body, sizeof(body),
		RDMAP_TERM_OPCODE, RNIC_EVENT_QP_REQ_ERR);
	sb_close(b);
	b = sb_open(&opts, 1);
	refused(b, &HDR(.opcode = RDMAP_IMMEDIATE, .msn = 1), body, RDMAP_IMMEDIATE_LEN,
		RDMAP_TERM_OPCODE, RNIC_EVENT_QP_REQ_ERR);
	sb_close(b);
	b = sb_open(&opts, 1);
	assert_int_equal(sb_post(b, 0, (struct rnic_send_wr){.opcode = RNIC_WR_RDMA_WRITE_WITH_IMM},
				 0, 4, 0),
			 0);
	assert_int_equal(sb_terminate(b, 0).cause, RDMAP_TERM_LOCAL);
	sb_expect(b, 0, false, 0, RNIC_WC_LOC_QP_OP_ERR);
	sb_close(b);
}

/* ---- the stream ----------------------------------------------------------------------------- */

static void a_wrong_crc_ends_it(void **state)
{
	struct sb *b = open_bed();

	(void)state;
	assert_int_equal(sb_recv(b, 0, 1, 0, 1000), 0);
	sb_forge(b, 1, &SEND_HDR(), "abcd", 4);
	b->side[1].out.bytes[b->side[1].out.end - 7] ^= 1;
	sb_deliver(b, 1, SIZE_MAX);
	assert_int_equal(sb_terminate(b, 0).cause, MPA_TERM_CRC);
	assert_true(sb_saw_event(b, 0, RNIC_EVENT_QP_FATAL));
	sb_expect(b, 0, true, 1, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(b->side[0].mem[0], 0);
	sb_close(b);
}

static void less_than_a_header_ends_it(void **state)
{
	struct sb *b = open_bed();
	struct iovec iov[FPDU_BATCH_IOVS];
	uint8_t room[FPDU_BATCH_ROOM], all[64];
	struct fpdu_batch batch = {
		.iov = iov, .iovs_max = ARRAY_SIZE(iov), .room = room, .room_max = sizeof(room)};
	struct fpdu_out out = {.crc = true};
	size_t len = 0;

	(void)state;
	assert_true(fpdu_out_put(&out, &batch, (const uint8_t *)"\x41\x43", 2, NULL, 0));
	for (size_t i = 0; i < batch.iovs; len += iov[i++].iov_len)
		memcpy(all + len, iov[i].iov_base, iov[i].iov_len);
	rnic_stream_rx(b->side[0].qp, all, len, 0);
	assert_int_equal(sb_terminate(b, 0).cause, MPA_TERM_MARKER);
	sb_close(b);
}

static void the_peers_terminate_ends_it(void **state)
{
	const struct rdmap_terminate t = {.cause = DDP_TERM_BOUNDS};
	uint8_t body[RDMAP_TERMINATE_MAX];
	size_t n = rdmap_terminate_put(body, &t);
	struct sb *b = open_bed();

	(void)state;
	assert_int_equal(sb_recv(b, 0, 1, 0, 1000), 0);
	sb_forge(b, 1, &HDR(.opcode = RDMAP_TERMINATE, .qn = 2, .msn = 1), body, n);
	sb_forge(b, 1, &SEND_HDR(), "abcd", 4);
	sb_forge(b, 1, &HDR(.tagged = true, .stag = key(b, 0), .to = address(b, 0, 5)), "wxyz", 4);
	sb_deliver(b, 1, SIZE_MAX);
	assert_memory_not_equal(b->side[0].mem + 5, "wxyz", 4);
	assert_int_equal(rnic_stream_terminated(b->side[0].qp), DDP_TERM_BOUNDS);
	assert_int_equal(b->side[0].failure.cause, RNIC_CAUSE_TERMINATED);
	sb_expect(b, 0, true, 1, RNIC_WC_WR_FLUSH_ERR);
	assert_false(sb_tx(b, 0, SIZE_MAX));
	assert_int_equal(b->side[0].out.end, 0);
	assert_int_equal(rnic_stream_fate(b->side[0].qp), RNIC_STREAM_ENDS);
	sb_close(b);
}

/* Queue pairs that it takes along have their streams looked after, though nothing came by those. */
static void an_overflow_ends_all_streams(void **state)
{
	struct sb *b = open_bed();
	struct sb_side *s = &b->side[0];
	struct rnic_qp_init init = {
		.type = RNIC_QPT_IWARP, .cap = {4, 4, 1, 1, 0}, .sq_sig_all = true};
	const struct rnic_qp_attr attr = {.state = RNIC_QPS_INIT};
	struct rnic_qp *qp[2];
	struct rnic_cq *cq;
	struct iovec iov[64];
	uint8_t room[16 * FPDU_BATCH_ROOM];
	struct fpdu_batch batch = {
		.iov = iov, .iovs_max = ARRAY_SIZE(iov), .room = room, .room_max = sizeof(room)};

	(void)state;
	assert_int_equal(rnic_cq_create(s->rnic, 1, s, &cq), 0);
	init.send_cq = init.recv_cq = cq;
	init.qp_user = s;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rnic_qp_create(s->pd, &init, &qp[i]), 0);
		assert_int_equal(rnic_qp_modify(qp[i], &attr, RNIC_QP_STATE, 0), 0);
		assert_int_equal(rnic_stream_begin(qp[i], &b->opts.init[0], 0), 0);
	}
	while (rnic_stream_next(s->rnic))
		;
	for (uint32_t i = 0; i <= rnic_cq_capacity(cq); i++) {
		struct rnic_send_wr wr = {.opcode = RNIC_WR_SEND};

		assert_int_equal(rnic_post_send(qp[0], &wr, 0), 0);
		assert_ptr_equal(rnic_stream_next(s->rnic), qp[0]);
		batch.iovs = batch.used = batch.bytes = 0;
		(void)rnic_stream_tx(qp[0], &batch, SIZE_MAX, 0);
	}
	assert_true(sb_saw_event(b, 0, RNIC_EVENT_CQ_ERR));
	for (int i = 0; i < 2; i++) {
		assert_non_null(rnic_stream_next(s->rnic));
		assert_int_equal(rnic_stream_fate(qp[i]), RNIC_STREAM_ENDS);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(rnic_qp_destroy(qp[i]), 0);
	assert_int_equal(rnic_cq_destroy(cq), 0);
	sb_close(b);
}

static void a_stream_that_closes_flushes(void **state)
{
	(void)state;
	for (unsigned broken = 0; broken < 2; broken++) {
		struct sb *b = asking();

		assert_int_equal(sb_recv(b, 0, 1, 0, 1000), 0);
		rnic_stream_closed(b->side[0].qp, broken, 0);
		assert_int_equal(sb_wc(b, 0, true).vendor_err, broken ? RNIC_CAUSE_STREAM_LOST : 0);
		sb_expect(b, 0, false, 3, RNIC_WC_WR_FLUSH_ERR);
		assert_int_equal(sb_state(b, 0), RNIC_QPS_ERR);
		assert_int_equal(rnic_stream_fate(b->side[0].qp), RNIC_STREAM_ENDS);
		sb_close(b);
	}
}

static int modify(struct sb *b, enum rnic_qp_state to)
{
	return rnic_qp_modify(b->side[0].qp, &(struct rnic_qp_attr){.state = to}, RNIC_QP_STATE, 0);
}

static void its_own_states_end_it_as_they_should(void **state)
{
	struct sb *b = asking();

	(void)state;
	/* Gracefully: not before what was asked is answered. */
	assert_int_equal(modify(b, RNIC_QPS_RTR), -EINVAL);
	assert_int_equal(modify(b, RNIC_QPS_SQD), 0);
	assert_int_equal(rnic_stream_fate(b->side[0].qp), RNIC_STREAM_DRAINS);
	sb_forge(b, 1,
		 &HDR(.opcode = RDMAP_READ_RESPONSE, .tagged = true, .stag = key(b, 0),
		      .to = address(b, 0, 100)),
		 b->side[1].mem, 50);
	sb_deliver(b, 1, SIZE_MAX);
	sb_expect(b, 0, false, 3, RNIC_WC_SUCCESS);
	assert_int_equal(rnic_stream_fate(b->side[0].qp), RNIC_STREAM_ENDS);
	assert_int_equal(modify(b, RNIC_QPS_RTS), -EINVAL);
	sb_close(b);

	b = asking();
	assert_int_equal(modify(b, RNIC_QPS_ERR), 0);
	assert_int_equal(rnic_stream_fate(b->side[0].qp), RNIC_STREAM_BREAKS);
	assert_int_equal(b->side[0].nevents, 0);
	sb_close(b);
}

static void a_reset_queue_pair_may_have_another_stream(void **state)
{
	struct sb *b = open_bed();

	(void)state;
	assert_int_equal(sb_recv(b, 0, 1, 0, 1000), 0);
	sb_forge(b, 1, &PART(.opcode = RDMAP_SEND, .msn = 1), "abcd", 4);
	sb_deliver(b, 1, 20);
	assert_int_equal(modify(b, RNIC_QPS_RESET), 0);
	assert_int_equal(rnic_stream_begin(b->side[0].qp, &b->opts.init[0], 0), -EINVAL);
	assert_int_equal(modify(b, RNIC_QPS_INIT), 0);
	assert_int_equal(rnic_stream_begin(b->side[0].qp, &b->opts.init[0], 0), 0);
	assert_int_equal(rnic_stream_begin(b->side[0].qp, &b->opts.init[0], 0), -EINVAL);
	b->side[1].out.begin = b->side[1].out.end = 0;
	assert_int_equal(sb_recv(b, 0, 2, 0, 1000), 0);
	sb_forge(b, 1, &SEND_HDR(), "abcd", 4);
	sb_deliver(b, 1, SIZE_MAX);
	sb_expect(b, 0, true, 2, RNIC_WC_SUCCESS);
	sb_close(b);
}

static void messages_are_counted_past_the_end(void **state)
{
	struct sb *b = open_bed();
	struct iwarp_qp *from = iwarp_of(b->side[0].qp), *to = iwarp_of(b->side[1].qp);

	(void)state;
	from->msn[DDP_QN_SEND] = to->arriving[DDP_QN_SEND].msn = UINT32_MAX - 1;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(sb_recv(b, 1, i, 0, 1000), 0);
		assert_int_equal(sb_post(b, 0,
					 (struct rnic_send_wr){.wr_id = i, .opcode = RNIC_WR_SEND},
					 0, 10, 0),
				 0);
		sb_run(b);
		sb_expect(b, 1, true, i, RNIC_WC_SUCCESS);
	}
	sb_close(b);
}

/* ---- who may speak first --------------------------------------------------------------------- */

static void a_responder_waits_for_the_initiator(void **state)
{
	(void)state;
	for (enum mpa_rtr rtr = MPA_RTR_NONE; rtr <= MPA_RTR_SEND; rtr++) {
		struct sb_opts opts = sb_defaults();
		struct sb *b;

		opts.init[0].rtr = rtr;
		opts.init[0].ord = 1;
		opts.init[1].listens_first = true;
		b = sb_open(&opts, 1);
		for (uint64_t i = 1; i <= 2; i++)
			assert_int_equal(sb_recv(b, 1, i, 0, 100), 0);
		assert_int_equal(
			sb_post(b, 1,
				(struct rnic_send_wr){.wr_id = 7, .opcode = RNIC_WR_RDMA_READ}, 0,
				10, 0),
			0);
		assert_false(sb_tx(b, 1, SIZE_MAX));
		assert_int_equal(b->side[1].out.end, 0);
		assert_int_equal(
			sb_post(b, 0,
				(struct rnic_send_wr){.wr_id = 8, .opcode = RNIC_WR_RDMA_READ}, 0,
				10, 0),
			0);
		assert_int_equal(sb_post(b, 0,
					 (struct rnic_send_wr){.wr_id = 9, .opcode = RNIC_WR_SEND},
					 0, 10, 0),
				 0);
		sb_run(b);
		sb_expect(b, 1, false, 7, RNIC_WC_SUCCESS);
		sb_expect(b, 0, false, 8, RNIC_WC_SUCCESS);
		sb_expect(b, 0, false, 9, RNIC_WC_SUCCESS);
		assert_int_equal(sb_wc(b, 1, true).byte_len, rtr == MPA_RTR_SEND ? 0 : 10);
		if (rtr == MPA_RTR_SEND)
			assert_int_equal(sb_wc(b, 1, true).byte_len, 10);
		sb_expect_none(b, 0);
		sb_expect_none(b, 1);
		sb_close(b);
	}
}

/* ---- work requests that cannot be done ------------------------------------------------------- */

static void a_request_fails_after_those_before_it(void **state)
{
	struct sb *b = open_bed();
	struct rnic_sge sge = sb_sge(b, 0, 0, 10);

	(void)state;
	assert_int_equal(sb_post(b, 0,
				 (struct rnic_send_wr){.wr_id = 1, .opcode = RNIC_WR_RDMA_READ},
				 100, 50, 0),
			 0);
	sge.lkey ^= 0x100;
	assert_int_equal(rnic_post_send(b->side[0].qp,
					&(struct rnic_send_wr){.wr_id = 2,
							       .opcode = RNIC_WR_SEND,
							       .sge = &sge,
							       .num_sge = 1},
					0),
			 0);
	assert_int_equal(
		sb_post(b, 0, (struct rnic_send_wr){.wr_id = 3, .opcode = RNIC_WR_SEND}, 0, 10, 0),
		0);
	sb_run(b);
	sb_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	sb_expect(b, 0, false, 2, RNIC_WC_LOC_PROT_ERR);
	sb_expect(b, 0, false, 3, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(b->side[0].failure.cause, RNIC_CAUSE_LKEY_UNKNOWN);
	assert_int_equal(rnic_stream_terminated(b->side[1].qp), RDMAP_TERM_LOCAL);
	sb_close(b);
}

static void reads_go_to_one_place_and_no_further_than_agreed(void **state)
{
	struct sb_opts opts = sb_defaults();
	struct sb *b = open_bed();
	struct rnic_sge two[2] = {sb_sge(b, 0, 0, 10), sb_sge(b, 0, 10, 10)};

	(void)state;
	assert_int_equal(rnic_post_send(b->side[0].qp,
					&(struct rnic_send_wr){.opcode = RNIC_WR_RDMA_READ,
							       .sge = two,
							       .num_sge = 2},
					0),
			 -EINVAL);
	/* Four at a time. */
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(
			sb_post(b, 0, (struct rnic_send_wr){.opcode = RNIC_WR_RDMA_READ}, 0, 4, 0),
			0);
	assert_false(sb_tx(b, 0, SIZE_MAX));
	assert_int_equal(b->side[0].out.end,
			 4 * mpa_fpdu_len(DDP_UNTAGGED_LEN + RDMAP_READ_REQUEST_LEN));
	sb_run(b);
	for (unsigned i = 0; i < 6; i++)
		sb_expect(b, 0, false, 0, RNIC_WC_SUCCESS);
	sb_close(b);

	opts.init[0].ord = 0;
	b = sb_open(&opts, 1);
	assert_int_equal(sb_post(b, 0, (struct rnic_send_wr){.opcode = RNIC_WR_RDMA_READ}, 0, 4, 0),
			 0);
	assert_int_equal(sb_terminate(b, 0).cause, RDMAP_TERM_LOCAL);
	sb_expect(b, 0, false, 0, RNIC_WC_LOC_QP_OP_ERR);
	sb_close(b);
}

static void a_fence_waits_for_answers(void **state)
{
	struct sb *b = asking();

	(void)state;
	assert_int_equal(sb_recv(b, 1, 9, 0, 100), 0);
	assert_int_equal(sb_post(b, 0,
				 (struct rnic_send_wr){.wr_id = 4,
						       .opcode = RNIC_WR_SEND,
						       .flags = RNIC_SEND_FENCE},
				 0, 4, 0),
			 0);
	assert_false(sb_tx(b, 0, SIZE_MAX));
	assert_int_equal(b->side[0].out.end, 0);
	sb_forge(b, 1,
		 &HDR(.opcode = RDMAP_READ_RESPONSE, .tagged = true, .stag = key(b, 0),
		      .to = address(b, 0, 100)),
		 b->side[1].mem, 50);
	sb_deliver(b, 1, SIZE_MAX);
	assert_false(sb_tx(b, 0, SIZE_MAX));
	assert_true(b->side[0].out.end > 0);
	sb_expect(b, 0, false, 3, RNIC_WC_SUCCESS);
	sb_expect(b, 0, false, 4, RNIC_WC_SUCCESS);
	sb_close(b);
}

static void a_window_is_bound_and_invalidated(void **state)
{
	struct sb *b = open_bed();
	struct sb_side *s = &b->side[0];
	struct rnic_mw *mw;
	uint32_t rkey;
	struct rnic_wc wc;

	(void)state;
	assert_int_equal(rnic_mr_rereg(s->mr, &(struct rnic_mr_attr){s->pd, s->mem, SB_MEM,
								     (uintptr_t)s->mem,
								     RNIC_ACCESS_LOCAL_WRITE |
									     RNIC_ACCESS_MW_BIND}),
			 0);
	assert_int_equal(rnic_mw_create(s->pd, RNIC_MW_TYPE_2, &mw), 0);
	rkey = (rnic_mw_rkey(mw) & ~0xffu) | 0x42;
	assert_int_equal(rnic_post_send(s->qp,
					&(struct rnic_send_wr){
						.wr_id = 1,
						.opcode = RNIC_WR_BIND_MW,
						.bind = {.mw = mw,
							 .rkey = rkey,
							 .mr = s->mr,
							 .addr = address(b, 0, 1000),
							 .length = 100,
							 .access = RNIC_ACCESS_REMOTE_WRITE},
					},
					0),
			 0);
	assert_int_equal(sb_recv(b, 0, 2, 0, 100), 0);
	sb_run(b);
	sb_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	b->side[1].mem[0] = 77;
	assert_int_equal(sb_post(b, 1,
				 (struct rnic_send_wr){.opcode = RNIC_WR_RDMA_WRITE,
						       .rkey = rkey,
						       .remote_addr = address(b, 0, 1000)},
				 0, 100, 0),
			 0);
	assert_int_equal(
		sb_post(b, 1,
			(struct rnic_send_wr){.opcode = RNIC_WR_SEND_WITH_INV, .imm_or_rkey = rkey},
			0, 4, 0),
		0);
	sb_run(b);
	assert_int_equal(s->mem[1000], 77);
	wc = sb_wc(b, 0, true);
	assert_int_equal(wc.status, RNIC_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, RNIC_WC_WITH_INV);
	assert_int_equal(wc.imm_or_rkey, rkey);
	assert_int_equal(sb_post(b, 1,
				 (struct rnic_send_wr){.opcode = RNIC_WR_RDMA_WRITE,
						       .rkey = rkey,
						       .remote_addr = address(b, 0, 1000)},
				 0, 100, 0),
			 0);
	sb_run(b);
	assert_int_equal(rnic_stream_terminated(b->side[1].qp), DDP_TERM_STAG);
	assert_int_equal(rnic_mw_destroy(mw), 0);
	sb_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_that_are_none_end_it),
		cmocka_unit_test(sends_need_a_receive_that_holds_them),
		cmocka_unit_test(segments_of_a_message_belong_together),
		cmocka_unit_test(writes_go_where_they_may),
		cmocka_unit_test(rights_of_the_queue_pair_count),
		cmocka_unit_test(an_rtr_needs_no_right),
		cmocka_unit_test(atomics_are_as_they_should_be),
		cmocka_unit_test(more_atomics_than_agreed_on_end_it),
		cmocka_unit_test(reads_come_from_where_they_may),
		cmocka_unit_test(more_reads_than_agreed_on_end_it),
		cmocka_unit_test(a_region_may_go_under_a_read),
		cmocka_unit_test(memory_may_change_under_a_read),
		cmocka_unit_test(payload_is_counted),
		cmocka_unit_test(answers_are_to_what_was_asked),
		cmocka_unit_test(an_atomic_is_not_answered_as_a_read),
		cmocka_unit_test(what_is_not_agreed_on_is_not_known),
		cmocka_unit_test(a_wrong_crc_ends_it),
		cmocka_unit_test(less_than_a_header_ends_it),
		cmocka_unit_test(the_peers_terminate_ends_it),
		cmocka_unit_test(an_overflow_ends_all_streams),
		cmocka_unit_test(a_stream_that_closes_flushes),
		cmocka_unit_test(its_own_states_end_it_as_they_should),
		cmocka_unit_test(a_reset_queue_pair_may_have_another_stream),
		cmocka_unit_test(messages_are_counted_past_the_end),
		cmocka_unit_test(a_responder_waits_for_the_initiator),
		cmocka_unit_test(a_request_fails_after_those_before_it),
		cmocka_unit_test(reads_go_to_one_place_and_no_further_than_agreed),
		cmocka_unit_test(a_fence_waits_for_answers),
		cmocka_unit_test(a_window_is_bound_and_invalidated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
