/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <cmocka.h>

#include "base/time.h"
#include "far_target.h"
#include "heap_env.h"
#include "nvmf/auth/key.h"
#include "store/store.h"

enum { HELD_MAX = 256 };

static struct far {
	const struct nvmf_transport *kind;
	pthread_t thread;
	atomic_bool stop, up, hold;
	atomic_uint count;
	struct store store; /* keeps operations until told */
	struct store *below, *ro;
	struct store_op *held[HELD_MAX];
	uint8_t nguid;
	uint16_t entries;
	const char *key;
	atomic_uint authentications;
	char why[256];
} far;

static void slow_submit(struct store *s, struct store_op *op)
{
	(void)s;
	if (atomic_load(&far.hold) && far.count < HELD_MAX)
		far.held[far.count++] = op;
	else
		store_submit(far.below, op);
}

static const struct store_ops slow_ops = {.name = "slow", .submit = slow_submit};

static void let_go(void)
{
	while (far.count && !atomic_load(&far.hold)) {
		struct store_op *op = far.held[--far.count];

		store_submit(far.below, op);
	}
}

static bool turn(struct target *target, struct transport_target *t)
{
	uint64_t now_ns = time_now_ns();

	let_go();
	if (now_ns >= target_next_deadline(target))
		target_tick(target, now_ns);
	atomic_store(&far.authentications, target->counters->authentications);
	return t->ops->process(t, now_ns, true);
}

static void random_bytes(void *ctx, void *p, size_t len)
{
	(void)ctx;
	if (getrandom(p, len, 0) != (ssize_t)len)
		abort();
}

static void *run(void *arg)
{
	struct target_host whoever = {.hash = NVMF_AUTH_SHA256};
	const char *why;
	struct target target;
	struct target_subsys subsys = {.nqn = FAR_NQN};
	struct target_ns ns = {.nsid = 1, .store = &far.store, .lba_shift = 9};
	struct target_ns ro = {.nsid = 2, .store = far.ro, .lba_shift = 12, .read_only = true};
	struct transport_target *t;
	struct shares shares;
	struct pollfd p = {.events = POLLIN};

	(void)arg;
	memset(ns.nguid, far.nguid, sizeof(ns.nguid));
	target_init(&target, &heap_env, time_now_ns());
	target.env.random = random_bytes;
	if (far.key &&
	    (auth_key_parse(far.key, &whoever.key, &why) || target_host_add(&target, &whoever)))
		return strcpy(far.why, "no host");
	if (target_subsys_add(&target, &subsys) || target_ns_add(&subsys, &ns) ||
	    target_ns_add(&subsys, &ro) || shares_init(&shares, 8 << 20))
		return strcpy(far.why, "out of memory");
	if (far.kind->target_create(&target.group, &shares, NULL, &t, far.why, sizeof(far.why)) ||
	    t->ops->listen(t, "127.0.0.1", FAR_PORT, far.why, sizeof(far.why)))
		return far.why;
	list_for_each(port, &target.ports, struct target_port, link)
		port->entries_max = far.entries;
	p.fd = t->ops->fd(t);
	atomic_store(&far.up, true);
	while (!atomic_load(&far.stop))
		if (!turn(&target, t))
			poll(&p, 1, 1);
	t->ops->shutdown(t);
	while (!t->ops->idle(t) || far.count) {
		atomic_store(&far.hold, false);
		turn(&target, t);
	}
	t->ops->destroy(t);
	if (far.key)
		target_host_remove(&target, &whoever);
	shares_fini(&shares);
	target_fini(&target);
	return NULL;
}

void far_start(const struct nvmf_transport *kind)
{
	far.kind = kind;
	if (!far.below) {
		assert_int_equal(store_mem_create(FAR_BLOCKS * 512, 512, 0, &far.below), 0);
		assert_int_equal(store_mem_create(64 * 4096, 4096, 0, &far.ro), 0);
		far.store = *far.below;
		far.store.ops = &slow_ops;
	}
	atomic_store(&far.stop, false);
	atomic_store(&far.up, false);
	assert_int_equal(pthread_create(&far.thread, NULL, run, NULL), 0);
	for (uint64_t end = time_now_ns() + 10 * NSEC_PER_SEC;
	     !atomic_load(&far.up) && time_now_ns() < end;)
		poll(NULL, 0, 1);
	if (!atomic_load(&far.up))
		fail_msg("no target: %s", far.why);
}

void far_stop(void)
{
	void *why;

	atomic_store(&far.stop, true);
	assert_int_equal(pthread_join(far.thread, &why), 0);
	assert_null(why);
}

void far_hold(bool hold)
{
	atomic_store(&far.hold, hold);
}

void far_nguid(uint8_t nguid)
{
	far.nguid = nguid;
}

void far_entries(uint16_t entries)
{
	far.entries = entries;
}

void far_key(const char *text)
{
	far.key = text;
}

unsigned int far_authentications(void)
{
	return atomic_load(&far.authentications);
}

unsigned int far_held(void)
{
	return atomic_load(&far.count);
}

void far_end(void)
{
	store_destroy(far.below);
	store_destroy(far.ro);
	far.below = far.ro = NULL;
}
