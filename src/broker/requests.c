/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a client asks for: checked, and handed to whom it concerns. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "broker/broker_priv.h"
#include "broker/fd_msg.h"
#include "broker/stranger_fd.h"

#define CLIENT_SLOTS \
	16 /* Of each other user than the broker's own; fewer where there are few descriptors. */

static int reply(struct session *c, const void *msg, size_t len, int fd)
{
	/* A client that does not read its replies is not waited for. */
	return fd_msg_send(c->fd, msg, len, MSG_DONTWAIT, fd);
}

static int answer_hello(struct session *c, const struct broker_hello *req, size_t len)
{
	struct broker_hello r = {
		.msg.type = BROKER_HELLO,
		.version = BROKER_PROTO_VERSION,
		.pid = (uint32_t)getpid(),
		.generation = cm_service_generation(c->broker->cm),
		.files_max = c->broker->files_max,
	};
	int bag = -1;

	if (c->refused) {
		c->broker->sight.broker->clients_refused++;
		snprintf(r.why, sizeof(r.why), "%s", c->refused);
		r.msg.error = c->refused == c->broker->starved ? -ENFILE : -EPERM;
		return reply(c, &r, sizeof(r), -1) ?: r.msg.error;
	}
	if (len != sizeof(*req) || req->version != BROKER_PROTO_VERSION)
		r.msg.error = -EPROTO;
	else
		c->greeted = true;
	if (c->greeted && c->peer.uid == geteuid())
		bag = c->broker->leases.members.bag.out;
	return reply(c, &r, sizeof(r), bag);
}

static int answer_bag(struct session *c)
{
	struct broker_msg r = {.type = BROKER_BAG};
	int fd = c->broker->leases.members.bag.in;

	if (c->peer.uid != geteuid()) {
		r.error = -EPERM;
		fd = -1;
	}
	return reply(c, &r, sizeof(r), fd);
}

static int answer_lease(struct session *c)
{
	struct broker_slot r = {.msg.type = BROKER_LEASE_SLOT};
	struct broker *b = c->broker;
	int fd = -1, slot = -EDQUOT;

	if (c->slot_count < CLIENT_SLOTS)
		slot = leases_take(&b->leases, c->peer.uid, time_now_ns(), &fd);
	if (slot < 0) {
		log_warn("broker", "no slot for pid %d of user %u, which has %u: %s", c->peer.pid,
			 c->peer.uid, c->slot_count,
			 slot == -EMFILE ? c->broker->starved : strerror(-slot));
		r.msg.error = slot == -EMFILE ? -ENFILE : slot;
		b->sight.broker->slots_refused++;
		return reply(c, &r, sizeof(r), -1);
	}
	r.slot = (uint32_t)slot;
	b->sight.broker->slots_leased++;
	c->slot_count++;
	c->slots[slot / 8] |= (uint8_t)(1u << slot % 8);
	log_debug("broker", "slot %d goes to pid %d", slot, c->peer.pid);
	return reply(c, &r, sizeof(r), fd);
}

/* Takes fd over. */
static int answer_keep(struct session *c, const struct broker_slot *req, size_t len, int fd)
{
	struct broker_msg r = {.type = BROKER_KEEP_SLOT};

	if (len != sizeof(*req) || fd < 0)
		r.error = -EINVAL;
	else if (c->slot_count == CLIENT_SLOTS)
		r.error = -EDQUOT;
	else
		r.error = leases_keep(&c->broker->leases, req->slot, c->peer.uid, fd);
	if (r.error) {
		log_warn("broker", "pid %d cannot keep slot %u: %s", c->peer.pid,
			 len == sizeof(*req) ? req->slot : 0, strerror(-r.error));
		if (fd >= 0)
			stranger_close(fd);
	} else {
		c->broker->sight.broker->slots_kept++;
		c->slot_count++;
		c->slots[req->slot / 8] |= (uint8_t)(1u << req->slot % 8);
	}
	return reply(c, &r, sizeof(r), -1);
}

static int answer_resume_channel(struct session *c, const struct broker_cm_id *req, size_t len,
				 int fd)
{
	struct broker_msg r = {.type = BROKER_CM_RESUME_CHANNEL};

	r.error = len != sizeof(*req) || fd < 0 ? -EINVAL
						: cm_client_resume_channel(c->cm, req->id, fd);
	if (fd >= 0)
		stranger_close(fd);
	return reply(c, &r, sizeof(r), -1);
}

static int answer_group(struct session *c, const struct broker_group *req, size_t len)
{
	struct broker_msg r = {.type = BROKER_GROUP};

	if (len != sizeof(*req) || !gid_is_multicast(&req->group))
		r.error = -EINVAL;
	else if (req->slot >= LEASE_SLOTS || !(c->slots[req->slot / 8] & 1u << req->slot % 8))
		r.error = -EPERM;
	else
		r.error = leases_group(&c->broker->leases, req->slot, &req->group, req->ifindex,
				       req->join);
	return reply(c, &r, sizeof(r), -1);
}

/* Takes fd over. */
static int answer_offer(struct session *c, const struct broker_slot *req, size_t len, int fd)
{
	struct broker_msg r = {.type = BROKER_OFFER_INBOX};

	if (len != sizeof(*req) || fd < 0)
		r.error = -EINVAL;
	else if (req->slot >= LEASE_SLOTS || !(c->slots[req->slot / 8] & 1u << req->slot % 8))
		r.error = -EPERM;
	else
		r.error = leases_offer(&c->broker->leases, req->slot, fd);
	if (r.error && fd >= 0)
		stranger_close(fd);
	return reply(c, &r, sizeof(r), -1);
}

static int answer_find(struct session *c, const struct broker_slot *req, size_t len)
{
	struct broker_msg r = {.type = BROKER_FIND_INBOX, .error = -EINVAL};
	int fd = -1;

	if (len == sizeof(*req)) {
		fd = leases_inbox(&c->broker->leases, req->slot, c->peer.uid);
		r.error = fd < 0 ? fd : 0;
	}
	return reply(c, &r, sizeof(r), fd < 0 ? -1 : fd);
}

static int answer_inboxes(struct session *c)
{
	struct broker_inboxes r = {.msg.type = BROKER_INBOXES};

	leases_inboxes(&c->broker->leases, c->peer.uid, r.slots);
	return reply(c, &r, sizeof(r), -1);
}

static int answer_sysfs(struct session *c, const struct broker_sysfs_ask *req, size_t len)
{
	const bool rocev1 = len == sizeof(*req) && req->rocev1;
	struct broker_sysfs r = {.msg.type = BROKER_SYSFS};
	struct sysfs *t = &c->broker->sysfs;

	r.msg.error = sysfs_show(t, devices_table(c->broker->devices), rocev1);
	if (!r.msg.error)
		snprintf(r.path, sizeof(r.path), "%s", t->path);
	return reply(c, &r, sizeof(r), -1);
}

static int answer_cm_channel(struct session *c)
{
	struct broker_cm_channel r = {.msg.type = BROKER_CM_CHANNEL};
	int fd = -1, rc;

	r.msg.error = cm_client_channel(c->cm, &r.channel, &fd);
	rc = reply(c, &r, sizeof(r), fd);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int answer_list_clients(struct session *c, const struct broker_list *req)
{
	struct broker_list_clients r = {.msg.type = BROKER_LIST_CLIENTS};

	session_list_clients(c, req->from, &r);
	return reply(c, &r, sizeof(r), -1);
}

static int answer_list_ids(struct session *c, const struct broker_list *req)
{
	struct broker_list_ids r = {.msg.type = BROKER_LIST_IDS};

	session_list_ids(c, req->from, &r);
	return reply(c, &r, sizeof(r), -1);
}

static int answer_list(struct session *c, const struct broker_list *req, size_t len)
{
	struct broker_msg bad = {.type = req->msg.type, .error = -EINVAL};

	if (len != sizeof(*req))
		return reply(c, &bad, sizeof(bad), -1);
	return req->msg.type == BROKER_LIST_CLIENTS ? answer_list_clients(c, req)
						    : answer_list_ids(c, req);
}

static int answer_cm(struct session *c, const void *req, size_t len)
{
	_Alignas(max_align_t) uint8_t r[BROKER_CM_REPLY_MAX];

	return reply(c, r, cm_client_request(c->cm, req, len, r, time_now_ns()), -1);
}

static int answer_unattached(struct session *c, const void *req, size_t len, uint32_t type)
{
	struct broker_msg unknown = {.type = type, .error = -EOPNOTSUPP};

	switch (type) {
	case BROKER_HELLO:
		return answer_hello(c, req, len);
	case BROKER_DEVICES:
		return reply(c, devices_table(c->broker->devices), sizeof(struct broker_devices),
			     -1);
	case BROKER_BAG:
		return answer_bag(c);
	case BROKER_LEASE_SLOT:
		return answer_lease(c);
	case BROKER_GROUP:
		return answer_group(c, req, len);
	case BROKER_FIND_INBOX:
		return answer_find(c, req, len);
	case BROKER_INBOXES:
		return answer_inboxes(c);
	case BROKER_SYSFS:
		return answer_sysfs(c, req, len);
	case BROKER_CM_CHANNEL:
		return answer_cm_channel(c);
	case BROKER_LIST_CLIENTS:
	case BROKER_LIST_IDS:
		return answer_list(c, req, len);
	default:
		if (type >= BROKER_CM_FIRST)
			return answer_cm(c, req, len);
		return reply(c, &unknown, sizeof(unknown), -1);
	}
}

int session_answer_starved(struct session *c, const void *req)
{
	struct broker_msg r;

	memcpy(&r, req, sizeof(r));
	r.error = -ENFILE;
	return reply(c, &r, sizeof(r), -1);
}

int session_answer(struct session *c, const void *req, size_t len, int fd)
{
	struct broker_msg msg = {0};

	c->broker->sight.broker->requests++;
	if (len >= sizeof(msg))
		memcpy(&msg, req, sizeof(msg));
	if (len >= sizeof(msg) && c->greeted) {
		if (msg.type == BROKER_KEEP_SLOT)
			return answer_keep(c, req, len, fd);
		if (msg.type == BROKER_OFFER_INBOX)
			return answer_offer(c, req, len, fd);
		if (msg.type == BROKER_CM_RESUME_CHANNEL)
			return answer_resume_channel(c, req, len, fd);
	}
	if (fd >= 0)
		stranger_close(fd);
	if (len < sizeof(msg) || (!c->greeted && msg.type != BROKER_HELLO))
		return -EPROTO;
	return answer_unattached(c, req, len, msg.type);
}
