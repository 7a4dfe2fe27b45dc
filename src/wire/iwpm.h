/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What port mappers of iWARP say to each other by UDP, as Linux's iwpmd and its kernel have it
 * (rdma-core, iwpmd/iwarp_pm.h). An adapter that shares its address with its host has other TCP
 * ports than those its programs name, and who calls asks for them: a request, its acceptance or
 * rejection, and an acknowledgement without which the acceptance comes again.
 */
#ifndef WEFT_WIRE_IWPM_H
#define WEFT_WIRE_IWPM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define IWPM_PORT	 3935
#define IWPM_LEN	 48
#define IWPM_REQUEST_LEN 64

enum iwpm_type { IWPM_REQUEST, IWPM_ACCEPT, IWPM_ACK, IWPM_REJECT };

struct iwpm_end {
	uint8_t addr[16]; /* of IPv4 the first four, and zeros */
	uint16_t port;
};

struct iwpm {
	enum iwpm_type type;
	bool v6;
	uint64_t handle;		/* the request's, in all that belongs to it */
	struct iwpm_end caller, called; /* called: as the program knows it; of an acceptance and its
					   acknowledgement, as TCP does */
	struct iwpm_end mapped_caller;	/* of a request: where the call will come from */
};

/* -EBADMSG: that is none. */
int iwpm_get(struct iwpm *ret, const void *from, size_t len) must_use;
/* Returns the length. */
size_t iwpm_put(uint8_t to[IWPM_REQUEST_LEN], const struct iwpm *);

#endif
