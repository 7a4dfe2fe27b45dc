/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The verbs face by its contract, in one process: a plain verbs program that runs on any library,
 * two queue pairs of the first device joined to each other.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BUF = 1 << 16,
	DEPTH = 16,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND
};

static struct bed {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of both */
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	uint8_t *buf; /* first half is qp[0]'s, second qp[1]'s */
} bed;

/* ---- the bed --------------------------------------------------------------------------------- */

static struct ibv_qp *qp_new(struct ibv_cq *cq, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = bed.pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(bed.ctx, &a);
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rts(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.rq_psn = peer->qp_num & 0xffffff,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};
	int rc = ibv_query_gid(bed.ctx, 1, 0, &a.ah_attr.grh.dgid);

	if (!rc)
		rc = ibv_modify_qp(qp, &a,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER);
	if (rc)
		return rc;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = 14,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .sq_psn = qp->qp_num & 0xffffff,
				 .max_rd_atomic = 4};
	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void join(uint64_t ops)
{
	for (int i = 0; i < 2; i++) {
		bed.qp[i] = qp_new(bed.cq, ops);
		assert_non_null(bed.qp[i]);
		assert_int_equal(to_init(bed.qp[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(to_rts(bed.qp[i], bed.qp[!i]), 0);
}

static int setup(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	if (!list || !list[0])
		return -1;
	memset(&bed, 0, sizeof(bed));
	bed.ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!bed.ctx)
		return -1;
	bed.pd = ibv_alloc_pd(bed.ctx);
	bed.channel = ibv_create_comp_channel(bed.ctx);
	bed.cq = ibv_create_cq(bed.ctx, 64, &bed, bed.channel, 0);
	bed.buf = aligned_alloc(4096, BUF);
	bed.mr = ibv_reg_mr(bed.pd, bed.buf, BUF, ALL);
	return bed.pd && bed.channel && bed.cq && bed.mr ? 0 : -1;
}

static int teardown(void **state)
{
	int rc = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		if (bed.qp[i])
			rc |= ibv_destroy_qp(bed.qp[i]);
	rc |= ibv_destroy_cq(bed.cq);
	rc |= ibv_destroy_comp_channel(bed.channel);
	rc |= ibv_dereg_mr(bed.mr);
	rc |= ibv_dealloc_pd(bed.pd);
	rc |= ibv_close_device(bed.ctx);
	free(bed.buf);
	return rc;
}

static struct ibv_wc next_wc(void)
{
	struct ibv_wc wc;
	int n = 0;

	for (time_t end = time(NULL) + 10; !n && time(NULL) < end;)
		n = ibv_poll_cq(bed.cq, 1, &wc);
	assert_int_equal(n, 1);
	return wc;
}

static void expect_empty(void)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(bed.cq, 1, &wc), 0);
}

static struct ibv_sge sge_at(size_t offset, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)bed.buf + offset, length, bed.mr->lkey};
}

static int post_recv(int i, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_at(offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(bed.qp[i], &wr, &bad);
}

static int post_send(int i, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(bed.qp[i], wr, &bad);
}

static int send_bytes(int i, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = sge_at(offset, length);
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};

	return post_send(i, &wr);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void a_device_is_the_same_in_every_list_and_opens_many_times(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *again = ibv_open_device(list[0]);

	(void)state;
	assert_ptr_equal(list[0], bed.ctx->device);
	assert_non_null(again);
	assert_ptr_not_equal(again, bed.ctx);
	assert_int_not_equal(again->async_fd, bed.ctx->async_fd);
	assert_int_equal(ibv_close_device(again), 0);
	ibv_free_device_list(list);
}

static void device_and_port_tell_what_software_looks_at(void **state)
{
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr a;
	struct ibv_port_attr p;

	(void)state;
	assert_int_equal(ibv_query_device(bed.ctx, &a), 0);
	assert_int_not_equal(a.vendor_id, 0);
	assert_int_not_equal(a.vendor_id, 0xffffff);
	assert_true(a.max_sge >= 16 && a.max_cqe > 12288 && a.max_qp_rd_atom <= 255);
	assert_true(a.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
	assert_int_equal(ibv_query_device_ex(bed.ctx, NULL, &ex), 0);
	assert_memory_equal(&ex.orig_attr, &a, sizeof(a));
	assert_int_equal(ibv_query_port(bed.ctx, 1, &p), 0);
	assert_int_equal(p.state, IBV_PORT_ACTIVE);
	assert_int_equal(p.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(p.active_mtu, IBV_MTU_4096); /* of the loopback interface */
	assert_int_equal(ibv_query_port(bed.ctx, 2, &p), EINVAL);
}

static void the_gid_table_is_one_table_however_it_is_asked(void **state)
{
	struct ibv_gid_entry entries[256], e;
	ssize_t n = ibv_query_gid_table(bed.ctx, entries, 256, 0);
	union ibv_gid gid;

	(void)state;
	assert_true(n >= 1);
	assert_int_equal(ibv_query_gid_table(bed.ctx, entries, (size_t)n - 1, 0), -EINVAL);
	for (ssize_t i = 0; i < n; i++) {
		assert_int_equal(entries[i].gid_type, IBV_GID_TYPE_ROCE_V2);
		assert_int_equal(ibv_query_gid_ex(bed.ctx, 1, entries[i].gid_index, &e, 0), 0);
		assert_memory_equal(&e, &entries[i], sizeof(e));
		assert_int_equal(ibv_query_gid(bed.ctx, 1, (int)e.gid_index, &gid), 0);
		assert_memory_equal(&gid, &e.gid, sizeof(gid));
	}
	assert_int_equal(ibv_query_gid_ex(bed.ctx, 1, 31, &e, 0), ENODATA); /* empty */
	assert_int_equal(ibv_query_gid_ex(bed.ctx, 1, 100000, &e, 0), EINVAL);
	assert_int_not_equal(ibv_query_gid(bed.ctx, 1, 100000, &gid), 0);
}

/* ---- objects and errors ---------------------------------------------------------------------- */

static void what_is_in_use_cannot_be_destroyed(void **state)
{
	(void)state;
	join(0);
	assert_int_equal(ibv_dealloc_pd(bed.pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(bed.cq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(bed.channel), EBUSY);
}

static void bad_sizes_are_refused(void **state)
{
	struct ibv_qp_init_attr a = {.send_cq = bed.cq, .recv_cq = bed.cq, .qp_type = IBV_QPT_RC};

	(void)state;
	assert_null(ibv_create_cq(bed.ctx, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(bed.ctx, 1 << 30, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(bed.ctx, 1, NULL, NULL, bed.ctx->num_comp_vectors));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_resize_cq(bed.cq, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(bed.cq, 100), 0);
	assert_true(bed.cq->cqe >= 100);
	a.cap.max_send_wr = 1 << 20;
	assert_null(ibv_create_qp(bed.pd, &a));
	assert_int_equal(errno, EINVAL);
	a.cap.max_send_wr = 1;
	a.cap.max_send_sge = 1000;
	assert_null(ibv_create_qp(bed.pd, &a));
	assert_int_equal(errno, EINVAL);
}

static void a_region_must_be_there_and_its_rights_make_sense(void **state)
{
	void *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int relaxed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	struct ibv_mr *mr;

	(void)state;
	munmap((char *)gone + 4096, 4096);
	assert_null(ibv_reg_mr(bed.pd, gone, 8192, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	munmap(gone, 4096);
	assert_null(ibv_reg_mr(bed.pd, bed.buf, BUF, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	mr = ibv_reg_mr(bed.pd, bed.buf, BUF, relaxed);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void unknown_kinds_are_not_supported(void **state)
{
	struct ibv_srq_init_attr_ex srq = {.attr = {.max_wr = 1, .max_sge = 1},
					   .comp_mask =
						   IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					   .srq_type = IBV_SRQT_TM,
					   .pd = bed.pd};
	struct ibv_cq_init_attr_ex cq = {.cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG};

	(void)state;
	assert_null(ibv_create_srq_ex(bed.ctx, &srq));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_create_cq_ex(bed.ctx, &cq));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void objects_outlive_a_context_that_is_closed(void **state)
{
	struct ibv_context *ctx = ibv_open_device(bed.ctx->device);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);

	(void)state;
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* A short message from qp[0] to qp[1]; false if it did not arrive. */
static bool exchange(void)
{
	struct ibv_wc wc[2];
	int got = 0;

	if (post_recv(1, 1, BUF / 2, 64) || send_bytes(0, 2, 0, 8))
		return false;
	for (time_t end = time(NULL) + 10; got < 2 && time(NULL) < end;)
		got += ibv_poll_cq(bed.cq, 2 - got, wc + got);
	return got == 2 && !wc[0].status && !wc[1].status;
}

static void a_forked_child_has_devices_of_its_own_and_its_parent_keeps_the_old(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	join(0);
	assert_true(exchange());
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (!pid) {
		/* Inherited objects can be destroyed, without harm to the parent. */
		for (int i = 0; i < 2; i++)
			if (ibv_destroy_qp(bed.qp[i]))
				_exit(1);
		if (setup(NULL))
			_exit(2);
		for (int i = 0; i < 2; i++)
			if (!(bed.qp[i] = qp_new(bed.cq, 0)) || to_init(bed.qp[i]))
				_exit(3);
		for (int i = 0; i < 2; i++)
			if (to_rts(bed.qp[i], bed.qp[!i]))
				_exit(4);
		_exit(exchange() ? 0 : 5);
	}
	assert_true(exchange());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(exchange());
}

/* ---- queue pair states ------------------------------------------------------------------------
 */

static void a_path_needs_a_grh_and_a_gid_that_is_there(void **state)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = IBV_MTU_1024,
				.min_rnr_timer = 1,
				.ah_attr = {.port_num = 1}};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	(void)state;
	bed.qp[0] = qp_new(bed.cq, 0);
	assert_int_equal(to_init(bed.qp[0]), 0);
	assert_int_equal(ibv_modify_qp(bed.qp[0], &a, mask), EINVAL);
	a.ah_attr.is_global = 1;
	a.ah_attr.grh.sgid_index = 31;
	assert_int_equal(ibv_modify_qp(bed.qp[0], &a, mask), EINVAL);
	a.ah_attr.grh.sgid_index = 0;
	assert_int_equal(ibv_query_gid(bed.ctx, 1, 0, &a.ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(bed.qp[0], &a, mask & ~IBV_QP_DEST_QPN), EINVAL);
	assert_int_equal(ibv_modify_qp(bed.qp[0], &a, mask), 0);
	assert_int_equal(bed.qp[0]->state, IBV_QPS_RTR);
}

static void a_query_tells_what_was_set(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	(void)state;
	join(0);
	assert_int_equal(ibv_query_qp(bed.qp[0], &a, ~0, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_RTS);
	assert_int_equal(a.path_mtu, IBV_MTU_1024);
	assert_int_equal(a.dest_qp_num, bed.qp[1]->qp_num);
	assert_int_equal(a.rq_psn, bed.qp[1]->qp_num & 0xffffff);
	assert_int_equal(a.sq_psn, bed.qp[0]->qp_num & 0xffffff);
	assert_int_equal(a.qp_access_flags, ALL);
	assert_int_equal(a.timeout, 14);
	assert_int_equal(a.retry_cnt, 7);
	assert_int_equal(a.rnr_retry, 7);
	assert_int_equal(a.max_rd_atomic, 4);
	assert_int_equal(a.max_dest_rd_atomic, 4);
	assert_int_equal(a.ah_attr.is_global, 1);
	assert_ptr_equal(init.send_cq, bed.cq);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_true(init.cap.max_send_wr >= DEPTH && init.cap.max_inline_data >= 64);
}

static void an_error_state_flushes_all_that_is_posted(void **state)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

	(void)state;
	join(0);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(post_recv(0, i, 0, 64), 0);
	assert_int_equal(ibv_modify_qp(bed.qp[0], &a, IBV_QP_STATE), 0);
	assert_int_equal(send_bytes(0, 3, 0, 8), 0);
	for (int i = 0; i < 4; i++) {
		struct ibv_wc wc = next_wc();

		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.qp_num, bed.qp[0]->qp_num);
	}
	expect_empty();
}

/* ---- transfers --------------------------------------------------------------------------------
 */

static void a_message_arrives_with_its_immediate(void **state)
{
	struct ibv_sge sge = sge_at(0, 3000);
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htobe32(0x12345678)};

	(void)state;
	join(0);
	memset(bed.buf, 0x5a, 3000);
	memset(bed.buf + BUF / 2, 0, 4096);
	assert_int_equal(post_recv(1, 8, BUF / 2, 4096), 0);
	assert_int_equal(post_send(0, &wr), 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = next_wc();

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 7) {
			assert_int_equal(wc.opcode, IBV_WC_SEND);
			continue;
		}
		assert_int_equal(wc.wr_id, 8);
		assert_int_equal(wc.opcode, IBV_WC_RECV);
		assert_int_equal(wc.byte_len, 3000);
		assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
		assert_int_equal(be32toh(wc.imm_data), 0x12345678);
	}
	assert_memory_equal(bed.buf, bed.buf + BUF / 2, 3000);
}

static void a_full_queue_takes_what_fits_and_names_the_first_that_does_not(void **state)
{
	struct ibv_sge sge = sge_at(0, 8);
	struct ibv_recv_wr wr[2 * DEPTH] = {0}, *bad = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	(void)state;
	join(0);
	assert_int_equal(ibv_query_qp(bed.qp[0], &a, IBV_QP_CAP, &init), 0);
	for (int i = 0; i < 2 * DEPTH; i++)
		wr[i] = (struct ibv_recv_wr){.wr_id = (uint64_t)i,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .next = i + 1 < 2 * DEPTH ? &wr[i + 1] : NULL};
	assert_int_equal(ibv_post_recv(bed.qp[0], wr, &bad), ENOMEM);
	assert_int_equal(bad - wr, init.cap.max_recv_wr);
}

static void a_bad_request_is_refused_and_those_before_it_are_not(void **state)
{
	struct ibv_sge sge = sge_at(0, 16);
	struct ibv_send_wr second = {.wr_id = 2,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = (enum ibv_wr_opcode)200},
			   first = {.wr_id = 1,
				    .next = &second,
				    .sg_list = &sge,
				    .num_sge = 1,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED},
			   *bad = NULL;
	struct ibv_wc wc;

	(void)state;
	join(0);
	assert_int_equal(post_recv(1, 9, BUF / 2, 64), 0);
	assert_int_equal(ibv_post_send(bed.qp[0], &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	wc = next_wc();
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	wc = next_wc();
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	first.next = NULL;
	first.num_sge = 1000;
	assert_int_equal(ibv_post_send(bed.qp[0], &first, &bad), EINVAL);
	first.num_sge = -1;
	assert_int_equal(ibv_post_send(bed.qp[0], &first, &bad), EINVAL);
	first.num_sge = 1;
	first.send_flags |= IBV_SEND_INLINE;
	sge.length = 1 << 15;
	assert_int_equal(ibv_post_send(bed.qp[0], &first, &bad), EINVAL);
	expect_empty();
}

/* Writes a counter into the peer's half by the ibv_wr_* calls, and reads it back by an atomic. */
static void batches_of_the_extended_interface_go_out_whole_or_not_at_all(void **state)
{
	struct ibv_qp_ex *qx;
	uint64_t value = 41;
	struct ibv_wc wc;

	(void)state;
	join(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND);
	qx = ibv_qp_to_qp_ex(bed.qp[0]);
	assert_non_null(qx);
	memset(bed.buf, 0, BUF);

	ibv_wr_start(qx);
	qx->wr_id = 1;
	qx->wr_flags = 0;
	ibv_wr_rdma_write(qx, bed.mr->rkey, (uintptr_t)bed.buf + BUF / 2);
	ibv_wr_set_inline_data(qx, &value, sizeof(value));
	value = 0; /* taken at the call */
	qx->wr_id = 2;
	qx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(qx, bed.mr->rkey, (uintptr_t)bed.buf + BUF / 2, 1);
	ibv_wr_set_sge(qx, bed.mr->lkey, (uintptr_t)bed.buf, 8);
	assert_int_equal(ibv_wr_complete(qx), 0);
	wc = next_wc();
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(*(uint64_t *)bed.buf, 41);
	assert_int_equal(*(uint64_t *)(bed.buf + BUF / 2), 42);

	ibv_wr_start(qx);
	ibv_wr_rdma_write(qx, bed.mr->rkey, (uintptr_t)bed.buf + BUF / 2);
	ibv_wr_set_sge(qx, bed.mr->lkey, (uintptr_t)bed.buf, 8);
	ibv_wr_send(qx);
	ibv_wr_set_inline_data(qx, bed.buf, BUF); /* more than there is room for */
	assert_int_equal(ibv_wr_complete(qx), EINVAL);
	ibv_wr_start(qx);
	ibv_wr_rdma_write(qx, bed.mr->rkey, (uintptr_t)bed.buf + BUF / 2);
	ibv_wr_set_sge(qx, bed.mr->lkey, (uintptr_t)bed.buf, 8);
	ibv_wr_abort(qx);
	/* What is posted behind comes behind: nothing of those two has been sent. */
	ibv_wr_start(qx);
	qx->wr_id = 3;
	qx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qx, bed.mr->rkey, (uintptr_t)bed.buf + BUF / 2 + 8);
	ibv_wr_set_sge(qx, bed.mr->lkey, (uintptr_t)bed.buf, 8);
	assert_int_equal(ibv_wr_complete(qx), 0);
	assert_int_equal(next_wc().wr_id, 3);
	expect_empty();
	assert_int_equal(*(uint64_t *)(bed.buf + BUF / 2), 42);
}

static void a_window_is_bound_used_and_invalidated_by_the_peer(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(bed.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_sge sge = sge_at(0, 16);
	struct ibv_wc wc;

	(void)state;
	assert_non_null(mw);
	join(0);
	memset(bed.buf, 0, BUF);
	memset(bed.buf, 0x77, 16);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info =
		(struct ibv_mw_bind_info){.mr = bed.mr,
					  .addr = (uintptr_t)bed.buf + BUF / 2,
					  .length = 64,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	assert_int_equal(post_send(1, &wr), 0);
	wc = next_wc();
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);

	wr = (struct ibv_send_wr){.wr_id = 2,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)bed.buf + BUF / 2;
	wr.wr.rdma.rkey = ibv_inc_rkey(mw->rkey);
	assert_int_equal(post_send(0, &wr), 0);
	wc = next_wc();
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(bed.buf, bed.buf + BUF / 2, 16);

	assert_int_equal(post_recv(1, 4, BUF - 64, 64), 0);
	wr.wr_id = 3;
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = ibv_inc_rkey(mw->rkey);
	assert_int_equal(post_send(0, &wr), 0);
	for (int i = 0; i < 2; i++) {
		wc = next_wc();
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == 4) {
			assert_true(wc.wc_flags & IBV_WC_WITH_INV);
			assert_int_equal(wc.invalidated_rkey, ibv_inc_rkey(mw->rkey));
		}
	}
	wr.wr_id = 5;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)bed.buf + BUF / 2;
	wr.wr.rdma.rkey = ibv_inc_rkey(mw->rkey);
	assert_int_equal(post_send(0, &wr), 0);
	wc = next_wc();
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ---- events -----------------------------------------------------------------------------------
 */

static short ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};

	return poll(&p, 1, 2000) > 0 ? p.revents : 0;
}

static void a_completion_event_wakes_and_is_not_writable(void **state)
{
	struct ibv_cq *cq;
	void *context;

	(void)state;
	join(0);
	assert_int_equal(fcntl(bed.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_cq_event(bed.channel, &cq, &context), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_req_notify_cq(bed.cq, 0), 0);
	assert_int_equal(post_recv(1, 1, BUF / 2, 64), 0);
	assert_int_equal(send_bytes(0, 2, 0, 8), 0);
	assert_int_equal(ready(bed.channel->fd), POLLIN);
	assert_int_equal(ibv_get_cq_event(bed.channel, &cq, &context), 0);
	assert_ptr_equal(cq, bed.cq);
	assert_ptr_equal(context, &bed);
	ibv_ack_cq_events(cq, 1);
	next_wc();
	next_wc();
	/* Armed once, told once. */
	assert_int_equal(ibv_get_cq_event(bed.channel, &cq, &context), -1);
}

static void only_solicited_completions_wake_who_asks_for_those(void **state)
{
	struct ibv_sge sge = sge_at(0, 8);
	struct ibv_send_wr wr = {.wr_id = 3,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED};
	struct ibv_cq *cq;
	void *context;

	(void)state;
	join(0);
	assert_int_equal(fcntl(bed.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_req_notify_cq(bed.cq, 1), 0);
	assert_int_equal(post_recv(1, 1, BUF / 2, 64), 0);
	assert_int_equal(post_recv(1, 2, BUF / 2, 64), 0);
	assert_int_equal(send_bytes(0, 0, 0, 8), 0);
	next_wc();
	next_wc();
	assert_int_equal(ibv_get_cq_event(bed.channel, &cq, &context), -1);
	assert_int_equal(post_send(0, &wr), 0);
	assert_int_equal(ready(bed.channel->fd), POLLIN);
	assert_int_equal(ibv_get_cq_event(bed.channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	next_wc();
	next_wc();
}

static void *ack_later(void *cq)
{
	usleep(100000);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void a_cq_waits_for_its_events_to_be_acknowledged(void **state)
{
	struct timespec t0, t1;
	struct ibv_cq *cq = ibv_create_cq(bed.ctx, 16, NULL, bed.channel, 0), *got;
	struct ibv_cq *shared = bed.cq;
	pthread_t thread;
	void *context;

	(void)state;
	bed.cq = cq;
	join(0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(post_recv(1, 1, BUF / 2, 64), 0);
	assert_int_equal(send_bytes(0, 2, 0, 8), 0);
	assert_int_equal(ibv_get_cq_event(bed.channel, &got, &context), 0);
	next_wc();
	next_wc();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(bed.qp[i]), 0);
		bed.qp[i] = NULL;
	}
	bed.cq = shared;
	assert_int_equal(pthread_create(&thread, NULL, ack_later, cq), 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	pthread_join(thread, NULL);
	assert_true((t1.tv_sec - t0.tv_sec) * 1000 + (t1.tv_nsec - t0.tv_nsec) / 1000000 >= 50);
}

static void an_overrun_of_a_cq_is_an_asynchronous_event(void **state)
{
	struct ibv_cq *small = ibv_create_cq(bed.ctx, 1, NULL, NULL, 0), *shared = bed.cq;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct ibv_async_event ev;

	(void)state;
	assert_int_equal(fcntl(bed.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_async_event(bed.ctx, &ev), -1);
	assert_int_equal(errno, EAGAIN);
	bed.qp[0] = qp_new(small, 0);
	assert_int_equal(to_init(bed.qp[0]), 0);
	for (int i = 0; i < DEPTH; i++)
		assert_int_equal(post_recv(0, (uint64_t)i, 0, 8), 0);
	assert_int_equal(ibv_modify_qp(bed.qp[0], &a, IBV_QP_STATE), 0);
	assert_true(small->cqe < DEPTH);
	assert_int_equal(ready(bed.ctx->async_fd), POLLIN);
	assert_int_equal(ibv_get_async_event(bed.ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(ev.element.cq, small);
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_destroy_qp(bed.qp[0]), 0);
	bed.qp[0] = NULL;
	assert_int_equal(ibv_destroy_cq(small), 0);
	bed.cq = shared;
}

static void the_extended_cq_reads_field_by_field(void **state)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM};
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_cq *shared = bed.cq;
	struct ibv_cq_ex *ex = ibv_create_cq_ex(bed.ctx, &attr);
	int seen = 0, rc = ENOENT;

	(void)state;
	assert_non_null(ex);
	bed.cq = ibv_cq_ex_to_cq(ex);
	join(0);
	assert_int_equal(ibv_start_poll(ex, &poll_attr), ENOENT);
	assert_int_equal(post_recv(1, 21, BUF / 2, 64), 0);
	assert_int_equal(send_bytes(0, 22, 0, 48), 0);
	for (time_t end = time(NULL) + 10; seen < 2 && time(NULL) < end;) {
		rc = ibv_start_poll(ex, &poll_attr);
		if (rc)
			continue;
		while (!rc) {
			assert_int_equal(ex->status, IBV_WC_SUCCESS);
			if (ex->wr_id == 21) {
				assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_RECV);
				assert_int_equal(ibv_wc_read_byte_len(ex), 48);
				assert_int_equal(ibv_wc_read_qp_num(ex), bed.qp[1]->qp_num);
			} else {
				assert_int_equal(ex->wr_id, 22);
			}
			seen++;
			rc = ibv_next_poll(ex);
		}
		ibv_end_poll(ex);
	}
	assert_int_equal(seen, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(bed.qp[i]), 0);
		bed.qp[i] = NULL;
	}
	assert_int_equal(ibv_destroy_cq(bed.cq), 0);
	bed.cq = shared;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(a_device_is_the_same_in_every_list_and_opens_many_times),
		T(device_and_port_tell_what_software_looks_at),
		T(the_gid_table_is_one_table_however_it_is_asked),
		T(what_is_in_use_cannot_be_destroyed),
		T(bad_sizes_are_refused),
		T(a_region_must_be_there_and_its_rights_make_sense),
		T(unknown_kinds_are_not_supported),
		T(objects_outlive_a_context_that_is_closed),
		T(a_forked_child_has_devices_of_its_own_and_its_parent_keeps_the_old),
		T(a_path_needs_a_grh_and_a_gid_that_is_there),
		T(a_query_tells_what_was_set),
		T(an_error_state_flushes_all_that_is_posted),
		T(a_message_arrives_with_its_immediate),
		T(a_full_queue_takes_what_fits_and_names_the_first_that_does_not),
		T(a_bad_request_is_refused_and_those_before_it_are_not),
		T(batches_of_the_extended_interface_go_out_whole_or_not_at_all),
		T(a_window_is_bound_used_and_invalidated_by_the_peer),
		T(a_completion_event_wakes_and_is_not_writable),
		T(only_solicited_completions_wake_who_asks_for_those),
		T(a_cq_waits_for_its_events_to_be_acknowledged),
		T(an_overrun_of_a_cq_is_an_asynchronous_event),
		T(the_extended_cq_reads_field_by_field),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
