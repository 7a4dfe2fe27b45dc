/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * NVMe commands and completions as they travel in capsules: host-order structs, one reader and
 * one writer each. NVMe is little-endian.
 * Formats: NVM Express Base 2.0 sections 3.3.3 (SQE, CQE), 4.1.2 (SGL), NVM command set 1.0
 * section 3.2; Linux include/linux/nvme.h has the same layouts.
 */
#ifndef WEFT_WIRE_NVME_H
#define WEFT_WIRE_NVME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/nvme_status.h"

#define NVME_SQE_LEN	    64
#define NVME_CQE_LEN	    16
#define NVME_SGL_LEN	    16
#define NVME_DSM_RANGE_LEN  16
#define NVME_COPY_RANGE_LEN 32
#define NVME_DSM_RANGES	    256 /* the most in one Dataset Management command */
#define NVME_NQN_LEN	    256 /* field on the wire; the name is at most 223 bytes and a zero */
#define NVME_NQN_MAX	    223
#define NVME_NSID_ALL	    0xffffffffu

enum nvme_admin_opcode {
	NVME_ADMIN_DELETE_SQ = 0x00,
	NVME_ADMIN_CREATE_SQ = 0x01,
	NVME_ADMIN_GET_LOG_PAGE = 0x02,
	NVME_ADMIN_DELETE_CQ = 0x04,
	NVME_ADMIN_CREATE_CQ = 0x05,
	NVME_ADMIN_IDENTIFY = 0x06,
	NVME_ADMIN_ABORT = 0x08,
	NVME_ADMIN_SET_FEATURES = 0x09,
	NVME_ADMIN_GET_FEATURES = 0x0a,
	NVME_ADMIN_ASYNC_EVENT = 0x0c,
	NVME_ADMIN_NS_MGMT = 0x0d,
	NVME_ADMIN_FW_COMMIT = 0x10,
	NVME_ADMIN_FW_DOWNLOAD = 0x11,
	NVME_ADMIN_SELF_TEST = 0x14,
	NVME_ADMIN_NS_ATTACH = 0x15,
	NVME_ADMIN_KEEP_ALIVE = 0x18,
	NVME_FABRICS = 0x7f, /* on admin and I/O queues alike; nvme_fabrics.h */
	NVME_ADMIN_FORMAT = 0x80,
	NVME_ADMIN_SECURITY_SEND = 0x81,
	NVME_ADMIN_SECURITY_RECV = 0x82,
	NVME_ADMIN_SANITIZE = 0x84,
};

enum nvme_io_opcode {
	NVME_IO_FLUSH = 0x00,
	NVME_IO_WRITE = 0x01,
	NVME_IO_READ = 0x02,
	NVME_IO_WRITE_UNCORRECTABLE = 0x04,
	NVME_IO_COMPARE = 0x05,
	NVME_IO_WRITE_ZEROES = 0x08,
	NVME_IO_DSM = 0x09,
	NVME_IO_VERIFY = 0x0c,
	NVME_IO_COPY = 0x19,
};

/* SQE flags (byte 1). */
#define NVME_SQE_FUSE_MASK     0x03
#define NVME_SQE_FUSE_FIRST    0x01
#define NVME_SQE_FUSE_SECOND   0x02
#define NVME_SQE_PSDT_MASK     0xc0
#define NVME_SQE_PSDT_SGL      0x40 /* SGL, metadata pointer is a buffer: what fabrics use */
#define NVME_SQE_PSDT_SGL_META 0x80 /* SGL, metadata pointer is an SGL segment */

enum nvme_sgl_type { /* high nibble of the last byte */
		     NVME_SGL_DATA_BLOCK = 0x0,
		     NVME_SGL_BIT_BUCKET = 0x1,
		     NVME_SGL_SEGMENT = 0x2,
		     NVME_SGL_LAST_SEGMENT = 0x3,
		     NVME_SGL_KEYED_DATA_BLOCK = 0x4,
		     NVME_SGL_TRANSPORT_DATA_BLOCK = 0x5,
};

enum nvme_sgl_subtype { /* low nibble */
			NVME_SGL_ADDRESS = 0x0,
			NVME_SGL_OFFSET = 0x1,	   /* from the start of the in-capsule data */
			NVME_SGL_TRANSPORT = 0xa,  /* NVMe/TCP: the data comes by R2T */
			NVME_SGL_INVALIDATE = 0xf, /* keyed: invalidate the key with the response */
};

#define NVME_SGL_KEYED_LEN_MAX 0xffffffu /* a keyed descriptor has 24 bits of length */

struct nvme_sgl {
	uint64_t addr; /* address, or offset with NVME_SGL_OFFSET */
	uint32_t len;  /* bytes */
	uint32_t key;  /* rkey; keyed descriptors only */
	uint8_t type, subtype;
};

struct nvme_sqe {
	uint8_t opcode, flags;
	uint16_t cid;
	uint32_t nsid; /* fabrics commands: the low byte is the fabrics command type */
	uint32_t cdw2, cdw3;
	uint64_t mptr;
	struct nvme_sgl sgl;
	uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;
};

struct nvme_cqe {
	uint64_t result; /* dwords 0 and 1 */
	uint16_t sqhd, sqid, cid;
	uint16_t status; /* enum nvme_status and NVME_STATUS_* flags; without the phase bit */
};

struct nvme_dsm_range {
	uint32_t attributes;
	uint32_t nlb; /* blocks, not zero-based */
	uint64_t slba;
};

/* A source range of Copy, descriptor format 0; what protection information needs is left out. */
struct nvme_copy_range {
	uint64_t slba;
	uint16_t nlb; /* zero-based */
};

void nvme_sgl_get(struct cursor *c, struct nvme_sgl *s);
void nvme_sgl_put(struct wcursor *c, const struct nvme_sgl *s);
void nvme_sqe_get(struct cursor *c, struct nvme_sqe *s);
void nvme_sqe_put(struct wcursor *c, const struct nvme_sqe *s);
void nvme_cqe_get(struct cursor *c, struct nvme_cqe *s);
void nvme_cqe_put(struct wcursor *c, const struct nvme_cqe *s);
void nvme_dsm_range_get(struct cursor *c, struct nvme_dsm_range *s);
void nvme_dsm_range_put(struct wcursor *c, const struct nvme_dsm_range *s);
void nvme_copy_range_get(struct cursor *c, struct nvme_copy_range *s);
void nvme_copy_range_put(struct wcursor *c, const struct nvme_copy_range *s);

/* Read, Write, Compare, Write Zeroes: dwords 10-12. */
#define NVME_RW_FUA	(1u << 30) /* dword 12: force unit access */
#define NVME_RW_LR	(1u << 31) /* dword 12: limited retry */
#define NVME_RW_PRINFO	(0xfu << 26)
#define NVME_WZ_DEAC	(1u << 25) /* dword 12 of Write Zeroes: deallocate */
#define NVME_DSM_IDR	(1u << 0)  /* dword 11 of DSM: integral dataset for read */
#define NVME_DSM_IDW	(1u << 1)
#define NVME_DSM_AD	(1u << 2) /* deallocate */
#define NVME_DSM_NR(dw) (((dw)&0xff) + 1)

/* Dword 12 of Copy; dwords 10 and 11 and FUA are as of Write. */
#define NVME_COPY_NR(dw)     (((dw)&0xff) + 1)
#define NVME_COPY_FORMAT(dw) ((dw) >> 8 & 0xf)

static inline uint64_t nvme_rw_slba(const struct nvme_sqe *s)
{
	return (uint64_t)s->cdw11 << 32 | s->cdw10;
}

/* Blocks, 1 to 65536: the field is zero-based. */
static inline uint32_t nvme_rw_nlb(const struct nvme_sqe *s)
{
	return (s->cdw12 & 0xffff) + 1;
}

static inline void nvme_rw_set(struct nvme_sqe *s, uint64_t slba, uint32_t nlb, uint32_t flags)
{
	s->cdw10 = (uint32_t)slba;
	s->cdw11 = (uint32_t)(slba >> 32);
	s->cdw12 = ((nlb - 1) & 0xffff) | flags;
}

/* The opcode's name as the specification writes it, or "unknown". admin: of an admin queue. */
const char *nvme_opcode_name(uint8_t opcode, bool admin);

#endif
