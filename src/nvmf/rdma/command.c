/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A queue's commands and their data: receives, RDMA READs and WRITEs, responses. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "nvmf/rdma/target.h"

/* A young queue's page: a capsule, data in it, data that are fetched, a response. */
#define YOUNG_CAPSULE_DATA NVME_SQE_LEN
#define YOUNG_DATA_ROOM	   1024u
#define YOUNG_DATA	   (YOUNG_CAPSULE_DATA + YOUNG_DATA_ROOM)
#define YOUNG_CQE	   (YOUNG_DATA + YOUNG_DATA_ROOM)

static struct rdma_cmd *cmd_of(struct target_req *r)
{
	return container_of(r, struct rdma_cmd, req);
}

static struct rdma_queue *queue_of(struct target_queue *tq)
{
	return container_of(tq, struct rdma_queue, tq);
}

/* True if a completion is to be acted upon. A failed one is the end of its connection. */
static bool completed(struct rdma_hook *h, const struct ibv_wc *wc, const char *what)
{
	struct rdma_queue *q = h->queue;

	if (wc->status == IBV_WC_SUCCESS)
		return !q->torn_down;
	if (wc->status != IBV_WC_WR_FLUSH_ERR && !q->dying)
		rdma_queue_fail(q, "%s fails: %s", what, ibv_wc_status_str(wc->status));
	else if (!q->torn_down)
		rdma_queue_kill(q);
	return false;
}

/* --- what the host has to do ------------------------------------------------------------------ */

/* At the latest then; what is armed already is looked at anew when it fires. */
static void arm(struct rdma_queue *q, uint64_t deadline_ns)
{
	if ((!q->timer.armed || q->timer.deadline_ns > deadline_ns) && !q->dying)
		timer_arm(&q->rt->timers, &q->timer, deadline_ns);
}

static void begin_moving(struct rdma_cmd *c)
{
	struct rdma_queue *q = rdma_cmd_queue(c);

	c->since_ns = q->rt->now_ns;
	list_push_tail(&q->moving, &c->moving);
	arm(q, c->since_ns + RDMA_MOVE_NS);
}

/* --- receives --------------------------------------------------------------------------------- */

static int post_recv(struct rdma_queue *q, struct rdma_recv *rv)
{
	struct ibv_recv_wr wr, *bad;
	struct ibv_sge sge[2];

	rdma_recv_wr(rv, &wr, sge);

	return ibv_post_recv(q->id->qp, &wr, &bad);
}

static void start_cmd(struct rdma_queue *q, struct rdma_recv *rv)
{
	struct list *n = list_pop_head(&q->free);
	struct rdma_cmd *c = list_entry(n, struct rdma_cmd, link);
	size_t data_len = rv->len > NVME_SQE_LEN ? rv->len - NVME_SQE_LEN : 0;

	c->state = RDMA_CMD_TARGET;
	c->recv = rv;
	target_req_recv(&q->tq, &c->req, rv->capsule, min_of(rv->len, (uint32_t)NVME_SQE_LEN),
			rv->data, data_len, q->rt->now_ns);
}

/*
 * To iWARP a READ's sink is a key on the wire, of memory that may be written to from afar
 * (device.c): of all that is under way. Nobody but READs has to write, and the queue pair takes
 * nothing else.
 */
void rdma_queue_takes_no_writes(struct rdma_queue *q)
{
	struct ibv_qp_attr attr = {.qp_access_flags = 0};

	if (q->no_writes)
		return;
	q->no_writes = true;
	if (q->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP &&
	    ibv_modify_qp(q->id->qp, &attr, IBV_QP_ACCESS_FLAGS) != 0)
		log_debug("nvmf", "hosts may write to memory of other commands: %s",
			  errno_text(errno));
}

static void recv_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_recv *rv = container_of(h, struct rdma_recv, hook);
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "a receive"))
		return;
	q->heard = true;
	rdma_queue_takes_no_writes(q); /* before there is a key on the wire */
	list_remove(&q->silent);
	rv->len = wc->byte_len;
	if (list_empty(&q->free) || !list_empty(&q->pending))
		list_push_tail(&q->pending, &rv->link);
	else
		start_cmd(q, rv);
}

/* The queue has what it needs without it, or is at its end. */
static void put_page(struct rdma_queue *q)
{
	if (q->page)
		data_pool_put(&q->rt->shares->pool, q->page);
	q->page = NULL;
	share_queue_grown(&q->share);
}

static void release(struct rdma_cmd *c)
{
	struct rdma_queue *q = rdma_cmd_queue(c);

	share_memory_put(&c->share);
	list_remove(&c->moving);
	c->recv = NULL;
	c->state = RDMA_CMD_FREE;
	if (c == &q->first_cmd && q->cmds)
		put_page(q);
	else
		list_push_tail(&q->free, &c->link);
}

/* --- responses -------------------------------------------------------------------------------- */

/* At the end of the turn. */
static void send_soon(struct rdma_queue *q)
{
	list_remove(&q->pumping);
	list_push_tail(&q->rt->pumping, &q->pumping);
}

static void send_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_cmd *c = container_of(h, struct rdma_cmd, send_hook);
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "sending a response"))
		return;
	q->sends_free += c->send_wrs;
	release(c);
	if (!list_empty(&q->send_wait) || !list_empty(&q->read_wait))
		send_soon(q);
	while (!list_empty(&q->pending) && !list_empty(&q->free))
		start_cmd(q, list_entry(list_pop_head(&q->pending), struct rdma_recv, link));
}

/* Unsignaled: heard of only when it failed. */
static void write_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	(void)completed(h, wc, "an RDMA WRITE to the host");
}

static void op_respond(struct target_req *r)
{
	struct rdma_cmd *c = cmd_of(r);
	struct rdma_queue *q = rdma_cmd_queue(c);

	c->send_wrs = 1;
	for (uint32_t i = 0; i < r->sgl_count && target_req_has_reply_data(r); i++)
		c->send_wrs += target_req_sgl(r, i).len != 0;
	if (q->torn_down) {
		release(c);
		return;
	}
	begin_moving(c);
	c->state = RDMA_CMD_SEND_WAIT;
	list_push_tail(&q->send_wait, &c->link);
	q->send_wait_bytes += c->send_wrs > 1 ? r->data_len : 0;
	if (q->send_wait_bytes < RDMA_BATCH_BYTES)
		send_soon(q);
	else
		rdma_responses_post(q);
}

/* --- fetching a host's data ------------------------------------------------------------------- */

/* Those of a turn go down in one post, chained as they are added. */
struct reads {
	struct ibv_send_wr wr[RDMA_READS_MAX];
	struct ibv_sge sge[RDMA_READS_MAX];
	uint32_t count;
};

/* Into the pool, at to. */
static void add_read(struct rdma_queue *q, struct reads *b, struct rdma_hook *h, void *to,
		     const struct nvme_sgl *from)
{
	struct ibv_send_wr *wr = &b->wr[b->count];
	struct ibv_sge *sge = &b->sge[b->count];

	*sge = (struct ibv_sge){
		.addr = (uintptr_t)to, .length = from->len, .lkey = q->dev->pool_mr->lkey};
	*wr = (struct ibv_send_wr){
		.wr_id = (uintptr_t)h,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = from->addr, .rkey = from->key},
	};
	if (b->count++)
		wr[-1].next = wr;
	q->sends_free--;
	q->reads_free--;
}

static void post_reads(struct rdma_queue *q, struct reads *b)
{
	struct ibv_send_wr *bad;
	int error = b->count ? ibv_post_send(q->id->qp, b->wr, &bad) : 0;

	if (error)
		rdma_post_failed(q, "posting an RDMA READ", error);
}

/* One for each descriptor, as many as there is room for; true if those were the last. */
static bool add_reads(struct reads *b, struct rdma_cmd *c)
{
	struct rdma_queue *q = rdma_cmd_queue(c);
	struct target_req *r = &c->req;

	while (c->asked < r->data_len && q->sends_free && q->reads_free) {
		struct nvme_sgl g = target_req_sgl(r, c->sgl_next++);

		if (!g.len)
			continue;
		c->reads++;
		add_read(q, b, &c->read_hook, (uint8_t *)r->data + c->asked, &g);
		c->asked += g.len;
	}
	return c->asked == r->data_len;
}

static void read_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_cmd *c = container_of(h, struct rdma_cmd, read_hook);
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "an RDMA READ from the host"))
		return;
	q->sends_free++;
	q->reads_free++;
	c->reads--;
	if (c->state == RDMA_CMD_READING && !c->reads) {
		list_remove(&c->moving);
		c->state = RDMA_CMD_TARGET;
		target_req_ready(&c->req, NVME_SC_SUCCESS);
	}
	send_soon(q);
}

/* Responses before READs: they make room, READs ask for more. */
static void send_pump(struct rdma_queue *q)
{
	struct reads b;

	rdma_responses_post(q);
	if (!list_empty(&q->send_wait) || q->dying || list_empty(&q->read_wait))
		return;
	b.count = 0;
	while (!list_empty(&q->read_wait)) {
		struct rdma_cmd *c = list_entry(q->read_wait.next, struct rdma_cmd, link);

		if (!add_reads(&b, c))
			break;
		list_remove(&c->link);
		c->state = RDMA_CMD_READING;
	}
	post_reads(q, &b);
}

void rdma_pump_all(struct rdma_target *rt)
{
	while (!list_empty(&rt->pumping))
		send_pump(list_entry(list_pop_head(&rt->pumping), struct rdma_queue, pumping));
}

static void nudge_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "an RDMA READ of no bytes from the host"))
		return;
	q->sends_free++;
	q->reads_free++;
	send_soon(q);
}

void rdma_queue_nudge(struct rdma_queue *q)
{
	struct reads b;

	assert(q->sends_free && q->reads_free); /* no command was there to take any */
	q->nudge_hook = (struct rdma_hook){.done = nudge_done, .queue = q};
	b.count = 0;
	add_read(q, &b, &q->nudge_hook, q->rt->shares->pool.base, &(struct nvme_sgl){0});
	post_reads(q, &b);
}

void rdma_cmd_has_memory(struct rdma_cmd *c)
{
	struct rdma_queue *q = rdma_cmd_queue(c);
	struct target_req *r = &c->req;

	if (r->dir != NVMF_DIR_TO_CTRL || r->in_capsule) {
		c->state = RDMA_CMD_TARGET;
		target_req_ready(r, NVME_SC_SUCCESS);
		return;
	}
	begin_moving(c);
	c->sgl_next = c->asked = c->reads = 0;
	c->state = RDMA_CMD_READ_WAIT;
	list_push_tail(&q->read_wait, &c->link);
	send_soon(q);
}

static void op_fetch(struct target_req *r)
{
	struct rdma_cmd *c = cmd_of(r);
	struct rdma_queue *q = rdma_cmd_queue(c);

	if (c == &q->first_cmd) { /* Connect: nothing else has data on a young queue */
		assert(r->data_len <= YOUNG_DATA_ROOM && !r->scratch_len);
		r->data = q->page + YOUNG_DATA;
		rdma_cmd_has_memory(c);
		return;
	}
	c->state = RDMA_CMD_POOL_WAIT;
	if (share_memory_take(&c->share))
		rdma_cmd_has_memory(c);
}

/* --- hosts that do not do their part, or are gone -----------------------------------------------
 */

static void probe_done(struct rdma_hook *h, const struct ibv_wc *wc)
{
	struct rdma_queue *q = h->queue;

	if (!completed(h, wc, "asking whether the host is there"))
		return;
	q->probing = false;
	q->sends_free++;
	send_soon(q);
}

/*
 * A WRITE of no bytes means nothing to the host but that its RNIC acknowledges it; when the host is
 * gone, the transport's retries run out. (On iWARP it is TCP that finds that nobody is there.)
 */
static void probe(struct rdma_queue *q)
{
	struct ibv_send_wr wr = {
		.wr_id = (uintptr_t)&q->probe_hook,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;
	int error;

	q->probe_hook = (struct rdma_hook){.done = probe_done, .queue = q};
	q->probing = true;
	q->sends_free--;
	error = ibv_post_send(q->id->qp, &wr, &bad);
	if (error)
		rdma_post_failed(q, "asking whether the host is there", error);
}

/* Without a keep-alive time nobody else would notice that a host is gone: of admin queues. */
static void look_at_silence(struct rdma_queue *q)
{
	q->probe_ns = q->rt->now_ns + RDMA_PROBE_NS;
	if (!q->heard && list_empty(&q->moving) && !q->probing && q->sends_free)
		probe(q);
	q->heard = false;
}

/*
 * Its RNIC may say "not ready" for ever, or send a little now and then: what it holds here
 * meanwhile is not for it to keep.
 */
static bool overdue(struct rdma_queue *q, const struct rdma_cmd *c)
{
	if (c->since_ns + RDMA_MOVE_NS > q->rt->now_ns)
		return false;
	rdma_queue_fail(q, "%s for %llu s",
			c->state == RDMA_CMD_READING || c->state == RDMA_CMD_READ_WAIT
				? "the data of a command do not come"
				: "a response is not taken",
			RDMA_MOVE_NS / NSEC_PER_SEC);
	return true;
}

void rdma_queue_tick(struct rdma_queue *q)
{
	struct rdma_cmd *oldest = list_entry(q->moving.next, struct rdma_cmd, moving);

	if (!list_empty(&q->moving) && overdue(q, oldest))
		return;
	if (q->probe_ns && q->probe_ns <= q->rt->now_ns)
		look_at_silence(q);
	if (!list_empty(&q->moving))
		arm(q, oldest->since_ns + RDMA_MOVE_NS);
	if (q->probe_ns)
		arm(q, q->probe_ns);
}

/* --- what the target asks for -------------------------------------------------------------------
 */

static bool op_cancel(struct target_req *r)
{
	struct rdma_cmd *c = cmd_of(r);

	if (c->state == RDMA_CMD_POOL_WAIT) {
		share_memory_forget(&c->share);
	} else if (c->state == RDMA_CMD_READ_WAIT && !c->asked) {
		list_remove(&c->link);
		list_remove(&c->moving);
	} else {
		return false;
	}
	c->state = RDMA_CMD_TARGET;
	return true;
}

static void op_disconnect(struct target_queue *tq)
{
	struct rdma_queue *q = queue_of(tq);

	rdma_responses_post(q); /* the reason may be among them */
	rdma_queue_kill(q);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static size_t page_up(size_t n)
{
	return (n + DATA_POOL_PAGE - 1) & ~(size_t)(DATA_POOL_PAGE - 1);
}

static void recv_init(struct rdma_queue *q, struct rdma_recv *rv, uint8_t *capsule, uint8_t *data,
		      uint32_t data_room, uint32_t lkey)
{
	*rv = (struct rdma_recv){.hook = {.done = recv_done, .queue = q},
				 .capsule = capsule,
				 .data = q->tq.capsule_data_max ? data : NULL,
				 .data_room = data_room,
				 .lkey = lkey};
}

static void cmd_init(struct rdma_queue *q, struct rdma_cmd *c, uint8_t *cqe, uint32_t lkey)
{
	*c = (struct rdma_cmd){.share = {.queue = &q->share, .req = &c->req},
			       .read_hook = {.done = read_done, .queue = q},
			       .write_hook = {.done = write_done, .queue = q},
			       .send_hook = {.done = send_done, .queue = q},
			       .cqe = cqe,
			       .cqe_lkey = lkey};
	list_init(&c->moving);
	list_push_tail(&q->free, &c->link);
}

static void put_queue_memory(struct rdma_queue *q)
{
	if (q->mr)
		ibv_dereg_mr(q->mr);
	if (q->memory)
		munmap(q->memory, q->memory_len);
	free(q->recvs);
	free(q->cmds);
	q->mr = NULL;
	q->memory = NULL;
	q->recvs = NULL;
	q->cmds = NULL;
}

/* One area, one registration: in-capsule data on pages of its own, then capsules, then CQEs. */
static int take_queue_memory(struct rdma_queue *q)
{
	size_t data = (size_t)q->depth * q->tq.capsule_data_max;
	size_t capsules = (size_t)q->depth * NVME_SQE_LEN;
	uint32_t cmd_count = 2u * q->depth;
	int error = -ENOMEM;
	uint8_t *p;

	q->memory_len = page_up(data + capsules + (size_t)cmd_count * NVME_CQE_LEN);
	q->recvs = calloc(q->depth, sizeof(*q->recvs));
	q->cmds = calloc(cmd_count, sizeof(*q->cmds));
	p = mmap(NULL, q->memory_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED)
		q->memory = p;
	if (!q->recvs || !q->cmds || !q->memory)
		goto fail;
	q->mr = ibv_reg_mr(q->dev->pd, p, q->memory_len, IBV_ACCESS_LOCAL_WRITE);
	if (!q->mr) {
		error = -errno;
		goto fail;
	}
	for (uint32_t i = 0; i < q->depth; i++)
		recv_init(q, &q->recvs[i], p + data + (size_t)i * NVME_SQE_LEN,
			  p + (size_t)i * q->tq.capsule_data_max, q->tq.capsule_data_max,
			  q->mr->lkey);
	for (uint32_t i = 0; i < cmd_count; i++)
		cmd_init(q, &q->cmds[i], p + data + capsules + (size_t)i * NVME_CQE_LEN,
			 q->mr->lkey);
	q->cmd_count = cmd_count;
	return 0;
fail:
	put_queue_memory(q);
	return error;
}

/*
 * The receive that Connect came by is replaced: it is posted again before the response. A place is
 * given back to the host before its response is known to be sent, so there are more commands than
 * places; should they run out, received capsules wait.
 */
static int op_admit(struct target_queue *tq)
{
	struct rdma_queue *q = queue_of(tq);
	int error;

	if (q->cmds) /* since a Connect that was refused after all */
		return 0;
	if (!q->share.entries && !share_entries_take(&q->share, q->depth))
		return -EAGAIN; /* it may have them of a Connect for which there was no memory */
	error = take_queue_memory(q);
	if (error)
		return error;
	q->first_cmd.recv = &q->recvs[0];
	for (uint32_t i = 1; i < q->depth && !error; i++)
		error = post_recv(q, &q->recvs[i]);
	if (error)
		rdma_post_failed(q, "posting a receive", error);
	if (!q->tq.qid) {
		q->probe_ns = q->rt->now_ns + RDMA_PROBE_NS;
		arm(q, q->probe_ns);
	}
	return error;
}

static void put_tsas(uint8_t tsas[256])
{
	static const struct nvmf_tsas_rdma rdma = {.qptype = 1, .prtype = 1, .cms = 1};

	nvmf_tsas_rdma_put(tsas, &rdma);
}

const struct target_transport_ops rdma_target_ops = {
	.trtype = NVMF_TRTYPE_RDMA,
	.treq = NVMF_TREQ_NO_SQ_FLOW,
	.tsas = put_tsas,
	.sgl = NVME_SGL_KEYED_DATA_BLOCK,
	.sgl_max = TARGET_SGL_MAX,
	.mdts = TARGET_MDTS,
	.entries_max = TARGET_QUEUE_ENTRIES_MAX,
	.capsule_data_max = TARGET_CAPSULE_DATA,
	.fetch = op_fetch,
	.cancel = op_cancel,
	.respond = op_respond,
	.admit = op_admit,
	.disconnect = op_disconnect,
};

static int make_qp(struct rdma_queue *q)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = q,
		.send_cq = q->cq->cq,
		.recv_cq = q->cq->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = q->sends_free,
			.max_recv_wr = q->depth,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = NVME_CQE_LEN},
	};

	if (rdma_create_qp(q->id, q->dev->pd, &attr) != 0) {
		attr.cap.max_inline_data = 0; /* a device without inline data */
		if (rdma_create_qp(q->id, q->dev->pd, &attr) != 0)
			return -errno;
	}
	q->inline_send = attr.cap.max_inline_data >= NVME_CQE_LEN;
	return 0;
}

int rdma_queue_open(struct rdma_queue *q)
{
	uint32_t lkey = q->dev->pool_mr->lkey;
	int error;

	list_init(&q->free);
	list_init(&q->pending);
	list_init(&q->moving);
	list_init(&q->read_wait);
	list_init(&q->send_wait);
	q->page = data_pool_get(&q->rt->shares->pool, DATA_POOL_PAGE);
	if (!q->page)
		return -ENOMEM;
	recv_init(q, &q->first_recv, q->page, q->page + YOUNG_CAPSULE_DATA, YOUNG_DATA_ROOM, lkey);
	cmd_init(q, &q->first_cmd, q->page + YOUNG_CQE, lkey);
	error = make_qp(q);
	return error ? error : -post_recv(q, &q->first_recv);
}

void rdma_queue_close(struct rdma_queue *q)
{
	list_remove(&q->pumping);
	put_queue_memory(q);
	put_page(q);
}

static struct rdma_cmd *cmd_at(struct rdma_queue *q, uint32_t i)
{
	return i ? &q->cmds[i - 1] : &q->first_cmd;
}

/*
 * Without a QP no completion will come: what was being sent or fetched ends here. What a store
 * works on ends when the store is done, and finds the queue torn down.
 */
void rdma_queue_abandon(struct rdma_queue *q)
{
	assert(q->torn_down);
	for (uint32_t i = 0; i <= q->cmd_count; i++) {
		struct rdma_cmd *c = cmd_at(q, i);

		if (c->state == RDMA_CMD_READ_WAIT || c->state == RDMA_CMD_SEND_WAIT)
			list_remove(&c->link);
		switch (c->state) {
		case RDMA_CMD_POOL_WAIT:
			share_memory_forget(&c->share);
			c->state = RDMA_CMD_TARGET;
			break;
		case RDMA_CMD_READ_WAIT:
		case RDMA_CMD_READING:
			list_remove(&c->moving);
			c->state = RDMA_CMD_TARGET;
			break;
		case RDMA_CMD_SEND_WAIT:
		case RDMA_CMD_SENDING:
			release(c);
			break;
		case RDMA_CMD_FREE:
		case RDMA_CMD_TARGET:
			break;
		}
	}
	target_queue_disconnected(&q->tq);
}
