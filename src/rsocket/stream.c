// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The life of a stream socket: made, given a queue pair and buffers, shut down, destroyed. */
#include "rsocket/stream.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/attend.h"
#include "rsocket/pages.h"
#include "rsocket/svc.h"

enum { CLOSE_MS = 100 };

/* ---- made ------------------------------------------------------------------------------------ */

static struct stream *stream_alloc(int domain, const struct settings *set)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	if (sock_init(&s->sock, SOCK_STREAM, domain)) {
		free(s);
		return NULL;
	}
	s->set = *set;
	s->linger_s = -1;
	pthread_mutex_init(&s->cq_lock, NULL);
	pthread_mutex_init(&s->slock, NULL);
	pthread_mutex_init(&s->rlock, NULL);
	pthread_mutex_init(&s->map_lock, NULL);
	list_init(&s->keepalive);
	list_init(&s->lingering);
	list_init(&s->asking);
	list_init(&s->waited_for);
	list_init(&s->accepting);
	list_init(&s->accepted);
	list_init(&s->node);
	list_init(&s->iomap_new);
	list_init(&s->iomap_told);
	return s;
}

static void stream_free(struct stream *s)
{
	sock_fini(&s->sock);
	if (s->claimed)
		munmap(s->claimed, sizeof(*s->claimed));
	free(s->msg);
	free(s->iomap);
	free(s->route);
	free(s);
}

int stream_create(int domain, struct stream **ret)
{
	struct rdma_event_channel *channel = svc_channel();
	struct stream *s;

	if (!channel)
		return -errno;
	errno = ENOMEM;
	s = stream_alloc(domain, settings_default());
	if (!s)
		return -errno;
	if (rdma_create_id(channel, &s->id, s, RDMA_PS_TCP)) {
		int rc = -errno;

		stream_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

int stream_adopt(const struct stream *listener, struct rdma_cm_id *id, struct stream **ret)
{
	struct stream *s = stream_alloc(listener->sock.domain, &listener->set);

	if (!s)
		return -ENOMEM;
	s->id = id;
	id->context = s;
	/* As TCP's are inherited. */
	s->so_opts = listener->so_opts & 1u << SO_KEEPALIVE;
	s->tcp_opts = listener->tcp_opts;
	s->keepalive_s = listener->keepalive_s;
	s->linger_s = listener->linger_s;
	s->tcp = listener->tcp;
	s->sock.rcv_timeout_ms = listener->sock.rcv_timeout_ms;
	s->sock.snd_timeout_ms = listener->sock.snd_timeout_ms;
	*ret = s;
	return 0;
}

/* ---- queue pair and buffers ------------------------------------------------------------------ */

/*
 * More receives than the peer gets credits for: its control messages take none. Between two looks
 * of ours at the completions it has reason for a handful, and an RNR NAK would cost 655 ms, which
 * is the timer that connection management gives queue pairs.
 */
static uint32_t recv_wrs(const struct stream *s)
{
	return s->set.rq_size + 2 * RS_CTRL_WRS;
}

/* A message may be two work requests. */
static uint32_t send_wrs(const struct stream *s)
{
	return s->sends ? 2 * s->set.sq_size : s->set.sq_size;
}

static int create_cq(struct stream *s)
{
	const int cqe = (int)(send_wrs(s) + recv_wrs(s));

	if (attend_usable()) {
		s->cq = ibv_create_cq(s->id->verbs, cqe, s, NULL, 0);
		if (!s->cq)
			return -errno;
		attend_cq_tell(s->cq, stream_told, s);
		return 0;
	}
	s->channel = ibv_create_comp_channel(s->id->verbs);
	if (!s->channel)
		return -errno;
	if (fcntl(s->channel->fd, F_SETFL, O_NONBLOCK) ||
	    fcntl(s->channel->fd, F_SETFD, FD_CLOEXEC))
		return -errno;
	s->cq = ibv_create_cq(s->id->verbs, cqe, s, s->channel, 0);
	return s->cq ? 0 : -errno;
}

static int create_qp(struct stream *s)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = send_wrs(s),
			.max_recv_wr = recv_wrs(s),
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = s->set.sq_inline},
	};

	if (rdma_create_qp(s->id, NULL, &attr)) {
		/* No attribute of a device says how much it takes inline. */
		if (s->set.sq_inline <= settings_default()->sq_inline)
			return -errno;
		attr.cap.max_inline_data = settings_default()->sq_inline;
		attr.send_cq = attr.recv_cq = s->cq;
		if (rdma_create_qp(s->id, NULL, &attr))
			return -errno;
	}
	s->set.sq_inline = attr.cap.max_inline_data;
	return 0;
}

static int create_buffers(struct stream *s)
{
	const size_t sgl_at = (s->set.rbuf_size + 63) & ~(size_t)63;

	s->msg = calloc(s->set.rq_size + 1, sizeof(*s->msg));
	s->sbuf_bytes = s->set.sbuf_size + RS_CTRL_WRS * sizeof(struct rs_sge);
	s->sbuf = pages_take(s->sbuf_bytes);
	s->rbuf_bytes = sgl_at + RS_SGL_SIZE * sizeof(struct rs_sge) +
			s->set.iomap_size * sizeof(struct rs_iomap) +
			(s->sends ? recv_wrs(s) * sizeof(*s->said) : 0);
	s->rbuf = pages_take(s->rbuf_bytes);
	if (!s->msg || !s->sbuf || !s->rbuf)
		return -ENOMEM;
	memset(s->rbuf + sgl_at, 0, s->rbuf_bytes - sgl_at);
	s->smr = ibv_reg_mr(s->id->pd, s->sbuf, s->sbuf_bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!s->smr)
		return -errno;
	s->rmr = ibv_reg_mr(s->id->pd, s->rbuf, s->rbuf_bytes,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!s->rmr)
		return -errno;
	s->target_sgl = (struct rs_sge *)(s->rbuf + sgl_at);
	s->target_iomap = (struct rs_iomap *)(s->target_sgl + RS_SGL_SIZE);
	s->said = (uint32_t *)(s->target_iomap + s->set.iomap_size);
	return 0;
}

static int limit_sizes(struct stream *s)
{
	struct ibv_device_attr attr;
	uint32_t max;

	if (ibv_query_device(s->id->verbs, &attr))
		return -errno;
	s->sends = s->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	if (s->sends)
		s->set.sq_inline = max_of(s->set.sq_inline, (uint32_t)sizeof(*s->said));
	max = (uint32_t)min_of(attr.max_qp_wr, attr.max_cqe / 2) / (s->sends ? 2 : 1);
	max = min_of(max - 2 * RS_CTRL_WRS, (uint32_t)RS_QP_SIZE_MAX);
	s->set.sq_size = clamp_u32(s->set.sq_size, RS_QP_SIZE_MIN, max);
	s->set.rq_size = clamp_u32(s->set.rq_size, RS_QP_SIZE_MIN, max);
	s->set.rbuf_size = max_of(s->set.rbuf_size, 2u) & ~1u; /* two halves */
	s->set.sbuf_size = (max_of(s->set.sbuf_size, 2u * RS_SNDLOWAT) + 7) & ~7u;
	return 0;
}

int stream_setup(struct stream *s)
{
	int rc = limit_sizes(s);

	if (!rc)
		rc = create_cq(s);
	if (!rc)
		rc = create_qp(s);
	if (!rc)
		rc = create_buffers(s);
	for (uint32_t i = 0; !rc && i < recv_wrs(s); i++)
		rc = -stream_post_recv(s, i);
	atomic_store(&s->sqe_free, (int)s->set.sq_size - RS_CTRL_WRS);
	atomic_store(&s->ctrl_free, RS_CTRL_WRS);
	atomic_store(&s->sbuf_free, s->set.sbuf_size);
	/* The first half goes with the connection, the second with the first RS_OP_SGL. */
	atomic_store(&s->rbuf_free, s->set.rbuf_size / 2);
	s->rbuf_free_offset = s->set.rbuf_size / 2;
	s->rbuf_granted = s->set.rbuf_size / 2;
	s->rseq_comp = (uint16_t)(s->set.rq_size / 2);
	return rc;
}

void stream_conn_data(const struct stream *s, struct rs_conn *conn)
{
	*conn = (struct rs_conn){
		.flags = RS_CONN_IOMAP | (htobe16(1) == 1 ? RS_CONN_NET : 0),
		.credits = (uint16_t)s->set.rq_size,
		.iomap_size = (uint16_t)s->set.iomap_size,
		.sgl = {(uintptr_t)s->target_sgl, s->rmr->rkey, RS_SGL_SIZE},
		.data = {(uintptr_t)s->rbuf, s->rmr->rkey, s->set.rbuf_size / 2},
	};
}

int stream_take_conn_data(struct stream *s, const struct rs_conn *conn)
{
	s->swap = !!(conn->flags & RS_CONN_NET) != (htobe16(1) == 1);
	s->remote_sgl = conn->sgl;
	s->remote_sge = conn->sgl.length > 1;
	if (conn->flags & RS_CONN_IOMAP) {
		s->remote_iomap.addr =
			conn->sgl.addr + (uint64_t)conn->sgl.length * sizeof(struct rs_sge);
		s->remote_iomap.key = conn->sgl.key;
		s->remote_iomap.length = conn->iomap_size;
	}
	s->target_sgl[0].addr = conn->data.addr;
	s->target_sgl[0].key = conn->data.key;
	s->target_sgl[0].length = conn->data.length;
	atomic_store(&s->sseq_comp, conn->credits);
	s->credits_kept = conn->credits > 2 * RS_CTRL_WRS ? RS_CTRL_WRS : 0;
	atomic_store(&s->readable, true);
	atomic_store(&s->writable, true);
	return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void release_verbs(struct stream *s)
{
	if (s->id->qp)
		rdma_destroy_qp(s->id);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->channel)
		ibv_destroy_comp_channel(s->channel);
	stream_drop_iomaps(s);
	if (s->smr)
		ibv_dereg_mr(s->smr);
	if (s->rmr)
		ibv_dereg_mr(s->rmr);
	if (s->sbuf)
		pages_give(s->sbuf, s->sbuf_bytes);
	if (s->rbuf) {
		/* The next peer may say that it has written what it has not. */
		memset(s->rbuf, 0, s->rbuf_written);
		pages_give(s->rbuf, s->rbuf_bytes);
	}
}

void stream_destroy(struct stream *s)
{
	struct list *n;

	while ((n = list_pop_head(&s->asking)) || (n = list_pop_head(&s->accepting)) ||
	       (n = list_pop_head(&s->accepted)))
		stream_destroy(list_entry(n, struct stream, node));
	list_remove(&s->node);
	list_remove(&s->waited_for);
	list_remove(&s->lingering);
	svc_keepalive(s, 0);
	release_verbs(s);
	rdma_destroy_id(s->id); /* which disconnects, too */
	stream_free(s);
}

/* The last of what is sent is a control message, and queue pairs complete in order. */
static bool all_sent(struct stream *s)
{
	return atomic_load(&s->state) == STREAM_FAILED || atomic_load(&s->ctrl_free) == RS_CTRL_WRS;
}

int stream_shutdown(struct stream *s, int how)
{
	enum rs_ctrl ctrl;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (s->tcp && atomic_load(&s->state) == STREAM_LISTENING)
		return how == SHUT_WR ? 0 : stream_unlisten(s);
	if (atomic_load(&s->state) < STREAM_CONNECTED)
		return -ENOTCONN;
	if (s->tcp) {
		stream_progress(s);
		if (stream_is_over(s))
			return -ENOTCONN;
	}
	if (how != SHUT_RD)
		atomic_store(&s->ours_said, true);
	if (atomic_load(&s->state) != STREAM_CONNECTED) {
		sock_wake(&s->sock); /* to poll() it is another state even so */
		return 0;
	}
	if (how == SHUT_WR && !atomic_load(&s->writable))
		return 0;
	if (how != SHUT_RD)
		atomic_store(&s->writable, false);
	if (how != SHUT_WR)
		atomic_store(&s->readable, false);
	sock_wake(&s->sock);
	if (how == SHUT_RD && atomic_load(&s->writable))
		return 0; /* the peer need not know */
	ctrl = atomic_load(&s->readable) ? RS_CTRL_SHUTDOWN : RS_CTRL_DISCONNECT;
	if (!(atomic_fetch_or(&s->end_told, 1u << ctrl) & 1u << ctrl))
		(void)!stream_post_ctrl(s, ctrl); /* it says itself what is wrong */
	return 0;
}

bool stream_is_over(struct stream *s)
{
	const enum stream_state state = atomic_load(&s->state);

	return state == STREAM_FAILED ||
	       (state == STREAM_DISCONNECTED && atomic_load(&s->ours_said) && atomic_load(&s->fin));
}

void stream_reset(struct stream *s)
{
	svc_lock();
	rdma_disconnect(s->id);
	svc_unlock();
	stream_fail(s, ECONNRESET);
}

void stream_say_end(struct stream *s)
{
	stream_progress(s);
	/* As with TCP, the peer learns that nobody will see what it has sent: its connection is
	 * reset, when all that it is to have is there. */
	s->unread = s->tcp && stream_has_data(s);
	if (s->unread)
		stream_post_empty(s);
	else
		(void)!stream_shutdown(s, SHUT_RDWR);
}

bool stream_all_sent(struct stream *s)
{
	stream_progress(s);
	return all_sent(s);
}

uint64_t stream_linger_end(const struct stream *s)
{
	const int seconds = s->linger_s < 0 ? RS_LINGER_S : s->linger_s;

	return time_now_ns() + (uint64_t)seconds * NSEC_PER_SEC;
}

void stream_linger(struct stream *s, uint64_t end_ns)
{
	uint64_t now;

	if (!s->linger_s || atomic_load(&s->state) < STREAM_CONNECTED)
		return;
	stream_say_end(s);
	while ((now = time_now_ns()) < end_ns &&
	       stream_wait(s, all_sent, false, (int)((end_ns - now) / NSEC_PER_MSEC) + 1) == -EINTR)
		;
}

int stream_close(struct stream *s)
{
	uint64_t end;

	if (sock_inherited(&s->sock)) {
		/* The connection is the parent's. Only the descriptors are ours, and some memory.
		 */
		if (s->channel)
			close(s->channel->fd);
		sock_fini(&s->sock);
		return 0;
	}
	end = s->linger_s < 0 ? time_now_ns() + CLOSE_MS * NSEC_PER_MSEC : stream_linger_end(s);
	stream_linger(s, sock_nonblocking(&s->sock, 0) && s->linger_s < 0 ? 0 : end);
	svc_lock();
	if (s->linger_s < 0 && atomic_load(&s->state) >= STREAM_CONNECTED && !stream_all_sent(s))
		svc_linger(s);
	else
		stream_destroy(s);
	svc_unlock();
	return 0;
}
