/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rsockets before peers that mean harm: bare queue pairs that say of themselves what they like. A
 * peer may end its own connection; another's it must not hold up, nor take memory without a bound.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	PORT = 7471,
	CONN_LEN = 40,
	SENDS = 256,
	MEM = 65536,
	SOON_MS = 5000,
	HALF_OPEN = 160,
	BACKLOG = 128,
	FLOOD = 140,
	/* immediate data: the operation in the upper three bits */
	SHUTDOWN = (int)(7u << 29 | 2),
	KEEPALIVE = (int)(7u << 29 | 1),
	CREDITS = (int)(4u << 29),
};

static int listener = -1;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct sockaddr_in loopback(void)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(PORT),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int be_listening(void **state)
{
	struct sockaddr_in addr = loopback();
	int one = 1;

	(void)state;
	listener = rsocket(AF_INET, SOCK_STREAM, 0);
	return rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	       rbind(listener, (struct sockaddr *)&addr, sizeof(addr)) || rlisten(listener, 8);
}

static int stop_listening(void **state)
{
	(void)state;
	return rclose(listener);
}

/* ---- an honest peer -------------------------------------------------------------------------- */

static int accept_soon(void)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	return rpoll(&p, 1, SOON_MS) == 1 ? raccept(listener, NULL, NULL) : -1;
}

/* A new connection carries a byte there and back, soon. */
static void others_are_served(void)
{
	const double begun = now();
	struct sockaddr_in addr = loopback();
	int client = rsocket(AF_INET, SOCK_STREAM, 0), server;
	char c = 0;

	assert_int_equal(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
	server = accept_soon();
	assert_true(server >= 0);
	assert_int_equal(rsend(client, "x", 1, 0), 1);
	assert_int_equal(rrecv(server, &c, 1, 0), 1);
	assert_int_equal(c, 'x');
	assert_int_equal(rclose(client), 0);
	assert_int_equal(rclose(server), 0);
	assert_true(now() - begun < SOON_MS / 1000.0);
}

/* ---- a peer of another kind ------------------------------------------------------------------ */

struct peer {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *mem;
	bool connected;
	/* as the socket said */
	uint16_t credits;
	uint64_t sgl, data;
	uint32_t sgl_key, data_key, data_len;
};

static void put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

/* What an rsocket would say, of all of the peer's memory. */
static void conn_data(const struct peer *p, uint8_t conn[CONN_LEN])
{
	memset(conn, 0, CONN_LEN);
	conn[0] = 1;
	conn[2] = 0x01; /* 384 credits */
	conn[3] = 0x80;
	put64(conn + 8, (uintptr_t)p->mem);
	put32(conn + 16, p->mr->rkey);
	put32(conn + 20, 2);
	put64(conn + 24, (uintptr_t)p->mem + 4096);
	put32(conn + 32, p->mr->rkey);
	put32(conn + 36, 4096);
}

static void peer_open(struct peer *p)
{
	struct sockaddr_in addr = loopback();
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = SENDS,
						.max_recv_wr = 16,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	*p = (struct peer){.mem = calloc(1, MEM)};
	assert_int_equal(rdma_create_id(NULL, &p->id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(p->id, NULL, (struct sockaddr *)&addr, 2000), 0);
	assert_int_equal(rdma_resolve_route(p->id, 2000), 0);
	p->cq = ibv_create_cq(p->id->verbs, SENDS + 16, NULL, NULL, 0);
	assert_non_null(p->cq);
	attr.send_cq = attr.recv_cq = p->cq;
	assert_int_equal(rdma_create_qp(p->id, NULL, &attr), 0);
	p->mr = ibv_reg_mr(p->id->pd, p->mem, MEM,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(p->mr);
}

static int peer_connect(struct peer *p, const uint8_t *conn, uint8_t len)
{
	struct rdma_conn_param param = {.private_data = conn,
					.private_data_len = len,
					.retry_count = 7,
					.rnr_retry_count = 7};
	const uint8_t *reply;

	if (rdma_connect(p->id, &param))
		return -errno;
	p->connected = true;
	reply = p->id->event->param.conn.private_data;
	assert_true(p->id->event->param.conn.private_data_len >= CONN_LEN);
	p->credits = (uint16_t)(reply[2] << 8 | reply[3]);
	p->sgl = get64(reply + 8);
	p->sgl_key = get32(reply + 16);
	p->data = get64(reply + 24);
	p->data_key = get32(reply + 32);
	p->data_len = get32(reply + 36);
	return 0;
}

static void peer_close(struct peer *p)
{
	if (p->connected)
		rdma_disconnect(p->id);
	rdma_destroy_qp(p->id);
	ibv_destroy_cq(p->cq);
	ibv_dereg_mr(p->mr);
	rdma_destroy_id(p->id);
	free(p->mem);
}

/* Connected, with no receive posted, and the socket that has it. */
static int peer_meet(struct peer *p)
{
	uint8_t conn[CONN_LEN];
	int fd;

	peer_open(p);
	conn_data(p, conn);
	assert_int_equal(peer_connect(p, conn, CONN_LEN), 0);
	fd = accept_soon();
	assert_true(fd >= 0);
	return fd;
}

/* WRITE with immediate data; the status of its completion, or -1 for none in time. */
static int peer_write(struct peer *p, uint32_t imm, uint64_t addr, uint32_t key, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p->mem, len, p->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = len ? 1 : 0,
				       .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				       .send_flags = IBV_SEND_SIGNALED,
				       .imm_data = htobe32(imm),
				       .wr.rdma = {addr, key}};
	const double begun = now();
	struct ibv_wc wc;

	assert_int_equal(ibv_post_send(p->id->qp, &wr, &bad), 0);
	while (now() - begun < SOON_MS / 1000.0)
		if (ibv_poll_cq(p->cq, 1, &wc) == 1)
			return wc.status;
	return -1;
}

/* ---- who takes nothing ----------------------------------------------------------------------- */

/* TCP's close() does not wait for the peer either. */
static void closing_does_not_wait_for_a_peer_that_takes_nothing(void **state)
{
	struct peer p;
	int fd = peer_meet(&p);
	double begun;

	(void)state;
	assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rsend(fd, "x", 1, 0), 1);
	begun = now();
	assert_int_equal(rclose(fd), 0);
	assert_true(now() - begun < SOON_MS / 1000.0);
	others_are_served();
	peer_close(&p);
}

static void shutting_down_does_not_wait_for_a_peer_that_takes_nothing(void **state)
{
	struct peer p;
	int fd = peer_meet(&p);
	double begun;
	char c;

	(void)state;
	assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	/* Each time half its credits are used up, it wants to tell of new ones. */
	for (int i = 0; i < 4 * p.credits; i++) {
		assert_int_equal(peer_write(&p, 0, 0, 0, 0), IBV_WC_SUCCESS);
		assert_int_equal(rrecv(fd, &c, 1, 0), -1);
		assert_int_equal(errno, EAGAIN);
	}
	begun = now();
	assert_int_equal(rshutdown(fd, SHUT_WR), 0);
	assert_int_equal(rshutdown(fd, SHUT_RDWR), 0);
	assert_true(now() - begun < SOON_MS / 1000.0);
	rclose(fd);
	peer_close(&p);
}

/* ---- who never stops ------------------------------------------------------------------------- */

struct flood {
	struct peer *p;
	uint32_t imm;
	atomic_bool stop;
	unsigned long long sent;
};

static void *flood(void *arg)
{
	struct flood *f = arg;
	struct ibv_wc wc[16];
	int under_way = 0, n;

	while (!atomic_load(&f->stop)) {
		struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					       .send_flags = IBV_SEND_SIGNALED,
					       .imm_data = htobe32(f->imm)};

		while (under_way < SENDS && !ibv_post_send(f->p->id->qp, &wr, &bad)) {
			under_way++;
			f->sent++;
		}
		while ((n = ibv_poll_cq(f->p->cq, 16, wc)) > 0)
			under_way -= n;
	}
	return NULL;
}

static void flooded(uint32_t imm)
{
	struct flood f = {.imm = imm};
	pthread_t thread;
	struct peer p;
	int fd = peer_meet(&p);
	double end = now() + 2;
	char c;

	f.p = &p;
	assert_int_equal(rfcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(pthread_create(&thread, NULL, flood, &f), 0);
	while (now() < end) {
		const double begun = now();

		assert_int_equal(rrecv(fd, &c, 1, 0), -1);
		assert_true(now() - begun < SOON_MS / 1000.0);
	}
	others_are_served();
	atomic_store(&f.stop, true);
	pthread_join(thread, NULL);
	assert_true(f.sent > 1000);
	peer_close(&p);
	rclose(fd);
}

static void a_peer_that_never_stops_does_not_keep_a_reader(void **state)
{
	(void)state;
	flooded(KEEPALIVE);
	flooded(0); /* data of no bytes, which want credits */
	flooded(CREDITS | 0xffff);
}

/* Nobody has accepted it yet: it is the service that looks. */
static void a_peer_that_never_stops_does_not_keep_the_service(void **state)
{
	struct flood f = {.imm = KEEPALIVE};
	uint8_t conn[CONN_LEN];
	pthread_t thread;
	struct peer p;
	int fd;

	(void)state;
	peer_open(&p);
	conn_data(&p, conn);
	assert_int_equal(peer_connect(&p, conn, CONN_LEN), 0);
	f.p = &p;
	assert_int_equal(pthread_create(&thread, NULL, flood, &f), 0);
	fd = accept_soon();
	assert_true(fd >= 0);
	others_are_served();
	atomic_store(&f.stop, true);
	pthread_join(thread, NULL);
	peer_close(&p);
	rclose(fd);
}

/* ---- who lies -------------------------------------------------------------------------------- */

static void what_cannot_be_is_rejected(void **state)
{
	uint8_t conn[CONN_LEN];
	struct peer p;

	(void)state;
	for (int kind = 0; kind < 44; kind++) {
		/* What is cut off is zero: connection management's private data have one length. */
		uint8_t len = kind < CONN_LEN - 2 ? (uint8_t)kind : CONN_LEN;

		peer_open(&p);
		conn_data(&p, conn);
		if (kind >= CONN_LEN - 2 && kind <= CONN_LEN)
			conn[0] = (uint8_t)(kind - CONN_LEN + 4); /* another version */
		else if (kind == 41)
			memset(conn + 20, 0, 4); /* no entry for our credits */
		else if (kind == 42)
			memset(conn + 36, 0, 4); /* no buffer */
		else if (kind == 43)
			conn[0] = 0;
		assert_int_equal(peer_connect(&p, conn, len), -ECONNREFUSED);
		peer_close(&p);
	}
	others_are_served();
}

/* Its connection ends; what it claims to have written nobody reads. */
static void lies(uint32_t imm, int times)
{
	struct peer p;
	int fd = peer_meet(&p);
	char buf[4096];
	ssize_t n;

	for (int i = 0; i < times; i++) {
		struct pollfd look = {.fd = fd, .events = POLLOUT};

		if (peer_write(&p, imm, 0, 0, 0) != IBV_WC_SUCCESS)
			break;
		(void)!rpoll(&look, 1, 0);
	}
	while ((n = rrecv(fd, buf, sizeof(buf), 0)) > 0)
		;
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
	peer_close(&p);
	rclose(fd);
	others_are_served();
}

static void more_data_than_there_is_room_for_end_the_connection(void **state)
{
	(void)state;
	lies(0x1fffffff, 1);
	lies(1 << 20, 1);
	lies(1, 1000); /* more messages than it has credits */
}

/* Who says that it has written where it has not is given zeroes, and nothing of the one before. */
static void what_another_has_sent_is_not_to_be_had(void **state)
{
	enum { LEN = 8192, PEERS = 4 }; /* one of them has its buffer, whoever takes which */
	static char secret[LEN], got[LEN];
	struct sockaddr_in addr = loopback();
	int client = rsocket(AF_INET, SOCK_STREAM, 0), server, fd[PEERS];
	struct peer p[PEERS];

	(void)state;
	memset(secret, 'S', LEN);
	assert_int_equal(rconnect(client, (struct sockaddr *)&addr, sizeof(addr)), 0);
	server = accept_soon();
	assert_true(server >= 0);
	assert_int_equal(rsend(client, secret, LEN, 0), LEN);
	assert_int_equal(rrecv(server, got, LEN, MSG_WAITALL), LEN);
	assert_memory_equal(got, secret, LEN);
	assert_int_equal(rclose(client), 0);
	assert_int_equal(rclose(server), 0);

	for (int i = 0; i < PEERS; i++) {
		fd[i] = peer_meet(&p[i]);
		assert_int_equal(peer_write(&p[i], LEN, 0, 0, 0), IBV_WC_SUCCESS);
		memset(got, 'x', LEN);
		assert_int_equal(rrecv(fd[i], got, LEN, MSG_WAITALL), LEN);
		assert_null(memchr(got, 'S', LEN));
		assert_null(memchr(got, 'x', LEN));
	}
	for (int i = 0; i < PEERS; i++) {
		peer_close(&p[i]);
		rclose(fd[i]);
	}
}

static void a_write_outside_the_windows_ends_the_connection(void **state)
{
	struct peer p;
	int fd = peer_meet(&p);
	char c;

	(void)state;
	assert_int_equal(peer_write(&p, 8, p.data + (1 << 20), p.data_key, 8),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rrecv(fd, &c, 1, 0), -1);
	assert_int_equal(errno, ECONNRESET);
	peer_close(&p);
	rclose(fd);
	others_are_served();
}

/* Entries that point nowhere: what is sent there is the peer's loss. */
static void an_entry_that_points_nowhere_ends_the_connection(void **state)
{
	struct ibv_recv_wr recv = {0}, *bad;
	uint8_t conn[CONN_LEN];
	struct peer p;
	char c = 0;
	int fd;

	(void)state;
	peer_open(&p);
	conn_data(&p, conn);
	memset(conn + 2, 0xff, 2);   /* credits without end */
	memset(conn + 8, 0xff, 16);  /* address, key, length of its SGL */
	memset(conn + 24, 0xff, 16); /* and of its buffer */
	conn[1] = 2;		     /* an iomap behind it */
	conn[7] = 0xff;
	for (int i = 0; i < 8; i++)
		assert_int_equal(ibv_post_recv(p.id->qp, &recv, &bad), 0);
	assert_int_equal(peer_connect(&p, conn, CONN_LEN), 0);
	fd = accept_soon();
	assert_true(fd >= 0);
	(void)!rsend(fd, "x", 1, 0);
	assert_int_equal(rrecv(fd, &c, 1, 0), -1);
	peer_close(&p);
	rclose(fd);
	others_are_served();
}

/* ---- many ------------------------------------------------------------------------------------ */

/* Answers to earlier requests, which come in between, are left at that. */
static void wait_for_event(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *event;

	do {
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		type = event->event;
		rdma_ack_cm_event(event);
	} while (type != wanted);
}

/* Requests whose answers nobody takes. */
static void connections_half_open_do_not_keep_others_out(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in addr = loopback();
	struct rdma_cm_id *id[HALF_OPEN];
	uint8_t conn[CONN_LEN] = {1, [23] = 1, [39] = 1};
	struct rdma_conn_param param = {
		.private_data = conn, .private_data_len = CONN_LEN, .retry_count = 7};

	(void)state;
	assert_non_null(channel);
	for (int i = 0; i < HALF_OPEN; i++) {
		assert_int_equal(rdma_create_id(channel, &id[i], NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_resolve_addr(id[i], NULL, (struct sockaddr *)&addr, 2000), 0);
		wait_for_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
		assert_int_equal(rdma_resolve_route(id[i], 2000), 0);
		wait_for_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
		param.qp_num = 77 + (uint32_t)i; /* there is no such queue pair */
		assert_int_equal(rdma_connect(id[i], &param), 0);
	}
	sleep(2);
	others_are_served();
	for (int i = 0; i < HALF_OPEN; i++)
		rdma_destroy_id(id[i]);
	rdma_destroy_event_channel(channel);
}

/* Whom nobody accepts: as many as the backlog holds, which is 128 at least, and then no more. */
static void more_connections_than_the_backlog_holds_are_refused(void **state)
{
	struct peer *peers = calloc(FLOOD, sizeof(*peers));
	uint8_t conn[CONN_LEN];
	int taken = 0, refused = 0;
	struct peer before;
	int fd = peer_meet(&before);
	char c;

	(void)state;
	for (int i = 0; i < FLOOD; i++) {
		int rc;

		peer_open(&peers[i]);
		conn_data(&peers[i], conn);
		rc = peer_connect(&peers[i], conn, CONN_LEN);
		taken += !rc;
		refused += rc == -ECONNREFUSED;
	}
	assert_int_equal(taken, BACKLOG);
	assert_int_equal(refused, FLOOD - BACKLOG);
	assert_int_equal(peer_write(&before, 1, before.data, before.data_key, 1), IBV_WC_SUCCESS);
	assert_int_equal(rrecv(fd, &c, 1, 0), 1);
	for (int i = 0; i < FLOOD; i++)
		peer_close(&peers[i]);
	for (int i = 0; i < BACKLOG; i++)
		assert_int_equal(rclose(accept_soon()), 0);
	others_are_served();
	rclose(fd);
	peer_close(&before);
	free(peers);
}

/* As TCP has it: who sets them on the listener need not set them on each. */
static void what_is_accepted_has_the_listeners_options(void **state)
{
	struct peer p;
	int fd, on = 1, idle = 7;
	socklen_t len = sizeof(on);

	(void)state;
	assert_int_equal(rsetsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)), 0);
	assert_int_equal(rsetsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)), 0);
	fd = peer_meet(&p);
	on = idle = 0;
	assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
	assert_int_equal(rgetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &len), 0);
	assert_int_equal(on, 1);
	assert_int_equal(idle, 7);
	peer_close(&p);
	rclose(fd);
}

#define listening_test(f) cmocka_unit_test_setup_teardown(f, be_listening, stop_listening)

int main(void)
{
	const struct CMUnitTest tests[] = {
		listening_test(what_cannot_be_is_rejected),
		listening_test(more_data_than_there_is_room_for_end_the_connection),
		listening_test(what_another_has_sent_is_not_to_be_had),
		listening_test(a_write_outside_the_windows_ends_the_connection),
		listening_test(an_entry_that_points_nowhere_ends_the_connection),
		listening_test(what_is_accepted_has_the_listeners_options),
		listening_test(a_peer_that_never_stops_does_not_keep_a_reader),
		listening_test(a_peer_that_never_stops_does_not_keep_the_service),
		listening_test(more_connections_than_the_backlog_holds_are_refused),
		listening_test(connections_half_open_do_not_keep_others_out),
		listening_test(shutting_down_does_not_wait_for_a_peer_that_takes_nothing),
		listening_test(closing_does_not_wait_for_a_peer_that_takes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
