/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The target's RDMA transport, with a host that does what hosts should not: plain verbs and
 * rdma_cm on the other side, both in this process and moved on in turns.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "heap_env.h"
#include "iwarp_like.h"
#include "netns.h"
#include "nvmf/transport/nudge.h"
#include "nvmf/transport/rdma_target.h"
#include "store/store.h"
#include "wire/nvme_rdma.h"

#define NQN	 "nqn.2026-11.io.example:rdma"
#define HOSTNQN	 "nqn.2026-11.io.example:host"
#define PORT	 "4420"
#define DEPTH	 32
#define MEMORY	 (64u * 1024)
#define PATIENCE (20 * NSEC_PER_SEC)

static struct target target;
static struct target_subsys subsys;
static struct target_ns ns;
static struct rdma_target *rt;
static uint64_t stopped_ns; /* the target's clock, where a test moves it by hand */

struct client {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr, *capsule_mr;
	enum rdma_cm_event_type last; /* event seen; UINT32_MAX none */
	int status;		      /* of that event */
	uint8_t private_data[256];
	size_t private_len;
	unsigned received, sent, failed;
	uint8_t memory[MEMORY], capsules[DEPTH][NVME_CQE_LEN], out[NVME_SQE_LEN + 16384];
};

#define NO_EVENT ((enum rdma_cm_event_type)0x7fff)

/* --- both sides move ----------------------------------------------------------------------------
 */

static void take_events(struct client *c)
{
	struct rdma_cm_event *ev;

	while (rdma_get_cm_event(c->events, &ev) == 0) {
		c->last = ev->event;
		c->status = ev->status;
		c->private_len = ev->param.conn.private_data_len;
		if (c->private_len)
			memcpy(c->private_data, ev->param.conn.private_data, c->private_len);
		rdma_ack_cm_event(ev);
	}
}

static void take_completions(struct client *c)
{
	struct ibv_wc wc;

	while (c->cq && ibv_poll_cq(c->cq, 1, &wc) == 1) {
		c->failed += wc.status != IBV_WC_SUCCESS;
		c->received += wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV;
		c->sent += wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND;
	}
}

static void pump(struct client *c)
{
	uint64_t now = stopped_ns ? stopped_ns : time_now_ns();

	if (now >= target_next_deadline(&target))
		target_tick(&target, now);
	rdma_target_process(rt, now, true);
	if (c && c->events)
		take_events(c);
	if (c)
		take_completions(c);
}

#define pump_until(c, condition)                             \
	do {                                                 \
		uint64_t end_ = time_now_ns() + PATIENCE;    \
		while (!(condition) && time_now_ns() < end_) \
			pump(c);                             \
		assert_true(condition);                      \
	} while (0)

static void wait_event(struct client *c, enum rdma_cm_event_type want)
{
	pump_until(c, c->last != NO_EVENT);
	if (c->last != want)
		print_error("event %s, status %d\n", rdma_event_str(c->last), c->status);
	assert_int_equal(c->last, want);
	c->last = NO_EVENT;
}

/* --- a host made of verbs -----------------------------------------------------------------------
 */

static void post_recv(struct client *c, unsigned i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)c->capsules[i],
			      .length = NVME_CQE_LEN,
			      .lkey = c->capsule_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(c->id->qp, &wr, &bad), 0);
}

static struct client *client_open(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4420)};
	struct client *c = calloc(1, sizeof(*c));
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	assert_non_null(c);
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	c->last = NO_EVENT;
	c->events = rdma_create_event_channel();
	assert_non_null(c->events);
	assert_int_equal(fcntl(c->events->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rdma_create_id(c->events, &c->id, c, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&to, 2000), 0);
	wait_event(c, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(c->id, 2000), 0);
	wait_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED);
	c->pd = ibv_alloc_pd(c->id->verbs);
	c->cq = ibv_create_cq(c->id->verbs, 4 * DEPTH, NULL, NULL, 0);
	assert_true(c->pd && c->cq);
	attr.send_cq = attr.recv_cq = c->cq;
	assert_int_equal(rdma_create_qp(c->id, c->pd, &attr), 0);
	c->mr = ibv_reg_mr(c->pd, c->memory, sizeof(c->memory), access);
	c->capsule_mr = ibv_reg_mr(c->pd, c->capsules, sizeof(c->capsules) + sizeof(c->out),
				   IBV_ACCESS_LOCAL_WRITE);
	assert_true(c->mr && c->capsule_mr);
	for (unsigned i = 0; i < DEPTH; i++)
		post_recv(c, i);
	return c;
}

static void client_close(struct client *c)
{
	rdma_destroy_qp(c->id);
	ibv_dereg_mr(c->mr);
	ibv_dereg_mr(c->capsule_mr);
	ibv_destroy_cq(c->cq);
	ibv_dealloc_pd(c->pd);
	rdma_destroy_id(c->id);
	rdma_destroy_event_channel(c->events);
	free(c);
}

static struct nvme_rdma_req good_req(uint16_t qid)
{
	return (struct nvme_rdma_req){.qid = qid, .hrqsize = DEPTH, .hsqsize = DEPTH - 1};
}

static void client_connect(struct client *c, const struct nvme_rdma_req *req, uint8_t len,
			   uint8_t reads)
{
	uint8_t data[NVME_RDMA_REQ_LEN];
	struct wcursor w = wcursor_init(data, sizeof(data));
	struct rdma_conn_param p = {.private_data = data,
				    .private_data_len = len,
				    .responder_resources = reads,
				    .retry_count = 7,
				    .rnr_retry_count = 7};

	nvme_rdma_req_put(&w, req);
	assert_int_equal(rdma_connect(c->id, &p), 0);
}

static struct client *connected(uint16_t qid, uint8_t reads)
{
	struct client *c = client_open();
	struct nvme_rdma_req req = good_req(qid);
	struct nvme_rdma_rep rep;
	struct cursor cur = cursor_init(c->private_data, NVME_RDMA_REP_LEN);

	client_connect(c, &req, NVME_RDMA_REQ_LEN, reads);
	wait_event(c, RDMA_CM_EVENT_ESTABLISHED);
	assert_true(c->private_len >= NVME_RDMA_REP_LEN);
	nvme_rdma_rep_get(&cur, &rep);
	assert_int_equal(rep.recfmt, 0);
	assert_int_equal(rep.crqsize, DEPTH);
	return c;
}

static void send_bytes(struct client *c, size_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)c->out, .length = (uint32_t)len, .lkey = c->capsule_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	assert_int_equal(ibv_post_send(c->id->qp, &wr, &bad), 0);
}

static struct nvme_sqe sqe(struct client *c, uint8_t opcode, uint32_t nsid, uint32_t len)
{
	struct nvme_sqe s = {.opcode = opcode, .flags = NVME_SQE_PSDT_SGL, .nsid = nsid};

	s.sgl = (struct nvme_sgl){.type = NVME_SGL_KEYED_DATA_BLOCK,
				  .addr = (uintptr_t)c->memory,
				  .key = c->mr->rkey,
				  .len = len};
	return s;
}

static void send_sqe(struct client *c, const struct nvme_sqe *s)
{
	struct wcursor w = wcursor_init(c->out, NVME_SQE_LEN);

	nvme_sqe_put(&w, s);
	send_bytes(c, NVME_SQE_LEN);
}

/* The response that came last: receives are posted in a ring. */
static struct nvme_cqe response(struct client *c)
{
	unsigned i = (c->received - 1) % DEPTH;
	struct cursor cur = cursor_init(c->capsules[i], NVME_CQE_LEN);
	struct nvme_cqe q;

	nvme_cqe_get(&cur, &q);
	post_recv(c, i);
	return q;
}

static struct nvme_cqe exec(struct client *c, const struct nvme_sqe *s)
{
	unsigned before = c->received;

	send_sqe(c, s);
	pump_until(c, c->received > before);
	return response(c);
}

static uint16_t nvme_connect(struct client *c, uint16_t qid, uint16_t cntlid)
{
	struct nvmf_connect co = {.qid = qid, .sqsize = DEPTH - 1};
	struct nvmf_connect_data d = {.cntlid = cntlid, .subnqn = NQN, .hostnqn = HOSTNQN};
	struct nvme_sqe s = sqe(c, 0, 0, NVMF_CONNECT_DATA_LEN);
	struct wcursor w = wcursor_init(c->memory, NVMF_CONNECT_DATA_LEN);
	struct nvme_cqe q;

	nvmf_connect_data_put(&w, &d);
	nvmf_connect_to_sqe(&co, &s);
	q = exec(c, &s);
	assert_int_equal(q.status, NVME_SC_SUCCESS);
	return (uint16_t)q.result;
}

static void enable(struct client *c)
{
	struct nvmf_prop p = {.offset = NVME_PROP_CC,
			      .value = NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16};
	struct nvme_sqe s = sqe(c, 0, 0, 0);

	nvmf_prop_to_sqe(&p, NVMF_PROPERTY_SET, &s);
	assert_int_equal(exec(c, &s).status, NVME_SC_SUCCESS);
}

struct pair {
	struct client *admin, *io;
};

static struct pair pair_open(void)
{
	struct pair p = {.admin = connected(0, 4)};
	uint16_t cntlid = nvme_connect(p.admin, 0, NVMF_CNTLID_DYNAMIC);

	enable(p.admin);
	p.io = connected(1, 4);
	assert_int_equal(nvme_connect(p.io, 1, cntlid), cntlid);
	return p;
}

static void pair_close(struct pair *p)
{
	rdma_disconnect(p->io->id);
	rdma_disconnect(p->admin->id);
	pump_until(p->io, rdma_target_idle(rt));
	client_close(p->io);
	client_close(p->admin);
}

/* The target still serves others. */
static void still_serving(void)
{
	struct pair p = pair_open();
	struct nvme_sqe w = sqe(p.io, NVME_IO_WRITE, 1, 8192), r = sqe(p.io, NVME_IO_READ, 1, 8192);

	nvme_rw_set(&w, 3, 16, 0);
	nvme_rw_set(&r, 3, 16, 0);
	for (int i = 0; i < 8192; i++)
		p.io->memory[i] = (uint8_t)(i * 7);
	assert_int_equal(exec(p.io, &w).status, NVME_SC_SUCCESS);
	memset(p.io->memory, 0, 8192);
	assert_int_equal(exec(p.io, &r).status, NVME_SC_SUCCESS);
	for (int i = 0; i < 8192; i++)
		assert_int_equal(p.io->memory[i], (uint8_t)(i * 7));
	pair_close(&p);
}

/* --- tests --------------------------------------------------------------------------------------
 */

static void a_host_writes_and_reads(void **state)
{
	(void)state;
	still_serving();
}

static void private_data_that_is_wrong_is_rejected_with_the_reason(void **state)
{
	static const struct {
		struct nvme_rdma_req req;
		uint8_t len, reads;
		uint16_t status;
	} cases[] = {
		{{.recfmt = 1, .hrqsize = 32, .hsqsize = 31}, 32, 1, NVME_RDMA_REJ_RECFMT},
		{{.qid = 65, .hrqsize = 32, .hsqsize = 31}, 32, 1, NVME_RDMA_REJ_QID},
		{{.hrqsize = 32, .hsqsize = 0}, 32, 1, NVME_RDMA_REJ_HSQSIZE},
		{{.hrqsize = 200, .hsqsize = 128}, 32, 1, NVME_RDMA_REJ_HSQSIZE},
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
	assert_true(rdma_target_idle(rt));
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
		for (int k = 0; k < DEPTH / 2; k++)
			send_sqe(p.io, &s);
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
		answered += DEPTH - 2;
		pump_until(p.io, p.io->received == answered);
		for (unsigned i = 0; i < DEPTH - 2; i++)
			post_recv(p.io, (answered - (DEPTH - 2) + i) % DEPTH);
	}
	assert_int_equal(p.io->failed, 0);
	pair_close(&p);
}

/* --- a host that is silent ----------------------------------------------------------------------
 */

static struct client *connected_at_a_stopped_clock(void)
{
	assert_true(iwarp_like_begin());
	stopped_ns = time_now_ns();
	return connected(0, 1);
}

static void let_go(struct client *c)
{
	rdma_disconnect(c->id);
	pump_until(c, rdma_target_idle(rt));
	client_close(c);
	iwarp_like_end();
	stopped_ns = 0;
}

/* However long it takes. */
static void never_asked(struct client *c)
{
	stopped_ns += 2 * NUDGE_TARGET_NS;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 0);
	let_go(c);
}

static void a_silent_host_on_iwarp_is_made_to_answer_once(void **state)
{
	struct client *c = connected_at_a_stopped_clock();

	(void)state;
	pump_until(c, rdma_target_next_deadline(rt) != DEADLINE_NEVER);
	assert_int_equal(rdma_target_next_deadline(rt), stopped_ns + NUDGE_TARGET_NS);
	stopped_ns += NUDGE_TARGET_NS - 1;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 0);
	stopped_ns++;
	pump(c);
	assert_int_equal(iwarp_like.empty_reads, 1);
	assert_int_equal(rdma_target_next_deadline(rt), DEADLINE_NEVER);
	stopped_ns += 2 * NUDGE_TARGET_NS;
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
	assert_int_equal(rdma_target_next_deadline(rt), DEADLINE_NEVER);
	never_asked(c);
}

static void a_silent_host_that_vanishes_is_not_asked(void **state)
{
	struct client *c = connected_at_a_stopped_clock();

	(void)state;
	pump_until(c, rdma_target_next_deadline(rt) != DEADLINE_NEVER);
	rdma_disconnect(c->id);
	pump_until(c, rdma_target_idle(rt));
	assert_int_equal(rdma_target_next_deadline(rt), DEADLINE_NEVER);
	never_asked(c);
}

static void a_silent_host_on_other_transports_is_left_alone(void **state)
{
	struct client *c;

	(void)state;
	assert_true(iwarp_like_begin());
	iwarp_like_say_ib();
	stopped_ns = time_now_ns();
	c = connected(0, 1);
	for (uint64_t end = time_now_ns() + 50 * NSEC_PER_MSEC; time_now_ns() < end;) {
		pump(c);
		assert_int_equal(rdma_target_next_deadline(rt), DEADLINE_NEVER);
	}
	never_asked(c);
}

/* --- the target ---------------------------------------------------------------------------------
 */

static int set_up(void **state)
{
	char why[256] = "";

	(void)state;
	target_init(&target, &heap_env, time_now_ns());
	strcpy(subsys.nqn, NQN);
	assert_int_equal(target_subsys_add(&target, &subsys), 0);
	ns = (struct target_ns){.nsid = 1, .lba_shift = 9};
	assert_int_equal(store_mem_create(1 << 20, 512, &ns.store), 0);
	assert_int_equal(target_ns_add(&subsys, &ns), 0);
	if (rdma_target_create(&target, 2 << 20, &rt, why, sizeof(why)) != 0 ||
	    rdma_target_listen(rt, "127.0.0.1", PORT, why, sizeof(why)) != 0) {
		print_error("%s\n", why);
		return -1;
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	rdma_target_shutdown(rt);
	if (!rdma_target_idle(rt))
		return -1;
	rdma_target_destroy(rt);
	target_fini(&target);
	store_destroy(ns.store);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_writes_and_reads),
		cmocka_unit_test(private_data_that_is_wrong_is_rejected_with_the_reason),
		cmocka_unit_test(a_capsule_too_short_or_too_long_ends_the_connection),
		cmocka_unit_test(a_key_that_does_not_exist_ends_the_connection),
		cmocka_unit_test(a_promise_of_data_that_is_not_there_is_refused),
		cmocka_unit_test(a_host_that_vanishes_in_the_middle_leaves_nothing_behind),
		cmocka_unit_test(a_full_queue_of_commands_is_answered),
		cmocka_unit_test(a_silent_host_on_iwarp_is_made_to_answer_once),
		cmocka_unit_test(a_host_that_was_heard_is_left_alone),
		cmocka_unit_test(a_silent_host_that_vanishes_is_not_asked),
		cmocka_unit_test(a_silent_host_on_other_transports_is_left_alone),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
