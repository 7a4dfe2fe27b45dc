/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The longest messages: 2 GiB (IBA volume 1, 9.7.4.1.6), and what comes of one byte more; half of
 * that over iWARP, which sets no limit of its own but the four bytes of a length. A guest has not
 * so much memory: the region maps the same pages again and again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "end.h"

#define LONGEST	 (1ull << 31)
#define BY_IWARP (1ull << 30)
#define ROOM	 (LONGEST + 4096)
#define PIECE	 (3ull << 20)

/* Takes the place of the end's buffer. */
static void make_room(struct end *e)
{
	int fd = memfd_create("long", 0);

	NEED(fd >= 0 && !ftruncate(fd, PIECE), "memfd: %s", strerror(errno));
	e->buf = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	NEED(e->buf != MAP_FAILED, "mmap: %s", strerror(errno));
	for (uint64_t off = 0; off < ROOM; off += PIECE)
		NEED(mmap(e->buf + off, ROOM - off < PIECE ? ROOM - off : PIECE,
			  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED,
		     "mmap: %s", strerror(errno));
	close(fd);
	e->mr = ibv_reg_mr(e->pd, e->buf, ROOM,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE);
	NEED(e->mr, "ibv_reg_mr: %s", strerror(errno));
}

/* weft refuses to post it, and goes on. rxe posts it: a WRITE then fails with itself, a READ is for
 * the responder to refuse. */
void too_long(struct end *e)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};

	make_room(e);
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_send_wr wr;
		bool asked;

		join(e, &(struct terms){0});
		wr = request(e, ops[i], 0);
		if (e->requester && e->weft) {
			NEED(try_post(e, &wr, 0, (uint32_t)LONGEST + 1) == EINVAL, "not refused");
			post(e, &wr, 0, 100);
			success(e);
		} else if (e->requester) {
			struct ibv_wc wc;

			post(e, &wr, 0, (uint32_t)LONGEST + 1);
			wc = completion(e);
			NEED(wc.status == (i ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_LOC_QP_OP_ERR),
			     "opcode %d: %s", ops[i], ibv_wc_status_str(wc.status));
		}
		meet(e);
		asked = !e->requester && e->weft && ops[i] == IBV_WR_RDMA_READ;
		NEED(e->requester || state_of(e) == (asked ? IBV_QPS_ERR : IBV_QPS_RTS),
		     "the responder's state: %d", state_of(e));
		part(e);
	}
}

/*
 * To rxe the length of what it writes is a signed number: 2 GiB to the byte fail with itself. It
 * asks for what it reads at once, gets it faster than it can take it in, and asks again for what it
 * lost: 2 GiB come to no end.
 */
void longest(struct end *e)
{
	bool by_weft;
	uint32_t len;
	uint64_t begun;

	make_room(e);
	be_patient(e, 600000);
	join(e, &(struct terms){0});
	by_weft = e->requester ? e->weft : e->peer.weft;
	len = (uint32_t)(e->iwarp ? BY_IWARP : by_weft ? LONGEST : LONGEST - 1);
	if (e->requester)
		fill(e, 0, PIECE, 1);
	meet(e);
	begun = now_ms();
	if (e->requester) {
		post_op(e, IBV_WR_RDMA_WRITE, 0, len, 0);
		success(e);
		printf("%u bytes written in %d s, ", len, (int)((now_ms() - begun) / 1000));
	}
	/* Over iWARP a WRITE ends when it is sent; what is asked for behind it has found it placed.
	 */
	if (e->requester && e->iwarp) {
		post_op(e, IBV_WR_RDMA_READ, 0, 8, 0);
		success(e);
	}
	meet(e);
	if (!e->requester) {
		check(e, 0, PIECE, 1, "WRITE");
		fill(e, 0, PIECE, 2);
	}
	meet(e);
	begun = now_ms();
	if (e->requester && (by_weft || e->iwarp)) {
		post_op(e, IBV_WR_RDMA_READ, 0, len, 0);
		success(e);
		check(e, 0, PIECE, 2, "READ");
		printf("read in %d s, ", (int)((now_ms() - begun) / 1000));
	}
	part(e);
}
