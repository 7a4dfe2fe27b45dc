/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets of RoCEv1 (IBA volume 1, annex A16) as they stand in a frame of Ethernet behind its
 * header: GRH, BTH and all that follows, ICRC. Laid out, and read.
 */
#ifndef WEFT_PORT_RAW_V1_PACKET_H
#define WEFT_PORT_RAW_V1_PACKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/grh.h"
#include "wire/packet.h"

#define V1_ETHERTYPE  0x8915
#define V1_PACKET_MAX (GRH_LEN + PKT_HDR_MAX + 4096 + ICRC_LEN) /* of the largest path MTU */

/* How long it is, laid out. */
size_t v1_packet_len(const struct packet_tx *);
/* Lays it out at `at`, which has room for it. Returns the ICRC. */
uint32_t v1_packet_put(uint8_t *at, const struct packet_tx *);

enum v1_verdict { V1_GOOD, V1_SHORT, V1_ICRC_BAD };

/* ret borrows from the bytes, and has no scope. What follows the packet, as filling of a short
 * frame would, is passed over. */
enum v1_verdict v1_packet_take(const uint8_t *p, size_t len, struct packet_rx *ret) must_use;

#endif
