/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A capture of packets in a file, pcap-ng, with IP headers first.
 *
 * Processes that name one file write one capture: the first, who finds it not locked, empties it
 * and writes the head; each appends blocks as a whole, which are good by themselves as all have the
 * same head, and holds the lock as long as it may write. Where the file takes but a part, the block
 * that is not whole is cut off again. %p in the name is the process's ID.
 */
#ifndef WEFT_PORT_PCAP_PCAP_FILE_H
#define WEFT_PORT_PCAP_PCAP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/compiler.h"
#include "wire/flow.h"

struct pcap_file;

/* -errno, and a sentence in err that names the file. */
int pcap_file_open(struct pcap_file **ret, const char *name, char *err, size_t err_len) must_use;
void pcap_file_close(struct pcap_file *);

struct pcap_packet {
	bool sent;   /* or received */
	uint64_t ns; /* since 1970 */
	const struct flow *flow;
	uint16_t sport, ip_id;
	const struct iovec *udp; /* what UDP carries, ICRC and all */
	int nudp;
};

/* Kept in memory until pcap_file_flush(), or until there are many. Where the file takes no more,
 * the log says so once, and nothing is written any more. */
void pcap_file_put(struct pcap_file *, const struct pcap_packet *);
void pcap_file_flush(struct pcap_file *);

#endif
