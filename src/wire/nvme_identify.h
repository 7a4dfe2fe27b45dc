/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The data structures of Identify, 4096 bytes each. Base 2.0 section 5.17, NVM command set 1.0
 * section 4.1.5; the members have the specification's names.
 */
#ifndef WEFT_WIRE_NVME_IDENTIFY_H
#define WEFT_WIRE_NVME_IDENTIFY_H

#include <stdint.h>

#include "base/compiler.h"
#include "wire/nvme.h"

#define NVME_IDENTIFY_LEN 4096

enum nvme_cns { /* low byte of dword 10 */
		NVME_CNS_NS = 0x00,
		NVME_CNS_CTRL = 0x01,
		NVME_CNS_ACTIVE_NS_LIST = 0x02,
		NVME_CNS_NS_DESC_LIST = 0x03,
		NVME_CNS_CS_NS = 0x05,	 /* I/O command set specific namespace */
		NVME_CNS_CS_CTRL = 0x06, /* I/O command set specific controller */
		NVME_CNS_CS_NS_LIST = 0x07,
		NVME_CNS_CS_INDEPENDENT_NS = 0x08,
		NVME_CNS_ALLOCATED_NS_LIST = 0x10,
		NVME_CNS_ALLOCATED_NS = 0x11,
		NVME_CNS_NS_CTRL_LIST = 0x12, /* controllers attached to a namespace */
		NVME_CNS_CTRL_LIST = 0x13,
		NVME_CNS_CS_ALLOCATED_NS_LIST = 0x1a,
		NVME_CNS_IO_COMMAND_SETS = 0x1c,
};

enum nvme_csi { NVME_CSI_NVM = 0 };

/* CNS 1c: combinations of I/O command sets that a controller can have at a time, one bit a set. */
#define NVME_IOCS_MAX 512

struct nvme_u128 {
	uint64_t lo, hi;
};

enum nvme_cntrltype { NVME_CNTRLTYPE_IO = 1, NVME_CNTRLTYPE_DISCOVERY = 2, NVME_CNTRLTYPE_ADMIN };

#define NVME_PSD_MXPS (1u << 0) /* mp in 0.0001 W, else in 0.01 W */
#define NVME_PSD_NOPS (1u << 1) /* the controller does no I/O in it */
struct nvme_power_state {
	uint16_t mp; /* maximum power */
	uint8_t flags;
	uint32_t enlat, exlat;	    /* microseconds */
	uint8_t rrt, rrl, rwt, rwl; /* relative throughputs and latencies */
	uint16_t idlp;		    /* idle power, in units of ips */
	uint8_t ips;		    /* scale in the upper two bits */
	uint16_t actp;
	uint8_t apws; /* scale in the upper two bits, workload in the lower three */
};

struct nvme_id_ctrl {
	uint16_t vid, ssvid;
	char sn[20], mn[40], fr[8]; /* ASCII, space-padded, no terminator */
	uint8_t rab, ieee[3], cmic;
	uint8_t mdts; /* largest transfer, 2^mdts units of CAP.MPSMIN; 0 no limit */
	uint16_t cntlid;
	uint32_t ver, rtd3r, rtd3e, oaes, ctratt;
	uint16_t rrls;
	uint8_t cntrltype, fguid[16];
	uint16_t crdt1, crdt2, crdt3;
	uint8_t nvmsr, vwci, mec;
	uint16_t oacs;
	uint8_t acl, aerl, frmw, lpa, elpe, npss, avscc, apsta; /* acl, aerl, elpe: zero-based */
	uint16_t wctemp, cctemp, mtfa;
	uint32_t hmpre, hmmin;
	struct nvme_u128 tnvmcap, unvmcap;
	uint32_t rpmbs;
	uint16_t edstt;
	uint8_t dsto, fwug;
	uint16_t kas; /* keep-alive granularity, 100 ms */
	uint16_t hctma, mntmt, mxtmt;
	uint32_t sanicap, hmminds;
	uint16_t hmmaxd, nsetidmax, endgidmax;
	uint8_t anatt, anacap;
	uint32_t anagrpmax, nanagrpid, pels;
	uint16_t domainid;
	struct nvme_u128 megcap;
	uint8_t sqes, cqes; /* log2: maximum in the high nibble, required in the low */
	uint16_t maxcmd;
	uint32_t nn; /* the highest namespace ID */
	uint16_t oncs, fuses;
	uint8_t fna, vwc;
	uint16_t awun, awupf;
	uint8_t icsvscc, nwpc;
	uint16_t acwu, ocfs;
	uint32_t sgls, mnan;
	struct nvme_u128 maxdna;
	uint32_t maxcna;
	char subnqn[NVME_NQN_LEN];
	uint32_t ioccsz, iorcsz; /* I/O capsule sizes, 16 bytes: 4 + in-capsule data, 1 */
	uint16_t icdoff;	 /* in-capsule data offset, 16 bytes */
	uint8_t fcatt, msdbd;
	uint16_t ofcs;
	uint8_t dctype;
	struct nvme_power_state psd[32]; /* npss + 1 of them are there */
};

#define NVME_CMIC_MULTI_PORT	  (1u << 0)
#define NVME_CMIC_MULTI_CTRL	  (1u << 1)
#define NVME_CMIC_ANA		  (1u << 3)
#define NVME_OAES_NS_ATTR	  (1u << 8)
#define NVME_OAES_ANA		  (1u << 11)
#define NVME_OAES_DISCOVERY	  (1u << 31)
#define NVME_CTRATT_HOSTID_128	  (1u << 0)
#define NVME_CTRATT_TBKAS	  (1u << 6) /* traffic restarts the keep-alive timer */
#define NVME_LPA_SMART_PER_NS	  (1u << 0)
#define NVME_LPA_EFFECTS	  (1u << 1)
#define NVME_LPA_EXTENDED	  (1u << 2) /* log pages take 32 bits of length and an offset */
#define NVME_ONCS_COMPARE	  (1u << 0)
#define NVME_ONCS_WRITE_UNCORR	  (1u << 1)
#define NVME_ONCS_DSM		  (1u << 2)
#define NVME_ONCS_WRITE_ZEROES	  (1u << 3)
#define NVME_ONCS_VERIFY	  (1u << 7)
#define NVME_ONCS_COPY		  (1u << 8)
#define NVME_FUSES_COMPARE_WRITE  (1u << 0)
#define NVME_OFCS_DISCONNECT	  (1u << 0) /* Disconnect ends an I/O queue */
#define NVME_NWPC_PROTECT	  (1u << 0) /* a host may set and clear it */
#define NVME_OCFS_FORMAT_0	  (1u << 0)
#define NVME_VWC_PRESENT	  (1u << 0)
#define NVME_VWC_FLUSH_ALL	  (3u << 1) /* Flush takes NSID ffffffff */
#define NVME_VWC_FLUSH_ALL_REFUSE (2u << 1)
#define NVME_SGLS_SUPPORTED	  (1u << 0)
#define NVME_SGLS_KEYED		  (1u << 2)
#define NVME_SGLS_OFFSET	  (1u << 20) /* address field may be an offset */
#define NVME_SGLS_TRANSPORT	  (1u << 21) /* transport data blocks */

struct nvme_lbaf {
	uint16_t ms; /* metadata bytes */
	uint8_t ds;  /* log2 of the block size */
	uint8_t rp;
};

struct nvme_id_ns {
	uint64_t nsze, ncap, nuse; /* blocks */
	uint8_t nsfeat, nlbaf, flbas, mc, dpc, dps, nmic, rescap, fpi, dlfeat;
	uint16_t nawun, nawupf, nacwu, nabsn, nabo, nabspf, noiob;
	struct nvme_u128 nvmcap;
	uint16_t npwg, npwa, npdg, npda, nows, mssrl;
	uint32_t mcl;
	uint8_t msrc, nulbaf;
	uint32_t anagrpid;
	uint8_t nsattr;
	uint16_t nvmsetid, endgid;
	uint8_t nguid[16], eui64[8];
	struct nvme_lbaf lbaf[64];
};

/* CNS 08: what a namespace has whatever its command set. */
struct nvme_id_independent_ns {
	uint8_t nsfeat, nmic, rescap, fpi;
	uint32_t anagrpid;
	uint8_t nsattr;
	uint16_t nvmsetid, endgid;
	uint8_t nstat;
};
#define NVME_NSTAT_READY (1u << 0)

/* CNS 06 of the NVM command set: limits of single commands; 0: none but the fields'. */
struct nvme_id_ctrl_nvm {
	uint8_t vsl, wzsl, wusl; /* as MDTS: of Verify, Write Zeroes, Write Uncorrectable */
	uint8_t dmrl;		 /* ranges of one Dataset Management */
	uint32_t dmrsl;		 /* blocks of a range */
	uint64_t dmsl;		 /* blocks of all */
};

#define NVME_NSFEAT_THIN	    (1u << 0)
#define NVME_NSFEAT_ATOMIC	    (1u << 1) /* nawun, nawupf, nacwu are valid */
#define NVME_NSFEAT_OPTPERF	    (1u << 4) /* npwg, npwa, npdg, npda, nows are valid */
#define NVME_NMIC_SHARED	    (1u << 0)
#define NVME_NSATTR_WRITE_PROTECTED (1u << 0)
#define NVME_DLFEAT_READ_ZEROES	    0x01 /* deallocated blocks read as zeroes */
#define NVME_DLFEAT_WZ_DEAC	    0x08 /* Write Zeroes takes the deallocate bit */
/* The format in use: four bits of FLBAS, and two more where there are more formats. */
#define NVME_FLBAS_FORMAT(flbas) (((flbas)&0xf) | ((flbas) >> 1 & 0x30))
#define NVME_ID_NS_LBAF(id)	 (&(id)->lbaf[NVME_FLBAS_FORMAT((id)->flbas)])

void nvme_id_ctrl_get(struct cursor *c, struct nvme_id_ctrl *s);
void nvme_id_ctrl_put(struct wcursor *c, const struct nvme_id_ctrl *s);
void nvme_id_ns_get(struct cursor *c, struct nvme_id_ns *s);
void nvme_id_ns_put(struct wcursor *c, const struct nvme_id_ns *s);
void nvme_id_ctrl_nvm_get(struct cursor *c, struct nvme_id_ctrl_nvm *s);
void nvme_id_ctrl_nvm_put(struct wcursor *c, const struct nvme_id_ctrl_nvm *s);
void nvme_id_independent_ns_get(struct cursor *c, struct nvme_id_independent_ns *s);
void nvme_id_independent_ns_put(struct wcursor *c, const struct nvme_id_independent_ns *s);

/*
 * Namespace lists (CNS 02, 07, 10; also log page 04): 1024 IDs, ascending, ended by a zero
 * unless full. Controller lists (CNS 12, 13): a count, then up to 2047 IDs.
 */
#define NVME_NS_LIST_MAX   1024
#define NVME_CTRL_LIST_MAX 2047
/* Reads at most max IDs; returns how many. */
uint32_t nvme_ns_list_get(struct cursor *c, uint32_t *ids, uint32_t max);
void nvme_ns_list_put(struct wcursor *c, const uint32_t *ids, uint32_t count);
uint32_t nvme_ctrl_list_get(struct cursor *c, uint16_t *ids, uint32_t max);
void nvme_ctrl_list_put(struct wcursor *c, const uint16_t *ids, uint32_t count);

/* Namespace identification descriptors (CNS 03): a sequence of type, length and bytes. */
enum nvme_nidt { NVME_NIDT_EUI64 = 1, NVME_NIDT_NGUID = 2, NVME_NIDT_UUID = 3, NVME_NIDT_CSI = 4 };

struct nvme_ns_desc {
	uint8_t nidt, nidl;
	uint8_t nid[255];
};

/* 1 and the next descriptor, 0 at the end of the list, -EBADMSG when it is cut off. */
int nvme_ns_desc_get(struct cursor *c, struct nvme_ns_desc *s) must_use;
void nvme_ns_desc_put(struct wcursor *c, uint8_t nidt, const void *nid, uint8_t nidl);

#endif
