/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rdma_cm's calls at the wrong time, and its rules for addresses and ports: each answers with the
 * errno that librdmacm and Linux's ucma.c, cma.c and cm.c give. Where these crash (a call before
 * there is a device) nothing is asked; so it is where a call would succeed and move the id.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../skip.h"
#include "cm_event.h"

enum { PORT = 7600, REJECT_CONSUMER = 28 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *passive, *active;
static struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

static const struct sockaddr *at(const char *text, uint16_t port, const char *scope)
{
	static struct sockaddr_storage s;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&s;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&s;

	memset(&s, 0, sizeof(s));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
		v6->sin6_family = AF_INET6;
		v6->sin6_scope_id = scope ? if_nametoindex(scope) : 0;
	}
	v4->sin_port = htons(port);
	return (struct sockaddr *)&s;
}

static int bind_to(struct rdma_cm_id *id, const char *text, uint16_t port)
{
	return rdma_bind_addr(id, (struct sockaddr *)at(text, port, NULL)) ? errno : 0;
}

static struct rdma_cm_id *fresh(void)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

static struct rdma_cm_event *event(enum rdma_cm_event_type type)
{
	return next_event(channel, type);
}

static void expect(enum rdma_cm_event_type type, int status)
{
	expect_event(channel, type, status);
}

static void qp_for(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	assert_int_equal(rdma_create_qp(id, NULL, &a), 0);
}

static int begin(void **state)
{
	(void)state;
	channel = rdma_create_event_channel();
	listener = passive = active = NULL;
	return channel ? 0 : -1;
}

static void put(struct rdma_cm_id **id)
{
	if (*id && (*id)->qp)
		rdma_destroy_qp(*id);
	if (*id)
		assert_int_equal(rdma_destroy_id(*id), 0);
	*id = NULL;
}

static int end(void **state)
{
	(void)state;
	put(&active);
	put(&passive);
	put(&listener);
	rdma_destroy_event_channel(channel);
	return 0;
}

/* ---- up to the states ------------------------------------------------------------------------ */

static void listening(void)
{
	listener = fresh();
	assert_int_equal(bind_to(listener, "127.0.0.1", PORT), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
}

static void resolved_addr(void)
{
	active = fresh();
	assert_int_equal(rdma_resolve_addr(active, NULL,
					   (struct sockaddr *)at("127.0.0.1", PORT, NULL), 1000),
			 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static void resolved_route(void)
{
	resolved_addr();
	assert_int_equal(rdma_resolve_route(active, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

/* With queue pairs of the identifiers' own, or with such as only have a number. */
static void requested(bool qps)
{
	struct rdma_cm_event *ev;

	listening();
	resolved_route();
	if (qps)
		qp_for(active);
	param.qp_num = 0x123;
	assert_int_equal(rdma_connect(active, &param), 0);
	ev = event(RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = ev->id;
	rdma_ack_cm_event(ev);
}

static void connected(void)
{
	requested(true);
	qp_for(passive);
	assert_int_equal(rdma_accept(passive, &param), 0);
	expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(RDMA_CM_EVENT_ESTABLISHED, 0);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static int do_bind(struct rdma_cm_id *id)
{
	return rdma_bind_addr(id, (struct sockaddr *)at("127.0.0.1", PORT + 1, NULL));
}

static int do_resolve_addr(struct rdma_cm_id *id)
{
	return rdma_resolve_addr(id, NULL, (struct sockaddr *)at("127.0.0.1", PORT, NULL), 1000);
}

static int do_resolve_route(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, 1000);
}

static int do_listen(struct rdma_cm_id *id)
{
	return rdma_listen(id, 1);
}

static int do_connect(struct rdma_cm_id *id)
{
	return rdma_connect(id, &param);
}

static int do_accept(struct rdma_cm_id *id)
{
	return rdma_accept(id, &param);
}

static int do_reject(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

static int do_notify(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_COMM_EST);
}

static int do_notify_other(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_PORT_ERR);
}

static int option(struct rdma_cm_id *id, int name, int value)
{
	return rdma_set_option(id, RDMA_OPTION_ID, name, &value, sizeof(value));
}

static int do_reuse(struct rdma_cm_id *id)
{
	return option(id, RDMA_OPTION_ID_REUSEADDR, 1);
}

static int do_no_reuse(struct rdma_cm_id *id)
{
	return option(id, RDMA_OPTION_ID_REUSEADDR, 0);
}

static int do_af_only(struct rdma_cm_id *id)
{
	return option(id, RDMA_OPTION_ID_AFONLY, 1);
}

static int do_init_rtr(struct rdma_cm_id *id)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR};
	int mask;

	return rdma_init_qp_attr(id, &a, &mask);
}

static int do_get_request(struct rdma_cm_id *id)
{
	struct rdma_cm_id *new;

	return rdma_get_request(id, &new);
}

/* Where each call is out of place, a letter for each state. */
enum { FRESH = 1, BOUND = 2, ADDR = 4, ROUTE = 8, LISTENS = 16, REQUESTED = 32, CONNECTED = 64 };

static const struct {
	const char *name;
	int (*call)(struct rdma_cm_id *);
	unsigned invalid, other;
	int other_errno;
} calls[] = {
	{"bind_addr", do_bind, BOUND | ADDR | ROUTE | LISTENS | REQUESTED | CONNECTED, 0, 0},
	{"resolve_addr", do_resolve_addr, ADDR | ROUTE | LISTENS | REQUESTED | CONNECTED, 0, 0},
	{"resolve_route", do_resolve_route, BOUND | ROUTE | LISTENS | REQUESTED | CONNECTED, 0, 0},
	{"listen", do_listen, ADDR | ROUTE | LISTENS | REQUESTED | CONNECTED, 0, 0},
	{"connect", do_connect, BOUND | ADDR | LISTENS | REQUESTED | CONNECTED, 0, 0},
	{"accept", do_accept, BOUND | ADDR | ROUTE | LISTENS | CONNECTED, 0, 0},
	{"reject", do_reject, FRESH | BOUND | ADDR | ROUTE | LISTENS | CONNECTED, 0, 0},
	{"disconnect", rdma_disconnect, FRESH | BOUND | ADDR | ROUTE, 0, 0},
	{"establish", rdma_establish,
	 FRESH | BOUND | ADDR | ROUTE | LISTENS | REQUESTED | CONNECTED, 0, 0},
	{"notify COMM_EST", do_notify, FRESH | BOUND | ADDR | ROUTE | LISTENS | REQUESTED,
	 CONNECTED, EISCONN},
	{"notify PORT_ERR", do_notify_other, FRESH | BOUND | LISTENS | REQUESTED | CONNECTED, 0, 0},
	{"REUSEADDR on", do_reuse, LISTENS, 0, 0},
	{"REUSEADDR off", do_no_reuse, BOUND | ADDR | ROUTE | LISTENS | REQUESTED | CONNECTED, 0,
	 0},
	{"AFONLY", do_af_only, ADDR | ROUTE | LISTENS | REQUESTED | CONNECTED, 0, 0},
	{"init_qp_attr", do_init_rtr, FRESH, 0, 0},
	{"get_request", do_get_request, FRESH | BOUND | LISTENS, 0, 0},
};

static void all_calls(struct rdma_cm_id *id, unsigned state)
{
	int faults = 0;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int want = calls[i].invalid & state ? EINVAL
			   : calls[i].other & state ? calls[i].other_errno
						    : 0;
		int rc;

		if (!want)
			continue;
		errno = 0;
		rc = calls[i].call(id);
		if (rc != -1 || errno != want) {
			print_error("%s in state %u: %d, %s\n", calls[i].name, state, rc,
				    strerror(errno));
			faults++;
		}
	}
	assert_int_equal(faults, 0);
}

static void calls_at_the_wrong_time_say_so(void **state)
{
	struct rdma_cm_id *id = fresh();

	(void)state;
	all_calls(id, FRESH);
	assert_int_equal(bind_to(id, "127.0.0.1", PORT + 2), 0);
	all_calls(id, BOUND);
	put(&id);
	resolved_addr();
	all_calls(active, ADDR);
	put(&active);
	resolved_route();
	all_calls(active, ROUTE);
	put(&active);
	connected();
	all_calls(listener, LISTENS);
	all_calls(active, CONNECTED);
	all_calls(passive, CONNECTED);
	put(&active);
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
	put(&passive);
	put(&listener);
	requested(false);
	all_calls(passive, REQUESTED);
	/* All that was refused has left no trace. */
	assert_int_equal(rdma_reject(passive, NULL, 0), 0);
	expect(RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER);
}

static void a_connection_that_is_over_can_be_disconnected_again(void **state)
{
	(void)state;
	connected();
	assert_int_equal(rdma_disconnect(active), 0);
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(rdma_disconnect(passive), 0);
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(rdma_disconnect(active), 0);
	assert_int_equal(rdma_disconnect(passive), 0);
	/* Both sides' time waits end; whose first is open. */
	expect(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

/* ---- private data ---------------------------------------------------------------------------- */

static void set_private(uint8_t len)
{
	static uint8_t data[256];

	for (int i = 0; i < 256; i++)
		data[i] = (uint8_t)(i ^ 0x5a);
	param.private_data = data;
	param.private_data_len = len;
}

static void private_data_goes_to_its_limits(void **state)
{
	struct rdma_cm_event *ev;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	(void)state;
	listening();
	resolved_route();
	qp_for(active);
	set_private(57);
	assert_int_equal(rdma_connect(active, &param), -1);
	assert_int_equal(errno, EINVAL);
	set_private(56);
	assert_int_equal(rdma_connect(active, &param), 0);
	ev = event(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(ev->param.conn.private_data_len, 56);
	assert_memory_equal(ev->param.conn.private_data, param.private_data, 56);
	passive = ev->id;
	rdma_ack_cm_event(ev);
	qp_for(passive);
	/* Too much ends the attempt: queue pair in error, the peer rejected. */
	set_private(197);
	assert_int_equal(rdma_accept(passive, &param), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_qp(passive->qp, &a, ~0, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_ERR);
	expect(RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER);
	put(&passive);
	put(&active);
	put(&listener);

	set_private(0);
	requested(true);
	qp_for(passive);
	set_private(196);
	assert_int_equal(rdma_accept(passive, &param), 0);
	ev = event(RDMA_CM_EVENT_ESTABLISHED);
	if (ev->id != active) { /* whose comes first is open */
		rdma_ack_cm_event(ev);
		ev = event(RDMA_CM_EVENT_ESTABLISHED);
	}
	assert_int_equal(ev->param.conn.private_data_len, 196);
	assert_memory_equal(ev->param.conn.private_data, param.private_data, 196);
	rdma_ack_cm_event(ev);
	param.private_data_len = 0;
}

static void a_rejection_has_private_data_to_its_limit(void **state)
{
	struct rdma_cm_event *ev;

	(void)state;
	param.private_data = NULL; /* no data, whatever the length says */
	param.private_data_len = 200;
	requested(true);
	set_private(149);
	assert_int_equal(rdma_reject(passive, param.private_data, 149), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_reject(passive, param.private_data, 148), 0);
	ev = event(RDMA_CM_EVENT_REJECTED);
	assert_int_equal(ev->status, REJECT_CONSUMER);
	assert_int_equal(ev->param.conn.private_data_len, 148);
	assert_memory_equal(ev->param.conn.private_data, param.private_data, 148);
	rdma_ack_cm_event(ev);
	set_private(0);
}

/* ---- addresses and ports --------------------------------------------------------------------- */

static void ports_are_shared_by_the_kernels_rules(void **state)
{
	static const struct {
		const char *first, *second;
		int reuse;   /* 1: the first has it, 2: the second */
		int af_only; /* the same */
		int want;
	} cases[] = {
		{"127.0.0.1", "127.0.0.1", 0, 0, EADDRINUSE},
		{"127.0.0.1", "127.0.0.1", 1, 0, EADDRINUSE},
		{"127.0.0.1", "127.0.0.1", 2, 0, EADDRINUSE},
		{"127.0.0.1", "127.0.0.1", 3, 0, 0},
		{"127.0.0.1", "::1", 0, 0, 0},
		{"0.0.0.0", "127.0.0.1", 0, 0, EADDRNOTAVAIL},
		{"127.0.0.1", "0.0.0.0", 0, 0, EADDRNOTAVAIL},
		{"127.0.0.1", "0.0.0.0", 3, 0, 0},
		{"0.0.0.0", "::", 0, 0, EADDRNOTAVAIL},
		{"0.0.0.0", "::", 0, 2, 0},
		{"0.0.0.0", "::1", 0, 0, EADDRNOTAVAIL},
		{"0.0.0.0", "::1", 0, 2, 0},
		{"::", "127.0.0.1", 0, 0, EADDRNOTAVAIL},
		{"::", "127.0.0.1", 0, 1, 0},
		{"::", "::1", 0, 3, EADDRNOTAVAIL},
		{"::1", "::1", 0, 0, EADDRINUSE},
	};
	int faults = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdma_cm_id *id[2] = {fresh(), fresh()};
		int got;

		for (int n = 0; n < 2; n++) {
			assert_int_equal(
				option(id[n], RDMA_OPTION_ID_REUSEADDR, cases[i].reuse >> n & 1),
				0);
			if (cases[i].af_only >> n & 1)
				assert_int_equal(option(id[n], RDMA_OPTION_ID_AFONLY, 1), 0);
		}
		assert_int_equal(bind_to(id[0], cases[i].first, PORT), 0);
		got = bind_to(id[1], cases[i].second, PORT);
		if (got != cases[i].want) {
			print_error("%zu: %s beside %s: %s\n", i, cases[i].second, cases[i].first,
				    strerror(got));
			faults++;
		}
		/* What was refused may try elsewhere. */
		if (got)
			faults += bind_to(id[1], "127.0.0.1", PORT + 7) != 0;
		put(&id[0]);
		put(&id[1]);
	}
	assert_int_equal(faults, 0);
}

static void who_listens_must_be_alone(void **state)
{
	struct rdma_cm_id *a = fresh(), *b = fresh(), *c = fresh();

	(void)state;
	do_reuse(a);
	do_reuse(b);
	do_reuse(c);
	assert_int_equal(bind_to(a, "127.0.0.1", PORT), 0);
	assert_int_equal(bind_to(b, "127.0.0.1", PORT), 0);
	assert_int_equal(rdma_listen(a, 1), -1);
	assert_int_equal(errno, EADDRINUSE);
	put(&b);
	assert_int_equal(rdma_listen(a, 1), 0);
	assert_int_equal(bind_to(c, "127.0.0.1", PORT), EADDRINUSE);
	put(&a);
	put(&c);
}

static void a_port_of_the_privileged_is_not_for_all(void **state)
{
	uid_t me = geteuid();
	struct rdma_cm_id *id = fresh();

	(void)state;
	if (me == 0)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(bind_to(id, "127.0.0.1", 1023), EACCES);
	if (me == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(bind_to(id, "127.0.0.1", 1024), 0);
	put(&id);
}

static void a_link_local_address_needs_its_scope(void **state)
{
	struct rdma_cm_id *id = fresh();

	(void)state;
	if (system("ip -6 addr add fe80::7/64 dev lo nodad")) {
		put(&id);
		SKIP_CASE("no link-local address can be given to lo");
	}
	assert_int_equal(bind_to(id, "fe80::7", PORT), EINVAL);
	/* The broker learns of the address in its own time. */
	for (int i = 0; i < 200; i++) {
		if (!rdma_bind_addr(id, (struct sockaddr *)at("fe80::7", PORT, "lo")))
			break;
		assert_int_equal(errno, EADDRNOTAVAIL);
		usleep(20000);
	}
	assert_ptr_not_equal(id->verbs, NULL);
	put(&id);
}

static void a_wildcard_destination_is_this_host(void **state)
{
	struct rdma_cm_event *ev;

	(void)state;
	listener = fresh();
	assert_int_equal(bind_to(listener, "0.0.0.0", PORT), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	active = fresh();
	assert_int_equal(
		rdma_resolve_addr(active, NULL, (struct sockaddr *)at("0.0.0.0", PORT, NULL), 1000),
		0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(active, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	qp_for(active);
	assert_int_equal(rdma_connect(active, &param), 0);
	ev = event(RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = ev->id;
	rdma_ack_cm_event(ev);
	assert_int_equal(passive->route.addr.src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

/* ---- enhanced connection establishment ------------------------------------------------------- */

static void ece_is_carried_for_queue_pairs_of_ones_own(void **state)
{
	struct ibv_ece ours = {.vendor_id = 0x123456, .options = 0x89abcdef}, got;
	struct ibv_ece none = {.options = 1}, strange = {.vendor_id = 1, .comp_mask = 1};
	struct rdma_cm_event *ev;

	(void)state;
	listening();
	resolved_route();
#define INVALID(call)                            \
	do {                                     \
		assert_int_equal(call, -1);      \
		assert_int_equal(errno, EINVAL); \
	} while (0)
	INVALID(rdma_set_local_ece(active, NULL));
	INVALID(rdma_set_local_ece(active, &none));
	INVALID(rdma_set_local_ece(active, &strange));
	INVALID(rdma_get_remote_ece(active, NULL));
	assert_int_equal(rdma_set_local_ece(active, &ours), 0);
	param.qp_num = 0x777;
	assert_int_equal(rdma_connect(active, &param), 0);
	ev = event(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(ev->param.conn.qp_num, 0x777);
	passive = ev->id;
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_get_remote_ece(passive, &got), 0);
	assert_int_equal(got.vendor_id, ours.vendor_id);
	assert_int_equal(got.options, ours.options);
	/* The answer is the vendor's who asked, with what of the options the other side takes. */
	ours.options = 0x0000cdef;
	assert_int_equal(rdma_set_local_ece(passive, &ours), 0);
	param.qp_num = 0x778;
	assert_int_equal(rdma_accept(passive, &param), 0);
	ev = event(RDMA_CM_EVENT_CONNECT_RESPONSE);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_get_remote_ece(active, &got), 0);
	assert_int_equal(got.vendor_id, ours.vendor_id);
	assert_int_equal(got.options, ours.options);
	assert_int_equal(rdma_establish(active), 0);
	expect(RDMA_CM_EVENT_ESTABLISHED, 0);
	put(&active);
	expect(RDMA_CM_EVENT_DISCONNECTED, 0);
	put(&passive);
	/* What the peer cannot do has a reason of its own. */
	resolved_route();
	qp_for(active);
	INVALID(rdma_set_local_ece(active, &ours));
	INVALID(rdma_get_remote_ece(active, &got));
	assert_int_equal(rdma_connect(active, &param), 0);
	ev = event(RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = ev->id;
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_get_remote_ece(passive, &got), 0);
	assert_int_not_equal(got.vendor_id, ours.vendor_id); /* it is the queue pair's */
	assert_int_equal(rdma_reject_ece(passive, NULL, 0), 0);
	expect(RDMA_CM_EVENT_REJECTED, 35);
}

/* ---- threads ----------------------------------------------------------------------------------
 */

/* The next event, so often, and nothing after it: the channel's descriptor is another's meanwhile.
 */
static void come(const char *bytes, ssize_t n, int times, struct rdma_cm_id **ret_established)
{
	int held[2], own = dup(channel->fd), more;
	struct rdma_cm_event *ev;

	assert_true(own >= 0);
	assert_int_equal(pipe2(held, O_DIRECT | O_NONBLOCK), 0);
	for (int i = 0; i < times; i++)
		assert_int_equal(write(held[1], bytes, (size_t)n), n);
	assert_int_equal(dup2(held[0], channel->fd), channel->fd);
	if (ret_established) {
		ev = event(RDMA_CM_EVENT_ESTABLISHED);
		*ret_established = ev->id;
		rdma_ack_cm_event(ev);
	}
	more = rdma_get_cm_event(channel, &ev);
	if (!more)
		rdma_ack_cm_event(ev);
	assert_int_equal(more, -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(dup2(own, channel->fd), channel->fd);
	close(own);
	close(held[0]);
	close(held[1]);
}

/* As where a broker ends: what it told lies in the channel, and the next, which asks the peer once
 * more, tells it too. */
static void what_is_told_twice_is_heard_once(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct rdma_cm_id *id;
	char bytes[4096];

	(void)state;
	requested(true);
	qp_for(passive);
	assert_int_equal(rdma_accept(passive, &param), 0);
	for (int side = 0; side < 2; side++) {
		const ssize_t n = read(channel->fd, bytes, sizeof(bytes));

		assert_true(n > 0);
		come(bytes, n, 2, &id);
		assert_ptr_equal(id, side == 0 ? active : passive);
	}
	assert_int_equal(ibv_query_qp(active->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
}

/* One thread takes an event off the channel, and before it looks what that is about another
 * destroys the listener. The channel's descriptor stands still in between: that is what is done to
 * it here. */
static void a_request_on_its_way_to_a_listener_that_goes_is_rejected(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	char bytes[4096];
	ssize_t n;

	(void)state;
	assert_non_null(other);
	listening();
	resolved_route();
	qp_for(active);
	assert_int_equal(rdma_migrate_id(active, other), 0);
	assert_int_equal(rdma_connect(active, &param), 0);
	n = read(channel->fd, bytes, sizeof(bytes));
	assert_true(n > 0);

	put(&listener);
	come(bytes, n, 1, NULL);
	expect_event(other, RDMA_CM_EVENT_REJECTED, REJECT_CONSUMER);
	put(&active);
	rdma_destroy_event_channel(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_told_twice_is_heard_once, begin, end),
		cmocka_unit_test_setup_teardown(calls_at_the_wrong_time_say_so, begin, end),
		cmocka_unit_test_setup_teardown(a_connection_that_is_over_can_be_disconnected_again,
						begin, end),
		cmocka_unit_test_setup_teardown(private_data_goes_to_its_limits, begin, end),
		cmocka_unit_test_setup_teardown(a_rejection_has_private_data_to_its_limit, begin,
						end),
		cmocka_unit_test_setup_teardown(ports_are_shared_by_the_kernels_rules, begin, end),
		cmocka_unit_test_setup_teardown(who_listens_must_be_alone, begin, end),
		cmocka_unit_test_setup_teardown(a_port_of_the_privileged_is_not_for_all, begin,
						end),
		cmocka_unit_test_setup_teardown(a_link_local_address_needs_its_scope, begin, end),
		cmocka_unit_test_setup_teardown(a_wildcard_destination_is_this_host, begin, end),
		cmocka_unit_test_setup_teardown(ece_is_carried_for_queue_pairs_of_ones_own, begin,
						end),
		cmocka_unit_test_setup_teardown(
			a_request_on_its_way_to_a_listener_that_goes_is_rejected, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
