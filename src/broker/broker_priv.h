/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the broker's loop, its sessions and their requests share. */
#ifndef WEFT_BROKER_BROKER_PRIV_H
#define WEFT_BROKER_BROKER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "base/list.h"
#include "broker/cm_service.h"
#include "broker/devices.h"
#include "broker/leases.h"
#include "broker/sight.h"
#include "broker/sysfs.h"

/* A client that is connected. */
struct session {
	struct list link;
	struct broker *broker;
	int fd;
	struct ucred peer;
	const char *refused; /* why it is not served: it is told so, and no more */
	bool greeted;
	uint64_t since;
	uint8_t slots[LEASE_SLOTS / 8]; /* leased to it */
	unsigned slot_count;
	struct cm_client *cm;
};

struct broker {
	int epfd, listen_fd, signal_fd;
	int mapper_fd; /* -1: nobody listens by TCP, or there is another mapper */
	struct devices *devices;
	struct leases leases;
	struct sysfs sysfs;
	struct broker_sight sight;
	struct port *port; /* slot 0 */
	struct port *udp;  /* that, or what is behind its filter */
	struct cm_service *cm;
	struct list clients;
	uint64_t since;
	uint64_t idle_since, idle_exit_ns; /* DEADLINE_NEVER: not idle, or never */
	uint64_t tick_at;		   /* DEADLINE_NEVER: no clients */
	uint64_t deaf_until;		   /* nobody is let in; 0: everybody is */
	size_t clients_max, user_clients_max;
	uint32_t files_max; /* descriptors */
	int spare_fd;	    /* given up to tell one at the door that there are none; -1: it is */
	char starved[160];  /* the text of that */
	bool stop;
};

/* ---- sessions.c --------------------------------------------------------------------------- */

/* Lets in who knocks. False: nobody does. */
bool session_begin(struct broker *);
/* There is something to read. May end it. */
void session_ready(struct session *);
void session_end(struct session *);
/* The broker ends, and the client goes on with the next one, as after a broker that is killed:
 * nobody hears of it, and the client keeps what it has. */
void session_leave(struct session *);
/* When b->tick_at or b->deaf_until has come. */
void sessions_tick(struct broker *, uint64_t now);

/* ---- list.c ------------------------------------------------------------------------------- */

/* Serve LIST_CLIENTS and LIST_IDS. */
void session_list_clients(const struct session *, uint64_t from, struct broker_list_clients *ret);
void session_list_ids(const struct session *, uint64_t from, struct broker_list_ids *ret);

/* ---- requests.c --------------------------------------------------------------------------- */

/* Takes fd over, -1 if none came. A negative result ends the session. */
int session_answer(struct session *, const void *req, size_t len, int fd) must_use;
/* Of one whose descriptor has found no place: it is told so. A negative result ends the session. */
int session_answer_starved(struct session *, const void *req) must_use;

#endif
