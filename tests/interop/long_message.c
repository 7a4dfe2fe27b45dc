/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages of 2 GiB, the longest that there are (IBA volume 1, 9.7.4.1.6), and longer ones. So much
 * memory is needed once over 32 only: each region maps the same pages again and again.
 */
#include "joined.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LONGEST (1ull << 31)
#define PIECE	(LONGEST / 32)

struct endless {
	uint8_t *at;
	struct ibv_mr *mr; /* LONGEST and a page more */
};

static struct endless endless(const char *name)
{
	struct endless e;
	int fd = memfd_create(name, 0);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PIECE), 0);
	e.at = mmap(NULL, LONGEST + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	assert_ptr_not_equal(e.at, MAP_FAILED);
	for (uint64_t off = 0; off < LONGEST + PAGE; off += PIECE)
		assert_ptr_not_equal(mmap(e.at + off, off < LONGEST ? PIECE : PAGE,
					  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
				     MAP_FAILED);
	close(fd);
	e.mr = ibv_reg_mr(bed.pd, e.at, LONGEST + PAGE, ALL);
	assert_non_null(e.mr);
	return e;
}

static void release(struct endless *e)
{
	assert_int_equal(ibv_dereg_mr(e->mr), 0);
	munmap(e->at, LONGEST + PAGE);
}

static void pattern(struct endless *e, uint32_t key)
{
	uint32_t *word = (uint32_t *)(void *)e->at;

	for (uint32_t i = 0; i < PIECE / 4; i++)
		word[i] = i * 2654435761u + key;
}

/* One operation of LONGEST bytes and `more`, in two pieces: 0, or errno of posting it. */
static int post_long(enum ibv_wr_opcode op, struct endless *own, struct endless *peer,
		     uint32_t more)
{
	struct ibv_sge sge[2] = {
		{(uintptr_t)own->at, (uint32_t)LONGEST - 100, own->mr->lkey},
		{(uintptr_t)own->at + LONGEST - 100, 100 + more, own->mr->lkey},
	};
	struct ibv_send_wr wr = {.opcode = op, .sg_list = sge, .num_sge = 2}, *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)peer->at;
	wr.wr.rdma.rkey = peer->mr->rkey;
	return ibv_post_send(bed.qp[0], &wr, &bad);
}

static void post_long_recv(struct endless *e)
{
	struct ibv_sge sge[2] = {
		{(uintptr_t)e->at, (uint32_t)LONGEST / 2, e->mr->lkey},
		{(uintptr_t)e->at + LONGEST / 2, (uint32_t)LONGEST / 2, e->mr->lkey},
	};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 2}, *bad;

	assert_int_equal(ibv_post_recv(bed.qp[1], &wr, &bad), 0);
}

/* 2 GiB take seconds, and many of them under a sanitizer. */
static struct ibv_wc patient_wc(void)
{
	time_t end = time(NULL) + 80;
	struct ibv_wc wc;

	while (!ibv_poll_cq(bed.cq, 1, &wc))
		assert_true(time(NULL) < end);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return wc;
}

static void two_gib_are_carried_and_a_byte_more_is_refused(void **state)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	struct ibv_port_attr port;
	struct endless own, peer;

	(void)state;
	assert_int_equal(ibv_query_port(bed.ctx, 1, &port), 0);
	assert_int_equal(port.max_msg_sz, LONGEST);
	join();
	own = endless("own");
	peer = endless("peer");
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(post_long(ops[i], &own, &peer, 1), EINVAL);
		pattern(ops[i] == IBV_WR_RDMA_READ ? &peer : &own, i);
		if (ops[i] == IBV_WR_SEND)
			post_long_recv(&peer);
		assert_int_equal(post_long(ops[i], &own, &peer, 0), 0);
		for (int n = 0; n < (ops[i] == IBV_WR_SEND ? 2 : 1); n++) {
			struct ibv_wc wc = patient_wc();

			if (wc.opcode == IBV_WC_RECV)
				assert_int_equal(wc.byte_len, LONGEST);
		}
		assert_memory_equal(own.at, peer.at, PIECE);
	}
	release(&own);
	release(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(two_gib_are_carried_and_a_byte_more_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
