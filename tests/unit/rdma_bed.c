/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "rdma_bed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "heap_env.h"
#include "store/store.h"

#define PORT "4420"

struct rdma_bed bed;

/* --- both sides move ----------------------------------------------------------------------------
 */

static void take_events(struct client *c)
{
	struct rdma_cm_event *ev;

	while (rdma_get_cm_event(c->events, &ev) == 0) {
		c->last = ev->event;
		c->status = ev->status;
		c->private_len = ev->param.conn.private_data_len;
		if (c->private_len)
			memcpy(c->private_data, ev->param.conn.private_data, c->private_len);
		rdma_ack_cm_event(ev);
	}
}

static void take_completions(struct client *c)
{
	struct ibv_wc wc;

	while (c->cq && ibv_poll_cq(c->cq, 1, &wc) == 1) {
		c->failed += wc.status != IBV_WC_SUCCESS;
		c->received += wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV;
		c->sent += wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND;
		if (wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_WITH_INV)
			c->invalidated = wc.invalidated_rkey;
	}
}

void pump(struct client *c)
{
	uint64_t now = bed.stopped_ns ? bed.stopped_ns : time_now_ns();

	bed.inside = true;
	if (now >= target_next_deadline(&bed.target))
		target_tick(&bed.target, now);
	bed.rt->ops->process(bed.rt, now, true);
	bed.inside = false;
	if (c && c->events)
		take_events(c);
	if (c)
		take_completions(c);
}

void wait_event(struct client *c, enum rdma_cm_event_type want)
{
	pump_until(c, c->last != NO_EVENT);
	if (c->last != want)
		print_error("event %s, status %d\n", rdma_event_str(c->last), c->status);
	assert_int_equal(c->last, want);
	c->last = NO_EVENT;
}

/* --- a host made of verbs -----------------------------------------------------------------------
 */

void post_recv(struct client *c, unsigned i)
{
	struct ibv_sge sge = {.addr = (uintptr_t)c->capsules[i],
			      .length = NVME_CQE_LEN,
			      .lkey = c->capsule_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(c->id->qp, &wr, &bad), 0);
}

struct client *client_open(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(4420)};
	struct sockaddr_in from = {.sin_family = AF_INET};
	struct client *c = calloc(1, sizeof(*c));
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	assert_non_null(c);
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	c->last = NO_EVENT;
	c->events = rdma_create_event_channel();
	assert_non_null(c->events);
	assert_int_equal(fcntl(c->events->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rdma_create_id(c->events, &c->id, c, RDMA_PS_TCP), 0);
	if (bed.source)
		inet_pton(AF_INET, bed.source, &from.sin_addr);
	assert_int_equal(rdma_resolve_addr(c->id, bed.source ? (struct sockaddr *)&from : NULL,
					   (struct sockaddr *)&to, 2000),
			 0);
	wait_event(c, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(c->id, 2000), 0);
	wait_event(c, RDMA_CM_EVENT_ROUTE_RESOLVED);
	c->pd = ibv_alloc_pd(c->id->verbs);
	c->cq = ibv_create_cq(c->id->verbs, 4 * DEPTH, NULL, NULL, 0);
	assert_true(c->pd && c->cq);
	attr.send_cq = attr.recv_cq = c->cq;
	assert_int_equal(rdma_create_qp(c->id, c->pd, &attr), 0);
	c->mr = ibv_reg_mr(c->pd, c->memory, sizeof(c->memory), access);
	c->capsule_mr = ibv_reg_mr(c->pd, c->capsules, sizeof(c->capsules) + sizeof(c->out),
				   IBV_ACCESS_LOCAL_WRITE);
	assert_true(c->mr && c->capsule_mr);
	for (unsigned i = 0; i < (bed.receives ? bed.receives : DEPTH); i++)
		post_recv(c, i);
	return c;
}

void client_close(struct client *c)
{
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	ibv_dereg_mr(c->mr);
	ibv_dereg_mr(c->capsule_mr);
	ibv_destroy_cq(c->cq);
	ibv_dealloc_pd(c->pd);
	rdma_destroy_id(c->id);
	rdma_destroy_event_channel(c->events);
	free(c);
}

struct nvme_rdma_req good_req(uint16_t qid)
{
	return (struct nvme_rdma_req){.qid = qid, .hrqsize = DEPTH, .hsqsize = DEPTH - 1};
}

void client_connect(struct client *c, const struct nvme_rdma_req *req, uint8_t len, uint8_t reads)
{
	uint8_t data[NVME_RDMA_REQ_LEN];
	struct wcursor w = wcursor_init(data, sizeof(data));
	struct rdma_conn_param p = {.private_data = data,
				    .private_data_len = len,
				    .responder_resources = reads,
				    .retry_count = bed.one_try ? 0 : 7,
				    .rnr_retry_count = 7};

	nvme_rdma_req_put(&w, req);
	assert_int_equal(rdma_connect(c->id, &p), 0);
}

struct client *connected(uint16_t qid, uint8_t reads)
{
	struct client *c = client_open();
	struct nvme_rdma_req req = good_req(qid);
	struct nvme_rdma_rep rep;
	struct cursor cur = cursor_init(c->private_data, NVME_RDMA_REP_LEN);

	client_connect(c, &req, NVME_RDMA_REQ_LEN, reads);
	wait_event(c, RDMA_CM_EVENT_ESTABLISHED);
	assert_true(c->private_len >= NVME_RDMA_REP_LEN);
	nvme_rdma_rep_get(&cur, &rep);
	assert_int_equal(rep.recfmt, 0);
	assert_int_equal(rep.crqsize, DEPTH);
	return c;
}

void send_bytes(struct client *c, size_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)c->out, .length = (uint32_t)len, .lkey = c->capsule_mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	assert_int_equal(ibv_post_send(c->id->qp, &wr, &bad), 0);
}

struct nvme_sqe sqe(struct client *c, uint8_t opcode, uint32_t nsid, uint32_t len)
{
	struct nvme_sqe s = {.opcode = opcode, .flags = NVME_SQE_PSDT_SGL, .nsid = nsid};

	s.sgl = (struct nvme_sgl){.type = NVME_SGL_KEYED_DATA_BLOCK,
				  .addr = (uintptr_t)c->memory,
				  .key = c->mr->rkey,
				  .len = len};
	return s;
}

void send_sqe(struct client *c, const struct nvme_sqe *s)
{
	struct wcursor w = wcursor_init(c->out, NVME_SQE_LEN);

	nvme_sqe_put(&w, s);
	send_bytes(c, NVME_SQE_LEN);
}

void send_sqe_times(struct client *c, const struct nvme_sqe *s, unsigned times)
{
	for (send_sqe(c, s); --times;)
		send_bytes(c, NVME_SQE_LEN);
}

void send_sqe_list(struct client *c, const struct nvme_sqe *s, const struct nvme_sgl *list,
		   unsigned count)
{
	struct wcursor w = wcursor_init(c->out, sizeof(c->out));
	struct nvme_sqe with = *s;

	with.sgl = (struct nvme_sgl){.len = count * NVME_SGL_LEN,
				     .type = NVME_SGL_LAST_SEGMENT,
				     .subtype = NVME_SGL_OFFSET};
	nvme_sqe_put(&w, &with);
	for (unsigned i = 0; i < count; i++)
		nvme_sgl_put(&w, &list[i]);
	send_bytes(c, NVME_SQE_LEN + count * NVME_SGL_LEN);
}

struct nvme_cqe response(struct client *c)
{
	unsigned i = (c->received - 1) % DEPTH;
	struct cursor cur = cursor_init(c->capsules[i], NVME_CQE_LEN);
	struct nvme_cqe q;

	nvme_cqe_get(&cur, &q);
	post_recv(c, i);
	return q;
}

struct nvme_cqe exec(struct client *c, const struct nvme_sqe *s)
{
	unsigned before = c->received;

	send_sqe(c, s);
	pump_until(c, c->received > before || c->last == RDMA_CM_EVENT_DISCONNECTED);
	return c->received > before ? response(c) : (struct nvme_cqe){.status = NO_ANSWER};
}

static struct nvme_cqe connect_command(struct client *c, uint16_t qid,
				       const struct nvmf_connect_data *d)
{
	struct nvmf_connect co = {.qid = qid, .sqsize = DEPTH - 1};
	struct nvme_sqe s = sqe(c, 0, 0, NVMF_CONNECT_DATA_LEN);
	struct wcursor w = wcursor_init(c->memory, NVMF_CONNECT_DATA_LEN);

	nvmf_connect_data_put(&w, d);
	nvmf_connect_to_sqe(&co, &s);
	return exec(c, &s);
}

uint16_t nvme_connect_to(struct client *c, uint16_t qid, uint16_t cntlid, const char *subnqn,
			 const char *hostnqn, uint16_t *ret_cntlid)
{
	struct nvmf_connect_data d = {.cntlid = cntlid};
	struct nvme_cqe q;

	strcpy(d.subnqn, subnqn);
	strcpy(d.hostnqn, hostnqn);
	q = connect_command(c, qid, &d);
	*ret_cntlid = (uint16_t)q.result;
	return q.status;
}

uint16_t nvme_connect(struct client *c, uint16_t qid, uint16_t cntlid)
{
	struct nvmf_connect_data d = {.cntlid = cntlid, .subnqn = NQN, .hostnqn = HOSTNQN};
	struct nvme_cqe q = connect_command(c, qid, &d);

	assert_int_equal(q.status, NVME_SC_SUCCESS);
	return (uint16_t)q.result;
}

void enable(struct client *c)
{
	struct nvmf_prop p = {.offset = NVME_PROP_CC,
			      .value = NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16};
	struct nvme_sqe s = sqe(c, 0, 0, 0);

	nvmf_prop_to_sqe(&p, NVMF_PROPERTY_SET, &s);
	assert_int_equal(exec(c, &s).status, NVME_SC_SUCCESS);
}

static unsigned target_queues(void)
{
	unsigned n = 0;

	list_for_each(q, &bed.target.group.queues, struct target_queue, link)
		n++;
	return n;
}

struct pair pair_open(void)
{
	struct pair p = {.before = target_queues()};
	uint16_t cntlid;

	p.admin =
		connected(0, 4); /* not in the initializer, whose order is the compiler's choice */
	cntlid = nvme_connect(p.admin, 0, NVMF_CNTLID_DYNAMIC);
	enable(p.admin);
	p.io = connected(1, 4);
	assert_int_equal(nvme_connect(p.io, 1, cntlid), cntlid);
	return p;
}

void pair_close(struct pair *p)
{
	rdma_disconnect(p->io->id);
	rdma_disconnect(p->admin->id);
	pump_until(p->io, target_queues() <= p->before);
	client_close(p->io);
	client_close(p->admin);
}

void still_serving(void)
{
	struct pair p = pair_open();
	struct nvme_sqe w = sqe(p.io, NVME_IO_WRITE, 1, 8192), r = sqe(p.io, NVME_IO_READ, 1, 8192);

	nvme_rw_set(&w, 3, 16, 0);
	nvme_rw_set(&r, 3, 16, 0);
	for (int i = 0; i < 8192; i++)
		p.io->memory[i] = (uint8_t)(i * 7);
	assert_int_equal(exec(p.io, &w).status, NVME_SC_SUCCESS);
	memset(p.io->memory, 0, 8192);
	assert_int_equal(exec(p.io, &r).status, NVME_SC_SUCCESS);
	for (int i = 0; i < 8192; i++)
		assert_int_equal(p.io->memory[i], (uint8_t)(i * 7));
	pair_close(&p);
}

/* --- the target ---------------------------------------------------------------------------------
 */

static bool add_second_address(void)
{
	struct ifreq ifr = {.ifr_name = "lo:1"};
	struct sockaddr_in *sa = (struct sockaddr_in *)&ifr.ifr_addr;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool done;

	sa->sin_family = AF_INET;
	inet_pton(AF_INET, SECOND_ADDRESS, &sa->sin_addr);
	done = fd >= 0 && ioctl(fd, SIOCSIFADDR, &ifr) == 0;
	close(fd);
	return done;
}

static void put_target(void)
{
	shares_fini(&bed.shares);
	target_fini(&bed.target);
	store_destroy(bed.ns.store);
}

int rdma_bed_set_up(void **state)
{
	char why[256] = "";
	int error;

	(void)state;
	if (!add_second_address())
		return -1;
	bed.subsys = (struct target_subsys){0};
	bed.rt = NULL;
	target_init(&bed.target, &heap_env, time_now_ns());
	strcpy(bed.subsys.nqn, NQN);
	assert_int_equal(target_subsys_add(&bed.target, &bed.subsys), 0);
	bed.ns = (struct target_ns){.nsid = 1, .lba_shift = 9};
	assert_int_equal(store_mem_create(1 << 20, 512, 0, &bed.ns.store), 0);
	assert_int_equal(target_ns_add(&bed.subsys, &bed.ns), 0);
	bed.inside = true;
	error = shares_init(&bed.shares, 2 << 20);
	if (error)
		strcpy(why, "no memory to share");
	else
		error = rdma_transport.target_create(&bed.target.group, &bed.shares, NULL, &bed.rt,
						     why, sizeof(why));
	if (!error)
		error = bed.rt->ops->listen(bed.rt, "127.0.0.1", PORT, why, sizeof(why));
	bed.inside = false;
	if (!error)
		return 0;
	assert_true(why[0]);
	if (bed.rt)
		rdma_bed_tear_down(state);
	else
		put_target();
	return error;
}

int rdma_bed_tear_down(void **state)
{
	(void)state;
	bed.rt->ops->shutdown(bed.rt);
	if (!bed.rt->ops->idle(bed.rt))
		return -1;
	bed.rt->ops->destroy(bed.rt);
	put_target();
	return 0;
}
