// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Protection domains, memory regions, memory windows. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/face.h"

/* Accepted and of no consequence: hints to hardware (the whole optional range is to be ignored
 * where unknown), and huge pages, which the pages behind a mapping are nothing to us. */
#define IGNORED_ACCESS (IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_HUGETLB)
#define CORE_ACCESS                                                                  \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct face_context *c = face_context(context);
	struct face_pd *pd = calloc(1, sizeof(*pd));
	int rc;

	if (!pd)
		return FAIL(ENOMEM, NULL);
	shard_lock(c->shard);
	rc = rnic_pd_create(c->rnic, &pd->core);
	shard_unlock(c->shard);
	if (rc) {
		free(pd);
		return FAIL(-rc, NULL);
	}
	pd->ibv.context = context;
	context_get(c);
	return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct face_context *c = face_context(ibpd->context);
	struct face_pd *pd = face_pd(ibpd);
	int rc;

	shard_lock(c->shard);
	rc = rnic_pd_destroy(pd->core);
	shard_unlock(c->shard);
	if (rc)
		return -rc;
	free(pd);
	context_put(c);
	return 0;
}

/* ---- memory regions -------------------------------------------------------------------------- */

/*
 * Is something mapped all over [addr, addr + length)? Registration pins nothing, but a range that
 * is not there is refused as a kernel would, rather than met by the first transfer.
 */
static bool mapped(uintptr_t addr, size_t length)
{
	unsigned char residency[4096]; /* which is not asked for, but must be taken */
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = addr & ~(uintptr_t)(page - 1);
	uintptr_t end = addr + length;

	while (at < end) {
		size_t n = min_of((size_t)(end - at), sizeof(residency) * page);

		if (mincore((void *)at, n, residency) && errno == ENOMEM)
			return false;
		at += (n + page - 1) & ~(page - 1);
	}
	return true;
}

static struct ibv_mr *reg_mr(struct ibv_pd *ibpd, void *addr, size_t length, uint64_t iova,
			     unsigned int access)
{
	struct face_context *c = face_context(ibpd->context);
	struct face_mr *mr;
	int rc;

	access &= ~(unsigned int)IGNORED_ACCESS;
	if (access & ~(unsigned int)CORE_ACCESS)
		return FAIL(EOPNOTSUPP, NULL);
	if (length && (uintptr_t)addr + length - 1 < (uintptr_t)addr)
		return FAIL(EINVAL, NULL);
	if (!mapped((uintptr_t)addr, length))
		return FAIL(EFAULT, NULL);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return FAIL(ENOMEM, NULL);
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	shard_lock(c->shard);
	rc = rnic_mr_create(face_pd(ibpd)->core, addr, length, iova, access, &mr->core);
	if (!rc) {
		mr->ibv.lkey = rnic_mr_lkey(mr->core);
		mr->ibv.rkey = rnic_mr_rkey(mr->core);
	}
	shard_unlock(c->shard);
	if (rc) {
		free(mr);
		return FAIL(-rc, NULL);
	}
	mr->ibv.context = ibpd->context;
	mr->ibv.pd = ibpd;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	context_get(c);
	return &mr->ibv;
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

int ibv_dereg_mr(struct ibv_mr *ibmr)
{
	struct face_context *c = face_context(ibmr->context);
	struct face_mr *mr = container_of(ibmr, struct face_mr, ibv);
	int rc;

	shard_lock(c->shard);
	rc = rnic_mr_destroy(mr->core);
	shard_unlock(c->shard);
	if (rc)
		return -rc;
	free(mr);
	context_put(c);
	return 0;
}

/* ---- memory windows -------------------------------------------------------------------------- */

struct ibv_mw *face_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct face_context *c = face_context(ibpd->context);
	struct face_mw *mw;
	int rc;

	if (type != IBV_MW_TYPE_2)
		return FAIL(type == IBV_MW_TYPE_1 ? EOPNOTSUPP : EINVAL, NULL);
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return FAIL(ENOMEM, NULL);
	shard_lock(c->shard);
	rc = rnic_mw_create(face_pd(ibpd)->core, &mw->core);
	if (!rc)
		mw->ibv.rkey = rnic_mw_rkey(mw->core);
	shard_unlock(c->shard);
	if (rc) {
		free(mw);
		return FAIL(-rc, NULL);
	}
	mw->ibv.context = ibpd->context;
	mw->ibv.pd = ibpd;
	mw->ibv.type = type;
	context_get(c);
	return &mw->ibv;
}

int face_dealloc_mw(struct ibv_mw *ibmw)
{
	struct face_context *c = face_context(ibmw->context);
	struct face_mw *mw = container_of(ibmw, struct face_mw, ibv);
	int rc;

	shard_lock(c->shard);
	rc = rnic_mw_destroy(mw->core);
	shard_unlock(c->shard);
	if (rc)
		return -rc;
	free(mw);
	context_put(c);
	return 0;
}
