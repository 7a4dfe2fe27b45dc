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
static int read_rules(struct ruleset *ret)
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

void check_firewall(struct doctor *d)
{
	struct report *r = &d->report;
	struct ruleset rules;

	if (unreadable(r, read_rules(&rules)))
		return;
	if (has_legacy(d)) {
		report_found(r, DOCTOR_UNKNOWN,
			     "there are rules of iptables-legacy, which are not "
			     "read here");
		report_mend(r, "sudo iptables-legacy-save | grep -e %u -e DROP", ROCEV2_UDP_PORT);
	}
	if (rules.drops[0]) {
		report_found(r, DOCTOR_ERROR, "a rule drops packets of RoCE: %s", rules.drops);
		report_mend(r,
			    "sudo nft -a list ruleset | grep -w %u    # then: nft delete rule ... "
			    "handle N",
			    ROCEV2_UDP_PORT);
	} else if (rules.closed[0]) {
		report_found(
			r, rules.may_accept ? DOCTOR_UNKNOWN : DOCTOR_WARNING,
			"the chain %s drops what no rule accepts, and %s UDP port %u", rules.closed,
			rules.may_accept ? "whether one accepts RoCE cannot be told: none names"
					 : "none accepts",
			ROCEV2_UDP_PORT);
		report_mend(r,
			    "sudo nft add rule inet filter %s udp dport %u accept    # by the "
			    "table's name",
			    rules.closed, ROCEV2_UDP_PORT);
	} else if (!has_legacy(d)) {
		report_found(r, DOCTOR_OK, "no rule names UDP port %u, and no policy drops it",
			     ROCEV2_UDP_PORT);
	}
}

void check_mark_rules(struct doctor *d)
{
	struct report *r = &d->report;
	struct ruleset rules;

	/* Why not, the check before this has said. */
	if (read_rules(&rules))
		return;
	if (rules.strips[0]) {
		report_found(r, DOCTOR_WARNING, "a rule sets DSCP or ECN: %s", rules.strips);
		report_mend(r, "sudo nft -a list ruleset | grep -e dscp -e ecn    # then: nft "
			       "delete rule ... handle N");
	} else {
		report_found(r, DOCTOR_OK, "no rule sets DSCP or ECN");
	}
}
