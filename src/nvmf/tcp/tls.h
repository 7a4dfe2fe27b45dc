/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * TLS 1.3 with a pre-shared key, for target and host: records out of bytes and into them, by
 * OpenSSL. Knows no socket: tcp_tls_feed() is given what came, tcp_tls_out() says what is to be
 * sent.
 *
 * There is nothing to negotiate: TLS 1.3, the key with a fresh (EC)DHE beside it, and the cipher
 * suite of the key's hash. A target that has no key of any identity that a host offers says so
 * (unknown_psk_identity); a host believes nobody who has not shown that he has the key. No tickets,
 * no early data, no certificates.
 *
 * Of what was fed tcp_tls_take() is asked until nothing is left: it goes on with the handshake, and
 * then brings what was said, to where tcp_rx_wants() it or into a buffer.
 */
#ifndef WEFT_NVMF_TCP_TLS_H
#define WEFT_NVMF_TCP_TLS_H

#include <sys/types.h>

#include "nvmf/auth/psk.h"
#include "nvmf/tcp/rx.h"
#include "nvmf/tcp/tx.h"

#define TCP_TLS_RECORD	   16384u /* bytes that one says at most */
#define TCP_TLS_WHY_LEN	   96
#define TCP_TLS_FIRST_BYTE 0x16 /* of a host that begins a handshake: it is no PDU's */

enum tcp_tls_state {
	TCP_TLS_SHAKING, /* hands */
	TCP_TLS_UP,
	TCP_TLS_CLOSED, /* the other side has said that it says no more */
	TCP_TLS_BROKEN, /* why is said; what tcp_tls_out() has still tells the other side */
};

struct tcp_tls_context; /* what all connections of one side share */
struct tcp_tls;

/* NULL: there is no memory, or the library has not what it takes. */
struct tcp_tls_context *tcp_tls_context_create(bool target);
void tcp_tls_context_destroy(struct tcp_tls_context *c);

/* Of a target: find() has the key of an identity, or says false. NULL: no memory. */
struct tcp_tls *
tcp_tls_of_target(struct tcp_tls_context *c,
		  bool (*find)(void *arg, const char *identity, struct auth_psk *ret), void *arg);
/* Of a host, which begins at once: there is something to be sent. psk is copied. */
struct tcp_tls *tcp_tls_of_host(struct tcp_tls_context *c, const struct auth_psk *psk);
/* NULL is nothing. */
void tcp_tls_destroy(struct tcp_tls *t);

enum tcp_tls_state tcp_tls_state(const struct tcp_tls *t);
/* Of one that is broken; a static text, or the tls's own. */
const char *tcp_tls_why(const struct tcp_tls *t);
/* By which identity the two know each other; "" before they do. */
const char *tcp_tls_identity(const struct tcp_tls *t);

/* What came: it stays there until tcp_tls_take() has returned 0 or less. */
void tcp_tls_feed(struct tcp_tls *t, const void *p, size_t len);
/* What of it is not taken yet is the caller's again, to be fed later. */
size_t tcp_tls_unfeed(struct tcp_tls *t, const void **ret);
/*
 * How many bytes were said, of which *ret_len are in the buffer for the owner to eat, and the rest
 * is placed. 0: nothing more at present. -1: it is closed, or broken.
 */
ssize_t tcp_tls_take(struct tcp_tls *t, struct tcp_rx *rx, uint8_t *buffer, size_t room,
		     size_t *ret_len) must_use;
/* What waits to be said, as far as there is room. */
void tcp_tls_put(struct tcp_tls *t, struct tcp_tx *tx);
/* Nothing more is said from here on; the other side is told. */
void tcp_tls_close(struct tcp_tls *t);
/* What is to be sent. */
size_t tcp_tls_out(const struct tcp_tls *t, const void **ret);
void tcp_tls_sent(struct tcp_tls *t, size_t n);

#endif
