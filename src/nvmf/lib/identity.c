/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nvmf/lib/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The first line of a file without its end; false when there is none. */
static bool read_line(const char *path, char *buf, size_t room)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return false;
	ok = fgets(buf, (int)room, f) != NULL;
	fclose(f);
	if (ok)
		buf[strcspn(buf, " \t\r\n")] = 0;
	return ok && buf[0];
}

static uint64_t mix(uint64_t x)
{
	/* splitmix64's finaliser */
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* A UUID that this machine always gets and that no other machine should. */
static void machine_uuid(uint8_t uuid[16])
{
	char id[256] = "";
	uint64_t a = 0x77656674, b = 0x686f7374;

	if (!read_line("/etc/machine-id", id, sizeof(id)) &&
	    !read_line("/var/lib/dbus/machine-id", id, sizeof(id)) &&
	    !read_line("/proc/sys/kernel/hostname", id, sizeof(id)))
		strcpy(id, "unknown machine");
	for (const char *p = id; *p; p++) {
		a = mix(a + (unsigned char)*p);
		b = mix(b ^ a);
	}
	memcpy(uuid, &a, 8);
	memcpy(uuid + 8, &b, 8);
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80); /* version 8: of one's own making */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

int identity_of_host(const char *hostnqn, const char *hostid, char ret_nqn[NVME_URI_NQN_MAX + 1],
		     uint8_t ret_id[16], char *why, size_t room)
{
	char text[NVME_URI_NQN_MAX + 2] = "";
	char uuid[37];

	machine_uuid(ret_id);
	if (hostid[0]) {
		if (nvme_uuid_parse(hostid, ret_id)) {
			snprintf(why, room, "host ID '%s' is no UUID", hostid);
			return -EINVAL;
		}
	} else if (read_line("/etc/nvme/hostid", text, sizeof(text)) &&
		   nvme_uuid_parse(text, ret_id)) {
		snprintf(why, room, "/etc/nvme/hostid holds no UUID; mend it or say a host ID");
		return -EINVAL;
	}
	if (hostnqn[0]) {
		snprintf(ret_nqn, NVME_URI_NQN_MAX + 1, "%s", hostnqn);
	} else if (read_line("/etc/nvme/hostnqn", text, sizeof(text))) {
		if (!nvme_nqn_valid(text)) {
			snprintf(why, room,
				 "/etc/nvme/hostnqn holds no NQN; mend it or say a host NQN");
			return -EINVAL;
		}
		snprintf(ret_nqn, NVME_URI_NQN_MAX + 1, "%s", text);
	} else {
		nvme_uuid_format(ret_id, uuid);
		snprintf(ret_nqn, NVME_URI_NQN_MAX + 1, "%s%s", NVME_HOSTNQN_PREFIX, uuid);
	}
	return 0;
}
