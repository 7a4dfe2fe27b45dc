/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/device_guid.h"

#include <assert.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/log.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define NETNS	"/proc/self/ns/net"

void device_guid_key_read(struct device_guid_key *k)
{
	FILE *f = fopen(BOOT_ID, "re");
	struct stat ns;
	ssize_t got;

	*k = (struct device_guid_key){0};
	if (f && fgets(k->boot_id, sizeof(k->boot_id), f) && stat(NETNS, &ns) == 0) {
		k->netns = ns.st_ino;
	} else {
		log_warn("broker", "no %s or %s: the devices' GUIDs are another broker's no more",
			 BOOT_ID, NETNS);
		got = getrandom(k->boot_id, sizeof(k->boot_id), 0);
		assert(got == sizeof(k->boot_id));
	}
	if (f)
		fclose(f);
}

uint64_t device_guid(const struct device_guid_key *k, const char *ifname, const uint8_t mac[6])
{
	uint8_t guid[8], name[16] = {0};
	struct hmac_sha256_ctx h;
	uint64_t v;

	memcpy(name, ifname, strnlen(ifname, sizeof(name)));
	hmac_sha256_set_key(&h, sizeof(k->boot_id), (const uint8_t *)k->boot_id);
	hmac_sha256_update(&h, sizeof(k->netns), (const uint8_t *)&k->netns);
	hmac_sha256_update(&h, sizeof(name), name);
	hmac_sha256_update(&h, 6, mac);
	hmac_sha256_digest(&h, sizeof(guid), guid);
	guid[0] = (uint8_t)((guid[0] & ~3) | 2); /* local, of one */
	memcpy(&v, guid, sizeof(v));
	return v;
}
