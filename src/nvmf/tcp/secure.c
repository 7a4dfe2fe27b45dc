/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What comes on a connection before it is PDUs: whether it is TLS, which its first byte says, and
 * if it is, what was said in its records. Between its beginning and Connect a queue has the time
 * and the place of one that is young (share.h), whatever it spends them on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "nvmf/tcp/target.h"

static bool find(void *arg, const char *identity, struct auth_psk *ret)
{
	struct tcp_queue *q = arg;

	return target_tls_find(q->tq.target, identity, ret);
}

/* Not one of ours, which is told as such: nothing was said yet that could be answered. */
static void refuse(struct tcp_queue *q, const char *why)
{
	target_rejected(q->tq.target, q->tq.raddr, why);
	tcp_queue_kill(q);
}

/* As things are at its port now. */
static void decide(struct tcp_queue *q, uint8_t first)
{
	enum target_tls tls = q->tq.port->tls;
	bool speaks = first == TCP_TLS_FIRST_BYTE;

	q->decided = true;
	if (speaks && tls == TARGET_TLS_NONE) {
		refuse(q, "it speaks TLS, and the port does not");
	} else if (!speaks && tls == TARGET_TLS_REQUIRED) {
		refuse(q, "it does not speak TLS, and the port requires it");
	} else if (speaks) {
		if (!q->tt->tls)
			q->tt->tls = tcp_tls_context_create(true);
		q->tls = q->tt->tls ? tcp_tls_of_target(q->tt->tls, find, q) : NULL;
		if (!q->tls)
			refuse(q, "no resources");
	}
}

static void ended(struct tcp_queue *q)
{
	char why[TCP_TLS_WHY_LEN + 8];

	snprintf(why, sizeof(why), "TLS: %s", tcp_tls_why(q->tls));
	if (tcp_tls_state(q->tls) == TCP_TLS_CLOSED)
		tcp_queue_kill(q);
	else if (q->tq.secure)
		tcp_queue_fail(q, "%s", why);
	else
		refuse(q, why);
}

static bool take_records(struct tcp_queue *q, const uint8_t *p, size_t len)
{
	const void *out;
	size_t got;
	bool mine = true;

	tcp_tls_feed(q->tls, p, len);
	while (mine && q->state != TCP_QUEUE_DYING) {
		ssize_t n = tcp_tls_take(q->tls, &q->rx, q->tt->plain, sizeof(q->tt->plain), &got);

		if (tcp_tls_state(q->tls) == TCP_TLS_UP && !q->tq.secure &&
		    !target_tls_proved(&q->tq, tcp_tls_identity(q->tls))) {
			refuse(q, "TLS: its key is not known any more");
			break;
		}
		if (n < 0)
			ended(q);
		if (n <= 0)
			break;
		mine = tcp_queue_input(q, q->tt->plain, got);
	}
	/* Nobody looks at the rest, and it does not stay where it is. */
	if (q->state == TCP_QUEUE_DYING)
		(void)tcp_tls_unfeed(q->tls, &out);
	if (tcp_tls_out(q->tls, &out))
		tcp_queue_wants_flush(q);
	return mine;
}

bool tcp_queue_wire(struct tcp_queue *q, const uint8_t *p, size_t len)
{
	if (!q->decided && len)
		decide(q, *p);
	if (!q->tls)
		return tcp_queue_input(q, p, len);
	return take_records(q, p, len);
}

void tcp_queue_go_on(struct tcp_queue *q)
{
	uint8_t *carried = q->carried;
	bool mine;

	q->carried = NULL;
	tcp_queue_resume(q, carried, q->carried_len);
	/* OpenSSL may have bytes of its own, too: it is asked even where nothing came. */
	if (q->tls) {
		mine = take_records(q, carried + q->carried_len, q->sealed_len);
		(void)mine; /* it goes once */
	}
	free(carried);
}

void tcp_queue_cut(struct tcp_queue *q)
{
	if (q->tls && tcp_tls_state(q->tls) == TCP_TLS_SHAKING) {
		refuse(q, "TLS: it breaks off the handshake");
		return;
	}
	/* As Linux's hosts end it, it could be somebody else's doing: who goes on has to come
	 * again. */
	if (q->tls && tcp_tls_state(q->tls) == TCP_TLS_UP)
		log_info("nvmf", "queue %u of %s: it ends without TLS's end", q->tq.qid,
			 q->tq.tls_hostnqn);
	tcp_queue_kill(q);
}

size_t tcp_queue_output(struct tcp_queue *q, const void **ret)
{
	tcp_tls_put(q->tls, &q->tx);
	return tcp_tls_out(q->tls, ret);
}
