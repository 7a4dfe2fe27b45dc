/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "verbs/transport.h"

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "verbs/private.h"

static const char *const names[TRANSPORTS] = {
	[TRANSPORT_ROCE] = "roce", [TRANSPORT_IWARP] = "iwarp"};
static enum face_transport wanted[TRANSPORTS];
static size_t wanted_n;
static atomic_bool wanted_later[TRANSPORTS];

static size_t add(enum face_transport list[TRANSPORTS], size_t n, enum face_transport t)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == t)
			return n;
	list[n] = t;
	return n + 1;
}

static void want(const char *name, size_t len)
{
	for (enum face_transport t = 0; t < TRANSPORTS; t++) {
		if (strlen(names[t]) != len || memcmp(names[t], name, len) != 0)
			continue;
		wanted_n = add(wanted, wanted_n, t);
		return;
	}
	log_warn("verbs",
		 "WEFT_DEVICES: '%.*s' is unknown: roce, iwarp, or both with a comma between",
		 (int)len, name);
}

static void read_environment(void)
{
	const char *s = secure_getenv("WEFT_DEVICES") ?: "";

	while (*s) {
		size_t len = strcspn(s, ",");

		want(s, len);
		s += len + (s[len] == ',');
	}
	if (!wanted_n)
		wanted[wanted_n++] = TRANSPORT_ROCE;
}

size_t transports_wanted(enum face_transport ret[TRANSPORTS])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	size_t n;

	pthread_once(&once, read_environment);
	memcpy(ret, wanted, sizeof(wanted));
	n = wanted_n;
	for (enum face_transport t = 0; t < TRANSPORTS; t++)
		if (atomic_load(&wanted_later[t]))
			n = add(ret, n, t);
	return n;
}

void transport_device_name(enum face_transport t, const struct broker_device *b,
			   char ret[TRANSPORT_NAME_MAX])
{
	if (t == TRANSPORT_IWARP)
		snprintf(ret, TRANSPORT_NAME_MAX, "weft_iw_%.15s", b->ifname);
	else
		snprintf(ret, TRANSPORT_NAME_MAX, "%.63s", b->name);
}

uint64_t transport_guid(enum face_transport t, const struct broker_device *b)
{
	return t == TRANSPORT_IWARP ? b->guid_be ^ htobe64(1) : b->guid_be;
}

void weft_private_want_transport(enum face_transport t)
{
	atomic_store(&wanted_later[t], true);
}

size_t weft_private_transports(enum face_transport ret[TRANSPORTS])
{
	return transports_wanted(ret);
}
