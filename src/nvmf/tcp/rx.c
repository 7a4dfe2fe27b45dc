/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/tcp/rx.h"

#include <assert.h>
#include <string.h>

#include "wire/crc32c.h"

/* Data from which on a system call costs less than to copy them once more; and room for some
 * headers. */
#define LONG_DATA (16u << 10)
#define LONG_ROOM 4096u
/* So many PDUs without data, and data are no more to be expected. */
#define BARE_MANY 32

void tcp_rx_init(struct tcp_rx *rx, uint16_t takes, uint32_t data_max)
{
	*rx = (struct tcp_rx){
		.takes = takes, .data_max = data_max, .want = NVME_TCP_CH_LEN, .data_fine = true};
}

static enum tcp_rx_event bad(struct tcp_rx *rx, enum nvme_tcp_fes fes, uint32_t fei)
{
	rx->bad = true;
	rx->fes = (uint16_t)fes;
	rx->fei = fei;
	return TCP_RX_BAD;
}

static enum tcp_rx_event bad_field(struct tcp_rx *rx, uint32_t at)
{
	return bad(rx, NVME_TCP_FES_HEADER_FIELD, at);
}

static uint32_t headers_len(const struct tcp_rx *rx)
{
	return rx->ch.hlen +
	       (rx->hdgst && nvme_tcp_has_digests(rx->ch.type) ? NVME_TCP_DIGEST_LEN : 0u);
}

static uint32_t data_digest_len(const struct tcp_rx *rx)
{
	return rx->ddgst && nvme_tcp_has_digests(rx->ch.type) ? NVME_TCP_DIGEST_LEN : 0;
}

/* Where the data of the PDU are, and how much; it has some. */
static enum tcp_rx_event check_data(struct tcp_rx *rx)
{
	struct nvme_tcp_ch *ch = &rx->ch;
	uint32_t digest = data_digest_len(rx);

	if (!nvme_tcp_has_data(ch->type) ||
	    (!nvme_tcp_has_digests(ch->type) &&
	     ch->plen > ch->hlen + (uint32_t)NVME_TCP_TERM_DATA_MAX))
		return bad_field(rx, NVME_TCP_CH_PLEN);
	if (!nvme_tcp_has_digests(ch->type))
		ch->pdo = ch->hlen; /* a terminate request has none */
	else if (ch->pdo < headers_len(rx) || ch->pdo % ((rx->pda + 1u) * 4))
		return bad_field(rx, NVME_TCP_CH_PDO);
	if (ch->plen <= ch->pdo + digest)
		return bad_field(rx, NVME_TCP_CH_PLEN);
	if (digest && !(ch->flags & NVME_TCP_DDGST))
		return bad_field(rx, NVME_TCP_CH_FLAGS);
	rx->data_len = ch->plen - ch->pdo - digest;
	if (rx->data_len > rx->data_max)
		return bad(rx, NVME_TCP_FES_LIMIT_EXCEEDED, 0);
	return TCP_RX_MORE;
}

static enum tcp_rx_event check_ch(struct tcp_rx *rx)
{
	struct cursor c = cursor_init(rx->head, NVME_TCP_CH_LEN);
	const struct nvme_tcp_ch *ch = &rx->ch;

	nvme_tcp_ch_get(&c, &rx->ch);
	rx->data_len = 0;
	rx->data_fine = true;
	rx->place = NULL;
	if (!nvme_tcp_hlen(ch->type))
		return bad_field(rx, NVME_TCP_CH_TYPE);
	if (!(rx->takes & TCP_RX_TAKES(ch->type)))
		return bad(rx, NVME_TCP_FES_SEQUENCE, 0);
	if (ch->hlen != nvme_tcp_hlen(ch->type))
		return bad_field(rx, NVME_TCP_CH_HLEN);
	if (ch->plen < headers_len(rx))
		return bad_field(rx, NVME_TCP_CH_PLEN);
	if (nvme_tcp_has_digests(rx->ch.type) && !!(ch->flags & NVME_TCP_HDGST) != rx->hdgst)
		return bad_field(rx, NVME_TCP_CH_FLAGS);
	if (nvme_tcp_has_digests(rx->ch.type) && ch->flags & NVME_TCP_DDGST && !rx->ddgst)
		return bad_field(rx, NVME_TCP_CH_FLAGS);
	if (ch->plen > headers_len(rx))
		return check_data(rx);
	/* Only capsules come without, and terminate requests. */
	if (ch->type == NVME_TCP_H2C_DATA || ch->type == NVME_TCP_C2H_DATA)
		return bad_field(rx, NVME_TCP_CH_PLEN);
	return TCP_RX_MORE;
}

static enum tcp_rx_event check_head(struct tcp_rx *rx)
{
	uint32_t came = ld_le32(rx->head + rx->ch.hlen);

	if (rx->hdgst && nvme_tcp_has_digests(rx->ch.type) && crc32c(rx->head, rx->ch.hlen) != came)
		return bad(rx, NVME_TCP_FES_HEADER_DIGEST, came);
	return TCP_RX_HEADER;
}

static void enter(struct tcp_rx *rx, int state, uint32_t want)
{
	rx->state = state;
	rx->got = 0;
	rx->want = want;
}

static uint32_t digest_of_data(const struct tcp_rx *rx)
{
	struct pieces p = pieces_from(rx->place, rx->place_from);
	uint32_t state = CRC32C_BEGIN;

	for (uint32_t left = rx->data_len; left;) {
		struct iovec v = pieces_take(&p, left);

		state = crc32c_more(state, v.iov_base, v.iov_len);
		left -= (uint32_t)v.iov_len;
	}
	return crc32c_end(state);
}

/* What comes, that is what it looks like. */
static void note(struct tcp_rx *rx)
{
	if (!rx->data_len && ++rx->bare < BARE_MANY)
		return;
	rx->data_before = rx->data_len;
	rx->bare = 0;
}

/* A part is whole: the next one. */
static enum tcp_rx_event go_on(struct tcp_rx *rx)
{
	enum tcp_rx_event e;

	switch (rx->state) {
	case TCP_RX_CH:
		e = check_ch(rx);
		enter(rx, TCP_RX_HEAD, headers_len(rx));
		rx->got = NVME_TCP_CH_LEN;
		return e;
	case TCP_RX_HEAD:
		e = check_head(rx);
		note(rx);
		if (rx->data_len)
			enter(rx, TCP_RX_PAD, rx->ch.pdo - headers_len(rx));
		else
			enter(rx, TCP_RX_END, 0);
		return e;
	case TCP_RX_PAD:
		enter(rx, TCP_RX_DATA, rx->data_len);
		return TCP_RX_MORE;
	case TCP_RX_DATA:
		enter(rx, TCP_RX_DIGEST, data_digest_len(rx));
		return TCP_RX_MORE;
	case TCP_RX_DIGEST:
		if (rx->want && rx->place)
			rx->data_fine = ld_le32(rx->digest) == digest_of_data(rx);
		enter(rx, TCP_RX_END, 0);
		return TCP_RX_MORE;
	case TCP_RX_END:
		enter(rx, TCP_RX_CH, NVME_TCP_CH_LEN);
		return TCP_RX_PDU;
	}
	assert(!"no such state");
	return TCP_RX_BAD;
}

/* The next n bytes of the part. */
static void take(struct tcp_rx *rx, const uint8_t *p, uint32_t n)
{
	switch (rx->state) {
	case TCP_RX_CH:
	case TCP_RX_HEAD:
		memcpy(rx->head + rx->got, p, n);
		break;
	case TCP_RX_DATA:
		if (rx->place)
			pieces_write(pieces_from(rx->place, rx->place_from + rx->got), p, n);
		break;
	case TCP_RX_DIGEST:
		memcpy(rx->digest + rx->got, p, n);
		break;
	case TCP_RX_PAD:
	case TCP_RX_END:
		break;
	}
}

enum tcp_rx_event tcp_rx_eat(struct tcp_rx *rx, const uint8_t **p, const uint8_t *end)
{
	while (!rx->bad) {
		uint32_t n = (uint32_t)min_of((size_t)(rx->want - rx->got), (size_t)(end - *p));
		enum tcp_rx_event e;

		if (n)
			take(rx, *p, n);
		*p += n;
		rx->got += n;
		if (rx->got < rx->want)
			return TCP_RX_MORE;
		e = go_on(rx);
		if (e != TCP_RX_MORE)
			return e;
	}
	return TCP_RX_BAD;
}

unsigned int tcp_rx_wants(const struct tcp_rx *rx, struct iovec *ret, unsigned int room)
{
	struct pieces p = pieces_from(rx->place, rx->place_from + rx->got);
	unsigned int n = 0;

	if (rx->bad || rx->state != TCP_RX_DATA || !rx->place)
		return 0;
	for (size_t left = rx->want - rx->got; left && n < room; n++) {
		ret[n] = pieces_take(&p, left);
		left -= ret[n].iov_len;
	}
	return n;
}

size_t tcp_rx_room(const struct tcp_rx *rx, size_t max)
{
	return rx->data_before < LONG_DATA ? max : min_of(max, (size_t)LONG_ROOM);
}

void tcp_rx_placed(struct tcp_rx *rx, uint32_t n)
{
	assert(rx->state == TCP_RX_DATA && n <= rx->want - rx->got);
	rx->got += n;
}
