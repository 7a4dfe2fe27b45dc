// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Protection domains; thread domains; parent domains, which are protection domains with a thread
 * domain and allocators for the memory of queues.
 *
 * A thread domain promises that its objects are used by one thread at a time. All objects of a
 * process are on one shard with one lock, so that there is nothing to be saved by it.
 */
#include <errno.h>
#include <stdlib.h>

#include "verbs/shared.h"

struct face_td {
	struct ibv_td ibv;
	atomic_uint users; /* parent domains */
};

/* In the users of a view that is unimported: the last of them frees it. */
#define PD_UNIMPORTED (1u << 31)

struct parent {
	struct face_pd *of;
	struct face_td *td; /* or NULL */
	void *(*alloc)(struct ibv_pd *, void *context, size_t size, size_t align, uint64_t type);
	void (*free)(struct ibv_pd *, void *context, void *p, uint64_t type);
	void *context;
};

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct face_context *c = face_context(context);
	struct pd_object *o = calloc(1, sizeof(*o));
	struct face_pd *pd = calloc(1, sizeof(*pd));
	int rc = -ENOMEM;

	if (!o || !pd)
		goto fail;
	shard_lock(c->shard);
	rc = rnic_pd_create(c->rnic, &o->core);
	shard_unlock(c->shard);
	if (rc)
		goto fail;
	shared_add(&o->shared, SHARED_PD, c);
	pd->object = o;
	pd->core = o->core;
	pd->ibv.context = context;
	pd->ibv.handle = o->shared.handle;
	context_get(c);
	return &pd->ibv;

fail:
	free(pd);
	free(o);
	return FAIL(-rc, NULL);
}

static void parent_free(struct face_pd *pd)
{
	if (atomic_fetch_sub(&pd->parent->of->users, 1) == (PD_UNIMPORTED | 1))
		free(pd->parent->of);
	if (pd->parent->td)
		atomic_fetch_sub(&pd->parent->td->users, 1);
	free(pd->parent);
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct face_context *c = face_context(ibpd->context);
	struct face_pd *pd = face_pd(ibpd);
	int rc;

	if (atomic_load(&pd->users))
		return REFUSED(EBUSY);
	if (pd->parent) {
		parent_free(pd);
	} else {
		shard_lock(c->shard);
		rc = rnic_pd_destroy(pd->core);
		shard_unlock(c->shard);
		if (rc)
			return REFUSED(-rc);
		shared_remove(&pd->object->shared);
		free(pd->object);
	}
	free(pd);
	context_put(c);
	return 0;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct shared *s = shared_find(context, SHARED_PD, handle);
	struct face_pd *pd;

	if (!s)
		return NULL;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return FAIL(ENOMEM, NULL);
	pd->object = container_of(s, struct pd_object, shared);
	pd->core = pd->object->core;
	pd->ibv.context = context;
	pd->ibv.handle = handle;
	context_get(face_context(context));
	return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *ibpd)
{
	struct face_pd *pd = face_pd(ibpd);

	context_put(face_context(ibpd->context));
	if (!atomic_fetch_or(&pd->users, PD_UNIMPORTED))
		free(pd);
}

/* ---- thread and parent domains --------------------------------------------------------------- */

struct ibv_td *face_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct face_td *td;

	if (!attr || attr->comp_mask)
		return FAIL(EINVAL, NULL);
	td = calloc(1, sizeof(*td));
	if (!td)
		return FAIL(ENOMEM, NULL);
	td->ibv.context = context;
	context_get(face_context(context));
	return &td->ibv;
}

int face_dealloc_td(struct ibv_td *ibtd)
{
	struct face_td *td = container_of(ibtd, struct face_td, ibv);

	if (atomic_load(&td->users))
		return REFUSED(EBUSY);
	context_put(face_context(ibtd->context));
	free(td);
	return 0;
}

struct ibv_pd *face_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t allocators = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	const uint32_t has_context = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct parent *parent;
	struct face_pd *pd;

	if (!attr->pd || attr->comp_mask & ~(allocators | has_context) ||
	    (attr->comp_mask & allocators && (!attr->alloc || !attr->free)))
		return FAIL(EINVAL, NULL);
	pd = calloc(1, sizeof(*pd));
	parent = calloc(1, sizeof(*parent));
	if (!pd || !parent) {
		free(pd);
		free(parent);
		return FAIL(ENOMEM, NULL);
	}
	parent->of = face_pd(attr->pd);
	atomic_fetch_add(&parent->of->users, 1);
	if (attr->td) {
		parent->td = container_of(attr->td, struct face_td, ibv);
		atomic_fetch_add(&parent->td->users, 1);
	}
	if (attr->comp_mask & allocators) {
		parent->alloc = attr->alloc;
		parent->free = attr->free;
	}
	if (attr->comp_mask & has_context)
		parent->context = attr->pd_context;
	pd->parent = parent;
	pd->core = parent->of->core;
	pd->object = parent->of->object;
	pd->ibv.context = context;
	pd->ibv.handle = attr->pd->handle;
	context_get(face_context(context));
	return &pd->ibv;
}

/* ---- memory of queues ------------------------------------------------------------------------ */

int queue_mem_get(struct queue_mem *m, struct ibv_pd *ibpd, size_t bytes, enum queue_type type)
{
	struct face_pd *pd = ibpd ? face_pd(ibpd) : NULL;
	const struct parent *parent = pd ? pd->parent : NULL;
	void *p = IBV_ALLOCATOR_USE_DEFAULT;

	*m = (struct queue_mem){.type = (uint64_t)type};
	if (!parent)
		return 0;
	if (parent->alloc)
		p = parent->alloc(ibpd, parent->context, bytes, RNIC_MEM_ALIGN, m->type);
	if (!p)
		return -ENOMEM;
	m->p = p == IBV_ALLOCATOR_USE_DEFAULT ? NULL : p;
	m->pd = pd;
	atomic_fetch_add(&pd->users, 1);
	return 0;
}

void queue_mem_free(struct queue_mem *m)
{
	void *p = atomic_exchange(&m->p, NULL);

	if (p)
		m->pd->parent->free(&m->pd->ibv, m->pd->parent->context, p, m->type);
}

void queue_mem_put(struct queue_mem *m)
{
	queue_mem_free(m);
	if (m->pd)
		atomic_fetch_sub(&m->pd->users, 1);
	m->pd = NULL;
}
