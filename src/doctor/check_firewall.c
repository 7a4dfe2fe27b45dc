/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rules of this host that drop RoCE or change its class and marks. To read them takes CAP_NET_ADMIN
 * in the network namespace, and libnftables, which is loaded here alone.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <nftables/libnftables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "doctor/checks.h"
#include "doctor/files.h"
#include "doctor/ruleset.h"
#include "wire/flow.h"

#define ASK_PEER "weft doctor --peer ADDRESS    # the way to it says whether packets arrive"
#define FIND_RULE \
	"sudo nft -a list chain %s    # its handle; then: sudo nft delete rule %s handle N"

/* Scopes of an address, as /proc/net/if_inet6 has them. */
#define IPV6_GLOBAL 0x00
#define IPV6_SITE   0x40

struct nft {
	void *library;
	struct nft_ctx *ctx;
	__typeof__(&nft_ctx_new) ctx_new;
	__typeof__(&nft_ctx_free) ctx_free;
	__typeof__(&nft_ctx_buffer_output) buffer_output;
	__typeof__(&nft_ctx_buffer_error) buffer_error;
	__typeof__(&nft_ctx_get_output_buffer) output;
	__typeof__(&nft_run_cmd_from_buffer) run;
	__typeof__(&nft_ctx_output_set_flags) set_flags;
};

static bool load(struct nft *n)
{
	static const struct {
		const char *name;
		size_t at;
	} symbols[] = {
		{"nft_ctx_new", offsetof(struct nft, ctx_new)},
		{"nft_ctx_free", offsetof(struct nft, ctx_free)},
		{"nft_ctx_buffer_output", offsetof(struct nft, buffer_output)},
		{"nft_ctx_buffer_error", offsetof(struct nft, buffer_error)},
		{"nft_ctx_get_output_buffer", offsetof(struct nft, output)},
		{"nft_run_cmd_from_buffer", offsetof(struct nft, run)},
		{"nft_ctx_output_set_flags", offsetof(struct nft, set_flags)},
	};

	*n = (struct nft){.library = dlopen("libnftables.so.1", RTLD_NOW | RTLD_LOCAL)};
	for (size_t i = 0; n->library && i < ARRAY_SIZE(symbols); i++) {
		void *f = dlsym(n->library, symbols[i].name);

		if (!f)
			return false;
		memcpy((char *)n + symbols[i].at, &f, sizeof(f));
	}
	n->ctx = n->library ? n->ctx_new(NFT_CTX_DEFAULT) : NULL;
	return n->ctx != NULL;
}

static void unload(struct nft *n)
{
	if (n->ctx)
		n->ctx_free(n->ctx);
	if (n->library)
		dlclose(n->library);
}

/* libnftables would complain on stderr. 0: the kernel tells; or -errno: of what it does not. */
static int may_ask(void)
{
	struct {
		struct nlmsghdr h;
		struct nfgenmsg g;
	} req = {
		.h = {.nlmsg_len = sizeof(req),
		      .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
		      .nlmsg_flags = NLM_F_REQUEST},
		.g = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0},
	};
	_Alignas(struct nlmsghdr) char answer[4096];
	const struct nlmsghdr *h = (void *)answer;
	int fd = kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	ssize_t n = -1;
	int rc = 0;

	if (fd < 0)
		return -EOPNOTSUPP;
	if (send(fd, &req, sizeof(req), 0) == sizeof(req))
		n = recv(fd, answer, sizeof(answer), 0);
	if (n < 0 || !NLMSG_OK(h, (size_t)n))
		rc = -EOPNOTSUPP;
	else if (h->nlmsg_type == NLMSG_ERROR)
		rc = ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
	close(fd);
	return rc == 0 || rc == -EPERM ? rc : -EOPNOTSUPP;
}

/* Both checks' reading: 0; -ENOPKG: no libnftables; -EPERM: it is not for this user; -EOPNOTSUPP.
 */
static int read_rules(struct rulesets *ret)
{
	struct nft n;
	int rc = may_ask();
	char *text;

	if (rc)
		return rc;
	rc = -ENOPKG;
	if (load(&n)) {
		n.buffer_output(n.ctx);
		n.buffer_error(n.ctx);
		n.set_flags(n.ctx, NFT_CTX_OUTPUT_STATELESS);
		rc = n.run(n.ctx, "list ruleset") ? -EOPNOTSUPP : 0;
		text = rc ? NULL : strdup(n.output(n.ctx));
		if (text)
			ruleset_judge(ret, text);
		else if (rc == 0)
			rc = -ENOMEM;
		free(text);
	}
	unload(&n);
	return rc;
}

static bool unreadable(struct report *r, int rc)
{
	if (rc == 0)
		return false;
	if (rc == -ENOPKG) {
		report_found(r, DOCTOR_UNKNOWN,
			     "rules of nftables are read by libnftables, which is "
			     "not installed");
		report_mend(r, "sudo apt install libnftables1");
	} else if (rc == -EOPNOTSUPP) {
		report_found(r, DOCTOR_UNKNOWN, "the kernel does not show its rules of nftables");
		report_mend(r, "sudo nft list ruleset    # says why");
	} else {
		report_found(r, DOCTOR_UNKNOWN, "rules of nftables may be seen by root alone");
		report_mend(r, "sudo weft doctor");
	}
	return true;
}

/* What iptables-legacy has made is in no ruleset of nftables; false: there is nothing. */
static bool has_legacy(const struct doctor *d)
{
	char line[64];

	return (file_line(d->proc, line, sizeof(line), "net/ip_tables_names") == 0 && line[0]) ||
	       (file_line(d->proc, line, sizeof(line), "net/ip6_tables_names") == 0 && line[0]);
}

/* Of an address that is not the link's own. */
static void see_address(void *ctx, char *line)
{
	bool *any = ctx;
	unsigned scope;

	if (sscanf(line, "%*s %*x %*x %x", &scope) == 1)
		*any |= scope == IPV6_GLOBAL || scope == IPV6_SITE;
}

/* What rules do to IPv6 alone harms nobody where none is used. */
static bool uses_ipv6(const struct doctor *d)
{
	bool any = false;

	return file_lines(d->proc, "net/if_inet6", see_address, &any) == 0 && any;
}

static enum severity at_most(enum severity s, enum severity most)
{
	return s < most ? s : most;
}

static void mend_closed(struct report *r, const struct ruleset *rules)
{
	/* Nobody else may change what firewalld owns. */
	if (strstr(rules->closed.chain, " firewalld "))
		report_mend(r,
			    "sudo firewall-cmd --add-port=%u/udp    # once more with --permanent, "
			    "to keep it",
			    ROCEV2_UDP_PORT);
	else
		report_mend(r, "sudo nft insert rule %s udp dport %u accept", rules->closed.chain,
			    ROCEV2_UDP_PORT);
}

static void tell_closed(struct report *r, const struct ruleset *rules, const char *over,
			enum severity most)
{
	const char *chain = rules->closed.text;

	if (!rules->may_accept) {
		report_found(r, at_most(DOCTOR_WARNING, most),
			     "the chain %s drops what no rule accepts, and none accepts UDP port "
			     "%u%s",
			     chain, ROCEV2_UDP_PORT, over);
		mend_closed(r, rules);
	} else if (!rules->accepts.text[0]) {
		report_found(r, at_most(DOCTOR_UNKNOWN, most),
			     "the chain %s drops what no rule accepts, and whether one accepts "
			     "RoCE%s cannot be told: none names UDP port %u",
			     chain, over, ROCEV2_UDP_PORT);
		mend_closed(r, rules);
	} else {
		report_found(r, at_most(DOCTOR_UNKNOWN, most),
			     "the chain %s drops what no rule accepts; whether RoCE%s comes to the "
			     "one that accepts it, in %s, cannot be told",
			     chain, over, rules->accepts.chain);
		report_mend(r, ASK_PEER);
	}
}

/* over: which packets, where not all; most: no finding is graver. false: there was nothing. */
static bool tell_drops(struct report *r, const struct ruleset *rules, const char *over,
		       enum severity most)
{
	const struct ruleset_place *some = &rules->drops_some;

	if (rules->drops.text[0]) {
		report_found(r, at_most(DOCTOR_ERROR, most), "a rule drops packets of RoCE%s: %s",
			     over, rules->drops.text);
		report_mend(r, FIND_RULE, rules->drops.chain, rules->drops.chain);
		return true;
	}
	if (rules->closed.text[0])
		tell_closed(r, rules, over, most);
	if (some->text[0]) {
		report_found(r, at_most(DOCTOR_UNKNOWN, most),
			     "a rule in %s drops some packets of RoCE%s, and whether this host has "
			     "such cannot be told: %s",
			     some->chain, over, some->text);
		report_mend(r, ASK_PEER);
	}
	return rules->closed.text[0] || some->text[0];
}

void check_firewall(struct doctor *d)
{
	struct report *r = &d->report;
	struct rulesets rules;

	if (unreadable(r, read_rules(&rules)))
		return;
	if (has_legacy(d)) {
		report_found(r, DOCTOR_UNKNOWN,
			     "there are rules of iptables-legacy, which are not "
			     "read here");
		report_mend(r, "sudo iptables-legacy-save | grep -e %u -e DROP", ROCEV2_UDP_PORT);
	}
	firewall_judged(d, &rules);
}

void firewall_judged(struct doctor *d, const struct rulesets *rules)
{
	struct report *r = &d->report;
	bool any = tell_drops(r, &rules->any, "", DOCTOR_ERROR);

	any |= tell_drops(r, &rules->ipv6, " over IPv6", uses_ipv6(d) ? DOCTOR_ERROR : DOCTOR_NOTE);
	if (!any && !has_legacy(d))
		report_found(r, DOCTOR_OK, "no rule names UDP port %u, and no policy drops it",
			     ROCEV2_UDP_PORT);
}

static bool tell_strips(struct report *r, const struct ruleset *rules, const char *over,
			enum severity most)
{
	bool all = rules->strips.text[0];
	const struct ruleset_place *p = all ? &rules->strips : &rules->strips_some;

	if (!p->text[0])
		return false;
	report_found(r, at_most(all ? DOCTOR_WARNING : DOCTOR_UNKNOWN, most),
		     "a rule sets DSCP or ECN%s%s: %s", over,
		     all ? ""
			 : " of some packets, and whether RoCE's are among them cannot be told",
		     p->text);
	if (all)
		report_mend(r, FIND_RULE, p->chain, p->chain);
	else
		report_mend(r, ASK_PEER);
	return true;
}

void check_mark_rules(struct doctor *d)
{
	struct rulesets rules;

	/* Why not, the check before this has said. */
	if (read_rules(&rules) == 0)
		mark_rules_judged(d, &rules);
}

void mark_rules_judged(struct doctor *d, const struct rulesets *rules)
{
	struct report *r = &d->report;
	bool any = tell_strips(r, &rules->any, "", DOCTOR_ERROR);

	any |= tell_strips(r, &rules->ipv6, " over IPv6",
			   uses_ipv6(d) ? DOCTOR_ERROR : DOCTOR_NOTE);
	if (!any)
		report_found(r, DOCTOR_OK, "no rule sets DSCP or ECN");
}
