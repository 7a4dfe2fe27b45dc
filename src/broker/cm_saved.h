/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a client keeps of each of its ids, for another broker. */
#ifndef WEFT_BROKER_CM_SAVED_H
#define WEFT_BROKER_CM_SAVED_H

#include "broker/proto_cm.h"
#include "cm/cm.h"

struct svc_saved {
	uint32_t handle, channel;
	uint64_t user;
	uint16_t ps, port;
	/* No bools: a client may have put anything there. */
	uint8_t datagrams, xrc, used, up, bound, listening;
	uint8_t reuse, af_only, brief, tcp_only;
	uint8_t families;
	uint16_t tcp_port;
	uint32_t scope, backlog, ifindex;
	struct gid addr;
	/* of the path, what is not 0 in it */
	struct gid src, dst;
	uint32_t path_scope, flow_label;
	uint16_t src_port, dst_port;
	uint8_t path_mtu, tos, local_ack_timeout;
	struct flow resolve_flow;
	uint64_t resolve_ns; /* how long it is still tried; 0: not */
	struct cm_saved cm;
};

_Static_assert(sizeof(struct svc_saved) <= BROKER_CM_SAVED_MAX, "what is saved has room");

#endif
