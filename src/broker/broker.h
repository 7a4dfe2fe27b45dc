/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The broker: one process per network namespace that owns what is one per host. It listens on the
 * abstract socket BROKER_SOCKET_NAME, holds UDP port 4791 and leases slots of it, knows the
 * devices, and is the connection manager. Single-threaded, one epoll loop.
 *
 * What a client owns (its slots, its connection manager ids) is freed when its connection closes,
 * however it ended.
 */
#ifndef WEFT_BROKER_BROKER_H
#define WEFT_BROKER_BROKER_H

#include <stddef.h>

#include "base/compiler.h"

struct broker_options {
	int idle_exit_ms;    /* end so long after the last client has gone; -1: never */
	int bag_in, bag_out; /* what a broker before us has left (bag.h), -1: nothing */
	int ready_fd;	     /* tell broker_spawn() when we listen, -1: nobody waits */
	const char *capture; /* the file that slot 0's packets are written to; NULL: none */
};

/* Runs until it is idle or gets SIGINT or SIGTERM. 0, or -errno and a sentence in err; -EEXIST when
 * another serves the namespace already, which who waits at ready_fd is told as a success if that
 * one is fit to serve him. */
int broker_run(const struct broker_options *, char *err, size_t err_len) must_use;

#endif
