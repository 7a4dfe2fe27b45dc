/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "mdns/mdns.h"

static const struct {
	const char *type, *word, *transport;
} kinds[MDNS_KINDS] = {
	[MDNS_TCP] = {MDNS_TYPE_TCP, "tcp", "tcp"},
	[MDNS_ROCE] = {MDNS_TYPE_UDP, "roce", "rdma"},
	[MDNS_IWARP] = {MDNS_TYPE_TCP, "iwarp", "rdma"},
};

const char *mdns_type(enum mdns_kind kind)
{
	return kinds[kind].type;
}

const char *mdns_word(enum mdns_kind kind)
{
	return kinds[kind].word;
}

const char *mdns_transport(enum mdns_kind kind)
{
	return kinds[kind].transport;
}

/* --- TXT records ------------------------------------------------------------------------------ */

/* The value of a string with this key, whose letters may be of either case; NULL: it has another.
 */
static const char *value_of(const char *text, size_t len, const char *key, size_t *ret_len)
{
	size_t n = strlen(key);

	if (len <= n || text[n] != '=' || strncasecmp(text, key, n) != 0)
		return NULL;
	*ret_len = len - n - 1;
	return text + n + 1;
}

void mdns_txt_take(struct mdns_txt *t, const void *bytes, size_t len)
{
	const char *v;
	size_t n;

	if (!t->has_p && (v = value_of(bytes, len, "p", &n))) {
		t->has_p = true;
		snprintf(t->p, sizeof(t->p), "%.*s", (int)min_of(n, sizeof(t->p)), v);
	} else if (!t->has_nqn && (v = value_of(bytes, len, "nqn", &n))) {
		t->has_nqn = true;
		t->bad_nqn = n > MDNS_NQN_MAX || memchr(v, '\0', n);
		if (!t->bad_nqn)
			memcpy(t->nqn, v, n);
	}
}

bool mdns_kind_of(const struct mdns_txt *t, const char *type, enum mdns_kind *ret)
{
	bool udp = strcmp(type, MDNS_TYPE_UDP) == 0;

	if (!t->has_p) { /* some that have TCP alone do not say so */
		*ret = udp ? MDNS_ROCE : MDNS_TCP;
		return true;
	}
	for (unsigned i = 0; i < MDNS_KINDS; i++)
		if (strcasecmp(t->p, kinds[i].word) == 0) {
			*ret = (enum mdns_kind)i;
			return true;
		}
	if (strcasecmp(t->p, "rdma") != 0)
		return false;
	*ret = udp ? MDNS_ROCE : MDNS_IWARP;
	return true;
}

/* --- names ------------------------------------------------------------------------------------ */

void mdns_name(char name[MDNS_LABEL_MAX + 1], const char *host, enum mdns_kind kind,
	       const char *address, uint16_t port)
{
	const char *at = *address ? address : host;
	size_t len = *address ? strcspn(at, "%") : strcspn(at, ".");
	char what[16];
	size_t room = MDNS_LABEL_MAX - strlen("weft on ") -
		      (size_t)snprintf(what, sizeof(what), ", %s %u", mdns_transport(kind), port);

	if (len > room) {
		len = room;
		while (len && ((unsigned char)at[len] & 0xc0) == 0x80)
			len--;
	}
	snprintf(name, MDNS_LABEL_MAX + 1, "weft %s %.*s%s", *address ? "at" : "on", (int)len, at,
		 what);
}

void mdns_host_label(char label[MDNS_LABEL_MAX + 1], enum mdns_kind kind, const char *address,
		     uint16_t port)
{
	int n = snprintf(label, MDNS_LABEL_MAX + 1, "weft-%s-%u-%s", mdns_word(kind), port,
			 address);

	n = (int)min_of((size_t)n, (size_t)MDNS_LABEL_MAX);
	for (int i = 0; i < n; i++) {
		if (label[i] >= 'A' && label[i] <= 'F') /* an address may be written so */
			label[i] |= 0x20;
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789", label[i]))
			label[i] = '-';
	}
	while (n && label[n - 1] == '-')
		label[--n] = '\0';
}

char *mdns_plain(char *dst, size_t room, const char *src)
{
	size_t n = 0;

	for (const unsigned char *p = (const unsigned char *)src; *p && n + 5 <= room; p++)
		if (*p == '\\')
			n += (size_t)snprintf(dst + n, 3, "\\\\");
		else if (*p >= ' ' && *p < 0x7f)
			dst[n++] = (char)*p;
		else
			n += (size_t)snprintf(dst + n, 5, "\\x%02x", *p);
	dst[n] = '\0';
	return dst;
}

/* --- addresses -------------------------------------------------------------------------------- */

bool mdns_address_usable(const struct sockaddr *sa, bool local)
{
	if (sa->sa_family == AF_INET) {
		uint32_t a = ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr);

		if (a >> 24 == IN_LOOPBACKNET)
			return local;
		return a >> 24 != 0 && !IN_MULTICAST(a) && a < 0xf0000000;
	}
	if (sa->sa_family == AF_INET6) {
		const struct in6_addr *a = &((const struct sockaddr_in6 *)sa)->sin6_addr;

		if (IN6_IS_ADDR_LOOPBACK(a))
			return local;
		return !IN6_IS_ADDR_UNSPECIFIED(a) && !IN6_IS_ADDR_MULTICAST(a) &&
		       !IN6_IS_ADDR_V4MAPPED(a) && !IN6_IS_ADDR_V4COMPAT(a);
	}
	return false;
}
