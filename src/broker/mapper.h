/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The port mapper of this host's programs (wire/iwpm.h): answers those who want to call one that
 * listens by TCP itself, as iWARP does, at which port of TCP that is. For most it is that of
 * rdma_cm; not for a program under --sockets, which has that port for itself. Callers whose kernel
 * asks first, as adapters' do, would wait for ten seconds where nobody answers.
 */
#ifndef WEFT_BROKER_MAPPER_H
#define WEFT_BROKER_MAPPER_H

#include "base/compiler.h"
#include "broker/cm_service.h"

/* Its socket, or -errno: -EADDRINUSE where the system's iwpmd runs. */
int mapper_open(void) must_use;
/* Takes what is in it. */
void mapper_serve(int fd, struct cm_service *);

#endif
