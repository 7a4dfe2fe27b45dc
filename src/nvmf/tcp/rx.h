/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * PDUs out of a stream of bytes, for target and host: what is a PDU is told from what is none, its
 * data are led to where they belong. Knows no socket.
 *
 * Bytes come in two ways. tcp_rx_eat() takes them from a buffer that holds whatever the stream
 * brought. Where tcp_rx_wants() names memory, the stream's next bytes may be put there directly and
 * told of by tcp_rx_placed(): data that did not come with their header are never copied.
 *
 * Of a PDU the owner hears twice: when its headers are there, whereupon tcp_rx_place() may say
 * where its data go, and when it is whole.
 */
#ifndef WEFT_NVMF_TCP_RX_H
#define WEFT_NVMF_TCP_RX_H

#include "base/compiler.h"
#include "base/pieces.h"
#include "wire/nvme_tcp.h"

enum tcp_rx_event {
	TCP_RX_MORE,   /* all bytes are eaten */
	TCP_RX_HEADER, /* headers are there, and right */
	TCP_RX_PDU,    /* it is whole: rx->data_fine */
	TCP_RX_BAD,    /* it is none: rx->fes, rx->fei; nothing is eaten any more */
};

struct tcp_rx {
	/* The owner's. */
	uint16_t takes; /* a bit for each type that may come */
	bool hdgst, ddgst;
	uint8_t pda;	   /* as was asked for in ICReq or ICResp */
	uint32_t data_max; /* of one PDU; a terminate request has less */

	/* Of the PDU that was announced last. */
	struct nvme_tcp_ch ch;
	uint8_t head[NVME_TCP_HLEN_MAX + NVME_TCP_DIGEST_LEN];
	uint32_t data_len;
	bool data_fine; /* its data digest is right, or there is none */

	uint16_t fes; /* enum nvme_tcp_fes */
	uint32_t fei;

	enum { TCP_RX_CH, TCP_RX_HEAD, TCP_RX_PAD, TCP_RX_DATA, TCP_RX_DIGEST, TCP_RX_END } state;
	uint32_t data_before;	   /* data_len of the last that had data, */
	unsigned int bare;	   /* and how many without have come since */
	uint32_t got, want;	   /* bytes of the state's part */
	const struct iovec *place; /* where the data go; NULL: nowhere */
	size_t place_from;	   /* from this byte of it on */
	struct iovec one;	   /* what place names, where that is in one piece */
	uint8_t digest[NVME_TCP_DIGEST_LEN];
	bool bad;
};

#define TCP_RX_TAKES(type) ((uint16_t)(1u << (type)))

void tcp_rx_init(struct tcp_rx *rx, uint16_t takes, uint32_t data_max);
/* Takes bytes from *p to end, until there is something to tell. */
enum tcp_rx_event tcp_rx_eat(struct tcp_rx *rx, const uint8_t **p, const uint8_t *end) must_use;
/* What follows the common header of the PDU that is announced. */
static inline struct cursor tcp_rx_header(const struct tcp_rx *rx)
{
	return cursor_init(rx->head + NVME_TCP_CH_LEN, rx->ch.hlen - (size_t)NVME_TCP_CH_LEN);
}
/* Between its headers and its data: rx->data_len bytes go there; without it they are dropped. */
static inline void tcp_rx_place(struct tcp_rx *rx, void *place)
{
	rx->one = (struct iovec){place, rx->data_len};
	rx->place = &rx->one;
	rx->place_from = 0;
}
/* The same in pieces, from byte `from` of them on; these stay until it is whole. */
static inline void tcp_rx_place_pieces(struct tcp_rx *rx, const struct iovec *iov, size_t from)
{
	rx->place = iov;
	rx->place_from = from;
}
/* Where the stream's next bytes belong, in at most room pieces; how many. 0: into a buffer. */
unsigned int tcp_rx_wants(const struct tcp_rx *rx, struct iovec *ret, unsigned int room);
void tcp_rx_placed(struct tcp_rx *rx, uint32_t n);
/* How much more is worth having in a buffer, of at most max: many short PDUs, or of long ones the
 * next one's headers, as their data are to go where they belong. */
size_t tcp_rx_room(const struct tcp_rx *rx, size_t max);

#endif
