/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Identifiers on devices of iWARP: their connections are the process's own (iwcm/iwcm.h), and only
 * that something has become of one goes by the broker, so that it comes in its place among the
 * events of the channel. Functions return 0 or -errno.
 */
#ifndef WEFT_RDMACM_IW_H
#define WEFT_RDMACM_IW_H

#include "rdmacm/cma.h"

#define CMA_IW_SAID_BITS 8

/* Is it on such a device? */
static inline bool cma_is_iw(const struct cma_id *id)
{
	return id->dev && id->transport == TRANSPORT_IWARP;
}

/* Is it to listen by TCP, being on such a device or on all? And by the broker? */
bool cma_listens_iw(const struct cma_id *);
bool cma_listens_roce(const struct cma_id *);
/* Before it is bound to this address, by a program that may listen there: a TCP port is held for
 * it, that of the address or any; *port is which, unless it is none of the program's concern. 0,
 * too, where none is needed. */
int cma_iw_hold(struct cma_id *, const struct sockaddr *, uint16_t *port) must_use;
void cma_iw_let_go(struct cma_id *);
int cma_iw_listen(struct cma_id *, int backlog) must_use;
void cma_iw_unlisten(struct cma_id *);
/* From ROUTE_RESOLVED, with the depths settled. data: private. */
int cma_iw_connect(struct cma_id *, uint32_t qpn, const void *data, size_t len) must_use;
/* From REQUESTED, likewise. */
int cma_iw_accept(struct cma_id *, uint32_t qpn, const void *data, size_t len) must_use;
int cma_iw_reject(struct cma_id *, const void *data, size_t len) must_use;
/* Gracefully. */
int cma_iw_disconnect(struct cma_id *) must_use;
/* It is destroyed. */
void cma_iw_end(struct cma_id *);
/* iw_event.c: BROKER_CM_EV_OWN, whose token is what was said (enum iwcm_said), and above these bits
 * of which connection. False: it is not for the application. */
bool cma_iw_event(struct cma_event *, const struct broker_cm_event *);

#endif
