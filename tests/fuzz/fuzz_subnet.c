/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A subnet manager and the agents of three switches in a ring, each with an adapter. Input: flags
 * (bit 0: up and down; bit 1: an SMP follows that comes to a switch by a port: which of the two in
 * one byte, and 256 of the packet), then for each answer that comes to the manager what becomes of
 * it: bits 0 and 1: 0 nothing, 1 it is lost, 2 and 3 so many less one of its bytes have another
 * value (offset, value). What the input says nothing of is as it is; then the next sweep, too, is
 * well.
 */
#include "fuzz.h"

#include <string.h>

#include "base/cursor.h"
#include "base/heap.h"
#include "mem.h"
#include "subnet/agent.h"
#include "subnet/manager.h"

#define SWITCHES   3
#define NODES	   (2 * SWITCHES)
#define FLYING_MAX 16
#define EVENTS_MAX 10000000

struct fabric {
	struct fuzz_mem mem;
	struct agent *agents[NODES]; /* switches, and the adapter of each */
	struct subnet_manager *manager;
	struct cursor input;
	uint8_t flying[FLYING_MAX][MAD_LEN];
	unsigned first, n;
	uint64_t now;
	unsigned sweeps;
	int rc;
};

static void *take(void *ctx, size_t len)
{
	return fuzz_mem_alloc(&((struct fabric *)ctx)->mem, len);
}

static void give_back(void *ctx, void *p)
{
	fuzz_mem_free(&((struct fabric *)ctx)->mem, p);
}

/* Ports of a switch: 1 to the next, 2 to the one before, 3 to its adapter. */
static bool go_over(unsigned *node, unsigned *port)
{
	if (*node >= SWITCHES) {
		*node -= SWITCHES;
		*port = 3;
		return true;
	}
	switch (*port) {
	case 1:
		*node = (*node + 1) % SWITCHES;
		*port = 2;
		return true;
	case 2:
		*node = (*node + SWITCHES - 1) % SWITCHES;
		*port = 1;
		return true;
	case 3:
		*node += SWITCHES;
		*port = 1;
		return true;
	default:
		return false;
	}
}

/* From a port of a node on; has it come to the manager, who is at the first adapter? */
static bool carry(struct fabric *f, uint8_t mad[MAD_LEN], unsigned node, unsigned port)
{
	for (unsigned links = 0; links < 4 * SMP_HOPS_MAX; links++) {
		int to = agent_take(f->agents[node], mad, port);

		if (to <= 0)
			return to == 0 && node == SWITCHES;
		port = (unsigned)to;
		must(go_over(&node, &port));
	}
	must(!"an SMP that ends");
	return false;
}

static void change(struct fabric *f, uint8_t mad[MAD_LEN], unsigned n)
{
	while (n--) {
		uint8_t at = cursor_u8(&f->input), value = cursor_u8(&f->input);

		if (!f->input.overrun)
			mad[at] = value;
	}
}

static void send_mad(void *ctx, const uint8_t asked[MAD_LEN])
{
	struct fabric *f = ctx;
	uint8_t mad[MAD_LEN], what;

	memcpy(mad, asked, MAD_LEN);
	if (!carry(f, mad, SWITCHES, 0))
		return;
	what = cursor_u8(&f->input) & 3;
	if (what == 1)
		return;
	if (what)
		change(f, mad, what - 1);
	must(f->n < FLYING_MAX);
	memcpy(f->flying[(f->first + f->n++) % FLYING_MAX], mad, MAD_LEN);
}

static void swept(void *ctx, int rc, const char *why)
{
	struct fabric *f = ctx;

	must(!rc == !why);
	f->sweeps++;
	f->rc = rc;
}

static void make_agents(struct fabric *f)
{
	const struct agent_ops ops = {.alloc = take, .free = give_back};

	for (unsigned i = 0; i < NODES; i++) {
		const struct agent_nature nature = {
			.is_switch = i < SWITCHES,
			.ports = i < SWITCHES ? 3 : 1,
			.node_guid = 0x1000 * (i + 1),
			.lanes = i % 2 ? 8 : 2,
			.mtu_code = 4,
			.width_code = 2,
			.speed_code = 4,
			.lids = 100,
		};

		must(agent_create(&f->agents[i], &nature, &ops, f) == 0);
		for (unsigned port = 1; port <= nature.ports; port++)
			agent_link(f->agents[i], port, true);
	}
}

static void sweep(struct fabric *f)
{
	unsigned before = f->sweeps;

	subnet_sweep(f->manager, f->now);
	for (unsigned events = 0; subnet_is_sweeping(f->manager); events++) {
		uint8_t mad[MAD_LEN];

		must(events < EVENTS_MAX);
		if (!f->n) {
			must(subnet_next_deadline(f->manager) != DEADLINE_NEVER);
			f->now = subnet_next_deadline(f->manager);
			subnet_tick(f->manager, f->now);
			continue;
		}
		memcpy(mad, f->flying[f->first], MAD_LEN);
		f->first = (f->first + 1) % FLYING_MAX;
		f->n--;
		subnet_rx(f->manager, mad, ++f->now);
	}
	must(f->sweeps == before + 1);
}

static void check_whole(const struct fabric *f)
{
	must(f->rc == 0 && subnet_nodes(f->manager) == NODES);
	for (unsigned i = 0; i < NODES; i++)
		for (unsigned port = 1; port <= (i < SWITCHES ? 3 : 1); port++)
			must(agent_state(f->agents[i], port) == SMP_PORT_ACTIVE);
	for (unsigned i = 0; i < NODES; i++)
		for (unsigned k = 0; k < NODES; k++) {
			uint16_t from = agent_lid(f->agents[i], 1), to = agent_lid(f->agents[k], 1);
			struct subnet_path path;

			must(i == k || from != to);
			must(subnet_path(f->manager, from, to, 0, &path) == 0);
			must(path.hops <= 4);
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fabric *f = calloc(1, sizeof(*f));
	const struct subnet_ops ops = {
		.alloc = take,
		.free = give_back,
		.send = send_mad,
		.swept = swept,
	};
	struct subnet_config config = {
		.lanes = 4,
		.low = {.lane = {0, 1}, .weight = {1, 1}, .n = 2},
		.timeout_ns = 1000,
		.retries = 2,
		.window = 8,
	};
	uint8_t flags, mad[MAD_LEN];

	must(f);
	f->input = cursor_init(data, size);
	flags = cursor_u8(&f->input);
	config.routing = flags & 1 ? SUBNET_UP_DOWN : SUBNET_MIN_HOP;
	make_agents(f);
	if (flags & 2) {
		unsigned port = cursor_u8(&f->input) % 4;

		cursor_bytes(&f->input, mad, sizeof(mad));
		carry(f, mad, 0, port);
	}
	must(subnet_create(&f->manager, &config, &ops, f) == 0);
	sweep(f);
	/* Late answers of the sweep have come, or are lost. */
	f->n = 0;
	f->input = cursor_init(NULL, 0);
	sweep(f);
	/* A port that was disabled stays so: only another Set makes it work. */
	if (!(flags & 2))
		check_whole(f);
	subnet_destroy(f->manager);
	for (unsigned i = 0; i < NODES; i++)
		agent_destroy(f->agents[i]);
	must(f->mem.blocks == 0);
	free(f);
	return 0;
}
