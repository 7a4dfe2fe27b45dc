/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The IP CM private-data header, 36 bytes at the start of a REQ's or SIDR_REQ's private data, and
 * the service ids of rdma_cm port spaces (annex A11; Linux cma.c struct cma_hdr).
 */
#ifndef WEFT_WIRE_CM_IP_H
#define WEFT_WIRE_CM_IP_H

#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"

#define CM_IP_HDR_LEN		36
#define CM_SERVICE_ID(ps, port) ((uint64_t)(ps) << 16 | (port))
#define CM_SERVICE_PORT_MASK	0xffffull

enum cm_port_space { /* values of enum rdma_port_space */
		     CM_PS_IPOIB = 0x0002,
		     CM_PS_TCP = 0x0106,
		     CM_PS_UDP = 0x0111,
		     CM_PS_IB = 0x013f,
};

struct cm_ip_hdr {
	uint8_t version;     /* of the format: 0 */
	uint8_t ip_version;  /* 4 or 6 */
	uint16_t port;	     /* the sender's, host order */
	struct gid src, dst; /* IPv4 in mapped form here; its last four bytes on the wire */
};

/* -EBADMSG for an unknown format or IP version. */
int cm_ip_hdr_decode(struct cm_ip_hdr *, const uint8_t buf[CM_IP_HDR_LEN]) must_use;
void cm_ip_hdr_encode(const struct cm_ip_hdr *, uint8_t buf[CM_IP_HDR_LEN]);

#endif
