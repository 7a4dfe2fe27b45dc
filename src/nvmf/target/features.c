/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Get and Set Features. None is saveable and none is of a namespace, so "saved" is the default.
 * The mandatory ones that steer nothing in software are kept and given back. Base 2.0 section
 * 5.27.
 */
#include "nvmf/target/internal.h"

#define SQE_FID	  40
#define SQE_CDW11 44

struct feature {
	bool known, discovery, changeable;
};

static const struct feature features[256] = {
	[NVME_FID_ARBITRATION] = {true, false, true},
	[NVME_FID_POWER_MGMT] = {true, false, true},
	[NVME_FID_TEMP_THRESHOLD] = {true, false, true},
	[NVME_FID_ERROR_RECOVERY] = {true, false, true},
	[NVME_FID_VOLATILE_WC] = {true, false, true},
	[NVME_FID_NUM_QUEUES] = {true, false, true},
	[NVME_FID_WRITE_ATOMIC] = {true, false, true},
	[NVME_FID_ASYNC_EVENT] = {true, true, true},
	[NVME_FID_KEEP_ALIVE] = {true, true, true},
	[NVME_FID_HOST_ID] = {true, true, false},
};

static const struct feature *find(const struct target_req *r)
{
	const struct feature *f = &features[NVME_FEATURE_FID(r->sqe.cdw10)];

	return f->known && (f->discovery || !r->queue->ctrl->subsys->discovery) ? f : NULL;
}

static bool has_write_cache(const struct target_subsys *s)
{
	for (uint32_t i = 0; i < s->nn; i++)
		if (s->ns[i] && s->ns[i]->store->volatile_cache)
			return true;
	return false;
}

/* Threshold type in bits 21:20 of dword 11: 0 over, 1 under; sensor 0 in 19:16. */
static uint32_t *temp_threshold(struct target_ctrl *c, uint32_t dw11)
{
	if (dw11 >> 16 & 0xf)
		return NULL;
	switch (dw11 >> 20 & 3) {
	case 0:
		return &c->temp_over;
	case 1:
		return &c->temp_under;
	}
	return NULL;
}

static uint16_t get_value(struct target_req *r, struct target_ctrl *c, bool defaults, uint64_t *ret)
{
	struct target_ctrl fresh;
	uint32_t *temp;

	switch (NVME_FEATURE_FID(r->sqe.cdw10)) {
	case NVME_FID_ARBITRATION:
		*ret = defaults ? 0 : c->arbitration;
		return NVME_SC_SUCCESS;
	case NVME_FID_POWER_MGMT:
		*ret = 0;
		return NVME_SC_SUCCESS;
	case NVME_FID_TEMP_THRESHOLD:
		fresh.temp_over = 0xffff;
		fresh.temp_under = 0;
		temp = temp_threshold(defaults ? &fresh : c, r->sqe.cdw11);
		if (!temp)
			return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_INVALID_FIELD));
		*ret = *temp;
		return NVME_SC_SUCCESS;
	case NVME_FID_ERROR_RECOVERY:
		*ret = defaults ? 0 : c->error_recovery;
		return NVME_SC_SUCCESS;
	case NVME_FID_VOLATILE_WC:
		if (!has_write_cache(c->subsys))
			return req_fail_at(r, SQE_FID, FAIL(NVME_SC_INVALID_FIELD));
		*ret = defaults || c->write_cache;
		return NVME_SC_SUCCESS;
	case NVME_FID_NUM_QUEUES:
		*ret = c->io_queues_granted;
		if (defaults || !*ret)
			*ret = TARGET_IO_QUEUES_MAX;
		*ret = NVME_NUM_QUEUES(*ret, *ret);
		return NVME_SC_SUCCESS;
	case NVME_FID_WRITE_ATOMIC:
		*ret = defaults ? 0 : c->write_atomic;
		return NVME_SC_SUCCESS;
	case NVME_FID_ASYNC_EVENT:
		*ret = defaults ? 0 : c->aen_enabled;
		return NVME_SC_SUCCESS;
	case NVME_FID_KEEP_ALIVE:
		*ret = defaults ? 0 : c->kato_ms;
		return NVME_SC_SUCCESS;
	}
	return req_fail_at(r, SQE_FID, FAIL(NVME_SC_INVALID_FIELD));
}

static void execute_get(struct target_req *r)
{
	struct target_ctrl *c = r->queue->ctrl;
	uint32_t sel = NVME_FEATURE_SEL(r->sqe.cdw10);
	uint16_t status = NVME_SC_SUCCESS;
	uint64_t value = 0;

	if (sel == NVME_SEL_SUPPORTED)
		value = find(r)->changeable ? NVME_FEATURE_CAP_CHANGEABLE : 0;
	else if (NVME_FEATURE_FID(r->sqe.cdw10) == NVME_FID_HOST_ID)
		memcpy(r->data, c->hostid, sizeof(c->hostid));
	else
		status = get_value(r, c, sel != NVME_SEL_CURRENT, &value);
	r->cqe.result = value;
	req_complete(r, status);
}

uint16_t parse_get_features(struct target_req *r)
{
	uint32_t sel = NVME_FEATURE_SEL(r->sqe.cdw10);

	if (!find(r) || sel > NVME_SEL_SUPPORTED)
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_INVALID_FIELD));
	r->execute = execute_get;
	if (NVME_FEATURE_FID(r->sqe.cdw10) == NVME_FID_HOST_ID && sel != NVME_SEL_SUPPORTED) {
		/* Over fabrics it is always the extended, 128-bit identifier. */
		if (!(r->sqe.cdw11 & 1))
			return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_INVALID_FIELD));
		return req_expects(r, 16);
	}
	return NVME_SC_SUCCESS;
}

static uint16_t set_num_queues(struct target_req *r, struct target_ctrl *c)
{
	uint32_t nsq = NVME_NUM_QUEUES_SQ(r->sqe.cdw11), ncq = NVME_NUM_QUEUES_CQ(r->sqe.cdw11);

	/* ffff is not a number of queues. */
	if (nsq == 0x10000 || ncq == 0x10000)
		return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_INVALID_FIELD));
	if (c->io_queues)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	/* Over fabrics a queue is a pair. */
	nsq = max_of(nsq, ncq);
	c->io_queues_granted = min_of(nsq, (uint32_t)TARGET_IO_QUEUES_MAX);
	r->cqe.result = NVME_NUM_QUEUES(c->io_queues_granted, c->io_queues_granted);
	return NVME_SC_SUCCESS;
}

static uint16_t set_value(struct target_req *r, struct target_ctrl *c)
{
	uint32_t dw11 = r->sqe.cdw11, *temp, unit = TARGET_KAS * 100;

	switch (NVME_FEATURE_FID(r->sqe.cdw10)) {
	case NVME_FID_ARBITRATION:
		c->arbitration = dw11;
		return NVME_SC_SUCCESS;
	case NVME_FID_POWER_MGMT:
		if (dw11 & 0x1f) /* there is power state 0 alone */
			break;
		return NVME_SC_SUCCESS;
	case NVME_FID_TEMP_THRESHOLD:
		temp = temp_threshold(c, dw11);
		if (!temp)
			break;
		*temp = dw11 & 0xffff;
		return NVME_SC_SUCCESS;
	case NVME_FID_ERROR_RECOVERY:
		if (dw11 & 1u << 16) /* an error for deallocated blocks: not supported */
			break;
		c->error_recovery = dw11 & 0xffff;
		return NVME_SC_SUCCESS;
	case NVME_FID_VOLATILE_WC:
		if (!has_write_cache(c->subsys))
			break;
		c->write_cache = dw11 & 1;
		return NVME_SC_SUCCESS;
	case NVME_FID_NUM_QUEUES:
		return set_num_queues(r, c);
	case NVME_FID_WRITE_ATOMIC:
		c->write_atomic = dw11 & 1;
		return NVME_SC_SUCCESS;
	case NVME_FID_ASYNC_EVENT:
		c->aen_enabled = dw11 & TARGET_OAES(c->subsys);
		return NVME_SC_SUCCESS;
	case NVME_FID_KEEP_ALIVE:
		/* Rounded up to the granularity that KAS tells; the result says to what. */
		if (dw11 > UINT32_MAX - unit)
			return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_KAT_INVALID));
		c->kato_ms = (dw11 + unit - 1) / unit * unit;
		ctrl_arm_kato(c);
		r->cqe.result = c->kato_ms;
		return NVME_SC_SUCCESS;
	case NVME_FID_HOST_ID: /* it came with Connect */
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	}
	return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_INVALID_FIELD));
}

static void execute_set(struct target_req *r)
{
	req_complete(r, set_value(r, r->queue->ctrl));
}

uint16_t parse_set_features(struct target_req *r)
{
	if (!find(r))
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_INVALID_FIELD));
	if (NVME_FEATURE_SAVE(r->sqe.cdw10))
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_FEATURE_NOT_SAVEABLE));
	r->execute = execute_set;
	return NVME_SC_SUCCESS;
}
