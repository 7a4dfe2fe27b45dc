/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * SGL descriptors: a keyed data block names the host's memory, or a transport data block says how
 * much of it the transport brings; a data block with an offset names the capsule's own data (host
 * to controller only; ICDOFF is 0); a last segment with an offset names a list in the capsule, of
 * descriptors of the first kind. NVMe RDMA Transport 1.0 section 3.1, NVMe TCP 3.3.2.
 *
 * A descriptor of no bytes is a valid one. That descriptors name the same memory twice is the
 * host's affair: the data go there one after the other.
 */
#include <assert.h>

#include "nvmf/target/internal.h"

#define SQE_SGL_ADDR 24
#define SQE_SGL_LEN  32
#define SQE_SGL_TYPE 39

static bool is_outside(const struct target_req *r, const struct nvme_sgl *g)
{
	if (g->type != r->queue->ops->sgl)
		return false;
	if (g->type == NVME_SGL_TRANSPORT_DATA_BLOCK)
		return g->subtype == NVME_SGL_TRANSPORT;
	return g->subtype == NVME_SGL_ADDRESS || g->subtype == NVME_SGL_INVALIDATE;
}

static bool is_in_capsule(const struct target_req *r, const struct nvme_sgl *g)
{
	return g->addr <= r->capsule_len && g->len <= r->capsule_len - g->addr;
}

struct nvme_sgl target_req_sgl(const struct target_req *r, uint32_t i)
{
	struct cursor c;
	struct nvme_sgl g;

	assert(i < r->sgl_count);
	if (!r->sgl_list)
		return r->sqe.sgl;
	c = cursor_init(r->sgl_list + (size_t)i * NVME_SGL_LEN, NVME_SGL_LEN);
	nvme_sgl_get(&c, &g);
	return g;
}

static uint16_t parse_sgl_list(struct target_req *r)
{
	const struct nvme_sgl *s = &r->sqe.sgl;

	if (!s->len || s->len % NVME_SGL_LEN)
		return req_fail_at(r, SQE_SGL_LEN, FAIL(NVME_SC_SGL_INVALID_LAST));
	if (s->len / NVME_SGL_LEN > r->queue->ops->sgl_max)
		return req_fail_at(r, SQE_SGL_LEN, FAIL(NVME_SC_SGL_INVALID_COUNT));
	if (!is_in_capsule(r, s))
		return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_SGL_INVALID_OFFSET));
	r->sgl_list = r->capsule + s->addr;
	r->sgl_count = s->len / NVME_SGL_LEN;
	for (uint32_t i = 0; i < r->sgl_count; i++) {
		struct nvme_sgl g = target_req_sgl(r, i);

		/* Behind a last segment there is none. */
		if (g.type == NVME_SGL_SEGMENT || g.type == NVME_SGL_LAST_SEGMENT)
			return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_SGL_INVALID_LAST));
		if (!is_outside(r, &g))
			return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_SGL_INVALID_TYPE));
		r->sgl_len += g.len;
	}
	return NVME_SC_SUCCESS;
}

/* As much as the controller said of I/O commands (IOCCSZ), though its queue may have room for more.
 * What a queue begins with is none of them. */
static bool is_granted(const struct target_req *r, const struct nvme_sgl *g)
{
	const struct target_queue *q = r->queue;

	return !q->qid || !q->ctrl || r->sqe.opcode == NVME_FABRICS ||
	       g->addr + g->len <= q->ctrl->capsule_data;
}

uint16_t req_sgl(struct target_req *r)
{
	const struct nvme_sgl *g = &r->sqe.sgl;

	r->sgl_list = NULL;
	r->sgl_len = 0;
	if (g->type == NVME_SGL_LAST_SEGMENT && g->subtype == NVME_SGL_OFFSET &&
	    r->queue->ops->sgl_max > 1)
		return parse_sgl_list(r);
	r->sgl_len = g->len;
	if (is_outside(r, g)) {
		r->sgl_count = 1;
		return NVME_SC_SUCCESS;
	}
	if (g->type != NVME_SGL_DATA_BLOCK || g->subtype != NVME_SGL_OFFSET)
		return req_fail_at(r, SQE_SGL_TYPE, FAIL(NVME_SC_SGL_INVALID_TYPE));
	if (r->dir != NVMF_DIR_TO_CTRL)
		return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_INVALID_FIELD));
	if (!is_in_capsule(r, g) || !is_granted(r, g))
		return req_fail_at(r, SQE_SGL_ADDR, FAIL(NVME_SC_SGL_INVALID_OFFSET));
	r->in_capsule = true;
	r->data = r->capsule + g->addr;
	return NVME_SC_SUCCESS;
}

uint16_t req_expects(struct target_req *r, uint32_t len)
{
	uint16_t status;

	if (len > data_max(r->queue))
		return req_fail_at(r, 40, FAIL(NVME_SC_INVALID_FIELD));
	status = req_sgl(r);
	if (status)
		return status;
	if (r->sgl_len != len)
		return req_fail_at(r, SQE_SGL_LEN, FAIL(NVME_SC_SGL_INVALID_DATA));
	r->data_len = len;
	return NVME_SC_SUCCESS;
}

uint16_t req_expects_part(struct target_req *r, uint32_t len, uint64_t present)
{
	uint16_t status = req_expects(r, len);

	if (!status && present < len) {
		r->data_len = (uint32_t)present;
		r->zero_len = len - r->data_len;
	}
	return status;
}
