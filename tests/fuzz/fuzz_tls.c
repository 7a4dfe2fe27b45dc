/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * TLS for NVMe/TCP, both sides, before peers without the key, and with somebody on the way who
 * changes, cuts, repeats and adds what he likes. Who has not the key is never believed; what comes
 * through is what was said, from its beginning, whatever happens on the way.
 * Input: a byte that chooses who is there, then bytes, or steps of whoever is on the way.
 */
#include "fuzz.h"

#include <string.h>

#include "nvmf/tcp/tls.h"

#define HOST  "nqn.2024-01.test:host"
#define SUB   "nqn.2024-01.test:one"
#define STEPS 60
#define SAID  4096

static struct tcp_tls_context *targets, *hosts;
static struct auth_psk psk;
static const uint8_t *in, *in_end;

static uint8_t take(void)
{
	return in < in_end ? *in++ : 0;
}

static bool find(void *arg, const char *identity, struct auth_psk *ret)
{
	(void)arg;
	*ret = psk;
	return strcmp(identity, psk.identity) == 0;
}

struct side {
	struct tcp_tls *tls;
	struct tcp_rx rx;
	struct tcp_tx tx;
	struct tcp_out out[STEPS];
	unsigned int outs;
	size_t said, heard;
	bool over;
};

static struct side target, host;

/* What a side says is the same of both, and endless. */
static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 7 + i / 253);
}

static uint8_t words[STEPS * SAID];

static void feed(struct side *s, const struct side *from, const uint8_t *p, size_t len)
{
	uint8_t buffer[777];
	size_t got;
	ssize_t n;

	if (s->over)
		return;
	tcp_tls_feed(s->tls, p, len);
	while ((n = tcp_tls_take(s->tls, &s->rx, buffer, sizeof(buffer), &got)) > 0) {
		must(from && got == (size_t)n && s->heard + got <= from->said);
		must(memcmp(buffer, words + s->heard, got) == 0);
		s->heard += got;
	}
	s->over = n < 0;
	must(s->over == (tcp_tls_state(s->tls) > TCP_TLS_UP));
	must((tcp_tls_state(s->tls) == TCP_TLS_BROKEN) == (tcp_tls_why(s->tls)[0] != 0));
}

static void begin(void)
{
	target = (struct side){0};
	host = (struct side){0};
	tcp_rx_init(&target.rx, 0, 0);
	tcp_rx_init(&host.rx, 0, 0);
	tcp_tx_init(&target.tx);
	tcp_tx_init(&host.tx);
	target.tls = tcp_tls_of_target(targets, find, NULL);
	host.tls = tcp_tls_of_host(hosts, &psk);
	must(target.tls && host.tls);
}

static void say(struct side *s, size_t len)
{
	struct tcp_out *o = &s->out[s->outs++];

	tcp_out_init(o, NULL);
	o->data = words + s->said;
	o->data_len = (uint32_t)len;
	s->said += len;
	tcp_tx_push(&s->tx, o);
}

/* What one has to send, with what is done to it on the way. */
static void carry(struct side *from, struct side *to, uint8_t how)
{
	static uint8_t copy[80000];
	const void *p;
	size_t len;

	tcp_tls_put(from->tls, &from->tx);
	len = tcp_tls_out(from->tls, &p);
	must(len <= sizeof(copy));
	if (how & 1)
		len = min_of(len, (size_t)take());
	memcpy(copy, p, len);
	tcp_tls_sent(from->tls, len);
	if (how & 2 && len)
		copy[(take() | (unsigned)take() << 8) % len] ^= take();
	if (how & 4)
		len -= min_of(len, (size_t)take());
	feed(to, from, copy, len);
	if (how & 8)
		feed(to, from, copy, len);
}

static void on_the_way(void)
{
	begin();
	for (int i = 0; i < STEPS && in < in_end; i++) {
		uint8_t what = take();
		struct side *s = what & 0x80 ? &target : &host, *o = s == &host ? &target : &host;

		if ((what & 0x70) == 0x70)
			say(s, 1 + take() * 16u);
		else if ((what & 0x70) == 0x60)
			tcp_tls_close(s->tls);
		else
			carry(s, o, what & 0x40 ? what & 0xf : 0);
	}
	if (tcp_tls_state(target.tls) == TCP_TLS_UP)
		must(strcmp(tcp_tls_identity(target.tls), psk.identity) == 0);
}

/* Any bytes at all. */
static void without_the_key(struct side *s)
{
	begin();
	while (in < in_end && !s->over) {
		size_t n = min_of((size_t)1 + take(), (size_t)(in_end - in));

		feed(s, NULL, in, n);
		in += n;
		must(tcp_tls_state(s->tls) == TCP_TLS_SHAKING ||
		     tcp_tls_state(s->tls) == TCP_TLS_BROKEN);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct auth_psk_way way = {.version = 1};
	struct auth_key k = {.hash = 1, .len = 32, .key = "the key"};
	uint8_t who;

	if (!targets) {
		targets = tcp_tls_context_create(true);
		hosts = tcp_tls_context_create(false);
		must(targets && hosts);
		must(auth_psk_derive(&k, way, HOST, SUB, &psk));
		for (size_t i = 0; i < sizeof(words); i++)
			words[i] = byte_at(i);
	}
	in = data;
	in_end = data + size;
	who = take();
	if (who % 3 == 0)
		on_the_way();
	else
		without_the_key(who % 3 == 1 ? &target : &host);
	tcp_tx_drop(&target.tx);
	tcp_tx_drop(&host.tx);
	tcp_tls_destroy(target.tls);
	tcp_tls_destroy(host.tls);
	return 0;
}
