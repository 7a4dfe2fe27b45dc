/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Discovery controllers as services of DNS-SD, which NVM Express calls automated discovery (base
 * specification 2.1, 8.3.1; TP 8009): what is said of one, and what what others say of theirs
 * means.
 *
 * Each is an instance of the type _nvme-disc._tcp (NVMe/TCP, and RDMA by iWARP) or _nvme-disc._udp
 * (RDMA by RoCE). Its TXT record has "p", tcp, roce or iwarp, and "nqn", the name of the discovery
 * subsystem; its SRV record has the port, and a host's name whose addresses are the controller's.
 *
 * Here nothing is sent: that does avahi-daemon, which publish.h and browse.h speak to. Whatever
 * comes from the network anybody there may have said: it is bounded, and what is shown of it is
 * escaped.
 */
#ifndef WEFT_MDNS_MDNS_H
#define WEFT_MDNS_MDNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

#define MDNS_TYPE_TCP "_nvme-disc._tcp"
#define MDNS_TYPE_UDP "_nvme-disc._udp"

#define MDNS_LABEL_MAX 63  /* bytes of a label, and so of an instance's name */
#define MDNS_NQN_MAX   223 /* bytes; NVMe base specification 2.1, 4.7 */
/* What any label is at the most when each byte is shown as \xNN, with its NUL. */
#define MDNS_PLAIN_ROOM (4 * MDNS_LABEL_MAX + 1)

enum mdns_kind { MDNS_TCP, MDNS_ROCE, MDNS_IWARP, MDNS_KINDS };

const char *mdns_type(enum mdns_kind kind);
const char *mdns_word(enum mdns_kind kind);	 /* what "p" says */
const char *mdns_transport(enum mdns_kind kind); /* "tcp" or "rdma" */

/* What a TXT record says: the first of each key counts (RFC 6763, 6.4). */
struct mdns_txt {
	bool has_p, has_nqn;
	bool bad_nqn; /* longer than any, or with a NUL in it */
	char p[8];    /* of a longer one the beginning, which is no word that there is */
	char nqn[MDNS_NQN_MAX + 1];
};

/* One string of it: KEY=VALUE, or whatever else it is. */
void mdns_txt_take(struct mdns_txt *t, const void *bytes, size_t len);
/* How the controller is reached, of an instance of that type. False: by nothing that there is. */
bool mdns_kind_of(const struct mdns_txt *t, const char *type, enum mdns_kind *ret);

/* The name of an instance: the address or, if that is "", the host that it is on. Too long a host's
 * name is cut between its characters. */
void mdns_name(char name[MDNS_LABEL_MAX + 1], const char *host, enum mdns_kind kind,
	       const char *address, uint16_t port);
/* The label of a host's name for one address alone. */
void mdns_host_label(char label[MDNS_LABEL_MAX + 1], enum mdns_kind kind, const char *address,
		     uint16_t port);

/* Printable ASCII stays, a backslash is doubled, any other byte is \xNN; cut where there is no more
 * room. Returns dst. */
char *mdns_plain(char *dst, size_t room, const char *src);

/* Whether a controller can be there. local: it is this machine's. */
bool mdns_address_usable(const struct sockaddr *sa, bool local);

#endif
