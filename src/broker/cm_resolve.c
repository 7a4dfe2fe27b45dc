/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Ids whose address is resolved once the neighbour has been heard of, or is not in time. */
#include <errno.h>

#include "base/heap.h"
#include "base/time.h"
#include "broker/cm_service_priv.h"

#define CHECK_FIRST_NS (1 * NSEC_PER_MSEC)
#define CHECK_MAX_NS   (50 * NSEC_PER_MSEC)
#define AT_ONCE	       64		     /* then others have their turn */
#define PROBE_NS       (500 * NSEC_PER_MSEC) /* our own address may not be fit for use at first */

void svc_resolve_end(struct svc_id *id)
{
	if (list_empty(&id->resolving))
		return;
	list_remove(&id->resolving);
	cm_quota_give_back(id->client->user, CM_QUOTA_RESOLVING);
}

bool svc_reachable(struct cm_service *svc, const struct flow *flow)
{
	return !svc->ops.neighbour || svc->ops.neighbour(svc->ctx, flow, true) == 0;
}

void svc_resolve(struct svc_id *id, struct broker_cm_event *ev, const struct flow *flow,
		 uint32_t timeout_ms)
{
	struct cm_service *svc = id->client->svc;

	svc_resolve_end(id);
	if (ev->status || svc_reachable(svc, flow)) {
		svc_post(id, ev);
		return;
	}
	/* Each costs looks, many times a second. */
	ev->status = cm_quota_take(id->client->user, CM_QUOTA_RESOLVING, 0);
	if (ev->status) {
		svc_post(id, ev);
		return;
	}
	id->resolve_flow = *flow;
	id->resolve_until = svc->now + timeout_ms * NSEC_PER_MSEC;
	id->resolve_wait = CHECK_FIRST_NS;
	id->resolve_probe = svc->now + PROBE_NS;
	id->resolve_at = min_of(svc->now + id->resolve_wait, id->resolve_until);
	list_push_tail(&svc->resolving, &id->resolving);
}

uint64_t svc_resolve_deadline(const struct cm_service *svc)
{
	uint64_t at = DEADLINE_NEVER;

	list_for_each(id, &svc->resolving, struct svc_id, resolving)
		at = min_of(at, id->resolve_at);
	return at;
}

void svc_resolve_tick(struct cm_service *svc)
{
	int left = AT_ONCE;

	list_for_each(id, &svc->resolving, struct svc_id, resolving) {
		bool probe = svc->now >= id->resolve_probe;
		struct broker_cm_event ev;

		if (id->resolve_at > svc->now)
			continue;
		if (!left--)
			return;
		/* Those that come first now come last the next time. */
		list_remove(&id->resolving);
		list_push_tail(&svc->resolving, &id->resolving);
		if (probe)
			id->resolve_probe = svc->now + PROBE_NS;
		ev = svc_event(id, BROKER_CM_EV_ADDR_RESOLVED);
		if (svc->ops.neighbour(svc->ctx, &id->resolve_flow, probe) == 0) {
			svc_resolve_end(id);
			svc_post(id, &ev);
		} else if (svc->now >= id->resolve_until) {
			ev.status = -ETIMEDOUT;
			svc_resolve_end(id);
			svc_post(id, &ev);
		} else {
			id->resolve_wait = min_of(2 * id->resolve_wait, CHECK_MAX_NS);
			id->resolve_at = min_of(svc->now + id->resolve_wait, id->resolve_until);
		}
	}
}
