/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Devices and their completion queues. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/errno_text.h"
#include "base/log.h"
#include "nvmf/rdma/target.h"
#include "nvmf/rdma/weft_cm.h"

#define POLL_BATCH   32
#define POLL_BATCHES 4

int rdma_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int rdma_watch(struct rdma_target *rt, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(rt->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void rdma_dev_free(struct rdma_dev *d)
{
	list_for_each(cq, &d->cqs, struct rdma_cq, link) {
		if (cq->unacked)
			ibv_ack_cq_events(cq->cq, cq->unacked);
		ibv_destroy_cq(cq->cq);
		free(cq);
	}
	if (d->zeroes_mr)
		ibv_dereg_mr(d->zeroes_mr);
	if (d->pool_mr)
		ibv_dereg_mr(d->pool_mr);
	if (d->channel)
		ibv_destroy_comp_channel(d->channel);
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	if (d->held)
		rdma_free_devices(d->held);
	list_remove(&d->link);
	free(d);
}

static struct rdma_dev *dev_create(struct rdma_target *rt, struct ibv_context *ctx)
{
	struct rdma_dev *d = calloc(1, sizeof(*d));
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (!d)
		return NULL;
	d->rt = rt;
	d->ctx = ctx;
	list_init(&d->link);
	list_init(&d->cqs);
	if (weft_cm_closes_devices())
		d->held = rdma_get_devices(NULL);
	if (ibv_query_device(ctx, &d->attr) != 0)
		goto fail;
	d->send_inv = d->attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS;
	/* To iWARP the place where a READ arrives is written to from afar. */
	if (ctx->device->transport_type == IBV_TRANSPORT_IWARP)
		access |= IBV_ACCESS_REMOTE_WRITE;
	d->pd = ibv_alloc_pd(ctx);
	d->channel = ibv_create_comp_channel(ctx);
	if (!d->pd || !d->channel || rdma_nonblocking(d->channel->fd) != 0)
		goto fail;
	d->pool_mr = ibv_reg_mr(d->pd, rt->shares->pool.base, rt->shares->pool.len, access);
	d->zeroes_mr = ibv_reg_mr(d->pd, rt->zeroes, TARGET_DATA_MAX, 0);
	if (!d->pool_mr || !d->zeroes_mr || rdma_watch(rt, d->channel->fd) != 0)
		goto fail;
	list_push_tail(&rt->devs, &d->link);
	return d;
fail:
	log_err("nvmf", "device %s cannot be used: %s%s", ibv_get_device_name(ctx->device),
		errno_text(errno),
		errno == ENOMEM ? " (the limit on locked memory, ulimit -l, may be below --memory)"
				: "");
	rdma_dev_free(d);
	return NULL;
}

struct rdma_dev *rdma_dev_get(struct rdma_target *rt, struct ibv_context *ctx)
{
	list_for_each(d, &rt->devs, struct rdma_dev, link)
		if (d->ctx == ctx && !d->gone)
			return d;
	return dev_create(rt, ctx);
}

static struct rdma_cq *cq_create(struct rdma_dev *d, uint32_t entries)
{
	struct rdma_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->entries = min_of(entries, (uint32_t)d->attr.max_cqe);
	cq->cq = ibv_create_cq(d->ctx, (int)cq->entries, cq, d->channel, 0);
	if (!cq->cq) {
		free(cq);
		return NULL;
	}
	list_push_tail(&d->cqs, &cq->link);
	return cq;
}

/* A completion queue with room for share more entries; queues share one as long as they fit. */
struct rdma_cq *rdma_cq_get(struct rdma_dev *d, uint32_t share)
{
	struct rdma_cq *found = NULL;

	list_for_each(cq, &d->cqs, struct rdma_cq, link)
		if (cq->reserved + share <= cq->entries)
			found = cq;
	if (!found)
		found = cq_create(d, max_of(share, (uint32_t)RDMA_CQ_ENTRIES));
	if (!found || found->reserved + share > found->entries)
		return NULL;
	found->reserved += share;
	return found;
}

void rdma_cq_put(struct rdma_cq *cq, uint32_t share)
{
	cq->reserved -= share;
	/* One stays, for the next who comes. */
	if (cq->reserved || cq->link.next == cq->link.prev)
		return;
	if (cq->unacked)
		ibv_ack_cq_events(cq->cq, cq->unacked);
	ibv_destroy_cq(cq->cq);
	list_remove(&cq->link);
	free(cq);
}

static uint32_t cq_poll(struct rdma_cq *cq)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = ibv_poll_cq(cq->cq, POLL_BATCH, wc);

	if (n < 0) {
		log_err("nvmf", "polling a completion queue fails: %s", strerror(errno));
		n = 0;
	}

	for (int i = 0; i < n; i++) {
		struct rdma_hook *h = (struct rdma_hook *)(uintptr_t)wc[i].wr_id;

		h->done(h, &wc[i]);
	}
	return (uint32_t)n;
}

/* Its channel would be readable for ever. */
static void dev_gone(struct rdma_dev *d)
{
	struct rdma_target *rt = d->rt;

	log_err("nvmf", "device %s is gone", ibv_get_device_name(d->ctx->device));
	d->gone = true;
	(void)epoll_ctl(rt->epoll_fd, EPOLL_CTL_DEL, d->channel->fd, NULL);
	list_for_each(q, &rt->queues, struct rdma_queue, link)
		if (q->dev == d)
			rdma_queue_fail(q, "the device is gone");
}

static bool is_used(const struct rdma_target *rt, const struct rdma_dev *d)
{
	list_for_each(q, &rt->queues, const struct rdma_queue, link)
		if (q->dev == d)
			return true;
	list_for_each(q, &rt->dying, const struct rdma_queue, link)
		if (q->dev == d)
			return true;
	return false;
}

void rdma_free_gone_devices(struct rdma_target *rt)
{
	list_for_each(d, &rt->devs, struct rdma_dev, link)
		if (d->gone && !is_used(rt, d))
			rdma_dev_free(d);
}

static void take_cq_events(struct rdma_dev *d)
{
	struct ibv_cq *ibcq;
	void *context;

	while (ibv_get_cq_event(d->channel, &ibcq, &context) == 0) {
		struct rdma_cq *cq = context;

		if (++cq->unacked == 1024) { /* acknowledging takes a lock: not one by one */
			ibv_ack_cq_events(cq->cq, cq->unacked);
			cq->unacked = 0;
		}
	}
	if (errno != EAGAIN && errno != EINTR)
		dev_gone(d);
}

/*
 * Completions that a destroyed QP left behind point into its queue's memory. There are at most
 * as many as the CQ has entries, and new ones queue up behind them.
 */
void rdma_cq_drain(struct rdma_cq *cq)
{
	uint32_t n, seen = 0;

	while (seen < cq->entries && (n = cq_poll(cq)))
		seen += n;
}

/* What is there, within reason: what comes in one turn is answered together. */
static bool take_completions(struct rdma_cq *cq)
{
	uint32_t n = POLL_BATCH;
	bool any = false;

	for (int i = 0; i < POLL_BATCHES && n == POLL_BATCH; i++) {
		n = cq_poll(cq);
		any |= n != 0;
	}
	return any;
}

bool rdma_poll_all(struct rdma_target *rt)
{
	bool any = false;

	list_for_each(d, &rt->devs, struct rdma_dev, link)
		list_for_each(cq, &d->cqs, struct rdma_cq, link)
			any |= take_completions(cq);
	return any;
}

void rdma_arm_all(struct rdma_target *rt)
{
	list_for_each(d, &rt->devs, struct rdma_dev, link) {
		if (!d->gone)
			take_cq_events(d);
		if (d->gone)
			continue;
		list_for_each(cq, &d->cqs, struct rdma_cq, link)
			(void)!ibv_req_notify_cq(cq->cq, 0);
	}
}
