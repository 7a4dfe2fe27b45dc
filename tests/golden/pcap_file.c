/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "pcap_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"

#define PCAP_MAGIC_US 0xa1b2c3d4u
#define PCAP_MAGIC_NS 0xa1b23c4du
#define PCAP_ETHERNET 1

static int read_file(const char *path, uint8_t **ret, size_t *ret_len)
{
	FILE *f = fopen(path, "rb");
	size_t len = 0, room = 0, n;
	uint8_t *p = NULL;

	if (!f)
		return -errno;
	do {
		room = room ? 2 * room : 65536;
		p = realloc(p, room);
		if (!p)
			abort();
		n = fread(p + len, 1, room - len, f);
		len += n;
	} while (len == room);
	fclose(f);
	*ret = p;
	*ret_len = len;
	return 0;
}

int pcap_file_read(const char *path, void (*each)(void *ctx, const struct pcap_frame *f), void *ctx)
{
	/* What was read before: whoever kept nothing of it has no pointer to it. */
	static struct kept {
		struct kept *next;
		char *name;
		uint8_t *data;
	} * all;
	const char *slash = strrchr(path, '/');
	struct kept *k = malloc(sizeof(*k));
	size_t len = 0;
	struct cursor c;
	bool be, fine;
	const uint8_t *data;
	const char *name;
	int err;

	*k = (struct kept){all, strdup(slash ? slash + 1 : path), NULL};
	all = k;
	name = k->name;
	err = read_file(path, &k->data, &len);
	if (err)
		return err;
	data = k->data;
	c = cursor_init(data, len);
	if (len < 24)
		return -EBADMSG;
	be = ld_be32(data) == PCAP_MAGIC_US || ld_be32(data) == PCAP_MAGIC_NS;
	if (!be && ld_le32(data) != PCAP_MAGIC_US && ld_le32(data) != PCAP_MAGIC_NS)
		return -EBADMSG;
	fine = cursor_be32(&c) == (be ? PCAP_MAGIC_NS : __builtin_bswap32(PCAP_MAGIC_NS));
	cursor_skip(&c, 16);
	if ((be ? cursor_be32(&c) : cursor_le32(&c)) != PCAP_ETHERNET)
		return -EBADMSG;
	for (int number = 1; cursor_left(&c); number++) {
		struct pcap_frame f = {.file = name, .number = number};
		uint32_t seconds, part;

		seconds = be ? cursor_be32(&c) : cursor_le32(&c);
		part = be ? cursor_be32(&c) : cursor_le32(&c);
		f.ns = seconds * 1000000000ull + part * (fine ? 1 : 1000ull);
		f.len = be ? cursor_be32(&c) : cursor_le32(&c);
		cursor_skip(&c, 4);
		f.bytes = cursor_take(&c, f.len);
		if (!f.bytes)
			return -EBADMSG;
		each(ctx, &f);
	}
	return 0;
}
