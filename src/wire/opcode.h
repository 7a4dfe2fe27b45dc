/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * BTH opcodes: one table row each says the headers that follow, in wire order, and the place of
 * the packet in its message. Enum, names and the header parser come from the same list.
 */
#ifndef WEFT_WIRE_OPCODE_H
#define WEFT_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

enum opcode_service {
	SERVICE_RC = 0x00,
	SERVICE_UC = 0x20,
	SERVICE_RD = 0x40,
	SERVICE_UD = 0x60,
	SERVICE_CNP = 0x80,
	SERVICE_XRC = 0xa0,
	SERVICE_WEFT = 0xc0, /* manufacturers' */
	SERVICE_MASK = 0xe0,
	SERVICE_STREAM = 0xff, /* of no packet */
};

enum opcode_flags {
	OPF_FIRST = 1 << 0, /* begins a message of several packets */
	OPF_MIDDLE = 1 << 1,
	OPF_LAST = 1 << 2,
	OPF_ONLY = 1 << 3, /* a message by itself */
	OPF_SEND = 1 << 4,
	OPF_WRITE = 1 << 5,
	OPF_READ_REQ = 1 << 6,
	OPF_READ_RESP = 1 << 7,
	OPF_ATOMIC_REQ = 1 << 8,
	OPF_ACK = 1 << 9, /* ACKNOWLEDGE or ATOMIC ACKNOWLEDGE */
	OPF_PAYLOAD = 1 << 10,
	OPF_RETH = 1 << 11,
	OPF_AETH = 1 << 12,
	OPF_ATOMICETH = 1 << 13,
	OPF_ATOMICACKETH = 1 << 14,
	OPF_IMMDT = 1 << 15,
	OPF_IETH = 1 << 16,
	OPF_DETH = 1 << 17,
	OPF_RESPONSE = 1 << 18, /* travels from responder to requester */
	OPF_XRCETH = 1 << 19,
	OPF_ATOMIC_WRITE = 1 << 20, /* answered as a READ of no bytes */
};

/* X(name, value, flags) is in opcode.def; e.g. OPCODE_RC_SEND_FIRST = 0x00. */
enum opcode {
#define X(name, value, flags) OPCODE_##name = (value),
#include "wire/opcode.def"
#undef X
};

struct opcode_info {
	const char *name; /* "RC_SEND_FIRST"; NULL: no such opcode */
	uint32_t flags;
	uint8_t ext_len; /* bytes of extended headers after the BTH */
};

extern const struct opcode_info opcode_table[256];

#endif
