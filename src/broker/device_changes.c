/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/device_changes.h"

#include <string.h>

#include "base/compiler.h"

struct device_notice *device_notice_add(struct device_notices *n)
{
	return n->count < ARRAY_SIZE(n->v) ? &n->v[n->count++] : NULL;
}

static const struct broker_device *find(const struct broker_devices *t, uint32_t ifindex)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (t->dev[i].ifindex == ifindex)
			return &t->dev[i];
	return NULL;
}

static bool has_gid(const struct broker_device *d, const struct gid *g)
{
	for (size_t i = 0; i < BROKER_MAX_GIDS; i++)
		if (d->gids[i].type && gid_equal(&d->gids[i].gid, g))
			return true;
	return false;
}

static void port(const struct device_watcher *w, uint32_t ifindex, bool *up, bool now_up)
{
	if (*up == now_up)
		return;
	*up = now_up;
	w->changed(w->ctx, ifindex, now_up ? BROKER_DEVICE_PORT_ACTIVE : BROKER_DEVICE_PORT_ERR);
}

static void one_device(const struct broker_device *old, const struct broker_device *fresh,
		       const struct device_notices *notices, const struct device_watcher *w)
{
	bool gids = memcmp(old->gids, fresh->gids, sizeof(old->gids)) != 0, up = old->up;

	for (uint32_t i = 0; i < notices->count; i++) {
		const struct device_notice *n = &notices->v[i];

		if (n->ifindex != old->ifindex)
			continue;
		if (n->what != NOTICE_NO_ADDRESS)
			port(w, n->ifindex, &up, n->what == NOTICE_UP);
		else if (has_gid(old, &n->gid))
			gids = true;
	}
	port(w, fresh->ifindex, &up, fresh->up);
	if (gids)
		w->changed(w->ctx, fresh->ifindex, BROKER_DEVICE_GID_CHANGE);
	if (memcmp(old->mac, fresh->mac, sizeof(old->mac)) != 0)
		w->changed(w->ctx, fresh->ifindex, BROKER_DEVICE_MAC_CHANGE);
}

void device_changes_tell(const struct broker_devices *old, const struct broker_devices *fresh,
			 const struct device_notices *notices, const struct device_watcher *w)
{
	for (uint32_t i = 0; i < old->count; i++) {
		const struct broker_device *f = find(fresh, old->dev[i].ifindex);

		if (f)
			one_device(&old->dev[i], f, notices, w);
		else
			w->changed(w->ctx, old->dev[i].ifindex, BROKER_DEVICE_REMOVED);
	}
}
