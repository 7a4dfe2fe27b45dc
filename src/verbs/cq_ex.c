// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The extended CQ: one completion at a time, its fields read through functions. */
#include <errno.h>

#include "base/time.h"
#include "verbs/cq.h"

#define SUPPORTED_FIELDS                                                        \
	(IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | \
	 IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |      \
	 IBV_WC_EX_WITH_DLID_PATH_BITS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |  \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_CVLAN)
#define SUPPORTED_FLAGS (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)

static struct face_cq *of(struct ibv_cq_ex *ex)
{
	return container_of(ex, struct face_cq, ex);
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct face_cq *cq = of(ex);

	if (!cq_poll(cq, 1, &cq->wc, &cq->time_ns))
		return ENOENT;
	ex->status = cq->wc.status;
	ex->wr_id = cq->wc.wr_id;
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct face_cq *cq = of(ex);
	int rc;

	if (attr->comp_mask)
		return REFUSED(EINVAL);
	if (!cq->single_threaded)
		pthread_mutex_lock(&cq->poll_lock);
	rc = next_poll(ex);
	if (rc && !cq->single_threaded) /* no end_poll follows a failed start */
		pthread_mutex_unlock(&cq->poll_lock);
	return rc;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct face_cq *cq = of(ex);

	if (!cq->single_threaded)
		pthread_mutex_unlock(&cq->poll_lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return of(ex)->wc.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return of(ex)->time_ns;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	struct timespec now;
	uint64_t age = time_now_ns() - of(ex)->time_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec - age;
}

/* What reaches a RoCE queue pair has lost its tag, if it had one, in the network stack. */
static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

struct ibv_cq_ex *face_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct ibv_pd *parent = NULL;
	struct face_cq *cq;
	int rc;

	if (attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) ||
	    flags & ~SUPPORTED_FLAGS || attr->wc_flags & ~(uint64_t)SUPPORTED_FIELDS)
		return FAIL(EOPNOTSUPP, NULL);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		parent = attr->parent_domain;
		if (!parent || !face_pd(parent)->parent)
			return FAIL(EINVAL, NULL);
	}
	cq = cq_create(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
	if (!cq)
		return NULL;
	rc = cq_place(cq, parent);
	if (rc) {
		ibv_destroy_cq(&cq->ibv);
		return FAIL(-rc, NULL);
	}
	cq->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	if (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		rnic_cq_ignore_overrun(cq->core);
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_sl;
	cq->ex.read_dlid_path_bits = read_dlid_path_bits;
	cq->ex.read_completion_ts = read_completion_ts;
	cq->ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
	cq->ex.read_cvlan = read_cvlan;
	return &cq->ex;
}
