/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Random networks, each from a seed: a shape, switches, controls and traffic. Whatever they are,
 * all messages end well, switches whose priorities are lossless lose nothing of them, and in the
 * end no buffer holds a byte, every credit is back and nobody is kept from sending. The same seed
 * gives the same run.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/units.h"
#include "fabric/net/ibswitch.h"
#include "fabric/net/management.h"
#include "fabric/net/network.h"
#include "fabric/traffic/play.h"

#define LIMIT_NS (20 * NSEC_PER_SEC)
#define DRAIN_NS (2 * NSEC_PER_SEC)

struct outcome {
	uint64_t ended_ns, frames, happened, dropped, lossless, pauses, marked, resent, smps;
};

static uint64_t seed;

static _Noreturn void fail(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "sim_fabric: seed %llu: ", (unsigned long long)seed);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nreplay: sim_fabric --seeds %llu..%llu\n", (unsigned long long)seed,
		(unsigned long long)seed);
	exit(1);
}

/* ---- a network, and what is done in it ------------------------------------------------------- */

static struct topology_nature some_topology(struct prng *r)
{
	static const enum topology_kind kinds[] = {TOPOLOGY_PAIR,	TOPOLOGY_STAR,
						   TOPOLOGY_DUMBBELL,	TOPOLOGY_PARKING_LOT,
						   TOPOLOGY_LEAF_SPINE, TOPOLOGY_FAT_TREE};

	return (struct topology_nature){
		.kind = kinds[prng_below(r, ARRAY_SIZE(kinds))],
		.hosts = (unsigned)prng_range(r, 2, 4),
		.switches = (unsigned)prng_range(r, 2, 4),
		.leaves = (unsigned)prng_range(r, 2, 3),
		.spines = (unsigned)prng_range(r, 1, 3),
		.pods = 2,
		.edges = 2,
		.aggregations = 2,
		.cores = 2,
		.looped = -1,
	};
}

static struct line_nature some_line(struct prng *r, bool lossless)
{
	static const uint64_t rates[] = {1000, 10000, 25000, 40000, 100000, 400000};

	return (struct line_nature){
		.rate_mbps = rates[prng_below(r, ARRAY_SIZE(rates))],
		.delay_ns = prng_below(r, 4) ? prng_below(r, 3000) : prng_below(r, 100000),
		.loss_ppb = lossless || prng_below(r, 2) ? 0 : (uint32_t)prng_below(r, 3000000),
	};
}

static struct host_nature some_host(struct prng *r, uint64_t rate_mbps)
{
	const struct cc_ops *cc = NULL;
	struct host_nature h = {
		.params = cc_defaults,
		.selective = prng_below(r, 2),
		.mtu = (enum rnic_mtu)prng_range(r, RNIC_MTU_256, RNIC_MTU_4096),
		.window_bytes = (uint32_t)prng_range(r, 16 << 10, 4 << 20),
		.turn_bytes = (uint32_t)prng_range(r, 1024, 64 << 10),
		.ask_bytes = (uint32_t)prng_range(r, 1024, 256 << 10),
		.dscp = 26,
		.ttl = 64,
		.timeout = 13, /* 33 ms: longer than any queue */
		.retries = 7,
		.max_qps = 256,
		.scheduler.strict = 1u << 6,
	};

	for (uint64_t i = prng_below(r, 5); i; i--)
		cc = cc_next(cc);
	h.cc = cc;
	h.params.rp_max_rate = (uint32_t)rate_mbps;
	return h;
}

static struct switch_nature some_switch(struct prng *r, bool lossless)
{
	return (struct switch_nature){
		.buffer = {.bytes = prng_range(r, 40ull << 20, 80ull << 20),
			   .reserve = prng_below(r, 2) * 2048,
			   .alpha = 1.0 / (double)(1u << prng_range(r, 2, 13)),
			   .alpha_lossy = 1.0 / (double)(1u << prng_range(r, 2, 11)),
			   .resume_below = prng_below(r, 9000),
			   .lossless = lossless ? 1u << 3 : 0},
		.mark = {.from = prng_below(r, 20000),
			 .all = prng_range(r, 20000, 100000),
			 .ppm = (uint32_t)prng_below(r, 1000000)},
		.marked = 1u << 3,
		.scheduler = {.strict = (uint8_t)(prng_below(r, 2) << 6)},
		.latency_ns = prng_below(r, 2) * prng_below(r, 2000),
	};
}

/* The least buffer holds one frame of 4 KiB. */
static struct subnet_nature some_subnet(struct prng *r)
{
	struct subnet_nature s = {
		.is_there = !prng_below(r, 3),
		.node = {.link = {.lanes = 1u << prng_below(r, 4),
				  .bytes = (uint32_t)prng_range(r, 4224, 131072)}},
		.latency_ns = prng_below(r, 2) * prng_below(r, 2000),
		.config = {.routing = (enum subnet_routing)prng_below(r, 2),
			   .high_limit = (uint8_t)prng_below(r, 256),
			   .hoq_life = 20,
			   .timeout_ns = 10 * NSEC_PER_MSEC,
			   .retries = 7,
			   .window = (unsigned)prng_range(r, 1, 64),
			   .sweep_ns = prng_below(r, 2) * prng_range(r, 50, 500) * NSEC_PER_MSEC},
	};
	struct subnet_config *c = &s.config;

	c->lanes = s.node.link.lanes;
	for (unsigned i = 0; i < 16; i++)
		c->lane_of_sl[i] = (uint8_t)prng_below(r, c->lanes);
	for (c->low.n = 0; c->low.n < c->lanes; c->low.n++) {
		c->low.lane[c->low.n] = (uint8_t)c->low.n;
		c->low.weight[c->low.n] = (uint8_t)prng_range(r, 1, 255);
	}
	if (prng_below(r, 2)) {
		c->high.n = 1;
		c->high.lane[0] = (uint8_t)prng_below(r, c->lanes);
		c->high.weight[0] = (uint8_t)prng_range(r, 1, 255);
	}
	return s;
}

static struct host_set all_hosts(unsigned n)
{
	struct host_set s = {calloc(n, sizeof(unsigned)), n};

	if (!s.v)
		abort();
	for (unsigned i = 0; i < n; i++)
		s.v[i] = i;
	return s;
}

static struct traffic some_traffic(struct prng *r, unsigned hosts, const struct size_point *one)
{
	static const enum traffic_kind kinds[] = {TRAFFIC_FLOWS, TRAFFIC_ALL_TO_ALL, TRAFFIC_INCAST,
						  TRAFFIC_ALLREDUCE};

	return (struct traffic){
		.kind = kinds[prng_below(r, ARRAY_SIZE(kinds))],
		.name = (char *)"some",
		.from = all_hosts(hosts),
		.to = all_hosts(hosts),
		.bytes = prng_below(r, 4) ? prng_range(r, 1, 200000) : prng_range(r, 1, 2000),
		.sizes = {one, 1},
		.reads = !prng_below(r, 4),
		.tree = prng_below(r, 2),
		.count = (unsigned)prng_range(r, 1, 2),
		.depth = 1,
		.fan_in = (unsigned)prng_range(r, 1, hosts - 1),
		.load = .5,
		.dscp = prng_below(r, 8) ? -1 : 0,
		.every_ns = prng_below(r, 2) * prng_range(r, 1000, 100000),
	};
}

/* ---- one run --------------------------------------------------------------------------------- */

static struct outcome sum_up(struct network *n)
{
	struct outcome o = {.ended_ns = fabric_now(network_fabric(n)),
			    .happened = fabric_happened(network_fabric(n))};

	for (unsigned i = 0; i < network_ports(n); i++) {
		o.frames += network_port(n, i)->counters.frames;
		o.pauses += network_port(n, i)->counters.pauses_sent;
	}
	if (network_management(n)) {
		o.smps = management_counters(network_management(n))->sent;
		if (network_dropped(n))
			fail("InfiniBand loses %llu frames",
			     (unsigned long long)network_dropped(n));
	}
	for (unsigned i = 0; network_ibswitch(n, 0) == NULL && i < network_switches(n); i++) {
		o.dropped += netswitch_counters(network_switch(n, i))->dropped;
		o.lossless += netswitch_counters(network_switch(n, i))->dropped_lossless;
		o.marked += netswitch_counters(network_switch(n, i))->marked;
		if (netswitch_counters(network_switch(n, i))->unroutable ||
		    netswitch_counters(network_switch(n, i))->expired)
			fail("a switch does not know the way");
	}
	for (unsigned i = 0; i < network_hosts(n); i++)
		o.resent += rnic_counters(host_rnic(network_host(n, i)))->tx_retransmit;
	return o;
}

static void check(struct network *n, const struct play *p, const struct outcome *o)
{
	for (size_t i = 0; i < p->ngroups; i++) {
		const struct group *g = &p->groups[i];

		if (g->failed || g->done != g->flows || !g->flows)
			fail("%zu of %zu messages of '%s' are done, %zu failed", g->done, g->flows,
			     traffic_names[g->traffic->kind], g->failed);
	}
	if (o->lossless)
		fail("%llu frames of a lossless priority found no room",
		     (unsigned long long)o->lossless);
	if (!network_is_idle(n))
		fail("all is done, and something is still under way, held or stopped");
}

static struct outcome run_one(void)
{
	struct prng r = {.state = seed};
	const bool lossless = prng_below(&r, 3) != 0;
	struct network_nature nature = {
		.topology = some_topology(&r),
		.link = some_line(&r, lossless),
		.uplink = some_line(&r, lossless),
		.netswitch = some_switch(&r, lossless),
		.headroom = UINT64_MAX,
	};
	const struct size_point one = {1000, 1};
	struct traffic traffic[2];
	struct network *n;
	struct play *p;
	struct outcome o;
	char err[256];
	uint64_t end;

	nature.host = some_host(&r, nature.link.rate_mbps);
	nature.subnet = some_subnet(&r);
	nature.subnet.node.mtu_code = (unsigned)nature.host.mtu;
	nature.subnet.node.link.frame_max =
		FRAME_IB + PKT_HDR_MAX + ICRC_LEN + (128u << nature.host.mtu);
	if (network_create(&n, &nature, seed, err, sizeof(err)) ||
	    network_settle(n, err, sizeof(err)))
		fail("%s", err);
	for (size_t i = 0; i < 2; i++) {
		traffic[i] = some_traffic(&r, network_hosts(n), &one);
		if (lossless) /* the other priorities are not */
			traffic[i].dscp = -1;
	}
	if (play_create(&p, n, play_kinds, traffic, 2, LIMIT_NS, 0, NSEC_PER_MSEC, err,
			sizeof(err)))
		fail("no memory");
	end = p->begin_ns + LIMIT_NS;
	while (!play_is_done(p) && !p->failed && fabric_step(network_fabric(n), end))
		;
	if (p->failed)
		fail("%s", err);
	/* Last acknowledgements and pauses. */
	end = fabric_now(network_fabric(n)) + DRAIN_NS;
	while (fabric_step(network_fabric(n), end))
		;
	o = sum_up(n);
	check(n, p, &o);
	play_destroy(p);
	network_destroy(n);
	for (size_t i = 0; i < 2; i++) {
		free(traffic[i].from.v);
		free(traffic[i].to.v);
	}
	return o;
}

int main(int argc, char **argv)
{
	unsigned long long first = 1, last = 1000;
	struct outcome all = {0};

	if (argc > 1 && (argc != 3 || strcmp(argv[1], "--seeds") != 0 ||
			 sscanf(argv[2], "%llu..%llu", &first, &last) != 2)) {
		fprintf(stderr, "usage: sim_fabric [--seeds N..M]\n");
		return 2;
	}
	for (seed = first; seed <= last; seed++) {
		struct outcome o = run_one();

		if (seed % 50 == 0) {
			struct outcome again = run_one();

			if (memcmp(&o, &again, sizeof(o)) != 0)
				fail("two runs differ");
		}
		all.frames += o.frames;
		all.dropped += o.dropped;
		all.pauses += o.pauses;
		all.marked += o.marked;
		all.resent += o.resent;
		all.smps += o.smps;
	}
	printf("%llu networks: %llu frames, %llu pauses, %llu marked, %llu dropped, %llu sent "
	       "again, %llu SMPs\n",
	       last - first + 1, (unsigned long long)all.frames, (unsigned long long)all.pauses,
	       (unsigned long long)all.marked, (unsigned long long)all.dropped,
	       (unsigned long long)all.resent, (unsigned long long)all.smps);
	/* Some of each, or it was no test. */
	if (last - first < 100)
		return 0;
	return all.pauses && all.marked && all.dropped && all.resent && all.smps ? 0 : 1;
}
