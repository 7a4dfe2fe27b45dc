/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The global route header (IBA volume 1, 8.3): what RoCEv1 (annex A16) has in a frame of Ethernet
 * behind its header, and what stands before a datagram in a receive. It looks like IPv6's, with a
 * next header of its own.
 */
#ifndef WEFT_WIRE_GRH_H
#define WEFT_WIRE_GRH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"

#define GRH_LEN		40
#define GRH_NEXT_HEADER 0x1b /* a BTH */
#define GRH_NEXT_AT	6

/* payload_len: all behind it, BTH to ICRC. Class, label and hop limit are the flow's as they are.
 */
void grh_put(uint8_t at[GRH_LEN], const struct flow *, size_t payload_len);
/* The flow of the GRH at the head of these bytes, and how many behind it belong to it. False: that
 * is none, or there are fewer. */
bool grh_take(const uint8_t *p, size_t len, struct flow *ret, size_t *ret_payload_len) must_use;

#endif
