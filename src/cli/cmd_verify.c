/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft verify: blocks are read where they are. */
#include "cli/blocks.h"

int cmd_verify(int argc, char **argv);

static const struct argp_option options[] = {
	BLOCKS_WHICH,
	{"force-unit-access", 'f', NULL, 0, "Of stable storage, past any volatile cache", 0},
	BLOCKS_RETRY,
	BLOCKS_PROTECTION,
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = blocks_parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Have a controller read blocks of a namespace, without sending them.",
	.children = nvme_opts_children,
};

static int submit(struct weft_queue *q, const struct blocks *b, uint32_t nsid,
		  struct remote_answer *a)
{
	return weft_queue_verify(q, nsid, b->start_block, b->block_count + 1, b->flags,
				 remote_answered, a);
}

int cmd_verify(int argc, char **argv)
{
	static const struct blocks_verb verb = {
		.name = "verify",
		.what = "Verify",
		.success = "NVME Verify Success",
		.argp = &argp,
		.submit = submit,
	};

	return blocks_run(&verb, argc, argv);
}
