/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A device of ours that says it were iWARP, so that the storage half does for it what it does for
 * iWARP, and that counts what is posted to it: READs and WRITEs of no bytes, READs of some, posts
 * with such, and invalidations. It can keep a target from invalidating keys by its responses.
 */
#ifndef WEFT_TESTS_IWARP_LIKE_H
#define WEFT_TESTS_IWARP_LIKE_H

#include <arpa/inet.h>
#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

static struct iwarp_like {
	struct ibv_context *ctx;
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	unsigned int empty_reads, empty_writes;
	unsigned int reads, posts_with_reads, invalidations;
	bool plain_responses;
} iwarp_like;

static int iwarp_like_post_send(struct ibv_qp *qp, struct ibv_send_wr *first,
				struct ibv_send_wr **bad)
{
	const unsigned int reads = iwarp_like.reads;

	for (struct ibv_send_wr *wr = first; wr; wr = wr->next) {
		uint32_t len = 0;

		for (int i = 0; i < wr->num_sge; i++)
			len += wr->sg_list[i].length;
		iwarp_like.reads += wr->opcode == IBV_WR_RDMA_READ && len;
		iwarp_like.empty_reads += wr->opcode == IBV_WR_RDMA_READ && !len;
		iwarp_like.invalidations += wr->opcode == IBV_WR_LOCAL_INV;
		if (iwarp_like.plain_responses && wr->opcode == IBV_WR_SEND_WITH_INV)
			wr->opcode = IBV_WR_SEND;
		iwarp_like.empty_writes += wr->opcode == IBV_WR_RDMA_WRITE && !len;
	}
	iwarp_like.posts_with_reads += iwarp_like.reads != reads;
	return iwarp_like.post_send(qp, first, bad);
}

/* The device of 127.0.0.1, which rdma_cm opens once for the whole process. */
static inline bool iwarp_like_begin(void)
{
	struct sockaddr_in lo = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_id *id;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
		return false;
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&lo, 1000) == 0 && id->verbs) {
		iwarp_like = (struct iwarp_like){.ctx = id->verbs,
						 .post_send = id->verbs->ops.post_send};
		id->verbs->ops.post_send = iwarp_like_post_send;
		id->verbs->device->transport_type = IBV_TRANSPORT_IWARP;
	}
	rdma_destroy_id(id);
	return iwarp_like.ctx;
}

/* Counts on, of a device that says what it is. */
static inline void iwarp_like_say_ib(void)
{
	iwarp_like.ctx->device->transport_type = IBV_TRANSPORT_IB;
}

static inline void iwarp_like_end(void)
{
	iwarp_like_say_ib();
	iwarp_like.ctx->ops.post_send = iwarp_like.post_send;
}

#endif
