/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "fabric/net/routes.h"
#include "wire/icrc.h"

#define MAGIC	     0x1a2b3c4du
#define ETHERNET     1 /* link type */
#define TSRESOL	     9 /* option; the value 9 is nanoseconds */
#define TYPE_IPV4    0x0800
#define TYPE_CONTROL 0x8808
#define OPCODE_PFC   0x0101
#define ETH_LEN	     14
#define IP_LEN	     20
#define UDP_LEN	     8
#define PAUSE_LEN    60 /* without the FCS */

enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_PACKET = 6 };

struct capture {
	FILE *file;
	struct netport *port;
	bool failed;
	int error;
	uint8_t frame[ETH_LEN + IP_LEN + UDP_LEN + FRAME_ROOM + ICRC_LEN];
	uint8_t room[FRAME_ROOM];
};

static void put(struct capture *c, const void *p, size_t n)
{
	if (!c->failed && fwrite(p, 1, n, c->file) != n) {
		c->failed = true;
		c->error = errno;
	}
}

static void put32(struct capture *c, uint32_t v)
{
	put(c, &v, sizeof(v));
}

static void put_head(struct capture *c)
{
	const uint16_t version[2] = {1, 0}, ethernet[2] = {ETHERNET, 0};
	const uint64_t unknown = UINT64_MAX;
	const uint16_t resolution[2] = {TSRESOL, 1};
	const uint8_t nanoseconds[4] = {9};

	put32(c, BLOCK_SECTION);
	put32(c, 28);
	put32(c, MAGIC);
	put(c, version, sizeof(version));
	put(c, &unknown, sizeof(unknown));
	put32(c, 28);
	put32(c, BLOCK_INTERFACE);
	put32(c, 32);
	put(c, ethernet, sizeof(ethernet));
	put32(c, 0);
	put(c, resolution, sizeof(resolution));
	put(c, nanoseconds, sizeof(nanoseconds));
	put32(c, 0); /* end of options */
	put32(c, 32);
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

static void saw(void *ctx, const struct netport *p, const struct frame *f, uint64_t at_ns)
{
	struct capture *c = ctx;
	const uint64_t ns = at_ns - FABRIC_BEGIN_NS;
	size_t len = f->is_pause ? lay_pause(c, f, p) : lay_packet(c, f);
	size_t padded = (len + 3) & ~(size_t)3;
	uint32_t block = (uint32_t)(32 + padded);

	put32(c, BLOCK_PACKET);
	put32(c, block);
	put32(c, 0);
	put32(c, (uint32_t)(ns >> 32));
	put32(c, (uint32_t)ns);
	put32(c, (uint32_t)len);
	put32(c, (uint32_t)len);
	memset(c->frame + len, 0, padded - len);
	put(c, c->frame, padded);
	put32(c, block);
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
	put_head(c);
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
