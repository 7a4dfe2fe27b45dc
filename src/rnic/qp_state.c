/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The standard's table of QP transitions and the attributes each requires and allows (IBA volume
 * 1, 11.2.5.2; Linux ib_core holds to the same, so applications are written against it). What is
 * not in the table is not allowed.
 */
#include "rnic/core.h"

#define A(x) RNIC_QP_##x

#define INIT_CONNECTED (A(PKEY_INDEX) | A(PORT) | A(ACCESS_FLAGS))
#define INIT_DATAGRAM  (A(PKEY_INDEX) | A(PORT) | A(QKEY))
#define INIT                                                                                  \
	{                                                                                     \
		INIT_CONNECTED, INIT_CONNECTED, INIT_DATAGRAM, INIT_CONNECTED, INIT_CONNECTED \
	}
#define RTR_PATH      (A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN))
#define RTR_RESPONDER (RTR_PATH | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER))
#define RTR_OPT	      (A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX))
#define RTS_REQUESTER (A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(SQ_PSN) | A(MAX_QP_RD_ATOMIC))
#define RTS_OPT	      (A(CUR_STATE) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PATH_MIG_STATE))
#define RTS_DATAGRAM  (A(CUR_STATE) | A(QKEY))
/* What may be set on the way to RTS, or in it. */
#define TO_RTS                                                              \
	{                                                                   \
		RTS_OPT | A(MIN_RNR_TIMER), RTS_OPT, RTS_DATAGRAM, RTS_OPT, \
			RTS_OPT | A(MIN_RNR_TIMER)                          \
	}
#define SQD_OPT	      (A(AV) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX) | A(PATH_MIG_STATE))
#define SQD_RELIABLE  (SQD_OPT | A(PORT) | A(TIMEOUT))
#define SQD_REQUESTER (A(RETRY_CNT) | A(RNR_RETRY) | A(MAX_QP_RD_ATOMIC))
#define SQD_RESPONDER (A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER))

struct attrs {
	uint32_t rc, uc, ud, xrc_send, xrc_recv;
};

static const struct transition {
	enum rnic_qp_state from, to;
	struct attrs required, optional;
} transitions[] = {
	{RNIC_QPS_RESET, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_RESET, RNIC_QPS_INIT, INIT, {0}},

	{RNIC_QPS_INIT, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_INIT, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_INIT, RNIC_QPS_INIT, {0}, INIT},
	{RNIC_QPS_INIT,
	 RNIC_QPS_RTR,
	 {RTR_RESPONDER, RTR_PATH, 0, RTR_PATH, RTR_RESPONDER},
	 {RTR_OPT, RTR_OPT, A(PKEY_INDEX) | A(QKEY), RTR_OPT, RTR_OPT}},

	{RNIC_QPS_RTR, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_RTR, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_RTR,
	 RNIC_QPS_RTS,
	 {RTS_REQUESTER, A(SQ_PSN), A(SQ_PSN), RTS_REQUESTER, A(TIMEOUT) | A(SQ_PSN)},
	 TO_RTS},

	{RNIC_QPS_RTS, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_RTS, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_RTS, RNIC_QPS_RTS, {0}, TO_RTS},
	{RNIC_QPS_RTS,
	 RNIC_QPS_SQD,
	 {0},
	 {A(EN_SQD_ASYNC_NOTIFY), A(EN_SQD_ASYNC_NOTIFY), A(EN_SQD_ASYNC_NOTIFY),
	  A(EN_SQD_ASYNC_NOTIFY), A(EN_SQD_ASYNC_NOTIFY)}},

	{RNIC_QPS_SQD, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_SQD, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_SQD, RNIC_QPS_RTS, {0}, TO_RTS},
	{RNIC_QPS_SQD,
	 RNIC_QPS_SQD,
	 {0},
	 {SQD_RELIABLE | SQD_REQUESTER | SQD_RESPONDER, SQD_OPT, A(PKEY_INDEX) | A(QKEY),
	  SQD_RELIABLE | SQD_REQUESTER, SQD_RELIABLE | SQD_RESPONDER}},

	{RNIC_QPS_SQE, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_SQE, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_SQE, RNIC_QPS_RTS, {0}, {0, A(CUR_STATE) | A(ACCESS_FLAGS), RTS_DATAGRAM, 0, 0}},

	{RNIC_QPS_ERR, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_ERR, RNIC_QPS_ERR, {0}, {0}},
};

static uint32_t attrs_of(const struct attrs *a, enum rnic_qp_type type)
{
	switch (type) {
	case RNIC_QPT_UC:
		return a->uc;
	case RNIC_QPT_UD:
		return a->ud;
	case RNIC_QPT_XRC_SEND:
		return a->xrc_send;
	case RNIC_QPT_XRC_RECV:
		return a->xrc_recv;
	default:
		return a->rc;
	}
}

bool rnic_qp_transition(enum rnic_qp_type type, enum rnic_qp_state from, enum rnic_qp_state to,
			uint32_t *ret_required, uint32_t *ret_optional)
{
	for (size_t i = 0; i < ARRAY_SIZE(transitions); i++) {
		const struct transition *t = &transitions[i];

		if (t->from != from || t->to != to)
			continue;
		*ret_required = attrs_of(&t->required, type);
		*ret_optional = attrs_of(&t->optional, type) | A(STATE);
		return true;
	}
	return false;
}

bool qp_transition_allowed(enum rnic_qp_type type, enum rnic_qp_state from, enum rnic_qp_state to,
			   uint32_t mask)
{
	uint32_t required, optional;

	return rnic_qp_transition(type, from, to, &required, &optional) &&
	       (mask & required) == required && (mask & ~(required | optional)) == 0;
}
