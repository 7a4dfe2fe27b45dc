/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copying between a namespace and a file, or between two namespaces, with many commands under
 * way: each slot reads a piece of the source and then writes it to the destination.
 *
 * Holes of a source file become Write Zeroes where the controller has it; zeroes from a namespace
 * become holes of a destination file. A file that ends within a block leaves the rest of that
 * block as it was.
 *
 * A destination with a volatile cache that had to be connected to anew may have lost power: what
 * it had acknowledged and not flushed is copied again.
 */
#ifndef WEFT_CLI_COPY_H
#define WEFT_CLI_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/progress.h"
#include "cli/remote.h"

enum { COPY_DEPTH_MAX = 256 };

struct copy_end {
	const char *name; /* as the user wrote it */
	/* A namespace: */
	struct remote *remote; /* NULL: a file */
	struct weft_namespace ns;
	/* A file: */
	int fd;
	bool regular; /* has holes; a block device has none */
	uint64_t bytes;
};

enum copy_step { COPY_IDLE, COPY_READ, COPY_MERGE, COPY_WRITE, COPY_COMPARE };

struct copy_slot {
	struct copy *copy;
	enum copy_step step;
	const char *what; /* the command that is under way, for messages */
	uint64_t offset;
	uint32_t len;	       /* bytes to copy */
	uint8_t *data, *other; /* chunk bytes each; other: what is there already */
};

struct copy {
	struct copy_end from, to;
	uint64_t bytes; /* to copy */
	uint32_t depth, chunk;
	struct copy_slot *slots; /* [depth] */
	uint64_t next, hole_end; /* offset of the next piece; up to hole_end it is a hole */
	unsigned int reconnects; /* of the destination, that were noticed */
	uint64_t suspect;	 /* so far from the start a volatile cache may have lost it */
	uint64_t done, holes;	 /* bytes */
	unsigned int busy;
	bool comparing, failed;
	struct progress progress;
};

/*
 * from and to are open, sizes checked; sets up buffers for depth pieces of at most chunk_max
 * bytes. False: told.
 */
bool copy_init(struct copy *c, uint32_t depth, uint32_t chunk_max) must_use;
/* Copies all, then makes it durable. False: told. */
bool copy_run(struct copy *c) must_use;
/* Reads both sides again and compares. False: told, with the first byte that differs. */
bool copy_verify(struct copy *c) must_use;
/* After the remotes are closed. */
void copy_fini(struct copy *c);

#endif
