/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is seen of a queue pair from outside: a row of what is so, and of counters. */
#include "base/bytes.h"
#include "rnic/core.h"

static const uint64_t traced_all[TRACE_EVENTS] = {
#define X(name, text, a, b) [TRACE_##name] = 1,
#include "rnic/trace.def"
#undef X
};
static const uint64_t traced_none[TRACE_EVENTS];

int shown_init(struct rnic *r, const struct rnic_config *config)
{
	r->traced = !r->ops.trace ? traced_none : config->traced ? config->traced : traced_all;
	r->counters = config->counters ? config->counters : &r->own_counters;
	r->rows = config->qp_rows;
	if (!config->qp_rows_max)
		return 0;
	r->free_rows = r->ops.alloc(r->ctx, sizeof(*r->free_rows) * config->qp_rows_max);
	if (!r->free_rows)
		return -ENOMEM;
	for (uint32_t i = config->qp_rows_max; i-- > 0;)
		r->free_rows[r->free_row_count++] = i;
	return 0;
}

/* Where there are no rows left it counts with the others of which that is so. */
void shown_take(struct rnic_qp *qp)
{
	struct rnic *r = qp->rnic;

	if (r->free_row_count) {
		qp->row = &r->rows[r->free_rows[--r->free_row_count]];
		return;
	}
	qp->row = &r->no_row;
	r->counters->qps_unseen++;
}

void shown_give_back(struct rnic_qp *qp)
{
	struct rnic *r = qp->rnic;

	if (qp->row == &r->no_row) {
		r->counters->qps_unseen_gone++;
		return;
	}
	*qp->row = (struct rnic_qp_row){0};
	r->free_rows[r->free_row_count++] = (uint32_t)(qp->row - r->rows);
}

void shown_attr(struct rnic_qp *qp)
{
	const struct rnic_qp_attr *a = &qp->attr;
	struct rnic_qp_row *row = qp->row;

	row->type = qp->service->type;
	row->state = qp->state;
	row->cause = qp->cause;
	row->peer_qpn = a->dest_qpn;
	row->peer_gid_high = ld_be64(a->flow.dgid.raw);
	row->peer_gid_low = ld_be64(a->flow.dgid.raw + 8);
	row->own_gid_high = ld_be64(a->flow.sgid.raw);
	row->own_gid_low = ld_be64(a->flow.sgid.raw + 8);
	row->path_mtu = qp->mtu;
	row->traffic_class = a->flow.tos;
	row->priority = flow_priority(&a->flow);
	row->congestion_control = cc_number(qp->cc.ops);
	row->selective = qp->selective;
	row->qpn = qp->qpn;
}
