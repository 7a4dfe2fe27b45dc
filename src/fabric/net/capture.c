/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "base/pcapng.h"
#include "base/units.h"
#include "fabric/net/routes.h"
#include "wire/icrc.h"

#define ERF_LEN	     16
#define ERF_IB	     21
#define ERF_VARIES   4 /* flag: records are as long as their packets */
#define TYPE_IPV4    0x0800
#define TYPE_CONTROL 0x8808
#define OPCODE_PFC   0x0101
#define ETH_LEN	     14
#define IP_LEN	     20
#define UDP_LEN	     8
#define PAUSE_LEN    60 /* without the FCS */

struct capture {
	FILE *file;
	struct netport *port;
	bool failed;
	int error;
	bool is_ib;
	uint8_t block[PCAPNG_PACKET_BEFORE + ETH_LEN + IP_LEN + UDP_LEN + FRAME_ROOM + ICRC_LEN +
		      PCAPNG_PACKET_AFTER];
	uint8_t *frame; /* in there */
	uint8_t room[FRAME_ROOM];
};

static void put(struct capture *c, const void *p, size_t n)
{
	if (!c->failed && fwrite(p, 1, n, c->file) != n) {
		c->failed = true;
		c->error = errno;
	}
}

/* Addresses of the kind that anybody may choose, with the host's number; where there is none, the
 * port's. */
static void put_mac(uint8_t *at, const struct gid *g)
{
	uint32_t host = routes_host(g);

	at[0] = 2;
	at[1] = at[2] = 0;
	st_be24(at + 3, host == UINT32_MAX ? 0xffffff : host);
}

static uint16_t ip_sum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < IP_LEN; i += 2)
		sum += ld_be16(ip + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static size_t lay_packet(struct capture *c, const struct frame *f)
{
	uint8_t *ip = c->frame + ETH_LEN, *udp = ip + IP_LEN;
	struct packet_rx rx;
	size_t udp_len;

	frame_to_packet(f, c->room, &rx);
	udp_len = UDP_LEN + rx.len + ICRC_LEN;
	put_mac(c->frame, &f->flow.dgid);
	put_mac(c->frame + 6, &f->flow.sgid);
	st_be16(c->frame + 12, TYPE_IPV4);
	memset(ip, 0, IP_LEN);
	ip[0] = 0x45;
	ip[1] = f->flow.tos;
	st_be16(ip + 2, (uint16_t)(IP_LEN + udp_len));
	st_be16(ip + 6, 0x4000); /* not to be cut */
	ip[8] = f->ttl;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, f->flow.sgid.raw + 12, 4);
	memcpy(ip + 16, f->flow.dgid.raw + 12, 4);
	st_be16(ip + 10, ip_sum(ip));
	st_be16(udp, f->flow.sport);
	st_be16(udp + 2, ROCEV2_UDP_PORT);
	st_be16(udp + 4, (uint16_t)udp_len);
	st_be16(udp + 6, 0); /* none */
	memcpy(udp + UDP_LEN, rx.data, rx.len);
	st_le32(udp + UDP_LEN + rx.len,
		icrc_end(icrc_begin(&f->flow, 0, rx.len + ICRC_LEN, rx.data, rx.len)));
	return ETH_LEN + IP_LEN + udp_len;
}

static size_t lay_pause(struct capture *c, const struct frame *f, const struct netport *p)
{
	static const uint8_t group[6] = {0x01, 0x80, 0xc2, 0, 0, 0x01};
	uint8_t *at = c->frame;

	memset(at, 0, PAUSE_LEN);
	memcpy(at, group, sizeof(group));
	at[6] = 2;
	at[8] = 1; /* of a port, and not of a host */
	st_be24(at + 9, p->index);
	st_be16(at + 12, TYPE_CONTROL);
	st_be16(at + 14, OPCODE_PFC);
	st_be16(at + 16, f->mask);
	for (unsigned i = 0; i < PRIORITIES; i++)
		st_be16(at + 18 + 2 * (size_t)i, f->quanta[i]);
	return PAUSE_LEN;
}

/* A datagram between the two queue pairs 0, without a GRH. */
static size_t lay_management(uint8_t *at, const struct frame *f)
{
	const struct pkt_hdr h = {
		.bth = {.opcode = OPCODE_UD_SEND_ONLY, .pkey = PKEY_DEFAULT, .migreq = true}};
	size_t len = pkt_hdr_encode(&h, at);

	memcpy(at + len, f->mad, MAD_LEN);
	return len + MAD_LEN;
}

static size_t lay_ib(struct capture *c, const struct frame *f, uint64_t ns)
{
	const bool manages = f->kind == FRAME_MANAGEMENT;
	uint8_t *erf = c->frame, *lrh = erf + ERF_LEN, *at = lrh + LRH_LEN;
	struct packet_rx rx;
	size_t len;

	if (manages) {
		len = lay_management(at, f);
	} else {
		frame_to_packet(f, c->room, &rx);
		memcpy(at, rx.data, rx.len);
		len = rx.len;
	}
	lrh_put(lrh, &(struct lrh){
			     .lane = manages ? LANE_MANAGEMENT : f->priority,
			     .sl = manages ? 0 : f->sl,
			     .next = LRH_NEXT_BTH,
			     .dlid = f->dlid,
			     .slid = f->slid,
			     .words = (uint16_t)((LRH_LEN + len + ICRC_LEN) / 4),
		     });
	st_le32(at + len, icrc_end(icrc_begin_local(lrh, at, len)));
	len += LRH_LEN + ICRC_LEN;
	st_le16(lrh + len, lrh_vcrc(lrh, len));
	len += VCRC_LEN;
	st_le32(erf, (uint32_t)(ns % NSEC_PER_SEC * (1ull << 32) / NSEC_PER_SEC));
	st_le32(erf + 4, (uint32_t)(ns / NSEC_PER_SEC));
	erf[8] = ERF_IB;
	erf[9] = ERF_VARIES;
	st_be16(erf + 10, (uint16_t)(ERF_LEN + len));
	st_be16(erf + 12, 0); /* none was lost */
	st_be16(erf + 14, (uint16_t)len);
	return ERF_LEN + len;
}

static size_t lay(struct capture *c, const struct netport *p, const struct frame *f, uint64_t ns)
{
	if (c->is_ib)
		return lay_ib(c, f, ns);
	return f->kind == FRAME_PAUSE ? lay_pause(c, f, p) : lay_packet(c, f);
}

static void saw(void *ctx, const struct netport *p, const struct frame *f, uint64_t at_ns)
{
	struct capture *c = ctx;
	const uint64_t ns = at_ns - FABRIC_BEGIN_NS;

	if (f->kind == FRAME_CREDIT) /* a link packet, for which readers have no word */
		return;
	put(c, c->block, pcapng_packet(c->block, ns, lay(c, p, f, ns), 0));
}

int capture_open(struct capture **ret, const char *file, struct netport *p, char *err,
		 size_t err_len)
{
	struct capture *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->file = fopen(file, "we");
	if (!c->file) {
		rc = -errno;
		snprintf(err, err_len, "%s: %s", file, errno_text(-rc));
		free(c);
		return rc;
	}
	c->port = p;
	c->frame = c->block + PCAPNG_PACKET_BEFORE;
	c->is_ib = p->arbiter != NULL;
	put(c, c->block, pcapng_head(c->block, c->is_ib ? PCAPNG_ERF : PCAPNG_ETHERNET, p->name));
	p->watch = p->peer->watch = saw;
	p->watch_ctx = p->peer->watch_ctx = c;
	*ret = c;
	return 0;
}

bool capture_close(struct capture *c)
{
	bool good = !c->failed;
	int error = c->error;

	c->port->watch = c->port->peer->watch = NULL;
	if (fclose(c->file) && good) {
		good = false;
		error = errno;
	}
	free(c);
	errno = error;
	return good;
}
