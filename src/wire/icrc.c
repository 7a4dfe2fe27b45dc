/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The state is the finished CRC-32 of what has gone by: ISA-L's crc32_gzip_refl() complements on
 * the way in and out, as zlib's crc32() does, so that the result of one call starts the next.
 */
#include "wire/icrc.h"

#include <assert.h>

#include <isa-l/crc.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/bytes.h"
#include "wire/bth.h"
#include "wire/grh.h"
#include "wire/icrc_tables.h"

#define ICRC_SEED	0x2144df1cu /* CRC-32 of the eight 0xff bytes in the LRH's place */
#define IPV4_LEN	20
#define IPV6_LEN	40
#define UDP_LEN		8
#define IPPROTO_UDP_8	17
#define IPV4_DF		0x4000
#define IPV4_ID_AT	4
#define UDP_PAYLOAD_MAX (65535 - IPV4_LEN - UDP_LEN)
#define HEAD_COPIED	64 /* the headers of a packet, and a little */
#define ISAL_BLOCK	256
#define WHOLE_COPIED	(ISAL_BLOCK - 1 - IPV6_LEN - UDP_LEN)
#define BTH_ECN_AT	4

/*
 * ISA-L's AVX-512 code, which it uses from 256 bytes on, leaves the upper halves of the vector
 * registers dirty, and every SSE instruction after it, ours and the application's, then waits for
 * them: 220 ns instead of 70 ns for a packet of 1 KiB and the small CRCs around it (ISA-L 2.30).
 */
#ifdef __x86_64__
__attribute__((target("avx"))) static void clean_upper_halves(void)
{
	_mm256_zeroupper();
}
#endif

static uint32_t crc(uint32_t state, const void *p, size_t len)
{
	state = crc32_gzip_refl(state, p, len);
#ifdef __x86_64__
	if (len >= ISAL_BLOCK && __builtin_cpu_supports("avx512f"))
		clean_upper_halves();
#endif
	return state;
}

static uint8_t *put_udp(uint8_t *p, const struct flow *f, size_t udp_len)
{
	st_be16(p, f->sport);
	st_be16(p + 2, ROCEV2_UDP_PORT);
	st_be16(p + 4, (uint16_t)(UDP_LEN + udp_len));
	st_be16(p + 6, 0xffff); /* checksum: variable */
	return p + UDP_LEN;
}

static uint8_t *put_ipv4(uint8_t *p, const struct flow *f, uint16_t ip_id, size_t udp_len)
{
	p[0] = 0x45;
	p[1] = 0xff; /* TOS: variable */
	st_be16(p + 2, (uint16_t)(IPV4_LEN + UDP_LEN + udp_len));
	st_be16(p + IPV4_ID_AT, ip_id);
	st_be16(p + 6, IPV4_DF);
	p[8] = 0xff; /* TTL: variable */
	p[9] = IPPROTO_UDP_8;
	st_be16(p + 10, 0xffff); /* checksum: variable */
	memcpy(p + 12, f->sgid.raw + 12, 4);
	memcpy(p + 16, f->dgid.raw + 12, 4);
	return p + IPV4_LEN;
}

static uint8_t *put_ipv6(uint8_t *p, const struct flow *f, size_t udp_len)
{
	st_be32(p, 0x6fffffff); /* traffic class and flow label: variable */
	st_be16(p + 4, (uint16_t)(UDP_LEN + udp_len));
	p[6] = IPPROTO_UDP_8;
	p[7] = 0xff; /* hop limit: variable */
	memcpy(p + 8, f->sgid.raw, 16);
	memcpy(p + 24, f->dgid.raw, 16);
	return p + IPV6_LEN;
}

static uint8_t *put_grh(uint8_t *p, const struct flow *f, size_t payload_len)
{
	struct flow ones = *f;

	ones.tos = ones.ttl = 0xff;
	ones.flow_label = 0xfffff;
	grh_put(p, &ones, payload_len);
	return p + GRH_LEN;
}

static uint8_t *put_headers(uint8_t *p, const struct flow *f, uint16_t ip_id, size_t udp_len)
{
	if (f->rocev1)
		return put_grh(p, f, udp_len);
	p = gid_is_ipv4(&f->dgid) ? put_ipv4(p, f, ip_id, udp_len) : put_ipv6(p, f, udp_len);
	return put_udp(p, f, udp_len);
}

/*
 * How much of the first piece is taken together with the IP and UDP headers: a call for a few
 * bytes costs as much as one for a hundred. So all of a short one; else the rest is best a multiple
 * of ISA-L's block, as it is in a packet that is full to the path MTU.
 */
static size_t head_len(size_t len)
{
	size_t odd = len % ISAL_BLOCK;

	if (len <= WHOLE_COPIED)
		return len;
	return odd >= BTH_LEN && odd <= HEAD_COPIED ? odd : min_of(len, (size_t)HEAD_COPIED);
}

struct icrc icrc_begin(const struct flow *f, uint16_t ip_id, size_t udp_len, const void *head,
		       size_t len)
{
	uint8_t buf[IPV6_LEN + UDP_LEN + WHOLE_COPIED];
	size_t copied = head_len(len);
	uint8_t *p = put_headers(buf, f, ip_id, udp_len);
	struct icrc c;

	assert(len >= BTH_LEN);
	if (len > WHOLE_COPIED)
		memcpy(p, head, HEAD_COPIED); /* more than needed, but of constant size */
	else
		memcpy(p, head, len);
	p[BTH_ECN_AT] = 0xff;
	c.state = crc(ICRC_SEED, buf, (size_t)(p + copied - buf));
	return icrc_update(c, (const uint8_t *)head + copied, len - copied);
}

struct icrc icrc_begin_local(const uint8_t lrh[LRH_LEN], const void *head, size_t len)
{
	uint8_t buf[LRH_LEN + BTH_LEN];

	assert(len >= BTH_LEN);
	memcpy(buf, lrh, LRH_LEN);
	memcpy(buf + LRH_LEN, head, BTH_LEN);
	buf[0] |= 0xf0; /* the lane */
	buf[LRH_LEN + BTH_ECN_AT] = 0xff;
	return icrc_update((struct icrc){crc(0, buf, sizeof(buf))}, (const uint8_t *)head + BTH_LEN,
			   len - BTH_LEN);
}

struct icrc icrc_update(struct icrc c, const void *data, size_t len)
{
	return (struct icrc){len ? crc(c.state, data, len) : c.state};
}

uint32_t icrc_end(struct icrc c)
{
	return c.state;
}

/* The ICRC a payload carries, against what it should be: the difference is 0 when it is right. */
static uint32_t icrc_difference(const struct flow *f, uint16_t ip_id, const void *udp,
				size_t udp_len)
{
	size_t covered = udp_len - ICRC_LEN;
	struct icrc c = icrc_begin(f, ip_id, udp_len, udp, covered);

	return icrc_end(c) ^ ld_le32((const uint8_t *)udp + covered);
}

static bool icrc_length_ok(size_t udp_len)
{
	return udp_len >= BTH_LEN + ICRC_LEN && udp_len <= UDP_PAYLOAD_MAX;
}

bool icrc_check(const struct flow *f, uint16_t ip_id, const void *udp, size_t udp_len)
{
	return icrc_length_ok(udp_len) && icrc_difference(f, ip_id, udp, udp_len) == 0;
}

/* a * b modulo the CRC-32 polynomial, reflected: bit 31 is the coefficient of x^0. */
static uint32_t poly_mul(uint32_t a, uint32_t b)
{
	uint32_t r = 0;

	for (int i = 0; i < 32; i++) {
		r ^= b & -(a >> 31);
		a <<= 1;
		b = b >> 1 ^ (0xedb88320u & -(b & 1));
	}
	return r;
}

/*
 * The CRC is linear: the ICRC of a packet with identification id differs from that with 0 by the
 * remainder that those 16 bits leave after running through the bytes behind them. As a
 * polynomial it is id * x^(8 * bytes), so that division by that power of x, one multiplication
 * for each byte of the distance, gives the id back, and anything that is not 16 bits long
 * was no identification.
 */
bool icrc_solve_ip_id(const struct flow *f, const void *udp, size_t udp_len, uint16_t *ret_ip_id)
{
	uint32_t v;
	size_t back;

	*ret_ip_id = 0;
	if (!icrc_length_ok(udp_len))
		return false;
	v = icrc_difference(f, 0, udp, udp_len);
	if (!v)
		return true;
	if (!gid_is_ipv4(&f->dgid))
		return false;
	/* From the identification's own two bytes to the end of what the ICRC covers. */
	back = IPV4_LEN - IPV4_ID_AT + UDP_LEN + udp_len - ICRC_LEN;
	v = poly_mul(v, icrc_back_low[back & 0xff]);
	v = poly_mul(v, icrc_back_high[back >> 8]);
	if (v >> 16)
		return false;
	*ret_ip_id = htobe16((uint16_t)v); /* the register takes the first byte in its low bits */
	return true;
}
