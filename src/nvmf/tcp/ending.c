/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* That a queue is to end: who finds that out only says so here, and connection.c buries it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "nvmf/tcp/target.h"

void tcp_queue_kill(struct tcp_queue *q)
{
	if (q->state == TCP_QUEUE_DYING)
		return;
	q->state = TCP_QUEUE_DYING;
	share_queue_grown(&q->share);
	timer_cancel(&q->tt->timers, &q->timer);
	list_remove(&q->link);
	list_push_tail(&q->tt->dying, &q->link);
}

void tcp_queue_fail(struct tcp_queue *q, const char *fmt, ...)
{
	va_list ap;

	if (q->state != TCP_QUEUE_DYING && !q->tq.why[0]) {
		va_start(ap, fmt);
		vsnprintf(q->tq.why, sizeof(q->tq.why), fmt, ap);
		va_end(ap);
		log_info("nvmf", "queue %u of %s: %s", q->tq.qid,
			 q->tq.ctrl ? q->tq.ctrl->hostnqn : "a host", q->tq.why);
	}
	tcp_queue_kill(q);
}

void tcp_queue_terminate(struct tcp_queue *q, enum nvme_tcp_fes fes, uint32_t fei)
{
	/* The headers that are there, as they came. */
	uint32_t len = min_of(q->rx.bad && q->rx.state == TCP_RX_HEAD ? q->rx.got
								      : (uint32_t)q->rx.ch.hlen,
			      (uint32_t)sizeof(q->wrong));
	struct nvme_tcp_term term = {.fes = (uint16_t)fes, .fei = fei};
	struct wcursor w;

	if (q->state == TCP_QUEUE_DYING)
		return;
	memcpy(q->wrong, q->rx.head, len);
	tcp_out_clear(&q->term);
	w = tcp_out_pdu(&q->term, &q->tx, NVME_TCP_C2H_TERM, 0, len);
	nvme_tcp_term_put(&w, &term);
	tcp_out_pdu_end(&q->term);
	q->term.data = q->wrong;
	q->term.data_len = len;
	tcp_tx_push(&q->tx, &q->term);
	if (fes == NVME_TCP_FES_HEADER_FIELD || fes == NVME_TCP_FES_UNSUPPORTED)
		tcp_queue_fail(q, "it broke the protocol: %s, byte %u", nvme_tcp_fes_name(fes),
			       fei);
	else
		tcp_queue_fail(q, "it broke the protocol: %s", nvme_tcp_fes_name(fes));
}
