/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/ruleset.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "wire/flow.h"

enum family {
	FAMILY_ANY,    /* ip, inet */
	FAMILY_IPV6,   /* IPv6 alone */
	FAMILY_DEVICE, /* netdev: one interface's, or some */
	FAMILY_BRIDGE, /* what a bridge forwards, and receives, if there is one */
	FAMILY_NONE,   /* it sees no IP, or sleeps */
};

struct chain {
	bool inside;
	bool hooked;  /* packets come to it of themselves, not by a jump */
	bool passes;  /* and they are what comes in or goes out */
	bool closed;  /* and its policy, or its last rule, drops */
	bool accepts; /* RoCE, by its port */
	bool may;
	bool ended; /* by a rule that leaves nothing to those behind it */
	struct ruleset_place place;
};

struct reading {
	struct rulesets *ret;
	char table[RULESET_TEXT]; /* with its family: "inet filter" */
	enum family family;
	struct chain c;
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

static bool begins(const char *line, const char *with)
{
	return !strncmp(line, with, strlen(with));
}

static void keep(struct ruleset_place *ret, const struct chain *c, const char *line)
{
	if (ret->text[0])
		return;
	*ret = c->place;
	snprintf(ret->text, sizeof(ret->text), "%s", line);
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

/* Behind words of a rule that ask nothing of a packet: it is counted, or told of in the log. */
static const char *behind_counts(const char *at)
{
	static const char *const words[] = {"counter", "packets", "bytes", "log", "prefix"};

	for (;;) {
		size_t len = strcspn(at, " "), i = 0;

		while (i < ARRAY_SIZE(words) &&
		       (strlen(words[i]) != len || strncmp(at, words[i], len) != 0))
			i++;
		if (!len || (i == ARRAY_SIZE(words) && *at != '"' && !isdigit((unsigned char)*at)))
			return at;
		at += len;
		at += strspn(at, " ");
	}
}

static bool is_drop(const char *at)
{
	return begins(at, "drop") || begins(at, "reject");
}

/* Behind the port, where a rule asks for UDP's before all else; NULL: it does not. */
static const char *behind_port(const char *line, const char *which)
{
	static const char *const protocol[] = {"meta l4proto udp ", "meta l4proto { tcp, udp } ",
					       "ip protocol udp ", "ip6 nexthdr udp "};
	const char *at = behind_counts(line);

	for (size_t i = 0; i < ARRAY_SIZE(protocol); i++)
		if (begins(at, protocol[i]))
			at += strlen(protocol[i]);
	if (!begins(at, "udp ") && !begins(at, "th "))
		return NULL;
	at += strcspn(at, " ") + 1;
	if (!begins(at, which))
		return NULL;
	at += strlen(which);
	at += *at == '{' ? strcspn(at, "}") : strcspn(at, " ");
	at += *at == '}';
	return at + strspn(at, " ");
}

static bool drops_all_of_port(const char *line)
{
	const char *at = behind_port(line, "dport ");

	return at && is_drop(behind_counts(at));
}

/* A mark of congestion, as a switch would set it, takes nothing away. */
static bool strips(const char *line)
{
	return strstr(line, "dscp set") || (strstr(line, "ecn set") && !strstr(line, "ecn set ce"));
}

/* Whether a rule that sets marks does it to RoCE's: to all of them, or some; or to others. */
static enum meant strips_whom(const struct reading *r, const char *line)
{
	static const char *const others[] = {"tcp", "icmp", "icmpv6", "ipv6-icmp", "sctp"};
	static const char *const ports[] = {"dport ", "sport "};
	static const char *const sets[] = {"ip dscp set", "ip6 dscp set", "ip ecn set",
					   "ip6 ecn set"};
	bool named = false;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (has(line, others[i]) && !has(line, "udp"))
			return OTHERS;
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
		const char *at = strstr(line, ports[i]);
		enum meant meant = at ? ports_meant(at + strlen(ports[i])) : MAYBE;

		if (meant == OTHERS)
			return OTHERS;
		if (meant == ROCE && behind_port(line, ports[i]))
			return r->c.passes ? ROCE : MAYBE;
		named |= at != NULL;
	}
	line = behind_counts(line);
	if (named || !r->c.passes || r->family == FAMILY_DEVICE)
		return MAYBE;
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
		if (begins(line, sets[i]))
			return ROCE;
	return MAYBE;
}

static void see_rule(struct reading *r, char *line)
{
	struct ruleset *ret = r->family == FAMILY_IPV6 ? &r->ret->ipv6 : &r->ret->any;
	struct chain *c = &r->c;
	enum meant meant, whom;
	const char *rest;

	unquote(line);
	whom = strips(line) ? strips_whom(r, line) : OTHERS;
	if (whom != OTHERS)
		keep(whom == ROCE ? &ret->strips : &ret->strips_some, c, line);
	meant = rule_meant(line);
	if (meant == ROCE && !c->accepts && (has(line, "drop") || has(line, "reject"))) {
		/* What was accepted before it does not come here. */
		bool all =
			c->passes && !c->may && r->family <= FAMILY_IPV6 && drops_all_of_port(line);

		keep(all ? &ret->drops : &ret->drops_some, c, line);
	}
	if (has(line, "accept")) {
		c->accepts |= meant == ROCE;
		c->may |= meant == MAYBE;
		if (meant == ROCE && !c->hooked)
			keep(&ret->accepts, c, line);
	}
	c->may |= has(line, "jump") || has(line, "goto");
	rest = behind_counts(line);
	c->accepts |= begins(rest, "accept");
	c->closed |= c->passes && is_drop(rest);
	c->ended |= begins(rest, "accept") || is_drop(rest);
}

/* One that surely drops is told of before one that may accept. */
static void end_chain(struct reading *r)
{
	struct ruleset *ret = r->family == FAMILY_IPV6 ? &r->ret->ipv6 : &r->ret->any;
	const struct chain *c = &r->c;
	bool may = c->may || r->family == FAMILY_DEVICE;

	if (!c->closed || c->accepts || r->family == FAMILY_BRIDGE)
		return;
	if (!ret->closed.text[0] || (ret->may_accept && !may)) {
		ret->closed = c->place;
		ret->may_accept = may;
	}
}

static void see_table(struct reading *r, const char *line)
{
	static const struct {
		const char *name;
		enum family family;
	} rows[] = {{"ip6 ", FAMILY_IPV6},
		    {"netdev ", FAMILY_DEVICE},
		    {"bridge ", FAMILY_BRIDGE},
		    {"arp ", FAMILY_NONE}};

	snprintf(r->table, sizeof(r->table), "%.*s", (int)strcspn(line, "{") - 1, line);
	r->family = FAMILY_ANY;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (begins(line, rows[i].name))
			r->family = rows[i].family;
}

static void see_line(struct reading *r, char *line)
{
	struct chain *c = &r->c;

	if (begins(line, "table ")) {
		see_table(r, line + strlen("table "));
	} else if (begins(line, "chain ")) {
		int len;

		line += strlen("chain ");
		len = (int)strcspn(line, " {");
		*c = (struct chain){.inside = r->family != FAMILY_NONE};
		snprintf(c->place.text, sizeof(c->place.text), "%.*s", len, line);
		snprintf(c->place.chain, sizeof(c->place.chain), "%.90s %.*s", r->table, len, line);
	} else if (!c->inside) {
		if (begins(line, "flags ") && has(line, "dormant"))
			r->family = FAMILY_NONE;
	} else if (!strcmp(line, "}")) {
		end_chain(r);
		c->inside = false;
	} else if (begins(line, "type ")) {
		c->hooked = true;
		c->passes = has(line, "input") || has(line, "output") || has(line, "prerouting") ||
			    has(line, "postrouting") || has(line, "ingress") || has(line, "egress");
		c->closed = c->passes && strstr(line, "policy drop");
	} else if (!c->ended) {
		see_rule(r, line);
	}
}

void ruleset_judge(struct rulesets *ret, char *text)
{
	struct reading r = {.ret = ret};
	char *line;

	*ret = (struct rulesets){0};
	while ((line = strsep(&text, "\n"))) {
		while (isspace((unsigned char)*line))
			line++;
		see_line(&r, line);
	}
}
