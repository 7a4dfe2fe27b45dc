/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Input: flags (bit 0: IPv6), identification, source port, where to cut, which bit to flip (2
 * bytes each), source and destination address (16 each), then a UDP payload.
 */
#include "fuzz.h"

#include <string.h>

#include "base/cursor.h"
#include "wire/bth.h"
#include "wire/icrc.h"

static uint32_t crc_bytewise(uint32_t crc, const uint8_t *p, size_t len)
{
	while (len--) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return crc;
}

/* The ICRC from its definition, with nothing of the code under test. */
static uint32_t icrc_plain(const struct flow *f, uint16_t id, const uint8_t *udp, size_t udp_len)
{
	uint8_t b[8 + 40 + 8];
	struct wcursor w = wcursor_init(b, sizeof(b));
	uint8_t bth[BTH_LEN];
	uint32_t crc;

	for (int i = 0; i < 8; i++)
		wcursor_u8(&w, 0xff);
	if (gid_is_ipv4(&f->dgid)) {
		wcursor_be16(&w, 0x45ff);
		wcursor_be16(&w, (uint16_t)(28 + udp_len));
		wcursor_be16(&w, id);
		wcursor_be16(&w, 0x4000);
		wcursor_be16(&w, 0xff11);
		wcursor_be16(&w, 0xffff);
		wcursor_bytes(&w, f->sgid.raw + 12, 4);
		wcursor_bytes(&w, f->dgid.raw + 12, 4);
	} else {
		wcursor_be32(&w, 0x6fffffff);
		wcursor_be16(&w, (uint16_t)(8 + udp_len));
		wcursor_be16(&w, 0x11ff);
		wcursor_bytes(&w, f->sgid.raw, 16);
		wcursor_bytes(&w, f->dgid.raw, 16);
	}
	wcursor_be16(&w, f->sport);
	wcursor_be16(&w, 4791);
	wcursor_be16(&w, (uint16_t)(8 + udp_len));
	wcursor_be16(&w, 0xffff);
	memcpy(bth, udp, BTH_LEN);
	bth[4] = 0xff;
	crc = crc_bytewise(0xffffffff, b, (size_t)(w.p - b));
	crc = crc_bytewise(crc, bth, BTH_LEN);
	crc = crc_bytewise(crc, udp + BTH_LEN, udp_len - BTH_LEN - ICRC_LEN);
	return ~crc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cursor c = cursor_init(data, size);
	uint16_t flags = cursor_be16(&c), id = cursor_be16(&c), found;
	struct flow f = {.sport = cursor_be16(&c)};
	size_t cut = cursor_be16(&c), bit = cursor_be16(&c), len;
	uint8_t *udp;
	struct icrc s;

	cursor_bytes(&c, f.sgid.raw, sizeof(f.sgid.raw));
	cursor_bytes(&c, f.dgid.raw, sizeof(f.dgid.raw));
	if (!(flags & 1)) {
		static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

		memcpy(f.sgid.raw, mapped, sizeof(mapped));
		memcpy(f.dgid.raw, mapped, sizeof(mapped));
	}
	len = cursor_left(&c);
	if (len < BTH_LEN + ICRC_LEN || len > 9000) {
		must(!icrc_check(&f, id, c.p, len) || len > 9000);
		return 0;
	}
	/* As it came: mostly wrong, and the two must agree. */
	if (icrc_solve_ip_id(&f, c.p, len, &found))
		must(icrc_check(&f, found, c.p, len));
	else
		must(!icrc_check(&f, id, c.p, len));

	udp = malloc(len);
	must(udp);
	memcpy(udp, c.p, len);
	cut = BTH_LEN + cut % (len - BTH_LEN - ICRC_LEN + 1);
	s = icrc_begin(&f, id, len, udp, cut);
	s = icrc_update(s, udp + cut, len - ICRC_LEN - cut);
	must(icrc_end(s) == icrc_plain(&f, id, udp, len));

	st_le32(udp + len - ICRC_LEN, icrc_end(s));
	must(icrc_check(&f, id, udp, len));
	must(icrc_solve_ip_id(&f, udp, len, &found));
	must(found == (gid_is_ipv4(&f.dgid) ? id : 0));
	bit %= 8 * len;
	udp[bit / 8] ^= (uint8_t)(1 << bit % 8);
	must(icrc_check(&f, id, udp, len) == (bit / 8 == 4));
	free(udp);
	return 0;
}
