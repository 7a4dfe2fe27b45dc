/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A target in a thread of its own, so that a test of hosts may wait for it. */
#ifndef WEFT_TESTS_UNIT_FAR_TARGET_H
#define WEFT_TESTS_UNIT_FAR_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "nvmf/transport/transport.h"

#define FAR_NQN	   "nqn.2026-11.io.example:disk"
#define FAR_PORT   "4420"
#define FAR_BLOCKS 8192u

/* Namespace 1: FAR_BLOCKS blocks of 512 bytes, which stay over a stop; 2: 64 of 4096, read-only. */
void far_start(const struct nvmf_transport *kind);
/* As if it had been killed: connections end, nobody listens. */
void far_stop(void);
/* Operations of namespace 1 wait until they are let go; those of the time before are not over. */
void far_hold(bool hold);
/* Its NGUID from the next start on; 0 (at first): none. */
void far_nguid(uint8_t nguid);
/* Entries of an I/O queue that it grants from the next start on; 0 (at first): no limit. */
void far_entries(uint16_t entries);
/* Hosts prove themselves by this key (DHHC-1:…) from the next start on; NULL (at first): nobody
 * does. */
void far_key(const char *text);
/* How often one has, to this start of it. */
unsigned int far_authentications(void);
/* Operations that are held. */
unsigned int far_held(void);
/* Frees what stays. */
void far_end(void);

#endif
