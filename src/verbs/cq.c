// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/cq.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/time.h"
#include "verbs/channel.h"
#include "verbs/yielding.h"

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

struct face_cq *cq_create(struct ibv_context *context, uint32_t cqe, void *cq_context,
			  struct ibv_comp_channel *channel, uint32_t comp_vector)
{
	struct face_context *c = face_context(context);
	struct face_cq *cq;
	int rc;

	if (!cqe || cqe > RNIC_MAX_CQE || comp_vector >= (uint32_t)context->num_comp_vectors)
		return FAIL(EINVAL, NULL);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return FAIL(ENOMEM, NULL);
	cq->shard = c->shard;
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	pthread_mutex_init(&cq->poll_lock, NULL);
	event_source_init(&cq->comp);
	event_source_init(&cq->async);

	shard_lock(cq->shard);
	rc = rnic_cq_create(c->rnic, cqe, cq, &cq->core);
	if (!rc)
		cq->ibv.cqe = (int)rnic_cq_capacity(cq->core);
	shard_unlock(cq->shard);
	if (rc) {
		free(cq);
		return FAIL(-rc, NULL);
	}
	if (channel)
		channel_get(face_channel(channel));
	context_get(c);
	return cq;
}

int cq_place(struct face_cq *cq, struct ibv_pd *parent)
{
	int rc = queue_mem_get(&cq->mem, parent, rnic_cq_mem_size(cq->core), QUEUE_CQ);

	if (!cq->mem.p)
		return rc;
	shard_lock(cq->shard);
	rnic_cq_use_mem(cq->core, cq->mem.p);
	shard_unlock(cq->shard);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct face_cq *cq;

	if (cqe < 1 || comp_vector < 0)
		return FAIL(EINVAL, NULL);
	cq = cq_create(context, (uint32_t)cqe, cq_context, channel, (uint32_t)comp_vector);
	return cq ? &cq->ibv : NULL;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct face_cq *cq = face_cq(ibcq);
	int rc;

	if (cqe < 1 || cqe > RNIC_MAX_CQE)
		return REFUSED(EINVAL);
	shard_lock(cq->shard);
	rc = rnic_cq_resize(cq->core, (uint32_t)cqe);
	if (!rc)
		ibcq->cqe = (int)rnic_cq_capacity(cq->core);
	shard_unlock(cq->shard);
	if (!rc)
		queue_mem_free(&cq->mem);
	return rc ? REFUSED(-rc) : 0;
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct face_cq *cq = face_cq(ibcq);
	struct face_context *c = face_context(ibcq->context);
	uint32_t comp = 0, async;
	int rc;

	shard_lock(cq->shard);
	rc = rnic_cq_destroy(cq->core);
	shard_unlock(cq->shard);
	if (rc)
		return REFUSED(-rc);
	/* No more upcalls: what the application has taken it must give back before cq goes. */
	if (ibcq->channel)
		comp = event_pipe_forget(&face_channel(ibcq->channel)->pipe, &cq->comp);
	async = event_pipe_forget(&c->async, &cq->async);
	pthread_mutex_lock(&ibcq->mutex);
	/* In a child nobody acknowledges what its parent has taken. */
	while (!shard_is_dead(cq->shard) &&
	       (ibcq->comp_events_completed != comp || ibcq->async_events_completed != async))
		pthread_cond_wait(&ibcq->cond, &ibcq->mutex);
	pthread_mutex_unlock(&ibcq->mutex);
	if (ibcq->channel)
		channel_put(face_channel(ibcq->channel));
	queue_mem_put(&cq->mem);
	free(cq);
	context_put(c);
	return 0;
}

/* Small enough for what the C library keeps for libraries that come late, and looked at by each
 * poll.
 */
static __thread __attribute__((tls_model("initial-exec"))) struct yielding yielding;

static unsigned long switches(void)
{
	struct rusage u;

	return getrusage(RUSAGE_THREAD, &u) ? 0 : (unsigned long)(u.ru_nvcsw + u.ru_nivcsw);
}

/* Before it looks: what comes meanwhile must not be kept from a program that looks for events next,
 * and takes the end of a connection for the end of what came by it. */
static void let_others_go_first(struct shard *s)
{
	uint64_t now;

	if (!yielding_asks(&yielding))
		return;
	now = time_now_ns();
	if (!yielding_due(&yielding, now, switches))
		return;
	shard_lock(s);
	shard_leaving(s);
	shard_unlock(s);
	sched_yield();
	yielding_done(&yielding, now, time_now_ns());
}

int cq_poll(struct face_cq *cq, int num, struct ibv_wc *wc, uint64_t *ret_time_ns)
{
	int n;

	let_others_go_first(cq->shard);
	shard_lock(cq->shard);
	n = rnic_cq_poll(cq->core, (struct rnic_wc *)wc, num);
	if (!n) {
		shard_progress(cq->shard);
		n = rnic_cq_poll(cq->core, (struct rnic_wc *)wc, num);
	} else {
		shard_polled(cq->shard);
	}
	if (n && ret_time_ns)
		*ret_time_ns = rnic_cq_polled_at(cq->core);
	shard_unlock(cq->shard);
	if (!n) {
		yielding.vain++;
	} else {
		if (yielding.looks_since)
			yielding_found(&yielding, time_now_ns(), switches);
		yielding.vain = 0;
	}
	return n;
}

int face_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	return cq_poll(face_cq(ibcq), num, wc, NULL);
}

int face_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct face_cq *cq = face_cq(ibcq);

	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return REFUSED(EOPNOTSUPP);
	if (!(attr->attr_mask & IBV_CQ_ATTR_MODERATE))
		return 0;
	shard_lock(cq->shard);
	rnic_cq_moderate(cq->core, attr->moderate.cq_count,
			 attr->moderate.cq_period * NSEC_PER_USEC);
	shard_flush(cq->shard); /* a deadline may be nearer than before */
	shard_unlock(cq->shard);
	return 0;
}

int face_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct face_cq *cq = face_cq(ibcq);

	shard_lock(cq->shard);
	rnic_cq_arm_or_notify(cq->core, solicited_only);
	channel_armed(cq->ibv.channel ? face_channel(cq->ibv.channel) : NULL, cq->shard);
	shard_unlock(cq->shard);
	return 0;
}
