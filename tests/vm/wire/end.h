/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two ends of one reliable connection that go through the same scenario, each in its role: the
 * requester, which also began, and the responder. Plain verbs as any application uses them, so that
 * either end runs on any provider. What one end has to tell the other goes by TCP.
 */
#ifndef WEFT_TESTS_VM_WIRE_END_H
#define WEFT_TESTS_VM_WIRE_END_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DEPTH = 128, BUF_LEN = 8 << 20, PATIENCE_MS = 40000 };

struct end {
	bool requester;
	bool weft; /* this end's provider */
	bool iwarp;
	const char *address; /* the requester's: where the other end is */
	int sock;
	int gid_index;
	struct ibv_context *ctx;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of both queues */
	struct ibv_mr *mr;
	uint8_t *buf;
	struct ibv_qp *qp;
	struct rdma_cm_id *id; /* where rdma_cm connects */
	int patience_ms;
	struct hello { /* what is told at each join() */
		union ibv_gid gid;
		uint32_t qpn, psn, rkey, mtu, rd_atomic, max_msg, weft;
		uint64_t addr;
	} peer;
};

struct terms { /* of a connection; zero is what most scenarios want */
	uint32_t psn;
	uint8_t rnr_retry; /* 0: 7; 8 stands for 0 */
	uint8_t rnr_timer; /* 0: 12 (0.64 ms); 32 stands for 0 (655 ms) */
	uint8_t rd_atomic; /* 0: as many as both can */
	bool no_remote;	   /* the queue pair allows no READ, WRITE or atomic */
	struct ibv_srq *srq;
	uint64_t ops; /* IBV_QP_EX_WITH_...: posted by ibv_wr_*; 0: by ibv_post_send() */
};

/* Ends the process with a sentence if it is not so. */
#define NEED(cond, ...)                    \
	do {                               \
		if (!(cond))               \
			fail(__VA_ARGS__); \
	} while (0)
void fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

void join(struct end *, const struct terms *); /* both: a new queue pair, up to RTS */
void part(struct end *);
void tell(struct end *, const void *mine, void *theirs, size_t len); /* both, in turn */
void meet(struct end *);		    /* both: not before the other is here */
uint64_t swap(struct end *, uint64_t mine); /* both: the other's number */

uint64_t now_ms(void);
void be_patient(struct end *, int ms); /* with the other end and with completions */
void post_recv(struct end *, size_t off, uint32_t len);
/* A request of len bytes between the two buffers, signaled; wr_id is the opcode. */
struct ibv_send_wr request(const struct end *, enum ibv_wr_opcode, size_t remote);
void post(struct end *, struct ibv_send_wr *, size_t local, uint32_t len);
int try_post(struct end *, struct ibv_send_wr *, size_t local, uint32_t len); /* errno */
void post_op(struct end *, enum ibv_wr_opcode, size_t local, uint32_t len, size_t remote);
/* The next completion, whatever its status. */
struct ibv_wc completion(struct end *);
struct ibv_wc success(struct end *);
void silence(struct end *, int ms); /* no completion for so long */
enum ibv_qp_state state_of(struct end *);
/* The next asynchronous event's type; -1: none for so long. */
int event(struct end *, int ms);

void fill(struct end *, size_t off, size_t len, unsigned key);
void check(struct end *, size_t off, size_t len, unsigned key, const char *what);

/* iWARP's way, in which no program can do it by itself (by_cm.h). */
void open_by_cm(struct end *, const char *name);
void join_by_cm(struct end *, struct ibv_qp_init_attr_ex *);
void part_by_cm(struct end *);

/* The scenarios. */
void rnr(struct end *), psn_wrap(struct end *), unsignaled(struct end *), deep_reads(struct end *),
	atomics(struct end *), large(struct end *);
void zero(struct end *), immediate(struct end *), solicited(struct end *), srq(struct end *),
	invalidate(struct end *), invalidate_again(struct end *);
void errors(struct end *), atomic_write(struct end *);
void too_long(struct end *), longest(struct end *);
void sizes(struct end *), order(struct end *), few_reads(struct end *), steady(struct end *);
void private_data(struct end *), denials(struct end *), endings(struct end *), killed(struct end *);

#endif
