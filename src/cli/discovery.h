/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What `weft discover` and `weft connect-all` share: which discovery services are asked, a
 * service's log, and what its numbers are called.
 *
 * Services that are not named on the command line stand in nvme-cli's file, one a line, as the
 * options that nvme-cli takes; what comes before is the default of each. Or mDNS tells of them.
 */
#ifndef WEFT_CLI_DISCOVERY_H
#define WEFT_CLI_DISCOVERY_H

#include "cli/remote.h"

#define DISCOVERY_CONF "/etc/nvme/discovery.conf"

/* Which services, as an argp child, whose input is this with opts prepared: the child of that is
 * the one of nvme_opts.h. */
struct discovery_sources {
	struct nvme_opts *opts;
	const char *path; /* of the file; NULL: DISCOVERY_CONF */
	bool mdns;
	unsigned mdns_s; /* how long it is listened; 0: until that seems to be all */
	bool list;	 /* they are listed, not asked */
};

extern const struct argp_child discovery_children[];

/* False: told. */
typedef bool discovery_ask_fn(void *arg, const struct nvme_opts *service);

struct discovery_entry {
	struct weft_discovery_entry log;
	bool known;    /* weft speaks that transport */
	char uri[512]; /* what weft's commands take; empty: that cannot be written */
};

/* The port of a service: 8009 over TCP and 4420 otherwise, unless it is named. */
const char *discovery_port(const struct nvme_uri *service);
/* Connects to it; where nothing answers at a port that nobody named, at 4420. stays: it is told of
 * changes. NULL: told. */
struct remote *discovery_open(const struct nvme_opts *service, bool stays);
/* The log of the service at the other end, to be freed; NULL: told. */
struct weft_discovery *discovery_read(struct remote *r);
void discovery_entry_of(const struct weft_discovery *d, unsigned int index,
			struct discovery_entry *ret);

/*
 * Calls ask() for the service that is named, or else for each that the file or mDNS has, all of
 * them where it fails. EXIT_OK, or EXIT_FAILED if ask() did so, the file is wrong or there is none,
 * which is told.
 */
int discovery_services(const struct discovery_sources *from, discovery_ask_fn *ask, void *arg);

/* --- discovery_mdns.c: those of mDNS --------------------------------------------------------- */

int discovery_mdns(const struct discovery_sources *from, discovery_ask_fn *ask, void *arg);
/* Shows them. The exit status. */
int discovery_mdns_list(const struct discovery_sources *from);

/* --- what numbers are called ----------------------------------------------------------------- */

const char *discovery_trtype(uint8_t trtype);
const char *discovery_adrfam(uint8_t adrfam);
const char *discovery_subtype(uint8_t subtype);
const char *discovery_treq(uint8_t treq);
const char *discovery_eflags(uint16_t eflags);
/* What follows from the transport: its own fields. */
void discovery_show_tsas(struct output *o, const struct weft_discovery_entry *e);

#endif
