// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Memory regions. Registration pins nothing: it has the kernel make the pages present, which tells
 * what an adapter's pinning would (is all of it there, may it be written), and the rest is left to
 * the MMU. On-demand regions are not looked at until they are used.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/pages.h"
#include "verbs/shared.h"

/* Accepted and of no consequence: hints to hardware (the whole optional range is to be ignored
 * where unknown), and huge pages, which the pages behind a mapping are nothing to us. */
#define IGNORED_ACCESS (IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB)
#define DMABUF_ACCESS                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define CORE_ACCESS \
	(DMABUF_ACCESS | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND)
/* For which of these the kernel wants the memory to be writable. */
#define WRITING_ACCESS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_MW_BIND)

/* iWARP's adapters have no paging on demand. */
static unsigned int known_access(struct ibv_context *c)
{
	return CORE_ACCESS & ~(face_is_iwarp(c) ? (unsigned int)IBV_ACCESS_ON_DEMAND : 0);
}

static int memory_check(const struct rnic_mr_attr *a)
{
	if (!a->length || (uintptr_t)a->addr + a->length < (uintptr_t)a->addr)
		return -EINVAL;
	if (a->access & IBV_ACCESS_ON_DEMAND)
		return 0;
	return pages_populate(a->addr, a->length, a->access & WRITING_ACCESS);
}

/* a: NULL for a null region. */
static struct face_mr *mr_create(struct ibv_pd *ibpd, const struct rnic_mr_attr *a)
{
	struct face_context *c = face_context(ibpd->context);
	struct face_mr *mr = calloc(1, sizeof(*mr));
	struct mr_object *o = calloc(1, sizeof(*o));
	int rc = -ENOMEM;

	if (!mr || !o)
		goto fail;
	shard_lock(c->shard);
	rc = a ? rnic_mr_create(a->pd, a->addr, a->length, a->iova, a->access, &o->core)
	       : rnic_mr_create_null(face_pd(ibpd)->core, RNIC_ACCESS_LOCAL_WRITE, &o->core);
	shard_unlock(c->shard);
	if (rc)
		goto fail;
	o->length = a ? a->length : SIZE_MAX;
	o->null = !a;
	shared_add(&o->shared, SHARED_MR, c);
	mr->object = o;
	mr->core = o->core;
	mr->ibv.context = ibpd->context;
	mr->ibv.pd = ibpd;
	mr->ibv.addr = a ? a->addr : NULL;
	mr->ibv.length = o->length;
	mr->ibv.handle = o->shared.handle;
	mr->ibv.lkey = rnic_mr_lkey(mr->core);
	mr->ibv.rkey = a ? rnic_mr_rkey(mr->core) : 0;
	context_get(c);
	return mr;

fail:
	free(mr);
	free(o);
	return FAIL(-rc, NULL);
}

static struct ibv_mr *ibv_mr_of(struct face_mr *mr)
{
	return mr ? &mr->ibv : NULL;
}

static struct ibv_mr *reg_mr(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
			     unsigned int access)
{
	struct rnic_mr_attr a = {face_pd(ibpd)->core, addr, length, iova,
				 access & ~(unsigned int)IGNORED_ACCESS};
	int rc;

	if (a.access & ~(unsigned int)CORE_ACCESS)
		return FAIL(EINVAL, NULL);
	if (a.access & ~known_access(ibpd->context))
		return FAIL(EOPNOTSUPP, NULL);
	rc = memory_check(&a);
	if (rc)
		return FAIL(-rc, NULL);
	if (access & IBV_ACCESS_ZERO_BASED)
		a.iova = 0;
	return ibv_mr_of(mr_create(ibpd, &a));
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return reg_mr(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return reg_mr(pd, addr, length, iova, access);
}

struct ibv_mr *face_alloc_null_mr(struct ibv_pd *ibpd)
{
	return ibv_mr_of(mr_create(ibpd, NULL));
}

struct ibv_mr *face_reg_dm_mr(struct ibv_pd *ibpd, struct ibv_dm *ibdm, uint64_t offset,
			      size_t length, unsigned int access)
{
	struct dm_object *dm = face_dm(ibdm)->object;
	struct rnic_mr_attr a = {.pd = face_pd(ibpd)->core,
				 .length = length,
				 .access = access & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE};
	struct face_mr *mr;

	if (a.access & ~(unsigned int)(DMABUF_ACCESS | IBV_ACCESS_ZERO_BASED) ||
	    !(access & IBV_ACCESS_ZERO_BASED) || offset > dm->length ||
	    length > dm->length - offset)
		return FAIL(EINVAL, NULL);
	a.addr = dm->mem + offset;
	mr = mr_create(ibpd, &a);
	if (!mr)
		return NULL;
	mr->ibv.addr = NULL;
	mr->object->dm = dm;
	atomic_fetch_add(&dm->mrs, 1);
	return &mr->ibv;
}

/* ---- DMA buffers ----------------------------------------------------------------------------- */

/* Negative, with errno set: it has none. Where a file is read and written next is the program's,
 * and that of all who share it; a dma-buf, whose size can be asked for in no other way, has no such
 * place. */
static off_t file_size(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -1;
	return S_ISREG(st.st_mode) ? st.st_size : lseek(fd, 0, SEEK_END);
}

/* Maps the file, which need not be a dma-buf as long as it can be mapped. */
static int dmabuf_map(int fd, uint64_t offset, size_t length, bool write, void **ret, size_t *ret_n)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = offset & ~(page - 1);
	off_t size = file_size(fd);
	void *p;

	if (size < 0 && errno == EBADF)
		return -EBADF;
	if (!length || offset + length < offset || size < 0 || offset + length > (uint64_t)size)
		return -EINVAL;
	*ret_n = (size_t)(offset - from) + length;
	p = mmap(NULL, *ret_n, write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
		 (off_t)from);
	if (p == MAP_FAILED)
		return errno == EACCES || errno == EPERM || errno == ENOMEM ? -errno : -EOPNOTSUPP;
	*ret = p;
	return 0;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	const size_t in_page = (size_t)sysconf(_SC_PAGESIZE) - 1;
	uint32_t core = (uint32_t)access & ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE;
	struct face_mr *mr;
	size_t map_length;
	void *map;
	int rc;

	if (core & ~(uint32_t)DMABUF_ACCESS || (offset & in_page) != (iova & in_page))
		return FAIL(EINVAL, NULL);
	rc = dmabuf_map(fd, offset, length, core & WRITING_ACCESS, &map, &map_length);
	if (rc)
		return FAIL(-rc, NULL);
	mr = mr_create(ibpd,
		       &(struct rnic_mr_attr){face_pd(ibpd)->core, (char *)map + (offset & in_page),
					      length, iova, core});
	if (!mr) {
		munmap(map, map_length);
		return NULL;
	}
	mr->ibv.addr = (void *)(uintptr_t)offset; /* as the real one: no address of the process */
	mr->object->map = map;
	mr->object->map_length = map_length;
	return &mr->ibv;
}

/* It may have been mapped for reading alone. */
static int dmabuf_allow(const struct mr_object *o, uint32_t access)
{
	if (access & WRITING_ACCESS && mprotect(o->map, o->map_length, PROT_READ | PROT_WRITE))
		return -errno;
	return 0;
}

/* What memory a region had of its own. */
static void release_memory(struct mr_object *o)
{
	if (o->map)
		munmap(o->map, o->map_length);
	o->map = NULL;
	if (o->dm)
		atomic_fetch_sub(&o->dm->mrs, 1);
	o->dm = NULL;
}

/* ---- change and end -------------------------------------------------------------------------- */

static int rereg(struct face_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 uint32_t access)
{
	struct face_context *c = face_context(mr->ibv.context);
	struct rnic_mr_attr a;
	bool was_zero_based;
	int rc = 0;

	shard_lock(c->shard);
	rnic_mr_query(mr->core, &a);
	shard_unlock(c->shard);
	was_zero_based = a.access & IBV_ACCESS_ZERO_BASED;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		a.pd = face_pd(pd)->core;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		a.access = access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		a.addr = addr;
		a.length = length;
		a.iova = (uintptr_t)addr;
	}
	if (a.access & IBV_ACCESS_ZERO_BASED)
		a.iova = 0;
	else if (was_zero_based)
		a.iova = (uintptr_t)a.addr;
	if (mr->object->map && !(flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		rc = dmabuf_allow(mr->object, a.access);
	else if (flags & (IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION))
		rc = memory_check(&a);
	if (rc)
		return rc;
	shard_lock(c->shard);
	rc = rnic_mr_rereg(mr->core, &a);
	shard_unlock(c->shard);
	return rc;
}

/* The keys stay, as they do on adapters that can. A refused change leaves the region as it was,
 * which is more than the manual promises for IBV_REREG_MR_ERR_CMD. */
int ibv_rereg_mr(struct ibv_mr *ibmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	const int known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			  IBV_REREG_MR_CHANGE_ACCESS;
	uint32_t core = (uint32_t)access & ~(uint32_t)IGNORED_ACCESS;
	struct face_mr *mr = face_mr(ibmr);
	int rc;

	if (mr->object->null || flags & ~known ||
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!addr || !length)) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS)))
		return FAIL(EINVAL, IBV_REREG_MR_ERR_INPUT);
	if (!flags || mr->object->dm || core & ~known_access(ibmr->context) ||
	    (flags & IBV_REREG_MR_CHANGE_PD &&
	     (!pd || pd->context->device != ibmr->context->device)))
		return FAIL(EINVAL, IBV_REREG_MR_ERR_CMD);
	rc = rereg(mr, flags, pd, addr, length, core);
	if (rc)
		return FAIL(-rc, IBV_REREG_MR_ERR_CMD);
	if (flags & IBV_REREG_MR_CHANGE_PD)
		ibmr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		release_memory(mr->object);
		mr->object->length = length;
		ibmr->addr = addr;
		ibmr->length = length;
	}
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct face_context *c = face_context(ibmr->context);
	struct face_mr *mr = face_mr(ibmr);
	int rc;

	shard_lock(c->shard);
	rc = rnic_mr_destroy(mr->core);
	shard_unlock(c->shard);
	if (rc)
		return REFUSED(-rc);
	shared_remove(&mr->object->shared);
	release_memory(mr->object);
	free(mr->object);
	ibv_unimport_mr(ibmr);
	return 0;
}

/* ---- advice ---------------------------------------------------------------------------------- */

int face_advise_mr(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sg, uint32_t num_sge)
{
	struct face_context *c = face_context(ibpd->context);
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	int rc = 0;

	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !num_sge)
		return REFUSED(EINVAL);
	if (!write && advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return REFUSED(EOPNOTSUPP);
	for (uint32_t i = 0; i < num_sge && !rc; i++) {
		void *p;

		shard_lock(c->shard);
		rc = rnic_mr_locate(face_pd(ibpd)->core, sg[i].lkey, sg[i].addr, sg[i].length,
				    write, &p);
		shard_unlock(c->shard);
		/* Pages that are there already are all the device ever needs. */
		if (rc || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
			continue;
		rc = pages_populate(p, sg[i].length, write);
		if (!(flags & IBV_ADVISE_MR_FLAG_FLUSH))
			rc = 0; /* nobody waits to hear of it */
	}
	return -rc;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct shared *s = shared_find(pd->context, SHARED_MR, handle);
	struct face_mr *mr;

	if (!s)
		return NULL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return FAIL(ENOMEM, NULL);
	mr->object = container_of(s, struct mr_object, shared);
	mr->core = mr->object->core;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.length = mr->object->length;
	mr->ibv.handle = handle;
	mr->ibv.lkey = rnic_mr_lkey(mr->core);
	if (!mr->object->null)
		mr->ibv.rkey = rnic_mr_rkey(mr->core);
	context_get(face_context(pd->context));
	return &mr->ibv;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	context_put(face_context(mr->context));
	free(face_mr(mr));
}
