/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who uses weft by NVMe/TCP alone: no broker knows of these, but they show what they count. */
#ifndef WEFT_CLI_LIST_OTHERS_H
#define WEFT_CLI_LIST_OTHERS_H

#include "cli/output.h"
#include "cli/snapshot.h"

/* Those that can be looked into; 0, -ENOMEM. */
int others_find(struct snapshot *ret) must_use;
/* All that others_find() has found, for people or as a list of JSON's; room: columns, 0: any. */
void others_show(struct output *o, const struct snapshot *others, int room);

#endif
