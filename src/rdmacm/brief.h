/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * For rsockets, who make many connections, and whose program would as soon have TCP: symbols of the
 * version node WEFT_PRIVATE_1, which rsocket/connect.c looks for by name.
 */
#ifndef WEFT_RDMACM_BRIEF_H
#define WEFT_RDMACM_BRIEF_H

#include <rdma/rdma_cma.h>

/* Before its address is resolved: UNREACHABLE comes some 300 ms after rdma_connect() if the peer's
 * connection manager has given no sign of life by then, and where it has given none to others of
 * this kind lately, rdma_resolve_addr() fails with EHOSTUNREACH (cm/cm_brief.c). */
void weft_private_brief(struct rdma_cm_id *);

/* rdma_resolve_addr() and rdma_resolve_route() in one. 1: done, and rdma_connect() may follow, if
 * there was nothing to wait for. 0: ADDR_RESOLVED comes, and all goes on as ever. Or -errno. */
int weft_private_resolve(struct rdma_cm_id *, struct sockaddr *dst, int timeout_ms);

/* Before it is bound: the program has TCP's port of its number for itself. Where this one would
 * listen there, as on iWARP, it does at another, of which port mappers tell (broker/mapper.h); and
 * who is called is asked for it. */
void weft_private_tcp_elsewhere(struct rdma_cm_id *);

#endif
