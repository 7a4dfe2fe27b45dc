/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/lib/uri.h"

#define SCHEME "nvme+"

bool nvme_uri_is(const char *text)
{
	return strncmp(text, SCHEME, strlen(SCHEME)) == 0;
}

const char nvme_transport_names[] = "the transport is one of:"
#define TRANSPORT(name) " " #name
#include "nvmf/lib/transports.def"
#undef TRANSPORT
				    " tcp+tls";

bool nvme_transport_valid(const char *name)
{
	static const char *const names[] = {
#define TRANSPORT(name) #name,
#include "nvmf/lib/transports.def"
#undef TRANSPORT
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

bool nvme_uri_scheme(const char *text, size_t len, struct nvme_uri *ret)
{
	const char *plus = memchr(text, '+', len);
	size_t n = plus ? (size_t)(plus - text) : len;

	ret->tls = plus && len - n == 4 && memcmp(plus, "+tls", 4) == 0;
	if (n == 0 || n >= sizeof(ret->transport) || (plus && !ret->tls))
		return false;
	memcpy(ret->transport, text, n);
	ret->transport[n] = 0;
	return nvme_transport_valid(ret->transport) &&
	       (!ret->tls || strcmp(ret->transport, "tcp") == 0);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Decodes %XX of src[0..n) into dst; false when it does not fit, is malformed or holds a zero. */
static bool decode(char *dst, size_t room, const char *src, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		int c = (unsigned char)src[i];

		if (c == '%') {
			int hi = i + 2 < n ? hex_digit(src[i + 1]) : -1;
			int lo = i + 2 < n ? hex_digit(src[i + 2]) : -1;

			if (hi < 0 || lo < 0)
				return false;
			c = hi << 4 | lo;
			i += 2;
		}
		if (c == 0 || out + 1 >= room)
			return false;
		dst[out++] = (char)c;
	}
	dst[out] = 0;
	return true;
}

bool nvme_port_valid(const char *text)
{
	unsigned long v = 0;

	if (!*text || strlen(text) > 5)
		return false;
	for (const char *p = text; *p; p++) {
		if (!isdigit((unsigned char)*p))
			return false;
		v = v * 10 + (unsigned long)(*p - '0');
	}
	return v >= 1 && v <= 65535;
}

bool nvme_nqn_valid(const char *nqn)
{
	size_t n = strlen(nqn);

	if (n < 5 || n > NVME_URI_NQN_MAX || strncmp(nqn, "nqn.", 4) != 0)
		return false;
	for (const char *p = nqn; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	return true;
}

int nvme_nsid_parse(const char *text, uint32_t *ret_nsid)
{
	char *end;
	unsigned long v;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	v = strtoul(text, &end, 0);
	if (errno || *end || v == 0 || v >= UINT32_MAX)
		return -EINVAL;
	*ret_nsid = (uint32_t)v;
	return 0;
}

/* A name or an IPv4 address; in brackets an IPv6 address, whose zone is written fe80::1%eth0 or, as
 * RFC 6874 has it, %25eth0. Nothing else is encoded, or a name could hold the URI's own marks.
 * NULL, or what is wrong. */
static const char *host_parse(struct nvme_uri *u, const char *p, size_t n, bool brackets)
{
	static const char marks[] = "a host's name has letters, digits, '-', '.' and '_'";
	const char *zone = brackets ? memchr(p, '%', n) : NULL;
	size_t address = zone ? (size_t)(zone - p) : n, skip = 0;

	if (zone && n - address > 3 && zone[1] == '2' && zone[2] == '5')
		skip = 2;
	if (n - skip >= sizeof(u->host))
		return "the host's name is too long";
	for (size_t i = 0; i < address; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr(brackets ? ".:" : "-._", p[i]))
			return marks;
	if (zone && zone + 1 + skip == p + n)
		return marks;
	for (const char *z = zone ? zone + 1 + skip : p + n; z < p + n; z++)
		if (!isgraph((unsigned char)*z) || *z == '%')
			return marks;
	memcpy(u->host, p, address);
	if (zone) {
		u->host[address] = '%';
		memcpy(u->host + address + 1, zone + 1 + skip, n - address - 1 - skip);
	}
	u->host[n - skip] = 0;
	return NULL;
}

/* host[:port], IPv6 in brackets. */
static const char *parse_authority(const char *p, size_t n, struct nvme_uri *u)
{
	const char *host = p, *host_end, *rest, *why;

	if (n && *p == '[') {
		host_end = memchr(p, ']', n);
		if (!host_end)
			return "the IPv6 address lacks its closing bracket";
		host = p + 1;
		rest = host_end + 1;
	} else {
		host_end = memchr(p, ':', n);
		if (!host_end)
			host_end = p + n;
		rest = host_end;
		if (rest < p + n && memchr(rest + 1, ':', (size_t)(p + n - rest - 1)))
			return "an IPv6 address goes in brackets: [fd00::1]";
	}
	why = host_parse(u, host, (size_t)(host_end - host), host != p);
	if (why)
		return why;
	if (!u->host[0])
		return "it names no host";
	if (rest == p + n)
		return NULL;
	if (*rest != ':')
		return "after the host comes :PORT or /NQN";
	rest++;
	if ((size_t)(p + n - rest) >= sizeof(u->port))
		return "the port is not a number from 1 to 65535";
	memcpy(u->port, rest, (size_t)(p + n - rest));
	u->port[p + n - rest] = 0;
	return nvme_port_valid(u->port) ? NULL : "the port is not a number from 1 to 65535";
}

bool nvme_rdma_transport_valid(const char *name)
{
	return strcmp(name, "roce") == 0 || strcmp(name, "iwarp") == 0;
}

static bool key_is(const char *key, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(key, name, n) == 0;
}

static const char *parse_parameter(const char *p, size_t n, struct nvme_uri *u)
{
	const char *eq = memchr(p, '=', n);
	size_t key_len = eq ? (size_t)(eq - p) : n;
	const char *value = eq ? eq + 1 : p + n;
	size_t len = (size_t)(p + n - value);

	if (key_is(p, key_len, "ns")) {
		char text[16];

		if (u->nsid)
			return "ns= stands there twice: which one?";
		if (!decode(text, sizeof(text), value, len) || nvme_nsid_parse(text, &u->nsid))
			return "ns= takes a namespace ID from 1 to 0xfffffffe";
	} else if (key_is(p, key_len, "hostnqn")) {
		if (u->hostnqn[0])
			return "hostnqn= stands there twice: which one?";
		if (!decode(u->hostnqn, sizeof(u->hostnqn), value, len) ||
		    !nvme_nqn_valid(u->hostnqn))
			return "hostnqn= takes an NQN: nqn.… of at most 223 characters";
	} else if (key_is(p, key_len, "hostid")) {
		uint8_t uuid[16];

		if (u->hostid[0])
			return "hostid= stands there twice: which one?";
		if (!decode(u->hostid, sizeof(u->hostid), value, len) ||
		    nvme_uuid_parse(u->hostid, uuid))
			return "hostid= takes a UUID";
	} else if (key_is(p, key_len, "transport")) {
		if (u->rdma_transport[0])
			return "transport= stands there twice: which one?";
		if (!decode(u->rdma_transport, sizeof(u->rdma_transport), value, len) ||
		    !nvme_rdma_transport_valid(u->rdma_transport))
			return "transport= takes roce or iwarp";
	} else {
		return "the parameters are ns=, hostnqn=, hostid= and transport=";
	}
	return NULL;
}

static const char *parse_query(const char *p, struct nvme_uri *u)
{
	while (*p) {
		size_t n = strcspn(p, "&");
		const char *why = n ? parse_parameter(p, n, u) : NULL;

		if (why)
			return why;
		p += n;
		if (*p)
			p++;
	}
	return NULL;
}

static const char *parse(const char *text, struct nvme_uri *u)
{
	const char *sep = strstr(text, "://");
	const char *why, *p;
	size_t n;

	if (!nvme_uri_is(text) || !sep)
		return "a URI begins nvme+rdma://, nvme+tcp:// or nvme+tcp+tls://";
	n = (size_t)(sep - text) - strlen(SCHEME);
	if (!nvme_uri_scheme(text + strlen(SCHEME), n, u))
		return nvme_transport_names;
	p = sep + 3;
	n = strcspn(p, "/?");
	why = parse_authority(p, n, u);
	if (why)
		return why;
	p += n;
	if (*p == '/') {
		n = strcspn(++p, "?");
		if (!decode(u->nqn, sizeof(u->nqn), p, n))
			return "the NQN has more than 223 characters or a bad percent code";
		if (n && !nvme_nqn_valid(u->nqn))
			return "an NQN begins nqn.";
		p += n;
	}
	return *p == '?' ? parse_query(p + 1, u) : NULL;
}

int nvme_uri_parse(const char *text, struct nvme_uri *ret, const char **ret_why)
{
	struct nvme_uri u = {0};
	const char *why = parse(text, &u);

	if (why) {
		*ret_why = why;
		return -EINVAL;
	}
	*ret = u;
	return 0;
}

/* Appends text, with what would end its part of the URI percent-encoded. */
static void append_encoded(char *buf, size_t room, size_t *at, const char *text)
{
	for (; *text; text++) {
		bool plain = isalnum((unsigned char)*text) || strchr("-._~:/@!$'()*,;", *text);
		int n = snprintf(*at < room ? buf + *at : NULL, *at < room ? room - *at : 0,
				 plain ? "%c" : "%%%02X", (unsigned char)*text);

		*at += (size_t)n;
	}
}

static void append(char *buf, size_t room, size_t *at, const char *text)
{
	int n = snprintf(*at < room ? buf + *at : NULL, *at < room ? room - *at : 0, "%s", text);

	*at += (size_t)n;
}

int nvme_uri_format(const struct nvme_uri *uri, char *buf, size_t room)
{
	const char *zone = strchr(uri->host, '%');
	bool v6 = zone || strchr(uri->host, ':');
	char separator[] = "?", address[sizeof(uri->host)];
	size_t at = 0;

	snprintf(address, sizeof(address), "%.*s", zone ? (int)(zone - uri->host) : 0, uri->host);
	append(buf, room, &at, SCHEME);
	append(buf, room, &at, uri->transport);
	append(buf, room, &at, uri->tls ? "+tls" : "");
	append(buf, room, &at, v6 ? "://[" : "://");
	append(buf, room, &at, zone ? address : uri->host);
	if (zone) {
		append(buf, room, &at, "%25");
		append(buf, room, &at, zone + 1);
	}
	append(buf, room, &at, v6 ? "]" : "");
	if (uri->port[0]) {
		append(buf, room, &at, ":");
		append(buf, room, &at, uri->port);
	}
	if (uri->nqn[0]) {
		append(buf, room, &at, "/");
		append_encoded(buf, room, &at, uri->nqn);
	}
	if (uri->nsid) {
		char text[24];

		snprintf(text, sizeof(text), "%sns=%u", separator, uri->nsid);
		append(buf, room, &at, text);
		separator[0] = '&';
	}
	if (uri->hostnqn[0]) {
		append(buf, room, &at, separator);
		append(buf, room, &at, "hostnqn=");
		append_encoded(buf, room, &at, uri->hostnqn);
		separator[0] = '&';
	}
	if (uri->hostid[0]) {
		append(buf, room, &at, separator);
		append(buf, room, &at, "hostid=");
		append_encoded(buf, room, &at, uri->hostid);
		separator[0] = '&';
	}
	if (uri->rdma_transport[0]) {
		append(buf, room, &at, separator);
		append(buf, room, &at, "transport=");
		append(buf, room, &at, uri->rdma_transport);
	}
	return at < room ? 0 : -ENAMETOOLONG;
}
