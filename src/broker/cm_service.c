/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/heap.h"
#include "broker/cm_service_priv.h"

#define FLUSH_SELDOM_NS (64 * NSEC_PER_MSEC) /* while nobody reads */

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
	svc->places = malloc(SVC_MAX_IDS * sizeof(*svc->places));
	if (!svc->places) {
		free(svc);
		return -ENOMEM;
	}
	handles_init(&svc->handles, svc->places, SVC_MAX_IDS, SVC_GEN_BITS);
	r = cm_create(&svc->cm, &cm_ops, svc);
	if (r < 0) {
		free(svc->places);
		free(svc);
		return r;
	}
	*ret = svc;
	return 0;
}

void cm_service_count_in(struct cm_service *svc, struct cm_counters *counters)
{
	cm_count_in(svc->cm, counters);
}

void cm_service_begin(struct cm_service *svc, const uint64_t secret[2], bool heir, uint64_t now)
{
	svc->generation = svc->ops.random(svc->ctx);
	svc->heir_until = heir ? now + SVC_HEIR_NS : 0;
	/* Rather elsewhere than the ids of a broker before this one, which may come. */
	handles_begin_at(&svc->handles, svc->ops.random(svc->ctx) % (SVC_MAX_IDS / 2),
			 svc->ops.random(svc->ctx));
	cm_succeed(svc->cm, secret, svc->heir_until);
}

void cm_service_destroy(struct cm_service *svc)
{
	if (!svc)
		return;
	assert(list_empty(&svc->clients));
	cm_destroy(svc->cm);
	free(svc->places);
	free(svc);
}

/* ---- time ----------------------------------------------------------------------------- */

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
	svc->flush_wait = read ? SVC_FLUSH_NS : min_of(2 * svc->flush_wait, FLUSH_SELDOM_NS);
	svc->flush_at = waiting ? svc->now + svc->flush_wait : DEADLINE_NEVER;
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
	svc_unpark_due(svc);
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
			(void)!svc_post_to(svc, client->watch, &ev);
	if (change != BROKER_DEVICE_MAC_CHANGE && change != BROKER_DEVICE_REMOVED)
		return;
	list_for_each(client, &svc->clients, struct cm_client, list)
		list_for_each(id, &client->ids, struct svc_id, list)
			if (id->ifindex == ifindex && !id->removed)
				id_device_changed(id, change == BROKER_DEVICE_REMOVED
							      ? BROKER_CM_EV_DEVICE_REMOVAL
							      : BROKER_CM_EV_ADDR_CHANGE);
}
