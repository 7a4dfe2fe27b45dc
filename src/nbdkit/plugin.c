/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * nbdkit's plugin "weft": namespaces of an NVMe over Fabrics subsystem as NBD exports, so that what
 * speaks NBD (qemu, nbdcopy, nbdfuse, guestfs) uses them without a driver of the kernel's.
 *
 * One controller serves all of nbdkit's connections: a Flush covers what any of its queues wrote,
 * so that clients may use several connections at once (can_multi_conn). It is connected after
 * nbdkit has forked, as a process's RNIC does not follow it into its child.
 *
 * An export's name is the namespace's ID, where the parameters name none.
 */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "nbdkit/io.h"
#include "nbdkit/worker.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* Identify Controller, ONCS (Base figure 275). */
#define ONCS_DSM	  (1u << 2)
#define ONCS_WRITE_ZEROES (1u << 3)

#define QUEUES_DEFAULT	2
#define QUEUES_MAX	64
#define NAMESPACES_MAX	1024
#define PREFERRED_BYTES 4096u
#define REQUEST_MAX	UINT32_MAX /* whatever nbdkit takes: it is cut here */

static struct weft_options *options;
static struct worker *worker;
static unsigned int queues = QUEUES_DEFAULT;
static uint32_t nsid; /* 0: the export's name says */
static bool has_target, has_tls_key;
static bool header_digest, data_digest, concat, tls_compat;
static unsigned int tls_identity = 1;

/* --- parameters ------------------------------------------------------------------------------- */

static int taken(int error, const char *key)
{
	if (!error)
		return 0;
	nbdkit_error("%s: %s", key, weft_options_error(options));
	return -1;
}

static int take_number(const char *key, const char *value, unsigned int min, unsigned int max,
		       unsigned int *ret)
{
	if (nbdkit_parse_unsigned(key, value, ret) < 0)
		return -1;
	if (*ret >= min && *ret <= max)
		return 0;
	nbdkit_error("%s is %u to %u, not %s", key, min, max, value);
	return -1;
}

static int take_key(const char *key, const char *value,
		    int (*set)(struct weft_options *, const char *))
{
	char *text = NULL;
	int rc = nbdkit_read_password(value, &text);

	if (rc == 0)
		rc = taken(set(options, text), key);
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
	return rc;
}

static int take_bool(const char *value, bool *ret)
{
	const int is = nbdkit_parse_bool(value);

	if (is < 0)
		return -1;
	*ret = is;
	return taken(weft_options_set_digests(options, header_digest, data_digest) ||
			     weft_options_set_concat(options, concat) ||
			     weft_options_set_tls_identity(options, tls_identity, tls_compat),
		     "options");
}

static const struct {
	const char *key;
	int (*set)(struct weft_options *, const char *);
} texts[] = {
	{"transport", weft_options_set_transport},
	{"rdma-transport", weft_options_set_rdma_transport},
	{"traddr", weft_options_set_address},
	{"trsvcid", weft_options_set_port},
	{"host-traddr", weft_options_set_source},
	{"nqn", weft_options_set_nqn},
	{"hostnqn", weft_options_set_hostnqn},
	{"hostid", weft_options_set_hostid},
};

static int weft_config(const char *key, const char *value)
{
	unsigned int n, delay_s = 1;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (strcmp(key, texts[i].key) == 0) {
			has_target |= strcmp(key, "traddr") == 0;
			return taken(texts[i].set(options, value), key);
		}
	if (strcmp(key, "uri") == 0) {
		has_target = true;
		if (taken(weft_options_set_uri(options, value), key))
			return -1;
		nsid = weft_options_nsid(options) ? weft_options_nsid(options) : nsid;
		return 0;
	}
	if (strcmp(key, "nsid") == 0)
		return take_number(key, value, 1, UINT_MAX - 1, &nsid);
	if (strcmp(key, "queues") == 0)
		return take_number(key, value, 1, QUEUES_MAX, &queues);
	if (strcmp(key, "queue-size") == 0)
		return take_number(key, value, 2, 1024, &n)
			       ? -1
			       : taken(weft_options_set_queue_entries(options, n), key);
	if (strcmp(key, "keep-alive-tmo") == 0)
		return take_number(key, value, 0, UINT_MAX / 1000, &n)
			       ? -1
			       : taken(weft_options_set_keep_alive_ms(options, n * 1000), key);
	if (strcmp(key, "ctrl-loss-tmo") == 0 && strcmp(value, "-1") == 0)
		return taken(weft_options_set_reconnect(options, delay_s * 1000, -1), key);
	if (strcmp(key, "ctrl-loss-tmo") == 0)
		return take_number(key, value, 0, INT_MAX / 1000, &n)
			       ? -1
			       : taken(weft_options_set_reconnect(options, delay_s * 1000,
								  (int64_t)n * 1000),
				       key);
	if (strcmp(key, "hdr-digest") == 0)
		return take_bool(value, &header_digest);
	if (strcmp(key, "data-digest") == 0)
		return take_bool(value, &data_digest);
	if (strcmp(key, "concat") == 0)
		return take_bool(value, &concat);
	if (strcmp(key, "tls-compat") == 0)
		return take_bool(value, &tls_compat);
	if (strcmp(key, "tls-identity") == 0)
		return take_number(key, value, 0, 1, &tls_identity)
			       ? -1
			       : taken(weft_options_set_tls_identity(options, tls_identity,
								     tls_compat),
				       key);
	if (strcmp(key, "dhchap-secret") == 0)
		return take_key(key, value, weft_options_set_dhchap_key);
	if (strcmp(key, "dhchap-ctrl-secret") == 0)
		return take_key(key, value, weft_options_set_dhchap_ctrl_key);
	if (strcmp(key, "tls-key") == 0) {
		has_tls_key = true;
		return take_key(key, value, weft_options_set_tls_key);
	}
	nbdkit_error("there is no parameter %s", key);
	return -1;
}

static int weft_config_complete(void)
{
	if (has_tls_key) /* whatever a URI says: who has given a key is not to be heard in plain */
		(void)weft_options_set_tls(options, true);
	if (has_target)
		return 0;
	nbdkit_error("what to connect to is missing: uri=nvme+tcp://HOST/NQN?ns=1, or traddr= and "
		     "nqn=");
	return -1;
}

#define CONFIG_HELP                                                                      \
	"uri=nvme+rdma|tcp|tcp+tls://HOST[:PORT]/NQN[?ns=NSID]  (or traddr= and nqn=)\n" \
	"nsid=NSID            Namespace; without it the export's name is its ID.\n"      \
	"queues=N             I/O queues (default 2).\n"                                 \
	"queue-size=N         Entries of each.\n"                                        \
	"hostnqn=NQN, hostid=UUID, transport=, traddr=, trsvcid=, host-traddr=, nqn=\n"  \
	"rdma-transport=roce|iwarp\n"                                                    \
	"hdr-digest=BOOL, data-digest=BOOL, concat=BOOL\n"                               \
	"keep-alive-tmo=SECONDS, ctrl-loss-tmo=SECONDS (default 600; -1: for ever)\n"    \
	"tls-identity=0|1 (default 1), tls-compat=BOOL: how tls-key is used\n"           \
	"dhchap-secret=, dhchap-ctrl-secret=, tls-key=  KEY, - (asked for), +FILE or -FD."

/* --- a namespace ------------------------------------------------------------------------------ */

struct export
{
	struct weft_namespace ns;
	unsigned int ctrl_number; /* that has found it */
	bool trims, zeroes;
};

struct open_job {
	struct job job;
	uint32_t nsid; /* 0: the only one */
	struct export *export;
	int error;
	char why[512];
};

static void open_in_thread(struct job *job, struct worker *w)
{
	struct open_job *j = container_of(job, struct open_job, job);
	struct weft_ctrl *c = worker_ctrl(w, j->why, sizeof(j->why));
	struct weft_ctrl_info info = {0};

	j->error = -EIO;
	if (c) {
		j->error = weft_ctrl_namespace(c, j->nsid, &j->export->ns, sizeof(j->export->ns));
		if (j->error)
			snprintf(j->why, sizeof(j->why), "%s", weft_ctrl_error(c));
		if (j->error && !j->why[0])
			snprintf(j->why, sizeof(j->why), "%s", strerror(-j->error));
		(void)weft_ctrl_info(c, &info, sizeof(info));
	}
	j->export->ctrl_number = worker_ctrl_number(w);
	j->export->trims = info.oncs & ONCS_DSM;
	j->export->zeroes = info.oncs & ONCS_WRITE_ZEROES;
	job_done(w, job);
}

/* --- life ------------------------------------------------------------------------------------- */

static void weft_load(void)
{
	if (weft_options_create(&options) != 0) {
		nbdkit_error("no memory");
		exit(EXIT_FAILURE);
	}
	/* As nvme-cli: what is attached stays, for a while without its target. */
	(void)weft_options_set_reconnect(options, 1000, 600 * 1000);
}

/* Whether there is the one namespace that is served, if it is one. */
static bool try_namespace(struct worker *w, char *why, size_t room)
{
	struct export e = {0};
	struct open_job j = {.job.run = open_in_thread, .nsid = nsid, .export = &e};

	if (!nsid)
		return true;
	worker_run(w, &j.job);
	if (j.error)
		snprintf(why, room, "%s", j.why);
	return j.error == 0;
}

/* In a process of its own: the sentence that says why not, if it says any. */
static void try_once(int fd)
{
	char why[512] = "", unused[512];
	struct worker *w = worker_create(options, queues, why, sizeof(why));
	bool there = w && try_namespace(w, why, sizeof(why));

	if (w)
		(void)worker_destroy(w, unused, sizeof(unused));
	if (!there)
		(void)!write(fd, why, strlen(why));
	_exit(there ? EXIT_SUCCESS : EXIT_FAILURE);
}

/*
 * nbdkit forks after this, when it also has its socket and perhaps a client that waits there, and
 * nobody to tell. So whether it can be connected at all, and has what is to be served, is found out
 * now, by a child.
 */
static int weft_get_ready(void)
{
	char why[512] = "";
	size_t len = 0;
	ssize_t n;
	int p[2], status = -1;
	pid_t child;

	if (taken(weft_options_set_io_queues(options, queues), "queues"))
		return -1;
	if (pipe2(p, O_CLOEXEC) < 0) {
		nbdkit_error("pipe: %s", strerror(errno));
		return -1;
	}
	child = fork();
	if (child == 0)
		try_once(p[1]);
	close(p[1]);
	while (child > 0 && len < sizeof(why) - 1 &&
	       ((n = read(p[0], why + len, sizeof(why) - 1 - len)) > 0 ||
		(n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	close(p[0]);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0)
		return 0;
	nbdkit_error("%s", len	       ? why
			   : child < 0 ? "cannot fork"
				       : "the trial connection ended without a word");
	return -1;
}

static int weft_after_fork(void)
{
	char why[512];

	worker = worker_create(options, queues, why, sizeof(why));
	if (worker)
		return 0;
	nbdkit_error("%s", why);
	return -1;
}

static void weft_cleanup(void)
{
	char why[512];

	if (worker && !worker_destroy(worker, why, sizeof(why)))
		nbdkit_error("what was written and not flushed may be lost: %s", why);
	worker = NULL;
}

static void weft_unload(void)
{
	weft_options_destroy(options);
}

/* --- exports ---------------------------------------------------------------------------------- */

/* The namespace that a client asks for; false: none. */
static bool named(const char *name, uint32_t *ret)
{
	unsigned int n;

	*ret = nsid;
	if (!name || !*name)
		return true;
	if (nbdkit_parse_unsigned("export name", name, &n) == 0 && n && n < UINT32_MAX &&
	    (!nsid || n == nsid)) {
		*ret = n;
		return true;
	}
	nbdkit_error("there is no export '%s': exports are called by their namespace's ID%s", name,
		     nsid ? ", and only one is served" : "");
	return false;
}

static void *weft_open(int readonly)
{
	struct export *e = calloc(1, sizeof(*e));
	struct open_job j = {.job.run = open_in_thread, .export = e};

	(void)readonly;
	if (!e) {
		nbdkit_error("no memory");
		return NULL;
	}
	if (!named(nbdkit_export_name(), &j.nsid)) {
		free(e);
		return NULL;
	}
	worker_run(worker, &j.job);
	if (!j.error)
		return e;
	nbdkit_error("%s", j.why);
	free(e);
	return NULL;
}

static void weft_close(void *handle)
{
	free(handle);
}

struct list_job {
	struct job job;
	uint32_t ids[NAMESPACES_MAX];
	int n;
	char why[512];
};

static void list_in_thread(struct job *job, struct worker *w)
{
	struct list_job *j = container_of(job, struct list_job, job);
	struct weft_ctrl *c = worker_ctrl(w, j->why, sizeof(j->why));

	j->n = c ? weft_ctrl_namespaces(c, 0, j->ids, NAMESPACES_MAX) : -EIO;
	if (c && j->n < 0)
		snprintf(j->why, sizeof(j->why), "%s", weft_ctrl_error(c));
	job_done(w, job);
}

static int weft_list_exports(int readonly, int is_tls, struct nbdkit_exports *exports)
{
	struct list_job *j;
	char name[16];
	int rc = 0;

	(void)readonly;
	(void)is_tls;
	if (nsid) {
		snprintf(name, sizeof(name), "%" PRIu32, nsid);
		return nbdkit_add_export(exports, name, NULL);
	}
	j = calloc(1, sizeof(*j));
	if (!j) {
		nbdkit_error("no memory");
		return -1;
	}
	j->job.run = list_in_thread;
	worker_run(worker, &j->job);
	if (j->n < 0) {
		nbdkit_error("%s", j->why);
		rc = -1;
	}
	for (int i = 0; i < j->n && rc == 0; i++) {
		snprintf(name, sizeof(name), "%" PRIu32, j->ids[i]);
		rc = nbdkit_add_export(exports, name, NULL);
	}
	free(j);
	return rc;
}

static const char *weft_default_export(int readonly, int is_tls)
{
	(void)readonly;
	(void)is_tls;
	return "";
}

/* --- what an export is like ------------------------------------------------------------------- */

static int64_t weft_get_size(void *handle)
{
	const struct weft_namespace *ns = &((struct export *)handle)->ns;

	if (ns->blocks > INT64_MAX / ns->block_bytes) {
		nbdkit_error("namespace %" PRIu32 " has more bytes than NBD counts", ns->nsid);
		return -1;
	}
	return (int64_t)(ns->blocks * ns->block_bytes);
}

static int weft_block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	const struct weft_namespace *ns = &((struct export *)handle)->ns;
	uint64_t optimal = (uint64_t)ns->optimal_write_blocks * ns->block_bytes;

	*minimum = ns->block_bytes;
	*preferred = max_of(ns->block_bytes, PREFERRED_BYTES);
	/* NBD wants a power of two. */
	if (optimal > *preferred && optimal <= 32u << 20 && !(optimal & (optimal - 1)))
		*preferred = (uint32_t)optimal;
	*maximum = REQUEST_MAX;
	return 0;
}

static int weft_can_write(void *handle)
{
	return !((struct export *)handle)->ns.read_only;
}

static int weft_can_flush(void *handle)
{
	(void)handle;
	return 1;
}

static int weft_can_fua(void *handle)
{
	(void)handle;
	return NBDKIT_FUA_NATIVE;
}

static int weft_can_trim(void *handle)
{
	return ((struct export *)handle)->trims;
}

static int weft_can_zero(void *handle)
{
	return ((struct export *)handle)->zeroes;
}

static int weft_can_multi_conn(void *handle)
{
	(void)handle;
	return 1;
}

/* --- data ------------------------------------------------------------------------------------- */

static int work(void *handle, const char *what, struct io io)
{
	const struct export *e = handle;
	const struct weft_namespace *ns = &e->ns;
	char why[512] = "";
	int error;

	io.nsid = ns->nsid;
	io.ctrl_number = e->ctrl_number;
	io.block_bytes = ns->block_bytes;
	if (io.offset % ns->block_bytes || io.count % ns->block_bytes) {
		nbdkit_error(
			"%s of %" PRIu64 " bytes at %" PRIu64 ": namespace %" PRIu32
			" has blocks of %" PRIu32
			" bytes; for clients that do not heed that there is --filter=blocksize",
			what, io.count, io.offset, ns->nsid, ns->block_bytes);
		nbdkit_set_error(EINVAL);
		return -1;
	}
	error = io_run(worker, &io, why, sizeof(why));
	if (!error)
		return 0;
	nbdkit_error("%s of %" PRIu64 " bytes at %" PRIu64 " of namespace %" PRIu32 ": %s", what,
		     io.count, io.offset, ns->nsid, why);
	nbdkit_set_error(error);
	return -1;
}

static int weft_pread(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)flags;
	return work(handle, "read",
		    (struct io){.kind = IO_READ, .buffer = buf, .count = count, .offset = offset});
}

static int weft_pwrite(void *handle, const void *buf, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	return work(handle, "write",
		    (struct io){.kind = IO_WRITE,
				.buffer = (void *)(uintptr_t)buf,
				.count = count,
				.offset = offset,
				.fua = flags & NBDKIT_FLAG_FUA});
}

static int weft_flush(void *handle, uint32_t flags)
{
	(void)flags;
	return work(handle, "flush", (struct io){.kind = IO_FLUSH});
}

static int weft_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	return work(handle, "trim",
		    (struct io){.kind = IO_TRIM,
				.count = count,
				.offset = offset,
				.fua = flags & NBDKIT_FLAG_FUA});
}

static int weft_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	return work(handle, "write of zeroes",
		    (struct io){.kind = IO_ZERO,
				.count = count,
				.offset = offset,
				.deallocate = flags & NBDKIT_FLAG_MAY_TRIM,
				.fua = flags & NBDKIT_FLAG_FUA});
}

static struct nbdkit_plugin plugin = {
	.name = "weft",
	.longname = "NVMe over Fabrics",
	.version = WEFT_VERSION,
	.description = "namespaces of NVMe/RDMA and NVMe/TCP subsystems",
	.load = weft_load,
	.unload = weft_unload,
	.config = weft_config,
	.config_complete = weft_config_complete,
	.config_help = CONFIG_HELP,
	.magic_config_key = "uri",
	.get_ready = weft_get_ready,
	.after_fork = weft_after_fork,
	.cleanup = weft_cleanup,
	.list_exports = weft_list_exports,
	.default_export = weft_default_export,
	.open = weft_open,
	.close = weft_close,
	.get_size = weft_get_size,
	.block_size = weft_block_size,
	.can_write = weft_can_write,
	.can_flush = weft_can_flush,
	.can_fua = weft_can_fua,
	.can_trim = weft_can_trim,
	.can_zero = weft_can_zero,
	.can_multi_conn = weft_can_multi_conn,
	.pread = weft_pread,
	.pwrite = weft_pwrite,
	.flush = weft_flush,
	.trim = weft_trim,
	.zero = weft_zero,
};

struct nbdkit_plugin *plugin_init(void); /* which the macro defines, and nobody declares */

NBDKIT_REGISTER_PLUGIN(plugin)
