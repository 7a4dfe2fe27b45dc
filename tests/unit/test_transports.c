/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a command does whatever it travels by: our host and our target, both in this process, over
 * each transport by the same cases.
 * Argument: loop, rdma, tcp, tcp-digests, tcp-tls, tcp-tls-digests, or tcp-concat: this by TLS and
 * a key that comes of authentication, in the cases that have to do with that.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "heap_env.h"
#include "host_requests.h"
#include "netns.h"
#include "nvmf/host/discovery.h"
#include "nvmf/loop/loop.h"
#include "nvmf/rdma/rdma.h"
#include "nvmf/tcp/tcp.h"
#include "plain_host.h"
#include "store/store.h"
#include "turn_until.h"

#define NQN	 "nqn.2026-11.io.example:disk"
#define HOSTNQN	 "nqn.2026-11.io.example:host" /* plain_host()'s */
#define PATIENCE (10 * NSEC_PER_SEC)

enum { IO_QUEUES = 2, IO_ENTRIES = 16, BLOCKS = 8192, DATA_MAX = 1 << 20 };

static const struct nvmf_transport *kind;
static bool digests, tls, concat;

struct slow_store { /* keeps operations until told */
	struct store store;
	struct store *below;
	bool hold;
	int error; /* of the next operation */
	struct store_op *held[64];
	unsigned int count;
};

static struct bed {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns, ro;
	struct slow_store slow;
	struct store *ro_store;
	struct shares shares;
	struct transport_target *there;
	struct transport_host *here;
	struct host host;
	struct host_config config;
	struct host_queue queues[1 + IO_QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + IO_QUEUES * IO_ENTRIES];
	unsigned int events;
} bed;

/* What the transport is to know: requests' data, and the host's own. */
static struct memory {
	uint8_t scratch[HOST_SCRATCH_LEN];
	uint8_t out[DATA_MAX], in[DATA_MAX];
	uint8_t many[2 * IO_ENTRIES][64 << 10];
} mem __attribute__((aligned(4096)));

/* --- the store ----------------------------------------------------------------------------------
 */

static void slow_submit(struct store *s, struct store_op *op)
{
	struct slow_store *slow = container_of(s, struct slow_store, store);
	int error = slow->error;

	slow->error = 0;
	if (error)
		op->done(op, error);
	else if (slow->hold)
		slow->held[slow->count++] = op;
	else
		store_submit(slow->below, op);
}

static const struct store_ops slow_ops = {.name = "slow", .submit = slow_submit};

static void let_store_work(void)
{
	bed.slow.hold = false;
	while (bed.slow.count)
		store_submit(bed.slow.below, bed.slow.held[--bed.slow.count]);
}

/* --- turns --------------------------------------------------------------------------------------
 */

static void turn(void)
{
	struct pollfd fds[TRANSPORT_HOST_FDS];
	unsigned int n = bed.here->ops->pollfds(bed.here, fds);
	uint64_t now = time_now_ns();

	if (now >= target_next_deadline(&bed.target))
		target_tick(&bed.target, now);
	bed.there->ops->process(bed.there, now, true);
	for (unsigned int i = 0; i < n; i++)
		fds[i].revents = POLLIN; /* it looks for itself */
	bed.here->ops->polled(bed.here, fds, n);
	bed.here->ops->process(bed.here, now, true);
	if (bed.host.state != HOST_IDLE && now >= host_next_deadline(&bed.host))
		host_tick(&bed.host, now);
}

static void on_event(void *arg, uint32_t result)
{
	(void)arg;
	(void)result;
	bed.events++;
}

/* Of one host, for one subsystem as for another. */
static struct auth_key tls_key = {.hash = NVMF_AUTH_SHA384, .len = 48, .key = "secret"};

static bool find_tls_key(void *ctx, const char *hostnqn, struct auth_key *ret)
{
	(void)ctx;
	*ret = tls_key;
	return strcmp(hostnqn, HOSTNQN) == 0;
}

static void create_host(const char *subnqn)
{
	const struct auth_psk_way way = {.version = 1};
	struct transport_host_config where = {.host = "127.0.0.1",
					      .port = "4420",
					      .io_queues = IO_QUEUES,
					      .io_entries = IO_ENTRIES,
					      .resolve_timeout_ms = 2000,
					      .bounce_bytes = 1 << 20,
					      .header_digest = digests,
					      .data_digest = digests};
	struct auth_psk psk;
	char why[256] = "";

	if (tls) {
		assert_true(auth_psk_derive(&tls_key, way, HOSTNQN, subnqn, &psk));
		where.tls = &psk;
	}
	bed.here = kind->host_create(&where, why, sizeof(why));
	assert_non_null(bed.here);
	bed.here->ops->attach(bed.here, &bed.host);
	assert_int_equal(bed.here->ops->add_memory(bed.here, &mem, sizeof(mem)), 0);
}

#define KEY	  "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"
#define OTHER_KEY "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:"

static struct target_host known;

static void random_bytes(void *ctx, void *p, size_t len)
{
	(void)ctx;
	assert_int_equal(getrandom(p, len, 0), len);
}

static struct auth_key key_of(const char *text)
{
	struct auth_key k;
	const char *why;

	assert_int_equal(auth_key_parse(text, &k, &why), 0);
	return k;
}

/* Both sides have both keys. */
static void with_keys(void)
{
	if (bed.config.key.len)
		return;
	known = (struct target_host){
		.nqn = HOSTNQN, .key = key_of(KEY), .ctrl_key = key_of(OTHER_KEY)};
	bed.target.env.random = bed.config.random = random_bytes;
	bed.config.key = known.key;
	bed.config.ctrl_key = known.ctrl_key;
	assert_int_equal(target_host_add(&bed.target, &known), 0);
}

static void secure(enum target_tls how)
{
	target_port_secure(&bed.target, list_entry(bed.target.ports.prev, struct target_port, link),
			   how);
}

static int set_up(void **state)
{
	char why[256] = "";

	(void)state;
	memset(&bed, 0, sizeof(bed));
	target_init(&bed.target, &heap_env, time_now_ns());
	strcpy(bed.subsys.nqn, NQN);
	assert_int_equal(target_subsys_add(&bed.target, &bed.subsys), 0);
	assert_int_equal(store_mem_create(BLOCKS * 512, 512, 0, &bed.slow.below), 0);
	bed.slow.store = *bed.slow.below;
	bed.slow.store.ops = &slow_ops;
	bed.ns = (struct target_ns){.nsid = 1, .store = &bed.slow.store, .lba_shift = 9};
	assert_int_equal(target_ns_add(&bed.subsys, &bed.ns), 0);
	assert_int_equal(store_mem_create(1 << 20, 512, 0, &bed.ro_store), 0);
	bed.ro = (struct target_ns){
		.nsid = 2, .store = bed.ro_store, .lba_shift = 9, .read_only = true};
	assert_int_equal(target_ns_add(&bed.subsys, &bed.ro), 0);
	assert_int_equal(shares_init(&bed.shares, 8 << 20), 0);
	if (kind->target_create(&bed.target.group, &bed.shares, NULL, &bed.there, why,
				sizeof(why)) != 0 ||
	    bed.there->ops->listen(bed.there, "127.0.0.1", "4420", why, sizeof(why)) != 0) {
		print_error("%s\n", why);
		return -1;
	}
	bed.target.env.tls_key = find_tls_key;
	secure(tls ? TARGET_TLS_REQUIRED : concat ? TARGET_TLS_OFFERED : TARGET_TLS_NONE);
	create_host(NQN);
	bed.config = plain_host(NQN, IO_QUEUES, IO_ENTRIES);
	bed.config.event = on_event;
	if (concat) {
		with_keys();
		bed.config.concat = true;
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	let_store_work();
	bed.here->ops->destroy(bed.here);
	bed.there->ops->shutdown(bed.there);
	for (uint64_t end = time_now_ns() + PATIENCE;
	     !bed.there->ops->idle(bed.there) && time_now_ns() < end;)
		bed.there->ops->process(bed.there, time_now_ns(), true);
	assert_true(bed.there->ops->idle(bed.there));
	bed.there->ops->destroy(bed.there);
	assert_int_equal(bed.shares.pool.used, 0);
	shares_fini(&bed.shares);
	target_fini(&bed.target);
	store_destroy(bed.slow.below);
	store_destroy(bed.ro_store);
	return 0;
}

static void begin(void)
{
	assert_int_equal(host_init(&bed.host, &bed.config, bed.here->ops->queues, bed.here,
				   bed.queues, bed.places, mem.scratch),
			 0);
	host_start(&bed.host, time_now_ns());
}

static void bring_up(void)
{
	begin();
	turn_until(bed.host.state == HOST_LIVE || bed.host.state == HOST_FAILED);
	assert_string_equal(host_state_name(bed.host.state), "live");
}

/* --- requests -----------------------------------------------------------------------------------
 */

static void done(struct host_request *req, uint64_t now_ns)
{
	unsigned int *count = req->arg;

	(void)now_ns;
	++*count;
}

static void submit(struct host_request *req, uint16_t qid, unsigned int *count)
{
	req->done = done;
	req->arg = count;
	assert_int_equal(host_submit(&bed.host, qid, req, time_now_ns()), 0);
}

/* Its status, or 0xffff: it had no answer. */
static uint16_t exec(struct host_request *req, uint16_t qid)
{
	unsigned int count = 0;

	submit(req, qid, &count);
	turn_until(count == 1);
	return req->error ? 0xffff : req->cqe.status & NVME_STATUS_CODE;
}

static uint16_t do_write(uint64_t slba, const void *p, uint32_t len)
{
	struct host_request req = {0};

	host_prepare_write(&req, 1, slba, len / 512, p, len, false);
	return exec(&req, 1);
}

static uint16_t do_read(uint64_t slba, void *p, uint32_t len)
{
	struct host_request req = {0};

	host_prepare_read(&req, 1, slba, len / 512, p, len);
	return exec(&req, 2);
}

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 37 + i / 251 + seed * 101);
}

/* --- cases --------------------------------------------------------------------------------------
 */

static void hosts_are_told_what_there_is(void **state)
{
	(void)state;
	bring_up();
	assert_int_equal(bed.host.io_queues, IO_QUEUES);
	assert_int_equal(bed.host.capsule_max, TARGET_CAPSULE_DATA);
	assert_int_equal(bed.host.transfer_max, TARGET_DATA_MAX);
	assert_int_equal(!!(bed.host.id.sgls & NVME_SGLS_KEYED), kind == &rdma_transport);
}

static void what_is_written_is_read(void **state)
{
	static const uint32_t lens[] = {512,   1024,	     4096,	8192,	 8704,
					65536, 131072 + 512, 300 << 10, DATA_MAX};

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(lens); i++) {
		fill(mem.out, lens[i], i);
		memset(mem.in, 0xee, sizeof(mem.in));
		assert_int_equal(do_write(i * 3, mem.out, lens[i]), NVME_SC_SUCCESS);
		assert_int_equal(do_read(i * 3, mem.in, lens[i]), NVME_SC_SUCCESS);
		assert_memory_equal(mem.in, mem.out, lens[i]);
		if (lens[i] < DATA_MAX)
			assert_int_equal(mem.in[lens[i]], 0xee);
	}
}

/* On both queues, of all lengths, several times over. */
static void full_queues_of_commands_are_answered(void **state)
{
	static struct host_request reqs[2 * IO_ENTRIES];
	static const uint32_t lens[] = {512, 4096, 8192, 16384, 65536};
	unsigned int answered;

	(void)state;
	bring_up();
	for (unsigned int round = 0; round < 20; round++) {
		bool write = round % 2 == 0;

		answered = 0;
		for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
			uint32_t len = lens[(i + round / 2) % ARRAY_SIZE(lens)];

			reqs[i] = (struct host_request){0};
			if (write) {
				fill(mem.many[i], len, i + round);
				host_prepare_write(&reqs[i], 1, i * 128, len / 512, mem.many[i],
						   len, false);
			} else {
				memset(mem.many[i], 0, len);
				host_prepare_read(&reqs[i], 1, i * 128, len / 512, mem.many[i],
						  len);
			}
			submit(&reqs[i], (uint16_t)(1 + i % 2), &answered);
		}
		turn_until(answered == ARRAY_SIZE(reqs));
		for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
			assert_int_equal(reqs[i].error, 0);
			assert_int_equal(reqs[i].cqe.status, 0);
			fill(mem.out, reqs[i].data_len, i + round - !write);
			assert_memory_equal(mem.many[i], mem.out, reqs[i].data_len);
		}
	}
}

enum { PIECES = 300 };

/* A buffer as pieces of different lengths, some of none; how many. */
static unsigned int cut(uint8_t *p, size_t len, unsigned int seed, struct iovec v[PIECES])
{
	unsigned int n = 0;

	for (size_t at = 0; at < len; n++) {
		size_t piece = n == PIECES - 1 ? len - at : (n * 977 + seed * 131) % (len / 50);

		piece = min_of(n % 7 == 3 ? 0 : piece, len - at);
		v[n] = (struct iovec){p + at, piece};
		at += piece;
	}
	return n;
}

/* What the transport was not told of, in the same process. */
static uint8_t unknown_out[DATA_MAX], unknown_in[DATA_MAX];

static void try_pieces(uint8_t *out, uint8_t *in, uint32_t len, unsigned int seed)
{
	struct host_request req = {0};
	struct iovec v[PIECES];

	fill(out, len, seed);
	memset(in, 0, len);
	cut(out, len, seed, v);
	host_prepare_write(&req, 1, 0, len / 512, NULL, len, false);
	req.iov = v;
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	cut(in, len, seed + 5, v);
	host_prepare_read(&req, 1, 0, len / 512, NULL, len);
	req.iov = v;
	assert_int_equal(exec(&req, 2), NVME_SC_SUCCESS);
	assert_memory_equal(in, out, len);
}

static void data_may_lie_in_pieces(void **state)
{
	static const uint32_t lens[] = {512, 1024, 8192, 8704, 65536, DATA_MAX};

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(lens); i++) {
		try_pieces(mem.out, mem.in, lens[i], i);
		try_pieces(unknown_out, mem.in, lens[i], i + 10);
		try_pieces(mem.out, unknown_in, lens[i], i + 20);
		try_pieces(unknown_out, unknown_in, lens[i], i + 30);
	}
}

/* More of them than there is memory to copy into: they wait for one another. */
static void memory_that_nobody_made_known_will_do(void **state)
{
	static struct host_request reqs[2 * IO_ENTRIES];
	static uint8_t unknown[2 * IO_ENTRIES][64 << 10];
	unsigned int answered = 0;

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
		fill(unknown[i], sizeof(unknown[i]), i);
		host_prepare_write(&reqs[i], 1, i * 128, 128, unknown[i], sizeof(unknown[i]),
				   false);
		submit(&reqs[i], (uint16_t)(1 + i % 2), &answered);
	}
	turn_until(answered == ARRAY_SIZE(reqs));
	memset(unknown, 0, sizeof(unknown));
	for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
		assert_int_equal(reqs[i].error, 0);
		assert_int_equal(reqs[i].cqe.status, 0);
		host_prepare_read(&reqs[i], 1, i * 128, 128, unknown[i], sizeof(unknown[i]));
		submit(&reqs[i], (uint16_t)(1 + i % 2), &answered);
	}
	turn_until(answered == 2 * ARRAY_SIZE(reqs));
	for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
		fill(mem.out, sizeof(unknown[i]), i);
		assert_memory_equal(unknown[i], mem.out, sizeof(unknown[i]));
	}
}

static void memory_in_use_stays_known(void **state)
{
	struct host_request req = {0};
	unsigned int answered = 0;

	(void)state;
	bring_up();
	if (kind == &rdma_transport)
		assert_int_equal(bed.here->ops->remove_memory(bed.here, unknown_in), -ENOENT);
	assert_int_equal(bed.here->ops->add_memory(bed.here, unknown_in, sizeof(unknown_in)), 0);
	bed.slow.hold = true;
	host_prepare_read(&req, 1, 0, 128, unknown_in, 64 << 10);
	submit(&req, 1, &answered);
	turn_until(bed.slow.count);
	assert_int_equal(bed.here->ops->remove_memory(bed.here, unknown_in),
			 kind == &rdma_transport ? -EBUSY : 0);
	let_store_work();
	turn_until(answered);
	assert_int_equal(bed.here->ops->remove_memory(bed.here, unknown_in), 0);
	assert_int_equal(do_read(0, unknown_in, 64 << 10), NVME_SC_SUCCESS);
}

static void comparing_says_whether_they_are_equal(void **state)
{
	static const uint32_t lens[] = {512, 4096, 8192, 100 << 10};

	(void)state;
	bring_up();
	fill(mem.out, sizeof(mem.out), 1);
	assert_int_equal(do_write(0, mem.out, 200 << 10), NVME_SC_SUCCESS);
	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(lens); i++) {
		uint32_t len = lens[i / 2];
		struct host_request req = {.sqe = {.opcode = NVME_IO_COMPARE, .nsid = 1},
					   .data = mem.in,
					   .data_len = len,
					   .dir = NVMF_DIR_TO_CTRL};

		memcpy(mem.in, mem.out, len);
		mem.in[len - 1] ^= i & 1;
		nvme_rw_set(&req.sqe, 0, len / 512, 0);
		assert_int_equal(exec(&req, 1), i & 1 ? NVME_SC_COMPARE_FAILED : NVME_SC_SUCCESS);
	}
}

static void prepare_half(struct host_request *req, uint8_t opcode, uint8_t fuse, uint8_t *data)
{
	*req = (struct host_request){.sqe = {.opcode = opcode, .flags = fuse, .nsid = 1},
				     .data = data,
				     .data_len = 512,
				     .dir = NVMF_DIR_TO_CTRL};
	nvme_rw_set(&req->sqe, 5, 1, 0);
}

static void comparing_and_writing_are_one(void **state)
{
	struct host_request compare, write;
	unsigned int answered;

	(void)state;
	bring_up();
	memset(mem.out, 0x11, 512);
	memset(mem.out + 512, 0x22, 512);
	assert_int_equal(do_write(5, mem.out, 512), NVME_SC_SUCCESS);
	for (unsigned int i = 0; i < 2; i++) {
		prepare_half(&compare, NVME_IO_COMPARE, NVME_SQE_FUSE_FIRST, mem.out);
		prepare_half(&write, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, mem.out + 512);
		answered = 0;
		submit(&compare, 1, &answered);
		submit(&write, 1, &answered);
		turn_until(answered == 2);
		assert_int_equal(compare.cqe.status & NVME_STATUS_CODE,
				 i ? NVME_SC_COMPARE_FAILED : NVME_SC_SUCCESS);
		assert_int_equal(write.cqe.status & NVME_STATUS_CODE,
				 i ? NVME_SC_FUSED_FAIL : NVME_SC_SUCCESS);
		assert_int_equal(do_read(5, mem.in, 512), NVME_SC_SUCCESS);
		assert_int_equal(mem.in[0], 0x22);
		memset(mem.out + 512, 0x33, 512);
	}
	prepare_half(&write, NVME_IO_WRITE, NVME_SQE_FUSE_SECOND, mem.out);
	assert_int_equal(exec(&write, 1), NVME_SC_FUSED_MISSING);
}

static void blocks_are_verified_where_they_are(void **state)
{
	struct host_request req = {.sqe = {.opcode = NVME_IO_VERIFY, .nsid = 1}};

	(void)state;
	bring_up();
	nvme_rw_set(&req.sqe, 0, BLOCKS, 0);
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	bed.slow.error = -EIO;
	assert_int_equal(exec(&req, 1), NVME_SC_READ_ERROR);
	nvme_rw_set(&req.sqe, 1, BLOCKS, 0);
	assert_int_equal(exec(&req, 1), NVME_SC_LBA_RANGE);
}

static void blocks_are_copied_by_the_target(void **state)
{
	const struct nvme_copy_range ranges[] = {{.slba = 16, .nlb = 7}, {.slba = 0, .nlb = 0}};
	struct host_request req = {.sqe = {.opcode = NVME_IO_COPY, .nsid = 1},
				   .data = mem.many[0],
				   .data_len =
					   sizeof(ranges) / sizeof(ranges[0]) * NVME_COPY_RANGE_LEN,
				   .dir = NVMF_DIR_TO_CTRL};
	struct wcursor w = wcursor_init(mem.many[0], req.data_len);

	(void)state;
	bring_up();
	fill(mem.out, 24 * 512, 9);
	assert_int_equal(do_write(0, mem.out, 24 * 512), NVME_SC_SUCCESS);
	for (unsigned int i = 0; i < ARRAY_SIZE(ranges); i++)
		nvme_copy_range_put(&w, &ranges[i]);
	nvme_rw_set(&req.sqe, 100, 2, 0); /* as many ranges */
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	assert_int_equal(do_read(100, mem.in, 9 * 512), NVME_SC_SUCCESS);
	assert_memory_equal(mem.in, mem.out + 16 * 512, 8 * 512);
	assert_memory_equal(mem.in + 8 * 512, mem.out, 512);
	req.sqe.cdw12 |= 2 << 8;
	assert_int_equal(exec(&req, 1), NVME_SC_INVALID_FIELD);
}

static void blocks_are_zeroed_and_deallocated(void **state)
{
	struct host_request req = {0};
	struct nvme_dsm_range range = {.slba = 8, .nlb = 8};
	struct wcursor w = wcursor_init(mem.in, NVME_DSM_RANGE_LEN);

	(void)state;
	bring_up();
	memset(mem.out, 0x77, 16384);
	assert_int_equal(do_write(0, mem.out, 16384), NVME_SC_SUCCESS);
	host_prepare_write_zeroes(&req, 1, 0, 4, false);
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	nvme_dsm_range_put(&w, &range);
	req = (struct host_request){.sqe = {.opcode = NVME_IO_DSM, .nsid = 1, .cdw11 = NVME_DSM_AD},
				    .data = mem.in,
				    .data_len = NVME_DSM_RANGE_LEN,
				    .dir = NVMF_DIR_TO_CTRL};
	assert_int_equal(exec(&req, 1), NVME_SC_SUCCESS);
	req = (struct host_request){0};
	host_prepare_flush(&req, 1);
	assert_int_equal(exec(&req, 2), NVME_SC_SUCCESS);
	assert_int_equal(do_read(0, mem.in, 16384), NVME_SC_SUCCESS);
	for (unsigned int i = 0; i < 16384; i++) {
		bool zero = i < 4 * 512 || (i >= 8 * 512 && i < 16 * 512);

		assert_int_equal(mem.in[i], zero ? 0 : 0x77);
	}
}

/* A status, and the connection goes on. */
static void what_is_wrong_with_a_command_is_told(void **state)
{
	struct host_request req = {0};

	(void)state;
	bring_up();
	assert_int_equal(do_read(BLOCKS - 1, mem.in, 1024), NVME_SC_LBA_RANGE);
	assert_int_equal(do_write(BLOCKS, mem.out, 4096), NVME_SC_LBA_RANGE);
	assert_int_equal(do_write(1ull << 62, mem.out, 65536), NVME_SC_LBA_RANGE);
	host_prepare_write(&req, 2, 0, 1, mem.out, 512, false);
	assert_int_equal(exec(&req, 1), NVME_SC_NS_WRITE_PROTECTED);
	req = (struct host_request){0};
	host_prepare_write(&req, 2, 0, 128, mem.out, 65536, false);
	assert_int_equal(exec(&req, 1), NVME_SC_NS_WRITE_PROTECTED);
	req = (struct host_request){0};
	host_prepare_read(&req, 3, 0, 1, mem.in, 512);
	assert_int_equal(exec(&req, 1), NVME_SC_INVALID_NS);
	req = (struct host_request){.sqe = {.opcode = 0x40, .nsid = 1}};
	assert_int_equal(exec(&req, 1), NVME_SC_INVALID_OPCODE);
	req = (struct host_request){0};
	host_prepare_get_log(&req, 0xfe, 0, mem.in, 512);
	assert_int_equal(exec(&req, 0), NVME_SC_INVALID_LOG_PAGE);
	/* The data are of another length than the command says. */
	req = (struct host_request){0};
	host_prepare_read(&req, 1, 0, 8, mem.in, 2048);
	assert_int_equal(exec(&req, 1), NVME_SC_SGL_INVALID_DATA);
	bed.slow.error = -EIO;
	assert_int_equal(do_read(0, mem.in, 4096), NVME_SC_READ_ERROR);
	bed.slow.error = -ENOSPC;
	assert_int_equal(do_write(0, mem.out, 65536), NVME_SC_CAP_EXCEEDED);
	assert_int_equal(do_read(0, mem.in, 4096), NVME_SC_SUCCESS);
	assert_int_equal(bed.host.state, HOST_LIVE);
}

/* Of which only the first bytes are not zero: the rest comes all the same. */
static void pages_come_whole(void **state)
{
	struct host_request req = {0};
	unsigned int any = 0;

	(void)state;
	bring_up();
	memset(mem.in, 0xee, sizeof(mem.in));
	host_prepare_get_log(&req, NVME_LID_EFFECTS, 0, mem.in, 4096);
	assert_int_equal(exec(&req, 0), NVME_SC_SUCCESS);
	for (unsigned int i = 2048; i < 4096; i++)
		assert_int_equal(mem.in[i], 0);
	assert_int_equal(mem.in[4096], 0xee);
	for (unsigned int i = 0; i < 2048; i++)
		any += mem.in[i] != 0;
	assert_in_range(any, 1, 512);
	memset(mem.in, 0xee, sizeof(mem.in));
	req = (struct host_request){0};
	host_prepare_get_log(&req, NVME_LID_ERROR, 0, mem.in, 64 << 10);
	assert_int_equal(exec(&req, 0), NVME_SC_SUCCESS);
	for (unsigned int i = 64 * TARGET_ERRLOG_ENTRIES; i < 64 << 10; i++)
		assert_int_equal(mem.in[i], 0);
	assert_int_equal(mem.in[64 << 10], 0xee);
}

static void discovered(struct host_discovery *d, uint64_t now_ns)
{
	(void)now_ns;
	*(bool *)d->arg = true;
}

/* Of another subsystem, and so by another key. */
static void ask_discovery(void)
{
	bed.here->ops->destroy(bed.here);
	create_host(NVMF_DISCOVERY_NQN);
	strcpy(bed.config.subnqn, NVMF_DISCOVERY_NQN);
	bed.config.io_queues = 0;
}

static void discovery_lists_the_subsystem(void **state)
{
	static struct nvmf_disc_entry entries[8];
	bool ready = false;
	struct host_discovery d = {.buffer = mem.in,
				   .entries = entries,
				   .max = ARRAY_SIZE(entries),
				   .done = discovered,
				   .arg = &ready};

	(void)state;
	ask_discovery();
	bring_up();
	assert_int_equal(host_discovery_start(&d, &bed.host, time_now_ns()), 0);
	turn_until(ready);
	assert_int_equal(d.error, 0);
	assert_int_equal(d.count, 2);
	assert_string_equal(entries[1].subnqn, NQN);
	assert_int_equal(entries[1].trtype, kind == &rdma_transport  ? NVMF_TRTYPE_RDMA
					    : kind == &tcp_transport ? NVMF_TRTYPE_TCP
								     : NVMF_TRTYPE_LOOP);
	assert_memory_equal(entries[1].traddr, "127.0.0.1", 9);
	assert_memory_equal(entries[1].trsvcid, "4420", 4);
	assert_int_equal(entries[1].treq & NVMF_TREQ_SECURE_MASK, tls ? NVMF_TREQ_REQUIRED : 0);
	if (kind == &tcp_transport)
		assert_int_equal(entries[1].tsas[0], tls ? NVMF_SECTYPE_TLS13 : NVMF_SECTYPE_NONE);
}

/* A controller that is to stay tells when its log changes, and again once that was read. */
static void a_change_of_what_discovery_lists_is_told(void **state)
{
	static struct nvmf_disc_entry entries[8];
	static struct target_subsys more[2];
	bool ready = false;
	struct host_discovery d = {.buffer = mem.in,
				   .entries = entries,
				   .max = ARRAY_SIZE(entries),
				   .done = discovered,
				   .arg = &ready};

	(void)state;
	memset(more, 0, sizeof(more));
	ask_discovery();
	bed.config.keep_alive_ms = 30000;
	bring_up();
	for (unsigned int i = 0; i < 2; i++) {
		sprintf(more[i].nqn, "nqn.2026-11.io.example:more%u", i);
		assert_int_equal(target_subsys_add(&bed.target, &more[i]), 0);
		turn_until(bed.events == i + 1);
		ready = false;
		assert_int_equal(host_discovery_start(&d, &bed.host, time_now_ns()), 0);
		turn_until(ready);
		assert_int_equal(d.error, 0);
		assert_int_equal(d.count, 3 + i);
	}
}

static void events_come_when_they_happen(void **state)
{
	struct host_request req = {0};

	(void)state;
	bring_up();
	for (int i = 0; i < 20; i++)
		turn();
	assert_int_equal(bed.events, 0);
	target_ns_changed(&bed.ns, &bed.subsys);
	turn_until(bed.events == 1);
	host_prepare_get_log(&req, NVME_LID_CHANGED_NS, 0, mem.in, 4096);
	req.sqe.cdw10 &= ~(1u << 15); /* RAE: it is taken note of */
	assert_int_equal(exec(&req, 0), NVME_SC_SUCCESS);
	assert_int_equal(ld_le32(mem.in), 1);
	target_ns_changed(&bed.ns, &bed.subsys);
	turn_until(bed.events == 2);
}

static void commands_wait_for_memory_and_go_on(void **state)
{
	static struct host_request reqs[IO_ENTRIES - 1];
	unsigned int answered = 0;

	(void)state;
	bring_up();
	bed.slow.hold = true;
	bed.shares.budget[SHARE_FOR_IO].len = 256 << 10;
	for (int i = 0; i < IO_ENTRIES - 1; i++) {
		fill(mem.many[i], sizeof(mem.many[i]), (unsigned)i);
		reqs[i] = (struct host_request){0};
		host_prepare_write(&reqs[i], 1, (uint64_t)i * 128, 128, mem.many[i],
				   sizeof(mem.many[i]), false);
		submit(&reqs[i], 1, &answered);
	}
	turn_until(bed.slow.count);
	for (uint64_t end = time_now_ns() + PATIENCE;
	     answered < IO_ENTRIES - 1 && time_now_ns() < end; turn()) {
		assert_in_range(bed.slow.count, 0, 3); /* a host's share of four */
		let_store_work();
		bed.slow.hold = true;
	}
	assert_int_equal(answered, IO_ENTRIES - 1);
	bed.slow.hold = false;
	for (int i = 0; i < IO_ENTRIES - 1; i++) {
		assert_int_equal(do_read((uint64_t)i * 128, mem.in, 65536), NVME_SC_SUCCESS);
		assert_memory_equal(mem.in, mem.many[i], 65536);
	}
}

/* What was not answered is sent again, whatever was under way. */
static void after_a_reset_commands_go_on(void **state)
{
	static struct host_request reqs[8];
	unsigned int answered = 0;

	(void)state;
	bed.config.loss_timeout_ns = PATIENCE;
	bed.config.reconnect_delay_ns = NSEC_PER_MSEC;
	bring_up();
	for (unsigned int round = 0; round < 5; round++) {
		answered = 0;
		bed.slow.hold = round % 2;
		for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
			reqs[i] = (struct host_request){.again = true};
			fill(mem.many[i], 65536, i + round);
			host_prepare_write(&reqs[i], 1, i * 128, 128, mem.many[i], 65536, false);
			submit(&reqs[i], (uint16_t)(1 + i % 2), &answered);
		}
		for (unsigned int i = 0; i < round; i++)
			turn();
		host_reset(&bed.host, time_now_ns());
		let_store_work();
		turn_until(answered == ARRAY_SIZE(reqs));
		for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
			assert_int_equal(reqs[i].error, 0);
			assert_int_equal(reqs[i].cqe.status, 0);
			assert_int_equal(do_read(i * 128, mem.in, 65536), NVME_SC_SUCCESS);
			assert_memory_equal(mem.in, mem.many[i], 65536);
		}
	}
	assert_in_range(bed.host.reconnects, 1, 5);
}

/* By a clock that stands still: nothing is looked at because it is time to. */
static void who_polls_sends_on_when_there_is_room(void **state)
{
	static struct host_request reqs[IO_ENTRIES - 1];
	unsigned int answered = 0;
	uint64_t now;

	(void)state;
	bring_up();
	for (unsigned int i = 0; i < ARRAY_SIZE(reqs); i++) {
		reqs[i] = (struct host_request){0};
		fill(mem.many[i], 65536, i);
		host_prepare_write(&reqs[i], 1, i * 128, 128, mem.many[i], 65536, false);
		submit(&reqs[i], 1, &answered);
	}
	now = time_now_ns();
	for (uint64_t end = now + PATIENCE; answered < ARRAY_SIZE(reqs) && time_now_ns() < end;) {
		bed.there->ops->process(bed.there, now, true);
		bed.here->ops->process(bed.here, now, false);
	}
	assert_int_equal(answered, ARRAY_SIZE(reqs));
}

/* The host's memory is its own again, whatever the store still does. */
static void who_has_closed_is_not_written_to(void **state)
{
	struct host_request req = {0};
	unsigned int answered = 0;

	(void)state;
	bring_up();
	bed.slow.hold = true;
	memset(mem.in, 0xee, 65536);
	host_prepare_read(&req, 1, 0, 128, mem.in, 65536);
	submit(&req, 1, &answered);
	turn_until(bed.slow.count == 1);
	host_reset(&bed.host, time_now_ns());
	assert_int_equal(answered, 1);
	assert_int_equal(req.error, -ENOTCONN);
	let_store_work();
	turn_until(bed.there->ops->idle(bed.there));
	for (int i = 0; i < 65536; i++)
		assert_int_equal(mem.in[i], 0xee);
}

static void a_controller_is_shut_down_in_order(void **state)
{
	(void)state;
	bring_up();
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_NONE);
	turn_until(bed.there->ops->idle(bed.there));
	assert_int_equal(bed.target.ctrl_count, 0);
}

/* The target's end of a connection. */
static bool is_its_end(int fd)
{
	struct sockaddr_in own = {0};
	int listens = 1;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &(socklen_t){sizeof(int)}) ==
		       0 &&
	       getsockname(fd, (struct sockaddr *)&own, &(socklen_t){sizeof(own)}) == 0 &&
	       own.sin_family == AF_INET && own.sin_port == htons(4420) && !listens;
}

/* Its socket may live on for a moment, in a child that has not begun its program yet. */
static void who_is_gone_is_not_looked_at(void **state)
{
	struct pollfd there = {.events = POLLIN};
	int copies[1 + IO_QUEUES], n = 0;

	(void)state;
	bring_up();
	for (int fd = 3; fd < 64; fd++)
		if (n <= IO_QUEUES && is_its_end(fd))
			copies[n++] = fcntl(fd, F_DUPFD, 64);
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED && bed.there->ops->idle(bed.there));
	there.fd = bed.there->ops->fd(bed.there);
	turn_until(poll(&there, 1, 0) == 0); /* RDMA has a word of its own at the end */
	bring_up();			     /* where its places are others' */
	assert_int_equal(do_read(0, mem.in, 4096), 0);
	for (int i = 0; i < n; i++)
		close(copies[i]);
}

static void when_the_target_ends_hosts_are_told(void **state)
{
	(void)state;
	bring_up();
	bed.there->ops->shutdown(bed.there);
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_LOST);
	assert_string_equal(bed.here->ops->error(bed.here),
			    "connection to 127.0.0.1:4420 lost: the target closed it");
}

/* Its place is another's: more come and go than there is room for at once. */
static void a_port_closes_with_its_connections_alone(void **state)
{
	struct target_port *first;
	char why[256] = "", port[8];

	(void)state;
	first = list_entry(bed.target.ports.prev, struct target_port, link);
	bring_up();
	for (int i = 0; i < 70; i++) {
		snprintf(port, sizeof(port), "%d", 5000 + i % 3);
		assert_int_equal(
			bed.there->ops->listen(bed.there, "127.0.0.1", port, why, sizeof(why)), 0);
		bed.there->ops->unlisten(
			bed.there, list_entry(bed.target.ports.prev, struct target_port, link));
		turn();
	}
	assert_ptr_equal(bed.target.ports.prev, &first->link);
	assert_int_equal(bed.host.state, HOST_LIVE);
	bed.there->ops->unlisten(bed.there, first);
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_LOST);
	turn_until(bed.there->ops->idle(bed.there));
	assert_int_equal(bed.there->ops->listen(bed.there, "127.0.0.1", "4420", why, sizeof(why)),
			 0);
}

static void who_may_not_connect_is_told(void **state)
{
	static const char *const hosts[] = {"nqn.2026-11.io.example:another"};

	(void)state;
	bed.subsys.hosts = hosts;
	bed.subsys.host_count = 1;
	begin();
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_STATUS);
	assert_int_equal(bed.host.failure.status & NVME_STATUS_CODE, NVME_SC_CONNECT_INVALID_HOST);
}

#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* --- who may in ---------------------------------------------------------------------------------
 */

static const char *failed_for(void)
{
	begin();
	turn_until(bed.host.state == HOST_LIVE || bed.host.state == HOST_FAILED);
	assert_string_equal(host_state_name(bed.host.state), "failed");
	assert_in_range(bed.host.failure.kind, HOST_FAIL_UNFIT, HOST_FAIL_AUTH);
	return bed.host.failure.detail;
}

static void who_has_the_keys_is_let_in_on_every_queue(void **state)
{
	(void)state;
	with_keys();
	known.dhgroup = NVMF_AUTH_DH_2048;
	bring_up();
	assert_true(bed.host.authenticated);
	assert_int_equal(bed.target.counters->authentications, 1 + IO_QUEUES);
	fill(mem.out, 65536, 3);
	assert_int_equal(do_write(0, mem.out, 65536), NVME_SC_SUCCESS);
	assert_int_equal(do_read(0, mem.in, 65536), NVME_SC_SUCCESS);
	assert_memory_equal(mem.in, mem.out, 65536);
}

static void each_hash_and_group_is_had(void **state)
{
	(void)state;
	with_keys();
	known.hash = NVMF_AUTH_SHA512;
	known.dhgroup = NVMF_AUTH_DH_8192; /* the longest messages there are */
	bed.config.io_queues = 1;
	bring_up();
	assert_true(bed.host.authenticated);
}

static void one_side_alone_proves_itself_where_that_is_enough(void **state)
{
	(void)state;
	with_keys();
	bed.config.ctrl_key.len = 0;
	bring_up();
	assert_true(bed.host.authenticated);
}

static void who_has_no_key_or_another_is_not_let_in(void **state)
{
	(void)state;
	with_keys();
	bed.config.key = known.ctrl_key;
	assert_non_null(strstr(failed_for(), "does not take"));
	assert_int_equal(bed.target.counters->authentications_failed, 1);
}

static void a_host_without_a_key_says_what_is_missing(void **state)
{
	(void)state;
	with_keys();
	bed.config.key.len = bed.config.ctrl_key.len = 0;
	assert_non_null(strstr(failed_for(), "DH-HMAC-CHAP"));
}

/* It is not what it says, or somebody stands between. */
static void a_target_with_another_key_is_not_trusted(void **state)
{
	(void)state;
	with_keys();
	bed.config.ctrl_key = known.key;
	assert_non_null(strstr(failed_for(), "controller's key"));
	assert_int_equal(bed.target.counters->authentications_failed, 1); /* it was told */
}

/* Not even if it does not ask for anything itself. */
static void a_target_that_is_to_prove_itself_has_to(void **state)
{
	(void)state;
	with_keys();
	target_host_remove(&bed.target, &known);
	assert_non_null(strstr(failed_for(), "no key"));
}

static void a_live_host_authenticates_again(void **state)
{
	(void)state;
	with_keys();
	assert_int_equal(host_authenticate(&bed.host, time_now_ns()), -ENOTCONN);
	bring_up();
	for (unsigned int i = 1; i <= 3; i++) {
		assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
		assert_int_equal(host_authenticate(&bed.host, time_now_ns()), -EALREADY);
		assert_int_equal(do_read(0, mem.in, 4096), NVME_SC_SUCCESS);
		turn_until(!bed.host.auth.again);
		assert_int_equal(bed.target.counters->authentications, 1 + IO_QUEUES + i);
	}
	known.key.key[0] ^= 1; /* changed meanwhile */
	assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_AUTH);
}

static void a_host_that_shuts_down_meanwhile_does(void **state)
{
	(void)state;
	with_keys();
	bring_up();
	assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED);
}

/* --- by a channel that authentication secures ---------------------------------------------------
 */

/* All of its queues are by TLS, and as many authentications there were. */
static void assert_secured(unsigned int authentications)
{
	const struct target_ctrl *c = list_entry(bed.subsys.ctrls.next, struct target_ctrl, link);

	assert_true(bed.host.secured && bed.host.authenticated);
	assert_true(list_is_single(&bed.subsys.ctrls));
	for (int i = 0; i <= IO_QUEUES; i++)
		assert_true(c->queues[i]->secure && c->queues[i]->psk);
	assert_int_equal(bed.target.counters->authentications, authentications);
	for (size_t i = 0; i < sizeof(bed.host.auth.psk); i++)
		assert_int_equal(((const uint8_t *)&bed.host.auth.psk)[i], 0);
}

static void all_queues_go_by_the_key_that_one_has_made(void **state)
{
	(void)state;
	bring_up();
	assert_secured(1);
	fill(mem.out, 65536, 3);
	assert_int_equal(do_write(0, mem.out, 65536), NVME_SC_SUCCESS);
	assert_int_equal(do_read(0, mem.in, 65536), NVME_SC_SUCCESS);
	assert_memory_equal(mem.in, mem.out, 65536);
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED);
	turn_until(list_empty(&bed.target.psks));
}

static void a_host_that_asks_for_no_proof_has_its_channel_too(void **state)
{
	(void)state;
	bed.config.ctrl_key.len = 0;
	bring_up();
	assert_secured(1);
}

static void the_longest_hash_and_group_make_a_key(void **state)
{
	(void)state;
	known.hash = NVMF_AUTH_SHA384;
	known.dhgroup = NVMF_AUTH_DH_8192;
	bring_up();
	assert_secured(1);
}

static void after_a_loss_another_key_is_made(void **state)
{
	(void)state;
	bed.config.reconnect_delay_ns = NSEC_PER_MSEC;
	bed.config.loss_timeout_ns = PATIENCE;
	bring_up();
	for (unsigned int i = 2; i <= 3; i++) {
		host_reset(&bed.host, time_now_ns());
		assert_false(bed.host.secured);
		turn_until(bed.host.state == HOST_LIVE && list_is_single(&bed.subsys.ctrls));
		assert_secured(i);
	}
}

static void a_live_host_has_its_key_replaced(void **state)
{
	(void)state;
	bring_up();
	for (unsigned int i = 2; i <= 3; i++) {
		assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
		turn_until(!bed.host.auth.again);
		assert_secured(i);
		assert_int_equal(do_read(0, mem.in, 4096), NVME_SC_SUCCESS);
	}
}

static void where_no_tls_is_spoken_a_host_that_wants_it_does_not_stay(void **state)
{
	(void)state;
	secure(TARGET_TLS_NONE);
	assert_non_null(strstr(failed_for(), "no key of TLS"));
	assert_int_equal(bed.host.failure.state, HOST_AUTHENTICATE);
}

static void what_makes_no_key_is_not_agreed_on(void **state)
{
	(void)state;
	known.hash = NVMF_AUTH_SHA512;
	assert_non_null(strstr(failed_for(), "hash"));
}

/* As if the target had begun anew. */
static void forget_its_key(void *arg, enum host_state from, enum host_state to, uint64_t now_ns)
{
	(void)arg;
	(void)from;
	(void)now_ns;
	if (to == HOST_SECURE)
		target_host_remove(&bed.target, &known);
}

static void a_key_that_the_target_does_not_know_is_no_key(void **state)
{
	(void)state;
	bed.config.changed = forget_its_key;
	begin();
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_OPEN);
	assert_non_null(strstr(bed.here->ops->error(bed.here), "TLS fails"));
	assert_non_null(strstr(bed.here->ops->error(bed.here), "made by authentication"));
}

static void discovery_is_plain(void **state)
{
	(void)state;
	bed.here->ops->destroy(bed.here);
	create_host(NVMF_DISCOVERY_NQN);
	strcpy(bed.config.subnqn, NVMF_DISCOVERY_NQN);
	bring_up();
	assert_false(bed.host.secured);
	assert_int_equal(bed.target.counters->authentications, 0);
}

static void it_takes_a_key_and_a_transport_that_has_tls(void **state)
{
	struct host_transport none = *bed.here->ops->queues;

	(void)state;
	bed.config.key.len = bed.config.ctrl_key.len = 0;
	assert_int_equal(host_init(&bed.host, &bed.config, bed.here->ops->queues, bed.here,
				   bed.queues, bed.places, mem.scratch),
			 -EINVAL);
	bed.config.key = known.key;
	none.secure = NULL;
	assert_int_equal(host_init(&bed.host, &bed.config, &none, bed.here, bed.queues, bed.places,
				   mem.scratch),
			 -EINVAL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest of_concatenation[] = {
		BED_TEST(all_queues_go_by_the_key_that_one_has_made),
		BED_TEST(a_host_that_asks_for_no_proof_has_its_channel_too),
		BED_TEST(the_longest_hash_and_group_make_a_key),
		BED_TEST(after_a_loss_another_key_is_made),
		BED_TEST(a_live_host_has_its_key_replaced),
		BED_TEST(where_no_tls_is_spoken_a_host_that_wants_it_does_not_stay),
		BED_TEST(what_makes_no_key_is_not_agreed_on),
		BED_TEST(a_key_that_the_target_does_not_know_is_no_key),
		BED_TEST(discovery_is_plain),
		BED_TEST(it_takes_a_key_and_a_transport_that_has_tls),
		BED_TEST(events_come_when_they_happen),
		BED_TEST(after_a_reset_commands_go_on),
		BED_TEST(a_controller_is_shut_down_in_order),
		BED_TEST(when_the_target_ends_hosts_are_told),
		BED_TEST(who_has_no_key_or_another_is_not_let_in),
		BED_TEST(a_target_with_another_key_is_not_trusted),
	};
	const struct CMUnitTest tests[] = {
		BED_TEST(hosts_are_told_what_there_is),
		BED_TEST(what_is_written_is_read),
		BED_TEST(full_queues_of_commands_are_answered),
		BED_TEST(data_may_lie_in_pieces),
		BED_TEST(memory_that_nobody_made_known_will_do),
		BED_TEST(memory_in_use_stays_known),
		BED_TEST(comparing_says_whether_they_are_equal),
		BED_TEST(comparing_and_writing_are_one),
		BED_TEST(blocks_are_verified_where_they_are),
		BED_TEST(blocks_are_copied_by_the_target),
		BED_TEST(blocks_are_zeroed_and_deallocated),
		BED_TEST(what_is_wrong_with_a_command_is_told),
		BED_TEST(pages_come_whole),
		BED_TEST(discovery_lists_the_subsystem),
		BED_TEST(a_change_of_what_discovery_lists_is_told),
		BED_TEST(events_come_when_they_happen),
		BED_TEST(commands_wait_for_memory_and_go_on),
		BED_TEST(after_a_reset_commands_go_on),
		BED_TEST(who_polls_sends_on_when_there_is_room),
		BED_TEST(who_has_closed_is_not_written_to),
		BED_TEST(a_controller_is_shut_down_in_order),
		BED_TEST(who_is_gone_is_not_looked_at),
		BED_TEST(when_the_target_ends_hosts_are_told),
		BED_TEST(a_port_closes_with_its_connections_alone),
		BED_TEST(who_may_not_connect_is_told),
		BED_TEST(who_has_the_keys_is_let_in_on_every_queue),
		BED_TEST(each_hash_and_group_is_had),
		BED_TEST(one_side_alone_proves_itself_where_that_is_enough),
		BED_TEST(who_has_no_key_or_another_is_not_let_in),
		BED_TEST(a_host_without_a_key_says_what_is_missing),
		BED_TEST(a_target_with_another_key_is_not_trusted),
		BED_TEST(a_target_that_is_to_prove_itself_has_to),
		BED_TEST(a_live_host_authenticates_again),
		BED_TEST(a_host_that_shuts_down_meanwhile_does),
	};
	const char *name = argc == 2 ? argv[1] : "";

	tls = strncmp(name, "tcp-tls", 7) == 0;
	digests = strstr(name, "-digests");
	concat = strcmp(name, "tcp-concat") == 0;
	if (strcmp(name, "loop") == 0)
		kind = &loop_transport;
	else if (strcmp(name, "rdma") == 0)
		kind = &rdma_transport;
	else if (strncmp(name, "tcp", 3) == 0)
		kind = &tcp_transport;
	else {
		print_error("usage: %s loop|rdma|tcp[-tls][-digests]|tcp-concat\n", argv[0]);
		return 2;
	}
	netns_enter();
	return concat ? cmocka_run_group_tests(of_concatenation, NULL, NULL)
		      : cmocka_run_group_tests(tests, NULL, NULL);
}
