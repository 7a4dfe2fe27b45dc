/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * XRC by its contract: a plain verbs program that runs on any library with XRC, the initiator and
 * the target in one process on the first device.
 */
#include "first_device.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUF = 8192 };

static struct bed {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq, *srq_cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	int fd;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct ibv_qp *target, *initiator;
} bed;

static struct ibv_xrcd *xrcd_open(int fd, int oflags)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	return ibv_open_xrcd(bed.ctx, &a);
}

static struct ibv_srq *srq_new(struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 8, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = bed.pd,
		.xrcd = xrcd,
		.cq = bed.srq_cq,
	};

	return ibv_create_srq_ex(bed.ctx, &a);
}

static struct ibv_qp *target_new(struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};

	return ibv_create_qp_ex(bed.ctx, &a);
}

static struct ibv_qp *initiator_new(uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = bed.cq,
		.cap = {.max_send_wr = 8, .max_send_sge = 1, .max_inline_data = 16},
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = bed.pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(bed.ctx, &a);
}

static void bring_to(struct ibv_qp *qp, uint32_t peer, enum ibv_qp_state to)
{
	bring_up(qp, peer, to_itself(bed.ctx), IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		 to);
}

static int open_bed(void **state)
{
	char name[] = "/tmp/xrc-api-XXXXXX";

	(void)state;
	bed.ctx = first_device();
	bed.pd = ibv_alloc_pd(bed.ctx);
	bed.cq = ibv_create_cq(bed.ctx, 64, NULL, NULL, 0);
	bed.srq_cq = ibv_create_cq(bed.ctx, 64, NULL, NULL, 0);
	bed.buf = calloc(1, BUF);
	bed.mr = ibv_reg_mr(bed.pd, bed.buf, BUF,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ);
	assert_non_null(bed.mr);
	bed.fd = mkstemp(name);
	assert_true(bed.fd >= 0);
	unlink(name);
	bed.xrcd = xrcd_open(bed.fd, O_CREAT);
	assert_non_null(bed.xrcd);
	bed.srq = srq_new(bed.xrcd);
	assert_non_null(bed.srq);
	assert_int_equal(ibv_get_srq_num(bed.srq, &bed.srqn), 0);
	bed.target = target_new(bed.xrcd);
	bed.initiator = initiator_new(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
				      IBV_QP_EX_WITH_ATOMIC_WRITE);
	assert_non_null(bed.target);
	assert_non_null(bed.initiator);
	return 0;
}

static int close_bed(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_qp(bed.initiator), 0);
	if (bed.target)
		assert_int_equal(ibv_destroy_qp(bed.target), 0);
	assert_int_equal(ibv_destroy_srq(bed.srq), 0);
	assert_int_equal(ibv_close_xrcd(bed.xrcd), 0);
	close(bed.fd);
	assert_int_equal(ibv_dereg_mr(bed.mr), 0);
	assert_int_equal(ibv_destroy_cq(bed.cq), 0);
	assert_int_equal(ibv_destroy_cq(bed.srq_cq), 0);
	assert_int_equal(ibv_dealloc_pd(bed.pd), 0);
	assert_int_equal(ibv_close_device(bed.ctx), 0);
	free(bed.buf);
	return 0;
}

static void recv_on(struct ibv_srq *srq, uint64_t wr_id, uint32_t off)
{
	struct ibv_sge sge = {(uintptr_t)bed.buf + off, 100, bed.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void send_to(uint32_t srqn, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)bed.buf, 100, bed.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .qp_type.xrc.remote_srqn = srqn},
			   *bad;

	assert_int_equal(ibv_post_send(bed.initiator, &wr, &bad), 0);
}

static void expect(struct ibv_cq *cq, uint64_t wr_id, uint32_t qpn)
{
	struct ibv_wc wc = next_wc(cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.qp_num, qpn);
}

static void connect_pair(void)
{
	bring_to(bed.target, bed.initiator->qp_num, IBV_QPS_RTR);
	bring_to(bed.initiator, bed.target->qp_num, IBV_QPS_RTS);
}

static enum ibv_event_type next_event(struct ibv_qp **qp)
{
	struct pollfd p = {.fd = bed.ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(ibv_get_async_event(bed.ctx, &ev), 0);
	*qp = ev.element.qp;
	ibv_ack_async_event(&ev);
	return ev.event_type;
}

/* ---- domains -------------------------------------------------------------------------------- */

static void a_domain_is_found_again_by_its_file(void **state)
{
	struct ibv_xrcd_init_attr half = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};
	struct ibv_xrcd *again, *none[2];
	char name[] = "/tmp/xrc-api-XXXXXX";
	int other = mkstemp(name);

	(void)state;
	assert_true(other >= 0);
	unlink(name);
	again = xrcd_open(bed.fd, 0);
	assert_non_null(again);
	assert_null(xrcd_open(bed.fd, O_CREAT | O_EXCL));
	assert_int_equal(errno, EINVAL);
	assert_null(xrcd_open(other, 0));
	assert_int_equal(errno, EAGAIN);
	assert_null(xrcd_open(1000, O_CREAT));
	assert_int_equal(errno, EBADF);
	assert_null(ibv_open_xrcd(bed.ctx, &half));
	assert_int_equal(errno, EINVAL);
	/* Without a file each is a new one, whatever the flags. */
	none[0] = xrcd_open(-1, 0);
	none[1] = xrcd_open(-1, O_CREAT | O_EXCL);
	assert_non_null(none[0]);
	assert_non_null(none[1]);
	assert_int_equal(ibv_close_xrcd(none[0]), 0);
	assert_int_equal(ibv_close_xrcd(none[1]), 0);
	assert_int_equal(ibv_close_xrcd(again), 0);
	/* With the last one closed, the file stands for nothing any more. */
	again = xrcd_open(other, O_CREAT | O_EXCL);
	assert_non_null(again);
	assert_int_equal(ibv_close_xrcd(again), 0);
	assert_null(xrcd_open(other, 0));
	assert_int_equal(errno, EAGAIN);
	close(other);
}

static void what_is_in_use_stays(void **state)
{
	struct ibv_xrcd *again = xrcd_open(bed.fd, 0);
	struct ibv_srq *srq = srq_new(again);

	(void)state;
	assert_int_equal(ibv_close_xrcd(bed.xrcd), EBUSY);
	assert_int_equal(ibv_close_xrcd(again), EBUSY);
	assert_int_equal(ibv_destroy_cq(bed.srq_cq), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_close_xrcd(again), 0);
}

static void an_srq_of_xrc_needs_all_its_parts(void **state)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = {.max_wr = 8, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = bed.pd,
		.cq = bed.srq_cq,
	};
	struct ibv_srq_init_attr basic = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_qp_init_attr rc = {
		.send_cq = bed.cq, .recv_cq = bed.cq, .srq = bed.srq, .qp_type = IBV_QPT_RC};
	struct ibv_srq *srq;
	uint32_t n;

	(void)state;
	assert_null(ibv_create_srq_ex(bed.ctx, &a));
	assert_int_equal(errno, EINVAL);
	a.srq_type = IBV_SRQT_TM;
	assert_null(ibv_create_srq_ex(bed.ctx, &a));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_create_qp(bed.pd, &rc));
	assert_int_equal(errno, EINVAL);
	srq = ibv_create_srq(bed.pd, &basic);
	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &n), EINVAL);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* ---- traffic -------------------------------------------------------------------------------- */

static void messages_arrive_by_either_way_of_posting(void **state)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(bed.initiator);
	struct ibv_qp *qp;

	(void)state;
	connect_pair();
	memset(bed.buf, 'a', 100);
	recv_on(bed.srq, 1, 1000);
	recv_on(bed.srq, 2, 2000);
	send_to(bed.srqn, 10);
	expect(bed.cq, 10, bed.initiator->qp_num);
	expect(bed.srq_cq, 1, bed.target->qp_num);
	assert_memory_equal(bed.buf + 1000, bed.buf, 100);
	assert_int_equal(next_event(&qp), IBV_EVENT_COMM_EST);
	assert_ptr_equal(qp, bed.target);

	ibv_wr_start(ex);
	ex->wr_id = 11;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, bed.srqn);
	ibv_wr_set_sge(ex, bed.mr->lkey, (uintptr_t)bed.buf, 50);
	ex->wr_id = 12;
	ibv_wr_rdma_read(ex, bed.mr->rkey, (uintptr_t)bed.buf);
	ibv_wr_set_xrc_srqn(ex, bed.srqn);
	ibv_wr_set_sge(ex, bed.mr->lkey, (uintptr_t)bed.buf + 4000, 100);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(bed.cq, 11, bed.initiator->qp_num);
	expect(bed.cq, 12, bed.initiator->qp_num);
	expect(bed.srq_cq, 2, bed.target->qp_num);
	assert_memory_equal(bed.buf + 2000, bed.buf, 50);
	assert_memory_equal(bed.buf + 4000, bed.buf, 100);
}

static void an_atomic_write_goes_by_either_way_of_posting(void **state)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(bed.initiator);
	struct ibv_sge sge = {(uintptr_t)bed.buf, 8, bed.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 10,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_WRITE,
				 .wr.rdma.remote_addr = (uintptr_t)bed.buf + 2048,
				 .wr.rdma.rkey = bed.mr->rkey,
				 .qp_type.xrc.remote_srqn = bed.srqn},
			   *bad;
	struct ibv_wc wc;

	(void)state;
	connect_pair();
	memcpy(bed.buf, "eightbyt", 8);
	assert_int_equal(ibv_post_send(bed.initiator, &wr, &bad), 0);
	wc = next_wc(bed.cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
	assert_memory_equal(bed.buf + 2048, "eightbyt\0", 9);
	ibv_wr_start(ex);
	ex->wr_id = 11;
	ibv_wr_atomic_write(ex, bed.mr->rkey, (uintptr_t)bed.buf + 2048, "another!");
	ibv_wr_set_xrc_srqn(ex, bed.srqn);
	assert_int_equal(ibv_wr_complete(ex), 0);
	expect(bed.cq, 11, bed.initiator->qp_num);
	assert_memory_equal(bed.buf + 2048, "another!\0", 9);
}

static void an_srq_opened_through_the_file_is_reached_and_others_are_not(void **state)
{
	struct ibv_xrcd *again = xrcd_open(bed.fd, 0), *other = xrcd_open(-1, 0);
	struct ibv_srq *near = srq_new(again), *far = srq_new(other);
	struct ibv_qp *qp;
	uint32_t n;

	(void)state;
	connect_pair();
	recv_on(near, 1, 1000);
	assert_int_equal(ibv_get_srq_num(near, &n), 0);
	assert_int_not_equal(n, bed.srqn);
	send_to(n, 10);
	expect(bed.cq, 10, bed.initiator->qp_num);
	expect(bed.srq_cq, 1, bed.target->qp_num);
	assert_int_equal(next_event(&qp), IBV_EVENT_COMM_EST);

	recv_on(far, 2, 1000);
	assert_int_equal(ibv_get_srq_num(far, &n), 0);
	send_to(n, 11);
	assert_int_equal(next_wc(bed.cq).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(next_event(&qp), IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(qp, bed.target);
	assert_int_equal(ibv_destroy_srq(near), 0);
	assert_int_equal(ibv_destroy_srq(far), 0);
	assert_int_equal(ibv_close_xrcd(again), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

static void a_number_of_nobody_is_an_invalid_request(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct ibv_qp *qp;

	(void)state;
	connect_pair();
	recv_on(bed.srq, 1, 1000);
	send_to(bed.srqn, 9);
	expect(bed.cq, 9, bed.initiator->qp_num);
	assert_int_equal(next_event(&qp), IBV_EVENT_COMM_EST);
	send_to(bed.srqn ^ 1, 10);
	assert_int_equal(next_wc(bed.cq).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(next_event(&qp), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(ibv_query_qp(bed.target, &a, IBV_QP_STATE, &init), 0);
	assert_int_equal(a.qp_state, IBV_QPS_ERR);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	assert_null(init.recv_cq);
	assert_int_equal(a.cap.max_recv_wr, 0);
}

/* ---- ibv_open_qp ---------------------------------------------------------------------------- */

static struct ibv_qp *target_open(struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr a = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = qpn,
		.xrcd = xrcd,
		.qp_context = &bed,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(bed.ctx, &a);
}

static void a_target_lives_until_its_last_opener_closes_it(void **state)
{
	struct ibv_xrcd *again = xrcd_open(bed.fd, 0), *other = xrcd_open(-1, 0);
	struct ibv_qp *opened, *seen[2];

	(void)state;
	assert_null(target_open(other, bed.target->qp_num));
	assert_int_equal(errno, EINVAL);
	assert_null(target_open(again, bed.initiator->qp_num));
	assert_int_equal(errno, EINVAL);
	opened = target_open(again, bed.target->qp_num);
	assert_non_null(opened);
	assert_ptr_equal(opened->qp_context, &bed);
	assert_int_equal(opened->qp_num, bed.target->qp_num);
	assert_int_equal(ibv_close_xrcd(again), EBUSY);

	/* Either may move it, both hear of it. */
	bring_to(opened, bed.initiator->qp_num, IBV_QPS_RTR);
	bring_to(bed.initiator, bed.target->qp_num, IBV_QPS_RTS);
	recv_on(bed.srq, 1, 1000);
	send_to(bed.srqn, 10);
	expect(bed.cq, 10, bed.initiator->qp_num);
	expect(bed.srq_cq, 1, opened->qp_num);
	for (int i = 0; i < 2; i++)
		assert_int_equal(next_event(&seen[i]), IBV_EVENT_COMM_EST);
	assert_ptr_not_equal(seen[0], seen[1]);

	/* Who made it may go first. */
	assert_int_equal(ibv_destroy_qp(bed.target), 0);
	bed.target = NULL;
	recv_on(bed.srq, 2, 1000);
	send_to(bed.srqn, 11);
	expect(bed.cq, 11, bed.initiator->qp_num);
	expect(bed.srq_cq, 2, opened->qp_num);
	send_to(bed.srqn ^ 1, 12);
	assert_int_equal(next_wc(bed.cq).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(next_event(&seen[0]), IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(seen[0], opened);
	assert_int_equal(ibv_destroy_qp(opened), 0);
	assert_null(target_open(again, bed.initiator->qp_num));
	assert_int_equal(ibv_close_xrcd(again), 0);
	assert_int_equal(ibv_close_xrcd(other), 0);
}

/* ---- over rdma_cm --------------------------------------------------------------------------- */

#define PORT "17471"

static int masks(struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};
	int mask;

	return rdma_init_qp_attr(id, &a, &mask) ? -1 : mask;
}

static struct rdma_addrinfo *way_to(enum ibv_qp_type type, int flags)
{
	struct rdma_addrinfo hints = {
		.ai_flags = flags,
		.ai_port_space = RDMA_PS_IB,
		.ai_qp_type = type,
	};
	struct rdma_addrinfo *res = NULL;

	return rdma_getaddrinfo("127.0.0.1", PORT, &hints, &res) ? NULL : res;
}

static sem_t listening;

#define NEED(what)                            \
	do {                                  \
		if (!(what)) {                \
			sem_post(&listening); \
			return (void *)#what; \
		}                             \
	} while (0)

/* Takes one message; NULL, or what went wrong. A thread may not use cmocka's asserts. */
static void *serve(void *unused)
{
	struct rdma_addrinfo *res = way_to(IBV_QPT_XRC_RECV, RAI_PASSIVE);
	struct ibv_qp_init_attr qp = {.cap = {.max_recv_wr = 1, .max_recv_sge = 1}};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 2, .max_sge = 1}};
	const int responder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int requester = IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	struct rdma_cm_id *listener, *id;
	struct rdma_conn_param param = {0};
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char buf[16];
	uint32_t n;

	(void)unused;
	NEED(res);
	NEED(!rdma_create_ep(&listener, res, NULL, &qp));
	NEED(!rdma_listen(listener, 1));
	sem_post(&listening);
	NEED(!rdma_get_request(listener, &id));
	NEED(id->qp_type == IBV_QPT_XRC_RECV && id->qp && !id->qp->srq);
	NEED(!rdma_create_srq(id, NULL, &srq));
	NEED(!ibv_get_srq_num(id->srq, &n));
	mr = rdma_reg_msgs(id, buf, sizeof(buf));
	NEED(mr && !rdma_post_recv(id, NULL, buf, sizeof(buf), mr));
	NEED((masks(id, IBV_QPS_RTR) & responder) == responder);
	NEED((masks(id, IBV_QPS_RTS) & requester) == 0);
	param.private_data = &n;
	param.private_data_len = sizeof(n);
	NEED(!rdma_accept(id, &param));
	NEED(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	NEED(wc.qp_num == id->qp->qp_num && !memcmp(buf, "by rdma_cm", 11));
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(res);
	return NULL;
}

static void a_connection_carries_the_number_of_the_srq(void **state)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_send_sge = 1, .max_inline_data = 16},
		.sq_sig_all = 1};
	struct ibv_sge sge = {(uintptr_t) "by rdma_cm", 11, 0};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE},
			   *bad;
	struct rdma_addrinfo *res = way_to(IBV_QPT_XRC_SEND, 0);
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	pthread_t thread;
	void *fault;

	(void)state;
	assert_non_null(res);
	sem_init(&listening, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	sem_wait(&listening);
	assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
	assert_int_equal(id->qp->qp_type, IBV_QPT_XRC_SEND);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(
		masks(id, IBV_QPS_RTR) & (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	assert_true(masks(id, IBV_QPS_RTS) & IBV_QP_RETRY_CNT);
	memcpy(&wr.qp_type.xrc.remote_srqn, id->event->param.conn.private_data, sizeof(uint32_t));
	assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	rdma_disconnect(id);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
	pthread_join(thread, &fault);
	assert_null(fault);
	sem_destroy(&listening);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_bed, close_bed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_domain_is_found_again_by_its_file),
		TEST(what_is_in_use_stays),
		TEST(an_srq_of_xrc_needs_all_its_parts),
		TEST(messages_arrive_by_either_way_of_posting),
		TEST(an_atomic_write_goes_by_either_way_of_posting),
		TEST(an_srq_opened_through_the_file_is_reached_and_others_are_not),
		TEST(a_number_of_nobody_is_an_invalid_request),
		TEST(a_target_lives_until_its_last_opener_closes_it),
		cmocka_unit_test(a_connection_carries_the_number_of_the_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
