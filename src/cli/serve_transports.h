/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The transports that weft serve listens on, and each thread's side of them. The first thread makes
 * all of it, be it while the others run. */
#ifndef WEFT_CLI_SERVE_TRANSPORTS_H
#define WEFT_CLI_SERVE_TRANSPORTS_H

#include "cli/nvme_uri.h"
#include "cli/transports.h"

struct serve_transports {
	_Atomic(struct transport_target *) of[TRANSPORTS]; /* NULL: not listened on */
	int epoll_fd;
	/* Further threads', and what they are of; NULL: there are none. */
	struct serve_transports *next;
	struct target_group *group;
	struct shares *shares;
};

/* epoll_fd wakes whoever sleeps for them. */
void serve_transports_init(struct serve_transports *s, int epoll_fd);

/* One thread more: what the first listens on, that has its side of, too. */
void serve_transports_join(struct serve_transports *first, struct serve_transports *s,
			   struct target_group *group, struct shares *shares);

const struct nvmf_transport *serve_transport_of(const struct nvme_uri *u);
/* On the transport, address (empty: every one) and port of a URI. -errno and why. */
int serve_transports_listen(struct serve_transports *s, struct target *target,
			    struct shares *shares, const struct nvme_uri *u, char *why,
			    size_t room) must_use;
/* As the transports' operations of these names. */
bool serve_transports_process(struct serve_transports *s, uint64_t now_ns, bool sleepy);
uint64_t serve_transports_next_deadline(const struct serve_transports *s);
void serve_transports_shutdown(struct serve_transports *s);
bool serve_transports_idle(const struct serve_transports *s);
void serve_transports_destroy(struct serve_transports *s);

#endif
