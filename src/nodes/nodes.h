/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What programs look for of a kernel's RDMA devices in the file system, and weft's have not. `weft
 * run` preloads it; calls.c has the C library's calls that take a path.
 */
#ifndef WEFT_NODES_NODES_H
#define WEFT_NODES_NODES_H

#include <stdbool.h>
#include <sys/stat.h>

/* ---- nodes.c: the character devices below /dev/infiniband ------------------------------------ */

/*
 * UCX (and with it MPI) uses a device only if its character device is there and may be read and
 * written. It never opens it, which is libibverbs' matter, and weft's has none. So stat() and
 * access(), with their kin, answer for the nodes of interfaces that there are, where the system has
 * nothing of the name.
 */
bool node_is_ours(const char *path);
void node_fill(struct stat *);
void node_fillx(struct statx *);

/* ---- tree.c: /sys/class/infiniband and what belongs to it ------------------------------------ */

/*
 * The broker lays out what sysfs would have of the devices, as files (broker/sysfs.h). A path below
 * /sys that is there is answered with its place in the broker's tree, to be freed; all others with
 * NULL: they are what they are. So what is looked for by no such path starts no broker.
 */
char *tree_find(int dir, const char *path);
/* The other way round, in place: what the path of a file of the tree is below /sys. NULL stays. */
char *tree_shown(char *path);
/* The broker calls it, of a `weft run` it was started under: to it /sys is the kernel's. */
void weft_nodes_off(void);

#endif
