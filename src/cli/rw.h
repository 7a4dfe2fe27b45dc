/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What `weft read`, `weft write` and `weft compare` share: which blocks, which file. */
#ifndef WEFT_CLI_RW_H
#define WEFT_CLI_RW_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/remote.h"

enum rw_kind { RW_READ, RW_WRITE, RW_COMPARE };

struct rw {
	struct nvme_opts opts;
	enum rw_kind kind;
	uint64_t start_block;
	bool has_count, has_size;
	uint32_t block_count; /* zero-based, as nvme-cli counts */
	uint64_t data_size;   /* bytes */
	const char *path;     /* NULL or "-": standard input or output */
	unsigned int flags;   /* of <weft/nvmf.h> */
	bool show, dry_run, latency;
	uint64_t took_ns;

	struct remote *remote;
	struct weft_namespace ns;
	uint64_t bytes; /* to transfer; UINT64_MAX: what the input holds */
	uint8_t *buffer;
	uint32_t chunk; /* bytes of buffer and of one command */
};

/* Parses, connects, finds the namespace and checks the range. EXIT_OK: go on. Otherwise all is
 * told and freed. */
int rw_begin(struct rw *rw, enum rw_kind kind, int argc, char **argv);
/* Checks that bytes from start_block on are within the namespace; false: told. */
bool rw_check_range(const struct rw *rw, uint64_t bytes) must_use;

/* The command that is about to be sent, as nvme-cli shows it. */
void rw_show(const struct rw *rw, uint64_t slba, uint32_t blocks);
/* Tells how long the commands took, if that is asked for, and closes. */
void rw_end(struct rw *rw);

#endif
