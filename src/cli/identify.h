/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What `weft id-ctrl` and `weft id-ns` share: their options, and a page as it came. */
#ifndef WEFT_CLI_IDENTIFY_H
#define WEFT_CLI_IDENTIFY_H

#include "cli/session.h"

struct identify {
	struct nvme_opts opts;
	bool raw;
};

extern const struct argp_option identify_options[];
/* The parser of an argp with these options and nvme_opts_children; its input is a struct identify.
 */
error_t identify_parse(int key, char *arg, struct argp_state *state);

/* Parses, and connects. NULL: told. */
struct session *identify_begin(struct identify *id, enum nvme_opts_target target,
			       const struct argp *argp, const char *name, int argc, char **argv);
/* Writes the session's page as it came; false: cannot. */
bool identify_write(const struct session *s);

#endif
