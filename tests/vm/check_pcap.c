/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Looks at every RoCEv2 packet of pcap files: is the ICRC right, does the header decode, does what
 * was decoded encode to the same bytes? Prints one line; status 1 if there is anything wrong, or
 * no packet at all.
 */
#include <stdio.h>
#include <string.h>

#include "../golden/roce_pcap.h"
#include "wire/bth.h"
#include "wire/icrc.h"

int main(int argc, char **argv)
{
	struct roce_packets all = {0};
	unsigned bad_icrc = 0, bad_header = 0;

	for (int i = 1; i < argc; i++) {
		int rc = roce_pcap_read(&all, argv[i]);

		if (rc) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(-rc));
			return 1;
		}
	}
	for (size_t i = 0; i < all.count; i++) {
		const struct roce_packet *p = &all.packet[i];
		uint8_t again[PKT_HDR_MAX];
		struct pkt_hdr h;
		int len;

		if (p->udp_len <= ICRC_LEN || !icrc_check(&p->flow, p->ip_id, p->udp, p->udp_len)) {
			printf("%s frame %d: bad ICRC\n", p->file, p->frame);
			bad_icrc++;
			continue;
		}
		len = pkt_hdr_decode(&h, p->udp, p->udp_len - ICRC_LEN);
		if (len < 0 || pkt_hdr_encode(&h, again) != (size_t)len ||
		    memcmp(again, p->udp, (size_t)len)) {
			printf("%s frame %d: malformed header\n", p->file, p->frame);
			bad_header++;
		}
	}
	printf("%zu packets", all.count);
	if (bad_icrc || bad_header)
		printf(", %u bad ICRCs, %u malformed headers", bad_icrc, bad_header);
	putchar('\n');
	return bad_icrc || bad_header || all.count == 0;
}
