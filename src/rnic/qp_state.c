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
#define RTR_UC	       (A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN))
#define RTR_CONNECTED  (A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX))
#define RTS_RC	       (A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(SQ_PSN) | A(MAX_QP_RD_ATOMIC))
#define RTS_UC_OPT     (A(CUR_STATE) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PATH_MIG_STATE))
#define SQD_UC_OPT     (A(AV) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX) | A(PATH_MIG_STATE))

struct attrs {
	uint32_t rc, uc, ud;
};

static const struct transition {
	enum rnic_qp_state from, to;
	struct attrs required, optional;
} transitions[] = {
	{RNIC_QPS_RESET, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_RESET, RNIC_QPS_INIT, {INIT_CONNECTED, INIT_CONNECTED, INIT_DATAGRAM}, {0}},

	{RNIC_QPS_INIT, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_INIT, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_INIT, RNIC_QPS_INIT, {0}, {INIT_CONNECTED, INIT_CONNECTED, INIT_DATAGRAM}},
	{RNIC_QPS_INIT,
	 RNIC_QPS_RTR,
	 {RTR_UC | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER), RTR_UC, 0},
	 {RTR_CONNECTED, RTR_CONNECTED, A(PKEY_INDEX) | A(QKEY)}},

	{RNIC_QPS_RTR, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_RTR, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_RTR,
	 RNIC_QPS_RTS,
	 {RTS_RC, A(SQ_PSN), A(SQ_PSN)},
	 {RTS_UC_OPT | A(MIN_RNR_TIMER), RTS_UC_OPT, A(CUR_STATE) | A(QKEY)}},

	{RNIC_QPS_RTS, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_RTS, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_RTS,
	 RNIC_QPS_RTS,
	 {0},
	 {RTS_UC_OPT | A(MIN_RNR_TIMER), RTS_UC_OPT, A(CUR_STATE) | A(QKEY)}},
	{RNIC_QPS_RTS,
	 RNIC_QPS_SQD,
	 {0},
	 {A(EN_SQD_ASYNC_NOTIFY), A(EN_SQD_ASYNC_NOTIFY), A(EN_SQD_ASYNC_NOTIFY)}},

	{RNIC_QPS_SQD, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_SQD, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_SQD,
	 RNIC_QPS_RTS,
	 {0},
	 {RTS_UC_OPT | A(MIN_RNR_TIMER), RTS_UC_OPT, A(CUR_STATE) | A(QKEY)}},
	{RNIC_QPS_SQD,
	 RNIC_QPS_SQD,
	 {0},
	 {SQD_UC_OPT | A(PORT) | A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(MAX_QP_RD_ATOMIC) |
		  A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER),
	  SQD_UC_OPT, A(PKEY_INDEX) | A(QKEY)}},

	{RNIC_QPS_SQE, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_SQE, RNIC_QPS_ERR, {0}, {0}},
	{RNIC_QPS_SQE,
	 RNIC_QPS_RTS,
	 {0},
	 {0, A(CUR_STATE) | A(ACCESS_FLAGS), A(CUR_STATE) | A(QKEY)}},

	{RNIC_QPS_ERR, RNIC_QPS_RESET, {0}, {0}},
	{RNIC_QPS_ERR, RNIC_QPS_ERR, {0}, {0}},
};

static uint32_t attrs_of(const struct attrs *a, enum rnic_qp_type type)
{
	return type == RNIC_QPT_RC ? a->rc : type == RNIC_QPT_UC ? a->uc : a->ud;
}

bool qp_transition_allowed(enum rnic_qp_type type, enum rnic_qp_state from, enum rnic_qp_state to,
			   uint32_t mask)
{
	for (size_t i = 0; i < ARRAY_SIZE(transitions); i++) {
		const struct transition *t = &transitions[i];
		uint32_t required, optional;

		if (t->from != from || t->to != to)
			continue;
		required = attrs_of(&t->required, type);
		optional = attrs_of(&t->optional, type);
		return (mask & required) == required &&
		       (mask & ~(required | optional | A(STATE))) == 0;
	}
	return false;
}
