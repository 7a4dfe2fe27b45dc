/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * In-band authentication: the two fabrics commands that carry messages, and the messages of
 * DH-HMAC-CHAP. Base 2.0 sections 6.1, 6.2 and 8.13.
 *
 * Challenges, responses and DH values have the length that the message says: a reader points to
 * them where they lie, in what it was given, and a writer copies them from there. A message that is
 * cut short overruns the cursor, which is all that a reader says of it.
 */
#ifndef WEFT_WIRE_NVME_AUTH_H
#define WEFT_WIRE_NVME_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/nvme.h"

/* --- Authentication Send and Receive ---------------------------------------------------------- */

#define NVMF_AUTH_SECP 0xe9 /* the security protocol of both */
#define NVMF_AUTH_SPSP 0x01 /* both bytes of what is specific to it */

/* Offsets in the SQE. */
#define NVMF_AUTH_SQE_SPSP0 41
#define NVMF_AUTH_SQE_SPSP1 42
#define NVMF_AUTH_SQE_SECP  43
#define NVMF_AUTH_SQE_LEN   44

struct nvmf_auth_cmd {
	uint8_t spsp0, spsp1, secp;
	uint32_t len; /* bytes sent, or of room for what is received */
};

void nvmf_auth_cmd_from_sqe(struct nvmf_auth_cmd *ret, const struct nvme_sqe *s);
/* fctype: NVMF_AUTH_SEND or NVMF_AUTH_RECV; sets dwords 10 and 11, too. */
void nvmf_auth_cmd_to_sqe(const struct nvmf_auth_cmd *a, uint8_t fctype, struct nvme_sqe *s);

/* --- messages --------------------------------------------------------------------------------- */

enum nvmf_auth_type { NVMF_AUTH_COMMON, NVMF_AUTH_DHCHAP };

enum nvmf_auth_id { /* with the type, NEGOTIATE and the failures being common ones */
		    NVMF_AUTH_NEGOTIATE = 0x00,
		    NVMF_AUTH_CHALLENGE = 0x01,
		    NVMF_AUTH_REPLY = 0x02,
		    NVMF_AUTH_SUCCESS1 = 0x03,
		    NVMF_AUTH_SUCCESS2 = 0x04,
		    NVMF_AUTH_FAILURE2 = 0xf0,
		    NVMF_AUTH_FAILURE1 = 0xf1,
};

/* What is to come of a transaction besides: a key of TLS (secure channel concatenation). */
enum nvmf_auth_sc_c {
	NVMF_AUTH_NOSC,
	NVMF_AUTH_NEWTLSPSK = 2,
	NVMF_AUTH_REPLACETLSPSK = 3,
};
enum nvmf_auth_hash { NVMF_AUTH_SHA256 = 1, NVMF_AUTH_SHA384, NVMF_AUTH_SHA512 };
enum nvmf_auth_dhgroup {
	NVMF_AUTH_DH_NULL,
	NVMF_AUTH_DH_2048,
	NVMF_AUTH_DH_3072,
	NVMF_AUTH_DH_4096,
	NVMF_AUTH_DH_6144,
	NVMF_AUTH_DH_8192,
};

#define NVMF_AUTH_PROTOCOL_DHCHAP 1
#define NVMF_AUTH_IDS_MAX	  30
#define NVMF_AUTH_HASH_MAX	  64   /* bytes of the longest hash, and so of a challenge */
#define NVMF_AUTH_DH_MAX	  1024 /* bytes of the longest DH value */
/* The longest message there is of this protocol: a reply. */
#define NVMF_AUTH_MESSAGE_MAX (16 + 2 * NVMF_AUTH_HASH_MAX + NVMF_AUTH_DH_MAX)

/* Why a transaction fails: the explanation; the reason is the same of all. */
#define NVMF_AUTH_REASON_FAILED 1
enum nvmf_auth_failure {
	NVMF_AUTH_FAILED = 1,
	NVMF_AUTH_NOT_USABLE,
	NVMF_AUTH_CONCAT_MISMATCH,
	NVMF_AUTH_HASH_UNUSABLE,
	NVMF_AUTH_DHGROUP_UNUSABLE,
	NVMF_AUTH_INCORRECT_PAYLOAD,
	NVMF_AUTH_INCORRECT_MESSAGE,
};
const char *nvmf_auth_failure_name(uint8_t explanation);

/* How every message begins. */
struct nvmf_auth_head {
	uint8_t type, id;
	uint16_t t_id;
};

struct nvmf_auth_negotiate {
	uint16_t t_id;
	uint8_t sc_c; /* enum nvmf_auth_sc_c */
	uint8_t napd; /* protocols named; of them this is the first DH-HMAC-CHAP: */
	bool dhchap;  /* there is one */
	uint8_t halen, dhlen;
	uint8_t hashes[NVMF_AUTH_IDS_MAX], dhgroups[NVMF_AUTH_IDS_MAX];
};

struct nvmf_auth_challenge {
	uint16_t t_id;
	uint8_t hl, hash, dhgroup;
	uint16_t dhvlen;
	uint32_t seqnum;
	const uint8_t *cval;  /* hl bytes */
	const uint8_t *dhval; /* dhvlen bytes */
};

struct nvmf_auth_reply {
	uint16_t t_id;
	uint8_t hl;
	bool cvalid; /* the host challenges, too */
	uint16_t dhvlen;
	uint32_t seqnum;
	const uint8_t *rval, *cval; /* hl bytes each; written as zeroes where NULL */
	const uint8_t *dhval;	    /* dhvlen bytes */
};

struct nvmf_auth_success1 {
	uint16_t t_id;
	uint8_t hl;
	bool rvalid;
	const uint8_t *rval; /* hl bytes, where it is valid */
};

struct nvmf_auth_failure_msg { /* 1 and 2 */
	uint16_t t_id;
	uint8_t reason, explanation;
};

/* Leaves the cursor where it was: what the message is decides how it is read. */
void nvmf_auth_head_peek(struct cursor *c, struct nvmf_auth_head *ret);
void nvmf_auth_negotiate_get(struct cursor *c, struct nvmf_auth_negotiate *s);
void nvmf_auth_negotiate_put(struct wcursor *c, const struct nvmf_auth_negotiate *s);
void nvmf_auth_challenge_get(struct cursor *c, struct nvmf_auth_challenge *s);
void nvmf_auth_challenge_put(struct wcursor *c, const struct nvmf_auth_challenge *s);
void nvmf_auth_reply_get(struct cursor *c, struct nvmf_auth_reply *s);
void nvmf_auth_reply_put(struct wcursor *c, const struct nvmf_auth_reply *s);
void nvmf_auth_success1_get(struct cursor *c, struct nvmf_auth_success1 *s);
void nvmf_auth_success1_put(struct wcursor *c, const struct nvmf_auth_success1 *s);
/* It has nothing but its head. */
void nvmf_auth_success2_put(struct wcursor *c, uint16_t t_id);
void nvmf_auth_failure_get(struct cursor *c, struct nvmf_auth_failure_msg *s);
/* id: NVMF_AUTH_FAILURE1 or 2. */
void nvmf_auth_failure_put(struct wcursor *c, uint8_t id, const struct nvmf_auth_failure_msg *s);

#endif
