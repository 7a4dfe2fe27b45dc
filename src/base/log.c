/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/uncancelled.h"

static atomic_int threshold = -1;

static int threshold_from_env(void)
{
	static const char *const names[] = {"err", "warn", "info", "debug"};
	const char *s = getenv("WEFT_LOG");

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

void log_line(enum log_level level, const char *module, const char *fmt, ...)
{
	char line[1024];
	int n = snprintf(line, sizeof(line), "weft %s: ", module);
	va_list ap;

	(void)level;
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n = (int)strlen(line);
	line[n++] = '\n';
	/* One write, so that lines of several processes do not mix. */
	if (uncancelled_write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}
