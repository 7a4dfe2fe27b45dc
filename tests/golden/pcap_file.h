/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* For tests: the frames of classic pcap files of Ethernet. */
#ifndef WEFT_TESTS_GOLDEN_PCAP_FILE_H
#define WEFT_TESTS_GOLDEN_PCAP_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct pcap_frame {
	const char *file; /* name without directory */
	int number;	  /* from 1, as Wireshark counts */
	uint64_t ns;	  /* when it was captured */
	const uint8_t *bytes;
	size_t len;
};

/* Calls for each frame, in order; the memory stays until the process ends. -errno; -EBADMSG for a
 * file that is no such pcap or is cut off. */
int pcap_file_read(const char *path, void (*each)(void *ctx, const struct pcap_frame *f),
		   void *ctx) must_use;

#endif
