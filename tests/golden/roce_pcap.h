/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* For tests: the RoCEv2 packets of classic pcap files with Ethernet frames. */
#ifndef WEFT_TESTS_GOLDEN_ROCE_PCAP_H
#define WEFT_TESTS_GOLDEN_ROCE_PCAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"

struct roce_packet {
	const char *file; /* name without directory */
	int frame;	  /* from 1, as Wireshark counts */
	uint64_t ns;	  /* when it was captured */
	struct flow flow; /* sgid, dgid, sport, tos, ttl, flow_label of the IP and UDP headers */
	uint16_t ip_id;	  /* 0 for IPv6 */
	const uint8_t *udp;
	size_t udp_len; /* BTH to ICRC, both included */
};

struct roce_packets {
	struct roce_packet *packet;
	size_t count;
};

/* Appends the packets of a file, in its order. Whatever is not RoCEv2 is passed over. The memory
 * stays until the process ends. -errno; -EBADMSG for a file that is no such pcap or is cut off. */
int roce_pcap_read(struct roce_packets *, const char *path) must_use;

#endif
