/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/time.h"
#include "cli/cli.h"
#include "cli/counted.h"
#include "cli/provider.h"
#include "cli/secret.h"
#include "cli/session.h"
#include "nvmf/lib/transports.h"
#include "nvmf/auth/hash.h"

#define RESOLVE_TIMEOUT_MS  5000
#define OPEN_TIMEOUT_NS	    (15 * NSEC_PER_SEC)
#define SHUTDOWN_TIMEOUT_NS (5 * NSEC_PER_SEC)

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

int session_interrupted(void)
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

const char *status_text(char *buf, size_t room, uint16_t status, bool io)
{
	snprintf(buf, room, "%s (SCT %xh, SC %02xh%s)",
		 io ? nvme_io_status_name(status) : nvme_status_name(status), status >> 8 & 7,
		 status & 0xff, status & NVME_STATUS_DNR ? ", do not retry" : "");
	return buf;
}

static void tell_connect_status(struct session *s, const struct host_failure *f)
{
	bool in_data = NVMF_CONNECT_IATTR(f->result);
	uint16_t offset = NVMF_CONNECT_IPO(f->result);
	char text[128];

	switch (f->status & NVME_STATUS_CODE) {
	case NVME_SC_CONNECT_INVALID_PARAM:
		if (in_data && offset == NVMF_CONNECT_DATA_SUBNQN) {
			cli_fail("no subsystem '%s' at %s; `weft discover nvme+%s://%s` lists "
				 "them",
				 s->nqn, s->place, s->kind->name, s->place);
			return;
		}
		cli_fail("%s refuses to connect: %s, byte %u of the %s", s->place,
			 status_text(text, sizeof(text), f->status, false), offset,
			 in_data ? "data" : "command");
		return;
	case NVME_SC_CONNECT_INVALID_HOST:
		cli_fail("subsystem '%s' at %s does not let host '%s' in; have it allowed there, "
			 "or say --hostnqn",
			 s->nqn, s->place, s->hostnqn);
		return;
	case NVME_SC_CONNECT_CTRL_BUSY:
		cli_fail("subsystem '%s' at %s has no controller free; try again later", s->nqn,
			 s->place);
		return;
	default:
		cli_fail("subsystem '%s' at %s refuses to connect queue %u: %s", s->nqn, s->place,
			 f->qid, status_text(text, sizeof(text), f->status, false));
	}
}

static const char *command_name(const struct host_failure *f)
{
	if (f->opcode != NVME_FABRICS)
		return nvme_opcode_name(f->opcode, f->qid == 0);
	return f->fctype == NVMF_CONNECT	? "Connect"
	       : f->fctype == NVMF_AUTH_SEND	? "Authentication Send"
	       : f->fctype == NVMF_AUTH_RECV	? "Authentication Receive"
	       : f->fctype == NVMF_PROPERTY_GET ? "Property Get"
	       : f->fctype == NVMF_PROPERTY_SET ? "Property Set"
						: "Fabrics";
}

/* Says why the association is not (any more). */
static void tell_failure(struct session *s)
{
	const struct host_failure *f = &s->host.failure;
	const char *said = s->transport->ops->error(s->transport);
	char text[128];

	switch (f->kind) {
	case HOST_FAIL_OPEN:
	case HOST_FAIL_LOST:
		if (f->kind == HOST_FAIL_OPEN && f->detail)
			cli_fail("cannot connect to %s: %s: %s", s->place, f->detail,
				 s->kind->no_answer);
		else if (f->detail || !said[0])
			cli_fail("connection to %s lost: %s", s->place,
				 f->detail ? f->detail : "the cause is not known");
		else
			cli_fail("%s", said);
		break;
	case HOST_FAIL_STATUS:
		if (f->opcode == NVME_FABRICS && f->fctype == NVMF_CONNECT)
			tell_connect_status(s, f);
		else
			cli_fail("controller at %s refuses %s: %s", s->place, command_name(f),
				 status_text(text, sizeof(text), f->status, false));
		break;
	case HOST_FAIL_TIMEOUT:
		if (f->detail)
			cli_fail("controller at %s: %s", s->place, f->detail);
		else
			cli_fail("controller at %s does not answer %s within %llu s, though %s may "
				 "hang; look there, or give it longer with --timeout",
				 s->place, command_name(f),
				 (unsigned long long)(s->host.config.command_timeout_ns /
						      NSEC_PER_SEC),
				 f->answers ? "it answers others: its disk"
					    : "the connection stands: the target or its disk");
		break;
	case HOST_FAIL_KEEP_ALIVE:
		cli_fail("controller at %s does not answer keep-alives; --keep-alive-tmo gives it "
			 "longer",
			 s->place);
		break;
	case HOST_FAIL_NOT_READY:
		cli_fail("controller at %s does not become ready (CSTS.RDY) in the time it claims",
			 s->place);
		break;
	case HOST_FAIL_FATAL:
		cli_fail("controller at %s reports a fatal status (CSTS.CFS)", s->place);
		break;
	case HOST_FAIL_PROTOCOL:
		cli_fail("%s breaks the protocol: %s", s->place, f->detail);
		break;
	case HOST_FAIL_UNFIT:
		cli_fail("cannot use subsystem '%s' at %s: %s", s->nqn, s->place, f->detail);
		break;
	case HOST_FAIL_AUTH:
		cli_fail("authentication between host '%s' and subsystem '%s' at %s fails: %s; the "
			 "keys are named by --dhchap-secret and --dhchap-ctrl-secret",
			 s->hostnqn, s->nqn, s->place, f->detail);
		break;
	case HOST_FAIL_NONE:
		cli_fail("connection to %s ended", s->place);
		break;
	}
}

static void changed(void *arg, enum host_state from, enum host_state to, uint64_t now_ns)
{
	struct session *s = arg;

	if (from == HOST_LIVE && to == HOST_WAITING) {
		s->reported_ns = now_ns;
		tell_failure(s);
		cli_warn("trying to connect to %s again", s->place);
	} else if (to == HOST_LIVE && s->reported_ns) {
		char took[32];

		cli_warn("connected to %s again after %s", s->place,
			 text_duration(took, sizeof(took), now_ns - s->reported_ns));
		s->reported_ns = 0;
	}
}

static void event(void *arg, uint32_t result)
{
	struct session *s = arg;

	(void)result;
	s->events++;
}

static bool fill_config(struct session *s, const struct nvme_opts *opts, struct host_config *c)
{
	uint64_t second = NSEC_PER_SEC;

	*c = (struct host_config){
		.io_queues = s->config.io_queues,
		.io_entries = (uint16_t)min_of(opts->queue_size, (unsigned int)HOST_ENTRIES_MAX),
		.keep_alive_ms = opts->keep_alive_s * 1000,
		.open_timeout_ns = OPEN_TIMEOUT_NS,
		.command_timeout_ns = opts->timeout_s * second,
		.shutdown_timeout_ns = SHUTDOWN_TIMEOUT_NS,
		.reconnect_delay_ns = opts->reconnect_delay_s * second,
		.key = opts->key,
		.ctrl_key = opts->ctrl_key,
		.concat = opts->concat && strcmp(s->kind->name, "tcp") == 0,
		.random = secret_random,
		.changed = changed,
		.event = event,
		.arg = s,
	};
	if (s->config.reconnect)
		c->loss_timeout_ns =
			opts->ctrl_loss_s < 0 ? UINT64_MAX : (uint64_t)opts->ctrl_loss_s * second;
	if (nvme_host_identity(opts, s->hostnqn, c->hostid))
		return false;
	if (opts->uri.nqn[0]) {
		strcpy(s->nqn, opts->uri.nqn);
	} else if (s->config.discovery) {
		strcpy(s->nqn, NVMF_DISCOVERY_NQN);
	} else {
		cli_fail("no subsystem is named; `weft discover nvme+%s://%s` lists those there "
			 "are",
			 s->kind->name, s->place);
		return false;
	}
	/* A discovery controller has nothing to be kept for, unless its log is watched. */
	if (s->config.discovery && !s->config.stays)
		c->keep_alive_ms = 0;
	memcpy(c->subnqn, s->nqn, sizeof(c->subnqn));
	memcpy(c->hostnqn, s->hostnqn, sizeof(c->hostnqn));
	return true;
}

/* By what the host and the subsystem know each other. False: told. */
static bool derive_psk(struct session *s, const struct nvme_opts *opts, struct auth_psk *ret)
{
	if (!opts->tls_key.len)
		cli_fail("%s is to be reached by TLS, and there is no key: --tls-key=@FILE",
			 s->place);
	else if (!auth_psk_derive(&opts->tls_key, opts->tls_way, s->hostnqn, s->nqn, ret))
		cli_fail("the names of host '%s' and subsystem '%s' are too long for an identity "
			 "of version 0",
			 s->hostnqn, s->nqn);
	else
		return true;
	return false;
}

static bool create(struct session *s, const struct nvme_opts *opts)
{
	const struct nvmf_transport *kind = transport_at(transport_index(opts->uri.transport));
	const char *port = opts->uri.port[0] ? opts->uri.port : kind->port;
	bool v6 = strchr(opts->uri.host, ':');
	struct transport_host_config tc = {
		.host = opts->uri.host,
		.port = port,
		.source = opts->host_traddr,
		.io_queues = s->config.io_queues,
		.io_entries = (uint16_t)opts->queue_size,
		.resolve_timeout_ms = RESOLVE_TIMEOUT_MS,
		.plain_keys = s->config.plain_keys,
		.header_digest = opts->header_digest,
		.data_digest = opts->data_digest,
	};
	struct host_config hc;
	struct auth_psk psk;
	size_t places;
	char why[512];
	int err;

	s->kind = kind;
	snprintf(s->place, sizeof(s->place), v6 ? "[%s]:%s" : "%s:%s", opts->uri.host, port);
	if (!fill_config(s, opts, &hc)) {
		auth_wipe(&hc, sizeof(hc));
		return false;
	}
	hc.counters = counted_host();
	places = HOST_ADMIN_ENTRIES + (size_t)hc.io_queues * hc.io_entries;
	s->queues = calloc(1u + hc.io_queues, sizeof(*s->queues));
	s->places = calloc(places, sizeof(*s->places));
	if (!s->queues || !s->places) {
		cli_fail("out of memory");
		return false;
	}
	if (opts->uri.tls || (opts->tls && strcmp(kind->name, "tcp") == 0)) {
		if (!derive_psk(s, opts, &psk)) {
			auth_wipe(&hc, sizeof(hc));
			return false;
		}
		tc.tls = &psk;
	}
	s->transport = kind->host_create(&tc, why, sizeof(why));
	if (tc.tls)
		auth_wipe(&psk, sizeof(psk));
	if (!s->transport) {
		cli_fail("%s", why);
		return false;
	}
	s->transport->ops->attach(s->transport, &s->host);
	s->page = session_alloc(s, (size_t)NVME_IDENTIFY_LEN + HOST_SCRATCH_LEN);
	if (!s->page)
		return false;
	err = host_init(&s->host, &hc, s->transport->ops->queues, s->transport, s->queues,
			s->places, (uint8_t *)s->page + NVME_IDENTIFY_LEN);
	auth_wipe(&hc, sizeof(hc));
	if (err) {
		cli_fail("the host's configuration is beyond its limits");
		return false;
	}
	return true;
}

struct session *session_open(const struct nvme_opts *opts, const struct session_config *config)
{
	struct session *s;

	if (provider_use(opts->provider))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s) {
		cli_fail("out of memory");
		return NULL;
	}
	catch_signals();
	s->config = *config;
	if (!create(s, opts))
		goto fail;
	host_start(&s->host, time_now_ns());
	while (s->host.state != HOST_LIVE)
		if (!session_turn(&s, 1, UINT64_MAX))
			goto fail;
	return s;
fail:
	session_close(s);
	return NULL;
}

static bool ended(const struct session *s)
{
	return s->host.state == HOST_FAILED || s->host.state == HOST_CLOSED;
}

static bool process(struct session *s)
{
	uint64_t now_ns = time_now_ns();
	bool any = s->transport->ops->process(s->transport, now_ns, !s->config.poll);

	if (now_ns >= host_next_deadline(&s->host)) {
		host_tick(&s->host, now_ns);
		any = true;
	}
	return any;
}

static void wait_for(struct session **sessions, unsigned int n, uint64_t until_ns)
{
	struct pollfd fds[SESSIONS_MAX * TRANSPORT_HOST_FDS];
	unsigned int at[SESSIONS_MAX + 1] = {0};
	uint64_t now_ns, timeout_ns;
	struct timespec ts;
	sigset_t none;

	for (unsigned int i = 0; i < n; i++) {
		const struct transport_host *t = sessions[i]->transport;
		uint64_t next = host_next_deadline(&sessions[i]->host);

		next = min_of(next, t->ops->next_deadline(t));
		until_ns = min_of(until_ns, next);
		at[i + 1] = at[i] + t->ops->pollfds(t, fds + at[i]);
	}
	now_ns = time_now_ns();
	timeout_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	timeout_ns = min_of(timeout_ns, 3600 * NSEC_PER_SEC);
	ts = (struct timespec){.tv_sec = (time_t)(timeout_ns / NSEC_PER_SEC),
			       .tv_nsec = (long)(timeout_ns % NSEC_PER_SEC)};
	sigemptyset(&none);
	if (ppoll(fds, at[n], &ts, &none) <= 0)
		return;
	for (unsigned int i = 0; i < n; i++) {
		struct transport_host *t = sessions[i]->transport;

		t->ops->polled(t, fds + at[i], at[i + 1] - at[i]);
	}
}

static bool shutting_down(const struct session *s)
{
	return s->host.state == HOST_SHUTDOWN || s->host.state == HOST_SHUTDOWN_WAIT;
}

bool session_turn(struct session **sessions, unsigned int n, uint64_t until_ns)
{
	bool any = false, poll = false;

	for (unsigned int i = 0; i < n; i++) {
		struct session *s = sessions[i];

		any |= process(s);
		poll |= s->config.poll;
		if (ended(s)) {
			if (s->host.state == HOST_FAILED)
				tell_failure(s);
			return false;
		}
	}
	if (interrupted && !shutting_down(sessions[0])) {
		cli_fail("interrupted");
		return false;
	}
	if (!any && !poll)
		wait_for(sessions, n, until_ns);
	return true;
}

void session_close(struct session *s)
{
	if (!s)
		return;
	if (s->transport && s->host.state != HOST_IDLE && !ended(s)) {
		host_shutdown(&s->host, time_now_ns());
		while (!ended(s) && session_turn(&s, 1, UINT64_MAX))
			;
		if (s->host.failure.kind == HOST_FAIL_FATAL &&
		    s->host.failure.state == HOST_SHUTDOWN_WAIT)
			cli_warn("controller at %s cannot shut down in order (CSTS.CFS): what was "
				 "written and not flushed may be lost; the target knows why",
				 s->place);
	}
	if (s->transport)
		s->transport->ops->destroy(s->transport);
	for (unsigned int i = 0; i < s->memory_count; i++)
		munmap(s->memory[i].addr, s->memory[i].len);
	host_forget(&s->host);
	free(s->queues);
	free(s->places);
	free(s);
}

bool session_share(struct session *s, void *addr, size_t len)
{
	struct transport_host *t = s->transport;
	int err = t->ops->add_memory(t, addr, len);

	if (err)
		cli_fail("%s", t->ops->error(t));
	return err == 0;
}

void *session_alloc(struct session *s, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || s->memory_count == SESSION_MEMORY_MAX) {
		cli_fail("cannot get %zu bytes of memory", len);
		return NULL;
	}
	s->memory[s->memory_count].addr = p;
	s->memory[s->memory_count++].len = len;
	return session_share(s, p, len) ? p : NULL;
}

struct waiter {
	bool done;
};

static void exec_done(struct host_request *req, uint64_t now_ns)
{
	struct waiter *w = req->arg;

	(void)now_ns;
	w->done = true;
}

bool session_try(struct session *s, uint16_t qid, struct host_request *req)
{
	struct waiter w = {0};
	int err;

	req->done = exec_done;
	req->arg = &w;
	err = host_submit(&s->host, qid, req, time_now_ns());
	if (err) {
		cli_fail("cannot send a command to %s: %s", s->place, strerror(-err));
		return false;
	}
	while (!w.done) {
		if (session_turn(&s, 1, UINT64_MAX) || w.done)
			continue;
		/* The request is the host's until it is done: nobody waits for it any more. */
		host_shutdown(&s->host, time_now_ns());
		while (!w.done && session_turn(&s, 1, UINT64_MAX))
			;
		return false;
	}
	if (req->error) {
		/* A failed association has told why. */
		if (!ended(s))
			cli_fail("connection to %s was lost", s->place);
		return false;
	}
	return true;
}

int session_tell_request(struct session *s, const struct host_request *req, bool io,
			 const char *what)
{
	char text[128];

	if (req->error)
		return cli_fail("%s at %s: %s", what, s->place,
				req->error == -ETIMEDOUT   ? "not answered in time"
				: req->error == -ECANCELED ? "canceled"
							   : "the connection was lost");
	return cli_fail("%s at %s: %s", what, s->place,
			status_text(text, sizeof(text), req->cqe.status, io));
}

bool session_exec(struct session *s, uint16_t qid, struct host_request *req, const char *what)
{
	if (!session_try(s, qid, req))
		return false;
	if (req->cqe.status & NVME_STATUS_CODE) {
		session_tell_request(s, req, qid > 0, what);
		return false;
	}
	return true;
}

/* "1 to 64, 70, ..." of ascending IDs. */
static void ids_text(char *text, size_t room, const uint32_t *ids, uint32_t count)
{
	size_t at = 0;
	uint32_t last;

	text[0] = 0;
	for (uint32_t i = 0; i < count; i = last + 1) {
		for (last = i; last + 1 < count && ids[last + 1] == ids[last] + 1; last++)
			;
		if (at + 40 > room) {
			snprintf(text + at, room - at, ", ...");
			return;
		}
		at += (size_t)snprintf(text + at, room - at, i ? ", %u" : "%u", ids[i]);
		if (last > i)
			at += (size_t)snprintf(text + at, room - at,
					       last == i + 1 ? ", %u" : " to %u", ids[last]);
	}
}

/* The active namespaces as text; the count, or -1 when it was told why not. */
static int list_namespaces(struct session *s, char *text, size_t room, uint32_t *ret_first)
{
	uint32_t ids[NVME_NS_LIST_MAX], count;
	struct host_request req = {0};
	struct cursor c;

	host_prepare_identify(&req, NVME_CNS_ACTIVE_NS_LIST, 0, s->page);
	if (!session_exec(s, 0, &req, "Identify of the namespace list"))
		return -1;
	c = cursor_init(s->page, NVME_IDENTIFY_LEN);
	count = nvme_ns_list_get(&c, ids, NVME_NS_LIST_MAX);
	ids_text(text, room, ids, count);
	*ret_first = count ? ids[0] : 0;
	return (int)count;
}

static bool no_such_namespace(struct session *s, uint32_t nsid)
{
	char ids[256];
	uint32_t first;
	int count = list_namespaces(s, ids, sizeof(ids), &first);

	if (count == 0)
		cli_fail("no namespace %u in '%s' at %s, nor any other", nsid, s->nqn, s->place);
	else if (count > 0)
		cli_fail("no namespace %u in '%s' at %s; there %s %s", nsid, s->nqn, s->place,
			 count == 1 ? "is" : "are", ids);
	return false;
}

bool session_identify_ns(struct session *s, uint32_t *nsid, struct nvme_id_ns *ret)
{
	struct host_request req = {0};
	struct cursor c;

	if (*nsid == 0) {
		char ids[256];
		int count = list_namespaces(s, ids, sizeof(ids), nsid);

		if (count < 0)
			return false;
		if (count == 0) {
			cli_fail("'%s' at %s has no namespace", s->nqn, s->place);
			return false;
		}
		if (count > 1) {
			cli_fail("'%s' at %s has several namespaces (%s); say which: ?ns=%u or "
				 "--namespace-id=%u",
				 s->nqn, s->place, ids, *nsid, *nsid);
			return false;
		}
	}
	host_prepare_identify(&req, NVME_CNS_NS, *nsid, s->page);
	if (!session_try(s, 0, &req))
		return false;
	if ((req.cqe.status & NVME_STATUS_CODE) == NVME_SC_INVALID_NS)
		return no_such_namespace(s, *nsid);
	if (req.cqe.status & NVME_STATUS_CODE) {
		session_tell_request(s, &req, false, "Identify of the namespace");
		return false;
	}
	c = cursor_init(s->page, NVME_IDENTIFY_LEN);
	nvme_id_ns_get(&c, ret);
	/* An ID that is valid but in no use reads as zeroes; one without blocks has a format. */
	return ret->nsze || ret->lbaf[0].ds ? true : no_such_namespace(s, *nsid);
}

bool session_namespace(struct session *s, uint32_t nsid, struct host_namespace *ret)
{
	struct nvme_id_ns id;
	const char *why;

	if (!session_identify_ns(s, &nsid, &id))
		return false;
	if (host_namespace_read(&id, nsid, ret, &why)) {
		cli_fail("cannot use namespace %u of '%s' at %s: %s", nsid, s->nqn, s->place, why);
		return false;
	}
	return true;
}
