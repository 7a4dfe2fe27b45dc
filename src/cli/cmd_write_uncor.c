/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft write-uncor: blocks that cannot be read until they are written anew. */
#include "cli/blocks.h"

int cmd_write_uncor(int argc, char **argv);

static const struct argp_option options[] = {
	BLOCKS_WHICH,
	NVME_VERB_ZERO("dir-type", 'T'),
	NVME_VERB_ZERO("dir-spec", 'S'),
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = blocks_parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Have reads of blocks of a namespace fail, until they are written anew (Write "
	       "Uncorrectable). What they hold is gone.",
	.children = nvme_opts_children,
};

static int submit(struct weft_queue *q, const struct blocks *b, uint32_t nsid,
		  struct remote_answer *a)
{
	return weft_queue_write_uncorrectable(q, nsid, b->start_block, b->block_count + 1, 0,
					      remote_answered, a);
}

int cmd_write_uncor(int argc, char **argv)
{
	static const struct blocks_verb verb = {
		.name = "write-uncor",
		.what = "Write Uncorrectable",
		.success = "NVME Write Uncorrectable Success",
		.argp = &argp,
		.submit = submit,
	};

	return blocks_run(&verb, argc, argv);
}
