/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The RC core in a hostile world: sim_rc --seed N, or --seeds A..B. Each seed is a whole run in
 * virtual time; one that fails prints the command that replays it.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rc_world.h"

static char replay[128];

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* So that a sanitizer's finding goes through on_abort(), too. */
const char *__asan_default_options(void)
{
	return "abort_on_error=1";
}

const char *__ubsan_default_options(void)
{
	return "halt_on_error=1:abort_on_error=1:print_stacktrace=1";
}

static void on_abort(int sig)
{
	(void)sig;
	if (write(STDERR_FILENO, replay, strlen(replay)) < 0)
		_exit(2);
	_exit(1);
}

_Noreturn void rc_world_fail(const struct rc_world *w, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "sim_rc: seed %llu at %llu ns: ", (unsigned long long)w->seed,
		(unsigned long long)fabric_now(w->fabric));
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n%s", replay);
	exit(1);
}

static void poll_all(struct rc_world *w)
{
	for (int i = 0; i < w->nsides; i++)
		side_poll(&w->sides[i]);
}

static bool all_done(const struct rc_world *w)
{
	for (int i = 0; i < w->nsides; i++)
		if (!side_done(&w->sides[i]))
			return false;
	return true;
}

static void run_until(struct rc_world *w, uint64_t until)
{
	uint32_t skip = 0;

	while (fabric_step(w->fabric, until))
		if (skip-- == 0) {
			skip = (uint32_t)prng_below(w->prng, 4);
			poll_all(w);
		}
	poll_all(w);
}

static void rc_world_run(struct rc_world *w)
{
	uint64_t started = fabric_now(w->fabric);

	while (!all_done(w)) {
		struct side *next = &w->sides[0];

		for (int i = 1; i < w->nsides; i++)
			if (w->sides[i].next_action_ns < next->next_action_ns)
				next = &w->sides[i];
		run_until(w, next->next_action_ns);
		side_act(next);
		poll_all(w);
		if (fabric_now(w->fabric) - started > TIME_LIMIT) {
			for (int i = 0; i < w->nsides; i++)
				fprintf(stderr, "side %d: %u to post, %u sends, %u recvs waiting\n",
					i, w->sides[i].to_post, w->sides[i].nsends,
					w->sides[i].nrecvs);
			rc_world_fail(w, "hangs");
		}
	}
	/* Nothing may come after the last completion; stragglers on the wire do no harm. */
	run_until(w, fabric_now(w->fabric) + 3 * NSEC_PER_SEC);
	for (int i = 0; i < w->nsides; i++) {
		struct side *s = &w->sides[i];

		if ((s->recv_failed || s->send_failed) && !s->gone)
			side_check_flushed(s);
	}
	rc_world_check_end(w);
}

enum { MANY_SEEDS = 200, GAVE_UP_ONE_IN = 10000 /* sends */ };

static void add_up(struct totals *t, const struct rc_world *w)
{
	const struct link_counters *c = link_counters(w->link);

	t->seeds++;
	t->packets += c->sent;
	t->lost += c->lost;
	t->duplicated += c->duplicated;
	t->reordered += c->reordered;
	t->virtual_ns += fabric_now(w->fabric) - FABRIC_BEGIN_NS;
	for (int i = 0; i < w->nsides; i++) {
		t->sends += w->sides[i].done_sends;
		t->recvs += w->sides[i].done_recvs;
		t->errors += w->sides[i].send_failed;
		t->gave_up += w->sides[i].gave_up;
	}
	for (int i = 0; i < w->nnodes; i++) {
		const struct rnic_counters *r = rnic_counters(w->nodes[i].rnic);

		t->local += node_port_counters(w->nodes[i].node)->rx_local;
		t->corrupted += node_port_counters(w->nodes[i].node)->rx_icrc_bad;
		t->retransmitted += r->tx_retransmit;
		t->timeouts += r->timeouts;
		t->rnr_naks += r->tx_rnr_nak;
		t->naks += r->tx_nak_sequence;
		t->probes += r->probes;
		t->implied += r->implied_naks;
		t->kept += r->rx_kept;
		t->sacks += r->rx_sack;
		t->marked += r->rx_ecn_marked;
		t->cnps += r->rx_cnp;
	}
}

/* Of many worlds: a wire that does nothing, or a side that gives up where it could go on, would
 * leave every one of them in order. */
static bool enough_happened(const struct totals *t, bool one_host)
{
	const bool enough = !one_host == !t->local && t->lost && t->corrupted && t->duplicated &&
			    t->reordered && t->retransmitted && t->timeouts && t->probes &&
			    t->rnr_naks && t->naks && t->kept && t->sacks && t->marked && t->cnps;

	if (t->seeds < MANY_SEEDS)
		return true;
	if (!enough)
		fprintf(stderr, "sim_rc: a kind of these never happened, in %llu worlds\n",
			(unsigned long long)t->seeds);
	if (t->gave_up * GAVE_UP_ONE_IN > t->sends)
		fprintf(stderr, "sim_rc: %llu QPs gave up for nothing but the wire\n",
			(unsigned long long)t->gave_up);
	return enough && t->gave_up * GAVE_UP_ONE_IN <= t->sends;
}

static void usage(FILE *f)
{
	fprintf(f,
		"usage: sim_rc [--trace] [--pcap FILE] [--one-host] --seed N | --seeds A..B\n"
		"Runs the RC core in virtual time on a wire that loses, repeats, reorders and\n"
		"corrupts packets, and checks memory and completions against a model.\n"
		"With --one-host most go by memory, past that wire.\n"
		"FILE gets the last world's packets, at both ends of the wire, for wireshark.\n");
}

int main(int argc, char **argv)
{
	unsigned long long from = 0, to = 0;
	struct totals t = {0};
	struct rc_options options = {0};
	bool given = false;
	static struct rc_world w;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			usage(stdout);
			return 0;
		}
		if (strcmp(argv[i], "--trace") == 0) {
			options.trace = true;
		} else if (strcmp(argv[i], "--one-host") == 0) {
			options.one_host = true;
		} else if (strcmp(argv[i], "--pcap") == 0 && i + 1 < argc) {
			options.capture = argv[++i];
		} else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc &&
			   sscanf(argv[i + 1], "%llu", &from) == 1) {
			to = from;
			given = true;
			i++;
		} else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc &&
			   sscanf(argv[i + 1], "%llu..%llu", &from, &to) == 2 && from <= to) {
			given = true;
			i++;
		} else {
			usage(stderr);
			return 2;
		}
	}
	if (!given) {
		usage(stderr);
		return 2;
	}
	signal(SIGABRT, on_abort);
	signal(SIGSEGV, on_abort);
	for (unsigned long long seed = from; seed <= to; seed++) {
		snprintf(replay, sizeof(replay), "replay: %s%s --seed %llu\n", argv[0],
			 options.one_host ? " --one-host" : "", seed);
		rc_world_open(&w, seed, &options);
		rc_world_run(&w);
		add_up(&t, &w);
		rc_world_close(&w);
	}
	printf("%llu seeds: %llu sends and %llu receives completed, %llu QPs ended in error, "
	       "%llu for nothing but the wire\n"
	       "%llu packets: %llu lost, %llu corrupted, %llu repeated, %llu reordered; "
	       "%llu sent again, %llu timeouts, %llu probes, %llu RNR NAKs, %llu sequence NAKs, "
	       "%llu implied, %llu kept, %llu told so; %llu marked, %llu notifications\n",
	       (unsigned long long)t.seeds, (unsigned long long)t.sends,
	       (unsigned long long)t.recvs, (unsigned long long)t.errors,
	       (unsigned long long)t.gave_up, (unsigned long long)t.packets,
	       (unsigned long long)t.lost, (unsigned long long)t.corrupted,
	       (unsigned long long)t.duplicated, (unsigned long long)t.reordered,
	       (unsigned long long)t.retransmitted, (unsigned long long)t.timeouts,
	       (unsigned long long)t.probes, (unsigned long long)t.rnr_naks,
	       (unsigned long long)t.naks, (unsigned long long)t.implied,
	       (unsigned long long)t.kept, (unsigned long long)t.sacks,
	       (unsigned long long)t.marked, (unsigned long long)t.cnps);
	return enough_happened(&t, options.one_host) ? 0 : 1;
}
