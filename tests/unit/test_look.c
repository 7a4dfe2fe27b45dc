/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who is going to attend looks before it sleeps: at the descriptor, and at what it does not tell
 * of. The port is ours: nothing comes by it but what a test says. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "engine/shard_priv.h"

#define LIMIT_S 20

struct quiet_port {
	struct port port; /* first */
	struct port_counters counters;
	bool stirs;
};

static int quiet_rx(struct port *p, uint64_t now, port_take *take, void *ctx)
{
	(void)p;
	(void)now;
	(void)take;
	(void)ctx;
	return 0;
}

static size_t quiet_tx(struct port *p, const struct packet_tx *pkts, size_t n,
		       struct packet_sent *ret_sent)
{
	(void)p;
	(void)pkts;
	(void)ret_sent;
	return n;
}

static bool quiet_stirs(const struct port *p)
{
	return ((const struct quiet_port *)p)->stirs;
}

static void quiet_destroy(struct port *p)
{
	(void)p;
}

static const struct port_ops quiet_ops = {
	.rx = quiet_rx, .tx = quiet_tx, .stirs = quiet_stirs, .destroy = quiet_destroy};

struct fixture {
	struct quiet_port port;
	struct shard *shard;
};

static int setup(void **state)
{
	static const struct shard_upcalls none;
	struct fixture *f = calloc(1, sizeof(*f));
	struct port *p = &f->port.port;

	f->port.port = (struct port){.ops = &quiet_ops,
				     .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
				     .counters = &f->port.counters};
	assert_true(p->fd >= 0);
	assert_int_equal(shard_create(&f->shard, &p, 1, 1, &none), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	shard_destroy(f->shard);
	close(f->port.port.fd);
	free(f);
	return 0;
}

enum looked { NOT, IN_VAIN, FOUND };

/* It has attended a moment ago, as who looks has, and its sleeps were short. */
static enum looked looks_once(struct shard *s, unsigned short_sleeps)
{
	uint64_t ticket;
	enum looked l;
	bool come;

	shard_lock(s);
	(void)!shard_attend(s, true, NULL, &come, &ticket);
	shard_attended(s, ticket, false);
	s->moment = (struct moment){.short_sleeps = short_sleeps, .enough = 8, .credit = 4};
	shard_unlock(s);
	shard_look(s);
	shard_lock(s);
	l = s->moment.finds ? FOUND : s->moment.credit < 4 ? IN_VAIN : NOT;
	shard_unlock(s);
	return l;
}

/* On a busy machine the lease that it left may be over by then: then once more. */
static enum looked looks(struct shard *s)
{
	const uint64_t until = time_now_ns() + LIMIT_S * NSEC_PER_SEC;
	enum looked l = NOT;

	while (l == NOT && time_now_ns() < until)
		l = looks_once(s, 8);
	return l;
}

static void finds_what_comes_by_memory(void **state)
{
	struct fixture *f = *state;

	f->port.stirs = true;
	assert_int_equal(looks(f->shard), FOUND);
}

static void finds_what_comes_by_the_descriptor(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(eventfd_write(f->port.port.fd, 1), 0);
	assert_int_equal(looks(f->shard), FOUND);
}

static void goes_to_sleep_where_nothing_comes(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(looks(f->shard), IN_VAIN);
}

static void does_not_look_where_sleeps_are_long(void **state)
{
	struct fixture *f = *state;

	f->port.stirs = true;
	for (int i = 0; i < 10; i++)
		assert_int_equal(looks_once(f->shard, 7), NOT);
}

static void does_not_look_where_another_sleeps_on_it(void **state)
{
	struct fixture *f = *state;
	struct shard *s = f->shard;
	uint64_t ticket;
	bool come;

	f->port.stirs = true;
	assert_int_equal(looks(s), FOUND); /* so it would be found */
	shard_lock(s);
	assert_true(shard_attend(s, true, NULL, &come, &ticket) >= 0);
	s->moment = (struct moment){.short_sleeps = 8, .enough = 8, .credit = 4};
	shard_unlock(s);
	shard_look(s);
	shard_lock(s);
	assert_int_equal(s->moment.credit, 4);
	assert_false(s->moment.finds);
	shard_attended(s, ticket, false);
	shard_unlock(s);
}

/* The thread has it. */
static void does_not_look_where_nobody_attended(void **state)
{
	struct fixture *f = *state;
	struct shard *s = f->shard;

	shard_lock(s);
	s->moment = (struct moment){.short_sleeps = 8, .enough = 8, .credit = 4};
	shard_unlock(s);
	shard_look(s);
	shard_lock(s);
	assert_int_equal(s->moment.credit, 4);
	shard_unlock(s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(finds_what_comes_by_memory),
		T(finds_what_comes_by_the_descriptor),
		T(goes_to_sleep_where_nothing_comes),
		T(does_not_look_where_sleeps_are_long),
		T(does_not_look_where_another_sleeps_on_it),
		T(does_not_look_where_nobody_attended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
