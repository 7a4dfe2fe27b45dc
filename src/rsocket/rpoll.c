// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* rpoll() and rselect(), over rsockets and ordinary descriptors together. */
#include <rdma/rsocket.h>
#include <stdlib.h>

#include "base/time.h"
#include "rsocket/pollset.h"

static int poll_all(struct pollfd *fds, nfds_t n, int64_t timeout_ns)
{
	enum { ON_STACK = 64 };
	struct poll_item few[ON_STACK], *items = few;
	int rc;

	if (n > ON_STACK) {
		items = calloc(n, sizeof(*items));
		if (!items)
			return -ENOMEM;
	}
	for (nfds_t i = 0; i < n; i++) {
		items[i].sock = sock_lookup(fds[i].fd);
		items[i].fd = items[i].sock ? -1 : fds[i].fd;
		items[i].events = fds[i].events;
	}
	rc = pollset_wait(items, n, &(struct poll_how){.timeout_ns = timeout_ns});
	for (nfds_t i = 0; rc >= 0 && i < n; i++)
		fds[i].revents = items[i].revents;
	if (items != few)
		free(items);
	return rc;
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	int rc = poll_all(fds, nfds, timeout < 0 ? -1 : timeout * (int64_t)NSEC_PER_MSEC);

	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

/* ---- rselect --------------------------------------------------------------------------------- */

nfds_t select_to_poll(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct pollfd *fds)
{
	nfds_t n = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = 0;

		if (rd && FD_ISSET(fd, rd))
			events |= POLLIN;
		if (wr && FD_ISSET(fd, wr))
			events |= POLLOUT;
		if (ex && FD_ISSET(fd, ex))
			events |= POLLPRI;
		if (events)
			fds[n++] = (struct pollfd){.fd = fd, .events = events};
	}
	return n;
}

static int into_set(fd_set *set, const struct pollfd *fds, nfds_t n, short asked, short got)
{
	int count = 0;

	if (!set)
		return 0;
	FD_ZERO(set);
	for (nfds_t i = 0; i < n; i++) {
		if ((fds[i].events & asked) && (fds[i].revents & got)) {
			FD_SET(fds[i].fd, set);
			count++;
		}
	}
	return count;
}

int poll_to_select(const struct pollfd *fds, nfds_t n, fd_set *rd, fd_set *wr, fd_set *ex)
{
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
	return into_set(rd, fds, n, POLLIN, POLLIN | POLLHUP | POLLERR) +
	       into_set(wr, fds, n, POLLOUT, POLLOUT | POLLERR) +
	       into_set(ex, fds, n, POLLPRI, POLLPRI);
}

int rselect(int nfds, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	int64_t ns = -1;
	nfds_t n;
	int rc;

	if (nfds < 0 || nfds > FD_SETSIZE) {
		errno = EINVAL;
		return -1;
	}
	n = select_to_poll(nfds, rd, wr, ex, fds);
	if (timeout)
		ns = timeout->tv_sec * (int64_t)NSEC_PER_SEC + timeout->tv_usec * 1000;
	rc = poll_all(fds, n, ns);
	if (rc >= 0)
		rc = poll_to_select(fds, n, rd, wr, ex);
	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}
