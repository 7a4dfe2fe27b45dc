/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How `weft stat` shows what a target's hosts do. */
#ifndef WEFT_CLI_SERVED_VIEW_H
#define WEFT_CLI_SERVED_VIEW_H

#include "cli/output.h"
#include "cli/served.h"

/* before: the same process's, seconds ago, for rates; its tables may be empty. */
void served_show(struct output *o, const struct served *now, const struct served *before,
		 double seconds);

#endif
