/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Communication management MADs (class 7, version 2) on QP1: host-order structs, readers and
 * writers side by side. Bit layouts: Linux include/rdma/ibta_vol1_c12.h.
 */
#ifndef WEFT_WIRE_CM_MAD_H
#define WEFT_WIRE_CM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "wire/flow.h"
#include "wire/mad.h"

#define GSI_QPN		 1
#define GSI_QKEY	 0x80010000u
#define CM_CLASS	 0x07
#define CM_CLASS_VERSION 2

enum cm_attr_id {
	CM_ATTR_REQ = 0x10,
	CM_ATTR_MRA,
	CM_ATTR_REJ,
	CM_ATTR_REP,
	CM_ATTR_RTU,
	CM_ATTR_DREQ,
	CM_ATTR_DREP,
	CM_ATTR_SIDR_REQ,
	CM_ATTR_SIDR_REP,
	CM_ATTR_LAP,
	CM_ATTR_APR,
};

#define CM_REQ_PRIVATE	92
#define CM_REP_PRIVATE	196
#define CM_RTU_PRIVATE	224
#define CM_REJ_PRIVATE	148
#define CM_MRA_PRIVATE	222
#define CM_DREQ_PRIVATE 220
#define CM_DREP_PRIVATE 224
#define CM_REJ_ARI	72

#define CM_SIDR_REQ_PRIVATE 216
#define CM_SIDR_REP_PRIVATE 136
#define CM_SIDR_REP_INFO    72

struct cm_path { /* primary or alternate path of a REQ */
	uint16_t local_lid, remote_lid;
	struct gid local_gid, remote_gid;
	uint32_t flow_label; /* 20 bits */
	uint8_t packet_rate, traffic_class, hop_limit, sl;
	bool subnet_local;
	uint8_t local_ack_timeout; /* 5 bits */
};

/* Enhanced connection establishment: what the consumers' adapters tell each other. options travels
 * as the header's attribute modifier. */
struct cm_ece {
	uint32_t vendor_id; /* 24 bits */
	uint32_t options;
};

struct cm_req {
	uint32_t local_comm_id;
	struct cm_ece ece;
	uint64_t service_id;
	uint64_t local_ca_guid;
	uint32_t local_qkey, local_qpn;
	uint8_t responder_resources, initiator_depth;
	uint32_t local_eecn, remote_eecn;
	uint8_t remote_cm_response_timeout;
	uint8_t transport_service; /* 0 RC, 1 UC, 3 XRC by the extended field */
	bool end_to_end_flow_control;
	uint32_t starting_psn;
	uint8_t local_cm_response_timeout, retry_count;
	uint16_t pkey;
	uint8_t path_mtu; /* enum rnic_mtu */
	bool rdc_exists;
	uint8_t rnr_retry_count, max_cm_retries;
	bool srq;
	uint8_t extended_transport_type;
	struct cm_path primary, alternate;
	uint8_t private_data[CM_REQ_PRIVATE];
};

/* Linux writes XRC so, and looks for nothing else. */
#define CM_TRANSPORT_EXTENDED 3
#define CM_EXTENDED_XRC	      1

static inline bool cm_req_is_xrc(const struct cm_req *m)
{
	return m->transport_service == CM_TRANSPORT_EXTENDED &&
	       m->extended_transport_type == CM_EXTENDED_XRC;
}

struct cm_mra {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t message_mraed; /* 0 REQ, 1 REP, 2 LAP */
	uint8_t service_timeout;
	uint8_t private_data[CM_MRA_PRIVATE];
};

struct cm_rej {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t message_rejected; /* 0 REQ, 1 REP, 2 other */
	uint8_t reject_info_len;  /* bytes of ari; a peer's claim of more is cut to CM_REJ_ARI */
	uint16_t reason;
	uint8_t ari[CM_REJ_ARI];
	uint8_t private_data[CM_REJ_PRIVATE];
};

struct cm_rep {
	uint32_t local_comm_id, remote_comm_id;
	uint32_t local_qkey, local_qpn, local_eecn, starting_psn;
	uint8_t responder_resources, initiator_depth, target_ack_delay, failover_accepted;
	bool end_to_end_flow_control;
	uint8_t rnr_retry_count;
	bool srq;
	uint64_t local_ca_guid;
	struct cm_ece ece;
	uint8_t private_data[CM_REP_PRIVATE];
};

struct cm_rtu {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[CM_RTU_PRIVATE];
};

struct cm_dreq {
	uint32_t local_comm_id, remote_comm_id, remote_qpn;
	uint8_t private_data[CM_DREQ_PRIVATE];
};

struct cm_drep {
	uint32_t local_comm_id, remote_comm_id;
	uint8_t private_data[CM_DREP_PRIVATE];
};

struct cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[CM_SIDR_REQ_PRIVATE];
};

enum cm_sidr_status {
	CM_SIDR_SUCCESS,
	CM_SIDR_UNSUPPORTED, /* the service id */
	CM_SIDR_REJECT,	     /* by the service's provider */
	CM_SIDR_NO_QP,
	CM_SIDR_REDIRECT,
	CM_SIDR_UNSUPPORTED_VERSION,
};

struct cm_sidr_rep {
	uint32_t request_id;
	uint8_t status;	  /* enum cm_sidr_status */
	uint8_t info_len; /* bytes of info; a peer's claim of more is cut to CM_SIDR_REP_INFO */
	uint32_t qpn;
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[CM_SIDR_REP_INFO];
	uint8_t private_data[CM_SIDR_REP_PRIVATE];
};

enum cm_rej_reason {
	CM_REJ_NO_QP = 1,
	CM_REJ_NO_RESOURCES = 3,
	CM_REJ_TIMEOUT = 4,
	CM_REJ_UNSUPPORTED = 5,
	CM_REJ_INVALID_COMM_ID = 6,
	CM_REJ_INVALID_COMM_INSTANCE = 7,
	CM_REJ_INVALID_SERVICE_ID = 8,
	CM_REJ_INVALID_TRANSPORT_TYPE = 9,
	CM_REJ_STALE_CONN = 10,
	CM_REJ_INVALID_GID = 14,
	CM_REJ_PORT_REDIRECT = 25,
	CM_REJ_INVALID_MTU = 26,
	CM_REJ_INSUFFICIENT_RESP_RES = 27,
	CM_REJ_CONSUMER_DEFINED = 28,
};

/* A whole 256-byte MAD as one of the messages; hdr.attr_id says which. */
struct cm_msg {
	struct mad_hdr hdr;
	union {
		struct cm_req req;
		struct cm_mra mra;
		struct cm_rej rej;
		struct cm_rep rep;
		struct cm_rtu rtu;
		struct cm_dreq dreq;
		struct cm_drep drep;
		struct cm_sidr_req sidr_req;
		struct cm_sidr_rep sidr_rep;
	};
};

/* -EBADMSG: not a class 7 version 2 MAD; -EOPNOTSUPP: a CM message of another kind (hdr is valid).
 */
int cm_msg_decode(struct cm_msg *, const uint8_t mad[MAD_LEN]) must_use;
void cm_msg_encode(const struct cm_msg *, uint8_t mad[MAD_LEN]);

#endif
