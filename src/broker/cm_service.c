/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/log.h"
#include "broker/cm_service_priv.h"
#include "broker/gsi.h"

/* A reader that lets its pipe run full makes no noise when it reads on: look again. */
#define FLUSH_INTERVAL_NS  2000000ull
#define FLUSH_SELDOM_NS	   64000000ull /* while nobody reads */
#define FLUSH_WITH_REQUEST 64	       /* channels; who has more waits for the interval */

/* ---- the service -------------------------------------------------------------------------- */

static void *svc_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void svc_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static uint32_t svc_random(void *ctx)
{
	struct cm_service *svc = ctx;

	return svc->ops.random(svc->ctx);
}

/* Each is a descriptor; the broker needs some for its sockets and clients, too. */
static uint32_t channels_max(void)
{
	long fds = sysconf(_SC_OPEN_MAX), most = max_of(fds - 1024, fds / 2);

	return (uint32_t)min_of(most, (long)SVC_MAX_CHANNELS);
}

int cm_service_create(struct cm_service **ret, const struct cm_service_ops *ops, void *ctx)
{
	static const struct cm_ops cm_ops = {svc_alloc, svc_free, svc_random, svc_on_cm_event};
	struct cm_service *svc = calloc(1, sizeof(*svc));
	int r;

	if (!svc)
		return -ENOMEM;
	svc->ops = *ops;
	svc->ctx = ctx;
	svc->flush_at = DEADLINE_NEVER;
	list_init(&svc->clients);
	cm_users_init(&svc->users, geteuid(), channels_max());
	list_init(&svc->resolving);
	for (int i = 0; i < SVC_PORT_SPACES; i++)
		port_space_init(&svc->port_space[i]);
	svc->slot_mem = malloc(SVC_MAX_IDS * sizeof(*svc->slot_mem));
	if (!svc->slot_mem) {
		free(svc);
		return -ENOMEM;
	}
	slots_init(&svc->slots, svc->slot_mem, SVC_MAX_IDS, SVC_GEN_BITS);
	r = cm_create(&svc->cm, &cm_ops, svc);
	if (r < 0) {
		free(svc->slot_mem);
		free(svc);
		return r;
	}
	*ret = svc;
	return 0;
}

void cm_service_begin(struct cm_service *svc, const uint64_t secret[2], bool heir, uint64_t now)
{
	svc->generation = svc->ops.random(svc->ctx);
	svc->heir_until = heir ? now + SVC_HEIR_NS : 0;
	/* New ids are elsewhere than those of a broker before this one, which may come. */
	slots_begin_at(&svc->slots, svc->ops.random(svc->ctx) % (SVC_MAX_IDS / 2),
		       svc->ops.random(svc->ctx));
	cm_succeed(svc->cm, secret, svc->heir_until);
}

void cm_service_destroy(struct cm_service *svc)
{
	if (!svc)
		return;
	assert(list_empty(&svc->clients));
	cm_destroy(svc->cm);
	free(svc->slot_mem);
	free(svc);
}

/* ---- the wire ----------------------------------------------------------------------------- */

void svc_send_all(struct cm_service *svc)
{
	struct flow flow;
	uint8_t mad[MAD_LEN];
	struct rnic_tx tx;

	while (cm_tx(svc->cm, &flow, mad, svc->now)) {
		flow.ttl = CM_HOP_LIMIT;
		gsi_encode(&tx, &flow, mad, svc->psn++);
		svc->ops.send(svc->ctx, &tx);
	}
}

/* Takes in what is parked at index i, whatever becomes of it now. */
static void unpark(struct cm_service *svc, uint32_t i)
{
	struct svc_parked p = svc->parked[i];

	svc->parked_count--;
	memmove(&svc->parked[i], &svc->parked[i + 1],
		(svc->parked_count - i) * sizeof(svc->parked[0]));
	cm_rx(svc->cm, &p.flow, p.mad, svc->now);
}

void svc_serve_parked(struct cm_service *svc)
{
	for (uint32_t i = 0; i < svc->parked_count;)
		if (cm_unheard(svc->cm, &svc->parked[i].flow, svc->parked[i].mad))
			i++;
		else
			unpark(svc, i);
}

/* Who asks again need not wait twice. */
static bool is_parked(const struct cm_service *svc, const struct flow *flow, const uint8_t *mad)
{
	for (uint32_t i = 0; i < svc->parked_count; i++)
		if (gid_equal(&svc->parked[i].flow.sgid, &flow->sgid) &&
		    !memcmp(svc->parked[i].mad, mad, MAD_LEN))
			return true;
	return false;
}

static bool may_be_parked(const struct cm_service *svc, const uint8_t *mad)
{
	return svc->parked_count < SVC_PARK_MAX &&
	       (svc->now < svc->heir_until || cm_patience_ns(mad) >= SVC_PARK_NS);
}

bool cm_service_rx(struct cm_service *svc, const struct rnic_rx *rx, uint64_t now)
{
	const uint8_t *mad = gsi_decode(rx);
	bool expected;

	svc->now = now;
	/* Nobody is a group, and QP1 belongs to none. */
	if (!mad || gid_is_multicast(&rx->flow.sgid) || gid_is_multicast(&rx->flow.dgid))
		return false;
	if (is_parked(svc, &rx->flow, mad))
		return false;
	if (may_be_parked(svc, mad) && cm_unheard(svc->cm, &rx->flow, mad)) {
		struct svc_parked *p = &svc->parked[svc->parked_count++];

		p->flow = rx->flow;
		p->until = max_of(now + SVC_PARK_NS, svc->heir_until);
		memcpy(p->mad, mad, sizeof(p->mad));
		return false;
	}
	expected = cm_rx(svc->cm, &rx->flow, mad, now);
	svc_send_all(svc);
	return expected;
}

void cm_service_refused(struct cm_service *svc, const struct gid *peer, const uint8_t *quoted,
			size_t len, uint64_t now)
{
	const uint8_t *mad = gsi_quoted(quoted, len, &len);

	svc->now = now;
	if (mad)
		cm_unreachable(svc->cm, peer, mad, len, now);
	svc_send_all(svc);
}

static void flush_channels(struct cm_service *svc)
{
	bool waiting = false, read = false;

	list_for_each(client, &svc->clients, struct cm_client, list)
		list_for_each(c, &client->channels, struct cm_channel, list) {
			uint32_t before = c->queued;

			if (before)
				cm_channel_flush(c);
			waiting |= c->queued != 0;
			read |= c->queued != before;
		}
	svc->flush_wait = read ? FLUSH_INTERVAL_NS : min_of(2 * svc->flush_wait, FLUSH_SELDOM_NS);
	svc->flush_at = waiting ? svc->now + svc->flush_wait : DEADLINE_NEVER;
}

void svc_flush_later(struct cm_service *svc, const struct cm_channel *c)
{
	if (!c->queued || svc->flush_at != DEADLINE_NEVER)
		return;
	svc->flush_wait = FLUSH_INTERVAL_NS;
	svc->flush_at = svc->now + svc->flush_wait;
}

/* A client that makes requests is likely to have read, too. */
void svc_flush_client(struct cm_client *client)
{
	if (client->svc->flush_at == DEADLINE_NEVER || client->channel_count > FLUSH_WITH_REQUEST)
		return;
	list_for_each(c, &client->channels, struct cm_channel, list)
		cm_channel_flush(c);
}

uint64_t cm_service_next_deadline(const struct cm_service *svc)
{
	uint64_t at = min_of(cm_next_deadline(svc->cm), svc->flush_at);

	at = min_of(at, svc_resolve_deadline(svc));
	return svc->parked_count ? min_of(at, svc->parked[0].until) : at;
}

void cm_service_tick(struct cm_service *svc, uint64_t now)
{
	svc->now = now;
	cm_tick(svc->cm, now);
	while (svc->parked_count && svc->parked[0].until <= now)
		unpark(svc, 0);
	svc_resolve_tick(svc);
	if (now >= svc->flush_at)
		flush_channels(svc);
	svc_send_all(svc);
}

uint32_t cm_service_generation(const struct cm_service *svc)
{
	return svc->generation;
}

size_t cm_service_busy(const struct cm_service *svc)
{
	return cm_busy(svc->cm) + svc->parked_count;
}

/* ---- clients and their channels ----------------------------------------------------------- */

static void free_channel(struct cm_client *client, struct cm_channel *c)
{
	cm_channel_close(c);
	list_remove(&c->list);
	client->channel_count--;
	cm_quota_give_back(client->user, CM_QUOTA_CHANNELS);
	free(c);
}

/*
 * A thread that waits in rdma_get_cm_event() when another destroys the channel waits on, with the
 * kernel. Here it would see the end of the pipe: so that stays open while there is a reader.
 */
static void sweep_closed(struct cm_client *client)
{
	list_for_each(c, &client->closed, struct cm_channel, list)
		if (!cm_channel_has_reader(c))
			free_channel(client, c);
}

int cm_client_create(struct cm_service *svc, uint32_t uid, struct cm_client **ret)
{
	struct cm_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return -ENOMEM;
	r = cm_user_get(&svc->users, uid, &client->user);
	if (r < 0) {
		free(client);
		return r;
	}
	client->svc = svc;
	client->nr = ++svc->clients_ever;
	client->next_channel = 1;
	list_init(&client->channels);
	list_init(&client->closed);
	list_init(&client->ids);
	list_push_tail(&svc->clients, &client->list);
	*ret = client;
	return 0;
}

void cm_client_destroy(struct cm_client *client, uint64_t now)
{
	struct cm_service *svc;

	if (!client)
		return;
	svc = client->svc;
	svc->now = now;
	client->dying = true;
	list_for_each(id, &client->ids, struct svc_id, list)
		cm_id_died(id->cm);
	/* Destroying a listener takes its unread requests along: always look at the first. */
	while (!list_empty(&client->ids))
		svc_id_destroy(list_entry(client->ids.next, struct svc_id, list), true);
	list_for_each(c, &client->channels, struct cm_channel, list)
		free_channel(client, c);
	list_for_each(c, &client->closed, struct cm_channel, list)
		free_channel(client, c);
	svc_send_all(svc);
	list_remove(&client->list);
	cm_user_put(client->user);
	free(client);
}

/* A CONNECT_REQUEST gets its place in the pipe: from now on the pipe says whether it was read. What
 * was taken back out of a pipe need not be what we had put there. */
static void request_placed(void *ctx, struct cm_channel *c, const struct broker_cm_event *ev,
			   uint64_t place)
{
	struct cm_client *client = ctx;
	struct svc_id *id = slots_find(&client->svc->slots, ev->id);

	if (ev->type != BROKER_CM_EV_CONNECT_REQUEST || !id || id->client != client)
		return;
	id->request_channel = c;
	id->request_place = place;
	id->request_placed = true;
}

static int add_channel(struct cm_client *client, struct cm_channel *c, int error, uint32_t nr)
{
	if (error) {
		cm_quota_give_back(client->user, CM_QUOTA_CHANNELS);
		free(c);
		return error;
	}
	c->placed = request_placed;
	c->ctx = client;
	c->nr = nr;
	client->channel_count++;
	list_push_tail(&client->channels, &c->list);
	return 0;
}

static int may_add_channel(struct cm_client *client)
{
	sweep_closed(client);
	return cm_quota_take(client->user, CM_QUOTA_CHANNELS, client->channel_count);
}

int cm_client_channel(struct cm_client *client, uint32_t *ret_channel, int *ret_fd)
{
	struct cm_channel *c;
	int r = may_add_channel(client);

	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	r = c ? cm_channel_open(c, client->user, ret_fd) : -ENOMEM;
	r = add_channel(client, c, r, client->next_channel);
	if (r == 0)
		*ret_channel = client->next_channel++;
	return r;
}

int cm_client_resume_channel(struct cm_client *client, uint32_t nr, int pipe)
{
	struct cm_channel *c;
	int r;

	if (!nr || nr == UINT32_MAX)
		return -EINVAL;
	if (client_channel(client, nr))
		return -EEXIST;
	r = may_add_channel(client);
	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	r = c ? cm_channel_reopen(c, client->user, pipe) : -ENOMEM;
	r = add_channel(client, c, r, nr);
	if (r == 0)
		client->next_channel = max_of(client->next_channel, nr + 1);
	return r;
}

struct cm_channel *client_channel(struct cm_client *client, uint32_t nr)
{
	list_for_each(c, &client->channels, struct cm_channel, list)
		if (c->nr == nr)
			return c;
	return NULL;
}

void client_channel_close(struct cm_client *client, struct cm_channel *c)
{
	list_for_each(id, &client->ids, struct svc_id, list)
		if (!list_empty(&id->requests))
			svc_requests_settle(id);
	/* What is unread now never will be. Destroying a request may unlink the next id of the
	 * client, so that is looked up afterwards; the listener itself stays. */
	for (struct list *n = client->ids.next; n != &client->ids; n = n->next) {
		struct svc_id *listener = list_entry(n, struct svc_id, list);

		list_for_each(id, &listener->requests, struct svc_id, request)
			if (id->request_channel == c)
				svc_id_destroy(id, true);
	}
	list_for_each(id, &client->ids, struct svc_id, list)
		if (id->channel == c)
			id->channel = NULL;
	if (client->watch == c)
		client->watch = NULL;
	cm_channel_purge_all(c);
	list_remove(&c->list);
	list_push_tail(&client->closed, &c->list);
	sweep_closed(client);
}

static int post_to(struct cm_service *svc, struct cm_channel *c, struct broker_cm_event *ev)
{
	int r;

	if (!c)
		return -EPIPE;
	ev->generation = svc->generation;
	r = cm_channel_post(c, ev);
	if (r == -ENOMEM)
		log_err("cm", "an event of %#x is lost: no memory", ev->id);
	svc_flush_later(svc, c);
	return r;
}

int svc_post(struct svc_id *id, struct broker_cm_event *ev)
{
	svc_save(id, &ev->saved);
	return post_to(id->client->svc, id->channel, ev);
}

void svc_peer_died(struct svc_id *id)
{
	struct broker_cm_event ev = {
		.type = BROKER_CM_EV_PEER_DIED, .id = id->handle, .param.qpn = cm_id_qpn(id->cm)};

	(void)!post_to(id->client->svc, id->client->watch,
		       &ev); /* who does not watch waits for its timeouts */
}

/* ---- ids ---------------------------------------------------------------------------------- */

/* handle: 0 for a new one. */
static int id_new(struct cm_client *client, struct cm_channel *channel, struct cm_id *cm,
		  uint32_t handle, struct svc_id **ret)
{
	struct cm_service *svc = client->svc;
	uint32_t seed = svc->ops.random(svc->ctx);
	struct svc_id *id;
	int r;

	r = cm_quota_take(client->user, CM_QUOTA_IDS, client->id_count);
	if (r < 0)
		return r;
	id = calloc(1, sizeof(*id));
	r = -ENOMEM;
	if (!id)
		goto no_memory;
	id->handle = handle;
	r = handle ? slots_restore(&svc->slots, handle, id, seed)
		   : slots_take(&svc->slots, id, seed, &id->handle);
	if (r < 0)
		goto no_slot;
	if (cm)
		cm_id_set_user(cm, id);
	else
		r = cm_id_create(svc->cm, id, &cm);
	if (r < 0)
		goto no_cm_id;
	id->cm = cm;
	id->client = client;
	id->channel = channel;
	list_init(&id->requests);
	list_init(&id->request);
	list_init(&id->bind.list);
	list_init(&id->resolving);
	list_push_tail(&client->ids, &id->list);
	client->id_count++;
	*ret = id;
	return 0;
no_cm_id:
	slots_release(&svc->slots, id->handle);
no_slot:
	free(id);
no_memory:
	cm_quota_give_back(client->user, CM_QUOTA_IDS);
	return r == -ENOSPC ? -EMFILE : r;
}

int svc_id_new(struct cm_client *client, struct cm_channel *channel, struct cm_id *cm,
	       struct svc_id **ret)
{
	return id_new(client, channel, cm, 0, ret);
}

int svc_id_new_as(struct cm_client *client, struct cm_channel *channel, struct cm_id *cm,
		  uint32_t handle, struct svc_id **ret)
{
	return handle ? id_new(client, channel, cm, handle, ret) : -EINVAL;
}

static void request_settled(struct svc_id *id)
{
	if (!id->listener)
		return;
	id->listener->request_count--;
	id->listener = NULL;
	id->request_channel = NULL;
	list_remove(&id->request);
}

void svc_requests_settle(struct svc_id *listener)
{
	struct cm_channel *asked = NULL;
	uint64_t read = 0;

	list_for_each(id, &listener->requests, struct svc_id, request) {
		if (!id->request_placed)
			continue;
		if (asked != id->request_channel) {
			asked = id->request_channel;
			read = cm_channel_read(asked);
		}
		if (id->request_place < read)
			request_settled(id);
	}
}

void svc_id_destroy(struct svc_id *id, bool end_cm)
{
	struct cm_client *client = id->client;
	struct cm_service *svc = client->svc;

	svc_requests_settle(id);
	list_for_each(request, &id->requests, struct svc_id, request)
		svc_id_destroy(request, true);
	request_settled(id);
	if (svc->flush_at != DEADLINE_NEVER && !client->dying)
		list_for_each(c, &client->channels, struct cm_channel, list)
			cm_channel_purge(c, id->handle);
	if (id->bound) {
		port_space_release(&id->bind);
		cm_quota_give_back(client->user, CM_QUOTA_PORTS);
	}
	if (id->bind.listening)
		cm_quota_give_back(client->user, CM_QUOTA_LISTENERS);
	if (end_cm)
		cm_id_destroy(id->cm, svc->now);
	slots_release(&svc->slots, id->handle);
	svc_resolve_end(id);
	list_remove(&id->list);
	client->id_count--;
	cm_quota_give_back(client->user, CM_QUOTA_IDS);
	free(id);
}

/* ---- devices ------------------------------------------------------------------------------- */

static void id_device_changed(struct svc_id *id, enum broker_cm_event_type type)
{
	struct broker_cm_event ev = {
		.type = type, .id = id->handle, .user = id->user, .param = id->path};

	svc_post(id, &ev);
	if (type == BROKER_CM_EV_DEVICE_REMOVAL) {
		id->removed = true;
		id->channel = NULL;
	}
}

void cm_service_device_changed(struct cm_service *svc, uint32_t ifindex,
			       enum broker_device_change change, uint64_t now)
{
	struct broker_cm_event ev = {
		.type = BROKER_CM_EV_DEVICE, .id = ifindex, .status = (int32_t)change};

	svc->now = now;
	list_for_each(client, &svc->clients, struct cm_client, list)
		if (client->watch && client->watch->queued < WATCH_MAX)
			(void)!post_to(svc, client->watch, &ev);
	if (change != BROKER_DEVICE_MAC_CHANGE && change != BROKER_DEVICE_REMOVED)
		return;
	list_for_each(client, &svc->clients, struct cm_client, list)
		list_for_each(id, &client->ids, struct svc_id, list)
			if (id->ifindex == ifindex && !id->removed)
				id_device_changed(id, change == BROKER_DEVICE_REMOVED
							      ? BROKER_CM_EV_DEVICE_REMOVAL
							      : BROKER_CM_EV_ADDR_CHANGE);
}
