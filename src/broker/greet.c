/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "broker/greet.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

#include "broker/exchange.h"
#include "broker/name.h"

int greet_set_timeout(int fd, time_t seconds)
{
	struct timeval t = {.tv_sec = seconds};

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) < 0 ||
			       setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) < 0
		       ? -errno
		       : 0;
}

int greet_owner(int fd, struct ucred *ret, char *err, size_t err_len)
{
	socklen_t len = sizeof(*ret);
	const struct passwd *pw;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &len) < 0)
		return -errno;
	if (name_is_trusted(ret->uid))
		return 0;
	pw = getpwuid(ret->uid);
	snprintf(err, err_len,
		 "the broker of this network namespace (pid %d) belongs to %s (uid %u), whom we do "
		 "not trust: end its programs, or work in a network namespace of your own",
		 ret->pid, pw ? pw->pw_name : "another user", ret->uid);
	return -EPERM;
}

int greet(int fd, struct broker_hello *ret, int *ret_bag, char *err, size_t err_len)
{
	struct broker_hello req = {
		.msg.type = BROKER_HELLO,
		.version = BROKER_PROTO_VERSION,
		.pid = (uint32_t)getpid(),
	};
	int rc = exchange(fd, &req, sizeof(req), -1, ret, sizeof(*ret), NULL, ret_bag);

	if (rc)
		return rc;
	if (ret->msg.error == -ENFILE) {
		snprintf(err, err_len,
			 "the broker of this network namespace (pid %u) does not serve you: %.*s",
			 ret->pid, (int)sizeof(ret->why), ret->why);
		return -ENFILE;
	}
	if (ret->msg.error == -EPERM) {
		snprintf(err, err_len,
			 "the broker of this network namespace (pid %u) does not serve you: %.*s; "
			 "work in a network namespace of your own",
			 ret->pid, (int)sizeof(ret->why), ret->why);
		return -EPERM;
	}
	if (ret->msg.error || ret->version != BROKER_PROTO_VERSION) {
		snprintf(err, err_len,
			 "the broker of this network namespace (pid %u) is of another version of "
			 "weft (protocol %u, ours is %d): end the programs that use it",
			 ret->pid, ret->version, BROKER_PROTO_VERSION);
		return -EPROTO;
	}
	return 0;
}
