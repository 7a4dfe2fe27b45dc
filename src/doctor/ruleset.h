/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What rules of nftables, as `nft list ruleset` shows them, do with packets of RoCE, as far as that
 * can be told from their text: by rules that name port 4791, and policies. A rule that says neither
 * is not understood; the question to a peer (path.h) settles what this cannot.
 */
#ifndef WEFT_DOCTOR_RULESET_H
#define WEFT_DOCTOR_RULESET_H

#include <stdbool.h>
#include <stddef.h>

#define RULESET_TEXT 120

struct ruleset {
	char drops[RULESET_TEXT];  /* a rule that drops or rejects RoCE; empty: none */
	char closed[RULESET_TEXT]; /* a chain that drops what no rule of it accepts */
	char strips[RULESET_TEXT]; /* a rule that sets DSCP or ECN */
	bool may_accept; /* in a closed chain a rule may accept RoCE that does not name it */
};

/* text is cut into lines. */
void ruleset_judge(struct ruleset *ret, char *text);

#endif
