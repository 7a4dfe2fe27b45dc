/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where the bytes of a namespace are: memory, a file, a block device, an NBD server, or nowhere.
 * All are used through the table of nvmf/common/store_ops.h.
 *
 * The stores of one process share an engine, and who drives it knows nothing else of them: one
 * descriptor to wait on, one call that takes in what has come. For files and block devices it has
 * io_uring where the kernel lets us have it. What io_uring could do only by waiting, or not on
 * every kernel, is done by blocking calls in a few threads of the store's own, started when they
 * are needed: a disk that hangs holds up no other. A store that hears of its bytes in another way,
 * by a socket, has the engine attend that as a source. One thread drives an engine and its stores;
 * done callbacks run in it, from store_engine_reap() or from submit. Several threads, each with an
 * engine, may share a store: each has its view of it (store_share()).
 */
#ifndef WEFT_STORE_STORE_H
#define WEFT_STORE_STORE_H

#include <errno.h>
#include <stddef.h>

#include "base/compiler.h"
#include "nvmf/common/store_ops.h"

enum store_engine_kind {
	STORE_ENGINE_AUTO, /* io_uring if there is one */
	STORE_ENGINE_THREADS,
};

struct store_engine;

/* -ENOMEM, -EMFILE ... */
int store_engine_create(enum store_engine_kind kind, struct store_engine **ret) must_use;
/*
 * Memory, whole pages, that most of the data will be in, and that stays as long as the engine. With
 * the first transfer past a page cache io_uring has it once for all, where the limit of locked
 * memory allows: the kernel looks for its pages no more, and all of it is there from then on.
 */
void store_engine_lend(struct store_engine *e, void *memory, size_t len);
/* All stores must be destroyed. */
void store_engine_destroy(struct store_engine *e);
/* "io_uring" or "threads". */
const char *store_engine_name(const struct store_engine *e);
/* Readable when store_engine_reap() has something to do, until store_engine_clear(). */
int store_engine_fd(const struct store_engine *e);
/* To be called before the reap that follows a wait on the descriptor; one who polls needs not. */
void store_engine_clear(struct store_engine *e);
/* Hands to the kernel what stores queued since the last call; cheap when there is nothing. */
void store_engine_submit(struct store_engine *e);
/* Calls done for what has finished; returns how many. Cheap when nothing has. */
unsigned store_engine_reap(struct store_engine *e);

/* A descriptor of a store's own, and what is to be done when it is ready. */
struct store_source {
	int fd;
	/*
	 * The descriptor is ready (epoll's events): returns how many operations it was done for. It
	 * removes no source of another store; of its own one may be called that was removed, or has
	 * another descriptor since.
	 */
	unsigned (*process)(struct store_source *src, uint32_t events);
};

/* events: what epoll is to look for. -ENOMEM, -ENOSPC */
int store_engine_add_source(struct store_engine *e, struct store_source *src,
			    uint32_t events) must_use;
/* From here on it is to look for these. */
void store_engine_change_source(struct store_engine *e, struct store_source *src, uint32_t events);
void store_engine_remove_source(struct store_engine *e, struct store_source *src);

/*
 * From here on so many threads use it, each by store_for(s, n) and each driving engines[n], of
 * which the first is the one that the store was made with. A block that is written by one is read
 * by another as it was or as it is then; a FLUSH by one is for what was written by all. All else is
 * for the first thread, and nothing may be under way. Needs no undoing. -ENOMEM.
 */
int store_share(struct store *s, struct store_engine *const *engines, unsigned count) must_use;
/* By the first thread. */
void store_destroy(struct store *s);

/*
 * Looks how large the store is by now: whole blocks, and it may be none. True if that is another
 * size than it had, which the store has from here on. Does not wait: where a file system must ask
 * its server, this is what it heard last, and the server is asked, too.
 */
bool store_measure(struct store *s);
/*
 * Gives it another size, a multiple of the block size, also while it is used: what is beyond the
 * end is gone, and zeroes are there when it grows again. By the first thread. -ENOTSUP: that is not
 * ours to choose; -ENOMEM, never when it shrinks.
 */
static inline int store_resize(struct store *s, uint64_t size)
{
	return s->ops->resize ? s->ops->resize(s, size) : -ENOTSUP;
}
/* True once after a server has told another size: store_measure() sees it now. */
bool store_engine_measured(struct store_engine *e) must_use;

/* Sparse memory that reads as zeroes until written. Answers from within submit. */
int store_mem_create(uint64_t size, uint32_t block_size, uint32_t meta_size,
		     struct store **ret) must_use;

/* Keeps nothing and reads as zeroes: what is measured with it is all but the disk. Answers from
 * within submit. */
int store_null_create(uint64_t size, uint32_t block_size, struct store **ret) must_use;

struct store_file_options {
	/*
	 * 512 or 4096: the size must be a multiple of it. 0: as hosts know it that had the disk
	 * from Linux's target: a file's are its file system's, at most 4 KiB, a device's its
	 * logical sectors; 512 of an NBD server, and where the size is no multiple.
	 */
	uint32_t block_size;
	bool read_only;
	/*
	 * A block device is always used past the page cache. A file goes through the cache, as
	 * a person with a disk image expects (it works on every file system, and other programs
	 * see the same bytes); direct asks for O_DIRECT there too. Operations that are not
	 * aligned for O_DIRECT go through the cache by themselves.
	 */
	bool direct;
	struct store_ahead *ahead; /* store_open(): what there may be of it already; or NULL */
	/* Stores that are about to be destroyed: this one may have the file of one of them, which
	 * two that stay have only to read it. */
	struct store *const *leaving;
	unsigned leaving_count;
};

/*
 * Opens a file or block device. On failure -errno, and in *ret_why a sentence (static) that says
 * what is wrong with the path and what to do.
 */
int store_file_open(struct store_engine *e, const char *path, const struct store_file_options *o,
		    struct store **ret, const char **ret_why) must_use;

/* It is the URI of an NBD server's export (the NBD project's uri.md), not a path. */
bool store_nbd_names(const char *path) must_use;
/*
 * Connects to it, for some seconds at most. On failure as store_file_open(); *ret_why may last only
 * until the next call. A connection that is lost later is sought again: operations fail with
 * -ENOTCONN meanwhile.
 */
int store_nbd_open(struct store_engine *e, const char *uri, const struct store_file_options *o,
		   struct store **ret, const char **ret_why) must_use;

/*
 * Files, devices and connections that threads open: for one whose thread must not wait for a disk
 * or a server. When they are there, or why they are not, store_open() of one of them, with the
 * same options, takes what came of it. What has not answered after half a minute does not.
 */
struct store_ahead;
struct store_wanted {
	const char *path; /* or URI */
	bool read_only;
};
/* how: but for read_only. -ENOMEM, -EMFILE, ... */
int store_ahead_begin(const struct store_wanted *wanted, unsigned count,
		      const struct store_file_options *how, struct store_ahead **ret) must_use;
/* Readable when all are done. */
int store_ahead_fd(const struct store_ahead *a);
bool store_ahead_done(struct store_ahead *a);
/* Whether they were begun for these. */
bool store_ahead_is_for(const struct store_ahead *a, const struct store_wanted *wanted,
			unsigned count);
/* Ends what is under way, for which it waits a second at most, and what nobody took. NULL:
 * nothing. */
void store_ahead_end(struct store_ahead *a);

/* Either, or what there is of it already. *ret_why as of store_nbd_open(). */
int store_open(struct store_engine *e, const char *path, const struct store_file_options *o,
	       struct store **ret, const char **ret_why) must_use;

#endif
