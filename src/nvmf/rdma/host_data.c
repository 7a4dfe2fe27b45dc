/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where a command's data lie for the controller, and for the device.
 *
 * A descriptor names one range under one key. So what goes out as it lies is what is contiguous in
 * memory that was made known, or, within a capsule, a few pieces of it, which the device gathers.
 * All else is copied: into a block of a pool that is made and made known when it is first needed,
 * or, where a command carries more than its largest block, into memory for this command alone. A
 * command that finds the pool empty waits: its queue is starved until blocks come back.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/errno_text.h"
#include "nvmf/rdma/host.h"

/* --- memory that is made known -----------------------------------------------------------------
 */

int rdma_host_register(struct rdma_host *r, struct region *g)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	int err;

	access |=
		r->windows ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	g->mr = ibv_reg_mr(r->pd, g->addr, g->len, access);
	if (g->mr)
		return 0;
	err = -errno;
	rdma_host_say(r, "cannot register %zu bytes of memory with %s: %s%s", g->len,
		      r->verbs->device->name, strerror(-err),
		      err == -ENOMEM ? " (ulimit -l?)" : "");
	return err;
}

int rdma_host_add_memory(struct rdma_host *r, void *addr, size_t len)
{
	struct region *g;
	int err = 0;

	if (r->region_count == r->region_room) {
		unsigned int room = r->region_room ? r->region_room * 2 : 8;

		g = reallocarray(r->regions, room, sizeof(*g));
		if (!g) {
			rdma_host_say(r, "out of memory");
			return -ENOMEM;
		}
		r->regions = g;
		r->region_room = room;
	}
	g = &r->regions[r->region_count];
	*g = (struct region){.addr = addr, .len = len};
	if (r->pd)
		err = rdma_host_register(r, g);
	r->region_count += err == 0;
	return err;
}

static bool within(const struct region *g, const void *addr, size_t len)
{
	const uint8_t *p = addr;

	return p >= g->addr && len <= g->len && (size_t)(p - g->addr) <= g->len - len;
}

static struct region *region_of(struct rdma_host *r, const void *addr, size_t len)
{
	if (r->region_last < r->region_count && within(&r->regions[r->region_last], addr, len))
		return &r->regions[r->region_last];
	for (unsigned int i = 0; i < r->region_count; i++)
		if (within(&r->regions[i], addr, len)) {
			r->region_last = i;
			return &r->regions[i];
		}
	return NULL;
}

int rdma_host_remove_memory(struct rdma_host *r, void *addr)
{
	for (unsigned int i = 0; i < r->region_count; i++) {
		struct region *g = &r->regions[i];
		int err = 0;

		if (g->addr != addr)
			continue;
		if (g->mr)
			err = -ibv_dereg_mr(g->mr);
		if (!err)
			*g = r->regions[--r->region_count];
		return err;
	}
	return -ENOENT;
}

/* --- memory to copy into -----------------------------------------------------------------------
 */

static int pool_init(struct rdma_host *r)
{
	int err = data_pool_init(&r->pool, r->config.bounce_bytes);

	if (err) {
		rdma_host_say(r, "cannot get %zu bytes for memory that is not registered",
			      r->config.bounce_bytes);
		return err;
	}
	err = rdma_host_add_memory(r, r->pool.base, r->pool.len);
	if (err)
		data_pool_fini(&r->pool);
	return err;
}

/* -EAGAIN: there is none now; others: there is none, and why is said. */
static int bounce_get(struct rdma_host *r, struct rdma_host_command *cmd, uint32_t len)
{
	int err;

	if (len > DATA_POOL_BLOCK_MAX) {
		void *p =
			mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED) {
			rdma_host_say(r, "cannot get %u bytes of memory", len);
			return -ENOMEM;
		}
		err = rdma_host_add_memory(r, p, len);
		if (err) {
			munmap(p, len);
			return err;
		}
		cmd->bounce = p;
	} else {
		err = r->pool.len ? 0 : pool_init(r);
		if (err)
			return err;
		cmd->bounce = data_pool_get(&r->pool, len);
		if (!cmd->bounce)
			return -EAGAIN;
	}
	cmd->bounce_len = len;
	return 0;
}

static void bounce_put(struct rdma_host *r, struct rdma_host_command *cmd)
{
	void *p = cmd->bounce;

	cmd->bounce = NULL;
	if (cmd->bounce_len <= DATA_POOL_BLOCK_MAX) {
		data_pool_put(&r->pool, p);
		r->bounce_freed = true;
		return;
	}
	/* What the device does not let go of stays for good. */
	if (rdma_host_remove_memory(r, p) == 0)
		munmap(p, cmd->bounce_len);
}

/* --- a command's -------------------------------------------------------------------------------
 */

/* As it lies: the pieces in sge, of which more than one goes within a capsule alone. */
static unsigned int as_it_lies(struct rdma_host *r, const struct host_request *req,
			       unsigned int room, struct ibv_sge *sge, struct region **ret)
{
	struct iovec one;
	struct pieces p = host_request_data(req, 0, &one);
	unsigned int n = 0;

	for (size_t left = req->data_len; left;) {
		struct iovec v = pieces_take(&p, left);
		struct ibv_sge *last = n ? &sge[n - 1] : NULL;

		left -= v.iov_len;
		/* What continues the piece before it is one with it, if its region goes on, too. */
		if (last && last->addr + last->length == (uintptr_t)v.iov_base &&
		    within(*ret, (void *)(uintptr_t)last->addr, last->length + v.iov_len)) {
			last->length += (uint32_t)v.iov_len;
			continue;
		}
		*ret = region_of(r, v.iov_base, v.iov_len);
		if (!*ret || n == room)
			return 0;
		sge[n++] = (struct ibv_sge){(uintptr_t)v.iov_base, (uint32_t)v.iov_len,
					    (*ret)->mr->lkey};
	}
	return n;
}

int rdma_host_data_place(struct rdma_host_queue *q, struct rdma_host_command *cmd,
			 const struct host_request *req, bool in_capsule, struct ibv_sge *sge,
			 struct region **ret)
{
	struct rdma_host *r = q->r;
	unsigned int n = as_it_lies(r, req, in_capsule ? q->gather_max : 1, sge, ret);
	struct iovec one;
	int err;

	if (n)
		return (int)n;
	err = bounce_get(r, cmd, req->data_len);
	if (err)
		return err;
	if (req->dir == NVMF_DIR_TO_CTRL)
		pieces_read(host_request_data(req, 0, &one), cmd->bounce, req->data_len);
	*ret = region_of(r, cmd->bounce, req->data_len);
	sge[0] = (struct ibv_sge){(uintptr_t)cmd->bounce, req->data_len, (*ret)->mr->lkey};
	return 1;
}

void rdma_host_data_release(struct rdma_host_queue *q, struct rdma_host_command *cmd,
			    const struct host_request *req)
{
	struct iovec one;

	if (!cmd->bounce)
		return;
	if (req->dir == NVMF_DIR_TO_HOST && !(req->cqe.status & NVME_STATUS_CODE))
		pieces_write(host_request_data(req, 0, &one), cmd->bounce, req->data_len);
	bounce_put(q->r, cmd);
}

void rdma_host_data_drop(struct rdma_host_queue *q)
{
	for (uint32_t i = 0; q->commands && i < q->entries; i++)
		if (q->commands[i].bounce) {
			q->commands[i].req = NULL;
			bounce_put(q->r, &q->commands[i]);
		}
}

void rdma_host_data_fini(struct rdma_host *r)
{
	data_pool_fini(&r->pool);
	free(r->regions);
}
