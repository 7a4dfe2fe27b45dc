/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two processes that never stop talking, so that one of them can be killed at any moment.
 *
 *	churn server|client ADDR PORT disconnect|retry
 *
 * Both keep WRITEs, READs and SENDs on the way and sleep on the completion channel and the event
 * channel. When the other side is gone, every work request must come back: with `disconnect`
 * after the DISCONNECTED event and rdma_disconnect(), with `retry` (which leaves events alone)
 * because the transport gives up. Then DISCONNECTED must come, or have come. Status 0 if so.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { MSG = 16384, SENDS = 16, RECVS = PAIR_DEPTH, LIMIT_MS = 60000 };

struct churn {
	struct pair pair;
	unsigned int sends, recvs; /* outstanding */
	unsigned long long done;
	bool failed, disconnected;
	enum ibv_wc_status first_error;
	uint64_t failed_ms;
};

static struct churn churn;

static void post_recv(struct pair *p)
{
	struct ibv_sge sge = {(uintptr_t)p->buf, MSG, p->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(p->id->qp, &wr, &bad))
		die("ibv_post_recv");
	churn.recvs++;
}

static void post_recvs(struct pair *p)
{
	for (int i = 0; i < RECVS; i++)
		post_recv(p);
}

static void post_send(struct churn *c)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND};
	struct pair *p = &c->pair;
	enum ibv_wr_opcode op = ops[c->done % 3];
	struct ibv_sge sge = {(uintptr_t)p->buf + MSG, MSG, p->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = p->peer.addr + 2 * MSG,
					     .rkey = p->peer.rkey}},
			   *bad;

	if (ibv_post_send(p->id->qp, &wr, &bad))
		die("ibv_post_send");
	c->sends++;
}

static void complete(struct churn *c, const struct ibv_wc *wc)
{
	if (wc->wr_id)
		c->sends--;
	else
		c->recvs--;
	c->done++;
	if (wc->status && !c->failed) {
		c->failed = true;
		c->first_error = wc->status;
		c->failed_ms = now_ms();
	}
	if (c->failed || c->disconnected)
		return;
	if (wc->wr_id)
		post_send(c);
	else
		post_recv(&c->pair);
}

static void drain_cq(struct churn *c)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = ibv_poll_cq(c->pair.cq, 16, wc)) > 0)
		for (int i = 0; i < n; i++)
			complete(c, &wc[i]);
	if (n < 0)
		die("ibv_poll_cq");
}

static void on_cq_event(struct churn *c)
{
	struct ibv_cq *cq;
	void *ctx;

	if (ibv_get_cq_event(c->pair.channel, &cq, &ctx))
		die("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	if (ibv_req_notify_cq(cq, 0))
		die("ibv_req_notify_cq");
	drain_cq(c);
}

static void on_cm_event(struct churn *c, bool obey)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(c->pair.events, &ev))
		die("rdma_get_cm_event");
	if (ev->event == RDMA_CM_EVENT_DISCONNECTED) {
		c->disconnected = true;
		if (!c->failed_ms)
			c->failed_ms = now_ms();
	}
	rdma_ack_cm_event(ev);
	if (c->disconnected && obey)
		rdma_disconnect(c->pair.id); /* already moved by the peer's: what counts is ERR */
}

int main(int argc, char **argv)
{
	struct churn *c = &churn;
	struct pair *p = &c->pair;
	struct pollfd fds[2];
	bool obey;
	uint64_t end;

	if (argc != 5) {
		fprintf(stderr, "usage: %s server|client ADDR PORT disconnect|retry\n", argv[0]);
		return 2;
	}
	obey = strcmp(argv[4], "disconnect") == 0;
	if (strcmp(argv[1], "server") == 0)
		pair_serve(p, argv[2], argv[3], 4 * MSG, post_recvs);
	else
		pair_connect(p, argv[2], argv[3], 4 * MSG, post_recvs);
	puts("talking");
	fflush(stdout);
	fds[0] = (struct pollfd){.fd = p->channel->fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = p->events->fd, .events = POLLIN};
	if (ibv_req_notify_cq(p->cq, 0))
		die("ibv_req_notify_cq");
	for (int i = 0; i < SENDS; i++)
		post_send(c);
	drain_cq(c);

	for (end = now_ms() + LIMIT_MS; now_ms() < end;) {
		/* Without obedience, events wait until the transport has given up by itself. */
		int n = obey || c->failed ? 2 : 1;

		if (c->failed && !c->sends && !c->recvs && c->disconnected)
			break;
		if (poll(fds, (nfds_t)n, 1000) < 0)
			die("poll");
		if (fds[0].revents)
			on_cq_event(c);
		if (n == 2 && fds[1].revents)
			on_cm_event(c, obey);
	}
	printf("%llu done, first error: %s, left: %u sends %u receives, %s, %llu ms\n", c->done,
	       c->failed ? ibv_wc_status_str(c->first_error) : "none", c->sends, c->recvs,
	       c->disconnected ? "disconnected" : "no DISCONNECTED",
	       (unsigned long long)(now_ms() - c->failed_ms));
	if (!c->failed || c->sends || c->recvs || !c->disconnected)
		return 1;
	pair_close(p);
	puts("closed");
	return 0;
}
