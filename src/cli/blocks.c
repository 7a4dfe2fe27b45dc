/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* "1,2,0x10": numbers of a list, each as --option takes it. */
static unsigned int parse_list(struct argp_state *state, const char *option, char *text,
			       uint64_t max, uint64_t ret[BLOCKS_RANGES_MAX])
{
	unsigned int n = 0;

	for (char *part; (part = strsep(&text, ","));) {
		if (n == BLOCKS_RANGES_MAX) {
			argp_error(state, "%s takes at most %d numbers", option, BLOCKS_RANGES_MAX);
			break;
		}
		ret[n++] = cli_parse_number(state, option, part, 0, max);
	}
	return n;
}

static error_t parse_common(int key, struct blocks *b, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &b->opts;
		return 0;
	case 'f':
		b->flags |= WEFT_FUA;
		return 0;
	case 'l':
		b->flags |= WEFT_LIMITED_RETRY;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

error_t blocks_parse(int key, char *arg, struct argp_state *state)
{
	struct blocks *b = state->input;

	switch (key) {
	case 's':
		b->start_block = cli_parse_size(state, "--start-block", arg, 0, UINT64_MAX);
		return 0;
	case 'c':
		b->block_count =
			(uint32_t)cli_parse_number(state, "--block-count", arg, 0, UINT16_MAX);
		return 0;
	case 'd':
		b->flags |= WEFT_DEALLOCATE;
		return 0;
	default:
		return parse_common(key, b, state);
	}
}

error_t blocks_parse_ranges(int key, char *arg, struct argp_state *state)
{
	struct blocks *b = state->input;

	switch (key) {
	case 's':
		b->start_count = parse_list(state, "--slbs", arg, UINT64_MAX, b->starts);
		return 0;
	case 'b':
		b->count_count = parse_list(state, "--blocks", arg, UINT32_MAX, b->counts);
		return 0;
	case 'a':
		b->context_count = parse_list(state, "--ctx-attrs", arg, UINT32_MAX, b->contexts);
		return 0;
	case 'd':
		if (arg)
			b->start_block = cli_parse_size(state, "--sdlba", arg, 0, UINT64_MAX);
		else
			b->attributes |= WEFT_DSM_DEALLOCATE;
		return 0;
	case 'w':
		b->attributes |= WEFT_DSM_WRITE;
		return 0;
	case 'r':
		b->attributes |= WEFT_DSM_READ;
		return 0;
	case 'c':
		b->cdw11 = (uint32_t)cli_parse_number(state, "--cdw11", arg, 0, UINT32_MAX);
		return 0;
	default:
		return parse_common(key, b, state);
	}
}

static bool check_ranges(const struct blocks *b, uint64_t count_max)
{
	for (unsigned int i = 0; i < b->count_count; i++)
		if (b->counts[i] > count_max) {
			cli_fail("--blocks: a range takes up to %llu, not %llu",
				 (unsigned long long)count_max, (unsigned long long)b->counts[i]);
			return false;
		}
	if (b->context_count > b->start_count) {
		cli_fail("%u attributes of ranges and %u beginnings: --ctx-attrs takes no more "
			 "numbers than there are ranges",
			 b->context_count, b->start_count);
		return false;
	}
	if (b->start_count && b->start_count == b->count_count)
		return true;
	cli_fail("%u beginnings of ranges and %u lengths: --slbs and --blocks take as many numbers "
		 "as there are ranges",
		 b->start_count, b->count_count);
	return false;
}

static bool carry_out(const struct blocks_verb *v, const struct blocks *b, struct remote *r)
{
	struct remote_answer a = {0};
	uint32_t nsid = b->opts.uri.nsid;
	struct nvme_id_ns id;
	struct output o;
	int rc;

	if (!remote_identify_ns(r, &nsid, &id))
		return false;
	rc = v->submit(weft_ctrl_io_queue(r->ctrl, 0), b, nsid, &a);
	if (!remote_expect(r, rc, &a, true, v->what))
		return false;
	output_init(&o, stdout, b->opts.format);
	output_note(&o, "%s", v->success);
	if (b->opts.format == OUTPUT_JSON)
		output_number(&o, "nsid", NULL, nsid, NULL);
	return output_finish(&o);
}

int blocks_run(const struct blocks_verb *v, int argc, char **argv)
{
	struct remote_config config = {.io_queues = 1};
	struct blocks b = {0};
	struct remote *r;
	bool ok;

	nvme_opts_init(&b.opts, NVME_OPTS_NAMESPACE);
	nvme_verb_parse(v->argp, v->name, argc, argv, &b);
	if (v->count_max && !check_ranges(&b, v->count_max))
		return EXIT_FAILED;
	r = remote_open(&b.opts, &config);
	if (!r)
		return EXIT_FAILED;
	ok = carry_out(v, &b, r);
	remote_close(r);
	return ok ? EXIT_OK : EXIT_FAILED;
}
