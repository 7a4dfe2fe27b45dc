/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft write, weft compare: blocks of a namespace from a file or from standard input. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/rw.h"

int cmd_write(int argc, char **argv);
int cmd_compare(int argc, char **argv);

static const char *done_to(const struct rw *rw)
{
	return rw->kind == RW_WRITE ? "written" : "compared";
}

/* A regular file tells its size: what cannot be right is refused before anything is written. */
static bool check_input(struct rw *rw, FILE *in, const char *name)
{
	struct stat st;
	uint64_t size;

	if (fstat(fileno(in), &st) || !S_ISREG(st.st_mode))
		return true;
	size = (uint64_t)st.st_size;
	if (rw->bytes == UINT64_MAX) {
		if (size % rw->ns.block_bytes) {
			cli_fail("%s has %llu bytes, no whole number of blocks of %u bytes%s", name,
				 (unsigned long long)size, rw->ns.block_bytes,
				 rw->kind == RW_WRITE ? "; `weft cp` writes parts of blocks" : "");
			return false;
		}
		rw->bytes = size;
		return rw_check_range(rw, size);
	}
	if (size >= rw->bytes)
		return true;
	cli_fail("%s has %llu bytes, not the %llu to be %s", name, (unsigned long long)size,
		 (unsigned long long)rw->bytes, done_to(rw));
	return false;
}

/* Sends one command and waits; false: told. */
static bool exec(struct rw *rw, uint64_t slba, uint32_t len, const char *name)
{
	struct weft_queue *q = weft_ctrl_io_queue(rw->remote->ctrl, 0);
	const uint32_t blocks = len / rw->ns.block_bytes;
	struct iovec iov = {rw->buffer, len};
	struct remote_answer a = {0};
	uint64_t begun_ns = time_now_ns();
	bool answered;
	char what[64];
	int rc;

	if (rw->show || rw->dry_run)
		rw_show(rw, slba, blocks);
	if (rw->dry_run)
		return true;
	snprintf(what, sizeof(what), "%s of %u blocks from block %llu",
		 rw->kind == RW_WRITE ? "Write" : "Compare", blocks, (unsigned long long)slba);
	rc = (rw->kind == RW_WRITE ? weft_queue_write : weft_queue_compare)(
		q, rw->ns.nsid, slba, blocks, &iov, 1, rw->flags, remote_answered, &a);
	answered = rw->kind == RW_WRITE ? remote_expect(rw->remote, rc, &a, true, what)
					: remote_await(rw->remote, rc, &a);
	rw->took_ns += time_now_ns() - begun_ns;
	if (!answered || rw->kind == RW_WRITE)
		return answered;
	if (a.result.error == -EILSEQ) {
		cli_fail("of the %u blocks from block %llu on, some of namespace %u are not what "
			 "%s holds",
			 blocks, (unsigned long long)slba, rw->ns.nsid, name);
		return false;
	}
	if (a.result.error)
		remote_tell_result(rw->remote, &a.result, true, what);
	return a.result.error == 0;
}

static int write_blocks(struct rw *rw, FILE *in, const char *name)
{
	uint64_t done = 0;

	while (done < rw->bytes) {
		size_t want = (size_t)min_of((uint64_t)rw->chunk, rw->bytes - done);
		size_t len = fread(rw->buffer, 1, want, in);
		uint64_t slba = rw->start_block + done / rw->ns.block_bytes;

		if (ferror(in))
			return cli_fail("cannot read %s: %s", name, strerror(errno));
		if (len < want && (rw->bytes != UINT64_MAX || len % rw->ns.block_bytes))
			return cli_fail("%s ends after %llu bytes%s; %llu are %s", name,
					(unsigned long long)(done + len),
					rw->bytes == UINT64_MAX ? ", in the middle of a block" : "",
					(unsigned long long)done, done_to(rw));
		if (len == 0)
			break;
		if (!rw_check_range(rw, done + len))
			return EXIT_FAILED;
		if (!exec(rw, slba, (uint32_t)len, name))
			return EXIT_FAILED;
		done += len;
	}
	return EXIT_OK;
}

static int run(enum rw_kind kind, int argc, char **argv)
{
	struct rw rw;
	const char *name;
	FILE *in;
	int status = rw_begin(&rw, kind, argc, argv);

	if (status)
		return status;
	name = rw.path ? rw.path : "standard input";
	in = rw.path ? fopen(rw.path, "re") : stdin;
	if (!in)
		status = cli_fail("cannot read %s: %s", name, strerror(errno));
	else if (!check_input(&rw, in, name))
		status = EXIT_FAILED;
	else
		status = write_blocks(&rw, in, name);
	if (in && in != stdin)
		fclose(in);
	/* nvme-cli says that it worked, though nothing is shown. */
	if (status == EXIT_OK && kind == RW_COMPARE && !rw.dry_run)
		fprintf(stderr, "compare: Success\n");
	rw_end(&rw);
	return status;
}

int cmd_write(int argc, char **argv)
{
	return run(RW_WRITE, argc, argv);
}

int cmd_compare(int argc, char **argv)
{
	return run(RW_COMPARE, argc, argv);
}
