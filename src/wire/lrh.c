/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/lrh.h"

#include "base/bytes.h"

#define VCRC_POLYNOMIAL 0xd008 /* 0x100b, the lowest bit first */
#define WORDS_MASK	0x7ff

enum { OP_NORMAL, OP_INIT };

void lrh_put(uint8_t at[LRH_LEN], const struct lrh *h)
{
	at[0] = (uint8_t)(h->lane << 4 | (h->version & 0xf));
	at[1] = (uint8_t)(h->sl << 4 | h->next);
	st_be16(at + 2, h->dlid);
	st_be16(at + 4, h->words & WORDS_MASK);
	st_be16(at + 6, h->slid);
}

void lrh_take(const uint8_t at[LRH_LEN], struct lrh *ret)
{
	*ret = (struct lrh){
		.lane = at[0] >> 4,
		.version = at[0] & 0xf,
		.sl = at[1] >> 4,
		.next = (enum lrh_next)(at[1] & 3),
		.dlid = ld_be16(at + 2),
		.words = ld_be16(at + 4) & WORDS_MASK,
		.slid = ld_be16(at + 6),
	};
}

uint16_t lrh_vcrc(const void *p, size_t len)
{
	const uint8_t *b = p;
	uint32_t crc = 0xffff;

	for (size_t i = 0; i < len; i++) {
		crc ^= b[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (VCRC_POLYNOMIAL & -(crc & 1));
	}
	return (uint16_t)~crc;
}

void credit_put(uint8_t at[CREDIT_LEN], const struct credit *c)
{
	st_be16(at, (uint16_t)((c->init ? OP_INIT : OP_NORMAL) << 12 | (c->sent & CREDIT_MASK)));
	st_be16(at + 2, (uint16_t)(c->lane << 12 | (c->limit & CREDIT_MASK)));
	st_le16(at + 4, lrh_vcrc(at, 4));
}

bool credit_take(const uint8_t at[CREDIT_LEN], struct credit *ret)
{
	unsigned op = at[0] >> 4;

	*ret = (struct credit){
		.init = op == OP_INIT,
		.lane = at[2] >> 4,
		.sent = ld_be16(at) & CREDIT_MASK,
		.limit = ld_be16(at + 2) & CREDIT_MASK,
	};
	return op <= OP_INIT && ld_le16(at + 4) == lrh_vcrc(at, 4);
}
