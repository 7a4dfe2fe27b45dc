// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Datagrams sent and received, by UD and by UDP; and how peers find each other. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/time.h"
#include "rsocket/counted.h"
#include "rsocket/dgram.h"

enum {
	COPIES_MAX = 256, /* that wait to be read; more are lost, as with UDP */
	RESOLVE_MS = 2000,
	GIDS_MAX = 256,
};

/* ---- completions, under the lock ------------------------------------------------------------- */

static uint8_t *slot_data(const struct ds_qp *q, const struct ds_slot *slot)
{
	const size_t index = q->owner->set.sq_size + (size_t)(slot - q->slots);

	return q->buffers + index * DS_SLOT;
}

int dgram_post_recv(struct ds_qp *q, const struct ds_slot *slot)
{
	struct ibv_sge sge[] = {
		{(uintptr_t)q->buffers + q->bytes - sizeof(struct ibv_grh), sizeof(struct ibv_grh),
		 q->mr->lkey},
		{(uintptr_t)slot_data(q, slot), DS_SLOT, q->mr->lkey},
	};
	struct ibv_recv_wr *bad, wr = {.wr_id = (uintptr_t)slot, .sg_list = sge, .num_sge = 2};

	return -ibv_post_recv(q->id->qp, &wr, &bad);
}

static void sender_of(const struct ds_ud_hdr *h, struct sockaddr_storage *from)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)from;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)from;

	memset(from, 0, sizeof(*from));
	v4->sin_port = htons(h->port);
	if (h->version == 4) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, h->addr, sizeof(v4->sin_addr));
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_flowinfo = h->flowinfo;
		memcpy(&v6->sin6_addr, h->addr, sizeof(v6->sin6_addr));
	}
}

static void received(struct ds_qp *q, const struct ibv_wc *wc)
{
	struct ds_slot *slot = (struct ds_slot *)(uintptr_t)wc->wr_id;
	struct ds_ud_hdr h;
	int hdr_len;

	if (wc->status != IBV_WC_SUCCESS)
		return; /* the queue pair goes away */
	slot->data = slot_data(q, slot);
	slot->length = wc->byte_len - min_of(wc->byte_len, (uint32_t)sizeof(struct ibv_grh));
	hdr_len = ds_ud_decode(&h, slot->data, slot->length);
	if (hdr_len < 0 || (h.version == 6 && q->owner->sock.domain == AF_INET)) {
		(void)!dgram_post_recv(q, slot);
		return;
	}
	slot->data += hdr_len;
	slot->length -= (size_t)hdr_len;
	sender_of(&h, &slot->from);
	list_push_tail(&q->owner->received, &slot->node);
}

/* So many at a time as there can be at a time: who sends without end is not to keep us here. */
static void progress(struct dgram *d)
{
	struct ibv_wc wc[16];

	list_for_each(q, &d->qps, struct ds_qp, node) {
		int n, total = 0;

		do {
			n = ibv_poll_cq(q->cq, ARRAY_SIZE(wc), wc);
			for (int i = 0; i < n; i++) {
				if (wc[i].wr_id)
					received(q, &wc[i]);
				else
					q->send_free++;
			}
			total += n;
		} while (n > 0 && total < q->cq->cqe);
		if (n > 0) { /* who would sleep now is to look again first */
			q->armed = false;
			sock_wake(&d->sock);
		}
	}
}

/* ---- waiting --------------------------------------------------------------------------------- */

int dgram_arm(struct dgram *d)
{
	pthread_mutex_lock(&d->lock);
	list_for_each(q, &d->qps, struct ds_qp, node) {
		if (!q->armed) {
			q->armed = true;
			(void)!ibv_req_notify_cq(q->cq, 0);
		}
	}
	progress(d);
	pthread_mutex_unlock(&d->lock);
	return d->channels;
}

void dgram_taken(struct dgram *d)
{
	struct epoll_event ev[16];
	struct ibv_cq *cq;
	void *context;
	int n;

	pthread_mutex_lock(&d->lock);
	n = epoll_wait(d->channels, ev, ARRAY_SIZE(ev), 0);
	for (int i = 0; i < n; i++) {
		struct ds_qp *q = ev[i].data.ptr;

		if (!ibv_get_cq_event(q->channel, &cq, &context)) {
			ibv_ack_cq_events(cq, 1);
			q->armed = false;
		}
	}
	pthread_mutex_unlock(&d->lock);
	if (n > 0)
		sock_wake(&d->sock);
}

short dgram_poll(struct dgram *d, short events)
{
	short got = 0;
	bool full = false;

	pthread_mutex_lock(&d->lock);
	progress(d);
	list_for_each(q, &d->qps, struct ds_qp, node)
		full = full || !q->send_free;
	if (!list_empty(&d->received))
		got |= POLLIN | POLLRDNORM;
	if (!full)
		got |= POLLOUT | POLLWRNORM;
	pthread_mutex_unlock(&d->lock);
	return got & events;
}

static bool readable(void *arg)
{
	(void)dgram_arm(arg);
	return dgram_poll(arg, POLLIN);
}

static bool writable(void *arg)
{
	(void)dgram_arm(arg);
	return dgram_poll(arg, POLLOUT);
}

static int channels(void *arg)
{
	return ((struct dgram *)arg)->channels;
}

static void taken(void *arg)
{
	dgram_taken(arg);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* By UDP, behind the header that tells our queue pair. Under the lock. */
static ssize_t send_udp(struct dgram *d, const struct ds_dest *dest, const void *data, size_t len,
			enum rs_op op, int flags)
{
	struct ds_udp_hdr h = {.op = op, .qpn = dest->qp->id->qp->qp_num};
	uint8_t hdr[DS_UDP_LEN_MAX];
	struct iovec iov[] = {{hdr, 0}, {(void *)(uintptr_t)data, len}};
	struct sockaddr_storage to = dest->addr;
	struct msghdr msg = {.msg_name = &to,
			     .msg_namelen = addr_length((struct sockaddr *)&to),
			     .msg_iov = iov,
			     .msg_iovlen = 2};
	const bool v4 = dest->qp->addr.ss_family == AF_INET;

	h.version = v4 ? 4 : 6;
	if (v4)
		memcpy(h.addr, &((struct sockaddr_in *)&dest->qp->addr)->sin_addr, 4);
	else
		memcpy(h.addr, &((struct sockaddr_in6 *)&dest->qp->addr)->sin6_addr, 16);
	iov[0].iov_len = ds_udp_encode(&h, hdr);
	return sendmsg(d->udp, &msg, flags | MSG_NOSIGNAL) < 0 ? -errno : (ssize_t)len;
}

static int send_ud(struct ds_qp *q, const struct ds_dest *dest, const void *data, size_t len)
{
	uint8_t *slot = q->buffers + (size_t)q->send_next * DS_SLOT;
	struct ibv_sge sge = {(uintptr_t)slot, (uint32_t)(q->hdr_len + len), q->mr->lkey};
	struct ibv_send_wr *bad, wr = {
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .wr.ud = {dest->ah, dest->qpn, RDMA_UDP_QKEY},
				 };
	int rc;

	memcpy(slot, q->hdr, q->hdr_len);
	memcpy(slot + q->hdr_len, data, len);
	rc = ibv_post_send(q->id->qp, &wr, &bad);
	if (rc)
		return -rc;
	q->send_free--;
	q->send_next = (q->send_next + 1) % q->owner->set.sq_size;
	return 0;
}

/* Under the lock. -EAGAIN: no slot is free. */
static ssize_t send_to(struct dgram *d, struct ds_dest *dest, const void *data, size_t len,
		       int flags)
{
	struct ds_qp *q = dest->qp;
	int rc;

	if (!dest->ah || q->hdr_len + len > q->mtu)
		return send_udp(d, dest, data, len, RS_OP_DATA, flags);
	if (!q->send_free)
		progress(d);
	if (!q->send_free)
		return -EAGAIN;
	rc = send_ud(q, dest, data, len);
	return rc ? rc : (ssize_t)len;
}

static ssize_t gather(const struct iovec *iov, size_t count, uint8_t buf[DS_SLOT])
{
	ssize_t total = iov_length(iov, count);
	uint8_t *p = buf;

	if (total < 0)
		return total;
	if (total > DS_SLOT - DS_UDP_LEN_MAX)
		return -EMSGSIZE;
	for (size_t i = 0; i < count; i++) {
		memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
	return total;
}

static int destination(struct dgram *d, const struct sockaddr *to, socklen_t len,
		       struct ds_dest **ret)
{
	if (!to) {
		*ret = d->peer;
		return d->peer ? 0 : -EDESTADDRREQ;
	}
	if (len < sizeof(to->sa_family) || !addr_length(to) || len < addr_length(to))
		return -EINVAL;
	if (to->sa_family != d->sock.domain)
		return -EAFNOSUPPORT;
	return dgram_dest(d, to, ret);
}

ssize_t dgram_send(struct dgram *d, const struct iovec *iov, size_t count, int flags,
		   const struct sockaddr *to, socklen_t to_len)
{
	uint8_t data[DS_SLOT];
	const ssize_t len = gather(iov, count, data);
	struct ds_dest *dest;
	ssize_t rc = dgram_ready(d);

	if (len < 0 || rc)
		return len < 0 ? len : rc;
	for (;;) {
		pthread_mutex_lock(&d->lock);
		rc = destination(d, to, to_len, &dest);
		if (!rc)
			rc = send_to(d, dest, data, (size_t)len, flags);
		pthread_mutex_unlock(&d->lock);
		if (rc >= 0)
			rs_count(datagrams_sent, 1);
		if (rc != -EAGAIN || sock_nonblocking(&d->sock, flags))
			return rc;
		rc = sock_sleep(&d->sock, &(struct sock_waiting){writable, channels, taken, d},
				d->sock.snd_timeout_ms);
		if (rc)
			return rc;
	}
}

/* ---- receiving ------------------------------------------------------------------------------- */

static ssize_t scatter(const struct ds_slot *slot, const struct iovec *iov, size_t count)
{
	size_t done = 0;

	for (size_t i = 0; i < count && done < slot->length; i++) {
		size_t n = min_of(iov[i].iov_len, slot->length - done);

		memcpy(iov[i].iov_base, slot->data + done, n);
		done += n;
	}
	return (ssize_t)done;
}

static void release(struct dgram *d, struct ds_slot *slot)
{
	list_remove(&slot->node);
	if (slot->qp) {
		(void)!dgram_post_recv(slot->qp, slot);
	} else {
		d->copies--;
		free(slot);
	}
}

ssize_t dgram_recv(struct dgram *d, const struct iovec *iov, size_t count, int flags,
		   struct sockaddr *from, socklen_t *from_len, int *ret_flags)
{
	const int limit_ms = d->sock.rcv_timeout_ms;
	const uint64_t begin = time_now_ns();
	struct ds_slot *slot;
	ssize_t n;
	int rc = dgram_ready(d);

	if (rc)
		return rc;
	for (;;) {
		int left_ms = -1;

		if (dgram_poll(d, POLLIN)) {
			pthread_mutex_lock(&d->lock);
			if (!list_empty(&d->received))
				break;
			pthread_mutex_unlock(&d->lock); /* another thread was faster */
		}
		if (sock_nonblocking(&d->sock, flags))
			return -EAGAIN;
		if (limit_ms >= 0) {
			uint64_t ms = (time_now_ns() - begin) / NSEC_PER_MSEC;

			left_ms = ms < (uint64_t)limit_ms ? limit_ms - (int)ms : 0;
		}
		rc = sock_sleep(&d->sock, &(struct sock_waiting){readable, channels, taken, d},
				left_ms);
		if (rc)
			return rc;
	}
	slot = list_entry(d->received.next, struct ds_slot, node);
	n = scatter(slot, iov, count);
	if (ret_flags && (size_t)n < slot->length)
		*ret_flags |= MSG_TRUNC;
	if (from && from_len)
		rc = addr_copy_out(&d->sock, (struct sockaddr *)&slot->from, from, from_len);
	if ((size_t)n < slot->length && (flags & MSG_TRUNC))
		n = (ssize_t)slot->length;
	if (!(flags & MSG_PEEK)) {
		rs_count(datagrams_received, 1);
		release(d, slot);
	}
	pthread_mutex_unlock(&d->lock);
	return rc ? rc : n;
}

/* ---- the service: what comes by UDP ---------------------------------------------------------- */

static uint8_t gid_index(struct rdma_cm_id *id, const union ibv_gid *gid)
{
	struct ibv_gid_entry e;

	for (uint32_t i = 0; i < GIDS_MAX; i++) {
		if (!ibv_query_gid_ex(id->verbs, id->port_num, i, &e, 0) &&
		    e.gid_type != IBV_GID_TYPE_ROCE_V1 && !memcmp(&e.gid, gid, sizeof(*gid)))
			return (uint8_t)i;
	}
	return 0;
}

/* By the path that connection management would take. */
static struct ibv_ah *address_handle(const struct ds_dest *dest)
{
	const struct ibv_sa_path_rec *path = dest->resolving->route.path_rec;
	struct ibv_ah_attr attr = {0};

	if (!dest->resolving->route.num_paths)
		return NULL;
	attr.port_num = dest->resolving->port_num;
	attr.dlid = be16toh(path->dlid);
	attr.sl = path->sl;
	attr.static_rate = path->rate;
	if (path->hop_limit > 1) {
		attr.is_global = 1;
		attr.grh.dgid = path->dgid;
		attr.grh.flow_label = be32toh(path->flow_label);
		attr.grh.sgid_index = gid_index(dest->resolving, &path->sgid);
		attr.grh.hop_limit = path->hop_limit;
		attr.grh.traffic_class = path->traffic_class;
	}
	return ibv_create_ah(dest->qp->id->pd, &attr);
}

/* The rest comes as events. */
static void resolve(struct dgram *d, struct ds_dest *dest)
{
	struct sockaddr_storage from = dest->qp->addr;

	if (dest->resolving || d->resolving_count == DS_RESOLVING_MAX ||
	    rdma_create_id(d->service_channel, &dest->resolving, dest, RDMA_PS_UDP))
		return;
	((struct sockaddr_in *)&from)->sin_port = 0;
	if (rdma_resolve_addr(dest->resolving, (struct sockaddr *)&from,
			      (struct sockaddr *)&dest->addr, RESOLVE_MS)) {
		rdma_destroy_id(dest->resolving);
		dest->resolving = NULL;
		return;
	}
	d->resolving_count++;
}

/* Only who has been found: what waits in the kernel for addresses that nobody has fills the send
 * buffer of the UDP socket. */
static void answer(struct dgram *d, const struct ds_dest *dest)
{
	(void)!send_udp(d, dest, NULL, 0, RS_OP_CTRL, MSG_DONTWAIT);
}

void dgram_cm_event(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	struct ds_dest *dest = id->context;
	struct dgram *d = dest->qp->owner;
	/* Not under the lock: it may take the time of a few packets there and back. */
	const bool goes_on =
		event->event == RDMA_CM_EVENT_ADDR_RESOLVED && !rdma_resolve_route(id, RESOLVE_MS);

	if (!goes_on) {
		pthread_mutex_lock(&d->lock);
		if (event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
			dest->ah = address_handle(dest);
		if (dest->ah)
			answer(d, dest);
		dest->resolving = NULL;
		d->resolving_count--;
		pthread_mutex_unlock(&d->lock);
	}
	rdma_ack_cm_event(event);
	if (!goes_on)
		rdma_destroy_id(id);
}

static void deliver(struct dgram *d, const uint8_t *data, size_t len,
		    const struct sockaddr_storage *from)
{
	struct ds_slot *slot;

	if (d->copies >= COPIES_MAX)
		return;
	slot = malloc(sizeof(*slot) + len);
	if (!slot)
		return;
	*slot = (struct ds_slot){.data = (uint8_t *)(slot + 1), .length = len, .from = *from};
	memcpy(slot + 1, data, len);
	list_push_tail(&d->received, &slot->node);
	d->copies++;
	sock_wake(&d->sock);
}

static void datagram(struct dgram *d, const uint8_t *buf, size_t len,
		     const struct sockaddr_storage *from)
{
	const struct sockaddr *sender = (const struct sockaddr *)from;
	struct ds_udp_hdr h;
	struct ds_dest *dest;
	int hdr_len = ds_udp_decode(&h, buf, len);

	if (hdr_len < 0)
		return;
	if (h.op == RS_OP_DATA) {
		if (dgram_dest(d, sender, &dest))
			return;
	} else { /* who answers has been asked */
		dest = dgram_known_dest(d, sender);
		if (!dest)
			return;
	}
	dest->qpn = h.qpn;
	if (!dest->ah)
		resolve(d, dest);
	if (h.op != RS_OP_DATA)
		return;
	deliver(d, buf + hdr_len, len - (size_t)hdr_len, from);
	if (dest->ah)
		answer(d, dest);
}

void dgram_service(struct dgram *d)
{
	enum { AT_A_TIME = 64 };
	uint8_t buf[DS_SLOT];

	pthread_mutex_lock(&d->lock);
	for (int i = 0; i < AT_A_TIME; i++) {
		struct sockaddr_storage from = {0};
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(d->udp, buf, sizeof(buf), MSG_DONTWAIT,
				     (struct sockaddr *)&from, &from_len);

		if (n < 0)
			break;
		datagram(d, buf, (size_t)n, &from);
	}
	pthread_mutex_unlock(&d->lock);
}
