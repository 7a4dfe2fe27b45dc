/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/sysfs.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "broker/device_gids.h"
#include "broker/device_port.h"

#define REAL	"/sys/"
#define VIRTUAL "devices/virtual" /* of what has no hardware */
#define NEW	".new"		  /* a file before it is whole */
/* Others can make as many names like ours as there is room for. */
#define SWEEP_MAX 4096
/* Before it is tried again where nothing can be laid out: a try costs more than most requests. */
#define AGAIN_NS (10 * NSEC_PER_SEC)

static const char *const classes[] = {"class/infiniband", "class/infiniband_verbs"};

/* ---- files, directories, links: paths are relative to the tree ------------------------------- */

static void failed(struct sysfs *t, int rc)
{
	if (rc < 0 && !t->error)
		t->error = -errno;
}

static void printf_like(3, 4) name_it(struct sysfs *t, char ret[PATH_MAX], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (vsnprintf(ret, PATH_MAX, fmt, args) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		failed(t, -1);
	}
	va_end(args);
}

/* Every directory on the way to the last name of the path. */
static void make_way(struct sysfs *t, const char *path)
{
	char dir[PATH_MAX];

	name_it(t, dir, "%s", path);
	for (char *slash = strchr(dir, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		failed(t, mkdirat(t->fd, dir, 0755) < 0 && errno != EEXIST ? -1 : 0);
		*slash = '/';
	}
}

/* Whoever reads sees the old text or the new one. */
static void printf_like(4, 5)
	put(struct sysfs *t, const char *dir, const char *name, const char *fmt, ...)
{
	char path[PATH_MAX], text[256];
	va_list args;
	int fd, len;

	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	name_it(t, path, "%s/%s", dir, name);
	make_way(t, path);
	fd = openat(t->fd, NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	failed(t, fd);
	if (fd < 0)
		return;
	failed(t, write(fd, text, (size_t)len) == len ? 0 : -1);
	close(fd);
	failed(t, renameat(t->fd, NEW, t->fd, path));
}

static void take_away(struct sysfs *t, const char *dir, const char *name)
{
	char path[PATH_MAX];

	name_it(t, path, "%s/%s", dir, name);
	failed(t, unlinkat(t->fd, path, 0) < 0 && errno != ENOENT ? -1 : 0);
}

static bool read_link(struct sysfs *t, const char *path, char ret[PATH_MAX])
{
	ssize_t n = readlinkat(t->fd, path, ret, PATH_MAX - 1);

	ret[n < 0 ? 0 : n] = 0;
	return n > 0;
}

static void put_link(struct sysfs *t, const char *dir, const char *name, const char *to)
{
	char path[PATH_MAX], is[PATH_MAX];

	name_it(t, path, "%s/%s", dir, name);
	if (read_link(t, path, is) && !strcmp(is, to))
		return;
	make_way(t, path);
	(void)unlinkat(t->fd, NEW, 0);
	failed(t, symlinkat(to, t->fd, NEW));
	failed(t, renameat(t->fd, NEW, t->fd, path));
}

static DIR *open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

/* All below the directory, by descriptors alone: whatever somebody puts in the place of a path is
 * not entered. */
static void empty(int at, const char *name)
{
	DIR *dir = open_dir(at, name);

	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (unlinkat(dirfd(dir), e->d_name, 0) < 0 && errno == EISDIR) {
			empty(dirfd(dir), e->d_name);
			(void)unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
		}
	}
	if (dir)
		closedir(dir);
}

/* The open directory of that name. */
static void remove_tree(int fd, int at, const char *name)
{
	empty(fd, ".");
	if (unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		log_warn("broker", "%s stays: %s", name, strerror(errno));
}

/* ---- what the real /sys has -------------------------------------------------------------------
 */

/* The directory that the interface's hardware has there, relative to it; without hardware, of
 * interfaces that are made by software. */
static void place_of(struct sysfs *t, const struct broker_device *d, char ret[PATH_MAX])
{
	char path[PATH_MAX], text[64] = "", mac[18];
	char *real = NULL;
	FILE *f;

	name_it(t, ret, VIRTUAL);
	/* This /sys may be another network namespace's, where somebody else has the name. */
	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", d->mac[0], d->mac[1], d->mac[2],
		 d->mac[3], d->mac[4], d->mac[5]);
	name_it(t, path, REAL "class/net/%s/address", d->ifname);
	f = fopen(path, "re");
	if (f && fgets(text, sizeof(text), f) && !strncmp(text, mac, strlen(mac))) {
		name_it(t, path, REAL "class/net/%s/device", d->ifname);
		real = realpath(path, NULL);
	}
	if (f)
		fclose(f);
	if (real && !strncmp(real, REAL "devices/", strlen(REAL "devices/")))
		name_it(t, ret, "%s", real + strlen(REAL));
	free(real);
}

/* What the real directory has is here too, but for a name that we have; and what has gone there
 * goes. */
static void merge(struct sysfs *t, const char *where)
{
	char path[PATH_MAX], to[PATH_MAX];
	DIR *dir;

	name_it(t, path, REAL "%s", where);
	dir = opendir(path);
	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		name_it(t, path, "%s/%s", where, e->d_name);
		name_it(t, to, REAL "%s", path);
		if (e->d_name[0] != '.' && faccessat(t->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			put_link(t, where, e->d_name, to);
	}
	if (dir)
		closedir(dir);
	dir = open_dir(t->fd, where);
	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
		name_it(t, path, "%s/%s", where, e->d_name);
		if (read_link(t, path, to) && to[0] == '/' && access(to, F_OK) < 0)
			take_away(t, where, e->d_name);
	}
	if (dir)
		closedir(dir);
}

/* ---- what we have -----------------------------------------------------------------------------
 */

static void gid_text(const struct gid *g, char ret[40])
{
	for (int i = 0; i < 16; i += 2)
		snprintf(ret + i / 2 * 5, 6, "%02x%02x%s", g->raw[i], g->raw[i + 1],
			 i < 14 ? ":" : "");
}

static void guid_text(uint64_t guid_be, char ret[20])
{
	uint64_t v = be64toh(guid_be);

	snprintf(ret, 20, "%04x:%04x:%04x:%04x", (unsigned)(v >> 48) & 0xffff,
		 (unsigned)(v >> 32) & 0xffff, (unsigned)(v >> 16) & 0xffff, (unsigned)v & 0xffff);
}

static void lay_rate(struct sysfs *t, const char *dir, const struct broker_device *d)
{
	static const struct {
		uint8_t code;
		const char *name;
		unsigned lane; /* in units of 100 Mb/s */
	} speeds[] = {{1, "SDR", 25},	{2, "DDR", 50},	  {4, "QDR", 100},  {8, "FDR10", 100},
		      {16, "FDR", 140}, {32, "EDR", 250}, {64, "HDR", 500}, {128, "NDR", 1000}};
	static const unsigned widths[] = {1, 4, 8, 12, 2}; /* by the bit of the code */
	uint8_t width, speed;

	device_port_rate(d, &width, &speed);
	for (size_t i = 0; i < ARRAY_SIZE(speeds); i++) {
		unsigned lanes = widths[__builtin_ctz(width)];
		unsigned rate = speeds[i].lane * lanes;

		if (speeds[i].code == speed)
			put(t, dir, "rate", "%u%s Gb/sec (%uX %s)\n", rate / 10,
			    rate % 10 ? ".5" : "", lanes, speeds[i].name);
	}
}

static void lay_gids(struct sysfs *t, const char *port, const struct broker_device *d)
{
	char dir[PATH_MAX], name[12], text[40];

	for (unsigned i = 0; i < DEVICE_GIDS(t->rocev1); i++) {
		struct gid gid;
		bool rocev1, used = device_gid(d, i, &gid, &rocev1);

		snprintf(name, sizeof(name), "%u", i);
		gid_text(used ? &gid : &(struct gid){0}, text);
		name_it(t, dir, "%s/gids", port);
		put(t, dir, name, "%s\n", text);
		/* Of an empty entry these cannot be read; here they are not there. */
		name_it(t, dir, "%s/gid_attrs/types", port);
		if (used)
			put(t, dir, name, rocev1 ? "IB/RoCE v1\n" : "RoCE v2\n");
		else
			take_away(t, dir, name);
		name_it(t, dir, "%s/gid_attrs/ndevs", port);
		if (used)
			put(t, dir, name, "%s\n", d->ifname);
		else
			take_away(t, dir, name);
	}
}

static void lay_port(struct sysfs *t, const char *device, const struct broker_device *d)
{
	static const char *const phys_states[] = {
		[2] = "Polling", [3] = "Disabled", [5] = "LinkUp"};
	uint8_t state = device_port_state(d), phys = device_port_phys_state(d);
	char dir[PATH_MAX];

	name_it(t, dir, "%s/ports/1", device);
	put(t, dir, "state", "%u: %s\n", state, state == DEVICE_PORT_ACTIVE ? "ACTIVE" : "DOWN");
	put(t, dir, "phys_state", "%u: %s\n", phys, phys_states[phys]);
	lay_rate(t, dir, d);
	put(t, dir, "link_layer", "Ethernet\n");
	put(t, dir, "cap_mask", "0x%08x\n", DEVICE_PORT_CAPS);
	/* A RoCE port has neither LIDs nor a subnet manager. */
	put(t, dir, "lid", "0x0\n");
	put(t, dir, "lid_mask_count", "0\n");
	put(t, dir, "sm_lid", "0x0\n");
	put(t, dir, "sm_sl", "0\n");
	put(t, dir, "pkeys/0", "0xffff\n");
	lay_gids(t, dir, d);
}

static void lay_device(struct sysfs *t, const struct broker_device *d)
{
	char place[PATH_MAX], dir[PATH_MAX], to[PATH_MAX], guid[20];

	place_of(t, d, place);
	name_it(t, dir, "%s/infiniband/%s", place, d->name);
	guid_text(d->guid_be, guid);
	put(t, dir, "node_type", "1: CA\n");
	put(t, dir, "node_guid", "%s\n", guid);
	put(t, dir, "sys_image_guid", "%s\n", guid);
	put(t, dir, "node_desc", "weft\n");
	put(t, dir, "fw_ver", WEFT_VERSION "\n");
	put(t, dir, "hca_type", "weft\n");
	put(t, dir, "board_id", "weft\n");
	put(t, dir, "parent", "%s\n", d->ifname);
	lay_port(t, dir, d);
	if (strcmp(place, VIRTUAL)) {
		name_it(t, to, REAL "%s", place);
		put_link(t, dir, "device", to);
		name_it(t, dir, "class/net/%s", d->ifname);
		name_it(t, to, "../../../%s", place);
		put_link(t, dir, "device", to);
		name_it(t, dir, "%s/infiniband", place);
		merge(t, dir);
	}
	name_it(t, dir, "%s/infiniband_verbs/%s", place, d->name);
	put(t, dir, "ibdev", "%s\n", d->name);
	put(t, dir, "abi_version", "1\n");
	/* Last: who finds the name finds all of it. */
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		name_it(t, to, "../../%s/%s/%s", place, classes[i] + strlen("class/"), d->name);
		put_link(t, classes[i], d->name, to);
	}
}

static void forget_device(struct sysfs *t, const struct broker_device *d)
{
	static const char up[] = "../../"; /* from a class to the tree */
	char path[PATH_MAX], dir[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		name_it(t, path, "%s/%s", classes[i], d->name);
		if (read_link(t, path, dir) && !strncmp(dir, up, strlen(up))) {
			empty(t->fd, dir + strlen(up));
			(void)unlinkat(t->fd, dir + strlen(up), AT_REMOVEDIR);
		}
		take_away(t, classes[i], d->name);
	}
	name_it(t, dir, "class/net/%s", d->ifname);
	take_away(t, dir, "device");
}

static const struct broker_device *find(const struct broker_devices *v, const char *name)
{
	for (uint32_t i = 0; i < v->count; i++)
		if (!strcmp(v->dev[i].name, name))
			return &v->dev[i];
	return NULL;
}

static void show(struct sysfs *t, const struct broker_devices *now)
{
	for (uint32_t i = 0; i < t->table.count; i++) {
		const struct broker_device *was = &t->table.dev[i], *is = find(now, was->name);

		if (!is || is->ifindex != was->ifindex)
			forget_device(t, was);
	}
	put(t, "class/infiniband_verbs", "abi_version", "6\n");
	for (uint32_t i = 0; i < now->count; i++) {
		const struct broker_device *was = find(&t->table, now->dev[i].name);

		if (!was || t->rocev1 != t->shows_rocev1 ||
		    memcmp(was, &now->dev[i], sizeof(*was)) != 0)
			lay_device(t, &now->dev[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		merge(t, classes[i]);
}

/* ---- where it stands --------------------------------------------------------------------------
 */

static bool is_own(int at, const char *name)
{
	struct stat st;

	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid();
}

/* Of brokers that were killed: nobody has the lock. */
static void sweep(const char *parent)
{
	DIR *dir = opendir(parent);
	unsigned alike = 0;

	for (struct dirent *e = dir ? readdir(dir) : NULL; e && alike < SWEEP_MAX;
	     e = readdir(dir)) {
		int fd;

		if (strncmp(e->d_name, SYSFS_NAME, strlen(SYSFS_NAME)) != 0)
			continue;
		alike++;
		if (!is_own(dirfd(dir), e->d_name))
			continue;
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (is_own(fd, ".") && flock(fd, LOCK_EX | LOCK_NB) == 0)
			remove_tree(fd, dirfd(dir), e->d_name);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

static void drop(struct sysfs *t)
{
	if (t->fd >= 0) {
		remove_tree(t->fd, AT_FDCWD, t->path);
		close(t->fd);
	} else if (t->path[0]) {
		(void)rmdir(t->path);
	}
	t->fd = -1;
	t->path[0] = 0;
	t->table = (struct broker_devices){0};
	t->shows_rocev1 = false;
}

static int lay_out(struct sysfs *t, const struct broker_devices *now)
{
	t->error = 0;
	show(t, now);
	if (!t->error) {
		t->table = *now;
		t->shows_rocev1 = t->rocev1;
	}
	return t->error;
}

static int make_in(struct sysfs *t, const char *parent)
{
	snprintf(t->path, sizeof(t->path), "%s/" SYSFS_NAME "XXXXXX", parent);
	if (!mkdtemp(t->path)) {
		t->path[0] = 0;
		return -errno;
	}
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t->fd < 0 || flock(t->fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	/* Root's is for those whom it serves: to go through, for who can open it can lock it when
	 * we are killed, and nobody would take it away. */
	if (geteuid() == 0)
		(void)fchmod(t->fd, 0711);
	return 0;
}

/* In the first place that has room for it. */
static int make(struct sysfs *t, const struct broker_devices *now)
{
	static const char *const parents[] = {"/dev/shm", "/run", "/tmp"};
	int rc = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(parents); i++) {
		if (!t->swept)
			sweep(parents[i]);
		rc = make_in(t, parents[i]) ?: lay_out(t, now);
		if (rc == 0)
			break;
		drop(t);
	}
	t->swept = true;
	if (rc == 0)
		return 0;
	log_warn("broker", "no sysfs of the devices in /dev/shm, /run or /tmp: %s", strerror(-rc));
	return rc;
}

void sysfs_init(struct sysfs *t)
{
	*t = (struct sysfs){.fd = -1};
}

void sysfs_fini(struct sysfs *t)
{
	drop(t);
	sysfs_init(t);
}

int sysfs_show(struct sysfs *t, const struct broker_devices *now, bool rocev1)
{
	mode_t before = umask(022);

	t->rocev1 |= rocev1;
	if (t->path[0] && lay_out(t, now) != 0)
		drop(t);
	if (!t->path[0] && time_now_ns() >= t->again_at) {
		t->failed = make(t, now);
		t->again_at = t->failed ? time_now_ns() + AGAIN_NS : 0;
	}
	umask(before);
	return t->path[0] ? 0 : t->failed;
}
