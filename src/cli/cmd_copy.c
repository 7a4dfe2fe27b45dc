/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft copy: blocks are copied where they are. */
#include "cli/blocks.h"

int cmd_copy(int argc, char **argv);

static const struct argp_option options[] = {
	NVME_VERB_NSID,
	{"sdlba", 'd', "LBA", 0, "Where to: the first block (default 0)", 0},
	{"slbs", 's', "LBA,...", 0, "First blocks of the ranges", 0},
	{"blocks", 'b', "N,...", 0, "Blocks of each, zero-based as nvme-cli counts: 0 is one block",
	 0},
	{"force-unit-access", 'f', NULL, 0, "They are on stable storage then", 0},
	BLOCKS_RETRY,
	NVME_VERB_ZERO("prinfow", 'p'),
	NVME_VERB_ZERO("prinfor", 'P'),
	NVME_VERB_ZERO("ref-tag", 'r'),
	NVME_VERB_ZERO("expected-ref-tags", 'R'),
	NVME_VERB_ZERO("app-tag", 'a'),
	NVME_VERB_ZERO("expected-app-tags", 'A'),
	NVME_VERB_ZERO("app-tag-mask", 'm'),
	NVME_VERB_ZERO("expected-app-tag-masks", 'M'),
	NVME_VERB_ZERO("dir-type", 'T'),
	NVME_VERB_ZERO("dir-spec", 'S'),
	NVME_VERB_ZERO("format", 'F'),
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = blocks_parse_ranges,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Have a controller copy ranges of a namespace to another place there, one behind "
	       "the other.",
	.children = nvme_opts_children,
};

static int submit(struct weft_queue *q, const struct blocks *b, uint32_t nsid,
		  struct remote_answer *a)
{
	struct weft_range ranges[BLOCKS_RANGES_MAX];

	for (unsigned int i = 0; i < b->start_count; i++)
		ranges[i] = (struct weft_range){.lba = b->starts[i],
						.blocks = (uint32_t)b->counts[i] + 1};
	return weft_queue_copy(q, nsid, b->start_block, ranges, b->start_count, b->flags,
			       remote_answered, a);
}

int cmd_copy(int argc, char **argv)
{
	static const struct blocks_verb verb = {
		.name = "copy",
		.what = "Copy",
		.success = "NVMe Copy: success",
		.argp = &argp,
		.count_max = UINT16_MAX,
		.submit = submit,
	};

	return blocks_run(&verb, argc, argv);
}
