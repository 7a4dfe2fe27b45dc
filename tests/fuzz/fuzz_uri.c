/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: an NVMe URI as one might type it. What is understood is written again and means the same.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "nvmf/lib/uri.h"

static bool same(const struct nvme_uri *a, const struct nvme_uri *b)
{
	return !strcmp(a->transport, b->transport) && !strcmp(a->host, b->host) &&
	       !strcmp(a->port, b->port) && !strcmp(a->nqn, b->nqn) &&
	       !strcmp(a->hostnqn, b->hostnqn) && !strcmp(a->hostid, b->hostid) &&
	       a->nsid == b->nsid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[2048], once[4096], twice[4096], id[37];
	struct nvme_uri u, again;
	const char *why = NULL;
	uint8_t uuid[16], back[16];
	uint32_t nsid;
	int err;

	size = min_of(size, sizeof(text) - 1);
	memcpy(text, data, size);
	text[size] = '\0';
	if (nvme_uuid_parse(text, uuid) == 0) {
		nvme_uuid_format(uuid, id);
		must(nvme_uuid_parse(id, back) == 0 && !memcmp(uuid, back, sizeof(uuid)));
	}
	if (nvme_nsid_parse(text, &nsid) == 0)
		must(nsid && nsid != 0xffffffff);
	err = nvme_uri_parse(text, &u, &why);
	if (err) {
		must(err == -EINVAL && why);
		return 0;
	}
	must(nvme_uri_is(text));
	must(*u.host);
	must(!*u.port || nvme_port_valid(u.port));
	must(!*u.nqn || nvme_nqn_valid(u.nqn));
	must(!*u.hostid || nvme_uuid_parse(u.hostid, uuid) == 0);
	must(u.nsid != 0xffffffff);
	must(nvme_uri_format(&u, once, sizeof(once)) == 0);
	must(nvme_uri_parse(once, &again, &why) == 0 && same(&u, &again));
	must(nvme_uri_format(&again, twice, sizeof(twice)) == 0 && !strcmp(once, twice));
	must(nvme_uri_format(&u, twice, strlen(once)) == -ENAMETOOLONG);
	return 0;
}
