/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* usage: wire SCENARIO DEVICE GID-INDEX [ADDRESS]	the end with an address is the requester */
#include "end.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 18601 };

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("wire: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- the other end --------------------------------------------------------------------------- */

void tell(struct end *e, const void *mine, void *theirs, size_t len)
{
	NEED(send(e->sock, mine, len, MSG_NOSIGNAL) == (ssize_t)len &&
		     recv(e->sock, theirs, len, MSG_WAITALL) == (ssize_t)len,
	     "the other end has gone");
}

uint64_t swap(struct end *e, uint64_t mine)
{
	uint64_t theirs;

	tell(e, &mine, &theirs, sizeof(mine));
	return theirs;
}

void meet(struct end *e)
{
	(void)swap(e, 0);
}

void be_patient(struct end *e, int ms)
{
	struct timeval patience = {.tv_sec = ms / 1000};

	e->patience_ms = ms;
	setsockopt(e->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

static void connect_ends(struct end *e, const char *address)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int s = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (address) {
		inet_pton(AF_INET, address, &a.sin_addr);
		NEED(!connect(s, (struct sockaddr *)&a, sizeof(a)), "%s: %s", address,
		     strerror(errno));
		e->sock = s;
	} else {
		NEED(!bind(s, (struct sockaddr *)&a, sizeof(a)) && !listen(s, 1), "port %d: %s",
		     PORT, strerror(errno));
		e->sock = accept(s, NULL, NULL);
		close(s);
	}
	be_patient(e, PATIENCE_MS);
}

/* ---- the device and the connection ----------------------------------------------------------- */

static void open_device(struct end *e, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			e->ctx = ibv_open_device(list[i]);
	NEED(e->ctx, "no device %s", name);
	e->iwarp = e->ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	if (e->iwarp)
		open_by_cm(e, name);
	e->weft = !strncmp(name, "weft", 4);
	NEED(!ibv_query_device(e->ctx, &e->dev) && !ibv_query_port(e->ctx, 1, &e->port), "query");
	e->pd = ibv_alloc_pd(e->ctx);
	e->channel = ibv_create_comp_channel(e->ctx);
	e->cq = ibv_create_cq(e->ctx, 4 * DEPTH, NULL, e->channel, 0);
	e->buf = aligned_alloc(4096, BUF_LEN);
	NEED(e->pd && e->channel && e->cq && e->buf, "PD, channel, CQ or buffer");
	memset(e->buf, 0, BUF_LEN);
	e->mr = ibv_reg_mr(e->pd, e->buf, BUF_LEN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |
				   IBV_ACCESS_MW_BIND);
	NEED(e->mr, "ibv_reg_mr: %s", strerror(errno));
}

void part(struct end *e)
{
	struct ibv_wc wc;

	meet(e);
	if (e->iwarp)
		part_by_cm(e);
	else
		NEED(!ibv_destroy_qp(e->qp), "ibv_destroy_qp");
	e->qp = NULL;
	while (ibv_poll_cq(e->cq, 1, &wc) > 0)
		;
	while (event(e, 0) >= 0)
		;
	meet(e);
}

enum ibv_qp_state state_of(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	NEED(!ibv_query_qp(e->qp, &a, IBV_QP_STATE, &init), "ibv_query_qp");
	return a.qp_state;
}

int event(struct end *e, int ms)
{
	struct pollfd p = {.fd = e->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	if (poll(&p, 1, ms) != 1)
		return -1;
	NEED(!ibv_get_async_event(e->ctx, &ev), "ibv_get_async_event");
	ibv_ack_async_event(&ev);
	return (int)ev.event_type;
}

/* ---- requests and completions ---------------------------------------------------------------- */

void post_recv(struct end *e, size_t off, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)e->buf + off, len, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = off, .sg_list = &sge, .num_sge = len ? 1 : 0}, *bad;

	errno = e->qp->srq ? ibv_post_srq_recv(e->qp->srq, &wr, &bad)
			   : ibv_post_recv(e->qp, &wr, &bad);
	NEED(!errno, "post a receive: %s", strerror(errno));
}

struct ibv_send_wr request(const struct end *e, enum ibv_wr_opcode op, size_t remote)
{
	struct ibv_send_wr wr = {.wr_id = op, .opcode = op, .send_flags = IBV_SEND_SIGNALED};

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = e->peer.addr + remote;
		wr.wr.atomic.rkey = e->peer.rkey;
	} else {
		wr.wr.rdma.remote_addr = e->peer.addr + remote;
		wr.wr.rdma.rkey = e->peer.rkey;
	}
	return wr;
}

int try_post(struct end *e, struct ibv_send_wr *wr, size_t local, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)e->buf + local, len, e->mr->lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = len ? 1 : 0;
	return ibv_post_send(e->qp, wr, &bad);
}

void post(struct end *e, struct ibv_send_wr *wr, size_t local, uint32_t len)
{
	errno = try_post(e, wr, local, len);
	NEED(!errno, "post opcode %d: %s", wr->opcode, strerror(errno));
}

void post_op(struct end *e, enum ibv_wr_opcode op, size_t local, uint32_t len, size_t remote)
{
	struct ibv_send_wr wr = request(e, op, remote);

	post(e, &wr, local, len);
}

static bool polled(struct end *e, struct ibv_wc *wc, int ms)
{
	uint64_t until = now_ms() + (uint64_t)ms;
	struct timespec pause = {.tv_nsec = 100000};
	int n;

	while ((n = ibv_poll_cq(e->cq, 1, wc)) == 0 && now_ms() < until)
		nanosleep(&pause, NULL);
	NEED(n >= 0, "ibv_poll_cq");
	return n;
}

struct ibv_wc completion(struct end *e)
{
	struct ibv_wc wc = {0};

	NEED(polled(e, &wc, e->patience_ms), "no completion in %d s", e->patience_ms / 1000);
	return wc;
}

struct ibv_wc success(struct end *e)
{
	struct ibv_wc wc = completion(e);

	NEED(wc.status == IBV_WC_SUCCESS, "request %d: %s", (int)wc.wr_id,
	     ibv_wc_status_str(wc.status));
	return wc;
}

void silence(struct end *e, int ms)
{
	struct ibv_wc wc;

	NEED(!polled(e, &wc, ms), "a completion (%s) that nothing is due",
	     ibv_wc_status_str(wc.status));
}

/* ---- data ------------------------------------------------------------------------------------ */

static uint8_t pattern(size_t i, unsigned key)
{
	return (uint8_t)((i * 2654435761u >> 11) + key * 37);
}

void fill(struct end *e, size_t off, size_t len, unsigned key)
{
	for (size_t i = 0; i < len; i++)
		e->buf[off + i] = pattern(i, key);
}

void check(struct end *e, size_t off, size_t len, unsigned key, const char *what)
{
	for (size_t i = 0; i < len; i++)
		NEED(e->buf[off + i] == pattern(i, key), "%s: byte %zu of %zu is wrong", what, i,
		     len);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(struct end *);
	} scenarios[] = {
		{"rnr", rnr},
		{"psn-wrap", psn_wrap},
		{"unsignaled", unsignaled},
		{"reads", deep_reads},
		{"atomics", atomics},
		{"large", large},
		{"zero", zero},
		{"immediate", immediate},
		{"solicited", solicited},
		{"srq", srq},
		{"invalidate", invalidate},
		{"errors", errors},
		{"invalidate-again", invalidate_again},
		{"too-long", too_long},
		{"longest", longest},
		{"atomic-write", atomic_write},
		{"sizes", sizes},
		{"order", order},
		{"few-reads", few_reads},
		{"private-data", private_data},
		{"denials", denials},
		{"endings", endings},
		{"killed", killed},
		{"steady", steady},
	};
	struct end e = {.requester = argc > 4};

	NEED(argc > 3, "usage: wire SCENARIO DEVICE GID-INDEX [ADDRESS]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	e.gid_index = atoi(argv[3]);
	e.address = argv[4];
	connect_ends(&e, argv[4]);
	open_device(&e, argv[2]);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(scenarios[i].name, argv[1]))
			continue;
		scenarios[i].run(&e);
		puts("all as it should be");
		return 0;
	}
	fail("no scenario %s", argv[1]);
}
