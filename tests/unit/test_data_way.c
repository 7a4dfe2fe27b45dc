/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which way the data of writes go, by what each way takes: time is a number here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/units.h"
#include "nvmf/rdma/data_way.h"

/* A host that sends a write whenever one is done, so many under way. */
struct load {
	struct data_way way;
	unsigned int under_way;
	uint64_t now, capsule_ns, fetched_ns; /* what a write takes of the one kind and the other */
	unsigned int kept_from, kept;	      /* from its processor, with every so-manyth write */
	unsigned int writes, fetched;
};

static void write_for(struct load *l, uint64_t ns)
{
	l->writes = l->fetched = 0;
	for (uint64_t end = l->now + ns; l->now < end; l->writes++) {
		bool fetched = data_way_fetches(&l->way, l->under_way - 1, l->now);

		l->fetched += fetched;
		l->now += fetched ? l->fetched_ns : l->capsule_ns;
		if (l->kept_from && ++l->kept % l->kept_from == 0)
			l->now += 4 * NSEC_PER_MSEC;
	}
}

static struct load new_load(unsigned int under_way, uint64_t capsule_ns, uint64_t fetched_ns)
{
	return (struct load){.under_way = under_way,
			     .now = NSEC_PER_SEC,
			     .capsule_ns = capsule_ns,
			     .fetched_ns = fetched_ns};
}

static void the_data_of_few_writes_go_in_the_capsule(void **state)
{
	struct load l = new_load(DATA_WAY_DEEP, 10000, 1000);

	(void)state;
	write_for(&l, 5 * NSEC_PER_SEC);
	assert_int_equal(l.fetched, 0);
}

static void where_fetching_is_faster_it_is_done(void **state)
{
	static const unsigned int depths[] = {DATA_WAY_DEEP + 1, 32, 128, 1024};

	(void)state;
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		struct load l = new_load(depths[i], 8000, 4000);

		write_for(&l, NSEC_PER_SEC);
		write_for(&l, 4 * NSEC_PER_SEC);
		assert_true(l.fetched > l.writes / 100 * 90);
	}
}

static void where_it_is_slower_or_no_better_hardly_ever(void **state)
{
	(void)state;
	for (uint64_t fetched_ns = 1950; fetched_ns <= 8000; fetched_ns *= 2) {
		struct load l = new_load(32, 2000, fetched_ns);

		write_for(&l, NSEC_PER_SEC);
		assert_true(l.fetched < l.writes / 100 * 2);
		write_for(&l, 10 * NSEC_PER_SEC);
		assert_true(l.fetched < l.writes / 200);
	}
}

static void who_is_kept_from_its_processor_now_and_then_finds_out_nevertheless(void **state)
{
	struct load better = new_load(32, 8000, 4000), worse = new_load(32, 2000, 4000);

	(void)state;
	better.kept_from = worse.kept_from = 601;
	write_for(&better, NSEC_PER_SEC);
	write_for(&better, 4 * NSEC_PER_SEC);
	assert_true(better.fetched > better.writes / 10 * 9);
	write_for(&worse, NSEC_PER_SEC);
	write_for(&worse, 4 * NSEC_PER_SEC);
	assert_true(worse.fetched < worse.writes / 10);
}

static void what_changes_is_found_out_within_seconds(void **state)
{
	struct load l = new_load(32, 8000, 4000);

	(void)state;
	write_for(&l, 60 * NSEC_PER_SEC);
	assert_true(l.way.fetched);
	l.fetched_ns = 20000;
	write_for(&l, 3 * NSEC_PER_SEC);
	assert_false(l.way.fetched);
	l.fetched_ns = 4000;
	write_for(&l, 3 * NSEC_PER_SEC);
	assert_true(l.way.fetched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_data_of_few_writes_go_in_the_capsule),
		cmocka_unit_test(where_fetching_is_faster_it_is_done),
		cmocka_unit_test(where_it_is_slower_or_no_better_hardly_ever),
		cmocka_unit_test(
			who_is_kept_from_its_processor_now_and_then_finds_out_nevertheless),
		cmocka_unit_test(what_changes_is_found_out_within_seconds),
	};

	return cmocka_run_group_tests_name("data_way", tests, NULL, NULL);
}
