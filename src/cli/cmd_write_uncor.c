/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft write-uncor: blocks that cannot be read until they are written anew. */
#include "cli/blocks.h"

int cmd_write_uncor(int argc, char **argv);

static const struct argp_option options[] = {
	BLOCKS_WHICH,
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

static void prepare(struct host_request *req, const struct blocks *b, uint32_t nsid, void *buf)
{
	(void)buf;
	host_prepare_verify(req, nsid, b->start_block, b->block_count + 1, 0);
	req->sqe.opcode = NVME_IO_WRITE_UNCORRECTABLE;
}

int cmd_write_uncor(int argc, char **argv)
{
	static const struct blocks_verb verb = {
		.name = "write-uncor",
		.what = "Write Uncorrectable",
		.success = "NVME Write Uncorrectable Success",
		.argp = &argp,
		.prepare = prepare,
	};

	return blocks_run(&verb, argc, argv);
}
