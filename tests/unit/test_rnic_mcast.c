/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Multicast: a copy for every queue pair that is attached, and for nobody else. */
#include "rnic_bed.h"

#include <errno.h>
#include <string.h>

#define GRH   40u
#define SCOPE 7u

static const struct gid group = {{[10] = 0xff, 0xff, 239, 1, 2, 3}};
static const struct gid group6 = {{0xff, 0x0e, [15] = 3}};

static struct bed *open_ud(void)
{
	return bed_open(&(struct bed_opts){.type = RNIC_QPT_UD});
}

static bool attach(struct rnic_qp *qp, const struct gid *g, uint32_t scope)
{
	bool first;

	assert_int_equal(rnic_qp_attach(qp, g, scope, &first), 0);
	return first;
}

static bool detach(struct rnic_qp *qp, const struct gid *g, uint32_t scope)
{
	bool last;

	assert_int_equal(rnic_qp_detach(qp, g, scope, &last), 0);
	return last;
}

/* One more UD queue pair of side 1, ready to receive. */
static struct rnic_qp *another(struct bed *b, uint32_t qkey)
{
	struct rnic_qp_init init = {
		.type = RNIC_QPT_UD,
		.send_cq = b->side[1].scq,
		.recv_cq = b->side[1].rcq,
		.path_mtu = RNIC_MTU_1024,
		.cap = {.max_recv_wr = 4, .max_recv_sge = 1},
	};
	struct rnic_qp_attr a = {.state = RNIC_QPS_INIT, .port_num = 1, .qkey = qkey};
	struct rnic_qp *qp;

	assert_int_equal(rnic_qp_create(b->side[1].pd, &init, &qp), 0);
	assert_int_equal(
		rnic_qp_modify(qp, &a,
			       RNIC_QP_STATE | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_QKEY,
			       b->now),
		0);
	a.state = RNIC_QPS_RTR;
	assert_int_equal(rnic_qp_modify(qp, &a, RNIC_QP_STATE, b->now), 0);
	return qp;
}

static void post_recv(struct bed *b, struct rnic_qp *qp, uint64_t wr_id, uint32_t off)
{
	struct rnic_sge sge = bed_sge(b, 1, off, 200);
	struct rnic_recv_wr wr = {.wr_id = wr_id, .sge = &sge, .num_sge = 1};

	assert_int_equal(rnic_post_recv(qp, &wr), 0);
}

static void send_to(struct bed *b, const struct gid *g, uint32_t scope)
{
	struct rnic_sge sge = bed_sge(b, 0, 0, 100);
	struct rnic_qp_attr a;
	struct rnic_send_wr wr = {
		.wr_id = 1,
		.sge = &sge,
		.num_sge = 1,
		.opcode = RNIC_WR_SEND,
		.flags = RNIC_SEND_SIGNALED,
		.ud = {.flow = &a.flow, .qpn = MULTICAST_QPN, .qkey = BED_QKEY},
	};

	bed_flows(b, 0, &a);
	a.flow.dgid = *g;
	a.flow.scope = scope;
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
}

static uint32_t dropped(struct bed *b)
{
	return (uint32_t)rnic_counters(b->side[1].rnic)->rx_drop_no_qp;
}

static void everyone_attached_gets_a_copy_with_the_groups_address(void **state)
{
	struct bed *b = open_ud();
	struct rnic_qp *other = another(b, BED_QKEY), *apart = another(b, BED_QKEY);
	const uint8_t *mem = b->side[1].mem;
	uint32_t seen[2] = {0};
	struct rnic_wc wc;

	(void)state;
	assert_true(attach(b->side[1].qp, &group, SCOPE));
	assert_false(attach(other, &group, SCOPE));
	assert_false(attach(other, &group, SCOPE)); /* once more is no more */
	bed_fill(b, 0, 0, 100, 3);
	post_recv(b, b->side[1].qp, 7, 0);
	post_recv(b, other, 8, 1000);
	post_recv(b, other, 9, 2000);
	post_recv(b, apart, 10, 3000);
	send_to(b, &group, SCOPE);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rnic_cq_poll(b->side[1].rcq, &wc, 1), 1);
		assert_int_equal(wc.status, RNIC_WC_SUCCESS);
		assert_int_equal(wc.byte_len, GRH + 100);
		assert_int_equal(wc.src_qp, rnic_qp_num(b->side[0].qp));
		assert_in_range(wc.wr_id, 7, 8);
		seen[wc.wr_id - 7]++;
	}
	assert_int_equal(seen[0], 1);
	assert_int_equal(seen[1], 1);
	bed_expect_none(b, 1);
	for (uint32_t off = 0; off <= 1000; off += 1000) {
		assert_memory_equal(mem + off + GRH, b->side[0].mem, 100);
		assert_memory_equal(mem + off + 36, group.raw + 12, 4);
	}
	assert_true(rnic_qp_destroy(apart) == 0);
	assert_false(detach(other, &group, SCOPE));
	assert_true(detach(b->side[1].qp, &group, SCOPE));
	assert_int_equal(rnic_qp_destroy(other), 0);
	bed_close(b);
}

static void groups_are_told_apart_by_address_and_interface(void **state)
{
	struct gid near = group;
	struct bed *b = open_ud();

	(void)state;
	near.raw[12] = 238; /* the same last bytes */
	assert_true(attach(b->side[1].qp, &group, SCOPE));
	assert_true(attach(b->side[1].qp, &group6, SCOPE));
	post_recv(b, b->side[1].qp, 7, 0);
	send_to(b, &near, SCOPE);
	send_to(b, &group, SCOPE + 1);
	bed_expect_none(b, 1);
	assert_int_equal(dropped(b), 2);
	send_to(b, &group6, SCOPE);
	bed_expect(b, 1, true, 7, RNIC_WC_SUCCESS);
	assert_true(detach(b->side[1].qp, &group, SCOPE));
	assert_true(detach(b->side[1].qp, &group6, SCOPE));
	bed_close(b);
}

static void the_qkey_and_a_receive_are_needed_as_ever(void **state)
{
	struct bed *b = open_ud();
	struct rnic_qp *other = another(b, BED_QKEY + 1);

	(void)state;
	attach(b->side[1].qp, &group, SCOPE);
	attach(other, &group, SCOPE);
	post_recv(b, other, 8, 0);
	send_to(b, &group, SCOPE); /* one has no receive, the other not the key */
	bed_expect_none(b, 1);
	assert_int_equal(rnic_counters(b->side[1].rnic)->rx_drop_qkey, 1);
	assert_int_equal(rnic_counters(b->side[1].rnic)->rx_drop_request, 1);
	detach(b->side[1].qp, &group, SCOPE);
	detach(other, &group, SCOPE);
	assert_int_equal(rnic_qp_destroy(other), 0);
	bed_close(b);
}

static void who_is_not_ready_gets_nothing_and_who_left_neither(void **state)
{
	struct bed *b = open_ud();

	(void)state;
	attach(b->side[1].qp, &group, SCOPE);
	assert_int_equal(bed_modify(b, 1, RNIC_QPS_ERR), 0);
	send_to(b, &group, SCOPE);
	assert_int_equal(dropped(b), 1);
	detach(b->side[1].qp, &group, SCOPE);
	send_to(b, &group, SCOPE);
	assert_int_equal(dropped(b), 2);
	bed_expect_none(b, 1);
	bed_close(b);
}

static void a_sender_that_is_attached_hears_itself(void **state)
{
	struct bed *b = open_ud();
	struct bed_pkt *p;
	struct packet_rx rx;

	(void)state;
	attach(b->side[0].qp, &group, SCOPE);
	assert_int_equal(bed_recv(b, 0, 5, 1000, 200), 0);
	send_to(b, &group, SCOPE);
	p = bed_nth(b, 0, OPCODE_UD_SEND_ONLY, 0); /* which the network loops back */
	rx = (struct packet_rx){.flow = p->flow, .data = p->data, .len = p->len};
	rnic_rx(b->side[0].rnic, &rx, b->now);
	bed_expect(b, 0, true, 5, RNIC_WC_SUCCESS);
	detach(b->side[0].qp, &group, SCOPE);
	bed_close(b);
}

static void a_sender_made_deaf_to_itself_hears_all_others(void **state)
{
	struct bed *b = open_ud();
	struct rnic_qp *plain = b->side[0].qp;
	struct rnic_qp_init init = {
		.type = RNIC_QPT_UD,
		.deaf_to_itself = true,
		.send_cq = b->side[0].scq,
		.recv_cq = b->side[0].rcq,
		.path_mtu = RNIC_MTU_1024,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct rnic_qp_attr a = {.state = RNIC_QPS_INIT, .port_num = 1, .qkey = BED_QKEY};
	struct bed_pkt *p;
	struct packet_rx rx;

	(void)state;
	assert_int_equal(rnic_qp_create(b->side[0].pd, &init, &b->side[0].qp), 0);
	assert_int_equal(
		rnic_qp_modify(b->side[0].qp, &a,
			       RNIC_QP_STATE | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_QKEY,
			       b->now),
		0);
	a.state = RNIC_QPS_RTR;
	assert_int_equal(rnic_qp_modify(b->side[0].qp, &a, RNIC_QP_STATE, b->now), 0);
	a.state = RNIC_QPS_RTS;
	assert_int_equal(rnic_qp_modify(b->side[0].qp, &a, RNIC_QP_STATE | RNIC_QP_SQ_PSN, b->now),
			 0);
	attach(b->side[0].qp, &group, SCOPE);
	assert_int_equal(bed_recv(b, 0, 5, 1000, 200), 0);
	send_to(b, &group, SCOPE);
	p = bed_nth(b, 0, OPCODE_UD_SEND_ONLY, 0);
	rx = (struct packet_rx){.flow = p->flow, .data = p->data, .len = p->len};
	rnic_rx(b->side[0].rnic, &rx, b->now);
	bed_expect_none(b, 0);
	rx.flow.sgid.raw[15] ^= 1; /* another host's, by chance of the same number */
	rnic_rx(b->side[0].rnic, &rx, b->now);
	bed_expect(b, 0, true, 5, RNIC_WC_SUCCESS);
	detach(b->side[0].qp, &group, SCOPE);
	assert_int_equal(rnic_qp_destroy(b->side[0].qp), 0);
	b->side[0].qp = plain;
	bed_close(b);
}

static void only_datagrams_have_groups(void **state)
{
	struct pkt_hdr h = {.bth = {.opcode = OPCODE_RC_SEND_ONLY, .pkey = PKEY_DEFAULT}};
	struct bed *rc = bed_open(&(struct bed_opts){0}), *b = open_ud();
	const struct gid unicast = {{[10] = 0xff, 0xff, 192, 0, 2, 1}}, unicast6 = {{0xfe, 0x80}};
	uint8_t data[BTH_LEN];
	struct packet_rx rx = {.flow = {.dgid = group, .scope = SCOPE}, .data = data};
	bool yes;

	(void)state;
	assert_int_equal(rnic_qp_attach(rc->side[0].qp, &group, SCOPE, &yes), -EINVAL);
	assert_int_equal(rnic_qp_attach(b->side[0].qp, &unicast, SCOPE, &yes), -EINVAL);
	assert_int_equal(rnic_qp_attach(b->side[0].qp, &unicast6, SCOPE, &yes), -EINVAL);
	assert_int_equal(rnic_qp_detach(b->side[0].qp, &group, SCOPE, &yes), -EINVAL);

	/* A connection's packet to a group, and one of another partition. */
	attach(b->side[0].qp, &group, SCOPE);
	h.bth.dqpn = MULTICAST_QPN;
	rx.len = pkt_hdr_encode(&h, data);
	rnic_rx(b->side[0].rnic, &rx, b->now);
	assert_int_equal(rnic_counters(b->side[0].rnic)->rx_drop_service, 1);
	h.bth.pkey = 0x1234;
	rx.len = pkt_hdr_encode(&h, data);
	rnic_rx(b->side[0].rnic, &rx, b->now);
	assert_int_equal(rnic_counters(b->side[0].rnic)->rx_drop_flow, 1);
	detach(b->side[0].qp, &group, SCOPE);
	bed_close(rc);
	bed_close(b);
}

static void an_attached_queue_pair_is_busy(void **state)
{
	struct bed *b = open_ud();
	struct rnic_qp *other = another(b, BED_QKEY);

	(void)state;
	attach(other, &group, SCOPE);
	assert_int_equal(rnic_qp_destroy(other), -EBUSY);
	detach(other, &group, SCOPE);
	assert_int_equal(rnic_qp_destroy(other), 0);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everyone_attached_gets_a_copy_with_the_groups_address),
		cmocka_unit_test(groups_are_told_apart_by_address_and_interface),
		cmocka_unit_test(the_qkey_and_a_receive_are_needed_as_ever),
		cmocka_unit_test(who_is_not_ready_gets_nothing_and_who_left_neither),
		cmocka_unit_test(a_sender_that_is_attached_hears_itself),
		cmocka_unit_test(a_sender_made_deaf_to_itself_hears_all_others),
		cmocka_unit_test(only_datagrams_have_groups),
		cmocka_unit_test(an_attached_queue_pair_is_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
