/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Data centre bridging of an interface, as the kernel tells of it to anybody (RTM_GETDCB): which
 * priorities have PFC, which traffic class each priority is in, and which priority each DSCP has.
 */
#ifndef WEFT_DOCTOR_DCB_H
#define WEFT_DOCTOR_DCB_H

#include <linux/dcbnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define DCB_PRIORITIES	8
#define DCB_DSCPS	64
#define DCB_NO_PRIORITY 0xff
#define ROCE_DSCP	26 /* what RoCE has by custom, and of notifications 48 */
#define ROCE_CNP_DSCP	48
#define ROCE_PRIORITY	3

struct dcb {
	int rc; /* 0; -EOPNOTSUPP: the driver has none; -errno */
	bool has_pfc, has_ets, has_dscp;
	struct ieee_pfc pfc;
	struct ieee_ets ets;
	uint8_t dscp_priority[DCB_DSCPS]; /* or DCB_NO_PRIORITY */
};

/* Of the interface. */
void dcb_read(struct dcb *ret, const char *ifname);
/* The kernel's answer; false: it is none. */
bool dcb_decode(struct dcb *ret, const void *message, size_t len) must_use;
/* The priority that RoCE has here: that of its DSCP, else the customary one. */
uint8_t dcb_roce_priority(const struct dcb *);

#endif
