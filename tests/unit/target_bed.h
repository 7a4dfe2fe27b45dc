/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A target with a transport in memory: commands go in one by one, responses are looked at, the
 * host's memory is an array that "keyed" descriptors point into, and time is a number.
 */
#ifndef WEFT_TESTS_TARGET_BED_H
#define WEFT_TESTS_TARGET_BED_H

#include "base/time.h"
#include "nvmf/target/target.h"
#include "store/store.h"
#include "wire/nvme_identify.h"

#define BED_NQN	    "nqn.2026-11.io.example:disk"
#define BED_HOSTNQN "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555"
#define BED_BLOCKS  4096u
#define BED_KEY	    0x1234u
#define BED_MEMORY  (2u << 20)

#define BED_TSAS 0x5au /* the first byte of its transport specific address */

extern const struct target_transport_ops bed_ops;

struct bed_queue;

struct bed_cmd {
	struct target_req req;
	struct bed_queue *queue;
	bool busy, answered, fetching;
	bool invalidated;
	struct nvme_cqe cqe; /* read back from its 16 bytes */
	void *mem;
};

struct bed_queue {
	struct target_queue tq;
	struct bed *bed;
	struct bed_cmd cmds[64];
	bool disconnect_asked;
	bool hold_fetches; /* as if memory were scarce */
	bool arrived;	   /* from another group */
	uint16_t next_cid;
};

struct slow_store { /* keeps operations until told */
	struct store store;
	struct store *below;
	bool hold;
	bool cancels; /* what it keeps it gives back */
	int fail;     /* -errno of the next operation, 0 none */
	struct store_op *held[TARGET_CTRLS_MAX];
	unsigned count, writes_fua, flushes;
};

struct bed {
	struct target target;
	struct target_subsys subsys;
	struct target_ns ns, ro, big; /* 1: 512-byte blocks; 2: read-only; 5: 4096-byte blocks */
	struct slow_store slow;
	struct store *ro_store, *big_store;
	struct target_port port;
	struct bed_queue admin, io, other;
	uint8_t memory[BED_MEMORY]; /* the host's */
	uint8_t capsule_data[TARGET_CAPSULE_DATA];
	uint64_t now;
	unsigned ctrls_new, ctrls_gone, refused, allocated;
	unsigned store_failed, stalled, stalls_over;
	struct target_event of_store; /* the last of these */
};

/* A bed whose target knows BED_NQN with three namespaces. */
struct bed *bed_create(void);
void bed_destroy(struct bed *b);
void bed_queue_open(struct bed *b, struct bed_queue *q, uint16_t qid);
void bed_queue_open_in(struct target_group *g, struct bed *b, struct bed_queue *q, uint16_t qid);
void bed_queue_close(struct bed_queue *q);

/* Sends a command as it is (the cid is set); the command, answered or not. */
struct bed_cmd *bed_send(struct bed_queue *q, struct nvme_sqe *s);
struct bed_cmd *bed_send_data(struct bed_queue *q, struct nvme_sqe *s, const void *data,
			      size_t len); /* len bytes in the capsule */
/* The same with a response that must be there; its status. Frees the command. */
uint16_t bed_exec(struct bed_queue *q, struct nvme_sqe *s, uint64_t *ret_result);
void bed_release(struct bed_cmd *c);
/* Lets a fetch go on. */
void bed_fetch_now(struct bed_cmd *c);
void slow_release(struct bed *b);

/* An SQE with flags and a keyed descriptor of len bytes at the start of the host's memory. */
struct nvme_sqe bed_sqe(uint8_t opcode, uint32_t nsid, uint32_t len);

/* Connect with everything right; the fields may be changed in between. */
struct bed_connect {
	struct nvmf_connect co;
	struct nvmf_connect_data data;
};
struct bed_connect bed_connect_args(uint16_t qid, uint16_t cntlid);
struct bed_cmd *bed_send_connect(struct bed_queue *q, const struct bed_connect *a);
uint16_t bed_connect(struct bed_queue *q, const struct bed_connect *a, uint64_t *ret_result);
uint16_t bed_property_set(struct bed_queue *q, uint32_t offset, uint32_t value);
uint64_t bed_property_get(struct bed_queue *q, uint32_t offset, bool wide);
/* Admin queue connected and controller enabled; and with an I/O queue. */
struct bed *bed_enabled(void);
struct bed *bed_with_io(void);

#define STATUS(sc) ((sc) | NVME_STATUS_DNR)
/* A status without the "more in the error log" flag. */
#define PLAIN(st) ((st) & ~NVME_STATUS_MORE)

#endif
