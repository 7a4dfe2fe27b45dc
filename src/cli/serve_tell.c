/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What weft serve says when hosts can connect. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/serve.h"
#include "nvmf/transport/address.h"

struct teller {
	struct serve *s;
	struct output *o;
	const char *nqn;
	const struct nvme_uri *listen;
	struct example {
		char address[64];
		const struct nvme_uri *listen;
	} examples[TRANSPORTS]; /* the first address told of each */
};

static const char *tls_text(bool tls, bool optional)
{
	return !tls ? "" : optional ? ", TLS or plain" : ", TLS";
}

static void tell_address(void *ctx, const char *address, bool loopback)
{
	struct teller *t = ctx;

	const char *transport = serve_transport_of(t->listen)->name;
	struct example *e = &t->examples[transport_index(transport)];

	output_object(t->o, NULL, "%s port %s, %s%s%s", address, t->listen->port, transport,
		      tls_text(t->listen->tls, t->listen->tls_optional),
		      loopback ? " (from this machine)" : "");
	if (t->o->format == OUTPUT_JSON) {
		output_string(t->o, "transport", NULL, transport);
		output_string(t->o, "address", NULL, address);
		output_string(t->o, "port", NULL, t->listen->port);
		output_bool(t->o, "tls", NULL, t->listen->tls);
	}
	output_close(t->o);
	if (e->listen)
		return;
	snprintf(e->address, sizeof(e->address), "%s", address);
	e->listen = t->listen;
}

static void tell_namespaces(const struct live_subsys *s, struct output *o)
{
	char size[32];

	output_list(o, "namespaces", "namespaces");
	list_for_each(n, &s->namespaces, const struct live_ns, link) {
		const struct target_ns *ns = &n->ns;

		text_bytes(size, sizeof(size), ns->store->size);
		output_object(o, NULL, "%u: %s, %s in %u-byte blocks%s", ns->nsid, n->disk->path,
			      size, 1u << ns->lba_shift, ns->read_only ? ", read-only" : "");
		if (o->format == OUTPUT_JSON) {
			output_number(o, "nsid", NULL, ns->nsid, NULL);
			output_string(o, "path", NULL, n->disk->path);
			output_number(o, "bytes", NULL, ns->store->size, NULL);
			output_number(o, "block_size", NULL, 1u << ns->lba_shift, NULL);
			output_bool(o, "read_only", NULL, ns->read_only);
		}
		output_close(o);
	}
	output_close(o);
}

static void tell_how(const struct teller *t, const struct example *e)
{
	const struct nvmf_transport *kind = serve_transport_of(e->listen);
	const char *port = e->listen->port;
	struct nvme_uri uri = {.nsid = 1};
	char text[1024], nvme[1024];

	strcpy(uri.transport, kind->name);
	uri.tls = e->listen->tls && !e->listen->tls_optional;
	snprintf(uri.host, sizeof(uri.host), "%s", e->address);
	if (atoi(port) != atoi(kind->port))
		strcpy(uri.port, port);
	snprintf(uri.nqn, sizeof(uri.nqn), "%.223s", t->nqn);
	if (nvme_uri_format(&uri, text, sizeof(text)) != 0)
		return;
	snprintf(nvme, sizeof(nvme), "nvme connect -t %s -a %s -s %s -n %s%s", kind->name,
		 e->address, port, t->nqn, uri.tls ? " --tls" : "");
	output_string(t->o, "uri", "weft", text);
	output_string(t->o, "nvme_connect", "Linux", nvme);
}

/* The one subsystem that the command line makes. */
static void tell_one(struct serve *s, struct output *o)
{
	const struct live_subsys *sub =
		list_entry(s->live.subsystems.next, struct live_subsys, link);
	struct teller t = {.s = s, .o = o, .nqn = sub->s.nqn};
	bool told = false;

	output_string(o, "nqn", "subsystem", sub->s.nqn);
	tell_namespaces(sub, o);
	output_list(o, "addresses", "addresses");
	for (uint32_t i = 0; i < s->opt.listen_count; i++) {
		const struct nvme_uri *u = &s->opt.listen[i];
		int family = address_wildcard(u->host);

		t.listen = u;
		if (u->host[0] && family == AF_UNSPEC)
			tell_address(&t, u->host, false);
		else
			serve_transport_of(u)->addresses(family, tell_address, &t);
	}
	output_close(o);
	for (unsigned int i = 0; i < TRANSPORTS; i++)
		if (t.examples[i].listen && (!told || s->opt.format == OUTPUT_TEXT)) {
			tell_how(&t, &t.examples[i]);
			told = true;
		}
	if (!told)
		cli_warn("no address of this machine has an RDMA device: no host can connect; "
			 "`weft devices` shows the devices");
}

static void tell_port(const struct live_port *p, struct output *o)
{
	output_object(o, NULL, "%u: %s port %s, %s%s", p->port->portid, p->traddr, p->trsvcid,
		      p->trtype, tls_text(p->port->tls, p->port->tls == TARGET_TLS_OFFERED));
	if (o->format == OUTPUT_JSON) {
		output_number(o, "portid", NULL, p->port->portid, NULL);
		output_string(o, "transport", NULL, p->trtype);
		output_string(o, "address", NULL, p->traddr);
		output_string(o, "port", NULL, p->trsvcid);
		output_bool(o, "tls", NULL, p->port->tls);
	}
	output_list(o, "subsystems", NULL);
	for (uint32_t i = 0; i < p->port->subsys_count; i++) {
		if (o->format == OUTPUT_JSON)
			output_string(o, NULL, NULL, p->offered[i]->nqn);
		else
			output_note(o, "%s", p->offered[i]->nqn);
	}
	output_close(o);
	output_close(o);
}

void serve_tell_config(const struct live *l, struct output *o)
{
	output_list(o, "subsystems", "subsystems");
	list_for_each(s, &l->subsystems, const struct live_subsys, link) {
		output_object(o, NULL, "%s", s->s.nqn);
		if (o->format == OUTPUT_JSON)
			output_string(o, "nqn", NULL, s->s.nqn);
		tell_namespaces(s, o);
		output_close(o);
	}
	output_close(o);
	output_list(o, "ports", "ports");
	list_for_each(p, &l->ports, const struct live_port, link)
		tell_port(p, o);
	output_close(o);
}

static void tell_ready(const struct serve *s)
{
	if (serve_say_to_journal(&s->say))
		serve_answer(&s->say, "ready");
	if (s->opt.ready_fd < 0)
		return;
	if (write(s->opt.ready_fd, "ready\n", 6) != 6)
		cli_warn("--ready-fd %d: %s", s->opt.ready_fd, strerror(errno));
	close(s->opt.ready_fd);
}

static bool tell_all(struct serve *s)
{
	struct output o;

	output_init(&o, stdout, s->opt.format);
	if (s->opt.config) {
		output_string(&o, "configuration", NULL, s->opt.config);
		serve_tell_config(&s->live, &o);
	} else {
		tell_one(s, &o);
	}
	if (s->control && s->opt.format == OUTPUT_JSON)
		output_string(&o, "control", NULL, control_path(s->control));
	if (!output_finish(&o))
		return false;
	if (s->opt.format == OUTPUT_TEXT)
		puts("ready");
	fflush(stdout);
	return true;
}

void serve_status(struct serve *s)
{
	unsigned subsystems = 0, namespaces = 0;
	char text[sizeof(s->manager.status)];

	s->told_hosts = s->target.ctrl_count - s->target.discovery_count;
	list_for_each(sub, &s->live.subsystems, const struct live_subsys, link) {
		subsystems++;
		list_for_each(n, &sub->namespaces, const struct live_ns, link)
			namespaces++;
	}
	if (!s->stopping)
		snprintf(text, sizeof(text),
			 "subsystems: %u, namespaces: %u, hosts' controllers: %u", subsystems,
			 namespaces, s->told_hosts);
	else if (s->told_hosts)
		snprintf(text, sizeof(text), "ending, hosts' controllers: %u", s->told_hosts);
	else
		snprintf(text, sizeof(text), "ending, disks write what hosts have sent");
	manager_status(&s->manager, text);
}

bool serve_tell(struct serve *s)
{
	/* A journal has had it line by line. */
	bool told = serve_say_to_journal(&s->say) && log_is_journal(STDOUT_FILENO) &&
		    s->opt.format == OUTPUT_TEXT;

	if (!told && !tell_all(s))
		return false;
	tell_ready(s);
	return true;
}
