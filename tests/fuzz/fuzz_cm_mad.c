/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Input: a MAD; short ones are filled up with zeros. */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/cm_mad.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Private data stands at the end of every message. */
	static const size_t private_len[] = {
		[CM_ATTR_REQ] = CM_REQ_PRIVATE,		  [CM_ATTR_MRA] = CM_MRA_PRIVATE,
		[CM_ATTR_REJ] = CM_REJ_PRIVATE,		  [CM_ATTR_REP] = CM_REP_PRIVATE,
		[CM_ATTR_RTU] = CM_RTU_PRIVATE,		  [CM_ATTR_DREQ] = CM_DREQ_PRIVATE,
		[CM_ATTR_DREP] = CM_DREP_PRIVATE,	  [CM_ATTR_SIDR_REQ] = CM_SIDR_REQ_PRIVATE,
		[CM_ATTR_SIDR_REP] = CM_SIDR_REP_PRIVATE,
	};
	uint8_t mad[MAD_LEN] = {0}, once[MAD_LEN], twice[MAD_LEN], mask[MAD_LEN];
	struct cm_msg m, all;
	size_t at;
	int err;

	memcpy(mad, data, min_of(size, sizeof(mad)));
	err = cm_msg_decode(&m, mad);
	if (err) {
		must(err == -EBADMSG || err == -EOPNOTSUPP);
		return 0;
	}
	must(m.hdr.attr_id >= CM_ATTR_REQ && m.hdr.attr_id <= CM_ATTR_SIDR_REP);
	must(m.hdr.attr_id != CM_ATTR_REJ || m.rej.reject_info_len <= CM_REJ_ARI);
	must(m.hdr.attr_id != CM_ATTR_SIDR_REP || m.sidr_rep.info_len <= CM_SIDR_REP_INFO);
	cm_msg_encode(&m, once);
	at = MAD_LEN - private_len[m.hdr.attr_id];
	must(!memcmp(once + at, mad + at, MAD_LEN - at));
	/* Reserved bits, those that all ones lose too, are cleared; every other bit is as it was.
	 */
	memset(mask, 0xff, sizeof(mask));
	memcpy(mask, mad, MAD_HDR_LEN);
	must(!cm_msg_decode(&all, mask));
	cm_msg_encode(&all, mask);
	memset(mask, 0xff, 18);
	memset(mask + 20, 0xff, 4);
	for (size_t i = 0; i < MAD_LEN; i++)
		must(once[i] == (mad[i] & mask[i]) ||
		     (m.hdr.attr_id == CM_ATTR_REJ && i == MAD_HDR_LEN + 9) ||
		     (m.hdr.attr_id == CM_ATTR_SIDR_REP && i == MAD_HDR_LEN + 5));
	must(!cm_msg_decode(&m, once));
	cm_msg_encode(&m, twice);
	must(!memcmp(once, twice, MAD_LEN));
	return 0;
}
