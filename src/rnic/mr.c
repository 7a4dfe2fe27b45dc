/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Protection domains and memory regions, and the one way from a key to memory.
 *
 * A key is index << 8 | generation. The slot table's index is passed through a permutation of 24
 * bits, or of as many as a small RNIC has keys for, so that keys seen say nothing of the others; a
 * released key goes stale by its generation. Nothing is pinned and no pointer into a region is
 * kept: every packet looks up its key anew, so a region may go, or become another by
 * rnic_mr_rereg(), at any time.
 */
#include "rnic/core.h"

#define KEY_GEN_MASK ((1u << KEY_GEN_BITS) - 1)

static uint32_t key_to_wire(const struct rnic *r, uint32_t key)
{
	return permute(&r->key_permute, key >> KEY_GEN_BITS) << KEY_GEN_BITS | (key & KEY_GEN_MASK);
}

/* An index beyond a small RNIC's stays one. */
static uint32_t key_from_wire(const struct rnic *r, uint32_t key)
{
	const struct permute *p = &r->key_permute;
	uint32_t index = key >> KEY_GEN_BITS;

	if (p->half_bits == KEY_INDEX_BITS / 2)
		index = permute_inverse_by(p, KEY_INDEX_BITS / 2, index);
	else if (!(index >> 2 * p->half_bits))
		index = permute_inverse_by(p, p->half_bits, index);
	return index << KEY_GEN_BITS | (key & KEY_GEN_MASK);
}

int region_add(struct rnic_pd *pd, struct region *g)
{
	struct rnic *r = pd->rnic;
	uint32_t key;
	int err = handles_take(&r->keys, g, r->ops.random(r->ctx), &key);

	if (err)
		return err;
	g->pd = pd;
	g->key = key_to_wire(r, key);
	g->serial = ++r->region_serial;
	pd->users++;
	return 0;
}

static struct region **recent(struct rnic *r, uint32_t key)
{
	return &r->recent_regions[key >> KEY_GEN_BITS & (RECENT_REGIONS - 1)];
}

void region_del(struct region *g)
{
	struct rnic *r = g->pd->rnic;

	if (*recent(r, g->key) == g)
		*recent(r, g->key) = NULL;
	handles_release(&r->keys, key_from_wire(r, g->key));
	g->pd->users--;
}

/* A key that is found again and again is not taken apart each time. */
struct region *region_find(struct rnic *r, uint32_t key)
{
	struct region *g = *recent(r, key);

	if (unlikely(!g || g->key != key)) {
		g = handles_find(&r->keys, key_from_wire(r, key));
		if (g)
			*recent(r, key) = g;
	}
	return g && g->valid ? g : NULL;
}

void region_rekey(struct rnic *r, struct region *g, uint32_t key)
{
	handles_rekey(&r->keys, key_from_wire(r, g->key), key_from_wire(r, key));
	g->key = key;
}

struct region *region_deref(const struct rnic *r, struct region_ref ref)
{
	uint32_t i = key_from_wire(r, ref.key) >> KEY_GEN_BITS;
	struct region *g = i < r->keys.used ? r->keys.v[i].object : NULL;

	return g && g->serial == ref.serial ? g : NULL;
}

static bool region_allows(const struct region *g, uint64_t va, size_t len, uint32_t need)
{
	uint64_t off = va - g->iova;

	return (g->access & need) == need && va >= g->iova && off <= g->length &&
	       len <= g->length - off;
}

/* The base of an implicit on-demand region is NULL, so that this is arithmetic on numbers. */
static uint8_t *region_at(const struct region *g, uint64_t va)
{
	return (uint8_t *)((uintptr_t)g->base + (va - g->iova));
}

/* Why a key was not good: for a completion and the log. NULL. */
static uint8_t *denied(struct rnic *r, const struct region *g, const struct rnic_pd *pd,
		       const struct rnic_qp *qp, const struct denial *asked, uint32_t need)
{
	enum rnic_cause cause;

	if (!g || (!qp && g->kind != REGION_MR && g->kind != REGION_NULL))
		cause = RNIC_CAUSE_LKEY_UNKNOWN;
	else if (g->pd != pd)
		cause = RNIC_CAUSE_LKEY_PD;
	else if (g->kind == REGION_MW2 && g->qp != qp)
		cause = RNIC_CAUSE_RKEY_QP - (RNIC_CAUSE_RKEY_UNKNOWN - RNIC_CAUSE_LKEY_UNKNOWN);
	else if ((g->access & need) != need)
		cause = RNIC_CAUSE_LKEY_ACCESS;
	else if (!region_allows(g, asked->va, asked->len, need))
		cause = RNIC_CAUSE_LKEY_BOUNDS;
	else
		cause = RNIC_CAUSE_LKEY_PAGE;
	r->denial = *asked;
	r->denial.cause = qp ? cause + (RNIC_CAUSE_RKEY_UNKNOWN - RNIC_CAUSE_LKEY_UNKNOWN) : cause;
	return NULL;
}

static uint8_t *region_touch(const struct rnic *r, const struct region *g, uint64_t va,
			     size_t touch, uint32_t need)
{
	const uint32_t writes =
		RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_ATOMIC;
	uint8_t *p = region_at(g, va);

	if (unlikely(g->paged) && touch && r->ops.page_in &&
	    !r->ops.page_in(r->ctx, p, touch, need & writes))
		return NULL;
	return p;
}

/* What is written may be read by nobody: it is another place than the zeros. */
static uint8_t *null_touch(struct rnic *r, size_t touch, uint32_t need)
{
	assert(touch <= NULL_BYTES);
	return need & (RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE) ? r->null_written
									   : r->null_read;
}

static struct region *local_find(const struct rnic_pd *pd, uint32_t lkey)
{
	struct region *g = region_find(pd->rnic, lkey);

	return g && g->pd == pd && (g->kind == REGION_MR || g->kind == REGION_NULL) ? g : NULL;
}

bool mem_allowed(const struct rnic_pd *pd, uint32_t lkey, uint64_t va, size_t len, uint32_t need)
{
	const struct region *g = local_find(pd, lkey);

	if (likely(g && region_allows(g, va, len, need)))
		return true;
	denied(pd->rnic, region_find(pd->rnic, lkey), pd, NULL,
	       &(struct denial){.key = lkey, .va = va, .len = len}, need);
	return false;
}

uint8_t *mem_local(struct rnic_pd *pd, uint32_t lkey, uint64_t va, size_t len, uint32_t need)
{
	struct region *g = local_find(pd, lkey);
	uint8_t *p;

	if (!g || !region_allows(g, va, len, need))
		goto no;
	if (unlikely(g->kind == REGION_NULL))
		return null_touch(pd->rnic, len, need);
	p = region_touch(pd->rnic, g, va, len, need);
	if (likely(p != NULL))
		return p;
no:
	return denied(pd->rnic, region_find(pd->rnic, lkey), pd, NULL,
		      &(struct denial){.key = lkey, .va = va, .len = len}, need);
}

uint8_t *mem_remote(const struct rnic_qp *qp, uint32_t rkey, uint64_t va, size_t len, size_t touch,
		    uint32_t need)
{
	struct region *g = region_find(qp->rnic, rkey);
	uint8_t *p;

	if (!g || g->pd != qp->pd || (g->kind == REGION_MW2 && g->qp != qp) ||
	    !region_allows(g, va, len, need))
		goto no;
	if (unlikely(g->kind == REGION_NULL))
		return null_touch(qp->rnic, touch, need);
	p = region_touch(qp->rnic, g, va, touch, need);
	if (likely(p != NULL))
		return p;
no:
	return denied(qp->rnic, g, qp->pd, qp, &(struct denial){.key = rkey, .va = va, .len = len},
		      need);
}

/* ---- the faces ------------------------------------------------------------------------------ */

int rnic_pd_create(struct rnic *r, struct rnic_pd **ret)
{
	struct rnic_pd *pd = r->ops.alloc(r->ctx, sizeof(*pd));

	if (!pd)
		return -ENOMEM;
	pd->rnic = r;
	r->pds++;
	*ret = pd;
	return 0;
}

int rnic_pd_destroy(struct rnic_pd *pd)
{
	struct rnic *r = pd->rnic;

	if (pd->users)
		return -EBUSY;
	r->pds--;
	r->ops.free(r->ctx, pd);
	return 0;
}

void rnic_pd_get(struct rnic_pd *pd)
{
	pd->users++;
}

void rnic_pd_put(struct rnic_pd *pd)
{
	pd->users--;
}

static int mr_attr_check(const struct rnic_mr_attr *a)
{
	if ((a->access & (RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_ATOMIC)) &&
	    !(a->access & RNIC_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	if ((uintptr_t)a->addr + a->length < (uintptr_t)a->addr || a->iova + a->length < a->iova)
		return -EINVAL;
	return 0;
}

static void mr_attr_take(struct region *g, const struct rnic_mr_attr *a)
{
	g->access = a->access;
	g->paged = a->access & RNIC_ACCESS_ON_DEMAND;
	g->iova = a->iova;
	g->length = a->length;
	g->base = a->addr;
}

static int mr_create(enum region_kind kind, const struct rnic_mr_attr *a, struct rnic_mr **ret)
{
	struct rnic *r = a->pd->rnic;
	struct rnic_mr *mr;
	int err = mr_attr_check(a);

	if (err)
		return err;
	if (kind == REGION_NULL && a->access & RNIC_ACCESS_REMOTE_ATOMIC)
		return -EINVAL;
	mr = r->ops.alloc(r->ctx, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->region.kind = kind;
	mr->region.valid = true;
	mr_attr_take(&mr->region, a);
	err = region_add(a->pd, &mr->region);
	if (err) {
		r->ops.free(r->ctx, mr);
		return -ENOMEM;
	}
	*ret = mr;
	return 0;
}

int rnic_mr_create(struct rnic_pd *pd, void *addr, size_t length, uint64_t iova, uint32_t access,
		   struct rnic_mr **ret)
{
	const struct rnic_mr_attr a = {pd, addr, length, iova, access};

	return mr_create(REGION_MR, &a, ret);
}

int rnic_mr_create_null(struct rnic_pd *pd, uint32_t access, struct rnic_mr **ret)
{
	const struct rnic_mr_attr a = {pd, NULL, SIZE_MAX, 0, access};

	return mr_create(REGION_NULL, &a, ret);
}

void rnic_mr_query(const struct rnic_mr *mr, struct rnic_mr_attr *ret)
{
	const struct region *g = &mr->region;

	*ret = (struct rnic_mr_attr){g->pd, g->base, g->length, g->iova, g->access};
}

int rnic_mr_rereg(struct rnic_mr *mr, const struct rnic_mr_attr *a)
{
	struct region *g = &mr->region;
	int err = mr_attr_check(a);

	if (err || g->kind != REGION_MR || a->pd->rnic != g->pd->rnic)
		return -EINVAL;
	if (mr->bound_mws)
		return -EBUSY;
	g->pd->users--;
	g->pd = a->pd;
	g->pd->users++;
	mr_attr_take(g, a);
	return 0;
}

int rnic_mr_locate(const struct rnic_pd *pd, uint32_t lkey, uint64_t va, size_t len, bool write,
		   void **ret)
{
	const struct region *g = region_find(pd->rnic, lkey);

	if (!g || g->kind != REGION_MR || !g->paged)
		return -ENOENT;
	if (g->pd != pd || (write && !(g->access & RNIC_ACCESS_LOCAL_WRITE)))
		return -EPERM;
	if (!region_allows(g, va, len, 0))
		return -EFAULT;
	*ret = region_at(g, va);
	return 0;
}

int rnic_mr_destroy(struct rnic_mr *mr)
{
	struct rnic *r = mr->region.pd->rnic;

	if (mr->bound_mws)
		return -EBUSY;
	region_del(&mr->region);
	r->ops.free(r->ctx, mr);
	return 0;
}

uint32_t rnic_mr_lkey(const struct rnic_mr *mr)
{
	return mr->region.key;
}

uint32_t rnic_mr_rkey(const struct rnic_mr *mr)
{
	return mr->region.key;
}
