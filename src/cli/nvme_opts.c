/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/nvme_opts.h"
#include "cli/provider.h"
#include "cli/secret.h"
#include "cli/size.h"
#include "nvmf/auth/hash.h"
#include "nvmf/lib/identity.h"

enum {
	KEY_PROVIDER = 0x100,
	KEY_TIMEOUT,
	KEY_TLS,
	KEY_TLS_KEY,
	KEY_TLS_IDENTITY,
	KEY_TLS_COMPAT,
	KEY_CONCAT,
	KEY_KEYRING,
	KEY_HOST_IFACE,
	KEY_TOS,
	KEY_QUIET,
	KEY_HDR_DIGEST = 'g',
	KEY_DATA_DIGEST = 'G',
};

void cli_parse(const struct argp *argp, const char *name, int argc, char **argv, void *input)
{
	char shown[64];

	/* argp names the program after argv[0]. */
	snprintf(shown, sizeof(shown), "weft %s", name);
	argv[0] = shown;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(argp, argc, argv, 0, NULL, input);
}

uint64_t cli_parse_number(struct argp_state *state, const char *option, const char *text,
			  uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 0);
	if (!isdigit((unsigned char)*text) || errno || *end || v < min || v > max)
		argp_error(state, "%s takes a number from %llu to %llu, not '%s'", option,
			   (unsigned long long)min, (unsigned long long)max, text);
	return v;
}

uint64_t cli_parse_size(struct argp_state *state, const char *option, const char *text,
			uint64_t min, uint64_t max)
{
	uint64_t v = 0;

	if (size_parse(text, min, max, &v) != 0)
		argp_error(state,
			   "%s takes a size (with k, m, g, t or p) from %llu to %llu, not '%s'",
			   option, (unsigned long long)min, (unsigned long long)max, text);
	return v;
}

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Where the subsystem is (instead of a URI):", 2},
	{"transport", 't', "rdma|tcp", 0, "What it is reached by (default rdma)", 2},
	{"traddr", 'a', "ADDRESS", 0, "Address or name of the target", 2},
	{"trsvcid", 's', "PORT", 0, "Its port (default 4420; 8009 of discovery over TCP)", 2},
	{"nqn", 'n', "NQN", 0, "NVMe qualified name of the subsystem", 2},
	{"namespace-id", 'N', "NSID", 0, "Namespace", 2},
	{NULL, 0, NULL, 0, "How it is reached:", 3},
	{"host-traddr", 'w', "ADDRESS", 0, "Connect from this address of the machine", 3},
	{"hostnqn", 'q', "NQN", 0, "Name of this host (default: /etc/nvme/hostnqn)", 3},
	{"hostid", 'I', "UUID", 0, "ID of this host (default: /etc/nvme/hostid)", 3},
	{"queue-size", 'Q', "ENTRIES", 0, "Entries of an I/O queue (default 128)", 3},
	{"keep-alive-tmo", 'k', "SECONDS", 0, "Keep-alive timeout, 0 for none (default 30)", 3},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0, "Timeout of a command (default 30)", 3},
	{"reconnect-delay", 'c', "SECONDS", 0, "Between attempts to reconnect (default 1)", 3},
	{"ctrl-loss-tmo", 'l', "SECONDS", 0,
	 "Reconnect for at most this long after a lost connection, 0 for not at all, -1 for ever "
	 "(default 30)",
	 3},
	{"hdr-digest", KEY_HDR_DIGEST, NULL, 0, "TCP: with digests of headers (CRC32C)", 3},
	{"data-digest", KEY_DATA_DIGEST, NULL, 0, "TCP: with digests of data", 3},
	{"dhchap-secret", 'S', "KEY", 0,
	 "Key of this host, where the subsystem demands one: DHHC-1:..., or @FILE for the first "
	 "line of a file",
	 3},
	{"dhchap-ctrl-secret", 'C', "KEY", 0,
	 "Key of the subsystem, which has to prove that it has it; the same", 3},
	{"tls", KEY_TLS, NULL, 0, "TCP: speak TLS, as a URI nvme+tcp+tls://... says, too", 3},
	{"tls-key", KEY_TLS_KEY, "KEY", 0,
	 "With this key of the host's: NVMeTLSkey-1:..., or @FILE for the first line of a file", 3},
	{"tls_key", KEY_TLS_KEY, "KEY", OPTION_ALIAS | OPTION_HIDDEN, NULL, 3},
	{"tls-identity", KEY_TLS_IDENTITY, "0|1", 0,
	 "By an identity of this version (default 1; older targets know 0 alone)", 3},
	{"tls-compat", KEY_TLS_COMPAT, NULL, 0,
	 "With keys derived as older nvme-cli does, that of Debian 13 among others", 3},
	{"concat", KEY_CONCAT, NULL, 0,
	 "TCP: have a key of TLS made by authentication, and speak TLS by that", 3},
	{"keyring", KEY_KEYRING, "NAME", OPTION_HIDDEN, "", 3},
	{"provider", KEY_PROVIDER, "weft|system", 0,
	 "Verbs library: weft (default), or system for the machine's own rdma-core", 3},
	{"output-format", 'o', "normal|json|binary", 0,
	 "How it is shown (default normal); binary is for what comes as one structure", 4},
	{0},
};

static void copy(struct argp_state *state, const char *option, char *dst, size_t room,
		 const char *src)
{
	if (strlen(src) >= room)
		argp_error(state, "%s takes at most %zu characters", option, room - 1);
	else
		strcpy(dst, src);
}

/* Here, or on the command line of which this is a line of a file. */
static bool has_key(const struct nvme_opts *o)
{
	return o->secret || o->key.len;
}

static void check_target(const struct nvme_opts *o, struct argp_state *state)
{
	static const char *const questions[] = {
		[NVME_OPTS_NAMESPACE] =
			("which namespace? nvme+rdma://HOST/NQN?ns=N, nvme+tcp://..., or "
			 "-t rdma|tcp -a ADDRESS -n NQN -N NSID"),
		[NVME_OPTS_CONTROLLER] =
			("which controller? nvme+rdma://HOST/NQN, nvme+tcp://..., or "
			 "-t rdma|tcp -a ADDRESS -n NQN"),
		[NVME_OPTS_DISCOVERY] =
			("which target? nvme+rdma://HOST, nvme+tcp://HOST, or -t rdma|tcp -a "
			 "ADDRESS"),
	};

	if (o->may_be_none && !o->uri.host[0])
		return;
	if (o->target != NVME_OPTS_OWN && !o->uri.host[0])
		argp_error(state, "%s", questions[o->target]);
	if (o->target != NVME_OPTS_OWN && (o->header_digest || o->data_digest) &&
	    strcmp(o->uri.transport, "tcp") != 0)
		argp_error(state,
			   "--hdr-digest and --data-digest are for TCP: nvme+tcp://, -t tcp");
	if (o->target != NVME_OPTS_OWN && o->host_iface[0] && strcmp(o->uri.transport, "tcp") != 0)
		argp_error(state, "--host-iface is for TCP: nvme+tcp://, -t tcp; by RDMA "
				  "--host-traddr says which address is connected from");
	if (o->target != NVME_OPTS_OWN && o->tls && strcmp(o->uri.transport, "tcp") != 0)
		argp_error(state, "--tls is for TCP: nvme+tcp+tls://, -t tcp");
	if (o->target != NVME_OPTS_OWN && o->concat && strcmp(o->uri.transport, "tcp") != 0)
		argp_error(state, "--concat is for TCP: nvme+tcp://, -t tcp");
	if (o->concat && (o->tls || o->uri.tls))
		argp_error(state, "--concat makes the key of TLS itself: it goes with nvme+tcp://, "
				  "without --tls and --tls-key");
	if (o->concat && !has_key(o))
		argp_error(state, "--concat takes a key of DH-HMAC-CHAP: --dhchap-secret=@FILE");
}

static void take_key(struct argp_state *state, const char *option, enum secret_kind kind,
		     char *word, struct auth_key *ret)
{
	char why[512];

	if (word && secret_read(kind, word, ret, why, sizeof(why))) {
		secret_mask(word);
		argp_error(state, "%s: %s", option, why);
	}
	secret_mask(word);
}

/* A program that is about to start anew leaves them to the one that it becomes. */
static void take_keys(struct nvme_opts *o, struct argp_state *state)
{
	if (provider_starts_anew(o->provider))
		return;
	if (o->ctrl_secret && !has_key(o))
		argp_error(state, "--dhchap-ctrl-secret goes with --dhchap-secret: who asks for "
				  "proof gives his own");
	take_key(state, "--dhchap-secret", SECRET_DHCHAP, o->secret, &o->key);
	take_key(state, "--dhchap-ctrl-secret", SECRET_DHCHAP, o->ctrl_secret, &o->ctrl_key);
	take_key(state, "--tls-key", SECRET_TLS, o->tls_secret, &o->tls_key);
	if ((o->tls || o->uri.tls) && !o->tls_key.len)
		argp_error(state, "TLS takes a key: --tls-key=@FILE; `weft gen-tls-key` makes one");
}

void nvme_opts_wipe(struct nvme_opts *opts)
{
	auth_wipe(&opts->key, sizeof(opts->key));
	auth_wipe(&opts->ctrl_key, sizeof(opts->ctrl_key));
	auth_wipe(&opts->tls_key, sizeof(opts->tls_key));
}

void cli_check_nqn_length(const struct argp_state *state, const char *option, const char *nqn)
{
	if (strlen(nqn) > NVME_URI_NQN_MAX)
		argp_error(state, "%s: a name of %zu characters; an NQN has at most %d", option,
			   strlen(nqn), NVME_URI_NQN_MAX);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct nvme_opts *o = state->input;
	uint8_t uuid[16];

	if (key == 'n' || key == 'q')
		cli_check_nqn_length(state, key == 'n' ? "--nqn" : "--hostnqn", arg);
	switch (key) {
	case 't':
		if (!nvme_transport_valid(arg))
			argp_error(state, "%s, not '%s'%s", nvme_transport_names, arg, o->advice);
		else
			strcpy(o->uri.transport, arg);
		return 0;
	case 'a':
		copy(state, "--traddr", o->uri.host, sizeof(o->uri.host), arg);
		return 0;
	case 's':
		if (!nvme_port_valid(arg))
			argp_error(state, "--trsvcid takes a port from 1 to 65535, not '%s'%s", arg,
				   o->advice);
		else
			strcpy(o->uri.port, arg);
		return 0;
	case 'n':
		if (!nvme_nqn_valid(arg))
			argp_error(state, "--nqn takes a name that begins nqn., not '%s'%s", arg,
				   o->advice);
		else
			strcpy(o->uri.nqn, arg);
		return 0;
	case 'N':
		if (nvme_nsid_parse(arg, &o->uri.nsid))
			argp_error(state, "--namespace-id takes 1 to 0xfffffffe, not '%s'", arg);
		return 0;
	case 'w':
		copy(state, "--host-traddr", o->host_traddr, sizeof(o->host_traddr), arg);
		return 0;
	case KEY_HOST_IFACE:
		copy(state, "--host-iface", o->host_iface, sizeof(o->host_iface), arg);
		return 0;
	case KEY_TOS:
		o->tos = strcmp(arg, "-1") == 0 /* nvme-cli's own default */
				 ? 0
				 : (unsigned int)cli_parse_number(state, "--tos", arg, 0, 255);
		return 0;
	case 'q':
		if (!nvme_nqn_valid(arg))
			argp_error(state, "--hostnqn takes a name that begins nqn., not '%s'", arg);
		else
			strcpy(o->uri.hostnqn, arg);
		return 0;
	case 'I':
		if (nvme_uuid_parse(arg, uuid))
			argp_error(state, "--hostid takes a UUID, not '%s'", arg);
		else
			nvme_uuid_format(uuid, o->uri.hostid);
		return 0;
	case 'Q':
		o->queue_size = (unsigned int)cli_parse_number(state, "--queue-size", arg, 2, 1024);
		return 0;
	case 'k':
		o->keep_alive_s =
			(unsigned int)cli_parse_number(state, "--keep-alive-tmo", arg, 0, 86400);
		return 0;
	case KEY_TIMEOUT:
		o->timeout_ms =
			1000 * (unsigned int)cli_parse_number(state, "--timeout", arg, 1, 86400);
		return 0;
	case 'c':
		o->reconnect_delay_s =
			(unsigned int)cli_parse_number(state, "--reconnect-delay", arg, 1, 3600);
		return 0;
	case 'l':
		if (strcmp(arg, "-1") == 0)
			o->ctrl_loss_s = -1;
		else
			o->ctrl_loss_s =
				(int)cli_parse_number(state, "--ctrl-loss-tmo", arg, 0, 86400);
		return 0;
	case KEY_HDR_DIGEST:
		o->header_digest = true;
		return 0;
	case KEY_DATA_DIGEST:
		o->data_digest = true;
		return 0;
	case 'S':
		o->secret = arg;
		return 0;
	case 'C':
		o->ctrl_secret = arg;
		return 0;
	case KEY_TLS_KEY:
		o->tls_secret = arg;
		o->tls = true;
		return 0;
	case KEY_TLS:
		o->tls = true;
		return 0;
	case KEY_TLS_IDENTITY:
		o->tls_way.version = (uint8_t)cli_parse_number(state, "--tls-identity", arg, 0, 1);
		return 0;
	case KEY_TLS_COMPAT:
		o->tls_way.compat = true;
		return 0;
	case KEY_CONCAT:
		o->concat = true;
		return 0;
	case KEY_KEYRING:
		argp_error(state, "the kernel's keyrings of TLS have keys of its own: "
				  "--tls-key=@keyring:NAME has one of the type \"user\", "
				  "--tls-key=@FILE one in a file");
		return 0;
	case KEY_PROVIDER:
		if (strcmp(arg, "weft") == 0)
			o->provider = NULL;
		else if (strcmp(arg, "system") == 0)
			o->provider = arg;
		else
			argp_error(state, "--provider is weft or system, not '%s'", arg);
		return 0;
	case 'o':
		if (output_format_parse(arg, &o->format))
			argp_error(state, "--output-format is normal, json or binary, not '%s'",
				   arg);
		else if (o->format == OUTPUT_BINARY && !o->takes_binary)
			argp_error(state, "there is no binary form of this: --output-format is "
					  "normal or json");
		return 0;
	case ARGP_KEY_ARG:
		if (o->target == NVME_OPTS_OWN)
			return ARGP_ERR_UNKNOWN;
		nvme_opts_take_uri(o, state, arg);
		return 0;
	case ARGP_KEY_END:
		check_target(o, state);
		take_keys(o, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* --- with and without the letters of nvme connect ---------------------------------------------
 *
 * Most verbs have letters of their own for what these are: of them the long words alone are taken.
 */

static const char host_iface_doc[] = "TCP: connect by this network interface";
static const char tos_doc[] = "Type of service or traffic class of what is sent (default 0)";

static const struct argp_option way_options[] = {
	{"host-iface", KEY_HOST_IFACE, "INTERFACE", 0, host_iface_doc, 3},
	{"tos", KEY_TOS, "N", 0, tos_doc, 3},
	{0},
};

static const struct argp_option connect_options[] = {
	{"host-iface", 'f', "INTERFACE", 0, host_iface_doc, 3},
	{"tos", 'T', "N", 0, tos_doc, 3},
	{"nr-io-queues", 'i', "N", OPTION_HIDDEN, NULL, 3},
	{"nr-write-queues", 'W', "N", OPTION_HIDDEN, NULL, 3},
	{"nr-poll-queues", 'P', "N", OPTION_HIDDEN, NULL, 3},
	{"persistent", 'p', NULL, OPTION_HIDDEN, NULL, 3},
	{"duplicate-connect", 'D', NULL, OPTION_HIDDEN, NULL, 3},
	{"disable-sqflow", 'd', NULL, OPTION_HIDDEN, NULL, 3},
	{"config", 'J', "FILE", OPTION_HIDDEN, NULL, 3},
	{"dump-config", 'O', NULL, OPTION_HIDDEN, NULL, 3},
	{"verbose", 'v', NULL, OPTION_HIDDEN, NULL, 3},
	{"quiet", KEY_QUIET, NULL, OPTION_HIDDEN, NULL, 3},
	{"force", KEY_QUIET, NULL, OPTION_HIDDEN, NULL, 3},
	{0},
};

static const struct {
	int key;
	const char *name;
} idle_options[] = {
	{'i', "--nr-io-queues"},
	{'W', "--nr-write-queues"},
	{'P', "--nr-poll-queues"},
	{'p', "--persistent"},
};

static bool take_idle(struct nvme_opts *o, struct argp_state *state, int key, const char *arg)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(idle_options); i++)
		if (idle_options[i].key == key) {
			if (arg)
				(void)cli_parse_number(state, idle_options[i].name, arg, 0,
						       UINT16_MAX);
			o->idle |= 1u << i;
			return true;
		}
	return false;
}

static void tell_idle(const struct nvme_opts *o)
{
	char names[80] = "";

	for (unsigned int i = 0; i < ARRAY_SIZE(idle_options); i++)
		if (o->idle & 1u << i)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
				 *names ? ", " : "", idle_options[i].name);
	if (*names && !o->of_file && !provider_starts_anew(o->provider))
		cli_warn("%s: without effect, as no device of the kernel's is made here", names);
}

static error_t parse_connect(int key, char *arg, struct argp_state *state)
{
	struct nvme_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = o;
		return 0;
	case 'f':
		return parse_option(KEY_HOST_IFACE, arg, state);
	case 'T':
		return parse_option(KEY_TOS, arg, state);
	case 'J':
		if (strcmp(arg, "none") != 0)
			argp_error(state, "nvme-cli's file of connections is not read: say what it "
					  "has of this one by options");
		return 0;
	case 'O':
		argp_error(state, "there is no configuration to be shown: nothing is connected "
				  "for longer than the command runs");
		return 0;
	case 'D': /* another connection is no duplicate here, and nothing was connected before */
	case 'd': /* over TCP it is always so, over RDMA it makes no difference */
	case 'v':
	case KEY_QUIET:
		return 0;
	case ARGP_KEY_SUCCESS:
		tell_idle(o);
		return 0;
	default:
		return take_idle(o, state, key, arg) ? 0 : ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_way(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->input;
		return 0;
	case KEY_HOST_IFACE:
	case KEY_TOS:
		return parse_option(key, arg, state);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp common_argp = {.options = options, .parser = parse_option};
static const struct argp_child common[] = {{&common_argp, 0, NULL, 0}, {0}};
static const struct argp way_argp = {
	.options = way_options,
	.parser = parse_way,
	.children = common,
};
static const struct argp connect_argp = {
	.options = connect_options,
	.parser = parse_connect,
	.children = common,
};
const struct argp_child nvme_opts_children[] = {{&way_argp, 0, NULL, 0}, {0}};
const struct argp_child nvme_connect_children[] = {{&connect_argp, 0, NULL, 0}, {0}};

void nvme_opts_init(struct nvme_opts *opts, enum nvme_opts_target target)
{
	*opts = (struct nvme_opts){
		.target = target,
		.keep_alive_s = 30,
		.queue_size = 128,
		.timeout_ms = 30 * 1000,
		.reconnect_delay_s = 1,
		.ctrl_loss_s = 30,
		.tls_way.version = 1,
	};
}

/* An address alone says all that there is to say of a discovery service. */
static const char *with_scheme(const char *text, const char *transport, char *buf, size_t room)
{
	const char *colon = strchr(text, ':');
	bool v6 = colon && strchr(colon + 1, ':') && text[0] != '[';

	if (strchr(text, '/') || nvme_uri_is(text))
		return text;
	snprintf(buf, room, "nvme+%s://%s%s%s", *transport ? transport : "rdma", v6 ? "[" : "",
		 text, v6 ? "]" : "");
	return buf;
}

/* What options said before stays; a URI after them fills the rest. */
void nvme_opts_take_uri(struct nvme_opts *opts, struct argp_state *state, const char *text)
{
	struct nvme_uri u;
	char whole[sizeof(u.host) + 32];
	const char *why;

	if (opts->has_uri || opts->uri.host[0]) {
		argp_error(state, "'%s' is one target too many", text);
		return;
	}
	if (opts->target == NVME_OPTS_DISCOVERY)
		text = with_scheme(text, opts->uri.transport, whole, sizeof(whole));
	if (nvme_uri_parse(text, &u, &why)) {
		argp_error(state, "'%s' is no target: %s", text, why);
		return;
	}
	opts->has_uri = true;
	strcpy(opts->uri.transport, u.transport);
	opts->uri.tls = u.tls;
	strcpy(opts->uri.host, u.host);
	if (!opts->uri.port[0])
		strcpy(opts->uri.port, u.port);
	if (!opts->uri.nqn[0])
		strcpy(opts->uri.nqn, u.nqn);
	if (!opts->uri.nsid && !opts->of_all)
		opts->uri.nsid = u.nsid;
	if (!opts->uri.hostnqn[0])
		strcpy(opts->uri.hostnqn, u.hostnqn);
	if (!opts->uri.hostid[0])
		strcpy(opts->uri.hostid, u.hostid);
	strcpy(opts->uri.rdma_transport, u.rdma_transport);
}

int nvme_host_identity(const struct nvme_opts *opts, char ret_nqn[NVME_URI_NQN_MAX + 1],
		       uint8_t ret_id[16])
{
	char why[256];
	int err = identity_of_host(opts->uri.hostnqn, opts->uri.hostid, ret_nqn, ret_id, why,
				   sizeof(why));

	if (err)
		cli_fail("%s", why);
	return err;
}
