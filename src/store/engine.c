/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The engine: reads and writes through io_uring as far as they need not wait for anything but the
 * disk's answer, everything else (and all of it where there is no io_uring: seccomp and sysctl may
 * forbid it) through threads of the store. Both wake the same eventfd, which stands in one epoll
 * set with the sources of stores.
 *
 * io_uring has threads of its own for what must wait, but they are one task's: as many as would
 * hang on one disk are missed by the others, and writes to one file wait for those to another of
 * which the kernel has the same hash (of 64). And a file of FUSE it reads in the thread that
 * submits. So it is asked for nothing that waits (RWF_NOWAIT).
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "store/internal.h"

#define RING_ENTRIES 256
#define PATIENCE_NS  (1 * NSEC_PER_SEC) /* with an io_uring that has no room */

struct store_engine {
	int epoll_fd; /* event_fd and those of sources */
	int event_fd; /* finished's */
	unsigned sources;
	bool uring;
	bool refuses;	     /* what comes by the ring no more: all is the threads' */
	uint64_t refused_ns; /* since when; 0: it takes what it is given */
	struct io_uring ring;
	struct iovec lent;   /* to be registered, and then */
	bool fixed;	     /* its first buffer */
	struct list queued;  /* operations in the ring that the kernel has not taken yet */
	struct list waiting; /* those the ring had no room for */
	struct finished *finished;
	_Atomic bool measured;
};

int store_engine_create(enum store_engine_kind kind, struct store_engine **ret)
{
	struct store_engine *e = calloc(1, sizeof(*e));
	int error;

	if (!e)
		return -ENOMEM;
	list_init(&e->queued);
	list_init(&e->waiting);
	error = finished_create(&e->finished);
	if (error) {
		free(e);
		return error;
	}
	e->event_fd = e->finished->event_fd;
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll_fd < 0 || epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, e->event_fd,
					 &(struct epoll_event){.events = EPOLLIN}) != 0) {
		error = -errno;
		if (e->epoll_fd >= 0)
			close(e->epoll_fd);
		finished_put(e->finished);
		free(e);
		return error;
	}
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
}

void store_engine_lend(struct store_engine *e, void *memory, size_t len)
{
	e->lent = (struct iovec){memory, len};
}

void store_engine_destroy(struct store_engine *e)
{
	if (e->uring)
		io_uring_queue_exit(&e->ring);
	close(e->epoll_fd);
	finished_put(e->finished);
	free(e);
}

const char *store_engine_name(const struct store_engine *e)
{
	return e->uring ? "io_uring" : "threads";
}

int store_engine_fd(const struct store_engine *e)
{
	return e->epoll_fd;
}

struct finished *engine_finished(struct store_engine *e)
{
	return e->finished;
}

void engine_measured(struct store_engine *e)
{
	e->measured = true;
}

bool store_engine_measured(struct store_engine *e)
{
	return atomic_load_explicit(&e->measured, memory_order_relaxed) &&
	       atomic_exchange(&e->measured, false);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void pool_take(struct store_op *op)
{
	struct engine_store *s = engine_store_of(op->store);
	bool takes_turns = op->opcode == STORE_WRITE && s->turns_fd >= 0 &&
			   s->ops->fd_for(s, op) == s->turns_fd;

	if (pool_start(s->pool, op, takes_turns) != 0) /* not even one thread: then in this one */
		op->done(op, s->ops->do_blocking(s, op));
}

/* --- io_uring --------------------------------------------------------------------------------- */

/* Is it a part of what was lent, and does the kernel have that? */
static bool is_fixed(struct store_engine *e, const struct iovec *piece)
{
	size_t from = (size_t)((uintptr_t)piece->iov_base - (uintptr_t)e->lent.iov_base);
	int error;

	if (from >= e->lent.iov_len || piece->iov_len > e->lent.iov_len - from)
		return false;
	if (!e->fixed) {
		error = io_uring_register_buffers(&e->ring, &e->lent, 1);
		if (error) {
			log_info("store", "io_uring cannot have %zu KiB for good (error %d)",
				 e->lent.iov_len >> 10, -error);
			e->lent.iov_len = 0;
		}
		e->fixed = !error;
	}
	return e->fixed;
}

/*
 * What is left of a transfer; of one in several pieces that came back short, what is left of the
 * piece where it did: the kernel reads the list of pieces when it takes the entry, and the whole
 * one lasts as long.
 */
static void ring_put(struct store_engine *e, struct io_uring_sqe *sqe, struct store_op *op)
{
	struct engine_store *s = engine_store_of(op->store);
	uint64_t at = op->offset + op->progress;
	int fd = s->ops->fd_for(s, op);
	bool read = op->opcode == STORE_READ;
	struct iovec piece;

	op_pieces(op, op->progress, &piece, 1);
	if (op->progress == 0 && op->iov_count > 1) {
		unsigned n = min_of(op->iov_count, (uint32_t)IOV_MAX);

		if (read)
			io_uring_prep_readv(sqe, fd, op->iov, n, at);
		else
			io_uring_prep_writev(sqe, fd, op->iov, n, at);
	} else if (fd == s->direct_fd && is_fixed(e, &piece)) {
		if (read)
			io_uring_prep_read_fixed(sqe, fd, piece.iov_base, (unsigned)piece.iov_len,
						 at, 0);
		else
			io_uring_prep_write_fixed(sqe, fd, piece.iov_base, (unsigned)piece.iov_len,
						  at, 0);
	} else if (read) {
		io_uring_prep_read(sqe, fd, piece.iov_base, (unsigned)piece.iov_len, at);
	} else {
		io_uring_prep_write(sqe, fd, piece.iov_base, (unsigned)piece.iov_len, at);
	}
	sqe->rw_flags = RWF_NOWAIT | (op->flags & STORE_FUA ? RWF_DSYNC : 0);
	io_uring_sqe_set_data(sqe, op);
	list_push_tail(&e->queued, &op->link);
}

static struct io_uring_sqe *ring_room(struct store_engine *e)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&e->ring);

	if (!sqe) {
		store_engine_submit(e);
		sqe = io_uring_get_sqe(&e->ring);
	}
	return sqe;
}

static void ring_fill(struct store_engine *e)
{
	struct io_uring_sqe *sqe;

	while (!list_empty(&e->waiting) && (sqe = ring_room(e)))
		ring_put(e, sqe, list_entry(list_pop_head(&e->waiting), struct store_op, link));
}

static void ring_start(struct store_engine *e, struct store_op *op)
{
	if (e->refuses) {
		pool_take(op);
		return;
	}
	list_push_tail(&e->waiting, &op->link);
	ring_fill(e);
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
	ring_fill(e);
	return total;
}

/* What it has not taken is the threads', and all that comes. It answers what it has. */
static void ring_give_up(struct store_engine *e, int error)
{
	struct list *n;

	log_err("store", "io_uring refuses work (error %d): using threads", -error);
	e->refuses = true;
	while ((n = list_pop_head(&e->queued)) || (n = list_pop_head(&e->waiting)))
		pool_take(list_entry(n, struct store_op, link));
}

void store_engine_submit(struct store_engine *e)
{
	int n;

	if (list_empty(&e->queued))
		return;
	n = io_uring_submit(&e->ring);
	for (int i = 0; i < n; i++)
		list_pop_head(&e->queued);
	if (n > 0 || list_empty(&e->queued))
		e->refused_ns = 0;
	if (list_empty(&e->queued))
		return;
	if (!e->refused_ns)
		e->refused_ns = time_now_ns();
	if ((n < 0 && n != -EAGAIN && n != -EBUSY && n != -EINTR) ||
	    time_now_ns() - e->refused_ns > PATIENCE_NS)
		ring_give_up(e, n);
	/* What the kernel did not take stays in the ring: whoever sleeps must come again for it. */
	else if (write(e->event_fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
		log_err("store", "the engine's eventfd fails: error %d", errno);
}

/* --- both ------------------------------------------------------------------------------------- */

unsigned op_pieces(const struct store_op *op, uint64_t from, struct iovec *ret, unsigned max)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < op->iov_count && n < max; i++) {
		size_t len = op->iov[i].iov_len;

		if (from < len) {
			ret[n++] =
				(struct iovec){(uint8_t *)op->iov[i].iov_base + from, len - from};
			from = 0;
		} else {
			from -= len;
		}
	}
	assert(n);
	return n;
}

void engine_start(struct store_op *op)
{
	struct engine_store *s = engine_store_of(op->store);

	op->progress = 0;
	if (s->at_once && store_op_moves_data(op))
		op->done(op, s->ops->do_blocking(s, op));
	else if (s->engine->uring && !s->waits && store_op_moves_data(op))
		ring_start(s->engine, op);
	else
		pool_take(op);
}

bool engine_cancel(struct engine_store *s, struct store_op *op)
{
	if (op->progress)
		return false;
	list_for_each(o, &s->engine->waiting, struct store_op, link)
		if (o == op) {
			list_remove(&o->link);
			return true;
		}
	return pool_cancel(s->pool, op);
}

/* --- sources ---------------------------------------------------------------------------------- */

static int set_source(struct store_engine *e, int how, struct store_source *src, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = src};

	return epoll_ctl(e->epoll_fd, how, src->fd, &ev) == 0 ? 0 : -errno;
}

int store_engine_add_source(struct store_engine *e, struct store_source *src, uint32_t events)
{
	int error = set_source(e, EPOLL_CTL_ADD, src, events);

	e->sources += !error;
	return error;
}

void store_engine_change_source(struct store_engine *e, struct store_source *src, uint32_t events)
{
	int error = set_source(e, EPOLL_CTL_MOD, src, events);

	assert(!error);
}

void store_engine_remove_source(struct store_engine *e, struct store_source *src)
{
	int error = set_source(e, EPOLL_CTL_DEL, src, 0);

	assert(!error);
	e->sources--;
}

static unsigned process_sources(struct store_engine *e)
{
	struct epoll_event ev[16];
	unsigned total = 0;
	int n = epoll_wait(e->epoll_fd, ev, ARRAY_SIZE(ev), 0);

	for (int i = 0; i < n; i++) {
		struct store_source *src = ev[i].data.ptr;

		if (src) /* or it is event_fd */
			total += src->process(src, ev[i].events);
	}
	return total;
}

/* --- whoever drives --------------------------------------------------------------------------- */

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
	while ((op = finished_pop(e->finished))) {
		op->done(op, op->result);
		n++;
	}
	if (e->sources)
		n += process_sources(e);
	store_engine_submit(e);
	return n;
}
