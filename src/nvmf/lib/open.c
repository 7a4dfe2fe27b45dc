/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A controller's coming and going. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/sight.h"
#include "nvmf/auth/hash.h"
#include "nvmf/lib/internal.h"

#define RESOLVE_TIMEOUT_MS 5000

#define X(name, unit, text) #name " "
static const char counter_keys[] =
#include "nvmf/host/counters.def"
	;
#undef X

static void random_bytes(void *arg, void *p, size_t len)
{
	(void)arg;
	for (uint8_t *at = p; len;) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0 && errno != EINTR)
			abort(); /* nothing that can be guessed goes out in its place */
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
}

/* --- coming ----------------------------------------------------------------------------------- */

static void ctrl_free(struct weft_ctrl *c)
{
	if (c->transport) {
		group_unwatch(c);
		c->transport->ops->destroy(c->transport);
	}
	list_remove(&c->link);
	host_forget(&c->host);
	namespaces_free(c);
	requests_free(c);
	memory_free(c);
	sight_release(c->counters);
	free(c->queues);
	free(c->places);
	free(c->scratch);
	free(c);
}

void place_text(const struct nvme_uri *u, char *text, size_t room)
{
	snprintf(text, room, strchr(u->host, ':') ? "[%s]:%s" : "%s:%s", u->host, u->port);
}

/* What is to be connected to, whole. */
static struct nvme_uri settle(const struct weft_options *o, const struct nvmf_transport *kind)
{
	struct nvme_uri u = o->uri;

	strcpy(u.transport, kind->name);
	if (!u.port[0])
		snprintf(u.port, sizeof(u.port), "%s", kind->port);
	return u;
}

static int check(struct weft_options *o, const struct nvme_uri *u)
{
	char place[300];

	if (!u->host[0])
		return options_fail(o, -EINVAL, "which target? Its address is not set");
	place_text(u, place, sizeof(place));
	if (!u->nqn[0])
		return options_fail(o, -EINVAL,
				    "no subsystem is named; `weft discover nvme+%s://%s` lists "
				    "those there are",
				    u->transport, place);
	if ((o->header_digest || o->data_digest) && strcmp(u->transport, "tcp") != 0)
		return options_fail(o, -EINVAL, "digests are for TCP: nvme+tcp://");
	if (o->interface[0] && strcmp(u->transport, "tcp") != 0)
		return options_fail(o, -EINVAL,
				    "an interface is chosen for TCP alone: nvme+tcp://; by RDMA "
				    "an own address says what is connected from");
	if (u->rdma_transport[0] && strcmp(u->transport, "rdma") != 0)
		return options_fail(o, -EINVAL, "transport=%s is for RDMA: nvme+rdma://",
				    u->rdma_transport);
	if (u->tls && strcmp(u->transport, "tcp") != 0)
		return options_fail(o, -EINVAL, "TLS is for TCP: nvme+tcp+tls://");
	if (u->tls && !o->tls_key.len)
		return options_fail(
			o, -EINVAL,
			"TLS takes a key, and none is set; `weft gen-tls-key` makes one");
	if (o->concat && strcmp(u->transport, "tcp") != 0)
		return options_fail(
			o, -EINVAL,
			"concatenation makes a channel of TLS: it is for TCP: nvme+tcp://");
	if (o->concat && (u->tls || o->tls_key.len))
		return options_fail(o, -EINVAL,
				    "concatenation makes the key of TLS itself: it goes with "
				    "nvme+tcp://, and no key that is set");
	if (o->concat && !o->key.len)
		return options_fail(
			o, -EINVAL,
			"concatenation takes a DH-HMAC-CHAP key of the host's, and none "
			"is set");
	if (o->tls_key.len && !u->tls && strcmp(u->transport, "tcp") == 0)
		return options_fail(o, -EINVAL,
				    "there is a key of TLS, and TLS is not asked for: it goes with "
				    "nvme+tcp+tls://");
	if (o->ctrl_key.len && !o->key.len)
		return options_fail(o, -EINVAL,
				    "the controller's DH-HMAC-CHAP key goes with the host's own: "
				    "who asks for proof gives his own");
	return 0;
}

static int host_set_up(struct weft_ctrl *c, struct weft_options *o)
{
	bool discovery = strcmp(o->uri.nqn, NVMF_DISCOVERY_NQN) == 0;
	struct host_config hc = {
		.io_queues = (uint16_t)(c->queue_count - 1),
		.io_entries = (uint16_t)min_of(o->entries, (unsigned int)HOST_ENTRIES_MAX),
		/* A discovery controller has nothing to be kept for, unless its log is watched. */
		.keep_alive_ms = discovery && !o->persistent ? 0 : o->keep_alive_ms,
		.open_timeout_ns = o->connect_timeout_ms * NSEC_PER_MSEC,
		.command_timeout_ns = o->command_timeout_ms * NSEC_PER_MSEC,
		.shutdown_timeout_ns = o->shutdown_timeout_ms * NSEC_PER_MSEC,
		.reconnect_delay_ns = o->reconnect_delay_ms * NSEC_PER_MSEC,
		.loss_timeout_ns =
			o->give_up_ms < 0 ? UINT64_MAX : (uint64_t)o->give_up_ms * NSEC_PER_MSEC,
		.key = o->key,
		.ctrl_key = o->ctrl_key,
		.concat = o->concat,
		.random = random_bytes,
		.changed = ctrl_changed,
		.over = ctrl_over,
		.event = ctrl_event,
		.reads_changes = c->event_fn,
		.namespace_lost = ctrl_namespace_lost,
		.arg = c,
		.counters = c->counters,
	};
	int err;

	memcpy(hc.subnqn, c->nqn, sizeof(hc.subnqn));
	memcpy(hc.hostnqn, c->hostnqn, sizeof(hc.hostnqn));
	memcpy(hc.hostid, c->hostid, sizeof(hc.hostid));
	err = host_init(&c->host, &hc, c->transport->ops->queues, c->transport, c->queues,
			c->places, c->scratch);
	if (err)
		options_fail(o, err, "the options are beyond the host's limits");
	auth_wipe(&hc, sizeof(hc));
	return err;
}

static int transport_set_up(struct weft_ctrl *c, struct weft_options *o)
{
	struct transport_host_config tc = {
		.host = c->uri.host,
		.port = c->uri.port,
		.source = o->source,
		.interface = o->interface,
		.rdma_transport = c->uri.rdma_transport,
		.tos = (uint8_t)o->tos,
		.io_queues = (uint16_t)(c->queue_count - 1),
		.io_entries = (uint16_t)o->entries,
		.resolve_timeout_ms = RESOLVE_TIMEOUT_MS,
		.bounce_bytes = o->bounce_bytes,
		.plain_keys = o->plain_keys,
		.header_digest = o->header_digest,
		.data_digest = o->data_digest,
	};
	struct auth_psk psk;
	char why[512];

	if (o->uri.tls) {
		if (!auth_psk_derive(&o->tls_key, o->tls_way, c->hostnqn, c->nqn, &psk))
			return options_fail(
				o, -EINVAL,
				"the names of host '%s' and subsystem '%s' are too long "
				"for an identity of version %u",
				c->hostnqn, c->nqn, o->tls_way.version);
		tc.tls = &psk;
	}
	c->transport = c->kind->host_create(&tc, why, sizeof(why));
	if (tc.tls)
		auth_wipe(&psk, sizeof(psk));
	if (!c->transport)
		return options_fail(o, -EIO, "%s", why);
	c->transport->ops->attach(c->transport, &c->host);
	if (c->transport->ops->add_memory(c->transport, c->scratch,
					  HOST_SCRATCH_LEN + NVME_IDENTIFY_LEN))
		return options_fail(o, -EIO, "%s", c->transport->ops->error(c->transport));
	return 0;
}

static int identify_host(struct weft_ctrl *c, struct weft_options *o)
{
	char why[256];
	int err = identity_of_host(o->uri.hostnqn, o->uri.hostid, c->hostnqn, c->hostid, why,
				   sizeof(why));

	return err ? options_fail(o, err, "%s", why) : 0;
}

static int allocate(struct weft_ctrl *c, const struct weft_options *o)
{
	unsigned int entries = min_of(o->entries, (unsigned int)HOST_ENTRIES_MAX);

	c->counters = sight_take("host", counter_keys, SIGHT_COLUMNS(struct host_counters), 1);
	c->queues = calloc(c->queue_count, sizeof(*c->queues));
	c->places = calloc(HOST_ADMIN_ENTRIES + (size_t)(c->queue_count - 1) * entries,
			   sizeof(*c->places));
	c->scratch = aligned_alloc(NVME_IDENTIFY_LEN, HOST_SCRATCH_LEN + NVME_IDENTIFY_LEN);
	return c->queues && c->places && c->scratch ? 0 : -ENOMEM;
}

int weft_ctrl_create(struct weft_group *g, struct weft_options *o, struct weft_ctrl **ret)
{
	bool discovery = strcmp(o->uri.nqn, NVMF_DISCOVERY_NQN) == 0;
	unsigned int count = 1 + (discovery ? 0 : o->io_queues);
	const struct nvmf_transport *kind = transport_at(transport_index(o->uri.transport));
	struct nvme_uri uri = settle(o, kind);
	struct weft_ctrl *c;
	int err = check(o, &uri);

	if (err)
		return err;
	c = calloc(1, sizeof(*c) + count * sizeof(c->queue[0]));
	if (!c)
		return options_fail(o, -ENOMEM, "out of memory");
	c->group = g;
	list_init(&c->link);
	list_init(&c->idle);
	list_init(&c->memory);
	c->queue_count = count;
	for (unsigned int i = 0; i < count; i++)
		c->queue[i] = (struct weft_queue){.ctrl = c, .qid = (uint16_t)i};
	c->kind = kind;
	c->uri = uri;
	place_text(&uri, c->place, sizeof(c->place));
	memcpy(c->advice, o->advice, sizeof(c->advice));
	c->state_fn = o->state_fn;
	c->state_arg = o->state_arg;
	c->event_fn = o->event_fn;
	c->event_arg = o->event_arg;
	strcpy(c->nqn, o->uri.nqn);
	err = allocate(c, o);
	if (err)
		options_fail(o, err, "out of memory");
	if (!err)
		err = identify_host(c, o);
	if (!err)
		err = transport_set_up(c, o);
	if (!err)
		err = host_set_up(c, o);
	if (err) {
		ctrl_free(c);
		return err;
	}
	c->todo = TODO_START;
	list_push_tail(&g->ctrls, &c->link);
	*ret = c;
	return 0;
}

int weft_ctrl_open(struct weft_group *g, struct weft_options *o, struct weft_ctrl **ret)
{
	struct weft_ctrl *c;
	int err;

	if (g->depth)
		return options_fail(o, -EBUSY, "a function that is called cannot wait");
	err = weft_ctrl_create(g, o, &c);
	if (err)
		return err;
	while (!err && c->state == WEFT_CTRL_CONNECTING) {
		err = group_wait(g, -1);
		err = err < 0 && err != -EINTR ? err : 0;
		if (group_interrupted(g))
			err = -EINTR;
	}
	if (err == -EINTR)
		options_fail(o, err, "connecting to %s was interrupted", c->place);
	else if (err)
		options_fail(o, err, "cannot wait for %s: %s", c->place, strerror(-err));
	else if (c->state == WEFT_CTRL_FAILED)
		err = options_fail(o, -EIO, "%s", c->error);
	else if (c->state != WEFT_CTRL_LIVE)
		err = options_fail(o, -ECANCELED, "connecting to %s was given up", c->place);
	if (err)
		(void)weft_ctrl_destroy(c);
	else
		*ret = c;
	return err;
}

/* --- going ------------------------------------------------------------------------------------ */

int weft_ctrl_destroy(struct weft_ctrl *c)
{
	if (!c)
		return 0;
	if (c->group->depth)
		return -EBUSY;
	ctrl_abandon(c);
	ctrl_free(c);
	return 0;
}

int weft_ctrl_close(struct weft_ctrl *c)
{
	bool failed;

	if (!c)
		return 0;
	if (c->group->depth)
		return -EBUSY;
	weft_ctrl_shutdown(c);
	while (!ctrl_ended(c)) {
		int r = group_wait(c->group, -1);

		(void)group_interrupted(c->group);
		if (r < 0 && r != -EINTR)
			break;
	}
	ctrl_abandon(c);
	failed = ctrl_ended_in_disorder(c);
	(void)weft_ctrl_destroy(c);
	return failed ? -EIO : 0;
}
