/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Documents in files. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/wiped.h"
#include "config/config.h"

static int fail(const char *path, int error, const char *todo, char *why, size_t room)
{
	snprintf(why, room, "%s: %s%s", path, strerror(error), todo);
	return -error;
}

/* All of it; it may be a pipe. */
static int read_all(int fd, char **ret, size_t *ret_len)
{
	size_t len = 0, room = 0;
	char *text = NULL;

	for (;;) {
		ssize_t n;

		if (len == room) {
			char *more = wiped_grow(text, len, room = 2 * room + 4096);

			if (!more) {
				wiped_free(text, len);
				return ENOMEM;
			}
			text = more;
		}
		n = read(fd, text + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int error = errno;

			wiped_free(text, len);
			return error;
		}
		len += (size_t)n;
		if (n == 0 || len > CONFIG_BYTES_MAX)
			break;
	}
	*ret = text;
	*ret_len = len;
	return 0;
}

int config_load(const char *path, struct json_object **ret, char *why, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;
	char *text = NULL, at[400];
	size_t len = 0;

	if (fd < 0)
		return fail(path, errno, errno == ENOENT ? "; nvmetcli's save writes one" : "", why,
			    room);
	error = read_all(fd, &text, &len);
	close(fd);
	if (error)
		return fail(path, error, "", why, room);
	error = config_parse_text(text, len, ret, at, sizeof(at));
	if (error)
		snprintf(why, room, "%s: %s", path, at);
	wiped_free(text, len);
	return error;
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

/* The file's new name is on stable storage only when its directory is. */
static void sync_directory(const char *path)
{
	char copy[PATH_MAX];
	int fd;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!fsync(fd);
	close(fd);
}

/* before: the file that is replaced, whose owner and mode stay, or NULL. */
static int write_beside(const char *path, const struct stat *before, const char *text,
			char *temporary, size_t room)
{
	int fd, error;

	if ((size_t)snprintf(temporary, room, "%s.XXXXXX", path) >= room)
		return ENAMETOOLONG;
	fd = mkostemp(temporary, O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return errno;
	error = write_all(fd, text, strlen(text));
	/* Without the right to give it away nobody else may read what he could not before. */
	if (before && fchown(fd, before->st_uid, before->st_gid) == 0)
		(void)!fchmod(fd, before->st_mode & 0777);
	if (!error && fsync(fd) != 0)
		error = errno;
	close(fd);
	if (!error && rename(temporary, path) != 0)
		error = errno;
	if (error)
		(void)unlink(temporary);
	return error;
}

/* Then it stays as somebody has written it. */
static bool says_the_same(const char *path, struct json_object *doc)
{
	struct json_object *there;
	char why[512];
	bool same;

	if (config_load(path, &there, why, sizeof(why)) != 0)
		return false;
	same = json_object_equal(there, doc);
	config_drop(there);
	return same;
}

int config_save(const char *path, struct json_object *doc, char *why, size_t room)
{
	char temporary[PATH_MAX], real[PATH_MAX];
	struct stat st;
	char *text;
	bool there;
	int error;

	/* A link stays one: what it leads to is replaced. */
	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
		if (!realpath(path, real))
			return fail(path, errno, "", why, room);
		path = real;
	}
	there = stat(path, &st) == 0;
	if (there && S_ISREG(st.st_mode) && says_the_same(path, doc))
		return 0;
	text = config_text(doc);
	if (!text)
		return fail(path, ENOMEM, "", why, room);
	if (there && !S_ISREG(st.st_mode))
		error = EINVAL;
	else if (strlen(text) > CONFIG_BYTES_MAX) /* nobody could read it */
		error = EFBIG;
	else
		error = write_beside(path, there ? &st : NULL, text, temporary, sizeof(temporary));
	wiped_free(text, strlen(text));
	if (error)
		return fail(path, error, "", why, room);
	sync_directory(path);
	return 0;
}
