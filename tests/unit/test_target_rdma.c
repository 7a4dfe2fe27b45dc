/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The target's RDMA transport, with a host that does what hosts should not. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "iwarp_like.h"
#include "netns.h"
#include "nvmf/rdma/nudge.h"
#include "rdma_bed.h"

/* --- tests --------------------------------------------------------------------------------------
 */

static void a_host_writes_and_reads(void **state)
{
	(void)state;
	still_serving();
}

static void the_discovery_log_tells_how_to_come_by_rdma(void **state)
{
	struct nvme_get_log g = {.lid = NVME_LID_DISCOVERY, .len = 3 * 1024};
	struct client *c = connected(0, 4);
	struct nvmf_disc_hdr hdr;
	struct nvmf_disc_entry e;
	struct nvmf_tsas_rdma tsas;
	struct nvme_sqe s = sqe(c, 0, 0, (uint32_t)g.len);
	struct cursor cur = cursor_init(c->memory, g.len);
	uint16_t cntlid;

	(void)state;
	assert_int_equal(
		nvme_connect_to(c, 0, NVMF_CNTLID_DYNAMIC, NVMF_DISCOVERY_NQN, HOSTNQN, &cntlid),
		0);
	enable(c);
	nvme_get_log_to_sqe(&g, &s);
	assert_int_equal(exec(c, &s).status, NVME_SC_SUCCESS);
	nvmf_disc_hdr_get(&cur, &hdr);
	assert_true(hdr.numrec >= 2);
	nvmf_disc_entry_get(&cur, &e);
	assert_int_equal(e.trtype, NVMF_TRTYPE_RDMA);
	assert_int_equal(e.treq, NVMF_TREQ_NO_SQ_FLOW);
	nvmf_tsas_rdma_get(e.tsas, &tsas);
	assert_int_equal(tsas.qptype, 1);
	assert_int_equal(tsas.prtype, 1);
	assert_int_equal(tsas.cms, 1);
	rdma_disconnect(c->id);
	pump_until(c, bed.rt->ops->idle(bed.rt));
	client_close(c);
}

static int (*req_notify)(struct ibv_cq *, int);
static unsigned arms;

static int count_arms(struct ibv_cq *cq, int solicited_only)
{
	arms++;
	return req_notify(cq, solicited_only);
}

/* An RNIC that leaves its work to who polls learns so that nobody will; the loop polls a while for
 * other transports' sake, too. */
static void queues_are_armed_before_each_sleep(void **state)
{
	struct client *c = connected(0, 4);
	struct ibv_context *verbs = c->id->verbs;

	(void)state;
	req_notify = verbs->ops.req_notify_cq;
	verbs->ops.req_notify_cq = count_arms;
	for (int i = 0; i < 3; i++) {
		do
			arms = 0;
		while (bed.rt->ops->process(bed.rt, time_now_ns(), true));
		assert_true(arms > 0);
	}
	verbs->ops.req_notify_cq = req_notify;
	rdma_disconnect(c->id);
	pump_until(c, bed.rt->ops->idle(bed.rt));
	client_close(c);
}

static void private_data_that_is_wrong_is_rejected_with_the_reason(void **state)
{
	static const struct {
		struct nvme_rdma_req req;
		uint8_t len, reads;
		uint16_t status;
	} cases[] = {
		{{.recfmt = 1, .hrqsize = 32, .hsqsize = 31}, 32, 1, NVME_RDMA_REJ_RECFMT},
		{{.qid = TARGET_IO_QUEUES_MAX + 1, .hrqsize = 32, .hsqsize = 31},
		 32,
		 1,
		 NVME_RDMA_REJ_QID},
		{{.hrqsize = 32, .hsqsize = 0}, 32, 1, NVME_RDMA_REJ_HSQSIZE},
		{{.hrqsize = 2000, .hsqsize = TARGET_QUEUE_ENTRIES_MAX},
		 32,
		 1,
		 NVME_RDMA_REJ_HSQSIZE},
		{{.hrqsize = 0, .hsqsize = 31}, 32, 1, NVME_RDMA_REJ_HRQSIZE},
		{{.hrqsize = 32, .hsqsize = 31}, 32, 0, NVME_RDMA_REJ_IRD},
		{{0}, 0, 1, NVME_RDMA_REJ_HSQSIZE}, /* IB pads with zeroes: no length to see */
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client *c = client_open();
		struct cursor cur = cursor_init(c->private_data, NVME_RDMA_REJ_LEN);
		struct nvme_rdma_rej rej;

		client_connect(c, &cases[i].req, cases[i].len, cases[i].reads);
		wait_event(c, RDMA_CM_EVENT_REJECTED);
		assert_int_equal(c->status, NVME_RDMA_REJ_REASON);
		nvme_rdma_rej_get(&cur, &rej);
		assert_int_equal(rej.recfmt, 0);
		assert_int_equal(rej.status, cases[i].status);
		client_close(c);
	}
	assert_true(bed.rt->ops->idle(bed.rt));
	still_serving();
}

static void a_capsule_too_short_or_too_long_ends_the_connection(void **state)
{
	static const size_t lens[] = {0, 1, 63, NVME_SQE_LEN + TARGET_CAPSULE_DATA + 1};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		struct pair p = pair_open();

		send_bytes(p.io, lens[i]);
		wait_event(p.io, RDMA_CM_EVENT_DISCONNECTED);
		pair_close(&p);
	}
	still_serving();
}

static void a_key_that_does_not_exist_ends_the_connection(void **state)
{
	static const uint8_t ops[] = {NVME_IO_READ, NVME_IO_WRITE};

	(void)state;
	for (unsigned i = 0; i < 2 * ARRAY_SIZE(ops); i++) {
		struct pair p = pair_open();
		struct nvme_sqe s = sqe(p.io, ops[i / 2], 1, 512);

		if (i % 2)
			s.sgl.key ^= 0x5555;
		else
			s.sgl.addr += MEMORY; /* right behind the region */
		send_sqe(p.io, &s);
		wait_event(p.io, RDMA_CM_EVENT_DISCONNECTED);
		pair_close(&p);
	}
	still_serving();
}

/* --- data in pieces -----------------------------------------------------------------------------
 */

#define PIECE 512u

/* Every second piece of the memory, from the back. */
static void name_pieces(struct client *c, struct nvme_sgl list[TARGET_SGL_MAX])
{
	for (unsigned i = 0; i < TARGET_SGL_MAX; i++) {
		list[i] = sqe(c, 0, 0, PIECE).sgl;
		list[i].addr += (uint64_t)(TARGET_SGL_MAX - 1 - i) * 2 * PIECE;
	}
}

static struct nvme_cqe exec_list(struct client *c, const struct nvme_sqe *s,
				 const struct nvme_sgl *list, unsigned count)
{
	unsigned before = c->received;

	send_sqe_list(c, s, list, count);
	pump_until(c, c->received > before || c->last == RDMA_CM_EVENT_DISCONNECTED);
	return c->received > before ? response(c) : (struct nvme_cqe){.status = NO_ANSWER};
}

static uint8_t pattern(unsigned piece, unsigned byte)
{
	return (uint8_t)(piece * 37 + byte * 7 + byte / 256);
}

static void data_in_pieces_are_written_and_read(void **state)
{
	struct pair p = pair_open();
	struct nvme_sqe s = sqe(p.io, NVME_IO_WRITE, 1, 0);
	struct nvme_sgl list[TARGET_SGL_MAX];

	(void)state;
	name_pieces(p.io, list);
	nvme_rw_set(&s, 5, TARGET_SGL_MAX, 0);
	for (unsigned i = 0; i < TARGET_SGL_MAX; i++)
		for (unsigned k = 0; k < PIECE; k++)
			((uint8_t *)(uintptr_t)list[i].addr)[k] = pattern(i, k);
	assert_int_equal(exec_list(p.io, &s, list, TARGET_SGL_MAX).status, NVME_SC_SUCCESS);
	memset(p.io->memory, 0xee, sizeof(p.io->memory));
	s.opcode = NVME_IO_READ;
	assert_int_equal(exec_list(p.io, &s, list, TARGET_SGL_MAX).status, NVME_SC_SUCCESS);
	for (unsigned i = 0; i < TARGET_SGL_MAX; i++)
		for (unsigned k = 0; k < PIECE; k++) {
			const uint8_t *piece = (const uint8_t *)(uintptr_t)list[i].addr;

			assert_int_equal(piece[k], pattern(i, k));
			assert_int_equal(piece[PIECE + k], 0xee);
		}
	/* And as one: it is all there, in order. */
	s = sqe(p.io, NVME_IO_READ, 1, TARGET_SGL_MAX * PIECE);
	nvme_rw_set(&s, 5, TARGET_SGL_MAX, 0);
	assert_int_equal(exec(p.io, &s).status, NVME_SC_SUCCESS);
	for (unsigned i = 0; i < TARGET_SGL_MAX * PIECE; i++)
		assert_int_equal(p.io->memory[i], pattern(i / PIECE, i % PIECE));
	pair_close(&p);
}

/* More work requests than the target's send queue has entries, and more READs than the host takes.
 */
/* All of a full queue's responses after the first `answered`, their receives posted again. */
static unsigned full_queue_answered(struct client *c, unsigned answered)
{
	answered += DEPTH - 2;
	pump_until(c, c->received == answered);
	for (unsigned i = 0; i < DEPTH - 2; i++)
		post_recv(c, (answered - (DEPTH - 2) + i) % DEPTH);
	return answered;
}

static void a_full_queue_of_commands_in_pieces_is_answered(void **state)
{
	struct pair p = pair_open();
	struct nvme_sqe s = sqe(p.io, NVME_IO_WRITE, 1, 0);
	struct nvme_sgl list[TARGET_SGL_MAX];
	unsigned answered = p.io->received;

	(void)state;
	name_pieces(p.io, list);
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < DEPTH - 2; i++) {
			s.opcode = (round + i) % 3 ? NVME_IO_READ : NVME_IO_WRITE;
			nvme_rw_set(&s, i * TARGET_SGL_MAX, TARGET_SGL_MAX, 0);
			send_sqe_list(p.io, &s, list, TARGET_SGL_MAX);
			pump_until(p.io, p.io->sent >= answered + i + 1);
		}
		answered = full_queue_answered(p.io, answered);
	}
	assert_int_equal(p.io->failed, 0);
	pair_close(&p);
	still_serving();
}

static void one_wrong_key_among_good_ones_ends_the_connection(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct pair p = pair_open();
		struct nvme_sqe s = sqe(p.io, i % 2 ? NVME_IO_READ : NVME_IO_WRITE, 1, 0);
		struct nvme_sgl list[TARGET_SGL_MAX];

		name_pieces(p.io, list);
		list[i < 2 ? 7 : TARGET_SGL_MAX - 1].key ^= 0x5555;
		nvme_rw_set(&s, 0, TARGET_SGL_MAX, 0);
		assert_int_equal(exec_list(p.io, &s, list, TARGET_SGL_MAX).status, NO_ANSWER);
		pair_close(&p);
	}
	still_serving();
}

static struct ibv_mw *window(struct client *c, struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(c->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

	assert_non_null(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info =
		(struct ibv_mw_bind_info){.mr = mr,
					  .addr = (uintptr_t)c->memory,
					  .length = sizeof(c->memory),
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	assert_int_equal(ibv_post_send(c->id->qp, &wr, &bad), 0);
	mw->rkey = wr.bind_mw.rkey;
	return mw;
}

/* A response can do away with one: the last that the host names. The others stay the host's. */
static void of_several_keys_to_invalidate_the_last_is(void **state)
{
	struct pair p = pair_open();
	struct ibv_mr *mr = ibv_reg_mr(p.io->pd, p.io->memory, sizeof(p.io->memory),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *a = window(p.io, mr), *b = window(p.io, mr);
	struct nvme_sqe s = sqe(p.io, NVME_IO_READ, 1, 0);
	struct nvme_sgl list[4];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(list); i++)
		list[i] = sqe(p.io, 0, 0, PIECE).sgl;
	list[0].key = a->rkey;
	list[1].key = b->rkey;
	list[0].subtype = list[1].subtype = list[3].subtype = NVME_SGL_INVALIDATE;
	list[3].len = 0; /* names nothing: its key is not looked at */
	nvme_rw_set(&s, 0, 3, 0);
	assert_int_equal(exec_list(p.io, &s, list, 4).status, NVME_SC_SUCCESS);
	assert_int_equal(p.io->invalidated, b->rkey);
	s = sqe(p.io, NVME_IO_READ, 1, PIECE);
	s.sgl.key = a->rkey; /* is there still */
	nvme_rw_set(&s, 0, 1, 0);
	assert_int_equal(exec(p.io, &s).status, NVME_SC_SUCCESS);
	s.sgl.key = b->rkey;
	assert_int_equal(exec(p.io, &s).status, NO_ANSWER);
	rdma_destroy_qp(p.io->id);
	ibv_dealloc_mw(a);
	ibv_dealloc_mw(b);
	ibv_dereg_mr(mr);
	pair_close(&p);
}

/* --- what is told of it -------------------------------------------------------------------------
 */

static struct {
	enum target_event_type type;
	unsigned qid;
	char hostnqn[NVME_NQN_LEN], peer[NVMF_PEER_LEN], why[96];
} told[16];
static unsigned told_count;

static void tell(void *ctx, const struct target_event *e)
{
	(void)ctx;
	assert_in_range(told_count, 0, ARRAY_SIZE(told) - 1);
	told[told_count].type = e->type;
	told[told_count].qid = e->queue ? e->queue->qid : 0;
	snprintf(told[told_count].hostnqn, NVME_NQN_LEN, "%s", e->ctrl ? e->ctrl->hostnqn : "");
	snprintf(told[told_count].peer, NVMF_PEER_LEN, "%s", e->peer ? e->peer : "");
	snprintf(told[told_count].why, sizeof(told[0].why), "%s", e->why ? e->why : "");
	told_count++;
}

static void listen_to_events(void)
{
	bed.target.env.event = tell;
	told_count = 0;
}

/* However the test ended: the others are none of its business. */
static int listen_no_more(void **state)
{
	(void)state;
	bed.target.env.event = NULL;
	return 0;
}

static void who_comes_goes_and_fails_is_told_of_with_the_reason(void **state)
{
	struct nvme_rdma_req bad = good_req(TARGET_IO_QUEUES_MAX + 1);
	struct nvme_sqe s;
	struct client *c;
	struct pair p;

	(void)state;
	listen_to_events();
	p = pair_open();
	assert_int_equal(told_count, 2);
	assert_int_equal(told[0].type, TARGET_EVENT_CTRL_NEW);
	assert_string_equal(told[0].hostnqn, HOSTNQN);
	assert_string_equal(told[0].peer, "127.0.0.1");
	assert_int_equal(told[1].type, TARGET_EVENT_QUEUE_NEW);
	s = sqe(p.io, NVME_IO_READ, 1, 512);
	s.sgl.key ^= 0x5555;
	send_sqe(p.io, &s);
	pump_until(p.io, told_count == 3);
	assert_int_equal(told[2].type, TARGET_EVENT_QUEUE_FAILED);
	assert_int_equal(told[2].qid, 1);
	assert_string_equal(told[2].hostnqn, HOSTNQN);
	assert_string_equal(told[2].peer, "127.0.0.1");
	assert_string_equal(told[2].why, "an RDMA WRITE to the host fails: remote access error");
	pair_close(&p); /* which is the host's own doing */
	pump_until(NULL, told_count == 4);
	assert_int_equal(told[3].type, TARGET_EVENT_CTRL_GONE);
	assert_string_equal(told[3].peer, "127.0.0.1");
	assert_string_equal(told[3].why, "");

	listen_to_events();
	c = client_open();
	client_connect(c, &bad, NVME_RDMA_REQ_LEN, 1);
	wait_event(c, RDMA_CM_EVENT_REJECTED);
	client_close(c);
	assert_int_equal(told_count, 1);
	assert_int_equal(told[0].type, TARGET_EVENT_REJECTED);
	assert_string_equal(told[0].peer, "127.0.0.1");
	assert_string_equal(told[0].why, "invalid queue ID");
}

/* More in-capsule data promised than sent: a status, and the connection goes on. */
static void a_promise_of_data_that_is_not_there_is_refused(void **state)
{
	struct pair p = pair_open();
	struct nvme_sqe s = sqe(p.io, NVME_IO_WRITE, 1, 4096);

	(void)state;
	nvme_rw_set(&s, 0, 8, 0);
	s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = 4096};
	assert_int_equal(exec(p.io, &s).status & NVME_STATUS_CODE, NVME_SC_SGL_INVALID_OFFSET);
	s = sqe(p.io, NVME_IO_FLUSH, 1, 0);
	assert_int_equal(exec(p.io, &s).status, NVME_SC_SUCCESS);
	pair_close(&p);
}

static void a_host_that_vanishes_in_the_middle_leaves_nothing_behind(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++) {
		struct pair p = pair_open();
		struct nvme_sqe s = sqe(p.io, i % 2 ? NVME_IO_READ : NVME_IO_WRITE, 1, 32768);

		nvme_rw_set(&s, 0, 64, 0);
		send_sqe_times(p.io, &s, DEPTH / 2);
		for (int k = 0; k < i; k++)
			pump(NULL);
		rdma_disconnect(i % 3 ? p.io->id : p.admin->id);
		pump_until(p.io, i % 3 || p.io->last == RDMA_CM_EVENT_DISCONNECTED);
		pair_close(&p);
	}
	still_serving();
}

static void a_full_queue_of_commands_is_answered(void **state)
{
	struct pair p = pair_open();
	struct nvme_sqe s = sqe(p.io, NVME_IO_WRITE, 1, 2048);
	unsigned answered = p.io->received;

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < DEPTH - 2; i++) {
			nvme_rw_set(&s, i * 4, 4, 0);
			send_sqe(p.io, &s);
			/* The bytes of a SEND must stay until it is done. */
			pump_until(p.io, p.io->sent >= answered + i + 1);
		}
		answered = full_queue_answered(p.io, answered);
	}
	assert_int_equal(p.io->failed, 0);
	pair_close(&p);
}

static void the_data_of_several_writes_are_asked_for_together(void **state)
{
	enum { WRITES = 12 };
	struct pair p;
	struct nvme_sqe s;
	unsigned answered;

	(void)state;
	assert_true(iwarp_like_begin());
	iwarp_like_say_ib();
	p = pair_open();
	s = sqe(p.io, NVME_IO_WRITE, 1, 4096);
	nvme_rw_set(&s, 0, 8, 0);
	answered = p.io->received;
	iwarp_like.reads = iwarp_like.posts_with_reads = 0;
	send_sqe_times(p.io, &s, WRITES);
	pump_until(p.io, p.io->received == answered + WRITES);
	assert_int_equal(iwarp_like.reads, WRITES);
	assert_in_range(iwarp_like.posts_with_reads, 1, WRITES / 2);
	pair_close(&p);
	iwarp_like_end();
}

/* The target's RNIC has it, and the target has not looked. */
static void send_unseen(struct client *c, const struct nvme_sqe *s)
{
	uint64_t end = time_now_ns() + PATIENCE;
	struct ibv_wc wc;
	int n;

	send_sqe(c, s);
	while ((n = ibv_poll_cq(c->cq, 1, &wc)) == 0 && time_now_ns() < end)
		;
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	c->sent++;
}

static void a_write_that_is_aborted_before_its_data_come_waits_for_the_host_no_more(void **state)
{
	struct pair p = pair_open();
	struct nvme_sqe w = sqe(p.io, NVME_IO_WRITE, 1, 4096), abort = sqe(p.admin, 0, 0, 0);
	unsigned before = p.admin->received, answered = p.io->received;
	struct nvme_cqe q;

	(void)state;
	bed.stopped_ns = time_now_ns();
	w.cid = 7;
	nvme_rw_set(&w, 0, 8, 0);
	abort.opcode = NVME_ADMIN_ABORT;
	abort.cdw10 = 1 | 7u << 16;
	send_unseen(p.io, &w);
	send_unseen(p.admin, &abort);
	pump_until(p.admin, p.admin->received == before + 1);
	q = response(p.admin);
	assert_int_equal(q.status, NVME_SC_SUCCESS);
	assert_int_equal(q.result & 1, 0); /* it was */
	pump_until(p.io, p.io->received == answered + 1);
	q = response(p.io);
	assert_int_equal(q.cid, 7);
	assert_int_equal(q.status & ~NVME_STATUS_MORE, NVME_SC_ABORT_REQ);
	bed.stopped_ns += 25 * NSEC_PER_SEC;
	for (int i = 0; i < 10; i++)
		pump(p.io);
	assert_int_equal(exec(p.io, &w).status, NVME_SC_SUCCESS);
	pair_close(&p);
	bed.stopped_ns = 0;
}

/* --- a host that is silent ----------------------------------------------------------------------
 */

static struct client *connected_at_a_stopped_clock(void)
{
	assert_true(iwarp_like_begin());
	bed.stopped_ns = time_now_ns();
	return connected(0, 1);
}

static void let_go(struct client *c)
{
	rdma_disconnect(c->id);
	pump_until(c, bed.rt->ops->idle(bed.rt));
	client_close(c);
	iwarp_like_end();
	bed.stopped_ns = 0;
}

/* However long it takes. */
static void never_asked(struct client *c)
{
	bed.stopped_ns += 2 * NUDGE_TARGET_NS;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 0);
	let_go(c);
}

static void a_silent_host_on_iwarp_is_made_to_answer_once(void **state)
{
	struct client *c = connected_at_a_stopped_clock();

	(void)state;
	pump_until(c, bed.rt->ops->next_deadline(bed.rt) != DEADLINE_NEVER);
	assert_int_equal(bed.rt->ops->next_deadline(bed.rt), bed.stopped_ns + NUDGE_TARGET_NS);
	bed.stopped_ns += NUDGE_TARGET_NS - 1;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 0);
	bed.stopped_ns++;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 1);
	assert_int_equal(bed.rt->ops->next_deadline(bed.rt), DEADLINE_NEVER);
	bed.stopped_ns += 2 * NUDGE_TARGET_NS;
	/* The connection is none the worse for it. The data of Connect are fetched by READ: the
	 * only one that the host admits is free again. */
	nvme_connect(c, 0, NVMF_CNTLID_DYNAMIC);
	assert_int_equal(iwarp_like.empty_reads, 1);
	assert_int_equal(c->failed, 0);
	let_go(c);
}

static void a_host_that_was_heard_is_left_alone(void **state)
{
	struct client *c = connected_at_a_stopped_clock();

	(void)state;
	nvme_connect(c, 0, NVMF_CNTLID_DYNAMIC);
	for (int i = 0; i < 10; i++)
		pump(c);
	assert_true(bed.rt->ops->next_deadline(bed.rt) > bed.stopped_ns + 2 * NUDGE_TARGET_NS);
	never_asked(c);
}

static void a_silent_host_that_vanishes_is_not_asked(void **state)
{
	struct client *c = connected_at_a_stopped_clock();

	(void)state;
	pump_until(c, bed.rt->ops->next_deadline(bed.rt) != DEADLINE_NEVER);
	rdma_disconnect(c->id);
	pump_until(c, bed.rt->ops->idle(bed.rt));
	assert_int_equal(bed.rt->ops->next_deadline(bed.rt), DEADLINE_NEVER);
	never_asked(c);
}

static void a_silent_host_on_other_transports_is_left_alone(void **state)
{
	struct client *c;

	(void)state;
	assert_true(iwarp_like_begin());
	iwarp_like_say_ib();
	bed.stopped_ns = time_now_ns();
	c = connected(0, 1);
	for (uint64_t end = time_now_ns() + 50 * NSEC_PER_MSEC; time_now_ns() < end;) {
		pump(c);
		assert_int_equal(bed.rt->ops->next_deadline(bed.rt), DEADLINE_NEVER);
	}
	never_asked(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_writes_and_reads),
		cmocka_unit_test(the_discovery_log_tells_how_to_come_by_rdma),
		cmocka_unit_test(queues_are_armed_before_each_sleep),
		cmocka_unit_test(private_data_that_is_wrong_is_rejected_with_the_reason),
		cmocka_unit_test(a_capsule_too_short_or_too_long_ends_the_connection),
		cmocka_unit_test(a_key_that_does_not_exist_ends_the_connection),
		cmocka_unit_test_teardown(who_comes_goes_and_fails_is_told_of_with_the_reason,
					  listen_no_more),
		cmocka_unit_test(data_in_pieces_are_written_and_read),
		cmocka_unit_test(a_full_queue_of_commands_in_pieces_is_answered),
		cmocka_unit_test(one_wrong_key_among_good_ones_ends_the_connection),
		cmocka_unit_test(of_several_keys_to_invalidate_the_last_is),
		cmocka_unit_test(a_promise_of_data_that_is_not_there_is_refused),
		cmocka_unit_test(a_host_that_vanishes_in_the_middle_leaves_nothing_behind),
		cmocka_unit_test(a_full_queue_of_commands_is_answered),
		cmocka_unit_test(the_data_of_several_writes_are_asked_for_together),
		cmocka_unit_test(
			a_write_that_is_aborted_before_its_data_come_waits_for_the_host_no_more),
		cmocka_unit_test(a_silent_host_on_iwarp_is_made_to_answer_once),
		cmocka_unit_test(a_host_that_was_heard_is_left_alone),
		cmocka_unit_test(a_silent_host_that_vanishes_is_not_asked),
		cmocka_unit_test(a_silent_host_on_other_transports_is_left_alone),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, rdma_bed_set_up, rdma_bed_tear_down);
}
