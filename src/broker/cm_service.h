/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The broker's connection manager: serves the requests of broker/proto_cm.h for the broker's
 * clients, holds the namespace's rdma_cm port space, and speaks MADs on QP1 (broker/gsi.h).
 *
 * It has no socket, clock or event loop of its own: packets come in through cm_service_rx() and go
 * out through ops->send, `now` (nanoseconds, monotonic) is handed in. Its only descriptors are the
 * event channels: pipes in packet mode, of which the client holds the reading end.
 *
 * Single-threaded. ops are called from within any of the functions here and must not call back.
 * The process must ignore SIGPIPE: a client may have closed its end of a channel.
 */
#ifndef WEFT_BROKER_CM_SERVICE_H
#define WEFT_BROKER_CM_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "broker/proto_cm.h"
#include "broker/proto_list.h"
#include "wire/packet.h"

struct cm_counters;
struct cm_service;
struct cm_client; /* one connection of a library */

struct cm_local_addr {	  /* what the devices table says of an own address */
	uint64_t ca_guid; /* of its device, host order */
	uint32_t ifindex;
	uint8_t path_mtu; /* enum rnic_mtu, the largest that its interface carries */
};

struct cm_service_ops {
	uint32_t (*random)(void *ctx);
	/* One packet for the socket of slot 0; borrowed for the call. */
	void (*send)(void *ctx, const struct packet_tx *);
	/* Is this (never a wildcard) an address of a device of this namespace, and of the interface
	 * scope if that is not 0? */
	bool (*local_addr)(void *ctx, const struct gid *addr, uint32_t scope,
			   struct cm_local_addr *ret);
	/* 0: the next host on this way is there, as far as can be known; -EAGAIN: not known yet.
	 * probe: it is to be asked for. May be NULL: everybody is there. */
	int (*neighbour)(void *ctx, const struct flow *, bool probe);
	/* So many listen by TCP now. May be NULL. */
	void (*listen_by_tcp)(void *ctx, uint32_t count);
};

int cm_service_create(struct cm_service **ret, const struct cm_service_ops *, void *ctx) must_use;
/* The secret of the broker's, or if this one is heir to another, of that one (cm_succeed()). */
void cm_service_begin(struct cm_service *, const uint64_t secret[2], bool heir, uint64_t now);
/* From now on its CM counts there. */
void cm_service_count_in(struct cm_service *, struct cm_counters *);
/* What stands in its events. */
uint32_t cm_service_generation(const struct cm_service *);
/* All clients must be destroyed, or left, before. What is still owed to the wire stays unsent. */
void cm_service_destroy(struct cm_service *);

/* Of that user, who may hold so much over all his clients (broker/cm_users.h); root's may bind
 * ports below 1024. */
int cm_client_create(struct cm_service *, uint32_t uid, struct cm_client **ret) must_use;
/* What lists of clients and ids name it by. */
uint64_t cm_client_nr(const struct cm_client *);
/* The client is gone: pending connections are rejected, live ones disconnected. */
void cm_client_destroy(struct cm_client *, uint64_t now);
/* It lives, and its ids are another broker's from now on: nobody hears of it. */
void cm_client_leave(struct cm_client *);

/* Serves BROKER_CM_CHANNEL. *ret_fd is the end for the client: the caller passes it on and closes
 * it. */
int cm_client_channel(struct cm_client *, uint32_t *ret_channel, int *ret_fd) must_use;
/* Serves one request of BROKER_CM_FIRST or above, of len bytes; reply has room for
 * BROKER_CM_REPLY_MAX. Returns the length of the reply, whose msg.error is 0 or -errno. */
size_t cm_client_request(struct cm_client *, const void *req, size_t len, void *reply,
			 uint64_t now);
#define BROKER_CM_REPLY_MAX 2048
/* Serves RESUME_CHANNEL; pipe is borrowed. -EINVAL: it is no pipe; -EEXIST: there is such a
 * channel; -EMFILE. */
int cm_client_resume_channel(struct cm_client *, uint32_t channel, int pipe) must_use;

/* A packet received on slot 0. What is not a MAD for QP1 is dropped. Was it one that nobody but the
 * peer of a connection could have sent? */
bool cm_service_rx(struct cm_service *, const struct packet_rx *, uint64_t now);
/* A packet of ours to that peer has not got there, says an ICMP message that quotes it. */
void cm_service_refused(struct cm_service *, const struct gid *peer, const uint8_t *quoted,
			size_t len, uint64_t now);
/* DEADLINE_NEVER: nothing is to be done until a packet or a request comes. */
uint64_t cm_service_next_deadline(const struct cm_service *);
void cm_service_tick(struct cm_service *, uint64_t now);
/* Connections that still owe the wire something after their client has gone, or may be asked again:
 * while this is not zero the broker lingers (ten seconds are enough: every one is bounded). */
size_t cm_service_busy(const struct cm_service *);
/* Something has happened to the interface: the watch channels are told; the ids on its addresses
 * get ADDR_CHANGE for another MAC address, and when it is gone DEVICE_REMOVAL, after which they
 * answer all requests but DESTROY_ID with -EIO, and have no more events. */
void cm_service_device_changed(struct cm_service *, uint32_t ifindex, enum broker_device_change,
			       uint64_t now);
/* At which port of TCP one listens whom the programs know by this port of rdma_cm; 0: none does.
 * -EAGAIN: one that listened before this broker may not have said so yet. */
int cm_service_tcp_port(struct cm_service *, const struct gid *addr, uint16_t port,
			uint64_t now) must_use;
/* Some of the ids of that user's clients, or if it is root, of all; returns how many. *from: as in
 * proto_list.h, where to begin, and then where to go on. */
uint32_t cm_service_list(const struct cm_service *, uint32_t uid, uint64_t *from,
			 struct broker_list_id *ret, uint32_t room) must_use;

#endif
