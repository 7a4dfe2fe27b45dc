/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The addressing of a RoCEv2 packet: what stands in its IP and UDP headers. Addresses are IPv6;
 * IPv4 is held in its mapped form ::ffff:a.b.c.d, exactly as in a RoCEv2 GID. RoCEv1 has the same
 * addresses as GIDs of a GRH (wire/grh.h), which stands where IP and UDP would.
 */
#ifndef WEFT_WIRE_FLOW_H
#define WEFT_WIRE_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ROCEV2_UDP_PORT 4791

/* In a TOS or traffic class (RFC 2474, RFC 3168): who sent it would answer to a mark; it was
 * marked. */
#define FLOW_DSCP_SHIFT 2
#define FLOW_ECN_MASK	3
#define FLOW_ECN_ECT0	2
#define FLOW_ECN_CE	3

struct gid {
	uint8_t raw[16];
};

struct flow {
	struct gid sgid; /* source address */
	struct gid dgid; /* destination address */
	uint16_t sport;	 /* UDP source port, host order; the destination port is always 4791 */
	uint8_t tos;	 /* IPv4 TOS or IPv6 traffic class, ECN bits included */
	uint8_t ttl;	 /* TTL or hop limit; 0 means the system's default */
	uint32_t flow_label : 20;
	uint32_t sl : 4;     /* in no header: the service level of the address; 0: none was said */
	uint32_t rocev1 : 1; /* a GRH instead of IP and UDP, and so no source port */
	uint32_t scope;	     /* the interface of link-local addresses and of groups; else 0 */
	uint32_t rate_mbps;  /* in no header: the most that may be sent to there; 0: no limit */
};

static inline bool gid_is_ipv4(const struct gid *g)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
	return memcmp(g->raw, prefix, sizeof(prefix)) == 0;
}

/* fe80::/10: means something only along with an interface. */
static inline bool gid_is_link_local(const struct gid *g)
{
	return g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80;
}

/* A group's address: 224.0.0.0/4 or ff00::/8. */
static inline bool gid_is_multicast(const struct gid *g)
{
	return gid_is_ipv4(g) ? (g->raw[12] & 0xf0) == 0xe0 : g->raw[0] == 0xff;
}

static inline bool gid_equal(const struct gid *a, const struct gid *b)
{
	return memcmp(a->raw, b->raw, sizeof(a->raw)) == 0;
}

/* Of eight, by which hosts and switches that have such sort packets: the service level or, without
 * one, the class that RoCE has it from, DSCP / 8. */
static inline uint8_t flow_priority(const struct flow *f)
{
	return f->sl ? f->sl & 7 : f->tos >> 5;
}

/* UDP source port of a flow label (rdma_calc_flow_label / ib_verbs.h of Linux): 0xc000 with
 * 14 bits folded in. A zero label is first replaced by a symmetric fold of the two QPNs. */
uint16_t flow_sport(uint32_t flow_label, uint32_t lqpn, uint32_t rqpn);

#endif
