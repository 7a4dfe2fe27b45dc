/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Authentication Send and Receive: DH-HMAC-CHAP as the controller does it. Base 2.0 sections 6.1,
 * 6.2, 8.13.
 *
 * A queue that must prove itself can do nothing else until it has, within TARGET_AUTH_NS of its
 * Connect; one that has may do it again, and stays what it is meanwhile. The admin plane has the
 * keys and the transaction, one for each queue at most, made when its first message comes and
 * forgotten with its end. What is wrong with a message is a failure, which the host fetches; so is
 * a wrong proof. A failure is the end of the queue: of the admin queue, of its controller, even
 * where that had proved itself before. There is no second guess at a challenge, and a queue that
 * begins again and again without an end is failed, too. Of an I/O queue the ID is not taken before:
 * whose host says no more than who he is keeps nobody from it.
 *
 * A host may ask for a key of TLS to come of it (secure channel concatenation, section 8.13.5.9):
 * one for a new association, on an admin queue that is plain where its port has TLS as well, and
 * that queue can do nothing more from then on; or one in the place of that by which the queue has
 * come. tls.c keeps them.
 *
 *	NEGOTIATE -> CHALLENGE -> REPLY -> SUCCESS1 [-> SUCCESS2] -> (over)
 *	any of them -> FAILURE1 -> OVER
 */
#include "nvmf/auth/proof.h"
#include "nvmf/target/internal.h"
#include "wire/nvme_auth.h"

#define MESSAGE_ROOM_MAX 4096 /* of what a host may send */
#define TRIES_MAX	 4    /* transactions begun on a queue before one of them succeeds */

enum step {
	STEP_NEGOTIATE, /* the host is to begin */
	STEP_CHALLENGE, /* it is to fetch a challenge */
	STEP_REPLY,	/* it is to answer */
	STEP_SUCCESS1,	/* it is to fetch that the answer is right */
	STEP_SUCCESS2,	/* it is to say that our answer is right, too */
	STEP_FAILURE1,	/* it is to fetch why it fails */
	STEP_OVER,	/* it has; the connection ends soon */
};

enum verdict {
	VERDICT_NONE,
	VERDICT_PROVED,
	VERDICT_SECURED, /* the host is to come again by TLS */
	VERDICT_FAILED,	 /* the host has not been told */
	VERDICT_TOLD,
};

struct target_auth {
	enum step step;
	uint8_t failure;
	uint16_t t_id;
	uint64_t deadline_ns;
	uint8_t hash, dhgroup, sc_c;
	uint32_t seqnum, host_seqnum;
	bool mutual; /* the host has challenged us */
	uint8_t challenge[NVMF_AUTH_HASH_MAX], host_challenge[NVMF_AUTH_HASH_MAX];
	uint8_t random[AUTH_DH_PRIVATE_LEN], secret[NVMF_AUTH_DH_MAX];
	struct auth_key key, ctrl_key;
};

static void forget(struct target_queue *q)
{
	struct target *t = q->target;

	if (!q->auth)
		return;
	auth_wipe(q->auth, sizeof(*q->auth));
	t->env.free(t->env.ctx, q->auth);
	q->auth = NULL;
}

static void draw(struct target *t, void *p, size_t len)
{
	t->env.random(t->env.ctx, p, len);
}

static void tell(const struct target_queue *q, enum target_event_type type, const char *why)
{
	target_emit(
		q->target,
		&(struct target_event){
			.type = type, .ctrl = q->owner, .queue = q, .peer = q->raddr, .why = why});
}

void auth_end(struct target_queue *q)
{
	if (q->unproved)
		tell(q, TARGET_EVENT_AUTH_FAILED, q->why[0] ? q->why : TARGET_UNPROVED);
	q->unproved = false;
	forget(q);
}

static enum verdict fail(struct target_queue *q, enum nvmf_auth_failure failure)
{
	struct target_auth *a = q->auth;
	uint16_t t_id = a->t_id;

	auth_wipe(a, sizeof(*a));
	*a = (struct target_auth){.step = STEP_FAILURE1, .failure = failure, .t_id = t_id};
	tell(q, TARGET_EVENT_AUTH_FAILED, nvmf_auth_failure_name(failure));
	q->unproved = false;
	return VERDICT_FAILED;
}

/* The key of TLS that was asked for, if one was. False: no memory. */
static bool make_psk(struct target_queue *q)
{
	const struct target_auth *a = q->auth;
	struct auth_psk psk;
	bool ok;

	if (a->sc_c == NVMF_AUTH_NOSC)
		return true;
	ok = auth_psk_generate(a->hash, a->secret, auth_dh_len(a->dhgroup), a->challenge,
			       a->host_challenge, q->owner->hostnqn, q->owner->subsys->nqn, &psk) &&
	     (a->sc_c == NVMF_AUTH_NEWTLSPSK ? tls_keep(q->target, &psk, &a->key)
					     : tls_replace(q, &psk, &a->key));
	auth_wipe(&psk, sizeof(psk));
	return ok;
}

/* What comes of it. False: no memory, or another queue has come by its ID meanwhile. */
static bool settle(struct target_queue *q)
{
	return make_psk(q) && ctrl_bind_queue(q->owner, q);
}

/* Who is to come again has nothing proved here by which he could go on and on. */
static enum verdict prove(struct target_queue *q)
{
	bool leaves = q->auth->sc_c == NVMF_AUTH_NEWTLSPSK;

	q->owner->leaves |= leaves;
	q->proved = !leaves;
	q->unproved = false;
	if (!leaves)
		q->auth_tries = 0;
	tell(q, TARGET_EVENT_AUTHENTICATED, NULL);
	forget(q);
	return leaves ? VERDICT_SECURED : VERDICT_PROVED;
}

/* --- what the host sends ---------------------------------------------------------------------- */

/* The least of the IDs that is least or more; -1: there is none. Those we know have no gaps. */
static int choose(const uint8_t *ids, uint8_t count, int least, int last)
{
	int best = -1;

	for (unsigned int i = 0; i < count; i++)
		if (ids[i] >= least && ids[i] <= last && (best < 0 || ids[i] < best))
			best = ids[i];
	return best;
}

/* Who has a key has no use for a new one, and who has none has nothing that could be replaced. */
static bool may_concatenate(const struct target_queue *q, uint8_t sc_c)
{
	if (q->qid || !q->port)
		return false;
	if (sc_c == NVMF_AUTH_NEWTLSPSK)
		return !q->secure && q->port->tls == TARGET_TLS_OFFERED;
	return sc_c == NVMF_AUTH_REPLACETLSPSK && q->psk;
}

/* The group, or -1 and why: of the NULL group comes no secret that a key could be made of. */
static int choose_dhgroup(const struct nvmf_auth_negotiate *n, const struct target_host *h,
			  enum nvmf_auth_failure *ret_why)
{
	int group = choose(n->dhgroups, n->dhlen, h->dhgroup, NVMF_AUTH_DH_8192);

	*ret_why = NVMF_AUTH_DHGROUP_UNUSABLE;
	if (group != NVMF_AUTH_DH_NULL || n->sc_c == NVMF_AUTH_NOSC)
		return group;
	*ret_why = NVMF_AUTH_CONCAT_MISMATCH;
	return choose(n->dhgroups, n->dhlen, NVMF_AUTH_DH_2048, NVMF_AUTH_DH_8192);
}

static enum verdict take_negotiate(struct target_queue *q, struct cursor *c)
{
	struct target_auth *a = q->auth;
	const struct target_host *h = target_find_host(q->target, q->owner->hostnqn);
	enum nvmf_auth_failure why;
	struct nvmf_auth_negotiate n;
	int hash, dhgroup;

	auth_wipe(a, sizeof(*a));
	*a = (struct target_auth){.step = STEP_NEGOTIATE};
	nvmf_auth_negotiate_get(c, &n);
	a->t_id = n.t_id;
	if (!q->proved && ++q->auth_tries > TRIES_MAX)
		return fail(q, NVMF_AUTH_FAILED);
	if (c->overrun || n.halen > NVMF_AUTH_IDS_MAX || n.dhlen > NVMF_AUTH_IDS_MAX)
		return fail(q, NVMF_AUTH_INCORRECT_PAYLOAD);
	if (!n.dhchap || !h || !h->key.len)
		return fail(q, NVMF_AUTH_NOT_USABLE);
	/* Who is to come by TLS is not let in without it by another proof. */
	if (n.sc_c == NVMF_AUTH_NOSC ? q->owner->leaves : !may_concatenate(q, n.sc_c))
		return fail(q, NVMF_AUTH_CONCAT_MISMATCH);
	/* No cipher suite has SHA-512. */
	hash = choose(n.hashes, n.halen, max_of((int)h->hash, NVMF_AUTH_SHA256),
		      n.sc_c == NVMF_AUTH_NOSC ? NVMF_AUTH_SHA512 : NVMF_AUTH_SHA384);
	if (hash < 0)
		return fail(q, NVMF_AUTH_HASH_UNUSABLE);
	dhgroup = choose_dhgroup(&n, h, &why);
	if (dhgroup < 0)
		return fail(q, why);
	a->hash = (uint8_t)hash;
	a->dhgroup = (uint8_t)dhgroup;
	a->sc_c = n.sc_c;
	a->key = h->key;
	a->ctrl_key = h->ctrl_key;
	a->deadline_ns = q->target->group.now_ns + TARGET_AUTH_NS;
	a->step = STEP_CHALLENGE;
	return VERDICT_NONE;
}

static struct auth_round round_of(const struct target_queue *q)
{
	const struct target_auth *a = q->auth;

	return (struct auth_round){.hash = a->hash,
				   .t_id = a->t_id,
				   .sc_c = a->sc_c,
				   .hostnqn = q->owner->hostnqn,
				   .subnqn = q->owner->subsys->nqn,
				   .secret = a->secret,
				   .secret_len = auth_dh_len(a->dhgroup)};
}

static enum verdict take_reply(struct target_queue *q, struct cursor *c)
{
	struct target_auth *a = q->auth;
	size_t hl = auth_hash_len(a->hash);
	uint8_t expected[NVMF_AUTH_HASH_MAX];
	struct auth_round round;
	struct nvmf_auth_reply r;
	bool right;

	nvmf_auth_reply_get(c, &r);
	if (c->overrun || r.hl != hl || r.dhvlen != auth_dh_len(a->dhgroup))
		return fail(q, NVMF_AUTH_INCORRECT_PAYLOAD);
	if (r.dhvlen && !auth_dh_secret(a->dhgroup, a->random, r.dhval, a->secret))
		return fail(q, NVMF_AUTH_INCORRECT_PAYLOAD);
	round = round_of(q);
	right = auth_host_response(&round, &a->key, a->challenge, a->seqnum, expected) &&
		auth_equal(expected, r.rval, hl);
	auth_wipe(expected, sizeof(expected));
	/* A sequence number of 0 says that a challenge is not for us to answer: a key is made of
	 * it. */
	a->mutual = r.cvalid && r.seqnum;
	if (right && a->sc_c != NVMF_AUTH_NOSC)
		right = r.cvalid;
	/* Who has no key that we know challenges us in vain; who sends our own challenge back would
	 * have us answer it. */
	if (!right || (a->mutual && (!a->ctrl_key.len || auth_equal(r.cval, a->challenge, hl))))
		return fail(q, NVMF_AUTH_FAILED);
	if (r.cvalid) {
		memcpy(a->host_challenge, r.cval, hl);
		a->host_seqnum = r.seqnum;
	}
	a->step = STEP_SUCCESS1;
	return VERDICT_NONE;
}

/* Common messages are a queue's own, the others belong to the transaction. */
static enum verdict take(struct target_queue *q, const void *data, size_t len)
{
	struct cursor c = cursor_init(data, len);
	struct target_auth *a = q->auth;
	bool late = a->deadline_ns && q->target->group.now_ns >= a->deadline_ns;
	struct nvmf_auth_head h;

	if (a->step == STEP_FAILURE1)
		return VERDICT_FAILED;
	nvmf_auth_head_peek(&c, &h);
	if (c.overrun)
		return fail(q, NVMF_AUTH_INCORRECT_PAYLOAD);
	if (h.type == NVMF_AUTH_COMMON && h.id == NVMF_AUTH_NEGOTIATE)
		return take_negotiate(q, &c);
	if (h.type == NVMF_AUTH_COMMON && h.id == NVMF_AUTH_FAILURE2) {
		(void)fail(q, NVMF_AUTH_FAILED);
		a->step = STEP_OVER;
		return VERDICT_TOLD;
	}
	if (h.type != NVMF_AUTH_DHCHAP || late ||
	    !((h.id == NVMF_AUTH_REPLY && a->step == STEP_REPLY) ||
	      (h.id == NVMF_AUTH_SUCCESS2 && a->step == STEP_SUCCESS2)))
		return fail(q, NVMF_AUTH_INCORRECT_MESSAGE);
	if (h.t_id != a->t_id)
		return fail(q, NVMF_AUTH_INCORRECT_PAYLOAD);
	if (h.id == NVMF_AUTH_REPLY)
		return take_reply(q, &c);
	return settle(q) ? prove(q) : fail(q, NVMF_AUTH_FAILED);
}

/* --- what the host fetches -------------------------------------------------------------------- */

static enum verdict give_failure(struct target_queue *q, struct wcursor *w)
{
	struct target_auth *a = q->auth;
	const struct nvmf_auth_failure_msg f = {
		.t_id = a->t_id, .reason = NVMF_AUTH_REASON_FAILED, .explanation = a->failure};

	nvmf_auth_failure_put(w, NVMF_AUTH_FAILURE1, &f);
	if (!w->overrun)
		a->step = STEP_OVER;
	return VERDICT_TOLD;
}

static enum verdict give_challenge(struct target_queue *q, struct wcursor *w)
{
	struct target_auth *a = q->auth;
	struct target *t = q->target;
	uint8_t public[NVMF_AUTH_DH_MAX];
	struct nvmf_auth_challenge ch = {.t_id = a->t_id,
					 .hl = (uint8_t)auth_hash_len(a->hash),
					 .hash = a->hash,
					 .dhgroup = a->dhgroup,
					 .dhvlen = (uint16_t)auth_dh_len(a->dhgroup),
					 .cval = a->challenge,
					 .dhval = public};

	draw(t, a->challenge, ch.hl);
	if (ch.dhvlen) {
		draw(t, a->random, sizeof(a->random));
		if (!auth_dh_public(a->dhgroup, a->random, public)) {
			(void)fail(q, NVMF_AUTH_FAILED);
			return give_failure(q, w);
		}
	}
	if (!t->auth_seqnum)
		draw(t, &t->auth_seqnum, sizeof(t->auth_seqnum));
	t->auth_seqnum += t->auth_seqnum == UINT32_MAX ? 2 : 1; /* never 0 */
	ch.seqnum = a->seqnum = t->auth_seqnum;
	nvmf_auth_challenge_put(w, &ch);
	a->step = STEP_REPLY;
	return VERDICT_NONE;
}

static enum verdict give_success1(struct target_queue *q, struct wcursor *w)
{
	struct target_auth *a = q->auth;
	uint8_t response[NVMF_AUTH_HASH_MAX];
	struct nvmf_auth_success1 s = {.t_id = a->t_id,
				       .hl = (uint8_t)auth_hash_len(a->hash),
				       .rvalid = a->mutual,
				       .rval = response};
	const struct auth_round round = round_of(q);

	if (a->mutual ? !auth_ctrl_response(&round, &a->ctrl_key, a->host_challenge, a->host_seqnum,
					    response)
		      : !settle(q)) {
		(void)fail(q, NVMF_AUTH_FAILED);
		return give_failure(q, w);
	}
	nvmf_auth_success1_put(w, &s);
	if (!a->mutual)
		return prove(q);
	a->step = STEP_SUCCESS2;
	return VERDICT_NONE;
}

/* The bytes of the message that comes next. */
static size_t next_len(const struct target_auth *a)
{
	size_t hl = auth_hash_len(a->hash);

	switch (a->step) {
	case STEP_CHALLENGE:
		return 16 + hl + auth_dh_len(a->dhgroup);
	case STEP_SUCCESS1:
		return 16 + (a->mutual ? hl : 0);
	default:
		return 8; /* a failure */
	}
}

static enum verdict give(struct target_queue *q, struct wcursor *w)
{
	switch (q->auth->step) {
	case STEP_CHALLENGE:
		return give_challenge(q, w);
	case STEP_SUCCESS1:
		return give_success1(q, w);
	case STEP_FAILURE1:
		return give_failure(q, w);
	default: /* there is nothing to fetch */
		(void)fail(q, NVMF_AUTH_INCORRECT_MESSAGE);
		return give_failure(q, w);
	}
}

/* --- the commands ----------------------------------------------------------------------------- */

/* The group's. Time that runs is for a host that has not proved itself, and no message prolongs it
 * but the last. */
static void done(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct target_queue *q = r->queue;
	struct timer_heap *timers = &q->group->connect_timers;
	bool was = q->authenticated;

	if (r->verdict == VERDICT_PROVED && q->ctrl) {
		q->authenticated = true;
		timer_cancel(timers, &q->connect_timer);
	} else if (r->verdict == VERDICT_SECURED) {
		q->authenticated = false;
		if (!q->disconnected)
			timer_arm(timers, &q->connect_timer, q->group->now_ns + TARGET_AUTH_NS);
	} else if (r->verdict == VERDICT_FAILED || r->verdict == VERDICT_TOLD) {
		q->authenticated = false;
		if (!q->disconnected && (was || r->verdict == VERDICT_TOLD))
			timer_arm(timers, &q->connect_timer,
				  q->group->now_ns + (r->verdict == VERDICT_TOLD
							      ? TARGET_AUTH_PARTING_NS
							      : TARGET_AUTH_NS));
	}
	req_complete(r, r->cqe.status);
}

/* 0, or a status: without a controller, or where the queue has failed, nothing more is done. */
static uint16_t begin(struct target_queue *q)
{
	struct target *t = q->target;

	if (!q->owner || q->left)
		return NVME_SC_ABORT_QUEUE;
	if (!q->auth)
		q->auth = t->env.alloc(t->env.ctx, sizeof(*q->auth));
	if (!q->auth)
		return NVME_SC_INTERNAL;
	return q->auth->step == STEP_OVER ? FAIL(NVME_SC_OP_DENIED) : NVME_SC_SUCCESS;
}

static void answer(struct target_req *r, uint16_t status, enum verdict verdict)
{
	r->cqe.status = status;
	r->verdict = (uint8_t)verdict;
	group_tell(&r->queue->target->group, r->queue->group, &r->msg, done);
}

static void sent(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	uint16_t status = begin(r->queue);

	answer(r, status, status ? VERDICT_NONE : take(r->queue, r->data, r->data_len));
}

static void fetched(struct target_msg *m)
{
	struct target_req *r = msg_req(m);
	struct wcursor w = wcursor_init(r->data, r->data_len);
	uint16_t status = begin(r->queue);

	memset(r->data, 0, r->data_len);
	if (!status && next_len(r->queue->auth) > r->data_len)
		status = req_fail_at(r, NVMF_AUTH_SQE_LEN, FAIL(NVME_SC_INVALID_FIELD));
	answer(r, status, status ? VERDICT_NONE : give(r->queue, &w));
}

static void execute_auth_send(struct target_req *r)
{
	group_tell(r->queue->group, &r->queue->target->group, &r->msg, sent);
}

static void execute_auth_recv(struct target_req *r)
{
	group_tell(r->queue->group, &r->queue->target->group, &r->msg, fetched);
}

static uint16_t parse(struct target_req *r, struct nvmf_auth_cmd *ret)
{
	nvmf_auth_cmd_from_sqe(ret, &r->sqe);
	if (r->queue->ctrl->subsys->discovery)
		return FAIL(NVME_SC_INVALID_OPCODE);
	if (ret->secp != NVMF_AUTH_SECP)
		return req_fail_at(r, NVMF_AUTH_SQE_SECP, FAIL(NVME_SC_INVALID_FIELD));
	if (ret->spsp0 != NVMF_AUTH_SPSP)
		return req_fail_at(r, NVMF_AUTH_SQE_SPSP0, FAIL(NVME_SC_INVALID_FIELD));
	if (ret->spsp1 != NVMF_AUTH_SPSP)
		return req_fail_at(r, NVMF_AUTH_SQE_SPSP1, FAIL(NVME_SC_INVALID_FIELD));
	if (!ret->len)
		return req_fail_at(r, NVMF_AUTH_SQE_LEN, FAIL(NVME_SC_INVALID_FIELD));
	return NVME_SC_SUCCESS;
}

uint16_t parse_auth_send(struct target_req *r)
{
	struct nvmf_auth_cmd cmd;
	uint16_t status = parse(r, &cmd);

	if (status)
		return status;
	if (cmd.len > MESSAGE_ROOM_MAX)
		return req_fail_at(r, NVMF_AUTH_SQE_LEN, FAIL(NVME_SC_INVALID_FIELD));
	r->execute = execute_auth_send;
	return req_expects(r, cmd.len);
}

uint16_t parse_auth_recv(struct target_req *r)
{
	struct nvmf_auth_cmd cmd;
	uint16_t status = parse(r, &cmd);

	if (status)
		return status;
	r->execute = execute_auth_recv;
	return req_expects_part(r, cmd.len, NVMF_AUTH_MESSAGE_MAX);
}
