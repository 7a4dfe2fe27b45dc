/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernel's RDMA devices, as /sys/class/infiniband has them. */
#ifndef WEFT_DOCTOR_RNIC_H
#define WEFT_DOCTOR_RNIC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "doctor/iface.h"

#define RNIC_CLASS "class/infiniband"

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
