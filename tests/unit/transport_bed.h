/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Our host and our target, both in this process, over the transport that the program's argument
 * names: loop, rdma, tcp, tcp-digests, tcp-tls, tcp-tls-digests, or tcp-concat: this by TLS and a
 * key that comes of authentication, in the cases that have to do with that.
 */
#ifndef WEFT_TESTS_TRANSPORT_BED_H
#define WEFT_TESTS_TRANSPORT_BED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "base/time.h"
#include "host_requests.h"
#include "nvmf/loop/loop.h"
#include "nvmf/rdma/rdma.h"
#include "nvmf/tcp/tcp.h"
#include "store/store.h"
#include "turn_until.h"

#define NQN	 "nqn.2026-11.io.example:disk"
#define HOSTNQN	 "nqn.2026-11.io.example:host" /* plain_host()'s */
#define PATIENCE (10 * NSEC_PER_SEC)

enum { IO_QUEUES = 2, IO_ENTRIES = 16, BLOCKS = 8192, DATA_MAX = 1 << 20 };

extern const struct nvmf_transport *kind;
extern bool digests, tls, concat;

struct slow_store { /* keeps operations until told */
	struct store store;
	struct store *below;
	bool hold;
	int error; /* of the next operation */
	struct store_op *held[64];
	unsigned int count;
};

extern struct transport_bed {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns, ro; /* 1 and 2, in blocks of 512 */
	struct slow_store slow;	 /* below the first */
	struct store *ro_store;
	struct shares shares;
	struct transport_target *there;
	struct transport_host *here;
	struct host host;
	struct host_config config;
	struct host_queue queues[1 + IO_QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + IO_QUEUES * IO_ENTRIES];
	unsigned int events;
	uint64_t stopped_ns; /* the target's clock, where a test stops it */
} bed;

/* What the transport is to know: requests' data, and the host's own. */
extern struct transport_memory {
	uint8_t scratch[HOST_SCRATCH_LEN];
	uint8_t out[DATA_MAX], in[DATA_MAX];
	uint8_t many[2 * IO_ENTRIES][64 << 10];
} mem;

/* main() begins with it. Not 0: that is no way to call it, which is said. */
int transport_choose(int argc, char **argv);

int transport_set_up(void **state);
int transport_tear_down(void **state);
#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, transport_set_up, transport_tear_down)

/* --- both sides ------------------------------------------------------------------------------ */

void turn(void);
void let_store_work(void);
/* The port that there is. */
void secure(enum target_tls how);
/* Both sides have both keys. */
void with_keys(void);
/* The target's, when it has. */
extern struct target_host known;

/* The host's transport, for that subsystem. */
void create_host(const char *subnqn);
void begin(void);
void bring_up(void);

/* --- requests --------------------------------------------------------------------------------- */

/* count is one more when it is answered. */
void submit(struct host_request *req, uint16_t qid, unsigned int *count);
/* Its status, or 0xffff: it had no answer. */
uint16_t exec(struct host_request *req, uint16_t qid);
uint16_t do_write(uint64_t slba, const void *p, uint32_t len);
uint16_t do_read(uint64_t slba, void *p, uint32_t len);
void fill(uint8_t *p, size_t len, unsigned int seed);

#endif
