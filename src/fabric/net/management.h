/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The manager of an InfiniBand subnet, at a node of it: it sends by that node, in virtual time. */
#ifndef WEFT_FABRIC_NET_MANAGEMENT_H
#define WEFT_FABRIC_NET_MANAGEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "fabric/net/ibnode.h"
#include "subnet/manager.h"

struct management;

/* swept: after each sweep. -ENOMEM. */
int management_create(struct management **ret, struct ibnode *, const struct subnet_config *,
		      void (*swept)(void *ctx), void *ctx) must_use;
void management_destroy(struct management *);
/* Sweeps, and has time pass until that is done. 0, or -errno and a sentence. */
int management_sweep(struct management *, char *err, size_t err_len) must_use;
const struct subnet_counters *management_counters(const struct management *);
uint64_t management_failed(const struct management *);	/* sweeps */
uint64_t management_took_ns(const struct management *); /* that sweep */

#endif
