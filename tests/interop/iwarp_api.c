/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections of iWARP between both ends in one process, which sleeps between its calls: what it
 * leaves to the library is done without it. With WEFT_DEVICES=iwarp.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include "cm_sides.h"

enum { PORT = 7620, SOON_MS = 2000 };

static int begin(void **state)
{
	(void)state;
	return sides_setup(RDMA_PS_TCP);
}

static void qp_for(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	assert_int_equal(rdma_create_qp(id, NULL, &a), 0);
}

/* But for what the active side is told of it. */
static void accepted(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_conn_param param = {0};
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_bind_addr(bed.listener, (struct sockaddr *)&to), 0);
	assert_int_equal(rdma_listen(bed.listener, 1), 0);
	assert_int_equal(rdma_resolve_addr(bed.active, NULL, (struct sockaddr *)&to, 1000), 0);
	expect(ACTIVE, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(bed.active, 1000), 0);
	expect(ACTIVE, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	qp_for(bed.active);
	assert_int_equal(rdma_connect(bed.active, &param), 0);
	ev = event(PASSIVE, RDMA_CM_EVENT_CONNECT_REQUEST);
	bed.passive = ev->id;
	rdma_ack_cm_event(ev);
	qp_for(bed.passive);
	assert_int_equal(rdma_accept(bed.passive, &param), 0);
	expect(PASSIVE, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void connected(void)
{
	accepted();
	expect(ACTIVE, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static uint8_t buf[8];

/* From the passive side, and the active side's process has had time to take it in. */
static void message(void)
{
	struct ibv_mr *mr[SIDES] = {ibv_reg_mr(bed.passive->pd, buf, 8, IBV_ACCESS_LOCAL_WRITE),
				    ibv_reg_mr(bed.active->pd, buf, 8, IBV_ACCESS_LOCAL_WRITE)};
	struct ibv_sge sge[SIDES] = {{(uintptr_t)buf, 8, mr[PASSIVE]->lkey},
				     {(uintptr_t)buf, 8, mr[ACTIVE]->lkey}};
	struct ibv_recv_wr recv = {.sg_list = &sge[ACTIVE], .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge[PASSIVE], .num_sge = 1, .opcode = IBV_WR_SEND},
			   *bad_send;

	assert_int_equal(ibv_post_recv(bed.active->qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(bed.passive->qp, &send, &bad_send), 0);
	usleep(3000);
	for (int i = 0; i < SIDES; i++)
		assert_int_equal(ibv_dereg_mr(mr[i]), 0);
}

/* One that something has just come by is not ended at once, but a little later, of which the
 * library's thread has to hear: it sleeps by then, and has nothing to do. */
static void a_queue_pair_destroyed_without_a_word_ends_its_connection(void **state)
{
	struct pollfd told = {.events = POLLIN};

	(void)state;
	connected();
	usleep(300000); /* what there was to do about the beginning is over */
	message();
	rdma_destroy_qp(bed.active);
	told.fd = bed.channel[PASSIVE]->fd;
	assert_int_equal(poll(&told, 1, SOON_MS), 1);
	expect(PASSIVE, RDMA_CM_EVENT_DISCONNECTED, 0);
}

/* Its queue pair is left, as an application's own would be. */
static void an_identifier_that_is_not_told_yet_takes_its_connection_along(void **state)
{
	struct ibv_comp_channel *channels[2];
	struct ibv_cq *cqs[2];
	struct ibv_qp *qp;

	(void)state;
	accepted();
	qp = bed.active->qp;
	cqs[0] = bed.active->send_cq;
	cqs[1] = bed.active->recv_cq;
	channels[0] = bed.active->send_cq_channel;
	channels[1] = bed.active->recv_cq_channel;
	bed.active->qp = NULL;
	assert_int_equal(rdma_destroy_id(bed.active), 0);
	bed.active = NULL;
	expect(PASSIVE, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_cq(cqs[i]), 0);
		assert_int_equal(ibv_destroy_comp_channel(channels[i]), 0);
	}
}

int main(void)
{
	/* Whether the thread sleeps again when it should be woken is chance. */
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, begin, sides_teardown)
		T(a_queue_pair_destroyed_without_a_word_ends_its_connection),
		T(a_queue_pair_destroyed_without_a_word_ends_its_connection),
		T(a_queue_pair_destroyed_without_a_word_ends_its_connection),
		T(a_queue_pair_destroyed_without_a_word_ends_its_connection),
		T(a_queue_pair_destroyed_without_a_word_ends_its_connection),
		T(a_queue_pair_destroyed_without_a_word_ends_its_connection),
		T(an_identifier_that_is_not_told_yet_takes_its_connection_along),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
