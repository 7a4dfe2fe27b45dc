// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Device memory: memory that the application reaches through verbs alone. A software RNIC has no
 * other than the host's; what an adapter asks of accesses (alignment, bounds, rights) is asked here
 * too, so that a program that runs on weft runs on one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/shared.h"

#define ACCESS_ALIGN 4 /* of offsets and lengths, as on adapters that have such memory */

static atomic_size_t used; /* by the process */

/* Takes n bytes of what there is. */
static bool reserve(size_t n)
{
	size_t now = atomic_load(&used);

	do {
		if (n > FACE_MAX_DM - now)
			return false;
	} while (!atomic_compare_exchange_weak(&used, &now, now + n));
	return true;
}

static int dm_access_check(const struct dm_object *o, uint64_t offset, size_t length)
{
	if (offset > o->length || length > o->length - offset)
		return EFAULT;
	return (offset | length) % ACCESS_ALIGN ? EINVAL : 0;
}

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *host, size_t length)
{
	const struct dm_object *o = face_dm(dm)->object;
	int rc = dm_access_check(o, offset, length);

	if (!rc)
		memcpy(o->mem + offset, host, length);
	return rc;
}

static int memcpy_from_dm(void *host, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	const struct dm_object *o = face_dm(dm)->object;
	int rc = dm_access_check(o, offset, length);

	if (!rc)
		memcpy(host, o->mem + offset, length);
	return rc;
}

/* A view of it in a context; NULL: ENOMEM. */
static struct ibv_dm *dm_view(struct ibv_context *context, struct dm_object *object)
{
	struct face_dm *dm = calloc(1, sizeof(*dm));

	if (!dm)
		return FAIL(ENOMEM, NULL);
	dm->object = object;
	dm->ibv.context = context;
	dm->ibv.memcpy_to_dm = memcpy_to_dm;
	dm->ibv.memcpy_from_dm = memcpy_from_dm;
	dm->ibv.handle = object->shared.handle;
	context_get(face_context(context));
	return &dm->ibv;
}

static void object_free(struct dm_object *o)
{
	munmap(o->mem, o->map_length);
	atomic_fetch_sub(&used, o->map_length);
	free(o);
}

static struct dm_object *object_new(size_t length)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct dm_object *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->length = length;
	o->map_length = (length + page - 1) & ~(page - 1);
	if (!reserve(o->map_length)) {
		free(o);
		return NULL;
	}
	o->mem = mmap(NULL, o->map_length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (o->mem == MAP_FAILED) {
		atomic_fetch_sub(&used, o->map_length);
		free(o);
		return NULL;
	}
	return o;
}

struct ibv_dm *face_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct dm_object *o;
	struct ibv_dm *dm;

	if (attr->comp_mask || !attr->length || attr->length > FACE_MAX_DM ||
	    attr->log_align_req >= 64 ||
	    1ull << attr->log_align_req > (size_t)sysconf(_SC_PAGESIZE))
		return FAIL(EINVAL, NULL);
	o = object_new(attr->length);
	if (!o)
		return FAIL(ENOMEM, NULL);
	shared_add(&o->shared, SHARED_DM, face_context(context));
	dm = dm_view(context, o);
	if (!dm) {
		shared_remove(&o->shared);
		object_free(o);
		return FAIL(ENOMEM, NULL);
	}
	return dm;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct shared *s = shared_find(context, SHARED_DM, handle);

	return s ? dm_view(context, container_of(s, struct dm_object, shared)) : NULL;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	context_put(face_context(dm->context));
	free(face_dm(dm));
}

int face_free_dm(struct ibv_dm *dm)
{
	struct dm_object *o = face_dm(dm)->object;

	if (atomic_load(&o->mrs))
		return REFUSED(EBUSY);
	shared_remove(&o->shared);
	object_free(o);
	ibv_unimport_dm(dm);
	return 0;
}
