/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Looks at the first device in sysfs by each of the calls that programs do it by, as NCCL,
 * libibumad, hwloc and the shells; and holds it against what the verbs say.
 *
 * usage: sysfs_look [DIRECTORY]: the device's hardware, as below /sys/devices; it has none
 */
#include <assert.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLASS "/sys/class/infiniband"

static int faults;

#define SHOULD(what)                                                                    \
	do {                                                                            \
		if (!(what)) {                                                          \
			printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); \
			faults++;                                                       \
		}                                                                       \
	} while (0)

static const char *device; /* its name */
static char dir[PATH_MAX]; /* of the device */

static const char *in(const char *name)
{
	static char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void close_read(int fd, char ret[256])
{
	ssize_t n = fd < 0 ? -1 : read(fd, ret, 255);

	ret[n < 0 ? 0 : n] = 0;
	if (fd >= 0)
		close(fd);
}

static bool has(const char *name, const char *want)
{
	char text[256];

	close_read(open(in(name), O_RDONLY | O_CLOEXEC), text);
	if (!strcmp(text, want))
		return true;
	printf("%s: '%s', not '%s'\n", in(name), text, want);
	return false;
}

static void what_the_verbs_say(struct ibv_context *context)
{
	char want[128], name[64];
	struct ibv_device_attr a;
	struct ibv_port_attr p;
	struct ibv_gid_entry e;

	SHOULD(ibv_query_device(context, &a) == 0 && ibv_query_port(context, 1, &p) == 0);
	uint64_t guid = be64toh(a.node_guid);

	snprintf(want, sizeof(want), "%04x:%04x:%04x:%04x\n", (unsigned)(guid >> 48),
		 (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
		 (unsigned)guid & 0xffff);
	SHOULD(has("node_guid", want) && has("sys_image_guid", want) &&
	       has("node_type", "1: CA\n"));
	snprintf(want, sizeof(want), "%s\n", a.fw_ver);
	SHOULD(has("fw_ver", want));
	SHOULD(has("ports/1/state", p.state == IBV_PORT_ACTIVE ? "4: ACTIVE\n" : "1: DOWN\n"));
	SHOULD(has("ports/1/phys_state", p.phys_state == 5 ? "5: LinkUp\n" : "3: Disabled\n"));
	SHOULD(has("ports/1/link_layer", "Ethernet\n"));
	snprintf(want, sizeof(want), "0x%08x\n", p.port_cap_flags);
	SHOULD(has("ports/1/cap_mask", want));
	SHOULD(has("ports/1/lid", "0x0\n") && has("ports/1/pkeys/0", "0xffff\n"));
	for (int i = 0; i < p.gid_tbl_len; i++) {
		union ibv_gid gid;
		int at = 0;

		SHOULD(ibv_query_gid(context, 1, i, &gid) == 0);
		for (int k = 0; k < 16; k += 2)
			at += snprintf(want + at, sizeof(want) - (size_t)at, "%02x%02x%c",
				       gid.raw[k], gid.raw[k + 1], k < 14 ? ':' : '\n');
		snprintf(name, sizeof(name), "ports/1/gids/%d", i);
		SHOULD(has(name, want));
		if (ibv_query_gid_ex(context, 1, (uint32_t)i, &e, 0))
			continue;
		snprintf(name, sizeof(name), "ports/1/gid_attrs/types/%d", i);
		SHOULD(has(name, "RoCE v2\n"));
		snprintf(name, sizeof(name), "ports/1/gid_attrs/ndevs/%d", i);
		snprintf(want, sizeof(want), "%s\n", device + strlen("weft_"));
		SHOULD(has(name, want));
	}
}

static void by_opening(void)
{
	char text[256];
	int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FILE *f = fopen(in("ports/1/link_layer"), "re");

	SHOULD(f && fgets(text, sizeof(text), f) && !strcmp(text, "Ethernet\n"));
	if (f)
		fclose(f);
	/* hwloc has all paths from a descriptor of the root. */
	close_read(openat(root, in("node_type") + 1, O_RDONLY | O_CLOEXEC), text);
	SHOULD(!strcmp(text, "1: CA\n"));
	close(root);
	close_read(open("/sys//class/./infiniband_verbs/abi_version", O_RDONLY | O_CLOEXEC), text);
	SHOULD(!strcmp(text, "6\n"));
	errno = 0;
	SHOULD(open(in("no_such_thing"), O_RDONLY) < 0 && errno == ENOENT);
	SHOULD(open(CLASS "/no_such_thing", O_RDONLY) < 0 && errno == ENOENT);
}

static int is_device(const struct dirent *e)
{
	return !strcmp(e->d_name, device);
}

static void by_listing(void)
{
	struct dirent **list = NULL, *e;
	glob_t found = {0};
	bool seen = false;
	DIR *d = opendir(CLASS "/");

	while (d && (e = readdir(d)) != NULL)
		seen |= is_device(e);
	SHOULD(seen);
	if (d)
		closedir(d);
	SHOULD(scandir(CLASS, &list, is_device, alphasort) == 1);
	SHOULD(glob(CLASS "/*/ports/1/state", 0, NULL, &found) == 0 && found.gl_pathc >= 1);
	globfree(&found);
}

static void by_asking(void)
{
	struct statx x;
	struct stat st;

	SHOULD(stat(dir, &st) == 0 && S_ISDIR(st.st_mode));
	SHOULD(lstat(dir, &st) == 0 && S_ISLNK(st.st_mode));
	SHOULD(fstatat(AT_FDCWD, in("ports"), &st, 0) == 0 && S_ISDIR(st.st_mode));
	SHOULD(statx(AT_FDCWD, in("node_guid"), 0, STATX_TYPE, &x) == 0 && S_ISREG(x.stx_mode));
	SHOULD(access(in("node_guid"), R_OK) == 0 && euidaccess(in("node_guid"), R_OK) == 0);
	SHOULD(faccessat(AT_FDCWD, in("ports/1/rate"), R_OK, 0) == 0);
}

/* UCX, and who looks after it: ls and stat(1) by statx(). */
static void by_node(void)
{
	char node[PATH_MAX];
	struct statx x;
	struct stat st;

	snprintf(node, sizeof(node), "/dev/infiniband/%s", device);
	SHOULD(stat(node, &st) == 0 && S_ISCHR(st.st_mode));
	SHOULD(statx(AT_FDCWD, node, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &x) == 0 &&
	       x.stx_mode == st.st_mode && x.stx_mask == STATX_BASIC_STATS &&
	       makedev(x.stx_rdev_major, x.stx_rdev_minor) == st.st_rdev);
	SHOULD(access(node, R_OK | W_OK) == 0 && access(node, X_OK) < 0 && errno == EACCES);
	SHOULD(statx(AT_FDCWD, "/dev/infiniband/weft_nosuch", 0, STATX_TYPE, &x) < 0 &&
	       errno == ENOENT);
}

/* NCCL: where is the adapter? */
static void by_links(const char *hardware)
{
	char text[PATH_MAX] = "", *real = realpath(in("device"), NULL), want[PATH_MAX];

	if (hardware)
		SHOULD(real && !strcmp(real, hardware));
	else
		SHOULD(!real && errno == ENOENT);
	free(real);
	SHOULD(readlink(dir, text, sizeof(text) - 1) > 0 && !strncmp(text, "../../devices/", 14));
	snprintf(want, sizeof(want), "/sys%s", text + strlen("../.."));
	SHOULD(realpath(dir, text) && !strcmp(text, want));
	SHOULD(access(text, F_OK) == 0);
	real = canonicalize_file_name(dir);
	SHOULD(real && !strcmp(real, want));
	free(real);
	if (hardware) {
		snprintf(text, sizeof(text), "/sys/class/net/%s/device/infiniband/%s/node_guid",
			 device + strlen("weft_"), device);
		SHOULD(access(text, R_OK) == 0);
	}
}

/* As a shell does: it goes there, and has others look. */
static void by_going_there(void)
{
	char text[PATH_MAX];
	int status = -1;

	SHOULD(chdir(CLASS) == 0);
	SHOULD(getcwd(text, sizeof(text)) && !strcmp(text, CLASS));
	sleep(1); /* a broker without clients would have ended */
	SHOULD(access(device, F_OK) == 0);
	if (fork() == 0) {
		execlp("cat", "cat", in("ports/1/state") + strlen(CLASS "/"), NULL);
		_exit(1);
	}
	SHOULD(wait(&status) > 0 && status == 0);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	assert(context);
	device = ibv_get_device_name(list[0]);
	snprintf(dir, sizeof(dir), CLASS "/%s", device);
	what_the_verbs_say(context);
	ibv_close_device(context);
	by_opening();
	by_listing();
	by_asking();
	by_node();
	by_links(argc > 1 ? argv[1] : NULL);
	by_going_there();
	printf("%s: %d faults\n", device, faults);
	return faults != 0;
}
