/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a message costs in instructions: two queue pairs of one core, by UDP over loopback, in one
 * thread and in the same order each time, so that callgrind counts what is to be compared to the
 * instruction. usage: packets BYTES COUNT; of COUNT WRITEs, 60 at a time, and their ends.
 *
 *   for n in 10000 20000; do valgrind --tool=callgrind packets 64 $n; done    the difference counts
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "engine/drive.h"
#include "port/udp/udp_port.h"
#include "port/udp/udp_socket.h"

#define AT_ONCE 60
#define MEMORY	(1u << 20)

static void *do_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void do_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static uint32_t do_random(void *ctx)
{
	(void)ctx;
	return 4711;
}

static void on_notify(void *ctx, void *user)
{
	(void)ctx, (void)user;
}

static void on_event(void *ctx, enum rnic_event event, void *user)
{
	(void)ctx, (void)user;
	errx(1, "event %d", event);
}

static const struct rnic_ops ops = {.alloc = do_alloc,
				    .free = do_free,
				    .random = do_random,
				    .cq_notify = on_notify,
				    .async_event = on_event};

static void must(int rc, const char *what)
{
	if (rc)
		errx(1, "%s: %s", what, strerror(-rc));
}

static void connect_to(struct rnic_qp *qp, struct rnic_qp *peer)
{
	struct rnic_qp_attr a = {
		.state = RNIC_QPS_INIT,
		.access_flags = RNIC_ACCESS_REMOTE_WRITE,
		.port_num = 1,
		.path_mtu = RNIC_MTU_4096,
		.dest_qpn = rnic_qp_num(peer),
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.flow = {.sgid = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
			 .dgid = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
			 .sport = 50000},
	};

	must(rnic_qp_modify(
		     qp, &a,
		     RNIC_QP_STATE | RNIC_QP_PKEY_INDEX | RNIC_QP_PORT | RNIC_QP_ACCESS_FLAGS, 1),
	     "INIT");
	a.state = RNIC_QPS_RTR;
	must(rnic_qp_modify(qp, &a,
			    RNIC_QP_STATE | RNIC_QP_AV | RNIC_QP_PATH_MTU | RNIC_QP_DEST_QPN |
				    RNIC_QP_RQ_PSN | RNIC_QP_MAX_DEST_RD_ATOMIC |
				    RNIC_QP_MIN_RNR_TIMER,
			    1),
	     "RTR");
	a.state = RNIC_QPS_RTS;
	must(rnic_qp_modify(qp, &a,
			    RNIC_QP_STATE | RNIC_QP_SQ_PSN | RNIC_QP_TIMEOUT | RNIC_QP_RETRY_CNT |
				    RNIC_QP_RNR_RETRY | RNIC_QP_MAX_QP_RD_ATOMIC,
			    1),
	     "RTS");
}

int main(int argc, char **argv)
{
	const struct rnic_config config = {.slot = 1};
	static struct packet_tx tx[DRIVE_TX_BATCH];
	struct rnic_qp_init init = {.type = RNIC_QPT_RC, .cap = {AT_ONCE + 4, 1, 1, 1, 0}};
	struct rnic_sge sge;
	struct rnic_send_wr wr = {.sge = &sge, .num_sge = 1, .opcode = RNIC_WR_RDMA_WRITE};
	struct rnic_qp *qp[2];
	struct rnic_cq *cq;
	struct rnic_pd *pd;
	struct rnic_mr *mr;
	struct rnic *rnic;
	struct port *port;
	struct drive d;
	uint64_t now = 1;
	long count, done = 0;
	uint8_t *memory = aligned_alloc(4096, MEMORY);
	int fd;

	if (argc != 3 || !memory)
		errx(2, "usage: packets BYTES COUNT");
	sge.length = (uint32_t)min_of(strtoul(argv[1], NULL, 10), (unsigned long)MEMORY / 2);
	count = strtol(argv[2], NULL, 10);
	memset(memory, 1, MEMORY);
	fd = udp_socket_open();
	must(fd < 0 ? fd : 0, "a socket at UDP port 4791");
	must(udp_port_create(&port, fd), "a port");
	must(rnic_create(&rnic, &config, &ops, NULL), "an RNIC");
	must(rnic_pd_create(rnic, &pd), "a protection domain");
	must(rnic_cq_create(rnic, 4 * AT_ONCE, NULL, &cq), "a completion queue");
	init.send_cq = init.recv_cq = cq;
	for (int i = 0; i < 2; i++)
		must(rnic_qp_create(pd, &init, &qp[i]), "a queue pair");
	must(rnic_mr_create(pd, memory, MEMORY, (uintptr_t)memory,
			    RNIC_ACCESS_LOCAL_WRITE | RNIC_ACCESS_REMOTE_WRITE, &mr),
	     "a region");
	for (int i = 0; i < 2; i++)
		connect_to(qp[i], qp[!i]);
	drive_init(&d, rnic, &port, 1, tx, DRIVE_TX_BATCH);
	sge.addr = (uintptr_t)memory;
	sge.lkey = wr.rkey = rnic_mr_rkey(mr);
	wr.remote_addr = (uintptr_t)memory + MEMORY / 2;
	while (done < count) {
		struct rnic_wc wc;
		int last = 0;

		for (int i = 1; i <= AT_ONCE; i++) {
			wr.flags = i == AT_ONCE ? RNIC_SEND_SIGNALED : 0;
			must(rnic_post_send(qp[0], &wr, now), "a WRITE");
		}
		while (!last) {
			now += 1000;
			while (drive_send(&d, 64, now))
				;
			if (drive_receive(&d, now) < 0)
				errx(1, "receiving fails");
			last = rnic_cq_poll(cq, &wc, 1);
			if (last && wc.status)
				errx(1, "status %u", wc.status);
		}
		done += AT_ONCE;
	}
	printf("%ld WRITEs of %u bytes, %llu packets in %llu batches\n", done, sge.length,
	       (unsigned long long)port->counters->rx_packets,
	       (unsigned long long)port->counters->rx_batches);
	return 0;
}
