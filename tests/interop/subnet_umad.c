/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * subnet_umad minhop|updn [ROOT-GUID...]: the subnet manager over libibumad, one sweep. It is for a
 * simulated fabric behind that library (ibsim's libumad2sim.so): subnet.py runs it. Prints a line
 * for each node, "switch" or "adapter", GUID, LID, and what it has counted. Status 1: the sweep
 * found something wrong.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/umad.h>

#include "base/heap.h"
#include "base/time.h"
#include "base/units.h"
#include "subnet/manager.h"
#include "wire/smp.h"

#define END_NS (30 * NSEC_PER_SEC)

struct port {
	int fd, agent;
	void *out, *in;
	int rc;
};

static void *take(void *ctx, size_t len)
{
	(void)ctx;
	return calloc(1, len);
}

static void give_back(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static void send_mad(void *ctx, const uint8_t mad[MAD_LEN])
{
	struct port *p = ctx;

	memset(p->out, 0, umad_size());
	umad_set_addr(p->out, LID_PERMISSIVE, 0, 0, 0);
	memcpy(umad_get_mad(p->out), mad, MAD_LEN);
	/* What it times out is the manager's business, who sends again by himself. */
	if (umad_send(p->fd, p->agent, p->out, MAD_LEN, 1000, 0) < 0)
		fprintf(stderr, "umad_send: %s\n", strerror(errno));
}

static void swept(void *ctx, int rc, const char *why)
{
	struct port *p = ctx;

	p->rc = rc;
	if (rc)
		fprintf(stderr, "sweep: %s: %s\n", strerror(-rc), why);
}

static int open_port(struct port *p)
{
	if (umad_init() < 0)
		return -1;
	p->fd = umad_open_port(NULL, 0);
	if (p->fd < 0)
		return -1;
	p->agent = umad_register(p->fd, SMP_CLASS_DR, SMP_CLASS_VERSION, 0, NULL);
	p->out = umad_alloc(1, umad_size() + MAD_LEN);
	p->in = umad_alloc(1, umad_size() + MAD_LEN);
	return p->agent < 0 || !p->out || !p->in ? -1 : 0;
}

static void receive(struct port *p, struct subnet_manager *m, int wait_ms)
{
	int len = MAD_LEN;
	uint8_t mad[MAD_LEN];

	if (umad_poll(p->fd, wait_ms) < 0 || umad_recv(p->fd, p->in, &len, 0) < 0)
		return;
	if (len != MAD_LEN || umad_status(p->in))
		return;
	memcpy(mad, umad_get_mad(p->in), MAD_LEN);
	memset(mad + 8, 0, 4); /* half of the transaction id is the library's */
	subnet_rx(m, mad, time_now_ns());
}

static void show(const struct subnet_manager *m)
{
	const struct subnet_counters *c = subnet_counters(m);

	for (unsigned i = 0; i < subnet_nodes(m); i++) {
		const struct subnet_node *n = subnet_node(m, i);

		printf("%s %016" PRIx64 " %u\n", n->is_switch ? "switch" : "adapter",
		       n->is_switch ? n->guid : n->port_guid, n->lid);
	}
	fprintf(stderr,
		"sent %" PRIu64 " received %" PRIu64 " resent %" PRIu64 " unanswered %" PRIu64
		" bad %" PRIu64 "\n",
		c->sent, c->received, c->resent, c->unanswered, c->bad);
}

int main(int argc, char **argv)
{
	const struct subnet_ops ops = {
		.alloc = take,
		.free = give_back,
		.send = send_mad,
		.swept = swept,
	};
	struct subnet_config config = {
		.lanes = 8,
		.lane_of_sl = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7},
		.low = {.lane = {0, 1, 2, 3}, .weight = {1, 2, 3, 4}, .n = 4},
		.high = {.lane = {0}, .weight = {64}, .n = 1},
		.high_limit = 4,
		.hoq_life = 18,
		.timeout_ns = 500 * NSEC_PER_MSEC,
		.retries = 3,
		.window = 4,
	};
	struct port p = {.rc = -EINPROGRESS};
	struct subnet_manager *m;
	uint64_t end = time_now_ns() + END_NS;

	if (argc < 2 || (strcmp(argv[1], "minhop") != 0 && strcmp(argv[1], "updn") != 0) ||
	    argc - 2 > SUBNET_ROOTS_MAX) {
		fprintf(stderr, "usage: subnet_umad minhop|updn [ROOT-GUID...]\n");
		return 2;
	}
	if (strcmp(argv[1], "updn") == 0)
		config.routing = SUBNET_UP_DOWN;
	for (int i = 2; i < argc; i++)
		config.roots[config.n_roots++] = strtoull(argv[i], NULL, 16);
	if (open_port(&p) < 0) {
		fprintf(stderr, "no port: %s\n", strerror(errno));
		return 1;
	}
	if (subnet_create(&m, &config, &ops, &p) < 0)
		return 1;
	subnet_sweep(m, time_now_ns());
	while (subnet_is_sweeping(m) && time_now_ns() < end) {
		uint64_t now = time_now_ns(), deadline = subnet_next_deadline(m);

		receive(&p, m, deadline > now ? (int)((deadline - now) / NSEC_PER_MSEC + 1) : 0);
		subnet_tick(m, time_now_ns());
	}
	show(m);
	subnet_destroy(m);
	umad_free(p.out);
	umad_free(p.in);
	umad_unregister(p.fd, p.agent);
	umad_close_port(p.fd);
	return p.rc ? 1 : 0;
}
