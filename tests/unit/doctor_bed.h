/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A doctor whose /sys and /proc are directories of the test's, and what it found. */
#ifndef WEFT_TESTS_DOCTOR_BED_H
#define WEFT_TESTS_DOCTOR_BED_H

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "doctor/checks.h"

#define NOTHING (-1)

static char bed_root[] = "/tmp/weft-doctor-XXXXXX";
static struct doctor bed;

static inline int bed_remove(const char *path, const struct stat *st, int type, struct FTW *w)
{
	(void)st;
	(void)type;
	(void)w;
	return remove(path);
}

static inline int bed_start(void **state)
{
	(void)state;
	strcpy(bed_root + strlen(bed_root) - 6, "XXXXXX");
	assert_non_null(mkdtemp(bed_root));
	bed = (struct doctor){.sys = bed_root, .proc = bed_root};
	return 0;
}

static inline int bed_end(void **state)
{
	(void)state;
	free(bed.rnics);
	report_free(&bed.report);
	return nftw(bed_root, bed_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* A file below the root, with the directories on its way; for /sys and /proc alike. */
static inline void put(const char *text, const char *fmt, ...)
{
	char path[PATH_MAX];
	int at = snprintf(path, sizeof(path), "%s/", bed_root);
	va_list ap;
	FILE *f;

	va_start(ap, fmt);
	vsnprintf(path + at, sizeof(path) - (size_t)at, fmt, ap);
	va_end(ap);
	for (char *slash = strchr(path + at, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0755);
		*slash = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

static inline void begin_look(void)
{
	static const struct check check = {"check", "title", "why", "source"};

	bed.report.count = 0;
	report_turn(&bed.report, &check, "object");
}

/* The gravest of what was found, or NOTHING. Each but what is well has something to do or says why
 * it could not be looked at. */
static inline int gravest(void)
{
	int most = NOTHING;

	for (size_t i = 0; i < bed.report.count; i++) {
		const struct finding *f = &bed.report.v[i];

		most = max_of(most, (int)f->severity);
		assert_true(f->seen[0]);
		if (f->severity >= DOCTOR_WARNING)
			assert_true(f->mend[0]);
	}
	return most;
}

static inline int look_host(void (*check)(struct doctor *))
{
	begin_look();
	check(&bed);
	return gravest();
}

static inline int look_iface(void (*check)(struct doctor *, const struct iface *),
			     const struct iface *i)
{
	begin_look();
	check(&bed, i);
	return gravest();
}

static inline int look_rnic(void (*check)(struct doctor *, const struct rnic *),
			    const struct rnic *r)
{
	begin_look();
	check(&bed, r);
	return gravest();
}

static inline int look_peer(void (*check)(struct doctor *, const struct path *),
			    const struct path *p)
{
	begin_look();
	check(&bed, p);
	return gravest();
}

/* What was seen, or is to be done, says so somewhere. */
static inline void says(const char *text)
{
	for (size_t i = 0; i < bed.report.count; i++)
		if (strstr(bed.report.v[i].seen, text) || strstr(bed.report.v[i].mend, text))
			return;
	fail_msg("nothing says '%s'; first: %s | %s", text,
		 bed.report.count ? bed.report.v[0].seen : "-",
		 bed.report.count ? bed.report.v[0].mend : "-");
}

#endif
