// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * The asynchronous events of a context.
 *
 * The bits of pending are enum ibv_event_type; whose they are, the type tells: CQ_ERR is a CQ's,
 * SRQ_LIMIT_REACHED a shared receive queue's, some (device_event.c) the port's, the others here
 * are a QP's.
 */
#include "verbs/cq.h"
#include "verbs/face.h"
#include "verbs/qp.h"

void async_event(enum rnic_event event, void *object_user)
{
	struct event_source *s;
	struct ibv_context *context;

	if (event == RNIC_EVENT_CQ_ERR) {
		struct face_cq *cq = object_user;

		s = &cq->async;
		context = cq->ibv.context;
	} else if (event == RNIC_EVENT_SRQ_LIMIT_REACHED) {
		struct face_srq *srq = object_user;

		s = &srq->async;
		context = srq->ibv.context;
	} else {
		struct face_qp *qp = object_user;

		s = &qp->async;
		context = qp->ibv.context;
		list_for_each(other, &qp->openers, struct face_qp, openers)
			event_pipe_mark(&face_context(other->ibv.context)->async, &other->async,
					1u << event);
	}
	event_pipe_mark(&face_context(context)->async, s, 1u << event);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct event_pipe *pipe = &face_context(context)->async;
	struct event_source *s = event_pipe_wait(pipe);
	enum ibv_event_type type;

	if (!s)
		return -1;
	type = (enum ibv_event_type)__builtin_ctz(s->pending);
	s->pending &= s->pending - 1;
	event->event_type = type;
	if (type == IBV_EVENT_CQ_ERR)
		event->element.cq = &container_of(s, struct face_cq, async)->ibv;
	else if (type == IBV_EVENT_SRQ_LIMIT_REACHED)
		event->element.srq = &container_of(s, struct face_srq, async)->ibv;
	else if (DEVICE_EVENTS & 1u << type)
		event->element.port_num = FACE_PORT;
	else
		event->element.qp = &container_of(s, struct face_qp, async)->ibv;
	event_pipe_taken(pipe, s);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct ibv_cq *cq = event->element.cq;

		pthread_mutex_lock(&cq->mutex);
		cq->async_events_completed++;
		pthread_cond_signal(&cq->cond);
		pthread_mutex_unlock(&cq->mutex);
		break;
	}
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct ibv_qp *qp = event->element.qp;

		pthread_mutex_lock(&qp->mutex);
		qp->events_completed++;
		pthread_cond_signal(&qp->cond);
		pthread_mutex_unlock(&qp->mutex);
		break;
	}
	case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct ibv_srq *srq = event->element.srq;

		pthread_mutex_lock(&srq->mutex);
		srq->events_completed++;
		pthread_cond_signal(&srq->cond);
		pthread_mutex_unlock(&srq->mutex);
		break;
	}
	default: /* of a port, the device, or objects we do not have: nobody waits for these */
		break;
	}
}
