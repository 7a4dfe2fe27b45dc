/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who uses the broker of this network namespace: asks it, and never starts one. */
#ifndef WEFT_BROKER_LIST_ASK_H
#define WEFT_BROKER_LIST_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "broker/proto_list.h"

struct broker_listing {
	pid_t broker; /* 0: in another PID namespace */
	uid_t uid;    /* whose broker it is */
	uint64_t age_ns;
	bool pids_ours; /* /proc is of the PID namespace in which the broker sees its clients */
	struct broker_list_client *clients; /* ascending by nr */
	size_t client_count;
	struct broker_list_id *ids;
	size_t id_count;
	struct broker_devices devices;
};

/*
 * 0; -ENOENT when no broker runs; else -errno and a sentence in err. What a broker of another
 * user's says, whom root asks, need not be true, but is within bounds: states, counts, whether an
 * id's client is there need not be looked at again.
 */
int broker_list(struct broker_listing *ret, char *err, size_t err_len) must_use;
void broker_listing_free(struct broker_listing *);

#endif
