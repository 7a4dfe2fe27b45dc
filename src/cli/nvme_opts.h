/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The options all host verbs share, under nvme-cli's names, as an argp child: how the subsystem
 * and the namespace are reached, who the host says it is, timeouts, the output's form and which
 * verbs library is used. The URI that says the same as some of them is taken as well.
 */
#ifndef WEFT_CLI_NVME_OPTS_H
#define WEFT_CLI_NVME_OPTS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvmf/lib/uri.h"
#include "cli/output.h"
#include "nvmf/auth/psk.h"

/* What a verb works on, and so what must be named. */
enum nvme_opts_target {
	NVME_OPTS_NAMESPACE,
	NVME_OPTS_CONTROLLER,
	NVME_OPTS_DISCOVERY,
	NVME_OPTS_OWN, /* the verb looks at its arguments itself */
};

struct nvme_opts {
	enum nvme_opts_target target;
	struct nvme_uri uri; /* from the URI or from -t -a -s -n -N -q -I, the options winning */
	bool has_uri;	     /* a URI was given */
	char host_traddr[64], host_iface[16];
	unsigned int tos;		/* or traffic class */
	unsigned int keep_alive_s;	/* 0: no keep-alive */
	unsigned int queue_size;	/* entries of an I/O queue */
	unsigned int timeout_ms;	/* of a command */
	unsigned int reconnect_delay_s; /* between attempts */
	bool header_digest, data_digest;
	int ctrl_loss_s; /* give up reconnecting after this; 0: at once; -1: never */
	enum output_format format;
	bool takes_binary;    /* the verb has a binary form, too */
	bool may_be_none;     /* no target need be named */
	bool of_all;	      /* a URI's namespace says nothing, only an option's does */
	const char *provider; /* NULL: weft's own verbs library */
	/* Words of the command line, masked once they are read. */
	char *secret, *ctrl_secret, *tls_secret;
	struct auth_key key, ctrl_key; /* DH-HMAC-CHAP; of no length: none */
	bool tls;		       /* whatever the URI says */
	struct auth_key tls_key;       /* of no length: none */
	struct auth_psk_way tls_way;
	bool concat;	   /* a key of TLS is made by authentication */
	bool of_file;	   /* they stand in a file, and what is idle there is not told */
	unsigned int idle; /* bits: options that were given and have no effect */
	char advice[128];  /* behind what is said of a value that is wrong; empty: none */
};

#define NVME_NAMESPACE_ARGS                                \
	"nvme+rdma|tcp|tcp+tls://HOST[:PORT]/NQN[?ns=N]\n" \
	"-t rdma|tcp -a ADDRESS [-s PORT] -n NQN [-N NSID]"

#define NVME_CONTROLLER_ARGS                \
	"nvme+rdma|tcp://HOST[:PORT]/NQN\n" \
	"-t rdma|tcp -a ADDRESS [-s PORT] -n NQN"

/* The child parser; its input is a struct nvme_opts that nvme_opts_init() prepared. */
extern const struct argp_child nvme_opts_children[];
/*
 * The same with all that `nvme connect` and its kin take besides, for verbs whose letters are
 * theirs: what has no meaning without a kernel's device is taken, and told of once.
 */
extern const struct argp_child nvme_connect_children[];

/* Calls argp_error() where a name is longer than an NQN can be: what else is wrong with one, others
 * tell. */
void cli_check_nqn_length(const struct argp_state *state, const char *option, const char *nqn);
void nvme_opts_init(struct nvme_opts *opts, enum nvme_opts_target target);
/* Its keys, when all is connected to that wants them. */
void nvme_opts_wipe(struct nvme_opts *opts);
/* For NVME_OPTS_OWN: takes a positional argument as URI; calls argp_error() when it is none. */
void nvme_opts_take_uri(struct nvme_opts *opts, struct argp_state *state, const char *text);
/* argp_parse() with weft's habits: the name shown is "weft NAME", wrong usage exits with 2. */
void cli_parse(const struct argp *argp, const char *name, int argc, char **argv, void *input);
/* A whole number of [min, max], with an argp error that names the option otherwise. */
uint64_t cli_parse_number(struct argp_state *state, const char *option, const char *text,
			  uint64_t min, uint64_t max);
/* The same with the suffixes k, m, g, t (powers of 1024). */
uint64_t cli_parse_size(struct argp_state *state, const char *option, const char *text,
			uint64_t min, uint64_t max);

/*
 * Who this host is: what the options say, else /etc/nvme/hostnqn and /etc/nvme/hostid, else
 * names that are made from this machine's ID and thus stay the same.
 * 0, or a failure that has been told on stderr (-EINVAL).
 */
int nvme_host_identity(const struct nvme_opts *opts, char ret_nqn[NVME_URI_NQN_MAX + 1],
		       uint8_t ret_id[16]) must_use;

#endif
