/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Clients, their channels and their ids. */
#include <errno.h>
#include <stdlib.h>

#include "base/heap.h"
#include "broker/cm_service_priv.h"

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
	r = handle ? handles_restore(&svc->handles, handle, id, seed)
		   : handles_take(&svc->handles, id, seed, &id->handle);
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
	handles_release(&svc->handles, id->handle);
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

void svc_listens_by_tcp(struct svc_id *id, uint16_t port)
{
	struct cm_service *svc = id->client->svc;

	svc->by_tcp += (port != 0) - (id->tcp_port != 0);
	id->tcp_port = port;
	if (svc->ops.listen_by_tcp)
		svc->ops.listen_by_tcp(svc->ctx, svc->by_tcp);
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
	if (id->bind.listening) {
		cm_quota_give_back(client->user, CM_QUOTA_LISTENERS);
		svc_listens_by_tcp(id, 0);
	}
	if (end_cm)
		cm_id_destroy(id->cm, svc->now);
	handles_release(&svc->handles, id->handle);
	svc_resolve_end(id);
	list_remove(&id->list);
	client->id_count--;
	cm_quota_give_back(client->user, CM_QUOTA_IDS);
	free(id);
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

static void free_client(struct cm_client *client)
{
	list_for_each(c, &client->channels, struct cm_channel, list)
		free_channel(client, c);
	list_for_each(c, &client->closed, struct cm_channel, list)
		free_channel(client, c);
	list_remove(&client->list);
	cm_user_put(client->user);
	free(client);
}

void cm_client_leave(struct cm_client *client)
{
	client->dying = true;
	/* Or they would be refused with their listeners. */
	list_for_each(id, &client->ids, struct svc_id, list)
		request_settled(id);
	while (!list_empty(&client->ids)) {
		struct svc_id *id = list_entry(client->ids.next, struct svc_id, list);

		cm_id_drop(id->cm);
		svc_id_destroy(id, false);
	}
	free_client(client);
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
	svc_send_all(svc);
	free_client(client);
}

/* A CONNECT_REQUEST gets its place in the pipe: from now on the pipe says whether it was read. What
 * was taken back out of a pipe need not be what we had put there. */
static void request_placed(void *ctx, struct cm_channel *c, const struct broker_cm_event *ev,
			   uint64_t place)
{
	struct cm_client *client = ctx;
	struct svc_id *id = handles_find(&client->svc->handles, ev->id);

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
