/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What two queue pairs agree on while they are connected (enhanced connection establishment), and
 * with whom not: peers that know nothing of it, say what they were told, or do not want to.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "cm_event.h"

enum { PORT = 7610 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *passive, *active;
static struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
static struct ibv_ece offer; /* of the active side */

static void qp_for(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.qp_type = type,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	assert_int_equal(rdma_create_qp(id, NULL, &a), 0);
}

static struct ibv_ece of(struct ibv_qp *qp)
{
	struct ibv_ece ece;

	assert_int_equal(ibv_query_ece(qp, &ece), 0);
	return ece;
}

static int begin(void **state)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct rdma_cm_event *ev;

	(void)state;
	unsetenv("WEFT_RECOVERY");
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	channel = rdma_create_event_channel();
	passive = NULL;
	if (!channel || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_create_id(channel, &active, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&at) || rdma_listen(listener, 1) ||
	    rdma_resolve_addr(active, NULL, (struct sockaddr *)&at, 1000))
		return -1;
	expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	if (rdma_resolve_route(active, 1000))
		return -1;
	expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	qp_for(active, IBV_QPT_RC);
	offer = of(active->qp);
	assert_true(offer.vendor_id && offer.options);
	if (rdma_connect(active, &param))
		return -1;
	ev = next_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = ev->id;
	rdma_ack_cm_event(ev);
	return 0;
}

static void put(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static int end(void **state)
{
	(void)state;
	put(active);
	put(passive);
	put(listener);
	rdma_destroy_event_channel(channel);
	unsetenv("WEFT_RECOVERY");
	return 0;
}

static void accept_it(void)
{
	assert_int_equal(rdma_accept(passive, &param), 0);
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void two_of_weft_agree(void **state)
{
	struct ibv_ece mine, its;

	(void)state;
	qp_for(passive, IBV_QPT_RC);
	accept_it();
	mine = of(active->qp);
	its = of(passive->qp);
	assert_int_equal(mine.vendor_id, offer.vendor_id);
	assert_int_equal(its.vendor_id, offer.vendor_id);
	assert_true(mine.options);
	assert_int_equal(mine.options & 3, its.options & 3);
	assert_int_not_equal(mine.options & 3, offer.options & 3); /* or an echo would be one */
}

static void who_is_not_to_does_not(void **state)
{
	struct ibv_ece ece;

	(void)state;
	qp_for(passive, IBV_QPT_RC);
	setenv("WEFT_RECOVERY", "go-back-n", 1);
	assert_int_equal(ibv_query_ece(passive->qp, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_set_ece(passive->qp, &offer), EOPNOTSUPP);
	accept_it();
	unsetenv("WEFT_RECOVERY");
	assert_int_equal(of(active->qp).options, 0);
	assert_int_equal(of(passive->qp).options, 0);
}

/* The program on the passive side answers for a queue pair of its own. */
static void answered_with(struct ibv_ece answer)
{
	struct ibv_ece got;

	assert_int_equal(rdma_get_remote_ece(passive, &got), 0);
	assert_int_equal(got.vendor_id, offer.vendor_id);
	assert_int_equal(got.options, offer.options);
	if (answer.vendor_id)
		assert_int_equal(rdma_set_local_ece(passive, &answer), 0);
	param.qp_num = 0x123;
	accept_it();
}

static void who_knows_nothing_of_it_is_a_peer_like_any(void **state)
{
	(void)state;
	answered_with((struct ibv_ece){0});
	assert_int_equal(of(active->qp).options, 0);
}

static void so_is_who_echoes_the_vendor(void **state)
{
	(void)state;
	answered_with((struct ibv_ece){.vendor_id = offer.vendor_id});
	assert_int_equal(of(active->qp).options, 0);
}

static void and_who_echoes_all(void **state)
{
	(void)state;
	answered_with(offer);
	assert_int_equal(of(active->qp).options, 0);
}

static void what_it_takes_is_said_before_it_begins(void **state)
{
	struct ibv_ece strange = {.vendor_id = 0x123456, .options = offer.options};
	struct ibv_ece unknown = {.vendor_id = offer.vendor_id, .options = 1};
	struct ibv_ece newer = offer;

	(void)state;
	newer.comp_mask = 1;
	qp_for(passive, IBV_QPT_RC);
	assert_int_equal(ibv_set_ece(passive->qp, &strange), EINVAL);
	assert_int_equal(ibv_set_ece(passive->qp, &unknown), EINVAL);
	assert_int_equal(ibv_set_ece(passive->qp, &newer), EINVAL);
	accept_it();
	assert_int_equal(ibv_set_ece(active->qp, &offer), EINVAL); /* RTS */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_of_weft_agree, begin, end),
		cmocka_unit_test_setup_teardown(who_is_not_to_does_not, begin, end),
		cmocka_unit_test_setup_teardown(who_knows_nothing_of_it_is_a_peer_like_any, begin,
						end),
		cmocka_unit_test_setup_teardown(so_is_who_echoes_the_vendor, begin, end),
		cmocka_unit_test_setup_teardown(and_who_echoes_all, begin, end),
		cmocka_unit_test_setup_teardown(what_it_takes_is_said_before_it_begins, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
