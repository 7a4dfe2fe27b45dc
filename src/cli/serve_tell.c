/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What weft serve says when hosts can connect. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/serve.h"
#include "nvmf/transport/address.h"

/* How a host gets to a subsystem. */
struct way {
	const struct nvmf_transport *kind;
	const char *address, *port, *nqn;
	const char *hostnqn; /* NULL: it may be any */
	uint32_t nsid;	     /* 0: there is none to name */
	bool prove, tls;     /* the host needs a key of DH-HMAC-CHAP, of TLS */
};

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

/* As is to be typed, but for the keys. */
static void tell_way(struct output *o, const struct way *w)
{
	struct nvme_uri uri = {.nsid = w->nsid, .tls = w->tls};
	char text[1024], weft[1400], nvme[1024];

	strcpy(uri.transport, w->kind->name);
	snprintf(uri.host, sizeof(uri.host), "%s", w->address);
	if (atoi(w->port) != atoi(w->kind->port))
		snprintf(uri.port, sizeof(uri.port), "%s", w->port);
	snprintf(uri.nqn, sizeof(uri.nqn), "%.223s", w->nqn);
	/* An option beside the URI need not be quoted in a shell. */
	if (w->hostnqn && o->format == OUTPUT_JSON)
		snprintf(uri.hostnqn, sizeof(uri.hostnqn), "%.223s", w->hostnqn);
	if (nvme_uri_format(&uri, text, sizeof(text)) != 0)
		return;
	snprintf(weft, sizeof(weft), "%s%s%s%s%s", text, w->hostnqn ? " --hostnqn=" : "",
		 w->hostnqn ? w->hostnqn : "", w->prove ? " --dhchap-secret=@FILE" : "",
		 w->tls ? " --tls-key=@FILE" : "");
	snprintf(nvme, sizeof(nvme), "nvme connect -t %s -a %s -s %s -n %s%s%s%s%s", w->kind->name,
		 w->address, w->port, w->nqn, w->hostnqn ? " -q " : "",
		 w->hostnqn ? w->hostnqn : "", w->prove ? " --dhchap-secret=KEY" : "",
		 w->tls ? " --tls" : "");
	output_string(o, "uri", "weft", o->format == OUTPUT_JSON ? text : weft);
	output_string(o, "nvme_connect", "Linux", nvme);
}

/* Who needs a key by which options: any host, or else the first that is named. */
static void who_proves(const struct serve_options *opt, struct way *w)
{
	const struct serve_hosts *keys = &opt->keys;

	w->hostnqn = opt->host_count ? opt->hosts[0] : NULL;
	for (uint32_t i = 0; i < keys->count; i++)
		if (!keys->host[i].nqn[0] ||
		    (w->hostnqn && strcmp(keys->host[i].nqn, w->hostnqn) == 0))
			w->prove = true;
	if (keys->count && !w->prove && !w->hostnqn) {
		w->hostnqn = keys->host[0].nqn;
		w->prove = true;
	}
}

static void tell_how(const struct teller *t, const struct example *e)
{
	struct way w = {.kind = serve_transport_of(e->listen),
			.address = e->address,
			.port = e->listen->port,
			.nqn = t->nqn,
			.nsid = 1,
			.tls = e->listen->tls && !e->listen->tls_optional};

	who_proves(&t->s->opt, &w);
	tell_way(t->o, &w);
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

/* --- a configuration -------------------------------------------------------------------------- */

static void take_address(void *ctx, const char *address, bool loopback)
{
	char *first = ctx;

	(void)loopback;
	if (!first[0])
		snprintf(first, NVMF_TRADDR_LEN, "%s", address);
}

/* False: nobody could do anything with it. */
static bool find_way(const struct live *l, const struct live_port *p, const char *nqn,
		     char address[NVMF_TRADDR_LEN], struct way *w)
{
	const struct config_subsys *s = config_find_subsys(l->config, nqn);
	int family = address_wildcard(p->traddr);

	*w = (struct way){.kind = transport_at(transport_index(p->trtype)),
			  .address = address,
			  .port = p->trsvcid,
			  .nqn = nqn,
			  .tls = p->port->tls == TARGET_TLS_REQUIRED};
	address[0] = '\0';
	if (family == AF_UNSPEC)
		take_address(address, p->traddr, false);
	else
		w->kind->addresses(family, take_address, address);
	for (uint32_t i = 0; i < s->ns_count; i++)
		if (s->ns[i].enable && (!w->nsid || s->ns[i].nsid < w->nsid))
			w->nsid = s->ns[i].nsid;
	if (!s->allow_any_host && s->host_count) {
		const struct config_host *h = config_find_host(l->config, s->hosts[0]);

		w->hostnqn = h->nqn;
		w->prove = h->key;
	}
	return w->nsid && (s->allow_any_host || s->host_count);
}

static void tell_offered(const struct live *l, const struct live_port *p, const char *nqn,
			 struct output *o)
{
	char address[NVMF_TRADDR_LEN];
	struct way w;

	output_object(o, NULL, "%s", nqn);
	if (o->format == OUTPUT_JSON)
		output_string(o, "nqn", NULL, nqn);
	if (find_way(l, p, nqn, address, &w) && address[0])
		tell_way(o, &w);
	output_close(o);
}

static void tell_port(const struct live *l, const struct live_port *p, struct output *o)
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
	if (o->format == OUTPUT_JSON) {
		output_list(o, "subsystems", NULL);
		for (uint32_t i = 0; i < p->port->subsys_count; i++)
			output_string(o, NULL, NULL, p->offered[i]->nqn);
		output_close(o);
	}
	output_list(o, "connect", NULL);
	for (uint32_t i = 0; i < p->port->subsys_count; i++)
		tell_offered(l, p, p->offered[i]->nqn, o);
	output_close(o);
	output_close(o);
}

static void tell_config(const struct live *l, struct output *o)
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
		tell_port(l, p, o);
	output_close(o);
}

/* Whether any host can use anything. */
static bool is_usable(const struct live *l)
{
	char address[NVMF_TRADDR_LEN];
	struct way w;

	list_for_each(p, &l->ports, const struct live_port, link)
		for (uint32_t i = 0; i < p->port->subsys_count; i++)
			if (find_way(l, p, p->offered[i]->nqn, address, &w))
				return true;
	return false;
}

/* What is missing before a host can use anything. */
static const char *missing(const struct live *l)
{
	bool offers = false, lets_in = false;

	if (list_empty(&l->ports))
		return "it has no port (ports[]) at which anything is served";
	list_for_each(p, &l->ports, const struct live_port, link)
		for (uint32_t i = 0; i < p->port->subsys_count; i++) {
			const struct config_subsys *s =
				config_find_subsys(l->config, p->offered[i]->nqn);

			offers = true;
			lets_in |= s->allow_any_host || s->host_count;
		}
	if (!offers)
		return "no port of it names a subsystem (ports[].subsystems)";
	if (!lets_in)
		return "no host may use a subsystem that its ports name (attr.allow_any_host, "
		       "allowed_hosts)";
	return "no subsystem that its ports name has a namespace that is enabled, and a host that "
	       "may use it";
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
		tell_config(&s->live, &o);
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

	if (s->opt.config && !is_usable(&s->live))
		cli_warn("%s: no host can use a disk yet: %s; edit it and send SIGHUP, or see "
			 "weft-target(1)",
			 s->opt.config, missing(&s->live));
	if (!told && !tell_all(s))
		return false;
	tell_ready(s);
	return true;
}
