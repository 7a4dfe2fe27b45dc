/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What can be done with memory, by its contract: regions that change, windows of type 1, on-demand
 * memory, DMA buffers, null regions. A plain verbs program that runs on any library that has these.
 */
#include "../skip.h"
#include "joined.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static enum ibv_wc_status write_to(const struct ibv_mr *mr, size_t offset, uint32_t length)
{
	return rdma(IBV_WR_RDMA_WRITE, bed.buf, bed.mr->lkey, (uintptr_t)mr->addr + offset,
		    mr->rkey, length);
}

/* Linux 5.14 and later tell what a touch would meet; before, there is nothing to be tested here. */
static void needs_a_kernel_that_populates(void)
{
	enum { POPULATE_READ = 22 };

	if (madvise(bed.buf, PAGE, POPULATE_READ) && errno == EINVAL)
		SKIP_CASE("Linux before 5.14 does not tell what a touch would meet");
}

/* ---- registering ----------------------------------------------------------------------------- */

static void a_region_must_have_the_rights_of_its_pages(void **state)
{
	uint8_t *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const int writing[] = {
		IBV_ACCESS_LOCAL_WRITE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_MW_BIND,
	};
	struct ibv_mr *mr;
	int fd = memfd_create("short", 0);
	void *short_file = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

	(void)state;
	needs_a_kernel_that_populates();
	for (size_t i = 0; i < sizeof(writing) / sizeof(writing[0]); i++) {
		assert_null(ibv_reg_mr(bed.pd, p, PAGE, writing[i]));
		assert_int_equal(errno, EFAULT);
	}
	mr = ibv_reg_mr(bed.pd, p, PAGE, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* Mapped, but beyond the end of its file. */
	assert_null(ibv_reg_mr(bed.pd, short_file, PAGE, 0));
	assert_int_equal(errno, EFAULT);
	assert_null(ibv_reg_mr(bed.pd, p, 0, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr_iova2(bed.pd, bed.buf, PAGE, 0, 1 << 15));
	assert_int_equal(errno, EINVAL);
	munmap(short_file, PAGE);
	munmap(p, PAGE);
	close(fd);
}

static void registering_changes_no_byte(void **state)
{
	struct ibv_mr *mr;

	(void)state;
	for (size_t i = 0; i < BUF; i++)
		bed.buf[i] = (uint8_t)(i * 7);
	mr = ibv_reg_mr(bed.pd, bed.buf, BUF, ALL);
	assert_non_null(mr);
	for (size_t i = 0; i < BUF; i++)
		assert_int_equal(bed.buf[i], (uint8_t)(i * 7));
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* ---- changing -------------------------------------------------------------------------------- */

static void rereg_changes_what_it_is_told_and_keeps_the_keys(void **state)
{
	struct ibv_pd *other = ibv_alloc_pd(bed.ctx);
	struct ibv_mr *mr = ibv_reg_mr(bed.pd, bed.buf, PAGE, IBV_ACCESS_LOCAL_WRITE);
	uint32_t rkey = mr->rkey;

	(void)state;
	join();
	memset(bed.buf, 5, 100);
	assert_int_equal(write_to(mr, 0, 8), IBV_WC_REM_ACCESS_ERR);
	join();
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), 0);
	assert_int_equal(write_to(mr, 2000, 8), IBV_WC_SUCCESS);
	/* All three at once. */
	assert_int_equal(ibv_rereg_mr(mr,
				      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
					      IBV_REREG_MR_CHANGE_ACCESS,
				      other, bed.buf + 2 * PAGE, 2 * PAGE,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
			 0);
	assert_ptr_equal(mr->pd, other);
	assert_ptr_equal(mr->addr, bed.buf + 2 * PAGE);
	assert_int_equal(mr->length, 2 * PAGE);
	assert_int_equal(mr->rkey, rkey);
	assert_int_equal(ibv_dealloc_pd(other), EBUSY);
	assert_int_equal(write_to(mr, 0, 8), IBV_WC_REM_ACCESS_ERR); /* of another domain */
	join();
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, bed.pd, NULL, 0, 0), 0);
	assert_int_equal(write_to(mr, PAGE + 100, 100), IBV_WC_SUCCESS);
	assert_memory_equal(bed.buf + 3 * PAGE + 100, bed.buf, 100);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void rereg_tells_what_was_wrong_and_changes_nothing(void **state)
{
	enum {
		MOVE = IBV_REREG_MR_CHANGE_TRANSLATION,
		TO_PD = IBV_REREG_MR_CHANGE_PD,
		RIGHTS = IBV_REREG_MR_CHANGE_ACCESS
	};
	void *gone = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *fixed = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct {
		int flags;
		void *addr;
		size_t length;
		int access, rc, err;
	} bad[] = {
		{MOVE, NULL, PAGE, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
		{MOVE, bed.buf, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
		{1 << 5, NULL, 0, 0, IBV_REREG_MR_ERR_INPUT, EINVAL},
		{TO_PD, NULL, 0, ALL, IBV_REREG_MR_ERR_INPUT, EINVAL}, /* rights unasked for */
		{0, NULL, 0, 0, IBV_REREG_MR_ERR_CMD, EINVAL},
		{TO_PD, NULL, 0, 0, IBV_REREG_MR_ERR_CMD, EINVAL},
		{RIGHTS, NULL, 0, IBV_ACCESS_REMOTE_WRITE, IBV_REREG_MR_ERR_CMD, EINVAL},
		{MOVE, gone, PAGE, 0, IBV_REREG_MR_ERR_CMD, EFAULT},
		{MOVE, fixed, PAGE, 0, IBV_REREG_MR_ERR_CMD, EFAULT}, /* it has local write */
	};
	struct ibv_mr *mr = ibv_reg_mr(bed.pd, bed.buf, PAGE, ALL), *null;

	(void)state;
	needs_a_kernel_that_populates();
	munmap(gone, PAGE);
	join();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_int_equal(ibv_rereg_mr(mr, bad[i].flags, NULL, bad[i].addr, bad[i].length,
					      bad[i].access),
				 bad[i].rc);
		assert_int_equal(errno, bad[i].err);
		assert_int_equal(write_to(mr, 0, 8), IBV_WC_SUCCESS);
	}
	null = ibv_alloc_null_mr(bed.pd);
	assert_non_null(null);
	assert_int_equal(ibv_rereg_mr(null, RIGHTS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(null), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(fixed, PAGE);
}

/* ---- windows of type 1 ----------------------------------------------------------------------- */

static int bind1(struct ibv_mw *mw, struct ibv_mr *mr, size_t offset, size_t length, int access)
{
	struct ibv_mw_bind b = {
		.bind_info = {.mr = mr,
			      .addr = mr ? (uintptr_t)bed.buf + offset : 0,
			      .length = length,
			      .mw_access_flags = (unsigned int)access},
	};

	return ibv_bind_mw(bed.qp[1], mw, &b);
}

static enum ibv_wc_status write_by(uint32_t rkey, size_t offset)
{
	return rdma(IBV_WR_RDMA_WRITE, bed.buf, bed.mr->lkey, (uintptr_t)bed.buf + offset, rkey,
		    100);
}

static void a_window_of_type_1_opens_moves_and_closes(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(bed.pd, IBV_MW_TYPE_1);
	uint32_t first, key;

	(void)state;
	assert_non_null(mw);
	join();
	memset(bed.buf, 9, 100);
	first = mw->rkey;
	assert_int_equal(bind1(mw, bed.mr, PAGE, 100, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(mw->rkey, ibv_inc_rkey(first));
	assert_int_equal(next_status(), IBV_WC_SUCCESS);
	assert_int_equal(write_by(mw->rkey, PAGE), IBV_WC_SUCCESS);
	assert_memory_equal(bed.buf + PAGE, bed.buf, 100);
	assert_int_equal(ibv_dereg_mr(bed.mr), EBUSY);
	assert_int_equal(ibv_rereg_mr(bed.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EBUSY);
	key = mw->rkey;
	assert_int_equal(bind1(mw, bed.mr, 2 * PAGE, 100, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(next_status(), IBV_WC_SUCCESS);
	assert_int_equal(write_by(mw->rkey, 2 * PAGE), IBV_WC_SUCCESS);
	assert_int_equal(write_by(key, PAGE), IBV_WC_REM_ACCESS_ERR); /* the old key */
	join(); /* the window is the domain's: these are other queue pairs */
	assert_int_equal(write_by(mw->rkey, 2 * PAGE), IBV_WC_SUCCESS);
	assert_int_equal(bind1(mw, NULL, 0, 0, 0), 0);
	assert_int_equal(next_status(), IBV_WC_SUCCESS);
	assert_int_equal(write_by(mw->rkey, 2 * PAGE), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void a_window_of_type_1_is_bound_by_its_own_verb_to_its_own_domain(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(bed.pd, IBV_MW_TYPE_1);
	struct ibv_mw *mw2 = ibv_alloc_mw(bed.pd, IBV_MW_TYPE_2);
	struct ibv_pd *other = ibv_alloc_pd(bed.ctx);
	struct ibv_mr *foreign = ibv_reg_mr(other, bed.buf, PAGE, ALL);
	struct ibv_send_wr *bad, wr = {
					 .opcode = IBV_WR_BIND_MW,
					 .bind_mw = {.mw = mw,
						     .rkey = mw->rkey + 1,
						     .bind_info = {.mr = bed.mr,
								   .addr = (uintptr_t)bed.buf,
								   .length = 8}},
				 };
	uint32_t rkey = mw->rkey;

	(void)state;
	join();
	assert_int_equal(bind1(mw2, bed.mr, 0, 8, 0), EINVAL);
	assert_int_equal(bind1(mw, foreign, 0, 8, 0), EPERM);
	assert_int_equal(bind1(mw, bed.mr, 0, 8, IBV_ACCESS_ZERO_BASED), EINVAL);
	assert_int_equal(bind1(mw, NULL, 0, 8, 0), EINVAL);
	assert_int_equal(ibv_post_send(bed.qp[1], &wr, &bad), EINVAL);
	assert_int_equal(mw->rkey, rkey);
	assert_null(ibv_alloc_mw(bed.pd, (enum ibv_mw_type)3));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dealloc_mw(mw2), 0);
}

/* ---- windows on UC ----------------------------------------------------------------------------
 */

static void a_window_opens_and_closes_on_uc_by_the_new_interface_too(void **state)
{
	struct ibv_mw *mw = ibv_alloc_mw(bed.pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {.mr = bed.mr,
					.addr = (uintptr_t)bed.buf + PAGE,
					.length = 100,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_qp_ex *qpx;
	time_t end = time(NULL) + 10;

	(void)state;
	join_uc(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_RDMA_WRITE);
	qpx = ibv_qp_to_qp_ex(bed.qp[1]);
	ibv_wr_start(qpx);
	ibv_wr_bind_mw(qpx, mw, rkey, &info);
	assert_int_equal(ibv_wr_complete(qpx), 0);
	assert_int_equal(next_status(), IBV_WC_SUCCESS);
	memset(bed.buf, 21, 100);
	assert_int_equal(write_by(rkey, PAGE), IBV_WC_SUCCESS);
	while (*(volatile uint8_t *)(bed.buf + PAGE + 99) != 21) /* nobody acknowledges */
		assert_true(time(NULL) < end);
	ibv_wr_start(qpx);
	ibv_wr_local_inv(qpx, rkey);
	assert_int_equal(ibv_wr_complete(qpx), 0);
	assert_int_equal(next_status(), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* ---- null regions ---------------------------------------------------------------------------- */

static void a_null_region_gives_zeros(void **state)
{
	static const uint8_t zeros[3000];
	struct ibv_mr *null = ibv_alloc_null_mr(bed.pd);

	(void)state;
	assert_non_null(null);
	join();
	memset(bed.buf, 7, BUF);
	assert_int_equal(rdma(IBV_WR_RDMA_WRITE, NULL, null->lkey, (uintptr_t)bed.buf, bed.mr->rkey,
			      sizeof(zeros)),
			 IBV_WC_SUCCESS);
	assert_memory_equal(bed.buf, zeros, sizeof(zeros));
	assert_int_equal(bed.buf[sizeof(zeros)], 7);
	/* And takes what it is given, wherever. */
	assert_int_equal(rdma(IBV_WR_RDMA_READ, (void *)12345, null->lkey, (uintptr_t)bed.buf,
			      bed.mr->rkey, sizeof(zeros)),
			 IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(null), 0);
}

/* ---- on-demand memory ------------------------------------------------------------------------ */

static void on_demand_memory_is_looked_at_when_it_is_used(void **state)
{
	uint8_t *p = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(bed.pd, p, 2 * PAGE, ALL | IBV_ACCESS_ON_DEMAND);

	(void)state;
	needs_a_kernel_that_populates();
	assert_non_null(mr);
	join();
	assert_int_equal(write_to(mr, 0, 100), IBV_WC_REM_ACCESS_ERR);
	join();
	mprotect(p, 2 * PAGE, PROT_READ);
	assert_int_equal(write_to(mr, 0, 100), IBV_WC_REM_ACCESS_ERR);
	join();
	mprotect(p, 2 * PAGE, PROT_READ | PROT_WRITE);
	assert_int_equal(write_to(mr, PAGE - 50, 100), IBV_WC_SUCCESS);
	assert_memory_equal(p + PAGE - 50, bed.buf, 100);
	munmap(p + PAGE, PAGE); /* an error of the one who has it, and no signal */
	assert_int_equal(write_to(mr, 0, PAGE), IBV_WC_SUCCESS);
	assert_int_equal(
		rdma(IBV_WR_RDMA_WRITE, p + PAGE, mr->lkey, (uintptr_t)bed.buf, bed.mr->rkey, 8),
		IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(p, PAGE);
}

static void one_region_has_all_of_memory(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(bed.pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
	uint8_t here[100];
	uint8_t *later;

	(void)state;
	assert_non_null(mr);
	assert_null(ibv_reg_mr(bed.pd, NULL, SIZE_MAX, ALL));
	join();
	later = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(here, 77, sizeof(here));
	assert_int_equal(
		rdma(IBV_WR_RDMA_WRITE, here, mr->lkey, (uintptr_t)later, mr->rkey, sizeof(here)),
		IBV_WC_SUCCESS);
	assert_memory_equal(later, here, sizeof(here));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(later, PAGE);
}

static void advice_is_checked_and_followed(void **state)
{
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH;
	const enum ibv_advise_mr_advice write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const enum ibv_advise_mr_advice no_fault = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;
	uint8_t *p =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(bed.pd, p, 4 * PAGE, ALL | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *reads = ibv_reg_mr(bed.pd, p, 4 * PAGE, IBV_ACCESS_ON_DEMAND);
	struct ibv_pd *other = ibv_alloc_pd(bed.ctx);
	struct ibv_sge sg = {(uintptr_t)p, 4 * PAGE, mr->lkey};
	unsigned char there[4];

	(void)state;
	needs_a_kernel_that_populates();
	assert_int_equal(mincore(p, 4 * PAGE, there), 0);
	assert_int_equal(there[0] & 1, 0);
	assert_int_equal(ibv_advise_mr(bed.pd, no_fault, flush, &sg, 1), 0);
	assert_int_equal(mincore(p, 4 * PAGE, there), 0);
	assert_int_equal(there[0] & 1, 0);
	assert_int_equal(ibv_advise_mr(bed.pd, write, flush, &sg, 1), 0);
	assert_int_equal(mincore(p, 4 * PAGE, there), 0);
	assert_true(there[0] & there[1] & there[2] & there[3] & 1);
	assert_int_equal(ibv_advise_mr(bed.pd, read, 0, &sg, 1), 0);

	assert_int_equal(ibv_advise_mr(bed.pd, read, 2, &sg, 1), EINVAL);
	assert_int_equal(ibv_advise_mr(bed.pd, read, 0, &sg, 0), EINVAL);
	assert_int_equal(ibv_advise_mr(bed.pd, (enum ibv_advise_mr_advice)99, 0, &sg, 1),
			 EOPNOTSUPP);
	assert_int_equal(ibv_advise_mr(other, read, flush, &sg, 1), EPERM);
	sg.length++;
	assert_int_equal(ibv_advise_mr(bed.pd, read, flush, &sg, 1), EFAULT);
	sg.length--;
	sg.lkey++;
	assert_int_equal(ibv_advise_mr(bed.pd, read, flush, &sg, 1), ENOENT);
	sg.lkey = bed.mr->lkey; /* not on demand */
	assert_int_equal(ibv_advise_mr(bed.pd, read, flush, &sg, 1), ENOENT);
	sg.lkey = reads->lkey;
	assert_int_equal(ibv_advise_mr(bed.pd, write, flush, &sg, 1), EPERM);
	assert_int_equal(ibv_advise_mr(bed.pd, read, flush, &sg, 1), 0);
	munmap(p + PAGE, PAGE);
	assert_int_equal(ibv_advise_mr(bed.pd, read, flush, &sg, 1), EFAULT);
	assert_int_equal(ibv_advise_mr(bed.pd, read, 0, &sg, 1), 0); /* asked to do what it can */
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(reads), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	munmap(p, 4 * PAGE);
}

/* ---- DMA buffers ----------------------------------------------------------------------------- */

/* On weft any file that can be mapped will do, which a memfd is. */
static void a_dma_buffer_is_reached_by_its_iova(void **state)
{
	int fd = memfd_create("buffer", 0), closed = dup(fd), pipes[2];
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr;
	uint8_t got[100];

	(void)state;
	assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
	assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
	mr = ibv_reg_dmabuf_mr(bed.pd, PAGE + 16, 2 * PAGE, (1ull << 40) + 16, fd, access);
	assert_non_null(mr);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 100); /* where the program reads next */
	assert_int_equal(mr->length, 2 * PAGE);
	join();
	memset(bed.buf, 0x33, 100);
	assert_int_equal(
		rdma(IBV_WR_RDMA_WRITE, bed.buf, bed.mr->lkey, (1ull << 40) + 1016, mr->rkey, 100),
		IBV_WC_SUCCESS);
	assert_int_equal(pread(fd, got, 100, PAGE + 1016), 100);
	assert_memory_equal(got, bed.buf, 100);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* Rights it gets later are the file's. */
	for (int writable = 0; writable < 2; writable++) {
		char path[64];
		int other;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		other = open(path, writable ? O_RDWR : O_RDONLY);
		mr = ibv_reg_dmabuf_mr(bed.pd, 0, PAGE, 0, other, IBV_ACCESS_REMOTE_READ);
		assert_non_null(mr);
		assert_int_equal(
			ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access),
			writable ? 0 : IBV_REREG_MR_ERR_CMD);
		assert_int_equal(rdma(IBV_WR_RDMA_WRITE, bed.buf, bed.mr->lkey, 0, mr->rkey, 100),
				 writable ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		close(other);
		join();
	}

	assert_null(ibv_reg_dmabuf_mr(bed.pd, 3 * PAGE, 2 * PAGE, 0, fd, access)); /* too long */
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dmabuf_mr(bed.pd, 16, PAGE, 0, fd, access)); /* other page offset */
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dmabuf_mr(bed.pd, 0, PAGE, 0, fd, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dmabuf_mr(bed.pd, 0, PAGE, 0, fd, IBV_ACCESS_MW_BIND));
	assert_int_equal(errno, EINVAL);
	close(closed);
	assert_null(ibv_reg_dmabuf_mr(bed.pd, 0, PAGE, 0, closed, access));
	assert_int_equal(errno, EBADF);
	assert_int_equal(pipe(pipes), 0);
	assert_null(ibv_reg_dmabuf_mr(bed.pd, 0, PAGE, 0, pipes[0], access));
	assert_int_equal(errno, EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

/* ---- what the device says -------------------------------------------------------------------- */

static void the_device_says_what_it_has(void **state)
{
	struct ibv_device_attr_ex a;
	const uint32_t ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

	(void)state;
	assert_int_equal(ibv_query_device_ex(bed.ctx, NULL, &a), 0);
	assert_true(a.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	assert_true(a.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	assert_false(a.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	assert_true(a.orig_attr.max_mw > 0);
	assert_true(a.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
	assert_true(a.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC);
	assert_true(a.odp_caps.per_transport_caps.ud_odp_caps == ud);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_region_must_have_the_rights_of_its_pages),
		T(registering_changes_no_byte),
		T(rereg_changes_what_it_is_told_and_keeps_the_keys),
		T(rereg_tells_what_was_wrong_and_changes_nothing),
		T(a_window_of_type_1_opens_moves_and_closes),
		T(a_window_of_type_1_is_bound_by_its_own_verb_to_its_own_domain),
		T(a_window_opens_and_closes_on_uc_by_the_new_interface_too),
		T(a_null_region_gives_zeros),
		T(on_demand_memory_is_looked_at_when_it_is_used),
		T(one_region_has_all_of_memory),
		T(advice_is_checked_and_followed),
		T(a_dma_buffer_is_reached_by_its_iova),
		T(the_device_says_what_it_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
