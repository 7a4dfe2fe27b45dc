/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The store behind an NBD server. One connection carries everything; the engine attends its
 * socket. An operation goes out in steps, one after the other: as much as the server takes in one
 * command, and a flush behind what is to be on stable storage if the server cannot be told so.
 *
 * When the connection is lost, what was under way fails and so does what comes, with -ENOTCONN:
 * a host may try again. Another connection is sought meanwhile. The server may have lost with it
 * what it was never told to flush; of that the next flush tells, with -EIO.
 *
 * libnbd must not be called from its callbacks: what is complete is put into a line.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "store/nbd.h"

/* One ZERO or TRIM, whose lengths have 32 bits. */
#define RANGE_MAX (1u << 30)
/* A server that answers none of its commands for so long is given up. */
#define TICK_S	10
#define PATIENT 6 /* ticks */

struct nbd_store {
	struct store store;
	struct store_engine *engine;
	struct nbd_link link;
	struct nbd_seeker *seeker;
	struct store_source socket, found, tick;
	uint32_t events; /* the socket is watched for these */
	struct list under_way, finished;
	struct order order;
	bool draining, failed; /* the last call of libnbd, which says why */
	unsigned ticks;	       /* since anything was answered, while something is under way */
	/* WRITEs that are done, and as many as were when the last FLUSH that succeeded began. */
	uint64_t writes, flushed;
	bool lost; /* some that were not flushed may be */
};

static struct nbd_store *nbd_of(struct store *s)
{
	return container_of(s, struct nbd_store, store);
}

/* --- the connection ----------------------------------------------------------------------------
 */

static void watch(struct nbd_store *n)
{
	unsigned int direction = nbd_aio_get_direction(n->link.h);
	uint32_t events = (direction & LIBNBD_AIO_DIRECTION_READ ? EPOLLIN : 0) |
			  (direction & LIBNBD_AIO_DIRECTION_WRITE ? EPOLLOUT : 0);

	if (events != n->events)
		store_engine_change_source(n->engine, &n->socket, events);
	n->events = events;
}

static void unlink_server(struct nbd_store *n)
{
	store_engine_remove_source(n->engine, &n->socket);
	close(n->socket.fd);
	nbd_link_close(&n->link);
}

static void lose(struct nbd_store *n, const char *why)
{
	struct list *l;

	log_warn("store", "%s: the connection is lost: %s; trying again", n->seeker->uri, why);
	unlink_server(n);
	n->lost |= n->writes != n->flushed;
	while ((l = list_pop_head(&n->under_way))) {
		list_entry(l, struct store_op, link)->result = -ENOTCONN;
		list_push_tail(&n->finished, l);
	}
	nbd_seeker_start(n->seeker);
}

static bool dead(const struct nbd_store *n)
{
	return n->link.h && (nbd_aio_is_dead(n->link.h) || nbd_aio_is_closed(n->link.h));
}

static int gain(struct nbd_store *n, const struct nbd_link *l)
{
	int error;

	n->link = *l;
	n->events = 0;
	n->ticks = 0;
	/* Our own, for libnbd closes its when it likes. */
	n->socket.fd = fcntl(nbd_aio_get_fd(l->h), F_DUPFD_CLOEXEC, 0);
	error = n->socket.fd < 0 ? -errno : store_engine_add_source(n->engine, &n->socket, 0);
	if (!error) {
		watch(n);
		return 0;
	}
	if (n->socket.fd >= 0)
		close(n->socket.fd);
	nbd_link_close(&n->link);
	return error;
}

/* --- operations ------------------------------------------------------------------------------- */

static int on_complete(void *user_data, int *error)
{
	struct store_op *op = user_data;
	struct nbd_store *n = nbd_of(op->store);

	if (*error)
		op->result = *error == ESHUTDOWN ? -ENOTCONN : -*error; /* it is about to end */
	else if (op->result) /* the server says that this was all */
		op->result = -EIO;
	list_remove(&op->link);
	list_push_tail(&n->finished, &op->link);
	n->ticks = 0;
	return 1;
}

/*
 * A piece of a READ that is sent in several: what is left. A server can leave something out, or
 * send one place twice instead; libnbd has cleared the memory before, for that has held other
 * hosts' bytes.
 */
static int on_chunk(void *user_data, const void *buf, size_t count, uint64_t offset,
		    unsigned int status, int *error)
{
	struct store_op *op = user_data;

	(void)buf, (void)offset, (void)status, (void)error;
	op->result = op->result > 0 && count <= (size_t)op->result ? op->result - (int)count : -1;
	return 0;
}

static bool flushes_itself(const struct nbd_store *n, const struct store_op *op)
{
	return op->flags & STORE_FUA && n->link.fua;
}

/* A part of the operation that begins at progress, and is one command. */
static uint64_t step_len(const struct nbd_store *n, const struct store_op *op)
{
	uint64_t left = op->len - op->progress;
	struct iovec piece;

	if (!store_op_moves_data(op))
		return min_of(left, (uint64_t)RANGE_MAX);
	op_pieces(op, op->progress, &piece, 1);
	return min_of((uint64_t)piece.iov_len, n->link.max_len);
}

static const uint8_t zeroes[256 * 1024];

/* So many of them are one WRITE. */
static uint64_t zeroes_len(const struct nbd_store *n, uint64_t len)
{
	uint64_t most = min_of(n->link.max_len, (uint64_t)sizeof(zeroes));

	return min_of(len, most);
}

static int64_t send_range(struct nbd_store *n, struct store_op *op, nbd_completion_callback done)
{
	uint64_t at = op->offset + op->progress, len = step_len(n, op);
	nbd_chunk_callback chunk = {.callback = on_chunk, .user_data = op};
	uint32_t flags = flushes_itself(n, op) ? LIBNBD_CMD_FLAG_FUA : 0;
	struct iovec piece = {0};

	if (store_op_moves_data(op))
		op_pieces(op, op->progress, &piece, 1);
	else if (op->opcode == STORE_ZERO && !n->link.zero)
		len = zeroes_len(n, len);
	op->progress += len;
	switch (op->opcode) {
	case STORE_READ:
		op->result = (int)len;
		return nbd_aio_pread_structured(n->link.h, piece.iov_base, len, at, chunk, done, 0);
	case STORE_WRITE:
		return nbd_aio_pwrite(n->link.h, piece.iov_base, len, at, done, flags);
	case STORE_ZERO:
		if (!n->link.zero)
			return nbd_aio_pwrite(n->link.h, zeroes, len, at, done, flags);
		flags |= op->flags & STORE_UNMAP ? 0 : LIBNBD_CMD_FLAG_NO_HOLE;
		return nbd_aio_zero(n->link.h, len, at, done, flags);
	default:
		return nbd_aio_trim(n->link.h, len, at, done, 0);
	}
}

/* Of what is written: behind its end, the flush that the server could not be told to make itself.
 * progress is one more than the length then. */
static bool wants_flush(const struct nbd_store *n, const struct store_op *op)
{
	return op->progress == op->len && op->flags & STORE_FUA && op->opcode != STORE_READ &&
	       op->opcode != STORE_DISCARD && !n->link.fua && n->link.flush;
}

/* Sends the next step; false: there is none, or it could not be sent, and op->result says. */
static bool begin_step(struct nbd_store *n, struct store_op *op)
{
	nbd_completion_callback done = {.callback = on_complete, .user_data = op};
	int64_t cookie;

	op->result = 0;
	if (!n->link.h) {
		op->result = -ENOTCONN;
		return false;
	}
	if (op->opcode == STORE_FLUSH ? op->progress != 0
				      : op->progress >= op->len && !wants_flush(n, op))
		return false;
	/* Before it is sent: it may be complete before that is over. */
	list_push_tail(&n->under_way, &op->link);
	if (op->opcode == STORE_FLUSH || op->progress == op->len) {
		op->progress++;
		op->offset = op->opcode == STORE_FLUSH ? n->writes : op->offset;
		cookie = nbd_aio_flush(n->link.h, done, 0);
	} else {
		cookie = send_range(n, op, done);
	}
	n->failed = cookie < 0;
	if (n->failed) {
		list_remove(&op->link);
		/* A connection that has ended says so by one errno or another. */
		op->result = dead(n) || !nbd_get_errno() ? -ENOTCONN : -nbd_get_errno();
	}
	return cookie >= 0;
}

static void account(struct nbd_store *n, const struct store_op *op)
{
	bool writes = op->opcode != STORE_READ && op->opcode != STORE_FLUSH;

	if (op->result == 0 && op->opcode == STORE_FLUSH)
		n->flushed = max_of(n->flushed, op->offset);
	else if (writes && n->link.flush && !(op->flags & STORE_FUA))
		n->writes++; /* one that failed may have written some */
}

/* What fails is drained by the caller. */
static void start(struct store_op *op)
{
	struct nbd_store *n = nbd_of(op->store);

	if (!begin_step(n, op))
		list_push_tail(&n->finished, &op->link);
}

/* A step is complete: sends the next one, or calls done. True: it did that. */
static bool advance(struct nbd_store *n, struct store_op *op)
{
	if (op->result == 0 && begin_step(n, op))
		return false;
	account(n, op);
	if (op->opcode != STORE_FLUSH)
		order_end(&n->order, op, start);
	op->done(op, op->result);
	return true;
}

/* Calls done for what is; how many. */
static unsigned drain(struct nbd_store *n)
{
	unsigned count = 0;
	struct list *l;

	if (n->draining) /* a caller above is at it */
		return 0;
	n->draining = true;
	do {
		while ((l = list_pop_head(&n->finished)))
			count += advance(n, list_entry(l, struct store_op, link));
		if (dead(n))
			lose(n, n->failed ? nbd_get_error() : "the server has ended it");
	} while (!list_empty(&n->finished));
	n->draining = false;
	if (n->link.h)
		watch(n);
	return count;
}

/* What needs no server, or is beyond it. True: *ret is the result. */
static bool answered_here(struct nbd_store *n, struct store_op *op, int *ret)
{
	bool ranged = op->opcode != STORE_FLUSH;
	bool writes = ranged && op->opcode != STORE_READ;

	*ret = 0;
	if (ranged && (op->offset > n->store.size || op->len > n->store.size - op->offset))
		*ret = -ERANGE;
	else if (writes && (n->store.read_only || n->link.read_only))
		*ret = -EROFS;
	else if (!ranged && n->lost) {
		n->lost = false;
		n->flushed = n->writes;
		*ret = -EIO;
	} else if (!n->link.h)
		*ret = -ENOTCONN;
	else
		return (ranged && op->len == 0) || (!ranged && !n->link.flush) ||
		       (op->opcode == STORE_DISCARD && !n->link.trim); /* a hint */
	return true;
}

static void nbd_submit(struct store *s, struct store_op *op)
{
	struct nbd_store *n = nbd_of(s);
	int result;

	op->store = s;
	op->progress = 0;
	if (answered_here(n, op, &result)) {
		op->done(op, result);
		return;
	}
	if (op->opcode != STORE_FLUSH && !order_begin(&n->order, op))
		return;
	start(op);
	drain(n);
}

/* --- what the engine attends ------------------------------------------------------------------
 */

static unsigned socket_ready(struct store_source *src, uint32_t events)
{
	struct nbd_store *n = container_of(src, struct nbd_store, socket);
	unsigned int direction;

	if (!n->link.h) /* lost since the engine looked */
		return 0;
	direction = nbd_aio_get_direction(n->link.h);
	if (events & ~(uint32_t)EPOLLOUT && direction & LIBNBD_AIO_DIRECTION_READ)
		n->failed = nbd_aio_notify_read(n->link.h) != 0;
	else if (events & EPOLLOUT && direction & LIBNBD_AIO_DIRECTION_WRITE)
		n->failed = nbd_aio_notify_write(n->link.h) != 0;
	return drain(n);
}

static unsigned link_found(struct store_source *src, uint32_t events)
{
	struct nbd_store *n = container_of(src, struct nbd_store, found);
	struct nbd_link l;

	(void)events;
	if (!nbd_seeker_take(n->seeker, &l))
		return 0;
	if (gain(n, &l) != 0) {
		nbd_seeker_start(n->seeker);
		return 0;
	}
	log_warn("store", "%s: connected again", n->seeker->uri);
	if (l.size - l.size % n->store.block_size != n->store.size)
		engine_measured(n->engine);
	return 0;
}

static unsigned tick(struct store_source *src, uint32_t events)
{
	struct nbd_store *n = container_of(src, struct nbd_store, tick);
	uint64_t count;

	(void)events;
	if (read(src->fd, &count, sizeof(count)) < 0)
		return 0;
	if (!n->link.h) {
		nbd_seeker_start(n->seeker);
		return 0;
	}
	n->ticks = list_empty(&n->under_way) ? 0 : n->ticks + 1;
	if (n->ticks > PATIENT)
		lose(n, "the server answers nothing");
	return drain(n);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static bool nbd_measure(struct store *s)
{
	struct nbd_store *n = nbd_of(s);
	uint64_t size = n->link.size - n->link.size % s->block_size;

	if (!n->link.h || size == s->size)
		return false;
	s->size = size;
	return true;
}

static void nbd_destroy(struct store *s)
{
	struct nbd_store *n = nbd_of(s);

	if (n->link.h) {
		(void)!nbd_aio_disconnect(n->link.h, 0); /* the server may like a word */
		unlink_server(n);
	}
	if (n->tick.fd >= 0) {
		store_engine_remove_source(n->engine, &n->tick);
		close(n->tick.fd);
	}
	if (n->found.process)
		store_engine_remove_source(n->engine, &n->found);
	nbd_seeker_leave(n->seeker);
	free(n);
}

static const struct store_ops nbd_ops = {
	.name = "NBD",
	.submit = nbd_submit,
	.measure = nbd_measure,
	.destroy = nbd_destroy,
};

static int attend(struct nbd_store *n)
{
	struct itimerspec every = {{TICK_S, 0}, {TICK_S, 0}};
	int error;

	n->found.fd = n->seeker->event_fd;
	error = store_engine_add_source(n->engine, &n->found, EPOLLIN);
	if (error)
		return error;
	n->found.process = link_found;
	n->tick.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (n->tick.fd < 0)
		return -errno;
	error = store_engine_add_source(n->engine, &n->tick, EPOLLIN);
	if (error) {
		close(n->tick.fd);
		n->tick.fd = -1;
		return error;
	}
	return timerfd_settime(n->tick.fd, 0, &every, NULL) == 0 ? 0 : -errno;
}

static int check(const struct nbd_link *l, const struct store_file_options *o, uint32_t block_size,
		 const char **ret_why)
{
	if (l->read_only && !o->read_only) {
		*ret_why = "its server lets nobody write to it; serve it with ,ro behind it or "
			   "--read-only";
		return -EROFS;
	}
	if (l->size == 0) {
		*ret_why = "is empty";
		return -EINVAL;
	}
	if (l->size % block_size) {
		*ret_why = block_size == 512 ? "its size is not a multiple of 512 bytes"
					     : "its size is not a multiple of 4096 bytes; use "
					       "--block-size 512";
		return -EINVAL;
	}
	return 0;
}

bool store_nbd_names(const char *path)
{
	static const char *const schemes[] = {"nbd://",	      "nbds://",      "nbd+unix://",
					      "nbds+unix://", "nbd+vsock://", "nbds+vsock://"};

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strncmp(path, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

int nbd_attach(const struct nbd_link *link, struct store_engine *e, const char *uri,
	       const struct store_file_options *o, struct store **ret, const char **ret_why)
{
	const uint32_t block_size = nbd_block_size(o);
	struct nbd_link l = *link;
	struct nbd_store *n;
	int error = check(&l, o, block_size, ret_why);

	n = error ? NULL : calloc(1, sizeof(*n));
	if (!n) {
		nbd_link_close(&l);
		if (!error)
			*ret_why = strerrordesc_np(ENOMEM);
		return error ? error : -ENOMEM;
	}
	n->engine = e;
	n->tick.fd = -1;
	n->socket.process = socket_ready;
	n->tick.process = tick;
	list_init(&n->under_way);
	list_init(&n->finished);
	order_init(&n->order);
	n->store = (struct store){
		.ops = &nbd_ops,
		.size = l.size,
		.block_size = block_size,
		.optimal_io = l.optimal_io,
		.read_only = o->read_only,
		/* A server that comes later may have one. */
		.volatile_cache = true,
	};
	error = nbd_seeker_create(uri, block_size, &n->seeker);
	if (error) {
		nbd_link_close(&l);
		free(n);
	} else {
		error = gain(n, &l);
		if (!error)
			error = attend(n);
		if (error)
			nbd_destroy(&n->store);
	}
	if (error)
		*ret_why = strerrordesc_np(-error);
	else
		*ret = &n->store;
	return error;
}

int store_nbd_open(struct store_engine *e, const char *uri, const struct store_file_options *o,
		   struct store **ret, const char **ret_why)
{
	struct nbd_link l;
	int error = nbd_link_open(uri, nbd_block_size(o), NULL, &l, ret_why);

	return error ? error : nbd_attach(&l, e, uri, o, ret, ret_why);
}
