/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef WEFT_TESTS_VM_ADDRESS_H
#define WEFT_TESTS_VM_ADDRESS_H

#include <arpa/inet.h>

#include "wire/flow.h"

enum { ADDRESS_TEXT = INET6_ADDRSTRLEN };

/* The IP address of a GID, as text in buf of ADDRESS_TEXT bytes. */
static inline const char *address_text(char *buf, const struct gid *g)
{
	bool v4 = gid_is_ipv4(g);

	return inet_ntop(v4 ? AF_INET : AF_INET6, g->raw + (v4 ? 12 : 0), buf, ADDRESS_TEXT);
}

#endif
