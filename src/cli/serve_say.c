/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/serve_say.h"

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"

#define LINES_PER_SECOND 20
#define LINES_PER_MINUTE 100 /* some 20 MB a day, where somebody keeps them */

void serve_say_init(struct serve_say *s, bool wanted)
{
	int otherwise = wanted ? STDOUT_FILENO : -1;

	*s = (struct serve_say){.fd = log_is_journal(STDERR_FILENO) ? STDERR_FILENO : otherwise};
}

/* A line that a pipe has room for is less than PIPE_BUF and goes there whole. */
static bool say(const struct serve_say *s, enum log_level level, const char *text)
{
	struct pollfd p = {.fd = s->fd, .events = POLLOUT};
	const char *prefix = serve_say_to_journal(s) ? log_prefix(level) : "";
	size_t n = strlen(prefix);
	char line[2048];

	memcpy(line, prefix, n);
	if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
		return false;
	for (; *text && n < sizeof(line) - 5; text++) {
		if (*text >= ' ' && *text < 0x7f)
			line[n++] = *text;
		else
			n += (size_t)snprintf(line + n, 5, "\\x%02x", (unsigned char)*text);
	}
	line[n++] = '\n';
	return write(s->fd, line, n) == (ssize_t)n;
}

static bool has_room(const struct serve_say *s)
{
	return s->lines < LINES_PER_SECOND && s->minutes_lines < LINES_PER_MINUTE;
}

static void count(struct serve_say *s)
{
	s->lines++;
	s->minutes_lines++;
}

void serve_say(struct serve_say *s, enum log_level level, uint64_t now_ns, const char *fmt, ...)
{
	uint64_t second = now_ns / NSEC_PER_SEC;
	char text[1024];
	va_list ap;

	if (s->fd < 0)
		return;
	if (s->second != second) {
		if (s->second / 60 != second / 60)
			s->minutes_lines = 0;
		s->second = second;
		s->lines = 0;
	}
	if (s->left_out && has_room(s)) {
		snprintf(text, sizeof(text), "(%u lines left out)", s->left_out);
		if (say(s, LOG_LEVEL_WARN, text)) {
			s->left_out = 0;
			count(s);
		}
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (s->left_out || !has_room(s) || !say(s, level, text))
		s->left_out++;
	else
		count(s);
}

void serve_answer(const struct serve_say *s, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)say(s, LOG_LEVEL_INFO, text);
}
