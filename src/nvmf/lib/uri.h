/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How a subsystem or a namespace is named:
 *
 *	nvme+TRANSPORT[+tls]://HOST[:PORT][/NQN][?ns=N&hostnqn=NQN&hostid=UUID&transport=roce|iwarp]
 *
 * HOST is a name, an IPv4 address or an IPv6 address in brackets (a zone after % is kept). The
 * NQN and the query's values may be percent-encoded; '/' and ':' need not be.
 */
#ifndef WEFT_NVMF_LIB_URI_H
#define WEFT_NVMF_LIB_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/nvme_uuid.h"

#define NVME_URI_NQN_MAX    223 /* characters; NVMe base specification 2.0, 4.5 */
#define NVME_HOSTNQN_PREFIX "nqn.2014-08.org.nvmexpress:uuid:"

struct nvme_uri {
	char transport[8]; /* a name of transports.def */
	bool tls;	   /* over TCP */
	bool tls_optional; /* of --listen: hosts may do without */
	char host[256];	   /* without brackets */
	char port[8];	   /* decimal; empty: the transport's default */
	char nqn[NVME_URI_NQN_MAX + 1];
	char hostnqn[NVME_URI_NQN_MAX + 1];
	char hostid[37];	/* as written; empty: this machine's */
	uint32_t nsid;		/* 0: not said */
	char rdma_transport[8]; /* over RDMA: roce or iwarp; empty: either */
};

/* Whether text is meant as such a URI: a path of a file never begins "nvme+". */
bool nvme_uri_is(const char *text);
/* -EINVAL and a sentence (static) that says what is wrong with it. */
int nvme_uri_parse(const char *text, struct nvme_uri *ret, const char **ret_why) must_use;
/* The URI that names the same; -ENAMETOOLONG when room bytes do not hold it. */
int nvme_uri_format(const struct nvme_uri *uri, char *buf, size_t room) must_use;

/* What the names of transports are, as a sentence. */
extern const char nvme_transport_names[];
/* The checks options share with the URI. A port is 1 to 65535; a namespace ID 1 to 0xfffffffe. */
bool nvme_transport_valid(const char *name);
/* roce or iwarp. */
bool nvme_rdma_transport_valid(const char *name);
/* Of the len characters of a URI's scheme behind "nvme+", or of --listen's; false: it is none. */
bool nvme_uri_scheme(const char *text, size_t len, struct nvme_uri *ret);
bool nvme_port_valid(const char *text);
bool nvme_nqn_valid(const char *nqn);
int nvme_nsid_parse(const char *text, uint32_t *ret_nsid) must_use;

#endif
