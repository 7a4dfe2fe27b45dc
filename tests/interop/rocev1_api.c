/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* GIDs of RoCEv1 by the contract: a plain verbs program, with WEFT_ROCEV1=1, and loopback. */
#include "first_device.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { BEHIND = 32, ENTRIES = 64, GRH = 40, QKEY = 0x1234 };

static uint8_t buf[4096];

static struct ibv_ah_attr to_itself_by(struct ibv_context *ctx, uint8_t index)
{
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = index, .hop_limit = 9}};

	assert_int_equal(ibv_query_gid(ctx, 1, index, &ah.grh.dgid), 0);
	return ah;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void each_address_has_an_entry_of_either_kind(void **state)
{
	struct ibv_context *ctx = first_device();
	struct ibv_gid_entry e[ENTRIES], other;
	struct ibv_port_attr port;
	ssize_t n;
	int v2 = 0;

	(void)state;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.gid_tbl_len, ENTRIES);
	n = ibv_query_gid_table(ctx, e, ENTRIES, 0);
	assert_true(n > 0);
	for (ssize_t i = 0; i < n; i++) {
		const bool v1 = e[i].gid_index >= BEHIND;

		v2 += !v1;
		assert_int_equal(e[i].gid_type, v1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2);
		assert_int_equal(
			ibv_query_gid_ex(ctx, 1, (e[i].gid_index + BEHIND) % ENTRIES, &other, 0),
			0);
		assert_memory_equal(&other.gid, &e[i].gid, sizeof(other.gid));
		assert_int_equal(other.ndev_ifindex, e[i].ndev_ifindex);
	}
	assert_int_equal(n, 2 * v2);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, ENTRIES, &other, 0), EINVAL);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void an_index_says_of_rocev2_what_it_always_did(void **state)
{
	struct ibv_context *ctx = first_device();
	struct ibv_gid_entry first;

	(void)state;
	assert_int_equal(ibv_query_gid_table(ctx, &first, 1, 0), -EINVAL); /* there are more */
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, &first, 0), 0);
	assert_int_equal(first.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(ibv_close_device(ctx), 0);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void open_qp(struct lone_qp *l, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {
		.qp_type = type,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	lone_qp_open(l, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	l->cq = ibv_create_cq(l->ctx, 16, NULL, NULL, 0);
	assert_non_null(l->cq);
	a.send_cq = a.recv_cq = l->cq;
	l->qp = ibv_create_qp(l->pd, &a);
	assert_non_null(l->qp);
}

static void post_recv(struct lone_qp *l, uint32_t at, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)buf + at, len, l->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(l->qp, &wr, &bad), 0);
}

static void a_message_to_itself_by(uint8_t index)
{
	struct lone_qp l;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;
	bool sent = false, received = false;

	open_qp(&l, IBV_QPT_RC);
	bring_up(l.qp, l.qp->qp_num, to_itself_by(l.ctx, index), IBV_ACCESS_REMOTE_WRITE,
		 IBV_QPS_RTS);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(i < 2000 ? i * 7 + index : 0);
	post_recv(&l, 2000, 2000);
	sge = (struct ibv_sge){(uintptr_t)buf, 1999, l.mr->lkey};
	assert_int_equal(ibv_post_send(l.qp, &wr, &bad), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc(l.cq);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		sent |= wc.opcode == IBV_WC_SEND;
		received |= wc.opcode == IBV_WC_RECV && wc.byte_len == 1999;
	}
	assert_true(sent && received);
	assert_memory_equal(buf + 2000, buf, 1999);
	lone_qp_close(&l);
}

static void a_connection_is_of_the_kind_of_its_gid(void **state)
{
	(void)state;
	a_message_to_itself_by(BEHIND);
	a_message_to_itself_by(0);
}

static void an_entry_that_is_empty_leads_nowhere(void **state)
{
	struct lone_qp l;
	struct ibv_ah_attr ah;

	(void)state;
	open_qp(&l, IBV_QPT_RC);
	ah = to_itself_by(l.ctx, BEHIND);
	ah.grh.sgid_index = ENTRIES - 1;
	assert_null(ibv_create_ah(l.pd, &ah));
	assert_int_equal(errno, EINVAL);
	ah.grh.sgid_index = ENTRIES;
	assert_null(ibv_create_ah(l.pd, &ah));
	assert_int_equal(errno, EINVAL);
	lone_qp_close(&l);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static void make_ud_ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	assert_int_equal(
		ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

/* Sends to itself; returns the completion of what has come, which is at buf. */
static struct ibv_wc datagram(struct lone_qp *l, struct ibv_ah *ah)
{
	struct ibv_sge sge = {(uintptr_t)buf + 1000, 100, l->mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.ud = {.ah = ah,
					   .remote_qpn = l->qp->qp_num,
					   .remote_qkey = QKEY}},
			   *bad;
	struct ibv_wc wc, got = {0};

	memset(buf, 0, 1000);
	memset(buf + 1000, 0x5a, 100);
	post_recv(l, 0, 1000);
	assert_int_equal(ibv_post_send(l->qp, &wr, &bad), 0);
	for (int i = 0; i < 2; i++) {
		wc = next_wc(l->cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode == IBV_WC_RECV)
			got = wc;
	}
	assert_int_equal(got.byte_len, GRH + 100);
	assert_memory_equal(buf + GRH, buf + 1000, 100);
	return got;
}

static void a_datagram_has_its_grh_and_is_answered_by_it(void **state)
{
	struct lone_qp l;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	(void)state;
	open_qp(&l, IBV_QPT_UD);
	make_ud_ready(l.qp);
	ah_attr = to_itself_by(l.ctx, BEHIND);
	ah = ibv_create_ah(l.pd, &ah_attr);
	assert_non_null(ah);
	for (int round = 0; round < 2; round++) {
		wc = datagram(&l, ah);
		assert_int_equal(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
		assert_int_equal(wc.sl, 0);
		assert_int_equal(buf[0] >> 4, 6);
		assert_int_equal(buf[6], 0x1b);
		assert_int_equal(buf[7], round ? 0xff : 9);
		assert_memory_equal(buf + 8, &ah_attr.grh.dgid, 16);
		assert_memory_equal(buf + 24, &ah_attr.grh.dgid, 16);
		memset(&ah_attr, 0xee, sizeof(ah_attr));
		assert_int_equal(
			ibv_init_ah_from_wc(l.ctx, 1, &wc, (struct ibv_grh *)buf, &ah_attr), 0);
		assert_int_equal(ah_attr.grh.sgid_index, BEHIND);
		assert_int_equal(ibv_destroy_ah(ah), 0);
		ah = ibv_create_ah(l.pd, &ah_attr);
		assert_non_null(ah);
	}
	assert_int_equal(ibv_destroy_ah(ah), 0);
	lone_qp_close(&l);
}

static void a_group_is_rocev2s(void **state)
{
	static const uint8_t group[16] = {[10] = 0xff, 0xff, 239, 1, 2, 3};
	struct lone_qp l;
	struct ibv_ah_attr ah_attr;
	struct ibv_ah *ah;

	(void)state;
	open_qp(&l, IBV_QPT_UD);
	ah_attr = to_itself_by(l.ctx, BEHIND);
	memcpy(ah_attr.grh.dgid.raw, group, sizeof(group));
	assert_null(ibv_create_ah(l.pd, &ah_attr));
	assert_int_equal(errno, EOPNOTSUPP);
	ah_attr.grh.sgid_index = 0;
	ah = ibv_create_ah(l.pd, &ah_attr);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	lone_qp_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_address_has_an_entry_of_either_kind),
		cmocka_unit_test(an_index_says_of_rocev2_what_it_always_did),
		cmocka_unit_test(a_connection_is_of_the_kind_of_its_gid),
		cmocka_unit_test(an_entry_that_is_empty_leads_nowhere),
		cmocka_unit_test(a_datagram_has_its_grh_and_is_answered_by_it),
		cmocka_unit_test(a_group_is_rocev2s),
	};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_gid_entry e;
	bool there = ctx && ibv_query_gid_ex(ctx, 1, BEHIND, &e, 0) == 0;

	if (!there) {
		puts("SKIP: no packet socket can be opened here");
		return 77;
	}
	ibv_close_device(ctx);
	ibv_free_device_list(list);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
