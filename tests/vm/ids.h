/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Would weft, which does not see the IPv4 identification, have believed the good packets of a
 * capture? Each process of a receiving host is played with a table of its own; what it believes
 * is taken to be accepted, but for datagrams.
 */
#ifndef WEFT_TESTS_VM_IDS_H
#define WEFT_TESTS_VM_IDS_H

#include "../golden/roce_pcap.h"
#include "wire/bth.h"

void ids_look(const struct roce_packet *, const struct pkt_hdr *);
/* Says how many would not have been, if any. True if that is more than a few. */
bool ids_print(void);

#endif
