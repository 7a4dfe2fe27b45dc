/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "config/diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct steps {
	struct config_step *at;
	size_t count, room;
	bool failed;
};

static void add(struct steps *s, struct config_step step)
{
	if (s->count == s->room) {
		size_t room = 2 * s->room + 16;
		struct config_step *more = reallocarray(s->at, room, sizeof(*more));

		if (!more) {
			s->failed = true;
			return;
		}
		s->at = more;
		s->room = room;
	}
	s->at[s->count++] = step;
}

/* --- what is the same ------------------------------------------------------------------------
 */

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool config_addr_equal(const struct config_addr *a, const struct config_addr *b)
{
	return same_text(a->trtype, b->trtype) && same_text(a->adrfam, b->adrfam) &&
	       same_text(a->traddr, b->traddr) && same_text(a->trsvcid, b->trsvcid);
}

/* In whatever order: none is there twice. */
static bool same_names(const char *const *a, uint32_t a_count, const char *const *b,
		       uint32_t b_count)
{
	if (a_count != b_count)
		return false;
	for (uint32_t i = 0; i < a_count; i++) {
		bool found = strcmp(a[i], b[i]) == 0;

		for (uint32_t j = 0; j < b_count && !found; j++)
			found = strcmp(a[i], b[j]) == 0;
		if (!found)
			return false;
	}
	return true;
}

/* Where the size stands in the path of a disk that is made, and its length. */
static const char *made_size(const char *path, size_t *ret_len)
{
	const char *size;

	if (strncmp(path, "mem:", 4) != 0 && strncmp(path, "null:", 5) != 0)
		return NULL;
	size = strchr(path, ':') + 1;
	*ret_len = strcspn(size, ",");
	return size;
}

/* The same disk, perhaps of another size. */
static bool same_disk(const char *a, const char *b)
{
	size_t a_len, b_len;
	const char *a_size, *b_size;

	if (same_text(a, b))
		return true;
	a_size = made_size(a, &a_len);
	b_size = made_size(b, &b_len);
	return a_size && b_size && a_size - a == b_size - b &&
	       strncmp(a, b, (size_t)(a_size - a)) == 0 &&
	       strcmp(a_size + a_len, b_size + b_len) == 0;
}

static bool same_ns(const struct config_ns *a, const struct config_ns *b)
{
	return same_disk(a->path, b->path) && a->has_uuid == b->has_uuid &&
	       a->has_nguid == b->has_nguid && memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
	       memcmp(a->nguid, b->nguid, sizeof(a->nguid)) == 0;
}

static bool same_subsys(const struct config_subsys *a, const struct config_subsys *b)
{
	return a->allow_any_host == b->allow_any_host &&
	       same_names(a->hosts, a->host_count, b->hosts, b->host_count) &&
	       same_text(a->serial, b->serial) && same_text(a->model, b->model) &&
	       same_text(a->firmware, b->firmware) && a->cntlid_min == b->cntlid_min &&
	       a->cntlid_max == b->cntlid_max && a->qid_max == b->qid_max && a->vid == b->vid &&
	       a->ssvid == b->ssvid && a->oui == b->oui && a->version == b->version;
}

static bool same_referrals(const struct config_port *a, const struct config_port *b)
{
	if (a->referral_count != b->referral_count)
		return false;
	for (uint32_t i = 0; i < a->referral_count; i++) {
		const struct config_referral *f = &a->referrals[i], *g = &b->referrals[i];

		if (f->enable != g->enable || f->portid != g->portid ||
		    !same_text(f->name, g->name) || !config_addr_equal(&f->addr, &g->addr))
			return false;
	}
	return true;
}

static bool same_port(const struct config_port *a, const struct config_port *b)
{
	return a->portid == b->portid && a->tls == b->tls &&
	       a->max_queue_size == b->max_queue_size && a->mdts == b->mdts &&
	       a->inline_data_size == b->inline_data_size &&
	       same_names(a->subsystems, a->subsys_count, b->subsystems, b->subsys_count) &&
	       same_referrals(a, b);
}

/* --- what differs ----------------------------------------------------------------------------
 */

/* One that is not enabled is not there. */
static const struct config_ns *find_ns(const struct config_subsys *s, uint32_t nsid)
{
	for (uint32_t i = 0; s && i < s->ns_count; i++)
		if (s->ns[i].nsid == nsid && s->ns[i].enable)
			return &s->ns[i];
	return NULL;
}

static const struct config_port *find_port(const struct config *c, const struct config_addr *addr)
{
	for (uint32_t i = 0; c && i < c->port_count; i++)
		if (config_addr_equal(&c->ports[i].addr, addr))
			return &c->ports[i];
	return NULL;
}

/* The namespaces of s that o, which may be NULL, has not or not so. */
static void diff_namespaces(struct steps *steps, enum config_step_type type,
			    const struct config_subsys *s, const struct config_subsys *o)
{
	for (uint32_t i = 0; i < s->ns_count; i++) {
		const struct config_ns *ns = &s->ns[i], *other = find_ns(o, ns->nsid);

		if (ns->enable && !(other && same_ns(ns, other)))
			add(steps, (struct config_step){type, .subsys = s, .ns = ns});
	}
}

static void diff_sizes(struct steps *steps, const struct config_subsys *s,
		       const struct config_subsys *o)
{
	for (uint32_t i = 0; i < s->ns_count; i++) {
		const struct config_ns *ns = &s->ns[i], *other = find_ns(o, ns->nsid);

		if (ns->enable && other && same_ns(ns, other) && !same_text(ns->path, other->path))
			add(steps, (struct config_step){STEP_NS_SIZE, .subsys = s, .ns = ns});
	}
}

static void diff_subsystems(struct steps *steps, const struct config *from, const struct config *to)
{
	for (uint32_t i = 0; i < to->subsys_count; i++)
		if (!config_find_subsys(from, to->subsystems[i].nqn))
			add(steps, (struct config_step){STEP_SUBSYS_ADD, &to->subsystems[i]});
	for (uint32_t i = 0; from && i < from->subsys_count; i++) {
		const struct config_subsys *s = &from->subsystems[i],
					   *o = config_find_subsys(to, s->nqn);

		if (o)
			diff_namespaces(steps, STEP_NS_REMOVE, s, o);
	}
	for (uint32_t i = 0; i < to->subsys_count; i++)
		diff_namespaces(steps, STEP_NS_ADD, &to->subsystems[i],
				config_find_subsys(from, to->subsystems[i].nqn));
	for (uint32_t i = 0; i < to->subsys_count; i++)
		diff_sizes(steps, &to->subsystems[i],
			   config_find_subsys(from, to->subsystems[i].nqn));
	for (uint32_t i = 0; i < to->subsys_count; i++) {
		const struct config_subsys *s = &to->subsystems[i],
					   *o = config_find_subsys(from, s->nqn);

		if (o && !same_subsys(s, o))
			add(steps, (struct config_step){STEP_SUBSYS_SET, s});
	}
}

static void diff_ports(struct steps *steps, const struct config *from, const struct config *to)
{
	for (uint32_t i = 0; from && i < from->port_count; i++)
		if (!find_port(to, &from->ports[i].addr))
			add(steps, (struct config_step){STEP_PORT_REMOVE, .port = &from->ports[i]});
	for (uint32_t i = 0; i < to->port_count; i++)
		if (!find_port(from, &to->ports[i].addr))
			add(steps, (struct config_step){STEP_PORT_ADD, .port = &to->ports[i]});
	for (uint32_t i = 0; i < to->port_count; i++) {
		const struct config_port *p = &to->ports[i], *o = find_port(from, &p->addr);

		if (o && !same_port(p, o))
			add(steps, (struct config_step){STEP_PORT_SET, .port = p});
	}
}

int config_diff(const struct config *from, const struct config *to, struct config_step **ret,
		size_t *ret_count)
{
	struct steps steps = {0};
	const char *before = from ? from->discovery_nqn : NULL, *after = to->discovery_nqn;

	if (before && after ? strcmp(before, after) != 0 : before != after)
		add(&steps, (struct config_step){STEP_DISCOVERY, .discovery_nqn = after});
	diff_subsystems(&steps, from, to);
	diff_ports(&steps, from, to);
	for (uint32_t i = 0; from && i < from->subsys_count; i++)
		if (!config_find_subsys(to, from->subsystems[i].nqn))
			add(&steps, (struct config_step){STEP_SUBSYS_REMOVE, &from->subsystems[i]});
	if (steps.failed) {
		free(steps.at);
		return -ENOMEM;
	}
	*ret = steps.at;
	*ret_count = steps.count;
	return 0;
}
