/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the way to a peer does with packets of RoCE: which lengths pass, which classes and marks
 * arrive. The peer's weft broker answers (wire/path_probe.h, broker/reflector.h); Linux's or an
 * adapter's RNIC does not know the question.
 */
#ifndef WEFT_DOCTOR_PATH_H
#define WEFT_DOCTOR_PATH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "doctor/iface.h"

struct path_mark {
	uint8_t sent;
	bool answered;
	uint8_t there, back; /* the traffic class, as it came */
};

enum { PATH_ECT, PATH_CE, PATH_CNP, PATH_MARKS };

struct path {
	char peer[INET6_ADDRSTRLEN + IFACE_NAME];
	char iface[IFACE_NAME]; /* by which packets leave; empty: not known */
	uint32_t iface_mtu;	/* of that; 0: not known */
	bool here;		/* the peer is this host */
	int error;		/* 0; -errno: nothing can be sent there, or somebody said so */
	bool answered;		/* by weft */
	bool asked_echo;	/* somebody may */
	bool echoes;	 /* the peer's kernel answers echo requests; false may be as it likes */
	bool told;	 /* it is a weft that tells of itself; the rest is only then */
	uint32_t passes; /* the longest IP packet that came back whole, of those tried; 0: none */
	uint32_t fails;	 /* the shortest that did not; 0: all did */
	bool answer_cut; /* it arrived, and the peer could not answer with as much */
	uint32_t peer_mtu, peer_room; /* 0: not known */
	struct path_mark mark[PATH_MARKS];
};

/* Asks; takes some milliseconds where answers come, and a second or two where not. peer: an
 * address. 0 or -EINVAL: it is none. What else is wrong stands in ret. */
int path_measure(struct path *ret, const char *peer, const struct iface *, size_t ifaces) must_use;

#endif
