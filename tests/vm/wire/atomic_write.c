/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* ATOMIC WRITE: 8 bytes that are there as a whole or not at all. Linux has it from 6.2 on. */
#include <errno.h>
#include <string.h>

#include "end.h"

enum { COUNT = 50, WORD = 8, MISALIGNED = COUNT * WORD + 4 };

/* Its completion's status. */
static enum ibv_wc_status write_word(struct end *e, size_t remote, uint64_t value)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(e->qp);
	struct ibv_wc wc;

	ibv_wr_start(ex);
	ex->wr_id = IBV_WR_ATOMIC_WRITE;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(ex, e->peer.rkey, e->peer.addr + remote, &value);
	errno = ibv_wr_complete(ex);
	NEED(!errno, "post an ATOMIC WRITE: %s", strerror(errno));
	wc = completion(e);
	NEED(wc.status != IBV_WC_SUCCESS || wc.opcode == IBV_WC_ATOMIC_WRITE,
	     "completed as opcode %d", wc.opcode);
	return wc.status;
}

static uint64_t word(const struct end *e, size_t i)
{
	uint64_t value;

	memcpy(&value, e->buf + i * WORD, WORD);
	return value;
}

void atomic_write(struct end *e)
{
	enum ibv_wc_status s;

	join(e, &(struct terms){.ops = e->requester ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0});
	for (uint64_t i = 0; e->requester && i < COUNT; i++) {
		s = write_word(e, i * WORD, ~i);
		NEED(s == IBV_WC_SUCCESS, "word %d: %s", (int)i, ibv_wc_status_str(s));
	}
	meet(e);
	for (uint64_t i = 0; !e->requester && i < COUNT; i++)
		NEED(word(e, i) == ~i, "word %d is wrong", (int)i);
	if (e->requester) {
		s = write_word(e, MISALIGNED, 1);
		NEED(s == IBV_WC_REM_INV_REQ_ERR, "at an address that is no multiple of 8: %s",
		     ibv_wc_status_str(s));
	}
	meet(e);
	for (size_t i = COUNT; !e->requester && i < COUNT + 3; i++)
		NEED(!word(e, i), "a request that was refused wrote something");
	part(e);
}
