/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "nodes/nodes.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/sysmacros.h>

#define DIR    "/dev/infiniband/"
#define PREFIX "weft_" /* of a device's name; then its interface's (broker/devices.c) */
#define MAJOR  231     /* of uverbs */
#define MINOR  192

bool node_is_ours(const char *path)
{
	int before = errno;
	bool yes;

	if (!path || strncmp(path, DIR, sizeof(DIR) - 1) != 0)
		return false;
	path += sizeof(DIR) - 1;
	if (strncmp(path, PREFIX, sizeof(PREFIX) - 1) != 0)
		return false;
	yes = if_nametoindex(path + sizeof(PREFIX) - 1) != 0;
	errno = before;
	return yes;
}

void node_fill(struct stat *st)
{
	*st = (struct stat){
		.st_mode = S_IFCHR | 0666,
		.st_nlink = 1,
		.st_rdev = makedev(MAJOR, MINOR),
		.st_blksize = 4096,
	};
}

void node_fillx(struct statx *st)
{
	*st = (struct statx){
		.stx_mask = STATX_BASIC_STATS,
		.stx_mode = S_IFCHR | 0666,
		.stx_nlink = 1,
		.stx_rdev_major = MAJOR,
		.stx_rdev_minor = MINOR,
		.stx_blksize = 4096,
	};
}

/*
 * A program built with -fsanitize=address ends at its start where another library than its runtime
 * comes first. The runtime's own calls still find the C library behind us, or us before it. What
 * ASAN_OPTIONS says, or the program's own function of this name, goes before.
 */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
