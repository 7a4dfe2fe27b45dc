/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <isa-l.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/copy.h"

enum {
	ZERO_GRAIN = 16 << 10, /* shorter runs of zeroes are not worth a hole */
	ZEROES_BLOCKS = 65536, /* of one Write Zeroes */
};

static void step_write(struct copy_slot *slot);
static void answered(void *arg, const struct weft_result *result);

static void fail_slot(struct copy_slot *slot)
{
	slot->copy->failed = true;
	slot->step = COPY_IDLE;
	slot->copy->busy--;
}

static void end_slot(struct copy_slot *slot)
{
	struct copy *c = slot->copy;

	slot->step = COPY_IDLE;
	c->busy--;
	c->done += slot->len;
}

/* Whether the destination can be told of zeroes without sending them. */
static bool zeroes_known(const struct copy_end *to)
{
	return to->remote && (to->remote->info.oncs & NVME_ONCS_WRITE_ZEROES);
}

static uint32_t blocks_of(const struct copy_end *e, uint64_t bytes)
{
	return (uint32_t)((bytes + e->ns.block_bytes - 1) / e->ns.block_bytes);
}

/* Neighbouring pieces go through different queues. */
static struct weft_queue *queue_of(const struct copy_slot *slot, const struct copy_end *e)
{
	uint64_t piece = slot->offset / slot->copy->chunk;

	return weft_ctrl_io_queue(e->remote->ctrl,
				  (unsigned int)(piece % e->remote->info.io_queues));
}

/* What submitting came to; where it failed, that is told and the slot is over. */
static void submitted(struct copy_slot *slot, const struct copy_end *e, int rc)
{
	if (!rc)
		return;
	remote_tell_unsent(e->remote, rc);
	fail_slot(slot);
}

static void read_blocks(struct copy_slot *slot, const struct copy_end *e, uint64_t lba,
			uint32_t blocks, uint8_t *buf)
{
	struct iovec iov = {buf, (size_t)blocks * e->ns.block_bytes};

	slot->what = "Read";
	submitted(slot, e,
		  weft_queue_read(queue_of(slot, e), e->ns.nsid, lba, blocks, &iov, 1, 0, answered,
				  slot));
}

static void write_blocks(struct copy_slot *slot, const struct copy_end *e, uint32_t blocks)
{
	struct iovec iov = {slot->data, (size_t)blocks * e->ns.block_bytes};

	slot->step = COPY_WRITE;
	slot->what = "Write";
	submitted(slot, e,
		  weft_queue_write(queue_of(slot, e), e->ns.nsid, slot->offset / e->ns.block_bytes,
				   blocks, &iov, 1, 0, answered, slot));
}

static void write_zeroes(struct copy_slot *slot, const struct copy_end *e, uint32_t blocks)
{
	slot->step = COPY_WRITE;
	slot->what = "Write Zeroes";
	slot->copy->holes += slot->len;
	submitted(slot, e,
		  weft_queue_write_zeroes(
			  queue_of(slot, e), e->ns.nsid, slot->offset / e->ns.block_bytes, blocks,
			  e->ns.zeroes_deallocate ? WEFT_DEALLOCATE : 0, answered, slot));
}

/* Reads len bytes at offset of a file whole; what is beyond its end (it shrank) is an error. */
static bool file_read(const struct copy_end *e, uint8_t *buf, uint64_t len, uint64_t offset)
{
	while (len) {
		ssize_t n = pread(e->fd, buf, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			cli_fail("cannot read %s at byte %llu: %s", e->name,
				 (unsigned long long)offset,
				 n ? strerror(errno) : "it has become shorter");
			return false;
		}
		buf += n;
		len -= (uint64_t)n;
		offset += (uint64_t)n;
	}
	return true;
}

static bool file_write(const struct copy_end *e, const uint8_t *buf, uint64_t len, uint64_t offset)
{
	while (len) {
		ssize_t n = pwrite(e->fd, buf, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			cli_fail("cannot write %s at byte %llu: %s", e->name,
				 (unsigned long long)offset, strerror(errno));
			return false;
		}
		buf += n;
		len -= (uint64_t)n;
		offset += (uint64_t)n;
	}
	return true;
}

static bool all_zero(const uint8_t *p, uint64_t len)
{
	return isal_zero_detect((void *)(uintptr_t)p, len) == 0;
}

/* Leaves runs of zeroes out: the file was made empty and has its size, so they are holes. */
static bool file_write_sparse(struct copy *c, const uint8_t *buf, uint64_t len, uint64_t offset)
{
	uint64_t run = 0;

	for (uint64_t at = 0; at < len; at += ZERO_GRAIN) {
		uint64_t grain = min_of((uint64_t)ZERO_GRAIN, len - at);

		if (!all_zero(buf + at, grain))
			continue;
		if (at > run && !file_write(&c->to, buf + run, at - run, offset + run))
			return false;
		c->holes += grain;
		run = at + grain;
	}
	return run >= len || file_write(&c->to, buf + run, len - run, offset + run);
}

static void compare(struct copy_slot *slot)
{
	struct copy *c = slot->copy;

	if (memcmp(slot->data, slot->other, slot->len) == 0) {
		end_slot(slot);
		return;
	}
	for (uint32_t i = 0; i < slot->len; i++) {
		if (slot->data[i] == slot->other[i])
			continue;
		if (!c->failed)
			cli_fail("%s and %s differ at byte %llu: %02x is %02x", c->from.name,
				 c->to.name, (unsigned long long)(slot->offset + i), slot->data[i],
				 slot->other[i]);
		break;
	}
	fail_slot(slot);
}

/* Whether the block in which the copy ends is to keep what lies behind the end. */
static bool needs_merge(const struct copy_slot *slot)
{
	const struct copy_end *to = &slot->copy->to;

	return to->remote && !slot->copy->comparing && slot->len % to->ns.block_bytes;
}

static void answered(void *arg, const struct weft_result *result)
{
	struct copy_slot *slot = arg;
	struct copy *c = slot->copy;
	struct copy_end *e = slot->step == COPY_READ ? &c->from : &c->to;
	char what[64];

	if (c->failed) {
		fail_slot(slot);
		return;
	}
	if (result->error) {
		snprintf(what, sizeof(what), "%s of bytes %llu to %llu", slot->what,
			 (unsigned long long)slot->offset,
			 (unsigned long long)(slot->offset + slot->len - 1));
		/* A lost association is told once, by the loop. */
		if (result->status || weft_ctrl_state(e->remote->ctrl) != WEFT_CTRL_FAILED)
			remote_tell_result(e->remote, result, true, what);
		fail_slot(slot);
		return;
	}
	switch (slot->step) {
	case COPY_READ:
		step_write(slot);
		break;
	case COPY_MERGE: {
		uint32_t whole = blocks_of(e, slot->len) * e->ns.block_bytes;
		uint32_t last = whole - e->ns.block_bytes;

		memcpy(slot->data + slot->len, slot->other + (slot->len - last), whole - slot->len);
		step_write(slot);
		break;
	}
	case COPY_WRITE:
		end_slot(slot);
		break;
	case COPY_COMPARE:
		compare(slot);
		break;
	case COPY_IDLE:
		break;
	}
}

/* Reads len bytes of one side at the slot's offset; true if they are there already. */
static bool fetch(struct copy_slot *slot, struct copy_end *e, uint8_t *buf)
{
	if (!e->remote) {
		if (file_read(e, buf, slot->len, slot->offset))
			return true;
		fail_slot(slot);
		return false;
	}
	read_blocks(slot, e, slot->offset / e->ns.block_bytes, blocks_of(e, slot->len), buf);
	return false;
}

static void step_read(struct copy_slot *slot)
{
	slot->step = COPY_READ;
	if (fetch(slot, &slot->copy->from, slot->data))
		step_write(slot);
}

/* The data is there: compare it, complete its last block, or write it. */
static void step_write(struct copy_slot *slot)
{
	struct copy *c = slot->copy;
	struct copy_end *to = &c->to;
	uint32_t blocks;

	if (c->comparing) {
		slot->step = COPY_COMPARE;
		if (fetch(slot, to, slot->other))
			compare(slot);
		return;
	}
	if (!to->remote) {
		if (to->regular ? file_write_sparse(c, slot->data, slot->len, slot->offset)
				: file_write(to, slot->data, slot->len, slot->offset))
			end_slot(slot);
		else
			fail_slot(slot);
		return;
	}
	blocks = blocks_of(to, slot->len);
	if (needs_merge(slot) && slot->step != COPY_MERGE) {
		slot->step = COPY_MERGE;
		read_blocks(slot, to, slot->offset / to->ns.block_bytes + blocks - 1, 1,
			    slot->other);
	} else if (zeroes_known(to) && slot->len % to->ns.block_bytes == 0 &&
		   all_zero(slot->data, slot->len)) {
		write_zeroes(slot, to, blocks);
	} else {
		write_blocks(slot, to, blocks);
	}
}

/* Where the source has a hole from offset on, and how far: 0 if there is data. */
static uint64_t hole_at(struct copy *c, uint64_t offset)
{
	off_t data;

	if (c->from.remote || !c->from.regular || c->comparing)
		return 0;
	data = lseek(c->from.fd, (off_t)offset, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? c->bytes : 0; /* a hole to the end, or no such knowledge */
	return (uint64_t)data > offset ? min_of((uint64_t)data, c->bytes) : 0;
}

/* A piece of a hole: zeroes on the namespace, without sending any where it can. */
static void start_hole(struct copy_slot *slot)
{
	struct copy *c = slot->copy;
	const struct copy_end *to = &c->to;
	uint64_t max = (uint64_t)ZEROES_BLOCKS * to->ns.block_bytes;
	uint64_t len = c->hole_end - c->next;

	max = min_of(max, (uint64_t)UINT32_MAX); /* of blocks of 64 KiB there are too many bytes */
	max -= max % to->ns.block_bytes;
	/* Only whole blocks; what is left over is read as zeroes like any data. */
	len -= len % to->ns.block_bytes;
	len = min_of(len, max);
	slot->offset = c->next;
	slot->len = (uint32_t)len;
	c->next += len;
	write_zeroes(slot, to, blocks_of(to, len));
}

static void start_slot(struct copy_slot *slot)
{
	struct copy *c = slot->copy;
	bool zeroes = zeroes_known(&c->to);
	uint64_t limit = c->bytes;

	c->busy++;
	if (c->next >= c->hole_end)
		c->hole_end = zeroes ? hole_at(c, c->next) : 0;
	if (zeroes && c->hole_end >= c->next + c->to.ns.block_bytes) {
		start_hole(slot);
		return;
	}
	slot->offset = c->next;
	slot->len = (uint32_t)min_of((uint64_t)c->chunk, limit - c->next);
	c->next += slot->len;
	step_read(slot);
}

bool copy_init(struct copy *c, uint32_t depth, uint32_t chunk_max)
{
	struct remote *first = c->from.remote ? c->from.remote : c->to.remote;
	struct remote *second = first != c->to.remote ? c->to.remote : NULL;
	uint32_t align = 1;
	uint8_t *data, *other;

	c->chunk = min_of(chunk_max, first->info.transfer_max);
	if (c->from.remote)
		align = max_of(align, c->from.ns.block_bytes);
	if (c->to.remote)
		align = max_of(align, c->to.ns.block_bytes);
	if (second)
		c->chunk = min_of(c->chunk, second->info.transfer_max);
	c->chunk = (uint32_t)min_of((uint64_t)c->chunk, (uint64_t)ZEROES_BLOCKS * 512);
	c->chunk -= c->chunk % align;
	c->depth = depth;
	if (c->chunk == 0) {
		cli_fail("a block of %u bytes is more than a command may transfer", align);
		return false;
	}
	c->slots = calloc(depth, sizeof(*c->slots));
	data = remote_alloc(first, (size_t)depth * c->chunk);
	other = remote_alloc(first, (size_t)depth * c->chunk);
	if (!c->slots || !data || !other)
		return false;
	if (second && (!remote_share(second, data, (size_t)depth * c->chunk) ||
		       !remote_share(second, other, (size_t)depth * c->chunk)))
		return false;
	for (uint32_t i = 0; i < depth; i++) {
		c->slots[i] = (struct copy_slot){
			.copy = c,
			.data = data + (size_t)i * c->chunk,
			.other = other + (size_t)i * c->chunk,
		};
	}
	return true;
}

static void note_reconnect(struct copy *c)
{
	const struct remote *r = c->to.remote;
	struct weft_ctrl_info info;

	if (!r || r->reconnects == c->reconnects)
		return;
	c->reconnects = r->reconnects;
	(void)weft_ctrl_info(r->ctrl, &info, sizeof(info));
	if (info.volatile_cache)
		c->suspect = c->next;
}

static bool run(struct copy *c, const char *what)
{
	c->next = c->done = c->hole_end = 0;
	progress_start(&c->progress, what, c->bytes, time_now_ns());
	while (!c->failed && c->done < c->bytes) {
		for (uint32_t i = 0; i < c->depth && !c->failed && c->next < c->bytes; i++)
			if (c->slots[i].step == COPY_IDLE)
				start_slot(&c->slots[i]);
		if (c->failed || c->done >= c->bytes)
			break;
		if (!remote_turn(UINT64_MAX))
			c->failed = true;
		if (!c->comparing)
			note_reconnect(c);
		progress_show(&c->progress, c->done, time_now_ns());
	}
	progress_stop(&c->progress);
	return !c->failed;
}

static bool make_durable(struct copy *c)
{
	struct remote_answer a = {0};
	struct remote *r = c->to.remote;

	if (r)
		return remote_expect(r,
				     weft_queue_flush(weft_ctrl_io_queue(r->ctrl, 0), c->to.ns.nsid,
						      0, remote_answered, &a),
				     &a, true, "Flush");
	/* A pipe or terminal has nothing to make durable. */
	if (fsync(c->to.fd) == 0 || errno == EINVAL || errno == EROFS)
		return true;
	cli_fail("cannot write %s: %s", c->to.name, strerror(errno));
	return false;
}

bool copy_run(struct copy *c)
{
	uint64_t all = c->bytes, holes;
	char text[32];
	bool ok;

	ok = run(c, "copying") && make_durable(c);
	holes = c->holes;
	for (note_reconnect(c); ok && c->suspect; note_reconnect(c)) {
		cli_warn("%s may have lost what was not flushed when its connection was: copying "
			 "%s again",
			 c->to.name, text_bytes(text, sizeof(text), c->suspect));
		c->bytes = c->suspect;
		c->suspect = 0;
		ok = run(c, "copying again") && make_durable(c);
	}
	c->bytes = all;
	c->holes = holes;
	return ok;
}

bool copy_verify(struct copy *c)
{
	c->comparing = true;
	return run(c, "verifying");
}

void copy_fini(struct copy *c)
{
	free(c->slots);
}
