/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The GID table of a device of RoCE. First an entry of RoCEv2 for each address, where the address
 * is in the broker's table; behind all these, for who has RoCEv1, one of that for each in the same
 * order. So an index means the same whether there is RoCEv1 or not.
 */
#ifndef WEFT_BROKER_DEVICE_GIDS_H
#define WEFT_BROKER_DEVICE_GIDS_H

#include <stdbool.h>

#include "broker/proto.h"

#define DEVICE_GIDS(rocev1) ((rocev1) ? 2u * BROKER_MAX_GIDS : (unsigned)BROKER_MAX_GIDS)

/* RoCEv1 is for frames of Ethernet, which a tunnel has not. */
static inline bool device_has_frames(const struct broker_device *d)
{
	static const uint8_t none[sizeof(d->mac)];

	return d->loopback || memcmp(d->mac, none, sizeof(none)) != 0;
}

/* False: the entry is empty. */
static inline bool device_gid(const struct broker_device *d, unsigned index, struct gid *ret,
			      bool *ret_rocev1)
{
	const struct broker_gid *g = &d->gids[index % BROKER_MAX_GIDS];

	*ret = g->gid;
	*ret_rocev1 = index >= BROKER_MAX_GIDS;
	return g->type && index < DEVICE_GIDS(true) && (!*ret_rocev1 || device_has_frames(d));
}

#endif
