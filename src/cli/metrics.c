/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/handed.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "cli/metrics_text.h"

#define CONNECTIONS_MAX	   16
#define CONNECTIONS_OF_ONE 8		       /* address */
#define SILENT_S	   5		       /* a connection that does nothing */
#define CONNECTION_NS	   (15 * NSEC_PER_SEC) /* a connection in all */
#define REQUEST_BYTES	   8192
/* A page is made once a second at most, and in a fiftieth of the time. */
#define PAGE_NS	   NSEC_PER_SEC
#define PAGE_SHARE 50

struct metrics {
	struct MHD_Daemon *daemon;
	int fd; /* of an epoll set: the daemon's, and made_fd */
	metrics_take_fn *take;
	metrics_make_fn *make;
	void *ctx;
	struct making {
		pthread_t thread;
		bool runs; /* until its end is heard of, by made_fd */
		void *taken;
		char *text; /* what came of it, or NULL */
		size_t len;
		uint64_t begun_ns, took_ns;
	} making;
	int made_fd;
	struct MHD_Connection *waiting[CONNECTIONS_MAX]; /* for it */
	size_t waiting_count;
	struct MHD_Response *page; /* until stale_ns, for all who ask meanwhile */
	uint64_t stale_ns, now_ns;
	struct {
		int fd; /* -1: none */
		uint64_t end_ns;
	} connections[CONNECTIONS_MAX];
};

/* --- answers --------------------------------------------------------------------------------- */

static struct MHD_Response *plain(const char *text, const char *type)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);

	if (r)
		(void)MHD_add_response_header(r, "Content-Type", type);
	return r;
}

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, struct MHD_Response *r)
{
	enum MHD_Result rc;

	if (!r)
		return MHD_NO;
	(void)MHD_add_response_header(r, "Connection", "close");
	rc = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return rc;
}

/* --- the page -------------------------------------------------------------------------------- */

static bool is_fresh(const struct metrics *m)
{
	return m->page && m->now_ns < m->stale_ns;
}

static void *make(void *arg)
{
	struct metrics *m = arg;
	uint64_t begun = time_now_ns();

	m->making.text = m->make(m->making.taken, &m->making.len);
	m->making.took_ns = time_now_ns() - begun;
	(void)!write(m->made_fd, &(uint64_t){1}, sizeof(uint64_t));
	return NULL;
}

/* False: none can be made. */
static bool begin_page(struct metrics *m)
{
	if (m->making.runs)
		return true;
	m->making = (struct making){.taken = m->take(m->ctx), .begun_ns = m->now_ns};
	if (!m->making.taken)
		return false;
	m->making.runs = pthread_create(&m->making.thread, NULL, make, m) == 0;
	if (!m->making.runs) /* then it takes the time of who asked */
		make(m);
	return true;
}

static void end_page(struct metrics *m)
{
	uint64_t count;

	if (read(m->made_fd, &count, sizeof(count)) < 0)
		return;
	if (m->making.runs)
		pthread_join(m->making.thread, NULL);
	m->making.runs = false;
	if (m->page)
		MHD_destroy_response(m->page);
	m->page = NULL;
	m->stale_ns = m->making.begun_ns + max_of(PAGE_NS, m->making.took_ns * PAGE_SHARE);
	if (m->making.text)
		m->page = MHD_create_response_from_buffer(m->making.len, m->making.text,
							  MHD_RESPMEM_MUST_FREE);
	if (!m->page) {
		free(m->making.text);
	} else {
		(void)MHD_add_response_header(m->page, "Content-Type", METRICS_TYPE);
		(void)MHD_add_response_header(m->page, "Connection", "close");
	}
	while (m->waiting_count)
		MHD_resume_connection(m->waiting[--m->waiting_count]);
}

/* waited: it was made for this one, if it could be. */
static enum MHD_Result answer_page(struct metrics *m, struct MHD_Connection *c, void **waited)
{
	if (is_fresh(m) || (*waited && m->page))
		return MHD_queue_response(c, MHD_HTTP_OK, m->page);
	if (*waited || m->waiting_count == CONNECTIONS_MAX || !begin_page(m))
		return answer(c, MHD_HTTP_SERVICE_UNAVAILABLE, plain("no memory\n", "text/plain"));
	*waited = m;
	m->waiting[m->waiting_count++] = c;
	MHD_suspend_connection(c);
	return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **con_cls)
{
	static const char home[] = "<html><head><title>weft</title></head><body>"
				   "<a href=\"/metrics\">metrics</a></body></html>\n";
	struct metrics *m = cls;
	struct MHD_Response *r;

	(void)version;
	(void)upload;
	*upload_len = 0;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		r = plain("only GET and HEAD\n", "text/plain");
		if (r)
			(void)MHD_add_response_header(r, "Allow", "GET, HEAD");
		return answer(c, MHD_HTTP_METHOD_NOT_ALLOWED, r);
	}
	if (strcmp(url, "/") == 0)
		return answer(c, MHD_HTTP_OK, plain(home, "text/html"));
	if (strcmp(url, "/metrics") != 0)
		return answer(c, MHD_HTTP_NOT_FOUND, plain("see /metrics\n", "text/plain"));
	return answer_page(m, c, con_cls);
}

/* --- connections ----------------------------------------------------------------------------- */

static void on_connection(void *cls, struct MHD_Connection *c, void **ctx,
			  enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct metrics *m = cls;
	int fd = info ? (int)info->connect_fd : -1;

	(void)ctx;
	for (size_t i = 0; fd >= 0 && i < CONNECTIONS_MAX; i++) {
		int want = code == MHD_CONNECTION_NOTIFY_STARTED ? -1 : fd;

		if (m->connections[i].fd != want)
			continue;
		m->connections[i].fd = want < 0 ? fd : -1;
		m->connections[i].end_ns = m->now_ns + CONNECTION_NS;
		return;
	}
}

/* Who takes the page byte by byte is never silent, and holds one of few places. */
static void end_slow(struct metrics *m)
{
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		if (m->connections[i].fd >= 0 && m->now_ns >= m->connections[i].end_ns) {
			(void)shutdown(m->connections[i].fd, SHUT_RDWR);
			m->connections[i].end_ns = m->now_ns + CONNECTION_NS;
		}
}

int metrics_fd(const struct metrics *m)
{
	return m->fd;
}

void metrics_process(struct metrics *m, uint64_t now_ns)
{
	m->now_ns = now_ns;
	end_slow(m);
	end_page(m);
	(void)MHD_run(m->daemon);
}

uint64_t metrics_next_deadline(const struct metrics *m)
{
	uint64_t deadline = DEADLINE_NEVER;
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(m->daemon, &ms) == MHD_YES)
		deadline = m->now_ns + ms * NSEC_PER_MSEC;
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		if (m->connections[i].fd >= 0)
			deadline = min_of(deadline, m->connections[i].end_ns);
	return deadline;
}

/* --- beginning and end ----------------------------------------------------------------------- */

/* Splits ADDRESS:PORT; false: it is none. */
static bool split(const char *at, char host[256], const char **ret_port)
{
	const char *colon = strrchr(at, ':');
	size_t n = colon ? (size_t)(colon - at) : 0;

	if (!colon || n >= 256 || !colon[1])
		return false;
	*ret_port = colon + 1;
	if (n >= 2 && at[0] == '[' && at[n - 1] == ']')
		snprintf(host, 256, "%.*s", (int)(n - 2), at + 1);
	else if (memchr(at, ':', n))
		return false;
	else
		snprintf(host, 256, "%.*s", (int)n, at);
	return true;
}

static int open_socket(const struct addrinfo *ai)
{
	int on = 1, error;
	int fd = handed_socket(ai->ai_addr);

	if (fd >= 0 || fd == -EPROTOTYPE)
		return fd;
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, CONNECTIONS_MAX) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* NULL: it is none. */
static struct addrinfo *find_address(const char *at, char *why, size_t room)
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = SOCK_STREAM};
	struct addrinfo *ai;
	const char *port;
	char host[256];

	if (split(at, host, &port) && getaddrinfo(*host ? host : NULL, port, &hints, &ai) == 0)
		return ai;
	snprintf(why, room,
		 "--metrics takes ADDRESS:PORT or [ADDRESS]:PORT with numbers, as 127.0.0.1:9420, "
		 "not '%s'",
		 at);
	return NULL;
}

bool metrics_address_valid(const char *at, char *why, size_t room)
{
	struct addrinfo *ai = find_address(at, why, room);

	if (ai)
		freeaddrinfo(ai);
	return ai;
}

static int listen_at(const char *at, char *why, size_t room)
{
	struct addrinfo *ai = find_address(at, why, room);
	int fd;

	if (!ai)
		return -EINVAL;
	fd = open_socket(ai);
	freeaddrinfo(ai);
	if (fd == -EADDRINUSE)
		snprintf(why, room, "--metrics %s: the port is in use; choose another", at);
	else if (fd == -EPROTOTYPE)
		snprintf(why, room,
			 "--metrics %s: the socket of that port that was handed over is for both "
			 "families: BindIPv6Only=ipv6-only in its unit has one for each",
			 at);
	else if (fd == -EADDRNOTAVAIL)
		snprintf(why, room, "--metrics %s: no interface of this machine has the address",
			 at);
	else if (fd < 0)
		snprintf(why, room, "--metrics %s: %s", at, errno_text(-fd));
	return fd;
}

static void say_nothing(void *ctx, const char *fmt, va_list ap)
{
	(void)ctx; /* what a client did wrong is its own business */
	(void)fmt;
	(void)ap;
}

static int watch(struct metrics *m, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return fd < 0 ? -1 : epoll_ctl(m->fd, EPOLL_CTL_ADD, fd, &ev);
}

int metrics_create(const char *at, metrics_take_fn *take, metrics_make_fn *make_page, void *ctx,
		   struct metrics **ret, char *why, size_t room)
{
	const union MHD_DaemonInfo *info;
	struct metrics *m;
	int fd = listen_at(at, why, room);

	if (fd < 0)
		return fd;
	m = calloc(1, sizeof(*m));
	if (!m) {
		close(fd);
		snprintf(why, room, "--metrics %s: no memory", at);
		return -ENOMEM;
	}
	*m = (struct metrics){.take = take, .make = make_page, .ctx = ctx};
	m->fd = epoll_create1(EPOLL_CLOEXEC);
	m->made_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	for (size_t i = 0; i < CONNECTIONS_MAX; i++)
		m->connections[i].fd = -1;
	m->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
		on_request, m, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_OF_ONE, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, m, MHD_OPTION_END);
	info = m->daemon ? MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info || watch(m, info->epoll_fd) != 0 || watch(m, m->made_fd) != 0) {
		snprintf(why, room, "--metrics %s: libmicrohttpd does not begin", at);
		metrics_destroy(m);
		return -EIO;
	}
	*ret = m;
	return 0;
}

void metrics_destroy(struct metrics *m)
{
	if (!m)
		return;
	if (m->making.runs) {
		pthread_join(m->making.thread, NULL);
		m->making.runs = false;
		end_page(m);
		(void)MHD_run(m->daemon); /* which wants to have resumed who waited */
	}
	if (m->page)
		MHD_destroy_response(m->page);
	if (m->daemon)
		MHD_stop_daemon(m->daemon);
	if (m->made_fd >= 0)
		close(m->made_fd);
	if (m->fd >= 0)
		close(m->fd);
	free(m);
}
