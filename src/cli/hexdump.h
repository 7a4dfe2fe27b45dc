/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Bytes for people, sixteen a line with an offset and what of them can be printed: nvme-cli's look.
 */
#ifndef WEFT_CLI_HEXDUMP_H
#define WEFT_CLI_HEXDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

void hexdump(FILE *f, const uint8_t *p, size_t len);
/* Writes them as they are; false: told. name: of the file, for messages. */
bool write_raw(FILE *f, const char *name, const void *p, size_t len);

/* All of len bytes of the file, NULL for standard input; false: told. option: who says that there
 * are so many. */
bool read_raw(const char *path, void *p, size_t len, const char *option);

#endif
