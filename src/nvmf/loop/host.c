/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "nvmf/loop/conn.h"

struct loop_host {
	struct transport_host transport;
	struct host *h;
	char name[128], port[32], source[64];
	char error[320];
	struct loop_order order;
	struct loop_wire wire;
	uint16_t io_queues;
	struct loop_conn *conns[]; /* [1 + io_queues], by queue ID */
};

static struct loop_host *host_of(const struct transport_host *t)
{
	return container_of(t, struct loop_host, transport);
}

/* --- queues ----------------------------------------------------------------------------------- */

static int queue_open(void *t, uint16_t qid, uint16_t entries, uint16_t cntlid)
{
	struct loop_host *l = host_of(t);

	(void)cntlid; /* Connect has it */
	assert(!l->conns[qid]);
	l->conns[qid] = loop_conn_open(l, l->name, l->port, l->source, qid, entries);
	if (l->conns[qid]) {
		l->conns[qid]->wire = l->wire;
		return 0;
	}
	snprintf(l->error, sizeof(l->error), "cannot connect to %s:%s: %s", l->name, l->port,
		 errno == ECONNREFUSED ? "no target of this process listens there"
				       : errno_text(errno));
	return -EIO;
}

static void queue_close(void *t, uint16_t qid)
{
	struct loop_host *l = host_of(t);
	struct loop_conn *c = l->conns[qid];

	l->conns[qid] = NULL;
	if (c)
		loop_conn_close(c);
}

static int queue_submit(void *t, uint16_t qid, struct host_request *req, bool in_capsule)
{
	struct loop_conn *c = host_of(t)->conns[qid];
	struct loop_cmd *cmd = &c->cmds[host_slot_of(req->sqe.cid)];
	struct wcursor w = wcursor_init(cmd->sqe, sizeof(cmd->sqe));

	assert(cmd->state == LOOP_CMD_FREE);
	req->sqe.sgl = (struct nvme_sgl){.len = req->data_len};
	cmd->capsule = 0;
	cmd->memory = host_request_data(req, 0, &cmd->one);
	if (in_capsule) {
		assert(req->data_len <= TARGET_CAPSULE_DATA);
		req->sqe.sgl.type = NVME_SGL_DATA_BLOCK;
		req->sqe.sgl.subtype = NVME_SGL_OFFSET;
		cmd->capsule = req->data_len;
		pieces_read(cmd->memory, loop_capsule(cmd, c), req->data_len);
	} else {
		req->sqe.sgl.type = NVME_SGL_TRANSPORT_DATA_BLOCK;
		req->sqe.sgl.subtype = NVME_SGL_TRANSPORT;
	}
	nvme_sqe_put(&w, &req->sqe);
	if (loop_carry(c, cmd, LOOP_COMMAND, NVME_SQE_LEN + cmd->capsule, 0))
		return 0;
	cmd->state = LOOP_CMD_SENT;
	list_push_tail(&c->sent, &cmd->link);
	return 0;
}

/* The target reaches a command's memory only until its response. */
static void queue_release(void *t, uint16_t qid, struct host_request *req)
{
	(void)t;
	(void)qid;
	(void)req;
}

static const struct host_transport queue_ops = {
	.open = queue_open,
	.close = queue_close,
	.submit = queue_submit,
	.release = queue_release,
};

/* --- what comes from the target -----------------------------------------------------------------
 */

static bool has_news(const struct loop_conn *c)
{
	return c && (!list_empty(&c->answered) || (!c->told && c->state != LOOP_ASKED));
}

/* One piece of news, after which the connection may be gone. */
static void tell(struct loop_host *l, struct loop_conn *c, uint64_t now_ns)
{
	uint8_t cqe[NVME_CQE_LEN];
	struct loop_cmd *cmd;

	/* What was answered before the end was answered. */
	if (!list_empty(&c->answered)) {
		cmd = list_entry(list_pop_head(&c->answered), struct loop_cmd, link);
		memcpy(cqe, cmd->cqe, sizeof(cqe));
		cmd->state = LOOP_CMD_FREE;
		host_queue_response(l->h, c->qid, cqe, sizeof(cqe), now_ns);
		return;
	}
	c->told = true;
	if (c->state == LOOP_UP) {
		host_queue_opened(l->h, c->qid, c->entries, now_ns);
		return;
	}
	if (c->share.shares)
		snprintf(l->error, sizeof(l->error),
			 "connection to %s:%s lost: the target closed it", l->name, l->port);
	else
		snprintf(l->error, sizeof(l->error), "cannot connect to %s:%s: the target refuses",
			 l->name, l->port);
	host_queue_lost(l->h, c->qid, NULL, now_ns);
}

static bool tell_picked(struct loop_host *l, uint64_t now_ns)
{
	uint32_t n = 0;

	for (uint16_t i = 0; i <= l->io_queues; i++)
		n += has_news(l->conns[i]);
	if (!n)
		return false;
	n = l->order.pick(l->order.ctx, n);
	for (uint16_t i = 0; i <= l->io_queues; i++)
		if (has_news(l->conns[i]) && n-- == 0) {
			tell(l, l->conns[i], now_ns);
			break;
		}
	return true;
}

static bool op_process(struct transport_host *t, uint64_t now_ns, bool sleepy)
{
	struct loop_host *l = host_of(t);
	bool any = false;

	(void)sleepy; /* there is nothing to arm */
	if (l->order.pick)
		return tell_picked(l, now_ns);
	for (uint16_t i = 0; i <= l->io_queues; i++)
		/* As many as a queue holds: what comes of them waits for the target. */
		for (uint32_t n = 0; has_news(l->conns[i]) && n <= HOST_ENTRIES_MAX; n++) {
			tell(l, l->conns[i], now_ns);
			any = true;
		}
	return any;
}

/* --- the caller's ----------------------------------------------------------------------------- */

static void op_attach(struct transport_host *t, struct host *h)
{
	host_of(t)->h = h;
}

static int op_add_memory(struct transport_host *t, void *addr, size_t len)
{
	(void)t; /* the process can reach all that it has */
	(void)addr;
	(void)len;
	return 0;
}

static int op_remove_memory(struct transport_host *t, void *addr)
{
	(void)t;
	(void)addr;
	return 0;
}

static unsigned int op_pollfds(const struct transport_host *t,
			       struct pollfd fds[TRANSPORT_HOST_FDS])
{
	(void)t;
	(void)fds;
	return 0;
}

static void op_polled(struct transport_host *t, const struct pollfd *fds, unsigned int n)
{
	(void)t;
	(void)fds;
	(void)n;
}

static uint64_t op_next_deadline(const struct transport_host *t)
{
	const struct loop_host *l = host_of(t);

	for (uint16_t i = 0; i <= l->io_queues; i++)
		if (has_news(l->conns[i]))
			return 0;
	return DEADLINE_NEVER;
}

static const char *op_error(const struct transport_host *t)
{
	return host_of(t)->error;
}

static void op_info(const struct transport_host *t, struct transport_host_info *ret)
{
	(void)t;
	*ret = (struct transport_host_info){0};
}

static void op_destroy(struct transport_host *t)
{
	struct loop_host *l = host_of(t);

	for (uint16_t i = 0; i <= l->io_queues; i++)
		queue_close(t, i);
	free(l);
}

static const struct transport_host_ops host_ops = {
	.queues = &queue_ops,
	.attach = op_attach,
	.add_memory = op_add_memory,
	.remove_memory = op_remove_memory,
	.pollfds = op_pollfds,
	.polled = op_polled,
	.process = op_process,
	.next_deadline = op_next_deadline,
	.error = op_error,
	.info = op_info,
	.destroy = op_destroy,
};

struct transport_host *loop_host_create(const struct transport_host_config *config, char *why,
					size_t room)
{
	struct loop_host *l =
		calloc(1, sizeof(*l) + (1u + config->io_queues) * sizeof(struct loop_conn *));

	if (!l) {
		snprintf(why, room, "out of memory");
		return NULL;
	}
	l->transport.ops = &host_ops;
	l->io_queues = config->io_queues;
	snprintf(l->name, sizeof(l->name), "%s", config->host);
	snprintf(l->port, sizeof(l->port), "%s", config->port);
	snprintf(l->source, sizeof(l->source), "%s", config->source ? config->source : "");
	return &l->transport;
}

void loop_host_order(struct transport_host *t, const struct loop_order *order)
{
	host_of(t)->order = *order;
}

void loop_host_wire(struct transport_host *t, const struct loop_wire *wire)
{
	host_of(t)->wire = *wire;
}
