/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Completions against what was posted. */
#include <stdlib.h>
#include <string.h>

#include "rc_world.h"

static const uint8_t wc_opcodes[] = {
	[RNIC_WR_RDMA_WRITE] = RNIC_WC_RDMA_WRITE,
	[RNIC_WR_RDMA_WRITE_WITH_IMM] = RNIC_WC_RDMA_WRITE,
	[RNIC_WR_SEND] = RNIC_WC_SEND,
	[RNIC_WR_SEND_WITH_IMM] = RNIC_WC_SEND,
	[RNIC_WR_SEND_WITH_INV] = RNIC_WC_SEND,
	[RNIC_WR_RDMA_READ] = RNIC_WC_RDMA_READ,
	[RNIC_WR_ATOMIC_CMP_AND_SWP] = RNIC_WC_COMP_SWAP,
	[RNIC_WR_ATOMIC_FETCH_AND_ADD] = RNIC_WC_FETCH_ADD,
	[RNIC_WR_LOCAL_INV] = RNIC_WC_LOCAL_INV,
	[RNIC_WR_BIND_MW] = RNIC_WC_BIND_MW,
	[RNIC_WR_ATOMIC_WRITE] = RNIC_WC_ATOMIC_WRITE,
};

static uint64_t landing_u64(const struct landing *l)
{
	uint8_t bytes[8];
	uint32_t at = 0;
	uint64_t v;

	for (uint32_t i = 0; i < l->nsge; i++) {
		memcpy(bytes + at, (const void *)(uintptr_t)l->sge[i].addr, l->sge[i].length);
		at += l->sge[i].length;
	}
	memcpy(&v, bytes, sizeof(v));
	return v;
}

/* Bytes of a READ that later WRITEs may have changed are taken as read. */
static void forgive_later_writes(const struct side *s, struct wr_rec *r)
{
	const struct side *p = s->peer;
	uint32_t at = 0;

	if (r->target_off == UINT32_MAX)
		return;
	for (uint32_t i = 0; i < r->land->nsge; i++) {
		const uint8_t *got = (const uint8_t *)(uintptr_t)r->land->sge[i].addr;

		for (uint32_t k = 0; k < r->land->sge[i].length; k++, at++)
			if (p->owner[r->target_off + at] > r->write_seq)
				r->data[at] = got[k];
	}
}

static void check_write(const struct side *s, const struct wr_rec *r)
{
	const struct side *p = s->peer;

	for (uint32_t i = 0; i < r->len; i++)
		expect(s->w,
		       p->owner[r->target_off + i] != r->write_seq ||
			       p->target[r->target_off + i] == r->data[i],
		       "side %d: WRITE %llu completed, but byte %u is wrong", s->index,
		       (unsigned long long)r->id, i);
}

static void send_succeeded(struct side *s, struct wr_rec *r)
{
	struct rc_world *w = s->w;

	expect(w, !r->doomed, "side %d: work request %llu can not have succeeded", s->index,
	       (unsigned long long)r->id);
	switch (r->opcode) {
	case RNIC_WR_RDMA_WRITE:
	case RNIC_WR_RDMA_WRITE_WITH_IMM:
	case RNIC_WR_ATOMIC_WRITE:
		check_write(s, r);
		break;
	case RNIC_WR_RDMA_READ:
		forgive_later_writes(s, r);
		landing_check(w, r->land, r->data, r->len, "a READ");
		break;
	case RNIC_WR_ATOMIC_FETCH_AND_ADD:
		landing_check(w, r->land, NULL, 8, "an atomic");
		side_node(s->peer)->counted[r->counter] += r->add;
		break;
	case RNIC_WR_ATOMIC_CMP_AND_SWP:
		landing_check(w, r->land, NULL, 8, "an atomic");
		expect(w, landing_u64(r->land) == r->found,
		       "side %d: compare and swap found %llx, not %llx", s->index,
		       (unsigned long long)landing_u64(r->land), (unsigned long long)r->found);
		break;
	case RNIC_WR_BIND_MW:
		s->window = s->window == WINDOW_UNBINDING ? WINDOW_IDLE : WINDOW_BOUND;
		break;
	case RNIC_WR_LOCAL_INV:
		s->window = WINDOW_IDLE;
		break;
	default:
		break;
	}
	s->done_sends++;
}

static void retire(struct side *s, struct wr_rec *r)
{
	s->sends = r->next;
	if (!s->sends)
		s->sends_tail = &s->sends;
	s->nsends--;
	if (r->through_window)
		s->peer->window_refs--;
	if (s->betrayed == r)
		s->betrayed = NULL;
	landing_close(r->land);
	landing_close(r->source);
	free(r->data);
	free(r);
}

/* Something that ends the QPs of both, be it not completed yet. */
static bool has_doomed(const struct side *s)
{
	const struct wr_rec *r = s->sends;

	while (r && !r->doomed && !r->remote_gone)
		r = r->next;
	return r;
}

static void send_failed_first(struct side *s, const struct wr_rec *r, uint32_t status)
{
	struct rc_world *w = s->w;
	bool may = pair_may_fail(s) || (w->lossy && status == RNIC_WC_RETRY_EXC_ERR) ||
		   (w->rnr_retry != 7 && status == RNIC_WC_RNR_RETRY_EXC_ERR);

	expect(w, may, "side %d: work request %llu (opcode %u) failed with status %u for no reason",
	       s->index, (unsigned long long)r->id, r->opcode, status);
	if (r->doomed && !s->peer->gone && !s->peer->send_failed && !s->peer->recv_failed)
		expect(w,
		       status == r->doomed_status ||
			       (w->lossy && status == RNIC_WC_RETRY_EXC_ERR) ||
			       (has_doomed(s->peer) && status == RNIC_WC_WR_FLUSH_ERR),
		       "side %d: work request %llu failed with status %u instead of %u", s->index,
		       (unsigned long long)r->id, status, r->doomed_status);
	s->gave_up = !pair_may_fail(s) && status == RNIC_WC_RETRY_EXC_ERR;
	pair_allow_errors(s);
	s->send_failed = true;
	s->first_status = status;
}

static void on_send(struct side *s, const struct rnic_wc *wc)
{
	struct rc_world *w = s->w;
	struct wr_rec *r;

	/* Unsignaled ones before it say by it that they succeeded. */
	while ((r = s->sends) && r->id != wc->wr_id) {
		expect(w, !s->send_failed && !r->signaled,
		       "side %d: completion of %llu before that of %llu", s->index,
		       (unsigned long long)wc->wr_id, (unsigned long long)r->id);
		send_succeeded(s, r);
		retire(s, r);
	}
	expect(w, r, "side %d: completion of %llu, which nobody waits for", s->index,
	       (unsigned long long)wc->wr_id);
	if (wc->status == RNIC_WC_SUCCESS) {
		expect(w, !s->send_failed, "side %d: success after an error", s->index);
		expect(w, r->signaled, "side %d: completion of unsignaled %llu", s->index,
		       (unsigned long long)r->id);
		expect(w, wc->opcode == wc_opcodes[r->opcode], "side %d: opcode %u for %u",
		       s->index, wc->opcode, r->opcode);
		if (r->land)
			expect(w, wc->byte_len == r->len, "side %d: byte_len %u of %u", s->index,
			       wc->byte_len, r->len);
		send_succeeded(s, r);
	} else {
		if (!s->send_failed)
			send_failed_first(s, r, wc->status);
		else
			expect(w, wc->status == RNIC_WC_WR_FLUSH_ERR,
			       "side %d: a second error, status %u", s->index, wc->status);
		atomic_ambiguous(s, r);
	}
	retire(s, r);
}

/* A QP's own complete in order; shared ones as they are taken, each once. */
static struct recv_rec *take_recv(struct side *s, uint64_t id)
{
	struct recv_rec *r = s->recvs, **at = &side_node(s)->srq_recvs;

	if (s->srq) {
		while (*at && (*at)->id != id)
			at = &(*at)->next;
		r = *at;
		expect(s->w, r, "side %d: shared RECV %llu completes, which is not posted",
		       s->index, (unsigned long long)id);
		*at = r->next;
		return r;
	}
	expect(s->w, r && r->id == id, "side %d: RECV %llu completes out of order", s->index,
	       (unsigned long long)id);
	s->recvs = r->next;
	if (!s->recvs)
		s->recvs_tail = &s->recvs;
	s->nrecvs--;
	return r;
}

static void on_recv(struct side *s, const struct rnic_wc *wc)
{
	struct rc_world *w = s->w;
	struct recv_rec *r = take_recv(s, wc->wr_id);
	struct msg_rec *m = s->coming;

	if (wc->status == RNIC_WC_SUCCESS) {
		expect(w, !s->recv_failed, "side %d: a RECV succeeds after an error", s->index);
		expect(w, !r->doomed, "side %d: RECV %llu can not have succeeded", s->index,
		       (unsigned long long)r->id);
		expect(w, m, "side %d: a RECV completes that nobody sent for", s->index);
		expect(w, wc->opcode == (m->is_write ? RNIC_WC_RECV_RDMA_WITH_IMM : RNIC_WC_RECV),
		       "side %d: RECV with opcode %u", s->index, wc->opcode);
		expect(w, wc->byte_len == m->len, "side %d: RECV of %u bytes, sent %u", s->index,
		       wc->byte_len, m->len);
		expect(w, wc->wc_flags == m->flags && wc->imm_or_rkey == m->imm_or_rkey,
		       "side %d: RECV with other flags or immediate", s->index);
		landing_check(w, r->land, m->data, m->is_write ? 0 : m->len, "a SEND");
		if (m->flags & RNIC_WC_WITH_INV)
			s->window = WINDOW_IDLE;
		s->coming = m->next;
		if (!s->coming)
			s->coming_tail = &s->coming;
		s->ncoming--;
		free(m->data);
		free(m);
		s->done_recvs++;
	} else {
		bool may = pair_may_fail(s) ||
			   ((w->lossy || w->rnr_retry != 7) && wc->status == RNIC_WC_WR_FLUSH_ERR);

		expect(w, may, "side %d: RECV %llu failed with status %u for no reason", s->index,
		       (unsigned long long)r->id, wc->status);
		expect(w, !s->recv_failed || wc->status == RNIC_WC_WR_FLUSH_ERR,
		       "side %d: a second RECV error, status %u", s->index, wc->status);
		expect(w,
		       !r->doomed || s->recv_failed || wc->status == RNIC_WC_LOC_LEN_ERR ||
			       wc->status == RNIC_WC_WR_FLUSH_ERR,
		       "side %d: a short RECV failed with status %u", s->index, wc->status);
		s->recv_failed = true;
	}
	landing_close(r->land);
	free(r);
}

static void poll_cq(struct side *s, struct rnic_cq *cq)
{
	struct rnic_wc wc[8];
	int n;

	while ((n = rnic_cq_poll(cq, wc, 1 + (int)prng_below(s->w->prng, 8))) > 0)
		for (int i = 0; i < n; i++) {
			if (s->gone)
				continue;
			bool recv = wc[i].opcode & RNIC_WC_RECV;

			expect(s->w,
			       wc[i].qp_num ==
				       (recv && s->xrc ? rnic_qp_num(s->xrc_target) : s->qpn),
			       "a completion of a strange QP");
			if (recv)
				on_recv(s, &wc[i]);
			else
				on_send(s, &wc[i]);
		}
}

void side_poll(struct side *s)
{
	if (s->cq_overflowed && !s->gone)
		side_forget(s);
	if (s->mischief == MISCHIEF_CQ_OVERFLOW && s->to_post && !s->gone)
		return;
	poll_cq(s, s->scq);
	if (s->rcq != s->scq)
		poll_cq(s, s->rcq);
	/* Its halves fail each by itself, and its SRQ keeps its receives: there is no more to tell.
	 */
	if (s->xrc && (s->send_failed || s->recv_failed) && !s->gone) {
		side_forget(s);
		if (!s->peer->gone)
			side_forget(s->peer);
	}
}

bool side_done(const struct side *s)
{
	if (s->gone)
		return true;
	if (s->send_failed || s->recv_failed)
		return true;
	return s->to_post == 0 && !s->sends;
}

void side_check_flushed(struct side *s)
{
	struct rc_world *w = s->w;
	struct wr_rec *r;

	expect(w, !s->recvs, "side %d: a RECV was not flushed", s->index);
	expect(w, s->last_wqe_events == s->srq, "side %d: %u events for the last shared RECV",
	       s->index, s->last_wqe_events);
	/* What was done before the error, and unsignaled, has no completion. */
	while ((r = s->sends)) {
		expect(w, !r->signaled && !s->send_failed,
		       "side %d: work request %llu was not flushed", s->index,
		       (unsigned long long)r->id);
		send_succeeded(s, r);
		retire(s, r);
	}
}
