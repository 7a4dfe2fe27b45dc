/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the NVMe-oF protocol costs by itself: the host's core and the target's in this process, by
 * the loop transport, before a store that does nothing.
 * usage: nvmf_loop [BYTES [DEPTH [SECONDS]]]; prints ns and commands per second, of reads and
 * writes
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "nvmf/host/host.h"
#include "nvmf/loop/loop.h"
#include "store/store.h"

#define NQN "nqn.2026-11.io.example:loop"

enum { ENTRIES = 128, DEPTH_MAX = ENTRIES - 1, BYTES_MAX = 1 << 20 };

static struct {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns;
	struct shares shares;
	struct transport_target *there;
	struct transport_host *here;
	struct host host;
	struct host_queue queues[2];
	struct handle_place places[HOST_ADMIN_ENTRIES + ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN];
	struct host_request reqs[DEPTH_MAX];
	void *data[DEPTH_MAX];
	uint32_t bytes;
	bool writing, ending;
	unsigned long done, under_way;
} b;

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "nvmf_loop: %s\n", what);
	exit(1);
}

static void *env_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void env_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static void start(struct host_request *req, uint64_t now_ns);

static void done(struct host_request *req, uint64_t now_ns)
{
	must(!req->error && !req->cqe.status, "a command failed");
	b.done++;
	b.under_way--;
	if (!b.ending)
		start(req, now_ns);
}

static void start(struct host_request *req, uint64_t now_ns)
{
	req->done = done;
	req->sqe = (struct nvme_sqe){.opcode = b.writing ? NVME_IO_WRITE : NVME_IO_READ, .nsid = 1};
	nvme_rw_set(&req->sqe, 0, b.bytes / 512, 0);
	req->dir = nvmf_dir_of(&req->sqe);
	req->data = b.data[req - b.reqs];
	req->data_len = b.bytes;
	b.under_way++;
	must(host_submit(&b.host, 1, req, now_ns) == 0, "a command is not taken");
}

static bool turn(uint64_t now_ns)
{
	bool any = b.there->ops->process(b.there, now_ns, false);

	return b.here->ops->process(b.here, now_ns, false) || any;
}

static void set_up(void)
{
	const struct target_env env = {.alloc = env_alloc, .free = env_free};
	const struct transport_host_config where = {
		.host = "here", .port = "1", .io_queues = 1, .io_entries = ENTRIES};
	const struct host_config config = {.subnqn = NQN,
					   .hostnqn = NQN ".host",
					   .hostid = {1},
					   .io_queues = 1,
					   .io_entries = ENTRIES,
					   .open_timeout_ns = NSEC_PER_SEC,
					   .command_timeout_ns = 60 * NSEC_PER_SEC,
					   .shutdown_timeout_ns = NSEC_PER_SEC};
	uint64_t now_ns = time_now_ns();
	char why[128];

	target_init(&b.target, &env, now_ns);
	strcpy(b.subsys.nqn, NQN);
	b.ns = (struct target_ns){.nsid = 1, .lba_shift = 9};
	must(store_null_create(1u << 30, 512, &b.ns.store) == 0 &&
		     target_subsys_add(&b.target, &b.subsys) == 0 &&
		     target_ns_add(&b.subsys, &b.ns) == 0 &&
		     shares_init(&b.shares, 1u << 30) == 0 &&
		     loop_transport.target_create(&b.target.group, &b.shares, NULL, &b.there, why,
						  sizeof(why)) == 0 &&
		     b.there->ops->listen(b.there, "here", "1", why, sizeof(why)) == 0,
	     "no target");
	b.here = loop_transport.host_create(&where, why, sizeof(why));
	must(b.here, "no host");
	b.here->ops->attach(b.here, &b.host);
	must(host_init(&b.host, &config, b.here->ops->queues, b.here, b.queues, b.places,
		       b.scratch) == 0,
	     "no host");
	host_start(&b.host, now_ns);
	while (turn(now_ns))
		;
	must(b.host.state == HOST_LIVE, "the controller does not come up");
}

static void measure(bool writing, unsigned long depth, unsigned long seconds)
{
	uint64_t begin = time_now_ns(), now = begin, end = begin + seconds * NSEC_PER_SEC;

	b.writing = writing;
	b.ending = false;
	b.done = 0;
	for (unsigned long i = 0; i < depth; i++)
		start(&b.reqs[i], now);
	while (now < end) {
		for (int i = 0; i < 64; i++)
			turn(now);
		now = time_now_ns();
	}
	printf("%-5s %8.1f ns %10.0f /s\n", writing ? "write" : "read",
	       (double)(now - begin) / (double)b.done,
	       (double)b.done * 1e9 / (double)(now - begin));
	b.ending = true;
	while (b.under_way)
		turn(now);
}

int main(int argc, char **argv)
{
	unsigned long depth = argc > 2 ? strtoul(argv[2], NULL, 10) : 32;
	unsigned long seconds = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;

	b.bytes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 4096;
	must(depth >= 1 && depth <= DEPTH_MAX && b.bytes && b.bytes % 512 == 0 &&
		     b.bytes <= BYTES_MAX,
	     "usage: nvmf_loop [BYTES [DEPTH [SECONDS]]]");
	for (unsigned long i = 0; i < depth; i++) {
		b.data[i] = aligned_alloc(4096, (b.bytes + 4095u) & ~4095u);
		must(b.data[i], "out of memory");
	}
	set_up();
	measure(false, depth, seconds);
	measure(true, depth, seconds);
	return 0;
}
