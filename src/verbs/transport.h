/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Of which kinds a process sees devices: each interface has one of each kind. */
#ifndef WEFT_VERBS_TRANSPORT_H
#define WEFT_VERBS_TRANSPORT_H

#include <stddef.h>

#include "broker/proto.h"

enum face_transport { TRANSPORT_ROCE, TRANSPORT_IWARP, TRANSPORTS };

#define TRANSPORT_NAME_MAX 64

/* What WEFT_DEVICES wants, in its order: "roce" where it says nothing, "roce,iwarp" for both.
 * Returns how many. */
size_t transports_wanted(enum face_transport ret[TRANSPORTS]);
/* weft_eth0, weft_iw_eth0 */
void transport_device_name(enum face_transport, const struct broker_device *,
			   char ret[TRANSPORT_NAME_MAX]);
/* Of each device of an interface it is another. */
uint64_t transport_guid(enum face_transport, const struct broker_device *);

#endif
