/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Discovery services that mDNS tells of. Anybody on the network may: they are no more than places
 * to ask. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/discovery.h"
#include "mdns/browse.h"

/* So many that cannot be asked are told one by one. */
#define FAULTS_TOLD 8

#ifdef WEFT_HAVE_MDNS
/* What was asked for is of TCP, or says by what. */
static bool wanted(const struct nvme_opts *o, const struct mdns_found *f)
{
	const char *transport = mdns_transport(f->kind);
	bool tcp_alone = o->tls || o->header_digest || o->data_digest;

	if (f->fault)
		return true;
	if (o->uri.transport[0] && strcmp(o->uri.transport, transport) != 0)
		return false;
	return !tcp_alone || strcmp(transport, "tcp") == 0;
}

/* What comes of it stays in memory that it has at most: it is one of few. False: nothing can be
 * asked, or nothing at all was wanted and that is told. */
static bool find(const struct discovery_sources *from, struct mdns_list *l)
{
	char why[512];
	size_t n = 0;

	if (mdns_browse(from->mdns_s, l, why, sizeof(why)) != 0) {
		cli_fail("mDNS: %s; or say which service: HOST, or -t rdma|tcp -a ADDRESS", why);
		return false;
	}
	for (size_t i = 0; i < l->count; i++) {
		struct mdns_found *f = &l->v[i];

		if (!f->fault && f->nqn[0] && !nvme_nqn_valid(f->nqn))
			f->fault = "its NQN is none";
		if (wanted(from->opts, f))
			l->v[n++] = *f;
	}
	l->count = n;
	if (l->left_out)
		cli_warn("mDNS tells of more than %d services: %u are left out", MDNS_FOUND_MAX,
			 l->left_out);
	return true;
}

static struct nvme_uri uri_of(const struct nvme_opts *o, const struct mdns_found *f, unsigned i)
{
	struct nvme_uri u = o->uri;

	snprintf(u.transport, sizeof(u.transport), "%s", mdns_transport(f->kind));
	snprintf(u.host, sizeof(u.host), "%s", f->addresses[i]);
	snprintf(u.port, sizeof(u.port), "%u", f->port);
	if (!u.nqn[0])
		strcpy(u.nqn, f->nqn);
	return u;
}

/* --- asked ------------------------------------------------------------------------------------ */

/* By the first of its addresses that answers. */
static bool ask_one(const struct discovery_sources *from, const struct mdns_found *f,
		    discovery_ask_fn *ask, void *arg)
{
	for (unsigned i = 0; i < f->address_count && !remote_interrupted(); i++) {
		struct nvme_opts service = *from->opts;
		bool answers;

		service.uri = uri_of(from->opts, f, i);
		answers = ask(arg, &service);
		nvme_opts_wipe(&service);
		if (answers)
			return true;
	}
	return false;
}

static bool ask_all(const struct discovery_sources *from, const struct mdns_list *l,
		    discovery_ask_fn *ask, void *arg)
{
	unsigned faults = 0;
	bool ok = true;

	for (size_t i = 0; i < l->count && !remote_interrupted(); i++) {
		const struct mdns_found *f = &l->v[i];

		if (!f->fault)
			ok &= ask_one(from, f, ask, arg);
		else if (faults++ < FAULTS_TOLD)
			cli_warn("mDNS: '%s' on %s cannot be asked: %s", f->name, f->interface,
				 f->fault);
	}
	if (faults > FAULTS_TOLD)
		cli_warn("mDNS: nor can %u more", faults - FAULTS_TOLD);
	return ok;
}

int discovery_mdns(const struct discovery_sources *from, discovery_ask_fn *ask, void *arg)
{
	struct mdns_list l = {0};
	bool ok = find(from, &l);

	if (ok && !l.count) {
		cli_fail("mDNS tells of no discovery service; --mdns=SECONDS listens for longer, "
			 "and "
			 "HOST names one");
		ok = false;
	}
	ok = ok && ask_all(from, &l, ask, arg);
	free(l.v);
	return ok ? EXIT_OK : EXIT_FAILED;
}

/* --- listed ----------------------------------------------------------------------------------- */

static void show(struct output *o, const struct nvme_opts *opts, const struct mdns_found *f)
{
	struct nvme_uri u = uri_of(opts, f, 0);
	char port[8], uri[512];

	output_object(o, NULL, "%s", f->name);
	if (o->format == OUTPUT_JSON)
		output_string(o, "name", NULL, f->name);
	output_string(o, "type", NULL, f->type);
	output_string(o, "interface", NULL, f->interface);
	if (f->fault) {
		output_string(o, "fault", "cannot be asked", f->fault);
		output_close(o);
		return;
	}
	snprintf(port, sizeof(port), "%u", f->port);
	output_string(o, "host", NULL, f->host);
	output_string(o, "trtype", NULL, mdns_transport(f->kind));
	output_string(o, "trsvcid", NULL, port);
	if (o->format == OUTPUT_JSON) {
		output_list(o, "traddr", NULL);
		for (unsigned i = 0; i < f->address_count; i++)
			output_string(o, NULL, NULL, f->addresses[i]);
		output_close(o);
	} else {
		for (unsigned i = 0; i < f->address_count; i++)
			output_string(o, "traddr", NULL, f->addresses[i]);
	}
	output_string(o, "subnqn", NULL, f->nqn[0] ? f->nqn : NVMF_DISCOVERY_NQN);
	if (!nvme_uri_format(&u, uri, sizeof(uri)))
		output_string(o, "uri", NULL, uri);
	output_close(o);
}

int discovery_mdns_list(const struct discovery_sources *from)
{
	struct mdns_list l = {0};
	struct output o;

	if (!find(from, &l))
		return EXIT_FAILED;
	output_init(&o, stdout, from->opts->format);
	o.width = 9;
	output_list(&o, "services", NULL);
	o.depth -= o.format != OUTPUT_JSON; /* in text there is no list around them */
	for (size_t i = 0; i < l.count; i++)
		show(&o, from->opts, &l.v[i]);
	o.depth += o.format != OUTPUT_JSON;
	output_close(&o);
	free(l.v);
	return output_finish(&o) ? EXIT_OK : EXIT_FAILED;
}
#else
/* The option has been refused. */
int discovery_mdns(const struct discovery_sources *from, discovery_ask_fn *ask, void *arg)
{
	(void)from;
	(void)ask;
	(void)arg;
	return EXIT_FAILED;
}

int discovery_mdns_list(const struct discovery_sources *from)
{
	(void)from;
	return EXIT_FAILED;
}
#endif
