/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A datagram socket: a UDP socket, and a UD queue pair for each local address that is used.
 *
 * The first datagrams to a peer go by UDP behind a header with our queue pair's number
 * (wire/rsocket.h); the peer's service thread answers with its own, and from then on datagrams go
 * by UD, behind another header that says from which address and port. What is too long for UD's
 * one packet stays with UDP.
 *
 * Anybody can send such a header, under any name: so a peer's address is looked for beside
 * everything else, for a few at a time, and no more than so many peers are remembered; who is
 * forgotten, or not found, is heard and answered by UDP. That a datagram is from who it says is
 * promised no more than with UDP.
 *
 * One lock guards a socket. The service thread reads its UDP socket, under svc_lock(); order:
 * svc_lock, then this one.
 */
#ifndef WEFT_RSOCKET_DGRAM_H
#define WEFT_RSOCKET_DGRAM_H

#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "rsocket/sock.h"
#include "wire/rsocket.h"

enum {
	DS_SLOT = RS_SNDLOWAT, /* a datagram with its header, at most */
	DS_DESTS_MAX = 1024,
	DS_RESOLVING_MAX = 16,
};

struct ds_slot { /* a datagram that has come: in a queue pair's buffer, or a copy of its own */
	struct list node;
	struct ds_qp *qp;    /* NULL: a copy */
	const uint8_t *data; /* behind the header */
	size_t length;
	struct sockaddr_storage from;
};

struct ds_qp {
	struct list node;
	struct dgram *owner;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buffers; /* sends, then receives, each a slot; then a place for network headers */
	size_t bytes;
	struct ds_slot *slots; /* of the receives */
	uint32_t send_next, send_free;
	uint32_t mtu;
	bool armed;
	struct sockaddr_storage addr; /* ours */
	uint8_t hdr[DS_UD_LEN_MAX];
	size_t hdr_len;
};

struct ds_dest {
	struct list node;
	struct sockaddr_storage addr;
	struct ds_qp *qp;
	struct ibv_ah *ah; /* NULL: it has not told its queue pair yet, or is not found */
	struct rdma_cm_id *resolving; /* svc_lock: on the service's channel; NULL: not now */
	uint32_t qpn;
};

struct dgram {
	struct sock sock;
	struct settings set;
	pthread_mutex_t lock;
	struct list service; /* svc_lock: in its list */
	int udp;
	int channels; /* an epoll set of the queue pairs' */
	bool bound;
	struct rdma_event_channel *service_channel;
	struct list qps, received;
	struct list dests; /* the last one spoken to is first */
	unsigned int dests_count, resolving_count;
	unsigned int copies;  /* among those received */
	struct ds_dest *peer; /* rconnect() */
};

/* ---- dgram.c: life, queue pairs, destinations ------------------------------------------------ */

int dgram_create(int domain, struct dgram **ret) must_use;
int dgram_close(struct dgram *);
int dgram_bind(struct dgram *, const struct sockaddr *, socklen_t) must_use;
int dgram_connect(struct dgram *, const struct sockaddr *, socklen_t) must_use;
int dgram_setsockopt(struct dgram *, int level, int name, const void *, socklen_t) must_use;
int dgram_getsockopt(struct dgram *, int level, int name, void *, socklen_t *) must_use;
/* Bound, if it was not, to a port of the kernel's choice. */
int dgram_ready(struct dgram *) must_use;
/* Under the lock. */
int dgram_dest(struct dgram *, const struct sockaddr *, struct ds_dest **ret) must_use;
struct ds_dest *dgram_known_dest(struct dgram *, const struct sockaddr *);

/* ---- dgram_io.c ------------------------------------------------------------------------------ */

ssize_t dgram_send(struct dgram *, const struct iovec *, size_t count, int flags,
		   const struct sockaddr *to, socklen_t) must_use;
ssize_t dgram_recv(struct dgram *, const struct iovec *, size_t count, int flags,
		   struct sockaddr *from, socklen_t *, int *ret_flags) must_use;
int dgram_post_recv(struct ds_qp *, const struct ds_slot *) must_use;
/* The service thread: the UDP socket may have something. Under svc_lock(). */
void dgram_service(struct dgram *);
/* Likewise: of an id on its channel that resolves an address. */
void dgram_cm_event(struct rdma_cm_event *);

short dgram_poll(struct dgram *, short events);
int dgram_arm(struct dgram *);
void dgram_taken(struct dgram *);

#endif
