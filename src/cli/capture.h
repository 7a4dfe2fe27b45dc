/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* --pcap: a file that packets are written to. */
#ifndef WEFT_CLI_CAPTURE_H
#define WEFT_CLI_CAPTURE_H

#include <stddef.h>

#include "base/compiler.h"

/* What stands in --help. */
#define CAPTURE_HELP "Write the packets to FILE, for wireshark; %p in the name is the process's ID"

/* The file as seen from anywhere. NULL: no memory, or no directory to be in. */
char *capture_path(const char *file) must_use;
/* Has weft's verbs library, here or in the program that takes our place, write the file, which is
 * there, empty, from now on. -errno, and a sentence in err. */
int capture_use(const char *file, char *err, size_t err_len) must_use;

#endif
