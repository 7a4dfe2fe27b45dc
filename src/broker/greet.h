/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The first words with a broker: who it is, whether it serves us. */
#ifndef WEFT_BROKER_GREET_H
#define WEFT_BROKER_GREET_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#include "base/compiler.h"
#include "broker/proto.h"

#define GREET_TIMEOUT 10 /* seconds, in which a broker answers one that comes */

/* For what is sent and received on it. 0 or -errno. */
int greet_set_timeout(int fd, time_t seconds) must_use;
/* Whose broker is at the other end; -EPERM and a sentence in err if we do not trust him. */
int greet_owner(int fd, struct ucred *ret, char *err, size_t err_len) must_use;
/* Says HELLO. ret_bag: the bag's one end, or -1. -EPERM and -EPROTO come with a sentence in err, if
 * it is the broker who says so. */
int greet(int fd, struct broker_hello *ret, int *ret_bag, char *err, size_t err_len) must_use;

#endif
