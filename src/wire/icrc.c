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
#define ISAL_BLOCK	256
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

static uint8_t *put_ipv4(uint8_t *p, const struct flow *f, size_t udp_len)
{
	p[0] = 0x45;
	p[1] = 0xff; /* TOS: variable */
	st_be16(p + 2, (uint16_t)(IPV4_LEN + UDP_LEN + udp_len));
	st_be16(p + IPV4_ID_AT, 0); /* see of_identification() */
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

static uint8_t *put_headers(uint8_t *p, const struct flow *f, size_t udp_len)
{
	if (f->rocev1)
		return put_grh(p, f, udp_len);
	p = gid_is_ipv4(&f->dgid) ? put_ipv4(p, f, udp_len) : put_ipv6(p, f, udp_len);
	return put_udp(p, f, udp_len);
}

struct icrc icrc_headers(const struct flow *f, size_t udp_len)
{
	uint8_t buf[IPV6_LEN + UDP_LEN];
	const uint8_t *end = put_headers(buf, f, udp_len);

	return (struct icrc){crc(ICRC_SEED, buf, (size_t)(end - buf))};
}

/*
 * The CRC is linear: what differs before or behind a place differs in the state there, by the
 * remainder that the difference leaves in the bytes between. So the state behind the headers is
 * made up for the identification in them, and for the byte of the BTH that counts as ones; neither
 * takes another pass, or a copy.
 */
static uint32_t of_identification(uint16_t id)
{
	const uint16_t bytes = (uint16_t)(id >> 8 | id << 8); /* the first is the lower */

	return icrc_ahead_24[0][bytes & 15] ^ icrc_ahead_24[1][bytes >> 4 & 15] ^
	       icrc_ahead_24[2][bytes >> 8 & 15] ^ icrc_ahead_24[3][bytes >> 12];
}

static uint32_t of_masked(uint8_t byte)
{
	const uint8_t off = byte ^ 0xff;

	return icrc_back_4[0][off & 15] ^ icrc_back_4[1][off >> 4];
}
_Static_assert(IPV4_LEN - IPV4_ID_AT + UDP_LEN == 24, "what icrc_ahead_24 is for");
_Static_assert(BTH_ECN_AT == 4, "what icrc_back_4 is for");

struct icrc icrc_behind(struct icrc headers, uint16_t ip_id, const void *head, size_t len)
{
	const uint8_t *bth = head;

	assert(len >= BTH_LEN);
	return (struct icrc){crc(
		headers.state ^ of_identification(ip_id) ^ of_masked(bth[BTH_ECN_AT]), bth, len)};
}

static bool has_identification(const struct flow *f)
{
	return gid_is_ipv4(&f->dgid) && !f->rocev1;
}

struct icrc icrc_begin(const struct flow *f, uint16_t ip_id, size_t udp_len, const void *head,
		       size_t len)
{
	return icrc_behind(icrc_headers(f, udp_len), has_identification(f) ? ip_id : 0, head, len);
}

struct icrc icrc_recall(struct icrc_memo *m, const struct flow *f, size_t udp_len)
{
	struct icrc_remembered *r =
		&m->of[(f->sport ^ udp_len ^ f->dgid.raw[15]) % ARRAY_SIZE(m->of)];

	if (r->udp_len != udp_len || r->sport != f->sport || !gid_equal(&r->dgid, &f->dgid) ||
	    !gid_equal(&r->sgid, &f->sgid))
		*r = (struct icrc_remembered){f->sgid, f->dgid, (uint32_t)udp_len, f->sport,
					      icrc_headers(f, udp_len)};
	return r->headers;
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
static uint32_t icrc_difference(struct icrc headers, uint16_t ip_id, const void *udp,
				size_t udp_len)
{
	size_t covered = udp_len - ICRC_LEN;
	struct icrc c = icrc_behind(headers, ip_id, udp, covered);

	return icrc_end(c) ^ ld_le32((const uint8_t *)udp + covered);
}

static bool icrc_length_ok(size_t udp_len)
{
	return udp_len >= BTH_LEN + ICRC_LEN && udp_len <= UDP_PAYLOAD_MAX;
}

bool icrc_check_behind(struct icrc headers, uint16_t ip_id, const void *udp, size_t udp_len)
{
	return icrc_length_ok(udp_len) && icrc_difference(headers, ip_id, udp, udp_len) == 0;
}

bool icrc_check(const struct flow *f, uint16_t ip_id, const void *udp, size_t udp_len)
{
	return icrc_check_behind(icrc_headers(f, udp_len), has_identification(f) ? ip_id : 0, udp,
				 udp_len);
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
 * The ICRC of a packet with identification id differs from that with 0 by the
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
	v = icrc_difference(icrc_headers(f, udp_len), 0, udp, udp_len);
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
