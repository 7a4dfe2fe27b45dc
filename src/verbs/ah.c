// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Address handles: where a datagram goes, resolved once. The kernel's IP stack does the rest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "verbs/local.h"
#include "verbs/qp.h"
#include "wire/grh.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct face_context *c = face_context(pd->context);
	struct broker_device b;
	struct face_ah *ah;
	int rc;

	if (face_is_iwarp(pd->context))
		return FAIL(EOPNOTSUPP, NULL);
	rc = device_lookup(pd->context->device, &b);
	if (rc)
		return FAIL(-rc, NULL);
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return FAIL(ENOMEM, NULL);
	rc = resolve_flow(attr, &b, 0, 0, &ah->flow);
	if (rc) {
		free(ah);
		return FAIL(-rc, NULL);
	}
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	ah->pd = face_pd(pd)->core;
	local_meet_all(c->shard, &ah->flow);
	shard_lock(c->shard);
	rnic_pd_get(ah->pd);
	shard_unlock(c->shard);
	context_get(c);
	return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ibah)
{
	struct face_context *c = face_context(ibah->context);
	struct face_ah *ah = face_ah(ibah);

	shard_lock(c->shard);
	rnic_pd_put(ah->pd);
	shard_unlock(c->shard);
	free(ah);
	context_put(c);
	return 0;
}

/* ---- back to the sender of a datagram ---------------------------------------------------------
 */

static void map_ipv4(uint8_t gid[16], const uint8_t ip[4])
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, ip, 4);
}

static bool is_ipv4(const uint8_t *ip)
{
	uint32_t sum = 0;

	if (ip[0] != 0x45)
		return false;
	for (int i = 0; i < 20; i += 2)
		sum += ld_be16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16) == 0xffff;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	const uint8_t *p = (const uint8_t *)grh, *v4 = p + 20;
	struct broker_device b;
	struct gid here;
	int rc, index;
	bool rocev1;

	memset(attr, 0, sizeof(*attr));
	attr->port_num = port;
	/* On RoCE there is nothing but the network header to go back by. */
	if (port != FACE_PORT || !(wc->wc_flags & IBV_WC_GRH))
		return FAIL(EINVAL, -1);
	rc = device_lookup(context->device, &b);
	if (rc)
		return FAIL(-rc, -1);
	attr->is_global = 1;
	attr->grh.hop_limit = 0xff;
	/* Before there is a look for IPv4's, in whose place a GID of a GRH stands. */
	rocev1 = p[0] >> 4 == 6 && p[GRH_NEXT_AT] == GRH_NEXT_HEADER;
	if (!rocev1 && is_ipv4(v4)) {
		map_ipv4(attr->grh.dgid.raw, v4 + 12);
		map_ipv4(here.raw, v4 + 16);
		attr->grh.traffic_class = v4[1];
	} else {
		memcpy(attr->grh.dgid.raw, p + 8, 16);
		memcpy(here.raw, p + 24, 16);
		attr->grh.traffic_class = (uint8_t)(ld_be32(p) >> 20);
		attr->grh.flow_label = ld_be32(p) & 0xfffff;
	}
	index = device_gid_index(&b, &here, rocev1);
	if (index < 0)
		return FAIL(ENOENT, -1); /* the address is ours no more */
	attr->grh.sgid_index = (uint8_t)index;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port)
{
	struct ibv_ah_attr attr;

	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL
								      : ibv_create_ah(pd, &attr);
}
