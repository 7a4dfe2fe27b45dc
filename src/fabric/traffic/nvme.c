/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * nvme: hosts read from, or write to, the disks of targets, by the product's NVMe host and target.
 * Between the two is the loop transport, whose messages go over the simulated network as those of
 * NVMe/RDMA do: a command is a SEND to the target; what is written is fetched by a READ, but for
 * what goes with its command; an answer is a SEND behind a WRITE of what is read. The payloads are
 * zeros here, too: what commands say goes by memory, when the message that carries it has come.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/units.h"
#include "fabric/memory.h"
#include "fabric/traffic/each.h"
#include "fabric/traffic/nvme_disk.h"
#include "nvmf/host/host.h"
#include "nvmf/loop/loop.h"

#define NQN	     "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000000"
#define DISK_BYTES   (1ull << 40)
#define BLOCK_SHIFT  9
#define MESSAGES     3
#define ENTRIES	     (NVME_DEPTH_MAX + 1)
#define POOL_BYTES   (64u << 20)
#define CAPSULE_ROOM (NVME_SQE_LEN + TARGET_CAPSULE_DATA)
/* Of a send queue, and that wait for it: an answer is two, and what is written is fetched by one.
 */
#define SENDS (2 * ENTRIES)

struct nvme;

struct nvme_target {
	struct nvme *of;
	unsigned number; /* of its host */
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns;
	struct shares shares;
	struct transport_target *transport;
	struct nvme_disk disk;
	bool is_set_up;
};

/* Messages of a kind that are on their way, in their order. */
struct on_way {
	struct taker taker; /* of what says that the first has come */
	struct nvme_queue *queue;
	struct loop_cmd *cmd[ENTRIES];
	unsigned first, n;
};

/* What one side sends. An answer can be there before what it answers is acknowledged, so that more
 * may be on the way than commands are: what the send queue has no room for waits. */
struct sends {
	struct taker gone; /* of all but READs, which tell more */
	struct nvme_queue *queue;
	unsigned out; /* posted */
	struct send {
		uint32_t opcode, bytes;
		const struct taker *taker;
	} waiting[SENDS];
	unsigned first, n;
};

/* A queue's connection: the host's queue pair is the first. */
struct nvme_queue {
	struct nvme_assoc *of;
	struct conn conn;
	struct on_way on_way[MESSAGES]; /* by enum loop_message */
	struct sends sends[2];
};

struct nvme_assoc { /* of a host with a target */
	struct nvme *of;
	struct nvme_target *target;
	unsigned from;
	struct transport_host *transport;
	struct host host;
	struct host_queue queues[2];
	struct handle_place places[HOST_ADMIN_ENTRIES + ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN];
	struct nvme_queue queue[2]; /* admin, I/O */
	struct host_request requests[NVME_DEPTH_MAX];
	struct item *items[NVME_DEPTH_MAX];
	uint64_t offset;
	struct list waits; /* for its turn */
	bool begun;
};

struct nvme {
	struct group *group;
	struct nvme_target *targets;
	unsigned ntargets;
	struct nvme_assoc *assocs;
	unsigned nassocs;
	void *data;	     /* of all requests: nobody looks at it */
	struct list waiting; /* associations, for their turn */
	bool turning, ending;
};

static uint64_t now_of(const struct nvme *v)
{
	return fabric_now(v->group->play->fabric);
}

/* ---- commands -------------------------------------------------------------------------------- */

static void begin_one(struct nvme_assoc *a, unsigned i);

static bool is_over(struct group *g)
{
	uint64_t stop = g->traffic->stop_ns;

	if (stop && play_now(g->play) >= stop)
		g->over = true;
	return g->over;
}

static void item_is_done(struct item *i, bool good)
{
	(void)i;
	(void)good;
}

static void request_is_done(struct host_request *req, uint64_t now_ns)
{
	struct nvme_assoc *a = req->arg;
	unsigned i = (unsigned)(req - a->requests);
	bool good = !req->error && !req->cqe.status;

	(void)now_ns;
	if (!a->items[i])
		return;
	if (!a->of->ending)
		play_end(a->items[i], good);
	a->items[i] = NULL;
	if (good && !is_over(a->of->group))
		begin_one(a, i);
}

/* What a command would take in an empty network: its messages, one after the other, and the disk's
 * time. The answer is right behind what is read. */
static uint64_t ideal_ns(const struct nvme_assoc *a, uint64_t bytes)
{
	const struct group *g = a->of->group;
	const struct network *n = g->play->network;
	const unsigned host = a->from, target = a->target->number;
	uint64_t capsule = NVME_SQE_LEN, answer = NVME_CQE_LEN, ns = g->traffic->media_ns;

	if (g->traffic->reads) {
		answer += bytes;
	} else if (bytes <= a->host.capsule_max) {
		capsule += bytes;
	} else { /* it is fetched */
		ns += network_way_ns(n, target, host, 0);
		ns += network_way_ns(n, host, target, bytes);
	}
	return ns + network_way_ns(n, host, target, capsule) +
	       network_way_ns(n, target, host, answer);
}

static void begin_one(struct nvme_assoc *a, unsigned i)
{
	struct host_request *req = &a->requests[i];
	struct group *g = a->of->group;
	const struct traffic *t = g->traffic;
	uint64_t bytes = sizes_draw(&t->sizes, &g->play->random);
	uint32_t blocks;
	int rc;

	bytes = min_of(bytes, (uint64_t)NVME_BYTES_MAX);
	blocks = max_of((uint32_t)((bytes + (1u << BLOCK_SHIFT) - 1) >> BLOCK_SHIFT), 1u);
	if (a->offset + blocks > DISK_BYTES >> BLOCK_SHIFT)
		a->offset = 0;
	*req = (struct host_request){
		.sqe = {.opcode = t->reads ? NVME_IO_READ : NVME_IO_WRITE, .nsid = 1},
		.data = a->of->data,
		.data_len = blocks << BLOCK_SHIFT,
		.done = request_is_done,
		.arg = a,
	};
	nvme_rw_set(&req->sqe, a->offset, blocks, 0);
	req->dir = nvmf_dir_of(&req->sqe);
	a->offset += blocks;
	a->items[i] = play_begin(g, &a->queue[1].conn, req->data_len, ideal_ns(a, req->data_len),
				 item_is_done, NULL);
	rc = host_submit(&a->host, 1, req, now_of(a->of));
	if (rc)
		play_fail(g->play, "traffic '%s': host%u: a command is not taken (%d)",
			  g->traffic->name, a->from, rc);
}

static void look_at(struct nvme_assoc *a)
{
	struct play *p = a->of->group->play;

	if (a->host.state == HOST_FAILED)
		play_fail(p, "traffic '%s': host%u has no controller at host%u: %s",
			  a->of->group->traffic->name, a->from, a->target->number,
			  a->transport->ops->error(a->transport));
	if (a->begun || a->host.state != HOST_LIVE)
		return;
	a->begun = true;
	for (unsigned k = 0; k < a->of->group->traffic->depth; k++)
		begin_one(a, k);
}

/* Both sides of an association go on until neither has anything to do. What comes for another one
 * in the middle of that is next. */
static void turn(struct nvme_assoc *a)
{
	struct nvme *v = a->of;
	bool any;

	if (list_empty(&a->waits))
		list_push_tail(&v->waiting, &a->waits);
	if (v->turning || v->ending)
		return;
	v->turning = true;
	while (!list_empty(&v->waiting) && !v->group->play->failed) {
		a = list_entry(list_pop_head(&v->waiting), struct nvme_assoc, waits);
		do {
			struct transport_target *there = a->target->transport;

			any = there->ops->process(there, now_of(v), false);
			any |= a->transport->ops->process(a->transport, now_of(v), false);
			look_at(a);
		} while (any);
	}
	v->turning = false;
}

/* What waited for memory may have some now; all else goes by messages. */
static void disk_moved(void *ctx)
{
	struct nvme_target *t = ctx;

	if (!t->of->ending)
		(void)!t->transport->ops->process(t->transport, now_of(t->of), false);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void post_now(struct nvme_queue *q, int side, const struct send *s)
{
	struct group *g = q->of->of->group;
	int rc = conn_post_from(&q->conn, side, s->opcode, s->bytes, s->taker,
				fabric_now(g->play->fabric));

	q->sends[side].out++;
	if (rc)
		play_fail(g->play, "traffic '%s': host%u cannot post to its queue pair (%d)",
			  g->traffic->name, q->of->from, rc);
}

static void post(struct nvme_queue *q, int side, uint32_t opcode, uint32_t bytes,
		 const struct taker *taker)
{
	struct sends *s = &q->sends[side];
	const struct send one = {opcode, bytes, taker};

	if (s->out < SENDS && !s->n)
		post_now(q, side, &one);
	else
		s->waiting[(s->first + s->n++) % SENDS] = one;
}

static void has_gone(struct nvme_queue *q, int side)
{
	struct sends *s = &q->sends[side];

	s->out--;
	if (!s->n)
		return;
	s->n--;
	post_now(q, side, &s->waiting[s->first]);
	s->first = (s->first + 1) % SENDS;
}

static void expect(struct nvme_queue *q, int side, struct taker *taker)
{
	if (conn_expect_at(&q->conn, side, CAPSULE_ROOM, taker))
		play_fail(q->of->of->group->play, "traffic '%s': host%u cannot post a receive",
			  q->of->of->group->traffic->name, q->of->from);
}

static void carry(void *ctx, uint16_t qid, enum loop_message m, uint32_t capsule, uint32_t data,
		  struct loop_cmd *cmd)
{
	struct nvme_assoc *a = ctx;
	struct nvme_queue *q = &a->queue[qid];
	struct on_way *w = &q->on_way[m];

	w->cmd[(w->first + w->n++) % ENTRIES] = cmd;
	if (a->of->ending)
		return; /* nothing goes any more */
	switch (m) {
	case LOOP_COMMAND:
		post(q, 0, RNIC_WR_SEND, capsule, &q->sends[0].gone);
		break;
	case LOOP_FETCH:
		post(q, 1, RNIC_WR_RDMA_READ, data, &w->taker);
		break;
	case LOOP_ANSWER:
		if (data)
			post(q, 1, RNIC_WR_RDMA_WRITE, data, &q->sends[1].gone);
		post(q, 1, RNIC_WR_SEND, capsule, &q->sends[1].gone);
		break;
	}
}

static void is_lost(struct nvme_queue *q)
{
	struct nvme_assoc *a = q->of;

	if (!a->of->ending)
		play_fail(a->of->group->play,
			  "traffic '%s': the connection of host%u with host%u is lost",
			  a->of->group->traffic->name, a->from, a->target->number);
}

static void took_gone(struct taker *t, const struct rnic_wc *wc)
{
	struct sends *s = container_of(t, struct sends, gone);

	if (wc->status == RNIC_WC_SUCCESS)
		has_gone(s->queue, (int)(s - s->queue->sends));
	else
		is_lost(s->queue);
}

static void took_first(struct taker *t, const struct rnic_wc *wc)
{
	struct on_way *w = container_of(t, struct on_way, taker);
	struct nvme_queue *q = w->queue;
	enum loop_message m = (enum loop_message)(w - q->on_way);
	struct loop_cmd *cmd = w->cmd[w->first];

	if (wc->status != RNIC_WC_SUCCESS || !w->n) {
		is_lost(q);
		return;
	}
	w->first = (w->first + 1) % ENTRIES;
	w->n--;
	if (m == LOOP_FETCH)
		has_gone(q, 1);
	else
		expect(q, m == LOOP_COMMAND, t);
	loop_carried(cmd);
	turn(q->of);
}

static int queue_open(struct nvme_assoc *a, unsigned qid)
{
	struct nvme_queue *q = &a->queue[qid];
	struct group *g = a->of->group;
	struct play *p = g->play;
	int rc;

	q->of = a;
	for (int side = 0; side < 2; side++) {
		q->sends[side].gone.took = took_gone;
		q->sends[side].queue = q;
	}
	for (unsigned m = 0; m < MESSAGES; m++) {
		q->on_way[m].taker.took = took_first;
		q->on_way[m].queue = q;
	}
	rc = conn_open_both(&q->conn, network_host(p->network, a->from),
			    network_host(p->network, a->target->number), SENDS, ENTRIES,
			    g->traffic->dscp, &p->random, fabric_now(p->fabric));
	for (unsigned k = 0; k < ENTRIES && !rc; k++) {
		expect(q, 1, &q->on_way[LOOP_COMMAND].taker);
		expect(q, 0, &q->on_way[LOOP_ANSWER].taker);
	}
	return rc;
}

/* ---- both sides ------------------------------------------------------------------------------ */

static int target_open(struct nvme *v, struct nvme_target *t, unsigned number)
{
	const struct target_env env = {.alloc = fabric_alloc, .free = fabric_free};
	char name[32], why[128];

	t->of = v;
	t->number = number;
	snprintf(name, sizeof(name), "host%u.%u", number, v->group->index);
	target_init(&t->target, &env, now_of(v));
	snprintf(t->subsys.nqn, sizeof(t->subsys.nqn), "%s", NQN);
	nvme_disk_init(&t->disk, v->group->play->fabric, DISK_BYTES, v->group->traffic->media_ns,
		       disk_moved, t);
	t->ns = (struct target_ns){.nsid = 1, .lba_shift = BLOCK_SHIFT, .store = &t->disk.store};
	t->is_set_up = true;
	if (target_subsys_add(&t->target, &t->subsys) || target_ns_add(&t->subsys, &t->ns) ||
	    shares_init(&t->shares, POOL_BYTES) ||
	    loop_transport.target_create(&t->target.group, &t->shares, NULL, &t->transport, why,
					 sizeof(why)) ||
	    t->transport->ops->listen(t->transport, name, "1", why, sizeof(why)))
		return -ENOMEM;
	return 0;
}

static int assoc_open(struct nvme *v, struct nvme_assoc *a, unsigned from, struct nvme_target *t)
{
	char name[32], source[32], why[128];
	const struct transport_host_config where = {
		.host = name, .port = "1", .source = source, .io_queues = 1, .io_entries = ENTRIES};
	struct host_config config = {.subnqn = NQN,
				     .hostid = {1},
				     .io_queues = 1,
				     .io_entries = ENTRIES,
				     .open_timeout_ns = 60 * NSEC_PER_SEC,
				     .command_timeout_ns = 60 * NSEC_PER_SEC,
				     .shutdown_timeout_ns = NSEC_PER_SEC};
	const struct loop_wire wire = {carry, a};

	a->of = v;
	a->target = t;
	a->from = from;
	list_init(&a->waits);
	snprintf(name, sizeof(name), "host%u.%u", t->number, v->group->index);
	snprintf(source, sizeof(source), "host%u", from);
	snprintf(config.hostnqn, sizeof(config.hostnqn), "%s.%u", NQN, from);
	st_be32(config.hostid + 12, from);
	if (queue_open(a, 0) || queue_open(a, 1))
		return -ENOMEM;
	a->transport = loop_transport.host_create(&where, why, sizeof(why));
	if (!a->transport)
		return -ENOMEM;
	a->transport->ops->attach(a->transport, &a->host);
	loop_host_wire(a->transport, &wire);
	if (host_init(&a->host, &config, a->transport->ops->queues, a->transport, a->queues,
		      a->places, a->scratch))
		return -EINVAL;
	host_start(&a->host, now_of(v));
	return 0;
}

static int nvme_start(struct group *g)
{
	const struct traffic *t = g->traffic;
	struct nvme *v = calloc(1, sizeof(*v));
	int rc = 0;

	if (!v)
		return -ENOMEM;
	g->own = v;
	g->over = false;
	v->group = g;
	list_init(&v->waiting);
	v->targets = calloc(t->to.n, sizeof(*v->targets));
	v->assocs = calloc(traffic_pairs(t) + 1, sizeof(*v->assocs));
	v->data = calloc(1, NVME_BYTES_MAX);
	if (!v->targets || !v->assocs || !v->data)
		return -ENOMEM;
	for (unsigned b = 0; b < t->to.n && !rc; b++)
		rc = target_open(v, &v->targets[v->ntargets++], t->to.v[b]);
	for (unsigned a = 0; a < t->from.n && !rc; a++)
		for (unsigned b = 0; b < t->to.n && !rc; b++)
			if (traffic_meets(t, a, b))
				rc = assoc_open(v, &v->assocs[v->nassocs++], t->from.v[a],
						&v->targets[b]);
	for (unsigned i = 0; i < v->nassocs && !rc; i++)
		turn(&v->assocs[i]);
	return rc;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void queue_fini(struct nvme_queue *q)
{
	conn_close(&q->conn);
	for (unsigned m = 0; m < MESSAGES; m++)
		for (struct on_way *w = &q->on_way[m]; w->n; w->n--) {
			loop_carried(w->cmd[w->first]);
			w->first = (w->first + 1) % ENTRIES;
		}
}

static void target_fini_all(struct nvme *v, struct nvme_target *t)
{
	if (!t->is_set_up)
		return;
	nvme_disk_fini(&t->disk);
	if (t->transport) {
		t->transport->ops->shutdown(t->transport);
		while (!t->transport->ops->idle(t->transport) || !target_idle(&t->target)) {
			(void)!t->transport->ops->process(t->transport, now_of(v), false);
			nvme_disk_fini(&t->disk);
		}
		t->transport->ops->destroy(t->transport);
	}
	shares_fini(&t->shares);
	target_fini(&t->target);
}

static void nvme_fini(struct group *g)
{
	struct nvme *v = g->own;

	v->ending = true;
	for (unsigned i = 0; v->assocs && i < v->nassocs; i++)
		for (unsigned q = 0; q < 2; q++)
			queue_fini(&v->assocs[i].queue[q]);
	for (unsigned i = 0; v->assocs && i < v->nassocs; i++)
		if (v->assocs[i].transport)
			v->assocs[i].transport->ops->destroy(v->assocs[i].transport);
	for (unsigned i = 0; v->targets && i < v->ntargets; i++)
		target_fini_all(v, &v->targets[i]);
	free(v->targets);
	free(v->assocs);
	free(v->data);
}

const struct kind kind_nvme = {nvme_start, nvme_fini};
