/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Protection domains and memory regions, and the one way from a key to memory.
 *
 * A key is index << 8 | generation. The slot table's index is passed through a permutation of 24
 * bits, so that a key seen says nothing of the others; a released key goes stale by its
 * generation. Nothing is pinned and no pointer into a region is kept: every packet looks up its
 * key anew, so a region may go at any time.
 */
#include "rnic/core.h"

#define KEY_GEN_MASK ((1u << KEY_GEN_BITS) - 1)

static uint32_t key_to_wire(const struct rnic *r, uint32_t key)
{
	return permute(&r->key_permute, key >> KEY_GEN_BITS) << KEY_GEN_BITS | (key & KEY_GEN_MASK);
}

static uint32_t key_from_wire(const struct rnic *r, uint32_t key)
{
	return permute_inverse(&r->key_permute, key >> KEY_GEN_BITS) << KEY_GEN_BITS |
	       (key & KEY_GEN_MASK);
}

int region_add(struct rnic_pd *pd, struct region *g)
{
	struct rnic *r = pd->rnic;
	uint32_t key;
	int err = slots_take(&r->keys, g, r->ops.random(r->ctx), &key);

	if (err)
		return err;
	g->pd = pd;
	g->key = key_to_wire(r, key);
	g->serial = ++r->region_serial;
	pd->users++;
	return 0;
}

void region_del(struct region *g)
{
	struct rnic *r = g->pd->rnic;

	slots_release(&r->keys, key_from_wire(r, g->key));
	g->pd->users--;
}

struct region *region_find(const struct rnic *r, uint32_t key)
{
	struct region *g = slots_find(&r->keys, key_from_wire(r, key));

	return g && g->valid ? g : NULL;
}

void region_rekey(struct rnic *r, struct region *g, uint32_t key)
{
	assert((g->key ^ key) >> KEY_GEN_BITS == 0);
	r->keys.v[key_from_wire(r, key) >> KEY_GEN_BITS].generation = key & KEY_GEN_MASK;
	g->key = key;
}

struct region *region_deref(const struct rnic *r, struct region_ref ref)
{
	uint32_t i = key_from_wire(r, ref.key) >> KEY_GEN_BITS;
	struct region *g = i < r->keys.used ? r->keys.v[i].object : NULL;

	return g && g->serial == ref.serial ? g : NULL;
}

static uint8_t *region_reach(const struct region *g, uint64_t va, size_t len, uint32_t need)
{
	uint64_t off = va - g->iova;

	if ((g->access & need) != need || va < g->iova || off > g->length || len > g->length - off)
		return NULL;
	return g->base + off;
}

uint8_t *mem_local(const struct rnic_pd *pd, uint32_t lkey, uint64_t va, size_t len, uint32_t need)
{
	struct region *g = region_find(pd->rnic, lkey);

	if (!g || g->kind != REGION_MR || g->pd != pd)
		return NULL;
	return region_reach(g, va, len, need);
}

uint8_t *mem_remote(const struct rnic_qp *qp, uint32_t rkey, uint64_t va, size_t len, uint32_t need)
{
	struct region *g = region_find(qp->rnic, rkey);

	if (!g || g->pd != qp->pd || (g->kind == REGION_MW && g->qp != qp))
		return NULL;
	return region_reach(g, va, len, need);
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

int rnic_mr_create(struct rnic_pd *pd, void *addr, size_t length, uint64_t iova, uint32_t access,
		   struct rnic_mr **ret)
{
	struct rnic *r = pd->rnic;
	struct rnic_mr *mr;
	int err;

	if ((access & (RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & RNIC_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	if ((uintptr_t)addr + length < (uintptr_t)addr || iova + length < iova)
		return -EINVAL;
	mr = r->ops.alloc(r->ctx, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->region = (struct region){
		.kind = REGION_MR,
		.valid = true,
		.access = access,
		.iova = iova,
		.length = length,
		.base = addr,
	};
	err = region_add(pd, &mr->region);
	if (err) {
		r->ops.free(r->ctx, mr);
		return -ENOMEM;
	}
	*ret = mr;
	return 0;
}

int rnic_mr_destroy(struct rnic_mr *mr)
{
	struct rnic *r = mr->region.pd->rnic;

	if (mr->windows)
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
