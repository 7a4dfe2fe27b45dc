/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * PDUs into a stream of bytes, for target and host: what waits to be sent is a line of tcp_outs,
 * each with its headers and a pointer to its data, which stay where they are until they are sent.
 * Knows no socket: tcp_tx_iov() says what is next, tcp_tx_sent() is told what went.
 */
#ifndef WEFT_NVMF_TCP_TX_H
#define WEFT_NVMF_TCP_TX_H

#include "base/compiler.h"
#include "base/list.h"
#include "base/pieces.h"
#include "wire/nvme_tcp.h"

/* Behind data: their digest, and the headers of a PDU without data. */
#define TCP_TAIL_MAX (NVME_TCP_DIGEST_LEN + 24 + NVME_TCP_DIGEST_LEN)

struct tcp_out {
	struct list link; /* of tcp_tx.outs, or in none */
	uint8_t head_len, tail_len;
	uint8_t head[NVME_TCP_PDO_MAX]; /* of one PDU or several; the last one's data follow */
	uint8_t tail[TCP_TAIL_MAX];
	const void *data;
	const struct iovec *iov;     /* instead: data in pieces, */
	size_t iov_from;	     /* from this byte of them on */
	uint32_t data_len, zero_len; /* so many zeroes behind the data */
	/* All of it is sent; it may be pushed again. NULL: nobody wants to know. */
	void (*sent)(struct tcp_out *o);
};

struct tcp_tx {
	bool hdgst, ddgst;
	uint8_t pda; /* as the other side asks for */
	struct list outs;
	size_t done;	   /* bytes of the first that are sent */
	size_t bytes;	   /* that wait */
	unsigned int bare; /* outs without data that wait */
};

/* So much that waits is worth a system call before the turn is over: it is still in the cache, and
 * the other side has work. Of answers more, so that none of some long reads goes by itself; of
 * commands with their data some, and the target begins with them. */
#define TCP_ENOUGH_BYTES    (1024u << 10)
#define TCP_ENOUGH_CAPSULES (32u << 10)
/* Or so many PDUs without data: each has the other side copy data, of the next command or of this.
 */
#define TCP_ENOUGH_BARE 32
static inline bool tcp_tx_has_enough(const struct tcp_tx *tx, size_t bytes)
{
	return tx->bytes >= bytes || tx->bare >= TCP_ENOUGH_BARE;
}

void tcp_tx_init(struct tcp_tx *tx);
void tcp_out_init(struct tcp_out *o, void (*sent)(struct tcp_out *o));
static inline bool tcp_out_waits(const struct tcp_out *o)
{
	return !list_empty(&o->link);
}

/* --- what a tcp_out is made of: it waits nowhere -----------------------------------------------
 */

/* Empty, as before the first PDU. */
void tcp_out_clear(struct tcp_out *o);
/*
 * A PDU behind those that are in the head already, with data_len bytes: the cursor is where the
 * header of its type goes. pdu_end() when that is there.
 */
struct wcursor tcp_out_pdu(struct tcp_out *o, const struct tcp_tx *tx, uint8_t type, uint8_t flags,
			   uint32_t data_len);
void tcp_out_pdu_end(struct tcp_out *o);
/* The data of the last PDU, and zeroes behind them. */
void tcp_out_data(struct tcp_out *o, const struct tcp_tx *tx, const void *data, uint32_t len,
		  uint32_t zero_len);
/* Data in pieces, from byte `from` of them on; the pieces stay, as their memory does. */
void tcp_out_pieces(struct tcp_out *o, const struct tcp_tx *tx, const struct iovec *iov,
		    size_t from, uint32_t len);
/* As tcp_out_pdu(), behind the data, without any of its own. */
struct wcursor tcp_out_tail(struct tcp_out *o, const struct tcp_tx *tx, uint8_t type);
void tcp_out_tail_end(struct tcp_out *o);

/* --- sending ------------------------------------------------------------------------------------
 */

void tcp_tx_push(struct tcp_tx *tx, struct tcp_out *o);
/* What goes next, in at most room pieces; how many. 0: nothing waits. */
unsigned int tcp_tx_iov(const struct tcp_tx *tx, struct iovec *iov, unsigned int room);
/* So many bytes of that went. */
void tcp_tx_sent(struct tcp_tx *tx, size_t n);
/* So many bytes of one that waits went already. */
size_t tcp_tx_went(const struct tcp_tx *tx, const struct tcp_out *o);
/* Nothing is sent any more: the line is empty, nobody is told. */
void tcp_tx_drop(struct tcp_tx *tx);

#endif
