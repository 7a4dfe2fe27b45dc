/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Each look asks the broker anew, on a connection that is closed again: so nothing is kept that a
 * fork's child would share, that a program which closes or replaces descriptors could break, or
 * that another broker would know nothing of.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/kernel_socket.h"
#include "base/log.h"
#include "base/time.h"
#include "broker/client.h"
#include "broker/name.h"
#include "broker/sysfs.h"
#include "nodes/nodes.h"

#define SYS  "/sys"
#define MARK "infiniband" /* in all the names, so that nothing is done about the others */
/* Or above: out of the way of scripts that number theirs. bash takes any above 9 that is closed on
 * exec for one of its own, and does not let the script have it. */
#define HELD	   1000
#define IN_VAIN_NS (5 * NSEC_PER_SEC)

static atomic_bool off;

static bool begins(const char *path, const char *with)
{
	return strncmp(path, with, strlen(with)) == 0;
}

static bool is_below(const char *path, const char *dir)
{
	return begins(path, dir) && (path[strlen(dir)] == '/' || !path[strlen(dir)]);
}

/* The path from the root on, without what says nothing; ".." stays. False: it is too long. */
static bool whole_path(int dir, const char *path, char ret[PATH_MAX])
{
	char fd[32], *to = ret;
	ssize_t n = 0;

	if (*path != '/' && dir == AT_FDCWD) {
		if (!getcwd(ret, PATH_MAX))
			return false;
		n = (ssize_t)strlen(ret);
	} else if (*path != '/') {
		snprintf(fd, sizeof(fd), "/proc/self/fd/%d", dir);
		n = readlink(fd, ret, PATH_MAX - 1);
		if (n < 0)
			return false;
	}
	if ((size_t)n + 1 + strlen(path) >= PATH_MAX)
		return false;
	snprintf(ret + n, PATH_MAX - (size_t)n, "/%s", path);
	for (const char *from = ret; *from;) {
		if (begins(from, "//"))
			from++;
		else if (begins(from, "/./") || !strcmp(from, "/."))
			from += 2;
		else
			*to++ = *from++;
	}
	*to = 0;
	return true;
}

/* What of /sys may have something of ours: the classes, and beside an interface's hardware; not an
 * interface that is called so. */
static bool may_be_ours(const char *path)
{
	static const char net[] = SYS "/class/net/";

	return begins(path, SYS "/class/" MARK) ||
	       (begins(path, net) && strstr(path + strlen(net), "/" MARK)) ||
	       (begins(path, SYS "/devices/") && strstr(path, "/" MARK));
}

/* The directory is there as its broker has made it. Where we have other mounts than the broker, or
 * it has ended, anybody may have made one of the name. */
static bool is_genuine(const char *tree)
{
	struct stat st;

	return lstat(tree, &st) == 0 && S_ISDIR(st.st_mode) && name_is_trusted(st.st_uid);
}

/* By ".." a path may lead out of the tree, to where anybody may have made what it names. */
static bool leads_out(const char *place)
{
	char end[PATH_MAX]; /* as it is shown: of the tree's, too, the path is below /sys */

	if (!strstr(place, "/../") && strcmp(place + strlen(place) - 3, "/..") != 0)
		return false;
	return !realpath(place, end) || !begins(end, SYS "/");
}

/* As long as this process lives the tree stays, be it for a directory in which it works. Nobody
 * uses the descriptor, so it does not matter what becomes of it. */
static void hold(struct broker_client *c)
{
	static atomic_bool held;
	int fd, high;

	if (atomic_exchange(&held, true)) {
		broker_client_close(c);
		return;
	}
	fd = broker_client_leave(c);
	high = fcntl(fd, F_DUPFD_CLOEXEC, HELD);
	if (high >= 0)
		close(fd);
}

/* Has this process GIDs of RoCEv1? As verbs/port_choice.c has it. */
static bool has_rocev1(void)
{
	const char *wanted = secure_getenv("WEFT_ROCEV1");
	int fd = -1;

	if (wanted && !strcmp(wanted, "1"))
		fd = kernel_socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool ask(struct broker_sysfs *ret)
{
	/* What keeps a broker from starting is not asked again and again how it is, but it may have
	 * been the end of another broker, and over soon. */
	static _Atomic uint64_t not_before;
	struct broker_client *c;
	char err[512];
	int rc;

	if (time_now_ns() < atomic_load(&not_before))
		return false;
	rc = broker_client_look(&c, err, sizeof(err));
	if (rc) {
		atomic_store(&not_before, time_now_ns() + IN_VAIN_NS);
		log_info("nodes", "no sysfs of the devices: %s", err);
		return false;
	}
	rc = broker_client_sysfs(c, has_rocev1(), ret);
	if (rc)
		broker_client_close(c);
	else
		hold(c);
	return rc == 0;
}

static char *find(int dir, const char *path)
{
	char sys[PATH_MAX], *place = NULL;
	struct broker_sysfs tree;

	if (!whole_path(dir, path, sys) || !may_be_ours(sys) || !ask(&tree) ||
	    !is_genuine(tree.path) || asprintf(&place, "%s%s", tree.path, sys + strlen(SYS)) < 0)
		return NULL;
	if (faccessat(AT_FDCWD, place, F_OK, AT_SYMLINK_NOFOLLOW) == 0 && !leads_out(place))
		return place;
	free(place);
	return NULL;
}

char *tree_find(int dir, const char *path)
{
	int before;
	char *place;

	if (!path || !strstr(path, MARK) || atomic_load(&off))
		return NULL;
	before = errno;
	place = find(dir, path);
	errno = before;
	return place;
}

/* Where in the path the tree ends; NULL: it is of none. */
static char *end_of_tree(char *path)
{
	char *name = strstr(path, "/" SYSFS_NAME), *end = name ? strchr(name + 1, '/') : NULL;
	bool genuine;

	if (!end || end - name != (ptrdiff_t)strlen("/" SYSFS_NAME "XXXXXX") ||
	    !(is_below(end, "/class") || is_below(end, "/devices")))
		return NULL;
	*end = 0;
	genuine = is_genuine(path);
	*end = '/';
	return genuine ? end : NULL;
}

char *tree_shown(char *path)
{
	int before = errno;
	char *below = path && !atomic_load(&off) ? end_of_tree(path) : NULL;

	errno = before;
	if (below) {
		/* Shorter than what was there. */
		memcpy(path, SYS, strlen(SYS));
		memmove(path + strlen(SYS), below, strlen(below) + 1);
	}
	return path;
}

void weft_nodes_off(void)
{
	atomic_store(&off, true);
}
