// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "rsocket/dgram.h"

#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "rsocket/svc.h"

/* ---- queue pairs, under the lock ------------------------------------------------------------- */

static void qp_free(struct ds_qp *q)
{
	struct dgram *d = q->owner;

	list_for_each(slot, &d->received, struct ds_slot, node)
		if (slot->qp == q)
			list_remove(&slot->node);
	list_remove(&q->node);
	if (q->id && q->id->qp)
		rdma_destroy_qp(q->id);
	if (q->cq)
		ibv_destroy_cq(q->cq);
	if (q->channel)
		ibv_destroy_comp_channel(q->channel);
	if (q->mr)
		ibv_dereg_mr(q->mr);
	if (q->buffers)
		munmap(q->buffers, q->bytes);
	if (q->id)
		rdma_destroy_id(q->id);
	free(q->slots);
	free(q);
}

static int create_verbs(struct ds_qp *q)
{
	const struct settings *set = &q->owner->set;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = set->sq_size,
			.max_recv_wr = set->rq_size,
			.max_send_sge = 1,
			.max_recv_sge = 2},
	};
	struct ibv_port_attr port;

	q->channel = ibv_create_comp_channel(q->id->verbs);
	if (!q->channel || fcntl(q->channel->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	q->cq = ibv_create_cq(q->id->verbs, (int)(set->sq_size + set->rq_size), q, q->channel, 0);
	if (!q->cq)
		return -errno;
	attr.send_cq = attr.recv_cq = q->cq;
	if (rdma_create_qp(q->id, NULL, &attr))
		return -errno;
	if (ibv_query_port(q->id->verbs, q->id->port_num, &port))
		return -EIO;
	q->mtu = 128u << port.active_mtu;
	return 0;
}

static int create_buffers(struct ds_qp *q)
{
	const struct settings *set = &q->owner->set;
	const size_t slots = set->sq_size + set->rq_size;
	int rc = 0;

	q->bytes = slots * DS_SLOT + sizeof(struct ibv_grh);
	q->buffers =
		mmap(NULL, q->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q->buffers == MAP_FAILED) {
		q->buffers = NULL;
		return -ENOMEM;
	}
	q->slots = calloc(set->rq_size, sizeof(*q->slots));
	if (!q->slots)
		return -ENOMEM;
	q->mr = ibv_reg_mr(q->id->pd, q->buffers, q->bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!q->mr)
		return -errno;
	q->send_free = set->sq_size;
	for (uint32_t i = 0; !rc && i < set->rq_size; i++) {
		list_init(&q->slots[i].node);
		q->slots[i].qp = q;
		rc = dgram_post_recv(q, &q->slots[i]);
	}
	return rc;
}

/* The header of everything this queue pair sends. */
static void make_header(struct ds_qp *q)
{
	const struct sockaddr_in *v4 = (struct sockaddr_in *)&q->addr;
	const struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&q->addr;
	struct ds_ud_hdr h = {.version = 4, .port = ntohs(v4->sin_port)};

	if (v4->sin_family == AF_INET) {
		memcpy(h.addr, &v4->sin_addr, sizeof(v4->sin_addr));
	} else {
		h.version = 6;
		h.flowinfo = v6->sin6_flowinfo;
		memcpy(h.addr, &v6->sin6_addr, sizeof(v6->sin6_addr));
	}
	q->hdr_len = ds_ud_encode(&h, q->hdr);
}

static int qp_create(struct dgram *d, const struct sockaddr_storage *addr, struct ds_qp **ret)
{
	struct ds_qp *q = calloc(1, sizeof(*q));
	struct sockaddr_storage local = *addr;
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = q};
	int rc = 0;

	if (!q)
		return -ENOMEM;
	q->owner = d;
	q->addr = *addr;
	list_push_tail(&d->qps, &q->node);
	make_header(q);
	/* The port is UDP's business; here only the device is wanted. */
	((struct sockaddr_in *)&local)->sin_port = 0;
	if (rdma_create_id(NULL, &q->id, q, RDMA_PS_UDP) ||
	    rdma_bind_addr(q->id, (struct sockaddr *)&local))
		rc = -errno;
	if (!rc && !q->id->verbs)
		rc = -ENODEV;
	if (!rc)
		rc = create_verbs(q);
	if (!rc)
		rc = create_buffers(q);
	if (!rc && epoll_ctl(d->channels, EPOLL_CTL_ADD, q->channel->fd, &ev))
		rc = -errno;
	if (!rc) { /* somebody may be asleep already */
		q->armed = true;
		rc = -ibv_req_notify_cq(q->cq, 0);
	}
	if (rc)
		qp_free(q);
	else
		*ret = q;
	return rc;
}

/* ---- destinations, under the lock ------------------------------------------------------------ */

static bool same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family || a4->sin_port != b4->sin_port)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return !memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}

static bool is_wildcard(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return !((const struct sockaddr_in *)a)->sin_addr.s_addr;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* Our address towards a peer: what we are bound to, or what the routes say. */
static int source_for(struct dgram *d, const struct sockaddr_storage *to,
		      struct sockaddr_storage *ret)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret; /* the port is at one place in both */
	socklen_t len = sizeof(*ret);
	in_port_t port;
	int fd, rc = 0;

	memset(ret, 0, sizeof(*ret));
	if (getsockname(d->udp, (struct sockaddr *)ret, &len))
		return -errno;
	if (!is_wildcard(ret))
		return 0;
	port = v4->sin_port;
	fd = kernel_socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	len = sizeof(*ret);
	if (connect(fd, (const struct sockaddr *)to, addr_length((const struct sockaddr *)to)) ||
	    getsockname(fd, (struct sockaddr *)ret, &len))
		rc = -errno;
	close(fd);
	v4->sin_port = port;
	return rc;
}

static int qp_for(struct dgram *d, const struct sockaddr_storage *source, struct ds_qp **ret)
{
	list_for_each(q, &d->qps, struct ds_qp, node) {
		if (same(&q->addr, source)) {
			*ret = q;
			return 0;
		}
	}
	return qp_create(d, source, ret);
}

struct ds_dest *dgram_known_dest(struct dgram *d, const struct sockaddr *to)
{
	struct sockaddr_storage addr = {0};

	memcpy(&addr, to, addr_length(to));
	list_for_each(known, &d->dests, struct ds_dest, node) {
		if (same(&known->addr, &addr)) {
			list_remove(&known->node);
			list_push_head(&d->dests, &known->node);
			return known;
		}
	}
	return NULL;
}

static void dest_free(struct dgram *d, struct ds_dest *dest)
{
	list_remove(&dest->node);
	d->dests_count--;
	if (dest->ah)
		ibv_destroy_ah(dest->ah);
	free(dest);
}

/* The one longest silent that nobody holds. */
static void forget_one(struct dgram *d)
{
	for (struct list *n = d->dests.prev; n != &d->dests; n = n->prev) {
		struct ds_dest *dest = list_entry(n, struct ds_dest, node);

		if (dest != d->peer && !dest->resolving) {
			dest_free(d, dest);
			return;
		}
	}
}

int dgram_dest(struct dgram *d, const struct sockaddr *to, struct ds_dest **ret)
{
	struct sockaddr_storage addr = {0}, source;
	struct ds_dest *dest = dgram_known_dest(d, to);
	struct ds_qp *q = NULL;
	int rc;

	if (dest) {
		*ret = dest;
		return 0;
	}
	memcpy(&addr, to, addr_length(to));
	rc = source_for(d, &addr, &source);
	if (!rc)
		rc = qp_for(d, &source, &q);
	if (rc)
		return rc;
	dest = calloc(1, sizeof(*dest));
	if (!dest)
		return -ENOMEM;
	if (d->dests_count == DS_DESTS_MAX)
		forget_one(d);
	d->dests_count++;
	dest->addr = addr;
	dest->qp = q;
	list_push_head(&d->dests, &dest->node);
	*ret = dest;
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int dgram_create(int domain, struct dgram **ret)
{
	struct dgram *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	rc = sock_init(&d->sock, SOCK_DGRAM, domain);
	d->set = *settings_default();
	pthread_mutex_init(&d->lock, NULL);
	list_init(&d->service);
	list_init(&d->qps);
	list_init(&d->dests);
	list_init(&d->received);
	d->udp = kernel_socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	d->channels = epoll_create1(EPOLL_CLOEXEC);
	if (!rc && (d->udp < 0 || d->channels < 0))
		rc = -errno;
	if (!rc) {
		d->service_channel = svc_channel(); /* starts the service */
		rc = d->service_channel ? 0 : -errno;
	}
	if (rc)
		(void)!dgram_close(d);
	else
		*ret = d;
	return rc;
}

int dgram_close(struct dgram *d)
{
	struct list *n;

	svc_lock();
	list_remove(&d->service);
	if (!sock_inherited(&d->sock)) {
		list_for_each(dest, &d->dests, struct ds_dest, node) {
			if (dest->resolving)
				rdma_destroy_id(dest->resolving);
			dest_free(d, dest);
		}
	}
	svc_unlock();
	if (!sock_inherited(&d->sock)) {
		while (!list_empty(&d->qps))
			qp_free(list_entry(d->qps.next, struct ds_qp, node));
		while ((n = list_pop_head(&d->received)))
			free(list_entry(n, struct ds_slot, node));
	}
	if (d->udp >= 0)
		close(d->udp);
	if (d->channels >= 0)
		close(d->channels);
	sock_fini(&d->sock);
	pthread_mutex_destroy(&d->lock);
	free(d);
	return 0;
}

/* From now on sizes stay, and peers are heard. Under the lock. */
static int begin(struct dgram *d, const struct sockaddr *addr, socklen_t len)
{
	if (d->bound)
		return -EINVAL;
	if (bind(d->udp, addr, len))
		return -errno;
	d->bound = true;
	d->set.rq_size = clamp_u32(d->set.rbuf_size / DS_SLOT, RS_QP_SIZE_MIN, d->set.rq_size);
	d->set.sq_size = clamp_u32(d->set.sbuf_size / DS_SLOT, RS_QP_SIZE_MIN, d->set.sq_size);
	return 0;
}

static void be_served(struct dgram *d)
{
	svc_lock();
	if (list_empty(&d->service))
		svc_add_dgram(d);
	svc_unlock();
}

int dgram_bind(struct dgram *d, const struct sockaddr *addr, socklen_t len)
{
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = begin(d, addr, len);
	pthread_mutex_unlock(&d->lock);
	if (!rc)
		be_served(d);
	return rc;
}

int dgram_ready(struct dgram *d)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)d->sock.domain};
	int rc = 0;

	if (d->bound)
		return 0;
	rc = dgram_bind(d, (struct sockaddr *)&any, addr_length((struct sockaddr *)&any));
	return d->bound ? 0 : rc; /* another thread may have been faster */
}

int dgram_connect(struct dgram *d, const struct sockaddr *addr, socklen_t len)
{
	int rc = dgram_ready(d);

	if (rc)
		return rc;
	if (!addr || len < sizeof(addr->sa_family))
		return -EINVAL;
	pthread_mutex_lock(&d->lock);
	if (connect(d->udp, addr, len))
		rc = -errno;
	d->peer = NULL;
	if (!rc && addr->sa_family != AF_UNSPEC)
		rc = dgram_dest(d, addr, &d->peer);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* ---- options --------------------------------------------------------------------------------- */

int dgram_setsockopt(struct dgram *d, int level, int name, const void *val, socklen_t len)
{
	uint32_t v;

	if (!val || len < sizeof(v))
		return level == SOL_RDMA || !val		   ? -EINVAL
		       : setsockopt(d->udp, level, name, val, len) ? -errno
								   : 0;
	memcpy(&v, val, sizeof(v));
	if (level != SOL_RDMA) {
		if (setsockopt(d->udp, level, name, val, len))
			return -errno;
		if (level == SOL_SOCKET && !d->bound && name == SO_RCVBUF)
			d->set.rbuf_size = clamp_u32(v, RS_SNDLOWAT, 1u << 29) * 2;
		if (level == SOL_SOCKET && !d->bound && name == SO_SNDBUF)
			d->set.sbuf_size = clamp_u32(v, RS_SNDLOWAT, 1u << 29) * 2;
		return 0;
	}
	if (d->bound)
		return -EINVAL;
	v = clamp_u32(v, 1, RS_QP_SIZE_MAX);
	switch (name) {
	case RDMA_SQSIZE:
		d->set.sq_size = v;
		return 0;
	case RDMA_RQSIZE:
		d->set.rq_size = v;
		return 0;
	case RDMA_INLINE: /* datagrams are always copied once, into their slot */
		d->set.sq_inline = v;
		return 0;
	default:
		return -ENOTSUP;
	}
}

int dgram_getsockopt(struct dgram *d, int level, int name, void *val, socklen_t *len)
{
	uint32_t v;

	if (level != SOL_RDMA)
		return getsockopt(d->udp, level, name, val, len) ? -errno : 0;
	if (name == RDMA_SQSIZE)
		v = d->set.sq_size;
	else if (name == RDMA_RQSIZE)
		v = d->set.rq_size;
	else if (name == RDMA_INLINE)
		v = d->set.sq_inline;
	else
		return -ENOTSUP;
	if (!val || !len || *len < sizeof(v))
		return -EINVAL;
	memcpy(val, &v, sizeof(v));
	*len = sizeof(v);
	return 0;
}
