/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a program's log says of calls that are refused and queue pairs that fail, and vendor_err.
 * A plain verbs program; one queue pair of the first device talks to itself. The level is read
 * once, so that each case is a process of its own: this program, with the case's name.
 */
#include "first_device.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lone_qp lone;
static uint8_t buf[4096];
static const char *self;

/* ---- what a case does --------------------------------------------------------------------------
 */

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = lone.cq,
		.recv_cq = lone.cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = lone.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(lone.ctx, &init);

	assert_non_null(qp);
	return qp;
}

static void refused_calls(void)
{
	struct ibv_qp_attr to_rts = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp_attr to_init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_send_wr wr = {.wr_id = 0x77, .opcode = IBV_WR_SEND}, *bad;
	struct rdma_cm_id *id;
	struct ibv_qp *qp = new_qp();
	struct ibv_qp_ex *ex;

	assert_null(ibv_create_cq(lone.ctx, 1 << 30, NULL, NULL, 0));
	assert_int_equal(ibv_modify_qp(qp, &to_rts, IBV_QP_STATE), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &to_init, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	ex = ibv_qp_to_qp_ex(qp);
	for (int i = 0; i < 2; i++) { /* refused as it is posted, and as it is built */
		ibv_wr_start(ex);
		ex->wr_id = 0x78 + (uint64_t)i;
		ex->wr_flags = i ? 1u << 30 : 0;
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, lone.mr->lkey, (uintptr_t)buf, 1);
		ex->wr_id = 0x7a;
		assert_int_equal(ibv_wr_complete(ex), EINVAL);
	}
	assert_int_equal(ibv_destroy_cq(lone.cq), EBUSY);
	assert_int_equal(ibv_resize_cq(lone.cq, 0), EINVAL);
	assert_int_equal(ibv_dealloc_pd(lone.pd), EBUSY);
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_listen(id, 1), 0);
	errno = 0;
	assert_int_equal(rdma_resolve_route(id, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void failing_requests(void)
{
	struct ibv_sge sge = {(uintptr_t)buf, 64, lone.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 0x88,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE},
			   *bad;
	struct ibv_wc wc;
	struct ibv_qp *qp;

	for (int i = 0; i < 2; i++) {
		qp = new_qp();
		bring_up(qp, qp->qp_num, to_itself(lone.ctx), IBV_ACCESS_REMOTE_WRITE, IBV_QPS_RTS);
		sge.lkey = lone.mr->lkey ^ (i ? 0 : 0x5500);
		wr.wr.rdma.remote_addr = (uintptr_t)buf;
		wr.wr.rdma.rkey = lone.mr->rkey; /* which gives no right to write */
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		wc = next_wc(lone.cq);
		assert_int_equal(wc.wr_id, 0x88);
		if (i) /* refused by itself: the completion may be of either end's making */
			assert_true(wc.status == IBV_WC_REM_ACCESS_ERR ||
				    wc.status == IBV_WC_WR_FLUSH_ERR);
		else
			assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
		assert_int_not_equal(wc.vendor_err, 0);
		if (!i)
			assert_int_equal(wc.vendor_err, 1);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
}

/* As everybody ends: what was posted is flushed. */
static void ordinary_end(void)
{
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp *qp = new_qp();
	struct ibv_wc wc;

	bring_up(qp, qp->qp_num, to_itself(lone.ctx), 0, IBV_QPS_RTS);
	assert_int_equal(ibv_post_recv(qp, &recv, &bad), 0);
	assert_int_equal(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
	wc = next_wc(lone.cq);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.vendor_err, 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static int act(const char *what)
{
	lone_qp_open(&lone, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	lone.cq = ibv_create_cq(lone.ctx, 16, NULL, NULL, 0);
	if (strchr(what, 'c'))
		refused_calls();
	if (strchr(what, 'f'))
		failing_requests();
	if (strchr(what, 'e'))
		ordinary_end();
	return 0;
}

/* ---- what it logs ------------------------------------------------------------------------------
 */

/* The lines of a process that does so at that level, without the broker's and the engine's. */
static const char *logged(const char *level, const char *what)
{
	static char text[8192];
	char path[] = "/tmp/weft-log-XXXXXX";
	int fd = mkstemp(path), status;
	ssize_t n;
	pid_t pid;

	assert_true(fd >= 0);
	unlink(path);
	pid = fork();
	if (!pid) {
		dup2(fd, STDERR_FILENO);
		if (level)
			setenv("WEFT_LOG", level, 1);
		else
			unsetenv("WEFT_LOG");
		execl(self, self, what, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = pread(fd, text, sizeof(text) - 1, 0);
	close(fd);
	assert_true(n >= 0);
	text[n] = '\0';
	if (status)
		print_error("%s", text);
	assert_int_equal(status, 0);
	return text;
}

static void says(const char *log, const char *words)
{
	if (!strstr(log, words))
		print_error("no \"%s\" in:\n%s", words, log);
	assert_non_null(strstr(log, words));
}

static void refused_calls_say_why_at_debug(void **state)
{
	const char *log = logged("debug", "c");

	(void)state;
	says(log, "weft verbs: cq_create: Invalid argument");
	says(log, " from RESET to RTS with attributes 0x1: there is no such transition");
	says(log, " from RESET to INIT with attributes 0x21: the attributes 0x18 are missing");
	says(log, "weft verbs: ibv_post_send: queue pair 0x");
	says(log, ", RESET: wr_id 0x77: Invalid argument");
	says(log, ", RESET: wr_id 0x78: Invalid argument");
	says(log, ", RESET: wr_id 0x79: Invalid argument");
	says(log, "weft verbs: ibv_resize_cq: Invalid argument");
	says(log, "weft verbs: ibv_dealloc_pd: Device or resource busy");
	says(log, "weft verbs: ibv_destroy_cq: Device or resource busy");
	says(log, "weft rdmacm: rdma_resolve_route: Invalid argument");
}

static void queue_pairs_that_fail_say_why_at_info(void **state)
{
	const char *log = logged("info", "f");

	(void)state;
	says(log, "weft qp: queue pair 0x");
	says(log,
	     " fails by RDMA_WRITE of wr_id 0x88: vendor_err 1: No memory region has this lkey.");
	says(log, " fails by the peer's RC_WRITE_ONLY: vendor_err 13: The rkey does not give this "
		  "right. (key 0x");
	assert_null(strstr(logged("info", "c"), "weft verbs"));
}

static void the_default_level_is_silent_of_all_that(void **state)
{
	(void)state;
	assert_string_equal(logged(NULL, "cfe"), "");
}

static void an_ordinary_end_is_no_failure(void **state)
{
	(void)state;
	assert_null(strstr(logged("debug", "e"), "weft qp"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_calls_say_why_at_debug),
		cmocka_unit_test(queue_pairs_that_fail_say_why_at_info),
		cmocka_unit_test(the_default_level_is_silent_of_all_that),
		cmocka_unit_test(an_ordinary_end_is_no_failure),
	};

	self = argv[0];
	return argc > 1 ? act(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
