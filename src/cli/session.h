/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A command's association with a controller: the host core on a transport, driven by one
 * loop, and failures told in one line that names what failed and what to do.
 */
#ifndef WEFT_CLI_SESSION_H
#define WEFT_CLI_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/nvme_opts.h"
#include "nvmf/host/commands.h"
#include "nvmf/host/host.h"
#include "nvmf/transport/transport.h"

enum { SESSION_MEMORY_MAX = 8, SESSIONS_MAX = 2 };

/* The signal that interrupted the user's work, SIGINT or SIGTERM; 0: none did. */
int session_interrupted(void);

struct session_config {
	bool discovery;	    /* the discovery subsystem, unless the options name another */
	bool stays;	    /* and be told of changes there: session.events */
	uint16_t io_queues; /* 0: admin commands only */
	bool reconnect;	    /* as the options say, rather than not at all */
	bool poll;	    /* never sleep */
	bool plain_keys;    /* no memory windows */
};

struct session {
	struct host host;
	const struct nvmf_transport *kind;
	struct transport_host *transport;
	struct session_config config;
	char place[300]; /* HOST:PORT, for messages */
	char nqn[NVME_NQN_LEN], hostnqn[NVME_NQN_LEN];
	struct host_queue *queues;
	struct handle_place *places;
	void *page; /* one page for Identify and the like */
	struct {
		void *addr;
		size_t len;
	} memory[SESSION_MEMORY_MAX];
	unsigned int memory_count;
	uint64_t reported_ns;
	unsigned int events; /* that the controller has told of */
};

/*
 * Connects and brings the controller up. NULL: the failure has been told. Starts weft anew where
 * the options want another verbs library: before it nothing may have been done.
 */
struct session *session_open(const struct nvme_opts *opts, const struct session_config *config);
/* Shuts the controller down, if it is there, and frees everything. NULL is fine. */
void session_close(struct session *s);
/* Zeroed memory for requests' data, page-aligned, freed with the session; NULL: told. */
void *session_alloc(struct session *s, size_t len);
/* Makes memory known that another session allocated (for copies between two): to be closed before
 * that one. */
bool session_share(struct session *s, void *addr, size_t len) must_use;

/*
 * One turn of the loop for n sessions: handles what has happened, waits if nothing had, until
 * until_ns at most. False when one of them has failed (and it was told) or the user interrupted
 * (told as well).
 */
bool session_turn(struct session **sessions, unsigned int n, uint64_t until_ns) must_use;
/* Sends one command and waits. False: told, status included; what: "read of block 5". */
bool session_exec(struct session *s, uint16_t qid, struct host_request *req,
		  const char *what) must_use;
/* The same, but a status is for the caller to look at. */
bool session_try(struct session *s, uint16_t qid, struct host_request *req) must_use;
/*
 * Identify Namespace. *nsid 0: the only one there is, and which it is. False: told, with those
 * there are. The data as it came stays in s->page.
 */
bool session_identify_ns(struct session *s, uint32_t *nsid, struct nvme_id_ns *ret) must_use;
/* What reading and writing it takes; false: told. nsid as above. */
bool session_namespace(struct session *s, uint32_t nsid, struct host_namespace *ret) must_use;

/* "LBA Out of Range (SCT 0h, SC 80h, do not retry)". */
const char *status_text(char *buf, size_t room, uint16_t status, bool io);
/* Tells that a request failed, by its error or status; returns EXIT_FAILED. */
int session_tell_request(struct session *s, const struct host_request *req, bool io,
			 const char *what);

#endif
