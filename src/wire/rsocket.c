/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/rsocket.h"

#include <errno.h>

#include "base/cursor.h"

/* ---- connections ----------------------------------------------------------------------------- */

/* A size in eight bits: up to 128 itself; above, the top bit is set and the rest counts 256s. */
enum { SCALE_BITS = 8, SCALE_TOP = 1 << (SCALE_BITS - 1) };

static uint8_t to_scale(unsigned int value)
{
	if (value <= SCALE_TOP)
		return (uint8_t)value;
	return (uint8_t)(SCALE_TOP | min_of(value >> SCALE_BITS, SCALE_TOP - 1u));
}

static uint16_t from_scale(uint8_t scale)
{
	return scale <= SCALE_TOP ? scale : (uint16_t)((scale & ~SCALE_TOP) << SCALE_BITS);
}

uint16_t rs_iomap_size(unsigned int entries)
{
	return from_scale(to_scale(entries));
}

static struct rs_sge sge_decode(struct cursor *c)
{
	struct rs_sge sge;

	sge.addr = cursor_be64(c);
	sge.key = cursor_be32(c);
	sge.length = cursor_be32(c);
	return sge;
}

static void sge_encode(uint8_t *p, const struct rs_sge *sge)
{
	st_be64(p, sge->addr);
	st_be32(p + 8, sge->key);
	st_be32(p + 12, sge->length);
}

int rs_conn_decode(struct rs_conn *conn, const void *buf, size_t len)
{
	struct cursor c = cursor_init(buf, len);
	uint8_t version = cursor_u8(&c);

	conn->flags = cursor_u8(&c);
	conn->credits = cursor_be16(&c);
	cursor_skip(&c, 3);
	conn->iomap_size = from_scale(cursor_u8(&c));
	conn->sgl = sge_decode(&c);
	conn->data = sge_decode(&c);
	if (c.overrun || version != RS_CONN_VERSION || !conn->sgl.length || !conn->data.length)
		return -EBADMSG;
	return 0;
}

void rs_conn_encode(const struct rs_conn *conn, uint8_t buf[RS_CONN_LEN])
{
	memset(buf, 0, RS_CONN_LEN);
	buf[0] = RS_CONN_VERSION;
	buf[1] = conn->flags;
	st_be16(buf + 2, conn->credits);
	buf[7] = to_scale(conn->iomap_size);
	sge_encode(buf + 8, &conn->sgl);
	sge_encode(buf + 24, &conn->data);
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static size_t addr_len(uint8_t version)
{
	return version == 4 ? 4 : 16;
}

int ds_udp_decode(struct ds_udp_hdr *h, const void *buf, size_t len)
{
	struct cursor c = cursor_init(buf, len);
	uint32_t tag = cursor_be32(&c);
	uint8_t hdr_len;

	h->version = cursor_u8(&c);
	h->op = (enum rs_op)cursor_u8(&c);
	hdr_len = cursor_u8(&c);
	cursor_skip(&c, 1);
	h->qpn = cursor_be32(&c) & 0xffffff;
	memset(h->addr, 0, sizeof(h->addr));
	cursor_bytes(&c, h->addr, addr_len(h->version));
	if (c.overrun || tag != DS_UDP_TAG || (h->version != 4 && h->version != 6) ||
	    hdr_len != (h->version == 4 ? DS_UDP_IPV4_LEN : DS_UDP_IPV6_LEN))
		return -EBADMSG;
	return hdr_len;
}

size_t ds_udp_encode(const struct ds_udp_hdr *h, uint8_t buf[DS_UDP_LEN_MAX])
{
	uint8_t len = h->version == 4 ? DS_UDP_IPV4_LEN : DS_UDP_IPV6_LEN;

	st_be32(buf, DS_UDP_TAG);
	buf[4] = h->version;
	buf[5] = (uint8_t)h->op;
	buf[6] = len;
	buf[7] = 0;
	st_be32(buf + 8, h->qpn & 0xffffff);
	memcpy(buf + 12, h->addr, addr_len(h->version));
	return len;
}

int ds_ud_decode(struct ds_ud_hdr *h, const void *buf, size_t len)
{
	struct cursor c = cursor_init(buf, len);
	uint8_t hdr_len;

	h->version = cursor_u8(&c);
	hdr_len = cursor_u8(&c);
	h->port = cursor_be16(&c);
	h->flowinfo = 0;
	if (h->version == 6)
		cursor_bytes(&c, &h->flowinfo, sizeof(h->flowinfo));
	memset(h->addr, 0, sizeof(h->addr));
	cursor_bytes(&c, h->addr, addr_len(h->version));
	if (c.overrun || (h->version != 4 && h->version != 6) ||
	    hdr_len != (h->version == 4 ? DS_UD_IPV4_LEN : DS_UD_IPV6_LEN))
		return -EBADMSG;
	return hdr_len;
}

size_t ds_ud_encode(const struct ds_ud_hdr *h, uint8_t buf[DS_UD_LEN_MAX])
{
	uint8_t len = h->version == 4 ? DS_UD_IPV4_LEN : DS_UD_IPV6_LEN;
	uint8_t *p = buf + 4;

	buf[0] = h->version;
	buf[1] = len;
	st_be16(buf + 2, h->port);
	if (h->version == 6) {
		memcpy(p, &h->flowinfo, sizeof(h->flowinfo));
		p += sizeof(h->flowinfo);
	}
	memcpy(p, h->addr, addr_len(h->version));
	return len;
}
