/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fabrics commands (opcode 7fh), the controller properties they reach, and the discovery log.
 * A fabrics command is an SQE whose dwords have names of their own: the *_from_sqe() and
 * *_to_sqe() pairs give the view. Base 2.0 sections 6 (fabrics commands), 3.1.3 (properties),
 * 5.16.1.23 (discovery log).
 */
#ifndef WEFT_WIRE_NVME_FABRICS_H
#define WEFT_WIRE_NVME_FABRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/nvme.h"

#define NVMF_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

enum nvmf_fctype { /* low byte of an SQE's nsid */
		   NVMF_PROPERTY_SET = 0x00,
		   NVMF_CONNECT = 0x01,
		   NVMF_PROPERTY_GET = 0x04,
		   NVMF_AUTH_SEND = 0x05,
		   NVMF_AUTH_RECV = 0x06,
		   NVMF_DISCONNECT = 0x08,
};

static inline uint8_t nvmf_fctype(const struct nvme_sqe *s)
{
	return (uint8_t)s->nsid;
}

/* --- Connect --------------------------------------------------------------------------- */

#define NVMF_CNTLID_DYNAMIC 0xffff
#define NVMF_CNTLID_STATIC  0xfffe /* any controller of a static subsystem */
#define NVMF_CNTLID_MAX	    0xffef

/* cattr */
#define NVMF_CATTR_NO_SQ_FLOW 0x04 /* the host does not want SQ head pointers */

struct nvmf_connect {
	uint16_t recfmt; /* 0 */
	uint16_t qid;	 /* 0 admin */
	uint16_t sqsize; /* entries, zero-based */
	uint8_t cattr;
	uint32_t kato_ms; /* admin queue: keep-alive timeout, 0 none */
};

void nvmf_connect_from_sqe(struct nvmf_connect *ret, const struct nvme_sqe *s);
/* Sets opcode, fctype and dwords 10-12; leaves flags, cid and the SGL alone. */
void nvmf_connect_to_sqe(const struct nvmf_connect *c, struct nvme_sqe *s);

#define NVMF_CONNECT_DATA_LEN 1024
/* Offsets in the data, as "invalid parameter" responses name them. */
#define NVMF_CONNECT_DATA_CNTLID  16
#define NVMF_CONNECT_DATA_SUBNQN  256
#define NVMF_CONNECT_DATA_HOSTNQN 512
/* Offsets in the SQE. */
#define NVMF_CONNECT_SQE_RECFMT 40
#define NVMF_CONNECT_SQE_QID	42
#define NVMF_CONNECT_SQE_SQSIZE 44
#define NVMF_CONNECT_SQE_CATTR	46
#define NVMF_CONNECT_SQE_KATO	48

struct nvmf_connect_data {
	uint8_t hostid[16];
	uint16_t cntlid;
	char subnqn[NVME_NQN_LEN];  /* zero-terminated if valid */
	char hostnqn[NVME_NQN_LEN]; /* same */
};

void nvmf_connect_data_get(struct cursor *c, struct nvmf_connect_data *s);
void nvmf_connect_data_put(struct wcursor *c, const struct nvmf_connect_data *s);

/* Result of a Connect that failed with CONNECT_INVALID_PARAM: where the wrong field is. */
static inline uint64_t nvmf_connect_ipo(bool in_data, uint16_t offset)
{
	return (uint64_t)in_data << 16 | offset;
}

#define NVMF_CONNECT_IATTR(result) ((result) >> 16 & 1)
#define NVMF_CONNECT_IPO(result)   ((uint16_t)(result))
/* Result of one that succeeded. */
#define NVMF_CONNECT_CNTLID(result) ((uint16_t)(result))
/* What it has to do before anything else: authenticate in band, and have a secure channel come
 * of that. */
#define NVMF_CONNECT_ATR_BIT	  (1u << 17)
#define NVMF_CONNECT_ASCR_BIT	  (1u << 18)
#define NVMF_CONNECT_ATR(result)  (((result)&NVMF_CONNECT_ATR_BIT) != 0)
#define NVMF_CONNECT_ASCR(result) (((result)&NVMF_CONNECT_ASCR_BIT) != 0)

/* --- properties ------------------------------------------------------------------------- */

enum nvme_prop {
#define PROPERTY(name, offset, bytes, key, fabrics, text) NVME_PROP_##name = (offset),
#include "wire/nvme_names.def"
};

/* One property; key is its name in nvme-cli's JSON, fabrics whether it is there over fabrics. */
struct nvme_prop_row {
	uint32_t offset;
	uint8_t bytes;
	bool fabrics;
	const char *key, *name;
};

extern const struct nvme_prop_row nvme_props[];
extern const unsigned int nvme_prop_count;
/* NULL: there is none at this offset. */
const struct nvme_prop_row *nvme_prop_find(uint32_t offset);

struct nvmf_prop {
	bool wide; /* attrib: 8 bytes instead of 4 */
	uint8_t attrib_reserved;
	uint32_t offset;
	uint64_t value; /* Property Set only */
};

void nvmf_prop_from_sqe(struct nvmf_prop *ret, const struct nvme_sqe *s);
/* Sets opcode, fctype and dwords 10-13. */
void nvmf_prop_to_sqe(const struct nvmf_prop *p, uint8_t fctype, struct nvme_sqe *s);

/* CAP */
#define NVME_CAP_MQES(cap)   ((uint16_t)(cap)) /* zero-based */
#define NVME_CAP_CQR	     (1ull << 16)
#define NVME_CAP_TO_SHIFT    24 /* 500 ms units, 8 bits */
#define NVME_CAP_TO(cap)     ((uint8_t)((cap) >> 24))
#define NVME_CAP_CSS_NVM     (1ull << 37)
#define NVME_CAP_CSS_IOCS    (1ull << 43)
#define NVME_CAP_CSS_NOIO    (1ull << 44)
#define NVME_CAP_CRWMS	     (1ull << 59)	 /* ready with media: CRTO says when */
#define NVME_CAP_MPSMIN(cap) ((cap) >> 48 & 0xf) /* page size 2^(12 + n) */
#define NVME_CAP_MPSMAX(cap) ((cap) >> 52 & 0xf)
/* VS */
#define NVME_VS(major, minor, tertiary) ((uint32_t)(major) << 16 | (minor) << 8 | (tertiary))
/* CC */
#define NVME_CC_EN	   (1u << 0)
#define NVME_CC_CSS_NVM	   (0u << 4)
#define NVME_CC_CSS_IOCS   (6u << 4) /* all I/O command sets of the controller */
#define NVME_CC_CSS(cc)	   ((cc) >> 4 & 7)
#define NVME_CC_MPS(cc)	   ((cc) >> 7 & 0xf)
#define NVME_CC_AMS(cc)	   ((cc) >> 11 & 7)
#define NVME_CC_SHN(cc)	   ((cc) >> 14 & 3)
#define NVME_CC_SHN_NORMAL (1u << 14)
#define NVME_CC_SHN_ABRUPT (2u << 14)
#define NVME_CC_IOSQES(cc) ((cc) >> 16 & 0xf)
#define NVME_CC_IOCQES(cc) ((cc) >> 20 & 0xf)
#define NVME_CC_IOSQES_64  (6u << 16)
#define NVME_CC_IOCQES_16  (4u << 20)
/* CSTS */
#define NVME_CSTS_RDY	    (1u << 0)
#define NVME_CSTS_CFS	    (1u << 1)
#define NVME_CSTS_SHST_MASK (3u << 2)
#define NVME_CSTS_SHST_BUSY (1u << 2)
#define NVME_CSTS_SHST_DONE (2u << 2)

/* --- discovery log ---------------------------------------------------------------------- */

#define NVMF_DISC_HDR_LEN   1024
#define NVMF_DISC_ENTRY_LEN 1024
#define NVMF_TRADDR_LEN	    256
#define NVMF_TRSVCID_LEN    32

enum nvmf_trtype { NVMF_TRTYPE_RDMA = 1, NVMF_TRTYPE_FC, NVMF_TRTYPE_TCP, NVMF_TRTYPE_LOOP = 254 };
enum nvmf_adrfam {
	NVMF_ADRFAM_IPV4 = 1,
	NVMF_ADRFAM_IPV6,
	NVMF_ADRFAM_IB,
	NVMF_ADRFAM_FC,
	NVMF_ADRFAM_LOOP = 254,
};
enum nvmf_subtype {
	NVMF_SUBTYPE_REFERRAL = 1,
	NVMF_SUBTYPE_NVM,
	NVMF_SUBTYPE_DISCOVERY, /* the very subsystem that is asked */
};
/* eflags */
#define NVMF_EFLAGS_DUPRETINFO 0x1 /* what is had there is had here, too */
#define NVMF_EFLAGS_EPCSD      0x2 /* who asks with a keep-alive may stay */
/* A secure channel: 0 not specified. */
#define NVMF_TREQ_SECURE_MASK  0x3
#define NVMF_TREQ_REQUIRED     0x1
#define NVMF_TREQ_NOT_REQUIRED 0x2
#define NVMF_TREQ_NO_SQ_FLOW   0x4 /* SQ flow control may be disabled */
/* The first byte of TSAS, of TCP: which. */
#define NVMF_SECTYPE_NONE  0
#define NVMF_SECTYPE_TLS13 2

struct nvmf_disc_hdr {
	uint64_t genctr, numrec;
	uint16_t recfmt; /* 0 */
};

struct nvmf_tsas_rdma {
	uint8_t qptype; /* 1 connected */
	uint8_t prtype; /* 1 not specified, 2 InfiniBand, 3 RoCE, 4 RoCEv2, 5 iWARP */
	uint8_t cms;	/* 1 rdma_cm */
	uint16_t pkey;
};

struct nvmf_disc_entry {
	uint8_t trtype, adrfam, subtype, treq;
	uint16_t portid, cntlid, asqsz, eflags;
	char trsvcid[NVMF_TRSVCID_LEN]; /* space- or zero-padded */
	char subnqn[NVME_NQN_LEN];
	char traddr[NVMF_TRADDR_LEN]; /* space- or zero-padded */
	uint8_t tsas[256];	      /* transport specific */
};

void nvmf_disc_hdr_get(struct cursor *c, struct nvmf_disc_hdr *s);
void nvmf_disc_hdr_put(struct wcursor *c, const struct nvmf_disc_hdr *s);
void nvmf_disc_entry_get(struct cursor *c, struct nvmf_disc_entry *s);
void nvmf_disc_entry_put(struct wcursor *c, const struct nvmf_disc_entry *s);
void nvmf_tsas_rdma_get(const uint8_t tsas[256], struct nvmf_tsas_rdma *ret);
void nvmf_tsas_rdma_put(uint8_t tsas[256], const struct nvmf_tsas_rdma *s);

#endif
