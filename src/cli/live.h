/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The target that weft serve serves, as its configuration says: what it is made of, and how it
 * becomes another. It begins as nothing; a start, an edit and a file that is read again are all
 * live_become().
 */
#ifndef WEFT_CLI_LIVE_H
#define WEFT_CLI_LIVE_H

#include "cli/disks.h"
#include "cli/live_hosts.h"
#include "cli/serve_transports.h"
#include "config/config.h"
#include "config/diff.h"
#include "nvmf/target/target.h"

#define LIVE_PLACE_MAX 320

struct live_ns {
	struct list link; /* of live_subsys.namespaces, of live.leaving, or of live.gone */
	struct target_ns ns;
	struct live *live;
	struct disk *disk;
	bool going; /* a plan that is being made has it leave */
};

struct live_subsys {
	struct list link; /* of live.subsystems, of live.leaving_subsystems, or of live.gone_… */
	struct target_subsys s;
	struct list namespaces;
	char **hosts; /* those that may connect; NULL: any */
	struct live *live;
};

struct live_port {
	struct list link; /* of live.ports */
	struct target_port *port;
	struct transport_target *transport;
	char trtype[8], adrfam[8], traddr[NVMF_TRADDR_LEN], trsvcid[NVMF_TRSVCID_LEN];
	struct target_subsys **offered;
	struct target_referral *referrals;
};

struct live {
	struct target *target;
	struct serve_transports *transports;
	struct shares *shares;
	struct disks disks;
	struct config *config; /* NULL: nothing yet */
	struct live_hosts hosts;
	char failed_at[LIVE_PLACE_MAX]; /* the place in the document that it could not become, or ""
					 */
	struct list subsystems, ports;
	struct list leaving, leaving_subsystems; /* hosts' work on them goes to its end */
	struct list gone, gone_subsystems;	 /* it has: to be freed */
	/* Who is told of each step as it is done; of NULL: hosts' keys are others. Or NULL. */
	void (*changed)(void *ctx, const struct config_step *step);
	void *ctx;
};

void live_init(struct live *l, struct target *target, struct serve_transports *transports,
	       struct shares *shares, struct store_engine *engine,
	       const struct store_file_options *how);
/*
 * Whole or not at all: -errno, and why, and nothing has changed; 0, and `to` is l's.
 * ret_steps: how much has changed, or NULL.
 */
int live_become(struct live *l, struct config *to, size_t *ret_steps, char *why,
		size_t room) must_use;
/* Lets go of what has left; to be called now and then. */
void live_process(struct live *l);
/* Namespaces whose size has changed: hosts are told, and changed() for each. */
void live_measure(struct live *l, void (*changed)(void *ctx, const struct live_ns *ns), void *ctx);
/* What a controller's namespace is called; "" if it has left. */
const char *live_path(const struct target_subsys *s, uint32_t nsid);
struct live_subsys *live_find_subsys(const struct live *l, const char *nqn);
struct live_ns *live_find_ns(const struct live_subsys *s, uint32_t nsid);
/* Of disks, whether a flush by a host has failed. */
void live_note_losses(struct live *l);
/* Nothing is under way, and transports are gone. */
void live_fini(struct live *l);

#endif
