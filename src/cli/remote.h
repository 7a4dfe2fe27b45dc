/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The controller at the other end, as a verb has it: the library of <weft/nvmf.h>, with failures
 * told in one line that names what failed and what to do, signals that end what is waited for, and
 * memory that the device knows.
 *
 * All controllers of a process are of one group: a turn is one of them all.
 */
#ifndef WEFT_CLI_REMOTE_H
#define WEFT_CLI_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/nvmf.h>

#include "base/list.h"
#include "cli/nvme_opts.h"
#include "wire/nvme.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"

enum { REMOTE_MEMORY_MAX = 8 };

/* The signal that interrupted the user's work, SIGINT or SIGTERM; 0: none did. */
int remote_interrupted(void);

struct remote_config {
	bool discovery;	    /* the discovery subsystem, unless the options name another */
	bool stays;	    /* and be told of changes there: remote.events */
	uint16_t io_queues; /* 0: admin commands only */
	bool reconnect;	    /* as the options say, rather than not at all */
	bool poll;	    /* never sleep */
	bool plain_keys;    /* no memory windows */
	/* Where nothing answers at the options' port, this one is tried, which is told. */
	const char *instead;
};

struct remote {
	struct list link;
	struct weft_ctrl *ctrl;
	struct weft_ctrl_info info; /* as it was when it was connected to */
	bool poll;
	char place[300];     /* HOST:PORT, for messages */
	uint8_t *page;	     /* WEFT_IDENTIFY_LEN bytes */
	unsigned int events; /* that the controller has told of */
	unsigned int reconnects;
	uint32_t failure; /* enum weft_failure: why it could not be connected to */
	uint64_t lost_ns; /* when the connection was lost that is not there again; 0: none */
	struct {
		void *addr;
		size_t len;
	} memory[REMOTE_MEMORY_MAX];
	unsigned int memory_count;
};

/*
 * Connects and brings the controller up. NULL: the failure has been told. Starts weft anew where
 * the options want another verbs library: before it nothing may have been done.
 */
struct remote *remote_open(const struct nvme_opts *opts, const struct remote_config *config);
/* Shuts the controller down, if it is there, and frees everything. NULL is fine. */
void remote_close(struct remote *r);
/* Zeroed memory for requests' data, page-aligned, freed with the remote; NULL: told. */
void *remote_alloc(struct remote *r, size_t len);
/* Makes memory known that another one allocated (for copies between two): to be closed before that
 * one. False: told. */
bool remote_share(struct remote *r, void *addr, size_t len) must_use;

/*
 * One turn: handles what has happened, waits if nothing had, until until_ns at most (UINT64_MAX:
 * for ever). False when a controller has failed (and it was told) or the user interrupted (told as
 * well).
 */
bool remote_turn(uint64_t until_ns) must_use;

/* One command that is waited for. */
struct remote_answer {
	struct weft_result result;
	bool done;
};
/* The function of its submission. */
void remote_answered(void *answer, const struct weft_result *result);
/* Waits for it; submitted: what the submission returned. False: it was not answered, which is told;
 * a status is for the caller to look at. */
bool remote_await(struct remote *r, int submitted, struct remote_answer *a) must_use;
/* The same, and false for a status, too, which is told; what: "Read of block 5". */
bool remote_expect(struct remote *r, int submitted, struct remote_answer *a, bool io,
		   const char *what) must_use;
/* Submits to the admin queue, or, io, to the first I/O queue. flags: of <weft/nvmf.h>. */
int remote_submit(struct remote *r, bool io, const struct nvme_sqe *sqe, void *data, uint32_t len,
		  unsigned int flags, struct remote_answer *a);

/*
 * Identify Namespace. *nsid 0: the only one there is, and which it is. False: told, with those
 * there are. The data as it came stays in r->page.
 */
bool remote_identify_ns(struct remote *r, uint32_t *nsid, struct nvme_id_ns *ret) must_use;
/* What reading and writing it takes; false: told. nsid as above. */
bool remote_namespace(struct remote *r, uint32_t nsid, struct weft_namespace *ret) must_use;

/* What the library said: tells it, and returns EXIT_FAILED. */
int remote_tell(struct remote *r, int error);
/* Tells that a request could not be handed over. */
void remote_tell_unsent(struct remote *r, int error);
/* Tells that a request failed, by its error or status; returns EXIT_FAILED. */
int remote_tell_result(struct remote *r, const struct weft_result *result, bool io,
		       const char *what);

#endif
