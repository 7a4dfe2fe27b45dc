/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unreliable datagrams: to whom the work request says, from anybody with the Q_Key. */
#include "rnic_bed.h"

#include <errno.h>
#include <string.h>

#define GRH 40u

static struct bed *open_ud(void)
{
	return bed_open(&(struct bed_opts){.type = RNIC_QPT_UD, .psn = {0xffffff, 5}});
}

static int send_to(struct bed *b, int side, uint64_t wr_id, uint32_t len, const struct flow *flow,
		   uint32_t qkey)
{
	struct rnic_sge sge = bed_sge(b, side, 0, len);
	struct rnic_send_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.num_sge = 1,
		.opcode = RNIC_WR_SEND_WITH_IMM,
		.flags = RNIC_SEND_SOLICITED,
		.imm_or_rkey = 0x04030201,
		.ud = {.flow = flow, .qpn = rnic_qp_num(b->side[!side].qp), .qkey = qkey},
	};

	return rnic_post_send(b->side[side].qp, &wr, b->now);
}

static int send_len(struct bed *b, uint64_t wr_id, uint32_t len, uint32_t qkey)
{
	struct rnic_qp_attr a;

	bed_flows(b, 0, &a);
	return send_to(b, 0, wr_id, len, &a.flow, qkey);
}

static uint16_t sum16(const uint8_t *p, size_t n)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < n; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

static void a_datagram_arrives_behind_its_network_header(void **state)
{
	struct bed *b = open_ud();
	const uint8_t *ip = b->side[1].mem + 20;
	struct bed_pkt *p;
	struct rnic_wc wc;

	(void)state;
	bed_fill(b, 0, 0, 101, 3);
	memset(b->side[1].mem, 0xee, 4096);
	assert_int_equal(bed_recv(b, 1, 7, 0, GRH + 101), 0);
	rnic_cq_arm(b->side[1].rcq, true);
	assert_int_equal(send_len(b, 1, 101, BED_QKEY), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	wc = bed_wc(b, 1, true);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.byte_len, GRH + 101);
	assert_int_equal(wc.src_qp, rnic_qp_num(b->side[0].qp));
	assert_int_equal(wc.wc_flags, RNIC_WC_GRH | RNIC_WC_WITH_IMM);
	assert_int_equal(wc.sl, 2); /* the header is IPv4's */
	assert_int_equal(wc.imm_or_rkey, 0x04030201);
	assert_int_equal(b->side[1].notified, 1);
	assert_memory_equal(b->side[1].mem + GRH, b->side[0].mem, 101);
	assert_int_equal(b->side[1].mem[GRH + 101], 0xee);

	p = bed_nth(b, 0, OPCODE_UD_SEND_ONLY_WITH_IMM, 0);
	assert_int_equal(p->h.bth.psn, 0xffffff);
	assert_false(p->h.bth.ackreq);
	assert_int_equal(b->nlog, 1); /* and no answer */
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[2] << 8 | ip[3], 20 + 8 + p->len + ICRC_LEN);
	assert_int_equal(ip[9], 17);
	assert_int_equal(sum16(ip, 20), 0xffff);
	assert_memory_equal(ip + 12, p->flow.sgid.raw + 12, 4);
	assert_memory_equal(ip + 16, p->flow.dgid.raw + 12, 4);
	bed_close(b);
}

static void over_ipv6_the_header_takes_all_forty_bytes(void **state)
{
	struct bed *b = open_ud();
	struct flow f = {
		.sgid = {.raw = {0xfd, [15] = 1}},
		.dgid = {.raw = {0xfd, [15] = 2}},
		.tos = 0xab,
		.ttl = 63,
		.flow_label = 0x12345,
	};
	const uint8_t *ip = b->side[1].mem;

	(void)state;
	assert_int_equal(bed_recv(b, 1, 7, 0, GRH), 0);
	assert_int_equal(send_to(b, 0, 1, 0, &f, BED_QKEY), 0);
	bed_run(b);
	bed_expect(b, 1, true, 7, RNIC_WC_SUCCESS);
	assert_memory_equal(ip, ((uint8_t[]){0x6a, 0xb1, 0x23, 0x45}), 4);
	assert_int_equal(ip[4] << 8 | ip[5], 8 + BTH_LEN + DETH_LEN + IMMDT_LEN + ICRC_LEN);
	assert_int_equal(ip[6], 17);
	assert_int_equal(ip[7], 63);
	assert_memory_equal(ip + 8, f.sgid.raw, 16);
	assert_memory_equal(ip + 24, f.dgid.raw, 16);
	bed_close(b);
}

static void the_header_of_rocev1_is_its_grh(void **state)
{
	static const uint8_t want[GRH] = {
		0x6a, 0xb1, 0x23, 0x45,	       [6] = 0x1b, 63,	[18] = 0xff, 0xff, 192,
		0,    2,    1,	  [34] = 0xff, 0xff,	   192, 0,	     2,	   2};
	struct bed *b = open_ud();
	struct flow f = {
		.sgid = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}},
		.dgid = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 2}},
		.tos = 0xab,
		.ttl = 63,
		.flow_label = 0x12345,
		.rocev1 = 1,
	};
	uint8_t *grh = b->side[1].mem;
	struct rnic_wc wc;

	(void)state;
	assert_int_equal(bed_recv(b, 1, 7, 0, GRH), 0);
	assert_int_equal(send_to(b, 0, 1, 0, &f, BED_QKEY), 0);
	bed_run(b);
	wc = bed_wc(b, 1, true);
	assert_int_equal(wc.status, RNIC_WC_SUCCESS);
	assert_int_equal(wc.sl, 0);
	assert_int_equal(grh[4] << 8 | grh[5], BTH_LEN + DETH_LEN + IMMDT_LEN + ICRC_LEN);
	grh[4] = grh[5] = 0;
	assert_memory_equal(grh, want, GRH);
	bed_close(b);
}

static void each_request_goes_where_it_says_and_anybody_may_send(void **state)
{
	struct bed *b = open_ud();
	struct flow f = {.sgid = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}},
			 .dgid = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 9}}};
	struct bed_pkt *p;

	(void)state;
	assert_int_equal(bed_recv(b, 1, 1, 0, 100), 0);
	assert_int_equal(bed_recv(b, 1, 2, 0, 100), 0);
	assert_int_equal(send_to(b, 0, 1, 10, &f, BED_QKEY), 0);
	memset(&f, 0, sizeof(f)); /* the address is copied */
	assert_int_equal(send_len(b, 2, 10, BED_QKEY), 0);
	bed_run(b);
	bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 2, RNIC_WC_SUCCESS);
	p = bed_nth(b, 0, OPCODE_UD_SEND_ONLY_WITH_IMM, 0);
	assert_int_equal(p->flow.dgid.raw[15], 9);
	assert_int_equal(bed_nth(b, 0, OPCODE_UD_SEND_ONLY_WITH_IMM, 1)->flow.dgid.raw[12], 10);
	bed_close(b);
}

static void a_wrong_qkey_is_dropped_and_its_high_bit_means_our_own(void **state)
{
	struct bed *b = open_ud();

	(void)state;
	assert_int_equal(bed_recv(b, 1, 1, 0, 100), 0);
	assert_int_equal(send_len(b, 1, 10, BED_QKEY + 1), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect_none(b, 1);
	assert_int_equal(rnic_counters(b->side[1].rnic)->rx_drop_qkey, 1);
	assert_int_equal(send_len(b, 2, 10, 0x80000000), 0);
	bed_run(b);
	bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_nth(b, 0, OPCODE_UD_SEND_ONLY_WITH_IMM, 1)->h.deth.qkey, BED_QKEY);
	bed_close(b);
}

static void what_finds_no_receive_or_no_room_is_dropped(void **state)
{
	struct bed *b = open_ud();

	(void)state;
	assert_int_equal(send_len(b, 1, 10, BED_QKEY), 0);
	bed_run(b);
	assert_int_equal(bed_recv(b, 1, 1, 0, GRH + 9), 0);
	assert_int_equal(send_len(b, 2, 10, BED_QKEY), 0);
	bed_run(b);
	bed_expect_none(b, 1);
	assert_int_equal(rnic_counters(b->side[1].rnic)->rx_drop_request, 2);
	assert_int_equal(send_len(b, 3, 9, BED_QKEY), 0); /* the receive is still there */
	bed_run(b);
	bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_RTS);
	bed_close(b);
}

static void a_message_beyond_the_mtu_stops_the_send_queue_until_told_to_go_on(void **state)
{
	struct bed *b = open_ud();
	struct rnic_qp_attr a = {.state = RNIC_QPS_RTS, .cur_state = RNIC_QPS_SQE};

	(void)state;
	assert_int_equal(send_len(b, 1, 1024, BED_QKEY), 0);
	assert_int_equal(send_len(b, 2, 1025, BED_QKEY), 0);
	assert_int_equal(send_len(b, 3, 1, BED_QKEY), 0);
	bed_run(b);
	bed_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	bed_expect(b, 0, false, 2, RNIC_WC_LOC_LEN_ERR);
	bed_expect(b, 0, false, 3, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(bed_state(b, 0), RNIC_QPS_SQE);
	assert_int_equal(
		rnic_qp_modify(b->side[0].qp, &a, RNIC_QP_STATE | RNIC_QP_CUR_STATE, b->now), 0);
	assert_int_equal(bed_recv(b, 1, 1, 0, 100), 0);
	assert_int_equal(send_len(b, 4, 1, BED_QKEY), 0);
	bed_run(b);
	bed_expect(b, 0, false, 4, RNIC_WC_SUCCESS);
	bed_expect(b, 1, true, 1, RNIC_WC_SUCCESS);
	bed_close(b);
}

static void other_operations_and_requests_without_address_are_refused(void **state)
{
	struct bed *b = open_ud();
	struct rnic_qp_init init = {.type = RNIC_QPT_UD,
				    .cap = b->opts.cap,
				    .send_cq = b->side[0].scq,
				    .recv_cq = b->side[0].rcq};
	struct rnic_qp *qp;

	(void)state;
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_WRITE, 0, 0, 8), -EINVAL);
	assert_int_equal(bed_rdma(b, 0, 1, RNIC_WR_RDMA_READ, 0, 0, 8), -EINVAL);
	assert_int_equal(bed_send(b, 0, 1, 0, 8), -EINVAL);
	assert_int_equal(rnic_qp_create(b->side[0].pd, &init, &qp), -EINVAL); /* no MTU */
	bed_close(b);
}

static void a_receive_whose_key_is_wrong_fails_and_ends_the_qp(void **state)
{
	struct bed *b = open_ud();
	struct rnic_sge sge = bed_sge(b, 1, 0, 100);
	struct rnic_recv_wr wr = {.wr_id = 1, .sge = &sge, .num_sge = 1};

	(void)state;
	sge.lkey ^= 1;
	assert_int_equal(rnic_post_recv(b->side[1].qp, &wr), 0);
	assert_int_equal(send_len(b, 1, 10, BED_QKEY), 0);
	bed_run(b);
	bed_expect(b, 1, true, 1, RNIC_WC_LOC_PROT_ERR);
	assert_int_equal(bed_state(b, 1), RNIC_QPS_ERR);
	bed_close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_datagram_arrives_behind_its_network_header),
		cmocka_unit_test(over_ipv6_the_header_takes_all_forty_bytes),
		cmocka_unit_test(the_header_of_rocev1_is_its_grh),
		cmocka_unit_test(each_request_goes_where_it_says_and_anybody_may_send),
		cmocka_unit_test(a_wrong_qkey_is_dropped_and_its_high_bit_means_our_own),
		cmocka_unit_test(what_finds_no_receive_or_no_room_is_dropped),
		cmocka_unit_test(a_message_beyond_the_mtu_stops_the_send_queue_until_told_to_go_on),
		cmocka_unit_test(other_operations_and_requests_without_address_are_refused),
		cmocka_unit_test(a_receive_whose_key_is_wrong_fails_and_ends_the_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
