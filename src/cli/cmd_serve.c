/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * weft serve: disk images, block devices and disks in memory as the namespaces of one NVMe
 * subsystem.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/handed.h"
#include "base/time.h"
#include "cli/capture.h"
#include "cli/cli.h"
#include "cli/counted.h"
#include "cli/metrics.h"
#include "cli/nvme_opts.h"
#include "cli/provider.h"
#include "cli/secret.h"
#include "cli/serve.h"
#include "cli/serve_events.h"

int cmd_serve(int argc, char **argv);

/* Of all threads together, and of each at least. */
#define POOL_DEFAULT	    (32u << 20)
#define POOL_DEFAULT_THREAD (8u << 20)
#define POOL_MIN	    (2u << 20)
#define POOL_MAX	    (16ull << 30)

/* --- options ---------------------------------------------------------------------------------- */

enum {
	KEY_CONFIG = 'c',
	KEY_LISTEN = 'l',
	KEY_NQN = 'n',
	KEY_READ_ONLY = 'r',
	KEY_OUTPUT = 'o',
	KEY_SERIAL = 0x100,
	KEY_PROVIDER,
	KEY_BLOCK_SIZE,
	KEY_DIRECT,
	KEY_READY_FD,
	KEY_ALLOW_HOST,
	KEY_SECRET,
	KEY_CTRL_SECRET,
	KEY_HASH,
	KEY_DHGROUP,
	KEY_MEMORY,
	KEY_PCAP,
	KEY_METRICS,
	KEY_TLS_KEY,
	KEY_TLS_KEYS,
	KEY_TLS_COMPAT,
	KEY_CONTROL,
	KEY_THREADS,
	KEY_MDNS,
};

static const struct argp_option options[] = {
	{"config", KEY_CONFIG, "FILE", 0,
	 "Serve what this file says, as nvmetcli writes it, instead of files that are named", 0},
	{"listen", KEY_LISTEN, "URI", 0,
	 "Listen on rdma://ADDRESS[:PORT], tcp://ADDRESS[:PORT] or, for hosts by TLS alone, "
	 "tcp+tls://ADDRESS[:PORT] (may be repeated, several at once); with "
	 "?treq=not-required plain ones are let in there, too; rdma://:PORT is every address. "
	 "Default: rdma://:4420",
	 0},
	{"nqn", KEY_NQN, "NQN", 0,
	 "Name of the subsystem. Default: made from this machine's ID "
	 "and the first path, the same at every start",
	 0},
	{"serial", KEY_SERIAL, "TEXT", 0, "Serial number, at most 20 characters", 0},
	{"read-only", KEY_READ_ONLY, NULL, 0,
	 "Open for reading all but FILE,rw; hosts cannot write", 0},
	{"block-size", KEY_BLOCK_SIZE, "512|4096", 0, "Bytes of a block (default 512)", 0},
	{"direct", KEY_DIRECT, NULL, 0,
	 "Use files past the page cache (O_DIRECT); block devices always are", 0},
	{"allow-host", KEY_ALLOW_HOST, "HOSTNQN", 0,
	 "Let only this host connect (may be repeated). Default: any", 0},
	{"dhchap-secret", KEY_SECRET, "FILE", 0,
	 "Hosts prove that they have the key in FILE (DH-HMAC-CHAP); HOSTNQN=FILE: this one (may "
	 "be "
	 "repeated)",
	 0},
	{"dhchap-ctrl-secret", KEY_CTRL_SECRET, "FILE", 0,
	 "The target's key towards them, for those that ask for proof; HOSTNQN=FILE likewise", 0},
	{"dhchap-hash", KEY_HASH, "sha256|sha384|sha512", 0,
	 "What hosts have to take at least (default sha256)", 0},
	{"dhchap-dhgroup", KEY_DHGROUP, "null|ffdhe2048|ffdhe3072|ffdhe4096|ffdhe6144|ffdhe8192", 0,
	 "The same (default null)", 0},
	{"tls-key", KEY_TLS_KEY, "FILE", 0,
	 "Key of TLS of all hosts, in the first line of FILE; HOSTNQN=FILE: of this one (may be "
	 "repeated)",
	 0},
	{"tls-keys", KEY_TLS_KEYS, "FILE", 0, "Those of many: a line [HOSTNQN] KEY for each", 0},
	{"tls-compat", KEY_TLS_COMPAT, NULL, 0,
	 "Keys derived as older nvme-cli does, that of Debian 13 among others", 0},
	{"memory", KEY_MEMORY, "BYTES", 0,
	 "Memory for data of reads and writes under way (default 32m, or 8m for each thread; at "
	 "least 2m for each)",
	 0},
	{"threads", KEY_THREADS, "N", 0,
	 "Serve with so many threads, the queues of hosts spread over them (default 1)", 0},
	{"provider", KEY_PROVIDER, "weft|system", 0,
	 "Verbs library: weft (default), or system for the machine's RNICs", 0},
	{"pcap", KEY_PCAP, "FILE", 0, CAPTURE_HELP, 0},
	{"metrics", KEY_METRICS, "ADDRESS:PORT", 0,
	 "Have figures there for Prometheus, at http://ADDRESS:PORT/metrics", 0},
	{"mdns", KEY_MDNS, NULL, 0,
	 "Publish where discovery is answered by mDNS, through avahi-daemon", 0},
	{"control", KEY_CONTROL, "PATH", 0,
	 "Have the socket there by which weft target changes what is served; none: have none. "
	 "Default: one of this process in /run/weft, or $XDG_RUNTIME_DIR/weft of a user",
	 0},
	{"ready-fd", KEY_READY_FD, "FD", 0,
	 "Write a line to this descriptor, and close it, once hosts can connect", 0},
	{"output-format", KEY_OUTPUT, "normal|json", 0, "How it is told", 0},
	{0},
};

/* What stands behind a ? of --listen. */
static void take_treq(struct nvme_uri *u, struct argp_state *state, const char *text,
		      const char *query)
{
	if (!u->tls ||
	    (strcmp(query, "treq=required") != 0 && strcmp(query, "treq=not-required") != 0))
		argp_error(state,
			   "--listen %s: behind the address comes ?treq=required or "
			   "?treq=not-required, with tcp+tls://",
			   text);
	u->tls_optional = strcmp(query, "treq=not-required") == 0;
}

/* rdma://ADDRESS[:PORT], rdma://[:PORT] for every address; tcp://, tcp+tls:// likewise. */
static void take_listen(struct serve_options *o, struct argp_state *state, const char *text)
{
	struct nvme_uri *u = &o->listen[o->listen_count], scheme = {0};
	const char *rest = strstr(text, "://"), *query = strchr(text, '?'), *why;
	char full[512], *address;

	if (!rest || !nvme_uri_scheme(text, (size_t)(rest - text), &scheme))
		argp_error(state,
			   "--listen takes rdma://ADDRESS[:PORT], tcp://ADDRESS[:PORT] or "
			   "tcp+tls://ADDRESS[:PORT], not '%s'",
			   text);
	if (o->listen_count == LISTEN_MAX)
		argp_error(state, "--listen is given more than %d times", LISTEN_MAX);
	*u = scheme;
	snprintf(full, sizeof(full), "nvme+%.*s",
		 (int)(query ? (size_t)(query - text) : strlen(text)), text);
	address = strstr(full, "://") + strlen("://");
	if (*address == '\0' || *address == ':') {
		if (*address && !nvme_port_valid(address + 1))
			argp_error(state, "--listen %s: a port is a number from 1 to 65535", text);
		snprintf(u->port, sizeof(u->port), "%.5s", *address ? address + 1 : "");
	} else {
		if (nvme_uri_parse(full, u, &why) != 0)
			argp_error(state, "--listen %s: %s", text, why);
		if (u->nqn[0])
			argp_error(state, "--listen %s: the subsystem is named by --nqn", text);
	}
	if (query)
		take_treq(u, state, text, query + 1);
	if (!u->port[0])
		strcpy(u->port, serve_transport_of(u)->port);
	o->listen_count++;
}

static void take_file(struct serve_options *o, struct argp_state *state, const char *text)
{
	struct serve_file *f = &o->files[o->file_count];
	int error = -EINVAL;

	if (o->file_count == TARGET_NS_MAX)
		argp_error(state, "more than %d files", TARGET_NS_MAX);
	else
		error = serve_file_parse(text, f);
	if (error == -EINVAL)
		argp_error(state, "'%s' names no file", text);
	else if (error)
		argp_failure(state, EXIT_FAILED, -error, "'%s'", text);
	if (f->made)
		f->made_bytes =
			cli_parse_size(state, f->made->usage, f->size, 512, UINT64_MAX >> 1);
	o->texts[o->file_count++] = text;
}

/* What a file says is not said a second time. */
static void check_config(const struct serve_options *o, struct argp_state *state)
{
	if (o->file_count || o->listen_count || o->nqn || o->serial || o->host_count ||
	    o->secret_count || o->keys.hash || o->keys.dhgroup)
		argp_error(state,
			   "what --config %s serves, where and to whom stands in the file: "
			   "name no files with it, nor --listen, --nqn, --serial, --allow-host or "
			   "--dhchap-secret and its kin",
			   o->config);
}

/* Alone they would look like a demand, and let everybody in. */
static void check_keys(const struct serve_options *o, struct argp_state *state)
{
	if (!o->secret_count && (o->keys.hash || o->keys.dhgroup))
		argp_error(state, "--dhchap-hash and --dhchap-dhgroup say how hosts prove that "
				  "they have a key: --dhchap-secret=[HOSTNQN=]FILE says which");
}

static void keep_secret(struct serve_options *o, struct argp_state *state, const char *text,
			bool ctrl)
{
	struct serve_secret *v = realloc(o->secrets, (o->secret_count + 1) * sizeof(*v));

	if (!v)
		argp_failure(state, EXIT_FAILED, ENOMEM, "--dhchap-secret");
	v[o->secret_count++] = (struct serve_secret){text, ctrl};
	o->secrets = v;
}

/* A program that is about to start anew leaves them to the one that it becomes: what comes by a
 * pipe comes once. */
static void take_keys(struct serve_options *o, struct argp_state *state)
{
	char why[512];

	if (provider_starts_anew(o->provider))
		return;
	for (unsigned i = 0; i < o->secret_count; i++) {
		const struct serve_secret *s = &o->secrets[i];

		if (serve_hosts_take_key(&o->keys, s->text, s->ctrl, why, sizeof(why)))
			argp_failure(state, EXIT_FAILED, 0, "--dhchap-%ssecret: %s",
				     s->ctrl ? "ctrl-" : "", why);
	}
	free(o->secrets);
	o->secrets = NULL;
}

#ifdef WEFT_HAVE_METRICS
static void check_metrics(const struct argp_state *state, const char *text)
{
	char why[512];

	if (!metrics_address_valid(text, why, sizeof(why)))
		argp_error(state, "%s", why);
}
#endif

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct serve_options *o = state->input;

	switch (key) {
	case KEY_CONFIG:
		o->config = arg;
		return 0;
	case KEY_LISTEN:
		take_listen(o, state, arg);
		return 0;
	case KEY_NQN:
		cli_check_nqn_length(state, "--nqn", arg);
		if (!nvme_nqn_valid(arg) || strcmp(arg, NVMF_DISCOVERY_NQN) == 0)
			argp_error(state, "--nqn: '%s' cannot name a subsystem", arg);
		o->nqn = arg;
		return 0;
	case KEY_SERIAL:
		if (strlen(arg) > 20 || !*arg)
			argp_error(state, "--serial has 1 to 20 characters");
		o->serial = arg;
		return 0;
	case KEY_READ_ONLY:
		o->file.read_only = true;
		return 0;
	case KEY_BLOCK_SIZE:
		if (strcmp(arg, "512") != 0 && strcmp(arg, "4096") != 0)
			argp_error(state, "--block-size is 512 or 4096, not '%s'", arg);
		o->file.block_size = (uint32_t)atoi(arg);
		return 0;
	case KEY_DIRECT:
		o->file.direct = true;
		return 0;
	case KEY_ALLOW_HOST:
		cli_check_nqn_length(state, "--allow-host", arg);
		if (!nvme_nqn_valid(arg))
			argp_error(state, "--allow-host: '%s' is no NQN", arg);
		if (o->host_count == HOSTS_MAX)
			argp_error(state, "--allow-host is given more than %d times", HOSTS_MAX);
		o->hosts[o->host_count++] = arg;
		return 0;
	case KEY_SECRET:
	case KEY_CTRL_SECRET:
		keep_secret(o, state, arg, key == KEY_CTRL_SECRET);
		return 0;
	case KEY_HASH:
		if (serve_hosts_find_hash(arg, &o->keys.hash))
			argp_error(state, "--dhchap-hash is sha256, sha384 or sha512, not '%s'",
				   arg);
		return 0;
	case KEY_DHGROUP:
		if (serve_hosts_find_dhgroup(arg, &o->keys.dhgroup))
			argp_error(state,
				   "--dhchap-dhgroup is null or ffdhe2048 to ffdhe8192, not "
				   "'%s'",
				   arg);
		return 0;
	case KEY_TLS_KEY:
		if (o->tls.text_count == SERVE_TLS_TEXTS_MAX)
			argp_error(state,
				   "--tls-key is given more than %d times; --tls-keys takes a file "
				   "with the keys of many",
				   SERVE_TLS_TEXTS_MAX);
		else
			o->tls.texts[o->tls.text_count++] = arg;
		return 0;
	case KEY_TLS_KEYS:
		o->tls.file = arg;
		return 0;
	case KEY_TLS_COMPAT:
		o->tls.compat = true;
		return 0;
	case KEY_MEMORY:
		o->pool_bytes = cli_parse_size(state, "--memory", arg, POOL_MIN, POOL_MAX);
		return 0;
	case KEY_THREADS:
		o->threads =
			(unsigned)cli_parse_number(state, "--threads", arg, 1, SERVE_THREADS_MAX);
		return 0;
	case KEY_PCAP:
		o->capture = arg;
		return 0;
	case KEY_PROVIDER:
		if (!provider_valid(arg))
			argp_error(state, "--provider is weft or system, not '%s'", arg);
		o->provider = arg;
		return 0;
	case KEY_METRICS:
#ifndef WEFT_HAVE_METRICS
		argp_error(state, "--metrics: this weft was built without libmicrohttpd");
#else
		check_metrics(state, arg);
#endif
		o->metrics = arg;
		return 0;
	case KEY_MDNS:
#ifndef WEFT_HAVE_MDNS
		argp_error(state, "--mdns: this weft was built without libavahi-client");
#endif
		o->mdns = true;
		return 0;
	case KEY_CONTROL:
		o->control = arg;
		return 0;
	case KEY_READY_FD:
		o->ready_fd = (int)cli_parse_number(state, "--ready-fd", arg, 0, INT_MAX);
		return 0;
	case KEY_OUTPUT:
		if (output_format_parse(arg, &o->format) != 0)
			argp_error(state, "--output-format is normal or json, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARG:
		take_file(o, state, arg);
		return 0;
	case ARGP_KEY_END:
		if (o->config)
			check_config(o, state);
		check_keys(o, state);
		take_keys(o, state);
		if (o->pool_bytes && o->pool_bytes / o->threads < POOL_MIN)
			argp_error(state, "--memory is at least 2m for each of %u threads",
				   o->threads);
		if (o->capture && o->provider && strcmp(o->provider, "system") == 0)
			argp_error(state, "--pcap has weft's own packets; those of the system's "
					  "RNICs tcpdump may see");
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!o->config)
			argp_error(state, "name a disk image or a block device; "
					  "`truncate -s 1G disk.img` makes an empty image");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "FILE|NBD-URI|mem:SIZE|null:SIZE[,ro|,rw]...\n--config=FILE",
	.doc = "Serve disk images and block devices over NVMe/RDMA and NVMe/TCP: the files are "
	       "namespaces 1, "
	       "2, ... of one subsystem. Hosts cannot write to FILE,ro. NBD-URI is an NBD "
	       "server's export, as nbd://HOST/NAME or nbd+unix:///?socket=PATH. mem:SIZE is a "
	       "disk in "
	       "memory, gone when the service ends; null:SIZE one that keeps nothing, for "
	       "measuring.\v"
	       "Prints what a host needs to connect, then serves until it is interrupted.",
};

/* --- what is served --------------------------------------------------------------------------- */

static void *env_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void env_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static void env_event(void *ctx, const struct target_event *e)
{
	struct serve *s = ctx;
	const uint64_t now_ns = time_now_ns();

	if (e->type == TARGET_EVENT_CTRL_NEW)
		s->measure_ns = 0;
	if (e->type == TARGET_EVENT_FLUSH_FAILED)
		cli_warn("%s: what %s from %s wrote does not get to the disk: %s",
			 live_path(e->ctrl->subsys, e->nsid), serve_host_name(e->ctrl->hostnqn),
			 e->peer, strerrordesc_np(-e->error));
	if (e->ns) {
		struct disk *k = container_of(e->ns, struct live_ns, ns)->disk;

		disk_words_event(&k->words, k->path, e, now_ns);
	}
	if (!(e->ctrl && e->ctrl->subsys->discovery))
		serve_say_event(&s->say, e, now_ns);
}

static bool env_tls_key(void *ctx, const char *hostnqn, struct auth_key *ret)
{
	const struct serve *s = ctx;

	return serve_tls_find(&s->opt.tls, hostnqn, ret);
}

/* What each thread has of --memory. */
static size_t thread_pool(const struct serve_options *o)
{
	if (o->pool_bytes)
		return o->pool_bytes / o->threads;
	return max_of(POOL_DEFAULT / o->threads, POOL_DEFAULT_THREAD);
}

static int make_target(struct serve *s)
{
	struct target_env env = {.ctx = s,
				 .tls_key = env_tls_key,
				 .tls_compat = s->opt.tls.compat,
				 .alloc = env_alloc,
				 .free = env_free,
				 .event = env_event,
				 .random = secret_random,
				 .counters = counted_target(),
				 .figures = counted_figures()};
	const size_t pool_bytes = thread_pool(&s->opt);
	char why[512];

	target_init(&s->target, &env, time_now_ns());
	snprintf(s->target.discovery.firmware, sizeof(s->target.discovery.firmware), "%.8s",
		 WEFT_VERSION);
	if (shares_init(&s->shares, pool_bytes) != 0)
		return cli_fail("no memory for %zu MiB of data under way", pool_bytes >> 20);
	store_engine_lend(s->engine, s->shares.pool.base, s->shares.pool.len);
	if (serve_hosts_add(&s->opt.keys, &s->target, why, sizeof(why)) != 0)
		return cli_fail("%s", why);
	serve_transports_init(&s->transports, s->epoll_fd);
	if (serve_threads_init(&s->threads, s->opt.threads - 1, &s->target, s->engine,
			       &s->transports, pool_bytes, why, sizeof(why)) != 0 ||
	    serve_loop_join(s, why, sizeof(why)) != 0)
		return cli_fail("%s", why);
	live_init(&s->live, &s->target, &s->transports, &s->shares, s->engine, &s->opt.file);
	if (s->threads.count)
		disks_share(&s->live.disks, s->threads.engines, s->opt.threads);
	return 0;
}

/* As many descriptors as there may be. */
static void raise_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return;
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
}

/*
 * Each connection takes one. Beside those that are in use before the first, a quarter of the rest
 * is left for what is served later, connections to NBD servers that are made again, control,
 * figures and the file that is read again; the threads have the others, each as many as the next.
 */
static void share_out_descriptors(struct serve *s)
{
	int used = fcntl(s->epoll_fd, F_DUPFD_CLOEXEC, 0); /* the lowest that is free */
	rlim_t left = 0;
	struct rlimit r;
	uint32_t each;

	if (used < 0 || getrlimit(RLIMIT_NOFILE, &r) != 0)
		return;
	close(used);
	if (r.rlim_cur > (rlim_t)used)
		left = r.rlim_cur - (rlim_t)used;
	each = (uint32_t)min_of((left - left / 4) / s->opt.threads, (rlim_t)SHARE_QUEUES_MAX);
	s->shares.queues_max = each;
	for (unsigned i = 0; i < s->threads.count; i++)
		s->threads.v[i].shares.queues_max = each;
}

static int serve(struct serve *s, const sigset_t *signals)
{
	char why[512];
	bool whole;
	int status;

	if (store_engine_create(STORE_ENGINE_AUTO, &s->engine) != 0)
		return cli_fail("no memory for the disk's requests");
	status = serve_loop_init(s, signals);
	if (!status)
		status = make_target(s);
	if (!status)
		status = serve_begin(s);
	if (!status)
		status = serve_metrics(s);
	if (!status)
		status = serve_control(s);
	if (!status)
		status = serve_watch_control(s);
	if (!status)
		status = serve_mdns(s);
	if (status)
		return status;
	serve_tell_unused();
	share_out_descriptors(s);
	if (serve_threads_start(&s->threads, why, sizeof(why)) != 0)
		status = cli_fail("%s", why);
	else if (!serve_tell(s))
		status = EXIT_FAILED;
	if (status) {
		(void)!serve_threads_join(&s->threads);
		return status;
	}
	manager_ready(&s->manager);
	serve_mdns_publish(s);
	serve_status(s);
	whole = serve_loop(s);
	whole &= serve_flush(s);
	whole &= serve_threads_join(&s->threads);
	status = disks_last_words(&s->live.disks, SERVE_GIVE_UP_NS / NSEC_PER_SEC);
	if (!whole) /* what waits for a disk goes with the process */
		return status ? status : cli_fail("a disk does not finish its work; giving up");
	serve_loop_fini(s);
	serve_threads_fini(&s->threads);
	serve_transports_destroy(&s->transports);
	shares_fini(&s->shares);
	target_fini(&s->target);
	live_fini(&s->live);
	serve_hosts_wipe(&s->opt.keys);
	tls_keys_free(&s->opt.tls.keys);
	serve_threads_free(&s->threads);
	store_engine_destroy(s->engine);
	if (serve_say_to_journal(&s->say))
		serve_answer(&s->say, "ended");
	manager_fini(&s->manager);
	return status;
}

int cmd_serve(int argc, char **argv)
{
	static struct serve s = {.opt = {.threads = 1, .ready_fd = -1}};
	struct sigaction hup;
	char err[512];
	int error;
	sigset_t signals;

	cli_parse(&argp, "serve", argc, argv, &s.opt);
	/* What was handed over, a manager's word and sockets, is for the one that it becomes. */
	if (provider_use(s.opt.provider))
		return EXIT_FAILED;
	if (!s.opt.config && !s.opt.file.block_size)
		s.opt.file.block_size = 512;
	manager_init(&s.manager);
	error = handed_take();
	if (error < 0)
		return cli_fail("LISTEN_FDS: what it says of sockets that are handed over is not "
				"so: %s",
				errno_text(-error));
	serve_say_init(&s.say, s.opt.format == OUTPUT_TEXT);
	if (s.opt.capture && capture_use(s.opt.capture, err, sizeof(err)))
		return cli_fail("%s", err);
	/* Before any thread starts, so that all of them leave the signals to the loop. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	/* The terminal has gone; nohup(1) has it ignored. */
	if (s.opt.config)
		signal(SIGHUP, SIG_DFL); /* what is ignored is not heard */
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
		sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	raise_descriptors();
	return serve(&s, &signals);
}
