/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme_fabrics.h"

#include "base/compiler.h"
#include "wire/nvme_schema.h"

/* Connect: bytes 40 record format, 42 queue ID, 44 size, 46 attributes, 48 keep-alive. */
void nvmf_connect_from_sqe(struct nvmf_connect *ret, const struct nvme_sqe *s)
{
	ret->recfmt = (uint16_t)s->cdw10;
	ret->qid = (uint16_t)(s->cdw10 >> 16);
	ret->sqsize = (uint16_t)s->cdw11;
	ret->cattr = (uint8_t)(s->cdw11 >> 16);
	ret->kato_ms = s->cdw12;
}

void nvmf_connect_to_sqe(const struct nvmf_connect *c, struct nvme_sqe *s)
{
	s->opcode = NVME_FABRICS;
	s->nsid = NVMF_CONNECT;
	s->cdw10 = c->recfmt | (uint32_t)c->qid << 16;
	s->cdw11 = c->sqsize | (uint32_t)c->cattr << 16;
	s->cdw12 = c->kato_ms;
}

#define CONNECT_DATA(V)  \
	V(bytes, hostid) \
	V(le16, cntlid) V(zero, 238) V(bytes, subnqn) V(bytes, hostnqn) V(zero, 256)
NVME_CODEC(nvmf_connect_data, CONNECT_DATA)

/* Property Get and Set: byte 40 attributes, 44 offset, 48 value. */
void nvmf_prop_from_sqe(struct nvmf_prop *ret, const struct nvme_sqe *s)
{
	ret->wide = s->cdw10 & 1;
	ret->attrib_reserved = s->cdw10 & 0xfe;
	ret->offset = s->cdw11;
	ret->value = (uint64_t)s->cdw13 << 32 | s->cdw12;
}

void nvmf_prop_to_sqe(const struct nvmf_prop *p, uint8_t fctype, struct nvme_sqe *s)
{
	s->opcode = NVME_FABRICS;
	s->nsid = fctype;
	s->cdw10 = (uint32_t)p->attrib_reserved | p->wide;
	s->cdw11 = p->offset;
	s->cdw12 = (uint32_t)p->value;
	s->cdw13 = (uint32_t)(p->value >> 32);
}

#define DISC_HDR(V) V(le64, genctr) V(le64, numrec) V(le16, recfmt) V(zero, 1006)
NVME_CODEC(nvmf_disc_hdr, DISC_HDR)

/* clang-format off */
#define DISC_ENTRY(V)                                                                          \
	/* 0 */ V(u8, trtype) V(u8, adrfam) V(u8, subtype) V(u8, treq) V(le16, portid)         \
	/* 6 */ V(le16, cntlid) V(le16, asqsz) V(le16, eflags) V(zero, 20) V(bytes, trsvcid)   \
	/* 64 */ V(zero, 192) V(bytes, subnqn) V(bytes, traddr) V(bytes, tsas)
/* clang-format on */
NVME_CODEC(nvmf_disc_entry, DISC_ENTRY)

void nvmf_tsas_rdma_get(const uint8_t tsas[256], struct nvmf_tsas_rdma *ret)
{
	ret->qptype = tsas[0];
	ret->prtype = tsas[1];
	ret->cms = tsas[2];
	ret->pkey = ld_le16(tsas + 8);
}

void nvmf_tsas_rdma_put(uint8_t tsas[256], const struct nvmf_tsas_rdma *s)
{
	memset(tsas, 0, 256);
	tsas[0] = s->qptype;
	tsas[1] = s->prtype;
	tsas[2] = s->cms;
	st_le16(tsas + 8, s->pkey);
}

const struct nvme_prop_row nvme_props[] = {
#define PROPERTY(name, offset, bytes, key, fabrics, text) {offset, bytes, fabrics, key, text},
#include "wire/nvme_names.def"
};
const unsigned int nvme_prop_count = ARRAY_SIZE(nvme_props);

const struct nvme_prop_row *nvme_prop_find(uint32_t offset)
{
	for (unsigned int i = 0; i < nvme_prop_count; i++)
		if (nvme_props[i].offset == offset)
			return &nvme_props[i];
	return NULL;
}
