// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Opening and closing devices, and the asynchronous events of a context. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/cq.h"
#include "verbs/face.h"
#include "verbs/process.h"
#include "verbs/qp.h"
#include "verbs/shared.h"

struct ibv_context *context_open(struct ibv_device *device, int cmd_fd, uint64_t file)
{
	struct face_context *c;
	struct broker_device b;
	int rc = device_lookup(device, &b);

	if (rc)
		return FAIL(rc == -EIO ? ENODEV : -rc, NULL);
	c = calloc(1, sizeof(*c));
	if (!c)
		return FAIL(ENOMEM, NULL);
	rc = process_shard(&c->shard);
	if (!rc)
		rc = event_pipe_init(&c->async);
	if (rc) {
		free(c);
		return FAIL(-rc, NULL);
	}
	c->rnic = shard_rnic(c->shard);
	c->file = file;
	atomic_init(&c->refs, 1);
	/* What is not set is not supported: the wrappers in verbs.h answer EOPNOTSUPP for it. */
	c->vctx = (struct verbs_context){
		.query_port = face_query_port,
		.query_device_ex = face_query_device_ex,
		.alloc_null_mr = face_alloc_null_mr,
		.alloc_dm = face_alloc_dm,
		.free_dm = face_free_dm,
		.reg_dm_mr = face_reg_dm_mr,
		.alloc_td = face_alloc_td,
		.dealloc_td = face_dealloc_td,
		.alloc_parent_domain = face_alloc_parent_domain,
		.advise_mr = face_advise_mr,
		.create_cq_ex = face_create_cq_ex,
		.modify_cq = face_modify_cq,
		.query_rt_values = face_query_rt_values,
		.create_qp_ex = face_create_qp_ex,
		.open_qp = face_open_qp,
		.open_xrcd = face_open_xrcd,
		.close_xrcd = face_close_xrcd,
		.create_srq_ex = face_create_srq_ex,
		.get_srq_num = face_get_srq_num,
		.sz = sizeof(c->vctx),
		.context =
			{
				.device = device,
				.ops =
					{
						.alloc_mw = face_alloc_mw,
						.bind_mw = face_bind_mw,
						.dealloc_mw = face_dealloc_mw,
						.poll_cq = face_poll_cq,
						.req_notify_cq = face_req_notify_cq,
						.post_srq_recv = face_post_srq_recv,
						.post_send = face_post_send,
						.post_recv = face_post_recv,
					},
				.cmd_fd = cmd_fd,
				.async_fd = c->async.rd,
				.num_comp_vectors = (int)max_of(sysconf(_SC_NPROCESSORS_ONLN), 1),
				.abi_compat = __VERBS_ABI_IS_EXTENDED,
			},
	};
	pthread_mutex_init(&c->vctx.context.mutex, NULL);
	device_events_begin(c);
	return &c->vctx.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context;
	uint64_t file;
	int fd = command_file(device, &file);

	if (fd < 0)
		return FAIL(-fd, NULL);
	context = context_open(device, fd, file);
	if (!context)
		close(fd);
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	struct face_context *c = face_context(context);

	close(context->cmd_fd);
	device_events_end(c);
	event_pipe_close(&c->async);
	context_put(c);
	return 0;
}

void context_get(struct face_context *c)
{
	atomic_fetch_add(&c->refs, 1);
}

void context_put(struct face_context *c)
{
	if (atomic_fetch_sub(&c->refs, 1) == 1)
		free(c);
}

/* ---- asynchronous events -------------------------------------------------------------------- */

/* The bits of pending are enum ibv_event_type; whose they are, the type tells: CQ_ERR is a CQ's,
 * SRQ_LIMIT_REACHED a shared receive queue's, some (device_event.c) the port's, the others here
 * are a QP's. */
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
