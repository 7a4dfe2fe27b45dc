/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A connection, between its two ends: host.c and target.c. Each end reaches the other's memory only
 * here, and only while the other is there: host is NULL once that one has closed it, target when
 * nothing that came on it is under way any more. Who goes last frees it.
 */
#ifndef WEFT_NVMF_LOOP_CONN_H
#define WEFT_NVMF_LOOP_CONN_H

#include "nvmf/loop/loop.h"

enum loop_cmd_state {
	LOOP_CMD_FREE,
	LOOP_CMD_SENT,	   /* in conn.sent */
	LOOP_CMD_TARGET,   /* the target's, or a store's */
	LOOP_CMD_FETCHING, /* in conn.fetching: its data may come */
	LOOP_CMD_MEMORY,   /* waits for memory */
	LOOP_CMD_CARRIED,  /* by the wire, as what `message` says */
	LOOP_CMD_ANSWERED, /* in conn.answered */
};

struct loop_cmd {
	struct target_req req;
	struct share_cmd share;
	enum loop_cmd_state state;
	struct list link; /* of the list that the state names */
	uint8_t sqe[NVME_SQE_LEN], cqe[NVME_CQE_LEN];
	struct iovec one;     /* what memory names, where that is in one piece */
	struct pieces memory; /* the host's, for what does not come in the capsule */
	uint32_t capsule;     /* bytes in it */
	enum loop_message message;
};

enum loop_conn_state {
	LOOP_ASKED, /* by the host */
	LOOP_UP,
	LOOP_HANDED, /* to another group's, where it is up again */
	LOOP_ENDED,  /* by the target, or it never let it be */
};

struct loop_target;

struct loop_conn {
	struct target_queue tq;
	struct share_queue share;
	struct list link; /* of loop_target.conns */
	struct loop_target *target;
	struct loop_host *host;
	enum loop_conn_state state;
	bool told;	       /* the host knows of its state */
	bool ending;	       /* the target wants its end */
	uint16_t qid, entries; /* as the host says */
	struct list sent, fetching, answered;
	struct loop_cmd *cmds; /* [entries], by the slot of their ID */
	uint8_t *capsules;     /* [entries] of TARGET_CAPSULE_DATA */
	struct loop_wire wire; /* the host's, which need not be there any more; carry NULL: none */
	uint32_t carried;      /* commands in that state */
};

/* As the transport's operations of these names. */
int loop_target_create(struct target_group *g, struct shares *shares,
		       struct transport_target *first, struct transport_target **ret, char *why,
		       size_t room) must_use;
struct transport_host *loop_host_create(const struct transport_host_config *config, char *why,
					size_t room);
/* In target.c: to a target that listens there; NULL: none does, or no memory (errno). */
struct loop_conn *loop_conn_open(struct loop_host *host, const char *name, const char *port,
				 const char *source, uint16_t qid, uint16_t entries);
/* The host lets go of it. */
void loop_conn_close(struct loop_conn *c);
/* When both ends have, and nothing is carried. */
void loop_conn_free(struct loop_conn *c);
/* False: there is no wire. */
bool loop_carry(struct loop_conn *c, struct loop_cmd *cmd, enum loop_message, uint32_t capsule,
		uint32_t data);

static inline uint8_t *loop_capsule(struct loop_cmd *cmd, struct loop_conn *c)
{
	return c->capsules + (size_t)(cmd - c->cmds) * TARGET_CAPSULE_DATA;
}

#endif
