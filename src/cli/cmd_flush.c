/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft flush: what was written is on stable storage. */
#include "cli/blocks.h"

int cmd_flush(int argc, char **argv);

static const struct argp_option options[] = {
	NVME_VERB_NSID,
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = blocks_parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Have a controller bring what it was sent of a namespace to stable storage.",
	.children = nvme_opts_children,
};

static int submit(struct weft_queue *q, const struct blocks *b, uint32_t nsid,
		  struct remote_answer *a)
{
	(void)b;
	return weft_queue_flush(q, nsid, 0, remote_answered, a);
}

int cmd_flush(int argc, char **argv)
{
	static const struct blocks_verb verb = {
		.name = "flush",
		.what = "Flush",
		.success = "NVMe Flush: success",
		.argp = &argp,
		.submit = submit,
	};

	return blocks_run(&verb, argc, argv);
}
