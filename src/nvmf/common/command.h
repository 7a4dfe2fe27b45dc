/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What host and target both have to know of a command: which way its data goes, how long names
 * are written. No state.
 */
#ifndef WEFT_NVMF_COMMON_COMMAND_H
#define WEFT_NVMF_COMMON_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/nvme.h"

enum nvmf_dir { /* the low two bits of an opcode or a fabrics command type */
		NVMF_DIR_NONE = 0,
		NVMF_DIR_TO_CTRL = 1,
		NVMF_DIR_TO_HOST = 2,
		NVMF_DIR_BOTH = 3, /* no command we know */
};

/* Which way the data of a command goes, as its opcode says (Base 2.0 figure 139). */
enum nvmf_dir nvmf_dir_of(const struct nvme_sqe *s);

/*
 * A qualified name in a field of the wire: zero-terminated within 224 bytes, begins "nqn.",
 * printable, without spaces. Base 2.0 section 4.5.
 */
bool nvmf_nqn_valid(const char *field, size_t room);
bool nvmf_nqn_equal(const char a[NVME_NQN_LEN], const char *b);

/* Fixed ASCII fields: padded with spaces, not terminated; text that is too long is cut. */
void nvmf_pad(char *field, size_t room, const char *text);
/* Such a field as a string without trailing spaces; ret holds room + 1 bytes. */
void nvmf_unpad(char *ret, const char *field, size_t room);

#endif
