/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How requests flow: receivers that are not ready, PSNs that wrap, answers for many or again. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "end.h"

static void rest(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* ---- receiver not ready ---------------------------------------------------------------------- */

enum { LEN = 5000, LATE_MS = 200 };

/* Four messages, and receives only later, one by one. */
static void rnr_without_limit(struct end *e, uint8_t timer, int at_least_ms)
{
	uint64_t begun;

	join(e, &(struct terms){.rnr_timer = timer});
	begun = now_ms();
	for (unsigned i = 0; i < 4; i++) {
		if (e->requester) {
			fill(e, i * LEN, LEN, i);
			post_op(e, IBV_WR_SEND, i * LEN, LEN, 0);
		} else {
			rest(LATE_MS / 4);
			post_recv(e, i * LEN, LEN);
		}
	}
	for (unsigned i = 0; i < 4; i++) {
		success(e);
		if (!e->requester)
			check(e, i * LEN, LEN, i, "message after RNR");
	}
	if (e->requester)
		NEED(now_ms() - begun >= (uint64_t)at_least_ms, "done after %d ms already",
		     (int)(now_ms() - begun));
	part(e);
}

static void rnr_with_limit(struct end *e, uint8_t retries)
{
	join(e, &(struct terms){.rnr_retry = retries, .rnr_timer = 20 /* 10 ms */});
	if (e->requester) {
		struct ibv_wc wc;

		post_op(e, IBV_WR_SEND, 0, LEN, 0);
		post_op(e, IBV_WR_SEND, 0, LEN, 0);
		wc = completion(e);
		NEED(wc.status == IBV_WC_RNR_RETRY_EXC_ERR, "out of RNR retries: %s",
		     ibv_wc_status_str(wc.status));
		wc = completion(e);
		NEED(wc.status == IBV_WC_WR_FLUSH_ERR, "behind it: %s",
		     ibv_wc_status_str(wc.status));
		NEED(state_of(e) == IBV_QPS_ERR, "state %d", state_of(e));
	}
	meet(e);
	if (!e->requester) {
		silence(e, 0);
		NEED(state_of(e) == IBV_QPS_RTS, "the responder's state: %d", state_of(e));
	}
	part(e);
}

void rnr(struct end *e)
{
	rnr_without_limit(e, 12 /* 0.64 ms */, LATE_MS * 3 / 4);
	rnr_without_limit(e, 32 /* 655 ms */, 600);
	rnr_with_limit(e, 1);
	rnr_with_limit(e, 8);
}

/* ---- sequence -------------------------------------------------------------------------------- */

void psn_wrap(struct end *e)
{
	enum { ROUNDS = 12, OUT = 0, IN = 1 << 20, COUNTER = 2 << 20, READ = 3 << 20 };

	join(e, &(struct terms){.psn = 0xffffff - 40});
	fill(e, READ, LEN, 100 + e->requester);
	*(uint64_t *)(void *)(e->buf + COUNTER) = 0;
	for (unsigned i = 0; !e->requester && i < ROUNDS; i++)
		post_recv(e, i * LEN, LEN);
	meet(e);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_send_wr add = request(e, IBV_WR_ATOMIC_FETCH_AND_ADD, COUNTER);

		if (!e->requester) {
			success(e);
			check(e, i * LEN, LEN, i, "SEND");
			continue;
		}
		fill(e, OUT, LEN, i);
		post_op(e, IBV_WR_SEND, OUT, LEN, 0);
		post_op(e, IBV_WR_RDMA_WRITE, OUT, LEN, IN);
		post_op(e, IBV_WR_RDMA_READ, IN, LEN, READ);
		add.wr.atomic.compare_add = 1;
		post(e, &add, COUNTER, 8);
		for (int n = 0; n < 4; n++)
			success(e);
		check(e, IN, LEN, 100, "READ");
		NEED(*(uint64_t *)(void *)(e->buf + COUNTER) == i, "atomic of round %u", i);
	}
	meet(e);
	if (!e->requester)
		check(e, IN, LEN, ROUNDS - 1, "WRITE");
	part(e);
}

void unsignaled(struct end *e)
{
	enum { COUNT = 100, SIZE = 64 };
	struct ibv_wc wc;

	join(e, &(struct terms){0});
	for (unsigned i = 0; !e->requester && i < COUNT; i++)
		post_recv(e, i * SIZE, SIZE);
	meet(e);
	for (unsigned i = 0; e->requester && i < COUNT; i++) {
		struct ibv_send_wr wr =
			request(e, e->iwarp ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, 0);

		wr.imm_data = i;
		if (i < COUNT - 1)
			wr.send_flags = 0;
		post(e, &wr, 0, SIZE);
	}
	for (unsigned i = 0; !e->requester && i < COUNT; i++) {
		wc = success(e);
		NEED((e->iwarp || wc.imm_data == i) && wc.wr_id == i * SIZE,
		     "message %u came as number %u", wc.imm_data, i);
	}
	if (e->requester) {
		success(e);
		silence(e, 50);
	}
	part(e);
}

/* ---- answers with data, which loss makes worth asking for again -------------------------------
 */

void deep_reads(struct end *e)
{
	enum { ROUNDS = 4, SIZE = 50000 };
	uint32_t n;

	join(e, &(struct terms){0});
	n = e->peer.rd_atomic < 16 ? e->peer.rd_atomic : 16;
	for (unsigned r = 0; r < ROUNDS; r++) {
		for (unsigned i = 0; !e->requester && i < n; i++)
			fill(e, i * SIZE, SIZE, r * n + i);
		meet(e);
		for (unsigned i = 0; e->requester && i < n; i++)
			post_op(e, IBV_WR_RDMA_READ, i * SIZE, SIZE, i * SIZE);
		for (unsigned i = 0; e->requester && i < n; i++)
			success(e);
		for (unsigned i = 0; e->requester && i < n; i++)
			check(e, i * SIZE, SIZE, r * n + i, "READ");
		meet(e);
	}
	if (e->requester)
		printf("%u READs at once, ", n);
	part(e);
}

/* Each is executed once, and says what it found, however often it was sent and answered. */
void atomics(struct end *e)
{
	enum { COUNT = 400, ADDED = 0, SWAPPED = 8, FOUND = 4096 };
	uint64_t *mem = (uint64_t *)(void *)e->buf, *found = (uint64_t *)(void *)(e->buf + FOUND);

	join(e, &(struct terms){0});
	mem[0] = mem[1] = 0;
	meet(e);
	for (unsigned i = 0; e->requester && i < COUNT; i += 8) {
		for (unsigned k = i; k < i + 8; k++) {
			struct ibv_send_wr wr = request(
				e, k % 2 ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
				k % 2 ? SWAPPED : ADDED);

			wr.wr.atomic.compare_add = k % 2 ? k / 2 : 3;
			wr.wr.atomic.swap = k / 2 + 1;
			post(e, &wr, FOUND + k * 8ul, 8);
		}
		for (unsigned k = i; k < i + 8; k++)
			success(e);
		for (unsigned k = i; k < i + 8; k++)
			NEED(found[k] == (k % 2 ? k / 2 : k / 2 * 3), "atomic %u found %llu", k,
			     (unsigned long long)found[k]);
	}
	meet(e);
	if (!e->requester)
		NEED(mem[0] == COUNT / 2 * 3 && mem[1] == COUNT / 2, "%llu added, %llu swapped",
		     (unsigned long long)mem[0], (unsigned long long)mem[1]);
	part(e);
}

/* As long as both devices take. */
void large(struct end *e)
{
	uint32_t len;

	join(e, &(struct terms){0});
	len = e->peer.max_msg < e->port.max_msg_sz ? e->peer.max_msg : e->port.max_msg_sz;
	if (len > BUF_LEN)
		len = BUF_LEN;
	if (!e->requester)
		post_recv(e, 0, len);
	meet(e);
	if (e->requester) {
		fill(e, 0, len, 1);
		post_op(e, IBV_WR_SEND, 0, len, 0);
		success(e);
	} else {
		NEED(success(e).byte_len == len, "not the whole message");
		check(e, 0, len, 1, "SEND");
		fill(e, 0, len, 2);
		post_recv(e, 0, 1);
	}
	meet(e);
	if (e->requester) {
		post_op(e, IBV_WR_RDMA_READ, 0, len, 0);
		success(e);
		check(e, 0, len, 2, "READ");
		fill(e, 0, len, 3);
		post_op(e, IBV_WR_RDMA_WRITE, 0, len, 0);
		success(e);
		/* On iWARP that says that it has gone out; this one comes behind it (RFC 5040
		 * section 5.5). */
		post_op(e, IBV_WR_SEND, 0, 1, 0);
		success(e);
		printf("%u MiB, ", len >> 20);
	} else {
		(void)success(e);
	}
	meet(e);
	if (!e->requester)
		check(e, 0, len, 3, "WRITE");
	part(e);
}
