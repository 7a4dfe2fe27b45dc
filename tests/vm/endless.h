/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether a sender ends its repeats: a peer that has said DREQ has no queue pair any more, perhaps,
 * and its last ACK may be lost. The requester then repeats as often as its retry counter says,
 * seven times at most (its counter has three bits), and gives up.
 */
#ifndef WEFT_TESTS_VM_ENDLESS_H
#define WEFT_TESTS_VM_ENDLESS_H

#include "../golden/roce_pcap.h"
#include "wire/bth.h"

/* attr_id: of the connection manager's message that the packet carries, else 0. */
void endless_look(const struct roce_packet *p, const struct pkt_hdr *h, uint16_t attr_id);
/* ", a PSN sent N times after DREQ by ADDRESS", per sender that did not give up. */
void endless_print(void);

#endif
