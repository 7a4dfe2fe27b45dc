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

#include "cli/session.h"
#include "nvmf/host/discovery.h"

#define DISCOVERY_CONF "/etc/nvme/discovery.conf"

/* An entry as text: its fields are padded, and what cannot be printed is '?'. */
struct discovery_entry {
	const struct nvmf_disc_entry *wire;
	char trsvcid[NVMF_TRSVCID_LEN + 1], traddr[NVMF_TRADDR_LEN + 1], subnqn[NVME_NQN_LEN + 1];
	struct nvme_uri uri; /* what weft's commands take */
	bool known;	     /* weft speaks that transport */
};

struct discovery {
	struct host_discovery d; /* header, entries and count are what was read */
	bool done;
};

/* Reads the log of the service at the other end; false: told. Its entries are to be freed. */
bool discovery_read(struct discovery *r, struct session *s) must_use;
void discovery_entry_of(const struct nvmf_disc_entry *wire, struct discovery_entry *ret);

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
void discovery_show_tsas(struct output *o, const struct nvmf_disc_entry *e);

#endif
