/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An NVMe/RDMA target that misbehaves, one way per run, in plain rdma_cm and verbs.
 * usage: hostile_target ADDRESS PORT MODE
 */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECEIVES = 8, CAPSULE = 64 + 8192, RESPONSE = 16 };

static uint8_t buffer[RECEIVES * CAPSULE + 4096];
static struct ibv_mr *mr;
static struct rdma_event_channel *events;
static const char *mode;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int is(const char *name)
{
	return strcmp(mode, name) == 0;
}

static struct rdma_cm_event *next_event(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(events, &event))
		die("rdma_get_cm_event");
	if (event->event != type) {
		fprintf(stderr, "%s instead of %s\n", rdma_event_str(event->event),
			rdma_event_str(type));
		exit(1);
	}
	return event;
}

static void accept_host(struct rdma_cm_id *id)
{
	/* Record format and receive queue size, little-endian. */
	uint8_t reply[32] = {0, 0, 32, 0};
	uint8_t refusal[4] = {0, 0, 6, 0};
	struct rdma_conn_param param = {.private_data = reply,
					.private_data_len = sizeof(reply),
					.rnr_retry_count = 7,
					.initiator_depth = 1};

	if (is("refuses")) {
		rdma_reject(id, refusal, sizeof(refusal));
		exit(0);
	}
	if (is("speaks-no-nvme"))
		param.private_data_len = 0;
	if (is("unknown-format"))
		reply[0] = 1;
	if (rdma_accept(id, &param))
		die("rdma_accept");
	rdma_ack_cm_event(next_event(RDMA_CM_EVENT_ESTABLISHED));
}

static void post_receive(struct rdma_cm_id *id, int i)
{
	struct ibv_sge sge = {(uintptr_t)(buffer + i * CAPSULE), CAPSULE, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(id->qp, &wr, &bad))
		die("ibv_post_recv");
}

static struct ibv_wc next_completion(struct rdma_cm_id *id)
{
	struct pollfd fd = {.fd = events->fd, .events = POLLIN};
	struct ibv_wc wc;
	int n;

	/* The host's leaving is all that the connection still has to tell. */
	while ((n = ibv_poll_cq(id->qp->recv_cq, 1, &wc)) == 0)
		if (poll(&fd, 1, 0) > 0)
			exit(0);
	if (n < 0)
		die("ibv_poll_cq");
	if (wc.status) {
		fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
		exit(0); /* the host has gone */
	}
	return wc;
}

static void send_bytes(struct rdma_cm_id *id, const void *bytes, uint32_t len, uint32_t invalidate)
{
	uint8_t *at = buffer + RECEIVES * CAPSULE;
	struct ibv_sge sge = {(uintptr_t)at, len, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
				 .invalidate_rkey = invalidate,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	memcpy(at, bytes, len);
	if (ibv_post_send(id->qp, &wr, &bad))
		die("ibv_post_send");
	next_completion(id);
}

/* Answers the Connect command that stands at sqe, in its own way. */
static void misbehave(struct rdma_cm_id *id, const uint8_t *sqe)
{
	uint8_t response[64] = {0};
	uint32_t key;

	memcpy(response + 12, sqe + 2, 2); /* the command's ID */
	memcpy(&key, sqe + 36, 4);	   /* of its keyed SGL */
	if (is("long-response"))
		send_bytes(id, response, 20, 0);
	else if (is("short-response"))
		send_bytes(id, response, 15, 0);
	else if (is("empty-response"))
		send_bytes(id, response, 0, 0);
	else if (is("unknown-command"))
		send_bytes(id, (response[12] ^= 0x3f, response), RESPONSE, 0);
	else if (is("queue-head"))
		send_bytes(id, (response[9] = 0x7f, response), RESPONSE, 0);
	else if (is("key-of-another"))
		send_bytes(id, response, RESPONSE, key ^ 0x5a5a00);
	else if (is("twice")) {
		send_bytes(id, response, RESPONSE, 0);
		send_bytes(id, response, RESPONSE, 0);
	} else if (is("hangs-up"))
		rdma_disconnect(id);
	else if (!is("silent")) {
		fprintf(stderr, "no mode '%s'\n", mode);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *event;
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8,
			.max_recv_wr = RECEIVES,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_pd *pd;

	if (argc != 4)
		return 2;
	mode = argv[3];
	inet_pton(AF_INET, argv[1], &addr.sin_addr);
	addr.sin_port = htons((uint16_t)atoi(argv[2]));
	events = rdma_create_event_channel();
	if (!events || rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&addr) || rdma_listen(listener, 4))
		die("listen");
	puts("listening");
	fflush(stdout);
	event = next_event(RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	rdma_ack_cm_event(event);
	pd = ibv_alloc_pd(id->verbs);
	if (!pd)
		die("ibv_alloc_pd");
	qp.send_cq = qp.recv_cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	if (!qp.send_cq || !mr || rdma_create_qp(id, pd, &qp))
		die("queue pair");
	for (int i = 0; i < RECEIVES; i++)
		post_receive(id, i);
	accept_host(id);
	misbehave(id, buffer + next_completion(id).wr_id * CAPSULE);
	/* Whatever comes now goes unanswered, until the host hangs up. */
	for (;;)
		next_completion(id);
}
