/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What iWARP promises, and where a stack can go wrong: pieces of a stream, order, fences, IRD. */
#include <stdio.h>
#include <string.h>

#include "end.h"

/* Round the length where a segment is full and a second one begins, whatever the MSS: 1500 less
 * the headers of IPv4 or IPv6 and TCP, with its timestamps or without, down to those of DDP. */
void sizes(struct end *e)
{
	enum { SMALL = 8, FROM = 1390, TO = 1446, IN = 4 << 20, THERE = 2 << 20, MOST = 4096 };
	unsigned count = 0;

	join(e, &(struct terms){0});
	for (uint32_t len = 1; len <= TO; len = len == SMALL ? FROM : len + 1, count++) {
		if (!e->requester) {
			post_recv(e, 0, MOST);
			fill(e, THERE, len, len + 1);
		}
		meet(e);
		if (e->requester) {
			fill(e, 0, len, len);
			post_op(e, IBV_WR_RDMA_WRITE, 0, len, IN);
			post_op(e, IBV_WR_RDMA_READ, IN, len, THERE);
			post_op(e, IBV_WR_SEND, 0, len, 0);
			for (int i = 0; i < 3; i++)
				success(e);
			check(e, IN, len, len + 1, "READ");
		} else {
			NEED(success(e).byte_len == len, "not the whole message of %u", len);
			check(e, 0, len, len, "SEND");
			check(e, IN, len, len, "WRITE");
		}
		meet(e);
	}
	if (e->requester)
		printf("%u sizes, ", count);
	part(e);
}

/* A fenced SEND takes what the READ before it brought, and one that is not does not wait for that.
 * Completions come as was posted, but that siw lets a SEND's overtake a READ's. */
void order(struct end *e)
{
	enum { ROUNDS = 16, LEN = 60000 };
	unsigned overtaken = 0;

	join(e, &(struct terms){0});
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_send_wr wr = request(e, IBV_WR_SEND, 0);
		const bool fenced = i % 2;
		const unsigned sent = fenced ? i : ROUNDS + i;

		if (!e->requester) {
			fill(e, LEN, LEN, i);
			post_recv(e, 0, LEN);
		} else {
			memset(e->buf, 0, LEN);
			fill(e, 2 * LEN, LEN, sent);
		}
		meet(e);
		if (e->requester) {
			uint64_t first;

			wr.send_flags |= fenced ? IBV_SEND_FENCE : 0;
			post_op(e, IBV_WR_RDMA_READ, 0, LEN, LEN);
			post(e, &wr, fenced ? 0 : 2 * LEN, LEN);
			first = success(e).wr_id;
			overtaken += first != IBV_WR_RDMA_READ;
			NEED(first == IBV_WR_RDMA_READ || (!e->weft && !fenced),
			     "the SEND was done first");
			NEED(success(e).wr_id != first, "twice the same");
			check(e, 0, LEN, i, "READ");
		} else {
			success(e);
			check(e, 0, LEN, sent, "SEND");
		}
		meet(e);
	}
	if (e->requester)
		printf("%u SENDs done before the READs before them, ", overtaken);
	part(e);
}

/* Of more READs than the peer takes at once the others wait with the requester: one that comes too
 * many ends the connection. */
void few_reads(struct end *e)
{
	static const uint8_t depth[] = {1, 2, 7};
	enum { COUNT = 40, SIZE = 5000 };

	for (unsigned i = 0; i < sizeof(depth); i++) {
		join(e, &(struct terms){.rd_atomic = depth[i]});
		for (unsigned k = 0; !e->requester && k < COUNT; k++)
			fill(e, k * SIZE, SIZE, i * COUNT + k);
		meet(e);
		for (unsigned k = 0; e->requester && k < COUNT; k++)
			post_op(e, IBV_WR_RDMA_READ, k * SIZE, SIZE, k * SIZE);
		for (unsigned k = 0; e->requester && k < COUNT; k++)
			success(e);
		for (unsigned k = 0; e->requester && k < COUNT; k++)
			check(e, k * SIZE, SIZE, i * COUNT + k, "READ");
		part(e);
	}
}

/* Messages each way for some seconds: what happens to the wire meanwhile is for others to arrange.
 */
void steady(struct end *e)
{
	enum { LEN = 100000, RUN_MS = 8000 };
	uint64_t until = now_ms() + RUN_MS, longest = 0;
	unsigned i = 0;

	join(e, &(struct terms){0});
	for (bool more = true; more; i++) {
		uint64_t begun = now_ms();

		fill(e, LEN, LEN, i + e->requester);
		post_recv(e, 0, LEN);
		more = swap(e, now_ms() < until) && now_ms() < until;
		more = swap(e, more) && more;
		post_op(e, IBV_WR_SEND, LEN, LEN, 0);
		success(e);
		success(e);
		check(e, 0, LEN, i + !e->requester, "SEND");
		longest = now_ms() - begun > longest ? now_ms() - begun : longest;
	}
	if (e->requester)
		printf("%u messages each way, the longest pause %u ms, ", i, (unsigned)longest);
	part(e);
}
