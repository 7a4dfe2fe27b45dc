/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What sysfs would have of our devices if a kernel had them: plain files in a directory of the
 * broker's own, laid out as below /sys, for those who look there (src/nodes). Where it has a
 * directory that the real /sys has too, links lead to what is there. It is made when first asked
 * for, and brought up to date whenever it is; it goes with the broker, or if that one was killed,
 * when another of the same user makes its own.
 */
#ifndef WEFT_BROKER_SYSFS_H
#define WEFT_BROKER_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "broker/proto.h"

/* The directory's name, after the one it stands in, and six more characters. */
#define SYSFS_NAME "weft-sysfs-"

struct sysfs {
	char path[64]; /* "": there is none */
	int fd;	       /* locked as long as it is ours */
	int error;
	struct broker_devices table; /* which it shows */
	bool rocev1, shows_rocev1;   /* somebody has GIDs of RoCEv1; and they are there */
	bool swept;		     /* what killed brokers have left */
	int failed;		     /* why there is none */
	uint64_t again_at;	     /* and until when there will be none */
};

void sysfs_init(struct sysfs *);
void sysfs_fini(struct sysfs *);
/* It shows these devices now, and stands at path; once somebody has wanted to see GIDs of RoCEv1,
 * those, too. 0 or -errno. */
int sysfs_show(struct sysfs *, const struct broker_devices *, bool rocev1) must_use;

#endif
