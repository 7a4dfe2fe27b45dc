/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/host_options.h"

#include <string.h>

#include "cli/cli.h"

#define MS_PER_S 1000u

/* Of no length: there is none. */
static int set_key(struct weft_options *o, const struct auth_key *key,
		   void (*format)(const struct auth_key *, char ret[AUTH_KEY_TEXT_MAX]),
		   int (*set)(struct weft_options *, const char *))
{
	char text[AUTH_KEY_TEXT_MAX];
	int rc;

	if (!key->len)
		return 0;
	format(key, text);
	rc = set(o, text);
	explicit_bzero(text, sizeof(text));
	return rc;
}

static const char *or_null(const char *text)
{
	return text[0] ? text : NULL;
}

static int set_all(struct weft_options *o, const struct nvme_opts *opts)
{
	const struct nvme_uri *u = &opts->uri;
	const int64_t give_up_ms =
		opts->ctrl_loss_s < 0 ? -1 : (int64_t)opts->ctrl_loss_s * MS_PER_S;

	return weft_options_set_transport(o, u->transport) ||
	       weft_options_set_address(o, u->host) || weft_options_set_port(o, or_null(u->port)) ||
	       weft_options_set_nqn(o, u->nqn) ||
	       weft_options_set_source(o, or_null(opts->host_traddr)) ||
	       weft_options_set_hostnqn(o, or_null(u->hostnqn)) ||
	       weft_options_set_hostid(o, or_null(u->hostid)) ||
	       weft_options_set_queue_entries(o, opts->queue_size) ||
	       weft_options_set_keep_alive_ms(o, opts->keep_alive_s * MS_PER_S) ||
	       weft_options_set_command_timeout_ms(o, opts->timeout_s * MS_PER_S) ||
	       weft_options_set_reconnect(o, opts->reconnect_delay_s * MS_PER_S, give_up_ms) ||
	       weft_options_set_digests(o, opts->header_digest, opts->data_digest) ||
	       set_key(o, &opts->key, auth_key_format, weft_options_set_dhchap_key) ||
	       set_key(o, &opts->ctrl_key, auth_key_format, weft_options_set_dhchap_ctrl_key) ||
	       weft_options_set_tls(o, u->tls || (opts->tls && !strcmp(u->transport, "tcp"))) ||
	       set_key(o, &opts->tls_key, auth_tls_key_format, weft_options_set_tls_key);
}

struct weft_options *host_options(const struct nvme_opts *opts)
{
	struct weft_options *o;

	if (opts->tls_key.len && (opts->tls_way.version != 1 || opts->tls_way.compat)) {
		cli_fail("keys of TLS are derived in one way here: without --tls-identity and "
			 "--tls-compat");
		return NULL;
	}
	if (weft_options_create(&o) != 0) {
		cli_fail("no memory");
		return NULL;
	}
	if (set_all(o, opts) == 0)
		return o;
	cli_fail("%s", weft_options_error(o));
	weft_options_destroy(o);
	return NULL;
}
