/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The GUIDs of devices. A connection manager that knows another's GUID and queue pair numbers knows
 * much of what a forged message needs, and a GUID made of the MAC is known to the whole link. So
 * they are a keyed hash: of the interface's name and MAC, under a key of this boot and network
 * namespace. They are the same for every broker of one boot, and nobody outside can tell them.
 */
#ifndef WEFT_BROKER_DEVICE_GUID_H
#define WEFT_BROKER_DEVICE_GUID_H

#include <stdint.h>

struct device_guid_key {
	char boot_id[37]; /* of /proc/sys/kernel/random */
	uint64_t netns;	  /* inode */
};

void device_guid_key_read(struct device_guid_key *);
/* In network order, a locally administered EUI-64. */
uint64_t device_guid(const struct device_guid_key *, const char *ifname, const uint8_t mac[6]);

#endif
