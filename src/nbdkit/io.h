/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What NBD clients ask for, as NVMe commands: cut to what a command may carry, all of them under
 * way at once. */
#ifndef WEFT_NBDKIT_IO_H
#define WEFT_NBDKIT_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "nbdkit/worker.h"

enum io_kind { IO_READ, IO_WRITE, IO_FLUSH, IO_TRIM, IO_ZERO };

struct io {
	enum io_kind kind;
	uint32_t nsid, block_bytes;
	unsigned int ctrl_number; /* that found what the namespace is */
	void *buffer;
	uint64_t offset, count; /* bytes, whole blocks */
	bool fua, deallocate;
};

/* Waits. 0, or an errno that NBD knows, and why (room bytes). */
int io_run(struct worker *w, const struct io *io, char *why, size_t room);

#endif
