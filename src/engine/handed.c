/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "engine/shard_priv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/uncancelled.h"
#include "engine/failure.h"
#include "engine/pages.h"

static void *core_alloc(void *ctx, size_t bytes)
{
	(void)ctx;
	return calloc(1, bytes);
}

static void core_free(void *ctx, void *p)
{
	(void)ctx;
	free(p);
}

static uint32_t core_random(void *ctx)
{
	struct shard *s = ctx;
	uint32_t v;

	if (s->random_left < sizeof(v)) {
		int before = uncancelled_begin();
		ssize_t got = getrandom(s->random, sizeof(s->random), 0);

		uncancelled_end(before);
		/* Up to 256 bytes never come short once the kernel's pool is ready. */
		assert(got == sizeof(s->random));
		s->random_left = sizeof(s->random);
	}
	s->random_left -= sizeof(v);
	memcpy(&v, s->random + s->random_left, sizeof(v));
	return v;
}

static void core_cq_notify(void *ctx, void *cq_user)
{
	struct shard *s = ctx;

	s->up.cq_notify(cq_user);
}

static void core_async_event(void *ctx, enum rnic_event event, void *object_user)
{
	struct shard *s = ctx;

	s->up.async_event(event, object_user);
}

static void core_mtu_suspected(void *ctx, uint32_t qpn, uint32_t mtu)
{
	(void)ctx;
	log_warn("engine",
		 "queue pair 0x%06x: retries ran out, and no packet of %u bytes, the path MTU, was "
		 "ever acknowledged, but shorter ones were: the peer or the way to it takes less",
		 qpn, mtu);
}

static void core_qp_failed(void *ctx, const struct rnic_failure *f)
{
	(void)ctx;
	if (log_enabled(LOG_LEVEL_INFO))
		failure_log(f);
}

static void core_trace(void *ctx, int event, uint32_t qpn, uint64_t a, uint64_t b)
{
	struct shard *s = ctx;

	shard_sight_trace(&s->sight, event, qpn, a, b);
}

static bool core_page_in(void *ctx, void *p, size_t len, bool write)
{
	(void)ctx;
	return !pages_populate(p, len, write);
}

const struct rnic_ops shard_core_ops = {
	.alloc = core_alloc,
	.free = core_free,
	.random = core_random,
	.cq_notify = core_cq_notify,
	.async_event = core_async_event,
	.page_in = core_page_in,
	.mtu_suspected = core_mtu_suspected,
	.qp_failed = core_qp_failed,
	.trace = core_trace,
};
