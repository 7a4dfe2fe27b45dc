// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * XRC domains and their shared receive queues.
 *
 * A domain opened for a file is the one that was opened for this file before, on the same device
 * and in the same process. Between processes nothing can be shared: packets find a process by its
 * target QP, and receives are in the memory of the process that posted them. So each process has
 * its own domain for a file, and a queue of one is not found through the targets of another.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/uncancelled.h"
#include "verbs/cq.h"
#include "verbs/qp.h"

struct xrc_domain {
	struct list node;
	struct rnic_xrcd *core;
	struct shard *shard;
	struct ibv_device *device;
	int fd; /* keeps the inode, so that its number means this file; -1: nobody can open it again
		 */
	dev_t dev;
	ino_t ino;
	uint32_t opens;
};

static struct list domains = {&domains, &domains};
static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;

void xrc_forked(void)
{
	pthread_mutex_init(&domains_lock, NULL);
}

static struct xrc_domain *find(struct face_context *c, const struct stat *st)
{
	list_for_each(d, &domains, struct xrc_domain, node)
		if (d->fd >= 0 && d->shard == c->shard && d->device == c->vctx.context.device &&
		    d->dev == st->st_dev && d->ino == st->st_ino)
			return d;
	return NULL;
}

/* st: NULL for a domain of no file. */
static int domain_create(struct face_context *c, int fd, const struct stat *st,
			 struct xrc_domain **ret)
{
	struct xrc_domain *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	d->shard = c->shard;
	d->device = c->vctx.context.device;
	d->fd = -1;
	if (st) {
		d->dev = st->st_dev;
		d->ino = st->st_ino;
		d->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (d->fd < 0) {
			rc = -errno;
			free(d);
			return rc;
		}
	}
	shard_lock(d->shard);
	rc = rnic_xrcd_create(c->rnic, &d->core);
	shard_unlock(d->shard);
	if (rc) {
		if (d->fd >= 0)
			close(d->fd);
		free(d);
		return rc;
	}
	list_push_tail(&domains, &d->node);
	*ret = d;
	return 0;
}

/* By the flags of open(2), and with the errors of the kernel's. */
static int domain_open(struct face_context *c, int fd, int oflags, struct xrc_domain **ret)
{
	struct xrc_domain *d = NULL;
	struct stat st;
	int rc = 0;

	if (fd != -1) {
		if (fstat(fd, &st) < 0)
			return -EBADF;
		d = find(c, &st);
		if (!d && !(oflags & O_CREAT))
			return -EAGAIN;
		if (d && oflags & O_EXCL)
			return -EINVAL;
	}
	if (!d)
		rc = domain_create(c, fd, fd == -1 ? NULL : &st, &d);
	if (rc)
		return rc;
	d->opens++;
	*ret = d;
	return 0;
}

struct ibv_xrcd *face_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t all = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct face_context *c = face_context(context);
	struct face_xrcd *x;
	int rc, before;

	if (attr->comp_mask & ~all)
		return FAIL(EOPNOTSUPP, NULL);
	if (attr->comp_mask != all)
		return FAIL(EINVAL, NULL);
	x = calloc(1, sizeof(*x));
	if (!x)
		return FAIL(ENOMEM, NULL);
	x->ibv.context = context;
	before = uncancelled_begin(); /* descriptors are closed with the lock held */
	pthread_mutex_lock(&domains_lock);
	rc = domain_open(c, attr->fd, attr->oflags, &x->domain);
	pthread_mutex_unlock(&domains_lock);
	uncancelled_end(before);
	if (rc) {
		free(x);
		return FAIL(-rc, NULL);
	}
	x->core = x->domain->core;
	atomic_init(&x->users, 0);
	context_get(c);
	return &x->ibv;
}

int face_close_xrcd(struct ibv_xrcd *ibxrcd)
{
	struct face_xrcd *x = face_xrcd(ibxrcd);
	struct xrc_domain *d = x->domain;
	int before;

	if (atomic_load(&x->users))
		return REFUSED(EBUSY);
	before = uncancelled_begin();
	pthread_mutex_lock(&domains_lock);
	if (--d->opens == 0) {
		int rc;

		shard_lock(d->shard);
		rc = rnic_xrcd_destroy(d->core);
		shard_unlock(d->shard);
		if (rc)
			abort(); /* whatever is in it was made through one that is closed */
		list_remove(&d->node);
		if (d->fd >= 0)
			close(d->fd);
		free(d);
	}
	pthread_mutex_unlock(&domains_lock);
	uncancelled_end(before);
	context_put(face_context(ibxrcd->context));
	free(x);
	return 0;
}

/* ---- shared receive queues ------------------------------------------------------------------ */

struct ibv_srq *face_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t xrc = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	enum ibv_srq_type type =
		attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;

	(void)context;
	if (attr->comp_mask & ~(xrc | IBV_SRQ_INIT_ATTR_TYPE) ||
	    (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC))
		return FAIL(EOPNOTSUPP, NULL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		return FAIL(EINVAL, NULL);
	if (type == IBV_SRQT_BASIC)
		return srq_create(attr->pd, (struct ibv_srq_init_attr *)attr, NULL, NULL);
	if ((attr->comp_mask & xrc) != xrc || !attr->xrcd || !attr->cq)
		return FAIL(EINVAL, NULL);
	return srq_create(attr->pd, (struct ibv_srq_init_attr *)attr, face_xrcd(attr->xrcd),
			  face_cq(attr->cq));
}

int face_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	if (!face_srq(srq)->xrcd)
		return REFUSED(EINVAL);
	*srq_num = rnic_srq_num(face_srq(srq)->core);
	return 0;
}
