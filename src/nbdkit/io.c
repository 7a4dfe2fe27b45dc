/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nbdkit/io.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"

/* Of a Read or Write: NLB has 16 bits. Of a range that is trimmed: 32. */
#define BLOCKS_MAX	 65536u
#define RANGE_BLOCKS_MAX UINT32_MAX

struct io_job {
	struct job job;
	struct worker *w;
	const struct io *io;
	unsigned int pending; /* commands, and the job itself while it submits */
	int error;	      /* of the first that failed; -errno */
	uint16_t status;
	bool flush; /* behind what is done: a trim that is to be durable */
	char *why;
	size_t room;
};

/* NBD has few errors; what else there is would be taken for a fault of the request. */
static int nbd_error(int error)
{
	switch (error) {
	case ENOSPC:
	case EINVAL:
	case ENOMEM:
	case EPERM:
	case EROFS:
		return error;
	case EOPNOTSUPP:
		return EOPNOTSUPP;
	case ERANGE:
		return EINVAL;
	case ENOTCONN:
	case ECANCELED:
		return ESHUTDOWN;
	default:
		return EIO;
	}
}

static void tell(struct io_job *j)
{
	char text[160];
	const char *lost = worker_error(j->w);

	if (j->status)
		snprintf(j->why, j->room, "%s",
			 weft_status_text(j->status, true, text, sizeof(text)));
	else if (j->error == -ENOTCONN && worker_ctrl_number(j->w) != j->io->ctrl_number)
		snprintf(j->why, j->room, "its connection has been given up; open it again");
	else if ((j->error == -ENOTCONN || j->error == -ECANCELED || j->error == -ENODEV) &&
		 lost[0])
		snprintf(j->why, j->room, "%s", lost);
	else
		snprintf(j->why, j->room, "%s", strerror(-j->error));
}

static void failed(struct io_job *j, int error, uint16_t status)
{
	if (j->error)
		return;
	j->error = error;
	j->status = status;
	tell(j);
}

static void one_less(struct io_job *j);

static void command_done(void *arg, const struct weft_result *r)
{
	struct io_job *j = arg;

	if (r->error)
		failed(j, r->error, r->status);
	one_less(j);
}

static void one_less(struct io_job *j)
{
	struct weft_queue *q;

	if (--j->pending)
		return;
	if (j->flush && !j->error) {
		j->flush = false;
		j->pending = 1;
		q = worker_queue(j->w);
		j->error = q ? weft_queue_flush(q, j->io->nsid, 0, command_done, j) : -ENOTCONN;
		if (!j->error)
			return;
		tell(j);
	}
	job_done(j->w, &j->job);
}

static int submit(struct io_job *j, struct weft_queue *q, uint64_t at, uint64_t bytes)
{
	const struct io *io = j->io;
	/* What moves no data has no buffer. */
	const struct iovec iov = {io->buffer ? (uint8_t *)io->buffer + at : NULL, bytes};
	const uint64_t lba = (io->offset + at) / io->block_bytes;
	const uint32_t blocks = (uint32_t)(bytes / io->block_bytes);
	const struct weft_range range = {.lba = lba, .blocks = blocks};
	const unsigned int fua = io->fua ? WEFT_FUA : 0;

	switch (io->kind) {
	case IO_READ:
		return weft_queue_read(q, io->nsid, lba, blocks, &iov, 1, 0, command_done, j);
	case IO_WRITE:
		return weft_queue_write(q, io->nsid, lba, blocks, &iov, 1, fua, command_done, j);
	case IO_FLUSH:
		return weft_queue_flush(q, io->nsid, 0, command_done, j);
	case IO_TRIM:
		return weft_queue_dsm(q, io->nsid, &range, 1, WEFT_DSM_DEALLOCATE, 0, command_done,
				      j);
	case IO_ZERO:
		return weft_queue_write_zeroes(q, io->nsid, lba, blocks,
					       fua | (io->deallocate ? WEFT_DEALLOCATE : 0),
					       command_done, j);
	}
	return -EINVAL;
}

/* Bytes of one command. */
static uint64_t command_max(const struct io *io, struct weft_ctrl *c)
{
	struct weft_ctrl_info info = {0};
	uint64_t most;

	if (io->kind == IO_TRIM)
		return (uint64_t)RANGE_BLOCKS_MAX * io->block_bytes;
	most = (uint64_t)BLOCKS_MAX * io->block_bytes;
	(void)weft_ctrl_info(c, &info, sizeof(info));
	if (io->kind != IO_ZERO && info.transfer_max)
		most = min_of(most,
			      (uint64_t)(info.transfer_max - info.transfer_max % io->block_bytes));
	return most;
}

static void run(struct job *job, struct worker *w)
{
	struct io_job *j = container_of(job, struct io_job, job);
	const struct io *io = j->io;
	uint64_t at = 0, most;
	int error = 0;

	j->pending = 1;
	/* Another controller does not know what is to be behind the namespace's ID. */
	if (!worker_ctrl_now(w) || worker_ctrl_number(w) != io->ctrl_number) {
		failed(j, -ENOTCONN, 0);
		one_less(j);
		return;
	}
	most = command_max(io, worker_ctrl_now(w));
	do {
		uint64_t bytes = min_of(io->count - at, most);

		error = submit(j, worker_queue(w), at, bytes);
		if (error)
			failed(j, error, 0);
		else
			j->pending++;
		at += bytes;
	} while (!error && at < io->count);
	one_less(j);
}

int io_run(struct worker *w, const struct io *io, char *why, size_t room)
{
	struct io_job j = {.job.run = run,
			   .w = w,
			   .io = io,
			   .flush = io->kind == IO_TRIM && io->fua,
			   .why = why,
			   .room = room};

	worker_run(w, &j.job);
	return j.error ? nbd_error(-j.error) : 0;
}
