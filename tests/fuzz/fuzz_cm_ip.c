/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: the IP CM header of a REQ's private data; short ones are filled up with zeros. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/cm_ip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t buf[CM_IP_HDR_LEN] = {0}, once[CM_IP_HDR_LEN];
	struct cm_ip_hdr h, again;
	int err;

	memcpy(buf, data, min_of(size, sizeof(buf)));
	err = cm_ip_hdr_decode(&h, buf);
	if (err) {
		must(err == -EBADMSG);
		must(buf[0] || (buf[1] >> 4 != 4 && buf[1] >> 4 != 6));
		return 0;
	}
	cm_ip_hdr_encode(&h, once);
	must(!cm_ip_hdr_decode(&again, once));
	must(again.ip_version == h.ip_version && again.port == h.port);
	must(gid_equal(&again.src, &h.src) && gid_equal(&again.dst, &h.dst));
	if (h.ip_version == 4) {
		must(gid_is_ipv4(&h.src) && gid_is_ipv4(&h.dst));
		memset(buf + 4, 0, 12);
		memset(buf + 20, 0, 12);
	}
	buf[1] &= 0xf0;
	must(!memcmp(buf, once, sizeof(buf)));
	return 0;
}
