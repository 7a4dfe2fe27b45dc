/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where a service's discovery controllers are, told to who listens for mDNS. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_text.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "mdns/publish.h"
#include "wire/nvme_fabrics.h"

#ifdef WEFT_HAVE_MDNS
static struct mdns_listener listener_of(const struct serve *s, const struct live_port *p)
{
	const char *nqn = s->live.config->discovery_nqn;
	struct mdns_listener l = {
		/* Of a machine's own RNICs nobody says here which they are: most are of this kind.
		 */
		.kind = strcmp(p->trtype, "tcp") == 0 ? MDNS_TCP : MDNS_ROCE,
		.family = strcmp(p->adrfam, "ipv6") == 0 ? AF_INET6 : AF_INET,
		.port = (uint16_t)atoi(p->trsvcid),
	};

	if (!p->port->wildcard)
		snprintf(l.address, sizeof(l.address), "%.63s", p->traddr);
	snprintf(l.nqn, sizeof(l.nqn), "%s", nqn ? nqn : NVMF_DISCOVERY_NQN);
	return l;
}

/* Every address of one family and of the other are one: each host finds its own. */
static bool joins(struct mdns_listener *a, const struct mdns_listener *b)
{
	if (*a->address || *b->address || a->kind != b->kind || a->port != b->port)
		return false;
	if (a->family != b->family)
		a->family = AF_UNSPEC;
	return true;
}

void serve_mdns_publish(struct serve *s)
{
	struct mdns_listener v[MDNS_LISTENERS_MAX];
	size_t count = 0, left = 0, at;

	if (!s->mdns || s->stopping)
		return;
	list_for_each(p, &s->live.ports, const struct live_port, link) {
		struct mdns_listener l = listener_of(s, p);

		for (at = 0; at < count && !joins(&v[at], &l);)
			at++;
		if (at < count)
			continue;
		if (count < MDNS_LISTENERS_MAX)
			v[count++] = l;
		else
			left++;
	}
	if (left && left != s->mdns_left)
		cli_warn("--mdns: %zu ports are not published: it is for %d", left,
			 MDNS_LISTENERS_MAX);
	s->mdns_left = left;
	mdns_publish(s->mdns, v, count);
}

int serve_mdns(struct serve *s)
{
	char why[512];

	if (!s->opt.mdns)
		return 0;
	if (mdns_publisher_create(&s->mdns, why, sizeof(why)) != 0)
		return cli_fail("--mdns: %s", why);
	if (serve_wake_by(s, mdns_publisher_fd(s->mdns)) < 0)
		return cli_fail("cannot set up waiting: %s", errno_text(errno));
	return 0;
}

bool serve_mdns_is(const struct serve *s, int fd)
{
	return s->mdns && fd == mdns_publisher_fd(s->mdns);
}

void serve_mdns_process(struct serve *s)
{
	enum log_level level;
	char text[512];

	while (mdns_publisher_says(s->mdns, &level, text, sizeof(text)))
		if (level == LOG_LEVEL_WARN)
			cli_warn("%s", text);
		else
			serve_answer(&s->say, "%s", text);
}

void serve_mdns_withdraw(struct serve *s)
{
	if (s->mdns)
		mdns_publish(s->mdns, NULL, 0);
}

void serve_mdns_end(struct serve *s)
{
	mdns_publisher_destroy(s->mdns);
	s->mdns = NULL;
}
#else
void serve_mdns_publish(struct serve *s)
{
	(void)s;
}

int serve_mdns(struct serve *s)
{
	(void)s;
	return 0;
}

bool serve_mdns_is(const struct serve *s, int fd)
{
	(void)s;
	(void)fd;
	return false;
}

void serve_mdns_process(struct serve *s)
{
	(void)s;
}

void serve_mdns_withdraw(struct serve *s)
{
	(void)s;
}

void serve_mdns_end(struct serve *s)
{
	(void)s;
}
#endif
