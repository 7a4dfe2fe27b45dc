/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/nvme_uri.h"

/* FNV-1a, then a finalizer (MurmurHash3's) so that near texts do not give near names. */
static uint64_t hash(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3ull;
	return h;
}

static uint64_t finish(uint64_t h)
{
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
	return h ^ h >> 33;
}

static void machine_id(char *ret, size_t room)
{
	static const char *const paths[] = {"/etc/machine-id", "/var/lib/dbus/machine-id"};

	for (int i = 0; i < 2; i++) {
		FILE *f = fopen(paths[i], "r");
		bool read = f && fgets(ret, (int)room, f) && ret[0] > ' ';

		if (f)
			fclose(f);
		if (read)
			return;
	}
	/* A container may have none; its name is the next best that stays. */
	if (gethostname(ret, room) != 0)
		ret[0] = '\0';
	ret[room - 1] = '\0';
}

void serve_uuid(const char *text, uint8_t ret[16])
{
	char machine[HOST_NAME_MAX + 1];
	uint64_t a = 0xcbf29ce484222325ull, b = 0x84222325cbf29ce4ull;

	machine_id(machine, sizeof(machine));
	machine[strcspn(machine, "\n")] = '\0';
	a = finish(hash(hash(hash(a, machine), "/"), text));
	b = finish(hash(hash(hash(b, machine), "/"), text));
	st_be64(ret, a);
	st_be64(ret + 8, b);
	ret[6] = (uint8_t)((ret[6] & 0x0f) | 0x80); /* version 8, RFC 9562 section 5.8 */
	ret[8] = (uint8_t)((ret[8] & 0x3f) | 0x80);
}

void serve_default_nqn(const char *path, char ret[NVME_NQN_LEN])
{
	uint8_t uuid[16];
	char text[37];

	serve_uuid(path, uuid);
	nvme_uuid_format(uuid, text);
	snprintf(ret, NVME_NQN_LEN, "nqn.2014-08.org.nvmexpress:uuid:%s", text);
}

void serve_default_serial(const char *nqn, char ret[21])
{
	uint8_t uuid[16];

	serve_uuid(nqn, uuid);
	for (int i = 0; i < 10; i++)
		snprintf(ret + 2 * i, 3, "%02x", uuid[i]);
}

void serve_real_path(const char *path, char *ret, size_t room)
{
	char *real = realpath(path, NULL);

	snprintf(ret, room, "%s", real ? real : path);
	free(real);
}
