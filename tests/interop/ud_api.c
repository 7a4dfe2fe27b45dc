/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Datagrams over rdma_cm by the contract, in one process: a plain librdmacm program, a service and
 * a client on event channels of their own.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cm_sides.h"

enum {
	PORT = 7174,
	GRH = 40,
	REQ_MAX = 180,
	REP_MAX = 136,
	STATUS_UNSUPPORTED = 1,
	STATUS_REJECTED = 2
};

static int setup(void **state)
{
	(void)state;
	return sides_setup(RDMA_PS_UDP);
}

static struct sockaddr_in6 loopback(int family)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6,
				 .sin6_port = htons(PORT),
				 .sin6_addr = IN6ADDR_LOOPBACK_INIT};

	if (family == AF_INET)
		*(struct sockaddr_in *)&a =
			(struct sockaddr_in){.sin_family = AF_INET,
					     .sin_port = htons(PORT),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	return a;
}

static void no_event(int side)
{
	struct pollfd p = {.fd = bed.channel[side]->fd, .events = POLLIN};

	assert_int_equal(poll(&p, 1, 100), 0);
}

static void listen_on(int family)
{
	struct sockaddr_in6 to = loopback(family);

	assert_int_equal(rdma_bind_addr(bed.listener, (struct sockaddr *)&to), 0);
	assert_int_equal(rdma_listen(bed.listener, 4), 0);
}

static void resolve(int family)
{
	struct sockaddr_in6 to = loopback(family);

	assert_int_equal(rdma_resolve_addr(bed.active, NULL, (struct sockaddr *)&to, 1000), 0);
	expect(ACTIVE, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(bed.active, 1000), 0);
	expect(ACTIVE, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static void qp_for(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	assert_int_equal(rdma_create_qp(id, NULL, &a), 0);
}

static void request(int family, uint8_t len)
{
	uint8_t data[255];
	struct rdma_conn_param p = {.private_data = data, .private_data_len = len};
	struct rdma_cm_event *ev;

	for (int i = 0; i < 255; i++)
		data[i] = (uint8_t)i;
	listen_on(family);
	resolve(family);
	qp_for(bed.active);
	assert_int_equal(rdma_connect(bed.active, &p), 0);
	ev = event(PASSIVE, RDMA_CM_EVENT_CONNECT_REQUEST);
	bed.passive = ev->id;
	assert_ptr_equal(ev->listen_id, bed.listener);
	assert_ptr_equal(ev->id->context, &bed);
	assert_int_equal(ev->id->ps, RDMA_PS_UDP);
	assert_int_equal(ev->id->qp_type, IBV_QPT_UD);
	assert_non_null(ev->id->verbs);
	/* The wire carries no length: what there is room for. */
	assert_int_equal(ev->param.ud.private_data_len, REQ_MAX);
	assert_memory_equal(ev->param.ud.private_data, data, len);
	assert_int_equal(ev->param.ud.qp_num, 0); /* not said: UD's requests do not */
	assert_int_equal(ev->param.ud.qkey, 0);
	assert_int_equal(rdma_get_src_port(ev->id), htons(PORT));
	assert_int_equal(rdma_ack_cm_event(ev), 0);
}

static void wait_for(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int n = 0;

	while (n == 0)
		n = ibv_poll_cq(cq, 1, wc);
	assert_int_equal(n, 1);
	assert_int_equal(wc->status, IBV_WC_SUCCESS);
}

static void a_queue_pair_is_ready_to_send_from_the_start(void **state)
{
	struct ibv_qp_attr a, init = {.qp_state = IBV_QPS_INIT};
	struct ibv_qp_init_attr i;
	int mask;

	(void)state;
	listen_on(AF_INET);
	resolve(AF_INET);
	qp_for(bed.active);
	assert_int_equal(ibv_query_qp(bed.active->qp, &a, IBV_QP_STATE | IBV_QP_QKEY, &i), 0);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	assert_int_equal(a.qkey, RDMA_UDP_QKEY);
	assert_int_equal(rdma_init_qp_attr(bed.active, &init, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(init.qkey, RDMA_UDP_QKEY);
}

/* A question to the address that the event tells, an answer to where it came from. */
static void datagrams(int family)
{
	struct rdma_conn_param p = {.private_data = "welcome", .private_data_len = 8};
	static uint8_t q[GRH + 16], a[GRH + 16];
	char ask[] = "ask", tell[] = "tell";
	struct rdma_cm_event *ev;
	struct ibv_mr *mr[2];
	struct ibv_ah_attr ah_attr;
	struct ibv_ah *to, *back;
	struct ibv_wc wc;

	request(family, 5);
	qp_for(bed.passive);
	mr[0] = rdma_reg_msgs(bed.passive, q, sizeof(q));
	mr[1] = rdma_reg_msgs(bed.active, a, sizeof(a));
	assert_int_equal(rdma_post_recv(bed.passive, NULL, q, sizeof(q), mr[0]), 0);
	assert_int_equal(rdma_post_recv(bed.active, NULL, a, sizeof(a), mr[1]), 0);
	assert_int_equal(rdma_accept(bed.passive, &p), 0);

	ev = event(ACTIVE, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(ev->status, 0);
	assert_int_equal(ev->param.ud.qp_num, bed.passive->qp->qp_num);
	assert_int_equal(ev->param.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(ev->param.ud.private_data_len, REP_MAX);
	assert_string_equal(ev->param.ud.private_data, "welcome");
	assert_int_equal(ev->param.ud.ah_attr.is_global, 1);
	assert_int_equal(ev->param.ud.ah_attr.port_num, 1);
	ah_attr = ev->param.ud.ah_attr;
	assert_int_equal(ah_attr.grh.hop_limit, 64);
	ah_attr.grh.hop_limit = 33;
	to = ibv_create_ah(bed.active->pd, &ah_attr);
	assert_non_null(to);
	assert_int_equal(rdma_post_ud_send(bed.active, NULL, ask, sizeof(ask), NULL,
					   IBV_SEND_INLINE, to, ev->param.ud.qp_num),
			 0);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	wait_for(bed.passive->recv_cq, &wc);
	assert_int_equal(wc.byte_len, GRH + 4);
	assert_string_equal((char *)q + GRH, "ask");
	/* Which network header it was, where mlx5 and UCX have it; no service level for the way
	 * back. */
	assert_int_equal(wc.sl & 7, family == AF_INET ? 2 : 1);
	assert_int_equal(
		ibv_init_ah_from_wc(bed.passive->verbs, 1, &wc, (struct ibv_grh *)q, &ah_attr), 0);
	assert_int_equal(ah_attr.sl, 0);
	/* The network header's hop limit is the packet's. */
	assert_int_equal(q[family == AF_INET ? 20 + 8 : 7], 33);
	back = ibv_create_ah_from_wc(bed.passive->pd, &wc, (struct ibv_grh *)q, 1);
	assert_non_null(back);
	assert_int_equal(rdma_post_ud_send(bed.passive, NULL, tell, sizeof(tell), NULL,
					   IBV_SEND_INLINE, back, wc.src_qp),
			 0);
	wait_for(bed.active->recv_cq, &wc);
	assert_int_equal(wc.src_qp, bed.passive->qp->qp_num);
	assert_string_equal((char *)a + GRH, "tell");

	/* The passive side is told nothing more, and there is nothing to disconnect. */
	no_event(PASSIVE);
	ibv_destroy_ah(to);
	ibv_destroy_ah(back);
	rdma_dereg_mr(mr[0]);
	rdma_dereg_mr(mr[1]);
}

static void datagrams_go_both_ways_ipv4(void **state)
{
	(void)state;
	datagrams(AF_INET);
}

static void datagrams_go_both_ways_ipv6(void **state)
{
	(void)state;
	datagrams(AF_INET6);
}

static void a_rejection_is_unreachable_and_says_so(void **state)
{
	struct rdma_cm_event *ev;
	uint8_t data[255] = "no";

	(void)state;
	request(AF_INET, 0);
	assert_int_equal(rdma_reject(bed.passive, data, REP_MAX + 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_reject(bed.passive, data, 3), 0);
	ev = event(ACTIVE, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(ev->status, STATUS_REJECTED);
	assert_string_equal(ev->param.ud.private_data, "no");
	assert_int_equal(rdma_ack_cm_event(ev), 0);
}

static void a_port_that_nobody_serves_is_unsupported(void **state)
{
	(void)state;
	resolve(AF_INET);
	qp_for(bed.active);
	assert_int_equal(rdma_connect(bed.active, NULL), 0);
	expect(ACTIVE, RDMA_CM_EVENT_UNREACHABLE, STATUS_UNSUPPORTED);
}

static void ports_of_datagrams_and_of_connections_are_others(void **state)
{
	struct sockaddr_in6 at = loopback(AF_INET);
	struct rdma_cm_id *tcp, *udp;

	(void)state;
	listen_on(AF_INET);
	assert_int_equal(rdma_create_id(bed.channel[PASSIVE], &tcp, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(tcp, (struct sockaddr *)&at), 0);
	assert_int_equal(rdma_create_id(bed.channel[PASSIVE], &udp, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(udp, (struct sockaddr *)&at), -1);
	assert_int_equal(errno, EADDRINUSE);
	rdma_destroy_id(udp);
	rdma_destroy_id(tcp);
}

/* IPoIB's interfaces are InfiniBand's; Linux with RoCE answers the same. */
static void ipoib_ids_find_no_device(void **state)
{
	struct sockaddr_in6 at = loopback(AF_INET);
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(bed.channel[PASSIVE], &id, NULL, RDMA_PS_IPOIB), 0);
	assert_int_equal(id->qp_type, IBV_QPT_UD);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&at), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 1000), 0);
	assert_int_equal(rdma_get_cm_event(bed.channel[PASSIVE], &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(ev->status, -EINVAL);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_null(id->verbs);
	rdma_destroy_id(id);
}

#define INVALID(call)                            \
	do {                                     \
		errno = 0;                       \
		assert_int_equal((call), -1);    \
		assert_int_equal(errno, EINVAL); \
	} while (0)

static void calls_out_of_order_are_invalid(void **state)
{
	uint8_t data[255] = {0};
	struct rdma_conn_param p = {.private_data = data};

	(void)state;
	INVALID(rdma_connect(bed.active, NULL));
	INVALID(rdma_accept(bed.active, NULL));
	INVALID(rdma_reject(bed.active, NULL, 0));
	INVALID(rdma_disconnect(bed.active));
	INVALID(rdma_establish(bed.active));
	request(AF_INET, REQ_MAX);
	INVALID(rdma_connect(bed.active, NULL)); /* is under way */
	INVALID(rdma_connect(bed.passive, NULL));
	p.private_data_len = REP_MAX;
	assert_int_equal(rdma_accept(bed.passive, &p), 0);
	INVALID(rdma_accept(bed.passive, &p));
	INVALID(rdma_reject(bed.passive, NULL, 0));
	expect(ACTIVE, RDMA_CM_EVENT_ESTABLISHED, 0);
	INVALID(rdma_connect(bed.active, NULL));
	assert_int_equal(rdma_disconnect(bed.active), 0);
	no_event(PASSIVE);
	no_event(ACTIVE);
}

static void what_cannot_be_accepted_is_rejected(void **state)
{
	uint8_t data[255] = {0};
	struct rdma_conn_param p = {.private_data = data, .private_data_len = REP_MAX + 1};

	(void)state;
	request(AF_INET, 0);
	INVALID(rdma_accept(bed.passive, &p));
	expect(ACTIVE, RDMA_CM_EVENT_UNREACHABLE, STATUS_REJECTED);
	INVALID(rdma_accept(bed.passive, NULL));
}

static void private_data_beyond_the_room_are_refused(void **state)
{
	uint8_t data[255] = {0};
	struct rdma_conn_param p = {.private_data = data, .private_data_len = REQ_MAX + 1};

	(void)state;
	resolve(AF_INET);
	qp_for(bed.active);
	INVALID(rdma_connect(bed.active, &p));
}

/* ---- endpoints ---------------------------------------------------------------------------------
 */

/* RDMA_PS_UDP says what is meant; RDMA_PS_IB leaves it to the type. */
static struct rdma_addrinfo *lookup(enum rdma_port_space ps, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags,
				      .ai_port_space = (int)ps,
				      .ai_qp_type = ps == RDMA_PS_IB ? IBV_QPT_UD : 0},
			     *ai;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7174", &hints, &ai), 0);
	assert_int_equal(ai->ai_port_space, ps);
	assert_int_equal(ai->ai_qp_type, IBV_QPT_UD);
	return ai;
}

static struct ibv_qp_init_attr small_qp(void)
{
	return (struct ibv_qp_init_attr){
		.cap = {.max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1}};
}

static void *serve_one(void *listen)
{
	struct rdma_cm_id *id;

	if (rdma_get_request(listen, &id) || !id->qp || rdma_accept(id, NULL))
		return NULL;
	return id;
}

static void connect_in_step(enum rdma_port_space ps)
{
	struct ibv_qp_init_attr pa = small_qp(), aa = small_qp();
	struct rdma_addrinfo *passive = lookup(ps, RAI_PASSIVE), *active = lookup(ps, 0);
	struct rdma_cm_id *listen, *id;
	void *served;
	pthread_t thread;

	assert_int_equal(rdma_create_ep(&listen, passive, NULL, &pa), 0);
	assert_int_equal(rdma_listen(listen, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve_one, listen), 0);
	assert_int_equal(rdma_create_ep(&id, active, NULL, &aa), 0);
	assert_int_equal(id->qp->qp_type, IBV_QPT_UD);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(pthread_join(thread, &served), 0);
	assert_non_null(served);
	assert_int_equal(id->event->param.ud.qp_num, ((struct rdma_cm_id *)served)->qp->qp_num);
	assert_int_equal(rdma_disconnect(id), 0);
	rdma_destroy_ep(id);
	rdma_destroy_ep(served);
	rdma_destroy_ep(listen);

	assert_int_equal(rdma_create_ep(&id, active, NULL, NULL), 0);
	assert_int_equal(rdma_connect(id, NULL), -1); /* nobody serves it any more */
	assert_int_equal(errno, STATUS_UNSUPPORTED);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(passive);
	rdma_freeaddrinfo(active);
}

static void endpoints_connect_in_step(void **state)
{
	(void)state;
	connect_in_step(RDMA_PS_UDP);
	connect_in_step(RDMA_PS_IB);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, sides_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_queue_pair_is_ready_to_send_from_the_start),
		T(datagrams_go_both_ways_ipv4),
		T(datagrams_go_both_ways_ipv6),
		T(a_rejection_is_unreachable_and_says_so),
		T(a_port_that_nobody_serves_is_unsupported),
		T(ports_of_datagrams_and_of_connections_are_others),
		T(ipoib_ids_find_no_device),
		T(calls_out_of_order_are_invalid),
		T(what_cannot_be_accepted_is_rejected),
		T(private_data_beyond_the_room_are_refused),
		cmocka_unit_test(endpoints_connect_in_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
