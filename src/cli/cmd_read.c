/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft read: blocks of a namespace to a file or to standard output. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/rw.h"

int cmd_read(int argc, char **argv);

static int read_blocks(struct rw *rw, FILE *out)
{
	const char *name = rw->path ? rw->path : "standard output";
	struct weft_queue *q = weft_ctrl_io_queue(rw->remote->ctrl, 0);
	uint64_t done = 0;

	while (done < rw->bytes) {
		uint32_t len = (uint32_t)min_of((uint64_t)rw->chunk, rw->bytes - done);
		uint32_t blocks = (len + rw->ns.block_bytes - 1) / rw->ns.block_bytes;
		uint64_t slba = rw->start_block + done / rw->ns.block_bytes;
		struct iovec iov = {rw->buffer, (size_t)blocks * rw->ns.block_bytes};
		struct remote_answer a = {0};
		uint64_t begun_ns = time_now_ns();
		char what[64];
		bool ok;
		int rc;

		if (rw->show || rw->dry_run)
			rw_show(rw, slba, blocks);
		done += len;
		if (rw->dry_run)
			continue;
		snprintf(what, sizeof(what), "Read of %u blocks from block %llu", blocks,
			 (unsigned long long)slba);
		rc = weft_queue_read(q, rw->ns.nsid, slba, blocks, &iov, 1, rw->flags,
				     remote_answered, &a);
		ok = remote_expect(rw->remote, rc, &a, true, what);
		rw->took_ns += time_now_ns() - begun_ns;
		if (!ok)
			return EXIT_FAILED;
		if (fwrite(rw->buffer, 1, len, out) != len)
			return cli_fail("cannot write to %s: %s", name, strerror(errno));
	}
	if (fflush(out))
		return cli_fail("cannot write to %s: %s", name, strerror(errno));
	return EXIT_OK;
}

int cmd_read(int argc, char **argv)
{
	struct rw rw;
	FILE *out;
	int status = rw_begin(&rw, RW_READ, argc, argv);

	if (status)
		return status;
	if (rw.dry_run)
		rw.path = NULL; /* which is left as it is */
	if (!rw.path && !rw.dry_run && isatty(STDOUT_FILENO)) {
		remote_close(rw.remote);
		return cli_fail("data does not go to a terminal; redirect it, or say --data=FILE");
	}
	out = rw.path ? fopen(rw.path, "we") : stdout;
	if (out)
		status = read_blocks(&rw, out);
	else
		status = cli_fail("cannot create %s: %s", rw.path, strerror(errno));
	if (out && out != stdout && fclose(out) && status == EXIT_OK)
		status = cli_fail("cannot write %s: %s", rw.path, strerror(errno));
	rw_end(&rw);
	return status;
}
