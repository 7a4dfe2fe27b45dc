/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/nvme_verb.h"
#include "cli/rw.h"

enum { KEY_FORCE = 0x200, CHUNK_MAX = 1 << 20, BLOCKS_PER_COMMAND = 65536 };

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Which blocks:", 0},
	NVME_VERB_NSID,
	{"start-block", 's', "LBA", 0, "First block (default 0)", 0},
	{"block-count", 'c', "N", 0, "Blocks, zero-based as nvme-cli counts: 0 is one block", 0},
	{"data-size", 'z', "BYTES", 0, "Bytes to transfer", 0},
	{"data", 'd', "FILE", 0, "File (default: standard input or output)", 0},
	{"force-unit-access", 'f', NULL, 0,
	 "Past any volatile cache: what is transferred is on stable storage", 0},
	{"limited-retry", 'l', NULL, 0, "The disk is not to try for long", 0},
	{"show-command", 'v', NULL, 0, "Show the command before it is sent", 4},
	{NULL, 'V', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 4},
	{"dry-run", 'w', NULL, 0, "Show the command and do not send it", 4},
	{"latency", 't', NULL, 0, "Tell how long it took", 4},
	NVME_VERB_IDLE("force", KEY_FORCE),
	NVME_VERB_ZERO("metadata-size", 'y'),
	NVME_VERB_NO_FILE("metadata", 'M'),
	NVME_VERB_ZERO("prinfo", 'p'),
	NVME_VERB_ZERO("ref-tag", 'r'),
	NVME_VERB_ZERO("app-tag", 'a'),
	NVME_VERB_ZERO("app-tag-mask", 'm'),
	NVME_VERB_ZERO("storage-tag", 'g'),
	NVME_VERB_NOT("storage-tag-check", 'C'),
	NVME_VERB_ZERO("dir-type", 'T'),
	NVME_VERB_ZERO("dir-spec", 'S'),
	NVME_VERB_ZERO("dsm", 'D'),
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct rw *rw = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &rw->opts;
		return 0;
	case 's':
		rw->start_block = cli_parse_size(state, "--start-block", arg, 0, UINT64_MAX >> 16);
		return 0;
	case 'c':
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
		rw->flags |= WEFT_FUA;
		return 0;
	case 'l':
		rw->flags |= WEFT_LIMITED_RETRY;
		return 0;
	case 'v':
	case 'V':
		rw->show = true;
		return 0;
	case 'w':
		rw->dry_run = true;
		return 0;
	case 't':
		rw->latency = true;
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

void rw_show(const struct rw *rw, uint64_t slba, uint32_t blocks)
{
	static const uint8_t opcodes[] = {[RW_READ] = NVME_IO_READ,
					  [RW_WRITE] = NVME_IO_WRITE,
					  [RW_COMPARE] = NVME_IO_COMPARE};
	const uint32_t cdw12 = (rw->flags & WEFT_FUA ? NVME_RW_FUA : 0) |
			       (rw->flags & WEFT_LIMITED_RETRY ? NVME_RW_LR : 0);

	printf("opcode       : %02x\n", opcodes[rw->kind]);
	printf("nsid         : %02x\n", rw->ns.nsid);
	printf("flags        : 00\n");
	printf("control      : %04x\n", cdw12 >> 16);
	printf("nblocks      : %04x\n", blocks - 1);
	printf("slba         : %llx\n", (unsigned long long)slba);
	printf("dsmgmt       : 00000000\n");
	printf("reftag       : 0\n");
	printf("apptag       : 0000\n");
	printf("appmask      : 0000\n");
	printf("storagetagcheck : 0000\n");
	printf("storagetag      : 0\n");
	printf("pif             : 00\n");
	printf("sts             : 00\n");
}

void rw_end(struct rw *rw)
{
	if (rw->latency)
		printf(" latency: %s: %llu us\n", verbs[rw->kind].name,
		       (unsigned long long)(rw->took_ns / 1000));
	remote_close(rw->remote);
}

int rw_begin(struct rw *rw, enum rw_kind kind, int argc, char **argv)
{
	struct remote_config config = {.io_queues = 1};
	struct remote *r;

	*rw = (struct rw){.kind = kind};
	nvme_opts_init(&rw->opts, NVME_OPTS_NAMESPACE);
	nvme_verb_parse(verbs[kind].argp, verbs[kind].name, argc, argv, rw);
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
