/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft dsm: what ranges are for. */
#include "cli/blocks.h"

int cmd_dsm(int argc, char **argv);

static const struct argp_option options[] = {
	NVME_VERB_NSID,
	{"slbs", 's', "LBA,...", 0, "First blocks of the ranges", 0},
	{"blocks", 'b', "N,...", 0, "How many blocks each has", 0},
	{"ad", 'd', NULL, 0, "Deallocate: nobody needs them", 0},
	{"ctx-attrs", 'a', "N,...", 0, "Context attributes of each", 0},
	{"idw", 'w', NULL, 0, "They are written as one", 0},
	{"idr", 'r', NULL, 0, "They are read as one", 0},
	{"cdw11", 'c', "N", 0, "Dword 11 of the command, instead of --ad, --idw and --idr", 0},
	{0},
};

static const struct argp argp = {
	.options = options,
	.parser = blocks_parse_ranges,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Tell a controller of ranges of a namespace what they are for, or that nobody needs "
	       "what is there.",
	.children = nvme_opts_children,
};

static int submit(struct weft_queue *q, const struct blocks *b, uint32_t nsid,
		  struct remote_answer *a)
{
	struct weft_range ranges[BLOCKS_RANGES_MAX];

	for (unsigned int i = 0; i < b->start_count; i++)
		ranges[i] = (struct weft_range){.lba = b->starts[i],
						.blocks = (uint32_t)b->counts[i],
						.attributes = (uint32_t)b->contexts[i]};
	return weft_queue_dsm(q, nsid, ranges, b->start_count, b->cdw11 ? b->cdw11 : b->attributes,
			      0, remote_answered, a);
}

int cmd_dsm(int argc, char **argv)
{
	static const struct blocks_verb verb = {
		.name = "dsm",
		.what = "Dataset Management",
		.success = "NVMe DSM: success",
		.argp = &argp,
		.count_max = UINT32_MAX,
		.submit = submit,
	};

	return blocks_run(&verb, argc, argv);
}
