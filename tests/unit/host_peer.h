/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A scripted controller in memory for tests of the host: it takes what the host sends into a
 * list, answers bring-up like a good controller unless told otherwise, and keeps virtual time.
 */
#ifndef WEFT_TESTS_HOST_PEER_H
#define WEFT_TESTS_HOST_PEER_H

#include "base/time.h"
#include "nvmf/host/host.h"

enum {
	PEER_QUEUES = HOST_CONNECTING_MAX + 2,
	PEER_ENTRIES = 16,
	PEER_SENT_MAX = 4096,
	PEER_NAMESPACES = 3,
};

struct sent {
	uint16_t qid;
	struct nvme_sqe sqe;
	struct host_request *req;
	bool in_capsule;
	bool answered;
};

struct peer {
	struct host host;
	struct host_queue queues[1 + PEER_QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + PEER_QUEUES * PEER_ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN];
	struct host_config config;
	struct host_transport transport;
	uint64_t now_ns;

	/* The script. */
	bool refuse_open; /* open() fails */
	bool silent_open; /* open() is not answered, of the admin queue, of I/O queues */
	bool silent_io_open;
	uint16_t limit; /* commands it has room for; 0: as many as asked */
	uint64_t cap;
	uint32_t csts; /* what CSTS reads as */
	uint32_t csts_after_shn;
	struct nvme_id_ctrl id;
	uint32_t vs;
	struct peer_ns {
		uint16_t status; /* refuses Identify Namespace, of its descriptors */
		uint16_t status_of_descs;
		uint8_t block_shift, nguid, uuid; /* 0: there is none */
		uint64_t blocks;
	} ns[PEER_NAMESPACES];	 /* by ID, from 1 on */
	uint16_t status_of_list; /* refuses the list of active namespaces */
	uint16_t queues_granted;
	uint32_t mute_from; /* answers no bring-up command from this one on; 0: all */
	uint16_t status_of_step[HOST_STATES]; /* refuses the command of a state with this */
	uint64_t result_of_refusal;
	unsigned int submit_again;     /* so many submits return -EAGAIN */
	unsigned int submit_no_memory; /* so many say -ENOMEM */
	bool submit_broken;

	/* What happened. */
	bool open[1 + PEER_QUEUES];
	uint16_t to_open[1 + PEER_QUEUES]; /* entries asked; 0: nothing is asked */
	unsigned int opens, closes, releases, submits;
	struct sent sent[PEER_SENT_MAX];
	uint32_t sent_count, looked;
	uint32_t bring_up_answered;
	uint32_t events, last_event;
	struct nvmf_connect connect[1 + PEER_QUEUES];
	struct nvmf_connect_data connect_data[1 + PEER_QUEUES];
	uint32_t cc;
	unsigned int keep_alives, logs, lists,
		looks;		  /* of changed and of active namespaces; at one */
	uint32_t lost, last_lost; /* namespaces that were */
	enum host_state trail[64];
	unsigned int trail_len;
};

/* A peer with sensible answers; config may be changed before peer_init(). */
struct peer *peer_new(void);
void peer_init(struct peer *p);
void peer_free(struct peer *p);
/* Answers the opens and bring-up commands that are there, as after one way to and fro; false:
 * there were none. */
bool peer_round(struct peer *p);
/* The same until nothing is left to answer. */
void peer_run(struct peer *p);
/* Starts the host and brings it up; fails the test if it does not become live. */
void peer_bring_up(struct peer *p);
/* Moves the time on, ticking the host at each of its deadlines, and runs. */
void peer_advance(struct peer *p, uint64_t by_ns);
/* A response to the i-th command sent. */
void peer_answer(struct peer *p, struct sent *s, uint16_t status, uint64_t result);
/* The first unanswered I/O or user command (not of the bring-up) of a queue, or NULL. */
struct sent *peer_next(struct peer *p, uint16_t qid);
unsigned int peer_outstanding(const struct peer *p, uint16_t qid);

#endif
