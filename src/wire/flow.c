/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/flow.h"

#define FLOW_LABEL_MASK 0xfffffu
#define SPORT_MIN	0xc000u /* the ephemeral range: the top two bits are always set */
#define SPORT_BITS	14

/* Symmetric, so that both ends of a connection without a flow label fold to the same one. */
static uint32_t label_of_qpns(uint32_t lqpn, uint32_t rqpn)
{
	uint64_t v = (uint64_t)lqpn * rqpn;

	v ^= v >> 20;
	v ^= v >> 40;
	return v & FLOW_LABEL_MASK;
}

uint16_t flow_sport(uint32_t flow_label, uint32_t lqpn, uint32_t rqpn)
{
	uint32_t fl = flow_label & FLOW_LABEL_MASK;

	if (!fl)
		fl = label_of_qpns(lqpn, rqpn);
	return (uint16_t)(SPORT_MIN | ((fl ^ fl >> SPORT_BITS) & ~SPORT_MIN));
}
