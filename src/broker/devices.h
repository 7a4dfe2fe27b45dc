/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The RDMA devices of this network namespace: one per interface, with its addresses as GIDs, kept
 * up to date by rtnetlink. An interface is listed from the first time it is seen up until it is
 * gone; while it is down its port is down. Loopback comes last, so that a program that takes the
 * first device gets one that reaches other hosts.
 */
#ifndef WEFT_BROKER_DEVICES_H
#define WEFT_BROKER_DEVICES_H

#include "base/compiler.h"
#include "broker/device_changes.h"

struct devices;

int devices_open(struct devices **ret) must_use;
void devices_close(struct devices *);
/* Readable when something may have changed: then call devices_refresh(). */
int devices_fd(const struct devices *);
/* Reads the state anew and then tells the watcher what has changed. 0 or -errno; on an error the
 * table stays as it was. */
int devices_refresh(struct devices *, const struct device_watcher *) must_use;
const struct broker_devices *devices_table(const struct devices *);
/* The device that has this address, or NULL; of link-local ones several may have the same, and
 * scope says which interface is meant (0: any). */
const struct broker_device *devices_find(const struct devices *, const struct gid *,
					 uint32_t scope);

#endif
