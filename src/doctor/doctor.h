/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * weft doctor: looks at this host, and at the way to a peer that runs weft, and says what is wrong
 * with it for RDMA, why, and the line to type. It changes nothing and needs no privilege; what it
 * may not look at it says so of.
 *
 * First all is read (iface.h, rnic.h, path.h), then each row of checks.def judges. Files of /sys
 * and /proc are read while judging, below roots that a test has elsewhere.
 *
 * What matters to a lossless fabric or an adapter is said only where there is one: a plain host or
 * a virtual machine is well as it is.
 */
#ifndef WEFT_DOCTOR_DOCTOR_H
#define WEFT_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "doctor/iface.h"
#include "doctor/path.h"
#include "doctor/report.h"
#include "doctor/rnic.h"

struct doctor {
	const char *sys, *proc; /* roots */
	struct iface *ifaces;
	size_t iface_count;
	struct rnic *rnics;
	size_t rnic_count;
	struct path *path; /* NULL: no peer was named */
	bool *wanted;	   /* of each interface; NULL: of all that are up and have an address */
	struct report report;
};

/* Reads interfaces and devices; 0 or -errno. */
int doctor_begin(struct doctor *, const char *sys, const char *proc) must_use;
/* Has the checks look. */
void doctor_look(struct doctor *);
void doctor_end(struct doctor *);

/* Of this interface and what stands on it alone, and of others that were named so. name: of an
 * interface, of a device of the kernel's, or of weft's. false: there is none such. */
bool doctor_want(struct doctor *, const char *name) must_use;
/* Of all interfaces, also those that are down. */
bool doctor_want_all(struct doctor *) must_use;

#endif
