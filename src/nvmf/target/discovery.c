/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The discovery log: every subsystem that is offered where the host came to and that it may use,
 * at every port that offers it, and first the discovery subsystem itself. Base 2.0 section
 * 5.16.1.23.
 *
 * Referrals are those of the port that the host came to.
 *
 * A port bound to "any" address is shown with the address that the host came to, which is one
 * that it can reach; of another family it is left out.
 *
 * A host that stays hears of a change of what it would see, and of no other: what its controller
 * sees is known by a sum. Many changes in one turn are one. The generation counter is the target's
 * at the last change that the host would have seen, so that no number stands for two logs.
 */
#include "nvmf/target/internal.h"
#include "nvmf/target/log_page.h"

/* Whether a host that came to q's port is told that p has s. */
static bool visible(const struct target_port *p, const struct target_subsys *s,
		    const struct target_queue *q)
{
	if (!q->port || (p->wildcard && p->adrfam != q->port->adrfam))
		return false;
	if (s->discovery && p != q->port) { /* a port with nothing for this host is none of his */
		list_for_each(o, &q->target->subsystems, struct target_subsys, link)
			if (!o->discovery && visible(p, o, q))
				return true;
		return false;
	}
	return target_offers(q->port, s) && target_offers(p, s) &&
	       target_allows(s, q->owner->hostnqn);
}

/* Whether who asks at p is told the same as who asks at q's port. */
static bool same_information(const struct target_port *p, const struct target_queue *q)
{
	const struct target_port *mine = q->port;

	if (p->referral_count != mine->referral_count)
		return false;
	for (uint32_t i = 0; i < p->referral_count; i++)
		if (memcmp(&p->referrals[i], &mine->referrals[i], sizeof(p->referrals[i])) != 0)
			return false;
	list_for_each(s, &q->target->subsystems, struct target_subsys, link)
		if (target_allows(s, q->owner->hostnqn) &&
		    target_offers(p, s) != target_offers(mine, s))
			return false;
	return true;
}

static uint8_t treq_of(const struct target_port *p)
{
	switch (p->tls) {
	case TARGET_TLS_REQUIRED:
		return NVMF_TREQ_REQUIRED;
	case TARGET_TLS_OFFERED:
		return NVMF_TREQ_NOT_REQUIRED;
	case TARGET_TLS_NONE:
		break;
	}
	return 0;
}

static void put_entry(struct log_page *l, const struct target_port *p, const struct target_queue *q,
		      const struct target_subsys *s)
{
	struct nvmf_disc_entry e = {
		.trtype = p->ops->trtype,
		.adrfam = p->adrfam,
		.subtype = s->discovery ? NVMF_SUBTYPE_DISCOVERY : NVMF_SUBTYPE_NVM,
		.treq = p->ops->treq | treq_of(p),
		.portid = p->portid,
		.cntlid = NVMF_CNTLID_DYNAMIC,
		.asqsz = 32,
	};
	uint8_t piece[NVMF_DISC_ENTRY_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	if (log_page_skips(l, sizeof(piece)))
		return;
	nvmf_pad(e.trsvcid, sizeof(e.trsvcid), p->trsvcid);
	nvmf_pad(e.traddr, sizeof(e.traddr), p->wildcard ? q->traddr : p->traddr);
	memcpy(e.subnqn, s->nqn, sizeof(e.subnqn));
	if (s->discovery)
		e.eflags =
			NVMF_EFLAGS_EPCSD | (same_information(p, q) ? NVMF_EFLAGS_DUPRETINFO : 0);
	if (p->ops->tsas)
		p->ops->tsas(e.tsas);
	if (p->tls)
		e.tsas[0] = NVMF_SECTYPE_TLS13;
	nvmf_disc_entry_put(&out, &e);
	log_page_piece(l, piece, sizeof(piece));
}

/* Another discovery subsystem, of which nothing is known but where it is. */
static void put_referral(struct log_page *l, const struct target_referral *f)
{
	struct nvmf_disc_entry e = {
		.trtype = f->trtype,
		.adrfam = f->adrfam,
		.subtype = NVMF_SUBTYPE_REFERRAL,
		.portid = f->portid,
		.cntlid = NVMF_CNTLID_DYNAMIC,
		.asqsz = 32,
		.subnqn = NVMF_DISCOVERY_NQN,
	};
	uint8_t piece[NVMF_DISC_ENTRY_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	nvmf_pad(e.trsvcid, sizeof(e.trsvcid), f->trsvcid);
	nvmf_pad(e.traddr, sizeof(e.traddr), f->traddr);
	nvmf_disc_entry_put(&out, &e);
	log_page_piece(l, piece, sizeof(piece));
}

static bool shown(const struct target_port *p, const struct target_subsys *s,
		  const struct target_queue *q, bool local)
{
	return (!local || p == q->port) && visible(p, s, q);
}

static uint64_t record_count(const struct target_queue *q, bool local)
{
	const struct target *t = q->target;
	uint64_t count = q->port ? q->port->referral_count : 0;

	list_for_each(p, &t->ports, struct target_port, link)
		list_for_each(s, &t->subsystems, struct target_subsys, link)
			count += shown(p, s, q, local);
	return count;
}

uint64_t discovery_log_len(const struct target_queue *q, bool local)
{
	return NVMF_DISC_HDR_LEN + record_count(q, local) * NVMF_DISC_ENTRY_LEN;
}

static void put_entries(struct log_page *l, const struct target_queue *q, bool local)
{
	const struct target *t = q->target;

	list_for_each(p, &t->ports, struct target_port, link)
		list_for_each(s, &t->subsystems, struct target_subsys, link)
			if (shown(p, s, q, local))
				put_entry(l, p, q, s);
	for (uint32_t i = 0; q->port && i < q->port->referral_count; i++)
		put_referral(l, &q->port->referrals[i]);
}

void log_page_discovery(struct log_page *l, const struct target_queue *q, bool local)
{
	struct nvmf_disc_hdr hdr = {.genctr = q->owner->genctr, .numrec = record_count(q, local)};
	uint8_t piece[NVMF_DISC_HDR_LEN];
	struct wcursor out = wcursor_init(piece, sizeof(piece));

	nvmf_disc_hdr_put(&out, &hdr);
	log_page_piece(l, piece, sizeof(piece));
	put_entries(l, q, local);
}

/* --- changes ---------------------------------------------------------------------------------- */

static uint64_t sum_of(const struct target_queue *q)
{
	struct log_page l = {.digest = true};

	put_entries(&l, q, false);
	return l.sum;
}

void discovery_begin(struct target_ctrl *c)
{
	c->genctr = c->subsys->target->genctr;
	c->log_sum = sum_of(c->queues[0]);
}

void discovery_changed(struct target *t)
{
	t->genctr++;
	t->log_changed = !list_empty(&t->discovery.ctrls);
}

void discovery_look(struct target *t)
{
	if (!t->log_changed)
		return;
	t->log_changed = false;
	list_for_each(c, &t->discovery.ctrls, struct target_ctrl, link) {
		uint64_t sum = sum_of(c->queues[0]);

		if (sum == c->log_sum)
			continue;
		c->log_sum = sum;
		c->genctr = t->genctr;
		ctrl_raise(c, NVME_OAES_DISCOVERY);
	}
}
