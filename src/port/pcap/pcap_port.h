/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A filter: the packets that pass are written to a file (pcap_file.h) as they stood on the wire,
 * those that were sent when the port behind has sent them, with the source port, identification and
 * ICRC that it gave them. What it refused, or dropped for its ICRC, is not there.
 */
#ifndef WEFT_PORT_PCAP_PCAP_PORT_H
#define WEFT_PORT_PCAP_PCAP_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "port/port.h"

/* Says when a packet passes, in nanoseconds since 1970 or since whatever began. NULL: the system's
 * clock. */
typedef uint64_t pcap_clock(void *ctx);

struct pcap_file;

/* Puts a filter before *port, which is its own from then on. -errno, and a sentence in err that
 * names the file: nothing has changed. */
int pcap_port_before(struct port **port, const char *file, pcap_clock *, void *clock_ctx, char *err,
		     size_t err_len) must_use;
/* The same with a file that is open, which is the filter's own then, too. -ENOMEM: nothing has
 * changed. */
int pcap_port_write(struct port **port, struct pcap_file *, pcap_clock *, void *clock_ctx) must_use;

#endif
