/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Get and Set Features. None is saveable and none is of a namespace, so "saved" is the default.
 * The mandatory ones that steer nothing in software are kept and given back. Base 2.0 section
 * 5.27.
 */
#include <stddef.h>

#include "nvmf/target/internal.h"

#define SQE_NSID  4
#define SQE_FID	  40
#define SQE_CDW11 44

/* A row has functions, or says what is kept of dword 11; by default that is 0. */
struct feature {
	bool known, discovery, changeable;
	uint32_t refused; /* bits of dword 11 that ask for what there is not */
	uint32_t kept;	  /* bits that are kept */
	size_t place;	  /* where: offset in struct target_ctrl */
	uint16_t (*get)(struct target_req *r, struct target_ctrl *c, bool defaults, uint64_t *ret);
	uint16_t (*set)(struct target_req *r, struct target_ctrl *c);
};

static uint16_t bad_cdw11(struct target_req *r)
{
	return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_INVALID_FIELD));
}

/* --- temperature threshold -------------------------------------------------------------------- */

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

static uint16_t get_temp(struct target_req *r, struct target_ctrl *c, bool defaults, uint64_t *ret)
{
	const uint32_t *temp = temp_threshold(c, r->sqe.cdw11);

	if (!temp)
		return bad_cdw11(r);
	*ret = *temp;
	if (defaults)
		*ret = temp == &c->temp_over ? TARGET_TEMP_OVER : 0;
	return NVME_SC_SUCCESS;
}

static uint16_t set_temp(struct target_req *r, struct target_ctrl *c)
{
	uint32_t *temp = temp_threshold(c, r->sqe.cdw11);

	if (!temp)
		return bad_cdw11(r);
	*temp = r->sqe.cdw11 & 0xffff;
	return NVME_SC_SUCCESS;
}

/* --- volatile write cache --------------------------------------------------------------------- */

static bool has_write_cache(const struct target_subsys *s)
{
	for (uint32_t i = 0; i < s->nn; i++)
		if (s->ns[i] && s->ns[i]->store->volatile_cache)
			return true;
	return false;
}

static uint16_t get_cache(struct target_req *r, struct target_ctrl *c, bool defaults, uint64_t *ret)
{
	if (!has_write_cache(c->subsys))
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_INVALID_FIELD));
	*ret = defaults || c->write_cache;
	return NVME_SC_SUCCESS;
}

static uint16_t set_cache(struct target_req *r, struct target_ctrl *c)
{
	if (!has_write_cache(c->subsys))
		return bad_cdw11(r);
	c->write_cache = r->sqe.cdw11 & 1;
	return NVME_SC_SUCCESS;
}

/* --- number of queues ------------------------------------------------------------------------- */

static uint16_t get_num_queues(struct target_req *r, struct target_ctrl *c, bool defaults,
			       uint64_t *ret)
{
	uint32_t n = c->io_queues_granted;

	(void)r;
	if (defaults || !n)
		n = TARGET_IO_QUEUES_MAX;
	*ret = NVME_NUM_QUEUES(n, n);
	return NVME_SC_SUCCESS;
}

static uint16_t set_num_queues(struct target_req *r, struct target_ctrl *c)
{
	uint32_t nsq = NVME_NUM_QUEUES_SQ(r->sqe.cdw11), ncq = NVME_NUM_QUEUES_CQ(r->sqe.cdw11);

	/* ffff is not a number of queues. */
	if (nsq == 0x10000 || ncq == 0x10000)
		return bad_cdw11(r);
	if (c->io_queues)
		return FAIL(NVME_SC_CMD_SEQ_ERROR);
	/* Over fabrics a queue is a pair. */
	nsq = max_of(nsq, ncq);
	c->io_queues_granted = min_of(nsq, (uint32_t)TARGET_IO_QUEUES_MAX);
	r->cqe.result = NVME_NUM_QUEUES(c->io_queues_granted, c->io_queues_granted);
	return NVME_SC_SUCCESS;
}

/* --- asynchronous events, keep-alive, host identifier -------------------------------------- */

static uint16_t set_events(struct target_req *r, struct target_ctrl *c)
{
	c->aen_enabled = r->sqe.cdw11 & TARGET_OAES(c->subsys);
	return NVME_SC_SUCCESS;
}

/* Rounded up to the granularity that KAS tells; the result says to what. */
static uint16_t set_keep_alive(struct target_req *r, struct target_ctrl *c)
{
	uint32_t ms = r->sqe.cdw11, unit = TARGET_KAS * 100;

	if (ms > UINT32_MAX - unit)
		return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_KAT_INVALID));
	c->kato_ms = (ms + unit - 1) / unit * unit;
	ctrl_arm_kato(c);
	r->cqe.result = c->kato_ms;
	return NVME_SC_SUCCESS;
}

static uint16_t get_host_id(struct target_req *r, struct target_ctrl *c, bool defaults,
			    uint64_t *ret)
{
	(void)defaults;
	*ret = 0;
	memcpy(r->data, c->hostid, sizeof(c->hostid));
	return NVME_SC_SUCCESS;
}

static uint16_t set_host_id(struct target_req *r, struct target_ctrl *c)
{
	(void)r;
	(void)c;
	return FAIL(NVME_SC_CMD_SEQ_ERROR); /* it came with Connect */
}

/* --- the table -------------------------------------------------------------------------------- */

#define AT(member) .place = offsetof(struct target_ctrl, member)

static const struct feature features[256] = {
	[NVME_FID_ARBITRATION] = {true, false, true, .kept = UINT32_MAX, AT(arbitration)},
	/* There is power state 0 alone. */
	[NVME_FID_POWER_MGMT] = {true, false, true, .refused = 0x1f},
	[NVME_FID_TEMP_THRESHOLD] = {true, false, true, .get = get_temp, .set = set_temp},
	/* Bit 16: an error for deallocated blocks. */
	[NVME_FID_ERROR_RECOVERY] = {true, false, true, 1u << 16, 0xffff, AT(error_recovery)},
	[NVME_FID_VOLATILE_WC] = {true, false, true, .get = get_cache, .set = set_cache},
	[NVME_FID_NUM_QUEUES] = {true, false, true, .get = get_num_queues, .set = set_num_queues},
	[NVME_FID_WRITE_ATOMIC] = {true, false, true, .kept = 1, AT(write_atomic)},
	[NVME_FID_ASYNC_EVENT] = {true, true, true, .set = set_events, AT(aen_enabled)},
	[NVME_FID_KEEP_ALIVE] = {true, true, true, .set = set_keep_alive, AT(kato_ms)},
	[NVME_FID_HOST_ID] = {true, true, false, .get = get_host_id, .set = set_host_id},
};

static const struct feature *find(const struct target_req *r)
{
	const struct feature *f = &features[NVME_FEATURE_FID(r->sqe.cdw10)];

	return f->known && (f->discovery || !r->queue->ctrl->subsys->discovery) ? f : NULL;
}

static uint32_t *place_of(const struct feature *f, struct target_ctrl *c)
{
	return f->place ? (uint32_t *)(void *)((char *)c + f->place) : NULL;
}

static uint16_t get_value(const struct feature *f, struct target_req *r, bool defaults,
			  uint64_t *ret)
{
	const uint32_t *place = place_of(f, r->queue->ctrl);

	if (f->get)
		return f->get(r, r->queue->ctrl, defaults, ret);
	*ret = place && !defaults ? *place : 0;
	return NVME_SC_SUCCESS;
}

static void execute_get(struct target_req *r)
{
	uint32_t sel = NVME_FEATURE_SEL(r->sqe.cdw10);
	uint16_t status = NVME_SC_SUCCESS;
	uint64_t value = 0;

	if (sel == NVME_SEL_SUPPORTED)
		value = find(r)->changeable ? NVME_FEATURE_CAP_CHANGEABLE : 0;
	else
		status = get_value(find(r), r, sel != NVME_SEL_CURRENT, &value);
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
			return bad_cdw11(r);
		return req_expects(r, 16);
	}
	return NVME_SC_SUCCESS;
}

static uint16_t set_value(const struct feature *f, struct target_req *r)
{
	uint32_t *place = place_of(f, r->queue->ctrl);

	if (f->set)
		return f->set(r, r->queue->ctrl);
	if (r->sqe.cdw11 & f->refused)
		return bad_cdw11(r);
	if (place)
		*place = r->sqe.cdw11 & f->kept;
	return NVME_SC_SUCCESS;
}

static void execute_set(struct target_req *r)
{
	req_complete(r, set_value(find(r), r));
}

uint16_t parse_set_features(struct target_req *r)
{
	if (!find(r))
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_INVALID_FIELD));
	/* All are the controller's. */
	if (r->sqe.nsid && r->sqe.nsid != NVME_NSID_ALL) {
		uint16_t status = req_find_ns(r);

		return status ? status : req_fail_at(r, SQE_NSID, FAIL(NVME_SC_FEATURE_NOT_PER_NS));
	}
	if (NVME_FEATURE_SAVE(r->sqe.cdw10))
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_FEATURE_NOT_SAVEABLE));
	r->execute = execute_set;
	return NVME_SC_SUCCESS;
}
