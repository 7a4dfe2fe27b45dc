/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One request to the broker and its reply, on a connection that nobody else uses meanwhile. */
#ifndef WEFT_BROKER_EXCHANGE_H
#define WEFT_BROKER_EXCHANGE_H

#include <stddef.h>

#include "base/compiler.h"
#include "broker/proto_cm.h"

/* pass_fd: goes along, -1 for none. ret_saved: what stands behind the reply to a request of
 * proto_cm.h, .id 0 for none; may be NULL, as ret_fd may. 0, or -errno: the connection is of no use
 * any more. */
int exchange(int fd, const void *req, size_t req_len, int pass_fd, void *resp, size_t resp_len,
	     struct broker_cm_saved *ret_saved, int *ret_fd) must_use;

#endif
