/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The rdma_cm face by its contract, in one process: a plain librdmacm program, a listener and an
 * active side on event channels of their own.
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
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cm_sides.h"

enum { PORT = 7471, REJECT_INVALID_SERVICE = 8, REJECT_CONSUMER = 28 };

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int setup(void **state)
{
	(void)state;
	return sides_setup(RDMA_PS_TCP);
}

static void listen_at(uint16_t port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};

	assert_int_equal(rdma_bind_addr(bed.listener, (struct sockaddr *)&any), 0);
	assert_int_equal(rdma_listen(bed.listener, 4), 0);
}

static void resolve(uint16_t port)
{
	struct sockaddr_in to = loopback(port);

	assert_int_equal(rdma_resolve_addr(bed.active, NULL, (struct sockaddr *)&to, 1000), 0);
	expect(ACTIVE, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(bed.active, 1000), 0);
	expect(ACTIVE, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static void qp_for(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	assert_int_equal(rdma_create_qp(id, NULL, &a), 0);
}

/* From nothing up to the request at the passive side, with 56 bytes of private data. */
static void request(uint8_t len)
{
	struct rdma_conn_param p = {.initiator_depth = 3,
				    .responder_resources = 5,
				    .retry_count = 7,
				    .rnr_retry_count = 6};
	uint8_t data[255];
	struct rdma_cm_event *ev;

	for (int i = 0; i < 255; i++)
		data[i] = (uint8_t)i;
	p.private_data = data;
	p.private_data_len = len;
	listen_at(PORT);
	resolve(PORT);
	qp_for(bed.active);
	assert_int_equal(rdma_connect(bed.active, &p), 0);
	ev = event(PASSIVE, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(ev->listen_id, bed.listener);
	assert_ptr_equal(ev->id->context, &bed); /* inherited */
	assert_int_equal(ev->param.conn.initiator_depth, 5);
	assert_int_equal(ev->param.conn.responder_resources, 3);
	assert_int_equal(ev->param.conn.rnr_retry_count, 6);
	assert_int_equal(ev->param.conn.qp_num, bed.active->qp->qp_num);
	assert_true(ev->param.conn.private_data_len >= len);
	if (len)
		assert_memory_equal(ev->param.conn.private_data, data, len);
	bed.passive = ev->id;
	assert_int_equal(rdma_ack_cm_event(ev), 0);
}

static void connected(void)
{
	struct rdma_conn_param p = {.initiator_depth = 5,
				    .responder_resources = 3,
				    .rnr_retry_count = 7,
				    .private_data = "welcome",
				    .private_data_len = 8};
	struct rdma_cm_event *ev;

	request(0);
	qp_for(bed.passive);
	assert_int_equal(rdma_accept(bed.passive, &p), 0);
	ev = event(ACTIVE, RDMA_CM_EVENT_ESTABLISHED);
	assert_string_equal(ev->param.conn.private_data, "welcome");
	rdma_ack_cm_event(ev);
	expect(PASSIVE, RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* ---- descriptors, devices, addresses ----------------------------------------------------------
 */

static void an_empty_channel_says_so_and_is_quiet(void **state)
{
	struct pollfd p = {.fd = bed.channel[PASSIVE]->fd, .events = POLLIN | POLLOUT};
	struct rdma_cm_event *ev;

	(void)state;
	assert_int_equal(fcntl(p.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(rdma_get_cm_event(bed.channel[PASSIVE], &ev), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(rdma_get_cm_event(bed.channel[PASSIVE], NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_ack_cm_event(NULL), -1);
	assert_int_equal(errno, EINVAL);
}

/* As with Linux, where loopback is a wildcard; libfabric asks so for all devices. */
static void a_loopback_address_without_a_port_is_of_no_device_until_it_must_be(void **state)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct sockaddr_in here = loopback(0);
	struct rdma_cm_id *id;

	(void)state;
	for (int how = 0; how < 3; how++) {
		assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&here), 0);
		assert_null(id->verbs);
		assert_int_not_equal(rdma_get_src_port(id), 0);
		if (how == 0)
			assert_int_equal(rdma_listen(id, 1), 0);
		else if (how == 1)
			assert_int_equal(rdma_create_qp(id, NULL, &init), 0);
		else
			assert_int_equal(
				rdma_resolve_addr(id, NULL, (struct sockaddr *)&here, 1000), 0);
		assert_non_null(id->verbs);
		assert_non_null(id->pd);
		rdma_destroy_qp(id); /* qperf does so where there is none */
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&here), 0);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void an_identifier_is_on_the_context_that_the_device_list_shows(void **state)
{
	struct sockaddr_in here = loopback(PORT + 7);
	struct ibv_context **list, **again;
	bool found = false;
	int n, m;

	(void)state;
	assert_int_equal(rdma_bind_addr(bed.listener, (struct sockaddr *)&here), 0);
	assert_non_null(bed.listener->verbs);
	assert_non_null(bed.listener->pd);
	assert_int_equal(bed.listener->port_num, 1);
	assert_int_not_equal(rdma_get_src_port(bed.listener), 0);
	list = rdma_get_devices(&n);
	again = rdma_get_devices(&m);
	assert_non_null(list);
	assert_int_equal(n, m);
	for (int i = 0; i < n; i++) {
		assert_ptr_equal(list[i], again[i]);
		found |= list[i] == bed.listener->verbs;
	}
	assert_null(list[n]);
	assert_true(found);
	rdma_free_devices(list);
	rdma_free_devices(again);
}

static void a_port_is_one_listeners(void **state)
{
	struct sockaddr_in a = loopback(PORT);
	struct rdma_cm_id *id;

	(void)state;
	listen_at(PORT);
	assert_int_equal(rdma_create_id(bed.channel[PASSIVE], &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&a), -1);
	assert_int_equal(errno, EADDRNOTAVAIL); /* beside a wildcard */
	a.sin_addr.s_addr = inet_addr("192.0.2.1");
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&a), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	a.sin_family = AF_UNIX;
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&a), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void no_way_there_is_told_at_once(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = inet_addr("192.0.2.1")};

	(void)state;
	assert_int_equal(rdma_resolve_addr(bed.active, NULL, (struct sockaddr *)&to, 1000), -1);
	assert_int_equal(errno, ENETUNREACH);
}

static void a_resolved_route_has_its_path_and_gids(void **state)
{
	struct rdma_route *r = &bed.active->route;

	(void)state;
	resolve(PORT);
	assert_int_equal(r->num_paths, 1);
	assert_non_null(r->path_rec);
	assert_memory_equal(&r->path_rec->dgid, &r->addr.addr.ibaddr.dgid, 16);
	assert_memory_equal(&r->path_rec->sgid, &r->addr.addr.ibaddr.sgid, 16);
	assert_int_equal(ntohs(rdma_get_dst_port(bed.active)), PORT);
	assert_int_not_equal(rdma_get_src_port(bed.active), 0);
	assert_int_equal(r->addr.src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

static void calls_out_of_order_are_invalid(void **state)
{
	struct rdma_conn_param p = {.retry_count = 7};
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC};
	struct sockaddr_in to = loopback(PORT);

	(void)state;
#define INVALID(call)                            \
	do {                                     \
		assert_int_equal(call, -1);      \
		assert_int_equal(errno, EINVAL); \
	} while (0)
	INVALID(rdma_resolve_route(bed.active, 1000));
	INVALID(rdma_connect(bed.active, &p));
	INVALID(rdma_accept(bed.active, &p));
	INVALID(rdma_reject(bed.active, NULL, 0));
	INVALID(rdma_disconnect(bed.active));
	INVALID(rdma_create_qp(bed.active, NULL, &a));
	INVALID(rdma_establish(bed.active));
	resolve(PORT);
	INVALID(rdma_resolve_addr(bed.active, NULL, (struct sockaddr *)&to, 1000));
	INVALID(rdma_bind_addr(bed.active, (struct sockaddr *)&to));
	INVALID(rdma_listen(bed.active, 1));
	INVALID(rdma_connect(bed.active, NULL)); /* neither QP nor parameters */
	p.initiator_depth = 100;
	INVALID(rdma_connect(bed.active, &p)); /* beyond the device */
	assert_int_equal(rdma_create_id(bed.channel[PASSIVE], &bed.passive, NULL, 0x0107), -1);
	assert_int_equal(errno, EINVAL);
}

static void options_are_checked(void **state)
{
	uint8_t tos = 0x60, timeout = 32;
	int yes = 1;

	(void)state;
	assert_int_equal(rdma_set_option(bed.active, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1),
			 0);
	INVALID(rdma_set_option(bed.active, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 4));
	INVALID(rdma_set_option(bed.active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
				1));
	timeout = 14;
	assert_int_equal(rdma_set_option(bed.active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					 &timeout, 1),
			 0);
	assert_int_equal(rdma_set_option(bed.active, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
					 sizeof(yes)),
			 0);
	assert_int_equal(rdma_set_option(bed.active, RDMA_OPTION_ID, 99, &yes, sizeof(yes)), -1);
	assert_int_equal(errno, ENOSYS);
}

/* ---- connections ------------------------------------------------------------------------------
 */

static void a_connection_carries_private_data_and_ends_at_both_sides(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	(void)state;
	connected();
	assert_int_equal(ntohs(rdma_get_src_port(bed.passive)), PORT);
	assert_int_equal(rdma_get_dst_port(bed.passive), rdma_get_src_port(bed.active));
	assert_int_equal(ibv_query_qp(bed.passive->qp, &a, ~0, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	assert_int_equal(a.max_rd_atomic, 5);
	assert_int_equal(a.max_dest_rd_atomic, 3);
	assert_int_equal(a.rnr_retry, 6); /* what the active side allows us */
	assert_int_equal(ibv_query_qp(bed.active->qp, &a, ~0, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	assert_int_equal(a.max_rd_atomic, 3);
	assert_int_equal(a.max_dest_rd_atomic, 5);
	assert_int_equal(a.rnr_retry, 7);
	assert_int_equal(a.dest_qp_num, bed.passive->qp->qp_num);

	assert_int_equal(rdma_disconnect(bed.active), 0);
	assert_int_equal(ibv_query_qp(bed.active->qp, &a, ~0, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_ERR);
	expect(PASSIVE, RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(rdma_disconnect(bed.passive), 0);
	expect(ACTIVE, RDMA_CM_EVENT_DISCONNECTED, 0);
}

static void messages_pass_by_the_calls_of_rdma_verbs_h(void **state)
{
	struct ibv_mr *in, *out;
	char buf[2][64] = {"over there", ""};
	struct ibv_wc wc;

	(void)state;
	connected();
	out = rdma_reg_msgs(bed.active, buf[0], 64);
	in = rdma_reg_msgs(bed.passive, buf[1], 64);
	assert_non_null(out);
	assert_non_null(in);
	assert_int_equal(rdma_post_recv(bed.passive, NULL, buf[1], 64, in), 0);
	assert_int_equal(rdma_post_send(bed.active, NULL, buf[0], 64, out, IBV_SEND_SIGNALED), 0);
	assert_int_equal(rdma_get_send_comp(bed.active, &wc), 1); /* waits for the event */
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(bed.passive, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(buf[1], "over there");
	assert_int_equal(rdma_dereg_mr(in), 0);
	assert_int_equal(rdma_dereg_mr(out), 0);
}

static unsigned rnr_timer(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	assert_int_equal(ibv_query_qp(qp, &a, IBV_QP_MIN_RNR_TIMER, &init), 0);
	return a.min_rnr_timer;
}

/* How long a message takes whose receive is posted 5 ms late. */
static long late_ms(struct ibv_mr *in, struct ibv_mr *out)
{
	struct timespec from, to;
	struct ibv_wc wc;

	clock_gettime(CLOCK_MONOTONIC, &from);
	assert_int_equal(rdma_post_send(bed.active, NULL, out->addr, 64, out, IBV_SEND_SIGNALED),
			 0);
	nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	assert_int_equal(rdma_post_recv(bed.passive, NULL, in->addr, 64, in), 0);
	assert_int_equal(rdma_get_send_comp(bed.active, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(bed.passive, &wc), 1);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
}

/* On a busy machine not each time. */
static void who_is_not_ready_is_tried_again_soon_where_that_has_no_end(void **state)
{
	struct ibv_mr *in, *out;
	char buf[2][64] = {{0}};
	bool soon = false;

	(void)state;
	connected(); /* the active side is to try for ever, and the passive one six times */
	assert_int_equal(rnr_timer(bed.passive->qp), 12);
	assert_int_equal(rnr_timer(bed.active->qp), 0);
	out = rdma_reg_msgs(bed.active, buf[0], 64);
	in = rdma_reg_msgs(bed.passive, buf[1], 64);
	for (int i = 0; i < 5 && !soon; i++)
		soon = late_ms(in, out) < 300;
	assert_true(soon);
	assert_int_equal(rdma_dereg_mr(in), 0);
	assert_int_equal(rdma_dereg_mr(out), 0);
}

static void a_rejection_carries_private_data(void **state)
{
	struct rdma_cm_event *ev;

	(void)state;
	request(56);
	INVALID(rdma_reject(bed.passive, "", 149));
	assert_int_equal(rdma_reject(bed.passive, "not today", 10), 0);
	ev = event(ACTIVE, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(ev->status, REJECT_CONSUMER);
	assert_string_equal(ev->param.conn.private_data, "not today");
	rdma_ack_cm_event(ev);
}

static void too_much_private_data_is_invalid(void **state)
{
	struct rdma_conn_param p = {.private_data = &bed, .private_data_len = 57};

	(void)state;
	resolve(PORT);
	qp_for(bed.active);
	INVALID(rdma_connect(bed.active, &p));
}

static void a_port_without_listener_rejects(void **state)
{
	struct rdma_conn_param p = {.retry_count = 7};

	(void)state;
	resolve(PORT + 1);
	qp_for(bed.active);
	assert_int_equal(rdma_connect(bed.active, &p), 0);
	expect(ACTIVE, RDMA_CM_EVENT_REJECTED, REJECT_INVALID_SERVICE);
}

static void a_request_that_is_destroyed_is_rejected(void **state)
{
	(void)state;
	request(0);
	assert_int_equal(rdma_destroy_id(bed.passive), 0);
	bed.passive = NULL;
	expect(ACTIVE, RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER);
}

static void *ack_later(void *ev)
{
	usleep(100000);
	rdma_ack_cm_event(ev);
	return NULL;
}

static void an_identifier_waits_for_its_events_to_be_acknowledged(void **state)
{
	struct sockaddr_in to = loopback(PORT);
	struct timespec t0, t1;
	pthread_t thread;

	(void)state;
	assert_int_equal(rdma_resolve_addr(bed.active, NULL, (struct sockaddr *)&to, 1000), 0);
	assert_int_equal(pthread_create(&thread, NULL, ack_later,
					event(ACTIVE, RDMA_CM_EVENT_ADDR_RESOLVED)),
			 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	assert_int_equal(rdma_destroy_id(bed.active), 0);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	bed.active = NULL;
	pthread_join(thread, NULL);
	assert_true((t1.tv_sec - t0.tv_sec) * 1000 + (t1.tv_nsec - t0.tv_nsec) / 1000000 >= 50);
}

/* The application moves its queue pair itself. */
static void a_queue_pair_of_ones_own_is_moved_by_the_attributes_given(void **state)
{
	struct rdma_conn_param p = {.retry_count = 7, .rnr_retry_count = 7};
	const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr a = {0};
	struct ibv_qp *qp;
	struct rdma_cm_event *ev;
	int mask;

	(void)state;
	listen_at(PORT);
	resolve(PORT);
	init.send_cq = init.recv_cq = ibv_create_cq(bed.active->verbs, 4, NULL, NULL, 0);
	qp = ibv_create_qp(bed.active->pd, &init);
	assert_non_null(qp);
	a.qp_state = IBV_QPS_RTR;
	INVALID(rdma_init_qp_attr(bed.active, &a, &mask)); /* no peer yet */
	p.qp_num = qp->qp_num;
	assert_int_equal(rdma_connect(bed.active, &p), 0);
	ev = event(PASSIVE, RDMA_CM_EVENT_CONNECT_REQUEST);
	bed.passive = ev->id;
	rdma_ack_cm_event(ev);
	qp_for(bed.passive);
	assert_int_equal(rdma_accept(bed.passive, &p), 0);
	expect(ACTIVE, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	for (int i = 0; i < 3; i++) {
		a.qp_state = states[i];
		assert_int_equal(rdma_init_qp_attr(bed.active, &a, &mask), 0);
		assert_int_equal(ibv_modify_qp(qp, &a, mask), 0);
	}
	assert_int_equal(rdma_establish(bed.active), 0);
	expect(PASSIVE, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(init.send_cq), 0);
}

static void an_identifier_moves_to_another_channel(void **state)
{
	struct rdma_event_channel *to = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	struct sockaddr_in a = loopback(PORT);

	(void)state;
	assert_int_equal(rdma_resolve_addr(bed.active, NULL, (struct sockaddr *)&a, 1000), 0);
	assert_int_equal(rdma_migrate_id(bed.active, to), 0);
	assert_ptr_equal(bed.active->channel, to);
	/* What had not been read comes along. */
	assert_int_equal(rdma_get_cm_event(to, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_resolve_route(bed.active, 1000), 0);
	assert_int_equal(rdma_get_cm_event(to, &ev), 0);
	assert_int_equal(ev->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_destroy_id(bed.active), 0);
	bed.active = NULL;
	rdma_destroy_event_channel(to);
}

static _Atomic int error_told; /* errno */
static _Atomic pid_t taker;

static void *take_an_event(void *channel)
{
	struct rdma_cm_event *ev;

	taker = (pid_t)syscall(SYS_gettid);
	if (rdma_get_cm_event(channel, &ev) == 0)
		rdma_ack_cm_event(ev);
	else
		error_told = errno;
	return NULL;
}

/* It waits within read(). */
static bool taker_waits(void)
{
	char path[64], text[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", taker);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	if (fd >= 0)
		close(fd);
	return text[0] && text[0] != 'r' && atoi(text) == SYS_read;
}

/* As rping does at its end, be it that an event of the identifier comes just then: the thread is
 * told of no error, and can be cancelled. */
static void who_waits_for_a_channel_that_is_destroyed_waits_on(void **state)
{
	struct sockaddr_in a = loopback(PORT);
	unsigned waited = 0;

	(void)state;
	error_told = 0;
	for (int i = 0; i < 300; i++) {
		struct rdma_event_channel *c = rdma_create_event_channel();
		struct rdma_cm_id *id;
		pthread_t thread;
		void *result;

		assert_non_null(c);
		taker = 0;
		assert_int_equal(rdma_create_id(c, &id, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(pthread_create(&thread, NULL, take_an_event, c), 0);
		while (!taker || !taker_waits())
			usleep(50);
		assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1000), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
		rdma_destroy_event_channel(c);
		usleep(500);
		assert_int_equal(error_told, 0);
		(void)pthread_cancel(thread);
		assert_int_equal(pthread_join(thread, &result), 0);
		waited += result == PTHREAD_CANCELED;
	}
	assert_true(waited > 0); /* the others have had the event */
}

/* The broker numbers the channels of each process, and a child's are others than its parent's. */
static void a_child_that_tidies_up_keeps_its_own_channel(void **state)
{
	enum { MANY = 16 };
	struct sockaddr_in a = loopback(PORT);
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (!pid) {
		/* Some of them have the numbers of the parent's. */
		struct rdma_event_channel *own[MANY];
		struct rdma_cm_id *id[MANY];

		for (int i = 0; i < MANY; i++) {
			own[i] = rdma_create_event_channel();
			if (!own[i] || rdma_create_id(own[i], &id[i], NULL, RDMA_PS_TCP))
				_exit(1);
		}
		for (int i = 0; i < SIDES; i++)
			rdma_destroy_event_channel(bed.channel[i]);
		for (int i = 0; i < MANY; i++) {
			struct pollfd p = {.fd = own[i]->fd, .events = POLLIN};

			if (rdma_resolve_addr(id[i], NULL, (struct sockaddr *)&a, 1000))
				_exit(2);
			if (poll(&p, 1, 10000) != 1)
				_exit(3);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- endpoints --------------------------------------------------------------------------------
 */

static struct rdma_addrinfo *addresses(int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;
	char port[8];

	snprintf(port, sizeof(port), "%d", PORT);
	assert_int_equal(
		rdma_getaddrinfo(flags & RAI_PASSIVE ? NULL : "127.0.0.1", port, &hints, &res), 0);
	return res;
}

static void *serve_one(void *arg)
{
	struct rdma_cm_id *listener = arg, *id;

	if (rdma_get_request(listener, &id) || rdma_accept(id, NULL))
		return (void *)1;
	rdma_disconnect(id);
	rdma_destroy_ep(id);
	return NULL;
}

static void endpoints_connect_without_events_being_looked_at(void **state)
{
	struct ibv_qp_init_attr a = {.cap = {.max_send_wr = 1,
					     .max_recv_wr = 1,
					     .max_send_sge = 1,
					     .max_recv_sge = 1}},
				b = a, c = a;
	struct rdma_addrinfo *res = addresses(RAI_PASSIVE);
	struct rdma_cm_id *listener, *id;
	pthread_t thread;
	void *failed;

	(void)state;
	assert_int_equal(rdma_create_ep(&listener, res, NULL, &a), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_listen(listener, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve_one, listener), 0);
	res = addresses(0);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &b), 0);
	rdma_freeaddrinfo(res);
	assert_non_null(id->qp);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_disconnect(id), 0);
	pthread_join(thread, &failed);
	assert_null(failed);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);

	/* Nobody is there any more. */
	res = addresses(0);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &c), 0);
	rdma_freeaddrinfo(res);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	rdma_destroy_ep(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, sides_teardown)
		/* First, while the channels have low numbers. */
		T(who_waits_for_a_channel_that_is_destroyed_waits_on),
		T(a_child_that_tidies_up_keeps_its_own_channel),
		T(an_empty_channel_says_so_and_is_quiet),
		T(a_loopback_address_without_a_port_is_of_no_device_until_it_must_be),
		T(an_identifier_is_on_the_context_that_the_device_list_shows),
		T(a_port_is_one_listeners),
		T(no_way_there_is_told_at_once),
		T(a_resolved_route_has_its_path_and_gids),
		T(calls_out_of_order_are_invalid),
		T(options_are_checked),
		T(a_connection_carries_private_data_and_ends_at_both_sides),
		T(messages_pass_by_the_calls_of_rdma_verbs_h),
		T(who_is_not_ready_is_tried_again_soon_where_that_has_no_end),
		T(a_rejection_carries_private_data),
		T(too_much_private_data_is_invalid),
		T(a_port_without_listener_rejects),
		T(a_request_that_is_destroyed_is_rejected),
		T(an_identifier_waits_for_its_events_to_be_acknowledged),
		T(a_queue_pair_of_ones_own_is_moved_by_the_attributes_given),
		T(an_identifier_moves_to_another_channel),
		T(endpoints_connect_without_events_being_looked_at),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
