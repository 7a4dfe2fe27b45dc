/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/auth/hash.h"
#include "nvmf/lib/internal.h"

const char *weft_nvmf_version(void)
{
	return WEFT_VERSION;
}

int weft_options_create(struct weft_options **ret)
{
	struct weft_options *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->io_queues = 1;
	o->entries = 128;
	o->keep_alive_ms = 30000;
	o->command_timeout_ms = 30000;
	o->connect_timeout_ms = 15000;
	o->shutdown_timeout_ms = 5000;
	o->reconnect_delay_ms = 1000;
	o->give_up_ms = 30000;
	o->bounce_bytes = 16 << 20;
	o->tls_way.version = 1;
	*ret = o;
	return 0;
}

void weft_options_destroy(struct weft_options *o)
{
	if (!o)
		return;
	auth_wipe(o, sizeof(*o));
	free(o);
}

const char *weft_options_error(const struct weft_options *o)
{
	return o->error;
}

int options_fail(struct weft_options *o, int error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(o->error, sizeof(o->error), fmt, ap);
	va_end(ap);
	return error;
}

static int set_text(struct weft_options *o, char *dst, size_t room, const char *text,
		    const char *what)
{
	if (text && strlen(text) >= room)
		return options_fail(o, -EINVAL, "%s has more than %zu characters", what, room - 1);
	strcpy(dst, text ? text : "");
	return 0;
}

static int set_number(struct weft_options *o, unsigned int *dst, unsigned int v, unsigned int min,
		      unsigned int max, const char *what)
{
	if (v < min || v > max)
		return options_fail(o, -EINVAL, "%s from %u to %u, not %u", what, min, max, v);
	*dst = v;
	return 0;
}

/* --- where ------------------------------------------------------------------------------------ */

int weft_options_set_uri(struct weft_options *o, const char *uri)
{
	struct nvme_uri u;
	const char *why;

	if (!uri)
		return options_fail(o, -EINVAL, "no URI");
	if (nvme_uri_parse(uri, &u, &why))
		return options_fail(o, -EINVAL, "'%.200s' is no URI of a target: %s", uri, why);
	strcpy(o->uri.transport, u.transport);
	o->uri.tls = u.tls || o->tls; /* who has asked for it is not to be heard in plain */
	strcpy(o->uri.host, u.host);
	if (u.port[0])
		strcpy(o->uri.port, u.port);
	if (u.nqn[0])
		strcpy(o->uri.nqn, u.nqn);
	if (u.hostnqn[0])
		strcpy(o->uri.hostnqn, u.hostnqn);
	if (u.hostid[0])
		strcpy(o->uri.hostid, u.hostid);
	if (u.nsid)
		o->uri.nsid = u.nsid;
	if (u.rdma_transport[0])
		strcpy(o->uri.rdma_transport, u.rdma_transport);
	return 0;
}

uint32_t weft_options_nsid(const struct weft_options *o)
{
	return o->uri.nsid;
}

int weft_options_set_transport(struct weft_options *o, const char *name)
{
	if (!name || !nvme_transport_valid(name))
		return options_fail(o, -EINVAL, "%s, not '%.32s'", nvme_transport_names,
				    name ? name : "");
	strcpy(o->uri.transport, name);
	return 0;
}

int weft_options_set_address(struct weft_options *o, const char *address)
{
	return set_text(o, o->uri.host, sizeof(o->uri.host), address, "the target's address");
}

int weft_options_set_port(struct weft_options *o, const char *port)
{
	if (port && !nvme_port_valid(port))
		return options_fail(o, -EINVAL, "a port is a number from 1 to 65535, not '%.32s'",
				    port);
	return set_text(o, o->uri.port, sizeof(o->uri.port), port, "the port");
}

int weft_options_set_source(struct weft_options *o, const char *address)
{
	return set_text(o, o->source, sizeof(o->source), address, "the own address");
}

int weft_options_set_interface(struct weft_options *o, const char *name)
{
	return set_text(o, o->interface, sizeof(o->interface), name, "the interface's name");
}

static int set_nqn(struct weft_options *o, char *dst, const char *nqn)
{
	if (nqn && !nvme_nqn_valid(nqn))
		return options_fail(
			o, -EINVAL,
			"an NQN begins nqn. and has at most 223 characters; '%.64s' is none", nqn);
	return set_text(o, dst, sizeof(o->uri.nqn), nqn, "the NQN");
}

int weft_options_set_nqn(struct weft_options *o, const char *nqn)
{
	return set_nqn(o, o->uri.nqn, nqn);
}

int weft_options_set_hostnqn(struct weft_options *o, const char *nqn)
{
	return set_nqn(o, o->uri.hostnqn, nqn);
}

int weft_options_set_hostid(struct weft_options *o, const char *uuid)
{
	uint8_t id[16];

	if (uuid && nvme_uuid_parse(uuid, id))
		return options_fail(o, -EINVAL, "a host ID is a UUID; '%.64s' is none", uuid);
	return set_text(o, o->uri.hostid, sizeof(o->uri.hostid), uuid, "the host ID");
}

/* --- how -------------------------------------------------------------------------------------- */

int weft_options_set_io_queues(struct weft_options *o, unsigned int queues)
{
	return set_number(o, &o->io_queues, queues, 0, HOST_IO_QUEUES_MAX, "I/O queues:");
}

int weft_options_set_queue_entries(struct weft_options *o, unsigned int entries)
{
	return set_number(o, &o->entries, entries, 2, HOST_ENTRIES_MAX + 1, "entries of a queue:");
}

int weft_options_set_rdma_transport(struct weft_options *o, const char *name)
{
	if (name && !nvme_rdma_transport_valid(name))
		return options_fail(o, -EINVAL, "RDMA's transport is roce or iwarp, not '%.32s'",
				    name);
	strcpy(o->uri.rdma_transport, name ? name : "");
	return 0;
}

int weft_options_set_tos(struct weft_options *o, unsigned int tos)
{
	return set_number(o, &o->tos, tos, 0, 255, "the type of service:");
}

int weft_options_set_keep_alive_ms(struct weft_options *o, uint32_t ms)
{
	o->keep_alive_ms = ms;
	return 0;
}

static int set_timeout(struct weft_options *o, uint32_t *dst, uint32_t ms)
{
	if (!ms)
		return options_fail(o, -EINVAL, "a timeout is at least a millisecond");
	*dst = ms;
	return 0;
}

int weft_options_set_command_timeout_ms(struct weft_options *o, uint32_t ms)
{
	return set_timeout(o, &o->command_timeout_ms, ms);
}

int weft_options_set_connect_timeout_ms(struct weft_options *o, uint32_t ms)
{
	return set_timeout(o, &o->connect_timeout_ms, ms);
}

int weft_options_set_shutdown_timeout_ms(struct weft_options *o, uint32_t ms)
{
	return set_timeout(o, &o->shutdown_timeout_ms, ms);
}

int weft_options_set_reconnect(struct weft_options *o, uint32_t delay_ms, int64_t give_up_ms)
{
	if (give_up_ms < -1 || give_up_ms > INT64_MAX / (int64_t)NSEC_PER_SEC)
		return options_fail(o, -EINVAL,
				    "attempts to reconnect end after some milliseconds, or -1: "
				    "never");
	if (give_up_ms && set_timeout(o, &o->reconnect_delay_ms, delay_ms))
		return -EINVAL;
	o->give_up_ms = give_up_ms;
	return 0;
}

int weft_options_set_digests(struct weft_options *o, bool header, bool data)
{
	o->header_digest = header;
	o->data_digest = data;
	return 0;
}

typedef int parse_fn(const char *text, struct auth_key *ret, const char **ret_why);

static int set_key(struct weft_options *o, struct auth_key *dst, const char *text, parse_fn *parse,
		   const char *what, const char *maker)
{
	struct auth_key k = {0};
	const char *why;

	if (text && parse(text, &k, &why))
		return options_fail(o, -EINVAL, "%s key: %s; `weft %s` makes one", what, why,
				    maker);
	*dst = k;
	auth_wipe(&k, sizeof(k));
	return 0;
}

int weft_options_set_dhchap_key(struct weft_options *o, const char *key)
{
	return set_key(o, &o->key, key, auth_key_parse, "DH-HMAC-CHAP", "gen-dhchap-key");
}

int weft_options_set_dhchap_ctrl_key(struct weft_options *o, const char *key)
{
	return set_key(o, &o->ctrl_key, key, auth_key_parse, "DH-HMAC-CHAP", "gen-dhchap-key");
}

int weft_options_set_tls(struct weft_options *o, bool tls)
{
	o->uri.tls = o->tls = tls;
	return 0;
}

int weft_options_set_tls_key(struct weft_options *o, const char *key)
{
	return set_key(o, &o->tls_key, key, auth_tls_key_parse, "TLS", "gen-tls-key");
}

int weft_options_set_tls_identity(struct weft_options *o, unsigned int version, bool compat)
{
	if (version > 1)
		return options_fail(o, -EINVAL, "identities of TLS have version 0 or 1, not %u",
				    version);
	o->tls_way = (struct auth_psk_way){.version = (uint8_t)version, .compat = compat};
	return 0;
}

int weft_options_set_persistent(struct weft_options *o, bool persistent)
{
	o->persistent = persistent;
	return 0;
}

int weft_options_set_advice(struct weft_options *o, enum weft_advice which, const char *text)
{
	if ((unsigned int)which >= ADVICES)
		return options_fail(o, -EINVAL, "there is no such advice: %u", (unsigned int)which);
	return set_text(o, o->advice[which], sizeof(o->advice[which]), text, "advice");
}

int weft_options_set_concat(struct weft_options *o, bool concat)
{
	o->concat = concat;
	return 0;
}

int weft_options_set_bounce_bytes(struct weft_options *o, size_t bytes)
{
	if (bytes < 1 << 20)
		return options_fail(o, -EINVAL, "memory to copy data into is at least 1 MiB");
	o->bounce_bytes = bytes;
	return 0;
}

int weft_options_set_memory_windows(struct weft_options *o, bool windows)
{
	o->plain_keys = !windows;
	return 0;
}

int weft_options_set_state_fn(struct weft_options *o, weft_state_fn *fn, void *arg)
{
	o->state_fn = fn;
	o->state_arg = arg;
	return 0;
}

int weft_options_set_event_fn(struct weft_options *o, weft_event_fn *fn, void *arg)
{
	o->event_fn = fn;
	o->event_arg = arg;
	return 0;
}
