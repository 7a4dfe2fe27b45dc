/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The standard's table of QP transitions and the attributes each requires and allows (IBA volume
 * 1, 11.2.5.2; Linux ib_core holds to the same, so applications are written against it).
 */
#include "rnic/ib/ib.h"

#define A(x) RNIC_QP_##x

#define INIT_CONNECTED (A(PKEY_INDEX) | A(PORT) | A(ACCESS_FLAGS))
#define INIT_DATAGRAM  (A(PKEY_INDEX) | A(PORT) | A(QKEY))
#define RTR_PATH       (A(AV) | A(PATH_MTU) | A(DEST_QPN) | A(RQ_PSN))
#define RTR_RESPONDER  (RTR_PATH | A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER))
#define RTR_OPT	       (A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX))
#define RTS_REQUESTER  (A(TIMEOUT) | A(RETRY_CNT) | A(RNR_RETRY) | A(SQ_PSN) | A(MAX_QP_RD_ATOMIC))
#define RTS_OPT	       (A(CUR_STATE) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PATH_MIG_STATE))
#define RTS_RESPONDER  (RTS_OPT | A(MIN_RNR_TIMER))
#define RTS_DATAGRAM   (A(CUR_STATE) | A(QKEY))
#define NOTIFY	       A(EN_SQD_ASYNC_NOTIFY)
#define SQD_OPT	       (A(AV) | A(ALT_PATH) | A(ACCESS_FLAGS) | A(PKEY_INDEX) | A(PATH_MIG_STATE))
#define SQD_RELIABLE   (SQD_OPT | A(PORT) | A(TIMEOUT))
#define SQD_REQUESTER  (A(RETRY_CNT) | A(RNR_RETRY) | A(MAX_QP_RD_ATOMIC))
#define SQD_RESPONDER  (A(MAX_DEST_RD_ATOMIC) | A(MIN_RNR_TIMER))

/* What a service's own column says: INIT; RTR required, optional; RTS required, optional (also in
 * it and back to it); within SQD; from SQE. */
#define TRANSITIONS(init, rtr, rtr_opt, rts, rts_opt, sqd_opt, sqe_opt)                            \
	{                                                                                          \
		{RNIC_QPS_RESET, RNIC_QPS_INIT, init, 0}, {RNIC_QPS_INIT, RNIC_QPS_INIT, 0, init}, \
			{RNIC_QPS_INIT, RNIC_QPS_RTR, rtr, rtr_opt},                               \
			{RNIC_QPS_RTR, RNIC_QPS_RTS, rts, rts_opt},                                \
			{RNIC_QPS_RTS, RNIC_QPS_RTS, 0, rts_opt},                                  \
			{RNIC_QPS_RTS, RNIC_QPS_SQD, 0, NOTIFY},                                   \
			{RNIC_QPS_SQD, RNIC_QPS_RTS, 0, rts_opt},                                  \
			{RNIC_QPS_SQD, RNIC_QPS_SQD, 0, sqd_opt},                                  \
			{RNIC_QPS_SQE, RNIC_QPS_RTS, 0, sqe_opt},                                  \
	}

const struct transition rc_transitions[] =
	TRANSITIONS(INIT_CONNECTED, RTR_RESPONDER, RTR_OPT, RTS_REQUESTER, RTS_RESPONDER,
		    SQD_RELIABLE | SQD_REQUESTER | SQD_RESPONDER, 0);

const struct transition uc_transitions[] =
	TRANSITIONS(INIT_CONNECTED, RTR_PATH, RTR_OPT, A(SQ_PSN), RTS_OPT, SQD_OPT,
		    A(CUR_STATE) | A(ACCESS_FLAGS));

const struct transition ud_transitions[] =
	TRANSITIONS(INIT_DATAGRAM, 0, A(PKEY_INDEX) | A(QKEY), A(SQ_PSN), RTS_DATAGRAM,
		    A(PKEY_INDEX) | A(QKEY), RTS_DATAGRAM);

const struct transition xrc_initiator_transitions[] = TRANSITIONS(
	INIT_CONNECTED, RTR_PATH, RTR_OPT, RTS_REQUESTER, RTS_OPT, SQD_RELIABLE | SQD_REQUESTER, 0);

const struct transition xrc_target_transitions[] =
	TRANSITIONS(INIT_CONNECTED, RTR_RESPONDER, RTR_OPT, A(TIMEOUT) | A(SQ_PSN), RTS_RESPONDER,
		    SQD_RELIABLE | SQD_RESPONDER, 0);
