/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/traffic/conn.h"

#include <errno.h>

#include "base/bytes.h"
#include "fabric/net/routes.h"

#define READS_MAX 16

#define QKEY 1

static int qp_open(struct host *h, enum rnic_qp_type type, unsigned sends, unsigned recvs,
		   struct rnic_qp **ret)
{
	struct rnic_qp_init init = {
		.type = type,
		.send_cq = host_cq(h),
		.recv_cq = host_cq(h),
		.cap = {sends, recvs, 1, 1, 0},
		.sq_sig_all = true,
		.path_mtu = host_nature(h)->mtu, /* of datagrams */
	};
	int rc = host_expect(h, (int)(sends + recvs));

	if (rc)
		return rc;
	rc = rnic_qp_create(host_pd(h), &init, ret);
	if (rc)
		(void)!host_expect(h, -(int)(sends + recvs));
	return rc;
}

/* What each kind of queue pair is to be told in each state. */
static const uint32_t *masks_of(enum rnic_qp_type type)
{
	static const uint32_t rc[] = {
		[RNIC_QPS_INIT] = RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_ACCESS_FLAGS,
		[RNIC_QPS_RTR] = RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN | RNIC_QP_RQ_PSN |
				 RNIC_QP_MAX_DEST_RD_ATOMIC | RNIC_QP_MIN_RNR_TIMER,
		[RNIC_QPS_RTS] = RNIC_QP_TIMEOUT | RNIC_QP_RETRY_CNT | RNIC_QP_RNR_RETRY |
				 RNIC_QP_SQ_PSN | RNIC_QP_MAX_QP_RD_ATOMIC,
	};
	static const uint32_t uc[] = {
		[RNIC_QPS_INIT] = RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_ACCESS_FLAGS,
		[RNIC_QPS_RTR] = RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN | RNIC_QP_RQ_PSN,
		[RNIC_QPS_RTS] = RNIC_QP_SQ_PSN,
	};
	static const uint32_t ud[] = {
		[RNIC_QPS_INIT] = RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_QKEY,
		[RNIC_QPS_RTR] = 0,
		[RNIC_QPS_RTS] = RNIC_QP_SQ_PSN,
	};

	return type == RNIC_QPT_RC ? rc : type == RNIC_QPT_UC ? uc : ud;
}

static int join(struct conn *c, int side, int dscp, uint16_t sport, const uint32_t psn[2],
		uint64_t now)
{
	const uint32_t *mask = masks_of(c->type);
	struct host *own = side ? c->to : c->from, *peer = side ? c->from : c->to;
	const struct host_nature *n = host_nature(own);
	struct rnic_qp_attr a = {
		.access_flags = RNIC_ACCESS_REMOTE_WRITE | RNIC_ACCESS_REMOTE_READ,
		.path_mtu = n->mtu,
		.dest_qpn = rnic_qp_num(c->qp[!side]),
		.sq_psn = psn[side],
		.rq_psn = psn[!side],
		.max_rd_atomic = READS_MAX,
		.max_dest_rd_atomic = READS_MAX,
		.min_rnr_timer = 1,
		.timeout = n->timeout,
		.retry_cnt = n->retries,
		.rnr_retry = 7,
		.qkey = QKEY,
		.flow = {.sgid = routes_gid(host_number(own)),
			 .dgid = routes_gid(host_number(peer)),
			 .sport = sport,
			 .tos = (uint8_t)((dscp < 0 ? n->dscp : (unsigned)dscp)
					  << FLOW_DSCP_SHIFT)},
	};
	int rc = 0;

	if (!side)
		c->flow = a.flow;
	if (n->selective && c->type == RNIC_QPT_RC)
		rc = rnic_qp_repeat_selectively(c->qp[side], rnic_qp_tag(c->qp[!side]));
	for (a.state = RNIC_QPS_INIT; !rc && a.state <= RNIC_QPS_RTS; a.state++)
		rc = rnic_qp_modify(c->qp[side], &a, mask[a.state] | RNIC_QP_STATE, now);
	return rc;
}

/* So many work requests and receives, at either side. */
struct room {
	unsigned sends[2], recvs[2];
};

static int open_all(struct conn *c, enum rnic_qp_type type, struct host *from, struct host *to,
		    const struct room *room, int dscp, struct prng *r, uint64_t now)
{
	const uint64_t chance = prng_u64(r);
	const uint16_t sport = (uint16_t)(0xc000 | (chance & 0x3fff));
	const uint32_t psn[2] = {(uint32_t)(chance >> 16 & 0xffffff), (uint32_t)(chance >> 40)};
	int rc;

	*c = (struct conn){
		.from = from,
		.to = to,
		.type = type,
		.room = {room->sends[0] + room->recvs[0], room->sends[1] + room->recvs[1]}};
	rc = qp_open(from, type, room->sends[0], room->recvs[0], &c->qp[0]);
	if (!rc)
		rc = qp_open(to, type, room->sends[1], room->recvs[1], &c->qp[1]);
	for (int side = 0; side < 2 && !rc; side++)
		rc = join(c, side, dscp, sport, psn, now);
	if (rc)
		conn_close(c);
	return rc;
}

int conn_open_as(struct conn *c, enum rnic_qp_type type, struct host *from, struct host *to,
		 unsigned depth, int dscp, struct prng *r, uint64_t now)
{
	const struct room room = {{depth, 1}, {1, type == RNIC_QPT_RC ? 1 : CONN_RECVS}};

	return open_all(c, type, from, to, &room, dscp, r, now);
}

int conn_open_both(struct conn *c, struct host *from, struct host *to, unsigned sends,
		   unsigned recvs, int dscp, struct prng *r, uint64_t now)
{
	const struct room room = {{sends, sends}, {recvs, recvs}};

	return open_all(c, RNIC_QPT_RC, from, to, &room, dscp, r, now);
}

int conn_open(struct conn *c, struct host *from, struct host *to, unsigned depth, int dscp,
	      struct prng *r, uint64_t now)
{
	return conn_open_as(c, RNIC_QPT_RC, from, to, depth, dscp, r, now);
}

void conn_close(struct conn *c)
{
	for (int side = 0; side < 2; side++) {
		if (!c->qp[side])
			continue;
		(void)!rnic_qp_destroy(c->qp[side]);
		(void)!host_expect(side ? c->to : c->from, -(int)c->room[side]);
		c->qp[side] = NULL;
	}
}

int conn_post(struct conn *c, uint64_t bytes, bool reads, uint64_t wr_id, uint64_t now)
{
	struct rnic_sge sge = {0, (uint32_t)bytes, host_key(c->from)};
	struct rnic_send_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.num_sge = 1,
		.opcode = reads ? RNIC_WR_RDMA_READ : RNIC_WR_RDMA_WRITE,
		.rkey = host_key(c->to),
	};
	int rc;

	if (c->type == RNIC_QPT_UC) {
		wr.opcode = RNIC_WR_RDMA_WRITE_WITH_IMM; /* so that who gets it hears of it */
	} else if (c->type == RNIC_QPT_UD) {
		wr.opcode = RNIC_WR_SEND;
		wr.ud.flow = &c->flow;
		wr.ud.qpn = rnic_qp_num(c->qp[1]);
		wr.ud.qkey = QKEY;
	}
	rc = rnic_post_send(c->qp[0], &wr, now);
	if (!rc)
		host_kick(c->from);
	return rc;
}

static struct host *host_at(const struct conn *c, int side)
{
	return side ? c->to : c->from;
}

int conn_post_from(struct conn *c, int side, uint32_t opcode, uint32_t bytes, const struct taker *t,
		   uint64_t now)
{
	struct rnic_sge sge = {0, bytes, host_key(host_at(c, side))};
	const struct rnic_send_wr wr = {
		.wr_id = (uintptr_t)t | 1,
		.sge = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.rkey = host_key(host_at(c, !side)),
	};
	int rc = rnic_post_send(c->qp[side], &wr, now);

	if (!rc)
		host_kick(host_at(c, side));
	return rc;
}

int conn_expect_at(struct conn *c, int side, uint32_t room, struct taker *t)
{
	const struct rnic_sge sge = {0, room, host_key(host_at(c, side))};
	const struct rnic_recv_wr wr = {.wr_id = (uintptr_t)t | 1, .sge = &sge, .num_sge = 1};

	return rnic_post_recv(c->qp[side], &wr);
}

int conn_expect(struct conn *c, uint32_t room, struct taker *t)
{
	return conn_expect_at(c, 1, room, t);
}
