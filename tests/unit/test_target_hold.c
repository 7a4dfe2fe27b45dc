/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Hosts that take what they can of the target and do not give it back: the others go on. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "netns.h"
#include "rdma_bed.h"

#define EXCLUDED "nqn.2026-11.io.example:excluded"

static const char *const allowed[] = {HOSTNQN};

/* A host whose responses nobody takes: there is one receive for each that it waits for. */
static struct pair hog_open(const char *source)
{
	struct pair p;

	bed.source = source;
	bed.receives = 1;
	p = pair_open();
	bed.source = NULL;
	bed.receives = 0;
	return p;
}

/* Reads of so many bytes; the first takes the last receive. */
static void hog(struct client *c, uint32_t len)
{
	struct nvme_sqe s = sqe(c, NVME_IO_READ, 1, len);

	nvme_rw_set(&s, 0, len / 512, 0);
	send_sqe_times(c, &s, DEPTH - 1);
	for (int i = 0; i < 2000; i++)
		pump(c);
}

static void a_host_that_takes_no_responses_leaves_memory_to_another(void **state)
{
	struct pair p = hog_open(SECOND_ADDRESS);

	(void)state;
	hog(p.io, 128 * 1024);
	still_serving();
	pair_close(&p);
}

static void a_queue_that_takes_no_responses_leaves_memory_to_another_of_its_address(void **state)
{
	struct pair p = hog_open(NULL);

	(void)state;
	hog(p.io, 128 * 1024);
	still_serving();
	pair_close(&p);
}

static void log_pages_without_a_receive_leave_memory_to_others(void **state)
{
	struct nvme_get_log g = {.lid = NVME_LID_DISCOVERY, .len = TARGET_DATA_MAX};
	struct client *c;
	struct nvme_sqe s;
	uint16_t cntlid;

	(void)state;
	bed.subsys.hosts = allowed;
	bed.subsys.host_count = 1;
	bed.receives = 1;
	c = connected(0, 4);
	bed.receives = 0;
	assert_int_equal(
		nvme_connect_to(c, 0, NVMF_CNTLID_DYNAMIC, NVMF_DISCOVERY_NQN, EXCLUDED, &cntlid),
		0);
	enable(c);
	s = sqe(c, 0, 0, TARGET_DATA_MAX);
	nvme_get_log_to_sqe(&g, &s);
	send_sqe_times(c, &s, DEPTH - 1);
	for (int i = 0; i < 2000; i++)
		pump(c);
	still_serving();
	rdma_disconnect(c->id);
	pump_until(c, bed.rt->ops->idle(bed.rt));
	client_close(c);
	bed.subsys.hosts = NULL;
}

/* The host is alive, its RNIC says "not ready" for ever. */
static void a_response_that_is_not_taken_ends_its_connection(void **state)
{
	struct pair p;

	(void)state;
	bed.stopped_ns = time_now_ns();
	p = hog_open(NULL);
	hog(p.io, 512);
	assert_true(bed.rt->ops->next_deadline(bed.rt) != DEADLINE_NEVER);
	bed.stopped_ns = bed.rt->ops->next_deadline(bed.rt) - 1;
	for (int i = 0; i < 100; i++)
		pump(p.io);
	assert_int_equal(p.io->last, NO_EVENT);
	bed.stopped_ns += 2;
	wait_event(p.io, RDMA_CM_EVENT_DISCONNECTED);
	pair_close(&p);
	bed.stopped_ns = 0;
	still_serving();
}

/* A device on which READs never come to an end. */
static int (*real_post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int post_send_but_reads(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	return wr->opcode == IBV_WR_RDMA_READ ? 0 : real_post_send(qp, wr, bad);
}

static void data_that_do_not_come_end_their_connection(void **state)
{
	struct ibv_context *ctx;
	struct nvme_sqe s;
	struct pair p;

	(void)state;
	bed.stopped_ns = time_now_ns();
	p = pair_open();
	ctx = p.io->id->verbs;
	real_post_send = ctx->ops.post_send;
	ctx->ops.post_send = post_send_but_reads;
	s = sqe(p.io, NVME_IO_WRITE, 1, 64 * 1024);
	nvme_rw_set(&s, 0, 128, 0);
	send_sqe_times(p.io, &s, DEPTH - 1);
	for (int i = 0; i < 2000; i++)
		pump(p.io);
	ctx->ops.post_send = real_post_send;
	still_serving();
	bed.stopped_ns += 21 * NSEC_PER_SEC;
	wait_event(p.io, RDMA_CM_EVENT_DISCONNECTED);
	pair_close(&p);
	bed.stopped_ns = 0;
	still_serving();
}

/* --- connections that say nothing ---------------------------------------------------------------
 */

#define CROWD 1100 /* more than a target has queues */

struct crowd {
	struct rdma_event_channel *events;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct rdma_cm_id *id[CROWD];
};

static struct rdma_cm_event *crowd_event(struct crowd *w)
{
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_get_cm_event(w->events, &ev), 0);
	return ev;
}

static void crowd_step(struct crowd *w, enum rdma_cm_event_type want)
{
	struct rdma_cm_event *ev = crowd_event(w);

	assert_int_equal(ev->event, want);
	rdma_ack_cm_event(ev);
}

/*
 * Connection requests of queues as large as they come, whose replies nobody looks at: without a
 * call for its events rdma_cm never says that it is ready to use.
 */
static void crowd_open(struct crowd *w)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4420)};
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct nvme_rdma_req req = {.qid = 1, .hrqsize = 128, .hsqsize = 127};
	uint8_t data[NVME_RDMA_REQ_LEN];
	struct wcursor cur = wcursor_init(data, sizeof(data));
	struct rdma_conn_param p = {.private_data = data,
				    .private_data_len = sizeof(data),
				    .responder_resources = 1,
				    .retry_count = 7,
				    .rnr_retry_count = 7};

	nvme_rdma_req_put(&cur, &req);
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	w->events = rdma_create_event_channel();
	assert_non_null(w->events);
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(rdma_create_id(w->events, &w->id[i], NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_resolve_addr(w->id[i], NULL, (struct sockaddr *)&to, 2000),
				 0);
		crowd_step(w, RDMA_CM_EVENT_ADDR_RESOLVED);
		assert_int_equal(rdma_resolve_route(w->id[i], 2000), 0);
		crowd_step(w, RDMA_CM_EVENT_ROUTE_RESOLVED);
	}
	w->pd = ibv_alloc_pd(w->id[0]->verbs);
	w->cq = ibv_create_cq(w->id[0]->verbs, 16, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = w->cq;
	for (int i = 0; i < CROWD; i++) {
		assert_int_equal(rdma_create_qp(w->id[i], w->pd, &attr), 0);
		assert_int_equal(rdma_connect(w->id[i], &p), 0);
		pump(NULL);
	}
	for (int i = 0; i < CROWD; i++)
		pump(NULL);
}

static void crowd_close(struct crowd *w)
{
	for (int i = 0; i < CROWD; i++) {
		rdma_destroy_qp(w->id[i]);
		rdma_destroy_id(w->id[i]);
	}
	ibv_destroy_cq(w->cq);
	ibv_dealloc_pd(w->pd);
	rdma_destroy_event_channel(w->events);
}

/* AddressSanitizer keeps what was freed for a while. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GROWTH_MAX (512u << 20)
#endif
#endif
#ifndef GROWTH_MAX
#define GROWTH_MAX (64u << 20)
#endif

static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	size_t total, pages = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%zu %zu", &total, &pages), 2);
	fclose(f);
	return pages * 4096;
}

static void requests_that_go_no_further_take_little_and_keep_nobody_out(void **state)
{
	static struct crowd w;
	size_t before;

	(void)state;
	still_serving();
	before = resident();
	crowd_open(&w);
	assert_in_range(resident() - before, 0, GROWTH_MAX);
	still_serving();
	crowd_close(&w);
	pump_until(NULL, bed.rt->ops->idle(bed.rt));
	still_serving();
}

#define SILENT 70 /* more than one address may have */

static void a_host_that_never_sends_connect_goes_after_a_while(void **state)
{
	struct client *c[SILENT];
	unsigned gone = 0;

	(void)state;
	bed.stopped_ns = time_now_ns();
	bed.source = SECOND_ADDRESS;
	for (int i = 0; i < SILENT; i++)
		c[i] = connected(0, 1);
	bed.source = NULL;
	for (int i = 0; i < SILENT; i++) {
		pump(c[i]);
		gone += c[i]->last == RDMA_CM_EVENT_DISCONNECTED;
	}
	/* Those that came first made room for the last. */
	assert_int_equal(gone, SILENT - 64);
	assert_int_equal(c[SILENT - 65]->last, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(c[SILENT - 64]->last, NO_EVENT);
	still_serving();
	bed.stopped_ns += 16 * NSEC_PER_SEC;
	for (int i = 0; i < SILENT; i++)
		wait_event(c[i], RDMA_CM_EVENT_DISCONNECTED);
	assert_true(bed.rt->ops->idle(bed.rt));
	for (int i = 0; i < SILENT; i++)
		client_close(c[i]);
	bed.stopped_ns = 0;
}

/* --- hosts that are gone ------------------------------------------------------------------------
 */

/* Its RNIC no longer knows the queue pairs, and nobody says good-bye. */
static void vanish(struct pair *p)
{
	rdma_destroy_qp(p->io->id);
	rdma_destroy_qp(p->admin->id);
}

static void a_host_without_keep_alive_that_vanished_is_found_out(void **state)
{
	uint64_t began = time_now_ns();
	struct pair p;

	(void)state;
	bed.stopped_ns = began;
	bed.one_try = true;
	p = pair_open();
	bed.one_try = false;
	vanish(&p);
	while (bed.stopped_ns < began + 65 * NSEC_PER_SEC) {
		assert_true(bed.rt->ops->next_deadline(bed.rt) != DEADLINE_NEVER);
		bed.stopped_ns = max_of(bed.stopped_ns, bed.rt->ops->next_deadline(bed.rt));
		for (int i = 0; i < 10; i++)
			pump(NULL);
	}
	pump_until(NULL, bed.rt->ops->idle(bed.rt));
	assert_int_equal(bed.target.ctrl_count, 0);
	client_close(p.io);
	client_close(p.admin);
	bed.stopped_ns = 0;
	still_serving();
}

/* It is asked now and then, does not notice, and stays. */
static void a_silent_host_that_is_there_is_left_alone(void **state)
{
	struct pair p;

	(void)state;
	bed.stopped_ns = time_now_ns();
	p = pair_open();
	for (int i = 0; i < 20; i++) {
		assert_true(bed.rt->ops->next_deadline(bed.rt) != DEADLINE_NEVER);
		bed.stopped_ns = max_of(bed.stopped_ns, bed.rt->ops->next_deadline(bed.rt));
		for (int k = 0; k < 200; k++)
			pump(p.admin);
	}
	assert_int_equal(p.admin->last, NO_EVENT);
	assert_int_equal(p.admin->failed, 0);
	bed.stopped_ns = 0;
	pair_close(&p);
	still_serving();
}

/* --- a store that hangs -------------------------------------------------------------------------
 */

static struct store_op *hanging[2 * DEPTH];
static unsigned hanging_count;

static void hang(struct store *s, struct store_op *op)
{
	(void)s;
	hanging[hanging_count++] = op;
}

static const struct store_ops hanging_ops = {.name = "hanging", .submit = hang};

/* The last first: a store answers as it likes. */
static void let_it_go_on(int error)
{
	while (hanging_count) {
		struct store_op *op = hanging[--hanging_count];

		op->done(op, error);
	}
}

static void identify(struct client *c)
{
	struct nvme_sqe s = sqe(c, NVME_ADMIN_IDENTIFY, 0, NVME_IDENTIFY_LEN);

	s.cdw10 = NVME_CNS_CTRL;
	assert_int_equal(exec(c, &s).status, NVME_SC_SUCCESS);
}

static struct nvme_sqe rw(struct client *c, uint8_t opcode, uint32_t nsid, uint32_t len)
{
	struct nvme_sqe s = sqe(c, opcode, nsid, len);

	nvme_rw_set(&s, 0, len / 512, 0);
	return s;
}

static void a_store_that_hangs_takes_nothing_else_along(void **state)
{
	static struct store store = {.ops = &hanging_ops, .size = 1 << 20, .block_size = 512};
	static struct target_ns ns = {.nsid = 2, .store = &store, .lba_shift = 9};
	struct pair p, again;
	struct nvme_sqe s;
	unsigned before;

	(void)state;
	assert_int_equal(target_ns_add(&bed.subsys, &ns), 0);
	p = pair_open();
	s = rw(p.io, NVME_IO_WRITE, 2, 64 * 1024);
	send_sqe_times(p.io, &s, DEPTH - 2);
	for (int i = 0; i < 2000; i++)
		pump(p.io);
	assert_in_range(hanging_count, 1, DEPTH - 3); /* the others wait for memory */
	/* The host goes on elsewhere, on the same queue; so do others. */
	identify(p.admin);
	s = rw(p.io, NVME_IO_READ, 1, 64 * 1024);
	assert_int_equal(exec(p.io, &s).status, NVME_SC_SUCCESS);
	still_serving();
	/* It gives up and comes again. */
	p.before += 1; /* what the store has of it remains */
	pair_close(&p);
	again = pair_open();
	identify(again.admin);
	s = rw(again.io, NVME_IO_READ, 1, 64 * 1024);
	assert_int_equal(exec(again.io, &s).status, NVME_SC_SUCCESS);
	s = rw(again.io, NVME_IO_WRITE, 2, 512);
	before = hanging_count;
	send_sqe(again.io, &s);
	for (int i = 0; i < 2000; i++)
		pump(again.io);
	assert_int_equal(hanging_count, before); /* new data do not overtake the old */
	let_it_go_on(0);
	pump_until(again.io, hanging_count == 1);
	before = again.io->received;
	let_it_go_on(-EIO);
	pump_until(again.io, again.io->received > before);
	assert_int_equal(response(again.io).status & NVME_STATUS_CODE, NVME_SC_WRITE_FAULT);
	again.before = 0;
	pair_close(&again);
	pump_until(NULL, bed.rt->ops->idle(bed.rt));
	still_serving();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_that_takes_no_responses_leaves_memory_to_another),
		cmocka_unit_test(
			a_queue_that_takes_no_responses_leaves_memory_to_another_of_its_address),
		cmocka_unit_test(log_pages_without_a_receive_leave_memory_to_others),
		cmocka_unit_test(a_response_that_is_not_taken_ends_its_connection),
		cmocka_unit_test(data_that_do_not_come_end_their_connection),
		cmocka_unit_test(requests_that_go_no_further_take_little_and_keep_nobody_out),
		cmocka_unit_test(a_host_that_never_sends_connect_goes_after_a_while),
		cmocka_unit_test(a_host_without_keep_alive_that_vanished_is_found_out),
		cmocka_unit_test(a_silent_host_that_is_there_is_left_alone),
		cmocka_unit_test(a_store_that_hangs_takes_nothing_else_along),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, rdma_bed_set_up, rdma_bed_tear_down);
}
