/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The reader runs once for every packet received and the writer once for every packet sent, so
 * both check the length once, by the opcode's table row, and then load and store directly. The
 * order of the blocks below is the order of the headers on the wire: of those that occur
 * together, XRCETH stands before the others, DETH or RETH before ImmDt, and AETH before
 * AtomicAckETH.
 */
#include "wire/bth.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/units.h"

#define BTH_TVER 0

enum bth_byte1 { BTH1_SE = 0x80, BTH1_MIGREQ = 0x40, BTH1_PAD_SHIFT = 4, BTH1_TVER_MASK = 0x0f };
enum bth_byte4 { BTH4_FECN = 0x80, BTH4_BECN = 0x40 };
enum bth_byte8 { BTH8_ACKREQ = 0x80 };
/* Reserved, of bytes 4 and 8. */
#define BTH4_TAG 0x3f
#define BTH8_TAG 0x7f

static void bth_decode(struct bth *b, const uint8_t *p)
{
	b->opcode = p[0];
	b->se = p[1] & BTH1_SE;
	b->migreq = p[1] & BTH1_MIGREQ;
	b->pad = p[1] >> BTH1_PAD_SHIFT & 3;
	b->tver = p[1] & BTH1_TVER_MASK;
	b->pkey = ld_be16(p + 2);
	b->fecn = p[4] & BTH4_FECN;
	b->becn = p[4] & BTH4_BECN;
	b->dqpn = ld_be24(p + 5);
	b->ackreq = p[8] & BTH8_ACKREQ;
	b->psn = ld_be24(p + 9);
	b->tag = (uint16_t)((p[4] & BTH4_TAG) << 7 | (p[8] & BTH8_TAG));
}

static void bth_encode(const struct bth *b, uint8_t *p)
{
	p[0] = b->opcode;
	p[1] = (uint8_t)((b->se ? BTH1_SE : 0) | (b->migreq ? BTH1_MIGREQ : 0) |
			 (b->pad & 3) << BTH1_PAD_SHIFT | (b->tver & BTH1_TVER_MASK));
	st_be16(p + 2, b->pkey);
	p[4] = (uint8_t)((b->fecn ? BTH4_FECN : 0) | (b->becn ? BTH4_BECN : 0) |
			 (b->tag >> 7 & BTH4_TAG));
	st_be24(p + 5, b->dqpn);
	p[8] = (uint8_t)((b->ackreq ? BTH8_ACKREQ : 0) | (b->tag & BTH8_TAG));
	st_be24(p + 9, b->psn);
}

int pkt_hdr_decode(struct pkt_hdr *h, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	const struct opcode_info *op;
	int hdr_len;

	if (len < BTH_LEN)
		return -EBADMSG;
	bth_decode(&h->bth, p);
	/* Of what was read: memory that others write to may say something else by now. */
	op = &opcode_table[h->bth.opcode];
	hdr_len = BTH_LEN + op->ext_len;
	if (!op->name || h->bth.tver != BTH_TVER || len < (size_t)hdr_len + h->bth.pad)
		return -EBADMSG;
	p += BTH_LEN;

	if (op->flags & OPF_XRCETH) {
		h->xrc_srqn = ld_be24(p + 1);
		p += XRCETH_LEN;
	}
	if (op->flags & OPF_DETH) {
		h->deth.qkey = ld_be32(p);
		h->deth.sqpn = ld_be24(p + 5);
		p += DETH_LEN;
	}
	if (op->flags & OPF_RETH) {
		h->reth.va = ld_be64(p);
		h->reth.rkey = ld_be32(p + 8);
		h->reth.dma_len = ld_be32(p + 12);
		p += RETH_LEN;
	}
	if (op->flags & OPF_ATOMICETH) {
		h->atomic.va = ld_be64(p);
		h->atomic.rkey = ld_be32(p + 8);
		h->atomic.swap_add = ld_be64(p + 12);
		h->atomic.compare = ld_be64(p + 20);
		p += ATOMICETH_LEN;
	}
	if (op->flags & OPF_AETH) {
		h->aeth.syndrome = p[0];
		h->aeth.msn = ld_be24(p + 1);
		p += AETH_LEN;
	}
	if (op->flags & OPF_ATOMICACKETH) {
		h->atomic_ack = ld_be64(p);
		p += ATOMICACK_LEN;
	}
	if (op->flags & OPF_IMMDT) {
		memcpy(h->immdt, p, IMMDT_LEN);
		p += IMMDT_LEN;
	}
	if (op->flags & OPF_IETH)
		h->ieth_rkey = ld_be32(p);
	return hdr_len;
}

size_t pkt_hdr_encode(const struct pkt_hdr *h, void *buf)
{
	const struct opcode_info *op = &opcode_table[h->bth.opcode];
	uint8_t *p = buf;

	bth_encode(&h->bth, p);
	p += BTH_LEN;

	if (op->flags & OPF_XRCETH) {
		p[0] = 0;
		st_be24(p + 1, h->xrc_srqn);
		p += XRCETH_LEN;
	}
	if (op->flags & OPF_DETH) {
		st_be32(p, h->deth.qkey);
		p[4] = 0;
		st_be24(p + 5, h->deth.sqpn);
		p += DETH_LEN;
	}
	if (op->flags & OPF_RETH) {
		st_be64(p, h->reth.va);
		st_be32(p + 8, h->reth.rkey);
		st_be32(p + 12, h->reth.dma_len);
		p += RETH_LEN;
	}
	if (op->flags & OPF_ATOMICETH) {
		st_be64(p, h->atomic.va);
		st_be32(p + 8, h->atomic.rkey);
		st_be64(p + 12, h->atomic.swap_add);
		st_be64(p + 20, h->atomic.compare);
		p += ATOMICETH_LEN;
	}
	if (op->flags & OPF_AETH) {
		p[0] = h->aeth.syndrome;
		st_be24(p + 1, h->aeth.msn);
		p += AETH_LEN;
	}
	if (op->flags & OPF_ATOMICACKETH) {
		st_be64(p, h->atomic_ack);
		p += ATOMICACK_LEN;
	}
	if (op->flags & OPF_IMMDT) {
		memcpy(p, h->immdt, IMMDT_LEN);
		p += IMMDT_LEN;
	}
	if (op->flags & OPF_IETH)
		st_be32(p, h->ieth_rkey);
	return BTH_LEN + op->ext_len;
}

uint64_t rnr_timer_ns(uint8_t code)
{
	/* IBA volume 1 table 45, in units of 10 us. */
	static const uint32_t timer_10us[32] = {
		65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
		48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return timer_10us[code & 31] * (10 * NSEC_PER_USEC);
}
