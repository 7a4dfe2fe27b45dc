/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Programs of many threads that fork, on synchronous endpoints as rdma_cm(7) has them.
 *
 *	crowd serve ADDR PORT
 *	crowd connect ADDR PORT PROCESSES THREADS
 *
 * The server has a thread for every connection, which sends back what comes. The client looks at
 * its devices, forks, and each child's threads have connections of their own, one after the other.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MSG = 4096, MESSAGES = 50, CONNECTIONS = 3, SILENCE_MS = 75000 };

static const char *addr, *port;

static void die(const char *what)
{
	fprintf(stderr, "%d: %s: %s\n", getpid(), what, strerror(errno));
	exit(1);
}

static struct rdma_cm_id *endpoint(int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *res;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1};
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(addr, port, &hints, &res))
		die("rdma_getaddrinfo");
	if (rdma_create_ep(&id, res, NULL, &attr))
		die("rdma_create_ep");
	rdma_freeaddrinfo(res);
	return id;
}

/* ---- the server ------------------------------------------------------------------------------ */

/* As rdma_get_recv_comp(), but for so long: of a client that was killed together with its host's
 * broker nobody is told. */
static int next_message(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	struct pollfd p = {.fd = id->recv_cq_channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;
	int n;

	for (;;) {
		n = ibv_poll_cq(id->recv_cq, 1, wc);
		if (!n && ibv_req_notify_cq(id->recv_cq, 0) == 0)
			n = ibv_poll_cq(id->recv_cq, 1, wc);
		if (n || poll(&p, 1, SILENCE_MS) != 1 ||
		    ibv_get_cq_event(id->recv_cq_channel, &cq, &context))
			return n;
		ibv_ack_cq_events(cq, 1);
	}
}

static void *echo(void *arg)
{
	struct rdma_cm_id *id = arg;
	char *buf = malloc(2 * MSG);
	struct ibv_mr *mr = rdma_reg_msgs(id, buf, 2 * MSG);
	struct ibv_wc wc;

	if (!mr || rdma_post_recv(id, NULL, buf, MSG, mr))
		die("memory of a connection");
	if (rdma_accept(id, NULL)) { /* who asked may have gone */
		perror("accept");
		goto out;
	}
	/* A byte alone is the last message: with both sides waiting for a message, none would see
	 * the other's end. */
	while (next_message(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len > 1) {
		memcpy(buf + MSG, buf, wc.byte_len);
		/* First: a receive that is late by a moment costs the sender 0.6 s. */
		if (rdma_post_recv(id, NULL, buf, MSG, mr) ||
		    rdma_post_send(id, NULL, buf + MSG, wc.byte_len, mr, 0) ||
		    rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			break;
	}
	rdma_disconnect(id);
out:
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	free(buf);
	return NULL;
}

static void serve(void)
{
	struct rdma_cm_id *listener = endpoint(RAI_PASSIVE), *id;
	pthread_t thread;

	if (rdma_listen(listener, 0))
		die("rdma_listen");
	printf("listening\n");
	fflush(stdout);
	for (;;) {
		if (rdma_get_request(listener, &id))
			die("rdma_get_request");
		if (pthread_create(&thread, NULL, echo, id) || pthread_detach(thread))
			die("pthread_create");
	}
}

/* ---- the client ------------------------------------------------------------------------------ */

static void talk(uint32_t seed)
{
	struct rdma_cm_id *id = endpoint(0);
	unsigned char *buf = malloc(2 * MSG);
	struct ibv_mr *mr = rdma_reg_msgs(id, buf, 2 * MSG);
	struct ibv_wc wc;

	if (!mr || rdma_post_recv(id, NULL, buf + MSG, MSG, mr) || rdma_connect(id, NULL))
		die("connect");
	for (unsigned int n = 0; n < MESSAGES; n++) {
		for (int i = 0; i < MSG; i++)
			buf[i] = (unsigned char)(seed = seed * 1103515245 + 12345, seed >> 16);
		if (rdma_post_send(id, NULL, buf, MSG, mr, 0) || rdma_get_send_comp(id, &wc) != 1 ||
		    wc.status != IBV_WC_SUCCESS || rdma_get_recv_comp(id, &wc) != 1 ||
		    wc.status != IBV_WC_SUCCESS || wc.byte_len != MSG) {
			fprintf(stderr, "%d: message %u: %s, %u bytes\n", getpid(), n,
				ibv_wc_status_str(wc.status), wc.byte_len);
			exit(1);
		}
		if (memcmp(buf, buf + MSG, MSG)) {
			fprintf(stderr, "%d: another's message\n", getpid());
			exit(1);
		}
		if (n + 1 < MESSAGES && rdma_post_recv(id, NULL, buf + MSG, MSG, mr))
			die("rdma_post_recv");
	}
	if (rdma_post_send(id, NULL, buf, 1, mr, 0) || rdma_get_send_comp(id, &wc) != 1)
		die("last message");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%d: last message: %s\n", getpid(), ibv_wc_status_str(wc.status));
		exit(1);
	}
	if (rdma_disconnect(id))
		die("rdma_disconnect");
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	free(buf);
}

static void *talker(void *arg)
{
	for (int i = 0; i < CONNECTIONS; i++)
		talk((uint32_t)(uintptr_t)arg * 7919u + (uint32_t)(getpid() * CONNECTIONS + i));
	return NULL;
}

static void child(int threads)
{
	pthread_t *t = calloc((size_t)threads, sizeof(*t));

	for (long i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, talker, (void *)i))
			die("pthread_create");
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	exit(0);
}

static int connect_all(int processes, int threads)
{
	int status, failed = 0;

	talk(1); /* the parent has a device, a thread of weft's and a connection behind it */
	for (int i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (!pid)
			child(threads);
	}
	talk(2);
	while (wait(&status) > 0)
		failed += status != 0;
	printf("%d of %d processes failed\n", failed, processes);
	return failed != 0;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	addr = argv[2];
	port = argv[3];
	if (!strcmp(argv[1], "serve"))
		serve();
	else if (!strcmp(argv[1], "connect") && argc == 6)
		return connect_all(atoi(argv[4]), atoi(argv[5]));
	return 2;
}
