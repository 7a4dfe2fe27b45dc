/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every command of the target's, and every status that it answers with: our host and our target
 * over each transport, by the same cases. A host of another kind is ours with another SQE, which is
 * changed where it is put into the capsule: all behind that is as it was, digests and all.
 *
 * What only some transports have is said in the case. NVME_SC_TRANSIENT_TRANSPORT takes digests of
 * data, and with these NVMe/TCP; a list of SGL descriptors takes NVMe/RDMA, to the others it is a
 * type that there is not.
 */
#include <errno.h>

#include "transport_bed.h"
#include "wire/crc32c.h"
#include "wire/nvme_auth.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_log.h"
#include "wire/nvme_tcp.h"

/* --- a host of another kind ---------------------------------------------------------------------
 */

static void (*sent_as)(struct nvme_sqe *s);

void __real_nvme_sqe_put(struct wcursor *c, const struct nvme_sqe *s);
void __wrap_nvme_sqe_put(struct wcursor *c, const struct nvme_sqe *s);

void __wrap_nvme_sqe_put(struct wcursor *c, const struct nvme_sqe *s)
{
	struct nvme_sqe other = *s;

	if (sent_as)
		sent_as(&other);
	__real_nvme_sqe_put(c, &other);
}

/* --- one after the other on a connection --------------------------------------------------------
 */

struct row {
	uint16_t status;
	uint16_t qid;
	struct nvme_sqe sqe;
	uint32_t len; /* of its data: zeroes, but for: */
	uint8_t byte;
	int store_error;
	void (*sent_as)(struct nvme_sqe *s);
	uint16_t elsewhere; /* the status where there are no lists of descriptors; 0: the same */
};

static uint16_t expected(const struct row *row)
{
	uint16_t status = row->status;

	if (row->elsewhere && kind != &rdma_transport)
		status = row->elsewhere;
	switch (status) {
	case NVME_SC_SUCCESS:
	case NVME_SC_INTERNAL:
	case NVME_SC_NS_NOT_READY:
	case NVME_SC_FUSED_FAIL:
	case NVME_SC_FUSED_MISSING:
		return status;
	}
	return status | NVME_STATUS_DNR; /* another time it would be the same */
}

/* Each gets its status, and the connection goes on. */
static void run(const struct row *rows, unsigned int count)
{
	bring_up();
	for (unsigned int i = 0; i < count; i++) {
		struct host_request req = {
			.sqe = rows[i].sqe, .data = mem.out, .data_len = rows[i].len};
		uint16_t got;

		memset(mem.out, rows[i].byte, rows[i].len);
		if (rows[i].len)
			req.dir = nvmf_dir_of(&req.sqe);
		bed.slow.error = rows[i].store_error;
		sent_as = rows[i].sent_as;
		got = exec(&req, rows[i].qid);
		sent_as = NULL;
		got |= req.cqe.status & NVME_STATUS_DNR;
		if (got != expected(&rows[i])) {
			print_error("row %u, opcode %#x: status %#x, not %#x\n", i,
				    rows[i].sqe.opcode, got, expected(&rows[i]));
			fail();
		}
		assert_int_equal(bed.slow.error, 0); /* it came to the store, if it was to */
		assert_int_equal(bed.host.state, HOST_LIVE);
	}
}

#define IO(op, ns, lba, blocks)                                                   \
	1,                                                                        \
	{                                                                         \
		.opcode = (op), .nsid = (ns), .cdw10 = (lba), .cdw12 = (blocks)-1 \
	}
/* Dwords 10 and 11. */
#define ADMIN(op, ns, dw10, dw11)                                              \
	0,                                                                     \
	{                                                                      \
		.opcode = (op), .nsid = (ns), .cdw10 = (dw10), .cdw11 = (dw11) \
	}
#define FABRICS(queue, type, dw10, dw11)                                                 \
	(queue),                                                                         \
	{                                                                                \
		.opcode = NVME_FABRICS, .nsid = (type), .cdw10 = (dw10), .cdw11 = (dw11) \
	}
#define FUSED(op, which, lba, blocks)                                                      \
	1,                                                                                 \
	{                                                                                  \
		.opcode = (op), .flags = NVME_SQE_FUSE_##which, .nsid = 1, .cdw10 = (lba), \
		.cdw12 = (blocks)-1                                                        \
	}
#define NO_SUCH_OPCODE	0x7c
#define LOG(lid, bytes) ((lid) | ((bytes) / 4 - 1) << 16)

static void io_commands_have_their_status(void **state)
{
	static const struct row rows[] = {
		{NVME_SC_SUCCESS, IO(NVME_IO_WRITE, 1, 0, 8), 4096, 1},
		{NVME_SC_SUCCESS, IO(NVME_IO_READ, 1, 0, 8), 4096},
		{NVME_SC_SUCCESS, IO(NVME_IO_COMPARE, 1, 0, 8), 4096, 1},
		{NVME_SC_COMPARE_FAILED, IO(NVME_IO_COMPARE, 1, 0, 8), 4096, 2},
		{NVME_SC_SUCCESS, IO(NVME_IO_VERIFY, 1, 0, BLOCKS)},
		{NVME_SC_SUCCESS, IO(NVME_IO_WRITE_ZEROES, 1, 0, 8)},
		{NVME_SC_SUCCESS, IO(NVME_IO_FLUSH, 1, 0, 1)},
		/* Of one block, and of one range of no blocks. */
		{NVME_SC_SUCCESS, IO(NVME_IO_COPY, 1, 100, 1), NVME_COPY_RANGE_LEN},
		{NVME_SC_SUCCESS,
		 1,
		 {.opcode = NVME_IO_DSM, .nsid = 1, .cdw11 = NVME_DSM_AD},
		 NVME_DSM_RANGE_LEN},
		{NVME_SC_SUCCESS, IO(NVME_IO_WRITE_UNCORRECTABLE, 1, 200, 1)},
		{NVME_SC_READ_ERROR, IO(NVME_IO_READ, 1, 200, 1), 512},
		{NVME_SC_READ_ERROR, IO(NVME_IO_VERIFY, 1, 0, BLOCKS)},
		{NVME_SC_SUCCESS, IO(NVME_IO_WRITE, 1, 200, 1), 512},
		{NVME_SC_SUCCESS, IO(NVME_IO_READ, 1, 200, 1), 512},

		{NVME_SC_INVALID_OPCODE, 1, {.opcode = NO_SUCH_OPCODE, .nsid = 1}},
		{NVME_SC_INVALID_NS, IO(NVME_IO_READ, 3, 0, 1), 512},
		{NVME_SC_INVALID_NS, 1, {.opcode = NVME_IO_FLUSH, .nsid = NVME_NSID_ALL}},
		{NVME_SC_LBA_RANGE, IO(NVME_IO_READ, 1, BLOCKS - 1, 2), 1024},
		{NVME_SC_LBA_RANGE, IO(NVME_IO_WRITE, 1, BLOCKS, 8), 4096},
		{NVME_SC_LBA_RANGE,
		 1,
		 {.opcode = NVME_IO_WRITE, .nsid = 1, .cdw11 = 1u << 30, .cdw12 = 127},
		 65536},
		{NVME_SC_LBA_RANGE, IO(NVME_IO_VERIFY, 1, 1, BLOCKS)},
		{NVME_SC_LBA_RANGE, IO(NVME_IO_COMPARE, 1, BLOCKS, 1), 512},
		{NVME_SC_LBA_RANGE, IO(NVME_IO_WRITE_ZEROES, 1, BLOCKS, 1)},
		{NVME_SC_LBA_RANGE, IO(NVME_IO_WRITE_UNCORRECTABLE, 1, BLOCKS, 1)},
		{NVME_SC_LBA_RANGE, IO(NVME_IO_COPY, 1, BLOCKS, 1), NVME_COPY_RANGE_LEN},
		{NVME_SC_LBA_RANGE, IO(NVME_IO_DSM, 1, 0, 1), NVME_DSM_RANGE_LEN, 0xff},
		{NVME_SC_NS_WRITE_PROTECTED, IO(NVME_IO_WRITE, 2, 0, 1), 512},
		{NVME_SC_NS_WRITE_PROTECTED, IO(NVME_IO_WRITE, 2, 0, 128), 65536},
		{NVME_SC_NS_WRITE_PROTECTED, IO(NVME_IO_WRITE_ZEROES, 2, 0, 1)},
		{NVME_SC_NS_WRITE_PROTECTED, IO(NVME_IO_WRITE_UNCORRECTABLE, 2, 0, 1)},
		{NVME_SC_NS_WRITE_PROTECTED, IO(NVME_IO_COPY, 2, 0, 1), NVME_COPY_RANGE_LEN},
		{NVME_SC_NS_WRITE_PROTECTED,
		 1,
		 {.opcode = NVME_IO_DSM, .nsid = 2, .cdw11 = NVME_DSM_AD},
		 NVME_DSM_RANGE_LEN},
		{NVME_SC_IO_CMD_SIZE, IO(NVME_IO_COPY, 1, 0, TARGET_COPY_RANGES + 1),
		 (TARGET_COPY_RANGES + 1) * NVME_COPY_RANGE_LEN},
		{NVME_SC_INVALID_FIELD, IO(NVME_IO_COPY, 1, 0, (1 << 8) + 1), NVME_COPY_RANGE_LEN},
	};

	(void)state;
	run(rows, ARRAY_SIZE(rows));
}

/* What a store says of a command is its command's status. */
static void a_store_s_errors_have_their_status(void **state)
{
	static const struct row rows[] = {
		{NVME_SC_READ_ERROR, IO(NVME_IO_READ, 1, 0, 8), 4096, .store_error = -EIO},
		{NVME_SC_READ_ERROR, IO(NVME_IO_COMPARE, 1, 0, 8), 4096, .store_error = -EIO},
		{NVME_SC_READ_ERROR, IO(NVME_IO_VERIFY, 1, 0, 8), .store_error = -EIO},
		{NVME_SC_READ_ERROR, IO(NVME_IO_COPY, 1, 0, 1), NVME_COPY_RANGE_LEN,
		 .store_error = -EIO},
		{NVME_SC_WRITE_FAULT, IO(NVME_IO_WRITE, 1, 0, 8), 4096, .store_error = -EIO},
		{NVME_SC_WRITE_FAULT, IO(NVME_IO_WRITE, 1, 0, 128), 65536, .store_error = -EIO},
		{NVME_SC_WRITE_FAULT, IO(NVME_IO_WRITE_ZEROES, 1, 0, 8), .store_error = -EIO},
		{NVME_SC_CAP_EXCEEDED, IO(NVME_IO_WRITE, 1, 0, 128), 65536, .store_error = -ENOSPC},
		{NVME_SC_NS_WRITE_PROTECTED, IO(NVME_IO_WRITE, 1, 0, 8), 4096,
		 .store_error = -EROFS},
		{NVME_SC_INVALID_OPCODE, IO(NVME_IO_WRITE_ZEROES, 1, 0, 8),
		 .store_error = -EOPNOTSUPP},
		/* For now; these may be sent again. */
		{NVME_SC_NS_NOT_READY, IO(NVME_IO_READ, 1, 0, 8), 4096, .store_error = -ENOTCONN},
		{NVME_SC_NS_NOT_READY, IO(NVME_IO_WRITE, 1, 0, 8), 4096, .store_error = -ENOTCONN},
		{NVME_SC_INTERNAL, IO(NVME_IO_READ, 1, 0, 8), 4096, .store_error = -ENOMEM},
		{NVME_SC_INTERNAL, IO(NVME_IO_WRITE, 1, 0, 8), 4096, .store_error = -EAGAIN},
		{NVME_SC_SUCCESS, IO(NVME_IO_READ, 1, 0, 8), 4096},
	};

	(void)state;
	run(rows, ARRAY_SIZE(rows));
}

static void admin_commands_have_their_status(void **state)
{
	static const uint32_t save = 1u << 31;
	static const struct row rows[] = {
		{NVME_SC_SUCCESS, ADMIN(NVME_ADMIN_IDENTIFY, 0, NVME_CNS_CTRL, 0),
		 NVME_IDENTIFY_LEN},
		{NVME_SC_INVALID_NS,
		 ADMIN(NVME_ADMIN_IDENTIFY, NVME_NSID_ALL - 1, NVME_CNS_NS_DESC_LIST, 0),
		 NVME_IDENTIFY_LEN},
		{NVME_SC_INVALID_FIELD, ADMIN(NVME_ADMIN_IDENTIFY, 0, 0xee, 0), NVME_IDENTIFY_LEN},
		{NVME_SC_SUCCESS, ADMIN(NVME_ADMIN_GET_LOG_PAGE, 0, LOG(NVME_LID_SMART, 512u), 0),
		 512},
		{NVME_SC_INVALID_LOG_PAGE, ADMIN(NVME_ADMIN_GET_LOG_PAGE, 0, LOG(0xfe, 512u), 0),
		 512},
		{NVME_SC_SUCCESS, ADMIN(NVME_ADMIN_KEEP_ALIVE, 0, 0, 0)},
		/* There is no such command: that is not wrong. */
		{NVME_SC_SUCCESS, ADMIN(NVME_ADMIN_ABORT, 0, 0xffff0001, 0)},

		{NVME_SC_SUCCESS, ADMIN(NVME_ADMIN_GET_FEATURES, 0, NVME_FID_ARBITRATION, 0)},
		{NVME_SC_SUCCESS, ADMIN(NVME_ADMIN_GET_FEATURES, 0, NVME_FID_HOST_ID, 1), 16},
		{NVME_SC_INVALID_FIELD, ADMIN(NVME_ADMIN_GET_FEATURES, 0, 0xc0, 0)},
		{NVME_SC_INVALID_NS, ADMIN(NVME_ADMIN_GET_FEATURES, 3, NVME_FID_WRITE_PROTECT, 0)},
		{NVME_SC_SUCCESS, ADMIN(NVME_ADMIN_SET_FEATURES, 0, NVME_FID_ARBITRATION, 7)},
		{NVME_SC_SUCCESS, ADMIN(NVME_ADMIN_SET_FEATURES, 0, NVME_FID_HOST_BEHAVIOR, 0),
		 NVME_HOST_BEHAVIOR_LEN},
		{NVME_SC_INVALID_FIELD,
		 ADMIN(NVME_ADMIN_SET_FEATURES, 0, NVME_FID_HOST_BEHAVIOR, 0),
		 NVME_HOST_BEHAVIOR_LEN, 2},
		{NVME_SC_INVALID_FIELD, ADMIN(NVME_ADMIN_SET_FEATURES, 0, NVME_FID_POWER_MGMT, 1)},
		{NVME_SC_FEATURE_NOT_SAVEABLE,
		 ADMIN(NVME_ADMIN_SET_FEATURES, 0, save | NVME_FID_ARBITRATION, 0)},
		{NVME_SC_FEATURE_NOT_PER_NS,
		 ADMIN(NVME_ADMIN_SET_FEATURES, 1, NVME_FID_ARBITRATION, 0)},
		{NVME_SC_FEATURE_NOT_CHANGEABLE,
		 ADMIN(NVME_ADMIN_SET_FEATURES, 2, NVME_FID_WRITE_PROTECT, 0)},
		{NVME_SC_IOCS_COMBINATION_REJECTED,
		 ADMIN(NVME_ADMIN_SET_FEATURES, 0, NVME_FID_IOCS_PROFILE, 1)},
		{NVME_SC_KAT_INVALID,
		 ADMIN(NVME_ADMIN_SET_FEATURES, 0, NVME_FID_KEEP_ALIVE, UINT32_MAX)},
		{NVME_SC_CMD_SEQ_ERROR, ADMIN(NVME_ADMIN_SET_FEATURES, 0, NVME_FID_NUM_QUEUES, 0)},

		{NVME_SC_INVALID_OPCODE, 0, {.opcode = NO_SUCH_OPCODE}},
	};

	(void)state;
	run(rows, ARRAY_SIZE(rows));
}

static void fabrics_commands_have_their_status(void **state)
{
	static const struct row rows[] = {
		{NVME_SC_SUCCESS, FABRICS(0, NVMF_PROPERTY_GET, 0, NVME_PROP_CSTS)},
		{NVME_SC_INVALID_FIELD, FABRICS(0, NVMF_PROPERTY_GET, 0, 0x1000)},
		{NVME_SC_INVALID_OPCODE, FABRICS(1, NVMF_PROPERTY_GET, 0, NVME_PROP_CSTS)},
		{NVME_SC_INVALID_FIELD, FABRICS(0, NVMF_PROPERTY_SET, 0, NVME_PROP_VS)},
		{NVME_SC_INVALID_OPCODE, FABRICS(1, NVMF_PROPERTY_SET, 0, NVME_PROP_CC)},
		/* A second one, on either queue. */
		{NVME_SC_CMD_SEQ_ERROR, FABRICS(0, NVMF_CONNECT, 0, 0), NVMF_CONNECT_DATA_LEN},
		{NVME_SC_CMD_SEQ_ERROR, FABRICS(1, NVMF_CONNECT, 1 << 16, 0),
		 NVMF_CONNECT_DATA_LEN},
		/* Of no protocol that there is. */
		{NVME_SC_INVALID_FIELD, FABRICS(0, NVMF_AUTH_SEND, 0, 512), 512},
		{NVME_SC_INVALID_FIELD, FABRICS(0, NVMF_AUTH_RECV, 0, 512), 512},
		{NVME_SC_DISCONNECT_INVALID_QTYPE, FABRICS(0, NVMF_DISCONNECT, 0, 0)},
		{NVME_SC_CONNECT_FORMAT, FABRICS(1, NVMF_DISCONNECT, 1, 0)},
		{NVME_SC_INVALID_OPCODE, 0, {.opcode = NVME_FABRICS, .nsid = NO_SUCH_OPCODE}},
	};

	(void)state;
	run(rows, ARRAY_SIZE(rows));
}

static void a_fused_half_has_its_status(void **state)
{
	static const struct row rows[] = {
		{NVME_SC_AWU_EXCEEDED, FUSED(NVME_IO_COMPARE, FIRST, 0, 2), 1024},
		{NVME_SC_FUSED_FAIL, FUSED(NVME_IO_WRITE, SECOND, 0, 2), 1024},
		{NVME_SC_FUSED_MISSING, FUSED(NVME_IO_WRITE, SECOND, 0, 1), 512},
		{NVME_SC_INVALID_FIELD, FUSED(NVME_IO_READ, FIRST, 0, 1), 512},
		{NVME_SC_SUCCESS, IO(NVME_IO_READ, 1, 0, 1), 512},
	};

	(void)state;
	run(rows, ARRAY_SIZE(rows));
}

/* --- SGLs that make no sense --------------------------------------------------------------------
 */

static void as_prps(struct nvme_sqe *s)
{
	s->flags &= (uint8_t)~NVME_SQE_PSDT_MASK;
}

static void behind_the_capsule(struct nvme_sqe *s)
{
	s->sgl.addr = 1;
}

static void in_the_capsule(struct nvme_sqe *s)
{
	s->sgl = (struct nvme_sgl){
		.len = 512, .type = NVME_SGL_DATA_BLOCK, .subtype = NVME_SGL_OFFSET};
}

static void of_no_type(struct nvme_sqe *s)
{
	s->sgl.type = 0xf;
}

static void as_list(struct nvme_sqe *s, uint32_t len)
{
	s->sgl = (struct nvme_sgl){
		.len = len, .type = NVME_SGL_LAST_SEGMENT, .subtype = NVME_SGL_OFFSET};
}

static void half_a_descriptor(struct nvme_sqe *s)
{
	as_list(s, NVME_SGL_LEN / 2);
}

static void too_many_descriptors(struct nvme_sqe *s)
{
	as_list(s, (TARGET_SGL_MAX + 1) * NVME_SGL_LEN);
}

/* Of zeroes, which are data blocks by address. */
static void descriptors_of_no_use(struct nvme_sqe *s)
{
	as_list(s, 2 * NVME_SGL_LEN);
}

static void sgls_that_make_no_sense_have_their_status(void **state)
{
	static const struct row rows[] = {
		{NVME_SC_INVALID_FIELD, IO(NVME_IO_READ, 1, 0, 1), 512, .sent_as = as_prps},
		{NVME_SC_INVALID_FIELD, IO(NVME_IO_READ, 1, 0, 1), 512, .sent_as = in_the_capsule},
		/* The data are of another length than the command says. */
		{NVME_SC_SGL_INVALID_DATA, IO(NVME_IO_READ, 1, 0, 8), 2048},
		{NVME_SC_SGL_INVALID_DATA, IO(NVME_IO_WRITE, 1, 0, 8), 2048},
		{NVME_SC_SGL_INVALID_DATA, ADMIN(NVME_ADMIN_IDENTIFY, 0, NVME_CNS_CTRL, 0), 512},
		{NVME_SC_SGL_INVALID_OFFSET, IO(NVME_IO_WRITE, 1, 0, 1), 512,
		 .sent_as = behind_the_capsule},
		{NVME_SC_SGL_INVALID_TYPE, IO(NVME_IO_READ, 1, 0, 1), 512, .sent_as = of_no_type},
		{NVME_SC_SGL_INVALID_TYPE, IO(NVME_IO_WRITE, 1, 0, 1), 512, .sent_as = of_no_type},
		{NVME_SC_SGL_INVALID_TYPE, IO(NVME_IO_WRITE, 1, 0, 1), 512,
		 .sent_as = descriptors_of_no_use},
		{NVME_SC_SGL_INVALID_LAST, IO(NVME_IO_WRITE, 1, 0, 1), 512,
		 .sent_as = half_a_descriptor, .elsewhere = NVME_SC_SGL_INVALID_TYPE},
		{NVME_SC_SGL_INVALID_COUNT, IO(NVME_IO_WRITE, 1, 0, 1), 512,
		 .sent_as = too_many_descriptors, .elsewhere = NVME_SC_SGL_INVALID_TYPE},
		{NVME_SC_SUCCESS, IO(NVME_IO_WRITE, 1, 0, 1), 512},
		{NVME_SC_SUCCESS, IO(NVME_IO_READ, 1, 0, 1), 512},
	};

	(void)state;
	run(rows, ARRAY_SIZE(rows));
}

/* --- what others bring about --------------------------------------------------------------------
 */

enum { WRITES = 12 };
static struct host_request writes[WRITES];

static struct target_ctrl *ctrl_there(void)
{
	assert_true(list_is_single(&bed.subsys.ctrls));
	return list_entry(bed.subsys.ctrls.next, struct target_ctrl, link);
}

/* So many that only the first ones find memory; they are in the store, which holds them. */
static void begin_writes(unsigned int *answered)
{
	const unsigned int before = bed.slow.count;

	bed.slow.hold = true;
	bed.shares.budget[SHARE_FOR_IO].len = 512 << 10;
	for (unsigned int i = 0; i < WRITES; i++) {
		writes[i] = (struct host_request){0};
		host_prepare_write(&writes[i], 1, i * 128, 128, mem.many[i], 65536, false);
		submit(&writes[i], 1, answered);
	}
	turn_until(bed.slow.count > before && ctrl_there()->queues[1]->live == before + WRITES);
}

static uint16_t status_of(const struct host_request *req)
{
	return req->error ? 0xffff : req->cqe.status & NVME_STATUS_CODE;
}

/* Whether it was done at once. */
static bool abort_it(uint16_t qid, const struct host_request *victim)
{
	struct host_request req = {.sqe = {.opcode = NVME_ADMIN_ABORT}};

	req.sqe.cdw10 = qid | (uint32_t)victim->sqe.cid << 16;
	assert_int_equal(exec(&req, 0), NVME_SC_SUCCESS);
	return !(req.cqe.result & 1);
}

/* One that waits for memory ends at once; one that reads when the store is done; and one that
 * writes is written. */
static void what_is_aborted_says_so(void **state)
{
	struct host_request *last = &writes[WRITES - 1], read = {0};
	unsigned int answered = 0, count = 0;

	(void)state;
	bring_up();
	begin_writes(&answered);
	assert_true(abort_it(1, last));
	turn_until(answered == 1);
	assert_int_equal(status_of(last), NVME_SC_ABORT_REQ);
	assert_false(abort_it(1, &writes[0]));
	let_store_work();
	turn_until(answered == WRITES);
	for (unsigned int i = 0; i < WRITES - 1; i++)
		assert_int_equal(status_of(&writes[i]), NVME_SC_SUCCESS);
	bed.slow.hold = true;
	host_prepare_read(&read, 1, 0, 128, mem.in, 65536);
	submit(&read, 1, &count);
	turn_until(bed.slow.count);
	assert_false(abort_it(1, &read));
	let_store_work();
	turn_until(count);
	assert_int_equal(status_of(&read), NVME_SC_ABORT_REQ);
	assert_int_equal(bed.host.state, HOST_LIVE);
}

/* The host has one out already. */
static void event_requests_have_a_limit_and_can_be_aborted(void **state)
{
	struct host_request reqs[TARGET_AER_MAX];
	unsigned int answered = 0;

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < TARGET_AER_MAX; i++) {
		reqs[i] = (struct host_request){.sqe = {.opcode = NVME_ADMIN_ASYNC_EVENT}};
		submit(&reqs[i], 0, &answered);
	}
	turn_until(answered == 1);
	assert_int_equal(status_of(&reqs[TARGET_AER_MAX - 1]), NVME_SC_ASYNC_LIMIT);
	assert_true(abort_it(0, &reqs[0]));
	turn_until(answered == 2);
	assert_int_equal(status_of(&reqs[0]), NVME_SC_ABORT_REQ);
	assert_int_equal(bed.host.state, HOST_LIVE);
}

/* What waits on its queue ends, and so does what reads; what the store has begun to write is
 * written. It is answered after all of these. */
static void disconnect_ends_a_queue(void **state)
{
	struct host_request req = {.sqe = {.opcode = NVME_FABRICS, .nsid = NVMF_DISCONNECT}};
	struct host_request read = {0};
	unsigned int answered = 0, parted = 0, written = 0;

	(void)state;
	bring_up();
	bed.slow.hold = true;
	host_prepare_read(&read, 1, 0, 8, mem.in, 4096);
	submit(&read, 1, &answered);
	turn_until(bed.slow.count == 1);
	begin_writes(&answered);
	submit(&req, 1, &parted);
	turn_until(answered + bed.slow.count == 1 + WRITES);
	assert_in_range(answered, 1, WRITES - 1);
	assert_int_equal(parted, 0);
	let_store_work();
	turn_until(answered == 1 + WRITES && parted);
	assert_int_equal(status_of(&read), NVME_SC_ABORT_QUEUE);
	for (unsigned int i = 0; i < WRITES; i++)
		if (status_of(&writes[i]) != NVME_SC_ABORT_QUEUE) {
			assert_int_equal(status_of(&writes[i]), NVME_SC_SUCCESS);
			written++;
		}
	assert_in_range(written, 1, WRITES - 1);
	assert_int_equal(status_of(&req), NVME_SC_SUCCESS);
	assert_null(ctrl_there()->queues[1]);
}

/* --- digests of data: where NVMe/TCP has them ----------------------------------------------------
 */

static size_t damaged; /* the next digest of so many bytes is another; 0: none */

uint32_t __real_crc32c_more(uint32_t state, const void *p, size_t len);
uint32_t __wrap_crc32c_more(uint32_t state, const void *p, size_t len);

uint32_t __wrap_crc32c_more(uint32_t state, const void *p, size_t len)
{
	uint32_t digest = __real_crc32c_more(state, p, len);

	if (len && len == damaged) {
		damaged = 0;
		return digest ^ 1;
	}
	return digest;
}

static void damaged_data_are_told_of(void **state)
{
	static const uint32_t lens[] = {4096, 65536}; /* in the capsule, and asked for */

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(lens); i++) {
		damaged = lens[i];
		assert_int_equal(do_write(0, mem.out, lens[i]), NVME_SC_TRANSIENT_TRANSPORT);
		damaged = lens[i]; /* the host's own status then */
		assert_int_equal(do_read(0, mem.in, lens[i]), NVME_SC_TRANSIENT_TRANSPORT);
		assert_int_equal(do_read(0, mem.in, lens[i]), NVME_SC_SUCCESS);
	}
	assert_int_equal(bed.host.state, HOST_LIVE);
}

/* --- hosts that do not come up -------------------------------------------------------------------
 */

static void with_another_host_on_the_list(void)
{
	static const char *const hosts[] = {"nqn.2026-11.io.example:another"};

	bed.subsys.hosts = hosts;
	bed.subsys.host_count = 1;
}

static void with_no_controller_left(void)
{
	bed.target.ctrl_count += TARGET_CTRLS_MAX;
}

static void in_another_format(struct nvme_sqe *s)
{
	struct nvmf_connect c;

	nvmf_connect_from_sqe(&c, s);
	c.recfmt = 1;
	nvmf_connect_to_sqe(&c, s);
}

static void with_a_queue_of_one_entry(struct nvme_sqe *s)
{
	struct nvmf_connect c;

	nvmf_connect_from_sqe(&c, s);
	c.sqsize = 0;
	nvmf_connect_to_sqe(&c, s);
}

static void as_another(struct nvme_sqe *s, uint8_t fctype)
{
	if (nvmf_fctype(s) == fctype)
		s->nsid = NVMF_PROPERTY_SET;
}

static void without_connect(struct nvme_sqe *s)
{
	as_another(s, NVMF_CONNECT);
}

static void without_proof(struct nvme_sqe *s)
{
	as_another(s, NVMF_AUTH_SEND);
}

static void who_is_not_let_in_has_a_status(void **state)
{
	static const struct {
		uint16_t status;
		void (*before)(void);
		void (*sent_as)(struct nvme_sqe *s);
		uint64_t result;
	} cases[] = {
		{NVME_SC_CONNECT_INVALID_HOST, .before = with_another_host_on_the_list},
		{NVME_SC_CONNECT_CTRL_BUSY, .before = with_no_controller_left},
		{NVME_SC_CONNECT_FORMAT, .sent_as = in_another_format},
		{NVME_SC_CONNECT_INVALID_PARAM, .sent_as = with_a_queue_of_one_entry,
		 .result = NVMF_CONNECT_SQE_SQSIZE},
		{NVME_SC_CMD_SEQ_ERROR, .sent_as = without_connect},
		{NVME_SC_AUTH_REQUIRED, .before = with_keys, .sent_as = without_proof},
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		if (i) {
			transport_tear_down(state);
			assert_int_equal(transport_set_up(state), 0);
		}
		if (cases[i].before)
			cases[i].before();
		sent_as = cases[i].sent_as;
		begin();
		turn_until(bed.host.state == HOST_FAILED);
		sent_as = NULL;
		bed.target.ctrl_count %= TARGET_CTRLS_MAX;
		assert_int_equal(bed.host.failure.kind, HOST_FAIL_STATUS);
		assert_int_equal(bed.host.failure.status & NVME_STATUS_CODE, cases[i].status);
		assert_int_equal(bed.host.failure.result, cases[i].result);
	}
}

static uint16_t exec_auth(uint8_t fctype)
{
	const struct nvmf_auth_cmd cmd = {.spsp0 = NVMF_AUTH_SPSP,
					  .spsp1 = NVMF_AUTH_SPSP,
					  .secp = NVMF_AUTH_SECP,
					  .len = 512};
	struct host_request req = {.data = mem.out, .data_len = cmd.len};

	nvmf_auth_cmd_to_sqe(&cmd, fctype, &req.sqe);
	req.dir = nvmf_dir_of(&req.sqe);
	return exec(&req, 0);
}

/* It is told so once, and then its connection has a moment left: here it stands still. */
static void who_fails_to_prove_himself_can_do_no_more(void **state)
{
	struct host_request req = {.sqe = {.opcode = NVME_ADMIN_KEEP_ALIVE}};

	(void)state;
	with_keys();
	bring_up();
	bed.stopped_ns = time_now_ns();
	assert_int_equal(exec_auth(NVMF_AUTH_RECV), NVME_SC_SUCCESS); /* out of its order */
	assert_int_equal(exec_auth(NVMF_AUTH_SEND), NVME_SC_OP_DENIED);
	assert_int_equal(exec_auth(NVMF_AUTH_RECV), NVME_SC_OP_DENIED);
	assert_int_equal(exec(&req, 0), NVME_SC_AUTH_REQUIRED);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(io_commands_have_their_status),
		BED_TEST(a_store_s_errors_have_their_status),
		BED_TEST(admin_commands_have_their_status),
		BED_TEST(fabrics_commands_have_their_status),
		BED_TEST(a_fused_half_has_its_status),
		BED_TEST(sgls_that_make_no_sense_have_their_status),
		BED_TEST(what_is_aborted_says_so),
		BED_TEST(event_requests_have_a_limit_and_can_be_aborted),
		BED_TEST(disconnect_ends_a_queue),
		BED_TEST(who_is_not_let_in_has_a_status),
		BED_TEST(who_fails_to_prove_himself_can_do_no_more),
	};
	const struct CMUnitTest of_digests[] = {BED_TEST(damaged_data_are_told_of)};

	if (transport_choose(argc, argv))
		return 2;
	if (digests && cmocka_run_group_tests(of_digests, NULL, NULL))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
