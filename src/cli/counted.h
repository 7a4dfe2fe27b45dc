/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where what a target does is counted, for others to see: base/sight.h. */
#ifndef WEFT_CLI_COUNTED_H
#define WEFT_CLI_COUNTED_H

#include "nvmf/target/target.h"

/* Until the process ends. NULL: there is no memory, and whoever counts does so for himself. Each
 * group of a target takes its own; who looks adds up what a process has of a kind. */
struct target_counters *counted_target(void);
void counted_add(struct target_counters *sum, const struct target_counters *n);
/* Of a target's group; likewise. */
struct target_figures *counted_figures(void);
void counted_figures_free(struct target_figures *f); /* NULL: nothing */

#endif
