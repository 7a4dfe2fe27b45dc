/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Nothing that the target asks the system for is certain to be had: memory, registrations, queue
 * pairs. Each in its turn is refused, while the target comes up, while a host connects and works,
 * while it goes. What cannot be done is told, nothing is lost, and the next host is served.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "netns.h"
#include "rdma_bed.h"

static unsigned asked, refuse_at; /* 0: nothing is refused */
static const char *refused;	  /* what was */

static bool grant(const char *what)
{
	if (!bed.inside || ++asked != refuse_at)
		return true;
	refused = what;
	errno = ENOMEM;
	return false;
}

#define WRAP_POINTER(type, name, args, ...)        \
	type __real_##name args;                   \
	type __wrap_##name args;                   \
	type __wrap_##name args                    \
	{                                          \
		if (!grant(#name))                 \
			return NULL;               \
		return __real_##name(__VA_ARGS__); \
	}

#define WRAP_INT(name, args, ...)                  \
	int __real_##name args;                    \
	int __wrap_##name args;                    \
	int __wrap_##name args                     \
	{                                          \
		if (!grant(#name))                 \
			return -1;                 \
		return __real_##name(__VA_ARGS__); \
	}

#undef ibv_reg_mr
WRAP_POINTER(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *p, size_t len, int access), pd,
	     p, len, access)
WRAP_POINTER(struct ibv_mr *, ibv_reg_mr_iova2,
	     (struct ibv_pd * pd, void *p, size_t len, uint64_t iova, unsigned access), pd, p, len,
	     iova, access)
WRAP_POINTER(void *, calloc, (size_t n, size_t size), n, size)
WRAP_POINTER(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * ctx), ctx)
WRAP_POINTER(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * ctx), ctx)
WRAP_POINTER(struct ibv_cq *, ibv_create_cq,
	     (struct ibv_context * ctx, int n, void *p, struct ibv_comp_channel *ch, int v), ctx, n,
	     p, ch, v)
WRAP_POINTER(struct rdma_event_channel *, rdma_create_event_channel, (void), )
WRAP_INT(rdma_create_qp, (struct rdma_cm_id * id, struct ibv_pd *pd, struct ibv_qp_init_attr *a),
	 id, pd, a)
WRAP_INT(rdma_create_id,
	 (struct rdma_event_channel * ch, struct rdma_cm_id **id, void *p, enum rdma_port_space ps),
	 ch, id, p, ps)
WRAP_INT(rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *p), id, p)
WRAP_INT(epoll_create1, (int flags), flags)

void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	return grant("mmap") ? __real_mmap(at, len, prot, flags, fd, offset) : MAP_FAILED;
}

/* --- a host that takes a refusal for an answer ---------------------------------------------------
 */

static bool usable(struct client *c)
{
	struct nvme_rdma_req req = good_req(c->qid);

	client_connect(c, &req, NVME_RDMA_REQ_LEN, 4);
	pump_until(c, c->last != NO_EVENT);
	if (c->last != RDMA_CM_EVENT_ESTABLISHED) {
		assert_int_equal(c->last, RDMA_CM_EVENT_REJECTED);
		return false;
	}
	c->last = NO_EVENT;
	return true;
}

static bool try_connect(struct client *c, uint16_t cntlid, uint16_t *ret_cntlid)
{
	uint16_t status;

	if (!usable(c))
		return false;
	status = nvme_connect_to(c, c->qid, cntlid, NQN, HOSTNQN, ret_cntlid);
	if (status && status != NO_ANSWER)
		assert_int_equal(status & NVME_STATUS_CODE, NVME_SC_CONNECT_CTRL_BUSY);
	return !status;
}

static struct client *open_queue(uint16_t qid)
{
	struct client *c = client_open();

	c->qid = qid;
	return c;
}

static void work(void)
{
	struct client *admin = open_queue(0), *io = open_queue(1);
	uint16_t cntlid;

	if (try_connect(admin, NVMF_CNTLID_DYNAMIC, &cntlid)) {
		enable(admin);
		if (try_connect(io, cntlid, &cntlid)) {
			struct nvme_sqe s = sqe(io, NVME_IO_READ, 1, 65536);

			nvme_rw_set(&s, 0, 128, 0);
			assert_int_equal(exec(io, &s).status, 0);
		}
	}
	rdma_disconnect(io->id);
	rdma_disconnect(admin->id);
	pump_until(admin, bed.rt->ops->idle(bed.rt));
	client_close(io);
	client_close(admin);
}

static void whatever_is_refused_the_next_host_is_served(void **state)
{
	unsigned n = 0;

	do {
		refused = NULL;
		asked = 0;
		refuse_at = ++n;
		if (rdma_bed_set_up(state) == 0) {
			work();
			refuse_at = 0;
			still_serving();
			assert_int_equal(rdma_bed_tear_down(state), 0);
		} else {
			assert_non_null(refused);
		}
	} while (refused);
	assert_in_range(n, 20, 200); /* it was not all for nothing */
	refuse_at = 0;
	assert_int_equal(rdma_bed_set_up(state), 0);
	still_serving();
	assert_int_equal(rdma_bed_tear_down(state), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_is_refused_the_next_host_is_served),
	};

	netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
