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

/* Where something is, and what. */
struct ruleset_place {
	char chain[RULESET_TEXT]; /* as nft has it from who adds to it: "inet filter input" */
	char text[RULESET_TEXT];  /* the rule, or the chain's own name; empty: there is none */
};

/* Of all packets of RoCE, or of some: those of an interface or an address, or of whoever came to
 * that chain. Whether this host has such the text does not say. */
struct ruleset {
	struct ruleset_place drops, drops_some;	  /* a rule that drops or rejects RoCE */
	struct ruleset_place strips, strips_some; /* a rule that sets DSCP or ECN */
	struct ruleset_place closed; /* a chain that drops what no rule of it accepts */
	bool may_accept; /* in the closed chain a rule may accept RoCE that does not name it */
	struct ruleset_place accepts; /* a rule that does, in a chain that others jump to */
};

struct rulesets {
	struct ruleset any;  /* of tables that IPv4 passes */
	struct ruleset ipv6; /* of those for IPv6 alone */
};

/* text is cut into lines. */
void ruleset_judge(struct rulesets *ret, char *text);

#endif
