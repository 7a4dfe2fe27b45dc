/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the commands share that have one I/O command carried out and transfer no blocks: which
 * blocks or ranges, and what nvme-cli says when it is done.
 */
#ifndef WEFT_CLI_BLOCKS_H
#define WEFT_CLI_BLOCKS_H

#include "cli/nvme_verb.h"
#include "cli/remote.h"

enum { BLOCKS_RANGES_MAX = WEFT_RANGES_MAX };

struct blocks {
	struct nvme_opts opts;
	uint64_t start_block; /* of a Copy: where to */
	uint32_t block_count; /* zero-based, as nvme-cli counts */
	unsigned int flags;   /* of <weft/nvmf.h> */
	uint32_t attributes;  /* WEFT_DSM_* */
	uint32_t cdw11;	      /* instead of them; 0: not said */
	uint64_t starts[BLOCKS_RANGES_MAX], counts[BLOCKS_RANGES_MAX];
	uint64_t contexts[BLOCKS_RANGES_MAX]; /* attributes of the ranges themselves */
	unsigned int start_count, count_count, context_count;
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

/* Options of which several have the same. */
#define BLOCKS_WHICH                                                                             \
	{NULL, 0, NULL, 0, "Which blocks:", 0}, NVME_VERB_NSID,                                  \
		{"start-block", 's', "LBA", 0, "First block (default 0)", 0},                    \
	{                                                                                        \
		"block-count", 'c', "N", 0,                                                      \
			"Blocks, zero-based as nvme-cli counts: 0, the default, is one block", 0 \
	}
#define BLOCKS_RETRY                                                                \
	{                                                                           \
		"limited-retry", 'l', NULL, 0, "The disk is not to try for long", 0 \
	}
#define BLOCKS_PROTECTION                                                            \
	NVME_VERB_ZERO("prinfo", 'p'), NVME_VERB_ZERO("ref-tag", 'r'),               \
		NVME_VERB_ZERO("app-tag", 'a'), NVME_VERB_ZERO("app-tag-mask", 'm'), \
		NVME_VERB_ZERO("storage-tag", 'S'), NVME_VERB_NOT("storage-tag-check", 'C')

/* The parsers of their argps, of blocks and of ranges; their input is a struct blocks. */
error_t blocks_parse(int key, char *arg, struct argp_state *state);
error_t blocks_parse_ranges(int key, char *arg, struct argp_state *state);
int blocks_run(const struct blocks_verb *v, int argc, char **argv);

#endif
