/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a service tells whoever manages it, as sd_notify(3) describes: datagrams of a few lines to
 * the socket that NOTIFY_SOCKET names, and none where it names none. That protocol is documented
 * and kept, and smaller than libsystemd is to depend on, which would load a handful of libraries
 * into each of weft's commands.
 */
#ifndef WEFT_CLI_MANAGER_H
#define WEFT_CLI_MANAGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

struct manager {
	int fd; /* -1: there is none */
	struct sockaddr_un at;
	uint32_t at_len;
	uint64_t watchdog_ns; /* so often it is told that the service lives; 0: never */
	uint64_t watchdog_at, extend_at;
	bool stopping;
	char status[160]; /* as it was told */
};

/* Takes what the environment says out of it: children are not the service. */
void manager_init(struct manager *m);
void manager_ready(struct manager *m);
/* The configuration is read again; manager_ready() ends it. */
void manager_reloading(struct manager *m, uint64_t now_ns);
/* The end has begun; from here on the ticks ask for the time that it takes. */
void manager_stopping(struct manager *m);
/* A line of what the service is at, if it is another one. */
void manager_status(struct manager *m, const char *text);
/* When the next tick is due at the latest. */
uint64_t manager_next_deadline(const struct manager *m);
void manager_tick(struct manager *m, uint64_t now_ns);
void manager_fini(struct manager *m);

#endif
