/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: a service's name, a zero, and its TXT record as it is on the wire: strings behind their
 * lengths. What is taken of it is bounded, and what is shown prints. */
#include "fuzz.h"

#include <string.h>

#include "base/compiler.h"
#include "mdns/mdns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[MDNS_LABEL_MAX + 1] = "", shown[MDNS_PLAIN_ROOM], label[MDNS_LABEL_MAX + 1];
	struct mdns_txt t = {0};
	enum mdns_kind kind;
	size_t n;

	if (!size)
		return 0;
	n = min_of(strnlen((const char *)data, size), (size_t)MDNS_LABEL_MAX);
	memcpy(name, data, n);
	mdns_plain(shown, sizeof(shown), name);
	for (const char *p = shown; *p; p++)
		must(*p >= ' ' && *p <= '~');
	must(strlen(shown) >= strlen(name));
	for (size_t at = n + 1; at < size; at += 1 + data[at])
		mdns_txt_take(&t, data + at + 1, min_of((size_t)data[at], size - at - 1));
	must(strlen(t.p) < sizeof(t.p) && strlen(t.nqn) <= MDNS_NQN_MAX);
	must(!t.bad_nqn || !*t.nqn);
	for (unsigned udp = 0; udp < 2; udp++)
		if (mdns_kind_of(&t, udp ? MDNS_TYPE_UDP : MDNS_TYPE_TCP, &kind))
			must(kind < MDNS_KINDS);
	mdns_name(label, name, MDNS_ROCE, "", 65535);
	must(strlen(label) <= MDNS_LABEL_MAX);
	mdns_name(label, "", MDNS_ROCE, name, 65535);
	must(strlen(label) <= MDNS_LABEL_MAX);
	mdns_host_label(label, MDNS_IWARP, name, 65535);
	must(strlen(label) <= MDNS_LABEL_MAX);
	for (const char *p = label; *p; p++)
		must(*p == '-' || (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z'));
	return 0;
}
