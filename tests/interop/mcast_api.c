/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Multicast by the contract of verbs and rdma_cm, on loopback: several queue pairs and several
 * processes on one host, each with its own copy.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../skip.h"
#include "cm_event.h"

enum { GRH = 40, LEN = 100, WAIT_MS = 10000, PORT = 7174, QPN = 0xffffff, RECVS = 8 };

static const uint8_t group_v4[4] = {239, 7, 7, 7};

static union ibv_gid group(uint8_t last)
{
	union ibv_gid g = {.raw = {[10] = 0xff, 0xff, 239, 7, 7, last}};

	return g;
}

/* ---- a queue pair of one's own ----------------------------------------------------------------
 */

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t mem[(RECVS + 1) * (GRH + LEN)];
};

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RDMA_UDP_QKEY};

	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		return -1;
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
		return -1;
	a.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static int post_recvs(struct end *e)
{
	for (unsigned i = 0; i < RECVS; i++) {
		struct ibv_sge sge = {(uintptr_t)e->mem + i * (GRH + LEN), GRH + LEN, e->mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

		if (ibv_post_recv(e->qp, &wr, &bad))
			return -1;
	}
	return 0;
}

/* No assertions: children use it too. */
static int open_end(struct end *e, enum ibv_qp_type type)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr a = {.qp_type = type,
				     .cap = {.max_send_wr = 8,
					     .max_recv_wr = RECVS,
					     .max_send_sge = 1,
					     .max_recv_sge = 1}};

	memset(e, 0, sizeof(*e));
	e->context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
	e->pd = e->context ? ibv_alloc_pd(e->context) : NULL;
	e->cq = e->pd ? ibv_create_cq(e->context, 64, NULL, NULL, 0) : NULL;
	e->mr = e->cq ? ibv_reg_mr(e->pd, e->mem, sizeof(e->mem), IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!e->mr)
		return -1;
	a.send_cq = a.recv_cq = e->cq;
	e->qp = ibv_create_qp(e->pd, &a);
	if (!e->qp)
		return -1;
	return type == IBV_QPT_UD ? to_rts(e->qp) || post_recvs(e) : 0;
}

static void close_end(struct end *e)
{
	assert_int_equal(ibv_destroy_qp(e->qp), 0);
	assert_int_equal(ibv_dereg_mr(e->mr), 0);
	assert_int_equal(ibv_destroy_cq(e->cq), 0);
	assert_int_equal(ibv_dealloc_pd(e->pd), 0);
	ibv_close_device(e->context);
}

static struct ibv_ah *ah_to(struct end *e, const union ibv_gid *g)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .grh = {.dgid = *g, .hop_limit = 1}};
	union ibv_gid own;

	/* 127.0.0.1, which is among the first. */
	while (!ibv_query_gid(e->context, 1, a.grh.sgid_index, &own) &&
	       (own.raw[10] != 0xff || own.raw[12] != 127))
		a.grh.sgid_index++;
	return ibv_create_ah(e->pd, &a);
}

static int send_text(struct end *e, struct ibv_ah *ah, const char *text)
{
	uint8_t *at = e->mem + RECVS * (GRH + LEN);
	struct ibv_sge sge = {(uintptr_t)at, LEN, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 100,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	strcpy((char *)at, text);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = QPN;
	wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
	return ibv_post_send(e->qp, &wr, &bad);
}

/* The next receive within ms; what was sent completes on the way. False: none. */
static bool received(struct end *e, int ms, struct ibv_wc *wc)
{
	struct timespec now, end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000;
	do {
		if (ibv_poll_cq(e->cq, 1, wc) == 1) {
			if (wc->status != IBV_WC_SUCCESS)
				return false;
			if (wc->opcode & IBV_WC_RECV)
				return true;
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec ||
		 (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec) ||
		 now.tv_sec - end.tv_sec < 1);
	return false;
}

static const char *text_of(const struct end *e, const struct ibv_wc *wc)
{
	return (const char *)e->mem + wc->wr_id * (GRH + LEN) + GRH;
}

/* ---- verbs -------------------------------------------------------------------------------------
 */

static void wrong_groups_and_queue_pairs_are_refused(void **state)
{
	union ibv_gid g = group(7), unicast = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}};
	union ibv_gid v6 = {.raw = {0xfd}};
	struct end ud, rc;

	(void)state;
	assert_int_equal(open_end(&ud, IBV_QPT_UD), 0);
	assert_int_equal(open_end(&rc, IBV_QPT_RC), 0);
	assert_int_equal(ibv_attach_mcast(rc.qp, &g, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(ud.qp, &unicast, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(ud.qp, &v6, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(ud.qp, &g, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(ud.qp, &g, 0), 0);
	assert_int_equal(ibv_attach_mcast(ud.qp, &g, 0), 0); /* is already */
	assert_int_equal(ibv_destroy_qp(ud.qp), EBUSY);
	assert_int_equal(ibv_detach_mcast(ud.qp, &g, 0), 0);
	assert_int_equal(ibv_detach_mcast(ud.qp, &g, 0), EINVAL);
	close_end(&ud);
	close_end(&rc);
}

static void every_queue_pair_gets_one_copy_its_sender_too(void **state)
{
	static struct end e[3];
	union ibv_gid g = group(1), elsewhere = group(2);
	struct ibv_wc wc;
	struct ibv_ah *ah;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(open_end(&e[i], IBV_QPT_UD), 0);
	assert_int_equal(ibv_attach_mcast(e[0].qp, &g, 0), 0);
	assert_int_equal(ibv_attach_mcast(e[1].qp, &g, 0), 0);
	assert_int_equal(ibv_attach_mcast(e[2].qp, &elsewhere, 0), 0);
	ah = ah_to(&e[0], &g);
	assert_non_null(ah);
	assert_int_equal(send_text(&e[0], ah, "to all"), 0);
	for (int i = 0; i < 2; i++) {
		assert_true(received(&e[i], WAIT_MS, &wc));
		assert_int_equal(wc.byte_len, GRH + LEN);
		assert_int_equal(wc.src_qp, e[0].qp->qp_num);
		assert_true(wc.wc_flags & IBV_WC_GRH);
		assert_string_equal(text_of(&e[i], &wc), "to all");
		assert_memory_equal(text_of(&e[i], &wc) - 4, g.raw + 12, 4);
	}
	/* What a detached one would get comes after this, if at all. */
	assert_int_equal(ibv_detach_mcast(e[1].qp, &g, 0), 0);
	assert_int_equal(send_text(&e[0], ah, "to one"), 0);
	assert_true(received(&e[0], WAIT_MS, &wc));
	assert_string_equal(text_of(&e[0], &wc), "to one");
	assert_false(received(&e[1], 50, &wc));
	assert_false(received(&e[2], 0, &wc));
	assert_int_equal(ibv_detach_mcast(e[0].qp, &g, 0), 0);
	assert_int_equal(ibv_detach_mcast(e[2].qp, &elsewhere, 0), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	for (int i = 0; i < 3; i++)
		close_end(&e[i]);
}

static int groups_allowed(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/igmp_max_memberships", "re");
	int n = -1;

	if (f && fscanf(f, "%d", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static void groups_run_out_cleanly(void **state)
{
	int most = groups_allowed();
	union ibv_gid g;
	struct end e;

	(void)state;
	if (most < 1 || most > 200)
		SKIP_CASE("net.ipv4.igmp_max_memberships is below 1 or above 200");
	assert_int_equal(open_end(&e, IBV_QPT_UD), 0);
	for (int i = 0; i < most; i++) {
		g = group((uint8_t)(i + 20));
		assert_int_equal(ibv_attach_mcast(e.qp, &g, 0), 0);
	}
	g = group((uint8_t)(most + 20));
	assert_int_equal(ibv_attach_mcast(e.qp, &g, 0), ENOMEM);
	assert_int_equal(ibv_detach_mcast(e.qp, &g, 0), EINVAL);
	for (int i = 0; i < most; i++) {
		g = group((uint8_t)(i + 20));
		assert_int_equal(ibv_detach_mcast(e.qp, &g, 0), 0);
	}
	close_end(&e);
}

/* 0: exactly one copy of the first text, and then of the last. */
static int child(int ready)
{
	static struct end e;
	union ibv_gid g = group(3);
	struct ibv_wc wc;

	alarm(60);
	if (open_end(&e, IBV_QPT_UD) || ibv_attach_mcast(e.qp, &g, 0) || write(ready, "r", 1) != 1)
		return 2;
	if (!received(&e, WAIT_MS, &wc) || strcmp(text_of(&e, &wc), "first"))
		return 3;
	if (!received(&e, WAIT_MS, &wc) || strcmp(text_of(&e, &wc), "last"))
		return 4;
	return 0; /* attached: the broker is to clear up */
}

static void copies_for(unsigned children)
{
	struct end e;
	union ibv_gid g = group(3);
	struct ibv_ah *ah;
	pid_t pid[4];
	int ready[2], status;
	char c;

	assert_int_equal(pipe(ready), 0);
	for (unsigned i = 0; i < children; i++) {
		pid[i] = fork();
		assert_true(pid[i] >= 0);
		if (pid[i] == 0)
			_exit(child(ready[1]));
	}
	for (unsigned i = 0; i < children; i++)
		assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(open_end(&e, IBV_QPT_UD), 0);
	ah = ah_to(&e, &g);
	assert_int_equal(send_text(&e, ah, "first"), 0);
	assert_int_equal(send_text(&e, ah, "last"), 0);
	for (unsigned i = 0; i < children; i++) {
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	assert_int_equal(ibv_destroy_ah(ah), 0);
	close_end(&e);
	close(ready[0]);
	close(ready[1]);
}

static void every_process_gets_its_copy(void **state)
{
	(void)state;
	copies_for(3);
}

/* Over a wire the kernel is tempted to give these to another socket: programs.py has mckey for it.
 */
static void a_process_alone_in_a_group_gets_its_copy(void **state)
{
	(void)state;
	copies_for(1);
}

/* ---- rdma_cm -----------------------------------------------------------------------------------
 */

static struct sockaddr_in address(const uint8_t ip[4], uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};

	memcpy(&a.sin_addr, ip, 4);
	return a;
}

static struct rdma_cm_id *bound_id(struct rdma_event_channel *c, bool qp)
{
	struct sockaddr_in own = address((const uint8_t[]){127, 0, 0, 1}, 0);
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(c, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&own), 0);
	if (qp)
		assert_int_equal(rdma_create_qp(id, NULL, &a), 0);
	return id;
}

static void joining_tells_where_to_send_and_attaches(void **state)
{
	struct sockaddr_in g = address(group_v4, 0);
	struct rdma_event_channel *c = rdma_create_event_channel();
	struct rdma_cm_id *id = bound_id(c, true);
	static uint8_t in[GRH + 16];
	struct ibv_mr *mr = rdma_reg_msgs(id, in, sizeof(in));
	char text[] = "hear";
	struct rdma_cm_event *ev;
	union ibv_gid gid = group(7);
	struct ibv_wc wc;
	struct ibv_ah *ah;
	int n;

	(void)state;
	assert_int_equal(rdma_post_recv(id, NULL, in, sizeof(in), mr), 0);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&g, &n), 0);
	ev = next_event(c, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(ev->status, 0);
	assert_ptr_equal(ev->id, id);
	assert_ptr_equal(ev->param.ud.private_data, &n); /* the join's context */
	assert_int_equal(ev->param.ud.qp_num, QPN);
	assert_int_equal(ev->param.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(ev->param.ud.ah_attr.is_global, 1);
	assert_memory_equal(ev->param.ud.ah_attr.grh.dgid.raw + 12, group_v4, 4);
	ah = ibv_create_ah(id->pd, &ev->param.ud.ah_attr);
	assert_non_null(ah);
	assert_int_equal(rdma_ack_cm_event(ev), 0);
	assert_int_equal(
		rdma_post_ud_send(id, NULL, text, sizeof(text), NULL, IBV_SEND_INLINE, ah, QPN), 0);
	while ((n = ibv_poll_cq(id->recv_cq, 1, &wc)) == 0)
		;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal((char *)in + GRH, "hear");

	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), 0);
	errno = 0;
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	ibv_destroy_ah(ah);
	rdma_dereg_mr(mr);
	assert_int_equal(ibv_detach_mcast(id->qp, &gid, 0), EINVAL); /* it has been */
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(c);
}

static int join_ex(struct rdma_cm_id *id, struct sockaddr_in *a, uint32_t mask, uint32_t flags)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = mask, .join_flags = flags, .addr = (struct sockaddr *)a};

	errno = 0;
	return rdma_join_multicast_ex(id, &attr, NULL);
}

static void who_joins_to_send_is_not_attached(void **state)
{
	const uint32_t both = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	struct sockaddr_in g = address(group_v4, 0);
	struct rdma_event_channel *c = rdma_create_event_channel();
	struct rdma_cm_id *id = bound_id(c, true);
	union ibv_gid gid = group(7);

	(void)state;
	assert_int_equal(join_ex(id, &g, both | 4, 0), -1);
	assert_int_equal(errno, ENOTSUP);
	assert_int_equal(join_ex(id, &g, RDMA_CM_JOIN_MC_ATTR_ADDRESS, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(join_ex(id, &g, both, RDMA_MC_JOIN_FLAG_RESERVED), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(join_ex(id, &g, both, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER), 0);
	rdma_ack_cm_event(next_event(c, RDMA_CM_EVENT_MULTICAST_JOIN));
	assert_int_equal(ibv_detach_mcast(id->qp, &gid, 0), EINVAL);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), 0);
	assert_int_equal(join_ex(id, &g, both, RDMA_MC_JOIN_FLAG_FULLMEMBER), 0);
	rdma_ack_cm_event(next_event(c, RDMA_CM_EVENT_MULTICAST_JOIN));
	assert_int_equal(ibv_detach_mcast(id->qp, &gid, 0), 0);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0); /* with a group left */
	rdma_destroy_event_channel(c);
}

static void an_address_that_is_no_groups_is_an_error_of_the_event(void **state)
{
	struct sockaddr_in other = address((const uint8_t[]){127, 0, 0, 9}, 0);
	struct rdma_event_channel *c = rdma_create_event_channel();
	struct rdma_cm_id *id = bound_id(c, true);
	struct rdma_cm_event *ev;
	int context;

	(void)state;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&other, &context), 0);
	ev = next_event(c, RDMA_CM_EVENT_MULTICAST_ERROR);
	assert_int_equal(ev->status, -1);
	assert_ptr_equal(ev->param.ud.private_data, &context);
	rdma_ack_cm_event(ev);
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(c);
}

static void the_event_of_a_group_that_was_left_does_not_come(void **state)
{
	struct sockaddr_in g = address(group_v4, 0), h = address(group_v4, 0);
	struct rdma_event_channel *c = rdma_create_event_channel();
	struct rdma_cm_id *id = bound_id(c, false);
	struct rdma_cm_event *ev;
	int first, second;

	(void)state;
	((uint8_t *)&h.sin_addr)[3]++;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&g, &first), 0);
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&h, &second), 0);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&g), 0);
	ev = next_event(c, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(ev->param.ud.private_data, &second);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(c);
}

static void joining_needs_an_address_of_a_device_and_datagrams(void **state)
{
	struct sockaddr_in g = address(group_v4, 0), none = address((const uint8_t[4]){0}, 0);
	struct sockaddr_in own = address((const uint8_t[]){127, 0, 0, 1}, 0);
	struct sockaddr strange = {.sa_family = AF_UNIX};
	struct rdma_event_channel *c = rdma_create_event_channel();
	struct rdma_cm_id *ud, *tcp;

	(void)state;
#define INVALID(id, addr)                                                                       \
	do {                                                                                    \
		errno = 0;                                                                      \
		assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)(addr), NULL), -1); \
		assert_int_equal(errno, EINVAL);                                                \
	} while (0)
	assert_int_equal(rdma_create_id(c, &ud, NULL, RDMA_PS_UDP), 0);
	INVALID(ud, &g);
	assert_int_equal(rdma_bind_addr(ud, (struct sockaddr *)&none), 0);
	INVALID(ud, &g);
	assert_int_equal(rdma_create_id(c, &tcp, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(tcp, (struct sockaddr *)&own), 0);
	INVALID(tcp, &g);
	rdma_destroy_id(ud);
	rdma_destroy_id(tcp);
	ud = bound_id(c, false);
	INVALID(ud, &none);
	INVALID(ud, &strange);
	rdma_destroy_id(ud);
	rdma_destroy_event_channel(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* Before this process has devices of its own: its children begin anew. */
		cmocka_unit_test(every_process_gets_its_copy),
		cmocka_unit_test(a_process_alone_in_a_group_gets_its_copy),
		cmocka_unit_test(wrong_groups_and_queue_pairs_are_refused),
		cmocka_unit_test(every_queue_pair_gets_one_copy_its_sender_too),
		cmocka_unit_test(groups_run_out_cleanly),
		cmocka_unit_test(joining_tells_where_to_send_and_attaches),
		cmocka_unit_test(who_joins_to_send_is_not_attached),
		cmocka_unit_test(an_address_that_is_no_groups_is_an_error_of_the_event),
		cmocka_unit_test(the_event_of_a_group_that_was_left_does_not_come),
		cmocka_unit_test(joining_needs_an_address_of_a_device_and_datagrams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
