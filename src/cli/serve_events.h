/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What weft serve says of its hosts, and of what it serves when that changes. */
#ifndef WEFT_CLI_SERVE_EVENTS_H
#define WEFT_CLI_SERVE_EVENTS_H

#include "cli/serve_say.h"
#include "config/diff.h"
#include "nvmf/target/target.h"

/* Some hosts have no name, and some are refused before they have told it. */
const char *serve_host_name(const char *nqn);
/* One line per host that comes or goes; a refused one is told with the reason. */
void serve_say_event(struct serve_say *say, const struct target_event *e, uint64_t now);
/* A line for each thing that is served from now on, or no more, by its name; NULL: hosts' keys. */
void serve_say_step(const struct serve_say *say, const struct config_step *step);

#endif
