/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/snapshot.h"

static void done(void *arg, const struct weft_result *result);

/* xorshift64* */
static uint64_t random_next(struct bench_job *j)
{
	j->random ^= j->random >> 12;
	j->random ^= j->random << 25;
	j->random ^= j->random >> 27;
	return j->random * 0x2545f4914f6cdd1dull;
}

static enum bench_side_kind next_kind(struct bench_job *j)
{
	switch (j->bench->config.mode) {
	case BENCH_WRITE:
	case BENCH_RANDWRITE:
		return BENCH_WRITES;
	case BENCH_RW:
	case BENCH_RANDRW:
		return random_next(j) % 100 >= j->bench->config.read_percent ? BENCH_WRITES
									     : BENCH_READS;
	case BENCH_TRIM:
	case BENCH_RANDTRIM:
		return BENCH_TRIMS;
	case BENCH_READ:
	case BENCH_RANDREAD:
		return BENCH_READS;
	}
	return BENCH_READS;
}

static bool random_order(const struct bench *b)
{
	switch (b->config.mode) {
	case BENCH_READ:
	case BENCH_WRITE:
	case BENCH_RW:
	case BENCH_TRIM:
		return false;
	case BENCH_RANDREAD:
	case BENCH_RANDWRITE:
	case BENCH_RANDRW:
	case BENCH_RANDTRIM:
		return true;
	}
	return true;
}

/* The next that was written, for the reading back. */
static bool pick_written(struct bench *b, uint64_t *ret_index)
{
	while (b->check_next < b->blocks && b->generations[b->check_next] == 0)
		b->check_next++;
	if (b->check_next == b->blocks)
		return false;
	*ret_index = b->check_next++;
	return true;
}

/*
 * The block for the next command; false if there is none now. While verifying no two commands
 * are on one block at a time, as nobody could say which came first.
 */
static bool pick(struct bench_job *j, uint64_t *ret_index)
{
	struct bench *b = j->bench;
	uint64_t index;

	if (b->checking)
		return pick_written(b, ret_index);
	if (j->started == b->to_start)
		return false;
	if (random_order(b)) {
		index = random_next(j) % b->blocks;
		for (uint64_t tries = 0; b->taken && b->taken[index]; tries++) {
			if (tries == b->blocks)
				return false;
			index = (index + 1) % b->blocks;
		}
	} else {
		index = j->next % b->blocks;
		if (b->taken && b->taken[index])
			return false;
		j->next++;
	}
	j->started++;
	*ret_index = index;
	return true;
}

/* Commands that could not be started in their time are made up for. */
static bool too_early(const struct bench_job *j)
{
	const struct bench *b = j->bench;

	return b->config.interval_ns && !b->checking && time_now_ns() < j->due_ns;
}

/* Where a block of the area begins in the namespace. */
static uint64_t place(const struct bench *b, uint64_t index)
{
	return b->config.offset + index * b->config.block_bytes;
}

/* A job's queues are its own, as far as the controller has granted so many. */
static struct weft_queue *queue_of(const struct bench *b, uint32_t slot)
{
	uint32_t job = slot / b->config.depth;
	uint32_t within = slot % b->config.depth % b->config.queues;

	return weft_ctrl_io_queue(b->remote->ctrl, job * b->config.queues + within);
}

static void stop_for_failure(struct bench *b)
{
	b->failed = b->stopping = true;
}

static int submit(struct bench_slot *slot)
{
	struct bench *b = slot->bench;
	uint32_t bytes = b->config.block_bytes, blocks = bytes / b->ns.block_bytes;
	uint64_t slba = place(b, slot->index) / b->ns.block_bytes;
	struct iovec iov = {slot->buffer, bytes};

	switch (slot->kind) {
	case BENCH_WRITES:
		return weft_queue_write(slot->queue, b->ns.nsid, slba, blocks, &iov, 1, 0, done,
					slot);
	case BENCH_TRIMS:
		return weft_queue_dsm(slot->queue, b->ns.nsid,
				      &(struct weft_range){.lba = slba, .blocks = blocks}, 1,
				      WEFT_DSM_DEALLOCATE, 0, done, slot);
	default:
		return weft_queue_read(slot->queue, b->ns.nsid, slba, blocks, &iov, 1, 0, done,
				       slot);
	}
}

/* Starts a command in an idle slot; leaves it idle when there is nothing (more) to do. */
static void start(struct bench_slot *slot)
{
	struct bench *b = slot->bench;
	int rc;

	if (b->stopping || too_early(slot->job) || !pick(slot->job, &slot->index))
		return;
	slot->job->due_ns += b->config.interval_ns;
	slot->kind = b->checking ? BENCH_READS : next_kind(slot->job);
	if (b->taken)
		b->taken[slot->index] = 1;
	if (slot->kind == BENCH_WRITES && b->generations) {
		b->generations[slot->index]++;
		pattern_fill(&b->config.pattern, slot->buffer, b->config.block_bytes,
			     place(b, slot->index), b->generations[slot->index]);
	}
	slot->busy = true;
	b->busy++;
	slot->start_ns = time_now_ns();
	rc = submit(slot);
	if (rc) {
		slot->busy = false;
		b->busy--;
		if (rc == -ENODEV && !b->failed)
			remote_tell_unsent(b->remote, rc);
		stop_for_failure(b);
	}
}

static void check_block(struct bench_slot *slot)
{
	struct bench *b = slot->bench;
	uint32_t generation = b->generations[slot->index];
	uint64_t offset = place(b, slot->index);
	bool mixed = b->config.mode == BENCH_RW || b->config.mode == BENCH_RANDRW;
	const char *why;

	/* In a mix, what this run has not written may hold anything. */
	if (generation == 0 && mixed)
		return;
	why = pattern_check(&b->config.pattern, slot->buffer, b->config.block_bytes, offset,
			    generation);
	if (!why)
		return;
	if (!b->failed)
		cli_fail("block of %u bytes at byte %llu of namespace %u is wrong: %s",
			 b->config.block_bytes, (unsigned long long)offset, b->ns.nsid, why);
	stop_for_failure(b);
}

static bool request_failed(struct bench_slot *slot, const struct weft_result *result)
{
	static const char *const names[] = {
		[BENCH_READS] = "Read", [BENCH_WRITES] = "Write", [BENCH_TRIMS] = "Deallocate"};
	struct bench *b = slot->bench;
	char what[64];

	if (!result->error)
		return false;
	snprintf(what, sizeof(what), "%s of %u bytes at byte %llu", names[slot->kind],
		 b->config.block_bytes, (unsigned long long)place(b, slot->index));
	/* A lost association is told by the loop. */
	if (!b->failed && (result->status || result->error == -ENODEV ||
			   weft_ctrl_state(b->remote->ctrl) == WEFT_CTRL_LIVE))
		remote_tell_result(b->remote, result, true, what);
	stop_for_failure(b);
	return true;
}

static void done(void *arg, const struct weft_result *result)
{
	struct bench_slot *slot = arg;
	struct bench *b = slot->bench;
	struct bench_job *j = slot->job;
	struct bench_side *side = b->checking ? &b->check : &j->sides[slot->kind];
	uint64_t end_ns = time_now_ns();

	slot->busy = false;
	b->busy--;
	if (b->taken)
		b->taken[slot->index] = 0;
	if (request_failed(slot, result))
		return;
	if (slot->kind == BENCH_READS && b->generations)
		check_block(slot);
	b->last_ns = end_ns;
	if (!b->checking)
		j->last_ns = end_ns;
	side->ios++;
	side->bytes += b->config.block_bytes;
	histogram_add(&side->latency, end_ns - slot->start_ns);
	if (end_ns >= b->end_ns)
		b->stopping = true;
	start(slot);
}

static void sum(struct bench *b, uint64_t *ret_ios, uint64_t *ret_bytes)
{
	*ret_ios = *ret_bytes = 0;
	for (uint32_t i = 0; i < b->config.jobs; i++)
		for (int n = 0; n < BENCH_SIDES; n++) {
			*ret_ios += b->jobs[i].sides[n].ios;
			*ret_bytes += b->jobs[i].sides[n].bytes;
		}
}

static void show_progress(struct bench *b, uint64_t now_ns)
{
	double s = (double)(now_ns - b->start_ns) / 1e9, fraction;
	uint64_t ios, bytes;
	char rate[32];

	sum(b, &ios, &bytes);
	if (b->checking)
		fraction = (double)b->check_next / (double)b->blocks;
	else if (b->config.runtime_ns)
		fraction = s * 1e9 / (double)b->config.runtime_ns;
	else
		fraction = (double)ios / (double)b->blocks / b->config.jobs;
	if (b->checking)
		progress_tell(&b->progress, fraction, now_ns, "reading back");
	else
		progress_tell(
			&b->progress, fraction < 1 ? fraction : 1, now_ns, "%.0f IOPS  %s/s",
			s > 0 ? (double)ios / s : 0,
			text_bytes(rate, sizeof(rate), s > 0 ? (uint64_t)((double)bytes / s) : 0));
}

/* Lets idle slots go on; when the first of those may that are too early, UINT64_MAX if none is. */
static uint64_t start_all(struct bench *b)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < b->slot_count && !b->stopping; i++) {
		struct bench_slot *slot = &b->slots[i];

		if (slot->busy)
			continue;
		start(slot);
		if (!slot->busy && too_early(slot->job))
			due_ns = min_of(due_ns, slot->job->due_ns);
	}
	return due_ns;
}

/* The ramp is over: what was counted until now is forgotten. */
static void begin_to_count(struct bench *b, uint64_t now_ns)
{
	for (uint32_t i = 0; i < b->config.jobs; i++)
		memset(b->jobs[i].sides, 0, sizeof(b->jobs[i].sides));
	b->ramp_end_ns = 0;
	b->start_ns = now_ns;
	if (b->config.runtime_ns)
		b->end_ns = now_ns + b->config.runtime_ns;
}

static bool loop(struct bench *b)
{
	uint64_t due_ns, now_ns;

	do {
		due_ns = start_all(b);
		if (b->busy == 0 && due_ns == UINT64_MAX)
			break;
		due_ns = min_of(due_ns, b->end_ns);
		if (b->ramp_end_ns)
			due_ns = min_of(due_ns, b->ramp_end_ns);
		if (!remote_turn(due_ns))
			return false;
		now_ns = time_now_ns();
		if (b->ramp_end_ns && now_ns >= b->ramp_end_ns)
			begin_to_count(b, now_ns);
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

static void init_slots(struct bench *b, uint8_t *memory)
{
	const struct bench_config *c = &b->config;

	for (uint32_t i = 0; i < b->slot_count; i++) {
		b->slots[i] = (struct bench_slot){
			.bench = b,
			.job = &b->jobs[i / c->depth],
			.buffer = memory + (size_t)i * c->block_bytes,
			.queue = queue_of(b, i),
		};
		/* Nothing that a store could make a hole of. */
		pattern_fill(&c->pattern, b->slots[i].buffer, c->block_bytes, i, 0);
	}
}

bool bench_init(struct bench *b)
{
	const struct bench_config *c = &b->config;
	uint8_t *memory;

	b->blocks = c->area_bytes / c->block_bytes;
	b->to_start = c->runtime_ns ? UINT64_MAX : b->blocks;
	b->slot_count = c->jobs * c->depth;
	b->slots = calloc(b->slot_count, sizeof(*b->slots));
	b->jobs = calloc(c->jobs, sizeof(*b->jobs));
	memory = remote_alloc(b->remote, (size_t)b->slot_count * c->block_bytes);
	if (!b->slots || !b->jobs || !memory)
		return false;
	for (uint32_t i = 0; i < c->jobs; i++) {
		b->jobs[i].bench = b;
		b->jobs[i].random = c->seed + i * 0x9e3779b97f4a7c15ull;
		if (!b->jobs[i].random)
			b->jobs[i].random = 1;
	}
	init_slots(b, memory);
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
		.sacks_received = seen_sum(&s, "core", "rx_sack"),
		.sacks_sent = seen_sum(&s, "core", "tx_sack"),
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
	n->sacks_received -= before->sacks_received;
	n->sacks_sent -= before->sacks_sent;
	n->rnr_naks_received -= before->rnr_naks_received;
	n->rnr_naks_sent -= before->rnr_naks_sent;
	n->probes -= before->probes;
	n->timeouts -= before->timeouts;
	n->window_stalls -= before->window_stalls;
	n->budget_stalls -= before->budget_stalls;
	n->drops -= before->drops;
	n->socket_drops -= before->socket_drops;
}

static void merge(struct bench_side *into, const struct bench_side *from)
{
	into->ios += from->ios;
	into->bytes += from->bytes;
	histogram_merge(&into->latency, &from->latency);
}

bool bench_run(struct bench *b)
{
	uint64_t start_ns = time_now_ns();
	struct rusage before, after;
	bool ok;

	b->seen = look(&b->before);
	getrusage(RUSAGE_SELF, &before);
	b->start_ns = start_ns;
	for (uint32_t i = 0; i < b->config.jobs; i++)
		b->jobs[i].due_ns = start_ns;
	if (b->config.ramp_ns)
		b->ramp_end_ns = start_ns + b->config.ramp_ns;
	b->end_ns = b->config.runtime_ns ? start_ns + b->config.ramp_ns + b->config.runtime_ns
					 : UINT64_MAX;
	progress_start(&b->progress, "measuring", 0, start_ns);
	ok = loop(b);
	progress_stop(&b->progress);
	b->took_ns = measured(b, b->start_ns, ok);
	getrusage(RUSAGE_SELF, &after);
	for (uint32_t i = 0; i < b->config.jobs; i++)
		for (int n = 0; n < BENCH_SIDES; n++)
			merge(&b->sides[n], &b->jobs[i].sides[n]);
	b->cpu_user_s = seconds(after.ru_utime) - seconds(before.ru_utime);
	b->cpu_system_s = seconds(after.ru_stime) - seconds(before.ru_stime);
	b->switches =
		(uint64_t)(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw);
	b->major_faults = (uint64_t)(after.ru_majflt - before.ru_majflt);
	b->minor_faults = (uint64_t)(after.ru_minflt - before.ru_minflt);
	b->seen = b->seen && look(&b->rnic);
	subtract(&b->rnic, &b->before);
	if (!ok || !b->config.verify || !b->config.read_back || b->sides[BENCH_WRITES].ios == 0)
		return ok;
	b->checking = true;
	b->stopping = false;
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
	free(b->jobs);
	free(b->generations);
	free(b->taken);
}
