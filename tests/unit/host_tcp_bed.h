/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The host's side of NVMe/TCP over sockets, and a target by hand, which says what the test wants it
 * to: one thread, in which they take turns.
 */
#ifndef WEFT_TESTS_HOST_TCP_BED_H
#define WEFT_TESTS_HOST_TCP_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/time.h"
#include "host_requests.h"
#include "nvmf/tcp/host.h"
#include "wire/nvme_fabrics.h"

#define NQN	 "nqn.2026-11.io.example:tcp"
#define PATIENCE (4 * NSEC_PER_SEC)

enum { ENTRIES = 64, CAPSULE = 4096, DATA = 256 << 10 };

/* A target by hand. */
extern struct far {
	int listener, fd[2], now; /* by queue ID; the one that is spoken with */
	char port[8];
	struct nvme_tcp_icresp ic;   /* its answer */
	struct nvme_tcp_icreq icreq; /* what the host asked for */
	struct tcp_rx rx[2];
	struct tcp_tx tx[2];
	uint8_t place[DATA], buffer[4096];
	struct nvme_sqe sqe; /* the last command */
	uint32_t capsule;
	struct nvme_tcp_data data; /* the last H2CData */
	struct nvme_tcp_term term;
	uint8_t last; /* type that came last; 0xff: nothing */
	uint8_t flags;
	bool closed;
} far;

extern struct near {
	struct transport_host *t;
	struct host host;
	struct host_config config;
	struct host_queue queues[2];
	struct handle_place places[HOST_ADMIN_ENTRIES + ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN], data[DATA];
	struct host_request req;
	unsigned done;
} near;

int host_tcp_set_up(void **state);
int host_tcp_tear_down(void **state);
#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, host_tcp_set_up, host_tcp_tear_down)
/* A host that asks for such digests, and a target that agrees to them and to the rest. */
void again(uint8_t dgst, uint8_t cpda, uint32_t maxh2cdata);
struct transport_host_config config_of(void);

/* --- the target ------------------------------------------------------------------------------- */

void far_flush(void);
/* Until a PDU of that type comes on the queue. */
void expect(int queue, uint8_t type);
/* Nothing more comes on it: the host has closed it. */
void expect_end(int queue);

/* A PDU that the struct `s` says, with data from far.place. */
#define far_pdu_out(type, flags, len, put, ...)                                 \
	do {                                                                    \
		static struct tcp_out o_;                                       \
		const __VA_ARGS__;                                              \
		struct wcursor w_;                                              \
		tcp_out_init(&o_, NULL);                                        \
		w_ = tcp_out_pdu(&o_, &far.tx[far.now], type, flags, len);      \
		put(&w_, &s);                                                   \
		tcp_out_pdu_end(&o_);                                           \
		if (len)                                                        \
			tcp_out_data(&o_, &far.tx[far.now], far.place, len, 0); \
		tcp_tx_push(&far.tx[far.now], &o_);                             \
		far_flush();                                                    \
	} while (0)

void respond_with(uint16_t status, uint64_t result);
void send_data(uint32_t at, uint32_t len, uint8_t flags);
void send_r2t(uint16_t ttag, uint32_t at, uint32_t len);
void answer_icreq(int queue);
/* Brings a controller up whose I/O queue is spoken with from then on. */
void bring_up(void);

/* --- the host --------------------------------------------------------------------------------- */

void near_turn(void);
void near_start(void);
void done(struct host_request *req, uint64_t now_ns);
void submit_io(bool write, uint32_t len);
void wait_done(void);
void fill(uint8_t *p, size_t len);

#endif
