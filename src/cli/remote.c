/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/remote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/host_options.h"
#include "cli/output.h"
#include "cli/provider.h"

static struct weft_group *group; /* while there are remotes */
static struct list remotes = {&remotes, &remotes};
static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
	if (group)
		weft_group_interrupt(group);
}

int remote_interrupted(void)
{
	return interrupted;
}

static void catch_signals(void)
{
	/* The second one ends the program: the handler is for once. */
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

/* --- what the library says -------------------------------------------------------------------- */

int remote_tell(struct remote *r, int error)
{
	return error == -EINTR ? cli_fail("interrupted") : cli_fail("%s", weft_ctrl_error(r->ctrl));
}

int remote_tell_result(struct remote *r, const struct weft_result *result, bool io,
		       const char *what)
{
	char text[128];

	if (result->status & NVME_STATUS_CODE)
		return cli_fail("%s at %s: %s", what, r->place,
				weft_status_text(result->status, io, text, sizeof(text)));
	if (result->error == -ENODEV) /* another disk is there now */
		return cli_fail("%s: %s", what, weft_ctrl_error(r->ctrl));
	return cli_fail("%s at %s: %s", what, r->place,
			result->error == -ETIMEDOUT   ? "not answered in time"
			: result->error == -ECANCELED ? "canceled"
						      : "the connection was lost");
}

void remote_tell_unsent(struct remote *r, int error)
{
	cli_fail("cannot send a command to %s: %s", r->place,
		 error == -ENODEV ? weft_ctrl_error(r->ctrl) : strerror(-error));
}

static void on_state(void *arg, struct weft_ctrl *c, enum weft_ctrl_state from,
		     enum weft_ctrl_state to)
{
	struct remote *r = arg;
	struct weft_ctrl_info info;
	char took[32];

	if (from == WEFT_CTRL_CONNECTING && to == WEFT_CTRL_FAILED &&
	    weft_ctrl_info(c, &info, sizeof(info)) == 0)
		r->failure = info.failure;
	if (from == WEFT_CTRL_LIVE && to == WEFT_CTRL_RECONNECTING) {
		r->lost_ns = time_now_ns();
		cli_fail("%s", weft_ctrl_error(c));
		cli_warn("trying to connect to %s again", r->place);
	} else if (from == WEFT_CTRL_RECONNECTING && to == WEFT_CTRL_LIVE) {
		r->reconnects++;
		cli_warn("connected to %s again after %s", r->place,
			 text_duration(took, sizeof(took), time_now_ns() - r->lost_ns));
		r->lost_ns = 0;
	}
}

static void on_event(void *arg, struct weft_ctrl *c, uint32_t event)
{
	struct remote *r = arg;

	(void)c;
	(void)event;
	r->events++;
}

static bool ended(const struct remote *r)
{
	enum weft_ctrl_state state = weft_ctrl_state(r->ctrl);

	return state == WEFT_CTRL_CLOSED || state == WEFT_CTRL_FAILED;
}

/* --- coming and going ------------------------------------------------------------------------- */

static int set_options(struct weft_options *o, struct remote *r, const struct nvme_opts *opts,
		       const struct remote_config *config)
{
	/* A discovery controller has nothing to be kept for, unless its log is watched. */
	return (config->discovery && !config->stays && weft_options_set_keep_alive_ms(o, 0)) ||
	       (config->discovery && !opts->uri.nqn[0] &&
		weft_options_set_nqn(o, WEFT_DISCOVERY_NQN)) ||
	       weft_options_set_persistent(o, config->stays) ||
	       weft_options_set_io_queues(o, config->io_queues) ||
	       (!config->reconnect && weft_options_set_reconnect(o, 0, 0)) ||
	       weft_options_set_memory_windows(o, !config->plain_keys) ||
	       weft_options_set_state_fn(o, on_state, r) ||
	       weft_options_set_event_fn(o, config->stays ? on_event : NULL, r);
}

/* What the options say, or else at the port that is to be tried instead. */
static int open_ctrl(struct weft_options *o, struct remote *r, const char *port,
		     const struct remote_config *config)
{
	int err = weft_ctrl_open(group, o, &r->ctrl);

	if (err != -EIO || r->failure != WEFT_FAILURE_CONNECT || !config->instead)
		return err;
	cli_warn("nothing answers at port %s, trying %s instead", port, config->instead);
	err = weft_options_set_port(o, config->instead);
	return err ? err : weft_ctrl_open(group, o, &r->ctrl);
}

/* False: told. */
static bool connect_to(struct remote *r, const struct nvme_opts *opts,
		       const struct remote_config *config)
{
	struct weft_options *o = host_options(opts);
	int err;

	if (!o)
		return false;
	err = set_options(o, r, opts, config);
	if (!err)
		err = open_ctrl(o, r, opts->uri.port, config);
	if (err)
		cli_fail("%s", err == -EINTR ? "interrupted" : weft_options_error(o));
	weft_options_destroy(o);
	if (err)
		return false;
	(void)weft_ctrl_info(r->ctrl, &r->info, sizeof(r->info));
	snprintf(r->place, sizeof(r->place), strchr(r->info.address, ':') ? "[%s]:%s" : "%s:%s",
		 r->info.address, r->info.port);
	return true;
}

struct remote *remote_open(const struct nvme_opts *opts, const struct remote_config *config)
{
	struct remote *r;

	if (provider_use(opts->provider))
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r || (!group && weft_group_create(&group))) {
		cli_fail("out of memory");
		free(r);
		return NULL;
	}
	r->poll = config->poll;
	list_push_tail(&remotes, &r->link);
	catch_signals();
	if (connect_to(r, opts, config)) {
		r->page = remote_alloc(r, WEFT_IDENTIFY_LEN);
		if (r->page)
			return r;
	}
	remote_close(r);
	return NULL;
}

static void shut_down(struct remote *r)
{
	struct weft_ctrl_info info;
	bool live = weft_ctrl_state(r->ctrl) != WEFT_CTRL_FAILED;

	(void)weft_ctrl_shutdown(r->ctrl);
	while (!ended(r))
		(void)weft_group_wait(group, -1);
	if (live && weft_ctrl_state(r->ctrl) == WEFT_CTRL_FAILED)
		remote_tell(r, -EIO);
	(void)weft_ctrl_info(r->ctrl, &info, sizeof(info));
	if (weft_ctrl_close(r->ctrl) == -EIO && live && info.failure == WEFT_FAILURE_FATAL)
		cli_warn("controller at %s cannot shut down in order (CSTS.CFS): what was written "
			 "and not flushed may be lost; the target knows why",
			 r->place);
}

void remote_close(struct remote *r)
{
	struct weft_group *g = group;

	if (!r)
		return;
	if (r->ctrl)
		shut_down(r);
	list_remove(&r->link);
	for (unsigned int i = 0; i < r->memory_count; i++)
		munmap(r->memory[i].addr, r->memory[i].len);
	free(r);
	if (!list_empty(&remotes))
		return;
	group = NULL; /* before the handler of signals finds it gone */
	(void)weft_group_destroy(g);
}

bool remote_share(struct remote *r, void *addr, size_t len)
{
	int err = weft_ctrl_register(r->ctrl, addr, len);

	if (err)
		remote_tell(r, err);
	return err == 0;
}

void *remote_alloc(struct remote *r, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || r->memory_count == REMOTE_MEMORY_MAX) {
		cli_fail("cannot get %zu bytes of memory", len);
		return NULL;
	}
	r->memory[r->memory_count].addr = p;
	r->memory[r->memory_count++].len = len;
	return remote_share(r, p, len) ? p : NULL;
}

/* --- turns ------------------------------------------------------------------------------------ */

static int go_on(uint64_t until_ns)
{
	uint64_t now_ns;

	list_for_each(r, &remotes, struct remote, link)
		if (r->poll)
			return weft_group_poll(group);
	if (until_ns == UINT64_MAX)
		return weft_group_wait(group, -1);
	now_ns = time_now_ns();
	return weft_group_wait(group, until_ns > now_ns ? (int64_t)(until_ns - now_ns) : 0);
}

bool remote_turn(uint64_t until_ns)
{
	int rc = go_on(until_ns);

	list_for_each(r, &remotes, struct remote, link) {
		if (!r->ctrl || !ended(r))
			continue;
		if (weft_ctrl_state(r->ctrl) == WEFT_CTRL_FAILED)
			remote_tell(r, -EIO);
		return false;
	}
	if (interrupted)
		cli_fail("interrupted");
	else if (rc < 0 && rc != -EINTR)
		cli_fail("cannot wait for an answer: %s", strerror(-rc));
	else
		return true;
	return false;
}

/* --- commands --------------------------------------------------------------------------------- */

void remote_answered(void *answer, const struct weft_result *result)
{
	struct remote_answer *a = answer;

	a->result = *result;
	a->done = true;
}

bool remote_await(struct remote *r, int submitted, struct remote_answer *a)
{
	if (submitted) {
		remote_tell_unsent(r, submitted);
		return false;
	}
	while (!a->done) {
		if (remote_turn(UINT64_MAX) || a->done)
			continue;
		/* The request is the library's until it is done: nobody waits for it any more. */
		(void)weft_ctrl_shutdown(r->ctrl);
		while (!a->done && !ended(r))
			(void)weft_group_wait(group, -1);
		return false;
	}
	if (a->result.error && !(a->result.status & NVME_STATUS_CODE)) {
		/* A failed association has told why. */
		if (a->result.error == -ENODEV)
			remote_tell(r, -ENODEV);
		else if (!ended(r))
			cli_fail("connection to %s was lost", r->place);
		return false;
	}
	return true;
}

bool remote_expect(struct remote *r, int submitted, struct remote_answer *a, bool io,
		   const char *what)
{
	if (!remote_await(r, submitted, a))
		return false;
	if (a->result.error)
		remote_tell_result(r, &a->result, io, what);
	return a->result.error == 0;
}

int remote_submit(struct remote *r, bool io, const struct nvme_sqe *sqe, void *data, uint32_t len,
		  unsigned int flags, struct remote_answer *a)
{
	struct weft_queue *q = io ? weft_ctrl_io_queue(r->ctrl, 0) : weft_ctrl_admin_queue(r->ctrl);
	struct iovec iov = {data, len};
	struct weft_command c = {
		.opcode = sqe->opcode,
		.fuse = sqe->flags & NVME_SQE_FUSE_MASK,
		.nsid = sqe->nsid,
		.cdw2 = sqe->cdw2,
		.cdw3 = sqe->cdw3,
		.cdw10 = sqe->cdw10,
		.cdw11 = sqe->cdw11,
		.cdw12 = sqe->cdw12,
		.cdw13 = sqe->cdw13,
		.cdw14 = sqe->cdw14,
		.cdw15 = sqe->cdw15,
	};

	*a = (struct remote_answer){0};
	if (!q)
		return -EINVAL;
	return weft_queue_submit(q, &c, &iov, len ? 1 : 0, flags, remote_answered, a);
}

/* --- namespaces ------------------------------------------------------------------------------- */

bool remote_identify_ns(struct remote *r, uint32_t *nsid, struct nvme_id_ns *ret)
{
	int err = weft_ctrl_identify_namespace(r->ctrl, nsid, r->page);
	struct cursor c = cursor_init(r->page, WEFT_IDENTIFY_LEN);

	if (err) {
		remote_tell(r, err);
		return false;
	}
	nvme_id_ns_get(&c, ret);
	return true;
}

bool remote_namespace(struct remote *r, uint32_t nsid, struct weft_namespace *ret)
{
	int err = weft_ctrl_namespace(r->ctrl, nsid, ret, sizeof(*ret));

	if (err)
		remote_tell(r, err);
	return err == 0;
}
