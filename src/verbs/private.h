/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What libibverbs shows to the librdmacm of the same build, as symbols of the version node
 * WEFT_PRIVATE_1: the process's one connection to the broker. All return 0 or -errno.
 */
#ifndef WEFT_VERBS_PRIVATE_H
#define WEFT_VERBS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "broker/proto_cm.h"
#include "verbs/transport.h"

struct ibv_device;
struct rnic_stream_init;

/* As broker_client_call(), broker_client_cm_channel(). */
int weft_private_call(const void *req, size_t req_len, void *resp, size_t resp_len) must_use;
int weft_private_cm_channel(uint32_t *ret_channel, int *ret_fd) must_use;
/* As broker_client_recover(), broker_client_event(). */
int weft_private_recover(uint32_t *ret_generation) must_use;
void weft_private_cm_event(const struct broker_cm_event *);
/* As process_devices(), process_devices_lately(). */
int weft_private_devices(bool lately_will_do, struct broker_devices **ret) must_use;

/* As transports_wanted(). */
size_t weft_private_transports(enum face_transport ret[TRANSPORTS]);
/* From now on of this kind, too, whatever WEFT_DEVICES says: behind those that it names. */
void weft_private_want_transport(enum face_transport);
/* Is it the interface's device of that kind? */
bool weft_private_device_is(struct ibv_device *, const struct broker_device *, enum face_transport);

/*
 * A stream for a queue pair of iWARP that is in INIT, by its number, on which both sides have
 * agreed: it goes to RTS. early: what came behind the peer's last word on that. The socket is
 * taken, unless this fails: -ENOENT: there is no such queue pair; -EINVAL: it is in another state.
 * ended() is called once, when the stream has come to its end, be it that the queue pair is
 * destroyed: from any thread, with locks held: it waits for nobody and calls nothing of verbs.
 * error: -errno of a connection that was lost, or 0. terminated: by a Terminate of either side.
 */
typedef void weft_stream_ended(void *arg, int error, bool terminated);
int weft_private_stream_begin(uint32_t qpn, int fd, const struct rnic_stream_init *,
			      const void *early, size_t early_len, weft_stream_ended *,
			      void *arg) must_use;
/* 0: it could begin now; or as above. */
int weft_private_stream_may_begin(uint32_t qpn) must_use;
/* Ends the one that was begun with arg: gracefully, as ibv_modify_qp() to SQD, or at once, as to
 * ERR. -ENOENT: there is no such queue pair; -EINVAL: it has no such stream any more. */
int weft_private_stream_end(uint32_t qpn, const void *arg, bool at_once) must_use;

#endif
