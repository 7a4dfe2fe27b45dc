/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of the target say to each other. */
#ifndef WEFT_NVMF_TARGET_INTERNAL_H
#define WEFT_NVMF_TARGET_INTERNAL_H

#include <errno.h>

#include "base/time.h"
#include "nvmf/target/target.h"

#define FAIL(sc) ((uint16_t)((sc) | NVME_STATUS_DNR))

/* Discovery controllers without a keep-alive of their own still do not stay for ever. */
#define TARGET_DISCOVERY_KATO_MS 120000
#define TARGET_KATO_AGAIN	 16 /* such a part of its time a silent host has more, at least */
#define TARGET_CONNECT_NS	 (15 * NSEC_PER_SEC)
/* What a host has for each authentication, and until the end of a queue once it knows that it has
 * failed: the response is to get there before. */
#define TARGET_AUTH_NS	       (15 * NSEC_PER_SEC)
#define TARGET_AUTH_PARTING_NS (NSEC_PER_SEC)
#define TARGET_UNPROVED	       "its host has not proved who it is"
/* What a key of TLS that an authentication has generated waits for its first connection, and how
 * many may: then the oldest is forgotten. */
#define TARGET_PSK_NS	  (60 * NSEC_PER_SEC)
#define TARGET_PSKS_MAX	  1024
#define TARGET_PARTING_NS (NSEC_PER_SEC)
#define TARGET_VS	  NVME_VS(2, 0, 0)
#define TARGET_READY	  15	  /* within so many times 500 ms */
#define TARGET_KAS	  10	  /* keep-alive granularity, 100 ms */
#define TARGET_TEMP_OVER  0xffffu /* no temperature is above it */

#define TARGET_OAES(s) ((s)->discovery ? NVME_OAES_DISCOVERY : NVME_OAES_NS_ATTR)

/*
 * A parser sets r->execute and, by req_expects(), the data; it returns NVME_SC_SUCCESS or the
 * status to respond with. An executor ends in req_complete(), at once or later.
 */
typedef uint16_t target_parse_fn(struct target_req *r);

void req_complete(struct target_req *r, uint16_t status);
/*
 * Reads the SGL into r->sgl_*. Only a command that has data needs one that makes sense: for its
 * parser, which may do it twice.
 */
uint16_t req_sgl(struct target_req *r);
/* The command's data is len bytes and goes the way its opcode says: checks the SGL. */
uint16_t req_expects(struct target_req *r, uint32_t len);
/* The same of data for the host of which only the first bytes, at most present, are not zero. */
uint16_t req_expects_part(struct target_req *r, uint32_t len, uint64_t present);
/* The status with the byte of the SQE that is wrong, for the error log. */
uint16_t req_fail_at(struct target_req *r, uint16_t offset, uint16_t status);
uint16_t errno_to_status(int error, enum store_opcode opcode);
/* The same of what a store said, which is kept for whoever is told of it. */
uint16_t req_store_status(struct target_req *r, int error, enum store_opcode opcode);
/* The group's: commands that have waited for a turn go on, as far as this one reaches. True if
 * there were any. */
bool steps_go_on(struct target_group *g);
/* Begins r->op, in the store of the namespace. */
void req_submit(struct target_req *r);

/* The store of its namespace, as the thread of its queue uses it. */
static inline struct store *req_store(const struct target_req *r)
{
	return store_for(r->ns->store, r->queue->group->index);
}

/* The namespace of a command that needs one. */
uint16_t req_find_ns(struct target_req *r);

/* The parser of every command: commands.c has the tables. */
target_parse_fn req_parse;
#define ADMIN(opcode, parse, discovery) target_parse_fn parse;
#define IO(opcode, parse, effects)	target_parse_fn parse;
#define FABRICS(type, parse, where)	target_parse_fn parse;
#include "nvmf/target/commands.def"

/*
 * The group's: what waits ends now, with this status: true. What does not, ends as soon as it may.
 */
bool req_abort(struct target_req *victim, uint16_t status);

/* What was parsed is executed: when its data are there, and nothing older is in its way. */
void req_begin(struct target_req *r);
/* It waits until the admin plane sees nothing in its way. */
void req_hold(struct target_req *r);
/* I/O that is held will not be executed: one request, all of a queue. */
void held_abort(struct target_req *r, uint16_t status);
void held_abort_all(struct target_queue *q, uint16_t status);
/* What ended associations have left is less. */
void held_go_on(struct target *t);

/* --- fused operations ---------------------------------------------------------------------- */

/* No fused operation has its turn. */
void fused_init(struct target_ns *ns);
/* What came is a half, or comes after one: true if it is dealt with. status: as it was parsed. */
bool fused_recv(struct target_req *r, uint16_t status);
/* A first half that waits for its second ends: r, or whichever there is. False: there is none. */
bool fused_abort_first(struct target_queue *q, const struct target_req *r, uint16_t status);

/* I/O queues that a controller may have. */
static inline uint32_t io_queues_max(const struct target_subsys *s)
{
	return s->qid_max ? min_of((uint32_t)s->qid_max, (uint32_t)TARGET_IO_QUEUES_MAX)
			  : TARGET_IO_QUEUES_MAX;
}

/* Entries of an I/O queue: no more than its port says. */
static inline uint16_t io_entries_max(const struct target_queue *q, uint16_t max)
{
	return q->port && q->port->entries_max ? min_of(max, q->port->entries_max) : max;
}

/* The most data of one command. */
static inline uint32_t data_max(const struct target_queue *q)
{
	return 4096u << (q->ctrl ? q->ctrl->mdts : q->ops->mdts);
}

static inline void ns_bit_set(uint32_t *bits, uint32_t nsid)
{
	bits[(nsid - 1) / 32] |= 1u << (nsid - 1) % 32;
}

static inline bool ns_bit_get(const uint32_t *bits, uint32_t nsid)
{
	return bits[(nsid - 1) / 32] >> (nsid - 1) % 32 & 1;
}

/* --- blocks that are uncorrectable ----------------------------------------------------------- */

/* `then` is called, at once or later, unless a block that the command reads is: then it ends. */
void marks_ask(struct target_req *r, void (*then)(struct target_req *r));
/* r->op has written its blocks: they are not any more, and the command ends. */
void marks_written(struct target_req *r);
void execute_write_uncorrectable(struct target_req *r);

/* The admin plane's: the first block of some that is marked, if one is. */
bool marks_first(const struct target_ns *ns, uint64_t slba, uint64_t nlb, uint64_t *ret);
/* -ENOSPC: no room; -ENOMEM. */
int marks_set(struct target_ns *ns, struct target *t, uint64_t slba, uint64_t nlb) must_use;
void marks_clear(struct target_ns *ns, struct target *t, uint64_t slba, uint64_t nlb);
void marks_forget(struct target_ns *ns, struct target *t);

/* Of a Copy whose data are there. */
static inline struct nvme_copy_range req_copy_range(const struct target_req *r, uint32_t i)
{
	struct cursor c = cursor_init((const uint8_t *)r->data + i * NVME_COPY_RANGE_LEN,
				      NVME_COPY_RANGE_LEN);
	struct nvme_copy_range range;

	nvme_copy_range_get(&c, &range);
	return range;
}

/* --- between groups and the admin plane ------------------------------------------------------ */

static inline struct target_req *msg_req(struct target_msg *m)
{
	return container_of(m, struct target_req, msg);
}

/* What came from other threads; true if there was anything. */
bool group_deliver(struct target_group *g);

/* Counts that one thread makes and others read. */
static inline void count_add(_Atomic uint64_t *n, uint64_t more)
{
	uint64_t now = atomic_load_explicit(n, memory_order_relaxed);

	atomic_store_explicit(n, now + more, memory_order_relaxed);
}

static inline uint64_t count_get(const _Atomic uint64_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

/* The group's: the transport ends the connection; the first reason is the one that is told. */
void queue_end(struct target_queue *q, const char *why);
/* The group's: the admin plane is to know how it stands with the queue. */
void queue_report(struct target_queue *q);
/* The admin plane's: it knows. The queue may be gone after that. */
void queue_answer_report(struct target_queue *q);
/* The admin plane's: the connection is to be ended, and the group to forget a controller, which is
 * put then. drop and why may be NULL. */
void queue_order(struct target_queue *q, struct target_ctrl *drop, const char *why);
/* A group has one less under way for a namespace that may be leaving. */
void ns_put(struct target_ns *ns, struct target_group *g);
void ns_leave(struct target_ns *ns, struct target_subsys *s, void (*gone)(struct target_ns *ns));

/* --- authentication: the admin plane's ------------------------------------------------------- */

/* A queue has ended: whoever was to prove himself on it, and has not, has failed; what it has of it
 * is wiped. */
void auth_end(struct target_queue *q);
/* A key of TLS that was generated for a host which has proved that it has the other one is to be
 * known from now on. False: no memory. */
bool tls_keep(struct target *t, const struct auth_psk *psk, const struct auth_key *proved) must_use;
/* The same in the place of the one by which this queue has come: no other can come by that. */
bool tls_replace(struct target_queue *q, const struct auth_psk *psk,
		 const struct auth_key *proved) must_use;
/* Whether another association has begun by an admin queue's key; this one has. */
bool tls_is_taken(const struct target_queue *q);
void tls_take(struct target_queue *q);
/* A queue has ended. */
void tls_leave(struct target_queue *q);
void tls_tick(struct target *t, uint64_t now_ns);
/* All of them are forgotten. */
void tls_fini(struct target *t);

/* --- controllers --------------------------------------------------------------------------- */

/* Whether a host may have one more, and there is an ID for it. */
bool ctrl_has_room(const struct target_subsys *s, const uint8_t peer[16]);
/* NULL: no memory, or no ID left. */
struct target_ctrl *ctrl_create(struct target_subsys *s, const struct nvmf_connect_data *d,
				const struct target_queue *q, uint32_t kato_ms);
/* why: of its admin queue, or NULL. */
void ctrl_destroy(struct target_ctrl *c, const char *why);
/* One who has it in hand has it no more. */
void ctrl_put(struct target_ctrl *c);
/* Something of a subsystem has ended: perhaps it was the last. */
void subsys_settle(struct target_subsys *s);
void ctrl_set_cc(struct target_ctrl *c, uint32_t cc);
void ctrl_arm_kato(struct target_ctrl *c);
/* In the granularity that Identify tells; one for discovery always has one. */
void ctrl_set_kato(struct target_ctrl *c, uint32_t ms);
/* Its keep-alive timer has fired. */
void ctrl_kato_fired(struct target_ctrl *c);
/* What came on all its queues. */
void ctrl_counts(const struct target_ctrl *c, struct target_counts *ret);
/* What came on all queues that there ever were; nobody is busy in it. */
void subsys_counts(const struct target_subsys *s, struct target_counts *ret);
/* A queue has its ID from here on. False: another has. */
bool ctrl_bind_queue(struct target_ctrl *c, struct target_queue *q);
/* A queue is no longer among them. */
void ctrl_forget_queue(struct target_ctrl *c, struct target_queue *q);
void ctrl_features_reset(struct target_ctrl *c);
/* Ends the connections of all queues from first_qid on; why may be NULL. */
void ctrl_disconnect_queues(struct target_ctrl *c, uint32_t first_qid, const char *why);
void ctrl_abort_aers(struct target_ctrl *c, uint16_t status);
/* What a discovery controller tells has begun. */
void discovery_begin(struct target_ctrl *c);
/* Something has changed that discovery tells: hosts hear of it in the next tick, who see it. */
void discovery_changed(struct target *t);
void discovery_look(struct target *t);
/* Hosts of the subsystem hear that a namespace is not as it was. */
void ns_tell(struct target_subsys *s, uint32_t nsid);
/* Of the log page of features: a word for each. */
void features_supported(const struct target_ctrl *c, uint32_t ret[256]);
/* Events: raise sets a bit of OAES pending; reading the log page that goes with it unmasks it. */
void ctrl_raise(struct target_ctrl *c, uint32_t oaes_bit);
void ctrl_event_read(struct target_ctrl *c, uint32_t oaes_bit);
void ctrl_send_events(struct target_ctrl *c);

/* An Asynchronous Event Request waits for as long as nothing happens, often to the end; that it is
 * given back then is no answer, and no error of anybody's. */
static inline bool req_waited_in_vain(const struct target_req *r)
{
	uint16_t status = r->cqe.status & NVME_STATUS_CODE;

	return !r->queue->qid && r->sqe.opcode == NVME_ADMIN_ASYNC_EVENT &&
	       (status == NVME_SC_ABORT_QUEUE || status == NVME_SC_ABORT_REQ);
}

static inline uint64_t *target_event_counter(struct target *t, enum target_event_type type)
{
	struct target_counters *c = t->counters;

	switch (type) {
	case TARGET_EVENT_CTRL_NEW:
		return &c->controllers;
	case TARGET_EVENT_CTRL_GONE:
		return &c->controllers_gone;
	case TARGET_EVENT_KEEP_ALIVE_EXPIRED:
		return &c->keep_alive_expired;
	case TARGET_EVENT_CONNECT_REFUSED:
		return &c->connects_refused;
	case TARGET_EVENT_QUEUE_NEW:
		return &c->io_queues;
	case TARGET_EVENT_QUEUE_FAILED:
		return &c->queues_failed;
	case TARGET_EVENT_FLUSH_FAILED:
		return &c->flushes_failed;
	case TARGET_EVENT_STORE_FAILED:
		return &c->store_errors;
	case TARGET_EVENT_STALLED:
		return &c->stalls;
	case TARGET_EVENT_STALL_OVER:
		return &c->stalls_over;
	case TARGET_EVENT_REJECTED:
		return &c->connections_rejected;
	case TARGET_EVENT_AUTHENTICATED:
		return &c->authentications;
	case TARGET_EVENT_AUTH_FAILED:
		return &c->authentications_failed;
	}
	assert(!"no such event");
	return NULL;
}

/* Of a connection that came to nothing, once: why; else NULL. */
static inline const char *target_event_refusal(const struct target_event *e)
{
	switch (e->type) {
	case TARGET_EVENT_CONNECT_REFUSED:
		return nvme_status_name(e->status);
	case TARGET_EVENT_REJECTED:
		return e->why;
	case TARGET_EVENT_QUEUE_FAILED:
		return e->ctrl || e->queue->unproved ? NULL : e->why;
	case TARGET_EVENT_AUTH_FAILED:
		return e->queue->proved ? NULL : e->why; /* it had come to something */
	default:
		return NULL;
	}
}

static inline void target_emit(struct target *t, const struct target_event *e)
{
	const char *refusal = target_event_refusal(e);

	++*target_event_counter(t, e->type);
	if (refusal && t->group.figures)
		figures_refused(t->group.figures, refusal);
	if (t->env.event)
		t->env.event(t->env.ctx, e);
}

/* Who a host of this name is, or NULL. */
static inline const struct target_host *target_find_host(const struct target *t, const char *nqn)
{
	const struct target_host *any = NULL;

	list_for_each(h, &t->hosts, const struct target_host, link)
		if (nvmf_nqn_equal(h->nqn, nqn))
			return h;
		else if (!h->nqn[0])
			any = h;
	return any;
}

/* As things are: discovery asks nobody for a proof. */
static inline bool host_must_prove(const struct target_subsys *s, const char *nqn)
{
	const struct target_host *h = target_find_host(s->target, nqn);

	return !s->discovery && h && h->key.len;
}

static inline bool target_allows(const struct target_subsys *s, const char hostnqn[NVME_NQN_LEN])
{
	for (uint32_t i = 0; s->hosts && i < s->host_count; i++)
		if (nvmf_nqn_equal(hostnqn, s->hosts[i]))
			return true;
	return s->hosts == NULL;
}

static inline bool target_offers(const struct target_port *p, const struct target_subsys *s)
{
	for (uint32_t i = 0; p->subsystems && i < p->subsys_count; i++)
		if (p->subsystems[i] == s)
			return true;
	return p->subsystems == NULL || s->discovery;
}

static inline bool ns_write_protected(const struct target_ns *ns)
{
	return ns->read_only || atomic_load_explicit(&ns->protect, memory_order_relaxed);
}

/* To be called before anybody is told. An error by which a host may try again is none of what was
 * written before, nor is one of blocks that are not. */
static inline void ns_flush_failed(struct target_ns *ns, const struct target_group *g, int error)
{
	uint64_t at = max_of(g->now_ns, (uint64_t)1);

	if (error == -ERANGE || !(errno_to_status(error, STORE_FLUSH) & NVME_STATUS_DNR))
		return;
	atomic_store_explicit(&ns->flush_failed_ns, at, memory_order_relaxed);
	atomic_store(&ns->flush_failure, atomic_fetch_add(&g->target->flush_failures, 1) + 1);
}

#endif
