// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Completions, credits, and waiting for them. */
#include <byteswap.h>

#include "base/log.h"
#include "base/time.h"
#include "rsocket/counted.h"
#include "rsocket/attend.h"
#include "rsocket/stream.h"

enum { WC_BATCH = 32 };

void stream_fail(struct stream *s, int err)
{
	enum stream_state connected = STREAM_CONNECTED;

	if (!atomic_compare_exchange_strong(&s->state, &connected, STREAM_FAILED))
		return;
	rs_count(failed, 1);
	/* As TCP has it of a connection whose other direction had ended. */
	if (s->tcp && err == ECONNRESET && atomic_load(&s->fin))
		err = EPIPE;
	atomic_store(&s->err, err);
	sock_wake(&s->sock);
}

int stream_take_error(struct stream *s, int after)
{
	int err = atomic_exchange(&s->err, 0);

	return err ? -err : after;
}

/* ---- what completes, under cq_lock ----------------------------------------------------------- */

static void received_data(struct stream *s, uint32_t length)
{
	uint32_t tail = atomic_load(&s->msg_tail);
	uint32_t next = tail == s->set.rq_size ? 0 : tail + 1;

	/* A peer that keeps to its credits and our buffers never gets here. */
	if (length > s->rbuf_granted || next == atomic_load(&s->msg_head)) {
		log_warn("rsocket",
			 "queue pair 0x%06x: the peer has sent %u bytes, of which it may "
			 "send %u: the connection ends",
			 s->id->qp->qp_num, length, s->rbuf_granted);
		stream_fail(s, ECONNRESET);
		return;
	}
	if (!length) { /* there is nothing to read, but its credit is to be given back */
		atomic_fetch_add(&s->rseq_no, 1);
		return;
	}
	s->rbuf_granted -= length;
	s->rbuf_written = min_of(s->rbuf_written + length, s->set.rbuf_size);
	s->msg[tail] = length;
	atomic_store(&s->msg_tail, next);
}

static void received_ctrl(struct stream *s, uint32_t ctrl)
{
	enum stream_state connected = STREAM_CONNECTED;

	if (ctrl != RS_CTRL_SHUTDOWN && ctrl != RS_CTRL_DISCONNECT)
		return;
	atomic_store(&s->fin, true);
	if (ctrl == RS_CTRL_SHUTDOWN && atomic_load(&s->writable)) {
		atomic_store(&s->readable, false);
		return;
	}
	atomic_store(&s->readable, false);
	atomic_store(&s->writable, false);
	atomic_compare_exchange_strong(&s->state, &connected, STREAM_DISCONNECTED);
}

static void received(struct stream *s, const struct ibv_wc *wc)
{
	uint32_t imm;

	if (wc->status != IBV_WC_SUCCESS) {
		if (s->tcp && attend_peer_died(wc)) /* its kernel would have said so for it */
			received_ctrl(s, RS_CTRL_DISCONNECT);
		else
			stream_fail(s, ECONNRESET);
		return;
	}
	if (s->sends) {
		imm = s->said[(uint32_t)wc->wr_id];
		if (wc->byte_len != sizeof(imm))
			return;
		imm = s->swap ? bswap_32(imm) : imm;
	} else {
		if (!(wc->wc_flags & IBV_WC_WITH_IMM))
			return;
		imm = be32toh(wc->imm_data);
	}
	switch (rs_imm_op(imm)) {
	case RS_OP_DATA:
		received_data(s, rs_imm_value(imm));
		break;
	case RS_OP_SGL:
		atomic_store(&s->sseq_comp, (uint16_t)rs_imm_value(imm));
		break;
	case RS_OP_CTRL:
		received_ctrl(s, rs_imm_value(imm));
		break;
	case RS_OP_IOMAP_SGL: /* the entry is where it belongs, and its receive is posted again */
		atomic_fetch_add(&s->rseq_no, 1);
		break;
	default:
		break;
	}
}

static int send_error(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return ETIMEDOUT;
	case IBV_WC_WR_FLUSH_ERR:
		return ECONNRESET;
	default:
		return EIO;
	}
}

static void sent(struct stream *s, const struct ibv_wc *wc)
{
	const uint32_t value = (uint32_t)wc->wr_id;
	enum stream_state connected = STREAM_CONNECTED;

	if (wr_kind(wc->wr_id) == WR_DATA) {
		atomic_fetch_add(&s->sbuf_free, value);
		atomic_fetch_add(&s->sqe_free, wr_count(wc->wr_id));
	} else {
		atomic_fetch_add(&s->ctrl_free, 1);
		if (value == rs_imm(RS_OP_CTRL, RS_CTRL_DISCONNECT))
			atomic_compare_exchange_strong(&s->state, &connected, STREAM_DISCONNECTED);
	}
	/* Data that a peer which died had not taken are lost, and TCP says so; of ours it need not
	 * have had everything. */
	if (wc->status != IBV_WC_SUCCESS &&
	    (wr_kind(wc->wr_id) == WR_DATA || !s->tcp || !attend_peer_died(wc)))
		stream_fail(s, send_error(wc->status));
}

/* Those that these were. */
static int post_recvs(struct stream *s, const uint32_t *which, int count)
{
	struct ibv_recv_wr wr[WC_BATCH], *bad;
	struct ibv_sge sge[WC_BATCH];

	for (int i = 0; i < count; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)&s->said[which[i]], sizeof(*s->said),
					  s->rmr->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = wr_id(WR_RECV, 0, which[i]),
					     .sg_list = &sge[i],
					     .num_sge = s->sends,
					     .next = i + 1 < count ? &wr[i + 1] : NULL};
	}
	return count ? ibv_post_recv(s->id->qp, wr, &bad) : 0;
}

int stream_post_recv(struct stream *s, uint32_t i)
{
	return post_recvs(s, &i, 1);
}

/* So many at a time as there can be at a time: a peer that never stops is not to keep us here. */
static int take_completions(struct stream *s)
{
	const int most = s->cq->cqe;
	/* Before the queue is looked at: what came before the end is in it then. */
	const bool broken = atomic_load(&s->broken);
	struct ibv_wc wc[WC_BATCH];
	int n, total = 0;

	do {
		uint32_t which[WC_BATCH];
		int recvs = 0;

		n = ibv_poll_cq(s->cq, WC_BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (wr_kind(wc[i].wr_id) == WR_RECV) {
				which[recvs] = (uint32_t)wc[i].wr_id;
				recvs += wc[i].status == IBV_WC_SUCCESS;
				received(s, &wc[i]);
			} else {
				sent(s, &wc[i]);
			}
		}
		if (atomic_load(&s->state) != STREAM_FAILED && post_recvs(s, which, recvs))
			stream_fail(s, EIO);
		total += max_of(n, 0);
	} while (n == WC_BATCH && total < most);
	if (n == WC_BATCH) { /* who would sleep now is to look again first */
		atomic_store(&s->cq_armed, false);
		sock_wake(&s->sock);
	}
	if (n < 0)
		stream_fail(s, EIO);
	if (broken && n < WC_BATCH)
		stream_fail(s, ECONNRESET);
	return total;
}

/* ---- what we give, under cq_lock ------------------------------------------------------------- */

int stream_post_message(struct stream *s, struct ibv_send_wr *wr, uint32_t imm)
{
	struct ibv_sge word = {(uintptr_t)&imm, sizeof(imm), 0};
	struct ibv_send_wr *bad,
		send = {
			.wr_id = wr->wr_id,
			.sg_list = &word,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = (wr->send_flags & IBV_SEND_SIGNALED) | IBV_SEND_INLINE,
		};

	if (!s->sends) {
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->imm_data = htobe32(imm);
		return ibv_post_send(s->id->qp, wr, &bad);
	}
	if (!wr->num_sge)
		return ibv_post_send(s->id->qp, &send, &bad);
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->wr_id = wr_id(WR_DATA, 0, 0);
	wr->send_flags &= ~(unsigned int)IBV_SEND_SIGNALED;
	wr->next = &send;
	return ibv_post_send(s->id->qp, wr, &bad);
}

static int post_write(struct stream *s, struct ibv_sge *sge, uint32_t imm, uint64_t addr,
		      uint32_t rkey)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id(WR_CTRL, 1, imm),
		.sg_list = sge,
		.num_sge = sge ? 1 : 0,
		.send_flags = IBV_SEND_SIGNALED |
			      (sge && sge->length <= s->set.sq_inline ? IBV_SEND_INLINE : 0),
		.wr.rdma = {addr, rkey},
	};
	int rc;

	atomic_fetch_sub(&s->ctrl_free, 1);
	rc = stream_post_message(s, &wr, imm);
	if (rc) {
		atomic_fetch_add(&s->ctrl_free, 1);
		stream_fail(s, rc);
	}
	return -rc;
}

static bool half_free(const struct stream *s)
{
	return atomic_load(&s->rbuf_free) >= s->set.rbuf_size / 2;
}

bool stream_owes_credits(const struct stream *s)
{
	return half_free(s) ||
	       (int16_t)(atomic_load(&s->rseq_no) - atomic_load(&s->rseq_comp)) >= 0;
}

static bool credits_due(const struct stream *s)
{
	return stream_owes_credits(s) && atomic_load(&s->ctrl_free) > RS_END_WRS &&
	       atomic_load(&s->state) == STREAM_CONNECTED;
}

static void give_credits(struct stream *s)
{
	const uint16_t rseq_no = atomic_load(&s->rseq_no);
	const uint32_t half = s->set.rbuf_size / 2;
	const uint32_t imm = rs_imm(RS_OP_SGL, (uint16_t)(rseq_no + s->set.rq_size));
	struct rs_sge *entry;
	struct ibv_sge sge;
	uint64_t at;

	s->rseq_comp = (uint16_t)(rseq_no + s->set.rq_size / 2);
	if (!half_free(s)) {
		(void)!post_write(s, NULL, imm, 0, 0);
		return;
	}
	/* The places after the send buffer are used in turn, as many as there are messages. */
	entry = (struct rs_sge *)(s->sbuf + s->set.sbuf_size) +
		(s->rbuf_free_offset ? 1 : 0); /* at most one of each half is on its way */
	entry->addr = (uintptr_t)s->rbuf + s->rbuf_free_offset;
	entry->key = s->rmr->rkey;
	entry->length = half;
	if (s->swap) {
		entry->addr = bswap_64(entry->addr);
		entry->key = bswap_32(entry->key);
		entry->length = bswap_32(entry->length);
	}
	sge = (struct ibv_sge){(uintptr_t)entry, sizeof(*entry), s->smr->lkey};
	at = s->remote_sgl.addr + (uint64_t)s->remote_sge * sizeof(*entry);
	atomic_fetch_sub(&s->rbuf_free, half);
	s->rbuf_granted += half;
	s->rbuf_free_offset = s->rbuf_free_offset ? 0 : half;
	if (++s->remote_sge == s->remote_sgl.length)
		s->remote_sge = 0;
	(void)!post_write(s, &sge, imm, at, s->remote_sgl.key);
}

int stream_post_ctrl(struct stream *s, enum rs_ctrl ctrl)
{
	int rc = -EAGAIN;

	pthread_mutex_lock(&s->cq_lock);
	if (atomic_load(&s->ctrl_free) > 0)
		rc = post_write(s, NULL, rs_imm(RS_OP_CTRL, ctrl), 0, 0);
	pthread_mutex_unlock(&s->cq_lock);
	return rc;
}

/* An empty WRITE without immediate data: the peer's RNIC answers it, and its socket knows nothing.
 */
static bool post_empty(struct stream *s, int kept)
{
	struct ibv_send_wr *bad,
		wr = {
			.wr_id = wr_id(WR_CTRL, 1, rs_imm(RS_OP_CTRL, RS_CTRL_KEEPALIVE)),
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
		};
	bool posted = false;

	pthread_mutex_lock(&s->cq_lock);
	if (atomic_load(&s->state) == STREAM_CONNECTED && atomic_load(&s->ctrl_free) > kept) {
		atomic_fetch_sub(&s->ctrl_free, 1);
		posted = !ibv_post_send(s->id->qp, &wr, &bad);
		if (!posted)
			atomic_fetch_add(&s->ctrl_free, 1);
	}
	pthread_mutex_unlock(&s->cq_lock);
	return posted;
}

bool stream_keepalive(struct stream *s)
{
	return post_empty(s, RS_END_WRS);
}

void stream_post_empty(struct stream *s)
{
	(void)post_empty(s, 0);
}

/* ---- looking and waiting --------------------------------------------------------------------- */

static void progress_locked(struct stream *s)
{
	take_completions(s);
	while (credits_due(s))
		give_credits(s);
}

void stream_progress(struct stream *s)
{
	pthread_mutex_lock(&s->cq_lock);
	progress_locked(s);
	pthread_mutex_unlock(&s->cq_lock);
}

void stream_arm(struct stream *s)
{
	/* What came before it was armed makes no event. */
	bool look = true;

	pthread_mutex_lock(&s->cq_lock);
	if (!atomic_exchange(&s->cq_armed, true)) {
		if (s->channel)
			(void)!ibv_req_notify_cq(s->cq, 0);
		else
			look = attend_cq_arm(s->cq);
	} else {
		look = s->channel; /* an upcall would have told */
	}
	if (look || atomic_load(&s->broken))
		take_completions(s);
	while (credits_due(s))
		give_credits(s);
	pthread_mutex_unlock(&s->cq_lock);
}

int stream_event_fd(const struct stream *s)
{
	return s->channel ? s->channel->fd : -1;
}

void stream_told(void *stream)
{
	struct stream *s = stream;

	atomic_store(&s->cq_armed, false);
	sock_wake(&s->sock);
}

void stream_take_event(struct stream *s)
{
	struct ibv_cq *cq;
	void *context;

	pthread_mutex_lock(&s->cq_lock);
	if (!ibv_get_cq_event(s->channel, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		s->cq_armed = false;
		sock_wake(&s->sock); /* others who wait may find it taken */
	}
	pthread_mutex_unlock(&s->cq_lock);
}

struct wait {
	struct stream *s;
	bool (*ready)(struct stream *); /* or NULL: */
	size_t bytes;
};

static bool wait_over(const struct wait *w)
{
	if (w->ready)
		return w->ready(w->s);
	return !atomic_load(&w->s->readable) || atomic_load(&w->s->state) != STREAM_CONNECTED ||
	       stream_unread(w->s) >= w->bytes;
}

static bool wait_ready(void *arg)
{
	struct wait *w = arg;

	stream_arm(w->s);
	return wait_over(w);
}

static int wait_fd(void *arg)
{
	return stream_event_fd(((struct wait *)arg)->s);
}

static void wait_taken(void *arg)
{
	stream_take_event(((struct wait *)arg)->s);
}

int stream_wait(struct stream *s, bool (*ready)(struct stream *), bool nonblock, int timeout_ms)
{
	struct wait w = {.s = s, .ready = ready};
	uint64_t start = 0;

	do {
		stream_progress(s);
		if (ready(s))
			return 0;
		if (nonblock)
			return -EAGAIN;
		if (!start)
			start = time_now_ns();
	} while (time_now_ns() - start < s->set.polling_us * NSEC_PER_USEC);
	return sock_sleep(&s->sock, &(struct sock_waiting){wait_ready, wait_fd, wait_taken, &w},
			  timeout_ms);
}

int stream_wait_for_bytes(struct stream *s, size_t bytes, int timeout_ms)
{
	struct wait w = {.s = s, .bytes = bytes};

	return sock_sleep(&s->sock, &(struct sock_waiting){wait_ready, wait_fd, wait_taken, &w},
			  timeout_ms);
}
