/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernel's RDMA devices, as /sys/class/infiniband has them. */
#ifndef WEFT_DOCTOR_RNIC_H
#define WEFT_DOCTOR_RNIC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "doctor/iface.h"

#define RNIC_CLASS "class/infiniband"

/* The kernel's software RNIC: its module, which keeps UDP port 4791 after its last device, and what
 * ends both, by the device's name. */
#define RXE_MODULE "rdma_rxe"
#define RXE_END	   "sudo rdma link delete %s; sudo modprobe -r " RXE_MODULE

struct rnic {
	char name[64];
	char iface[IFACE_NAME]; /* of its first port; empty: not known */
	bool ethernet;		/* its port speaks Ethernet: RoCE, or iWARP */
	bool iwarp;
	bool adapter; /* it stands on a bus */
	bool rxe;     /* the kernel's software RNIC for RoCE */
};

/* To be freed; 0 or -errno. None at all is no error. */
int rnics_read(const char *sys, struct rnic **ret, size_t *ret_count) must_use;

#endif
