/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where the control sockets of services are: one of each in a directory of its user's alone,
 * /run/weft for root and $XDG_RUNTIME_DIR/weft for others, called after the process; or wherever
 * the service was told. A socket of mode 0600 lets its owner and root in, and both sides look at
 * each other's credentials besides.
 *
 * A socket whose service has died is replaced, one that somebody listens at never. Who looks, binds
 * and listens holds a lock on the directory meanwhile: between bind and listen a socket looks dead.
 */
#ifndef WEFT_CLI_CONTROL_PATH_H
#define WEFT_CLI_CONTROL_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/compiler.h"

#define CONTROL_PATH_MAX 108 /* of struct sockaddr_un */

struct control_socket {
	int fd;
	char path[CONTROL_PATH_MAX];
	dev_t dev; /* the socket that is ours; another may be there at the end */
	ino_t ino;
};

/* The directory of this user's services. -ENOENT: there is none, and why. */
int control_directory(char ret[CONTROL_PATH_MAX], char *why, size_t room) must_use;
/* Listens at path, or (NULL) in that directory. -errno, and why. */
int control_listen(const char *path, struct control_socket *ret, char *why, size_t room) must_use;
/* Closes it, and removes its path if it is still ours. */
void control_unlisten(struct control_socket *s);
/* True: whoever is connected is of our user, or root; ret_pid: its process, or NULL. */
bool control_peer_is_ours(int fd, pid_t *ret_pid);

/* A descriptor. -ECONNREFUSED: nobody listens; another -errno. */
int control_connect(const char *path) must_use;
/* The paths of sockets in this user's directory, sorted, to be freed each and all; dead ones among
 * them. -errno, and why. */
int control_list(char ***ret, size_t *ret_count, char *why, size_t room) must_use;

#endif
