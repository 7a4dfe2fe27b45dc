/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine: reads and writes through io_uring as far as they need not wait for anything but the
 * disk's answer, everything else (and all of it where there is no io_uring: seccomp and sysctl may
 * forbid it) through threads of the store. Both wake the same eventfd.
 *
 * io_uring has threads of its own for what must wait, but they are one task's: as many as would
 * hang on one disk are missed by the others, and writes to one file wait for those to another of
 * which the kernel has the same hash (of 64). And a file of FUSE it reads in the thread that
 * submits. So it is asked for nothing that waits (RWF_NOWAIT).
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "store/internal.h"

#define RING_ENTRIES 256

struct store_engine {
	int event_fd;
	bool uring;
	struct io_uring ring;
	unsigned queued;     /* entries of the ring not yet handed to the kernel */
	struct list waiting; /* operations the ring had no room for */
	struct finished finished;
	bool measured;
};

int store_engine_create(enum store_engine_kind kind, struct store_engine **ret)
{
	struct store_engine *e = calloc(1, sizeof(*e));
	int error;

	if (!e)
		return -ENOMEM;
	list_init(&e->waiting);
	e->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (e->event_fd < 0) {
		error = -errno;
		goto free_engine;
	}
	finished_init(&e->finished, e->event_fd);
	if (kind == STORE_ENGINE_AUTO) {
		error = io_uring_queue_init(RING_ENTRIES, &e->ring, 0);
		if (error == 0) {
			error = io_uring_register_eventfd(&e->ring, e->event_fd);
			if (error)
				io_uring_queue_exit(&e->ring);
		}
		e->uring = error == 0;
		if (error)
			log_info("store", "no io_uring here (error %d): using threads", -error);
	}
	*ret = e;
	return 0;
free_engine:
	free(e);
	return error;
}

void store_engine_destroy(struct store_engine *e)
{
	finished_fini(&e->finished);
	if (e->uring)
		io_uring_queue_exit(&e->ring);
	close(e->event_fd);
	free(e);
}

const char *store_engine_name(const struct store_engine *e)
{
	return e->uring ? "io_uring" : "threads";
}

int store_engine_fd(const struct store_engine *e)
{
	return e->event_fd;
}

struct finished *engine_finished(struct store_engine *e)
{
	return &e->finished;
}

void engine_measured(struct store_engine *e)
{
	e->measured = true;
}

bool store_engine_measured(struct store_engine *e)
{
	bool measured = e->measured;

	e->measured = false;
	return measured;
}

/* --- threads ---------------------------------------------------------------------------------- */

static void pool_take(struct store_op *op)
{
	struct file_store *f = file_of(op->store);
	bool takes_turns =
		op->opcode == STORE_WRITE && !f->block_device && file_fd_for(f, op) == f->fd;

	if (pool_start(f->pool, op, takes_turns) != 0) /* not even one thread: then in this one */
		op->done(op, file_do_blocking(op));
}

/* --- io_uring --------------------------------------------------------------------------------- */

/* What is left of a transfer. False: the ring is full. */
static bool ring_put(struct store_engine *e, struct store_op *op)
{
	struct file_store *f = file_of(op->store);
	struct io_uring_sqe *sqe = io_uring_get_sqe(&e->ring);
	uint8_t *buf = op->buf;
	uint32_t left = (uint32_t)(op->len - op->progress);
	int fd = file_fd_for(f, op);

	if (!sqe) {
		store_engine_submit(e);
		sqe = io_uring_get_sqe(&e->ring);
	}
	if (!sqe)
		return false;
	if (op->opcode == STORE_READ)
		io_uring_prep_read(sqe, fd, buf + op->progress, left, op->offset + op->progress);
	else
		io_uring_prep_write(sqe, fd, buf + op->progress, left, op->offset + op->progress);
	sqe->rw_flags = RWF_NOWAIT | (op->flags & STORE_FUA ? RWF_DSYNC : 0);
	io_uring_sqe_set_data(sqe, op);
	e->queued++;
	return true;
}

static void ring_start(struct store_engine *e, struct store_op *op)
{
	if (!list_empty(&e->waiting) || !ring_put(e, op))
		list_push_tail(&e->waiting, &op->link);
}

/*
 * A transfer may come back short (a signal, the end of a chunk); the rest is asked for again.
 * A file that was cut behind our back has no rest: that is an error, never stale memory.
 */
static void ring_finish(struct store_engine *e, struct store_op *op, int res)
{
	/* It would wait, or nobody can say whether it would. */
	if (res == -EAGAIN || res == -EOPNOTSUPP || res == -EINTR) {
		pool_take(op);
		return;
	}
	if (res <= 0) {
		op->done(op, res ? res : -EIO);
		return;
	}
	op->progress += (uint32_t)res;
	if (op->progress < op->len)
		ring_start(e, op);
	else
		op->done(op, 0);
}

static unsigned ring_reap(struct store_engine *e)
{
	struct io_uring_cqe *cqes[64];
	unsigned total = 0, n;

	while ((n = io_uring_peek_batch_cqe(&e->ring, cqes, ARRAY_SIZE(cqes)))) {
		struct store_op *ops[ARRAY_SIZE(cqes)];
		int res[ARRAY_SIZE(cqes)];

		for (unsigned i = 0; i < n; i++) {
			ops[i] = io_uring_cqe_get_data(cqes[i]);
			res[i] = cqes[i]->res;
		}
		io_uring_cq_advance(&e->ring, n);
		for (unsigned i = 0; i < n; i++)
			ring_finish(e, ops[i], res[i]);
		total += n;
	}
	while (!list_empty(&e->waiting)) {
		struct list *n_op = list_pop_head(&e->waiting);

		if (!ring_put(e, list_entry(n_op, struct store_op, link))) {
			list_push_head(&e->waiting, n_op);
			break;
		}
	}
	return total;
}

void store_engine_submit(struct store_engine *e)
{
	int n;

	if (!e->queued)
		return;
	n = io_uring_submit(&e->ring);
	if (n > 0)
		e->queued -= min_of((unsigned)n, e->queued);
	else if (n < 0 && n != -EAGAIN && n != -EBUSY && n != -EINTR)
		log_err("store", "io_uring refuses work: error %d", -n);
	/* What the kernel did not take stays in the ring: whoever sleeps must come again for it. */
	if (e->queued && write(e->event_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
		log_err("store", "the engine's eventfd fails: error %d", errno);
}

/* --- both ------------------------------------------------------------------------------------- */

void engine_start(struct store_engine *e, struct store_op *op)
{
	op->progress = 0;
	if (e->uring && !file_of(op->store)->waits &&
	    (op->opcode == STORE_READ || op->opcode == STORE_WRITE))
		ring_start(e, op);
	else
		pool_take(op);
}

void store_engine_clear(struct store_engine *e)
{
	uint64_t count;

	if (read(e->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_err("store", "the engine's eventfd fails: error %d", errno);
}

unsigned store_engine_reap(struct store_engine *e)
{
	struct store_op *op;
	unsigned n = 0;

	if (e->uring)
		n = ring_reap(e);
	while ((op = finished_pop(&e->finished))) {
		op->done(op, op->result);
		n++;
	}
	store_engine_submit(e);
	return n;
}
