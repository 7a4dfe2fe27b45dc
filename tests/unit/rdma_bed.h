/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The target on its RDMA transport, and hosts made of plain verbs and rdma_cm that can do what
 * hosts should not: both in this process, moved on in turns. main() calls netns_enter() first.
 */
#ifndef WEFT_TESTS_RDMA_BED_H
#define WEFT_TESTS_RDMA_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/time.h"
#include "nvmf/rdma/rdma.h"
#include "wire/nvme_rdma.h"

#define NQN	 "nqn.2026-11.io.example:rdma"
#define HOSTNQN	 "nqn.2026-11.io.example:host"
#define DEPTH	 32
#define MEMORY	 (1024u * 1024)
#define PATIENCE (4 * NSEC_PER_SEC)

extern struct rdma_bed {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns;
	struct shares shares;
	struct transport_target *rt;
	uint64_t stopped_ns; /* the target's clock, where a test moves it by hand */
	bool inside;	     /* the target is at work, and no client */
	/* Of the clients that are opened from now on: */
	const char *source; /* the address they come from; NULL: 127.0.0.1 */
	unsigned receives;  /* that they post; 0: DEPTH */
	bool one_try;	    /* the transport is not to repeat anything */
} bed;

struct client {
	uint16_t qid; /* where a test keeps it */
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr, *capsule_mr;
	enum rdma_cm_event_type last; /* event seen; UINT32_MAX none */
	int status;		      /* of that event */
	uint8_t private_data[256];
	size_t private_len;
	unsigned received, sent, failed;
	uint32_t invalidated; /* the key that a response did away with, of the last that did */
	uint8_t memory[MEMORY], capsules[DEPTH][NVME_CQE_LEN], out[NVME_SQE_LEN + 16384];
};

#define NO_EVENT ((enum rdma_cm_event_type)0x7fff)

#define NO_ANSWER      0xffff
#define SECOND_ADDRESS "10.9.0.1" /* of the machine: another host for the target */

/* Of a group of tests. */
int rdma_bed_set_up(void **state);
int rdma_bed_tear_down(void **state);

/* Both sides do what there is to do; c may be NULL. */
void pump(struct client *c);
#define pump_until(c, condition)                             \
	do {                                                 \
		uint64_t end_ = time_now_ns() + PATIENCE;    \
		while (!(condition) && time_now_ns() < end_) \
			pump(c);                             \
		assert_true(condition);                      \
	} while (0)

void wait_event(struct client *c, enum rdma_cm_event_type want);

struct client *client_open(void);
void client_close(struct client *c);
struct nvme_rdma_req good_req(uint16_t qid);
void client_connect(struct client *c, const struct nvme_rdma_req *req, uint8_t len, uint8_t reads);
/* With ESTABLISHED seen and the reply looked at. */
struct client *connected(uint16_t qid, uint8_t reads);

void post_recv(struct client *c, unsigned i);
void send_bytes(struct client *c, size_t len);
struct nvme_sqe sqe(struct client *c, uint8_t opcode, uint32_t nsid, uint32_t len);
void send_sqe(struct client *c, const struct nvme_sqe *s);
/* So often; its bytes must stay until all are done, and are written once. */
void send_sqe_times(struct client *c, const struct nvme_sqe *s, unsigned times);
/* With a list of count descriptors behind it. */
void send_sqe_list(struct client *c, const struct nvme_sqe *s, const struct nvme_sgl *list,
		   unsigned count);
/* The response that came last: receives are posted in a ring. */
struct nvme_cqe response(struct client *c);
/* Its status is NO_ANSWER if the connection ended instead. */
struct nvme_cqe exec(struct client *c, const struct nvme_sqe *s);
uint16_t nvme_connect(struct client *c, uint16_t qid, uint16_t cntlid);
/* The same to any subsystem as any host; the status. */
uint16_t nvme_connect_to(struct client *c, uint16_t qid, uint16_t cntlid, const char *subnqn,
			 const char *hostnqn, uint16_t *ret_cntlid);
void enable(struct client *c);

struct pair {
	struct client *admin, *io;
	unsigned before; /* queues of the target when it was opened */
};

struct pair pair_open(void);
void pair_close(struct pair *p);
/* The target still serves others. */
void still_serving(void);

#endif
