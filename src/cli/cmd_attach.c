/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft attach: a remote namespace as a block device of this machine's. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <weft/nvmf.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "cli/cli.h"
#include "cli/host_options.h"
#include "cli/provider.h"
#include "ublk/ublk.h"

int cmd_attach(int argc, char **argv);

#define DEPTH_DEFAULT 128
#define DEPTH_MAX     512
#define TRANSFER_MAX  (1u << 20)
#define ZEROES_BLOCKS 65536u /* of one Write Zeroes */
#define ONCS_DSM      (1u << 2)
#define ONCS_ZEROES   (1u << 3)
#define PAGE	      4096u
/* So long a connection that is lost may take to come back once the device is to go. */
#define PATIENCE_NS (5 * NSEC_PER_SEC)
#define LOOK_MS	    500

enum { KEY_DEPTH = 0x100, KEY_ID };

struct attach {
	struct nvme_opts opts;
	unsigned int depth;
	int32_t id;

	struct weft_group *group;
	struct weft_ctrl *ctrl;
	struct weft_queue *queue;
	struct weft_namespace ns;
	struct ublk *ublk;
	uint8_t *data;
	struct tag {
		struct attach *attach;
		uint16_t tag;
	} tags[DEPTH_MAX];
	int signal_fd;
	uint64_t patience_ns; /* until then; DEADLINE_NEVER: it is to stay */
	bool told;	      /* that it is there */
	bool told_of_another; /* disk that is there now */
	bool began;	      /* a request */
};

static const struct argp_option options[] = {
	{"queue-depth", KEY_DEPTH, "N", 0, "Requests under way, 1 to 512 (default 128)", 0},
	{"id", KEY_ID, "N", 0, "Be /dev/ublkbN (default: the first that is free)", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct attach *a = state->input;

	switch (key) {
	case KEY_DEPTH:
		a->depth =
			(unsigned int)cli_parse_number(state, "--queue-depth", arg, 1, DEPTH_MAX);
		return 0;
	case KEY_ID:
		a->id = (int32_t)cli_parse_number(state, "--id", arg, 0, (1 << 20) - 1);
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->opts;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = NVME_NAMESPACE_ARGS,
	.doc = "Make a block device of a remote namespace, by Linux's ublk_drv.\v"
	       "Prints the device's name, and answers its requests until it is interrupted or "
	       "`weft detach` takes the device away.",
	.children = nvme_connect_children,
};

/* --- requests --------------------------------------------------------------------------------- */

/* Whoever looks at the device sees I/O errors. */
static void tell_of_another_disk(struct attach *a)
{
	if (!a->told_of_another)
		cli_fail("%s", weft_ctrl_error(a->ctrl));
	a->told_of_another = true;
}

static void answered(void *arg, const struct weft_result *r)
{
	struct tag *t = arg;

	if (r->error == -ENODEV && !r->status)
		tell_of_another_disk(t->attach);
	ublk_answer(t->attach->ublk, t->tag, r->error);
}

static int submit(struct attach *a, const struct ublk_request *r)
{
	const uint64_t lba = r->offset / a->ns.block_bytes;
	const uint32_t blocks = (uint32_t)(r->bytes / a->ns.block_bytes);
	const struct iovec iov = {r->data, r->bytes};
	const struct weft_range range = {.lba = lba, .blocks = blocks};
	const unsigned int flags = r->fua ? WEFT_FUA : 0;
	struct tag *t = &a->tags[r->tag];

	switch (r->op) {
	case UBLK_READ:
		return weft_queue_read(a->queue, a->ns.nsid, lba, blocks, &iov, 1, 0, answered, t);
	case UBLK_WRITE:
		return weft_queue_write(a->queue, a->ns.nsid, lba, blocks, &iov, 1, flags, answered,
					t);
	case UBLK_FLUSH:
		return weft_queue_flush(a->queue, a->ns.nsid, 0, answered, t);
	case UBLK_DISCARD:
		return weft_queue_dsm(a->queue, a->ns.nsid, &range, 1, WEFT_DSM_DEALLOCATE, 0,
				      answered, t);
	case UBLK_ZEROES:
		return weft_queue_write_zeroes(a->queue, a->ns.nsid, lba, blocks,
					       flags | (r->no_unmap ? 0 : WEFT_DEALLOCATE),
					       answered, t);
	}
	return -EOPNOTSUPP;
}

static void request(void *arg, const struct ublk_request *r)
{
	struct attach *a = arg;
	int error = submit(a, r);

	a->began = true;
	if (error == -ENODEV)
		tell_of_another_disk(a);
	if (error)
		ublk_answer(a->ublk, r->tag, error == -EAGAIN ? -EBUSY : -EIO);
}

/* --- life ------------------------------------------------------------------------------------- */

static int connect_it(struct attach *a)
{
	struct weft_options *o = host_options(&a->opts);
	int rc;

	if (!o)
		return EXIT_FAILED;
	/* Whatever --queue-size says: more are not under way. */
	rc = weft_options_set_queue_entries(o, a->depth + 1);
	if (!rc)
		rc = weft_group_create(&a->group);
	if (!rc)
		rc = weft_ctrl_open(a->group, o, &a->ctrl);
	if (rc)
		rc = cli_fail("%s", weft_options_error(o));
	weft_options_destroy(o);
	if (!rc && weft_ctrl_namespace(a->ctrl, a->opts.uri.nsid, &a->ns, sizeof(a->ns)) != 0)
		rc = cli_fail("%s", weft_ctrl_error(a->ctrl));
	if (!rc && a->ns.block_bytes > PAGE)
		rc = cli_fail("namespace %" PRIu32 " has blocks of %" PRIu32
			      " bytes: Linux's block devices have 4096 at most",
			      a->ns.nsid, a->ns.block_bytes);
	if (!rc)
		a->queue = weft_ctrl_io_queue(a->ctrl, 0);
	return rc;
}

static int make_device(struct attach *a)
{
	struct weft_ctrl_info info = {0};
	struct ublk_config c;
	uint32_t transfer;
	char why[512];

	(void)weft_ctrl_info(a->ctrl, &info, sizeof(info));
	transfer = info.transfer_max ? min_of(info.transfer_max, TRANSFER_MAX) : TRANSFER_MAX;
	transfer -= transfer % PAGE;
	a->data = aligned_alloc(PAGE, (size_t)transfer * a->depth);
	if (!a->data)
		return cli_fail("no memory for %u requests of %" PRIu32 " bytes", a->depth,
				transfer);
	if (weft_ctrl_register(a->ctrl, a->data, (size_t)transfer * a->depth) != 0)
		return cli_fail("%s", weft_ctrl_error(a->ctrl));
	c = (struct ublk_config){
		.bytes = a->ns.blocks * a->ns.block_bytes,
		.block_bytes = a->ns.block_bytes,
		.transfer_max = transfer,
		.depth = (uint16_t)a->depth,
		.id = a->id,
		.zeroes_max = info.oncs & ONCS_ZEROES ? ZEROES_BLOCKS * a->ns.block_bytes : 0,
		.read_only = a->ns.read_only,
		.volatile_cache = info.volatile_cache,
		.discards = info.oncs & ONCS_DSM,
		.request = request,
		.arg = a,
	};
	for (unsigned int i = 0; i < a->depth; i++)
		a->tags[i] = (struct tag){a, (uint16_t)i};
	if (ublk_create(&c, a->data, &a->ublk, why, sizeof(why)) != 0)
		return cli_fail("%s", why);
	return 0;
}

static void tell(struct attach *a)
{
	printf("/dev/ublkb%" PRIu32 ": %" PRIu64 " bytes in %" PRIu32
	       "-byte blocks, namespace %" PRIu32 " of %s\n",
	       ublk_id(a->ublk), a->ns.blocks * a->ns.block_bytes, a->ns.block_bytes, a->ns.nsid,
	       a->opts.uri.nqn);
	fflush(stdout);
	a->told = true;
}

/* The device does not go as long as requests wait, and these wait for the connection. Who says it
 * twice does not. */
static void look_at_signals(struct attach *a)
{
	struct signalfd_siginfo si;

	while (read(a->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		a->patience_ns = a->patience_ns == DEADLINE_NEVER ? time_now_ns() + PATIENCE_NS : 0;
		ublk_stop(a->ublk);
	}
	if (a->patience_ns != DEADLINE_NEVER && time_now_ns() >= a->patience_ns &&
	    weft_ctrl_state(a->ctrl) == WEFT_CTRL_RECONNECTING)
		(void)weft_ctrl_shutdown(a->ctrl);
}

/* The group's descriptor does not know of what begins here, nor when that is to be given up. */
static bool may_sleep(const struct attach *a)
{
	enum ublk_state state = ublk_state(a->ublk);

	return !a->began && state != UBLK_GONE && (a->told || state != UBLK_LIVE);
}

/* Until the device is gone. */
static void serve(struct attach *a)
{
	struct pollfd p[] = {{.fd = weft_group_fd(a->group), .events = POLLIN},
			     {.fd = ublk_fd(a->ublk), .events = POLLIN},
			     {.fd = a->signal_fd, .events = POLLIN}};

	while (ublk_state(a->ublk) != UBLK_GONE) {
		int any = weft_group_poll(a->group);

		ublk_process(a->ublk);
		if (!a->told && ublk_state(a->ublk) == UBLK_LIVE)
			tell(a);
		if (weft_ctrl_state(a->ctrl) == WEFT_CTRL_FAILED)
			ublk_stop(a->ublk);
		/* What this brings about is answered before it sleeps. */
		if (any <= 0 && weft_group_arm(a->group) == 0) {
			a->began = false;
			ublk_process(a->ublk);
			if (may_sleep(a))
				(void)poll(p, ARRAY_SIZE(p),
					   a->patience_ns == DEADLINE_NEVER ? -1 : LOOK_MS);
		}
		look_at_signals(a);
	}
}

static int run(struct attach *a)
{
	char why[512];
	sigset_t ends;
	int rc;

	if (ublk_check(why, sizeof(why)) != 0) /* before anybody is asked for anything */
		return cli_fail("%s", why);
	rc = connect_it(a);
	if (rc)
		return rc;
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	a->signal_fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->signal_fd < 0 || weft_group_fd(a->group) < 0)
		return cli_fail("cannot set up waiting: %s", errno_text(errno));
	rc = make_device(a);
	if (rc)
		return rc;
	serve(a);
	if (ublk_error(a->ublk)[0])
		return cli_fail("%s", ublk_error(a->ublk));
	if (weft_ctrl_state(a->ctrl) == WEFT_CTRL_FAILED)
		return cli_fail("%s", weft_ctrl_error(a->ctrl));
	return 0;
}

int cmd_attach(int argc, char **argv)
{
	struct attach *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return cli_fail("no memory");
	a->depth = DEPTH_DEFAULT;
	a->id = -1;
	a->signal_fd = -1;
	a->patience_ns = DEADLINE_NEVER;
	nvme_opts_init(&a->opts, NVME_OPTS_NAMESPACE);
	cli_parse(&argp, "attach", argc, argv, a);
	if (provider_use(a->opts.provider))
		return EXIT_FAILED;
	rc = run(a);
	if (a->ublk)
		ublk_destroy(a->ublk);
	if (weft_ctrl_close(a->ctrl) != 0)
		rc = cli_fail("the controller was not shut down in order: what was written and not "
			      "flushed may be lost");
	nvme_opts_wipe(&a->opts);
	if (a->signal_fd >= 0)
		close(a->signal_fd);
	free(a->data);
	free(a);
	return rc;
}
