/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What comes on a queue, PDU by PDU, and in which state it may. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "nvmf/tcp/target.h"

#define TAKES_NEW TCP_RX_TAKES(NVME_TCP_ICREQ)
#define TAKES_UP                                                        \
	(TCP_RX_TAKES(NVME_TCP_H2C_TERM) | TCP_RX_TAKES(NVME_TCP_CMD) | \
	 TCP_RX_TAKES(NVME_TCP_H2C_DATA))

static void on_icreq(struct tcp_queue *q)
{
	struct cursor c = tcp_rx_header(&q->rx);
	struct nvme_tcp_icresp resp = {.maxh2cdata = TARGET_DATA_MAX};
	struct nvme_tcp_icreq req;
	struct wcursor w;

	nvme_tcp_icreq_get(&c, &req);
	if (req.pfv != 0) {
		tcp_queue_terminate(q, NVME_TCP_FES_UNSUPPORTED, NVME_TCP_IC_PFV);
		return;
	}
	if (req.hpda > NVME_TCP_PDA_MAX) {
		tcp_queue_terminate(q, NVME_TCP_FES_HEADER_FIELD, NVME_TCP_IC_PDA);
		return;
	}
	resp.dgst = req.dgst & (NVME_TCP_IC_HDGST | NVME_TCP_IC_DDGST);
	w = tcp_out_pdu(&q->icresp, &q->tx, NVME_TCP_ICRESP, 0, 0);
	nvme_tcp_icresp_put(&w, &resp);
	tcp_out_pdu_end(&q->icresp);
	q->tx.hdgst = q->rx.hdgst = resp.dgst & NVME_TCP_IC_HDGST;
	q->tx.ddgst = q->rx.ddgst = resp.dgst & NVME_TCP_IC_DDGST;
	q->tx.pda = req.hpda;
	q->r2ts = min_of(req.maxr2t, TCP_R2TS_MAX - 1u) + 1;
	q->rx.takes = TAKES_UP;
	q->state = TCP_QUEUE_UP;
	tcp_queue_send(q, &q->icresp);
}

static void on_term(struct tcp_queue *q)
{
	struct cursor c = tcp_rx_header(&q->rx);
	struct nvme_tcp_term t;

	nvme_tcp_term_get(&c, &t);
	tcp_queue_fail(q, "the host says that the protocol was broken: %s (%u)",
		       nvme_tcp_fes_name(t.fes), t.fei);
}

/* What came behind those headers lies where other connections' bytes come next: said already, and,
 * by TLS, in records of which nothing is. */
static bool carry(struct tcp_queue *q, const uint8_t *rest, size_t len)
{
	const void *sealed = NULL;
	size_t sealed_len = q->tls ? tcp_tls_unfeed(q->tls, &sealed) : 0;

	q->carried = malloc(len + sealed_len + 1);
	if (!q->carried) {
		if (q->tls)
			tcp_tls_feed(q->tls, sealed, sealed_len);
		return false;
	}
	memcpy(q->carried, rest, len);
	q->carried_len = len;
	if (sealed_len)
		memcpy(q->carried + len, sealed, sealed_len);
	q->sealed_len = sealed_len;
	return true;
}

/*
 * A connection goes to the group that its Connect is for, when the headers of that are there: no
 * command is begun, and what came behind them goes along. One that has not taken the response to a
 * command before stays: there is no place for Connect.
 */
static bool is_anothers(struct tcp_queue *q, const uint8_t *rest, size_t len)
{
	const struct tcp_target *tt = q->tt;
	const struct target_group *g;

	if (q->cmds || q->rx.ch.type != NVME_TCP_CMD || list_empty(&q->free) ||
	    list_empty(&tt->others) || tt->shutting_down)
		return false;
	g = target_group_for(&q->tq, q->rx.head + NVME_TCP_CH_LEN, NVME_SQE_LEN);
	q->to = NULL;
	list_for_each(o, &tt->others, struct tcp_target, link)
		if (o->group == g)
			q->to = o;
	return q->to && carry(q, rest, len);
}

static void on_header(struct tcp_queue *q)
{
	switch (q->rx.ch.type) {
	case NVME_TCP_CMD:
		tcp_cmd_begin(q);
		break;
	case NVME_TCP_H2C_DATA:
		tcp_data_begin(q);
		break;
	default:
		break;
	}
}

static void on_pdu(struct tcp_queue *q)
{
	switch (q->rx.ch.type) {
	case NVME_TCP_ICREQ:
		on_icreq(q);
		break;
	case NVME_TCP_CMD:
		tcp_cmd_whole(q);
		break;
	case NVME_TCP_H2C_DATA:
		tcp_data_whole(q);
		break;
	case NVME_TCP_H2C_TERM:
		on_term(q);
		break;
	default:
		break;
	}
}

bool tcp_queue_input(struct tcp_queue *q, const uint8_t *p, size_t len)
{
	const uint8_t *end = p + len;

	while (q->state != TCP_QUEUE_DYING) {
		switch (tcp_rx_eat(&q->rx, &p, end)) {
		case TCP_RX_MORE:
			return true;
		case TCP_RX_HEADER:
			if (is_anothers(q, p, (size_t)(end - p)))
				return false;
			on_header(q);
			break;
		case TCP_RX_PDU:
			on_pdu(q);
			break;
		case TCP_RX_BAD:
			tcp_queue_terminate(q, q->rx.fes, q->rx.fei);
			break;
		}
	}
	return true;
}

void tcp_queue_resume(struct tcp_queue *q, const uint8_t *p, size_t len)
{
	bool mine;

	on_header(q);
	mine = tcp_queue_input(q, p, len);
	(void)mine; /* it goes once */
}

/* --- coming and going ------------------------------------------------------------------------- */

static void op_has_memory(struct share_cmd *s)
{
	tcp_cmd_has_memory(container_of(s, struct tcp_cmd, share));
}

static void op_give_way(struct share_queue *s)
{
	struct tcp_queue *q = container_of(s, struct tcp_queue, share);

	tcp_queue_fail(q, "it gave way to newer connections");
}

static const struct share_ops share_ops = {.has_memory = op_has_memory, .give_way = op_give_way};

bool tcp_queue_join(struct tcp_queue *q, const uint8_t key[16])
{
	if (!share_queue_init(&q->share, q->tt->shares, &share_ops, key))
		return false;
	q->share.established = true; /* it has answered from where it says that it is */
	if (tcp_queue_open(q) == 0)
		return true;
	share_queue_fini(&q->share);
	q->share.shares = NULL;
	return false;
}

void tcp_queue_part(struct tcp_queue *q)
{
	tcp_queue_close(q);
	if (q->share.shares)
		share_queue_fini(&q->share);
	list_remove(&q->sending);
	list_remove(&q->link);
}

struct tcp_queue *tcp_queue_create(struct tcp_target *tt, struct target_port *port, int fd,
				   const uint8_t key[16], const char *traddr, const char *raddr)
{
	struct tcp_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->tt = tt;
	q->fd = fd;
	if (!tcp_queue_join(q, key)) {
		free(q);
		return NULL;
	}
	tcp_rx_init(&q->rx, TAKES_NEW, TARGET_DATA_MAX);
	tcp_tx_init(&q->tx);
	tcp_out_init(&q->icresp, NULL);
	tcp_out_init(&q->term, NULL);
	list_init(&q->sending);
	q->tq = (struct target_queue){
		.group = tt->group,
		.ops = &tcp_target_ops,
		.port = port,
		.qid = TARGET_QID_UNKNOWN,
		.entries_max = tcp_target_ops.entries_max,
		/* What it is for is not known yet: for the admin queue that is enough. */
		.capsule_data_max = target_port_capsule_room(port, &tcp_target_ops),
	};
	memcpy(q->tq.peer, key, sizeof(q->tq.peer));
	strncpy(q->tq.traddr, traddr, sizeof(q->tq.traddr) - 1);
	strncpy(q->tq.raddr, raddr, sizeof(q->tq.raddr) - 1);
	atomic_fetch_add(&port->connections, 1);
	list_push_tail(&tt->queues, &q->link);
	target_queue_init(&q->tq, tt->group->target, tt->now_ns);
	return q;
}

void tcp_queue_free(struct tcp_queue *q)
{
	struct target_port *port = q->tq.port;

	tcp_tls_destroy(q->tls);
	tcp_queue_part(q);
	free(q->carried);
	free(q);
	atomic_fetch_sub(&port->connections, 1); /* it may be gone from here on */
}
