/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/traffic/nvme_disk.h"

#include <string.h>

#include "base/bytes.h"

#define BLOCK_BYTES 512

static struct nvme_disk *disk_of(struct store *s)
{
	return container_of(s, struct nvme_disk, store);
}

/* When it is done stands in `progress`, which is the store's own. */
static void disk_submit(struct store *s, struct store_op *op)
{
	struct nvme_disk *d = disk_of(s);

	op->progress = fabric_now(d->fabric) + d->time_ns;
	list_push_tail(&d->under_way, &op->link);
	if (!happening_is_due(&d->due))
		fabric_put(d->fabric, &d->due, op->progress);
}

static void finish(struct store_op *op)
{
	for (uint32_t i = 0; op->opcode == STORE_READ && i < op->iov_count; i++)
		memset(op->iov[i].iov_base, 0, op->iov[i].iov_len);
	op->done(op, 0);
}

static void due(struct happening *h)
{
	struct nvme_disk *d = container_of(h, struct nvme_disk, due);
	uint64_t now = fabric_now(d->fabric);

	while (!list_empty(&d->under_way)) {
		struct store_op *op = list_entry(d->under_way.next, struct store_op, link);

		if (op->progress > now) {
			fabric_put(d->fabric, &d->due, op->progress);
			break;
		}
		list_remove(&op->link);
		finish(op);
	}
	d->moved(d->ctx);
}

static void disk_destroy(struct store *s)
{
	(void)s; /* a part of the disk */
}

static const struct store_ops disk_ops = {
	.name = "simulated",
	.submit = disk_submit,
	.destroy = disk_destroy,
};

void nvme_disk_init(struct nvme_disk *d, struct fabric *f, uint64_t bytes, uint64_t time_ns,
		    void (*moved)(void *ctx), void *ctx)
{
	*d = (struct nvme_disk){
		.store = {.ops = &disk_ops, .size = bytes, .block_size = BLOCK_BYTES},
		.fabric = f,
		.time_ns = time_ns,
		.moved = moved,
		.ctx = ctx,
	};
	list_init(&d->under_way);
	happening_init(&d->due, due);
}

void nvme_disk_fini(struct nvme_disk *d)
{
	while (!list_empty(&d->under_way)) /* which may begin others */
		finish(list_entry(list_pop_head(&d->under_way), struct store_op, link));
	happening_cancel(&d->due);
}
