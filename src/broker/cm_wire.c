/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* QP1, between the connection manager and the wire; and what waits a moment for a listener. */
#include <string.h>

#include "broker/cm_service_priv.h"
#include "broker/gsi.h"

void svc_send_all(struct cm_service *svc)
{
	struct flow flow;
	uint8_t mad[MAD_LEN];
	struct packet_tx tx;

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

void svc_unpark_due(struct cm_service *svc)
{
	while (svc->parked_count && svc->parked[0].until <= svc->now)
		unpark(svc, 0);
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

bool cm_service_rx(struct cm_service *svc, const struct packet_rx *rx, uint64_t now)
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
