/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the kernel says of a network interface to anybody: by rtnetlink, by SIOCETHTOOL and by DCB.
 * Reading and judging are apart, so that what hardware would say can be judged without it.
 */
#ifndef WEFT_DOCTOR_IFACE_H
#define WEFT_DOCTOR_IFACE_H

#include <linux/if_link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "doctor/dcb.h"

#define IFACE_NAME 16 /* with its end: IFNAMSIZ */

struct iface_stat {
	char name[33];
	uint64_t value;
};

struct iface_feature {
	char name[33];
	bool can, on; /* can: it may be switched on */
	bool asked;   /* it has been, and is on as soon as what it needs is */
};

struct iface {
	char name[IFACE_NAME];
	uint32_t index, mtu, mtu_max; /* 0: not said */
	bool enabled, carrier, loopback, ethernet;
	bool hardware; /* it stands on a bus; a virtual machine's, too */
	bool bridge, veth;
	uint32_t lower, master; /* what it stands on, and what it is a part of, by index; 0: nothing
				   in this network namespace */
	bool addressed;
	bool rnic;	     /* an adapter's RDMA device stands on it */
	uint32_t speed_mbps; /* 0: not known */
	bool half_duplex;
	char driver[32];
	struct {
		int rc; /* 0 or -errno, as of those below */
		uint32_t rx, rx_max;
	} rings;
	struct {
		int rc;
		bool rx, tx;
	} pause;
	struct dcb dcb;
	struct rtnl_link_stats64 link;
	int stats_rc;
	struct iface_stat *stats;
	size_t stat_count;
	int features_rc;
	struct iface_feature *features;
	size_t feature_count;
};

/* All of this network namespace, to be freed; 0 or -errno. */
int ifaces_read(struct iface **ret, size_t *ret_count) must_use;
void ifaces_free(struct iface *, size_t count);

/* What it stands on, as a VLAN on its port; NULL: nothing here. */
const struct iface *iface_below(const struct iface *, size_t count, const struct iface *);
/* A counter of the driver's by one of its names; false: it has none such. */
bool iface_stat(const struct iface *, const char *name, uint64_t *ret);
/* NULL: none of that name. */
const struct iface_feature *iface_feature(const struct iface *, const char *name);

#endif
