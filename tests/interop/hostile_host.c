/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An NVMe/RDMA host that takes what it can get and gives nothing back, one way per run, in plain
 * rdma_cm and verbs. Says "holds N" when it has all it got, and keeps it until it is killed.
 * usage: hostile_host ADDRESS PORT MODE COUNT SUBNQN HOSTNQN
 *
 * requests: connections whose replies it does not look at
 * silent: connections without a command
 * controllers: controllers of SUBNQN
 * refusals: Connect to a subsystem with an unseemly name, again and again
 * logs: Get Log Page commands of 1 MiB to one controller, without a receive for the answers
 * reads: Reads of 128 KiB on each of COUNT queues of one controller, likewise
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRIES = 128, LEN = 1 << 20, CAPSULE = 64, RESPONSE = 16, CONNECT_LEN = 1024 };

struct queue {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	uint32_t rkey;
	int posted; /* receives */
};

static struct sockaddr_in target = {.sin_family = AF_INET};
static const char *subnqn, *hostnqn;
static uint8_t memory[LEN], capsules[ENTRIES][CAPSULE], response[RESPONSE];
static struct ibv_mr *memory_mr, *capsule_mr, *response_mr;
static struct ibv_pd *pd;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* True if the next event is of that type. */
static int event_is(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	int same;

	if (rdma_get_cm_event(id->channel, &event))
		die("rdma_get_cm_event");
	same = event->event == type;
	rdma_ack_cm_event(event);
	return same;
}

static void prepare_memory(struct ibv_context *ctx)
{
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	if (pd)
		return;
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		die("ibv_alloc_pd");
	memory_mr = ibv_reg_mr(pd, memory, sizeof(memory), all);
	capsule_mr = ibv_reg_mr(pd, capsules, sizeof(capsules), 0);
	response_mr = ibv_reg_mr(pd, response, sizeof(response), IBV_ACCESS_LOCAL_WRITE);
	if (!memory_mr || !capsule_mr || !response_mr)
		die("ibv_reg_mr");
}

/* Asks for a connection; the answer is an event. */
static struct queue request(struct rdma_event_channel *events, uint16_t qid)
{
	uint8_t data[32] = {0, 0, (uint8_t)qid, 0, ENTRIES, 0, ENTRIES - 1, 0};
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = sizeof(data),
					.responder_resources = 1,
					.retry_count = 7,
					.rnr_retry_count = 7};
	struct ibv_qp_init_attr qp = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 2 * ENTRIES,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct queue q = {0};

	if (rdma_create_id(events, &q.id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(q.id, NULL, (struct sockaddr *)&target, 2000) ||
	    !event_is(q.id, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(q.id, 2000) ||
	    !event_is(q.id, RDMA_CM_EVENT_ROUTE_RESOLVED))
		die("resolve");
	prepare_memory(q.id->verbs);
	q.cq = ibv_create_cq(q.id->verbs, 2 * ENTRIES, NULL, NULL, 0);
	qp.send_cq = qp.recv_cq = q.cq;
	if (!q.cq || rdma_create_qp(q.id, pd, &qp) || rdma_connect(q.id, &param))
		die("rdma_connect");
	return q;
}

/* False if the target refuses. */
static int establish(struct queue *q, uint16_t qid)
{
	struct rdma_event_channel *events = rdma_create_event_channel();

	if (!events)
		die("rdma_create_event_channel");
	*q = request(events, qid);
	return event_is(q->id, RDMA_CM_EVENT_ESTABLISHED);
}

static void post_receive(struct queue *q)
{
	struct ibv_sge sge = {(uintptr_t)response, RESPONSE, response_mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(q->id->qp, &wr, &bad))
		die("ibv_post_recv");
}

static void put(uint8_t *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static uint8_t *command(int i, uint8_t opcode, uint32_t len)
{
	uint8_t *c = capsules[i];

	memset(c, 0, CAPSULE);
	c[0] = opcode;
	c[1] = 0x40; /* an SGL */
	put(c + 2, (uint64_t)i, 2);
	put(c + 24, (uintptr_t)memory, 8);
	put(c + 32, len, 3);
	put(c + 35, memory_mr->rkey, 4);
	c[39] = 0x40; /* a keyed data block */
	return c;
}

static void send_command(struct queue *q, const uint8_t *c, unsigned flags)
{
	struct ibv_sge sge = {(uintptr_t)c, CAPSULE, capsule_mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};
	struct ibv_send_wr *bad;

	if (ibv_post_send(q->id->qp, &wr, &bad))
		die("ibv_post_send");
}

/* The status of the command's response; a lost connection is one as well. */
static uint16_t execute(struct queue *q, const uint8_t *c)
{
	struct ibv_wc wc;
	int n;

	post_receive(q);
	send_command(q, c, IBV_SEND_SIGNALED);
	for (int done = 0; done < 2; done++) {
		while ((n = ibv_poll_cq(q->cq, 1, &wc)) == 0)
			;
		if (n < 0 || wc.status)
			return 0xffff;
	}
	return (uint16_t)((response[14] | response[15] << 8) >> 1);
}

/* 0, or why not; the controller's ID in *cntlid, which is asked for with 0xffff. */
static uint16_t nvme_connect(struct queue *q, uint16_t qid, uint16_t *cntlid)
{
	uint8_t *c = command(0, 0x7f, CONNECT_LEN);
	uint16_t status;

	c[4] = 1;
	put(c + 42, qid, 2);
	put(c + 44, ENTRIES - 1, 2);
	memset(memory, 0, CONNECT_LEN);
	memcpy(memory, "host", 4);
	put(memory + 16, *cntlid, 2);
	snprintf((char *)memory + 256, 256, "%s", subnqn);
	snprintf((char *)memory + 512, 256, "%s", hostnqn);
	status = execute(q, c);
	*cntlid = (uint16_t)(response[0] | response[1] << 8);
	return status;
}

static uint16_t enable(struct queue *q)
{
	uint8_t *c = command(0, 0x7f, 0);

	put(c + 44, 0x14, 4);
	put(c + 48, 0x460001, 8);
	return execute(q, c);
}

static int requests(int count)
{
	struct rdma_event_channel *events;

	/* A channel each, as the events of resolving are looked at. */
	for (int i = 0; i < count; i++) {
		events = rdma_create_event_channel();
		if (!events)
			die("rdma_create_event_channel");
		request(events, 1);
	}
	return count;
}

static int silent(int count)
{
	struct queue q;
	int n = 0;

	while (n < count && establish(&q, 1))
		n++;
	return n;
}

static int controllers(int count)
{
	struct queue q;
	int n = 0;

	for (; n < count && establish(&q, 0); n++) {
		uint16_t any = 0xffff;

		if (nvme_connect(&q, 0, &any))
			break;
	}
	return n;
}

static void controller(struct queue *q, uint16_t *cntlid)
{
	*cntlid = 0xffff;
	if (!establish(q, 0) || nvme_connect(q, 0, cntlid) || enable(q))
		die("no controller");
}

static int refusals(int count)
{
	uint16_t any = 0xffff;
	struct queue q;
	int n = 0;

	subnqn = "nqn.\x1b]0;owned\x07\nconnected: nobody";
	if (!establish(&q, 0))
		die("no connection");
	for (; n < count && nvme_connect(&q, 0, &any) != 0xffff; n++)
		any = 0xffff;
	return n;
}

static int logs(void)
{
	uint16_t cntlid;
	struct queue q;

	controller(&q, &cntlid);
	for (int i = 0; i < ENTRIES - 1; i++) {
		uint8_t *c = command(i, 0x02, LEN);

		c[40] = 0x70; /* the discovery log, 2^18 dwords of it */
		put(c + 42, 0xffff, 2);
		put(c + 44, 3, 2);
		send_command(&q, c, 0);
	}
	return ENTRIES - 1;
}

static int reads(int count)
{
	struct queue admin, q;
	uint16_t cntlid;

	controller(&admin, &cntlid);
	for (int k = 1; k <= count; k++) {
		uint16_t id = cntlid;

		if (!establish(&q, (uint16_t)k) || nvme_connect(&q, (uint16_t)k, &id))
			die("no I/O queue");
		for (int i = 0; i < ENTRIES - 1; i++) {
			uint8_t *c = command(i, 0x02, 128 << 10);

			/* Not where the next queue's Connect says who we are. */
			put(c + 24, (uintptr_t)memory + LEN / 2, 8);
			put(c + 4, 1, 4);
			put(c + 48, (128 << 10 >> 9) - 1, 2);
			send_command(&q, c, 0);
		}
	}
	return count * (ENTRIES - 1);
}

int main(int argc, char **argv)
{
	const char *mode = argv[3];
	int count, held = -1;

	if (argc != 7)
		return 2;
	inet_pton(AF_INET, argv[1], &target.sin_addr);
	target.sin_port = htons((uint16_t)atoi(argv[2]));
	count = atoi(argv[4]);
	subnqn = argv[5];
	hostnqn = argv[6];
	if (strcmp(mode, "requests") == 0)
		held = requests(count);
	else if (strcmp(mode, "silent") == 0)
		held = silent(count);
	else if (strcmp(mode, "controllers") == 0)
		held = controllers(count);
	else if (strcmp(mode, "refusals") == 0)
		held = refusals(count);
	else if (strcmp(mode, "logs") == 0)
		held = logs();
	else if (strcmp(mode, "reads") == 0)
		held = reads(count);
	if (held < 0) {
		fprintf(stderr, "no mode '%s'\n", mode);
		return 2;
	}
	printf("holds %d\n", held);
	fflush(stdout);
	for (;;)
		pause();
}
