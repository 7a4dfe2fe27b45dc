/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "fabric/net/management.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/errno_text.h"
#include "base/heap.h" /* DEADLINE_NEVER */
#include "fabric/memory.h"

/* A subnet that is not up after that never will be. */
#define SWEEP_MOST_NS (3600 * NSEC_PER_SEC)

struct management {
	struct ibnode *node;
	struct subnet_manager *manager;
	void (*swept)(void *ctx);
	void *ctx;
	uint64_t took_ns;
	int rc;
	char why[160];
	uint64_t failed; /* sweeps */
	/* What its own node answers at once: it hears that when it has said all that it had to. */
	struct frame_queue own;
	struct happening hears, ticks;
};

static uint64_t now_of(const struct management *m)
{
	return fabric_now(m->node->fabric);
}

static void await_tick(struct management *m)
{
	uint64_t due = subnet_next_deadline(m->manager);

	if (due == DEADLINE_NEVER)
		happening_cancel(&m->ticks);
	else if (!happening_is_due(&m->ticks) || m->ticks.at_ns != due)
		fabric_put(m->node->fabric, &m->ticks, max_of(due, now_of(m)));
}

static void ticks(struct happening *h)
{
	struct management *m = container_of(h, struct management, ticks);

	subnet_tick(m->manager, now_of(m));
	await_tick(m);
}

static void to_manager(void *ctx, const uint8_t mad[MAD_LEN])
{
	struct management *m = ctx;
	struct frame *f = frame_alloc(m->node->pool);

	frame_of_management(f, mad);
	frame_queue_push(&m->own, f);
	if (!happening_is_due(&m->hears))
		fabric_put(m->node->fabric, &m->hears, now_of(m));
}

static void hears(struct happening *h)
{
	struct management *m = container_of(h, struct management, hears);
	struct frame *f;

	while ((f = frame_queue_pop(&m->own))) {
		subnet_rx(m->manager, f->mad, now_of(m));
		frame_free(m->node->pool, f);
	}
	await_tick(m);
}

static void manager_send(void *ctx, const uint8_t mad[MAD_LEN])
{
	struct management *m = ctx;

	ibnode_manage(m->node, mad);
}

static void manager_swept(void *ctx, int rc, const char *why)
{
	struct management *m = ctx;

	m->rc = rc;
	m->failed += rc != 0;
	snprintf(m->why, sizeof(m->why), "%s", why ? why : "");
	if (m->swept)
		m->swept(m->ctx);
}

static const struct subnet_ops subnet_ops = {
	.alloc = fabric_alloc,
	.free = fabric_free,
	.send = manager_send,
	.swept = manager_swept,
};

int management_create(struct management **ret, struct ibnode *n, const struct subnet_config *c,
		      void (*swept)(void *ctx), void *ctx)
{
	struct management *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->node = n;
	m->swept = swept;
	m->ctx = ctx;
	happening_init(&m->hears, hears);
	happening_init(&m->ticks, ticks);
	if (subnet_create(&m->manager, c, &subnet_ops, m)) {
		free(m);
		return -ENOMEM;
	}
	n->to_manager = to_manager;
	n->manager = m;
	*ret = m;
	return 0;
}

void management_destroy(struct management *m)
{
	struct frame *f;

	happening_cancel(&m->hears);
	happening_cancel(&m->ticks);
	while ((f = frame_queue_pop(&m->own)))
		frame_free(m->node->pool, f);
	m->node->to_manager = NULL;
	subnet_destroy(m->manager);
	free(m);
}

int management_sweep(struct management *m, char *err, size_t err_len)
{
	uint64_t began = now_of(m);

	subnet_sweep(m->manager, began);
	await_tick(m);
	while (subnet_is_sweeping(m->manager) &&
	       fabric_step(m->node->fabric, began + SWEEP_MOST_NS))
		;
	m->took_ns = now_of(m) - began;
	if (subnet_is_sweeping(m->manager))
		m->rc = -ETIMEDOUT;
	if (m->rc)
		snprintf(err, err_len, "the subnet does not come up: %s",
			 *m->why ? m->why : errno_text(-m->rc));
	return m->rc;
}

const struct subnet_counters *management_counters(const struct management *m)
{
	return subnet_counters(m->manager);
}

uint64_t management_failed(const struct management *m)
{
	return m->failed;
}

uint64_t management_took_ns(const struct management *m)
{
	return m->took_ns;
}
