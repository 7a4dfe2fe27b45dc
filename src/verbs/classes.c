/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "verbs/classes.h"

#include "verbs/face.h"

#define BY_PEER "delay; halving within the host, or where the peer does not repeat selectively"

static uint8_t priority_of(uint8_t tos)
{
	return flow_priority(&(struct flow){.tos = tos});
}

bool weft_private_class(struct ibv_context *context, unsigned int n, struct shown_class *ret,
			size_t size)
{
	const struct congestion_rules *rules = shard_congestion(face_context(context)->shard);
	const char *device = ibv_get_device_name(context->device);
	const struct congestion *c = congestion_next(rules, device, NULL);

	if (face_is_iwarp(context) || size != sizeof(*ret)) /* whose congestion is TCP's */
		return false;
	while (c && n--)
		c = congestion_next(rules, device, c);
	if (!c)
		return false;
	*ret = (struct shown_class){.algorithm = c->cc ? c->cc->name : BY_PEER,
				    .params = c->params};
	congestion_whom(c, ret->whom);
	congestion_said_by(rules, c, ret->said_by);
	ret->tos = (uint8_t)(max_of(c->dscp, 0) << FLOW_DSCP_SHIFT);
	ret->priority = priority_of(ret->tos);
	if (c->cc && c->cc->cnp)
		ret->tos |= FLOW_ECN_ECT0;
	ret->cnp_tos = (uint8_t)(c->params.np_cnp_dscp << FLOW_DSCP_SHIFT);
	ret->cnp_priority = priority_of(ret->cnp_tos);
	return true;
}
