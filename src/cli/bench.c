/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/bench.h"
#include "cli/bench_pattern.h"
#include "cli/cli.h"
#include "cli/snapshot.h"

static void done(struct host_request *req, uint64_t now_ns);

/* xorshift64* */
static uint64_t random_next(struct bench *b)
{
	b->random ^= b->random >> 12;
	b->random ^= b->random << 25;
	b->random ^= b->random >> 27;
	return b->random * 0x2545f4914f6cdd1dull;
}

static bool writes(struct bench *b)
{
	switch (b->config.mode) {
	case BENCH_WRITE:
	case BENCH_RANDWRITE:
		return true;
	case BENCH_RANDRW:
		return random_next(b) % 100 >= b->config.read_percent;
	case BENCH_READ:
	case BENCH_RANDREAD:
		return false;
	}
	return false;
}

static bool random_order(const struct bench *b)
{
	return !b->checking && b->config.mode != BENCH_READ && b->config.mode != BENCH_WRITE;
}

/*
 * The block for the next command; false if there is none now. While verifying no two commands
 * are on one block at a time, as nobody could say which came first.
 */
static bool pick(struct bench *b, uint64_t *ret_index)
{
	uint64_t index;

	if (b->checking) {
		while (b->next < b->blocks && b->generations[b->next] == 0)
			b->next++;
		if (b->next == b->blocks)
			return false;
		*ret_index = b->next++;
		return true;
	}
	if (b->started == b->to_start)
		return false;
	if (random_order(b)) {
		index = random_next(b) % b->blocks;
		for (uint64_t tries = 0; b->taken && b->taken[index]; tries++) {
			if (tries == b->blocks)
				return false;
			index = (index + 1) % b->blocks;
		}
	} else {
		index = b->next % b->blocks;
		if (b->taken && b->taken[index])
			return false;
		b->next++;
	}
	b->started++;
	*ret_index = index;
	return true;
}

/* Commands that could not be started in their time are made up for. */
static bool too_early(const struct bench *b)
{
	return b->config.interval_ns && !b->checking && time_now_ns() < b->due_ns;
}

static void stop_for_failure(struct bench *b)
{
	b->failed = b->stopping = true;
}

/* Starts a command in an idle slot; leaves it idle when there is nothing (more) to do. */
static void start(struct bench_slot *slot)
{
	struct bench *b = slot->bench;
	struct session *s = b->session;
	uint32_t bytes = b->config.block_bytes, blocks = bytes / b->ns.block_bytes;
	uint16_t qid = (uint16_t)(1 + (slot - b->slots) % s->host.io_queues);
	uint64_t slba;

	if (b->stopping || too_early(b) || !pick(b, &slot->index))
		return;
	b->due_ns += b->config.interval_ns;
	slot->writing = !b->checking && writes(b);
	slba = slot->index * blocks;
	if (b->taken)
		b->taken[slot->index] = 1;
	if (slot->writing) {
		if (b->generations) {
			b->generations[slot->index]++;
			pattern_fill(slot->buffer, bytes, slot->index * bytes,
				     b->generations[slot->index]);
		}
		host_prepare_write(&slot->req, b->ns.nsid, slba, blocks, slot->buffer, bytes,
				   false);
	} else {
		host_prepare_read(&slot->req, b->ns.nsid, slba, blocks, slot->buffer, bytes);
	}
	slot->busy = true;
	b->busy++;
	slot->start_ns = time_now_ns();
	if (host_submit(&s->host, qid, &slot->req, slot->start_ns)) {
		slot->busy = false;
		b->busy--;
		stop_for_failure(b);
	}
}

static void check_block(struct bench_slot *slot)
{
	struct bench *b = slot->bench;
	uint32_t generation = b->generations[slot->index];
	uint64_t offset = slot->index * b->config.block_bytes;
	bool mixed = b->config.mode == BENCH_RANDRW;
	const char *why;

	/* In a mix, what this run has not written may hold anything. */
	if (generation == 0 && mixed)
		return;
	why = pattern_check(slot->buffer, b->config.block_bytes, offset, generation);
	if (!why)
		return;
	if (!b->failed)
		cli_fail("block of %u bytes at byte %llu of namespace %u is wrong: %s",
			 b->config.block_bytes, (unsigned long long)offset, b->ns.nsid, why);
	stop_for_failure(b);
}

static bool request_failed(struct bench_slot *slot)
{
	struct bench *b = slot->bench;
	struct session *s = b->session;
	const struct host_request *req = &slot->req;
	char what[64];

	if (!req->error && !(req->cqe.status & NVME_STATUS_CODE))
		return false;
	snprintf(what, sizeof(what), "%s of %u bytes at byte %llu",
		 slot->writing ? "Write" : "Read", b->config.block_bytes,
		 (unsigned long long)(slot->index * b->config.block_bytes));
	/* A lost association is told by the loop. */
	if (!b->failed && (!req->error || s->host.state == HOST_LIVE))
		session_tell_request(s, req, true, what);
	stop_for_failure(b);
	return true;
}

static void done(struct host_request *req, uint64_t now_ns)
{
	struct bench_slot *slot = req->arg;
	struct bench *b = slot->bench;
	struct bench_side *side = b->checking ? &b->check : slot->writing ? &b->write : &b->read;
	uint64_t end_ns = time_now_ns();

	(void)now_ns;
	slot->busy = false;
	b->busy--;
	if (b->taken)
		b->taken[slot->index] = 0;
	if (request_failed(slot))
		return;
	if (!slot->writing && b->generations)
		check_block(slot);
	b->last_ns = end_ns;
	side->ios++;
	side->bytes += b->config.block_bytes;
	histogram_add(&side->latency, end_ns - slot->start_ns);
	if (end_ns >= b->end_ns)
		b->stopping = true;
	start(slot);
}

static void show_progress(struct bench *b, uint64_t now_ns)
{
	uint64_t ios = b->read.ios + b->write.ios, bytes = b->read.bytes + b->write.bytes;
	double s = (double)(now_ns - b->start_ns) / 1e9, fraction;
	char rate[32];

	if (b->checking)
		fraction = (double)b->next / (double)b->blocks;
	else if (b->config.runtime_ns)
		fraction = s * 1e9 / (double)b->config.runtime_ns;
	else
		fraction = (double)ios / (double)b->blocks;
	if (b->checking)
		progress_tell(&b->progress, fraction, now_ns, "reading back");
	else
		progress_tell(
			&b->progress, fraction < 1 ? fraction : 1, now_ns, "%.0f IOPS  %s/s",
			s > 0 ? (double)ios / s : 0,
			text_bytes(rate, sizeof(rate), s > 0 ? (uint64_t)((double)bytes / s) : 0));
}

static bool loop(struct bench *b)
{
	uint64_t until_ns, now_ns;

	do {
		for (uint32_t i = 0; i < b->config.depth && !b->stopping; i++)
			if (!b->slots[i].busy)
				start(&b->slots[i]);
		if (b->busy == 0 && !too_early(b))
			break;
		until_ns = too_early(b) && b->busy < b->config.depth ? min_of(b->end_ns, b->due_ns)
								     : b->end_ns;
		if (!session_turn(&b->session, 1, until_ns))
			return false;
		now_ns = time_now_ns();
		if (now_ns >= b->end_ns)
			b->stopping = true;
		if (b->progress.on)
			show_progress(b, now_ns);
	} while (b->busy || !b->stopping);
	return !b->failed;
}

/* Of a run that was cut short, what came behind its last answer was no measuring. */
static uint64_t measured(const struct bench *b, uint64_t start_ns, bool ok)
{
	return ok ? time_now_ns() - start_ns : max_of(b->last_ns, start_ns) - start_ns;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

bool bench_init(struct bench *b)
{
	const struct bench_config *c = &b->config;
	uint8_t *memory;

	b->blocks = c->area_bytes / c->block_bytes;
	b->to_start = c->runtime_ns ? UINT64_MAX : b->blocks;
	b->random = c->seed ? c->seed : 0x9e3779b97f4a7c15ull;
	b->slots = calloc(c->depth, sizeof(*b->slots));
	memory = session_alloc(b->session, (size_t)c->depth * c->block_bytes);
	if (!b->slots || !memory)
		return false;
	for (uint32_t i = 0; i < c->depth; i++) {
		b->slots[i] = (struct bench_slot){
			.bench = b,
			.buffer = memory + (size_t)i * c->block_bytes,
			.req = {.done = done, .arg = &b->slots[i], .again = true},
		};
		/* Nothing that a store could make a hole of. */
		pattern_fill(b->slots[i].buffer, c->block_bytes, i, 0);
	}
	if (!c->verify)
		return true;
	b->generations = calloc(b->blocks, sizeof(*b->generations));
	b->taken = calloc(b->blocks, sizeof(*b->taken));
	if (b->generations && b->taken)
		return true;
	cli_fail("cannot get memory to keep track of %llu blocks; say a smaller --size",
		 (unsigned long long)b->blocks);
	return false;
}

/* Of this process. False: its RNIC is not ours. */
static bool look(struct bench_rnic *ret)
{
	struct seen s;
	bool ok;

	if (seen_open(&s, getpid(), false))
		return false;
	ok = seen_read(&s) == 0 && seen_room(&s, "core", 0);
	*ret = (struct bench_rnic){
		.tx_packets = seen_sum(&s, "core", "tx_packets"),
		.rx_packets = seen_sum(&s, "core", "rx_packets"),
		.retransmits = seen_sum(&s, "core", "tx_retransmit"),
		.naks_received = seen_sum(&s, "core", "rx_nak_sequence"),
		.naks_sent = seen_sum(&s, "core", "tx_nak_sequence"),
		.rnr_naks_received = seen_sum(&s, "core", "rx_rnr_nak"),
		.rnr_naks_sent = seen_sum(&s, "core", "tx_rnr_nak"),
		.probes = seen_sum(&s, "core", "probes"),
		.timeouts = seen_sum(&s, "core", "timeouts"),
		.window_stalls = seen_sum(&s, "core", "window_stalls"),
		.budget_stalls = seen_sum(&s, "core", "budget_stalls"),
		.drops = seen_core_drops(&s),
		.socket_drops = s.drops,
	};
	seen_close(&s);
	return ok;
}

static void subtract(struct bench_rnic *n, const struct bench_rnic *before)
{
	n->tx_packets -= before->tx_packets;
	n->rx_packets -= before->rx_packets;
	n->retransmits -= before->retransmits;
	n->naks_received -= before->naks_received;
	n->naks_sent -= before->naks_sent;
	n->rnr_naks_received -= before->rnr_naks_received;
	n->rnr_naks_sent -= before->rnr_naks_sent;
	n->probes -= before->probes;
	n->timeouts -= before->timeouts;
	n->window_stalls -= before->window_stalls;
	n->budget_stalls -= before->budget_stalls;
	n->drops -= before->drops;
	n->socket_drops -= before->socket_drops;
}

bool bench_run(struct bench *b)
{
	uint64_t start_ns = time_now_ns();
	struct rusage before, after;
	bool ok;

	b->seen = look(&b->before);
	getrusage(RUSAGE_SELF, &before);
	b->start_ns = b->due_ns = start_ns;
	b->end_ns = b->config.runtime_ns ? start_ns + b->config.runtime_ns : UINT64_MAX;
	progress_start(&b->progress, "measuring", 0, start_ns);
	ok = loop(b);
	progress_stop(&b->progress);
	b->took_ns = measured(b, start_ns, ok);
	getrusage(RUSAGE_SELF, &after);
	b->cpu_user_s = seconds(after.ru_utime) - seconds(before.ru_utime);
	b->cpu_system_s = seconds(after.ru_stime) - seconds(before.ru_stime);
	b->switches =
		(uint64_t)(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw);
	b->major_faults = (uint64_t)(after.ru_majflt - before.ru_majflt);
	b->minor_faults = (uint64_t)(after.ru_minflt - before.ru_minflt);
	b->seen = b->seen && look(&b->rnic);
	subtract(&b->rnic, &b->before);
	if (!ok || !b->config.verify || b->write.ios == 0)
		return ok;
	b->checking = true;
	b->stopping = false;
	b->next = 0;
	b->end_ns = UINT64_MAX;
	start_ns = time_now_ns();
	progress_start(&b->progress, "verifying", 0, start_ns);
	ok = loop(b);
	progress_stop(&b->progress);
	b->check_ns = measured(b, start_ns, ok);
	return ok;
}

void bench_fini(struct bench *b)
{
	free(b->slots);
	free(b->generations);
	free(b->taken);
}
