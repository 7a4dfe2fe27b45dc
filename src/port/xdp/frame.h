/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ethernet frames of RoCEv2: laid out as the kernel's stack would lay them out for a UDP socket
 * that sends a packet by itself, and read. What is written: no fragmentation (DF), identification
 * 0, a UDP checksum. What is read: the same with any identification, which the ICRC is checked
 * with, and any UDP checksum, which the ICRC makes up for; a virtual device leaves it to be filled
 * in by hardware that is not there.
 */
#ifndef WEFT_PORT_XDP_FRAME_H
#define WEFT_PORT_XDP_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/packet.h"

#define FRAME_ETH_LEN 14
#define FRAME_MAC_LEN 6

struct frame_macs {
	uint8_t to[FRAME_MAC_LEN], from[FRAME_MAC_LEN];
};

/* How long the frame of a packet is. */
size_t frame_len(const struct packet_tx *);
/* The source port to give it: what goes to a slot has that in its low byte. The rest, for which
 * there are 16 values, spreads flows as they wish. */
uint16_t frame_sport(const struct packet_tx *);
/* Lays it out at `at`, which has room for it. */
struct packet_sent frame_put(uint8_t *at, const struct frame_macs *, const struct packet_tx *,
			     uint16_t sport);

enum frame_verdict { FRAME_GOOD, FRAME_SHORT, FRAME_ICRC_BAD };

/* ret borrows from the frame, and has no scope. */
enum frame_verdict frame_take(const uint8_t *frame, size_t len, struct packet_rx *ret) must_use;

#endif
