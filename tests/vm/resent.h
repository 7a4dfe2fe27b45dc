/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Whether a sender that repeats a PSN repeats the packet: one that comes as something else puts the
 * rest of the message where it does not belong, and the receiver can only refuse it (C9-178 and
 * what follows it from the order of opcodes). And how many it repeats at all. SENDs and WRITEs; a
 * READ may be asked for from its middle.
 */
#ifndef WEFT_TESTS_VM_RESENT_H
#define WEFT_TESTS_VM_RESENT_H

#include "../golden/roce_pcap.h"
#include "wire/bth.h"

void resent_look(const struct roce_packet *p, const struct pkt_hdr *h);
/* ", N PSNs sent again by ADDRESS", per sender that did, and how many "as something else". */
void resent_print(void);

#endif
