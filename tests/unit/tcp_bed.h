/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The target on NVMe/TCP without sockets, and hosts that send what bytes they like: what one side
 * has to send is handed to the other by function call. By TLS if that is wanted.
 */
#ifndef WEFT_TESTS_TCP_BED_H
#define WEFT_TESTS_TCP_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "nvmf/tcp/target.h"
#include "wire/nvme_fabrics.h"

#define NQN	"nqn.2026-11.io.example:tcp"
#define HOSTNQN "nqn.2026-11.io.example:host"
#define DEPTH	64

struct slow_store { /* keeps operations until told */
	struct store store;
	struct store *below;
	bool hold;
	struct store_op *held[256];
	unsigned count;
};

extern struct tcp_bed {
	uint64_t now_ns;
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns; /* 2 MiB in blocks of 512 */
	struct slow_store slow;
	struct shares shares;
	struct transport_target *t;
	struct tcp_target *tt;
	/* A second group, in the same thread; t2 NULL: there is none. */
	struct target_group group2;
	struct shares shares2;
	struct transport_target *t2;
	struct target_port port;
	uint8_t host; /* that hosts come from, from now on */
	/* Of peers that come by TLS, all of them; NULL: they are plain. */
	struct tcp_tls_context *hosts;
	struct auth_psk psk; /* theirs */
} bed;

int tcp_bed_set_up(void **state);
/* With a second group, to which every other I/O queue goes, the first one to begin with. */
int tcp_bed_set_up_2(void **state);
/* The same, and peers come by TLS. */
int tcp_bed_set_up_tls(void **state);
int tcp_bed_tear_down(void **state);
#define TCP_BED_TEST(f) cmocka_unit_test_setup_teardown(f, tcp_bed_set_up, tcp_bed_tear_down)
#define TCP_BED_TEST_2(f)                                                     \
	{#f ", two groups", f, tcp_bed_set_up_2, tcp_bed_tear_down, NULL},    \
	{                                                                     \
#f ", by TLS", f, tcp_bed_set_up_tls, tcp_bed_tear_down, NULL \
	}
void slow_release(void);

struct pdu {
	struct nvme_tcp_ch ch;
	uint8_t head[NVME_TCP_HLEN_MAX]; /* behind the common header */
	uint8_t *data;			 /* in peer.memory */
	uint32_t len;
	bool fine;
};

struct peer {
	struct tcp_queue *q; /* the target's; NULL: it has ended */
	struct tcp_rx rx;
	struct tcp_tx tx;
	struct tcp_tls *tls; /* or NULL */
	size_t record;	     /* so much is said in one; 0: as much as goes */
	bool full;	     /* it takes nothing but by peer_take_some(), while it lasts */
	uint8_t *keep;	     /* what it has to send is not sent, but put here; NULL: it is sent */
	size_t kept;
	struct pdu pdus[256]; /* that came; the first `taken` were looked at */
	unsigned came, taken;
	uint8_t memory[4 << 20];
	size_t used;
};

/* A connection on which nothing was said. */
struct peer *peer_open(void);
void peer_close(struct peer *p);
/* What was said, in records of p->record bytes; how long they are. */
size_t peer_seal(struct peer *p, const void *bytes, size_t len, uint8_t *ret, size_t room);
/* Bytes as they come by the connection; false: it is to be handed on, by tcp_hand(). */
bool peer_wire(struct peer *p, const void *bytes, size_t len);
/* What goes between the groups, until nothing does. */
void run_groups(void);
/* Bytes to the target, and what it has to say to that. */
void peer_bytes(struct peer *p, const void *bytes, size_t len);
/* What is built with p->tx, and pushed there. */
void peer_send(struct peer *p);
/* What the target has to say. */
void peer_take(struct peer *p);
/* No more than so many bytes of that; of a plain peer. */
void peer_take_some(struct peer *p, size_t len);
/* One turn of the target, with what it has to say. */
void peer_turn(struct peer *p);
/* The next that came, which must be of that type. */
const struct pdu *peer_next(struct peer *p, enum nvme_tcp_type type);
/* It is the last thing that came: the connection is terminated so. */
void peer_terminated(struct peer *p, uint16_t fes, uint32_t fei);

struct nvme_tcp_icresp peer_init(struct peer *p, const struct nvme_tcp_icreq *req);
/* With in-capsule data, or none. */
void peer_command(struct peer *p, const struct nvme_sqe *s, const void *data, uint32_t len);
void peer_data(struct peer *p, const struct nvme_tcp_data *d, uint8_t flags, const void *data);
struct nvme_tcp_r2t peer_r2t(struct peer *p);
struct nvme_cqe peer_response(struct peer *p);

/* With a transport data block of len bytes. */
struct nvme_sqe peer_sqe(uint8_t opcode, uint16_t cid, uint32_t len);
struct nvme_sqe peer_rw(uint8_t opcode, uint16_t cid, uint64_t slba, uint32_t len);
/* Sends Connect, its data in the capsule; its cid is 0. */
void peer_connect_send(struct peer *p, uint16_t qid, uint16_t cntlid, uint8_t cattr);
/* Initialized and connected; the controller's ID. */
uint16_t peer_connect(struct peer *p, uint16_t qid, uint16_t cntlid, uint8_t cattr);

struct pair {
	struct peer *admin, *io;
};
/* A controller with an I/O queue; req: of both connections; NULL: of zeroes. */
struct pair pair_open(const struct nvme_tcp_icreq *req, uint8_t cattr);
void pair_close(struct pair *p);

#endif
