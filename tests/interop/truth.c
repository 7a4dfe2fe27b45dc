/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided truth: READs, WRITEs and atomics complete on the memory of a process that is away.
 *
 *	truth sleep|compute ADDR PORT   the passive side: for AWAY_MS it sleeps, or computes, and
 *					calls neither verbs nor rdma_cm; then looks at its memory
 *	truth client ADDR PORT		the active side
 *
 * The buffer: a mark the client sets when it is done, a counter for atomics, then an area that
 * the client reads and one that it writes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pair.h"

enum { AWAY_MS = 4000, ROUNDS = 200, AREA = 1 << 20, CHUNK = 1 << 16 };

struct shared {
	uint64_t mark, counter, swapped;
	uint8_t pad[4096 - 24];
	uint8_t readable[AREA], writable[AREA];
};

static uint8_t pattern(size_t i, unsigned int key)
{
	return (uint8_t)((i * 2654435761u >> 11) + key);
}

static void nothing_to_post(struct pair *p)
{
	struct shared *s = p->buf;

	for (size_t i = 0; i < AREA; i++)
		s->readable[i] = pattern(i, 1);
}

static int passive(const char *mode, const char *addr, const char *port)
{
	volatile struct shared *s;
	double sum = 0;
	struct pair p;
	uint64_t end;

	pair_serve(&p, addr, port, sizeof(struct shared), nothing_to_post);
	s = p.buf;
	end = now_ms() + AWAY_MS;
	if (strcmp(mode, "compute") == 0)
		while (now_ms() < end)
			for (int i = 1; i < 1000000; i++)
				sum += 1.0 / i;
	else
		usleep(AWAY_MS * 1000);

	if (s->mark != 1) {
		fprintf(stderr, "nothing was finished while this process was away\n");
		return 1;
	}
	if (s->counter != ROUNDS || s->swapped != ROUNDS) {
		fprintf(stderr, "atomics: %llu added, %llu swapped, not %d\n",
			(unsigned long long)s->counter, (unsigned long long)s->swapped, ROUNDS);
		return 1;
	}
	for (size_t i = 0; i < AREA; i++) {
		if (s->writable[i] != pattern(i, 2)) {
			fprintf(stderr, "written area differs at %zu\n", i);
			return 1;
		}
	}
	printf("away and all was done (%g)\n", sum);
	return 0;
}

/* Posts one request and polls for its completion. */
static void one(struct pair *p, struct ibv_send_wr *wr, size_t local, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p->buf + local, len, p->mr->lkey};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(p->id->qp, wr, &bad))
		die("ibv_post_send");
	while ((n = ibv_poll_cq(p->cq, 1, &wc)) == 0)
		;
	if (n < 0 || wc.status) {
		fprintf(stderr, "opcode %d: %s\n", wr->opcode, ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void rdma(struct pair *p, enum ibv_wr_opcode op, size_t local, size_t remote, uint32_t len)
{
	struct ibv_send_wr wr = {
		.opcode = op,
		.wr.rdma = {.remote_addr = p->peer.addr + remote, .rkey = p->peer.rkey}};

	one(p, &wr, local, len);
}

static uint64_t atomic(struct pair *p, enum ibv_wr_opcode op, size_t remote, uint64_t compare_add,
		       uint64_t swap)
{
	struct ibv_send_wr wr = {.opcode = op,
				 .wr.atomic = {.remote_addr = p->peer.addr + remote,
					       .rkey = p->peer.rkey,
					       .compare_add = compare_add,
					       .swap = swap}};
	struct shared *s = p->buf;

	one(p, &wr, offsetof(struct shared, pad), 8);
	return *(uint64_t *)s->pad;
}

static int active(const char *addr, const char *port)
{
	struct shared *s;
	struct pair p;
	uint64_t begun;

	pair_connect(&p, addr, port, sizeof(struct shared), nothing_to_post);
	s = p.buf;
	begun = now_ms();
	memset(s->readable, 0, AREA);
	for (size_t i = 0; i < AREA; i++)
		s->writable[i] = pattern(i, 2);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		size_t at = (size_t)i * CHUNK % AREA;
		size_t readable = offsetof(struct shared, readable) + at;
		size_t writable = offsetof(struct shared, writable) + at;

		rdma(&p, IBV_WR_RDMA_READ, readable, readable, CHUNK);
		rdma(&p, IBV_WR_RDMA_WRITE, writable, writable, CHUNK);
		if (atomic(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, offsetof(struct shared, counter), 1,
			   0) != i ||
		    atomic(&p, IBV_WR_ATOMIC_CMP_AND_SWP, offsetof(struct shared, swapped), i,
			   i + 1) != i) {
			fprintf(stderr, "atomic %u returned another value\n", i);
			return 1;
		}
	}
	for (size_t i = 0; i < AREA; i++) {
		if (s->readable[i] != pattern(i, 1)) {
			fprintf(stderr, "read area differs at %zu\n", i);
			return 1;
		}
	}
	s->mark = 1;
	rdma(&p, IBV_WR_RDMA_WRITE, offsetof(struct shared, mark), offsetof(struct shared, mark),
	     8);
	printf("%d rounds in %llu ms\n", ROUNDS, (unsigned long long)(now_ms() - begun));
	usleep(200000);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: %s sleep|compute|client ADDR PORT\n", argv[0]);
		return 2;
	}
	return strcmp(argv[1], "client") == 0 ? active(argv[2], argv[3])
					      : passive(argv[1], argv[2], argv[3]);
}
