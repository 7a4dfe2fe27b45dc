/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernel's table of UDP sockets in this network namespace, as /proc/net has it. A socket is in
 * it until the last descriptor of it is closed, in whichever process. */
#ifndef WEFT_BROKER_UDP_TABLE_H
#define WEFT_BROKER_UDP_TABLE_H

#include <sys/types.h>

#include "base/compiler.h"

/* Calls see for the inode number of each. -errno: the table cannot be read here. */
int udp_table_walk(void (*see)(void *ctx, ino_t), void *ctx) must_use;

#endif
