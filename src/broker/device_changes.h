/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What has happened to the devices between two readings of them. The readings alone do not tell of
 * an interface that went down and came up again, or of an address that was taken away and given
 * back; the kernel's notices of the time between do.
 */
#ifndef WEFT_BROKER_DEVICE_CHANGES_H
#define WEFT_BROKER_DEVICE_CHANGES_H

#include "broker/proto.h"

#define DEVICE_NOTICES 64 /* of one reading; beyond these the readings must tell */

struct device_notice {
	uint32_t ifindex;
	enum { NOTICE_UP, NOTICE_DOWN, NOTICE_NO_ADDRESS } what;
	struct gid gid; /* NO_ADDRESS: the one taken away */
};

struct device_notices {
	struct device_notice v[DEVICE_NOTICES];
	uint32_t count;
};

struct device_watcher {
	void (*changed)(void *ctx, uint32_t ifindex, enum broker_device_change);
	void *ctx;
};

/* Room for one more, or NULL. */
struct device_notice *device_notice_add(struct device_notices *);
/* Tells the watcher, each device's changes in their order. */
void device_changes_tell(const struct broker_devices *old, const struct broker_devices *fresh,
			 const struct device_notices *, const struct device_watcher *);

#endif
