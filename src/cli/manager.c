/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/manager.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/time.h"
#include "cli/output.h"

/* A manager that takes nothing does not hold the service up for longer. */
#define SEND_USEC 100000
/* While the service ends it asks for so much more time, so often. */
#define EXTEND_NS (20 * NSEC_PER_SEC)
#define ASK_NS	  (5 * NSEC_PER_SEC)

static void tell(const struct manager *m, const char *text)
{
	if (m->fd >= 0)
		(void)sendto(m->fd, text, strlen(text), MSG_NOSIGNAL,
			     (const struct sockaddr *)&m->at, m->at_len);
}

/* A path, or "@" and a name without a file. */
static bool find(struct manager *m, const char *text)
{
	size_t n = strlen(text);

	if ((*text != '/' && *text != '@') || n < 2 || n >= sizeof(m->at.sun_path)) {
		cli_warn("NOTIFY_SOCKET=%s: no path of a socket; its manager is told nothing",
			 text);
		return false;
	}
	m->at.sun_family = AF_UNIX;
	memcpy(m->at.sun_path, text, n);
	if (*text == '@')
		m->at.sun_path[0] = '\0';
	m->at_len = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + n + (*text == '/'));
	return true;
}

static uint64_t number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

/* Half of what it is given, so that one that comes late is no reason to be ended. */
static uint64_t watchdog(void)
{
	uint64_t usec = number("WATCHDOG_USEC"), pid = number("WATCHDOG_PID");

	return !pid || pid == (uint64_t)getpid() ? usec / 2 * NSEC_PER_USEC : 0;
}

void manager_init(struct manager *m)
{
	const struct timeval most = {.tv_usec = SEND_USEC};
	const char *text = getenv("NOTIFY_SOCKET");

	*m = (struct manager){.fd = -1};
	if (text && *text && find(m, text)) {
		m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (m->fd < 0)
			cli_warn("the service's manager is told nothing: %s", errno_text(errno));
		else
			(void)setsockopt(m->fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	}
	m->watchdog_ns = m->fd >= 0 ? watchdog() : 0;
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

void manager_ready(struct manager *m)
{
	tell(m, "READY=1");
}

void manager_reloading(struct manager *m, uint64_t now_ns)
{
	char text[64];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu", now_ns / NSEC_PER_USEC);
	tell(m, text);
}

void manager_stopping(struct manager *m)
{
	m->stopping = true;
	tell(m, "STOPPING=1");
}

void manager_status(struct manager *m, const char *text)
{
	char line[sizeof(m->status) + 8];

	if (strncmp(text, m->status, sizeof(m->status) - 1) == 0)
		return;
	snprintf(m->status, sizeof(m->status), "%s", text);
	snprintf(line, sizeof(line), "STATUS=%s", m->status);
	tell(m, line);
}

uint64_t manager_next_deadline(const struct manager *m)
{
	uint64_t deadline = m->watchdog_ns ? m->watchdog_at : DEADLINE_NEVER;

	return m->stopping && m->fd >= 0 ? min_of(deadline, m->extend_at) : deadline;
}

void manager_tick(struct manager *m, uint64_t now_ns)
{
	char text[48];

	if (m->watchdog_ns && now_ns >= m->watchdog_at) {
		m->watchdog_at = now_ns + m->watchdog_ns;
		tell(m, "WATCHDOG=1");
	}
	if (m->stopping && now_ns >= m->extend_at) {
		m->extend_at = now_ns + ASK_NS;
		snprintf(text, sizeof(text), "EXTEND_TIMEOUT_USEC=%llu", EXTEND_NS / NSEC_PER_USEC);
		tell(m, text);
	}
}

void manager_fini(struct manager *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}
