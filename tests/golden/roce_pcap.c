/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "roce_pcap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "pcap_file.h"
#include "wire/path_probe.h"

#define ETHERTYPE_V4 0x0800
#define ETHERTYPE_V6 0x86dd
#define PROTO_UDP    17

static struct gid ipv4_gid(const uint8_t *addr)
{
	struct gid g = {.raw = {[10] = 0xff, [11] = 0xff}};

	memcpy(g.raw + 12, addr, 4);
	return g;
}

static bool parse_ipv4(struct roce_packet *p, struct cursor *c)
{
	const uint8_t *ip = cursor_take(c, 20);

	if (!ip || ip[9] != PROTO_UDP ||
	    ld_be16(ip + 6) & 0x3fff) /* a fragment has no UDP header */
		return false;
	cursor_skip(c, (size_t)(ip[0] & 15) * 4 - 20);
	p->flow.tos = ip[1];
	p->ip_id = ld_be16(ip + 4);
	p->flow.ttl = ip[8];
	p->flow.sgid = ipv4_gid(ip + 12);
	p->flow.dgid = ipv4_gid(ip + 16);
	return true;
}

static bool parse_ipv6(struct roce_packet *p, struct cursor *c)
{
	const uint8_t *ip = cursor_take(c, 40);

	if (!ip || ip[6] != PROTO_UDP)
		return false;
	p->flow.tos = (uint8_t)(ld_be32(ip) >> 20);
	p->flow.flow_label = ld_be32(ip) & 0xfffff;
	p->flow.ttl = ip[7];
	memcpy(p->flow.sgid.raw, ip + 8, 16);
	memcpy(p->flow.dgid.raw, ip + 24, 16);
	return true;
}

static bool parse_frame(struct roce_packet *p, const uint8_t *frame, size_t len)
{
	struct cursor c = cursor_init(frame, len);
	uint16_t ethertype, dport, udp_total;

	cursor_skip(&c, 12);
	ethertype = cursor_be16(&c);
	if (ethertype == ETHERTYPE_V4 ? !parse_ipv4(p, &c)
				      : ethertype != ETHERTYPE_V6 || !parse_ipv6(p, &c))
		return false;
	p->flow.sport = cursor_be16(&c);
	dport = cursor_be16(&c);
	udp_total = cursor_be16(&c);
	cursor_skip(&c, 2);
	if (dport != ROCEV2_UDP_PORT || udp_total < 8)
		return false;
	p->udp_len = udp_total - 8u; /* the frame may be longer: Ethernet's padding */
	p->udp = cursor_take(&c, p->udp_len);
	return p->udp && !(p->udp_len >= PATH_PROBE_LEN && ld_be32(p->udp) == PATH_PROBE_ASK);
}

static void append(struct roce_packets *all, const struct roce_packet *p)
{
	if ((all->count & (all->count - 1)) == 0) {
		all->packet = realloc(all->packet, (all->count ? 2 * all->count : 1) * sizeof(*p));
		if (!all->packet)
			abort();
	}
	all->packet[all->count++] = *p;
}

static void take_frame(void *all, const struct pcap_frame *f)
{
	struct roce_packet p = {.file = f->file, .frame = f->number, .ns = f->ns};

	if (parse_frame(&p, f->bytes, f->len))
		append(all, &p);
}

int roce_pcap_read(struct roce_packets *all, const char *path)
{
	return pcap_file_read(path, take_frame, all);
}
