/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A queue's commands: capsules, the data that R2Ts ask for, responses. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nvmf/tcp/target.h"

/* A young queue's page: data in a capsule, data that are asked for. */
#define YOUNG_DATA_ROOM 1024u

static struct tcp_cmd *cmd_of(struct target_req *r)
{
	return container_of(r, struct tcp_cmd, req);
}

static struct tcp_queue *queue_of(struct target_queue *tq)
{
	return container_of(tq, struct tcp_queue, tq);
}

static struct tcp_cmd *cmd_at(struct tcp_queue *q, uint32_t i)
{
	return i ? &q->cmds[i - 1] : &q->first_cmd;
}

static uint32_t index_of(const struct tcp_cmd *c)
{
	return c == &c->queue->first_cmd ? 0 : (uint32_t)(c - c->queue->cmds) + 1;
}

/* --- what the host has to do ------------------------------------------------------------------ */

static void arm(struct tcp_queue *q, uint64_t deadline_ns)
{
	if (!q->timer.armed && q->state != TCP_QUEUE_DYING)
		timer_arm(&q->tt->timers, &q->timer, deadline_ns);
}

static void begin_moving(struct tcp_cmd *c)
{
	struct tcp_queue *q = c->queue;

	c->since_ns = q->tt->now_ns;
	list_push_tail(&q->moving, &c->moving);
	arm(q, c->since_ns + TCP_MOVE_NS);
}

/* It may take a little now and then: what it holds here meanwhile is not for it to keep. */
void tcp_queue_tick(struct tcp_queue *q)
{
	const struct tcp_cmd *oldest = list_entry(q->moving.next, struct tcp_cmd, moving);

	if (list_empty(&q->moving))
		return;
	if (oldest->since_ns + TCP_MOVE_NS <= q->tt->now_ns)
		tcp_queue_fail(q, "%s for %llu s",
			       oldest->state == TCP_CMD_DATA ? "the data of a command do not come"
							     : "a response is not taken",
			       TCP_MOVE_NS / NSEC_PER_SEC);
	else
		arm(q, oldest->since_ns + TCP_MOVE_NS);
}

/* --- sending ---------------------------------------------------------------------------------- */

void tcp_queue_wants_flush(struct tcp_queue *q)
{
	list_remove(&q->sending);
	list_push_tail(&q->tt->sending, &q->sending);
}

void tcp_queue_send(struct tcp_queue *q, struct tcp_out *o)
{
	tcp_tx_push(&q->tx, o);
	tcp_queue_wants_flush(q);
	if (tcp_tx_has_enough(&q->tx, TCP_ENOUGH_BYTES) && q->tt->flush && !q->full)
		q->tt->flush(q);
}

static void put_page(struct tcp_queue *q)
{
	if (q->page)
		data_pool_put(&q->tt->shares->pool, q->page);
	q->page = NULL;
	share_queue_grown(&q->share);
}

static void release(struct tcp_cmd *c)
{
	struct tcp_queue *q = c->queue;

	target_req_end_loan(&c->req);
	share_memory_put(&c->share);
	list_remove(&c->moving);
	c->state = TCP_CMD_FREE;
	if (c == &q->first_cmd && q->cmds)
		put_page(q);
	else
		list_push_head(&q->free, &c->link); /* its memory is in the cache */
}

/* R2Ts, or a response. */
static void out_sent(struct tcp_out *o)
{
	struct tcp_cmd *c = container_of(o, struct tcp_cmd, out);

	if (c->state == TCP_CMD_SENDING)
		release(c);
}

/* Without a response of its own where the host has done without SQ head pointers: they are all
 * that it would bring. */
static bool says_enough(const struct target_req *r)
{
	return r->queue->no_sq_flow && r->cqe.result == 0;
}

static void put_response(struct tcp_cmd *c)
{
	struct target_req *r = &c->req;
	struct tcp_tx *tx = &c->queue->tx;
	struct tcp_out *o = &c->out;
	struct nvme_tcp_data d = {.cccid = r->sqe.cid, .datal = r->data_len + r->zero_len};
	bool data = target_req_has_reply_data(r), success = data && says_enough(r);
	struct wcursor w;

	tcp_out_clear(o);
	if (data) {
		w = tcp_out_pdu(o, tx, NVME_TCP_C2H_DATA,
				NVME_TCP_DATA_LAST | (success ? NVME_TCP_DATA_SUCCESS : 0),
				d.datal);
		nvme_tcp_data_put(&w, &d);
		tcp_out_pdu_end(o);
		if (r->loan)
			tcp_out_pieces(o, tx, r->loan->iov, 0, r->data_len);
		else
			tcp_out_data(o, tx, r->data, r->data_len, r->zero_len);
		if (success)
			return;
		w = tcp_out_tail(o, tx, NVME_TCP_RESP);
		nvme_cqe_put(&w, &r->cqe);
		tcp_out_tail_end(o);
	} else {
		w = tcp_out_pdu(o, tx, NVME_TCP_RESP, 0, 0);
		nvme_cqe_put(&w, &r->cqe);
		tcp_out_pdu_end(o);
	}
}

static void op_respond(struct target_req *r)
{
	struct tcp_cmd *c = cmd_of(r);

	assert(c->state == TCP_CMD_TARGET);
	if (c->queue->torn_down) {
		release(c);
		return;
	}
	put_response(c);
	begin_moving(c);
	c->state = TCP_CMD_SENDING;
	tcp_queue_send(c->queue, &c->out);
}

/* --- fetching a host's data ------------------------------------------------------------------- */

/* All at once, as many as the host takes and the data are worth. */
static void send_r2ts(struct tcp_cmd *c)
{
	struct tcp_queue *q = c->queue;
	uint32_t len = c->req.data_len, count, piece;
	struct wcursor w;

	count = min_of((len + TCP_R2T_BYTES - 1) / TCP_R2T_BYTES, q->r2ts);
	piece = ((len + count - 1) / count + 4095) & ~4095u;
	tcp_out_clear(&c->out);
	memset(c->r2ts, 0, sizeof(c->r2ts));
	for (uint32_t i = 0, at = 0; at < len; i++, at += piece) {
		struct nvme_tcp_r2t r2t = {.cccid = c->req.sqe.cid,
					   .ttag = (uint16_t)(index_of(c) * TCP_R2TS_MAX + i),
					   .r2to = at,
					   .r2tl = min_of(piece, len - at)};

		c->r2ts[i].next = r2t.r2to;
		c->r2ts[i].end = r2t.r2to + r2t.r2tl;
		w = tcp_out_pdu(&c->out, &q->tx, NVME_TCP_R2T, 0, 0);
		nvme_tcp_r2t_put(&w, &r2t);
		tcp_out_pdu_end(&c->out);
	}
	c->left = len;
	c->damaged = false;
	c->state = TCP_CMD_DATA;
	begin_moving(c);
	tcp_queue_send(q, &c->out);
}

void tcp_cmd_has_memory(struct tcp_cmd *c)
{
	struct target_req *r = &c->req;

	if (r->dir == NVMF_DIR_TO_CTRL && !r->in_capsule && r->data_len) {
		target_req_lend(r);
		send_r2ts(c);
		return;
	}
	c->state = TCP_CMD_TARGET;
	target_req_ready(&c->req, NVME_SC_SUCCESS);
}

static void op_fetch(struct target_req *r)
{
	struct tcp_cmd *c = cmd_of(r);

	if (c == &c->queue->first_cmd) { /* Connect: nothing else has data on a young queue */
		assert(r->data_len <= YOUNG_DATA_ROOM && !r->scratch_len);
		r->data = c->queue->page + YOUNG_DATA_ROOM;
		tcp_cmd_has_memory(c);
		return;
	}
	c->state = TCP_CMD_POOL_WAIT;
	if (share_memory_take(&c->share))
		tcp_cmd_has_memory(c);
}

static bool op_cancel(struct target_req *r)
{
	struct tcp_cmd *c = cmd_of(r);

	if (c->state != TCP_CMD_POOL_WAIT)
		return false;
	share_memory_forget(&c->share);
	c->state = TCP_CMD_TARGET;
	return true;
}

/* --- what comes ------------------------------------------------------------------------------- */

void tcp_cmd_begin(struct tcp_queue *q)
{
	uint32_t room = q->cmds ? q->tq.capsule_data_max : YOUNG_DATA_ROOM;
	struct tcp_cmd *c;

	if (list_empty(&q->free)) { /* more than a queue has entries */
		tcp_queue_terminate(q, NVME_TCP_FES_SEQUENCE, 0);
		return;
	}
	if (q->rx.data_len > room) {
		tcp_queue_terminate(q, NVME_TCP_FES_LIMIT_EXCEEDED, 0);
		return;
	}
	c = list_entry(list_pop_head(&q->free), struct tcp_cmd, link);
	c->state = TCP_CMD_CAPSULE;
	q->incoming = c;
	tcp_rx_place(&q->rx, c->capsule);
}

void tcp_cmd_whole(struct tcp_queue *q)
{
	struct tcp_cmd *c = q->incoming;

	q->incoming = NULL;
	c->state = TCP_CMD_TARGET;
	if (q->rx.data_fine)
		target_req_recv(&q->tq, &c->req, q->rx.head + NVME_TCP_CH_LEN, NVME_SQE_LEN,
				c->capsule, q->rx.data_len, q->tt->now_ns);
	else
		target_req_damaged(&q->tq, &c->req, q->rx.head + NVME_TCP_CH_LEN, NVME_SQE_LEN,
				   q->tt->now_ns);
}

/* Nobody can have seen an R2T that is not sent: they go one behind the other, and the last ones may
 * wait in a full socket while the host answers the first. */
static bool r2t_is_sent(const struct tcp_cmd *c, uint32_t i)
{
	const struct tcp_tx *tx = &c->queue->tx;
	size_t len = nvme_tcp_hlen(NVME_TCP_R2T) + (tx->hdgst ? NVME_TCP_DIGEST_LEN : 0);

	return !tcp_out_waits(&c->out) || tcp_tx_went(tx, &c->out) >= (i + 1) * len;
}

/* The command and the R2T that a PDU names; NULL: it names none, and why is said. */
static struct tcp_cmd *find_r2t(struct tcp_queue *q, const struct nvme_tcp_data *d)
{
	uint32_t i = d->ttag / TCP_R2TS_MAX;
	struct tcp_cmd *c = i <= q->cmd_count ? cmd_at(q, i) : NULL;

	if (!c || c->state != TCP_CMD_DATA || !r2t_is_sent(c, d->ttag % TCP_R2TS_MAX)) {
		tcp_queue_terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_TTAG);
		return NULL;
	}
	if (c->req.sqe.cid != d->cccid) {
		tcp_queue_terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_CCCID);
		return NULL;
	}
	return c;
}

void tcp_data_begin(struct tcp_queue *q)
{
	struct cursor cur = tcp_rx_header(&q->rx);
	struct nvme_tcp_data d;
	struct tcp_cmd *c;
	uint32_t i;

	nvme_tcp_data_get(&cur, &d);
	c = find_r2t(q, &d);
	if (!c)
		return;
	i = d.ttag % TCP_R2TS_MAX;
	if (d.datal != q->rx.data_len) {
		tcp_queue_terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_DATAL);
		return;
	}
	/* In order, and no more than was asked for. */
	if (d.datao != c->r2ts[i].next || d.datal > c->r2ts[i].end - c->r2ts[i].next) {
		tcp_queue_terminate(q, NVME_TCP_FES_OUT_OF_RANGE, 0);
		return;
	}
	c->r2ts[i].next += d.datal;
	if (q->rx.ch.flags & NVME_TCP_DATA_LAST && c->r2ts[i].next < c->r2ts[i].end) {
		tcp_queue_terminate(q, NVME_TCP_FES_SEQUENCE, 0);
		return;
	}
	q->incoming = c;
	if (c->req.loan)
		tcp_rx_place_pieces(&q->rx, c->req.loan->iov, d.datao);
	else
		tcp_rx_place(&q->rx, (uint8_t *)c->req.data + d.datao);
}

void tcp_data_whole(struct tcp_queue *q)
{
	struct tcp_cmd *c = q->incoming;

	q->incoming = NULL;
	c->damaged |= !q->rx.data_fine;
	c->left -= q->rx.data_len;
	if (c->left)
		return;
	list_remove(&c->moving);
	c->state = TCP_CMD_TARGET;
	target_req_ready(&c->req, c->damaged ? NVME_SC_TRANSIENT_TRANSPORT : NVME_SC_SUCCESS);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void cmd_init(struct tcp_queue *q, struct tcp_cmd *c, uint8_t *capsule)
{
	*c = (struct tcp_cmd){
		.share = {.queue = &q->share, .req = &c->req}, .queue = q, .capsule = capsule};
	tcp_out_init(&c->out, out_sent);
	list_init(&c->moving);
	list_push_tail(&q->free, &c->link);
}

static void op_disconnect(struct target_queue *tq)
{
	tcp_queue_kill(queue_of(tq)); /* what waits to be sent is sent first: it may say why */
}

static void op_arrive(struct target_queue *tq)
{
	struct tcp_queue *q = queue_of(tq);

	q->tt->arrived(q);
}

/* Its pages are those that capsules have come to. */
static int op_admit(struct target_queue *tq)
{
	struct tcp_queue *q = queue_of(tq);
	uint32_t count = tq->entries_asked;
	uint8_t *p;

	if (q->cmds) /* since a Connect that was refused after all */
		return count <= q->cmd_count ? 0 : -EAGAIN;
	if (!share_entries_take(&q->share, count))
		return -EAGAIN;
	q->memory_len = (size_t)count * tq->capsule_data_max;
	p = mmap(NULL, q->memory_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	q->cmds = calloc(count, sizeof(*q->cmds));
	if (!q->cmds) {
		munmap(p, q->memory_len);
		return -ENOMEM;
	}
	q->memory = p;
	q->cmd_count = count;
	for (uint32_t i = 0; i < count; i++)
		cmd_init(q, &q->cmds[i], p + (size_t)i * tq->capsule_data_max);
	return 0;
}

const struct target_transport_ops tcp_target_ops = {
	.trtype = NVMF_TRTYPE_TCP,
	.treq = NVMF_TREQ_NO_SQ_FLOW,
	.sgl = NVME_SGL_TRANSPORT_DATA_BLOCK,
	.sgl_max = 1,
	.mdts = TARGET_MDTS,
	.sends_pieces = true,
	.entries_max = TARGET_QUEUE_ENTRIES_MAX,
	.capsule_data_max = TARGET_CAPSULE_DATA,
	.fetch = op_fetch,
	.cancel = op_cancel,
	.respond = op_respond,
	.admit = op_admit,
	.disconnect = op_disconnect,
	.arrive = op_arrive,
};

int tcp_queue_open(struct tcp_queue *q)
{
	list_init(&q->free);
	list_init(&q->moving);
	q->page = data_pool_get(&q->tt->shares->pool, DATA_POOL_PAGE);
	if (!q->page)
		return -ENOMEM;
	cmd_init(q, &q->first_cmd, q->page);
	return 0;
}

void tcp_queue_close(struct tcp_queue *q)
{
	put_page(q);
	if (q->memory)
		munmap(q->memory, q->memory_len);
	free(q->cmds);
	q->memory = NULL;
	q->cmds = NULL;
}

/* What a store works on ends when the store is done, and finds the queue torn down. */
void tcp_queue_abandon(struct tcp_queue *q)
{
	assert(q->torn_down);
	tcp_tx_drop(&q->tx);
	q->incoming = NULL;
	for (uint32_t i = 0; i <= q->cmd_count; i++) {
		struct tcp_cmd *c = cmd_at(q, i);

		switch (c->state) {
		case TCP_CMD_POOL_WAIT:
			share_memory_forget(&c->share);
			c->state = TCP_CMD_TARGET;
			break;
		case TCP_CMD_DATA:
			list_remove(&c->moving);
			c->state = TCP_CMD_TARGET;
			break;
		case TCP_CMD_CAPSULE:
		case TCP_CMD_SENDING:
			release(c);
			break;
		case TCP_CMD_FREE:
		case TCP_CMD_TARGET:
			break;
		}
	}
	if (q->first_cmd.state == TCP_CMD_FREE)
		put_page(q);
	target_queue_disconnected(&q->tq);
}
