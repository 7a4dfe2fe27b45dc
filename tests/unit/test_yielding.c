/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* When one who polls lets others go first: time is a number here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/units.h"
#include "verbs/yielding.h"

#define US NSEC_PER_USEC
#define MS NSEC_PER_MSEC

/* One who polls, every microsecond; what a yield takes, and what it waits for. */
struct poller {
	struct yielding y;
	uint64_t now, yield_ns;
	unsigned int yields;
};

static unsigned long switched;

static unsigned long switches(void)
{
	return switched;
}

static struct poller new_poller(uint64_t yield_ns)
{
	return (struct poller){.now = NSEC_PER_SEC, .yield_ns = yield_ns};
}

static void poll_in_vain(struct poller *p)
{
	if (yielding_asks(&p->y) && yielding_due(&p->y, p->now, switches)) {
		yielding_done(&p->y, p->now, p->now + p->yield_ns);
		p->now += p->yield_ns;
		p->yields++;
	}
	p->now += US;
	p->y.vain++;
}

static void find(struct poller *p)
{
	if (p->y.looks_since)
		yielding_found(&p->y, p->now, switches);
	p->y.vain = 0;
}

/* Until it has yielded. Returns how long it looked before. */
static uint64_t poll_until_yield(struct poller *p)
{
	const uint64_t from = p->now;

	for (unsigned int before = p->yields; p->yields == before;)
		poll_in_vain(p);
	return p->now - from - p->yield_ns;
}

static void one_who_polls_in_vain_lets_others_go_first(void **state)
{
	struct poller p = new_poller(US);

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_true(poll_until_yield(&p) <= 20 * US);
}

/* Where nobody wants the processor it looks for longer. */
static void one_who_is_alone_does_so_less_often(void **state)
{
	struct poller p = new_poller(US / 3);

	(void)state;
	poll_until_yield(&p);
	for (int i = 0; i < 100; i++) {
		uint64_t looked = poll_until_yield(&p);

		assert_true(looked >= 10 * US && looked <= 40 * US);
	}
	/* And as often as before when somebody does. */
	p.yield_ns = 3 * US;
	poll_until_yield(&p);
	for (int i = 0; i < 100; i++)
		assert_true(poll_until_yield(&p) <= 20 * US);
}

static void a_peer_on_the_same_processor_has_it_as_soon_as_before(void **state)
{
	struct poller p = new_poller(300 * US);

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_true(poll_until_yield(&p) <= 20 * US);
		find(&p);
	}
}

static void nor_does_it_wait_long_where_others_want_it_too(void **state)
{
	struct poller p = new_poller(6 * MS);

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_true(poll_until_yield(&p) <= 150 * US);
		find(&p);
	}
}

static void who_is_answered_from_elsewhere_keeps_its_share(void **state)
{
	struct poller p = new_poller(6 * MS);
	uint64_t end;

	(void)state;
	poll_until_yield(&p);
	end = p.now + NSEC_PER_SEC;
	while (p.now < end) {
		for (int i = 0; i < 40; i++)
			poll_in_vain(&p);
		find(&p);
	}
	assert_int_equal(p.yields, 1);
}

static void what_came_while_it_did_not_run_may_be_a_peers_on_its_own_processor(void **state)
{
	struct poller p = new_poller(6 * MS);

	(void)state;
	for (int i = 0; i < 100; i++) {
		poll_until_yield(&p);
		find(&p);
		for (int k = 0; k < 40; k++)
			poll_in_vain(&p);
		p.now += 20 * US;
		switched++;
		find(&p);
		assert_true(poll_until_yield(&p) <= 20 * US);
	}
}

static void what_was_there_before_it_looked_proves_nothing(void **state)
{
	struct poller p = new_poller(6 * MS);

	(void)state;
	for (int i = 0; i < 100; i++) {
		poll_until_yield(&p);
		while (!p.y.looks_since)
			poll_in_vain(&p);
		p.y.vain = 0; /* the poll that it began to look by has found something */
		find(&p);
		assert_true(poll_until_yield(&p) <= 20 * US);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_who_polls_in_vain_lets_others_go_first),
		cmocka_unit_test(one_who_is_alone_does_so_less_often),
		cmocka_unit_test(a_peer_on_the_same_processor_has_it_as_soon_as_before),
		cmocka_unit_test(nor_does_it_wait_long_where_others_want_it_too),
		cmocka_unit_test(who_is_answered_from_elsewhere_keeps_its_share),
		cmocka_unit_test(
			what_came_while_it_did_not_run_may_be_a_peers_on_its_own_processor),
		cmocka_unit_test(what_was_there_before_it_looked_proves_nothing),
	};

	return cmocka_run_group_tests_name("yielding", tests, NULL, NULL);
}
