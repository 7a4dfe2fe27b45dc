/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/ruleset.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "wire/flow.h"

struct chain {
	char name[RULESET_TEXT];
	bool inside;
	bool passes;  /* it sees what comes in or goes out */
	bool closed;  /* and its policy, or its last rule, drops */
	bool accepts; /* RoCE, by its port */
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

/* A comment, or what goes to the log, is no rule. */
static void unquote(char *line)
{
	static const char *const before[] = {"comment \"", "prefix \""};

	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		char *said = strstr(line, before[i]), *end;

		if (!said)
			continue;
		said += strlen(before[i]);
		end = strchr(said, '"');
		memset(said, ' ', end ? (size_t)(end - said) : strlen(said));
	}
}

enum meant { OTHERS, MAYBE, ROCE };

/* The ports of a match, as 4791, 4000-5000, { 53, 4000-5000 }, @a_set, != 53. */
static enum meant ports_meant(const char *ports)
{
	const bool list = *ports == '{';
	unsigned first, last;

	if (*ports == '@' || *ports == '$' || *ports == '!' || *ports == '<' || *ports == '>')
		return MAYBE;
	for (ports += list; *ports && *ports != '}'; ports += strcspn(ports, ",}")) {
		ports += strspn(ports, ", ");
		if (sscanf(ports, "%u-%u", &first, &last) != 2) {
			if (sscanf(ports, "%u", &first) != 1)
				return MAYBE;
			last = first;
		}
		if (first <= ROCEV2_UDP_PORT && last >= ROCEV2_UDP_PORT)
			return ROCE;
		if (!list)
			break;
	}
	return OTHERS;
}

/* Whether a rule is for RoCE's packets: by its port; by nothing that would exclude them; or not. */
static enum meant rule_meant(const char *line)
{
	static const char *const words[] = {"state", "icmp", "icmpv6", "tcp",	    "lo",
					    "arp",   "igmp", "vrrp",   "ipv6-icmp", "sctp"};
	const char *at = strstr(line, "dport ");

	if (at && (!has(line, "tcp") || has(line, "udp")))
		return ports_meant(at + strlen("dport "));
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (has(line, words[i]))
			return OTHERS;
	return at || has(line, "sport") ? OTHERS : MAYBE;
}

/* A mark of congestion, as a switch would set it, takes nothing away. */
static bool strips(const char *line)
{
	return strstr(line, "dscp set") || (strstr(line, "ecn set") && !strstr(line, "ecn set ce"));
}

/* Nothing is asked of a packet that it ends. */
static bool ends_all(const char *line)
{
	if (!strncmp(line, "counter ", 8))
		line += 8;
	return !strncmp(line, "drop", 4) || !strncmp(line, "reject", 6);
}

static void see_rule(struct ruleset *r, struct chain *c, char *line)
{
	enum meant meant;

	if (strips(line))
		keep(r->strips, line);
	unquote(line);
	meant = rule_meant(line);
	if (meant == ROCE && !c->accepts && (has(line, "drop") || has(line, "reject")))
		keep(r->drops, line);
	if (has(line, "accept")) {
		c->accepts |= meant == ROCE;
		c->may |= meant == MAYBE;
	}
	c->may |= has(line, "jump") || has(line, "goto");
	c->closed |= c->passes && ends_all(line);
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
		c->passes = has(line, "input") || has(line, "output") || has(line, "prerouting") ||
			    has(line, "postrouting") || has(line, "ingress");
		c->closed = c->passes && strstr(line, "policy drop");
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
