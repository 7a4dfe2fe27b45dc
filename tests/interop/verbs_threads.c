/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the manual pages let several threads do at once with the objects of verbs. The sanitizers
 * watch. Each test has threads that go on doing one thing while the test itself does another;
 * asserting is for the latter alone.
 */
#include "first_device.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 100, DEPTH = 64, BUF = 4096, OTHERS = 3 };

static struct bed {
	struct lone_qp lone; /* sends to itself */
	struct ibv_srq *srq;
	uint8_t buf[BUF];
} bed;

static const unsigned int access_all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

static struct ibv_qp *qp_in(struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = bed.lone.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(bed.lone.ctx, &a);

	assert_non_null(qp);
	return qp;
}

static void loop_back(struct ibv_qp *qp)
{
	bring_up(qp, qp->qp_num, to_itself(bed.lone.ctx), access_all, IBV_QPS_RTS);
}

static int open_bed(void **state)
{
	(void)state;
	lone_qp_open(&bed.lone, bed.buf, BUF, access_all);
	assert_int_equal(fcntl(bed.lone.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(fcntl(bed.lone.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	bed.lone.cq = ibv_create_cq(bed.lone.ctx, 4 * DEPTH, NULL, NULL, 0);
	assert_non_null(bed.lone.cq);
	bed.lone.qp = qp_in(bed.lone.cq, NULL);
	loop_back(bed.lone.qp);
	return 0;
}

static int close_bed(void **state)
{
	(void)state;
	lone_qp_close(&bed.lone);
	return 0;
}

/* ---- other threads --------------------------------------------------------------------------- */

static struct others {
	pthread_t threads[OTHERS];
	int count;
	void (*act)(void);
	sem_t begun;
	atomic_bool stop;
} others;

/* Of these threads: what failed, told by the test itself at the end. */
static _Atomic(const char *) failed;

#define MUST(what)                      \
	do {                            \
		if (!(what))            \
			failed = #what; \
	} while (0)

static void *go_on(void *arg)
{
	void (*act)(void) = *(void (**)(void))arg;

	sem_post(&others.begun);
	while (!others.stop)
		act();
	return NULL;
}

static void begin(void (**acts)(void), int count)
{
	others.stop = false;
	failed = NULL;
	sem_init(&others.begun, 0, 0);
	for (others.count = 0; others.count < count; others.count++)
		assert_int_equal(pthread_create(&others.threads[others.count], NULL, go_on,
						&acts[others.count]),
				 0);
	for (int i = 0; i < count; i++)
		sem_wait(&others.begun);
}

static void end(void)
{
	others.stop = true;
	while (others.count)
		pthread_join(others.threads[--others.count], NULL);
	if (failed)
		fail_msg("in another thread: %s", failed);
}

#define BESIDE(...)                           \
	void (*acts[])(void) = {__VA_ARGS__}; \
	begin(acts, (int)(sizeof(acts) / sizeof(*acts)))

/* ---- what they do ---------------------------------------------------------------------------- */

static bool is_one_of(int error, int a, int b, int c)
{
	return error == a || error == b || error == c;
}

/* Full queues and queue pairs in other states refuse. */
static void post_both(void)
{
	struct ibv_sge sge = {(uintptr_t)bed.buf, 8, bed.lone.mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	MUST(is_one_of(ibv_post_recv(bed.lone.qp, &recv, &bad_recv), 0, ENOMEM, EINVAL));
	MUST(is_one_of(ibv_post_send(bed.lone.qp, &send, &bad), 0, ENOMEM, EINVAL));
}

static void poll_cq(void)
{
	struct ibv_wc wc[8];

	MUST(ibv_poll_cq(bed.lone.cq, 8, wc) >= 0);
	MUST(ibv_req_notify_cq(bed.lone.cq, 0) == 0);
}

static void query(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	MUST(ibv_query_qp(bed.lone.qp, &a, IBV_QP_STATE | IBV_QP_AV, &init) == 0);
}

static void resize(void)
{
	/* Not to less than is in it. */
	MUST(is_one_of(ibv_resize_cq(bed.lone.cq, 4 * DEPTH), 0, EINVAL, EINVAL));
	MUST(ibv_resize_cq(bed.lone.cq, 8 * DEPTH) == 0);
}

static void write_batch(void)
{
	struct ibv_qp_ex *qx = ibv_qp_to_qp_ex(bed.lone.qp);

	ibv_wr_start(qx);
	for (int i = 0; i < 3; i++) {
		qx->wr_id = (uint64_t)i;
		qx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qx, bed.lone.mr->rkey, (uintptr_t)bed.buf + BUF / 2);
		ibv_wr_set_sge(qx, bed.lone.mr->lkey, (uintptr_t)bed.buf, 8);
	}
	MUST(is_one_of(ibv_wr_complete(qx), 0, ENOMEM, ENOMEM));
}

static void look_for_devices(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list && list[0]);
	ibv_free_device_list(list);
}

static void open_and_close(void)
{
	struct ibv_context *c = ibv_open_device(bed.lone.ctx->device);
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_cq *cq = ibv_create_cq(c, 8, NULL, NULL, 0);

	MUST(cq && ibv_destroy_cq(cq) == 0);
	MUST(pd && ibv_dealloc_pd(pd) == 0);
	MUST(ibv_close_device(c) == 0);
}

static void register_memory(void)
{
	static __thread uint8_t mem[BUF];
	struct ibv_mr *mr =
		ibv_reg_mr(bed.lone.pd, mem, BUF, (int)access_all | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)mem, BUF, mr->lkey};

	MUST(ibv_advise_mr(bed.lone.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1) == 0);
	MUST(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) ==
	     0);
	MUST(ibv_dereg_mr(mr) == 0);
}

static atomic_uint cq_events, async_events;

/* Events are acknowledged as late as may be. */
static void take_cq_event(void)
{
	struct pollfd p = {.fd = bed.lone.channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	if (poll(&p, 1, 5) < 1 || ibv_get_cq_event(bed.lone.channel, &cq, &context))
		return;
	cq_events++;
	nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	ibv_ack_cq_events(cq, 1);
}

static void take_async_event(void)
{
	struct pollfd p = {.fd = bed.lone.ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&p, 1, 5) < 1 || ibv_get_async_event(bed.lone.ctx, &ev))
		return;
	async_events++;
	nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	ibv_ack_async_event(&ev);
}

static void change_srq(void)
{
	struct ibv_srq_attr a = {.max_wr = 2 * DEPTH, .srq_limit = 2};

	/* Not to less than is in it. */
	MUST(is_one_of(ibv_modify_srq(bed.srq, &a, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0, EINVAL,
		       EINVAL));
	a.max_wr = 4 * DEPTH;
	MUST(ibv_modify_srq(bed.srq, &a, IBV_SRQ_MAX_WR) == 0);
	MUST(ibv_query_srq(bed.srq, &a) == 0);
}

static void feed_srq(void)
{
	struct ibv_recv_wr recv = {0}, *bad;

	MUST(is_one_of(ibv_post_srq_recv(bed.srq, &recv, &bad), 0, ENOMEM, ENOMEM));
}

static void come_and_go(void)
{
	const union ibv_gid g = {.raw = {[10] = 0xff, 0xff, 239, 7, 7, 11}};
	struct ibv_xrcd_init_attr a = {.comp_mask =
					       IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = bed.lone.channel->fd,
				       .oflags = O_CREAT};
	struct ibv_xrcd *x = ibv_open_xrcd(bed.lone.ctx, &a);
	struct ibv_qp_init_attr q = {.send_cq = bed.lone.cq,
				     .recv_cq = bed.lone.cq,
				     .cap = {.max_send_wr = 1, .max_recv_wr = 1},
				     .qp_type = IBV_QPT_UD};
	struct ibv_qp *qp = ibv_create_qp(bed.lone.pd, &q);

	MUST(ibv_attach_mcast(qp, &g, 0) == 0);
	MUST(ibv_detach_mcast(qp, &g, 0) == 0);
	MUST(ibv_destroy_qp(qp) == 0);
	MUST(ibv_close_xrcd(x) == 0);
}

/*
 * Until another thread has an event out: one that polls for completions leaves the others no
 * processor, where those are few and busy.
 */
static void await_event(atomic_uint *events, unsigned before)
{
	for (int ms = 0; *events == before; ms++) {
		assert_true(ms < 10000);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void a_queue_pair_changes_while_others_ask_and_post(void **state)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET}, err = {.qp_state = IBV_QPS_ERR};

	(void)state;
	BESIDE(query, post_both, poll_cq);
	for (int i = 0; i < ROUNDS; i++) {
		if (i % 2)
			assert_int_equal(ibv_modify_qp(bed.lone.qp, &err, IBV_QP_STATE), 0);
		assert_int_equal(ibv_modify_qp(bed.lone.qp, &reset, IBV_QP_STATE), 0);
		loop_back(bed.lone.qp);
	}
	end();
}

static void a_completion_queue_is_resized_by_several(void **state)
{
	(void)state;
	BESIDE(resize, resize, poll_cq);
	for (int i = 0; i < ROUNDS; i++)
		post_both();
	end();
}

static void batches_of_several_threads_keep_apart(void **state)
{
	(void)state;
	BESIDE(write_batch, write_batch, poll_cq);
	for (int i = 0; i < ROUNDS; i++)
		write_batch();
	end();
}

static void devices_are_looked_for_while_one_is_asked(void **state)
{
	struct ibv_device_attr a;

	(void)state;
	BESIDE(look_for_devices, look_for_devices);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_not_equal(ibv_get_device_guid(bed.lone.ctx->device), 1);
		assert_int_equal(ibv_query_device(bed.lone.ctx, &a), 0);
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	end();
}

/* Of the library's own, as ibv_devices and others call it; most of the time it has the list's lock.
 */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static bool is_listed(void)
{
	char version[64];

	return ibv_read_sysfs_file(bed.lone.ctx->device->ibdev_path, "fw_ver", version,
				   sizeof(version)) > 0;
}

static void look_at_the_list(void)
{
	MUST(is_listed());
}

static void a_child_finds_the_devices_whatever_its_parent_was_doing(void **state)
{
	(void)state;
	BESIDE(look_at_the_list, look_at_the_list, look_for_devices);
	for (int i = 0; i < 3 * ROUNDS; i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0) {
			alarm(10);
			_exit(!is_listed());
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	end();
}

static void contexts_come_and_go_beside_one_in_use(void **state)
{
	(void)state;
	BESIDE(open_and_close, open_and_close, register_memory);
	for (int i = 0; i < ROUNDS; i++) {
		post_both();
		poll_cq();
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	end();
}

static void a_completion_queue_goes_while_its_event_is_out(void **state)
{
	(void)state;
	BESIDE(take_cq_event, take_cq_event);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_cq *cq = ibv_create_cq(bed.lone.ctx, 8, NULL, bed.lone.channel, 0);
		struct ibv_sge sge = {(uintptr_t)bed.buf, 8, bed.lone.mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED},
				   *bad;
		struct ibv_qp *qp;
		unsigned before = cq_events;

		assert_non_null(cq);
		assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
		qp = qp_in(cq, NULL);
		loop_back(qp);
		wr.wr.rdma.remote_addr = (uintptr_t)bed.buf + BUF / 2;
		wr.wr.rdma.rkey = bed.lone.mr->rkey;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		if (i % 2)
			next_wc(cq);
		if (i % 4 == 3)
			await_event(&cq_events, before);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
	end();
}

static void a_queue_pair_goes_while_its_event_is_out(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 1}};

	(void)state;
	BESIDE(take_async_event, take_async_event);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_srq *srq = ibv_create_srq(bed.lone.pd, &init);
		struct ibv_srq_attr limit = {.srq_limit = 1};
		struct ibv_sge sge = {(uintptr_t)bed.buf, 8, bed.lone.mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED},
				   *bad;
		struct ibv_recv_wr recv = {0}, *bad_recv;
		struct ibv_qp *qp;
		unsigned before = async_events;

		assert_non_null(srq);
		assert_int_equal(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
		assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
		qp = qp_in(bed.lone.cq, srq);
		loop_back(qp);
		/* A message takes the one receive; an RDMA WRITE with a bad key is an error. */
		wr.opcode = IBV_WR_SEND;
		wr.num_sge = 0;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.num_sge = 1;
		assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
		while (next_wc(bed.lone.cq).status == IBV_WC_SUCCESS)
			;
		if (i % 2)
			await_event(&async_events, before);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		assert_int_equal(ibv_destroy_srq(srq), 0);
	}
	end();
}

static void a_shared_receive_queue_changes_while_it_is_used(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 2 * DEPTH, .max_sge = 1}};
	struct ibv_qp *own = bed.lone.qp;

	(void)state;
	bed.srq = ibv_create_srq(bed.lone.pd, &init);
	assert_non_null(bed.srq);
	bed.lone.qp = qp_in(bed.lone.cq, bed.srq);
	loop_back(bed.lone.qp);
	{
		BESIDE(change_srq, feed_srq, take_async_event);
		for (int i = 0; i < ROUNDS; i++) {
			post_both();
			poll_cq();
		}
		end();
	}
	assert_int_equal(ibv_destroy_qp(bed.lone.qp), 0);
	assert_int_equal(ibv_destroy_srq(bed.srq), 0);
	bed.lone.qp = own;
}

static void domains_and_groups_are_come_to_by_several(void **state)
{
	(void)state;
	BESIDE(come_and_go, come_and_go);
	for (int i = 0; i < ROUNDS / 4; i++)
		come_and_go();
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, open_bed, close_bed)
		T(a_queue_pair_changes_while_others_ask_and_post),
		T(a_completion_queue_is_resized_by_several),
		T(batches_of_several_threads_keep_apart),
		T(devices_are_looked_for_while_one_is_asked),
		T(a_child_finds_the_devices_whatever_its_parent_was_doing),
		T(contexts_come_and_go_beside_one_in_use),
		T(a_completion_queue_goes_while_its_event_is_out),
		T(a_queue_pair_goes_while_its_event_is_out),
		T(a_shared_receive_queue_changes_while_it_is_used),
		T(domains_and_groups_are_come_to_by_several),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
