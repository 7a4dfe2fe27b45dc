/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of the library know of each other, from the bottom to the top. <weft/nvmf.h> says
 * what it is; here is how.
 *
 * A group's turn moves on each of its controllers: what was asked for meanwhile (enum ctrl_todo),
 * the transport, the clock. The caller's functions are called from within a turn alone, so that
 * what is asked for by a call is done in the next turn; the host core keeps to that, too.
 */
#ifndef WEFT_NVMF_LIB_INTERNAL_H
#define WEFT_NVMF_LIB_INTERNAL_H

#include <poll.h>
#include <stdatomic.h>
#include <weft/nvmf.h>

#include "base/compiler.h"
#include "base/list.h"
#include "base/units.h"
#include "nvmf/auth/key.h"
#include "nvmf/auth/psk.h"
#include "nvmf/host/host.h"
#include "nvmf/lib/identity.h"
#include "nvmf/lib/transports.h"
#include "nvmf/lib/uri.h"

enum {
	LIB_ERROR_LEN = 768,
	REQUEST_PIECES = 4, /* that a request has room for by itself */
	REQUESTS_OF_A_SLAB = 32,
	REQUESTS_MAX = 65536, /* of a queue, under way or waiting */
	BLOCKS_MAX = 65536,   /* of a command */
	ADVICE_LEN = 128,
	ADVICES = WEFT_ADVICE_NSID + 1,
};

struct weft_options {
	struct nvme_uri uri;
	char source[64], interface[16];
	unsigned int tos;
	unsigned int io_queues, entries;
	uint32_t keep_alive_ms, command_timeout_ms, connect_timeout_ms, shutdown_timeout_ms;
	uint32_t reconnect_delay_ms;
	int64_t give_up_ms;
	bool header_digest, data_digest, plain_keys, persistent, concat;
	bool tls; /* asked for by itself, whatever URI comes */
	size_t bounce_bytes;
	struct auth_key key, ctrl_key, tls_key;
	struct auth_psk_way tls_way;
	char advice[ADVICES][ADVICE_LEN]; /* empty: what suits all */
	weft_state_fn *state_fn;
	weft_event_fn *event_fn;
	void *state_arg, *event_arg;
	char error[LIB_ERROR_LEN];
};

struct weft_group {
	struct list ctrls;
	unsigned int depth; /* turns that are under way: functions are being called */
	uint64_t now_ns;    /* when the turn began that is under way */
	int epoll_fd, timer_fd, wake_fd;
	uint64_t timer_ns;	/* that timer_fd is set to; DEADLINE_NEVER */
	bool armed;		/* somebody waits on epoll_fd */
	atomic_int interrupted; /* by any thread, or the handler of a signal */
};

struct weft_queue {
	struct weft_ctrl *ctrl;
	uint16_t qid;
	uint32_t count; /* requests that are not over */
};

/* One request: that of the host core, and whom to call. */
struct request {
	struct host_request req;
	struct list link; /* of weft_ctrl.idle */
	struct weft_queue *queue;
	weft_done_fn *done;
	void *arg;
	struct iovec pieces[REQUEST_PIECES], *more; /* more: [more_room], kept once it is there */
	int more_room;
	uint8_t *ranges; /* of Dataset Management and Copy, kept likewise */
};

/* Memory of the program's that is registered. */
struct memory {
	struct list link; /* of weft_ctrl.memory */
	void *addr;
	size_t len;
};

struct slab {
	struct slab *next;
	struct request requests[REQUESTS_OF_A_SLAB];
};

enum ctrl_todo { TODO_START = 1, TODO_RESET = 2, TODO_AUTHENTICATE = 4, TODO_SHUTDOWN = 8 };

struct weft_ctrl {
	struct weft_group *group;
	struct list link; /* of weft_group.ctrls */
	enum weft_ctrl_state state, ended_from;
	unsigned int todo; /* enum ctrl_todo */
	struct host host;
	const struct nvmf_transport *kind;
	struct transport_host *transport;
	struct host_queue *queues;
	struct handle_place *places;
	uint8_t *scratch; /* the host's, and after it a page for what the library asks */
	struct host_counters *counters; /* as others can look at them; NULL */
	struct nvme_uri uri;
	char place[300]; /* HOST:PORT, for messages */
	char nqn[NVME_NQN_LEN], hostnqn[NVME_NQN_LEN];
	uint8_t hostid[16];
	weft_state_fn *state_fn;
	weft_event_fn *event_fn;
	void *state_arg, *event_arg;
	struct list memory; /* struct memory */
	struct list idle;   /* requests */
	struct slab *slabs;
	/* What the group's epoll_fd has of the transport's. */
	int watched[TRANSPORT_HOST_FDS];
	unsigned int watched_count;
	uint32_t fds_seen;
	char advice[ADVICES][ADVICE_LEN];
	char error[LIB_ERROR_LEN];
	unsigned int queue_count;
	struct weft_queue queue[]; /* [queue_count], the admin queue first */
};

/* --- status.c --------------------------------------------------------------------------------- */

/* What a status means as a negative errno; 0 of success. */
int status_errno(uint16_t status, bool io);

/* Forgets what was registered. */
void memory_free(struct weft_ctrl *c);

/* --- options.c -------------------------------------------------------------------------------- */

/* Says why, and returns error. */
int options_fail(struct weft_options *o, int error, const char *fmt, ...) printf_like(3, 4);
/* HOST:PORT, for messages. */
void place_text(const struct nvme_uri *u, char *text, size_t room);

/* --- failure.c -------------------------------------------------------------------------------- */

/* What the program says to do, or what suits all. */
const char *advice_of(const struct weft_ctrl *c, enum weft_advice which);
/* One line on the host's present failure. */
void failure_text(const struct weft_ctrl *c, char *text, size_t room);
enum weft_failure failure_kind(const struct host_failure *f);

/* --- ctrl.c ----------------------------------------------------------------------------------- */

int ctrl_fail(struct weft_ctrl *c, int error, const char *fmt, ...) printf_like(3, 4);
/* Memory for an answer that the library waits for, NVME_IDENTIFY_LEN bytes: of one at a time. */
static inline uint8_t *ctrl_page(const struct weft_ctrl *c)
{
	return c->scratch + HOST_SCRATCH_LEN;
}

/* It is over: nothing happens any more. */
static inline bool ctrl_ended(const struct weft_ctrl *c)
{
	return c->state == WEFT_CTRL_CLOSED || c->state == WEFT_CTRL_FAILED;
}
/* One turn; true if anything has happened. */
bool ctrl_turn(struct weft_ctrl *c, uint64_t now_ns, bool sleepy);
uint64_t ctrl_deadline(const struct weft_ctrl *c);
/* As struct host_config has them. */
void ctrl_changed(void *arg, enum host_state from, enum host_state to, uint64_t now_ns);
void ctrl_over(void *arg, uint64_t now_ns);
void ctrl_event(void *arg, uint32_t result);
/* Ends it at once: its requests are over when this returns. Not from within a turn. */
void ctrl_abandon(struct weft_ctrl *c);
/* It was to be shut down in order, and was not. */
bool ctrl_ended_in_disorder(const struct weft_ctrl *c);

/* --- group.c ---------------------------------------------------------------------------------- */

/* Turns until *done, which is set when a request of c is over, and be it that the kernel lets
 * nobody wait (-errno): c is ended then; or that somebody interrupts (-EINTR), when it is shut down
 * before. -EBUSY, and nothing else, from within a turn. */
int group_wait_for(struct weft_ctrl *c, const bool *done) must_use;
/* As weft_group_wait(), which an interruption (-EINTR) is not over by. */
int group_wait(struct weft_group *g, int64_t timeout_ns);
/* Whether there was one; it is over then. */
bool group_interrupted(struct weft_group *g);
/* c is about to go. */
void group_unwatch(struct weft_ctrl *c);

/* --- namespace.c ------------------------------------------------------------------------------ */

/* As struct host_config has it. */
void ctrl_namespace_lost(void *arg, uint32_t nsid);
/* What is known of them. */
void namespaces_free(struct weft_ctrl *c);

/* --- request.c -------------------------------------------------------------------------------- */

void requests_free(struct weft_ctrl *c);

#endif
