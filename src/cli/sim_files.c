/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/sim_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "cli/sim_fields.h"

/* --- a whole file ------------------------------------------------------------------------------
 */

static int fail(const char *path, int error, char *err, size_t err_len)
{
	snprintf(err, err_len, "cannot write %s: %s", path, errno_text(error));
	return -error;
}

/* Closes f; the errno of whatever went wrong on the way. */
static int finish(FILE *f)
{
	int error = 0;

	if (fflush(f) != 0)
		error = errno;
	else if (ferror(f)) /* an earlier failure has left its mark, but not its reason */
		error = EIO;
	if (fclose(f) != 0 && !error)
		error = errno;
	return error;
}

/* As open() with 0666 would have made it; mkostemp() leaves it to its owner alone. */
static int give_mode(int fd)
{
	mode_t mask = umask(077);

	umask(mask);
	return fchmod(fd, 0666 & ~mask) == 0 ? 0 : errno;
}

int sim_file_write(const char *path, void (*put)(FILE *f, const struct run_result *r),
		   const struct run_result *r, char *err, size_t err_len)
{
	char temporary[PATH_MAX], real[PATH_MAX];
	struct stat st;
	FILE *f = NULL;
	int fd, error;

	/* A pipe or a terminal has no "before" to be kept, and nothing must take its name. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		f = fopen(path, "we");
		if (!f)
			return fail(path, errno, err, err_len);
		put(f, r);
		error = finish(f);
		return error ? fail(path, error, err, err_len) : 0;
	}
	/* A link stays one: what it leads to is replaced. */
	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && realpath(path, real))
		path = real;
	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= sizeof(temporary))
		return fail(path, ENAMETOOLONG, err, err_len);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return fail(path, errno, err, err_len);
	error = give_mode(fd);
	if (!error) {
		f = fdopen(fd, "w");
		error = f ? 0 : errno;
	}
	if (f) {
		put(f, r);
		error = finish(f);
	} else {
		close(fd);
	}
	if (!error && rename(temporary, path) != 0)
		error = errno;
	if (!error)
		return 0;
	(void)unlink(temporary);
	return fail(path, error, err, err_len);
}

/* --- CSV, as RFC 4180 quotes it ----------------------------------------------------------------
 */

static void put_word(FILE *f, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, f);
		return;
	}
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', f);
		fputc(*text, f);
	}
	fputc('"', f);
}

static void put_table(FILE *f, const struct sim_table *t)
{
	char cell[SIM_CELL_MAX];

	for (size_t c = 0; c < t->shape->nfields; c++)
		fprintf(f, "%s%s", c ? "," : "", t->shape->fields[c].key);
	fputc('\n', f);
	for (size_t i = 0; i < t->n; i++) {
		const void *record = sim_table_row(t, i);

		for (size_t c = 0; c < t->shape->nfields; c++) {
			const struct sim_field *field = &t->shape->fields[c];

			if (c)
				fputc(',', f);
			put_word(f, field->kind == SIM_TEXT ? sim_field_words(field, record)
							    : sim_field_plain(cell, field, record));
		}
		fputc('\n', f);
	}
}

static void put_flows(FILE *f, const struct run_result *r)
{
	fputs("group,from,to,bytes,start_ns,took_ns,ideal_ns,slowdown,failed\n", f);
	for (size_t i = 0; i < r->nflows; i++) {
		const struct run_flow *w = &r->flows[i];

		put_word(f, w->group < r->ngroups ? r->groups[w->group].name : "");
		fprintf(f, ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",", w->from, w->to,
			w->bytes, w->start_ns);
		/* Empty: it was not done. */
		if (w->took_ns)
			fprintf(f, "%" PRIu64, w->took_ns);
		fprintf(f, ",%" PRIu64 ",", w->ideal_ns);
		if (w->took_ns && w->ideal_ns)
			fprintf(f, "%.4f", (double)w->took_ns / (double)w->ideal_ns);
		fprintf(f, ",%d\n", w->failed);
	}
}

/* A series' figure of a step; empty where there is none. */
static void put_step(FILE *f, const struct run_series *s, size_t i)
{
	if (i < s->n && isfinite(s->v[i]))
		fprintf(f, ",%.10g", s->v[i]);
	else
		fputc(',', f);
}

static const struct run_series *goodput_of(const struct run_group *g)
{
	return &g->goodput;
}

static const struct run_series *fairness_of(const struct run_group *g)
{
	return &g->fairness_over_time;
}

static void put_groups_by(FILE *f, const struct run_result *r,
			  const struct run_series *(*of)(const struct run_group *))
{
	size_t steps = 0;

	fputs("time_ns", f);
	for (size_t g = 0; g < r->ngroups; g++) {
		fputc(',', f);
		put_word(f, r->groups[g].name);
		steps = max_of(steps, of(&r->groups[g])->n);
	}
	fputc('\n', f);
	for (size_t i = 0; i < steps; i++) {
		fprintf(f, "%" PRIu64, i * r->step_ns);
		for (size_t g = 0; g < r->ngroups; g++)
			put_step(f, of(&r->groups[g]), i);
		fputc('\n', f);
	}
}

static void put_groups(FILE *f, const struct run_result *r)
{
	put_groups_by(f, r, goodput_of);
}

static void put_fairness(FILE *f, const struct run_result *r)
{
	put_groups_by(f, r, fairness_of);
}

/* Only ports that had a queue have a column. */
static void put_queues(FILE *f, const struct run_result *r)
{
	size_t steps = 0;

	fputs("time_ns", f);
	for (size_t p = 0; p < r->nports; p++) {
		if (r->ports[p].queue.n == 0)
			continue;
		fputc(',', f);
		put_word(f, r->ports[p].name);
		steps = max_of(steps, r->ports[p].queue.n);
	}
	fputc('\n', f);
	for (size_t i = 0; i < steps; i++) {
		fprintf(f, "%" PRIu64, i * r->step_ns);
		for (size_t p = 0; p < r->nports; p++)
			if (r->ports[p].queue.n)
				put_step(f, &r->ports[p].queue, i);
		fputc('\n', f);
	}
}

static void put_ports(FILE *f, const struct run_result *r)
{
	put_table(f, &(struct sim_table){.shape = &sim_ports, .records = r->ports, .n = r->nports});
}

static void put_slowdown(FILE *f, const struct run_result *r)
{
	put_table(f, &(struct sim_table){.shape = &sim_sizes, .records = r->sizes, .n = r->nsizes});
}

int sim_files_csv(const char *directory, const struct run_result *r, char *err, size_t err_len)
{
	static const struct {
		const char *name;
		void (*put)(FILE *f, const struct run_result *r);
	} files[] = {{"flows.csv", put_flows},	     {"groups.csv", put_groups},
		     {"fairness.csv", put_fairness}, {"queues.csv", put_queues},
		     {"ports.csv", put_ports},	     {"slowdown.csv", put_slowdown}};
	char path[PATH_MAX];

	if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
		int error = errno;

		snprintf(err, err_len, "cannot make the directory %s: %s", directory,
			 errno_text(error));
		return -error;
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int rc;

		if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, files[i].name) >=
		    sizeof(path))
			return fail(directory, ENAMETOOLONG, err, err_len);
		rc = sim_file_write(path, files[i].put, r, err, err_len);
		if (rc)
			return rc;
	}
	return 0;
}
