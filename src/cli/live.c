/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Steps are carried out in two turns. First everything that can fail, of which hosts see nothing:
 * files are opened, memory is taken, addresses are listened on. Then what cannot fail, all of it
 * before any host is heard again.
 */
#include "cli/live.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cli/serve_names.h"
#include "config/diff.h"

/* What a step has prepared. */
struct prepared {
	const struct config_step *step;
	struct live_subsys *subsys;
	struct live_ns *ns;
	struct live_port *port;
	char **hosts;
	struct target_subsys **offered;
	struct target_referral *referrals;
	struct disk_size size;
};

struct plan {
	struct live *live;
	struct config_step *steps;
	struct prepared *prepared;
	size_t count, done;
	char *why;
	size_t room;
};

static int no_memory(struct plan *p)
{
	snprintf(p->why, p->room, "out of memory");
	return -ENOMEM;
}

/* --- finding -------------------------------------------------------------------------------- */

static struct live_subsys *live_subsys_of(const struct target_subsys *s)
{
	return container_of(s, struct live_subsys, s);
}

struct live_subsys *live_find_subsys(const struct live *l, const char *nqn)
{
	list_for_each(s, &l->subsystems, struct live_subsys, link)
		if (strcmp(s->s.nqn, nqn) == 0)
			return s;
	return NULL;
}

struct live_ns *live_find_ns(const struct live_subsys *s, uint32_t nsid)
{
	list_for_each(n, &s->namespaces, struct live_ns, link)
		if (n->ns.nsid == nsid)
			return n;
	return NULL;
}

const char *live_path(const struct target_subsys *s, uint32_t nsid)
{
	const struct live_ns *n = live_find_ns(live_subsys_of(s), nsid);

	return n ? n->disk->path : "";
}

/* One that is there, or that the plan has prepared. */
static struct live_subsys *find_subsys(const struct plan *p, const char *nqn)
{
	for (size_t i = 0; i < p->done; i++)
		if (p->prepared[i].subsys && strcmp(p->prepared[i].subsys->s.nqn, nqn) == 0)
			return p->prepared[i].subsys;
	return live_find_subsys(p->live, nqn);
}

static struct live_port *find_port(const struct live *l, const struct config_addr *a)
{
	list_for_each(p, &l->ports, struct live_port, link) {
		const struct config_addr own = {p->trtype, p->adrfam, p->traddr, p->trsvcid};

		if (config_addr_equal(&own, a))
			return p;
	}
	return NULL;
}

/* --- preparing: subsystems ------------------------------------------------------------------ */

static void hosts_free(char **hosts)
{
	for (size_t i = 0; hosts && hosts[i]; i++)
		free(hosts[i]);
	free(hosts);
}

/* Copies of the names, NULL behind the last; *ret is NULL where any host may. */
static int copy_hosts(const struct config_subsys *s, char ***ret)
{
	char **hosts;

	*ret = NULL;
	if (s->allow_any_host)
		return 0;
	hosts = calloc(s->host_count + 1, sizeof(*hosts));
	if (!hosts)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->host_count; i++) {
		hosts[i] = strdup(s->hosts[i]);
		if (!hosts[i]) {
			hosts_free(hosts);
			return -ENOMEM;
		}
	}
	*ret = hosts;
	return 0;
}

static void set_attributes(struct target_subsys *t, const struct config_subsys *s)
{
	if (s->serial)
		snprintf(t->serial, sizeof(t->serial), "%s", s->serial);
	else
		serve_default_serial(t->nqn, t->serial);
	snprintf(t->model, sizeof(t->model), "%s", s->model ? s->model : "weft");
	snprintf(t->firmware, sizeof(t->firmware), "%.8s",
		 s->firmware ? s->firmware : WEFT_VERSION);
	t->cntlid_min = s->cntlid_min;
	t->cntlid_max = s->cntlid_max;
	t->qid_max = s->qid_max;
	t->vid = s->vid;
	t->ssvid = s->ssvid;
	t->oui = s->oui;
	t->vs = s->version;
}

static int prepare_subsys(struct plan *p, struct prepared *r)
{
	const struct config_subsys *s = r->step->subsys;

	if (r->step->type == STEP_SUBSYS_ADD) {
		r->subsys = calloc(1, sizeof(*r->subsys));
		if (!r->subsys)
			return no_memory(p);
		list_init(&r->subsys->namespaces);
		r->subsys->live = p->live;
		snprintf(r->subsys->s.nqn, sizeof(r->subsys->s.nqn), "%s", s->nqn);
		set_attributes(&r->subsys->s, s);
	}
	return copy_hosts(s, &r->hosts) != 0 ? no_memory(p) : 0;
}

/* --- preparing: namespaces ------------------------------------------------------------------ */

static void set_ids(struct target_ns *ns, const struct config_step *step, const struct disk *k)
{
	const char *real = k->store->real_path;
	char name[PATH_MAX + NVME_NQN_LEN + 64];

	if (step->ns->has_uuid) {
		memcpy(ns->uuid, step->ns->uuid, sizeof(ns->uuid));
	} else {
		if (k->made) /* of one size there can be several */
			snprintf(name, sizeof(name), "%s/%s/%u/%" PRIx64, step->subsys->nqn,
				 k->path, ns->nsid, k->forgets ? time_now_ns() : 0);
		else
			snprintf(name, sizeof(name), "%s/%s", step->subsys->nqn,
				 real ? real : k->path);
		serve_uuid(name, ns->uuid);
	}
	memcpy(ns->nguid, step->ns->has_nguid ? step->ns->nguid : ns->uuid, sizeof(ns->nguid));
}

static bool stays(const struct live *l, const struct disk *k)
{
	list_for_each(s, &l->subsystems, const struct live_subsys, link)
		list_for_each(n, &s->namespaces, const struct live_ns, link)
			if (n->disk == k && !n->going)
				return true;
	return false;
}

/*
 * The disk of a namespace that leaves, if this one is to have the same: it cannot be opened a
 * second time. What a made disk holds is for the namespace in its place alone.
 */
static struct disk *reused(const struct plan *p, const struct config_step *step)
{
	const struct live_subsys *s = live_find_subsys(p->live, step->subsys->nqn);
	const struct live_ns *before = s ? live_find_ns(s, step->ns->nsid) : NULL;

	list_for_each(k, &p->live->disks.all, struct disk, link) {
		if (strcmp(k->text, step->ns->path) != 0 || k->claimed || stays(p->live, k))
			continue;
		if (!k->made || (before && before->going && before->disk == k))
			return k;
	}
	return NULL;
}

/* Of which the plan leaves nothing that uses them; NULL: there is none, or no memory. */
static struct store **leaving(const struct plan *p, unsigned *ret_count)
{
	struct store **v;
	unsigned n = 0;

	list_for_each(k, &p->live->disks.all, const struct disk, link)
		n++;
	v = calloc(n + 1, sizeof(*v));
	n = 0;
	list_for_each(k, &p->live->disks.all, const struct disk, link)
		if (v && !k->claimed && !stays(p->live, k))
			v[n++] = k->store;
	*ret_count = n;
	return v;
}

/* A file may be another disk than it was, for another namespace or for reading alone. */
static int open_disk(struct plan *p, const char *text, struct disk **ret)
{
	struct disks *d = &p->live->disks;
	struct store **v = leaving(p, &d->how.leaving_count);
	int error;

	d->how.leaving = v;
	error = disk_open(d, text, ret, p->why, p->room);
	d->how.leaving = NULL;
	d->how.leaving_count = 0;
	free(v);
	return error;
}

static int prepare_ns(struct plan *p, struct prepared *r)
{
	const struct config_step *step = r->step;
	struct live_ns *n = calloc(1, sizeof(*n));
	struct disk *k = reused(p, step);
	int error;

	if (!n)
		return no_memory(p);
	r->ns = n;
	error = k ? disk_again(k, p->why, p->room) : open_disk(p, step->ns->path, &k);
	if (error)
		return error;
	n->disk = k;
	n->disk->claimed = true;
	n->ns.nsid = step->ns->nsid;
	n->ns.store = n->disk->store;
	n->ns.lba_shift = n->disk->shift;
	set_ids(&n->ns, step, n->disk);
	return 0;
}

static int prepare_size(struct plan *p, struct prepared *r)
{
	const struct live_subsys *s = live_find_subsys(p->live, r->step->subsys->nqn);

	return disk_size_prepare(live_find_ns(s, r->step->ns->nsid)->disk, r->step->ns->path,
				 &r->size, p->why, p->room);
}

/* --- preparing: ports ----------------------------------------------------------------------- */

static int prepare_offer(struct plan *p, struct prepared *r)
{
	const struct config_port *c = r->step->port;

	r->offered = calloc(c->subsys_count + 1, sizeof(struct target_subsys *));
	r->referrals = calloc(c->referral_count + 1, sizeof(*r->referrals));
	if (!r->offered || !r->referrals)
		return no_memory(p);
	for (uint32_t i = 0; i < c->subsys_count; i++)
		r->offered[i] = &find_subsys(p, c->subsystems[i])->s;
	return 0;
}

/* Those that are shown; how many. */
static uint32_t fill_referrals(struct target_referral *to, const struct config_port *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->referral_count; i++) {
		const struct config_referral *f = &c->referrals[i];

		if (!f->enable)
			continue;
		to[n].trtype =
			strcmp(f->addr.trtype, "tcp") == 0 ? NVMF_TRTYPE_TCP : NVMF_TRTYPE_RDMA;
		to[n].adrfam =
			strcmp(f->addr.adrfam, "ipv6") == 0 ? NVMF_ADRFAM_IPV6 : NVMF_ADRFAM_IPV4;
		to[n].portid = f->portid;
		snprintf(to[n].traddr, sizeof(to[n].traddr), "%s", f->addr.traddr);
		snprintf(to[n].trsvcid, sizeof(to[n].trsvcid), "%s", f->addr.trsvcid);
		n++;
	}
	return n;
}

/* It listens from here on, but nobody is heard before the plan is carried out. */
static int prepare_port(struct plan *p, struct prepared *r)
{
	const struct config_port *c = r->step->port;
	struct live_port *port = calloc(1, sizeof(*port));
	struct nvme_uri at = {0};
	int error;

	if (!port)
		return no_memory(p);
	list_init(&port->link);
	snprintf(port->trtype, sizeof(port->trtype), "%s", c->addr.trtype);
	snprintf(port->adrfam, sizeof(port->adrfam), "%s", c->addr.adrfam);
	snprintf(port->traddr, sizeof(port->traddr), "%s", c->addr.traddr);
	snprintf(port->trsvcid, sizeof(port->trsvcid), "%s", c->addr.trsvcid);
	memcpy(at.transport, port->trtype, sizeof(at.transport));
	memcpy(at.host, port->traddr, sizeof(at.host));
	snprintf(at.port, sizeof(at.port), "%.7s", port->trsvcid);
	error = serve_transports_listen(p->live->transports, p->live->target, p->live->shares, &at,
					p->why, p->room);
	if (error) {
		free(port);
		return error;
	}
	port->port = list_entry(p->live->target->ports.prev, struct target_port, link);
	port->transport = p->live->transports->of[transport_index(at.transport)];
	r->port = port;
	return prepare_offer(p, r);
}

/* --- preparing: the whole ------------------------------------------------------------------- */

static int prepare(struct plan *p, struct prepared *r)
{
	switch (r->step->type) {
	case STEP_SUBSYS_ADD:
	case STEP_SUBSYS_SET:
		return prepare_subsys(p, r);
	case STEP_NS_ADD:
		return prepare_ns(p, r);
	case STEP_NS_SIZE:
		return prepare_size(p, r);
	case STEP_PORT_ADD:
		return prepare_port(p, r);
	case STEP_PORT_SET:
		return prepare_offer(p, r);
	case STEP_NS_REMOVE:
	case STEP_PORT_REMOVE:
	case STEP_SUBSYS_REMOVE:
	case STEP_DISCOVERY:
	case STEP_TYPES:
		break;
	}
	return 0;
}

static void undo(struct prepared *r)
{
	disk_size_undo(&r->size);
	if (r->port) {
		r->port->transport->ops->unlisten(r->port->transport, r->port->port);
		free(r->port);
	}
	free(r->offered);
	free(r->referrals);
	if (r->ns && r->ns->disk)
		disk_put(r->ns->disk, true);
	free(r->ns);
	hosts_free(r->hosts);
	free(r->subsys);
}

/* What leaves makes room for what comes, disks above all. */
static void mark_going(const struct plan *p, bool going)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct config_step *step = &p->steps[i];
		struct live_subsys *s =
			step->subsys ? live_find_subsys(p->live, step->subsys->nqn) : NULL;

		if (step->type == STEP_SUBSYS_REMOVE)
			list_for_each(n, &s->namespaces, struct live_ns, link)
				n->going = going;
		if (step->type == STEP_NS_REMOVE)
			live_find_ns(s, step->ns->nsid)->going = going;
	}
}

static void note_failure(const struct plan *p, const struct config_step *step)
{
	char *at = p->live->failed_at;

	if (step->ns)
		snprintf(at, LIVE_PLACE_MAX, "subsystems[%s].namespaces[%u].device.path",
			 step->subsys->nqn, step->ns->nsid);
	else if (step->port)
		snprintf(at, LIVE_PLACE_MAX, "ports[%u].addr", step->port->portid);
}

static int prepare_all(struct plan *p)
{
	int error = 0;

	mark_going(p, true);
	while (p->done < p->count && !error) {
		struct prepared *r = &p->prepared[p->done++];

		r->step = &p->steps[p->done - 1];
		error = prepare(p, r);
		if (error)
			note_failure(p, r->step);
	}
	list_for_each(k, &p->live->disks.all, struct disk, link)
		k->claimed = false;
	if (!error)
		return 0;
	mark_going(p, false);
	while (p->done)
		undo(&p->prepared[--p->done]);
	return error;
}

/* --- carrying out --------------------------------------------------------------------------- */

/* The target's: nothing of it is under way. */
static void ns_gone(struct target_ns *ns)
{
	struct live_ns *n = container_of(ns, struct live_ns, ns);

	list_remove(&n->link);
	list_push_tail(&n->live->gone, &n->link);
}

static void subsys_gone(struct target_subsys *t)
{
	struct live_subsys *s = live_subsys_of(t);

	list_remove(&s->link);
	list_push_tail(&s->live->gone_subsystems, &s->link);
}

static void add_subsys(struct live *l, struct prepared *r)
{
	struct target_subsys *t = &r->subsys->s;
	int error;

	r->subsys->hosts = r->hosts;
	t->hosts = (const char *const *)r->hosts;
	t->host_count = r->hosts ? r->step->subsys->host_count : 0;
	error = target_subsys_add(l->target, t);
	assert(!error); /* its name is valid, and nobody's */
	list_push_tail(&l->subsystems, &r->subsys->link);
}

static void set_subsys(struct live *l, const struct prepared *r)
{
	struct live_subsys *s = live_find_subsys(l, r->step->subsys->nqn);
	char **before = s->hosts;

	set_attributes(&s->s, r->step->subsys);
	s->hosts = r->hosts;
	target_subsys_allow(&s->s, (const char *const *)r->hosts,
			    r->hosts ? r->step->subsys->host_count : 0);
	hosts_free(before);
}

static void remove_subsys(struct live *l, const struct config_step *step)
{
	struct live_subsys *s = live_find_subsys(l, step->subsys->nqn);

	list_remove(&s->link);
	list_push_tail(&l->leaving_subsystems, &s->link);
	target_subsys_remove(&s->s, subsys_gone);
}

static void add_ns(struct live *l, struct prepared *r)
{
	struct live_subsys *s = live_find_subsys(l, r->step->subsys->nqn);
	int error;

	r->ns->live = l;
	list_push_tail(&s->namespaces, &r->ns->link);
	error = target_ns_add(&s->s, &r->ns->ns);
	assert(!error); /* it fits, and its number is nobody's */
}

static void remove_ns(struct live *l, const struct config_step *step)
{
	struct live_subsys *s = live_find_subsys(l, step->subsys->nqn);
	struct live_ns *n = live_find_ns(s, step->ns->nsid);

	list_remove(&n->link);
	list_push_tail(&l->leaving, &n->link);
	target_ns_remove(&s->s, &n->ns, ns_gone);
}

static void size_ns(struct live *l, struct prepared *r)
{
	struct live_subsys *s = live_find_subsys(l, r->step->subsys->nqn);

	disk_size_apply(&r->size);
	target_ns_changed(&live_find_ns(s, r->step->ns->nsid)->ns, &s->s);
}

static const enum target_tls tls_of[] = {
	[CONFIG_TLS_NONE] = TARGET_TLS_NONE,
	[CONFIG_TLS_REQUIRED] = TARGET_TLS_REQUIRED,
	[CONFIG_TLS_OFFERED] = TARGET_TLS_OFFERED,
};

_Static_assert(CONFIG_INLINE_DATA_MAX == TARGET_CAPSULE_DATA_MAX && CONFIG_MDTS_MAX == TARGET_MDTS,
	       "what a configuration may say is what there is");

static void set_port(struct live *l, struct live_port *p, const struct prepared *r)
{
	const struct config_port *c = r->step->port;
	struct target_subsys **offered = p->offered;
	struct target_referral *referrals = p->referrals;

	p->offered = r->offered;
	p->referrals = r->referrals;
	p->port->entries_max = c->max_queue_size;
	p->port->mdts = c->mdts;
	target_port_capsules(p->port, c->inline_data_size);
	target_port_tell(l->target, p->port, c->portid, p->referrals,
			 fill_referrals(p->referrals, c));
	target_port_offer(l->target, p->port, p->offered, c->subsys_count);
	target_port_secure(l->target, p->port, tls_of[c->tls]);
	free(offered);
	free(referrals);
}

static void port_free(struct live_port *p)
{
	list_remove(&p->link);
	free(p->offered);
	free(p->referrals);
	free(p);
}

static void carry_out(struct live *l, struct prepared *r)
{
	const struct config_step *step = r->step;
	struct live_port *p = step->port ? find_port(l, &step->port->addr) : NULL;

	switch (step->type) {
	case STEP_DISCOVERY:
		target_discovery_name(l->target, step->discovery_nqn);
		break;
	case STEP_SUBSYS_ADD:
		add_subsys(l, r);
		break;
	case STEP_SUBSYS_SET:
		set_subsys(l, r);
		break;
	case STEP_SUBSYS_REMOVE:
		remove_subsys(l, step);
		break;
	case STEP_NS_ADD:
		add_ns(l, r);
		break;
	case STEP_NS_REMOVE:
		remove_ns(l, step);
		break;
	case STEP_NS_SIZE:
		size_ns(l, r);
		break;
	case STEP_PORT_ADD:
		list_push_tail(&l->ports, &r->port->link);
		set_port(l, r->port, r);
		break;
	case STEP_PORT_SET:
		set_port(l, p, r);
		break;
	case STEP_PORT_REMOVE:
		p->transport->ops->unlisten(p->transport, p->port);
		port_free(p);
		break;
	case STEP_TYPES:
		break;
	}
}

int live_become(struct live *l, struct config *to, size_t *ret_steps, char *why, size_t room)
{
	struct plan p = {.live = l, .why = why, .room = room};
	struct live_hosts hosts;
	bool hosts_differ;
	int error;

	l->failed_at[0] = '\0';
	error = live_hosts_prepare(to, &hosts, why, room);
	if (error)
		return error;
	if (config_diff(l->config, to, &p.steps, &p.count) != 0)
		error = no_memory(&p);
	p.prepared = error ? NULL : calloc(p.count + 1, sizeof(*p.prepared));
	if (!error)
		error = p.prepared ? prepare_all(&p) : no_memory(&p);
	if (!error) {
		hosts_differ = live_hosts_become(&l->hosts, &hosts, l->target);
		if (hosts_differ && l->changed)
			l->changed(l->ctx, NULL);
		for (size_t i = 0; i < p.count; i++) {
			carry_out(l, &p.prepared[i]);
			if (l->changed)
				l->changed(l->ctx, p.prepared[i].step);
		}
		config_free(l->config);
		l->config = to;
		if (ret_steps)
			*ret_steps = p.count + hosts_differ;
	}
	live_hosts_free(&hosts);
	free(p.prepared);
	free(p.steps);
	return error;
}

/* --- from time to time ---------------------------------------------------------------------- */

static void ns_free(struct live_ns *n)
{
	n->disk->lost |= n->ns.flush_failed_ns != 0;
	list_remove(&n->link);
	disk_put(n->disk, false);
	free(n);
}

static void subsys_free(struct live_subsys *s)
{
	list_for_each(n, &s->namespaces, struct live_ns, link)
		ns_free(n);
	list_remove(&s->link);
	hosts_free(s->hosts);
	free(s);
}

void live_process(struct live *l)
{
	list_for_each(n, &l->gone, struct live_ns, link)
		ns_free(n);
	list_for_each(s, &l->gone_subsystems, struct live_subsys, link)
		subsys_free(s);
	disks_process(&l->disks);
}

void live_measure(struct live *l, void (*changed)(void *ctx, const struct live_ns *ns), void *ctx)
{
	list_for_each(s, &l->subsystems, struct live_subsys, link)
		list_for_each(n, &s->namespaces, struct live_ns, link) {
			if (!store_measure(n->ns.store))
				continue;
			target_ns_changed(&n->ns, &s->s);
			changed(ctx, n);
		}
}

/* --- beginning and end ---------------------------------------------------------------------- */

void live_init(struct live *l, struct target *target, struct serve_transports *transports,
	       struct shares *shares, struct store_engine *engine,
	       const struct store_file_options *how)
{
	*l = (struct live){.target = target, .transports = transports, .shares = shares};
	disks_init(&l->disks, engine, how);
	list_init(&l->subsystems);
	list_init(&l->ports);
	list_init(&l->leaving);
	list_init(&l->leaving_subsystems);
	list_init(&l->gone);
	list_init(&l->gone_subsystems);
}

void live_note_losses(struct live *l)
{
	list_for_each(s, &l->subsystems, const struct live_subsys, link)
		list_for_each(n, &s->namespaces, const struct live_ns, link)
			n->disk->lost |= n->ns.flush_failed_ns != 0;
}

void live_fini(struct live *l)
{
	struct list *const namespaces[] = {&l->leaving, &l->gone};
	struct list *const subsystems[] = {&l->subsystems, &l->leaving_subsystems,
					   &l->gone_subsystems};

	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		list_for_each(n, namespaces[i], struct live_ns, link) {
			list_remove(&n->link);
			free(n);
		}
	for (size_t i = 0; i < ARRAY_SIZE(subsystems); i++)
		list_for_each(s, subsystems[i], struct live_subsys, link) {
			list_for_each(n, &s->namespaces, struct live_ns, link)
				free(n);
			list_remove(&s->link);
			hosts_free(s->hosts);
			free(s);
		}
	list_for_each(p, &l->ports, struct live_port, link)
		port_free(p);
	live_hosts_free(&l->hosts);
	disks_close(&l->disks);
	config_free(l->config);
	l->config = NULL;
}
