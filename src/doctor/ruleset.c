/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/ruleset.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

#define PORT "4791"

struct chain {
	char name[RULESET_TEXT];
	bool inside;
	bool closed;  /* its policy drops, and it sees what comes in or goes out */
	bool accepts; /* RoCE by its port */
	bool may;
};

/* The word stands there by itself. */
static bool has(const char *line, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = strstr(line, word); at; at = strstr(at + 1, word))
		if ((at == line || !isalnum((unsigned char)at[-1])) &&
		    !isalnum((unsigned char)at[len]))
			return true;
	return false;
}

static void keep(char ret[RULESET_TEXT], const char *text)
{
	if (!ret[0])
		snprintf(ret, RULESET_TEXT, "%s", text);
}

/* What a rule that accepts asks for so that RoCE's packets are not meant. */
static bool accepts_others(const char *line)
{
	static const char *const words[] = {"state", "icmp",  "icmpv6", "tcp",	"lo",
					    "dport", "sport", "arp",	"igmp", "vrrp"};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (has(line, words[i]))
			return true;
	return false;
}

/* A mark of congestion, as a switch would set it, takes nothing away. */
static bool strips(const char *line)
{
	return strstr(line, "dscp set") || (strstr(line, "ecn set") && !strstr(line, "ecn set ce"));
}

static void see_rule(struct ruleset *r, struct chain *c, const char *line)
{
	if (strips(line))
		keep(r->strips, line);
	if (has(line, PORT) && (has(line, "drop") || has(line, "reject")))
		keep(r->drops, line);
	if (has(line, "accept")) {
		c->accepts |= has(line, PORT);
		c->may |= !accepts_others(line);
	}
	c->may |= has(line, "jump") || has(line, "goto");
}

static void end_chain(struct ruleset *r, const struct chain *c)
{
	if (!c->closed || c->accepts)
		return;
	keep(r->closed, c->name);
	r->may_accept |= c->may;
}

static void see_line(struct ruleset *r, struct chain *c, char *line)
{
	if (!strncmp(line, "chain ", 6)) {
		*c = (struct chain){.inside = true};
		snprintf(c->name, sizeof(c->name), "%.*s", (int)strcspn(line + 6, " {"), line + 6);
	} else if (!c->inside) {
		return;
	} else if (!strcmp(line, "}")) {
		end_chain(r, c);
		c->inside = false;
	} else if (!strncmp(line, "type ", 5)) {
		c->closed = strstr(line, "policy drop") &&
			    (has(line, "input") || has(line, "output") || has(line, "prerouting") ||
			     has(line, "postrouting") || has(line, "ingress"));
	} else {
		see_rule(r, c, line);
	}
}

void ruleset_judge(struct ruleset *ret, char *text)
{
	struct chain c = {0};
	char *line;

	*ret = (struct ruleset){0};
	while ((line = strsep(&text, "\n"))) {
		while (isspace((unsigned char)*line))
			line++;
		see_line(ret, &c, line);
	}
}
