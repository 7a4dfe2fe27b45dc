/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * TLS for NVMe/TCP by itself: two sides that hand each other bytes, and OpenSSL as a peer that does
 * what ours does not.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <cmocka.h>

#include "nvmf/tcp/tls.h"

#define HOST "nqn.2026-11.io.example:host"
#define SUB  "nqn.2026-11.io.example:disk"

static struct tcp_tls_context *targets, *hosts;
static struct auth_psk known; /* the one key that the target has */
static unsigned int looked_up;

static bool find(void *arg, const char *identity, struct auth_psk *ret)
{
	(void)arg;
	looked_up++;
	if (strcmp(identity, known.identity) != 0)
		return false;
	*ret = known;
	return true;
}

static struct auth_psk psk_of(uint8_t hash, uint8_t version, uint8_t seed)
{
	const struct auth_psk_way way = {.version = version};
	struct auth_key k = {.hash = hash, .len = (uint8_t)auth_hash_len(hash)};
	struct auth_psk psk;

	memset(k.key, seed, k.len);
	assert_true(auth_psk_derive(&k, way, HOST, SUB, &psk));
	return psk;
}

struct side {
	struct tcp_tls *tls;
	struct tcp_rx rx;
	struct tcp_tx tx;
	uint8_t said[2 << 20]; /* that came */
	size_t len;
	bool over; /* tcp_tls_take() has said so */
};

static struct side target, host;

static void begin(const struct auth_psk *of_host)
{
	struct side *const sides[] = {&target, &host};

	for (int i = 0; i < 2; i++) {
		tcp_tls_destroy(sides[i]->tls);
		tcp_rx_init(&sides[i]->rx, 0, 0);
		tcp_tx_init(&sides[i]->tx);
		sides[i]->len = 0;
		sides[i]->over = false;
	}
	target.tls = tcp_tls_of_target(targets, find, NULL);
	host.tls = of_host ? tcp_tls_of_host(hosts, of_host) : NULL;
	assert_non_null(target.tls);
	looked_up = 0;
}

static void feed(struct side *s, const void *p, size_t len)
{
	static uint8_t buffer[5000];
	size_t got;

	tcp_tls_feed(s->tls, p, len);
	for (;;) {
		ssize_t n = tcp_tls_take(s->tls, &s->rx, buffer, sizeof(buffer), &got);

		if (n <= 0) {
			s->over = n < 0;
			return;
		}
		assert_int_equal(n, got);
		assert_true(s->len + got <= sizeof(s->said));
		memcpy(s->said + s->len, buffer, got);
		s->len += got;
	}
}

/* At most so many bytes at a time; true: there were some. */
static bool carry(struct side *from, struct side *to, size_t at_a_time)
{
	uint8_t copy[70000];
	const void *p;
	size_t len;

	if (from->tls)
		tcp_tls_put(from->tls, &from->tx);
	len = from->tls ? tcp_tls_out(from->tls, &p) : 0;
	if (!len)
		return false;
	len = min_of(len, at_a_time);
	len = min_of(len, sizeof(copy));
	memcpy(copy, p, len);
	tcp_tls_sent(from->tls, len);
	feed(to, copy, len);
	return true;
}

static void talk_by(size_t at_a_time)
{
	while (carry(&host, &target, at_a_time) || carry(&target, &host, at_a_time))
		;
}

static void talk(void)
{
	talk_by(SIZE_MAX);
}

static void say(struct side *s, struct tcp_out *o, const void *p, uint32_t len)
{
	tcp_out_init(o, NULL);
	o->data = p;
	o->data_len = len;
	tcp_tx_push(&s->tx, o);
}

static int set_up(void **state)
{
	(void)state;
	targets = tcp_tls_context_create(true);
	hosts = tcp_tls_context_create(false);
	return targets && hosts ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	tcp_tls_destroy(target.tls);
	tcp_tls_destroy(host.tls);
	tcp_tls_context_destroy(targets);
	tcp_tls_context_destroy(hosts);
	return 0;
}

static void up(void)
{
	known = psk_of(NVMF_AUTH_SHA256, 1, 7);
	begin(&known);
	talk();
	assert_int_equal(tcp_tls_state(target.tls), TCP_TLS_UP);
	assert_int_equal(tcp_tls_state(host.tls), TCP_TLS_UP);
}

/* --- who has the key ----------------------------------------------------------------------------
 */

static void who_has_the_key_is_spoken_with(void **state)
{
	static uint8_t data[1 << 20];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 255);
	for (unsigned int i = 0; i < 4; i++) {
		struct tcp_out small[3], large[2];

		known = psk_of(i & 1 ? NVMF_AUTH_SHA384 : NVMF_AUTH_SHA256, i >> 1, 3);
		begin(&known);
		talk_by(i == 3 ? 1 : SIZE_MAX);
		assert_string_equal(tcp_tls_identity(target.tls), known.identity);
		assert_string_equal(tcp_tls_identity(host.tls), known.identity);
		for (int j = 0; j < 3; j++)
			say(&host, &small[j], data + j, 72);
		say(&target, &large[0], data, sizeof(data) - 1);
		say(&target, &large[1], data, 5);
		talk();
		assert_int_equal(target.len, 3 * 72);
		for (int j = 0; j < 3; j++)
			assert_memory_equal(target.said + j * 72, data + j, 72);
		assert_int_equal(host.len, sizeof(data) + 4);
		assert_memory_equal(host.said, data, sizeof(data) - 1);
		assert_memory_equal(host.said + sizeof(data) - 1, data, 5);
	}
}

/* Its digest is another: the target has no such key, and says that. */
static void another_key_is_not_known(void **state)
{
	struct auth_psk other = psk_of(NVMF_AUTH_SHA256, 1, 8);

	(void)state;
	known = psk_of(NVMF_AUTH_SHA256, 1, 7);
	begin(&other);
	talk();
	assert_int_equal(tcp_tls_state(target.tls), TCP_TLS_BROKEN);
	assert_string_equal(tcp_tls_why(target.tls), "there is no key of what it offers");
	assert_string_equal(tcp_tls_identity(target.tls), "");
	assert_int_equal(tcp_tls_state(host.tls), TCP_TLS_BROKEN);
	assert_string_equal(tcp_tls_why(host.tls),
			    "the other side breaks off (unknown PSK identity)");
	assert_true(host.over && target.over);
}

/* Version 0 has no digest: what is shown of the key is wrong. */
static void another_key_of_the_same_name_is_not_believed(void **state)
{
	struct auth_psk other = psk_of(NVMF_AUTH_SHA384, 0, 8);

	(void)state;
	known = psk_of(NVMF_AUTH_SHA384, 0, 7);
	assert_string_equal(known.identity, other.identity);
	begin(&other);
	talk();
	assert_int_equal(tcp_tls_state(target.tls), TCP_TLS_BROKEN);
	assert_string_equal(tcp_tls_why(target.tls),
			    "its key is not the one that goes with its name");
	assert_int_equal(tcp_tls_state(host.tls), TCP_TLS_BROKEN);
}

/* --- what happens on the way --------------------------------------------------------------------
 */

static void a_record_that_was_changed_ends_it(void **state)
{
	uint8_t copy[1000];
	struct tcp_out o;
	const void *p;
	size_t len;

	(void)state;
	up();
	say(&host, &o, "something", 9);
	tcp_tls_put(host.tls, &host.tx);
	len = tcp_tls_out(host.tls, &p);
	memcpy(copy, p, len);
	copy[len - 1] ^= 1;
	feed(&target, copy, len);
	assert_true(target.over);
	assert_int_equal(target.len, 0);
	assert_int_equal(tcp_tls_state(target.tls), TCP_TLS_BROKEN);
	assert_string_equal(tcp_tls_why(target.tls), "a record is not what was sent");
	assert_true(carry(&target, &host, SIZE_MAX));
	assert_string_equal(tcp_tls_why(host.tls), "the other side breaks off (bad record mac)");
}

static void nothing_is_believed_of_a_record_before_its_end(void **state)
{
	uint8_t copy[1000];
	struct tcp_out o;
	const void *p;
	size_t len;

	(void)state;
	up();
	say(&host, &o, "something", 9);
	tcp_tls_put(host.tls, &host.tx);
	len = tcp_tls_out(host.tls, &p);
	memcpy(copy, p, len);
	for (size_t i = 0; i < len; i++) {
		assert_int_equal(target.len, 0);
		feed(&target, copy + i, 1);
	}
	assert_int_equal(target.len, 9);
	assert_memory_equal(target.said, "something", 9);
}

/* A record that comes twice is no record. */
static void a_record_that_is_repeated_ends_it(void **state)
{
	uint8_t copy[1000];
	struct tcp_out o;
	const void *p;
	size_t len;

	(void)state;
	up();
	say(&host, &o, "something", 9);
	tcp_tls_put(host.tls, &host.tx);
	len = tcp_tls_out(host.tls, &p);
	memcpy(copy, p, len);
	feed(&target, copy, len);
	feed(&target, copy, len);
	assert_true(target.over);
	assert_int_equal(target.len, 9);
	assert_int_equal(tcp_tls_state(target.tls), TCP_TLS_BROKEN);
}

static void an_end_that_is_said_is_told_from_one_that_is_not(void **state)
{
	struct tcp_out o;

	(void)state;
	up();
	say(&host, &o, "last", 4);
	tcp_tls_put(host.tls, &host.tx);
	talk();
	assert_int_equal(tcp_tls_state(target.tls),
			 TCP_TLS_UP); /* that is all that there is to see */
	tcp_tls_close(host.tls);
	assert_true(carry(&host, &target, SIZE_MAX));
	assert_true(target.over);
	assert_int_equal(tcp_tls_state(target.tls), TCP_TLS_CLOSED);
	assert_memory_equal(target.said, "last", 4);
}

static void bytes_that_are_no_tls_are_told_from_it(void **state)
{
	uint8_t bytes[128] = {0, 0, 128, 0, 128};

	(void)state;
	known = psk_of(NVMF_AUTH_SHA256, 1, 7);
	begin(&known);
	feed(&target, bytes, sizeof(bytes));
	assert_true(target.over);
	assert_string_equal(tcp_tls_why(target.tls), "what it sends is no TLS");
	bytes[0] = 3;
	feed(&host, bytes, sizeof(bytes));
	assert_true(host.over);
	assert_string_equal(tcp_tls_why(host.tls), "what it sends is no TLS");
}

/* --- others' TLS --------------------------------------------------------------------------------
 */

struct other {
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out;
} other;

static int use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len, SSL_SESSION **ret)
{
	const unsigned char suite[2] = {0x13, known.hash == NVMF_AUTH_SHA256 ? 1 : 2};

	(void)md;
	*ret = SSL_SESSION_new();
	assert_true(SSL_SESSION_set1_master_key(*ret, known.key, known.len));
	assert_true(SSL_SESSION_set_cipher(*ret, SSL_CIPHER_find(ssl, suite)));
	assert_true(SSL_SESSION_set_protocol_version(*ret, TLS1_3_VERSION));
	*id = (const unsigned char *)known.identity;
	*len = strlen(known.identity);
	return 1;
}

static void other_begin(bool client, bool psk)
{
	other.ctx = SSL_CTX_new(client ? TLS_client_method() : TLS_server_method());
	if (psk)
		SSL_CTX_set_psk_use_session_callback(other.ctx, use);
	other.ssl = SSL_new(other.ctx);
	other.in = BIO_new(BIO_s_mem());
	other.out = BIO_new(BIO_s_mem());
	SSL_set_bio(other.ssl, other.in, other.out);
	if (client)
		SSL_set_connect_state(other.ssl);
	else
		SSL_set_accept_state(other.ssl);
}

static void other_end(void)
{
	SSL_free(other.ssl);
	SSL_CTX_free(other.ctx);
}

/* With one of ours, until neither has anything to say; what other has read goes to buffer. */
static int other_talk(struct side *s, void *buffer, int room)
{
	int got = 0;

	for (bool more = true; more;) {
		uint8_t bytes[20000];
		const void *p;
		size_t len;
		int n = SSL_read(other.ssl, (uint8_t *)buffer + got, room - got);

		got += max_of(n, 0);
		more = n > 0;
		n = BIO_read(other.out, bytes, sizeof(bytes));
		if (n > 0 && !s->over)
			feed(s, bytes, (size_t)n);
		more |= n > 0;
		tcp_tls_put(s->tls, &s->tx);
		len = tcp_tls_out(s->tls, &p);
		if (len) {
			BIO_write(other.in, p, (int)len);
			tcp_tls_sent(s->tls, len);
			more = true;
		}
	}
	return got;
}

/* A host that would rather have the longer cipher, with a key of the shorter hash. */
static void the_cipher_is_that_of_the_key(void **state)
{
	char buffer[100];

	(void)state;
	known = psk_of(NVMF_AUTH_SHA256, 1, 7);
	begin(NULL);
	other_begin(true, true);
	SSL_set_ciphersuites(other.ssl, "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256");
	other_talk(&target, buffer, sizeof(buffer));
	assert_int_equal(tcp_tls_state(target.tls), TCP_TLS_UP);
	assert_true(SSL_session_reused(other.ssl));
	assert_string_equal(SSL_get_cipher(other.ssl), "TLS_AES_128_GCM_SHA256");
	other_end();
}

static void keys_are_updated_when_the_other_side_asks_for_it(void **state)
{
	char buffer[100];
	struct tcp_out o;

	(void)state;
	known = psk_of(NVMF_AUTH_SHA384, 1, 7);
	begin(NULL);
	other_begin(true, true);
	other_talk(&target, buffer, sizeof(buffer));
	for (int i = 1; i <= 3; i++) {
		assert_true(SSL_key_update(other.ssl, SSL_KEY_UPDATE_REQUESTED));
		assert_int_equal(SSL_write(other.ssl, "new", 3), 3);
		other_talk(&target, buffer, sizeof(buffer));
		assert_int_equal(target.len, 3 * i);
		say(&target, &o, "answer", 6);
		assert_int_equal(other_talk(&target, buffer, sizeof(buffer)), 6);
		assert_memory_equal(buffer, "answer", 6);
	}
	other_end();
}

/* Whoever has it update without reading answers is not kept answers for. */
static void updates_that_nobody_takes_the_answers_of_end_it(void **state)
{
	uint8_t bytes[1000];
	int n, i;

	(void)state;
	known = psk_of(NVMF_AUTH_SHA256, 1, 7);
	begin(NULL);
	other_begin(true, true);
	other_talk(&target, bytes, sizeof(bytes));
	for (i = 0; i < 10000 && !target.over; i++) {
		assert_true(SSL_key_update(other.ssl, SSL_KEY_UPDATE_REQUESTED));
		assert_int_equal(SSL_write(other.ssl, "x", 1), 1);
		n = BIO_read(other.out, bytes, sizeof(bytes));
		assert_in_range(n, 1, sizeof(bytes));
		feed(&target, bytes, (size_t)n);
	}
	assert_in_range(i, 100, 9999);
	assert_string_equal(tcp_tls_why(target.tls), "it does not take what it is answered");
	other_end();
}

static void an_older_tls_is_refused(void **state)
{
	char buffer[100];

	(void)state;
	known = psk_of(NVMF_AUTH_SHA256, 1, 7);
	begin(NULL);
	other_begin(true, false);
	SSL_set_max_proto_version(other.ssl, TLS1_2_VERSION);
	other_talk(&target, buffer, sizeof(buffer));
	assert_true(target.over);
	assert_string_equal(tcp_tls_why(target.tls), "it does not speak TLS 1.3");
	assert_int_equal(looked_up, 0);
	other_end();
}

static void a_host_without_a_key_is_refused(void **state)
{
	char buffer[100];

	(void)state;
	known = psk_of(NVMF_AUTH_SHA256, 1, 7);
	begin(NULL);
	other_begin(true, false);
	other_talk(&target, buffer, sizeof(buffer));
	assert_true(target.over);
	assert_string_equal(tcp_tls_why(target.tls), "it offers no key");
	other_end();
}

static void give_certificate(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = X509_new();

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -100);
	X509_gmtime_adj(X509_getm_notAfter(x), 10000);
	X509_set_pubkey(x, key);
	assert_true(X509_sign(x, key, EVP_sha256()));
	assert_true(SSL_use_certificate(other.ssl, x));
	assert_true(SSL_use_PrivateKey(other.ssl, key));
	X509_free(x);
	EVP_PKEY_free(key);
}

/* It has a certificate, which is nothing to us. */
static void a_target_without_the_key_is_not_believed(void **state)
{
	char buffer[100];

	(void)state;
	known = psk_of(NVMF_AUTH_SHA256, 1, 7);
	begin(&known);
	other_begin(false, false);
	give_certificate();
	other_talk(&host, buffer, sizeof(buffer));
	assert_true(host.over);
	assert_int_equal(tcp_tls_state(host.tls), TCP_TLS_BROKEN);
	assert_string_equal(tcp_tls_why(host.tls), "it has a certificate, and not the key");
	other_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_the_key_is_spoken_with),
		cmocka_unit_test(another_key_is_not_known),
		cmocka_unit_test(another_key_of_the_same_name_is_not_believed),
		cmocka_unit_test(a_record_that_was_changed_ends_it),
		cmocka_unit_test(nothing_is_believed_of_a_record_before_its_end),
		cmocka_unit_test(a_record_that_is_repeated_ends_it),
		cmocka_unit_test(an_end_that_is_said_is_told_from_one_that_is_not),
		cmocka_unit_test(bytes_that_are_no_tls_are_told_from_it),
		cmocka_unit_test(the_cipher_is_that_of_the_key),
		cmocka_unit_test(keys_are_updated_when_the_other_side_asks_for_it),
		cmocka_unit_test(updates_that_nobody_takes_the_answers_of_end_it),
		cmocka_unit_test(an_older_tls_is_refused),
		cmocka_unit_test(a_host_without_a_key_is_refused),
		cmocka_unit_test(a_target_without_the_key_is_not_believed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
