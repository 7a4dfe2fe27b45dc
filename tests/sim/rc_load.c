/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a side does when its time comes: posts RECVs and random work, and now and then mischief. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rc_world.h"

static uint64_t below(struct side *s, uint64_t n)
{
	return prng_below(s->w->prng, n);
}

/* A length: often none, few, or about a packet's border. */
static uint32_t random_len(struct side *s, uint32_t max)
{
	uint32_t mtu = s->w->mtu, len;

	switch (below(s, 8)) {
	case 0:
		return 0;
	case 1:
	case 2:
		len = (uint32_t)below(s, 64);
		break;
	case 3:
	case 4:
		len = (uint32_t)(below(s, 5) + 1) * mtu + (uint32_t)below(s, 3) - 1;
		break;
	case 5:
	case 6:
		len = (uint32_t)below(s, 4 * mtu);
		break;
	default:
		len = (uint32_t)below(s, max + 1);
		break;
	}
	return min_of(len, max);
}

/* ---- posting -------------------------------------------------------------------------------- */

static void keep(struct side *s, struct wr_rec *r)
{
	*s->sends_tail = r;
	s->sends_tail = &r->next;
	s->nsends++;
	s->unsignaled = r->signaled ? 0 : s->unsignaled + 1;
	if (s->to_post)
		s->to_post--;
}

/* Posts, and keeps the record; false when the queue is full and nothing happened. */
static bool post(struct side *s, struct wr_rec *r, struct rnic_send_wr *wr)
{
	int err;

	r->id = wr->wr_id = s->next_send_id;
	r->opcode = wr->opcode;
	/* An unsignaled one is retired with the next signaled: there must be one. */
	r->signaled = below(s, 3) != 0 || s->to_post <= 1 || r->doomed ||
		      wr->opcode == RNIC_WR_BIND_MW || wr->opcode == RNIC_WR_LOCAL_INV ||
		      s->unsignaled + 1 >= s->cap.max_send_wr;
	if (r->signaled)
		wr->flags |= RNIC_SEND_SIGNALED;
	if (below(s, 10) == 0)
		wr->flags |= RNIC_SEND_FENCE;
	if (below(s, 4) == 0)
		wr->flags |= RNIC_SEND_SOLICITED;
	if (s->xrc)
		wr->xrc_srqn = rnic_srq_num(s->peer->xrc_srq);
	err = rnic_post_send(s->qp, wr, fabric_now(s->w->fabric));
	if (err) {
		expect(s->w, err == -12, "post_send of opcode %u says %d", wr->opcode, err);
		landing_close(r->land);
		landing_close(r->source);
		free(r->data);
		free(r);
		return false;
	}
	s->next_send_id++;
	keep(s, r);
	node_kick(side_node(s)->node);
	return true;
}

static struct wr_rec *rec_new(uint32_t len)
{
	struct wr_rec *r = calloc(1, sizeof(*r));

	r->len = len;
	r->target_off = UINT32_MAX;
	r->data = malloc(len ? len : 1);
	return r;
}

/* Random pieces of the arena as the source, and what they come to. */
static void source_from_arena(struct side *s, struct wr_rec *r, struct rnic_send_wr *wr,
			      struct rnic_sge *sge)
{
	const struct rc_node *n = side_node(s);
	bool inlined = r->len <= s->cap.max_inline_data && below(s, 2);
	uint32_t max = inlined ? SGE_MAX : s->cap.max_send_sge;
	uint32_t left = r->len, at = 0;

	wr->sge = sge;
	wr->num_sge = (uint32_t)prng_range(s->w->prng, r->len ? 1 : 0, min_of(max, SGE_MAX));
	for (uint32_t i = 0; i < wr->num_sge; i++) {
		uint32_t len = i + 1 == wr->num_sge ? left : (uint32_t)below(s, left + 1);
		uint32_t off = (uint32_t)below(s, ARENA_BYTES - len);
		const struct rnic_mr *mr = off < ARENA_BYTES / 2 ? n->arena_mr : n->half_mr;

		sge[i] = (struct rnic_sge){(uintptr_t)n->arena + off, len,
					   inlined ? 0 : rnic_mr_lkey(mr)};
		memcpy(r->data + at, n->arena + off, len);
		at += len;
		left -= len;
	}
	if (inlined)
		wr->flags |= RNIC_SEND_INLINE;
}

static void message_coming(struct side *to, const struct wr_rec *r, const struct rnic_send_wr *wr)
{
	struct msg_rec *m = calloc(1, sizeof(*m));

	m->len = r->len;
	m->imm_or_rkey = wr->imm_or_rkey;
	m->is_write = wr->opcode == RNIC_WR_RDMA_WRITE_WITH_IMM;
	if (wr->opcode == RNIC_WR_SEND_WITH_INV)
		m->flags = RNIC_WC_WITH_INV;
	else if (wr->opcode != RNIC_WR_SEND)
		m->flags = RNIC_WC_WITH_IMM;
	if (!m->is_write) {
		m->data = malloc(r->len ? r->len : 1);
		memcpy(m->data, r->data, r->len);
	}
	*to->coming_tail = m;
	to->coming_tail = &m->next;
	to->ncoming++;
}

static bool post_send(struct side *s)
{
	struct wr_rec *r = rec_new(random_len(s, s->w->max_len));
	struct rnic_send_wr wr = {.opcode = RNIC_WR_SEND};
	struct rnic_sge sge[SGE_MAX];
	uint64_t kind = below(s, 6);

	if (kind == 0) {
		wr.opcode = RNIC_WR_SEND_WITH_IMM;
		wr.imm_or_rkey = (uint32_t)prng_u64(s->w->prng);
	} else if (kind == 1 && s->peer->window == WINDOW_BOUND && !s->peer->window_type1) {
		wr.opcode = RNIC_WR_SEND_WITH_INV;
		wr.imm_or_rkey = s->peer->window_rkey;
		/* READs through it must be over; unordered without. */
		wr.flags = RNIC_SEND_FENCE;
	}
	source_from_arena(s, r, &wr, sge);
	if (!post(s, r, &wr))
		return false;
	if (wr.opcode == RNIC_WR_SEND_WITH_INV)
		s->peer->window = WINDOW_UNBINDING; /* nobody uses it after this */
	message_coming(s->peer, r, &wr);
	return true;
}

/* A place in the peer's target, through its window when there is one. */
static void aim_at_target(struct side *s, struct wr_rec *r, struct rnic_send_wr *wr)
{
	struct side *p = s->peer;

	if (p->window == WINDOW_BOUND && r->len <= p->window_len && below(s, 2)) {
		uint32_t in = (uint32_t)below(s, p->window_len - r->len + 1);

		r->through_window = true;
		r->target_off = p->window_off + in;
		wr->rkey = p->window_rkey;
		wr->remote_addr = p->window_zero_based ? in : p->target_iova + r->target_off;
		return;
	}
	r->target_off = (uint32_t)below(s, p->target_len - r->len + 1);
	wr->rkey = rnic_mr_rkey(p->target_mr);
	wr->remote_addr = p->target_iova + r->target_off;
}

static bool post_write(struct side *s)
{
	struct side *p = s->peer;
	bool atomic = p->target_iova % 8 == 0 && p->target_len >= 16 && below(s, 4) == 0;
	struct wr_rec *r = rec_new(atomic ? 8 : random_len(s, s->w->max_len));
	struct rnic_send_wr wr = {.opcode = RNIC_WR_RDMA_WRITE};
	struct rnic_sge sge[SGE_MAX];

	if (atomic) {
		wr.opcode = RNIC_WR_ATOMIC_WRITE;
	} else if (below(s, 4) == 0) {
		wr.opcode = RNIC_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_or_rkey = (uint32_t)prng_u64(s->w->prng);
	}
	source_from_arena(s, r, &wr, sge);
	if (atomic) {
		r->target_off = (uint32_t)below(s, p->target_len / 8) * 8;
		wr.rkey = rnic_mr_rkey(p->target_mr);
		wr.remote_addr = p->target_iova + r->target_off;
	} else {
		aim_at_target(s, r, &wr);
	}
	if (!post(s, r, &wr))
		return false;
	r->write_seq = ++p->write_seq;
	memcpy(p->model + r->target_off, r->data, r->len);
	for (uint32_t i = 0; i < r->len; i++)
		p->owner[r->target_off + i] = (uint16_t)r->write_seq;
	p->window_refs += r->through_window;
	if (wr.opcode == RNIC_WR_RDMA_WRITE_WITH_IMM)
		message_coming(p, r, &wr);
	return true;
}

static bool post_read(struct side *s)
{
	struct wr_rec *r = rec_new(random_len(s, s->w->max_len));
	struct rnic_send_wr wr = {.opcode = RNIC_WR_RDMA_READ};
	const struct rc_node *pn = side_node(s->peer);

	r->land = landing_open(s, r->len, s->cap.max_send_sge, RNIC_ACCESS_LOCAL_WRITE);
	wr.sge = r->land->sge;
	wr.num_sge = r->land->nsge;
	if (below(s, 3) == 0) {
		aim_at_target(s, r, &wr);
		r->write_seq = s->peer->write_seq;
		memcpy(r->data, s->peer->model + r->target_off, r->len);
	} else {
		uint32_t off = (uint32_t)below(s, ARENA_BYTES - r->len);

		wr.rkey = rnic_mr_rkey(pn->arena_mr);
		wr.remote_addr = (uintptr_t)pn->arena + off;
		memcpy(r->data, pn->arena + off, r->len);
	}
	if (!post(s, r, &wr))
		return false;
	s->peer->window_refs += r->through_window;
	return true;
}

static bool post_fetch_add(struct side *s)
{
	struct wr_rec *r = rec_new(8);
	struct rnic_send_wr wr = {.opcode = RNIC_WR_ATOMIC_FETCH_AND_ADD};

	r->land = landing_open(s, 8, s->cap.max_send_sge, RNIC_ACCESS_LOCAL_WRITE);
	r->counter = (uint32_t)below(s, COUNTERS);
	r->add = prng_range(s->w->prng, 1, 1u << 20);
	wr.sge = r->land->sge;
	wr.num_sge = r->land->nsge;
	wr.compare_add = r->add;
	wr.rkey = rnic_mr_rkey(side_node(s->peer)->counters_mr);
	wr.remote_addr = 0x1000 + r->counter * 8;
	return post(s, r, &wr);
}

static bool post_compare_swap(struct side *s)
{
	struct wr_rec *r = rec_new(8);
	struct rnic_send_wr wr = {.opcode = RNIC_WR_ATOMIC_CMP_AND_SWP};
	struct side *p = s->peer;

	r->land = landing_open(s, 8, s->cap.max_send_sge, RNIC_ACCESS_LOCAL_WRITE);
	r->found = p->cas_model;
	wr.sge = r->land->sge;
	wr.num_sge = r->land->nsge;
	wr.compare_add = p->cas_model ^ (below(s, 4) == 0);
	wr.swap = prng_u64(s->w->prng);
	wr.rkey = rnic_mr_rkey(p->cas_mr);
	wr.remote_addr = 64;
	if (!post(s, r, &wr))
		return false;
	if (wr.compare_add == p->cas_model)
		p->cas_model = wr.swap;
	return true;
}

static bool post_bind(struct side *s)
{
	struct rnic_send_wr wr = {.opcode = RNIC_WR_BIND_MW};
	struct wr_rec *r = rec_new(0);
	uint32_t key = rnic_mw_rkey(s->mw);

	s->window_len = (uint32_t)prng_range(s->w->prng, 1, s->target_len);
	s->window_off = (uint32_t)below(s, s->target_len - s->window_len + 1);
	s->window_zero_based = !s->window_type1 && below(s, 3) == 0;
	s->window_rkey = (key & ~0xffu) | ((key + 1 + (uint32_t)below(s, 255)) & 0xff);
	wr.bind.mw = s->mw;
	wr.bind.mr = s->target_mr;
	wr.bind.rkey = s->window_rkey;
	wr.bind.addr = s->target_iova + s->window_off;
	wr.bind.length = s->window_len;
	wr.bind.access = RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ |
			 (s->window_zero_based ? RNIC_ACCESS_ZERO_BASED : 0);
	if (!post(s, r, &wr))
		return false;
	s->window = WINDOW_BINDING;
	return true;
}

/* By a work request for that, or with type 1 by a binding of no length. */
static bool post_unbind(struct side *s)
{
	struct rnic_send_wr wr = {.opcode = RNIC_WR_LOCAL_INV, .imm_or_rkey = s->window_rkey};
	struct wr_rec *r = rec_new(0);

	if (s->window_type1) {
		wr.opcode = RNIC_WR_BIND_MW;
		wr.bind.mw = s->mw;
		wr.bind.rkey = s->window_rkey ^ 1;
	}
	if (!post(s, r, &wr))
		return false;
	s->window = WINDOW_UNBINDING;
	return true;
}

/* On demand or not, under the same key, with whatever is on the way for it. */
static void rereg_target(struct side *s)
{
	struct rnic_mr_attr a;
	int err;

	rnic_mr_query(s->target_mr, &a);
	a.access ^= RNIC_ACCESS_ON_DEMAND;
	err = rnic_mr_rereg(s->target_mr, &a);
	if (s->window == WINDOW_IDLE || s->window == WINDOW_BOUND || s->window == WINDOW_RECALLED)
		expect(s->w, err == (s->window == WINDOW_IDLE ? 0 : -EBUSY),
		       "side %d: rereg gives %d", s->index, err);
}

static void post_work(struct side *s)
{
	uint64_t n = prng_range(s->w->prng, 1, 5);

	while (n-- && s->to_post && !s->send_failed) {
		bool posted;

		if (s->window == WINDOW_RECALLED && s->window_refs == 0) {
			posted = post_unbind(s);
		} else {
			uint64_t k = below(s, 20);

			if (k < 6)
				posted = post_send(s);
			else if (k < 11)
				posted = post_write(s);
			else if (k < 15)
				posted = post_read(s);
			else if (k < 17)
				posted = post_fetch_add(s);
			else if (k < 18)
				posted = post_compare_swap(s);
			else if (k < 19 && s->window == WINDOW_IDLE)
				posted = post_bind(s);
			else
				posted = post_send(s);
		}
		if (!posted)
			return;
	}
	if (s->window == WINDOW_BOUND && below(s, 10) == 0)
		s->window = WINDOW_RECALLED;
	if (below(s, 20) == 0)
		rereg_target(s);
}

/* The message that the next RECV will get, if it is known. */
static const struct msg_rec *next_message(const struct side *s)
{
	const struct msg_rec *m = s->coming;

	for (uint32_t i = 0; m && i < s->nrecvs; i++)
		m = m->next;
	return m;
}

/* Receives for whoever of the node needs one first. */
static void post_srq_recvs(struct side *s)
{
	struct rc_node *n = side_node(s);
	uint64_t count = below(s, n->srq_max_wr + 1);

	while (count--) {
		struct recv_rec *r = calloc(1, sizeof(*r));
		struct rnic_recv_wr wr = {.wr_id = n->next_srq_id};
		int err;

		r->id = n->next_srq_id;
		r->land = landing_open(s, s->w->max_len + (uint32_t)below(s, 64), n->srq_max_sge,
				       RNIC_ACCESS_LOCAL_WRITE);
		wr.sge = r->land->sge;
		wr.num_sge = r->land->nsge;
		err = rnic_post_srq_recv(n->srq, &wr);
		if (err) {
			expect(s->w, err == -12, "post_srq_recv says %d", err);
			landing_close(r->land);
			free(r);
			return;
		}
		n->next_srq_id++;
		r->next = n->srq_recvs;
		n->srq_recvs = r;
	}
	if (below(s, 4) == 0)
		expect(s->w, rnic_srq_set_limit(n->srq, (uint32_t)below(s, n->srq_max_wr)) == 0,
		       "rnic_srq_set_limit");
}

static void post_recvs(struct side *s)
{
	uint64_t n = below(s, s->cap.max_recv_wr + 1);

	while (n-- && !s->recv_failed) {
		uint32_t len = s->w->max_len + (uint32_t)below(s, 64);
		const struct msg_rec *m = next_message(s);
		struct recv_rec *r;
		struct rnic_recv_wr wr = {.wr_id = s->next_recv_id};
		int err;

		if (s->nrecvs >= s->cap.max_recv_wr)
			return;
		r = calloc(1, sizeof(*r));
		if (s->mischief == MISCHIEF_RECV_SHORT && s->to_post <= s->mischief_at && m &&
		    !m->is_write && m->len) {
			len = (uint32_t)below(s, m->len);
			r->doomed = true;
			s->mischief = MISCHIEF_NONE;
			pair_allow_errors(s);
		}
		r->id = s->next_recv_id;
		r->land = landing_open(s, len, s->cap.max_recv_sge, RNIC_ACCESS_LOCAL_WRITE);
		wr.sge = r->land->sge;
		wr.num_sge = r->land->nsge;
		err = s->xrc ? rnic_post_srq_recv(s->xrc_srq, &wr) : rnic_post_recv(s->qp, &wr);
		expect(s->w, err == 0, "post_recv says %d", err);
		s->next_recv_id++;
		*s->recvs_tail = r;
		s->recvs_tail = &r->next;
		s->nrecvs++;
	}
}

/* ---- mischief ------------------------------------------------------------------------------- */

static bool post_doomed(struct side *s, enum mischief m)
{
	struct rc_node *pn = side_node(s->peer), *n = side_node(s);
	uint32_t len = 1 + (uint32_t)below(s, min_of(s->w->max_len, 3 * s->w->mtu));
	struct wr_rec *r = rec_new(len);
	struct rnic_send_wr wr = {.opcode = RNIC_WR_RDMA_WRITE};
	struct rnic_sge sge[SGE_MAX];
	struct landing *gone;

	r->doomed = true;
	r->doomed_status = RNIC_WC_REM_ACCESS_ERR;
	source_from_arena(s, r, &wr, sge);
	wr.rkey = rnic_mr_rkey(s->peer->target_mr);
	wr.remote_addr = s->peer->target_iova;
	switch (m) {
	case MISCHIEF_BAD_RKEY:
		wr.rkey = (uint32_t)prng_u64(s->w->prng);
		break;
	case MISCHIEF_STALE_RKEY:
		gone = landing_open(s->peer, len, 1,
				    RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE);
		wr.rkey = rnic_mr_rkey(gone->mr);
		wr.remote_addr = (uintptr_t)gone->buf;
		landing_close(gone);
		break;
	case MISCHIEF_OUT_OF_RANGE:
		wr.remote_addr += s->peer->target_len - len + 1;
		break;
	case MISCHIEF_NO_RIGHT:
		wr.rkey = rnic_mr_rkey(pn->arena_mr);
		wr.remote_addr = (uintptr_t)pn->arena;
		break;
	case MISCHIEF_FOREIGN_PD:
		r->land = landing_open(s, len, s->cap.max_send_sge, RNIC_ACCESS_LOCAL_WRITE);
		wr = (struct rnic_send_wr){.opcode = RNIC_WR_RDMA_READ,
					   .sge = r->land->sge,
					   .num_sge = r->land->nsge,
					   .rkey = rnic_mr_rkey(pn->foreign_mr),
					   .remote_addr = (uintptr_t)pn->arena};
		break;
	case MISCHIEF_MISALIGNED:
		r->len = 8;
		r->land = landing_open(s, 8, 1, RNIC_ACCESS_LOCAL_WRITE);
		r->doomed_status = RNIC_WC_REM_INV_REQ_ERR;
		wr = (struct rnic_send_wr){.opcode = RNIC_WR_ATOMIC_CMP_AND_SWP,
					   .sge = r->land->sge,
					   .num_sge = 1,
					   .rkey = rnic_mr_rkey(pn->counters_mr),
					   .remote_addr = 0x1000 + prng_range(s->w->prng, 1, 7)};
		break;
	case MISCHIEF_LOCAL_KEY:
		r->doomed_status = RNIC_WC_LOC_PROT_ERR;
		wr.flags &= ~(uint32_t)RNIC_SEND_INLINE;
		sge[0] =
			(struct rnic_sge){(uintptr_t)n->arena, len, (uint32_t)prng_u64(s->w->prng)};
		wr.num_sge = 1;
		break;
	case MISCHIEF_WRONG_UNBIND:
		r->doomed_status = RNIC_WC_MW_BIND_ERR;
		wr = (struct rnic_send_wr){.opcode = RNIC_WR_LOCAL_INV,
					   .imm_or_rkey = rnic_mr_rkey(n->arena_mr)};
		break;
	default:
		abort();
	}
	if (!post(s, r, &wr))
		return false;
	pair_allow_errors(s);
	return true;
}

/* A WR whose memory will go at the next action, with luck while it is under way. */
static bool post_betrayed(struct side *s, enum mischief m)
{
	uint32_t len = 1 + (uint32_t)below(s, s->w->max_len);
	struct wr_rec *r = rec_new(len);
	struct rnic_send_wr wr = {.opcode = RNIC_WR_RDMA_READ};
	const struct rc_node *pn = side_node(s->peer);

	if (m == MISCHIEF_DEREG_SOURCE) {
		wr.opcode = RNIC_WR_RDMA_WRITE;
		r->source = landing_open(s, len, 1, 0);
		memset(r->data, GUARD_BYTE, len);
		wr.sge = r->source->sge;
		wr.num_sge = r->source->nsge;
		wr.rkey = rnic_mr_rkey(s->peer->target_mr);
		wr.remote_addr = s->peer->target_iova;
		r->target_off = 0;
	} else {
		r->land = landing_open(s, len, s->cap.max_send_sge, RNIC_ACCESS_LOCAL_WRITE);
		wr.sge = r->land->sge;
		wr.num_sge = r->land->nsge;
		wr.rkey = rnic_mr_rkey(pn->arena_mr);
		wr.remote_addr = (uintptr_t)pn->arena;
		memcpy(r->data, pn->arena, len);
		if (m == MISCHIEF_DEREG_REMOTE) {
			s->betrayed_remote = landing_open(s->peer, len, 1, RNIC_ACCESS_REMOTE_READ);
			wr.rkey = rnic_mr_rkey(s->betrayed_remote->mr);
			wr.remote_addr = s->betrayed_remote->sge[0].addr;
			memset(r->data, GUARD_BYTE, len);
		}
	}
	if (!post(s, r, &wr)) {
		landing_close(s->betrayed_remote);
		s->betrayed_remote = NULL;
		return false;
	}
	if (m == MISCHIEF_DEREG_SOURCE) {
		r->write_seq = ++s->peer->write_seq;
		memset(s->peer->model, GUARD_BYTE, len);
		for (uint32_t i = 0; i < len; i++)
			s->peer->owner[i] = (uint16_t)r->write_seq;
	}
	s->betrayed = r;
	s->next_action_ns = fabric_now(s->w->fabric) + below(s, 300000);
	return true;
}

static void betray(struct side *s)
{
	struct wr_rec *r = s->sends;

	while (r && r != s->betrayed)
		r = r->next;
	s->betrayed = NULL;
	if (r) {
		struct landing *l = s->betrayed_remote ? s->betrayed_remote
				    : r->source	       ? r->source
						       : r->land;

		pair_allow_errors(s);
		r->remote_gone = s->betrayed_remote;
		expect(s->w, rnic_mr_destroy(l->mr) == 0, "rnic_mr_destroy");
		l->mr = NULL;
	}
	landing_close(s->betrayed_remote);
	s->betrayed_remote = NULL;
}

void atomic_ambiguous(struct side *s, const struct wr_rec *r)
{
	struct rc_node *n = side_node(s->peer);

	if (r->opcode != RNIC_WR_ATOMIC_FETCH_AND_ADD)
		return;
	expect(s->w, n->nambiguous[r->counter] < AMBIGUOUS_MAX, "too many failed atomics");
	n->ambiguous[r->counter][n->nambiguous[r->counter]++] = r->add;
}

void side_forget(struct side *s)
{
	s->gone = true;
	for (const struct wr_rec *r = s->sends; r; r = r->next)
		atomic_ambiguous(s, r);
}

static void modify_to(struct side *s, enum rnic_qp_state to)
{
	struct rnic_qp_attr a = {.state = to};
	int err = rnic_qp_modify(s->qp, &a, RNIC_QP_STATE, fabric_now(s->w->fabric));

	expect(s->w, err == 0, "rnic_qp_modify says %d", err);
}

static void vanish(struct side *s)
{
	struct rc_world *w = s->w;

	side_node(s)->vanished = true;
	node_vanish(side_node(s)->node);
	for (int i = 0; i < w->nsides; i++) {
		struct side *x = &w->sides[i];

		if (x->node != s->node)
			continue;
		pair_allow_errors(x);
		if (!x->gone)
			side_forget(x);
	}
}

static void do_mischief(struct side *s)
{
	enum mischief m = s->mischief;
	bool done = true;

	if (m < MISCHIEF_RECV_SHORT) {
		done = post_doomed(s, m);
	} else if (m >= MISCHIEF_DEREG_SOURCE && m <= MISCHIEF_DEREG_REMOTE) {
		done = post_betrayed(s, m);
	} else if (m == MISCHIEF_TO_ERR) {
		pair_allow_errors(s);
		modify_to(s, RNIC_QPS_ERR);
	} else if (m == MISCHIEF_TO_RESET) {
		pair_allow_errors(s);
		side_poll(s);
		side_forget(s);
		modify_to(s, RNIC_QPS_RESET);
	} else if (m == MISCHIEF_DESTROY) {
		pair_allow_errors(s);
		side_poll(s);
		side_forget(s);
		expect(s->w, rnic_qp_destroy(s->qp) == 0, "rnic_qp_destroy");
		s->qp = NULL;
	} else if (m == MISCHIEF_VANISH) {
		vanish(s);
	} else {
		return; /* happens elsewhere */
	}
	if (done)
		s->mischief = MISCHIEF_NONE;
}

void side_act(struct side *s)
{
	s->next_action_ns = fabric_now(s->w->fabric) + prng_range(s->w->prng, 1, s->action_gap_ns);
	if (s->gone)
		return;
	if (s->betrayed)
		betray(s);
	if (s->mischief != MISCHIEF_NONE && s->to_post <= s->mischief_at && !s->send_failed)
		do_mischief(s);
	if (s->gone || s->recv_failed)
		return;
	if (s->srq)
		post_srq_recvs(s);
	else
		post_recvs(s);
	post_work(s);
	node_kick(side_node(s)->node);
}
