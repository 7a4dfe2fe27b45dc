/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A capture of both directions of a link, pcap-ng with Ethernet headers, as somebody on the line
 * would see it: RoCEv2 packets with their ICRC, and PFC frames. */
#ifndef WEFT_FABRIC_NET_CAPTURE_H
#define WEFT_FABRIC_NET_CAPTURE_H

#include <stddef.h>

#include "base/compiler.h"
#include "fabric/net/netport.h"

struct capture;

/* 0, or -errno and a sentence in err that names the file. */
int capture_open(struct capture **ret, const char *file, struct netport *, char *err,
		 size_t err_len) must_use;
/* False: the file is not whole, and why is in errno. */
bool capture_close(struct capture *) must_use;

#endif
