/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the commands share that have one I/O command carried out and transfer no blocks: which
 * blocks or ranges, and what nvme-cli says when it is done.
 */
#ifndef WEFT_CLI_BLOCKS_H
#define WEFT_CLI_BLOCKS_H

#include "cli/remote.h"

enum { BLOCKS_RANGES_MAX = WEFT_RANGES_MAX };

struct blocks {
	struct nvme_opts opts;
	uint64_t start_block; /* of a Copy: where to */
	uint32_t block_count; /* zero-based, as nvme-cli counts */
	unsigned int flags;   /* of <weft/nvmf.h> */
	uint32_t attributes;  /* WEFT_DSM_* */
	uint64_t starts[BLOCKS_RANGES_MAX], counts[BLOCKS_RANGES_MAX];
	unsigned int start_count, count_count;
};

struct blocks_verb {
	const char *name;
	const char *what;    /* the command, for messages */
	const char *success; /* nvme-cli's words */
	const struct argp *argp;
	uint64_t count_max; /* it takes ranges: starts, and as many counts up to this; or 0 */
	/* Submits it, with the function remote_answered(). */
	int (*submit)(struct weft_queue *q, const struct blocks *b, uint32_t nsid,
		      struct remote_answer *a);
};

enum blocks_key {
	BLOCKS_KEY_START = 0x200,
	BLOCKS_KEY_COUNT,
	BLOCKS_KEY_STARTS,
	BLOCKS_KEY_RETRY,
	BLOCKS_KEY_IDW,
};

/* Options of which several have the same. */
#define BLOCKS_WHICH                                                                             \
	{NULL, 0, NULL, 0, "Which blocks:", 0},                                                  \
		{"start-block", BLOCKS_KEY_START, "LBA", 0, "First block (default 0)", 0},       \
	{                                                                                        \
		"block-count", BLOCKS_KEY_COUNT, "N", 0,                                         \
			"Blocks, zero-based as nvme-cli counts: 0, the default, is one block", 0 \
	}
#define BLOCKS_RETRY                                                                             \
	{                                                                                        \
		"limited-retry", BLOCKS_KEY_RETRY, NULL, 0, "The disk is not to try for long", 0 \
	}

/* The parser of their argps; its input is a struct blocks. */
error_t blocks_parse(int key, char *arg, struct argp_state *state);
int blocks_run(const struct blocks_verb *v, int argc, char **argv);

#endif
