/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One connection, until its socket is a stream's. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "base/time.h"
#include "iwcm/iwcm_priv.h"

#define CLOSING_NS (2 * NSEC_PER_SEC)
#define READ_MAX   4096

/* ---- life ----------------------------------------------------------------------------------- */

struct iwcm_link *link_new(int fd)
{
	struct iwcm_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->s.fd = fd;
	l->held = -1;
	list_init(&l->s.node);
	list_init(&l->mine);
	list_init(&l->told);
	return l;
}

void link_free_if_over(struct iwcm_link *l)
{
	if (l->phase != OVER || l->owned || l->busy)
		return;
	list_remove(&l->told);
	socket_forget(&l->s);
	free(l->early);
	free(l);
}

static void leave_closing(struct iwcm_link *l)
{
	if (l->phase != CLOSING)
		return;
	list_remove(&l->mine);
	iwcm.closing_count--;
}

void link_leave_listener(struct iwcm_link *l)
{
	if (!l->listener)
		return;
	if (l->phase == HEARING)
		l->listener->silent--;
	else
		l->listener->asked--;
	list_remove(&l->mine);
	l->listener = NULL;
}

void link_let_go(struct iwcm_link *l)
{
	if (l->held >= 0)
		kernel_close(l->held);
	l->held = -1;
}

/* By RST. */
static void break_off(struct iwcm_link *l)
{
	const struct linger now = {.l_onoff = 1};

	if (l->s.fd >= 0)
		(void)setsockopt(l->s.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	socket_close(&l->s);
}

void link_over(struct iwcm_link *l, bool abrupt)
{
	link_leave_listener(l);
	leave_closing(l);
	timer_cancel(&iwcm.timers, &l->s.timer);
	if (abrupt)
		break_off(l);
	else
		socket_close(&l->s);
	link_let_go(l);
	l->phase = OVER;
	link_free_if_over(l);
}

static void wait_until(struct iwcm_link *l, uint64_t ns)
{
	const uint64_t at = time_now_ns() + ns;
	const bool sooner = at < timer_heap_next(&iwcm.timers);

	timer_arm(&iwcm.timers, &l->s.timer, at);
	if (sooner) /* than the thread waits for, which this need not be */
		thread_wake();
}

/* All of it, or it counts as lost: there is room for so little in a socket that nothing was sent
 * by. */
static bool send_all(const struct iwcm_link *l, const uint8_t *bytes, size_t len)
{
	return syscall(SYS_sendto, l->s.fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0) ==
	       (ssize_t)len;
}

void link_close_with(struct iwcm_link *l, const uint8_t *last, size_t len)
{
	link_leave_listener(l);
	/* A request's socket was not looked at while its answer was due. */
	if (!send_all(l, last, len) || shutdown(l->s.fd, SHUT_WR) ||
	    (l->phase == ASKED && socket_add(&l->s, EPOLLIN))) {
		link_over(l, true);
		return;
	}
	l->phase = CLOSING;
	wait_until(l, CLOSING_NS);
	list_push_tail(&iwcm.closing, &l->mine);
	if (++iwcm.closing_count > IWCM_CLOSING_MAX)
		link_over(list_entry(iwcm.closing.next, struct iwcm_link, mine), true);
}

int link_begin(struct iwcm_link *l)
{
	int rc;

	l->busy = true;
	iwcm_unlock();
	rc = iwcm.ops->begin(l->qpn, l->s.fd, &l->conn, l->early, l->early_len, l);
	iwcm_lock();
	if (!rc) {
		const bool at_once = !l->owned;

		l->s.fd = -1;
		/* Whose owner has gone meanwhile, or wants to. */
		if (at_once || l->leaves) {
			iwcm_unlock();
			(void)iwcm.ops->end(l->qpn, l, at_once);
			iwcm_lock();
		}
	}
	l->busy = false;
	return rc;
}

/* ---- what it says --------------------------------------------------------------------------- */

static void says(struct iwcm_link *l, int what, int status)
{
	l->says |= (uint8_t)(1u << what);
	l->status = status;
	list_remove(&l->told);
	list_push_tail(&iwcm.tells, &l->told);
	thread_wake();
}

void link_says(struct iwcm_link *l, enum iwcm_said what, int status)
{
	says(l, what, status);
}

struct iwcm_link *link_next_told(int *ret_what)
{
	struct iwcm_link *l;

	if (list_empty(&iwcm.tells))
		return NULL;
	l = list_entry(iwcm.tells.next, struct iwcm_link, told);
	*ret_what = __builtin_ctz(l->says);
	return l;
}

void link_was_told(struct iwcm_link *l, int what)
{
	l->says &= (uint8_t) ~(1u << what);
	if (!l->says)
		list_remove(&l->told);
}

static void failed(struct iwcm_link *l, int error)
{
	if (l->phase == CALLING || l->phase == MAPPING || l->phase == RESTING || l->phase == ASKING)
		link_says(l,
			  error == -ECONNREFUSED || error == -ECONNRESET ? IWCM_REJECTED
			  : error == -ETIMEDOUT				 ? IWCM_UNREACHABLE
									 : IWCM_FAILED,
			  error);
	link_over(l, true);
}

/* ---- who calls ------------------------------------------------------------------------------ */

static int open_socket(struct iwcm_link *l, bool port_later)
{
	const int later = port_later, one = 1;

	if (l->s.fd >= 0)
		return 0;
	l->s.fd = kernel_socket(l->src.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->s.fd < 0)
		return -errno;
	(void)setsockopt(l->s.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	(void)setsockopt(l->s.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &later, sizeof(later));
	return bind(l->s.fd, (struct sockaddr *)&l->src, l->src_len) ? -errno : 0;
}

void link_ask(struct iwcm_link *l, int refusal)
{
	l->refusal = refusal;
	l->phase = MAPPING;
	if (open_socket(l, false) || portmap_ask(l))
		failed(l, refusal);
	else
		wait_until(l, IWCM_MAP_NS);
}

/* There is nobody, of whom a mapper does not know either. */
static void absent(struct iwcm_link *l, int error)
{
	if (l->brief || l->recalls == IWCM_RECALLS) {
		failed(l, error);
		return;
	}
	break_off(l);
	l->phase = RESTING;
	l->absence = error;
	wait_until(l, IWCM_RECALL_NS << l->recalls++);
}

/* TCP has said that. */
static void not_connected(struct iwcm_link *l, int error)
{
	if (error == -ECONNRESET || (error == -ECONNREFUSED && l->refusal)) {
		absent(l, error); /* reset: it was there, and went before it took this */
	} else if (error != -ECONNREFUSED) {
		failed(l, error);
	} else {
		socket_close(&l->s);
		link_ask(l, error);
	}
}

void link_set_class(struct iwcm_link *l, uint8_t tos)
{
	if (tos)
		kernel_socket_class(l->s.fd, tos, tos >> 5); /* as RoCE has it */
}

int link_call(struct iwcm_link *l)
{
	const int one = 1;
	/* The port is chosen with the way, when it connects. */
	int rc = open_socket(l, true);

	if (rc)
		return rc;
	(void)setsockopt(l->s.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	link_set_class(l, l->tos);
	l->phase = CALLING;
	if (syscall(SYS_connect, l->s.fd, &l->dst, l->dst_len) && errno != EINPROGRESS) {
		rc = -errno;
		/* That is told as anything else that becomes of it. */
		if (rc != -ECONNREFUSED && rc != -ENETUNREACH && rc != -EHOSTUNREACH)
			return rc;
		not_connected(l, rc);
		return 0;
	}
	rc = socket_add(&l->s, EPOLLOUT);
	if (!rc)
		wait_until(l, l->brief ? IWCM_BRIEF_NS : IWCM_CALL_NS);
	return rc;
}

void link_late(struct iwcm_link *l)
{
	int rc;

	switch (l->phase) {
	case MAPPING:
		if (portmap_ask_again(l)) {
			wait_until(l, IWCM_MAP_NS);
		} else if (l->ask_first) {
			failed(l, l->refusal);
		} else {
			link_let_go(l);
			absent(l, l->refusal);
		}
		break;
	case RESTING:
		if (l->ask_first) {
			link_ask(l, l->refusal);
			break;
		}
		rc = link_call(l);
		if (rc)
			failed(l, l->absence);
		break;
	default:
		failed(l, -ETIMEDOUT);
		break;
	}
}

/* A peer that knows no more than the first revision: once more, in its words. */
static void call_again(struct iwcm_link *l)
{
	const size_t at = MPA_START_LEN + MPA_ENHANCED_LEN;
	struct iw_params p = l->conn.own;
	uint8_t data[IW_PRIVATE_MAX];
	int rc;

	p.private_len = l->out_len - at;
	memcpy(data, l->out + at, p.private_len);
	p.rev = 1;
	p.p2p = false;
	p.private_data = data;
	/* A port of the caller's is to be free again, and what lay behind the answer is of no
	 * stream. */
	break_off(l);
	free(l->early);
	l->early = NULL;
	l->early_len = 0;
	rc = iw_connect(&l->conn, &p, l->out);
	if (rc > 0) {
		l->out_len = (size_t)rc;
		rc = link_call(l);
	}
	if (rc < 0)
		failed(l, rc);
}

/* At the same place in both families. */
static uint16_t port_of_socket(int fd)
{
	struct sockaddr_storage own = {0};
	socklen_t len = sizeof(own);

	(void)getsockname(fd, (struct sockaddr *)&own, &len);
	return ntohs(((struct sockaddr_in *)(void *)&own)->sin_port);
}

static void connected(struct iwcm_link *l)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (getsockopt(l->s.fd, SOL_SOCKET, SO_ERROR, &error, &len) || error) {
		not_connected(l, error ? -error : -errno);
		return;
	}
	if (!send_all(l, l->out, l->out_len)) {
		absent(l, -ECONNRESET);
		return;
	}
	l->own_port = port_of_socket(l->s.fd);
	l->phase = ASKING;
	l->asked_ns = time_now_ns();
	socket_wait(&l->s, EPOLLIN);
	wait_until(l, l->brief ? IWCM_CALL_NS : IWCM_ANSWER_NS);
}

static void hear_mapper(struct iwcm_link *l)
{
	int rc;

	switch (portmap_hear(l)) {
	case PORTMAP_NOTHING:
		break;
	case PORTMAP_NONE:
		link_let_go(l);
		absent(l, l->refusal);
		break;
	case PORTMAP_FOUND:
		rc = link_call(l);
		if (rc)
			failed(l, rc);
		break;
	}
}

/* ---- what comes ----------------------------------------------------------------------------- */

static bool keep(struct iwcm_link *l, const uint8_t *bytes, size_t len)
{
	if (!len)
		return true;
	l->early = malloc(len);
	if (!l->early)
		return false;
	memcpy(l->early, bytes, len);
	l->early_len = len;
	return true;
}

static void asked(struct iwcm_link *l)
{
	struct iwcm_listener *of = l->listener;
	uint8_t no[IW_OUT_MAX];

	of->silent--;
	list_remove(&l->mine);
	of->asked++;
	list_push_tail(&of->requests, &l->mine);
	l->phase = ASKED;
	timer_cancel(&iwcm.timers, &l->s.timer);
	socket_release(&l->s);
	if (of->asked > of->backlog) {
		link_close_with(l, no, (size_t)iw_reject(&l->conn, NULL, 0, no));
		return;
	}
	l->id = of->id;
	link_says(l, IWCM_REQUEST, 0);
}

static void accepted(struct iwcm_link *l)
{
	l->phase = BEGUN;
	timer_cancel(&iwcm.timers, &l->s.timer);
	socket_release(&l->s);
	says(l, BEGIN, 0);
}

static void refused(struct iwcm_link *l)
{
	uint8_t last[IW_OUT_MAX];

	link_says(l, IWCM_FAILED, -EPROTO);
	link_close_with(l, last, iw_terminate(&l->conn, last));
}

static void hear(struct iwcm_link *l)
{
	uint8_t in[READ_MAX];
	size_t used;
	ssize_t got = syscall(SYS_recvfrom, l->s.fd, in, sizeof(in), MSG_DONTWAIT, NULL, NULL);
	enum iw_event e;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got < 0 && errno == ECONNRESET && l->phase == ASKING && !l->conn.have &&
	    time_now_ns() - l->asked_ns < IWCM_UNREAD_NS) {
		absent(l, -ECONNRESET);
		return;
	}
	if (got <= 0) {
		failed(l, got < 0 ? -errno : -ECONNRESET);
		return;
	}
	e = iw_rx(&l->conn, in, (size_t)got, &used);
	if (!keep(l, in + used, (size_t)got - used)) {
		failed(l, -ENOMEM);
		return;
	}
	switch (e) {
	case IW_MORE:
		break;
	case IW_REQUEST:
		asked(l);
		break;
	case IW_ACCEPTED:
		accepted(l);
		break;
	case IW_REJECTED:
		link_says(l, IWCM_REJECTED, -ECONNREFUSED);
		link_over(l, false);
		break;
	case IW_OLD:
		call_again(l);
		break;
	case IW_REFUSED:
		refused(l);
		break;
	case IW_BROKEN:
		failed(l, -EPROTO);
		break;
	}
}

/* What the peer still says is thrown away: unread it would make an RST of our FIN. */
static void drain(struct iwcm_link *l)
{
	uint8_t in[READ_MAX];
	ssize_t got = syscall(SYS_recvfrom, l->s.fd, in, sizeof(in), MSG_DONTWAIT, NULL, NULL);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		link_over(l, false);
}

void link_ready(struct iwcm_link *l)
{
	switch (l->phase) {
	case CALLING:
		connected(l);
		break;
	case MAPPING:
		hear_mapper(l);
		break;
	case ASKING:
	case HEARING:
		hear(l);
		break;
	case CLOSING:
		drain(l);
		break;
	case RESTING:
	case ASKED:
	case BEGUN:
	case OVER:
		break;
	}
}
