/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For rsockets whose program would as soon have TCP: a symbol of the version node WEFT_PRIVATE_1,
 * which rsocket/connect.c looks for by name.
 */
#ifndef WEFT_RDMACM_BRIEF_H
#define WEFT_RDMACM_BRIEF_H

#include <rdma/rdma_cma.h>

/* Before its address is resolved: UNREACHABLE comes some 300 ms after rdma_connect() if the peer's
 * connection manager has given no sign of life by then, and where it has given none to others of
 * this kind lately, rdma_resolve_addr() fails with EHOSTUNREACH (cm/cm_brief.c). */
void weft_private_brief(struct rdma_cm_id *);

#endif
