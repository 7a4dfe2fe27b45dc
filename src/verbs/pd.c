// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Protection domains. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/face.h"

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
