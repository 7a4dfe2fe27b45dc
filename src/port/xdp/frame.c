/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "port/xdp/frame.h"

#include <netinet/in.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/icrc.h"

#define ETH_TYPE_AT  12
#define ETH_IPV4     0x0800
#define ETH_IPV6     0x86dd
#define IPV4_LEN     20
#define IPV6_LEN     40
#define UDP_LEN	     8
#define IPV4_DF	     0x4000
#define HOPS_DEFAULT 64
#define SPORT_MIN    0xf000 /* above those that the kernel chooses for sockets */
#define SPORT_BITS   4
#define DST_SLOT_AT  5 /* bits 23:16 of the BTH's destination QPN */

/* Of the ones' complement sum, which does not care for the order of bytes: in ours, 4 at a time. */
static uint64_t add(uint64_t sum, const uint8_t *p, size_t len)
{
	uint32_t word;

	for (; len >= sizeof(word); len -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	return sum;
}

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void st_checksum(uint8_t *at, uint16_t v)
{
	memcpy(at, &v, sizeof(v));
}

/*
 * A host that receives joins packets of equal addresses and ports, whatever slot they are for, and
 * what it has joined goes where the first belongs. So the slot is in the port; whoever sends from
 * here so gives a slot the same.
 */
uint16_t frame_sport(const struct packet_tx *t)
{
	uint16_t wish = t->flow->sport;
	unsigned spread = wish ^ wish >> SPORT_BITS ^ wish >> 2 * SPORT_BITS;

	spread &= (1u << SPORT_BITS) - 1;
	return (uint16_t)(SPORT_MIN | spread << 8 | t->hdr[DST_SLOT_AT]);
}

static size_t udp_payload_len(const struct packet_tx *t)
{
	return packet_tx_len(t) + ICRC_LEN;
}

size_t frame_len(const struct packet_tx *t)
{
	return FRAME_ETH_LEN + (gid_is_ipv4(&t->flow->dgid) ? IPV4_LEN : IPV6_LEN) + UDP_LEN +
	       udp_payload_len(t);
}

/* Returns the sum of the addresses, for UDP's checksum. */
static uint64_t put_ipv4(uint8_t *p, const struct flow *f, size_t udp_len)
{
	p[0] = 0x45;
	p[1] = f->tos;
	st_be16(p + 2, (uint16_t)(IPV4_LEN + udp_len));
	st_be16(p + 4, 0);
	st_be16(p + 6, IPV4_DF);
	p[8] = f->ttl ? f->ttl : HOPS_DEFAULT;
	p[9] = IPPROTO_UDP;
	st_be16(p + 10, 0);
	memcpy(p + 12, f->sgid.raw + 12, 4);
	memcpy(p + 16, f->dgid.raw + 12, 4);
	st_checksum(p + 10, (uint16_t)~fold(add(0, p, IPV4_LEN)));
	return add(0, p + 12, 8);
}

static uint64_t put_ipv6(uint8_t *p, const struct flow *f, size_t udp_len)
{
	st_be32(p, 6u << 28 | (uint32_t)f->tos << 20 | (f->flow_label & 0xfffff));
	st_be16(p + 4, (uint16_t)udp_len);
	p[6] = IPPROTO_UDP;
	p[7] = f->ttl ? f->ttl : HOPS_DEFAULT;
	memcpy(p + 8, f->sgid.raw, 16);
	memcpy(p + 24, f->dgid.raw, 16);
	return add(0, p + 8, 32);
}

struct packet_sent frame_put(uint8_t *at, const struct frame_macs *macs, const struct packet_tx *t,
			     uint16_t sport)
{
	const bool v4 = gid_is_ipv4(&t->flow->dgid);
	const size_t payload_len = udp_payload_len(t), udp_len = UDP_LEN + payload_len;
	struct packet_sent sent = {.sport = sport};
	struct flow wire = *t->flow;
	uint8_t *udp, *end;
	uint64_t sum;
	uint16_t check;

	wire.sport = sport;
	memcpy(at, macs->to, FRAME_MAC_LEN);
	memcpy(at + FRAME_MAC_LEN, macs->from, FRAME_MAC_LEN);
	st_be16(at + ETH_TYPE_AT, v4 ? ETH_IPV4 : ETH_IPV6);
	at += FRAME_ETH_LEN;
	sum = v4 ? put_ipv4(at, &wire, udp_len) : put_ipv6(at, &wire, udp_len);
	udp = at + (v4 ? IPV4_LEN : IPV6_LEN);
	st_be16(udp, wire.sport);
	st_be16(udp + 2, ROCEV2_UDP_PORT);
	st_be16(udp + 4, (uint16_t)udp_len);
	st_be16(udp + 6, 0);
	end = packet_tx_copy(udp + UDP_LEN, t);
	/* Of what was copied: the application may write to its memory meanwhile. */
	sent.icrc = icrc_end(
		icrc_begin(&wire, sent.ip_id, payload_len, udp + UDP_LEN, payload_len - ICRC_LEN));
	st_le32(end, sent.icrc);
	sum += htobe32((uint32_t)udp_len) + (uint64_t)htobe32(IPPROTO_UDP);
	check = (uint16_t)~fold(add(sum, udp, udp_len));
	st_checksum(udp + 6, check ? check : 0xffff);
	return sent;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Where the UDP header begins; NULL: it is none that the steering would have let through. */
static const uint8_t *take_ipv4(const uint8_t *p, size_t len, struct packet_rx *ret,
				size_t *ret_len)
{
	struct flow *f = &ret->flow;
	size_t total;

	if (len < IPV4_LEN || p[0] != 0x45 || p[9] != IPPROTO_UDP || ld_be16(p + 6) != IPV4_DF)
		return NULL;
	total = ld_be16(p + 2);
	if (total < IPV4_LEN || total > len || fold(add(0, p, IPV4_LEN)) != 0xffff)
		return NULL;
	f->sgid = f->dgid = (struct gid){.raw = {[10] = 0xff, [11] = 0xff}};
	memcpy(f->sgid.raw + 12, p + 12, 4);
	memcpy(f->dgid.raw + 12, p + 16, 4);
	f->tos = p[1];
	f->ttl = p[8];
	ret->ip_id = ld_be16(p + 4);
	*ret_len = total - IPV4_LEN;
	return p + IPV4_LEN;
}

static const uint8_t *take_ipv6(const uint8_t *p, size_t len, struct packet_rx *ret,
				size_t *ret_len)
{
	struct flow *f = &ret->flow;
	uint32_t head;

	if (len < IPV6_LEN || p[6] != IPPROTO_UDP)
		return NULL;
	head = ld_be32(p);
	*ret_len = ld_be16(p + 4);
	if (head >> 28 != 6 || *ret_len > len - IPV6_LEN)
		return NULL;
	memcpy(f->sgid.raw, p + 8, 16);
	memcpy(f->dgid.raw, p + 24, 16);
	/* Or it would pass for one of IPv4. */
	if (gid_is_ipv4(&f->sgid) || gid_is_ipv4(&f->dgid))
		return NULL;
	f->tos = (uint8_t)(head >> 20);
	f->ttl = p[7];
	f->flow_label = head & 0xfffff;
	return p + IPV6_LEN;
}

enum frame_verdict frame_take(const uint8_t *frame, size_t len, struct packet_rx *ret)
{
	const uint8_t *udp = NULL;
	size_t udp_len = 0;

	*ret = (struct packet_rx){0};
	if (len < FRAME_ETH_LEN)
		return FRAME_SHORT;
	len -= FRAME_ETH_LEN;
	switch (ld_be16(frame + ETH_TYPE_AT)) {
	case ETH_IPV4:
		udp = take_ipv4(frame + FRAME_ETH_LEN, len, ret, &udp_len);
		break;
	case ETH_IPV6:
		udp = take_ipv6(frame + FRAME_ETH_LEN, len, ret, &udp_len);
		break;
	default:
		break;
	}
	if (!udp || udp_len < UDP_LEN + BTH_LEN + ICRC_LEN || ld_be16(udp + 4) != udp_len ||
	    ld_be16(udp + 2) != ROCEV2_UDP_PORT)
		return FRAME_SHORT;
	ret->flow.sport = ld_be16(udp);
	ret->data = udp + UDP_LEN;
	ret->len = udp_len - UDP_LEN - ICRC_LEN;
	ret->icrc = ld_le32(ret->data + ret->len);
	return icrc_check(&ret->flow, ret->ip_id, ret->data, udp_len - UDP_LEN) ? FRAME_GOOD
										: FRAME_ICRC_BAD;
}
