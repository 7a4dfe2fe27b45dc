/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: what a peer may send as connection data, or before a datagram; each decoder tries it. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/rsocket.h"

static void conn(const uint8_t *data, size_t size)
{
	uint8_t once[RS_CONN_LEN], twice[RS_CONN_LEN];
	struct rs_conn c;

	if (rs_conn_decode(&c, data, size))
		return;
	must(size >= RS_CONN_LEN && c.sgl.length && c.data.length);
	must(rs_iomap_size(c.iomap_size) == c.iomap_size);
	rs_conn_encode(&c, once);
	must(!memcmp(once + 8, data + 8, RS_CONN_LEN - 8));
	must(!rs_conn_decode(&c, once, sizeof(once)));
	rs_conn_encode(&c, twice);
	must(!memcmp(once, twice, sizeof(once)));
}

static void udp(const uint8_t *data, size_t size)
{
	uint8_t once[DS_UDP_LEN_MAX];
	struct ds_udp_hdr h;
	int len = ds_udp_decode(&h, data, size);

	if (len < 0)
		return;
	must((size_t)len <= size && ds_udp_encode(&h, once) == (size_t)len);
	must(!memcmp(once, data, 7) && !memcmp(once + 9, data + 9, (size_t)len - 9));
}

static void ud(const uint8_t *data, size_t size)
{
	uint8_t once[DS_UD_LEN_MAX];
	struct ds_ud_hdr h;
	int len = ds_ud_decode(&h, data, size);

	if (len < 0)
		return;
	must((size_t)len <= size && ds_ud_encode(&h, once) == (size_t)len);
	must(!memcmp(once, data, (size_t)len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	conn(data, size);
	udp(data, size);
	ud(data, size);
	return 0;
}
