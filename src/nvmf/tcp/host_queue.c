/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Commands of the host's queues: capsules, data, responses. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "nvmf/tcp/host.h"
#include "nvmf/tcp/socket.h"

#define TAKES_ICREQ (TCP_RX_TAKES(NVME_TCP_ICRESP) | TCP_RX_TAKES(NVME_TCP_C2H_TERM))
#define TAKES_UP                                                         \
	(TCP_RX_TAKES(NVME_TCP_RESP) | TCP_RX_TAKES(NVME_TCP_C2H_DATA) | \
	 TCP_RX_TAKES(NVME_TCP_R2T) | TCP_RX_TAKES(NVME_TCP_C2H_TERM))

/* --- ends ------------------------------------------------------------------------------------- */

void tcp_host_say(struct tcp_host *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->error, sizeof(t->error), fmt, ap);
	va_end(ap);
}

static void lost(struct tcp_host_queue *q, const char *why)
{
	struct tcp_host *t = q->t;

	tcp_host_say(t, "connection to %s:%s lost: %s", t->host, t->port, why);
	host_queue_lost(t->h, q->qid, NULL, t->now_ns);
}

static int send_waiting(struct tcp_host_queue *q)
{
	return q->tls ? tcp_socket_send_tls(q->fd, q->tls, &q->tx) : tcp_socket_send(q->fd, &q->tx);
}

/* The other side's end of it, or somebody's on the way. */
static const char *why_closed(const struct tcp_host_queue *q)
{
	if (q->state == TCP_HOST_SHAKING)
		return "the target ends it while TLS begins; does it speak TLS there?";
	if (q->tls && tcp_tls_state(q->tls) == TCP_TLS_UP)
		return "it is cut off: TLS was not ended";
	if (q->state == TCP_HOST_ICREQ && !q->tls)
		return "the target closed it before it said anything; does it require TLS (--tls)?";
	return "the target closed it";
}

/* The target broke the protocol: it is told how, as far as the socket takes it at once. */
static void terminate(struct tcp_host_queue *q, enum nvme_tcp_fes fes, uint32_t fei,
		      const char *violation)
{
	uint32_t len = min_of(q->rx.bad && q->rx.state == TCP_RX_HEAD ? q->rx.got
								      : (uint32_t)q->rx.ch.hlen,
			      (uint32_t)sizeof(q->wrong));
	struct nvme_tcp_term term = {.fes = (uint16_t)fes, .fei = fei};
	struct wcursor w;

	memcpy(q->wrong, q->rx.head, len);
	tcp_out_clear(&q->term);
	w = tcp_out_pdu(&q->term, &q->tx, NVME_TCP_H2C_TERM, 0, len);
	nvme_tcp_term_put(&w, &term);
	tcp_out_pdu_end(&q->term);
	q->term.data = q->wrong;
	q->term.data_len = len;
	tcp_tx_push(&q->tx, &q->term);
	if (send_waiting(q) != 0)
		log_debug("nvmf", "%s:%s is not told why", q->t->host, q->t->port);
	tcp_host_say(q->t, "connection to %s:%s lost: %s", q->t->host, q->t->port, violation);
	host_queue_lost(q->t->h, q->qid, violation, q->t->now_ns);
}

/* --- sending ---------------------------------------------------------------------------------- */

void tcp_host_queue_watch(struct tcp_host_queue *q, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.u32 = q->qid};

	if (q->events == events)
		return;
	if (epoll_ctl(q->t->epoll_fd, q->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, q->fd, &ev) != 0)
		lost(q, errno_text(errno));
	q->events = events;
}

static void set_full(struct tcp_host_queue *q, bool full)
{
	q->full = full;
	tcp_host_queue_watch(q, EPOLLIN | (full ? EPOLLOUT : 0u));
}

static bool is_lost(int error)
{
	return error && error != -EAGAIN;
}

void tcp_host_queue_flush(struct tcp_host_queue *q)
{
	int error = send_waiting(q);

	q->sending = false;
	if (is_lost(error)) {
		lost(q,
		     error == -EPIPE || error == -ECONNRESET ? why_closed(q) : errno_text(-error));
		return;
	}
	set_full(q, error == -EAGAIN);
}

/* Not the last of this turn: that says what is wrong, when all that came before it is heard. */
static void flush_early(struct tcp_host_queue *q)
{
	int error = send_waiting(q);

	if (!is_lost(error))
		set_full(q, error == -EAGAIN);
}

static void send_out(struct tcp_host_queue *q, struct tcp_out *o)
{
	tcp_tx_push(&q->tx, o);
	q->sending = true;
}

/* So many bytes of the command's data, behind the header that is there. */
static void out_data(struct tcp_host_command *c, uint32_t at, uint32_t len)
{
	const struct host_request *req = c->req;

	if (req->iov)
		tcp_out_pieces(&c->out, &c->queue->tx, req->iov, at, len);
	else
		tcp_out_data(&c->out, &c->queue->tx, (const uint8_t *)req->data + at, len, 0);
}

/* The next piece that an R2T asks for. */
static void send_data(struct tcp_host_command *c)
{
	struct tcp_host_queue *q = c->queue;
	uint32_t at = c->r2ts[c->r2t_first].at, left = c->r2ts[c->r2t_first].end - at;
	struct nvme_tcp_data d = {.cccid = c->req->sqe.cid,
				  .ttag = c->r2ts[c->r2t_first].ttag,
				  .datao = at,
				  .datal = min_of(left, q->maxh2cdata)};
	struct wcursor w;

	tcp_out_clear(&c->out);
	w = tcp_out_pdu(&c->out, &q->tx, NVME_TCP_H2C_DATA,
			d.datal == left ? NVME_TCP_DATA_LAST : 0, d.datal);
	nvme_tcp_data_put(&w, &d);
	tcp_out_pdu_end(&c->out);
	out_data(c, at, d.datal);
	c->r2ts[c->r2t_first].at += d.datal;
	if (d.datal == left) {
		c->r2t_first = (c->r2t_first + 1) % TCP_HOST_R2TS_MAX;
		c->r2t_count--;
	}
	send_out(q, &c->out);
}

static void out_sent(struct tcp_out *o)
{
	struct tcp_host_command *c = container_of(o, struct tcp_host_command, out);

	c->capsule_sent = true;
	/* A terminate request is the last that is said. */
	if (c->r2t_count && !tcp_out_waits(&c->queue->term))
		send_data(c);
}

int tcp_host_queue_submit(void *transport, uint16_t qid, struct host_request *req, bool in_capsule)
{
	struct tcp_host *t = tcp_host_of(transport);
	struct tcp_host_queue *q = &t->queues[qid];
	struct tcp_host_command *c = &q->commands[host_slot_of(req->sqe.cid)];
	struct nvme_sgl *sgl = &req->sqe.sgl;
	struct wcursor w;

	assert(q->state == TCP_HOST_UP && !c->req);
	/* Every controller takes those of its admin queue and of Connect in the capsule. */
	if (req->dir == NVMF_DIR_TO_CTRL && (qid == 0 || req->sqe.opcode == NVME_FABRICS))
		in_capsule = req->data_len <= NVME_TCP_ADMIN_CAPSULE_DATA;
	in_capsule &= req->data_len != 0;
	*sgl = (struct nvme_sgl){.len = req->data_len};
	sgl->type = in_capsule ? NVME_SGL_DATA_BLOCK : NVME_SGL_TRANSPORT_DATA_BLOCK;
	sgl->subtype = in_capsule ? NVME_SGL_OFFSET : NVME_SGL_TRANSPORT;
	c->req = req;
	c->in_capsule = in_capsule;
	c->capsule_sent = c->damaged = false;
	c->got = c->asked = 0;
	c->r2t_first = c->r2t_count = 0;
	tcp_out_clear(&c->out);
	w = tcp_out_pdu(&c->out, &q->tx, NVME_TCP_CMD, 0, in_capsule ? req->data_len : 0);
	nvme_sqe_put(&w, &req->sqe);
	tcp_out_pdu_end(&c->out);
	if (in_capsule)
		out_data(c, 0, req->data_len);
	q->outstanding++;
	send_out(q, &c->out);
	if (!t->batching && !q->full)
		tcp_host_queue_flush(q);
	else if (tcp_tx_has_enough(&q->tx, TCP_ENOUGH_CAPSULES) && !q->full)
		flush_early(q);
	return 0;
}

void tcp_host_queue_release(void *transport, uint16_t qid, struct host_request *req)
{
	struct tcp_host_queue *q = &tcp_host_of(transport)->queues[qid];
	struct tcp_host_command *c = &q->commands[host_slot_of(req->sqe.cid)];

	assert(c->req == req && !tcp_out_waits(&c->out));
	c->req = NULL;
	q->outstanding--;
}

/* --- what comes ------------------------------------------------------------------------------- */

/* The command of that ID, if it is outstanding. */
static struct tcp_host_command *find(struct tcp_host_queue *q, uint16_t cid)
{
	uint16_t slot = host_slot_of(cid);
	struct tcp_host_command *c = slot < q->entries ? &q->commands[slot] : NULL;

	if (c && c->req && c->req->sqe.cid == cid)
		return c;
	terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_CCCID,
		  "a PDU for a command that is not outstanding");
	return NULL;
}

static void on_icresp(struct tcp_host_queue *q)
{
	const struct transport_host_config *config = &q->t->config;
	struct cursor c = tcp_rx_header(&q->rx);
	struct nvme_tcp_icresp r;
	bool hdgst, ddgst;

	nvme_tcp_icresp_get(&c, &r);
	hdgst = r.dgst & NVME_TCP_IC_HDGST;
	ddgst = r.dgst & NVME_TCP_IC_DDGST;
	if (r.pfv != 0)
		terminate(q, NVME_TCP_FES_UNSUPPORTED, NVME_TCP_IC_PFV,
			  "it speaks another version of NVMe/TCP");
	else if (r.cpda > NVME_TCP_PDA_MAX)
		terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_IC_PDA,
			  "an alignment of data beyond 128 bytes");
	else if (r.maxh2cdata < NVME_TCP_MAXH2CDATA_MIN)
		terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_IC_MAXH2CDATA,
			  "it takes less than 4 KiB of data at a time");
	else if (hdgst != config->header_digest || ddgst != config->data_digest)
		terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_IC_DGST,
			  "it does not have the digests that were asked for");
	if (q->state != TCP_HOST_ICREQ)
		return;
	q->rx.hdgst = q->tx.hdgst = hdgst;
	q->rx.ddgst = q->tx.ddgst = ddgst;
	q->tx.pda = r.cpda;
	q->maxh2cdata = r.maxh2cdata & ~3u;
	q->rx.takes = TAKES_UP;
	q->state = TCP_HOST_UP;
	host_queue_opened(q->t->h, q->qid, q->entries, q->t->now_ns);
}

static void on_term(struct tcp_host_queue *q)
{
	struct cursor c = tcp_rx_header(&q->rx);
	struct nvme_tcp_term r;
	char why[96];

	nvme_tcp_term_get(&c, &r);
	snprintf(why, sizeof(why), "the target says that the protocol was broken: %s (%u)",
		 nvme_tcp_fes_name(r.fes), r.fei);
	lost(q, why);
}

static void on_r2t(struct tcp_host_queue *q)
{
	struct cursor cur = tcp_rx_header(&q->rx);
	struct nvme_tcp_r2t r;
	struct tcp_host_command *c;
	uint32_t len, i;

	nvme_tcp_r2t_get(&cur, &r);
	c = find(q, r.cccid);
	if (!c)
		return;
	len = c->req->data_len;
	if (!c->capsule_sent || c->in_capsule || c->req->dir != NVMF_DIR_TO_CTRL) {
		terminate(q, NVME_TCP_FES_SEQUENCE, 0, "it asks for data that there are none of");
		return;
	}
	if (!r.r2tl || r.r2to > len || r.r2tl > len - r.r2to || r.r2tl > len - c->asked) {
		terminate(q, NVME_TCP_FES_OUT_OF_RANGE, 0, "it asks for more than there is");
		return;
	}
	if (c->r2t_count == TCP_HOST_R2TS_MAX) {
		terminate(q, NVME_TCP_FES_LIMIT_EXCEEDED, 0, "it asks too often at a time");
		return;
	}
	c->asked += r.r2tl;
	i = (c->r2t_first + c->r2t_count) % TCP_HOST_R2TS_MAX;
	c->r2ts[i].at = r.r2to;
	c->r2ts[i].end = r.r2to + r.r2tl;
	c->r2ts[i].ttag = r.ttag;
	c->r2t_count++;
	if (!tcp_out_waits(&c->out))
		send_data(c);
}

/*
 * Whether so much of the command's data is all of it. What Authentication Receive says is the room
 * that there is for a message (AL): a shorter one ends where it ends.
 */
static bool is_whole(const struct tcp_host_command *c, uint32_t got)
{
	const struct nvme_sqe *sqe = &c->req->sqe;

	return got == c->req->data_len ||
	       (sqe->opcode == NVME_FABRICS && nvmf_fctype(sqe) == NVMF_AUTH_RECV);
}

static void on_data_header(struct tcp_host_queue *q)
{
	struct cursor cur = tcp_rx_header(&q->rx);
	struct tcp_host_command *c;
	struct nvme_tcp_data d;

	nvme_tcp_data_get(&cur, &d);
	c = find(q, d.cccid);
	if (!c)
		return;
	if (c->req->dir != NVMF_DIR_TO_HOST || !c->capsule_sent)
		terminate(q, NVME_TCP_FES_SEQUENCE, 0, "data that were not asked for");
	else if (d.datal != q->rx.data_len)
		terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_DATA_DATAL,
			  "data of another length than is said");
	else if (d.datao != c->got || d.datal > c->req->data_len - c->got)
		terminate(q, NVME_TCP_FES_OUT_OF_RANGE, 0, "data out of range, or out of order");
	else if ((q->rx.ch.flags & NVME_TCP_DATA_SUCCESS) &&
		 (!(q->rx.ch.flags & NVME_TCP_DATA_LAST) || !is_whole(c, c->got + d.datal)))
		terminate(q, NVME_TCP_FES_SEQUENCE, 0, "success before the last data");
	else {
		q->incoming = c;
		if (c->req->iov)
			tcp_rx_place_pieces(&q->rx, c->req->iov, d.datao);
		else
			tcp_rx_place(&q->rx, (uint8_t *)c->req->data + d.datao);
	}
}

/* With what came of it, unless a digest has shown that it is not what was sent. */
static void answer(struct tcp_host_command *c, struct nvme_cqe *cqe)
{
	struct tcp_host_queue *q = c->queue;
	uint8_t capsule[NVME_CQE_LEN];
	struct wcursor w = wcursor_init(capsule, sizeof(capsule));

	if (c->damaged)
		cqe->status = NVME_SC_TRANSIENT_TRANSPORT;
	nvme_cqe_put(&w, cqe);
	host_queue_response(q->t->h, q->qid, capsule, sizeof(capsule), q->t->now_ns);
}

static void on_data(struct tcp_host_queue *q)
{
	struct tcp_host_command *c = q->incoming;
	struct nvme_cqe cqe = {.cid = c->req->sqe.cid, .sqid = q->qid};

	q->incoming = NULL;
	c->got += q->rx.data_len;
	c->damaged |= !q->rx.data_fine;
	if (q->rx.ch.flags & NVME_TCP_DATA_SUCCESS)
		answer(c, &cqe);
}

static void on_response(struct tcp_host_queue *q)
{
	struct cursor cur = tcp_rx_header(&q->rx);
	struct tcp_host_command *c;
	struct nvme_cqe cqe;

	nvme_cqe_get(&cur, &cqe);
	c = find(q, cqe.cid);
	if (!c)
		return;
	/* Its memory is about to be its owner's again. */
	if (!c->capsule_sent || tcp_out_waits(&c->out))
		terminate(q, NVME_TCP_FES_SEQUENCE, 0,
			  "a response to a command that is still being sent");
	else if (c->req->dir == NVMF_DIR_TO_HOST && !(cqe.status & NVME_STATUS_CODE) &&
		 !is_whole(c, c->got))
		terminate(q, NVME_TCP_FES_SEQUENCE, 0, "success before the last data");
	else
		answer(c, &cqe);
}

static void on_pdu(struct tcp_host_queue *q)
{
	switch (q->rx.ch.type) {
	case NVME_TCP_ICRESP:
		on_icresp(q);
		break;
	case NVME_TCP_RESP:
		on_response(q);
		break;
	case NVME_TCP_C2H_DATA:
		on_data(q);
		break;
	case NVME_TCP_R2T:
		on_r2t(q);
		break;
	case NVME_TCP_C2H_TERM:
		on_term(q);
		break;
	default:
		break;
	}
}

/* What came, as long as the connection is the one that it came by. */
static void input(struct tcp_host_queue *q, const uint8_t *p, size_t len)
{
	const uint8_t *end = p + len;

	for (uint32_t generation = q->generation; q->generation == generation;) {
		switch (tcp_rx_eat(&q->rx, &p, end)) {
		case TCP_RX_MORE:
			return;
		case TCP_RX_HEADER:
			if (q->rx.ch.type == NVME_TCP_C2H_DATA)
				on_data_header(q);
			break;
		case TCP_RX_PDU:
			on_pdu(q);
			break;
		case TCP_RX_BAD:
			terminate(q, q->rx.fes, q->rx.fei, nvme_tcp_fes_name(q->rx.fes));
			return;
		}
	}
}

static void tls_ended(struct tcp_host_queue *q)
{
	struct tcp_host *t = q->t;

	if (tcp_tls_state(q->tls) == TCP_TLS_CLOSED) {
		lost(q, "the target closed it");
		return;
	}
	(void)!send_waiting(q); /* an alert, as far as the socket takes it at once */
	if (q->state != TCP_HOST_SHAKING)
		tcp_host_say(t, "connection to %s:%s lost: TLS: %s", t->host, t->port,
			     tcp_tls_why(q->tls));
	else if (t->generated)
		tcp_host_say(
			t,
			"%s:%s: TLS fails: %s; the key was made by authentication just before, "
			"with whoever answered there then",
			t->host, t->port, tcp_tls_why(q->tls));
	else
		tcp_host_say(t,
			     "%s:%s: TLS fails: %s; both sides need the same key for host and "
			     "subsystem (--tls-key), derived alike (--tls-identity, --tls-compat)",
			     t->host, t->port, tcp_tls_why(q->tls));
	host_queue_lost(t->h, q->qid, NULL, t->now_ns);
}

static void begin_pdus(struct tcp_host_queue *q);

/* What came as records; as long as the connection is the one that it came by. */
static void input_records(struct tcp_host_queue *q, const uint8_t *p, size_t len)
{
	const uint32_t generation = q->generation;
	struct tcp_host *t = q->t;
	const void *out;
	size_t got;
	ssize_t n;

	tcp_tls_feed(q->tls, p, len);
	do {
		n = tcp_tls_take(q->tls, &q->rx, t->plain, sizeof(t->plain), &got);
		if (q->state == TCP_HOST_SHAKING && tcp_tls_state(q->tls) == TCP_TLS_UP)
			begin_pdus(q);
		if (n > 0 && q->generation == generation)
			input(q, t->plain, got);
	} while (n > 0 && q->generation == generation);
	if (q->generation != generation)
		return;
	if (n < 0)
		tls_ended(q);
	else if (tcp_tls_out(q->tls, &out) && !q->full)
		tcp_host_queue_flush(q);
}

bool tcp_host_queue_receive(struct tcp_host_queue *q)
{
	struct tcp_host *t = q->t;
	const uint32_t generation = q->generation;
	bool any = false, drained = false;
	size_t len;
	ssize_t n;

	for (size_t all = 0; q->generation == generation && !drained && all < TCP_HOST_TURN;
	     all += (size_t)n) {
		n = tcp_socket_read(q->fd, q->tls ? NULL : &q->rx, t->buffer, sizeof(t->buffer),
				    &len, &drained);
		if (n == -EAGAIN)
			break;
		any = true;
		if (n <= 0) {
			lost(q, n == 0 || n == -ECONNRESET ? why_closed(q) : errno_text((int)-n));
			break;
		}
		if (q->tls)
			input_records(q, t->buffer, len);
		else
			input(q, t->buffer, len);
	}
	return any;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void begin_pdus(struct tcp_host_queue *q)
{
	const struct transport_host_config *config = &q->t->config;
	struct nvme_tcp_icreq req = {.maxr2t = TCP_HOST_R2TS_MAX - 1};
	struct wcursor w;

	req.dgst = (config->header_digest ? NVME_TCP_IC_HDGST : 0) |
		   (config->data_digest ? NVME_TCP_IC_DDGST : 0);
	q->state = TCP_HOST_ICREQ;
	w = tcp_out_pdu(&q->icreq, &q->tx, NVME_TCP_ICREQ, 0, 0);
	nvme_tcp_icreq_put(&w, &req);
	tcp_out_pdu_end(&q->icreq);
	tcp_tx_push(&q->tx, &q->icreq);
	tcp_host_queue_flush(q);
}

void tcp_host_queue_begin(struct tcp_host_queue *q)
{
	struct tcp_host *t = q->t;

	if (!t->psk.len) {
		begin_pdus(q);
		return;
	}
	q->state = TCP_HOST_SHAKING;
	q->tls = tcp_tls_of_host(t->tls, &t->psk);
	if (q->tls)
		tcp_host_queue_flush(q);
	else
		lost(q, "out of memory");
}

int tcp_host_queue_setup(struct tcp_host_queue *q)
{
	q->commands = calloc(q->entries, sizeof(*q->commands));
	if (!q->commands)
		return -ENOMEM;
	for (uint16_t i = 0; i < q->entries; i++) {
		q->commands[i].queue = q;
		tcp_out_init(&q->commands[i].out, out_sent);
	}
	tcp_rx_init(&q->rx, TAKES_ICREQ, UINT32_MAX);
	tcp_tx_init(&q->tx);
	tcp_out_init(&q->icreq, NULL);
	tcp_out_init(&q->term, NULL);
	q->incoming = NULL;
	q->outstanding = 0;
	q->sending = q->full = false;
	return 0;
}

void tcp_host_queue_teardown(struct tcp_host_queue *q)
{
	tcp_tx_drop(&q->tx);
	if (q->tls && q->fd >= 0) { /* as far as the socket takes it at once */
		tcp_tls_close(q->tls);
		(void)!tcp_socket_send_tls(q->fd, q->tls, &q->tx);
	}
	tcp_tls_destroy(q->tls);
	q->tls = NULL;
	free(q->commands);
	q->commands = NULL;
}
