/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "wire/nvme.h"

#include "wire/nvme_schema.h"

/*
 * An SGL descriptor (Base 2.0 figure 114 and on) ends with its type byte; a keyed one (figure
 * 120) squeezes a 24-bit length and the key into the bytes that are a length otherwise.
 */
void nvme_sgl_get(struct cursor *c, struct nvme_sgl *s)
{
	uint8_t tail[8], type;

	s->addr = cursor_le64(c);
	cursor_bytes(c, tail, sizeof(tail));
	type = tail[7];
	s->type = type >> 4;
	s->subtype = type & 0xf;
	if (s->type == NVME_SGL_KEYED_DATA_BLOCK) {
		s->len = ld_le32(tail) & NVME_SGL_KEYED_LEN_MAX;
		s->key = ld_le32(tail + 3);
	} else {
		s->len = ld_le32(tail);
		s->key = 0;
	}
}

static inline void sgl_put(struct wcursor *c, const struct nvme_sgl *s)
{
	uint8_t tail[8] = {0};

	st_le32(tail, s->len);
	if (s->type == NVME_SGL_KEYED_DATA_BLOCK)
		st_le32(tail + 3, s->key);
	tail[7] = (uint8_t)(s->type << 4 | s->subtype);
	wcursor_le64(c, s->addr);
	wcursor_bytes(c, tail, sizeof(tail));
}

void nvme_sgl_put(struct wcursor *c, const struct nvme_sgl *s)
{
	sgl_put(c, s);
}

/* An SQE is two runs of fields around its SGL descriptor. */
#define SQE_HEAD(V)   \
	V(u8, opcode) \
	V(u8, flags) V(le16, cid) V(le32, nsid) V(le32, cdw2) V(le32, cdw3) V(le64, mptr)
#define SQE_TAIL(V) \
	V(le32, cdw10) V(le32, cdw11) V(le32, cdw12) V(le32, cdw13) V(le32, cdw14) V(le32, cdw15)

void nvme_sqe_get(struct cursor *c, struct nvme_sqe *s)
{
	SQE_HEAD(NVME_GET)
	nvme_sgl_get(c, &s->sgl);
	SQE_TAIL(NVME_GET)
}

/*
 * What goes with each command is laid out on the stack, whose bounds are known when it is compiled,
 * so that they are looked at once instead of at each field.
 */
void nvme_sqe_put(struct wcursor *to, const struct nvme_sqe *s)
{
	uint8_t bytes[NVME_SQE_LEN];
	struct wcursor fields = wcursor_init(bytes, sizeof(bytes)), *c = &fields;

	SQE_HEAD(NVME_PUT)
	sgl_put(c, &s->sgl);
	SQE_TAIL(NVME_PUT)
	wcursor_bytes(to, bytes, sizeof(bytes));
}

/* Bit 0 of the status is the phase tag of PCIe; fabrics leave it zero. */
void nvme_cqe_get(struct cursor *from, struct nvme_cqe *s)
{
	uint8_t bytes[NVME_CQE_LEN];
	struct cursor fields = cursor_init(bytes, sizeof(bytes)), *c = &fields;

	cursor_bytes(from, bytes, sizeof(bytes));
	s->result = cursor_le64(c);
	s->sqhd = cursor_le16(c);
	s->sqid = cursor_le16(c);
	s->cid = cursor_le16(c);
	s->status = cursor_le16(c) >> 1;
}

void nvme_cqe_put(struct wcursor *to, const struct nvme_cqe *s)
{
	uint8_t bytes[NVME_CQE_LEN];
	struct wcursor fields = wcursor_init(bytes, sizeof(bytes)), *c = &fields;

	wcursor_le64(c, s->result);
	wcursor_le16(c, s->sqhd);
	wcursor_le16(c, s->sqid);
	wcursor_le16(c, s->cid);
	wcursor_le16(c, (uint16_t)(s->status << 1));
	wcursor_bytes(to, bytes, sizeof(bytes));
}

#define DSM_RANGE(V) V(le32, attributes) V(le32, nlb) V(le64, slba)
NVME_CODEC(nvme_dsm_range, DSM_RANGE)

#define COPY_RANGE(V) V(zero, 8) V(le64, slba) V(le16, nlb) V(zero, 14)
NVME_CODEC(nvme_copy_range, COPY_RANGE)

static const char *admin_name(uint8_t opcode)
{
	switch (opcode) {
	case NVME_ADMIN_DELETE_SQ:
		return "Delete I/O Submission Queue";
	case NVME_ADMIN_CREATE_SQ:
		return "Create I/O Submission Queue";
	case NVME_ADMIN_GET_LOG_PAGE:
		return "Get Log Page";
	case NVME_ADMIN_DELETE_CQ:
		return "Delete I/O Completion Queue";
	case NVME_ADMIN_CREATE_CQ:
		return "Create I/O Completion Queue";
	case NVME_ADMIN_IDENTIFY:
		return "Identify";
	case NVME_ADMIN_ABORT:
		return "Abort";
	case NVME_ADMIN_SET_FEATURES:
		return "Set Features";
	case NVME_ADMIN_GET_FEATURES:
		return "Get Features";
	case NVME_ADMIN_ASYNC_EVENT:
		return "Asynchronous Event Request";
	case NVME_ADMIN_NS_MGMT:
		return "Namespace Management";
	case NVME_ADMIN_FW_COMMIT:
		return "Firmware Commit";
	case NVME_ADMIN_FW_DOWNLOAD:
		return "Firmware Image Download";
	case NVME_ADMIN_SELF_TEST:
		return "Device Self-test";
	case NVME_ADMIN_NS_ATTACH:
		return "Namespace Attachment";
	case NVME_ADMIN_KEEP_ALIVE:
		return "Keep Alive";
	case NVME_ADMIN_FORMAT:
		return "Format NVM";
	case NVME_ADMIN_SECURITY_SEND:
		return "Security Send";
	case NVME_ADMIN_SECURITY_RECV:
		return "Security Receive";
	case NVME_ADMIN_SANITIZE:
		return "Sanitize";
	}
	return "unknown";
}

static const char *io_name(uint8_t opcode)
{
	switch (opcode) {
	case NVME_IO_FLUSH:
		return "Flush";
	case NVME_IO_WRITE:
		return "Write";
	case NVME_IO_READ:
		return "Read";
	case NVME_IO_WRITE_UNCORRECTABLE:
		return "Write Uncorrectable";
	case NVME_IO_COMPARE:
		return "Compare";
	case NVME_IO_WRITE_ZEROES:
		return "Write Zeroes";
	case NVME_IO_DSM:
		return "Dataset Management";
	case NVME_IO_VERIFY:
		return "Verify";
	case NVME_IO_COPY:
		return "Copy";
	}
	return "unknown";
}

const char *nvme_opcode_name(uint8_t opcode, bool admin)
{
	if (opcode == NVME_FABRICS)
		return "Fabrics";
	return admin ? admin_name(opcode) : io_name(opcode);
}
