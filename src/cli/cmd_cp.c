/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* weft cp: a file to a namespace, a namespace to a file, or a namespace to a namespace. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/copy.h"

int cmd_cp(int argc, char **argv);

enum { KEY_VERIFY = 0x200, KEY_DEPTH, KEY_QUEUES, KEY_SIZE, KEY_CHUNK };
enum { DEPTH_DEFAULT = 16, CHUNK_DEFAULT = 1 << 20 };
#define ALL_IN_OPTIONS "nvme+rdma:"

struct cp {
	struct nvme_opts opts;
	const char *from, *to;
	bool verify;
	uint32_t depth, chunk;
	uint16_t queues;
	uint64_t size;
	struct copy copy;
};

static const struct argp_option options[] = {
	{"verify", KEY_VERIFY, NULL, 0, "Read both sides again afterwards and compare", 0},
	{"size", KEY_SIZE, "BYTES", 0, "Copy only the first so many bytes", 0},
	{"iodepth", KEY_DEPTH, "N", 0, "Pieces under way at a time (default 16)", 0},
	{"bs", KEY_CHUNK, "BYTES", 0, "Size of a piece (default 1m or what a command carries)", 0},
	{"nr-io-queues", 'i', "N", 0, "I/O queues (default 1)", 3},
	{0},
};

/* The options are of the one namespace there is; its URI may leave all to them. */
static void settle_ends(struct cp *cp, struct argp_state *state)
{
	bool from = nvme_uri_is(cp->from), to = nvme_uri_is(cp->to);
	struct nvme_uri *u = &cp->opts.uri;
	const char *uri = from ? cp->from : cp->to;

	if (!from && !to)
		argp_error(state, "one of the two must be a namespace: nvme+rdma://HOST/NQN?ns=N");
	else if (from && to && (u->host[0] || u->port[0] || u->nqn[0] || u->nsid))
		argp_error(state,
			   "-a, -s, -n and -N do not say which of two namespaces is meant; name "
			   "both by URI");
	else if (from && to)
		return;
	else if (strcmp(uri, ALL_IN_OPTIONS) != 0)
		nvme_opts_take_uri(&cp->opts, state, uri);
	else if (!u->host[0])
		argp_error(state, "%s leaves to -a, -s, -n and -N what is meant: which address?",
			   uri);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cp *cp = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &cp->opts;
		return 0;
	case KEY_VERIFY:
		cp->verify = true;
		return 0;
	case KEY_SIZE:
		cp->size = cli_parse_size(state, "--size", arg, 1, UINT64_MAX >> 1);
		return 0;
	case KEY_DEPTH:
		cp->depth = (uint32_t)cli_parse_number(state, "--iodepth", arg, 1, COPY_DEPTH_MAX);
		return 0;
	case KEY_CHUNK:
		cp->chunk = (uint32_t)cli_parse_size(state, "--bs", arg, 512, 8 << 20);
		return 0;
	case 'i':
		cp->queues = (uint16_t)cli_parse_number(state, "--nr-io-queues", arg, 1,
							WEFT_IO_QUEUES_MAX);
		return 0;
	case ARGP_KEY_ARG:
		if (!cp->from)
			cp->from = arg;
		else if (!cp->to)
			cp->to = arg;
		else
			argp_error(state, "'%s' is one argument too many", arg);
		return 0;
	case ARGP_KEY_END:
		if (!cp->to)
			argp_error(state, "it takes a source and a destination");
		else
			settle_ends(cp, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE nvme+rdma|tcp://HOST[:PORT]/NQN[?ns=N]\n"
		    "nvme+rdma|tcp://HOST[:PORT]/NQN[?ns=N] FILE\n"
		    "FILE nvme+rdma|tcp: -a ADDRESS [-s PORT] -n NQN [-N NSID]\n"
		    "nvme+rdma|tcp: FILE -a ADDRESS [-s PORT] -n NQN [-N NSID]\n"
		    "nvme+rdma|tcp://... nvme+rdma|tcp://...",
	.doc = "Copy between a file or block device and a namespace, or between namespaces.\v"
	       "Holes of a file are not sent, zeroes of a namespace become holes. Whatever does "
	       "not fit is refused before anything is written.",
	.children = nvme_opts_children,
};

static bool open_namespace(struct cp *cp, struct copy_end *e)
{
	struct remote_config config = {.io_queues = cp->queues, .reconnect = true};
	struct nvme_opts opts = cp->opts;
	const char *why;

	if (nvme_uri_is(cp->from) && nvme_uri_is(cp->to)) {
		if (nvme_uri_parse(e->name, &opts.uri, &why)) {
			cli_fail("'%s' is no namespace: %s", e->name, why);
			return false;
		}
		if (cp->opts.uri.hostnqn[0])
			strcpy(opts.uri.hostnqn, cp->opts.uri.hostnqn);
		if (cp->opts.uri.hostid[0])
			strcpy(opts.uri.hostid, cp->opts.uri.hostid);
	}
	e->remote = remote_open(&opts, &config);
	nvme_opts_wipe(&opts);
	if (!e->remote || !remote_namespace(e->remote, opts.uri.nsid, &e->ns))
		return false;
	e->bytes = e->ns.blocks * e->ns.block_bytes;
	return true;
}

static bool file_size(struct copy_end *e)
{
	struct stat st;

	if (fstat(e->fd, &st)) {
		cli_fail("cannot look at %s: %s", e->name, strerror(errno));
		return false;
	}
	if (S_ISBLK(st.st_mode)) {
		if (ioctl(e->fd, BLKGETSIZE64, &e->bytes)) {
			cli_fail("cannot get the size of %s: %s", e->name, strerror(errno));
			return false;
		}
		return true;
	}
	if (!S_ISREG(st.st_mode)) {
		cli_fail("%s is neither a file nor a block device; `weft read` and `weft write` "
			 "take pipes",
			 e->name);
		return false;
	}
	e->regular = true;
	e->bytes = (uint64_t)st.st_size;
	return true;
}

static bool open_source(struct cp *cp)
{
	struct copy_end *e = &cp->copy.from;

	if (nvme_uri_is(e->name))
		return open_namespace(cp, e);
	e->fd = open(e->name, O_RDONLY | O_CLOEXEC);
	if (e->fd < 0) {
		cli_fail("cannot read %s: %s", e->name, strerror(errno));
		return false;
	}
	return file_size(e);
}

/* The file is made only now that all else is known to be well. */
static bool open_destination_file(struct copy_end *e, uint64_t bytes)
{
	e->fd = open(e->name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (e->fd < 0) {
		cli_fail("cannot write %s: %s", e->name, strerror(errno));
		return false;
	}
	if (!file_size(e))
		return false;
	if (!e->regular) {
		if (bytes <= e->bytes)
			return true;
		cli_fail("%s has %llu bytes: too few for %llu", e->name,
			 (unsigned long long)e->bytes, (unsigned long long)bytes);
		return false;
	}
	/* Emptied first, so that what is not written is zero. */
	if (ftruncate(e->fd, 0) || ftruncate(e->fd, (off_t)bytes)) {
		cli_fail("cannot make %s %llu bytes long: %s", e->name, (unsigned long long)bytes,
			 strerror(errno));
		return false;
	}
	return true;
}

static bool open_destination(struct cp *cp)
{
	struct copy *c = &cp->copy;
	struct copy_end *e = &c->to;

	if (!nvme_uri_is(e->name))
		return open_destination_file(e, c->bytes);
	if (!open_namespace(cp, e))
		return false;
	if (e->ns.read_only) {
		cli_fail("%s is write-protected", e->name);
		return false;
	}
	if (c->bytes <= e->bytes)
		return true;
	cli_fail("%s has %llu bytes; %s holds %llu: nothing was written", c->from.name,
		 (unsigned long long)c->bytes, e->name, (unsigned long long)e->bytes);
	return false;
}

static bool prepare(struct cp *cp)
{
	struct copy *c = &cp->copy;

	c->from.name = cp->from;
	c->to.name = cp->to;
	if (!open_source(cp))
		return false;
	c->bytes = c->from.bytes;
	if (cp->size > c->bytes) {
		cli_fail("%s has %llu bytes, not the %llu to be copied", c->from.name,
			 (unsigned long long)c->bytes, (unsigned long long)cp->size);
		return false;
	}
	if (cp->size)
		c->bytes = cp->size;
	return open_destination(cp) && copy_init(c, cp->depth, cp->chunk);
}

static bool report(const struct cp *cp, uint64_t took_ns)
{
	const struct copy *c = &cp->copy;
	double seconds = (double)took_ns / 1e9;
	double rate = seconds > 0 ? (double)c->bytes / seconds : 0;
	char bytes[32], holes[32], took[32], per_second[32], zeroes[80] = "";
	struct output o;

	output_init(&o, stdout, cp->opts.format);
	if (cp->opts.format == OUTPUT_JSON) {
		output_number(&o, "bytes", NULL, c->bytes, NULL);
		output_number(&o, "zero_bytes_skipped", NULL, c->holes, NULL);
		output_real(&o, "seconds", NULL, seconds, NULL);
		output_real(&o, "bytes_per_second", NULL, rate, NULL);
		output_bool(&o, "verified", NULL, cp->verify);
	} else {
		if (c->holes)
			snprintf(zeroes, sizeof(zeroes), ", %s of zeroes %s",
				 text_bytes(holes, sizeof(holes), c->holes),
				 c->to.remote ? "not sent" : "left as holes");
		output_note(&o, "copied %s in %s (%s/s)%s%s",
			    text_bytes(bytes, sizeof(bytes), c->bytes),
			    text_duration(took, sizeof(took), took_ns),
			    text_bytes(per_second, sizeof(per_second), (uint64_t)rate), zeroes,
			    cp->verify ? "; verified" : "");
	}
	return output_finish(&o);
}

int cmd_cp(int argc, char **argv)
{
	struct cp cp = {
		.depth = DEPTH_DEFAULT,
		.chunk = CHUNK_DEFAULT,
		.queues = 1,
		.copy = {.from.fd = -1, .to.fd = -1},
	};
	struct copy *c = &cp.copy;
	uint64_t start_ns;
	bool ok;

	nvme_opts_init(&cp.opts, NVME_OPTS_OWN);
	cli_parse(&argp, "cp", argc, argv, &cp);
	ok = prepare(&cp);
	nvme_opts_wipe(&cp.opts);
	if (ok) {
		start_ns = time_now_ns();
		ok = copy_run(c);
		if (!ok)
			cli_warn("%s is incomplete", c->to.name);
		uint64_t took_ns = time_now_ns() - start_ns;

		ok = ok && (!cp.verify || copy_verify(c)) && report(&cp, took_ns);
	}
	/* The buffers are the source's: while the destination is there, its target reaches them. */
	remote_close(c->to.remote);
	remote_close(c->from.remote);
	copy_fini(c);
	if (c->from.fd >= 0)
		close(c->from.fd);
	if (c->to.fd >= 0 && close(c->to.fd) && ok)
		ok = cli_fail("cannot write %s: %s", c->to.name, strerror(errno)) == EXIT_OK;
	return ok ? EXIT_OK : EXIT_FAILED;
}
