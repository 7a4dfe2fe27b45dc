/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which way an SMP takes through a node. A directed one has its ports in it (IBTA vol. 1, 14.2.2):
 * outgoing, the hop pointer says which hop it is on, and each node writes the port that it came by
 * into the return path; returning, it goes back by that path. An SMP whose pointer does not fit
 * where it comes from is dropped, and so is one for a port without a link, and one that would end
 * or begin at a LID.
 */
#include "subnet/agent_priv.h"

static int leave_by(const struct agent *a, unsigned port)
{
	if (port < 1 || port > a->nature.ports || a->ports[port].info.state == SMP_PORT_DOWN)
		return AGENT_DROPS;
	return (int)port;
}

static bool is_request(const struct smp *s)
{
	return s->method != MAD_TRAP && s->method != MAD_TRAP_REPRESS &&
	       !(s->method & MAD_RESPONSE);
}

/* It has come to its end. The manager's repressing a trap needs no more than this. */
static bool is_taken_here(struct agent *a, const struct smp *s)
{
	if (s->method == MAD_TRAP_REPRESS && s->attr_id == SMP_NOTICE && s->tid == a->trap_tid)
		a->has_news = false;
	return s->method == MAD_TRAP_REPRESS;
}

static int begin(struct agent *a, struct smp *s)
{
	if (s->hop_ptr)
		return AGENT_DROPS;
	if (s->hop_count) {
		s->hop_ptr = 1;
		return leave_by(a, s->initial_path[1]);
	}
	if (is_taken_here(a, s))
		return AGENT_DROPS;
	if (is_request(s)) {
		agent_answer(a, s, 0);
		s->returning = true;
	}
	return 0;
}

static int go_out(struct agent *a, struct smp *s, unsigned port)
{
	if (s->hop_ptr < 1 || s->hop_ptr > s->hop_count)
		return AGENT_DROPS;
	s->return_path[s->hop_ptr] = (uint8_t)port;
	if (s->hop_ptr < s->hop_count) {
		if (!a->nature.is_switch)
			return AGENT_DROPS;
		return leave_by(a, s->initial_path[++s->hop_ptr]);
	}
	if (s->dr_slid != LID_PERMISSIVE || s->dr_dlid != LID_PERMISSIVE || is_taken_here(a, s))
		return AGENT_DROPS;
	s->hop_ptr++;
	if (!is_request(s))
		return 0;
	agent_answer(a, s, port);
	s->returning = true;
	s->hop_ptr--;
	return leave_by(a, port);
}

static int go_back(struct agent *a, struct smp *s, unsigned port)
{
	if (!port) { /* the manager of this node answers one that was sent to it */
		if (!s->hop_count || s->hop_ptr != s->hop_count + 1)
			return AGENT_DROPS;
		s->hop_ptr--;
		return leave_by(a, s->return_path[s->hop_ptr]);
	}
	if (s->hop_ptr < 1 || s->hop_ptr > s->hop_count)
		return AGENT_DROPS;
	s->hop_ptr--;
	if (s->hop_ptr)
		return a->nature.is_switch ? leave_by(a, s->return_path[s->hop_ptr]) : AGENT_DROPS;
	return s->dr_slid == LID_PERMISSIVE && !is_request(s) ? 0 : AGENT_DROPS;
}

/* Its LIDs have led it here. */
static int take_routed(struct agent *a, struct smp *s, unsigned port)
{
	if (is_taken_here(a, s))
		return AGENT_DROPS;
	if (!is_request(s))
		return 0;
	agent_answer(a, s, port);
	return (int)port;
}

int agent_take(struct agent *a, uint8_t mad[MAD_LEN], unsigned port)
{
	struct smp s;
	int to;

	if (port > a->nature.ports || smp_decode(&s, mad) < 0 || s.hop_count > SMP_HOPS_MAX)
		return AGENT_DROPS;
	if (s.mgmt_class == SMP_CLASS_LID)
		to = take_routed(a, &s, port);
	else if (s.returning)
		to = go_back(a, &s, port);
	else if (port)
		to = go_out(a, &s, port);
	else
		to = begin(a, &s);
	if (to != AGENT_DROPS)
		smp_encode(&s, mad);
	return to;
}
