/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests: the caller's pieces and function, and the host core's request. They come from slabs
 * that are kept, so that a queue that is busy allocates nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "nvmf/host/commands.h"
#include "nvmf/lib/internal.h"

static struct request *request_get(struct weft_ctrl *c)
{
	struct slab *s;

	if (list_empty(&c->idle)) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		s->next = c->slabs;
		c->slabs = s;
		for (unsigned int i = 0; i < REQUESTS_OF_A_SLAB; i++)
			list_push_tail(&c->idle, &s->requests[i].link);
	}
	return list_entry(list_pop_head(&c->idle), struct request, link);
}

static void request_put(struct request *r)
{
	list_push_head(&r->queue->ctrl->idle, &r->link);
}

void requests_free(struct weft_ctrl *c)
{
	for (struct slab *s; (s = c->slabs);) {
		c->slabs = s->next;
		for (unsigned int i = 0; i < REQUESTS_OF_A_SLAB; i++) {
			free(s->requests[i].more);
			free(s->requests[i].ranges);
		}
		free(s);
	}
}

static void over(struct host_request *req, uint64_t now_ns)
{
	struct request *r = req->arg;
	struct weft_queue *q = r->queue;
	weft_done_fn *done = r->done;
	void *arg = r->arg;
	struct weft_result result = {
		.error = req->error,
		.attempts = req->attempts,
	};

	(void)now_ns;
	if (!req->error) {
		result.status = req->cqe.status;
		result.result = req->cqe.result;
		if (result.status)
			result.error = status_errno(result.status, q->qid > 0);
	}
	q->count--;
	request_put(r); /* the next one may be it */
	done(arg, &result);
}

/* --- submitting ------------------------------------------------------------------------------- */

/* A request of the queue, or why there is none. */
static inline int begin(struct weft_queue *q, weft_done_fn *done, void *arg, struct request **ret)
{
	struct request *r;

	if (!done)
		return -EINVAL;
	if (q->count >= REQUESTS_MAX)
		return -EAGAIN;
	r = request_get(q->ctrl);
	if (!r)
		return -ENOMEM;
	r->queue = q;
	r->done = done;
	r->arg = arg;
	*ret = r;
	return 0;
}

static int drop(struct request *r, int error)
{
	request_put(r);
	return error;
}

/* The caller's pieces become the request's; *ret_len is what they hold. */
static int take_many(struct request *r, const struct iovec *iov, int iovcnt, uint32_t *ret_len)
{
	struct iovec *to = r->pieces;
	uint64_t len = 0;

	if (iovcnt < 0 || (iovcnt && !iov))
		return -EINVAL;
	for (int i = 0; i < iovcnt; i++) {
		if (iov[i].iov_len && !iov[i].iov_base)
			return -EINVAL;
		if (iov[i].iov_len > UINT32_MAX - len)
			return -EMSGSIZE;
		len += iov[i].iov_len;
	}
	if (iovcnt > REQUEST_PIECES) {
		if (iovcnt > r->more_room) {
			struct iovec *more = reallocarray(r->more, (size_t)iovcnt, sizeof(*more));

			if (!more)
				return -ENOMEM;
			r->more = more;
			r->more_room = iovcnt;
		}
		to = r->more;
	}
	if (iovcnt)
		memcpy(to, iov, (size_t)iovcnt * sizeof(*iov));
	r->req.data = iovcnt ? to[0].iov_base : NULL;
	r->req.iov = iovcnt > 1 ? to : NULL;
	*ret_len = (uint32_t)len;
	return 0;
}

/* One is the rule, and is named by the request itself. */
static inline int take_pieces(struct request *r, const struct iovec *iov, int iovcnt,
			      uint32_t *ret_len)
{
	if (iovcnt != 1 || !iov || !iov->iov_base || iov->iov_len > UINT32_MAX)
		return take_many(r, iov, iovcnt, ret_len);
	r->req.data = iov->iov_base;
	r->req.iov = NULL;
	*ret_len = (uint32_t)iov->iov_len;
	return 0;
}

static inline int submit(struct request *r, unsigned int flags, bool again)
{
	struct weft_queue *q = r->queue;
	const struct weft_group *g = q->ctrl->group;
	struct host *h = &q->ctrl->host;
	uint16_t qid = q->qid;
	int err;

	if (r->req.data_len > h->transfer_max && h->transfer_max)
		return drop(r, -EMSGSIZE);
	/* The controller may grant fewer queues than were asked for. */
	if (qid > h->io_queues && h->io_queues)
		qid = (uint16_t)(1 + (qid - 1) % h->io_queues);
	r->req.again = flags & WEFT_AGAIN || (again && !(flags & WEFT_ONCE));
	r->req.done = over;
	r->req.arg = r;
	q->count++; /* it may be over before host_submit() is */
	/* A turn is short as timeouts go, and looking at the clock is not for nothing. */
	err = host_submit(h, qid, &r->req, g->depth ? g->now_ns : time_now_ns());
	if (!err)
		return 0;
	q->count--;
	return drop(r, err);
}

/* The flags of dword 12. */
static uint32_t rw_flags(unsigned int flags)
{
	return (flags & WEFT_FUA ? NVME_RW_FUA : 0) | (flags & WEFT_LIMITED_RETRY ? NVME_RW_LR : 0);
}

/* Where they lie the controller looks at. */
static int check_blocks(const struct weft_queue *q, uint32_t blocks)
{
	if (!q->qid || !blocks)
		return -EINVAL;
	return blocks > BLOCKS_MAX ? -EMSGSIZE : 0;
}

/* --- with data -------------------------------------------------------------------------------- */

static int transfer(struct weft_queue *q, uint8_t opcode, uint32_t nsid, uint64_t lba,
		    uint32_t blocks, const struct iovec *iov, int iovcnt, unsigned int flags,
		    weft_done_fn *done, void *arg)
{
	struct request *r;
	uint32_t len;
	int err = check_blocks(q, blocks);

	if (!err)
		err = begin(q, done, arg, &r);
	if (err)
		return err;
	err = take_pieces(r, iov, iovcnt, &len);
	if (!err && (!len || len % blocks))
		err = -EINVAL;
	if (err)
		return drop(r, err);
	r->req.sqe = (struct nvme_sqe){.opcode = opcode, .nsid = nsid};
	r->req.dir = nvmf_dir_of(&r->req.sqe);
	r->req.data_len = len;
	nvme_rw_set(&r->req.sqe, lba, blocks, rw_flags(flags));
	return submit(r, flags, true);
}

int weft_queue_read(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
		    const struct iovec *iov, int iovcnt, unsigned int flags, weft_done_fn *done,
		    void *arg)
{
	return transfer(q, NVME_IO_READ, nsid, lba, blocks, iov, iovcnt, flags, done, arg);
}

int weft_queue_write(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
		     const struct iovec *iov, int iovcnt, unsigned int flags, weft_done_fn *done,
		     void *arg)
{
	return transfer(q, NVME_IO_WRITE, nsid, lba, blocks, iov, iovcnt, flags, done, arg);
}

int weft_queue_compare(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
		       const struct iovec *iov, int iovcnt, unsigned int flags, weft_done_fn *done,
		       void *arg)
{
	return transfer(q, NVME_IO_COMPARE, nsid, lba, blocks, iov, iovcnt, flags, done, arg);
}

/* --- without ---------------------------------------------------------------------------------- */

static int of_blocks(struct weft_queue *q, uint8_t opcode, uint32_t nsid, uint64_t lba,
		     uint32_t blocks, uint32_t more, unsigned int flags, weft_done_fn *done,
		     void *arg)
{
	struct request *r;
	int err = check_blocks(q, blocks);

	if (!err)
		err = begin(q, done, arg, &r);
	if (err)
		return err;
	host_prepare_flush(&r->req, nsid); /* a namespace and no data */
	r->req.sqe.opcode = opcode;
	nvme_rw_set(&r->req.sqe, lba, blocks, rw_flags(flags) | more);
	return submit(r, flags, true);
}

int weft_queue_flush(struct weft_queue *q, uint32_t nsid, unsigned int flags, weft_done_fn *done,
		     void *arg)
{
	struct request *r;
	int err = q->qid ? begin(q, done, arg, &r) : -EINVAL;

	if (err)
		return err;
	host_prepare_flush(&r->req, nsid);
	return submit(r, flags, true);
}

int weft_queue_write_zeroes(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
			    unsigned int flags, weft_done_fn *done, void *arg)
{
	return of_blocks(q, NVME_IO_WRITE_ZEROES, nsid, lba, blocks,
			 flags & WEFT_DEALLOCATE ? NVME_WZ_DEAC : 0, flags, done, arg);
}

int weft_queue_write_uncorrectable(struct weft_queue *q, uint32_t nsid, uint64_t lba,
				   uint32_t blocks, unsigned int flags, weft_done_fn *done,
				   void *arg)
{
	return of_blocks(q, NVME_IO_WRITE_UNCORRECTABLE, nsid, lba, blocks, 0,
			 flags & ~(WEFT_FUA | WEFT_LIMITED_RETRY), done, arg);
}

int weft_queue_verify(struct weft_queue *q, uint32_t nsid, uint64_t lba, uint32_t blocks,
		      unsigned int flags, weft_done_fn *done, void *arg)
{
	return of_blocks(q, NVME_IO_VERIFY, nsid, lba, blocks, 0, flags, done, arg);
}

/* --- ranges ----------------------------------------------------------------------------------- */

/* A request with memory for its ranges, or why there is none. */
static int begin_ranges(struct weft_queue *q, const struct weft_range *ranges, unsigned int count,
			weft_done_fn *done, void *arg, struct request **ret)
{
	int err;

	if (!q->qid || !ranges || !count)
		return -EINVAL;
	if (count > WEFT_RANGES_MAX)
		return -EMSGSIZE;
	err = begin(q, done, arg, ret);
	if (err)
		return err;
	if (!(*ret)->ranges)
		(*ret)->ranges = malloc((size_t)WEFT_RANGES_MAX * NVME_COPY_RANGE_LEN);
	return (*ret)->ranges ? 0 : drop(*ret, -ENOMEM);
}

int weft_queue_dsm(struct weft_queue *q, uint32_t nsid, const struct weft_range *ranges,
		   unsigned int count, uint32_t attributes, unsigned int flags, weft_done_fn *done,
		   void *arg)
{
	struct nvme_dsm_range v[WEFT_RANGES_MAX];
	struct request *r;
	int err = begin_ranges(q, ranges, count, done, arg, &r);

	if (err)
		return err;
	for (unsigned int i = 0; i < count; i++)
		v[i] = (struct nvme_dsm_range){.attributes = ranges[i].attributes,
					       .nlb = ranges[i].blocks,
					       .slba = ranges[i].lba};
	host_prepare_dsm(&r->req, nsid, attributes, v, count, r->ranges);
	return submit(r, flags, true);
}

int weft_queue_copy(struct weft_queue *q, uint32_t nsid, uint64_t lba,
		    const struct weft_range *ranges, unsigned int count, unsigned int flags,
		    weft_done_fn *done, void *arg)
{
	struct nvme_copy_range v[WEFT_RANGES_MAX];
	struct request *r;
	int err = begin_ranges(q, ranges, count, done, arg, &r);

	if (err)
		return err;
	for (unsigned int i = 0; i < count; i++) {
		err = check_blocks(q, ranges[i].blocks);
		if (err)
			return drop(r, err);
		v[i] = (struct nvme_copy_range){.slba = ranges[i].lba,
						.nlb = (uint16_t)(ranges[i].blocks - 1)};
	}
	host_prepare_copy(&r->req, nsid, lba, v, count, rw_flags(flags), r->ranges);
	/* Where ranges lie in what is written, the second time is another. */
	return submit(r, flags, false);
}

/* --- any command ------------------------------------------------------------------------------ */

/* Which way data go; both: it cannot be told. */
static enum nvmf_dir dir_of(const struct nvme_sqe *sqe, unsigned int flags)
{
	enum nvmf_dir dir = nvmf_dir_of(sqe);

	if (dir != NVMF_DIR_NONE)
		return dir;
	switch (flags & (WEFT_TO_CTRL | WEFT_TO_HOST)) {
	case WEFT_TO_CTRL:
		return NVMF_DIR_TO_CTRL;
	case WEFT_TO_HOST:
		return NVMF_DIR_TO_HOST;
	case WEFT_TO_CTRL | WEFT_TO_HOST:
		return NVMF_DIR_BOTH;
	}
	return NVMF_DIR_NONE;
}

int weft_queue_submit(struct weft_queue *q, const struct weft_command *command,
		      const struct iovec *iov, int iovcnt, unsigned int flags, weft_done_fn *done,
		      void *arg)
{
	struct nvme_sqe sqe = {
		.opcode = command->opcode,
		.flags = command->fuse,
		.nsid = command->nsid,
		.cdw2 = command->cdw2,
		.cdw3 = command->cdw3,
		.cdw10 = command->cdw10,
		.cdw11 = command->cdw11,
		.cdw12 = command->cdw12,
		.cdw13 = command->cdw13,
		.cdw14 = command->cdw14,
		.cdw15 = command->cdw15,
	};
	enum nvmf_dir dir = dir_of(&sqe, flags);
	struct request *r;
	uint32_t len;
	int err;

	if (command->fuse > NVME_SQE_FUSE_MASK ||
	    (!q->qid && command->opcode == NVME_ADMIN_ASYNC_EVENT))
		return -EINVAL;
	err = begin(q, done, arg, &r);
	if (err)
		return err;
	err = take_pieces(r, iov, iovcnt, &len);
	if (!err && len && (dir == NVMF_DIR_NONE || dir == NVMF_DIR_BOTH))
		err = -EINVAL;
	if (err)
		return drop(r, err);
	r->req.sqe = sqe;
	r->req.dir = len ? dir : NVMF_DIR_NONE;
	r->req.data_len = len;
	return submit(r, flags, false);
}

struct waiting {
	struct weft_result result;
	bool done;
};

static void waited(void *arg, const struct weft_result *r)
{
	struct waiting *w = arg;

	w->result = *r;
	w->done = true;
}

int weft_queue_exec(struct weft_queue *q, const struct weft_command *command,
		    const struct iovec *iov, int iovcnt, unsigned int flags,
		    struct weft_result *ret)
{
	struct waiting w = {0};
	int err;

	if (q->ctrl->group->depth)
		return -EBUSY;
	err = weft_queue_submit(q, command, iov, iovcnt, flags, waited, &w);
	if (!err)
		err = group_wait_for(q->ctrl, &w.done);
	if (err)
		return err;
	if (ret)
		*ret = w.result;
	return w.result.error;
}
