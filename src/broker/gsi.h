/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Queue pair 1, the general service interface: a MAD in an unreliable datagram. */
#ifndef WEFT_BROKER_GSI_H
#define WEFT_BROKER_GSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/packet.h"
#include "wire/cm_mad.h"

/* The MAD in a packet received for QP1; NULL for whatever else a packet may be. Borrowed from rx.
 */
const uint8_t *gsi_decode(const struct packet_rx *);
/* The same in a packet of ours that somebody quotes: the MAD, and how much there is of it. */
const uint8_t *gsi_quoted(const uint8_t *packet, size_t len, size_t *ret_len);
/* flow and mad are borrowed by ret until it is sent. psn counts what QP1 sends. */
void gsi_encode(struct packet_tx *ret, const struct flow *, const uint8_t mad[MAD_LEN],
		uint32_t psn);

#endif
