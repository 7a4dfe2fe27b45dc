/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What stands in a ring before each packet: what the network's headers would say of it. */
#ifndef WEFT_PORT_LOCAL_ENTRY_H
#define WEFT_PORT_LOCAL_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include "wire/flow.h"

#define ENTRY_ALIGN	 16
#define ENTRY_PACKET_MAX (PKT_HDR_MAX + 4096 + 4)

struct entry {
	uint32_t len; /* of the packet, which has no ICRC */
	uint32_t scope;
	struct gid gid; /* both ends' */
	uint16_t sport;
	uint8_t tos, ttl;
	uint32_t flow_label;
};

_Static_assert(sizeof(struct entry) % ENTRY_ALIGN == 0, "packets are aligned as entries are");

/* Of a packet of so many bytes. */
static inline size_t entry_size(size_t len)
{
	return (sizeof(struct entry) + len + ENTRY_ALIGN - 1) / ENTRY_ALIGN * ENTRY_ALIGN;
}

#endif
