/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fio's engine "weft": jobs that read and write a remote namespace. An external engine, built with
 * the headers of the fio that loads it (--ioengine=external:PATH).
 *
 * Each job has an association of its own, with one I/O queue, and drives it where fio submits and
 * reaps; so jobs are threads (thread=1), as a process's RNIC does not follow it into its children.
 */
#include <config-host.h> /* before all others, as in fio itself */

#include <fio.h>
#include <optgroup.h>

#include <weft/nvmf.h>

/* The symbol that fio looks for. */
struct ioengine_ops ioengine;

struct weft_fio_options {
	void *pad; /* fio wants none at offset 0 */
	char *uri;
	char *hostnqn;
	char *dhchap_secret, *dhchap_ctrl_secret, *tls_key;
	unsigned int poll;
	unsigned int header_digest, data_digest;
	unsigned int tls_identity, tls_compat, concat;
};

/* A request's; in io_u.engine_data. */
struct request {
	struct job *job;
	struct io_u *io_u;
};

struct job {
	struct weft_options *options;
	struct weft_group *group;
	struct weft_ctrl *ctrl;
	struct weft_queue *queue;
	struct weft_namespace ns;
	void *memory;
	size_t memory_len;
	struct request *requests; /* by io_u.index */
	struct io_u **done;	  /* a ring of as many as there are requests */
	unsigned int entries, first, count;
	bool ending;
};

static struct fio_option options[] = {
	{.name = "weft_uri",
	 .lname = "weft URI",
	 .type = FIO_OPT_STR_STORE,
	 .off1 = offsetof(struct weft_fio_options, uri),
	 .help = "nvme+rdma|tcp://HOST[:PORT]/NQN?ns=NSID",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_hostnqn",
	 .lname = "weft host NQN",
	 .type = FIO_OPT_STR_STORE,
	 .off1 = offsetof(struct weft_fio_options, hostnqn),
	 .help = "name of this host",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_dhchap_secret",
	 .lname = "weft DH-HMAC-CHAP key",
	 .type = FIO_OPT_STR_STORE,
	 .off1 = offsetof(struct weft_fio_options, dhchap_secret),
	 .help = "file with this host's key",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_dhchap_ctrl_secret",
	 .lname = "weft DH-HMAC-CHAP key of the controller",
	 .type = FIO_OPT_STR_STORE,
	 .off1 = offsetof(struct weft_fio_options, dhchap_ctrl_secret),
	 .help = "file with the controller's key, which has to prove that it has it",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_tls_key",
	 .lname = "weft TLS key",
	 .type = FIO_OPT_STR_STORE,
	 .off1 = offsetof(struct weft_fio_options, tls_key),
	 .help = "NVMe/TCP: file with this host's key of TLS",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_tls_identity",
	 .lname = "weft TLS identity",
	 .type = FIO_OPT_INT,
	 .off1 = offsetof(struct weft_fio_options, tls_identity),
	 .maxval = 1,
	 .help = "NVMe/TCP: version of the identity that the key of TLS is used by",
	 .def = "1",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_tls_compat",
	 .lname = "weft TLS compatibility",
	 .type = FIO_OPT_BOOL,
	 .off1 = offsetof(struct weft_fio_options, tls_compat),
	 .help = "NVMe/TCP: use the key of TLS as older nvme-cli does",
	 .def = "0",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_concat",
	 .lname = "weft secure channel concatenation",
	 .type = FIO_OPT_BOOL,
	 .off1 = offsetof(struct weft_fio_options, concat),
	 .help = "NVMe/TCP: speak TLS by a key that comes of DH-HMAC-CHAP",
	 .def = "0",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_poll",
	 .lname = "weft polling",
	 .type = FIO_OPT_BOOL,
	 .off1 = offsetof(struct weft_fio_options, poll),
	 .help = "never sleep while requests are under way",
	 .def = "0",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_hdr_digest",
	 .lname = "weft header digest",
	 .type = FIO_OPT_BOOL,
	 .off1 = offsetof(struct weft_fio_options, header_digest),
	 .help = "NVMe/TCP: digests of headers",
	 .def = "0",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = "weft_data_digest",
	 .lname = "weft data digest",
	 .type = FIO_OPT_BOOL,
	 .off1 = offsetof(struct weft_fio_options, data_digest),
	 .help = "NVMe/TCP: digests of data",
	 .def = "0",
	 .category = FIO_OPT_C_ENGINE,
	 .group = FIO_OPT_G_INVALID},
	{.name = NULL},
};

/* --- the association ---------------------------------------------------------------------------
 */

/* Of a file, if there is one. */
static int take_key(struct job *j, const char *path,
		    int (*set)(struct weft_options *, const char *))
{
	char line[512] = "";
	FILE *f;
	int rc;

	if (!path)
		return 0;
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f)) {
		log_err("weft: key in %s: %s\n", path, f ? "it is empty" : strerror(errno));
		if (f)
			fclose(f);
		return -1;
	}
	fclose(f);
	line[strcspn(line, "\r\n")] = '\0';
	rc = set(j->options, line);
	if (rc)
		log_err("weft: key in %s: %s\n", path, weft_options_error(j->options));
	explicit_bzero(line, sizeof(line));
	return rc;
}

/* What the job's options say. */
static int configure(struct job *j, const struct weft_fio_options *o, unsigned int depth)
{
	const unsigned int entries = depth < 2 ? 3 : depth + 1;

	if (!o->uri) {
		log_err("weft: what to connect to is missing: weft_uri=nvme+tcp://HOST/NQN?ns=1\n");
		return -1;
	}
	if (weft_options_set_uri(j->options, o->uri) ||
	    (o->hostnqn && weft_options_set_hostnqn(j->options, o->hostnqn)) ||
	    weft_options_set_digests(j->options, o->header_digest, o->data_digest) ||
	    weft_options_set_tls_identity(j->options, o->tls_identity, o->tls_compat) ||
	    weft_options_set_concat(j->options, o->concat) ||
	    weft_options_set_queue_entries(j->options, entries > 1024 ? 1024 : entries)) {
		log_err("weft: %s\n", weft_options_error(j->options));
		return -1;
	}
	if (o->tls_key) /* whatever the URI says */
		(void)weft_options_set_tls(j->options, true);
	return take_key(j, o->dhchap_secret, weft_options_set_dhchap_key) ||
	       take_key(j, o->dhchap_ctrl_secret, weft_options_set_dhchap_ctrl_key) ||
	       take_key(j, o->tls_key, weft_options_set_tls_key);
}

static void job_free(struct job *j)
{
	if (!j)
		return;
	j->ending = true;
	if (j->ctrl && weft_ctrl_close(j->ctrl))
		log_err("weft: it was not shut down in order\n");
	if (j->group)
		(void)weft_group_destroy(j->group);
	weft_options_destroy(j->options);
	free(j->memory);
	free(j->requests);
	free(j->done);
	free(j);
}

/* NULL: told. */
static struct job *job_connect(struct thread_data *td)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j || weft_options_create(&j->options) || weft_group_create(&j->group)) {
		log_err("weft: no memory\n");
		goto fail;
	}
	if (configure(j, td->eo, td->o.iodepth))
		goto fail;
	if (weft_ctrl_open(j->group, j->options, &j->ctrl)) {
		j->ctrl = NULL;
		log_err("weft: %s\n", weft_options_error(j->options));
		goto fail;
	}
	if (weft_ctrl_namespace(j->ctrl, 0, &j->ns, sizeof(j->ns))) {
		log_err("weft: %s\n", weft_ctrl_error(j->ctrl));
		goto fail;
	}
	j->queue = weft_ctrl_io_queue(j->ctrl, 0);
	return j;
fail:
	job_free(j);
	return NULL;
}

/* --- a job's life ------------------------------------------------------------------------------
 */

/* Before jobs begin: how much there is. */
static int weft_setup(struct thread_data *td)
{
	struct fio_file *f;
	struct job *j;

	if (!td->o.use_thread) {
		log_err("weft: jobs are threads here: thread=1\n");
		return 1;
	}
	j = job_connect(td);
	if (!j)
		return 1;
	if (!td->files_index)
		add_file(td, td->o.filename ? td->o.filename : "weft", 0, 0);
	td->o.nr_files = td->o.nr_files ? td->o.nr_files : 1;
	f = td->files[0];
	f->filetype = FIO_TYPE_BLOCK;
	f->real_file_size = j->ns.blocks * j->ns.block_bytes;
	fio_file_set_size_known(f);
	job_free(j);
	return 0;
}

static int weft_init(struct thread_data *td)
{
	struct job *j = job_connect(td);

	if (!j)
		return 1;
	if (td->o.min_bs[DDIR_READ] % j->ns.block_bytes ||
	    td->o.min_bs[DDIR_WRITE] % j->ns.block_bytes) {
		log_err("weft: bs is a multiple of the namespace's blocks of %u bytes\n",
			j->ns.block_bytes);
		job_free(j);
		return 1;
	}
	j->entries = td->o.iodepth;
	j->requests = calloc(j->entries, sizeof(*j->requests));
	j->done = calloc(j->entries, sizeof(struct io_u *));
	if (!j->requests || !j->done) {
		log_err("weft: no memory\n");
		job_free(j);
		return 1;
	}
	td->io_ops_data = j;
	return 0;
}

static void weft_cleanup(struct thread_data *td)
{
	job_free(td->io_ops_data);
	td->io_ops_data = NULL;
}

static int weft_io_u_init(struct thread_data *td, struct io_u *io_u)
{
	struct job *j = td->io_ops_data;
	struct request *r = &j->requests[io_u->index];

	*r = (struct request){j, io_u};
	io_u->engine_data = r;
	return 0;
}

/* All of fio's buffers in one piece, and known to the controller: nothing is copied. */
static int weft_iomem_alloc(struct thread_data *td, size_t len)
{
	struct job *j = td->io_ops_data;

	len = (len + 4095) / 4096 * 4096;
	j->memory = aligned_alloc(4096, len);
	j->memory_len = len;
	if (!j->memory)
		return 1;
	memset(j->memory, 0, len);
	td->orig_buffer = j->memory;
	if (!weft_ctrl_register(j->ctrl, j->memory, len))
		return 0;
	log_err("weft: %s\n", weft_ctrl_error(j->ctrl));
	return 1;
}

static void weft_iomem_free(struct thread_data *td)
{
	struct job *j = td->io_ops_data;

	if (!j || !j->memory)
		return;
	/* With requests under way, they go when the controller is closed. */
	if (weft_ctrl_unregister(j->ctrl, j->memory) == -EBUSY) {
		td->orig_buffer = NULL;
		return;
	}
	free(j->memory);
	j->memory = NULL;
	td->orig_buffer = NULL;
}

/* --- requests ----------------------------------------------------------------------------------
 */

static void request_done(void *arg, const struct weft_result *result)
{
	struct request *r = arg;
	struct job *j = r->job;
	char text[160];

	if (j->ending) /* fio has let go of it already */
		return;
	r->io_u->error = (unsigned int)-result->error;
	if (result->status)
		log_err("weft: %s\n", weft_status_text(result->status, true, text, sizeof(text)));
	j->done[(j->first + j->count++) % j->entries] = r->io_u;
}

static int submit(struct job *j, struct io_u *io_u)
{
	const struct iovec iov = {io_u->xfer_buf, io_u->xfer_buflen};
	const uint32_t nsid = j->ns.nsid,
		       blocks = (uint32_t)(io_u->xfer_buflen / j->ns.block_bytes);
	const uint64_t lba = io_u->offset / j->ns.block_bytes;
	const struct weft_range range = {.lba = lba, .blocks = blocks};
	void *r = io_u->engine_data;

	/* What would go to a part of a block would go elsewhere. */
	if (io_u->offset % j->ns.block_bytes || io_u->xfer_buflen % j->ns.block_bytes)
		return -EINVAL;
	switch (io_u->ddir) {
	case DDIR_READ:
		return weft_queue_read(j->queue, nsid, lba, blocks, &iov, 1, 0, request_done, r);
	case DDIR_WRITE:
		return weft_queue_write(j->queue, nsid, lba, blocks, &iov, 1, 0, request_done, r);
	case DDIR_TRIM:
		return weft_queue_dsm(j->queue, nsid, &range, 1, WEFT_DSM_DEALLOCATE, 0,
				      request_done, r);
	case DDIR_SYNC:
	case DDIR_DATASYNC:
		return weft_queue_flush(j->queue, nsid, 0, request_done, r);
	default:
		return -EOPNOTSUPP;
	}
}

static enum fio_q_status weft_queue(struct thread_data *td, struct io_u *io_u)
{
	int error;

	fio_ro_check(td, io_u);
	error = submit(td->io_ops_data, io_u);
	if (error == -EAGAIN)
		return FIO_Q_BUSY;
	if (!error)
		return FIO_Q_QUEUED;
	io_u->error = (unsigned int)-error;
	td_verror(td, -error, "weft");
	return FIO_Q_COMPLETED;
}

/* Nanoseconds; -1: for ever. */
static int64_t time_left(const struct timespec *t, const struct timespec *began)
{
	struct timespec now;

	if (!t)
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (t->tv_sec - (now.tv_sec - began->tv_sec)) * 1000000000ll + t->tv_nsec -
	       (now.tv_nsec - began->tv_nsec);
}

static int weft_getevents(struct thread_data *td, unsigned int min, unsigned int max,
			  const struct timespec *t)
{
	const struct weft_fio_options *o = td->eo;
	struct job *j = td->io_ops_data;
	struct timespec began;

	clock_gettime(CLOCK_MONOTONIC, &began);
	(void)weft_group_poll(j->group);
	while (j->count < min) {
		const int64_t left = time_left(t, &began);

		if (t && left <= 0)
			break;
		if (o->poll)
			(void)weft_group_poll(j->group);
		else if (weft_group_wait(j->group, left) == -EINTR && td->terminate)
			break;
	}
	return (int)(j->count < max ? j->count : max);
}

/* fio takes as many as it was told of, each once and in order. */
static struct io_u *weft_event(struct thread_data *td, int event)
{
	struct job *j = td->io_ops_data;
	struct io_u *io_u = j->done[j->first];

	(void)event;
	j->first = (j->first + 1) % j->entries;
	j->count--;
	return io_u;
}

static int weft_no_file(struct thread_data *td, struct fio_file *f)
{
	(void)td;
	(void)f;
	return 0;
}

struct ioengine_ops ioengine = {
	.name = "weft",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_RAWIO | FIO_NOEXTEND | FIO_NODISKUTIL,
	.setup = weft_setup,
	.init = weft_init,
	.cleanup = weft_cleanup,
	.io_u_init = weft_io_u_init,
	.iomem_alloc = weft_iomem_alloc,
	.iomem_free = weft_iomem_free,
	.queue = weft_queue,
	.getevents = weft_getevents,
	.event = weft_event,
	.open_file = weft_no_file,
	.close_file = weft_no_file,
	.invalidate = weft_no_file,
	.options = options,
	.option_struct_size = sizeof(struct weft_fio_options),
};
