/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What `weft discover` and `weft connect-all` share: which discovery services are asked, a
 * service's log, and what its numbers are called.
 *
 * Services that are not named on the command line stand in nvme-cli's file, one a line, as the
 * options that nvme-cli takes; what comes before is the default of each.
 */
#ifndef WEFT_CLI_DISCOVERY_H
#define WEFT_CLI_DISCOVERY_H

#include "cli/remote.h"

#define DISCOVERY_CONF "/etc/nvme/discovery.conf"

struct discovery_entry {
	struct weft_discovery_entry log;
	bool known;    /* weft speaks that transport */
	char uri[512]; /* what weft's commands take; empty: that cannot be written */
};

/* The log of the service at the other end, to be freed; NULL: told. */
struct weft_discovery *discovery_read(struct remote *r);
void discovery_entry_of(const struct weft_discovery *d, unsigned int index,
			struct discovery_entry *ret);

/*
 * Calls ask() for the service that opts name, or else for each of the file's; stops where it
 * returns false. EXIT_OK, or EXIT_FAILED if ask() did so or the file is wrong, which is told.
 */
int discovery_services(const struct nvme_opts *opts, const char *path,
		       bool (*ask)(void *arg, const struct nvme_opts *service), void *arg);

const char *discovery_trtype(uint8_t trtype);
const char *discovery_adrfam(uint8_t adrfam);
const char *discovery_subtype(uint8_t subtype);
const char *discovery_treq(uint8_t treq);
const char *discovery_eflags(uint16_t eflags);
/* What follows from the transport: its own fields. */
void discovery_show_tsas(struct output *o, const struct weft_discovery_entry *e);

#endif
