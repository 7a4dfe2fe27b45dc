/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The PDUs of NVMe/TCP. Each is a common header, a header of its type, a header digest if that was
 * agreed on, and, where it has data, padding up to them (PDO), the data, and a data digest.
 * NVMe TCP Transport 1.0 section 3.6; Linux include/linux/nvme-tcp.h has the same layouts.
 *
 * Behind the common header of a capsule stands an SQE or a CQE: wire/nvme.h.
 */
#ifndef WEFT_WIRE_NVME_TCP_H
#define WEFT_WIRE_NVME_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"

#define NVME_TCP_PORT		4420
#define NVME_TCP_CH_LEN		8
#define NVME_TCP_HLEN_MAX	128 /* of the headers without their digest */
#define NVME_TCP_DIGEST_LEN	4
#define NVME_TCP_PDA_MAX	31  /* alignment of data, in dwords, zero-based: 128 bytes */
#define NVME_TCP_PDO_MAX	144 /* of a capsule, its digest, aligned to 72 bytes */
#define NVME_TCP_MAXH2CDATA_MIN 4096
#define NVME_TCP_TERM_DATA_MAX	128 /* of the header that a terminate request is about */
/* What a controller takes in the capsules of its admin queue. */
#define NVME_TCP_ADMIN_CAPSULE_DATA 8192

enum nvme_tcp_type {
	NVME_TCP_ICREQ = 0x00,
	NVME_TCP_ICRESP = 0x01,
	NVME_TCP_H2C_TERM = 0x02,
	NVME_TCP_C2H_TERM = 0x03,
	NVME_TCP_CMD = 0x04,
	NVME_TCP_RESP = 0x05,
	NVME_TCP_H2C_DATA = 0x06,
	NVME_TCP_C2H_DATA = 0x07,
	NVME_TCP_R2T = 0x09,
};

/* Flags. */
#define NVME_TCP_HDGST	      (1u << 0)
#define NVME_TCP_DDGST	      (1u << 1)
#define NVME_TCP_DATA_LAST    (1u << 2)
#define NVME_TCP_DATA_SUCCESS (1u << 3) /* C2HData: no response follows */

struct nvme_tcp_ch { /* common header */
	uint8_t type, flags;
	uint8_t hlen; /* of both headers, without their digest */
	uint8_t pdo;  /* where the data begin */
	uint32_t plen;
};

/* Where fields stand in the common header, as terminate requests name them. */
#define NVME_TCP_CH_TYPE  0
#define NVME_TCP_CH_FLAGS 1
#define NVME_TCP_CH_HLEN  2
#define NVME_TCP_CH_PDO	  3
#define NVME_TCP_CH_PLEN  4

/* ICReq and ICResp: dgst. */
#define NVME_TCP_IC_HDGST (1u << 0)
#define NVME_TCP_IC_DDGST (1u << 1)

struct nvme_tcp_icreq {
	uint16_t pfv; /* 0 */
	uint8_t hpda; /* alignment that the host wants of C2HData, dwords, zero-based */
	uint8_t dgst;
	uint32_t maxr2t; /* R2Ts outstanding of one command, zero-based */
};

struct nvme_tcp_icresp {
	uint16_t pfv;
	uint8_t cpda; /* the same of what the host sends */
	uint8_t dgst;
	uint32_t maxh2cdata; /* the most data of one H2CData */
};

#define NVME_TCP_IC_PFV	       8 /* offsets in the PDU */
#define NVME_TCP_IC_PDA	       10
#define NVME_TCP_IC_DGST       11
#define NVME_TCP_IC_MAXH2CDATA 12

struct nvme_tcp_term {
	uint16_t fes; /* enum nvme_tcp_fes */
	uint32_t fei; /* of it: the byte of the header that is wrong, or the digest that came */
};

enum nvme_tcp_fes { /* fatal error status */
		    NVME_TCP_FES_HEADER_FIELD = 1,
		    NVME_TCP_FES_SEQUENCE = 2,
		    NVME_TCP_FES_HEADER_DIGEST = 3,
		    NVME_TCP_FES_OUT_OF_RANGE = 4,
		    NVME_TCP_FES_LIMIT_EXCEEDED = 5, /* of data; from hosts: of R2Ts */
		    NVME_TCP_FES_UNSUPPORTED = 6,
};

struct nvme_tcp_data { /* H2CData; C2HData has no ttag */
	uint16_t cccid, ttag;
	uint32_t datao, datal;
};

struct nvme_tcp_r2t {
	uint16_t cccid, ttag;
	uint32_t r2to, r2tl;
};

#define NVME_TCP_DATA_CCCID 8 /* offsets in the PDU, of R2T as well */
#define NVME_TCP_DATA_TTAG  10
#define NVME_TCP_DATA_DATAO 12
#define NVME_TCP_DATA_DATAL 16

void nvme_tcp_ch_get(struct cursor *c, struct nvme_tcp_ch *s);
void nvme_tcp_ch_put(struct wcursor *c, const struct nvme_tcp_ch *s);
/* What follows the common header. */
void nvme_tcp_icreq_get(struct cursor *c, struct nvme_tcp_icreq *s);
void nvme_tcp_icreq_put(struct wcursor *c, const struct nvme_tcp_icreq *s);
void nvme_tcp_icresp_get(struct cursor *c, struct nvme_tcp_icresp *s);
void nvme_tcp_icresp_put(struct wcursor *c, const struct nvme_tcp_icresp *s);
void nvme_tcp_term_get(struct cursor *c, struct nvme_tcp_term *s);
void nvme_tcp_term_put(struct wcursor *c, const struct nvme_tcp_term *s);
void nvme_tcp_data_get(struct cursor *c, struct nvme_tcp_data *s);
void nvme_tcp_data_put(struct wcursor *c, const struct nvme_tcp_data *s);
void nvme_tcp_r2t_get(struct cursor *c, struct nvme_tcp_r2t *s);
void nvme_tcp_r2t_put(struct wcursor *c, const struct nvme_tcp_r2t *s);

/* The length of a type's headers, both together; 0: there is no such type. */
uint8_t nvme_tcp_hlen(uint8_t type);
/* Whether PDUs of the type may have data, and so a data digest. */
bool nvme_tcp_has_data(uint8_t type);
/* Initialization and terminate requests go without. */
static inline bool nvme_tcp_has_digests(uint8_t type)
{
	return type >= NVME_TCP_CMD;
}
/* Where data begin behind headers of hlen bytes. pda: as in ICReq and ICResp. */
uint8_t nvme_tcp_pdo(uint8_t hlen, bool hdgst, uint8_t pda);

/* "PDU sequence error" and the like. */
const char *nvme_tcp_fes_name(uint16_t fes);

#endif
