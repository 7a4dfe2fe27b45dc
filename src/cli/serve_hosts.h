/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The hosts that `weft serve` has keys of, as its options name them. */
#ifndef WEFT_CLI_SERVE_HOSTS_H
#define WEFT_CLI_SERVE_HOSTS_H

#include "nvmf/target/target.h"

#define SERVE_HOSTS_MAX 64

struct serve_hosts {
	struct target_host host[SERVE_HOSTS_MAX];
	uint32_t count;
	uint8_t hash, dhgroup; /* of all */
};

/* [HOSTNQN=]FILE, of the host's key or the target's towards it. -EINVAL: why. */
int serve_hosts_take_key(struct serve_hosts *s, const char *text, bool ctrl, char *why,
			 size_t room) must_use;
/* sha256, ffdhe2048, ... -EINVAL: there is no such. */
int serve_hosts_find_hash(const char *name, uint8_t *ret) must_use;
int serve_hosts_find_dhgroup(const char *name, uint8_t *ret) must_use;
/* All of them. -EINVAL: why. */
int serve_hosts_add(struct serve_hosts *s, struct target *t, char *why, size_t room) must_use;
void serve_hosts_wipe(struct serve_hosts *s);

#endif
