// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Attaching queue pairs to multicast groups. The core gives each its copy; the first of a process
 * has the broker join the socket to the group, the last has it leave.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/process.h"
#include "verbs/qp.h"

/* Joins and leaves in the order of what makes them. Lock order: before a shard's. */
static pthread_mutex_t group_lock = PTHREAD_MUTEX_INITIALIZER;

static int socket_group(const struct face_qp *qp, const struct gid *group, uint32_t ifindex,
			bool join)
{
	const struct broker_group req = {
		.msg.type = BROKER_GROUP,
		.slot = qp->ibv.qp_num >> 16,
		.ifindex = ifindex,
		.group = *group,
		.join = join,
	};
	struct broker_client *broker;
	struct broker_msg resp;
	int rc = process_broker(&broker);

	return rc ? rc : broker_client_call(broker, &req, sizeof(req), &resp, sizeof(resp), NULL);
}

static int core_attach(struct face_qp *qp, const struct gid *group, uint32_t ifindex, bool *first)
{
	int rc;

	shard_lock(qp->shard);
	rc = rnic_qp_attach(qp->core, group, ifindex, first);
	shard_unlock(qp->shard);
	return rc;
}

static int core_detach(struct face_qp *qp, const struct gid *group, uint32_t ifindex, bool *last)
{
	int rc;

	shard_lock(qp->shard);
	rc = rnic_qp_detach(qp->core, group, ifindex, last);
	shard_unlock(qp->shard);
	return rc;
}

/* RoCE has no LIDs: any will do, as with the kernel. */
int ibv_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	uint32_t ifindex = face_device(ibqp->context->device)->ifindex;
	struct face_qp *qp = face_qp(ibqp);
	struct gid group;
	bool first, last;
	int rc;

	(void)lid;
	memcpy(group.raw, gid->raw, sizeof(group.raw));
	pthread_mutex_lock(&group_lock);
	rc = core_attach(qp, &group, ifindex, &first);
	if (!rc && first) {
		rc = socket_group(qp, &group, ifindex, true);
		if (rc && core_detach(qp, &group, ifindex, &last))
			abort(); /* it was attached just now */
	}
	pthread_mutex_unlock(&group_lock);
	return rc ? REFUSED(rc == -ENOBUFS ? ENOMEM : -rc) : 0;
}

int ibv_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid)
{
	uint32_t ifindex = face_device(ibqp->context->device)->ifindex;
	struct face_qp *qp = face_qp(ibqp);
	struct gid group;
	bool last;
	int rc;

	(void)lid;
	memcpy(group.raw, gid->raw, sizeof(group.raw));
	pthread_mutex_lock(&group_lock);
	rc = core_detach(qp, &group, ifindex, &last);
	if (!rc && last)
		(void)!socket_group(qp, &group, ifindex,
				    false); /* a broker that is gone has left */
	pthread_mutex_unlock(&group_lock);
	return rc ? REFUSED(-rc) : 0;
}

void mcast_forked(void)
{
	pthread_mutex_init(&group_lock, NULL);
}
