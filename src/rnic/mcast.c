/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Multicast (IBA volume 1, 10.5). Datagrams to queue pair 0xffffff are for whoever is attached to
 * the group that the destination address names, each with its own copy, if it knows the Q_Key. The
 * port joins the groups; which interface a datagram came by is part of where it was sent to, since
 * one address may name groups on several.
 *
 * A queue pair that sends to a group it is attached to gets its own datagrams, as with Linux rxe
 * and with adapters, unless it was made not to.
 */
#include "rnic/core.h"

struct mcast_member {
	struct list by_group, by_qp;
	struct rnic_qp *qp;
	struct gid group;
	uint32_t scope;
};

static struct list *bucket_of(struct rnic *r, const struct gid *group)
{
	/* Groups of one program differ at the end. */
	return &r->mcast[(group->raw[15] ^ group->raw[14]) % MCAST_BUCKETS];
}

static bool same_group(const struct mcast_member *m, const struct gid *group, uint32_t scope)
{
	return m->scope == scope && gid_equal(&m->group, group);
}

void mcast_init(struct rnic *r)
{
	for (size_t i = 0; i < MCAST_BUCKETS; i++)
		list_init(&r->mcast[i]);
}

static uint32_t members_of(struct rnic *r, const struct gid *group, uint32_t scope)
{
	uint32_t n = 0;

	list_for_each(m, bucket_of(r, group), struct mcast_member, by_group)
		n += same_group(m, group, scope);
	return n;
}

static struct mcast_member *member(struct rnic_qp *qp, const struct gid *group, uint32_t scope)
{
	list_for_each(m, &qp->groups, struct mcast_member, by_qp)
		if (same_group(m, group, scope))
			return m;
	return NULL;
}

int rnic_qp_attach(struct rnic_qp *qp, const struct gid *group, uint32_t scope, bool *ret_first)
{
	struct rnic *r = qp->rnic;
	struct mcast_member *m;

	*ret_first = false;
	if (!qp->service->datagrams || !gid_is_multicast(group))
		return -EINVAL;
	if (member(qp, group, scope))
		return 0;
	m = r->ops.alloc(r->ctx, sizeof(*m));
	if (!m)
		return -ENOMEM;
	*ret_first = members_of(r, group, scope) == 0;
	*m = (struct mcast_member){.qp = qp, .group = *group, .scope = scope};
	list_push_tail(bucket_of(r, group), &m->by_group);
	list_push_tail(&qp->groups, &m->by_qp);
	return 0;
}

int rnic_qp_detach(struct rnic_qp *qp, const struct gid *group, uint32_t scope, bool *ret_last)
{
	struct rnic *r = qp->rnic;
	struct mcast_member *m = member(qp, group, scope);

	*ret_last = false;
	if (!m)
		return -EINVAL;
	list_remove(&m->by_group);
	list_remove(&m->by_qp);
	r->ops.free(r->ctx, m);
	*ret_last = members_of(r, group, scope) == 0;
	return 0;
}

/* Another host may have a queue pair of the same number. */
static bool is_from(const struct rnic_qp *qp, const struct pkt *p, const struct packet_rx *rx)
{
	return p->h.deth.sqpn == qp->qpn && gid_equal(&rx->flow.sgid, &qp->mcast_source);
}

void mcast_rx(struct rnic *r, struct pkt *p, const struct packet_rx *rx, uint64_t now)
{
	bool taken = false;

	if (!(p->flags & OPF_DETH)) {
		r->counters->rx_drop_service++;
		return;
	}
	list_for_each(m, bucket_of(r, &rx->flow.dgid), struct mcast_member, by_group) {
		if (!same_group(m, &rx->flow.dgid, rx->flow.scope) || !qp_receives(m->qp))
			continue;
		taken = true;
		if (m->qp->deaf_to_itself && is_from(m->qp, p, rx))
			continue;
		trace(r, TRACE_rx, m->qp->qpn, (uint64_t)p->h.bth.opcode << 24 | p->h.bth.psn,
		      p->len);
		m->qp->service->rx(m->qp, p, rx, now);
	}
	if (!taken)
		r->counters->rx_drop_no_qp++;
}
