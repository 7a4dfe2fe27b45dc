/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Enhanced connection establishment (ibv_query_ece(3)): what queue pairs of one vendor agree on
 * before they are connected, by REQ and REP or by whatever a program tells its peer. weft's agree
 * on selective repeat, where both can. Others see the vendor, and answer with no options.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "verbs/qp.h"

/* Nobody's: the second bit says that it was not given away. */
#define ECE_VENDOR 0x025746u
#define ECE_OURS   0x57450000u /* in the options of one of us */
#define ECE_MASK   0xffff0000u
/* An offer of selective repeat, and the answer to one, which differs: some answer with what they
 * got. */
#define ECE_SELECTIVE	     1u
#define ECE_SELECTIVE_AGREED 2u
/* Either has with it what is to stand in each packet to who says so. */
#define ECE_TAG_SHIFT 2

static bool is_wanted(void)
{
	static atomic_bool told;
	const char *says = secure_getenv("WEFT_RECOVERY");

	if (!says || !*says || strcmp(says, "selective") == 0)
		return true;
	if (strcmp(says, "go-back-n") == 0)
		return false;
	if (!atomic_exchange(&told, true))
		log_warn("verbs",
			 "WEFT_RECOVERY=%s is neither selective nor go-back-n; it is selective now",
			 says);
	return true;
}

int ibv_query_ece(struct ibv_qp *ibqp, struct ibv_ece *ece)
{
	struct face_qp *qp = face_qp(ibqp);
	struct rnic_qp_attr attr;
	uint32_t tag;
	bool agreed;

	memset(ece, 0, sizeof(*ece));
	if (ibqp->qp_type != IBV_QPT_RC || face_is_iwarp(ibqp->context) || !is_wanted())
		return FAIL(EOPNOTSUPP, EOPNOTSUPP);
	shard_lock(qp->shard);
	rnic_qp_query(qp->core, &attr, NULL);
	agreed = rnic_qp_repeats_selectively(qp->core);
	tag = (uint32_t)rnic_qp_tag(qp->core) << ECE_TAG_SHIFT;
	shard_unlock(qp->shard);
	ece->vendor_id = ECE_VENDOR;
	if (agreed)
		ece->options = ECE_OURS | tag | ECE_SELECTIVE_AGREED;
	else if (attr.state == RNIC_QPS_RESET || attr.state == RNIC_QPS_INIT)
		ece->options = ECE_OURS | tag | ECE_SELECTIVE;
	return 0;
}

int ibv_set_ece(struct ibv_qp *ibqp, struct ibv_ece *ece)
{
	struct face_qp *qp = face_qp(ibqp);
	int rc = 0;

	if (ece->comp_mask)
		return FAIL(EINVAL, EINVAL);
	if (ibqp->qp_type != IBV_QPT_RC || face_is_iwarp(ibqp->context) || !is_wanted())
		return FAIL(EOPNOTSUPP, EOPNOTSUPP);
	if (ece->vendor_id != ECE_VENDOR || (ece->options & ECE_MASK) != ECE_OURS)
		return FAIL(EINVAL, EINVAL);
	if (!(ece->options & (ECE_SELECTIVE | ECE_SELECTIVE_AGREED)))
		return 0;
	shard_lock(qp->shard);
	rc = rnic_qp_repeat_selectively(qp->core, (uint16_t)(ece->options >> ECE_TAG_SHIFT));
	shard_unlock(qp->shard);
	return rc ? log_refused("verbs", "ibv_set_ece", -rc) : 0;
}
