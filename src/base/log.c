/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "base/uncancelled.h"

static atomic_int threshold = -1;
static atomic_int to_journal = -1; /* standard error is */

static int threshold_from_env(void)
{
	static const char *const names[] = {"err", "warn", "info", "debug"};
	const char *s = secure_getenv("WEFT_LOG");

	for (int i = 0; s && i < (int)ARRAY_SIZE(names); i++)
		if (strcmp(s, names[i]) == 0)
			return i;
	return LOG_LEVEL_WARN;
}

bool log_enabled(enum log_level level)
{
	int t = atomic_load_explicit(&threshold, memory_order_relaxed);

	if (t < 0) {
		t = threshold_from_env();
		atomic_store_explicit(&threshold, t, memory_order_relaxed);
	}
	return (int)level <= t;
}

bool log_is_journal(int fd)
{
	const char *s = secure_getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;
	int n = 0;

	return s && sscanf(s, "%llu:%llu%n", &dev, &ino, &n) == 2 && !s[n] && fstat(fd, &st) == 0 &&
	       st.st_dev == dev && st.st_ino == ino;
}

const char *log_prefix(enum log_level level)
{
	static const char *const prefixes[] = {"<3>", "<4>", "<6>", "<7>"};
	int j = atomic_load_explicit(&to_journal, memory_order_relaxed);

	if (j < 0) {
		j = log_is_journal(STDERR_FILENO);
		atomic_store_explicit(&to_journal, j, memory_order_relaxed);
	}
	return j ? prefixes[level] : "";
}

/* Peers make a program log. It is not to stand still where nobody reads that. */
static bool has_room(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int before = uncancelled_begin(), n = poll(&p, 1, 0);

	uncancelled_end(before);
	return n == 1 && p.revents & POLLOUT;
}

void log_line(enum log_level level, const char *module, const char *fmt, ...)
{
	char line[1024];
	int n = snprintf(line, sizeof(line), "%sweft %s: ", log_prefix(level), module);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n = (int)strlen(line);
	text_tame(line); /* some of it may come from a peer */
	if (!has_room(STDERR_FILENO))
		return;
	line[n++] = '\n';
	/* One write, so that lines of several processes do not mix. */
	if (uncancelled_write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

int log_refused(const char *module, const char *call, int error)
{
	int before = errno;

	if (error != EAGAIN && log_enabled(LOG_LEVEL_DEBUG))
		log_line(LOG_LEVEL_DEBUG, module, "%s: %s", call, strerror(error));
	errno = before;
	return error;
}
