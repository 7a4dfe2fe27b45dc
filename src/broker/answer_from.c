/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/answer_from.h"

#include <netinet/in.h>
#include <string.h>

void answer_from(struct msghdr *m)
{
	struct cmsghdr *kept = m->msg_control;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo *p = (void *)CMSG_DATA(c);

			p->ipi_ifindex = 0;
			p->ipi_spec_dst = p->ipi_addr;
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo *p = (void *)CMSG_DATA(c);

			if (!IN6_IS_ADDR_LINKLOCAL(&p->ipi6_addr))
				p->ipi6_ifindex = 0;
		} else {
			continue;
		}
		m->msg_controllen = CMSG_ALIGN(c->cmsg_len);
		memmove(kept, c, m->msg_controllen);
		return;
	}
	m->msg_controllen = 0;
}
