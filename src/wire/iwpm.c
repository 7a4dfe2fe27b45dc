/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/iwpm.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

#define VERSION_SHIFT 6
#define TYPE_SHIFT    4

int iwpm_get(struct iwpm *ret, const void *from, size_t len)
{
	const uint8_t *b = from;
	unsigned int ip;

	if (len != IWPM_LEN && len != IWPM_REQUEST_LEN)
		return -EBADMSG;
	ip = b[0] & 0xf;
	if (b[0] >> VERSION_SHIFT != 0 || (ip != 4 && ip != 6))
		return -EBADMSG;
	*ret = (struct iwpm){
		.type = (enum iwpm_type)((b[0] >> TYPE_SHIFT) & 3),
		.v6 = ip == 6,
		.handle = ld_be64(b + 8),
		.called.port = ld_be16(b + 4),
		.caller.port = ld_be16(b + 6),
	};
	memcpy(ret->caller.addr, b + 16, 16);
	memcpy(ret->called.addr, b + 32, 16);
	if (ret->type != IWPM_REQUEST)
		return 0;
	if (len != IWPM_REQUEST_LEN)
		return -EBADMSG;
	ret->mapped_caller.port = ld_be16(b + 2);
	memcpy(ret->mapped_caller.addr, b + 48, 16);
	return 0;
}

size_t iwpm_put(uint8_t to[IWPM_REQUEST_LEN], const struct iwpm *m)
{
	memset(to, 0, IWPM_REQUEST_LEN);
	to[0] = (uint8_t)(m->type << TYPE_SHIFT | (m->v6 ? 6 : 4));
	st_be16(to + 4, m->called.port);
	st_be16(to + 6, m->caller.port);
	st_be64(to + 8, m->handle);
	memcpy(to + 16, m->caller.addr, 16);
	memcpy(to + 32, m->called.addr, 16);
	if (m->type != IWPM_REQUEST)
		return IWPM_LEN;
	st_be16(to + 2, m->mapped_caller.port);
	memcpy(to + 48, m->mapped_caller.addr, 16);
	return IWPM_REQUEST_LEN;
}
