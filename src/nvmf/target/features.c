/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Get and Set Features. None is saveable, so "saved" is the default. Those that steer nothing in
 * software are kept and given back; all but write protection are the controller's, and begin anew
 * with its reset. Base 2.0 section 5.27.
 */
#include <stddef.h>

#include "nvmf/target/internal.h"

#define SQE_NSID  4
#define SQE_FID	  40
#define SQE_CDW11 44

/* A row has functions, or says what is kept of dword 11; by default that is 0. */
struct feature {
	bool known, discovery, changeable;
	bool of_ns;
	uint32_t refused;  /* bits of dword 11 that ask for what there is not */
	uint32_t kept;	   /* bits that are kept */
	size_t place;	   /* where: offset in struct target_ctrl */
	uint32_t data_len; /* of a value that is no dword */
	uint16_t (*get)(struct target_req *r, struct target_ctrl *c, bool defaults, uint64_t *ret);
	uint16_t (*set)(struct target_req *r, struct target_ctrl *c);
	void (*execute_set)(struct target_req *r); /* of one that takes its time, instead */
};

static uint16_t bad_cdw11(struct target_req *r)
{
	return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_INVALID_FIELD));
}

/* --- temperature threshold -------------------------------------------------------------------- */

/* Threshold type in bits 21:20 of dword 11: 0 over, 1 under; in 19:16 sensor 0, or to set all. */
static uint32_t *temp_threshold(struct target_ctrl *c, uint32_t dw11, bool set)
{
	uint32_t sensor = dw11 >> 16 & 0xf;

	if (sensor && !(set && sensor == 0xf))
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
	const uint32_t *temp = temp_threshold(c, r->sqe.cdw11, false);

	if (!temp)
		return bad_cdw11(r);
	*ret = *temp;
	if (defaults)
		*ret = temp == &c->temp_over ? TARGET_TEMP_OVER : 0;
	return NVME_SC_SUCCESS;
}

static uint16_t set_temp(struct target_req *r, struct target_ctrl *c)
{
	uint32_t *temp = temp_threshold(c, r->sqe.cdw11, true);

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
		n = io_queues_max(c->subsys);
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
	c->io_queues_granted = min_of(nsq, io_queues_max(c->subsys));
	r->cqe.result = NVME_NUM_QUEUES(c->io_queues_granted, c->io_queues_granted);
	return NVME_SC_SUCCESS;
}

/* --- asynchronous events, keep-alive, host identifier -------------------------------------- */

static uint16_t set_events(struct target_req *r, struct target_ctrl *c)
{
	c->aen_enabled = r->sqe.cdw11 & TARGET_OAES(c->subsys);
	return NVME_SC_SUCCESS;
}

/* What it is rounded up to is the result. */
static uint16_t set_keep_alive(struct target_req *r, struct target_ctrl *c)
{
	if (r->sqe.cdw11 > UINT32_MAX - TARGET_KAS * 100)
		return req_fail_at(r, SQE_CDW11, FAIL(NVME_SC_KAT_INVALID));
	ctrl_set_kato(c, r->sqe.cdw11);
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

/* --- host behaviour, command sets ----------------------------------------------------------- */

static uint16_t get_behavior(struct target_req *r, struct target_ctrl *c, bool defaults,
			     uint64_t *ret)
{
	*ret = 0;
	memset(r->data, 0, NVME_HOST_BEHAVIOR_LEN);
	if (!defaults)
		memcpy(r->data, c->host_behavior, sizeof(c->host_behavior));
	return NVME_SC_SUCCESS;
}

/* What the host can deal with: a byte each, 0 or 1. Of what there is not here nothing comes. */
static uint16_t set_behavior(struct target_req *r, struct target_ctrl *c)
{
	const uint8_t *said = r->data;

	for (size_t i = 0; i < sizeof(c->host_behavior); i++)
		if (said[i] > 1)
			return FAIL(NVME_SC_INVALID_FIELD);
	memcpy(c->host_behavior, said, sizeof(c->host_behavior));
	return NVME_SC_SUCCESS;
}

/* Of combinations of command sets there is the first alone. */
static uint16_t set_iocs_profile(struct target_req *r, struct target_ctrl *c)
{
	(void)c;
	return r->sqe.cdw11 & 0x1ff ? FAIL(NVME_SC_IOCS_COMBINATION_REJECTED) : NVME_SC_SUCCESS;
}

/* --- write protection: of a namespace -------------------------------------------------------- */

#define PROTECT_NONE   0
#define PROTECT_WRITES 1

static uint16_t get_protect(struct target_req *r, struct target_ctrl *c, bool defaults,
			    uint64_t *ret)
{
	(void)c;
	*ret = (defaults ? r->ns->read_only : ns_write_protected(r->ns)) ? PROTECT_WRITES
									 : PROTECT_NONE;
	return NVME_SC_SUCCESS;
}

static void protect(const struct target_req *r, bool on)
{
	if (r->ns->protect == on)
		return;
	r->ns->protect = on;
	ns_tell(r->queue->subsys, r->ns->nsid);
}

static void protected_flushed(struct store_op *op, int error)
{
	struct target_req *r = container_of(op, struct target_req, op);

	r->store_ns = 0;
	if (error) {
		ns_flush_failed(r->ns, r->queue->group, error);
		protect(r, false);
	}
	req_complete(r, req_store_status(r, error, STORE_FLUSH));
}

/* What began before it was set is still written: it is for mistakes, and not to hold up a host. But
 * what was answered is to be there for good. */
static void execute_protect(struct target_req *r)
{
	uint32_t state = r->sqe.cdw11 & 7;

	if (state > PROTECT_WRITES) {
		req_complete(r, bad_cdw11(r));
	} else if (r->ns->read_only) { /* as it is served */
		req_complete(r, state == PROTECT_WRITES ? NVME_SC_SUCCESS
							: FAIL(NVME_SC_FEATURE_NOT_CHANGEABLE));
	} else {
		protect(r, state == PROTECT_WRITES);
		if (!r->ns->protect || !r->ns->store->volatile_cache) {
			req_complete(r, NVME_SC_SUCCESS);
			return;
		}
		r->op = (struct store_op){.opcode = STORE_FLUSH, .done = protected_flushed};
		req_submit(r);
	}
}

/* --- the table -------------------------------------------------------------------------------- */

#define AT(member) .place = offsetof(struct target_ctrl, member)

#define CHANGEABLE .known = true, .changeable = true
#define EVERYWHERE .known = true, .changeable = true, .discovery = true

static const struct feature features[256] = {
	[NVME_FID_ARBITRATION] = {CHANGEABLE, .kept = UINT32_MAX, AT(arbitration)},
	/* There is power state 0 alone; a hint on the workload is kept. */
	[NVME_FID_POWER_MGMT] = {CHANGEABLE, .refused = 0x1f, .kept = 0xe0, AT(power)},
	[NVME_FID_TEMP_THRESHOLD] = {CHANGEABLE, .get = get_temp, .set = set_temp},
	/* Bit 16: an error for deallocated blocks. */
	[NVME_FID_ERROR_RECOVERY] = {CHANGEABLE, .refused = 1u << 16, .kept = 0xffff,
				     AT(error_recovery)},
	[NVME_FID_VOLATILE_WC] = {CHANGEABLE, .get = get_cache, .set = set_cache},
	[NVME_FID_NUM_QUEUES] = {CHANGEABLE, .get = get_num_queues, .set = set_num_queues},
	[NVME_FID_WRITE_ATOMIC] = {CHANGEABLE, .kept = 1, AT(write_atomic)},
	[NVME_FID_ASYNC_EVENT] = {EVERYWHERE, .set = set_events, AT(aen_enabled)},
	[NVME_FID_KEEP_ALIVE] = {EVERYWHERE, .set = set_keep_alive, AT(kato_ms)},
	[NVME_FID_HOST_BEHAVIOR] = {CHANGEABLE, .data_len = NVME_HOST_BEHAVIOR_LEN,
				    .get = get_behavior, .set = set_behavior},
	[NVME_FID_IOCS_PROFILE] = {CHANGEABLE, .set = set_iocs_profile},
	[NVME_FID_HOST_ID] = {.known = true,
			      .discovery = true,
			      .data_len = 16,
			      .get = get_host_id,
			      .set = set_host_id},
	[NVME_FID_WRITE_PROTECT] = {CHANGEABLE, .of_ns = true, .get = get_protect,
				    .execute_set = execute_protect},
};

static bool is_there(const struct feature *f, const struct target_ctrl *c)
{
	return f->known && (f->discovery || !c->subsys->discovery);
}

static const struct feature *find(const struct target_req *r)
{
	const struct feature *f = &features[NVME_FEATURE_FID(r->sqe.cdw10)];

	return is_there(f, r->queue->ctrl) ? f : NULL;
}

void features_supported(const struct target_ctrl *c, uint32_t ret[256])
{
	for (unsigned i = 0; i < ARRAY_SIZE(features); i++)
		if (is_there(&features[i], c))
			ret[i] = NVME_FEATURE_FSUPP | (features[i].of_ns ? NVME_FEATURE_SCOPE_NS
									 : NVME_FEATURE_SCOPE_CTRL);
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
		value = (find(r)->changeable ? NVME_FEATURE_CAP_CHANGEABLE : 0) |
			(find(r)->of_ns ? NVME_FEATURE_CAP_PER_NS : 0);
	else
		status = get_value(find(r), r, sel != NVME_SEL_CURRENT, &value);
	r->cqe.result = value;
	req_complete(r, status);
}

uint16_t parse_get_features(struct target_req *r)
{
	uint32_t sel = NVME_FEATURE_SEL(r->sqe.cdw10);
	const struct feature *f = find(r);
	uint16_t status;

	if (!f || sel > NVME_SEL_SUPPORTED)
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_INVALID_FIELD));
	r->execute = execute_get;
	if (f->of_ns) {
		status = req_find_ns(r);
		if (status)
			return status;
	}
	if (!f->data_len || sel == NVME_SEL_SUPPORTED)
		return NVME_SC_SUCCESS;
	/* Over fabrics it is always the extended, 128-bit identifier. */
	if (NVME_FEATURE_FID(r->sqe.cdw10) == NVME_FID_HOST_ID && !(r->sqe.cdw11 & 1))
		return bad_cdw11(r);
	return req_expects(r, f->data_len);
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

/* One of a namespace wants one, and one of the controller none. */
static uint16_t check_ns(struct target_req *r, const struct feature *f)
{
	uint16_t status;

	if (!f->of_ns && (!r->sqe.nsid || r->sqe.nsid == NVME_NSID_ALL))
		return NVME_SC_SUCCESS;
	status = req_find_ns(r);
	if (status || f->of_ns)
		return status;
	return req_fail_at(r, SQE_NSID, FAIL(NVME_SC_FEATURE_NOT_PER_NS));
}

uint16_t parse_set_features(struct target_req *r)
{
	const struct feature *f = find(r);
	uint16_t status;

	if (!f)
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_INVALID_FIELD));
	status = check_ns(r, f);
	if (status)
		return status;
	if (NVME_FEATURE_SAVE(r->sqe.cdw10))
		return req_fail_at(r, SQE_FID, FAIL(NVME_SC_FEATURE_NOT_SAVEABLE));
	r->execute = f->execute_set ? f->execute_set : execute_set;
	/* The host's identifier came with Connect: it is refused whatever it is. */
	return f->data_len && f->changeable ? req_expects(r, f->data_len) : NVME_SC_SUCCESS;
}
