/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/tcp/tls.h"

#include <assert.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

#include "base/cursor.h"

/* What a record takes besides: header, type, tag, and what OpenSSL may align by. */
#define RECORD_EXTRA 256u
/* Of it no record is made any more when less is free: answers and alerts have room behind. */
#define OUT_ROOM    (64u << 10)
#define OUT_RESERVE (8u << 10)
#define OFFERS_MAX  16 /* identities of a host that are looked at */
#define PIECES	    64

struct tcp_tls_context {
	SSL_CTX *ctx;
	BIO_METHOD *bio;
};

struct tcp_tls {
	SSL *ssl;
	bool target;
	enum tcp_tls_state state;
	char why[TCP_TLS_WHY_LEN];
	bool (*find)(void *arg, const char *identity, struct auth_psk *ret);
	void *arg;
	struct auth_psk psk; /* the host's, or the one that was found; wiped when it is up */
	const uint8_t *in;
	size_t in_len;
	size_t out_at, out_len;
	uint8_t out[OUT_ROOM + OUT_RESERVE];
};

static const struct suite {
	const char *name;
	uint8_t id[2];
} suites[] = {
	[NVMF_AUTH_SHA256] = {"TLS_AES_128_GCM_SHA256", {0x13, 0x01}},
	[NVMF_AUTH_SHA384] = {"TLS_AES_256_GCM_SHA384", {0x13, 0x02}},
};

/* more: what the other side has the choice of, or "". */
static void break_off(struct tcp_tls *t, const char *why, const char *more)
{
	t->state = TCP_TLS_BROKEN;
	if (t->why[0])
		return; /* it was known before */
	snprintf(t->why, sizeof(t->why), "%s%s%s%s", why, *more ? " (" : "", more,
		 *more ? ")" : "");
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int bio_read(BIO *b, char *to, int room)
{
	struct tcp_tls *t = BIO_get_data(b);
	size_t n = min_of(t->in_len, (size_t)room);

	BIO_clear_retry_flags(b);
	if (!n) {
		BIO_set_retry_read(b);
		return -1;
	}
	memcpy(to, t->in, n);
	t->in += n;
	t->in_len -= n;
	return (int)n;
}

static int bio_write(BIO *b, const char *from, int len)
{
	struct tcp_tls *t = BIO_get_data(b);
	size_t n = (size_t)len;

	BIO_clear_retry_flags(b);
	if (t->out_at && t->out_at + t->out_len + n > sizeof(t->out)) {
		memmove(t->out, t->out + t->out_at, t->out_len);
		t->out_at = 0;
	}
	if (t->out_at + t->out_len + n > sizeof(t->out)) {
		BIO_set_retry_write(b);
		return -1;
	}
	memcpy(t->out + t->out_at + t->out_len, from, n);
	t->out_len += n;
	return len;
}

static long bio_ctrl(BIO *b, int command, long number, void *p)
{
	(void)b;
	(void)number;
	(void)p;
	return command == BIO_CTRL_FLUSH;
}

/* --- keys ------------------------------------------------------------------------------------- */

static SSL_SESSION *session_of(SSL *ssl, const struct auth_psk *psk)
{
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suites[psk->hash].id);
	SSL_SESSION *s = SSL_SESSION_new();

	if (s && cipher && SSL_SESSION_set1_master_key(s, psk->key, psk->len) &&
	    SSL_SESSION_set_cipher(s, cipher) &&
	    SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION))
		return s;
	SSL_SESSION_free(s);
	return NULL;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_len,
		       SSL_SESSION **ret)
{
	struct tcp_tls *t = SSL_get_app_data(ssl);

	(void)md; /* no other suite is offered than that of the key's hash */
	*ret = session_of(ssl, &t->psk);
	*id = (const unsigned char *)t->psk.identity;
	*id_len = strlen(t->psk.identity);
	return *ret != NULL;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t id_len, SSL_SESSION **ret)
{
	const struct tcp_tls *t = SSL_get_app_data(ssl);

	*ret = NULL;
	if (!t->psk.len || id_len != strlen(t->psk.identity) ||
	    memcmp(id, t->psk.identity, id_len) != 0)
		return 1; /* not the one that was chosen */
	*ret = session_of(ssl, &t->psk);
	return *ret != NULL;
}

/* The first identity of which there is a key. */
static bool choose(struct tcp_tls *t, const uint8_t *p, size_t len)
{
	struct cursor c = cursor_init(p, len), ids;

	len = cursor_be16(&c);
	p = cursor_take(&c, len);
	if (!p)
		return false;
	ids = cursor_init(p, len);
	for (int i = 0; i < OFFERS_MAX && cursor_left(&ids); i++) {
		char identity[AUTH_IDENTITY_MAX];
		size_t n = cursor_be16(&ids);
		const uint8_t *at = cursor_take(&ids, n);

		cursor_skip(&ids, 4); /* its age */
		if (ids.overrun)
			break;
		if (n >= sizeof(identity) || memchr(at, 0, n))
			continue;
		memcpy(identity, at, n);
		identity[n] = 0;
		if (t->find(t->arg, identity, &t->psk))
			return true;
	}
	return false;
}

/* What a host offers is looked at before a suite is chosen, which is to be that of the key. */
static int hello(SSL *ssl, int *alert, void *arg)
{
	struct tcp_tls *t = SSL_get_app_data(ssl);
	const unsigned char *p;
	size_t len;

	(void)arg;
	if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_supported_versions, &p, &len))
		return SSL_CLIENT_HELLO_SUCCESS; /* an older TLS: which is said, and fails */
	if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &p, &len)) {
		*alert = SSL_AD_HANDSHAKE_FAILURE;
		break_off(t, "it offers no key", "");
		return SSL_CLIENT_HELLO_ERROR;
	}
	if (!t->psk.len && !choose(t, p, len)) {
		*alert = SSL_AD_UNKNOWN_PSK_IDENTITY;
		break_off(t, "there is no key of what it offers", "");
		return SSL_CLIENT_HELLO_ERROR;
	}
	return SSL_set_ciphersuites(ssl, suites[t->psk.hash].name) ? SSL_CLIENT_HELLO_SUCCESS
								   : SSL_CLIENT_HELLO_ERROR;
}

/* --- contexts --------------------------------------------------------------------------------- */

static bool set_up(SSL_CTX *ctx, bool target)
{
	/* What is sent goes from wherever it lies at the time; memory of idle ones is given back.
	 */
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
	/* A certificate is nothing that anybody here would believe. */
	SSL_CTX_set_verify(ctx, target ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	if (target) {
		SSL_CTX_set_client_hello_cb(ctx, hello, NULL);
		SSL_CTX_set_psk_find_session_callback(ctx, find_session);
	} else {
		SSL_CTX_set_psk_use_session_callback(ctx, use_session);
	}
	return SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) &&
	       SSL_CTX_set_num_tickets(ctx, 0) && SSL_CTX_set_max_early_data(ctx, 0) &&
	       SSL_CTX_set_ciphersuites(ctx, "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256");
}

struct tcp_tls_context *tcp_tls_context_create(bool target)
{
	struct tcp_tls_context *c = OPENSSL_zalloc(sizeof(*c));

	if (!c)
		return NULL;
	c->ctx = SSL_CTX_new(target ? TLS_server_method() : TLS_client_method());
	c->bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft");
	if (c->ctx && c->bio && set_up(c->ctx, target) && BIO_meth_set_read(c->bio, bio_read) &&
	    BIO_meth_set_write(c->bio, bio_write) && BIO_meth_set_ctrl(c->bio, bio_ctrl))
		return c;
	ERR_clear_error();
	tcp_tls_context_destroy(c);
	return NULL;
}

void tcp_tls_context_destroy(struct tcp_tls_context *c)
{
	if (!c)
		return;
	SSL_CTX_free(c->ctx);
	BIO_meth_free(c->bio);
	OPENSSL_free(c);
}

/* --- connections ------------------------------------------------------------------------------ */

static struct tcp_tls *create(struct tcp_tls_context *c)
{
	struct tcp_tls *t = OPENSSL_malloc(sizeof(*t));
	BIO *bio = BIO_new(c->bio);

	if (t)
		memset(t, 0, offsetof(struct tcp_tls, out));
	if (!t || !bio || !(t->ssl = SSL_new(c->ctx)) || !SSL_set_app_data(t->ssl, t)) {
		if (t)
			SSL_free(t->ssl);
		BIO_free(bio);
		OPENSSL_free(t);
		ERR_clear_error();
		return NULL;
	}
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	return t;
}

void tcp_tls_destroy(struct tcp_tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	auth_wipe(&t->psk, sizeof(t->psk));
	OPENSSL_free(t);
}

/* Of our own finding; of what the other side tells its alert. */
static void fail(struct tcp_tls *t)
{
	unsigned long error = ERR_peek_error();
	int reason = ERR_GET_REASON(error);
	const char *text = NULL, *more = ERR_reason_error_string(error);

	if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET &&
	    reason < SSL_AD_REASON_OFFSET + 256) {
		break_off(t, "the other side breaks off",
			  SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
		ERR_clear_error();
		return;
	}
	switch (ERR_GET_LIB(error) == ERR_LIB_SSL ? reason : 0) {
	case SSL_R_BINDER_DOES_NOT_VERIFY:
		text = "its key is not the one that goes with its name";
		break;
	case SSL_R_UNSUPPORTED_PROTOCOL:
	case SSL_R_VERSION_TOO_LOW:
		text = "it does not speak TLS 1.3";
		break;
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_HTTP_REQUEST:
		text = "what it sends is no TLS";
		break;
	case SSL_R_CERTIFICATE_VERIFY_FAILED:
		text = "it has a certificate, and not the key";
		break;
	case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
		text = "a record is not what was sent";
		break;
	default:
		break;
	}
	break_off(t, text ? text : "it fails", text || !more ? "" : more);
	ERR_clear_error();
}

static void shake(struct tcp_tls *t)
{
	int n, error;

	ERR_clear_error();
	n = SSL_do_handshake(t->ssl);
	error = SSL_get_error(t->ssl, n);
	if (n == 1) {
		/* Whatever the library thinks of it: nobody is believed but by the key. */
		if (!SSL_session_reused(t->ssl)) {
			break_off(t, "it has not shown that it has the key", "");
			return;
		}
		t->state = TCP_TLS_UP;
		auth_wipe(t->psk.key, sizeof(t->psk.key));
	} else if (error == SSL_ERROR_WANT_WRITE) {
		break_off(t, "it does not take what it is answered", "");
	} else if (error != SSL_ERROR_WANT_READ) {
		fail(t);
	}
}

struct tcp_tls *
tcp_tls_of_target(struct tcp_tls_context *c,
		  bool (*find)(void *arg, const char *identity, struct auth_psk *ret), void *arg)
{
	struct tcp_tls *t = create(c);

	if (!t)
		return NULL;
	t->target = true;
	t->find = find;
	t->arg = arg;
	SSL_set_accept_state(t->ssl);
	return t;
}

struct tcp_tls *tcp_tls_of_host(struct tcp_tls_context *c, const struct auth_psk *psk)
{
	struct tcp_tls *t = create(c);

	if (!t)
		return NULL;
	t->psk = *psk;
	SSL_set_connect_state(t->ssl);
	if (SSL_set_ciphersuites(t->ssl, suites[psk->hash].name))
		shake(t);
	else
		fail(t);
	return t;
}

enum tcp_tls_state tcp_tls_state(const struct tcp_tls *t)
{
	return t->state;
}

const char *tcp_tls_why(const struct tcp_tls *t)
{
	return t->why;
}

const char *tcp_tls_identity(const struct tcp_tls *t)
{
	return t->state == TCP_TLS_SHAKING || t->state == TCP_TLS_BROKEN ? "" : t->psk.identity;
}

/* --- data ------------------------------------------------------------------------------------- */

void tcp_tls_feed(struct tcp_tls *t, const void *p, size_t len)
{
	assert(!t->in_len);
	t->in = p;
	t->in_len = len;
}

size_t tcp_tls_unfeed(struct tcp_tls *t, const void **ret)
{
	size_t len = t->in_len;

	*ret = t->in;
	t->in_len = 0;
	return len;
}

ssize_t tcp_tls_take(struct tcp_tls *t, struct tcp_rx *rx, uint8_t *buffer, size_t room,
		     size_t *ret_len)
{
	struct iovec to = {buffer, room};
	bool wants;
	size_t n = 0;
	int error;

	*ret_len = 0;
	if (t->state == TCP_TLS_SHAKING)
		shake(t);
	if (t->state == TCP_TLS_SHAKING)
		return 0;
	if (t->state != TCP_TLS_UP) {
		t->in_len = 0;
		return -1;
	}
	wants = tcp_rx_wants(rx, &to, 1);
	ERR_clear_error(); /* a program's own would be taken for this one's */
	if (SSL_read_ex(t->ssl, to.iov_base, to.iov_len, &n)) {
		if (wants)
			tcp_rx_placed(rx, (uint32_t)n);
		else
			*ret_len = n;
		return (ssize_t)n;
	}
	error = SSL_get_error(t->ssl, 0);
	if (error == SSL_ERROR_WANT_READ)
		return 0;
	t->in_len = 0;
	if (error == SSL_ERROR_ZERO_RETURN)
		t->state = TCP_TLS_CLOSED;
	else if (error == SSL_ERROR_WANT_WRITE) /* to updates of keys, one after the other */
		break_off(t, "it does not take what it is answered", "");
	else
		fail(t);
	return -1;
}

/* A record's worth of what waits, where it lies or gathered. */
static size_t gather(const struct tcp_tx *tx, uint8_t buffer[TCP_TLS_RECORD], const void **ret)
{
	struct iovec iov[PIECES];
	unsigned int count = tcp_tx_iov(tx, iov, PIECES);
	size_t len = 0;

	*ret = buffer;
	if (count && iov[0].iov_len >= TCP_TLS_RECORD) {
		*ret = iov[0].iov_base;
		return TCP_TLS_RECORD;
	}
	for (unsigned int i = 0; i < count && len < TCP_TLS_RECORD; i++) {
		size_t n = min_of(iov[i].iov_len, TCP_TLS_RECORD - len);

		memcpy(buffer + len, iov[i].iov_base, n);
		len += n;
	}
	return len;
}

void tcp_tls_put(struct tcp_tls *t, struct tcp_tx *tx)
{
	uint8_t buffer[TCP_TLS_RECORD];
	const void *from;
	size_t len, n;

	while (t->state == TCP_TLS_UP && t->out_len + TCP_TLS_RECORD + RECORD_EXTRA <= OUT_ROOM &&
	       (len = gather(tx, buffer, &from))) {
		ERR_clear_error();
		if (!SSL_write_ex(t->ssl, from, len, &n)) {
			if (SSL_get_error(t->ssl, 0) == SSL_ERROR_SSL)
				fail(t);
			return;
		}
		tcp_tx_sent(tx, n);
	}
}

void tcp_tls_close(struct tcp_tls *t)
{
	if (t->state != TCP_TLS_UP && t->state != TCP_TLS_CLOSED)
		return;
	(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
	t->state = TCP_TLS_CLOSED;
}

size_t tcp_tls_out(const struct tcp_tls *t, const void **ret)
{
	*ret = t->out + t->out_at;
	return t->out_len;
}

void tcp_tls_sent(struct tcp_tls *t, size_t n)
{
	assert(n <= t->out_len);
	t->out_len -= n;
	t->out_at = t->out_len ? t->out_at + n : 0;
}
