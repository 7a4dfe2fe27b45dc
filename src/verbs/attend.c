// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#include "verbs/attend.h"

#include <errno.h>

#include "verbs/cq.h"
#include "verbs/shard.h"

void weft_private_look(void)
{
	struct shard *s = process_shard_if_any(TRANSPORT_ROCE);

	if (s)
		shard_look(s);
}

int weft_private_attend(bool sleeps, bool *ret_come, uint64_t *ret_ticket)
{
	struct shard *s = process_shard_if_any(TRANSPORT_ROCE);
	int fd;

	*ret_ticket = 0;
	*ret_come = false;
	if (!s)
		return -ENODEV;
	shard_lock(s);
	fd = shard_attend(s, sleeps, NULL, ret_come, ret_ticket);
	shard_unlock(s);
	return fd;
}

void weft_private_attended(uint64_t ticket, bool readable)
{
	struct shard *s = process_shard_if_any(TRANSPORT_ROCE);

	if (!s)
		return;
	shard_lock(s);
	shard_attended(s, ticket, readable);
	shard_unlock(s);
}

void weft_private_progress(void)
{
	struct shard *s = process_shard_if_any(TRANSPORT_ROCE);

	if (!s)
		return;
	shard_lock(s);
	shard_progress(s);
	shard_unlock(s);
}

void weft_private_cq_tell(struct ibv_cq *ibcq, void (*tell)(void *arg), void *arg)
{
	struct face_cq *cq = face_cq(ibcq);

	shard_lock(cq->shard);
	cq->tell = tell;
	cq->tell_arg = arg;
	shard_unlock(cq->shard);
}

bool weft_private_cq_arm(struct ibv_cq *ibcq)
{
	struct face_cq *cq = face_cq(ibcq);
	bool any;

	shard_lock(cq->shard);
	rnic_cq_arm(cq->core, false);
	any = !rnic_cq_empty(cq->core);
	shard_unlock(cq->shard);
	return any;
}
