/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/control_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/errno_text.h"
#include "base/time.h"

#define SUFFIX	      ".sock"
#define BACKLOG	      16
#define LOCK_WAIT_NS  (2 * NSEC_PER_SEC)
#define LOCK_PAUSE_US 10000

static int fail(int error, const char *path, const char *what, char *why, size_t room)
{
	snprintf(why, room, "%s: %s", path, what ? what : errno_text(-error));
	return error;
}

int control_directory(char ret[CONTROL_PATH_MAX], char *why, size_t room)
{
	const char *base = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");

	if (!base || !*base) {
		snprintf(why, room,
			 "XDG_RUNTIME_DIR is not set: there is no directory of this "
			 "user's services");
		return -ENOENT;
	}
	if (snprintf(ret, CONTROL_PATH_MAX, "%s/weft", base) >= CONTROL_PATH_MAX)
		return fail(-ENAMETOOLONG, base, NULL, why, room);
	return 0;
}

/* --- the address ------------------------------------------------------------------------------ */

static int fill_address(const char *path, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(ret->sun_path))
		return -ENAMETOOLONG;
	strcpy(ret->sun_path, path);
	return 0;
}

bool control_peer_is_ours(int fd, pid_t *ret_pid)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred who;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
		return false;
	if (ret_pid)
		*ret_pid = who.pid;
	return who.uid == geteuid() || who.uid == 0;
}

int control_connect(const char *path)
{
	struct sockaddr_un a;
	int error = fill_address(path, &a), fd;

	if (error)
		return error;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* --- listening -------------------------------------------------------------------------------- */

/* Ours alone: who could write into it could put a socket of his own there. */
static int make_directory(const char *path, char *why, size_t room)
{
	struct stat st;

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return fail(-errno, path, NULL, why, room);
	if (lstat(path, &st) != 0)
		return fail(-errno, path, NULL, why, room);
	if (!S_ISDIR(st.st_mode))
		return fail(-ENOTDIR, path, NULL, why, room);
	if (st.st_uid != geteuid())
		return fail(-EPERM, path, "it is another user's", why, room);
	if (st.st_mode & 077 && chmod(path, 0700) != 0)
		return fail(-errno, path, NULL, why, room);
	return 0;
}

/* The directory that a path is in, locked; -1: it cannot be, and who looks has to do without. */
static int lock_directory(const char *path, bool *ret_busy)
{
	const uint64_t end = time_now_ns() + LOCK_WAIT_NS;
	char directory[CONTROL_PATH_MAX];
	char *slash;
	int fd;

	*ret_busy = false;
	snprintf(directory, sizeof(directory), "%s", path);
	slash = strrchr(directory, '/');
	if (slash)
		slash[slash == directory] = '\0';
	fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		*ret_busy = errno == EWOULDBLOCK && time_now_ns() >= end;
		if (errno != EWOULDBLOCK || *ret_busy) {
			close(fd);
			return -1;
		}
		usleep(LOCK_PAUSE_US);
	}
	return fd;
}

/* Removes a socket at which nobody listens. */
static int remove_dead(const char *path, char *why, size_t room)
{
	struct stat st;
	int fd;

	if (lstat(path, &st) != 0)
		return errno == ENOENT ? 0 : fail(-errno, path, NULL, why, room);
	if (!S_ISSOCK(st.st_mode))
		return fail(-EEXIST, path, "it is there, and no socket", why, room);
	fd = control_connect(path);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 || fd == -EAGAIN)
		return fail(-EADDRINUSE, path, "a service listens there; choose another path", why,
			    room);
	if (fd != -ECONNREFUSED)
		return fail(fd, path, NULL, why, room);
	if (unlink(path) != 0 && errno != ENOENT)
		return fail(-errno, path, NULL, why, room);
	return 0;
}

static int is_socket_name(const struct dirent *e)
{
	size_t len = strlen(e->d_name);

	return len > strlen(SUFFIX) && strcmp(e->d_name + len - strlen(SUFFIX), SUFFIX) == 0;
}

static void remove_all_dead(const char *directory)
{
	char path[CONTROL_PATH_MAX], why[256];
	DIR *d = opendir(directory);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (is_socket_name(e) && (size_t)snprintf(path, sizeof(path), "%s/%s", directory,
							  e->d_name) < sizeof(path))
			(void)remove_dead(path, why, sizeof(why));
	}
	if (d)
		closedir(d);
}

static int bind_and_listen(struct control_socket *s, char *why, size_t room)
{
	struct sockaddr_un a;
	struct stat st;
	int error = fill_address(s->path, &a);

	if (!error)
		error = remove_dead(s->path, why, room);
	else
		return fail(error, s->path, "the path of a socket has at most 107 bytes", why,
			    room);
	if (error)
		return error;
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Before it has a name: never is it there for others. */
	if (s->fd < 0 || fchmod(s->fd, 0600) != 0 ||
	    bind(s->fd, (const struct sockaddr *)&a, sizeof(a)) != 0)
		error = -errno;
	else if (listen(s->fd, BACKLOG) != 0 || lstat(s->path, &st) != 0)
		error = -errno;
	if (error) {
		if (s->fd >= 0)
			close(s->fd);
		return fail(error, s->path, NULL, why, room);
	}
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

int control_listen(const char *path, struct control_socket *ret, char *why, size_t room)
{
	char directory[CONTROL_PATH_MAX];
	int error = 0, lock;
	bool busy;

	*ret = (struct control_socket){.fd = -1};
	if (!path) {
		error = control_directory(directory, why, room);
		if (!error)
			error = make_directory(directory, why, room);
		if (error)
			return error;
		if (snprintf(ret->path, sizeof(ret->path), "%s/%d" SUFFIX, directory, getpid()) >=
		    (int)sizeof(ret->path))
			return fail(-ENAMETOOLONG, directory, NULL, why, room);
	} else if ((size_t)snprintf(ret->path, sizeof(ret->path), "%s", path) >=
		   sizeof(ret->path)) {
		return fail(-ENAMETOOLONG, path, "the path of a socket has at most 107 bytes", why,
			    room);
	}
	lock = lock_directory(ret->path, &busy);
	if (busy)
		return fail(-EBUSY, ret->path, "somebody keeps its directory locked", why, room);
	if (!path)
		remove_all_dead(directory);
	error = bind_and_listen(ret, why, room);
	if (lock >= 0)
		close(lock);
	return error;
}

void control_unlisten(struct control_socket *s)
{
	struct stat st;

	if (s->fd < 0)
		return;
	if (lstat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino)
		(void)unlink(s->path);
	close(s->fd);
	s->fd = -1;
}

/* --- finding ---------------------------------------------------------------------------------- */

int control_list(char ***ret, size_t *ret_count, char *why, size_t room)
{
	char directory[CONTROL_PATH_MAX];
	int error = control_directory(directory, why, room), n;
	struct dirent **found;
	char **paths;

	*ret = NULL;
	*ret_count = 0;
	if (error)
		return error;
	n = scandir(directory, &found, is_socket_name, versionsort);
	if (n < 0)
		return errno == ENOENT ? 0 : fail(-errno, directory, NULL, why, room);
	paths = calloc((size_t)n + 1, sizeof(*paths));
	for (int i = 0; i < n; i++) {
		if (paths &&
		    asprintf(&paths[*ret_count], "%s/%s", directory, found[i]->d_name) >= 0)
			(*ret_count)++;
		free(found[i]);
	}
	free(found);
	*ret = paths;
	return paths ? 0 : fail(-ENOMEM, directory, NULL, why, room);
}
