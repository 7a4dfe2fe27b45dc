/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/opcode.h"

#include "wire/bth.h"

#define EXT_LEN(f)                                                                              \
	(((f)&OPF_RETH ? RETH_LEN : 0) + ((f)&OPF_AETH ? AETH_LEN : 0) +                        \
	 ((f)&OPF_ATOMICETH ? ATOMICETH_LEN : 0) + ((f)&OPF_ATOMICACKETH ? ATOMICACK_LEN : 0) + \
	 ((f)&OPF_IMMDT ? IMMDT_LEN : 0) + ((f)&OPF_IETH ? IETH_LEN : 0) +                      \
	 ((f)&OPF_DETH ? DETH_LEN : 0) + ((f)&OPF_XRCETH ? XRCETH_LEN : 0))

const struct opcode_info opcode_table[256] = {
#define X(opname, value, opflags) \
	[value] = {.name = #opname, .flags = (opflags), .ext_len = EXT_LEN(opflags)},
#include "wire/opcode.def"
#undef X
};
