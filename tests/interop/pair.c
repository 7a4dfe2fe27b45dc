/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "pair.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Takes the next event, which must be the wanted one. */
static void expect(struct pair *p, enum rdma_cm_event_type want, struct rdma_cm_id **ret_id)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(p->events, &ev))
		die("rdma_get_cm_event");
	if (ev->event != want) {
		fprintf(stderr, "%s (status %d) instead of %s\n", rdma_event_str(ev->event),
			ev->status, rdma_event_str(want));
		exit(1);
	}
	if (ev->param.conn.private_data_len >= sizeof(p->peer))
		memcpy(&p->peer, ev->param.conn.private_data, sizeof(p->peer));
	if (ret_id)
		*ret_id = ev->id;
	rdma_ack_cm_event(ev);
}

static void make_qp(struct pair *p, size_t len)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = PAIR_DEPTH,
			.max_recv_wr = PAIR_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};

	p->pd = ibv_alloc_pd(p->id->verbs);
	p->channel = ibv_create_comp_channel(p->id->verbs);
	p->cq = ibv_create_cq(p->id->verbs, 2 * PAIR_DEPTH, NULL, p->channel, 0);
	if (!p->pd || !p->channel || !p->cq)
		die("PD, channel or CQ");
	p->len = len;
	p->buf = aligned_alloc(4096, len);
	if (!p->buf)
		die("aligned_alloc");
	memset(p->buf, 0, len);
	p->mr = ibv_reg_mr(p->pd, p->buf, len,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!p->mr)
		die("ibv_reg_mr");
	attr.send_cq = attr.recv_cq = p->cq;
	if (rdma_create_qp(p->id, p->pd, &attr))
		die("rdma_create_qp");
}

static struct rdma_conn_param conn_param(struct pair *p, struct pair_buf *own)
{
	*own = (struct pair_buf){.addr = (uintptr_t)p->buf, .rkey = p->mr->rkey};
	return (struct rdma_conn_param){
		.private_data = own,
		.private_data_len = sizeof(*own),
		.responder_resources = 4,
		.initiator_depth = 4,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

static struct rdma_addrinfo *resolve(const char *addr, const char *port, int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *ai;
	int r = rdma_getaddrinfo(addr, port, &hints, &ai);

	if (r) {
		fprintf(stderr, "%s port %s: %s\n", addr, port, gai_strerror(r));
		exit(1);
	}
	return ai;
}

void pair_serve(struct pair *p, const char *addr, const char *port, size_t len,
		pair_ready_fn *ready)
{
	struct rdma_addrinfo *ai = resolve(addr, port, RAI_PASSIVE | RAI_NUMERICHOST);
	struct rdma_conn_param param;
	struct pair_buf own;

	memset(p, 0, sizeof(*p));
	p->events = rdma_create_event_channel();
	if (!p->events || rdma_create_id(p->events, &p->listener, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	if (rdma_bind_addr(p->listener, ai->ai_src_addr) || rdma_listen(p->listener, 1))
		die(addr);
	rdma_freeaddrinfo(ai);
	puts("listening");
	fflush(stdout);
	expect(p, RDMA_CM_EVENT_CONNECT_REQUEST, &p->id);
	make_qp(p, len);
	ready(p);
	param = conn_param(p, &own);
	if (rdma_accept(p->id, &param))
		die("rdma_accept");
	expect(p, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

void pair_connect(struct pair *p, const char *addr, const char *port, size_t len,
		  pair_ready_fn *ready)
{
	struct rdma_addrinfo *ai = resolve(addr, port, RAI_NUMERICHOST);
	struct rdma_conn_param param;
	struct pair_buf own;

	memset(p, 0, sizeof(*p));
	p->events = rdma_create_event_channel();
	if (!p->events || rdma_create_id(p->events, &p->id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	if (rdma_resolve_addr(p->id, NULL, ai->ai_dst_addr, 2000))
		die(addr);
	rdma_freeaddrinfo(ai);
	expect(p, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (rdma_resolve_route(p->id, 2000))
		die("rdma_resolve_route");
	expect(p, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	make_qp(p, len);
	ready(p);
	param = conn_param(p, &own);
	if (rdma_connect(p->id, &param))
		die("rdma_connect");
	expect(p, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

void pair_close(struct pair *p)
{
	rdma_destroy_qp(p->id);
	if (ibv_destroy_cq(p->cq) || ibv_destroy_comp_channel(p->channel) || ibv_dereg_mr(p->mr) ||
	    ibv_dealloc_pd(p->pd))
		die("closing");
	free(p->buf);
	rdma_destroy_id(p->id);
	if (p->listener)
		rdma_destroy_id(p->listener);
	rdma_destroy_event_channel(p->events);
}
