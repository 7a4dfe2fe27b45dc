/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What `weft sim` prints of a run. Text is for a person at a terminal: short, with the ports that
 * say most. JSON has all of it but the single flows, and is the same for the same scenario and
 * seed, to the byte.
 */
#ifndef WEFT_CLI_SIM_REPORT_H
#define WEFT_CLI_SIM_REPORT_H

#include <stdbool.h>

#include "base/compiler.h"
#include "cli/output.h"
#include "fabric/scenario/run.h"

/* all: the text has every port that saw anything. The output stays open, for more of the caller's.
 * False: out of memory, and told. */
bool sim_report(struct output *o, const struct run_result *r, bool all) must_use;
/* How fast it went here, which differs from run to run. */
void sim_report_speed(struct output *o, const struct run_result *r);

#endif
