/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What iWARP leaves to no program: connections are made by rdma_cm. */
#ifndef WEFT_TESTS_VM_WIRE_BY_CM_H
#define WEFT_TESTS_VM_WIRE_BY_CM_H

#include <rdma/rdma_cma.h>

#include "end.h"

enum { NO_DATA = -1 }; /* an event's data are not looked at */

/* The next event of this end, which must be this one and bring len bytes of private data, those of
 * cm_connect() and its like. */
struct rdma_cm_id *cm_happens(struct end *, enum rdma_cm_event_type, int len);
void cm_listen(struct end *);  /* the responder's, once */
void cm_resolve(struct end *); /* the requester's: up to where it may make its queue pair */
void cm_make_qp(struct end *, struct ibv_qp_init_attr_ex *);
void cm_connect(struct end *, uint8_t data_len);
void cm_accept(struct end *, uint8_t data_len);
void cm_reject(struct end *, uint8_t data_len);
void cm_leave(struct end *); /* without a queue pair and the identifier, if it has them */

#endif
