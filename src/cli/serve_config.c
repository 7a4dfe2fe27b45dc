/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is served: read at the start, and again while it is. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/handed.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "cli/serve_events.h"
#include "cli/transports.h"
#include "nvmf/transport/address.h"

static void listen_where_handed(struct serve_options *o)
{
	for (unsigned i = 0; handed_at(i) && o->listen_count < LISTEN_MAX; i++) {
		const struct handed *h = handed_at(i);
		struct nvme_uri *u = &o->listen[o->listen_count];

		if (!h->listens || strcmp(h->name, SERVE_METRICS_SOCKET) == 0)
			continue;
		strcpy(u->transport, "tcp");
		address_text((const struct sockaddr *)&h->address, u->host, sizeof(u->host));
		snprintf(u->port, sizeof(u->port), "%.7s", strrchr(h->at, ':') + 1);
		o->listen_count++;
	}
}

/* While hosts are there, and when one comes, files are looked at: they may have another size. */
#define MEASURE_NS NSEC_PER_SEC

static void default_listen(struct serve_options *o)
{
	if (!o->listen_count)
		listen_where_handed(o);
	if (o->listen_count)
		return;
	strcpy(o->listen[0].transport, transport_at(0)->name);
	strcpy(o->listen[0].port, transport_at(0)->port);
	o->listen_count = 1;
}

static int read_config(struct serve *s, struct config **ret, char *why, size_t room)
{
	struct serve_options *o = &s->opt;
	struct json_object *doc;
	char text[900];
	int error;

	if (!o->config) {
		default_listen(o);
		error = serve_document(o, &doc, why, room);
	} else {
		error = config_load(o->config, &doc, why, room);
	}
	if (error)
		return error;
	error = config_read(doc, ret, text, sizeof(text));
	if (error) {
		snprintf(why, room, "%s%s%s", o->config ? o->config : "", o->config ? ": " : "",
			 text);
		config_drop(doc);
	}
	return error;
}

/* What is to be served, and the keys for it. */
static int read_all(struct serve *s, struct config **ret, struct tls_keys *keys, char *why,
		    size_t room)
{
	char text[800];
	int error = serve_tls_read(&s->opt.tls, keys, why, room);

	if (error)
		return error;
	error = read_config(s, ret, why, room);
	if (!error) {
		error = serve_tls_check(keys, s->opt.keys.count, *ret, text, sizeof(text));
		if (error) {
			snprintf(why, room, "%s: %s", s->opt.config ? s->opt.config : "--listen",
				 text);
			config_free(*ret);
		}
	}
	if (error)
		tls_keys_free(keys);
	return error;
}

/* What in the file, or of the options, has no effect. */
static void tell_warnings(const struct serve *s, const struct config *c)
{
	if ((s->opt.tls.text_count || s->opt.tls.file) && !serve_tls_wanted(c))
		cli_warn("%s: no port of %s is for TLS: the keys have no effect (%s)",
			 s->opt.tls.file ? "--tls-keys" : "--tls-key",
			 s->opt.config ? s->opt.config : "this target",
			 s->opt.config ? "\"tsas\": \"tls1.3\"" : "--listen tcp+tls://...");
	for (uint32_t i = 0; i < c->warning_count; i++)
		cli_warn("%s: %s", s->opt.config, c->warnings[i]);
	if (c->warnings_left_out)
		cli_warn("%s: %u more that have no effect here", s->opt.config,
			 c->warnings_left_out);
}

void serve_tell_unused(void)
{
	for (unsigned i = 0; handed_at(i); i++) {
		const struct handed *h = handed_at(i);
		const char *at = h->at[0] ? h->at : "no IP address";

		if (!h->listens)
			cli_warn("socket %u (%s) that was handed over, %s: it is none on which "
				 "NVMe/TCP "
				 "could listen, and RDMA opens its ports itself",
				 i + 1, h->name, at);
		else if (!h->used)
			cli_warn("socket %u (%s) that was handed over, %s: nothing that is served "
				 "is "
				 "there",
				 i + 1, h->name, at);
	}
}

static void say_step(void *ctx, const struct config_step *step)
{
	struct serve *s = ctx;

	if (s->changes++ < CHANGES_TOLD)
		serve_say_step(&s->say, step);
}

int serve_become(struct serve *s, struct config *to, size_t *ret_steps, char *why, size_t room)
{
	char text[640];
	int error;

	s->live.changed = say_step;
	s->changes = 0;
	error = live_become(&s->live, to, ret_steps, text, sizeof(text));
	if (error)
		snprintf(why, room, "%s%s%s", s->live.failed_at, *s->live.failed_at ? ": " : "",
			 text);
	else
		s->measure_ns = 0;
	if (!error)
		serve_mdns_publish(s);
	return error;
}

/* The file was read again: what was not saved is gone. */
static void forget_edits(struct serve *s)
{
	const uint64_t lost = s->requests.edits - s->requests.saved;

	if (lost)
		cli_warn("%s: the file wins: %llu %s by `weft target` that %s not saved %s gone",
			 s->opt.config, (unsigned long long)lost, lost == 1 ? "edit" : "edits",
			 lost == 1 ? "was" : "were", lost == 1 ? "is" : "are");
	s->requests.saved = s->requests.edits;
}

/* Disks that it names and that are not open yet are opened by threads; true: they are waited for.
 */
static bool look_ahead(struct serve *s, const struct config *c)
{
	const char **texts;
	unsigned n = 0;
	bool waits;

	for (uint32_t i = 0; i < c->subsys_count; i++)
		n += c->subsystems[i].ns_count;
	texts = calloc(n + 1, sizeof(*texts));
	n = 0;
	for (uint32_t i = 0; texts && i < c->subsys_count; i++)
		for (uint32_t k = 0; k < c->subsystems[i].ns_count; k++)
			if (c->subsystems[i].ns[k].enable)
				texts[n++] = c->subsystems[i].ns[k].path;
	waits = disks_look(&s->live.disks, texts, n);
	free(texts);
	return waits;
}

bool serve_looks(struct serve *s, const struct config *c)
{
	if (s->live.disks.how.ahead && !s->resuming)
		return true;
	return look_ahead(s, c) && serve_wake_by(s, store_ahead_fd(s->live.disks.how.ahead)) == 0;
}

static void become(struct serve *s, struct config *c, struct tls_keys *keys)
{
	char why[1024];
	size_t steps;

	if (serve_become(s, c, &steps, why, sizeof(why)) != 0) {
		config_free(c);
		tls_keys_free(keys);
		cli_warn("%s: %s; nothing has changed", s->opt.config, why);
		return;
	}
	steps += serve_tls_become(&s->opt.tls, keys);
	forget_edits(s);
	serve_answer(&s->say, "%s: read again, %zu %s", s->opt.config, steps,
		     steps == 1 ? "change" : "changes");
}

static void reloaded(struct serve *s)
{
	manager_ready(&s->manager);
	serve_status(s);
}

void serve_reload(struct serve *s)
{
	struct tls_keys keys;
	struct config *c = NULL;
	char why[1024];

	s->reload_again = s->live.disks.how.ahead != NULL;
	if (s->reload_again)
		return; /* it is read when what is waited for has come */
	manager_reloading(&s->manager, time_now_ns());
	if (read_all(s, &c, &keys, why, sizeof(why)) != 0) {
		cli_warn("%s; nothing has changed", why);
		reloaded(s);
		return;
	}
	tell_warnings(s, c);
	if (serve_looks(s, c)) {
		s->coming = c;
		s->coming_keys = keys;
		return;
	}
	become(s, c, &keys);
	disks_look_end(&s->live.disks);
	reloaded(s);
}

/* A reload has what it waited for. */
static void reload_go_on(struct serve *s)
{
	struct config *c = s->coming;

	s->coming = NULL;
	if (s->stopping) {
		config_free(c);
		tls_keys_free(&s->coming_keys);
	} else {
		become(s, c, &s->coming_keys);
	}
	disks_look_end(&s->live.disks);
	if (!s->stopping)
		reloaded(s);
}

/* Of a client that has gone meanwhile they are nobody's; a request after it may wait for others. */
static void end_looking(struct serve *s)
{
	if (s->live.disks.how.ahead && store_ahead_done(s->live.disks.how.ahead))
		disks_look_end(&s->live.disks);
}

void serve_go_on(struct serve *s)
{
	if (!s->live.disks.how.ahead || !store_ahead_done(s->live.disks.how.ahead))
		return;
	if (s->coming)
		reload_go_on(s);
	s->resuming = true;
	if (s->control)
		control_resume(s->control, time_now_ns());
	s->resuming = false;
	end_looking(s);
	if (s->reload_again && !s->stopping)
		serve_reload(s);
}

/* A file has places; of the options what is wrong names itself. */
static int fail_begin(const struct serve *s, const char *why)
{
	const char *at = s->live.failed_at;

	if (!s->opt.config)
		return cli_fail("%s", why);
	return cli_fail("%s: %s%s%s", s->opt.config, at, *at ? ": " : "", why);
}

int serve_begin(struct serve *s)
{
	struct tls_keys keys;
	struct config *c;
	char why[1024];
	size_t steps;
	int error;

	if (read_all(s, &c, &keys, why, sizeof(why)) != 0)
		return cli_fail("%s", why);
	tell_warnings(s, c);
	(void)serve_tls_become(&s->opt.tls, &keys);
	/* Elsewhere serve_tell() has it. */
	s->live.changed = serve_say_to_journal(&s->say) ? say_step : NULL;
	s->live.ctx = s;
	if (s->live.changed)
		serve_answer(&s->say, "%s begins%s%s", cli_version, s->opt.config ? " with " : "",
			     s->opt.config ? s->opt.config : "");
	/* All at once, so that one that does not answer costs the others nothing. */
	if (look_ahead(s, c)) {
		struct pollfd p = {.fd = store_ahead_fd(s->live.disks.how.ahead), .events = POLLIN};

		while (!store_ahead_done(s->live.disks.how.ahead))
			(void)poll(&p, 1, -1);
	}
	error = live_become(&s->live, c, &steps, why, sizeof(why));
	disks_look_end(&s->live.disks);
	if (error) {
		config_free(c);
		return fail_begin(s, why);
	}
	if (s->changes > CHANGES_TOLD)
		serve_answer(&s->say, "%zu more that are served", steps - CHANGES_TOLD);
	return 0;
}

/* --- sizes ------------------------------------------------------------------------------------ */

static void size_changed(void *ctx, const struct live_ns *n)
{
	struct serve *s = ctx;
	char size[32];

	serve_say(&s->say, LOG_LEVEL_INFO, time_now_ns(), "%s: %s now (namespace %u)",
		  n->disk->path, text_bytes(size, sizeof(size), n->ns.store->size), n->ns.nsid);
}

void serve_look_at_stores(struct serve *s, uint64_t now)
{
	bool hosts = s->target.ctrl_count > s->target.discovery_count;
	bool more = disks_settle(&s->live.disks, now);

	s->measure_ns = hosts || more ? now + MEASURE_NS : DEADLINE_NEVER;
	live_measure(&s->live, size_changed, s);
	target_group_watch(&s->target.group, now);
}
