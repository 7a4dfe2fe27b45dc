/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft write-zeroes: blocks become zeroes. */
#include "cli/blocks.h"

int cmd_write_zeroes(int argc, char **argv);

static const struct argp_option options[] = {
	BLOCKS_WHICH,
	{"deac", 'd', NULL, 0, "The space may be given back", 0},
	{"force-unit-access", 'f', NULL, 0, "They are on stable storage then", 0},
	BLOCKS_RETRY,
	BLOCKS_PROTECTION,
	NVME_VERB_ZERO("dir-type", 'T'),
	NVME_VERB_ZERO("dir-spec", 'D'),
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = blocks_parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Have a controller write zeroes to blocks of a namespace.",
	.children = nvme_opts_children,
};

static int submit(struct weft_queue *q, const struct blocks *b, uint32_t nsid,
		  struct remote_answer *a)
{
	return weft_queue_write_zeroes(q, nsid, b->start_block, b->block_count + 1, b->flags,
				       remote_answered, a);
}

int cmd_write_zeroes(int argc, char **argv)
{
	static const struct blocks_verb verb = {
		.name = "write-zeroes",
		.what = "Write Zeroes",
		.success = "NVME Write Zeroes Success",
		.argp = &argp,
		.submit = submit,
	};

	return blocks_run(&verb, argc, argv);
}
