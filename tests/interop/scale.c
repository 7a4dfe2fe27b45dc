/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Many connections, as a plain rdma_cm and verbs program has them: one shared receive queue and one
 * completion queue for all.
 *
 *	scale serve ADDR PORT           answers every message with the same
 *	scale churn ADDR PORT WARM N    opens and closes WARM connections, then N as often as
 *					it is told to, a message on each
 *	scale hold ADDR PORT N ROUNDS   N connections at once, ROUNDS messages on each
 *	scale mesh ADDR PORT ME PEERS   listens on PORT + ME, has a connection with each of the
 *others
 *
 * They say a line when something is done, and wait for one on stdin where somebody might want to
 * look at them. A connection that breaks is counted and let go.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MSG = 64, RECVS = 4096, CQE = 8192, PORTS = 65536, OPEN_AT_ONCE = 16 };

struct conn {
	struct rdma_cm_id *id;
	struct conn *next; /* of those with the same hash */
	uint32_t qpn;
	int slot; /* of its send buffer */
	int peer; /* mesh: who it is with; else -1 */
	unsigned int sent, echoed;
	bool active, up, sending;
};

static struct rdma_event_channel *channel;
static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct ibv_comp_channel *completions;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static char *memory; /* receives, then sends */
static struct conn *by_qpn[PORTS];
static int free_slots[PORTS], slots;
static unsigned int live, opened, closed, failed, rounds;
static unsigned long long echoes, answered;
static struct sockaddr_in addr;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void post_recv(int n)
{
	struct ibv_sge sge = {(uintptr_t)memory + (size_t)n * MSG, MSG, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)n, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_srq_recv(srq, &wr, &bad))
		die("ibv_post_srq_recv");
}

static char *send_buffer(const struct conn *c)
{
	return memory + (size_t)(RECVS + c->slot) * MSG;
}

/* A message says whose it is and the how many-th, so that one that went astray is noticed. */
static void fill(char *m, uint32_t qpn, unsigned int n, bool answer)
{
	memset(m, (int)(qpn + n), MSG);
	memcpy(m, &qpn, sizeof(qpn));
	memcpy(m + 4, &n, sizeof(n));
	m[8] = answer;
}

static void send_message(struct conn *c)
{
	struct ibv_sge sge = {(uintptr_t)send_buffer(c), MSG, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = RECVS,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	c->sending = true;
	if (ibv_post_send(c->id->qp, &wr, &bad))
		die("ibv_post_send");
}

static void next_message(struct conn *c)
{
	fill(send_buffer(c), c->qpn, c->sent++, false);
	send_message(c);
}

static void received(struct conn *c, const char *m)
{
	char want[MSG];

	if (!m[8]) { /* a question */
		memcpy(send_buffer(c), m, MSG);
		send_buffer(c)[8] = 1;
		answered++;
		send_message(c);
		return;
	}
	fill(want, c->qpn, c->echoed, true);
	if (memcmp(m, want, MSG)) {
		fprintf(stderr, "QP %#x: a wrong message\n", c->qpn);
		exit(1);
	}
	c->echoed++;
	echoes++;
	if (rounds == 0 || c->echoed < rounds)
		next_message(c);
	else if (rounds == 1)
		rdma_disconnect(c->id);
}

static void poll_cq(void)
{
	struct ibv_wc wc[64];
	int n;

	while ((n = ibv_poll_cq(cq, 64, wc)) > 0) {
		for (int i = 0; i < n; i++) {
			struct conn *c = by_qpn[wc[i].qp_num % PORTS];

			while (c && c->qpn != wc[i].qp_num)
				c = c->next;
			if (wc[i].wr_id < RECVS) {
				if (c && wc[i].status == IBV_WC_SUCCESS)
					received(c, memory + wc[i].wr_id * MSG);
				post_recv((int)wc[i].wr_id);
			}
		}
	}
	if (n < 0)
		die("ibv_poll_cq");
}

/* ---- connections ----------------------------------------------------------------------------- */

static void begin_verbs(struct ibv_context *v)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = RECVS, .max_sge = 1}};

	if (verbs)
		return;
	verbs = v;
	memory = calloc(RECVS + PORTS, MSG);
	pd = ibv_alloc_pd(v);
	completions = pd ? ibv_create_comp_channel(v) : NULL;
	if (!completions || fcntl(completions->fd, F_SETFL, O_NONBLOCK))
		die("ibv_create_comp_channel");
	cq = ibv_create_cq(v, CQE, NULL, completions, 0);
	srq = cq ? ibv_create_srq(pd, &attr) : NULL;
	mr = srq ? ibv_reg_mr(pd, memory, (size_t)(RECVS + PORTS) * MSG, IBV_ACCESS_LOCAL_WRITE)
		 : NULL;
	if (!mr || ibv_req_notify_cq(cq, 0))
		die("verbs objects");
	for (int i = 0; i < RECVS; i++)
		post_recv(i);
	for (int i = 0; i < PORTS; i++)
		free_slots[slots++] = PORTS - 1 - i;
}

static struct conn *conn_new(struct rdma_cm_id *id, int peer)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		die("memory");
	id->context = c;
	c->id = id;
	c->peer = peer;
	c->slot = -1;
	return c;
}

static void make_qp(struct conn *c)
{
	struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC,
				     .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct conn **bucket;

	begin_verbs(c->id->verbs);
	a.send_cq = a.recv_cq = cq;
	a.srq = srq;
	if (rdma_create_qp(c->id, pd, &a))
		die("rdma_create_qp");
	c->qpn = c->id->qp->qp_num;
	c->slot = free_slots[--slots];
	bucket = &by_qpn[c->qpn % PORTS];
	c->next = *bucket;
	*bucket = c;
}

static void open_one(uint16_t port, int peer)
{
	struct sockaddr_in to = addr;
	struct rdma_cm_id *id;

	to.sin_port = htons(port);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	conn_new(id, peer)->active = true;
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000))
		die("rdma_resolve_addr");
	opened++;
	live++;
}

static void drop(struct conn *c)
{
	if (c->qpn) {
		struct conn **p = &by_qpn[c->qpn % PORTS];

		poll_cq();
		while (*p != c)
			p = &(*p)->next;
		*p = c->next;
		rdma_destroy_qp(c->id);
		free_slots[slots++] = c->slot;
	}
	if (rdma_destroy_id(c->id))
		die("rdma_destroy_id");
	free(c);
	live--;
	closed++;
}

/* Mesh: who was not there yet, or has died, is asked again; its number comes back. */
static int handle(struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = {.retry_count = 7,
					.rnr_retry_count = 7,
					.initiator_depth = 1,
					.responder_resources = 1};
	struct conn *c = ev->id->context;
	enum rdma_cm_event_type type = ev->event;
	struct rdma_cm_id *id = ev->id;
	int peer = -1;

	rdma_ack_cm_event(ev);
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(id, 2000))
			die("rdma_resolve_route");
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		make_qp(c);
		if (rdma_connect(id, &param))
			die("rdma_connect");
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		c = conn_new(id, -1);
		live++;
		opened++;
		make_qp(c);
		if (rdma_accept(id, &param))
			drop(c); /* it has gone meanwhile */
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		c->up = true;
		if (c->active)
			next_message(c);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		peer = c->active && rounds == 0 ? c->peer : -1;
		rdma_disconnect(id);
		drop(c);
		break;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		peer = c->active ? c->peer : -1;
		if (peer < 0)
			fprintf(stderr, "%s\n", rdma_event_str(type));
		failed++;
		drop(c);
		break;
	default: /* TIMEWAIT_EXIT */
		break;
	}
	return peer;
}

/* Handles what is there, or waits a moment for it. False once stdin has a line or has ended. The
 * number of a peer that must be asked again comes by ret_again, unless it is NULL. */
static bool turn(int *ret_again)
{
	struct pollfd p[] = {{.fd = channel->fd, .events = POLLIN},
			     {.fd = 0, .events = POLLIN},
			     {.fd = completions ? completions->fd : -1, .events = POLLIN}};
	struct rdma_cm_event *ev;
	struct ibv_cq *which;
	void *context;

	if (poll(p, 3, 10) < 0)
		die("poll");
	if (p[2].revents && !ibv_get_cq_event(completions, &which, &context))
		ibv_ack_cq_events(which, 1);
	if (p[2].revents && ibv_req_notify_cq(cq, 0))
		die("ibv_req_notify_cq");
	for (int i = 0; i < 64 && !rdma_get_cm_event(channel, &ev); i++) {
		int again = handle(ev);

		if (ret_again && again >= 0) {
			*ret_again = again;
			break;
		}
	}
	if (cq)
		poll_cq();
	return !p[1].revents;
}

/* Says a line and goes on until there is one on stdin. */
static void pause_at(const char *what)
{
	char line[16];

	printf("%s\n", what);
	while (turn(NULL))
		;
	if (!fgets(line, sizeof(line), stdin))
		exit(failed != 0);
}

static void listen_on(uint16_t port)
{
	struct rdma_cm_id *id;

	addr.sin_port = htons(port);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&addr) || rdma_listen(id, 0))
		die("listen");
}

/* ---- the four ways --------------------------------------------------------------------------- */

static void churn(uint16_t port, unsigned int n)
{
	double begun = now();
	unsigned int at = opened, until = closed + n;
	char text[96];

	rounds = 1;
	while (closed < until) {
		while (live < OPEN_AT_ONCE && opened - at < n)
			open_one(port, -1);
		turn(NULL);
	}
	snprintf(text, sizeof(text), "done %u connections, %.0f per second, %u failed", n,
		 n / (now() - begun), failed);
	pause_at(text);
}

static void hold(uint16_t port, unsigned int n, unsigned int messages)
{
	double begun = now();
	char text[96];

	rounds = messages;
	while (echoes < (unsigned long long)n * messages && !failed) {
		while (opened < n && live - echoes / messages < OPEN_AT_ONCE)
			open_one(port, -1);
		turn(NULL);
	}
	snprintf(text, sizeof(text), "held %u connections, %llu messages in %.1f s, %u failed",
		 live, echoes, now() - begun, failed);
	pause_at(text);
	for (int i = 0; i < PORTS; i++)
		for (struct conn *c = by_qpn[i]; c; c = c->next)
			rdma_disconnect(c->id);
	while (live)
		turn(NULL);
}

static void mesh(uint16_t port, int me, int peers)
{
	bool wanted[1024] = {false};
	double report = 0;

	rounds = 0;
	listen_on((uint16_t)(port + me));
	for (int i = 0; i < me; i++)
		wanted[i] = true;
	printf("listening\n");
	for (;;) {
		int again = -1, with = 0;

		for (int i = 0; i < me; i++) {
			if (!wanted[i])
				continue;
			wanted[i] = false;
			open_one((uint16_t)(port + i), i);
			break;
		}
		if (!turn(&again))
			break;
		if (again >= 0)
			wanted[again] = true;
		if (now() < report)
			continue;
		for (int i = 0; i < PORTS; i++)
			for (struct conn *c = by_qpn[i]; c; c = c->next)
				with += c->active ? c->echoed > 0 : c->up;
		printf("with %d of %d, %llu echoes\n", with, peers - 1, echoes + answered);
		report = now() + 0.5;
	}
	printf("end\n");
}

int main(int argc, char **argv)
{
	uint16_t port;

	if (argc < 4 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	addr.sin_family = AF_INET;
	port = (uint16_t)atoi(argv[3]);
	channel = rdma_create_event_channel();
	if (!channel || fcntl(channel->fd, F_SETFL, O_NONBLOCK))
		die("rdma_create_event_channel");
	if (!strcmp(argv[1], "serve") && argc == 4) {
		rounds = 1;
		listen_on(port);
		pause_at("listening");
	} else if (!strcmp(argv[1], "churn") && argc == 6) {
		churn(port, (unsigned)atoi(argv[4]));
		for (;;) /* until stdin ends */
			churn(port, (unsigned)atoi(argv[5]));
	} else if (!strcmp(argv[1], "hold") && argc == 6) {
		hold(port, (unsigned)atoi(argv[4]), (unsigned)atoi(argv[5]));
	} else if (!strcmp(argv[1], "mesh") && argc == 6) {
		mesh(port, atoi(argv[4]), atoi(argv[5]));
	} else {
		return 2;
	}
	return failed && strcmp(argv[1], "mesh") != 0;
}
