/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/rw.h"

enum { KEY_START = 0x200, KEY_COUNT, CHUNK_MAX = 1 << 20, BLOCKS_PER_COMMAND = 65536 };

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Which blocks:", 0},
	{"start-block", KEY_START, "LBA", 0, "First block (default 0)", 0},
	{"block-count", KEY_COUNT, "N", 0, "Blocks, zero-based as nvme-cli counts: 0 is one block",
	 0},
	{"data-size", 'z', "BYTES", 0, "Bytes to transfer", 0},
	{"data", 'd', "FILE", 0, "File (default: standard input or output)", 0},
	{"force-unit-access", 'f', NULL, 0,
	 "Past any volatile cache: what is transferred is on stable storage", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct rw *rw = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &rw->opts;
		return 0;
	case KEY_START:
		rw->start_block =
			cli_parse_number(state, "--start-block", arg, 0, UINT64_MAX >> 16);
		return 0;
	case KEY_COUNT:
		rw->block_count =
			(uint32_t)cli_parse_number(state, "--block-count", arg, 0, UINT32_MAX - 1);
		rw->has_count = true;
		return 0;
	case 'z':
		rw->data_size = cli_parse_size(state, "--data-size", arg, 1, UINT64_MAX >> 1);
		rw->has_size = true;
		return 0;
	case 'd':
		rw->path = strcmp(arg, "-") == 0 ? NULL : arg;
		return 0;
	case 'f':
		rw->fua = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp_read = {
	.options = options,
	.parser = parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Read blocks of a namespace into a file or to standard output.\v"
	       "Without --block-count and --data-size one block is read.",
	.children = nvme_opts_children,
};
static const struct argp argp_write = {
	.options = options,
	.parser = parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Write blocks of a namespace from a file or from standard input.\v"
	       "Without --block-count and --data-size all of the input is written.",
	.children = nvme_opts_children,
};

static const struct argp argp_compare = {
	.options = options,
	.parser = parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Compare blocks of a namespace with a file or standard input, where they are.\v"
	       "Without --block-count and --data-size all of the input is compared.",
	.children = nvme_opts_children,
};

static const struct {
	const char *name;
	const struct argp *argp;
} verbs[] = {
	[RW_READ] = {"read", &argp_read},
	[RW_WRITE] = {"write", &argp_write},
	[RW_COMPARE] = {"compare", &argp_compare},
};

bool rw_check_range(const struct rw *rw, uint64_t bytes)
{
	uint64_t blocks = (bytes + rw->ns.block_bytes - 1) / rw->ns.block_bytes;

	if (rw->start_block < rw->ns.blocks && blocks <= rw->ns.blocks - rw->start_block)
		return true;
	cli_fail("%llu blocks from block %llu on are beyond the end of namespace %u, which has "
		 "%llu blocks of %u bytes",
		 (unsigned long long)blocks, (unsigned long long)rw->start_block, rw->ns.nsid,
		 (unsigned long long)rw->ns.blocks, rw->ns.block_bytes);
	return false;
}

/* What the options mean in bytes. */
static bool settle_size(struct rw *rw)
{
	uint64_t counted = ((uint64_t)rw->block_count + 1) * rw->ns.block_bytes;

	if (rw->has_size && rw->has_count && rw->data_size > counted) {
		cli_fail("--data-size=%llu is more than --block-count=%u holds: %llu bytes "
			 "(the count is zero-based)",
			 (unsigned long long)rw->data_size, rw->block_count,
			 (unsigned long long)counted);
		return false;
	}
	if (rw->has_size)
		rw->bytes = rw->data_size;
	else if (rw->has_count || rw->kind == RW_READ)
		rw->bytes = counted;
	else
		rw->bytes = UINT64_MAX;
	if (rw->kind != RW_READ && rw->bytes != UINT64_MAX && rw->bytes % rw->ns.block_bytes) {
		cli_fail("%llu bytes are no whole number of blocks of %u bytes%s",
			 (unsigned long long)rw->bytes, rw->ns.block_bytes,
			 rw->kind == RW_WRITE ? "; `weft cp` writes parts of blocks" : "");
		return false;
	}
	return rw_check_range(rw, rw->bytes == UINT64_MAX ? 1 : rw->bytes);
}

int rw_begin(struct rw *rw, enum rw_kind kind, int argc, char **argv)
{
	struct remote_config config = {.io_queues = 1};
	struct remote *r;

	*rw = (struct rw){.kind = kind};
	nvme_opts_init(&rw->opts, NVME_OPTS_NAMESPACE);
	cli_parse(verbs[kind].argp, verbs[kind].name, argc, argv, rw);
	r = rw->remote = remote_open(&rw->opts, &config);
	nvme_opts_wipe(&rw->opts);
	if (!r)
		return EXIT_FAILED;
	if (!remote_namespace(r, rw->opts.uri.nsid, &rw->ns) || !settle_size(rw))
		goto fail;
	if (kind == RW_WRITE && rw->ns.read_only) {
		cli_fail("namespace %u of '%s' is write-protected", rw->ns.nsid, r->info.nqn);
		goto fail;
	}
	rw->chunk = min_of(r->info.transfer_max, (uint32_t)CHUNK_MAX);
	rw->chunk = (uint32_t)min_of((uint64_t)rw->chunk,
				     (uint64_t)BLOCKS_PER_COMMAND * rw->ns.block_bytes);
	rw->chunk -= rw->chunk % rw->ns.block_bytes;
	if (rw->chunk == 0) {
		cli_fail("a block of namespace %u has more bytes than a command may transfer (%u)",
			 rw->ns.nsid, r->info.transfer_max);
		goto fail;
	}
	rw->buffer = remote_alloc(r, rw->chunk);
	if (rw->buffer)
		return EXIT_OK;
fail:
	remote_close(r);
	return EXIT_FAILED;
}
