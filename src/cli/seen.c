/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "cli/seen.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK	  "/memfd:" SIGHT_NAME " (deleted)"
#define ROWS_MAX  65536
#define FILES_MAX (SIGHT_MEMORIES_MAX + 8) /* of one process */

/* ---- finding it -------------------------------------------------------------------------------
 */

/* The mount that a descriptor's file is on; -1: it cannot be told. */
static long mount_of(pid_t pid, const char *fd)
{
	char path[64], line[128];
	long id = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", pid, fd);
	f = fopen(path, "re");
	while (f && id < 0 && fgets(line, sizeof(line), f))
		(void)!sscanf(line, "mnt_id: %ld", &id);
	if (f)
		fclose(f);
	return id;
}

/* That of memfds, which nobody else can have a file on: what only bears the name is not opened, as
 * that alone may take for ever on somebody's own file system. */
static long mount_of_memfds(void)
{
	static long id = -1;
	char name[16];
	int fd;

	if (id >= 0)
		return id;
	fd = memfd_create("weft", MFD_CLOEXEC);
	snprintf(name, sizeof(name), "%d", fd);
	if (fd >= 0) {
		id = mount_of(getpid(), name);
		close(fd);
	}
	return id;
}

static bool is_ours(pid_t pid, int dir, const char *path)
{
	const char *name = strrchr(path, '/');
	char link[sizeof(LINK) + 1];
	ssize_t n = readlinkat(dir, path, link, sizeof(link));

	return n == sizeof(LINK) - 1 && memcmp(link, LINK, (size_t)n) == 0 &&
	       mount_of(pid, name ? name + 1 : path) == mount_of_memfds();
}

/* What is opened is what was looked at: the process may put another file in its place meanwhile. */
static int open_ours(int dir, const char *name, int flags)
{
	char path[48];
	int at = openat(dir, name, O_PATH | O_CLOEXEC), fd = -1;

	if (at < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (is_ours(getpid(), AT_FDCWD, path))
		fd = open(path, flags | O_CLOEXEC);
	close(at);
	return fd;
}

/* Could the size change, a process might have us read beyond the end. */
static bool is_whole(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 &&
	       st.st_size == SIGHT_BYTES;
}

/* The descriptors of a process; NULL with errno. */
static DIR *descriptors(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	return opendir(path);
}

static bool shows_any(pid_t pid)
{
	DIR *dir = descriptors(pid);
	struct dirent *e;
	bool any = false;

	while (dir && !any && (e = readdir(dir)))
		any = is_ours(pid, dirfd(dir), e->d_name);
	if (dir)
		closedir(dir);
	return any;
}

int seen_open(struct seen *s, pid_t pid, bool write)
{
	DIR *dir = descriptors(pid);
	struct dirent *e;
	struct stat st;

	*s = (struct seen){.pid = pid};
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	s->uid = fstat(dirfd(dir), &st) == 0 ? st.st_uid : (uid_t)-1;
	s->fds = calloc(FILES_MAX, sizeof(*s->fds));
	while (s->fds && s->fd_count < FILES_MAX && (e = readdir(dir))) {
		int fd;

		if (!is_ours(pid, dirfd(dir), e->d_name))
			continue;
		fd = open_ours(dirfd(dir), e->d_name, write ? O_RDWR : O_RDONLY);
		if (fd >= 0 && is_whole(fd))
			s->fds[s->fd_count++] = fd;
		else if (fd >= 0)
			close(fd);
	}
	closedir(dir);
	if (s->fd_count)
		return 0;
	seen_close(s);
	return -ENOENT;
}

/* ---- reading it -------------------------------------------------------------------------------
 */

static bool is_name(const char *p)
{
	for (; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-')
			return false;
	return true;
}

/* Cuts the text at its blanks. False: there are not as many names as columns. */
static bool split(struct seen_table *t)
{
	char *save = NULL;
	uint32_t n = 0;

	for (char *key = strtok_r(t->text, " ", &save); key; key = strtok_r(NULL, " ", &save)) {
		if (n == t->columns || !is_name(key))
			return false;
		t->keys[n++] = key;
	}
	return n == t->columns;
}

/* room: what the tables of a memory may have in all, for they have each their own place in it. */
static bool take_table(struct seen_table *t, int fd, const struct sight_entry *e, size_t *room)
{
	const size_t bytes = (size_t)e->columns * e->rows * sizeof(*t->v);

	if (!e->in_use || !e->columns || e->columns > SEEN_COLUMNS_MAX || e->rows > ROWS_MAX ||
	    e->offset > SIGHT_BYTES || bytes > SIGHT_BYTES - e->offset || bytes > *room)
		return false;
	*room -= bytes;
	*t = (struct seen_table){
		.columns = e->columns, .rows = e->rows, .fd = fd, .offset = e->offset};
	memcpy(t->room, e->room, sizeof(t->room) - 1);
	memcpy(t->text, e->keys, sizeof(t->text) - 1);
	if (!is_name(t->room) || !split(t))
		return false;
	if (strcmp(t->room, "trace") == 0)
		return true;
	t->v = calloc(1, bytes);
	if (t->v && pread(fd, t->v, bytes, (off_t)e->offset) == (ssize_t)bytes)
		return true;
	free(t->v);
	return false;
}

/* ---- what the kernel says of its sockets ------------------------------------------------------
 */

#define SOCKETS_MAX 64 /* of those on the port of a network namespace that are looked at */
#define PORT	    4791

struct port_socket {
	unsigned long inode;
	uint64_t drops;
};

static size_t sockets_in(pid_t pid, const char *file, struct port_socket *v, size_t n)
{
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, file);
	f = fopen(path, "re");
	while (f && n < SOCKETS_MAX && fgets(line, sizeof(line), f)) {
		unsigned long inode, drops;
		unsigned int port;

		if (sscanf(line,
			   " %*d: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %*s %*s %lu %*s %*s %lu",
			   &port, &inode, &drops) == 3 &&
		    port == PORT)
			v[n++] = (struct port_socket){inode, drops};
	}
	if (f)
		fclose(f);
	return n;
}

/* Packets that came while the socket's buffer was full. Of all that a process knows about loss this
 * is what it cannot count itself. */
static uint64_t socket_drops(pid_t pid)
{
	struct port_socket v[SOCKETS_MAX];
	size_t n = sockets_in(pid, "udp6", v, sockets_in(pid, "udp", v, 0));
	DIR *dir = n ? descriptors(pid) : NULL;
	uint64_t drops = 0;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		unsigned long inode;
		char link[64] = "";

		if (readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1) <= 0 ||
		    sscanf(link, "socket:[%lu]", &inode) != 1)
			continue;
		for (size_t i = 0; i < n; i++)
			if (v[i].inode == inode)
				drops += v[i].drops;
	}
	if (dir)
		closedir(dir);
	return drops;
}

static void drop_tables(struct seen *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->v[i].v);
	free(s->v);
	s->v = NULL;
	s->count = 0;
}

static int read_memory(struct seen *s, int fd)
{
	struct sight_head *h = malloc(sizeof(*h));
	size_t room = SIGHT_BYTES;
	int rc = 0;

	if (!h)
		return -ENOMEM;
	if (pread(fd, h, sizeof(*h), 0) != sizeof(*h) || h->magic != SIGHT_MAGIC)
		rc = -EPROTO;
	for (uint32_t i = 0; !rc && i < h->count && i < SIGHT_TABLES_MAX; i++)
		s->count += take_table(&s->v[s->count], fd, &h->entries[i], &room);
	if (!rc && (!s->since_ns || h->since_ns < s->since_ns))
		s->since_ns = h->since_ns;
	free(h);
	return rc;
}

int seen_read(struct seen *s)
{
	int rc = 0;

	drop_tables(s);
	s->since_ns = 0;
	s->v = calloc(s->fd_count * SIGHT_TABLES_MAX, sizeof(*s->v));
	if (!s->v)
		return -ENOMEM;
	for (size_t i = 0; i < s->fd_count; i++)
		rc = read_memory(s, s->fds[i]) ?: rc;
	if (seen_room(s, "core", 0))
		s->drops = socket_drops(s->pid);
	return s->count ? 0 : rc ?: -ENOENT;
}

void seen_hang_up(struct seen *s)
{
	for (size_t i = 0; i < s->fd_count; i++)
		close(s->fds[i]);
	free(s->fds);
	s->fds = NULL;
	s->fd_count = 0;
}

void seen_close(struct seen *s)
{
	drop_tables(s);
	seen_hang_up(s);
}

const struct seen_table *seen_room(const struct seen *s, const char *room, size_t n)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->v[i].room, room) == 0 && n-- == 0)
			return &s->v[i];
	return NULL;
}

uint32_t seen_column(const struct seen_table *t, const char *key)
{
	for (uint32_t c = 0; c < t->columns; c++)
		if (strcmp(t->keys[c], key) == 0)
			return c;
	return UINT32_MAX;
}

uint64_t seen_value(const struct seen_table *t, uint32_t row, const char *key)
{
	const uint32_t c = seen_column(t, key);

	return t->v && c != UINT32_MAX ? t->v[(size_t)row * t->columns + c] : 0;
}

uint64_t seen_sum(const struct seen *s, const char *room, const char *key)
{
	const struct seen_table *t;
	uint64_t sum = 0;

	for (size_t n = 0; (t = seen_room(s, room, n)); n++)
		sum += seen_value(t, 0, key);
	return sum;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

static bool same_network(pid_t pid)
{
	char path[64];
	struct stat own, other;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	return stat("/proc/self/ns/net", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_ino == other.st_ino && own.st_dev == other.st_dev;
}

static int by_number(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

int seen_processes(pid_t **ret, size_t *ret_count)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	size_t n = 0, room = 0;
	pid_t *v = NULL;

	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid <= 0 || pid == getpid() || !same_network(pid) || !shows_any(pid))
			continue;
		if (n == room) {
			pid_t *more = realloc(v, (room = room * 2 + 16) * sizeof(*v));

			if (!more) {
				free(v);
				closedir(dir);
				return -ENOMEM;
			}
			v = more;
		}
		v[n++] = pid;
	}
	closedir(dir);
	if (n)
		qsort(v, n, sizeof(*v), by_number);
	*ret = v;
	*ret_count = n;
	return 0;
}
