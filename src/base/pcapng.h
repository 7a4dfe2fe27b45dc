/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The blocks of a capture in pcap-ng (draft-ietf-opsawg-pcapng), in memory: a head, which is a
 * section with one interface whose times are nanoseconds, and packets. libpcap writes the older
 * format only. In the byte order of the machine, which is what readers expect.
 */
#ifndef WEFT_BASE_PCAPNG_H
#define WEFT_BASE_PCAPNG_H

#include <stddef.h>
#include <stdint.h>

#define PCAPNG_ETHERNET 1   /* link types */
#define PCAPNG_RAW	101 /* begins with an IP header, of either version */
#define PCAPNG_ERF	197 /* records of capture cards, which have a kind for InfiniBand */

/* Flags of a packet; 0: which way it went is not known. */
#define PCAPNG_INBOUND	1
#define PCAPNG_OUTBOUND 2

#define PCAPNG_HEAD_MAX	     256
#define PCAPNG_PACKET_BEFORE 28
#define PCAPNG_PACKET_AFTER  19 /* at most: pad, flags, end of options, length */

/* Returns its length. name: of the interface, at most 64 bytes. */
size_t pcapng_head(uint8_t at[PCAPNG_HEAD_MAX], uint16_t link_type, const char *name);
/* A packet of len bytes lies PCAPNG_PACKET_BEFORE behind `at`; puts around it what makes it a
 * block, and returns the length of that. */
size_t pcapng_packet(uint8_t *at, uint64_t ns, size_t len, uint32_t flags);

#endif
