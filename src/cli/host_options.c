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

static bool by_tls(const struct nvme_opts *opts)
{
	return opts->uri.tls || (opts->tls && strcmp(opts->uri.transport, "tcp") == 0);
}

static int advise(struct weft_options *o)
{
	return weft_options_set_advice(o, WEFT_ADVICE_HOSTNQN, "say --hostnqn") ||
	       weft_options_set_advice(o, WEFT_ADVICE_TIMEOUT, "give it longer with --timeout") ||
	       weft_options_set_advice(o, WEFT_ADVICE_KEEP_ALIVE, "--keep-alive-tmo") ||
	       weft_options_set_advice(o, WEFT_ADVICE_NSID, " or --namespace-id=") ||
	       weft_options_set_advice(o, WEFT_ADVICE_KEYS,
				       "the keys are named by --dhchap-secret=@FILE and "
				       "--dhchap-ctrl-secret=@FILE");
}

static int set_all(struct weft_options *o, const struct nvme_opts *opts)
{
	const struct nvme_uri *u = &opts->uri;
	const bool tcp = strcmp(u->transport, "tcp") == 0;
	const int64_t give_up_ms =
		opts->ctrl_loss_s < 0 ? -1 : (int64_t)opts->ctrl_loss_s * MS_PER_S;

	return weft_options_set_transport(o, u->transport[0] ? u->transport : "rdma") ||
	       weft_options_set_address(o, u->host) || weft_options_set_port(o, or_null(u->port)) ||
	       weft_options_set_nqn(o, or_null(u->nqn)) ||
	       weft_options_set_source(o, or_null(opts->host_traddr)) ||
	       weft_options_set_interface(o, tcp ? or_null(opts->host_iface) : NULL) ||
	       weft_options_set_rdma_transport(o, or_null(u->rdma_transport)) ||
	       weft_options_set_tos(o, opts->tos) ||
	       weft_options_set_hostnqn(o, or_null(u->hostnqn)) ||
	       weft_options_set_hostid(o, or_null(u->hostid)) ||
	       weft_options_set_queue_entries(o, opts->queue_size) ||
	       weft_options_set_keep_alive_ms(o, opts->keep_alive_s * MS_PER_S) ||
	       weft_options_set_command_timeout_ms(o, opts->timeout_ms) ||
	       weft_options_set_reconnect(o, opts->reconnect_delay_s * MS_PER_S, give_up_ms) ||
	       weft_options_set_digests(o, tcp && opts->header_digest, tcp && opts->data_digest) ||
	       set_key(o, &opts->key, auth_key_format, weft_options_set_dhchap_key) ||
	       set_key(o, &opts->ctrl_key, auth_key_format, weft_options_set_dhchap_ctrl_key) ||
	       weft_options_set_tls(o, by_tls(opts)) ||
	       weft_options_set_tls_identity(o, opts->tls_way.version, opts->tls_way.compat) ||
	       set_key(o, &opts->tls_key, auth_tls_key_format, weft_options_set_tls_key) ||
	       weft_options_set_concat(o, tcp && opts->concat);
}

struct weft_options *host_options(const struct nvme_opts *opts)
{
	struct weft_options *o;

	if (by_tls(opts) && !opts->tls_key.len) {
		cli_fail("%s%s%s is to be reached by TLS, and there is no key: --tls-key=@FILE",
			 opts->uri.host, opts->uri.port[0] ? ":" : "", opts->uri.port);
		return NULL;
	}
	if (weft_options_create(&o) != 0) {
		cli_fail("no memory");
		return NULL;
	}
	if (set_all(o, opts) == 0 && advise(o) == 0)
		return o;
	cli_fail("%s", weft_options_error(o));
	weft_options_destroy(o);
	return NULL;
}
