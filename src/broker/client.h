/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The library's end of the broker. Thread-safe: calls take turns on an own lock.
 */
#ifndef WEFT_BROKER_CLIENT_H
#define WEFT_BROKER_CLIENT_H

#include <stdbool.h>

#include "base/compiler.h"
#include "broker/proto_cm.h"

struct broker_client;

/*
 * Connects to the namespace's broker, starting one when there is none: executes `weft broker`
 * found at $WEFT_BROKER, else beside this library (../weft, ../../bin/weft), else on PATH.
 * On failure returns -errno and writes a sentence that names the object and the next step into
 * err: another user's broker, port 4791 held by a kernel rxe, a broker that cannot be started.
 */
int broker_client_open(struct broker_client **ret, char *err, size_t err_len) must_use;
/* For who can do without: where another program than a broker has the port, it says so in a second
 * and does not wait for that one to end. */
int broker_client_look(struct broker_client **ret, char *err, size_t err_len) must_use;
void broker_client_close(struct broker_client *);

/*
 * When the broker ends, the next call finds or starts another, which goes on with the slots, event
 * channels and identifiers of the last one; the log says so, and what was lost. Who makes no calls
 * but sees by an event channel's end that the broker is gone calls broker_client_recover(): 0, and
 * which broker has answered, or -errno when there is none yet. Events must be handed to
 * broker_client_event() as they are read. What a broker cannot know of the last one's: events that
 * had no room in their pipe yet.
 */
int broker_client_recover(struct broker_client *, uint32_t *ret_generation) must_use;
void broker_client_event(struct broker_client *, const struct broker_cm_event *);

/* One request and its reply (of exactly resp_len bytes; shorter error replies are zero-filled).
 * Returns reply.msg.error, or -errno for a lost broker. ret_fd: the descriptor that came along,
 * -1 if none; may be NULL. */
int broker_client_call(struct broker_client *, const void *req, size_t req_len, void *resp,
		       size_t resp_len, int *ret_fd) must_use;

int broker_client_devices(struct broker_client *, struct broker_devices *ret) must_use;
int broker_client_lease_slot(struct broker_client *, uint8_t *ret_slot, int *ret_fd) must_use;
/* For processes of this host: offers an inbox for the slot, which must stay open for as long as the
 * slot is had; or finds that of another's. -ENOENT: there is none, and none for us. */
int broker_client_offer_inbox(struct broker_client *, uint8_t slot, int fd) must_use;
int broker_client_find_inbox(struct broker_client *, uint8_t slot, int *ret_fd) must_use;
/* Of which slots there is one for us. */
int broker_client_inboxes(struct broker_client *, struct broker_inboxes *ret) must_use;
int broker_client_cm_channel(struct broker_client *, uint32_t *ret_channel, int *ret_fd) must_use;
int broker_client_sysfs(struct broker_client *, bool rocev1, struct broker_sysfs *ret) must_use;

/* Closes it but for its connection, a descriptor that the caller never uses and may lose: the
 * broker stays as long as anybody has it open. */
int broker_client_leave(struct broker_client *) must_use;

#endif
