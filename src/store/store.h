/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where the bytes of a namespace are: memory, a file or a block device. All are used through
 * the table of nvmf/common/store_ops.h.
 *
 * Files and block devices of one process share an engine: io_uring where the kernel lets us have
 * it. What io_uring could do only by waiting, or not on every kernel, is done by blocking calls in
 * a few threads of the store's own, started when they are needed: a disk that hangs holds up no
 * other. One thread drives an engine and its stores; done callbacks run in it, from
 * store_engine_reap() or from submit.
 */
#ifndef WEFT_STORE_STORE_H
#define WEFT_STORE_STORE_H

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

static inline void store_destroy(struct store *s)
{
	s->ops->destroy(s);
}

/* Sparse memory that reads as zeroes until written. Answers from within submit. */
int store_mem_create(uint64_t size, uint32_t block_size, struct store **ret) must_use;

struct store_file_options {
	uint32_t block_size; /* 512 or 4096: the size must be a multiple of it */
	bool read_only;
	/*
	 * A block device is always used past the page cache. A file goes through the cache, as
	 * a person with a disk image expects (it works on every file system, and other programs
	 * see the same bytes); direct asks for O_DIRECT there too. Operations that are not
	 * aligned for O_DIRECT go through the cache by themselves.
	 */
	bool direct;
};

/*
 * Opens a file or block device. On failure -errno, and in *ret_why a sentence (static) that says
 * what is wrong with the path and what to do.
 */
int store_file_open(struct store_engine *e, const char *path, const struct store_file_options *o,
		    struct store **ret, const char **ret_why) must_use;
/*
 * Looks how large the file or device is by now: whole blocks, and it may be none. True if that is
 * another size than it had, which the store has from here on. Does not wait: where a file system
 * must ask its server, this is what it heard last, and the server is asked, too.
 */
bool store_file_measure(struct store *s) must_use;
/* True once after a server has told another size: store_file_measure() sees it now. */
bool store_engine_measured(struct store_engine *e) must_use;

#endif
