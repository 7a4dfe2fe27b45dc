/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "cm/cm_priv.h"

/* ---- communication ids -------------------------------------------------------------------- */

/*
 * A comm id on the wire is the slot key, sent through a small keyed permutation (four Feistel
 * rounds): who sees one cannot tell the next. The way back is exact, so a stale key stays stale.
 */
static uint32_t round_of(uint32_t half, uint32_t key)
{
	uint32_t v = (half ^ key) * 0x9e3779b1u;

	v ^= v >> 15;
	v *= 0x85ebca77u;
	return v >> 16;
}

static uint32_t scramble(const struct cm *cm, uint32_t v)
{
	uint32_t l = v >> 16, r = v & 0xffff;

	for (int i = 0; i < 4; i++) {
		uint32_t t = l ^ round_of(r, cm->scramble[i]);

		l = r;
		r = t;
	}
	return l << 16 | r;
}

static uint32_t unscramble(const struct cm *cm, uint32_t v)
{
	uint32_t l = v >> 16, r = v & 0xffff;

	for (int i = 3; i >= 0; i--) {
		uint32_t t = r ^ round_of(l, cm->scramble[i]);

		r = l;
		l = t;
	}
	return l << 16 | r;
}

static void take_comm_id(struct cm_id *id)
{
	id->local_comm_id = scramble(id->cm, id->key);
	/* Zero stands for "none" in a REJ. */
	if (id->local_comm_id == 0) {
		id->key = handles_renew(&id->cm->handles, id->key);
		id->local_comm_id = scramble(id->cm, id->key);
	}
}

struct cm_id *cm_find_local(const struct cm *cm, uint32_t local_comm_id)
{
	return handles_find(&cm->handles, unscramble(cm, local_comm_id));
}

/* ---- ids ---------------------------------------------------------------------------------- */

static struct cm_id *alloc_id(struct cm *cm, void *user)
{
	struct cm_id *id = cm->ops.alloc(cm->ctx, sizeof(*id));

	if (!id)
		return NULL;
	*id = (struct cm_id){.cm = cm, .user = user};
	list_init(&id->listening);
	list_init(&id->by_peer);
	list_init(&id->by_qpn);
	list_init(&id->replied);
	list_init(&id->replied_from);
	return id;
}

struct cm_id *cm_id_new(struct cm *cm, void *user)
{
	struct cm_id *id = alloc_id(cm, user);

	if (!id)
		return NULL;
	if (handles_take(&cm->handles, id, cm->ops.random(cm->ctx), &id->key) < 0) {
		cm->ops.free(cm->ctx, id);
		return NULL;
	}
	take_comm_id(id);
	list_push_tail(&cm->ids, &id->all);
	return id;
}

int cm_id_new_as(struct cm *cm, void *user, uint32_t local_comm_id, struct cm_id **ret)
{
	struct cm_id *id = alloc_id(cm, user);
	int rc;

	if (!id)
		return -ENOMEM;
	id->key = unscramble(cm, local_comm_id);
	id->local_comm_id = local_comm_id;
	rc = handles_restore(&cm->handles, id->key, id, cm->ops.random(cm->ctx));
	if (rc) {
		cm->ops.free(cm->ctx, id);
		return rc;
	}
	list_push_tail(&cm->ids, &id->all);
	*ret = id;
	return 0;
}

/* ---- who is half-open ------------------------------------------------------------------------ */

uint32_t cm_source_of(const struct cm *cm, const struct gid *gid)
{
	return cm_hash_gid(cm, gid) / CM_KNOWN % CM_SOURCES;
}

void cm_half_open_begin(struct cm_id *id)
{
	struct cm *cm = id->cm;

	id->waiting = true;
	cm->waiting_count++;
	cm->waiting_from_count[cm_source_of(cm, &id->flow.dgid)]++;
}

void cm_half_open_end(struct cm_id *id)
{
	struct cm *cm = id->cm;

	if (id->waiting) {
		cm->waiting_count--;
		cm->waiting_from_count[cm_source_of(cm, &id->flow.dgid)]--;
	}
	if (!list_empty(&id->replied)) {
		cm->replied_count--;
		cm->replied_from_count[cm_source_of(cm, &id->flow.dgid)]--;
	}
	id->waiting = false;
	list_remove(&id->replied);
	list_remove(&id->replied_from);
}

/* ---- the end of an id ------------------------------------------------------------------------ */

void cm_id_free(struct cm_id *id)
{
	struct cm *cm = id->cm;

	timer_cancel(&cm->timers, &id->timer);
	cm_half_open_end(id);
	cm->memories -= id->memory;
	list_remove(&id->all);
	list_remove(&id->listening);
	list_remove(&id->by_peer);
	list_remove(&id->by_qpn);
	handles_release(&cm->handles, id->key);
	cm->ops.free(cm->ctx, id);
}

/* ---- by peer ------------------------------------------------------------------------------ */

static uint64_t hash_of(const struct cm *cm, uint64_t guid, const struct gid *gid, uint32_t nr)
{
	uint64_t words[2];
	uint64_t v = cm->hash_seed ^ guid;

	memcpy(words, gid->raw, sizeof(words));
	v = (v ^ words[0]) * 0x9e3779b97f4a7c15u;
	v = (v ^ v >> 32 ^ words[1]) * 0xc2b2ae3d27d4eb4fu;
	v = (v ^ v >> 29 ^ nr) * 0x9e3779b97f4a7c15u;
	return v >> 32 ^ v << 32;
}

static uint32_t bucket_of(const struct cm *cm, uint64_t guid, const struct gid *gid, uint32_t nr)
{
	return hash_of(cm, guid, gid, nr) % CM_HASH_BUCKETS;
}

uint64_t cm_hash_gid(const struct cm *cm, const struct gid *gid)
{
	return hash_of(cm, 0, gid, 0);
}

struct list *cm_listeners(struct cm *cm, uint64_t service_id, uint64_t mask)
{
	return mask == UINT64_MAX ? &cm->listeners[(service_id * 0x9e3779b97f4a7c15u >> 32) %
						   CM_LISTENER_BUCKETS]
				  : &cm->listeners_masked;
}

static bool hears(const struct cm_id *l, uint64_t service_id, const uint8_t *private_data,
		  uint32_t scope)
{
	return (service_id & l->mask) == l->service_id &&
	       (!l->match || l->match(l->user, private_data, scope));
}

struct cm_id *cm_listener_of(const struct cm *cm, uint64_t service_id, const uint8_t *private_data,
			     uint32_t scope)
{
	const struct list *of_one =
		cm_listeners((struct cm *)(uintptr_t)cm, service_id, UINT64_MAX);

	list_for_each(l, of_one, struct cm_id, listening)
		if (hears(l, service_id, private_data, scope))
			return l;
	list_for_each(l, &cm->listeners_masked, struct cm_id, listening)
		if (hears(l, service_id, private_data, scope))
			return l;
	return NULL;
}

/*
 * The address is part of the key beside the GUID: GUIDs of devices without a MAC are made of
 * their names, so that two hosts may well have the same.
 */
void cm_hash_peer(struct cm_id *id)
{
	struct cm *cm = id->cm;

	list_push_head(
		&cm->by_peer[bucket_of(cm, id->peer_guid, &id->flow.dgid, id->remote_comm_id)],
		&id->by_peer);
}

void cm_hash_qpn(struct cm_id *id)
{
	struct cm *cm = id->cm;

	list_push_head(&cm->by_qpn[bucket_of(cm, id->peer_guid, &id->flow.dgid, id->peer_qpn)],
		       &id->by_qpn);
}

static struct cm_id *find_peer(const struct cm *cm, uint64_t guid, const struct gid *gid,
			       uint32_t comm_id, bool sidr)
{
	const struct list *bucket = &cm->by_peer[bucket_of(cm, guid, gid, comm_id)];

	list_for_each(id, bucket, struct cm_id, by_peer)
		if (id->remote_comm_id == comm_id && id->peer_guid == guid && id->sidr == sidr &&
		    gid_equal(&id->flow.dgid, gid))
			return id;
	return NULL;
}

struct cm_id *cm_find_peer(const struct cm *cm, uint64_t guid, const struct gid *gid,
			   uint32_t comm_id)
{
	return find_peer(cm, guid, gid, comm_id, false);
}

/* A SIDR_REQ does not say its sender's GUID. */
struct cm_id *cm_find_sidr(const struct cm *cm, const struct gid *gid, uint32_t request_id)
{
	return find_peer(cm, 0, gid, request_id, true);
}

struct cm_id *cm_find_qpn(const struct cm *cm, uint64_t guid, const struct gid *gid, uint32_t qpn)
{
	const struct list *bucket = &cm->by_qpn[bucket_of(cm, guid, gid, qpn)];

	list_for_each(id, bucket, struct cm_id, by_qpn)
		if (id->peer_qpn == qpn && id->peer_guid == guid && gid_equal(&id->flow.dgid, gid))
			return id;
	return NULL;
}

/* ---- the state ---------------------------------------------------------------------------- */

#define B(state) (1u << CM_##state)
static const uint16_t may_follow[CM_STATES] = {
	[CM_IDLE] = B(LISTEN) | B(REQ_SENT) | B(REQ_RCVD) | B(SIDR_REQ_SENT) | B(SIDR_REQ_RCVD),
	[CM_LISTEN] = 0,
	[CM_REQ_SENT] = B(REP_RCVD) | B(IDLE),
	[CM_REQ_RCVD] = B(REP_SENT) | B(TIMEWAIT) | B(IDLE),
	[CM_REP_SENT] = B(ESTABLISHED) | B(DREQ_SENT) | B(DREQ_RCVD) | B(TIMEWAIT),
	[CM_REP_RCVD] = B(ESTABLISHED) | B(DREQ_RCVD) | B(TIMEWAIT),
	[CM_ESTABLISHED] = B(DREQ_SENT) | B(DREQ_RCVD) | B(TIMEWAIT),
	[CM_DREQ_SENT] = B(TIMEWAIT),
	[CM_DREQ_RCVD] = B(TIMEWAIT),
	[CM_TIMEWAIT] = B(IDLE),
	[CM_SIDR_REQ_SENT] = B(IDLE),
	[CM_SIDR_REQ_RCVD] = B(TIMEWAIT) | B(IDLE),
};
#undef B

static uint64_t rest_ns(const struct cm_id *id)
{
	/* Nobody waits for the end of this one, and others want to begin. */
	if (id->orphan && id->cm->handles.live > CM_MAX_IDS / 2)
		return 0;
	if (id->was_up)
		return id->timewait_ns;
	/* It remembers what it has answered. That is a courtesy, which must not fill the table for
	 * whoever sends requests by the thousand. */
	if (!id->active && !id->memory)
		return 0;
	return max_of(id->timewait_ns, id->memory_ns);
}

void cm_set_state(struct cm_id *id, enum cm_state state, uint64_t now)
{
	struct cm *cm = id->cm;

	assert(may_follow[id->state] & 1u << state);
	id->state = state;
	id->question = 0;
	timer_cancel(&cm->timers, &id->timer);
	cm_half_open_end(id);
	cm->memories -= id->memory;
	id->memory =
		state == CM_TIMEWAIT && !id->active && !id->was_up && cm->memories < CM_MEMORY_MAX;
	cm->memories += id->memory;
	switch (state) {
	case CM_ESTABLISHED:
		id->was_up = true;
		break;
	case CM_DREQ_RCVD:
		list_remove(&id->by_qpn); /* the peer is done with its queue pair */
		break;
	case CM_TIMEWAIT:
		list_remove(&id->by_qpn);
		timer_arm(&cm->timers, &id->timer, now + rest_ns(id));
		break;
	case CM_IDLE:
		list_remove(&id->by_peer);
		list_remove(&id->by_qpn);
		/* Whatever still comes for the old id finds nothing. */
		id->key = handles_renew(&cm->handles, id->key);
		take_comm_id(id);
		id->remote_comm_id = 0;
		id->last_attr = 0;
		id->was_up = id->quiet = id->hurried = id->active = id->sidr = id->heard = false;
		id->unheard_sent = 0;
		break;
	default:
		break;
	}
}
