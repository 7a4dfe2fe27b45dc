/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Management datagrams: the header that all of them have (IBTA vol. 1, 13.4.3), its methods and
 * its status.
 */
#ifndef WEFT_WIRE_MAD_H
#define WEFT_WIRE_MAD_H

#include <stdint.h>

#include "base/cursor.h"

#define MAD_LEN		 256
#define MAD_HDR_LEN	 24
#define MAD_BASE_VERSION 1

enum mad_method {
	MAD_GET = 0x01,
	MAD_SET = 0x02,
	MAD_TRAP = 0x05,
	MAD_TRAP_REPRESS = 0x07,
	MAD_GET_RESP = 0x81, /* to Get and Set */
};
#define MAD_RESPONSE 0x80 /* in the method of each answer but TrapRepress */

enum mad_status {
	MAD_OK = 0x00,
	MAD_BUSY = 0x01,
	MAD_BAD_VERSION = 0x04,
	MAD_BAD_METHOD = 0x08,
	MAD_BAD_ATTRIBUTE = 0x0c, /* or not with this method */
	MAD_BAD_FIELD = 0x1c,
};

struct mad_hdr {
	uint8_t base_version, mgmt_class, class_version, method;
	uint16_t status, class_specific;
	uint64_t tid;
	uint16_t attr_id;
	uint32_t attr_mod;
};

void mad_hdr_decode(struct mad_hdr *, struct cursor *);
void mad_hdr_encode(const struct mad_hdr *, struct wcursor *);

#endif
