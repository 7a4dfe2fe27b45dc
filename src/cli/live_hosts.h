/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The hosts that prove who they are, as a configuration says, and as the target knows them. */
#ifndef WEFT_CLI_LIVE_HOSTS_H
#define WEFT_CLI_LIVE_HOSTS_H

#include "config/config.h"
#include "nvmf/target/target.h"

struct live_hosts {
	struct target_host *host;
	/* Of each, who the command line says has this name: not the target's meanwhile. Or NULL. */
	struct target_host **hidden;
	uint32_t count;
};

/* -EINVAL, -ENOMEM, and why: where the document is wrong, without the key. */
int live_hosts_prepare(const struct config *c, struct live_hosts *ret, char *why,
		       size_t room) must_use;
/*
 * From here on the target knows these instead of those before, which are freed: for the next
 * Connect, and the next authentication. True: they differ.
 */
bool live_hosts_become(struct live_hosts *l, struct live_hosts *next, struct target *t);
/* The target knows none of them, or is gone. The keys are wiped. */
void live_hosts_free(struct live_hosts *l);

#endif
