/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "nvmf/loop/conn.h"

#define LOOP_LISTENERS_MAX 16

struct loop_listener {
	struct list link; /* of the process's listeners */
	bool open;
	struct loop_target *target;
	struct target_port port;
};

struct loop_target {
	struct transport_target transport;
	struct list link; /* of the first group's others */
	struct list others;
	struct target_group *group;
	struct shares *shares;
	struct list conns;
	struct loop_listener listeners[LOOP_LISTENERS_MAX];
	uint32_t listener_count; /* with those that are closed */
	struct loop_order order;
	uint64_t now_ns; /* of the present call of process */
};

static struct list listeners = {&listeners, &listeners};

static struct loop_target *target_of(const struct transport_target *t)
{
	return container_of(t, struct loop_target, transport);
}

static struct loop_conn *conn_of(struct target_queue *q)
{
	return container_of(q, struct loop_conn, tq);
}

static struct loop_cmd *cmd_of(struct target_req *r)
{
	return container_of(r, struct loop_cmd, req);
}

/* --- commands --------------------------------------------------------------------------------- */

/* It has memory; its data are where the host has them, if the host is still there. */
static void has_memory(struct loop_cmd *cmd)
{
	struct target_req *r = &cmd->req;
	const struct loop_conn *c = conn_of(r->queue);
	uint16_t status = NVME_SC_SUCCESS;

	cmd->state = LOOP_CMD_TARGET;
	if (!c->host)
		status = NVME_SC_ABORT_QUEUE; /* which has not ended yet */
	else if (r->dir == NVMF_DIR_TO_CTRL && !r->in_capsule)
		pieces_read(cmd->memory, r->data, r->data_len);
	target_req_ready(r, status);
}

static void fetch(struct loop_cmd *cmd)
{
	cmd->state = LOOP_CMD_MEMORY;
	if (share_memory_take(&cmd->share))
		has_memory(cmd);
}

static void arrive(struct loop_cmd *cmd, enum loop_cmd_state state, struct list *at)
{
	cmd->state = state;
	list_push_tail(at, &cmd->link);
}

void loop_carried(struct loop_cmd *cmd)
{
	struct loop_conn *c = container_of(cmd->share.queue, struct loop_conn, share);

	assert(cmd->state == LOOP_CMD_CARRIED);
	c->carried--;
	cmd->state = LOOP_CMD_FREE;
	if (cmd->message == LOOP_FETCH)
		fetch(cmd); /* the target waits for it, whatever has become of the host */
	else if (cmd->message == LOOP_ANSWER && c->host)
		arrive(cmd, LOOP_CMD_ANSWERED, &c->answered);
	else if (cmd->message == LOOP_COMMAND && c->host && c->target && c->state != LOOP_ENDED)
		arrive(cmd, LOOP_CMD_SENT, &c->sent);
	loop_conn_free(c);
}

static void op_fetch(struct target_req *r)
{
	struct loop_conn *c = conn_of(r->queue);
	struct loop_cmd *cmd = cmd_of(r);

	/* What is read needs memory, too, but nothing from the host. */
	if (r->dir == NVMF_DIR_TO_CTRL && !r->in_capsule &&
	    loop_carry(c, cmd, LOOP_FETCH, 0, r->data_len))
		return;
	if (!c->target->order.pick) {
		fetch(cmd);
		return;
	}
	cmd->state = LOOP_CMD_FETCHING;
	list_push_tail(&c->fetching, &cmd->link);
}

/* True if it waits, and does so no more. */
static bool op_cancel(struct target_req *r)
{
	struct loop_cmd *cmd = cmd_of(r);

	if (cmd->state == LOOP_CMD_MEMORY)
		share_memory_forget(&cmd->share);
	else if (cmd->state == LOOP_CMD_FETCHING)
		list_remove(&cmd->link);
	else
		return false;
	cmd->state = LOOP_CMD_TARGET;
	return true;
}

/* Behind the first `from` bytes. */
static void write_zeroes(struct pieces p, size_t from, size_t len)
{
	for (p.skip += from; len;) {
		struct iovec v = pieces_take(&p, len);

		memset(v.iov_base, 0, v.iov_len);
		len -= v.iov_len;
	}
}

static void op_respond(struct target_req *r)
{
	struct loop_conn *c = conn_of(r->queue);
	struct loop_cmd *cmd = cmd_of(r);
	struct wcursor w = wcursor_init(cmd->cqe, sizeof(cmd->cqe));

	assert(cmd->state == LOOP_CMD_TARGET);
	if (c->host && c->state == LOOP_UP) {
		if (target_req_has_reply_data(r)) {
			pieces_write(cmd->memory, r->data, r->data_len);
			write_zeroes(cmd->memory, r->data_len, r->zero_len);
		}
		nvme_cqe_put(&w, &r->cqe);
		if (!loop_carry(c, cmd, LOOP_ANSWER, NVME_CQE_LEN,
				target_req_has_reply_data(r) ? r->data_len + r->zero_len : 0)) {
			cmd->state = LOOP_CMD_ANSWERED;
			list_push_tail(&c->answered, &cmd->link);
		}
	} else {
		cmd->state = LOOP_CMD_FREE;
	}
	share_memory_put(&cmd->share);
}

static int op_admit(struct target_queue *q)
{
	share_queue_grown(&conn_of(q)->share);
	return 0;
}

static void op_disconnect(struct target_queue *q)
{
	conn_of(q)->ending = true;
}

static void op_arrive(struct target_queue *q);

static const struct target_transport_ops request_ops = {
	.trtype = NVMF_TRTYPE_LOOP,
	.treq = NVMF_TREQ_NO_SQ_FLOW,
	.sgl = NVME_SGL_TRANSPORT_DATA_BLOCK,
	.sgl_max = 1,
	.mdts = TARGET_MDTS,
	.entries_max = TARGET_QUEUE_ENTRIES_MAX,
	.capsule_data_max = TARGET_CAPSULE_DATA,
	.fetch = op_fetch,
	.cancel = op_cancel,
	.respond = op_respond,
	.admit = op_admit,
	.disconnect = op_disconnect,
	.arrive = op_arrive,
};

/* It goes on there, where it has to have its share. */
static void hand_over(struct loop_conn *c, struct loop_target *to)
{
	share_queue_fini(&c->share);
	list_remove(&c->link);
	list_push_tail(&to->conns, &c->link);
	c->target = to;
	c->state = LOOP_HANDED;
	target_queue_hand(&c->tq, to->group);
}

/* What Connect is for may be another group's, where there is one that has this transport. */
static bool is_handed_over(struct loop_conn *c, const struct loop_cmd *cmd)
{
	struct target_group *g;

	if (list_empty(&c->target->others))
		return false;
	g = target_group_for(&c->tq, cmd->sqe, sizeof(cmd->sqe));
	list_for_each(to, &c->target->others, struct loop_target, link)
		if (to->group == g) {
			hand_over(c, to);
			return true;
		}
	return false;
}

static void receive(struct loop_conn *c)
{
	struct loop_cmd *cmd = list_entry(c->sent.next, struct loop_cmd, link);

	if (is_handed_over(c, cmd))
		return;
	list_remove(&cmd->link);
	cmd->state = LOOP_CMD_TARGET;
	target_req_recv(&c->tq, &cmd->req, cmd->sqe, sizeof(cmd->sqe), loop_capsule(cmd, c),
			cmd->capsule, c->target->now_ns);
}

/* --- connections ------------------------------------------------------------------------------ */

static struct loop_listener *find(const char *name, const char *port)
{
	list_for_each(l, &listeners, struct loop_listener, link)
		if ((l->port.wildcard || strcmp(l->port.traddr, name) == 0) &&
		    strcmp(l->port.trsvcid, port) == 0)
			return l;
	errno = ECONNREFUSED;
	return NULL;
}

struct loop_conn *loop_conn_open(struct loop_host *host, const char *name, const char *port,
				 const char *source, uint16_t qid, uint16_t entries)
{
	struct loop_listener *l = find(name, port);
	struct loop_conn *c = l ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return NULL;
	c->cmds = calloc(entries, sizeof(*c->cmds));
	c->capsules = calloc(entries, TARGET_CAPSULE_DATA);
	if (!c->cmds || !c->capsules) {
		loop_conn_free(c);
		return NULL;
	}
	for (uint16_t i = 0; i < entries; i++)
		c->cmds[i].share = (struct share_cmd){.queue = &c->share, .req = &c->cmds[i].req};
	list_init(&c->sent);
	list_init(&c->fetching);
	list_init(&c->answered);
	c->qid = qid;
	c->entries = entries;
	c->host = host;
	c->target = l->target;
	c->tq = (struct target_queue){
		.group = c->target->group,
		.ops = &request_ops,
		.port = &l->port,
		.qid = TARGET_QID_UNKNOWN,
		.entries_max = min_of(entries, request_ops.entries_max),
		.capsule_data_max = TARGET_CAPSULE_DATA,
	};
	snprintf(c->tq.traddr, sizeof(c->tq.traddr), "%s", name);
	snprintf(c->tq.raddr, sizeof(c->tq.raddr), "%s", *source ? source : "this process");
	memcpy(c->tq.peer, c->tq.raddr, sizeof(c->tq.peer));
	list_push_tail(&c->target->conns, &c->link);
	return c;
}

/* Nothing that came on it is under way any more. */
static void let_go(struct loop_conn *c)
{
	if (c->share.shares)
		share_queue_fini(&c->share);
	list_remove(&c->link);
	c->target = NULL;
	loop_conn_free(c);
}

/* What waits for its data ends without them; what a store works on when it is done. */
static void end(struct loop_conn *c)
{
	c->state = LOOP_ENDED;
	c->told = false;
	share_queue_grown(&c->share);
	for (uint16_t i = 0; i < c->entries; i++) {
		struct loop_cmd *cmd = &c->cmds[i];

		switch (cmd->state) {
		case LOOP_CMD_SENT:
			list_remove(&cmd->link);
			cmd->state = LOOP_CMD_FREE;
			break;
		case LOOP_CMD_FETCHING:
			list_remove(&cmd->link);
			cmd->state = LOOP_CMD_TARGET;
			break;
		case LOOP_CMD_MEMORY:
			share_memory_forget(&cmd->share);
			cmd->state = LOOP_CMD_TARGET;
			break;
		case LOOP_CMD_FREE:
		case LOOP_CMD_CARRIED: /* until it is there */
		case LOOP_CMD_TARGET:
		case LOOP_CMD_ANSWERED:
			break;
		}
	}
	target_queue_disconnected(&c->tq);
}

static void op_has_memory(struct share_cmd *s)
{
	has_memory(container_of(s, struct loop_cmd, share));
}

static void op_give_way(struct share_queue *s)
{
	struct loop_conn *c = container_of(s, struct loop_conn, share);

	snprintf(c->tq.why, sizeof(c->tq.why), "it gave way to newer connections");
	end(c);
}

static const struct share_ops share_ops = {.has_memory = op_has_memory, .give_way = op_give_way};

static void accept(struct loop_conn *c)
{
	struct loop_target *t = c->target;

	if (!c->host || c->ending ||
	    !share_queue_init(&c->share, t->shares, &share_ops, c->tq.peer)) {
		if (c->host)
			target_rejected(t->group->target, c->tq.raddr, "no resources");
		c->state = LOOP_ENDED;
		list_remove(&c->link);
		c->target = NULL;
		loop_conn_free(c);
		return;
	}
	c->share.established = true;
	c->state = LOOP_UP;
	target_queue_init(&c->tq, t->group->target, t->now_ns);
}

static void op_arrive(struct target_queue *q)
{
	struct loop_conn *c = conn_of(q);
	struct loop_target *t = c->target;

	target_queue_init(q, t->group->target, t->group->now_ns);
	c->state = LOOP_UP;
	if (share_queue_init(&c->share, t->shares, &share_ops, q->peer)) {
		c->share.established = true;
		return;
	}
	snprintf(q->why, sizeof(q->why), "no resources");
	c->ending = true;
}

/* --- what there is to do ------------------------------------------------------------------------
 */

static uint32_t count(const struct list *cmds)
{
	uint32_t n = 0;

	list_for_each(cmd, cmds, struct loop_cmd, link)
		n++;
	return n;
}

/* So many things can be done next on a connection. */
static uint32_t choices(const struct loop_conn *c)
{
	if (c->state == LOOP_HANDED)
		return 0;
	if (c->state == LOOP_ENDED)
		return c->tq.live == 0;
	if (c->state == LOOP_ASKED || !c->host || c->ending)
		return 1;
	return count(&c->fetching) + !list_empty(&c->sent);
}

/* Does the n-th; the connection may be gone then. */
static void choose(struct loop_conn *c, uint32_t n)
{
	if (c->state == LOOP_ENDED) {
		let_go(c);
	} else if (c->state == LOOP_ASKED) {
		accept(c);
	} else if (!c->host || c->ending) {
		end(c);
	} else {
		list_for_each(cmd, &c->fetching, struct loop_cmd, link)
			if (n-- == 0) {
				list_remove(&cmd->link);
				fetch(cmd);
				return;
			}
		receive(c);
	}
}

static bool choose_picked(struct loop_target *t)
{
	uint32_t n = 0;

	list_for_each(c, &t->conns, const struct loop_conn, link)
		n += choices(c);
	if (!n)
		return false;
	n = t->order.pick(t->order.ctx, n);
	list_for_each(c, &t->conns, struct loop_conn, link) {
		if (n < choices(c)) {
			choose(c, n);
			break;
		}
		n -= choices(c);
	}
	return true;
}

static bool choose_all(struct loop_target *t)
{
	bool any = false;

	list_for_each(c, &t->conns, struct loop_conn, link) {
		/* As many as a queue holds; what ends or is refused is another turn's. */
		for (uint32_t n = 0; n < c->entries && c->state == LOOP_UP && choices(c); n++) {
			choose(c, 0);
			any = true;
		}
		if (c->state != LOOP_UP && choices(c)) {
			choose(c, 0);
			any = true;
		}
	}
	return any;
}

static bool op_process(struct transport_target *t, uint64_t now_ns, bool sleepy)
{
	struct loop_target *l = target_of(t);
	bool any;

	(void)sleepy; /* there is nothing to arm */
	l->now_ns = now_ns;
	any = l->order.pick ? choose_picked(l) : choose_all(l);
	return any | shares_pump(l->shares);
}

/* --- the caller's ----------------------------------------------------------------------------- */

/* A closed one's place is another's when nothing that came by it is left. */
static bool is_free(const struct loop_target *l, const struct loop_listener *place)
{
	if (place->open)
		return false;
	list_for_each(c, &l->conns, const struct loop_conn, link)
		if (c->tq.port == &place->port)
			return false;
	return true;
}

/* NULL: there are too many. */
static struct loop_listener *free_listener(struct loop_target *l)
{
	for (uint32_t i = 0; i < l->listener_count; i++)
		if (is_free(l, &l->listeners[i]))
			return &l->listeners[i];
	return l->listener_count < LOOP_LISTENERS_MAX ? &l->listeners[l->listener_count] : NULL;
}

static int op_listen(struct transport_target *t, const char *address, const char *port, char *why,
		     size_t room)
{
	struct loop_target *l = target_of(t);
	struct loop_listener *new = free_listener(l);

	if (!new) {
		snprintf(why, room, "more than %d names to listen on", LOOP_LISTENERS_MAX);
		return -ENOSPC;
	}
	if (find(address ? address : "", port)) {
		snprintf(why, room, "another target of this process listens on %s port %s",
			 address ? address : "every name", port);
		return -EADDRINUSE;
	}
	*new = (struct loop_listener){.target = l, .open = true};
	new->port = (struct target_port){
		.ops = &request_ops, .adrfam = NVMF_ADRFAM_LOOP, .wildcard = !address};
	snprintf(new->port.traddr, sizeof(new->port.traddr), "%s", address ? address : "");
	snprintf(new->port.trsvcid, sizeof(new->port.trsvcid), "%s", port);
	list_push_tail(&listeners, &new->link);
	l->listener_count = max_of(l->listener_count, (uint32_t)(new - l->listeners) + 1);
	target_port_add(l->group->target, &new->port);
	return 0;
}

static void op_unlisten(struct transport_target *t, struct target_port *port)
{
	struct loop_target *l = target_of(t);
	struct loop_listener *old = container_of(port, struct loop_listener, port);

	old->open = false;
	list_remove(&old->link);
	target_port_remove(l->group->target, port);
	list_for_each(c, &l->conns, struct loop_conn, link)
		if (c->tq.port == port)
			c->ending = true;
}

static int op_fd(const struct transport_target *t)
{
	(void)t;
	return -1;
}

static uint64_t op_next_deadline(const struct transport_target *t)
{
	const struct loop_target *l = target_of(t);

	list_for_each(c, &l->conns, const struct loop_conn, link)
		if (choices(c))
			return 0;
	return shares_pump_due(l->shares) ? 0 : DEADLINE_NEVER;
}

static void op_shutdown(struct transport_target *t)
{
	struct loop_target *l = target_of(t);

	while (l->listener_count) {
		struct loop_listener *last = &l->listeners[--l->listener_count];

		if (!last->open)
			continue;
		list_remove(&last->link);
		target_port_remove(l->group->target, &last->port);
	}
	list_for_each(c, &l->conns, struct loop_conn, link)
		c->ending = true;
}

static bool op_idle(const struct transport_target *t)
{
	return list_empty(&target_of(t)->conns);
}

static void op_destroy(struct transport_target *t)
{
	assert(op_idle(t) && list_empty(&target_of(t)->others));
	list_remove(&target_of(t)->link);
	free(target_of(t));
}

static const struct transport_target_ops target_ops = {
	.listen = op_listen,
	.unlisten = op_unlisten,
	.fd = op_fd,
	.process = op_process,
	.next_deadline = op_next_deadline,
	.shutdown = op_shutdown,
	.idle = op_idle,
	.destroy = op_destroy,
};

int loop_target_create(struct target_group *g, struct shares *shares,
		       struct transport_target *first, struct transport_target **ret, char *why,
		       size_t room)
{
	struct loop_target *l = calloc(1, sizeof(*l));

	if (!l) {
		snprintf(why, room, "out of memory");
		return -ENOMEM;
	}
	l->transport.ops = &target_ops;
	l->group = g;
	l->shares = shares;
	list_init(&l->conns);
	list_init(&l->others);
	list_init(&l->link);
	if (first)
		list_push_tail(&target_of(first)->others, &l->link);
	*ret = &l->transport;
	return 0;
}

void loop_target_order(struct transport_target *t, const struct loop_order *order)
{
	target_of(t)->order = *order;
}
