/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/output.h"
#include "cli/progress.h"

#define REDRAW_NS (100 * NSEC_PER_MSEC)

void progress_start(struct progress *p, const char *what, uint64_t total_bytes, uint64_t now_ns)
{
	*p = (struct progress){
		.what = what,
		.total_bytes = total_bytes,
		.start_ns = now_ns,
		.on = isatty(STDERR_FILENO),
	};
}

static int terminal_columns(void)
{
	struct winsize w;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

static bool due(struct progress *p, uint64_t now_ns)
{
	if (!p->on || (p->drawn_ns && now_ns - p->drawn_ns < REDRAW_NS))
		return false;
	p->drawn_ns = now_ns;
	return true;
}

static void draw(const struct progress *p, double fraction, const char *tail)
{
	int width = terminal_columns() - 60, filled;

	width = width < 0 ? 0 : width > 40 ? 40 : width;
	filled = (int)(fraction * width);
	fprintf(stderr, "\r\033[K%s ", p->what);
	if (width) {
		fputc('[', stderr);
		for (int i = 0; i < width; i++)
			fputc(i < filled ? '=' : i == filled ? '>' : ' ', stderr);
		fputs("] ", stderr);
	}
	fprintf(stderr, "%3.0f %%  %s", fraction * 100, tail);
	fflush(stderr);
}

void progress_show(struct progress *p, uint64_t done_bytes, uint64_t now_ns)
{
	char done[32], total[32], rate[32], left[32], tail[128];
	double seconds = (double)(now_ns - p->start_ns) / 1e9;
	double per_second = seconds > 0 ? (double)done_bytes / seconds : 0;

	if (!due(p, now_ns))
		return;
	if (per_second > 0 && done_bytes < p->total_bytes)
		snprintf(left, sizeof(left), "%.0f s left",
			 (double)(p->total_bytes - done_bytes) / per_second);
	else
		left[0] = 0;
	snprintf(tail, sizeof(tail), "%s of %s  %s/s  %s",
		 text_bytes(done, sizeof(done), done_bytes),
		 text_bytes(total, sizeof(total), p->total_bytes),
		 text_bytes(rate, sizeof(rate), (uint64_t)per_second), left);
	draw(p, p->total_bytes ? (double)done_bytes / (double)p->total_bytes : 1, tail);
}

void progress_tell(struct progress *p, double fraction, uint64_t now_ns, const char *fmt, ...)
{
	char tail[128];
	va_list ap;

	if (!due(p, now_ns))
		return;
	va_start(ap, fmt);
	vsnprintf(tail, sizeof(tail), fmt, ap);
	va_end(ap);
	draw(p, fraction, tail);
}

void progress_stop(struct progress *p)
{
	if (p->on && p->drawn_ns)
		fputs("\r\033[K", stderr);
	p->on = false;
}
