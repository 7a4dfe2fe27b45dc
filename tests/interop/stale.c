/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Keys and queue pairs that are not, or no more, what somebody takes them for: of another
 * protection domain, of a region that was freed, of a queue pair that is gone while packets are on
 * the way to it. Two queue pairs of one process, each in a protection domain of its own.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	BUF = 1 << 16,
	DEPTH = 64,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
	      IBV_ACCESS_REMOTE_ATOMIC
};

static struct ibv_context *ctx;
static struct side {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char *buf;
} side[2];

static void make_qp(struct side *s)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC,
				     .send_cq = s->cq,
				     .recv_cq = s->cq,
				     .cap = {.max_send_wr = DEPTH,
					     .max_recv_wr = DEPTH,
					     .max_send_sge = 1,
					     .max_recv_sge = 1}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	s->qp = ibv_create_qp(s->pd, &a);
	assert_non_null(s->qp);
	assert_int_equal(
		ibv_modify_qp(s->qp, &init,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
}

static void join(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = peer,
				.rq_psn = peer & 0xffffff,
				.max_dest_rd_atomic = 4,
				.min_rnr_timer = 1,
				.ah_attr = {.is_global = 1, .port_num = 1}};

	assert_int_equal(ibv_query_gid(ctx, 1, 0, &a.ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = 12,
				 .retry_cnt = 5,
				 .rnr_retry = 7,
				 .sq_psn = qp->qp_num & 0xffffff,
				 .max_rd_atomic = 4};
	assert_int_equal(ibv_modify_qp(qp, &a,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static void rejoin(void)
{
	for (int i = 0; i < 2; i++) {
		if (side[i].qp)
			assert_int_equal(ibv_destroy_qp(side[i].qp), 0);
		make_qp(&side[i]);
	}
	join(side[0].qp, side[1].qp->qp_num);
	join(side[1].qp, side[0].qp->qp_num);
}

static int begin(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	if (!ctx)
		return -1;
	for (int i = 0; i < 2; i++) {
		struct side *s = &side[i];

		*s = (struct side){.pd = ibv_alloc_pd(ctx), .buf = aligned_alloc(4096, BUF)};
		s->cq = ibv_create_cq(ctx, 4 * DEPTH, NULL, NULL, 0);
		s->mr = ibv_reg_mr(s->pd, s->buf, BUF, ALL);
		if (!s->cq || !s->mr)
			return -1;
		memset(s->buf, 'a' + i, BUF);
	}
	rejoin();
	return 0;
}

static int end(void **state)
{
	int rc = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct side *s = &side[i];

		if (s->qp)
			rc |= ibv_destroy_qp(s->qp);
		if (s->mr)
			rc |= ibv_dereg_mr(s->mr);
		rc |= ibv_destroy_cq(s->cq) | ibv_dealloc_pd(s->pd);
		free(s->buf);
	}
	return rc | ibv_close_device(ctx);
}

static struct ibv_wc next_wc(struct side *s)
{
	struct ibv_wc wc;
	int n = 0;

	for (time_t until = time(NULL) + 20; !n && time(NULL) < until;)
		n = ibv_poll_cq(s->cq, 1, &wc);
	assert_int_equal(n, 1);
	return wc;
}

static int post(struct side *s, enum ibv_wr_opcode op, void *at, uint32_t len, uint32_t lkey,
		void *remote, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)at, len, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(s->qp, &wr, &bad);
}

static int post_recv(struct side *s, void *at, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = {(uintptr_t)at, len, lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(s->qp, &wr, &bad);
}

static bool holds(const char *buf, char c)
{
	for (size_t i = 0; i < BUF; i++)
		if (buf[i] != c)
			return false;
	return true;
}

/* Every one-sided operation on side 1 by this key fails, and moves nothing. */
static void no_way_in(void *remote, uint32_t rkey)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		assert_int_equal(
			post(&side[0], ops[i], side[0].buf, 8, side[0].mr->lkey, remote, rkey), 0);
		assert_int_equal(next_wc(&side[0]).status, IBV_WC_REM_ACCESS_ERR);
		rejoin();
	}
	assert_true(holds(side[0].buf, 'a'));
	assert_true(holds(side[1].buf, 'b'));
}

static void a_remote_key_opens_only_its_own_domain(void **state)
{
	(void)state;
	/* Side 0's own region: it is in this process, and not in side 1's domain. */
	no_way_in(side[0].buf, side[0].mr->rkey);
	/* A key that never was. */
	no_way_in(side[1].buf, side[1].mr->rkey ^ 0x5a5a00);
	/* The right key opens. */
	assert_int_equal(post(&side[0], IBV_WR_RDMA_WRITE, side[0].buf, 8, side[0].mr->lkey,
			      side[1].buf, side[1].mr->rkey),
			 0);
	assert_int_equal(next_wc(&side[0]).status, IBV_WC_SUCCESS);
	assert_memory_equal(side[1].buf, "aaaaaaaab", 9);
}

static void a_local_key_of_another_domain_sends_nothing(void **state)
{
	(void)state;
	assert_int_equal(post_recv(&side[1], side[1].buf, 64, side[1].mr->lkey), 0);
	assert_int_equal(post(&side[0], IBV_WR_SEND, side[1].buf, 8, side[1].mr->lkey, NULL, 0), 0);
	assert_int_equal(next_wc(&side[0]).status, IBV_WC_LOC_PROT_ERR);
	assert_true(holds(side[1].buf, 'b'));
}

static void a_local_key_of_another_domain_receives_nothing(void **state)
{
	(void)state;
	assert_int_equal(post_recv(&side[1], side[0].buf, 64, side[0].mr->lkey), 0);
	assert_int_equal(post(&side[0], IBV_WR_SEND, side[0].buf, 8, side[0].mr->lkey, NULL, 0), 0);
	assert_int_equal(next_wc(&side[0]).status, IBV_WC_REM_OP_ERR);
	assert_int_equal(next_wc(&side[1]).status, IBV_WC_LOC_PROT_ERR);
	assert_true(holds(side[0].buf, 'a'));
}

static void a_freed_regions_keys_are_dead_even_if_its_place_is_taken_again(void **state)
{
	uint32_t rkey = side[1].mr->rkey, lkey = side[1].mr->lkey;

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(ibv_dereg_mr(side[1].mr), 0);
		side[1].mr = ibv_reg_mr(side[1].pd, side[1].buf, BUF, ALL);
		assert_non_null(side[1].mr);
		assert_int_not_equal(side[1].mr->rkey, rkey);
		assert_int_not_equal(side[1].mr->lkey, lkey);
	}
	no_way_in(side[1].buf, rkey);
	assert_int_equal(post_recv(&side[1], side[1].buf, 64, lkey), 0);
	assert_int_equal(post(&side[0], IBV_WR_SEND, side[0].buf, 8, side[0].mr->lkey, NULL, 0), 0);
	assert_int_equal(next_wc(&side[0]).status, IBV_WC_REM_OP_ERR);
	assert_int_equal(next_wc(&side[1]).status, IBV_WC_LOC_PROT_ERR);
	assert_true(holds(side[1].buf, 'b'));
}

/* The region goes while a large READ from it is on its way: no access after dereg has returned. */
static void a_region_freed_amid_a_read_ends_the_read(void **state)
{
	const size_t size = 8 << 20;
	char *from = aligned_alloc(4096, size), *to = aligned_alloc(4096, size);
	struct ibv_mr *source = ibv_reg_mr(side[1].pd, from, size, ALL);
	struct ibv_mr *sink = ibv_reg_mr(side[0].pd, to, size, ALL);
	int done = 0, refused = 0;

	(void)state;
	assert_true(source && sink);
	for (int i = 0; i < 4; i++)
		assert_int_equal(post(&side[0], IBV_WR_RDMA_READ, to, (uint32_t)size, sink->lkey,
				      from, source->rkey),
				 0);
	assert_int_equal(ibv_dereg_mr(source), 0);
	free(from);
	for (int i = 0; i < 4; i++) {
		enum ibv_wc_status status = next_wc(&side[0]).status;

		done += status == IBV_WC_SUCCESS;
		refused += status == IBV_WC_REM_ACCESS_ERR;
		if (i && refused && status != IBV_WC_REM_ACCESS_ERR)
			assert_int_equal(status, IBV_WC_WR_FLUSH_ERR);
	}
	assert_true(done < 4);
	assert_int_equal(refused, 1);
	assert_int_equal(ibv_dereg_mr(sink), 0);
	free(to);
}

/* ---- queue pairs that are gone ----------------------------------------------------------------
 */

static void a_destroyed_peer_ends_the_retries(void **state)
{
	struct ibv_wc wc;
	int errors = 0;

	(void)state;
	for (int i = 0; i < DEPTH; i++) {
		/* On a busy machine all that came before may be done by then. */
		if (i == DEPTH - 1) {
			assert_int_equal(ibv_destroy_qp(side[1].qp), 0);
			side[1].qp = NULL;
		}
		assert_int_equal(post(&side[0], IBV_WR_RDMA_WRITE, side[0].buf, BUF,
				      side[0].mr->lkey, side[1].buf, side[1].mr->rkey),
				 0);
	}
	for (int i = 0; i < DEPTH; i++) {
		wc = next_wc(&side[0]);
		if (wc.status == IBV_WC_SUCCESS)
			assert_int_equal(errors, 0); /* in order: none after the first error */
		else
			assert_int_equal(wc.status,
					 errors++ ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
	}
	assert_true(errors > 0);
}

/* Its number is not another's at once, and what is still on the way reaches nobody. */
static void a_destroyed_queue_pairs_number_is_not_used_again_soon(void **state)
{
	uint32_t old = side[1].qp->qp_num;
	struct ibv_wc wc;

	(void)state;
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 8; i++)
			assert_int_equal(post(&side[0], IBV_WR_SEND, side[0].buf, 4096,
					      side[0].mr->lkey, NULL, 0),
					 0);
		assert_int_equal(ibv_destroy_qp(side[1].qp), 0);
		make_qp(&side[1]);
		assert_int_not_equal(side[1].qp->qp_num, old);
		old = side[1].qp->qp_num;
		for (int i = 0; i < 8; i++)
			assert_int_equal(post_recv(&side[1], side[1].buf, BUF, side[1].mr->lkey),
					 0);
		join(side[1].qp, side[0].qp->qp_num);
		assert_int_equal(ibv_poll_cq(side[1].cq, 1, &wc), 0);
		rejoin();
		while (ibv_poll_cq(side[0].cq, 1, &wc) > 0)
			;
	}
	assert_true(holds(side[1].buf, 'b'));
}

static void a_queue_pair_destroyed_with_work_leaves_nothing_in_its_cq(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < DEPTH; i++)
		assert_int_equal(post(&side[0], IBV_WR_RDMA_WRITE, side[0].buf, BUF,
				      side[0].mr->lkey, side[1].buf, side[1].mr->rkey),
				 0);
	assert_int_equal(ibv_destroy_qp(side[0].qp), 0);
	side[0].qp = NULL;
	assert_int_equal(ibv_poll_cq(side[0].cq, 1, &wc), 0); /* be it done before */
	usleep(200000);
	assert_int_equal(ibv_poll_cq(side[0].cq, 1, &wc), 0);
}

static void *ack_later(void *event)
{
	usleep(100000);
	ibv_ack_async_event(event);
	return NULL;
}

static void a_queue_pair_waits_for_its_events_to_be_acknowledged(void **state)
{
	struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;
	struct timespec t0, t1;
	pthread_t thread;

	(void)state;
	assert_int_equal(post(&side[0], IBV_WR_RDMA_WRITE, side[0].buf, 8, side[0].mr->lkey,
			      side[1].buf, side[1].mr->rkey ^ 0x100),
			 0);
	assert_int_equal(next_wc(&side[0]).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(ibv_get_async_event(ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, side[1].qp);
	assert_int_equal(pthread_create(&thread, NULL, ack_later, &event), 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	assert_int_equal(ibv_destroy_qp(side[1].qp), 0);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	side[1].qp = NULL;
	pthread_join(thread, NULL);
	assert_true((t1.tv_sec - t0.tv_sec) * 1000 + (t1.tv_nsec - t0.tv_nsec) / 1000000 >= 50);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		T(a_remote_key_opens_only_its_own_domain),
		T(a_local_key_of_another_domain_sends_nothing),
		T(a_local_key_of_another_domain_receives_nothing),
		T(a_freed_regions_keys_are_dead_even_if_its_place_is_taken_again),
		T(a_region_freed_amid_a_read_ends_the_read),
		T(a_destroyed_peer_ends_the_retries),
		T(a_destroyed_queue_pairs_number_is_not_used_again_soon),
		T(a_queue_pair_destroyed_with_work_leaves_nothing_in_its_cq),
		T(a_queue_pair_waits_for_its_events_to_be_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
