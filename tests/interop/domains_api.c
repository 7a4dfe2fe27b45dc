/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory, thread and parent domains with allocators, and what contexts import from each
 * other, by their contracts. A plain verbs program that runs on any library that has these.
 */
#include "joined.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- device memory --------------------------------------------------------------------------- */

static struct ibv_dm *dm_new(size_t length)
{
	struct ibv_alloc_dm_attr a = {.length = length, .log_align_req = 6};

	return ibv_alloc_dm(bed.ctx, &a);
}

static void device_memory_is_reached_by_offset(void **state)
{
	const int access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_dm *dm = dm_new(PAGE);
	struct ibv_mr *mr;
	uint8_t got[100];

	(void)state;
	assert_non_null(dm);
	mr = ibv_reg_dm_mr(bed.pd, dm, 1000, 2000, (unsigned int)access);
	assert_non_null(mr);
	assert_null(mr->addr);
	join();
	for (int i = 0; i < 100; i++)
		bed.buf[i] = (uint8_t)(i + 1);
	assert_int_equal(rdma(IBV_WR_RDMA_WRITE, bed.buf, bed.mr->lkey, 1900, mr->rkey, 100),
			 IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(got, dm, 2900, 100), 0);
	assert_memory_equal(got, bed.buf, 100);
	/* And from it, by its lkey. */
	memset(got, 0x44, sizeof(got));
	assert_int_equal(ibv_memcpy_to_dm(dm, 1000, got, 100), 0);
	assert_int_equal(rdma(IBV_WR_RDMA_WRITE, NULL, mr->lkey, (uintptr_t)bed.buf + PAGE,
			      bed.mr->rkey, 100),
			 IBV_WC_SUCCESS);
	assert_memory_equal(bed.buf + PAGE, got, 100);
	assert_int_equal(rdma(IBV_WR_RDMA_WRITE, bed.buf, bed.mr->lkey, 1901, mr->rkey, 100),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void bad_use_of_device_memory_is_told(void **state)
{
	struct ibv_device_attr_ex attr;
	struct ibv_alloc_dm_attr a = {.length = 100, .comp_mask = 1};
	struct ibv_dm *dm = dm_new(100), *most;
	char bytes[108];

	(void)state;
	assert_non_null(dm);
	assert_null(ibv_alloc_dm(bed.ctx, &a));
	assert_int_equal(errno, EINVAL);
	a = (struct ibv_alloc_dm_attr){.length = 100, .log_align_req = 70};
	assert_null(ibv_alloc_dm(bed.ctx, &a));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_device_ex(bed.ctx, NULL, &attr), 0);
	assert_true(attr.max_dm_size >= 1 << 17);
	assert_null(dm_new(attr.max_dm_size + 1));
	assert_int_equal(errno, EINVAL);
	assert_null(dm_new(attr.max_dm_size)); /* some is taken */
	assert_int_equal(errno, ENOMEM);

	assert_int_equal(ibv_memcpy_to_dm(dm, 3, bytes, 4), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, 4, 3), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, 104, 4), EFAULT);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, 0, 104), EFAULT);
	assert_int_equal(ibv_memcpy_from_dm(bytes, dm, UINT64_MAX - 3, 8), EFAULT);
	assert_null(ibv_reg_dm_mr(bed.pd, dm, 0, 100, IBV_ACCESS_LOCAL_WRITE)); /* not zero based */
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dm_mr(bed.pd, dm, 4, 100, IBV_ACCESS_ZERO_BASED));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dm_mr(bed.pd, dm, 0, 8, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_MW_BIND));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_free_dm(dm), 0);
	most = dm_new(attr.max_dm_size); /* it is all back */
	assert_non_null(most);
	assert_int_equal(ibv_free_dm(most), 0);
}

/* ---- parent domains -------------------------------------------------------------------------- */

static struct allocator {
	_Atomic int live;
	int calls;
	bool fail, by_default;
	_Atomic(void *) slow; /* release() takes its time, and leaves what it was given here */
	bool is_slow;
} allocator;

static void *allocate(struct ibv_pd *pd, void *context, size_t size, size_t align, uint64_t type)
{
	struct allocator *a = context;
	void *p;

	(void)pd, (void)type;
	assert_ptr_equal(a, &allocator);
	a->calls++;
	if (a->by_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (a->fail || posix_memalign(&p, align, size))
		return NULL;
	memset(p, 0, size);
	a->live++;
	return p;
}

static void release(struct ibv_pd *pd, void *context, void *p, uint64_t type)
{
	struct allocator *a = context;

	(void)pd, (void)type;
	a->live--;
	if (a->is_slow) {
		a->slow = p;
		usleep(20000);
	} else {
		free(p);
	}
}

static struct ibv_pd *parent_new(struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr a = {
		.pd = bed.pd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = allocate,
		.free = release,
		.pd_context = &allocator,
	};

	memset(&allocator, 0, sizeof(allocator));
	return ibv_alloc_parent_domain(bed.ctx, &a);
}

static struct ibv_cq_ex *cq_in(struct ibv_pd *pd)
{
	struct ibv_cq_init_attr_ex a = {
		.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = pd};

	return ibv_create_cq_ex(bed.ctx, &a);
}

static void queues_live_in_the_memory_of_their_parent_domain(void **state)
{
	struct ibv_pd *pd = parent_new(NULL);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq_attr more = {.max_wr = 100};
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;

	(void)state;
	assert_non_null(pd);
	join_in(pd);
	assert_int_equal(allocator.live, 2);
	memset(bed.buf, 3, 100);
	assert_int_equal(rdma(IBV_WR_RDMA_WRITE, bed.buf, bed.mr->lkey, (uintptr_t)bed.buf + PAGE,
			      bed.mr->rkey, 100),
			 IBV_WC_SUCCESS);
	assert_memory_equal(bed.buf + PAGE, bed.buf, 100);
	cq = cq_in(pd);
	srq = ibv_create_srq(pd, &sa);
	assert_true(cq && srq);
	assert_int_equal(allocator.live, 4);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	/* Resized, they are where they like. */
	assert_int_equal(ibv_modify_srq(srq, &more, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 100), 0);
	assert_int_equal(allocator.live, 2);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	part();
	assert_int_equal(allocator.live, 0);
	assert_int_equal(allocator.calls, 4);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void *resizes(void *cq)
{
	return ibv_resize_cq(cq, 100) ? cq : NULL;
}

static void the_memory_of_a_queue_is_given_back_once(void **state)
{
	struct ibv_pd *pd = parent_new(NULL);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(cq_in(pd));
	pthread_t t[2];
	void *failed;

	(void)state;
	allocator.is_slow = true;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, resizes, cq), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(t[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(allocator.live, 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(allocator.live, 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	free(allocator.slow);
}

static void an_allocator_may_decline_or_fail(void **state)
{
	struct ibv_qp_init_attr qa = {.send_cq = bed.cq,
				      .recv_cq = bed.cq,
				      .cap = {.max_send_wr = 1, .max_recv_wr = 1},
				      .qp_type = IBV_QPT_RC};
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_pd *pd = parent_new(NULL);

	(void)state;
	allocator.by_default = true;
	join_in(pd);
	assert_int_equal(allocator.calls, 2);
	assert_int_equal(allocator.live, 0);
	part();
	allocator.by_default = false;
	allocator.fail = true;
	assert_null(ibv_create_qp(pd, &qa));
	assert_int_equal(errno, ENOMEM);
	assert_null(ibv_create_srq(pd, &sa));
	assert_int_equal(errno, ENOMEM);
	assert_null(cq_in(pd));
	assert_int_equal(errno, ENOMEM);
	assert_null(cq_in(bed.pd)); /* no parent domain */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void a_parent_domain_is_its_domain_and_holds_what_it_is_of(void **state)
{
	struct ibv_td_init_attr ta = {0};
	struct ibv_td *td = ibv_alloc_td(bed.ctx, &ta);
	struct ibv_parent_domain_init_attr bad = {.pd = NULL};
	struct ibv_pd *other = ibv_alloc_pd(bed.ctx), *pd;
	struct ibv_parent_domain_init_attr plain = {.pd = other, .td = td};
	struct ibv_mr *mr;

	(void)state;
	assert_non_null(td);
	assert_null(ibv_alloc_parent_domain(bed.ctx, &bad));
	assert_int_equal(errno, EINVAL);
	bad = (struct ibv_parent_domain_init_attr){.pd = other, .comp_mask = 4};
	assert_null(ibv_alloc_parent_domain(bed.ctx, &bad));
	assert_int_equal(errno, EINVAL);
	ta.comp_mask = 1;
	assert_null(ibv_alloc_td(bed.ctx, &ta));
	assert_int_equal(errno, EINVAL);

	pd = ibv_alloc_parent_domain(bed.ctx, &plain);
	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	/* A region of the one is good in queue pairs of the other. */
	mr = ibv_reg_mr(other, bed.buf, PAGE, ALL);
	join_in(pd);
	assert_int_equal(
		rdma(IBV_WR_RDMA_WRITE, bed.buf, mr->lkey, (uintptr_t)bed.buf + 200, mr->rkey, 100),
		IBV_WC_SUCCESS);
	part();
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

/* ---- import ---------------------------------------------------------------------------------- */

static void imported_objects_are_the_same_under_another_name(void **state)
{
	struct ibv_context *ctx = ibv_import_device(dup(bed.ctx->cmd_fd));
	struct ibv_context *stranger = ibv_open_device(bed.ctx->device);
	struct ibv_dm *dm = dm_new(64), *dm2;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint32_t word = 0x12345678, got = 0;

	(void)state;
	assert_non_null(ctx);
	assert_ptr_equal(ctx->device, bed.ctx->device);
	pd = ibv_import_pd(ctx, bed.pd->handle);
	assert_non_null(pd);
	mr = ibv_import_mr(pd, bed.mr->handle);
	assert_non_null(mr);
	assert_null(mr->addr);
	assert_int_equal(mr->rkey, bed.mr->rkey);
	assert_int_equal(mr->length, bed.mr->length);
	join_in(pd);
	assert_int_equal(rdma(IBV_WR_RDMA_WRITE, bed.buf, mr->lkey, (uintptr_t)bed.buf + PAGE,
			      bed.mr->rkey, 100),
			 IBV_WC_SUCCESS);
	part();
	dm2 = ibv_import_dm(ctx, dm->handle);
	assert_non_null(dm2);
	assert_int_equal(ibv_memcpy_to_dm(dm, 0, &word, 4), 0);
	assert_int_equal(ibv_memcpy_from_dm(&got, dm2, 0, 4), 0);
	assert_int_equal(got, word);

	assert_null(ibv_import_pd(ctx, 0xdead));
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_import_mr(pd, bed.pd->handle)); /* of something else */
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_import_pd(stranger, bed.pd->handle)); /* opened by itself */
	assert_int_equal(errno, ENOENT);
	/* Whoever destroys it does so for both. */
	ibv_unimport_dm(dm);
	assert_int_equal(ibv_free_dm(dm2), 0);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(ibv_close_device(stranger), 0);
}

/* Nothing says that the view which a parent domain was made of is unimported after it; a program
 * under AddressSanitizer sees what is wrong with that. */
static void a_parent_domain_outlives_the_view_it_was_made_of(void **state)
{
	struct ibv_context *ctx = ibv_import_device(dup(bed.ctx->cmd_fd));
	struct ibv_parent_domain_init_attr a = {0};
	struct ibv_pd *parent;

	(void)state;
	assert_non_null(ctx);
	a.pd = ibv_import_pd(ctx, bed.pd->handle);
	assert_non_null(a.pd);
	parent = ibv_alloc_parent_domain(ctx, &a);
	assert_non_null(parent);
	ibv_unimport_pd(a.pd);
	join_in(parent);
	assert_int_equal(rdma(IBV_WR_RDMA_WRITE, bed.buf, bed.mr->lkey, (uintptr_t)bed.buf + PAGE,
			      bed.mr->rkey, 100),
			 IBV_WC_SUCCESS);
	part();
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void what_is_no_device_is_not_imported(void **state)
{
	int null = open("/dev/null", O_RDONLY), pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_null(ibv_import_device(-1));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_device(null));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_device(pipes[0]));
	assert_int_equal(errno, EINVAL);
	close(null);
	close(pipes[0]);
	close(pipes[1]);
}

/* Another process opens the same device by the descriptor it is handed; there it finds nothing. */
static void another_process_imports_the_device_alone(void **state)
{
	int fd = dup(bed.ctx->cmd_fd), status;
	uint32_t handle = bed.pd->handle;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		struct ibv_context *ctx = ibv_import_device(fd);
		struct ibv_pd *own;

		if (!ctx || strcmp(ctx->device->name, bed.ctx->device->name))
			_exit(1);
		if (ibv_import_pd(ctx, handle) || errno != EOPNOTSUPP)
			_exit(2);
		own = ibv_alloc_pd(ctx);
		_exit(own && !ibv_dealloc_pd(own) && !ibv_close_device(ctx) ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(device_memory_is_reached_by_offset),
		T(bad_use_of_device_memory_is_told),
		T(queues_live_in_the_memory_of_their_parent_domain),
		T(the_memory_of_a_queue_is_given_back_once),
		T(an_allocator_may_decline_or_fail),
		T(a_parent_domain_is_its_domain_and_holds_what_it_is_of),
		T(imported_objects_are_the_same_under_another_name),
		T(a_parent_domain_outlives_the_view_it_was_made_of),
		T(what_is_no_device_is_not_imported),
		T(another_process_imports_the_device_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
