/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an application sees of its port: says every asynchronous event of a device and every event
 * of an identifier bound to its address, and answers what it is asked.
 *
 *	port_events DEVICE ADDR PORT
 *
 * Lines on stdin: "port", "gids", "list", "flushed", "open", "listen"; the answer is one line.
 * Ends with stdin.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECVS = 4, GIDS = 64 };

static struct ibv_context *ctx;
static struct ibv_cq *cq;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *bound, *listener, *anywhere;
static struct sockaddr_in addr;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			c = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return c;
}

/* A QP that can only receive, so that there is something to come back. */
static void post_receives(void)
{
	static char buf[64];
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_recv_wr = RECVS, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp;

	cq = ibv_create_cq(ctx, RECVS, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	qp = mr && cq ? ibv_create_qp(pd, &init) : NULL;
	if (!qp ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("queue pair");
	for (int i = 0; i < RECVS; i++) {
		struct ibv_sge sge = {(uintptr_t)buf, sizeof(buf), mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

		if (ibv_post_recv(qp, &wr, &bad))
			die("ibv_post_recv");
	}
}

/* A child with a device of its own, which is told of the same and must not tell its parent. */
static void have_child(const char *device)
{
	int up[2], end[2];
	pid_t pid;
	char byte;

	if (pipe(up) || pipe(end))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		close(up[0]);
		close(end[1]);
		if (!open_named(device))
			die("the child's device");
		close(up[1]);
		(void)!read(end[0], &byte, 1); /* until the parent is gone */
		_exit(0);
	}
	close(up[1]);
	close(end[0]);
	(void)!read(up[0], &byte, 1);
	close(up[0]);
}

static struct rdma_cm_id *id_at(struct sockaddr_in a, unsigned short port, bool listens)
{
	struct rdma_cm_id *id;

	a.sin_port = htons(port);
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&a) || (listens && rdma_listen(id, 1)))
		die("identifier");
	return id;
}

static void say_port(void)
{
	struct ibv_port_attr a;
	int err = ibv_query_port(ctx, 1, &a);

	if (err)
		printf("port error %d\n", err);
	else
		printf("port state %d phys %d mtu %d width %d speed %d\n", a.state, a.phys_state,
		       128 << a.active_mtu, a.active_width, a.active_speed);
}

static void say_gids(void)
{
	struct ibv_gid_entry e[GIDS];
	ssize_t n = ibv_query_gid_table(ctx, e, GIDS, 0);
	char text[INET6_ADDRSTRLEN];
	__be16 pkey = 0;

	printf("gids");
	for (ssize_t i = 0; i < n; i++) {
		struct ibv_gid_entry one;

		if (ibv_query_gid_ex(ctx, 1, e[i].gid_index, &one, 0) ||
		    memcmp(&one, &e[i], sizeof(one)) || one.gid_type != IBV_GID_TYPE_ROCE_V2)
			printf(" (table and entry differ)");
		printf(" %u=%s/%u", e[i].gid_index,
		       inet_ntop(AF_INET6, e[i].gid.raw, text, sizeof(text)), e[i].ndev_ifindex);
	}
	if (n < 0)
		printf(" error %zd", -n);
	else if (ibv_query_pkey(ctx, 1, 0, &pkey) || pkey != 0xffff)
		printf(" (no P_Key)");
	printf("\n");
}

static void say_list(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	printf("list");
	for (int i = 0; list && list[i]; i++)
		printf(" %s/%d", ibv_get_device_name(list[i]), ibv_get_device_index(list[i]));
	printf("\n");
	ibv_free_device_list(list);
}

static void say_flushed(void)
{
	struct ibv_wc wc[RECVS];
	int n = ibv_poll_cq(cq, RECVS, wc), flushed = 0;

	for (int i = 0; i < n; i++)
		flushed += wc[i].status == IBV_WC_WR_FLUSH_ERR;
	printf("flushed %d of %d\n", flushed, RECVS);
}

static void answer(const char *what, const char *device)
{
	if (!strcmp(what, "port\n"))
		say_port();
	else if (!strcmp(what, "gids\n"))
		say_gids();
	else if (!strcmp(what, "list\n"))
		say_list();
	else if (!strcmp(what, "flushed\n"))
		say_flushed();
	else if (!strcmp(what, "open\n"))
		printf("open %s\n", open_named(device) ? "yes" : strerror(errno));
	else if (!strcmp(what, "listen\n"))
		printf("listen %s\n", rdma_listen(bound, 1) ? strerror(errno) : "yes");
}

static void say_async(void)
{
	struct ibv_async_event e;

	if (ibv_get_async_event(ctx, &e))
		die("ibv_get_async_event");
	printf("async %s %d\n", ibv_event_type_str(e.event_type),
	       e.event_type == IBV_EVENT_DEVICE_FATAL ? 0 : e.element.port_num);
	ibv_ack_async_event(&e);
}

static void say_cm(void)
{
	struct rdma_cm_event *e;

	if (rdma_get_cm_event(channel, &e))
		die("rdma_get_cm_event");
	printf("cm %s %s\n", rdma_event_str(e->event),
	       e->id == bound	   ? "bound"
	       : e->id == listener ? "listener"
				   : "anywhere");
	rdma_ack_cm_event(e);
}

int main(int argc, char **argv)
{
	const struct sockaddr_in any = {.sin_family = AF_INET};
	unsigned short port;
	char line[64];

	if (argc != 4 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	addr.sin_family = AF_INET;
	port = (unsigned short)atoi(argv[3]);
	ctx = open_named(argv[1]);
	channel = rdma_create_event_channel();
	if (!ctx || !channel)
		die(argv[1]);
	post_receives();
	have_child(argv[1]);
	bound = id_at(addr, port, false);
	listener = id_at(addr, port + 1, true);
	anywhere = id_at(any, port + 2, true);
	printf("ready\n");
	for (;;) {
		struct pollfd p[] = {{.fd = 0, .events = POLLIN},
				     {.fd = ctx->async_fd, .events = POLLIN},
				     {.fd = channel->fd, .events = POLLIN}};

		if (poll(p, 3, -1) < 0)
			die("poll");
		if (p[1].revents)
			say_async();
		if (p[2].revents)
			say_cm();
		if (!p[0].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			break;
		answer(line, argv[1]);
	}
	/* Of a device that has gone, too, everything can be given back. */
	if (rdma_destroy_id(bound) || rdma_destroy_id(listener) || rdma_destroy_id(anywhere) ||
	    ibv_close_device(ctx))
		die("the end");
	printf("end\n");
	return 0;
}
