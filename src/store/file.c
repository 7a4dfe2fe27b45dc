/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The store in a file or on a block device: opening, locking, and the blocking form of every
 * operation. Discards give space back (a hole in a file, BLKDISCARD on a device); zeroes are
 * made by the file system or device where it can, by writing where it cannot.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "store/internal.h"

/* That of several stores of a file, of which one takes the place of another. */
struct shared_lock {
	int fd;
	unsigned users, writers;
};

struct file_store {
	struct engine_store base;
	int fd;			  /* through the page cache */
	struct shared_lock *lock; /* NULL: fd has one of its own */
	bool contended;		  /* or had none, as another has it */
	dev_t dev;
	ino_t ino;
	uint32_t direct_align; /* of offset, length and memory for base.direct_fd */
	bool block_device;
	uint32_t sector;	 /* of a block device: what it discards is in units of these */
	struct store_op measure; /* asks one that waits for the size */
	bool measuring;
	struct order order;
	struct claims *claims; /* in the place of order, if several threads use it */
	bool is_view;	       /* descriptors, claims and path are another's */
};

static struct file_store *file_of(struct store *s)
{
	return container_of(s, struct file_store, base.store);
}

/* --- operations ------------------------------------------------------------------------------- */

/* Direct if it is aligned for that. */
static int file_fd_for(const struct engine_store *s, const struct store_op *op)
{
	const struct file_store *f = container_of(s, const struct file_store, base);
	uint64_t bits = op->offset | op->len | op->progress;

	if (f->base.direct_fd < 0)
		return f->fd;
	for (uint32_t i = 0; i < op->iov_count; i++)
		bits |= (uintptr_t)op->iov[i].iov_base | op->iov[i].iov_len;
	return bits % f->direct_align == 0 ? f->base.direct_fd : f->fd;
}

static int transfer(struct file_store *f, const struct store_op *op)
{
	int fd = file_fd_for(&f->base, op), flags = op->flags & STORE_FUA ? RWF_DSYNC : 0;
	uint64_t done = op->progress;

	while (done < op->len) {
		struct iovec iov[16];
		int count = (int)op_pieces(op, done, iov, ARRAY_SIZE(iov));
		off_t at = (off_t)(op->offset + done);
		ssize_t n = op->opcode == STORE_READ ? preadv2(fd, iov, count, at, 0)
						     : pwritev2(fd, iov, count, at, flags);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO; /* the file was cut behind our back */
		if (n > 0)
			done += (uint64_t)n;
	}
	return 0;
}

/* A discard is a hint: of a device whose sectors are larger than blocks it is for whole sectors. */
static int discard(struct file_store *f, uint64_t offset, uint64_t len)
{
	uint64_t first = (offset + f->sector - 1) / f->sector, end = (offset + len) / f->sector;
	uint64_t range[2] = {first * f->sector, (end - first) * f->sector};

	if (first >= end)
		return 0;
	return ioctl(f->fd, BLKDISCARD, range) == 0 ? 0 : -errno;
}

static int punch(struct file_store *f, uint64_t offset, uint64_t len)
{
	if (f->block_device)
		return discard(f, offset, len);
	if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)len) == 0)
		return 0;
	return -errno;
}

static int write_zeroes(struct file_store *f, const struct store_op *op)
{
	static const uint8_t zeroes[65536] __attribute__((aligned(4096)));

	for (uint64_t done = 0; done < op->len; done += sizeof(zeroes)) {
		struct iovec iov = {(void *)zeroes, min_of(op->len - done, sizeof(zeroes))};
		struct store_op part = {
			.opcode = STORE_WRITE,
			.offset = op->offset + done,
			.len = iov.iov_len,
			.iov = &iov,
			.iov_count = 1,
		};
		int error = transfer(f, &part);

		if (error)
			return error;
	}
	return 0;
}

static int zero(struct file_store *f, const struct store_op *op)
{
	uint64_t range[2] = {op->offset, op->len};
	int error = -EOPNOTSUPP;

	if (f->block_device)
		error = ioctl(f->fd, BLKZEROOUT, range) == 0 ? 0 : -errno;
	else if (op->flags & STORE_UNMAP)
		error = punch(f, op->offset, op->len);
	if (error && !f->block_device &&
	    fallocate(f->fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, (off_t)op->offset,
		      (off_t)op->len) == 0)
		error = 0;
	if (error)
		error = write_zeroes(f, op);
	if (!error && op->flags & STORE_FUA && fdatasync(f->fd) != 0)
		error = -errno;
	return error;
}

/* STATX_SIZE alone: for the times of a file NFS would write out what it has. */
static int get_size(const struct file_store *f, int how, uint64_t *ret)
{
	struct statx sx;

	if (f->block_device)
		return ioctl(f->fd, BLKGETSIZE64, ret) == 0 ? 0 : -errno;
	if (statx(f->fd, "", AT_EMPTY_PATH | how, STATX_SIZE, &sx) != 0)
		return -errno;
	*ret = sx.stx_size;
	return 0;
}

static int do_one(struct file_store *f, const struct store_op *op)
{
	switch (op->opcode) {
	case STORE_READ:
	case STORE_WRITE:
		return transfer(f, op);
	case STORE_FLUSH:
		return fdatasync(f->fd) == 0 ? 0 : -errno;
	case STORE_ZERO:
		return zero(f, op);
	case STORE_DISCARD:
		return punch(f, op->offset, op->len);
	}
	return -EINVAL;
}

static int file_do_blocking(struct engine_store *s, const struct store_op *op)
{
	struct file_store *f = container_of(s, struct file_store, base);
	uint64_t size;

	return op == &f->measure ? get_size(f, 0, &size) : do_one(f, op);
}

static void end_in_order(struct file_store *f, struct store_op *op)
{
	op->done = op->ordered_done;
	if (f->claims)
		claims_give(f->claims, op);
	else
		order_end(&f->order, op, engine_start);
}

static void file_done(struct store_op *op, int error)
{
	end_in_order(file_of(op->store), op);
	op->done(op, error);
}

/* Called again when it waits no more for what it has found claimed. */
static void start_claimed(struct store_op *op, int error)
{
	(void)error;
	op->done = start_claimed;
	if (!claims_take(file_of(op->store)->claims, op))
		return;
	op->done = file_done;
	engine_start(op);
}

/* The kernel lets a reader of a file see half of what is being written, within a block, too. */
static void start_in_order(struct file_store *f, struct store_op *op)
{
	op->ordered_done = op->done;
	if (f->claims) {
		op->claimed = 0;
		op->claim_waits = false;
		start_claimed(op, 0);
		return;
	}
	op->done = file_done;
	if (order_begin(&f->order, op))
		engine_start(op);
}

static void file_submit(struct store *s, struct store_op *op)
{
	bool ranged = op->opcode != STORE_FLUSH;

	op->store = s;
	if (ranged && (op->offset > s->size || op->len > s->size - op->offset))
		op->done(op, -ERANGE);
	else if (s->read_only && ranged && op->opcode != STORE_READ)
		op->done(op, -EROFS);
	else if (ranged && op->len == 0)
		op->done(op, 0);
	else if (ranged)
		start_in_order(file_of(s), op);
	else
		engine_start(op);
}

static bool file_cancel(struct store *s, struct store_op *op)
{
	struct file_store *f = file_of(s);

	if (op->opcode != STORE_FLUSH && f->claims && op->claim_waits) {
		if (!claims_cancel(f->claims, op))
			return false;
		op->done = op->ordered_done;
		return true;
	}
	if (!order_waits(op) && !engine_cancel(&f->base, op))
		return false;
	if (op->opcode != STORE_FLUSH)
		end_in_order(f, op);
	return true;
}

static void *close_all(void *arg)
{
	struct file_store *f = arg;

	pool_destroy(f->base.pool);
	claims_destroy(f->claims);
	file_forget(f);
	return NULL;
}

/*
 * Where a server has to be asked it may be the size that a thread still asks for, and closing asks,
 * too: one that does not answer is left behind, with whoever asks.
 */
static void close_patiently(struct file_store *f)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, close_all, f) == 0)
		leave_thread(thread);
	else
		close_all(f);
}

static void file_destroy(struct store *s)
{
	struct file_store *f = file_of(s);

	if (f->is_view) {
		pool_destroy(f->base.pool);
		free(f);
		return;
	}
	if (f->measuring)
		pool_forget(f->base.pool, &f->measure);
	if (f->base.waits)
		close_patiently(f);
	else
		close_all(f);
}

static int file_view(struct store *s, struct store_engine *e, struct store **ret)
{
	struct file_store *f = file_of(s), *v;
	int error;

	if (!f->claims)
		f->claims = claims_create(s->block_size);
	if (!f->claims)
		return -ENOMEM;
	v = malloc(sizeof(*v));
	if (!v)
		return -ENOMEM;
	*v = *f;
	order_init(&v->order);
	v->is_view = true;
	v->measuring = false;
	v->base.engine = e;
	error = pool_create(engine_finished(e), &v->base.pool);
	if (error) {
		free(v);
		return error;
	}
	*ret = &v->base.store;
	return 0;
}

/* --- size ------------------------------------------------------------------------------------- */

static bool has_other_size(struct file_store *f, uint64_t *ret)
{
	if (get_size(f, f->base.waits ? AT_STATX_DONT_SYNC : 0, ret) != 0)
		return false;
	*ret -= *ret % f->base.store.block_size;
	return *ret != f->base.store.size;
}

static void measured(struct store_op *op, int error)
{
	struct file_store *f = file_of(op->store);
	uint64_t size;

	f->measuring = false;
	if (!error && has_other_size(f, &size))
		engine_measured(f->base.engine);
}

static void ask_for_size(struct file_store *f)
{
	if (f->measuring)
		return;
	f->measure = (struct store_op){.done = measured, .store = &f->base.store};
	f->measuring = pool_start(f->base.pool, &f->measure, false) == 0;
}

static bool file_measure(struct store *s)
{
	struct file_store *f = file_of(s);
	uint64_t size;

	if (f->base.waits)
		ask_for_size(f);
	if (!has_other_size(f, &size))
		return false;
	s->size = size;
	return true;
}

static const struct store_ops file_ops = {
	.name = "file",
	.submit = file_submit,
	.cancel = file_cancel,
	.measure = file_measure,
	.view = file_view,
	.destroy = file_destroy,
};

static const struct store_ops device_ops = {
	.name = "block device",
	.submit = file_submit,
	.cancel = file_cancel,
	.measure = file_measure,
	.view = file_view,
	.destroy = file_destroy,
};

static const struct engine_store_ops engine_ops = {
	.fd_for = file_fd_for,
	.do_blocking = file_do_blocking,
};

/* NULL: it is none. */
static struct file_store *file_if(struct store *s)
{
	return s->ops == &file_ops ? file_of(s) : NULL;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int open_error(int error, const char **ret_why)
{
	switch (error) {
	case ENOENT:
		*ret_why = "no such file; `truncate -s 1G PATH` makes an empty image";
		break;
	case EACCES:
	case EPERM:
		*ret_why = "no permission to open it; with --read-only it need only be readable";
		break;
	case EROFS:
		*ret_why = "it is on a read-only file system, or a service may not write there "
			   "(ReadWritePaths= of its unit); it can be served with --read-only";
		break;
	case EBUSY:
		*ret_why = "the device is in use (mounted, or held by another program); unmount it "
			   "or serve it with --read-only";
		break;
	case EMFILE:
		*ret_why = "too many open files; raise this process's limit (`ulimit -n`)";
		break;
	case ETXTBSY:
		*ret_why = "it is being executed or used as swap";
		break;
	default:
		*ret_why = strerrordesc_np(error);
		break;
	}
	return -error;
}

static int check_kind(struct file_store *f, const struct stat *st, const char **ret_why)
{
	int sector = 0, error;
	uint64_t size = 0;

	if (S_ISREG(st->st_mode) || S_ISBLK(st->st_mode)) {
		f->block_device = S_ISBLK(st->st_mode);
		error = get_size(f, 0, &size);
		f->base.store.size = size;
		if (!error && f->block_device && ioctl(f->fd, BLKSSZGET, &sector) != 0)
			error = -errno;
		f->sector = (uint32_t)sector;
		return error ? open_error(-error, ret_why) : 0;
	}
	*ret_why = S_ISDIR(st->st_mode)
			   ? "is a directory; name a disk image or a block device in it"
			   : "is neither a file nor a block device";
	return S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
}

static int check_size(const struct file_store *f, const char **ret_why)
{
	if (f->base.store.size == 0) {
		*ret_why = "is empty; `truncate -s 1G PATH` gives it a size";
		return -EINVAL;
	}
	if (f->base.store.size % f->base.store.block_size) {
		*ret_why = f->base.store.block_size == 512
				   ? "its size is not a multiple of 512 bytes; "
				     "`truncate -s %512 PATH` "
				     "rounds it up"
				   : "its size is not a multiple of 4096 bytes; "
				     "`truncate -s %4096 PATH` "
				     "rounds it up, or use --block-size 512";
		return -EINVAL;
	}
	return 0;
}

/* --- locks ------------------------------------------------------------------------------------
 *
 * Two writers of one image destroy it. A store that takes the place of one that leaves has the lock
 * of that, which stays locked for it: at no time anybody else could have it.
 */

/* True also on a file system without locks. */
static bool lock_by(int fd, bool write)
{
	return flock(fd, (write ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

static bool writes(const struct file_store *f)
{
	return !f->base.store.read_only;
}

static struct shared_lock *shared_lock_of(struct file_store *f)
{
	struct shared_lock *l = f->lock ? NULL : malloc(sizeof(*l));

	if (!l)
		return f->lock;
	*l = (struct shared_lock){
		.fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0), .users = 1, .writers = writes(f)};
	if (l->fd < 0)
		free(l);
	else
		f->lock = l;
	return f->lock;
}

/* Those that leave are no others'. */
static bool is_free_for(const struct shared_lock *l, const struct file_store *f,
			const struct store_file_options *o)
{
	unsigned users = l->users, writers = l->writers;

	for (unsigned i = 0; i < o->leaving_count; i++) {
		const struct file_store *g = file_if(o->leaving[i]);

		if (g && g->lock == l) {
			users--;
			writers -= writes(g);
		}
	}
	return writes(f) ? !users : !writers;
}

/* The lock of g, which leaves. */
static bool take_over(struct file_store *f, struct file_store *g,
		      const struct store_file_options *o)
{
	struct shared_lock *l = shared_lock_of(g);

	if (!l || !is_free_for(l, f, o))
		return false;
	if (writes(f) && !l->writers && !lock_by(l->fd, true)) {
		(void)lock_by(l->fd, false); /* what it had is lost by trying */
		return false;
	}
	l->users++;
	l->writers += writes(f);
	f->lock = l;
	return true;
}

static int take_over_one(struct file_store *f, const struct store_file_options *o,
			 const char **ret_why)
{
	*ret_why = "is in use: named twice, or served already by another process";
	for (unsigned i = 0; i < o->leaving_count; i++) {
		struct file_store *g = file_if(o->leaving[i]);

		if (!g || g->dev != f->dev || g->ino != f->ino)
			continue;
		if (f->base.waits) /* be it for a lock, in the thread of all */
			*ret_why = "is served already, and its file system has to ask a server: "
				   "remove its namespace first, and create it anew then";
		else if (take_over(f, g, o))
			return 0;
	}
	return -EBUSY;
}

static void give_lock_back(const struct file_store *f)
{
	struct shared_lock *l = f->lock;

	if (!l)
		return;
	l->writers -= writes(f);
	if (--l->users == 0) {
		close(l->fd);
		free(l);
	} else if (writes(f) && !l->writers) {
		(void)lock_by(l->fd, false);
	}
}

/* --- opening: the rest ------------------------------------------------------------------------ */

/* O_DIRECT where the file system takes it; without, the page cache serves. */
static void open_direct(struct file_store *f, const char *path, int flags)
{
	struct statx sx;

	f->base.direct_fd = open(path, (flags & ~O_EXCL) | O_DIRECT);
	if (f->base.direct_fd < 0)
		return;
	f->direct_align = 4096;
	if (f->block_device) {
		f->direct_align = f->sector;
		return;
	}
#ifdef STATX_DIOALIGN
	if (statx(f->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
	    sx.stx_mask & STATX_DIOALIGN) {
		f->direct_align = max_of(sx.stx_dio_mem_align, sx.stx_dio_offset_align);
		if (f->direct_align == 0) {
			close(f->base.direct_fd);
			f->base.direct_fd = -1;
		}
	}
#else
	(void)sx;
#endif
}

/*
 * Its file system cannot say that an operation would wait (FUSE, NFS): it does, be it for the size
 * alone.
 */
static bool file_waits(const struct file_store *f)
{
	uint8_t byte;
	struct iovec iov = {&byte, 1};

	return preadv2(f->fd, &iov, 1, 0, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP;
}

/* Its file system keeps the bytes in memory. The kernel's io_uring does not know that of tmpfs, and
 * would have a thread do what is a copy. */
static bool file_at_once(const struct file_store *f)
{
	struct statfs fs;

	return !f->block_device && fstatfs(f->fd, &fs) == 0 &&
	       (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static void set_limits(struct file_store *f, const struct stat *st)
{
	unsigned int physical = 0;

	f->base.store.volatile_cache = true;
	if (f->block_device) {
		if (ioctl(f->fd, BLKPBSZGET, &physical) == 0)
			f->base.store.optimal_io = physical;
		return;
	}
	f->base.store.optimal_io = (uint32_t)st->st_blksize;
	/* A hole past the end changes nothing, and tells whether holes can be made. */
	f->base.store.discard_zeroes =
		!f->base.store.read_only && punch(f, f->base.store.size, 4096) == 0;
}

/* A FIFO would make open wait; a mounted device must not be written behind its user. */
static int open_file(const char *path, bool read_only, int *ret_flags, struct stat *st,
		     const char **ret_why)
{
	int flags = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC, fd, error;

	if (stat(path, st) == 0 && S_ISBLK(st->st_mode) && !read_only)
		flags |= O_EXCL;
	fd = open(path, flags | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, st) == 0) {
		*ret_flags = flags;
		return fd;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	if (error != EISDIR && !(stat(path, st) == 0 && S_ISDIR(st->st_mode)))
		return open_error(error, ret_why);
	*ret_why = "is a directory; name a disk image or a block device in it";
	return -EISDIR;
}

/* See store.h: struct store_file_options. */
static uint32_t usual_block_size(const struct file_store *f, const struct stat *st)
{
	if (f->block_device)
		return f->sector == 4096 ? 4096 : 512;
	return st->st_blksize >= 4096 && st->st_size % 4096 == 0 ? 4096 : 512;
}

int file_find(const char *path, const struct store_file_options *o, struct file_store **ret,
	      const char **ret_why)
{
	struct file_store *f = calloc(1, sizeof(*f));
	struct stat st;
	int error, flags = 0;

	if (!f)
		return open_error(ENOMEM, ret_why);
	order_init(&f->order);
	f->base.direct_fd = -1;
	f->base.store.read_only = o->read_only;
	f->fd = open_file(path, o->read_only, &flags, &st, ret_why);
	error = f->fd < 0 ? f->fd : check_kind(f, &st, ret_why);
	if (!error) {
		f->base.store.block_size = o->block_size ? o->block_size : usual_block_size(f, &st);
		error = check_size(f, ret_why);
	}
	if (error) {
		file_forget(f);
		return error;
	}
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->contended = !f->block_device && !lock_by(f->fd, !o->read_only);
	/* It was for open alone. */
	(void)fcntl(f->fd, F_SETFL, 0);
	f->base.store.ops = f->block_device ? &device_ops : &file_ops;
	f->base.ops = &engine_ops;
	f->base.turns_fd = f->block_device ? -1 : f->fd;
	if (f->block_device || o->direct)
		open_direct(f, path, flags);
	f->base.waits = file_waits(f);
	f->base.at_once = file_at_once(f);
	set_limits(f, &st);
	f->base.store.real_path = realpath(path, NULL);
	*ret = f;
	return 0;
}

void file_forget(struct file_store *f)
{
	give_lock_back(f);
	if (f->base.direct_fd >= 0)
		close(f->base.direct_fd);
	if (f->fd >= 0)
		close(f->fd);
	free(f->base.store.real_path);
	free(f);
}

int file_attach(struct file_store *f, struct store_engine *e, const struct store_file_options *o,
		struct store **ret, const char **ret_why)
{
	int error = f->contended ? take_over_one(f, o, ret_why) : 0;

	if (error) {
		file_forget(f);
		return error;
	}
	f->base.engine = e;
	if (pool_create(engine_finished(e), &f->base.pool) != 0) {
		file_forget(f);
		return open_error(ENOMEM, ret_why);
	}
	*ret = &f->base.store;
	return 0;
}

int store_file_open(struct store_engine *e, const char *path, const struct store_file_options *o,
		    struct store **ret, const char **ret_why)
{
	struct file_store *f;
	int error = file_find(path, o, &f, ret_why);

	return error ? error : file_attach(f, e, o, ret, ret_why);
}
