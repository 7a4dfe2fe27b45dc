/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the responder of a queue pair that repeats selectively keeps: whole packets that came behind
 * one that is missing, until it comes. Then they are carried out in their order, as if they had
 * just come: nothing that a program can see is out of order, and no rule has an exception.
 *
 * It is bounded by the PSNs that a peer may use, and for an instance by KEPT_BYTES, of which each
 * has half of what the others leave at most, so that nobody has all. What does not fit is as good
 * as lost.
 */
#include "rnic/ib/ib.h"

#define KEPT_BYTES	  (16u << 20)
#define KEPT_BYTES_OF_ONE (2u << 20)

struct kept_pkt {
	struct pkt_hdr h;
	uint32_t len;
	uint8_t payload[];
};

static struct kept_pkt **slot(struct selective *s, uint32_t psn)
{
	return &s->kept[psn % SELECTIVE_PSNS];
}

static size_t size_of(uint32_t len)
{
	return sizeof(struct kept_pkt) + len;
}

void kept_came_twice(struct rnic_qp *qp)
{
	struct selective *s = selective_of(qp);

	if (s->twice < SELECTIVE_TWICE_MAX)
		s->twice++;
}

bool kept_add(struct rnic_qp *qp, const struct pkt *p)
{
	struct selective *s = selective_of(qp);
	struct rnic *r = qp->rnic;
	uint32_t ahead = (p->h.bth.psn - resp_of(qp)->epsn) & PSN_MASK;
	size_t size = size_of(p->len), others;
	struct kept_pkt *k;

	if (ahead >= SELECTIVE_PSNS || p->len > qp->mtu)
		return false;
	if (!s->kept)
		s->kept = r->ops.alloc(r->ctx, SELECTIVE_PSNS * sizeof(struct kept_pkt *));
	if (!s->kept)
		return false;
	if (*slot(s, p->h.bth.psn)) {
		count(qp, rx_duplicate, 1);
		kept_came_twice(qp);
		return true;
	}
	others = r->kept_bytes - s->kept_bytes;
	if (s->kept_bytes + size > min_of((size_t)KEPT_BYTES_OF_ONE, (KEPT_BYTES - others) / 2))
		return false;
	k = r->ops.alloc(r->ctx, size);
	if (!k)
		return false;
	k->h = p->h;
	k->len = p->len;
	memcpy(k->payload, p->payload, p->len);
	*slot(s, p->h.bth.psn) = k;
	s->nkept++;
	r->kept_bytes += size;
	s->kept_bytes += size;
	count(qp, rx_kept, 1);
	return true;
}

struct kept_pkt *kept_take(struct rnic_qp *qp, struct pkt *ret)
{
	struct selective *s = selective_of(qp);
	struct kept_pkt *k;

	if (!s->nkept)
		return NULL;
	k = *slot(s, resp_of(qp)->epsn);
	if (!k)
		return NULL;
	assert(k->h.bth.psn == resp_of(qp)->epsn);
	*slot(s, resp_of(qp)->epsn) = NULL;
	s->nkept--;
	*ret = (struct pkt){.h = k->h,
			    .flags = opcode_table[k->h.bth.opcode].flags,
			    .payload = k->payload,
			    .len = k->len};
	return k;
}

void kept_free(struct rnic_qp *qp, struct kept_pkt *k)
{
	struct rnic *r = qp->rnic;

	r->kept_bytes -= size_of(k->len);
	selective_of(qp)->kept_bytes -= size_of(k->len);
	r->ops.free(r->ctx, k);
}

void kept_skip(struct rnic_qp *qp, uint32_t psn, uint32_t n)
{
	struct selective *s = selective_of(qp);

	for (uint32_t i = 0; s->nkept && i < n && i < SELECTIVE_PSNS; i++) {
		struct kept_pkt **at = slot(s, psn + i);

		if (!*at)
			continue;
		kept_free(qp, *at);
		*at = NULL;
		s->nkept--;
	}
}

void kept_drop(struct rnic_qp *qp)
{
	kept_skip(qp, 0, SELECTIVE_PSNS);
}

uint32_t kept_tell(struct rnic_qp *qp)
{
	struct selective *s = selective_of(qp);
	uint32_t left = s->nkept, bytes = 0;

	/* Not the expected one itself, which is missing: bit 0 is the one behind it. */
	for (uint32_t i = 0; left && i + 1 < SELECTIVE_PSNS; i++) {
		if (i % 8 == 0)
			s->bitmap[i / 8] = 0;
		if (!*slot(s, resp_of(qp)->epsn + 1 + i))
			continue;
		s->bitmap[i / 8] |= (uint8_t)(1u << i % 8);
		bytes = i / 8 + 1;
		left--;
	}
	return bytes;
}
