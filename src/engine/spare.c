/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/spare.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"

#define KEPT_NS (200 * NSEC_PER_USEC)

void spare_open(struct spare *s)
{
	const long all = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t ours;

	*s = (struct spare){.fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC)};
	/* Of some of them nobody says how many would run there. */
	if (all > 1 && sched_getaffinity(0, sizeof(ours), &ours) == 0 && CPU_COUNT(&ours) == all)
		s->processors = (unsigned)all;
}

void spare_close(struct spare *s)
{
	if (s->fd >= 0)
		close(s->fd);
}

/* "0.20 0.18 0.12 1/80 11206": proc_loadavg(5). 0: it does not say. */
static unsigned running(int fd)
{
	char text[80];
	const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	char *slash;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	slash = strchr(text, '/');
	if (!slash)
		return 0;
	while (slash > text && slash[-1] != ' ')
		slash--;
	return (unsigned)strtoul(slash, NULL, 10);
}

bool spare_processor(struct spare *s, uint64_t now)
{
	if (s->fd < 0 || !s->processors)
		return false;
	if (now - s->seen_ns > KEPT_NS) {
		const unsigned n = running(s->fd);

		s->seen_ns = now;
		s->is = n && n <= s->processors;
	}
	return s->is;
}
