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

/* By words of four bytes, as they stand in the header. */
enum bth_word0 {
	BTH0_OPCODE_SHIFT = 24,
	BTH0_SE = 0x800000,
	BTH0_MIGREQ = 0x400000,
	BTH0_PAD_SHIFT = 20,
	BTH0_TVER_SHIFT = 16,
	BTH0_TVER_MASK = 0x0f,
};
#define BTH1_FECN   0x80000000u
#define BTH1_BECN   0x40000000u
#define BTH2_ACKREQ 0x80000000u
#define BTH_NUMBER  0xffffffu /* of words 1 and 2: the queue pair's, the packet's */
/* Reserved, of words 1 and 2. */
#define BTH1_TAG 0x3f
#define BTH2_TAG 0x7f

/* Each byte is read once: memory that others write to may say something else by now. */
static void bth_decode(struct bth *b, const uint8_t *p)
{
	const uint32_t w0 = ld_be32(p), w1 = ld_be32(p + 4), w2 = ld_be32(p + 8);

	b->opcode = (uint8_t)(w0 >> BTH0_OPCODE_SHIFT);
	b->se = w0 & BTH0_SE;
	b->migreq = w0 & BTH0_MIGREQ;
	b->pad = w0 >> BTH0_PAD_SHIFT & 3;
	b->tver = w0 >> BTH0_TVER_SHIFT & BTH0_TVER_MASK;
	b->pkey = (uint16_t)w0;
	b->fecn = w1 & BTH1_FECN;
	b->becn = w1 & BTH1_BECN;
	b->dqpn = w1 & BTH_NUMBER;
	b->ackreq = w2 & BTH2_ACKREQ;
	b->psn = w2 & BTH_NUMBER;
	b->tag = (uint16_t)((w1 >> 24 & BTH1_TAG) << 7 | (w2 >> 24 & BTH2_TAG));
}

static void bth_encode(const struct bth *b, uint8_t *p)
{
	st_be32(p, (uint32_t)b->opcode << BTH0_OPCODE_SHIFT | (b->se ? BTH0_SE : 0u) |
			   (b->migreq ? BTH0_MIGREQ : 0u) | (b->pad & 3u) << BTH0_PAD_SHIFT |
			   (uint32_t)(b->tver & BTH0_TVER_MASK) << BTH0_TVER_SHIFT | b->pkey);
	st_be32(p + 4, (b->fecn ? BTH1_FECN : 0u) | (b->becn ? BTH1_BECN : 0u) |
			       (b->tag >> 7 & BTH1_TAG) << 24 | (b->dqpn & BTH_NUMBER));
	st_be32(p + 8, (b->ackreq ? BTH2_ACKREQ : 0u) | (uint32_t)(b->tag & BTH2_TAG) << 24 |
			       (b->psn & BTH_NUMBER));
}

int pkt_hdr_decode(struct pkt_hdr *h, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	const struct opcode_info *op;
	int hdr_len;

	if (len < BTH_LEN)
		return -EBADMSG;
	bth_decode(&h->bth, p);
	/* Of what was read, too. */
	op = &opcode_table[h->bth.opcode];
	hdr_len = BTH_LEN + op->ext_len;
	if (!op->name || h->bth.tver != BTH_TVER || len < (size_t)hdr_len + h->bth.pad)
		return -EBADMSG;
	p += BTH_LEN;
	if (!op->ext_len)
		return hdr_len;

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
	if (!op->ext_len)
		return BTH_LEN;

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
