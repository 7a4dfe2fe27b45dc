/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* That a queue is to end: who finds that out only says so here, and connection.c buries it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "nvmf/rdma/target.h"

void rdma_queue_kill(struct rdma_queue *q)
{
	if (q->dying)
		return;
	q->dying = true;
	list_remove(&q->silent);
	share_queue_grown(&q->share);
	timer_cancel(&q->rt->timers, &q->timer);
	list_remove(&q->link);
	list_push_tail(&q->rt->dying, &q->link);
}

void rdma_queue_fail(struct rdma_queue *q, const char *fmt, ...)
{
	va_list ap;

	if (!q->dying && !q->tq.why[0]) {
		va_start(ap, fmt);
		vsnprintf(q->tq.why, sizeof(q->tq.why), fmt, ap);
		va_end(ap);
		log_info("nvmf", "queue %u of %s: %s", q->tq.qid,
			 q->tq.ctrl ? q->tq.ctrl->hostnqn : "a host", q->tq.why);
	}
	rdma_queue_kill(q);
}

void rdma_post_failed(struct rdma_queue *q, const char *what, int error)
{
	if (error < 0) /* some providers */
		error = errno;
	rdma_queue_fail(q, "%s fails: %s", what, strerror(error));
}
