/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The UDP sockets of this network namespace that bear a mark, as the kernel's sock_diag tells
 * whoever has CAP_NET_ADMIN. */
#ifndef WEFT_BROKER_MARK_TABLE_H
#define WEFT_BROKER_MARK_TABLE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"

/* Calls see for each socket with a mark. -errno: this kernel cannot tell, or not us. */
int mark_table_walk(void (*see)(void *ctx, uint32_t mark, ino_t), void *ctx) must_use;

#endif
