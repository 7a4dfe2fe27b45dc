/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "doctor/files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int path_of(char ret[PATH_MAX], const char *root, const char *fmt, va_list ap)
{
	int at = snprintf(ret, PATH_MAX, "%s/", root);
	int n = at < PATH_MAX ? vsnprintf(ret + at, (size_t)(PATH_MAX - at), fmt, ap) : PATH_MAX;

	return at + n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int first_line(const char *path, char *ret, size_t room)
{
	FILE *f = fopen(path, "re");
	int rc = 0;

	if (!f)
		return -errno;
	errno = 0;
	if (!fgets(ret, (int)room, f)) {
		rc = ferror(f) ? -errno : 0; /* an empty file is an empty line */
		*ret = 0;
	}
	fclose(f);
	ret[strcspn(ret, "\n")] = 0;
	return rc;
}

int file_line(const char *root, char *ret, size_t room, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	int rc;

	*ret = 0;
	va_start(ap, fmt);
	rc = path_of(path, root, fmt, ap);
	va_end(ap);
	return rc ? rc : first_line(path, ret, room);
}

int file_number(const char *root, uint64_t *ret, const char *fmt, ...)
{
	char path[PATH_MAX], text[64] = "", *end;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = path_of(path, root, fmt, ap);
	va_end(ap);
	if (rc == 0)
		rc = first_line(path, text, sizeof(text));
	if (rc)
		return rc;
	*ret = strtoull(text, &end, 0);
	return end == text || *text == '-' ? -EINVAL : 0;
}

int file_lines(const char *root, const char *path, void (*see)(void *ctx, char *line), void *ctx)
{
	char whole[PATH_MAX], *line = NULL;
	size_t room = 0;
	FILE *f;

	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	f = fopen(whole, "re");
	if (!f)
		return -errno;
	while (getline(&line, &room, f) > 0) {
		line[strcspn(line, "\n")] = 0;
		see(ctx, line);
	}
	free(line);
	fclose(f);
	return 0;
}

static int is_name(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

int file_names(const char *root, void (*see)(void *ctx, const char *name), void *ctx,
	       const char *fmt, ...)
{
	struct dirent **names;
	char path[PATH_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = path_of(path, root, fmt, ap);
	va_end(ap);
	if (n)
		return n;
	n = scandir(path, &names, is_name, versionsort);
	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		see(ctx, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return 0;
}
