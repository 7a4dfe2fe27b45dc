/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a connected queue pair costs its process in memory: RC pairs within this process, each with
 * room for 16 sends and 16 receives, each of which has carried a message; how much more is resident
 * with many of them than with few. Prints bytes for one.
 * usage: qp_memory DEVICE GID-INDEX
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 64, MANY = 512, WRS = 16, MSG = 64, PSN = 1 }; /* pairs; a pair is two */

struct bench {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_ah_attr to_itself;
	struct ibv_sge sge;
};

static char memory[MSG];

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "qp_memory: %s\n", what);
	exit(1);
}

static void open_device(struct bench *b, const char *name, uint8_t gid_index)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	must(list, "no devices");
	for (int i = 0; i < n && !b->ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			b->ctx = ibv_open_device(list[i]);
	must(b->ctx, "no such device");
	ibv_free_device_list(list);
	b->pd = ibv_alloc_pd(b->ctx);
	b->cq = ibv_create_cq(b->ctx, WRS, NULL, NULL, 0);
	must(b->pd && b->cq, "cannot make a domain and a completion queue");
	b->mr = ibv_reg_mr(b->pd, memory, MSG, IBV_ACCESS_LOCAL_WRITE);
	must(b->mr, "cannot register memory");
	b->sge = (struct ibv_sge){.addr = (uintptr_t)memory, .length = MSG, .lkey = b->mr->lkey};
	b->to_itself = (struct ibv_ah_attr){
		.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1, .sgid_index = gid_index}};
	must(!ibv_query_gid(b->ctx, 1, gid_index, &b->to_itself.grh.dgid), "no such GID");
}

static struct ibv_qp *make_qp(const struct bench *b)
{
	struct ibv_qp_init_attr init = {
		.send_cq = b->cq,
		.recv_cq = b->cq,
		.cap = {.max_send_wr = WRS,
			.max_recv_wr = WRS,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(b->pd, &init);

	must(qp, "cannot make a queue pair");
	return qp;
}

static void connect_to(const struct bench *b, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = peer,
				  .rq_psn = PSN,
				  .min_rnr_timer = 12,
				  .ah_attr = b->to_itself};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .sq_psn = PSN,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7};

	must(!ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) &&
		     !ibv_modify_qp(qp, &rtr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					    IBV_QP_MIN_RNR_TIMER) &&
		     !ibv_modify_qp(qp, &rts,
				    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					    IBV_QP_MAX_QP_RD_ATOMIC),
	     "cannot connect a queue pair");
}

/* One message, both completions of it. */
static void say(struct bench *b, struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_recv_wr recv = {.sg_list = &b->sge, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &b->sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_wc wc;

	must(!ibv_post_recv(to, &recv, &bad_recv) && !ibv_post_send(from, &send, &bad),
	     "cannot post");
	for (int done = 0; done < 2;) {
		int n = ibv_poll_cq(b->cq, 1, &wc);

		must(n >= 0 && (n == 0 || wc.status == IBV_WC_SUCCESS), "a message failed");
		done += n;
	}
}

static void add_pairs(struct bench *b, int n)
{
	for (int i = 0; i < n; i++) {
		struct ibv_qp *one = make_qp(b), *other = make_qp(b);

		connect_to(b, one, other->qp_num);
		connect_to(b, other, one->qp_num);
		say(b, one, other);
		say(b, other, one);
	}
}

static unsigned long resident_kib(void)
{
	unsigned long kib = 0;
	char line[256];
	FILE *f = fopen("/proc/self/smaps_rollup", "re");

	must(f, "no /proc/self/smaps_rollup");
	while (kib == 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Rss:", 4))
			kib = strtoul(line + 4, NULL, 10);
	fclose(f);
	must(kib, "/proc/self/smaps_rollup has no Rss");
	return kib;
}

int main(int argc, char **argv)
{
	struct bench b = {0};
	unsigned long few, many;

	if (argc != 3) {
		fprintf(stderr, "usage: %s DEVICE GID-INDEX\n", argv[0]);
		return 2;
	}
	open_device(&b, argv[1], (uint8_t)strtoul(argv[2], NULL, 10));
	add_pairs(&b, FEW);
	few = resident_kib();
	add_pairs(&b, MANY);
	many = resident_kib();
	printf("%.0f\n", ((double)many - (double)few) * 1024 / (2 * MANY));
	return 0;
}
