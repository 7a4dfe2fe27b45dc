/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who receives, by the rules alone: time is a number here. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/heap.h" /* DEADLINE_NEVER */
#include "base/units.h"
#include "engine/lease.h"

#define US 1000ull
#define MS NSEC_PER_MSEC

#define POLL_NS (1 * US) /* between two calls of one who polls */

static const uint64_t start = 1000 * MS;

/* One polls without a pause for so long; returns when it stopped. */
static uint64_t poll_for(struct lease *l, uint64_t now, uint64_t ns)
{
	for (uint64_t end = now + ns; now < end; now += POLL_NS)
		lease_polls(l, now);
	return now;
}

/* As the thread does when nobody else receives. */
static void thread_takes_over(struct lease *l, uint64_t now)
{
	assert_int_equal(lease_others(l, false, DEADLINE_NEVER, now), 0);
	lease_thread_begins(l, now);
	lease_thread_received(l, 1, now);
}

static struct lease new_lease(void)
{
	struct lease l;

	lease_init(&l);
	return l;
}

static void who_polls_without_a_pause_gets_a_lease(void **state)
{
	struct lease l = new_lease();
	uint64_t now = poll_for(&l, start, 19 * US);

	(void)state;
	assert_false(lease_is_live(&l, now));
	now = poll_for(&l, now, 5 * US);
	assert_true(lease_is_live(&l, now));
	/* The thread looks when it ends, which is soon after the last call. */
	assert_int_equal(lease_others(&l, false, now, now), now - POLL_NS + 500 * US);
	assert_int_equal(lease_others(&l, false, now, now + 600 * US), 0);
}

static void who_looks_now_and_then_gets_none(void **state)
{
	struct lease l = new_lease();

	(void)state;
	for (uint64_t now = start; now < start + 100 * MS; now += 250 * US) {
		lease_polls(&l, now);
		assert_false(lease_is_live(&l, now));
	}
}

/* One that sends in bulk polls seldom, and is at work meanwhile. */
static void posts_between_two_polls_are_no_pause(void **state)
{
	struct lease l = new_lease();
	uint64_t now = start;

	(void)state;
	lease_polls(&l, now);
	for (int i = 0; i < 10; i++)
		lease_posts(&l, now += 100 * US);
	assert_false(lease_is_live(&l, now)); /* it has not polled again */
	lease_polls(&l, now += 100 * US);
	assert_true(lease_is_live(&l, now));
	/* Posts alone make no poller. */
	l = new_lease();
	for (int i = 0; i < 10; i++)
		lease_posts(&l, now += 100 * US);
	lease_polls(&l, now += 100 * US);
	assert_false(lease_is_live(&l, now));
}

/* A window full of long packets takes longer than what counts as a pause. */
static void what_its_own_sending_takes_is_no_pause_of_a_poller(void **state)
{
	struct lease l = new_lease();
	uint64_t now = poll_for(&l, start, 30 * US);

	(void)state;
	for (int i = 0; i < 20; i++) {
		lease_polls(&l, now);
		assert_true(lease_is_live(&l, now));
		lease_sent(&l, now);
		lease_worked(&l, now, now + 300 * US);
		now += 300 * US;
	}
	/* However long it was: the caller has only now the chance to call again. */
	lease_worked(&l, now, now + 2 * MS);
	now += 2 * MS;
	assert_true(lease_is_live(&l, now + 499 * US));
	assert_false(lease_is_live(&l, now + 500 * US));
	/* But it makes no poller of one that only posts, and gives back no lease that ended. */
	l = new_lease();
	for (int i = 0; i < 20; i++) {
		lease_posts(&l, now);
		lease_worked(&l, now, now + 300 * US);
		now += 300 * US;
	}
	assert_false(lease_is_live(&l, now));
	now = poll_for(&l, now, 30 * US);
	(void)lease_end(&l);
	lease_worked(&l, now, now + 10 * US);
	assert_false(lease_is_live(&l, now + 10 * US));
	/* One that polled long ago, and comes back to send and to poll once, does not yet either.
	 */
	l = new_lease();
	lease_polls(&l, now);
	now += 10 * MS;
	lease_posts(&l, now);
	lease_worked(&l, now, now + 5 * US);
	lease_polls(&l, now += 10 * US);
	assert_false(lease_is_live(&l, now));
}

static void who_goes_to_sleep_ends_the_lease(void **state)
{
	struct lease l = new_lease();
	uint64_t now = poll_for(&l, start, 100 * US);

	(void)state;
	assert_true(lease_end(&l));
	assert_false(lease_is_live(&l, now));
	assert_false(lease_end(&l));
	/* And begins anew. */
	lease_polls(&l, now);
	assert_false(lease_is_live(&l, now));
}

/* Polls until it has a lease, loses it, and posts so long after. Returns how long it polled. */
static uint64_t spin_and_lose(struct lease *l, uint64_t *now, uint64_t back)
{
	uint64_t since = *now += 10 * MS;

	while (!lease_is_live(l, *now))
		lease_polls(l, *now += POLL_NS);
	since = *now - since;
	*now += 600 * US;
	thread_takes_over(l, *now);
	lease_posts(l, *now += back);
	return since;
}

static void who_waited_for_memory_must_poll_twice_as_long_the_next_time(void **state)
{
	struct lease l = new_lease();
	uint64_t now = start, first = spin_and_lose(&l, &now, 10 * US), second, later;

	(void)state;
	second = spin_and_lose(&l, &now, 10 * US);
	assert_in_range(second, 2 * first - 5 * US, 2 * first + 5 * US);
	for (int i = 0; i < 20; i++)
		later = spin_and_lose(&l, &now, 10 * US);
	assert_in_range(later, 20 * MS, 20 * MS + 5 * US); /* never more */
	/* Until it keeps one. */
	now = poll_for(&l, now, 30 * MS);
	lease_thread_begins(&l, now + 1 * MS);
	now += 10 * MS;
	assert_in_range(spin_and_lose(&l, &now, 10 * US), first - 5 * US, first + 5 * US);
}

static void who_comes_back_late_or_to_poll_is_not_punished(void **state)
{
	struct lease l = new_lease();
	uint64_t now = start, first = spin_and_lose(&l, &now, 200 * US);

	(void)state;
	assert_int_equal(spin_and_lose(&l, &now, 200 * US), first);
	poll_for(&l, now += 10 * MS, 100 * US);
	thread_takes_over(&l, now += 1 * MS);
	lease_polled(&l);
	lease_posts(&l, now + 10 * US);
	assert_int_equal(spin_and_lose(&l, &now, 200 * US), first);
}

static void what_is_posted_waits_only_under_a_lease(void **state)
{
	struct lease l = new_lease();
	uint64_t now = start;

	(void)state;
	assert_false(lease_holds(&l, now));
	now = poll_for(&l, now, 100 * US);
	assert_true(lease_holds(&l, now));
	assert_true(lease_holds(&l, now + 10 * US));
	assert_false(lease_holds(&l, now + 600 * US));
}

static void posts_for(struct lease *l, unsigned int n, uint64_t now)
{
	while (n--)
		lease_posts(l, now);
	lease_polls(l, now);
}

static void who_posted_many_between_two_polls_is_expected_to_do_so_again(void **state)
{
	struct lease l = new_lease();

	(void)state;
	posts_for(&l, 1, start);
	assert_false(lease_in_bulk(&l));
	posts_for(&l, 8, start);
	assert_true(lease_in_bulk(&l));
	posts_for(&l, 0, start); /* it waits for an answer */
	assert_true(lease_in_bulk(&l));
	posts_for(&l, 7, start);
	assert_false(lease_in_bulk(&l));
}

static struct lease one_that_attended(uint64_t now)
{
	struct lease l = new_lease();
	uint64_t ticket = lease_attend(&l, true, DEADLINE_NEVER, now);

	assert_int_equal(lease_attended(&l, ticket, now), LEASE_HELD);
	assert_true(lease_is_live(&l, now));
	return l;
}

static bool post_waits(struct lease *l, uint64_t now)
{
	lease_posts(l, now);
	return lease_holds(l, now);
}

static void of_what_who_attends_posts_between_two_sleeps_all_but_the_first_waits(void **state)
{
	struct lease l = one_that_attended(start);

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_false(post_waits(&l, start));
		assert_true(post_waits(&l, start));
		assert_true(post_waits(&l, start));
		/* It sleeps, which sends what waits, or goes on without a sleep. */
		lease_sent(&l, start);
		if (i == 1)
			assert_false(lease_comes(&l, start));
		else
			assert_int_equal(
				lease_attended(&l, lease_attend(&l, true, DEADLINE_NEVER, start),
					       start),
				LEASE_HELD);
	}
}

static void who_attends_and_posts_on_is_not_taken_for_a_poller(void **state)
{
	struct lease l = one_that_attended(start);
	uint64_t now = start;

	(void)state;
	for (; now < start + 50 * US; now += US)
		(void)post_waits(&l, now);
	assert_int_not_equal(lease_attend(&l, true, DEADLINE_NEVER, now), 0);
}

static void what_is_posted_waits_for_no_more_than_a_tenth_of_a_millisecond(void **state)
{
	struct lease l = new_lease();
	uint64_t now = poll_for(&l, start, 100 * US), first = now;

	(void)state;
	for (; now < first + 100 * US; now += 10 * US)
		assert_true(post_waits(&l, now));
	assert_false(post_waits(&l, now));
	lease_sent(&l, now);
	/* It was there all the time. */
	for (int i = 0; i < 20; i++, now += 30 * US) {
		for (uint64_t end = now + 50 * US; now < end; now += 10 * US)
			assert_true(post_waits(&l, now));
		lease_sent(&l, now);
	}
}

/* What waits is sent so long after. */
static void hold_for(struct lease *l, uint64_t *now, uint64_t ns)
{
	assert_true(lease_holds(l, *now));
	lease_sent(l, *now += ns);
}

static void for_who_comes_late_time_and_again_nothing_waits_a_while(void **state)
{
	struct lease l = new_lease();
	uint64_t now = poll_for(&l, start, 100 * US);

	(void)state;
	for (int i = 0; i < 10; i++) {
		hold_for(&l, &now, 19 * US);
		now = poll_for(&l, now, 100 * US);
	}
	/* Who had no processor for once. */
	for (int i = 0; i < 10; i++) {
		hold_for(&l, &now, 100 * US);
		hold_for(&l, &now, 100 * US);
		hold_for(&l, &now, 1 * US);
		now = poll_for(&l, now, 100 * US);
	}
	for (int i = 0; i < 3; i++)
		hold_for(&l, &now, 20 * US);
	assert_false(lease_holds(&l, now));
	now = poll_for(&l, now, 99 * MS);
	assert_false(lease_holds(&l, now));
	now = poll_for(&l, now, 2 * MS);
	assert_true(lease_holds(&l, now));
}

static void who_attends_is_looked_after_by_the_guard(void **state)
{
	struct lease l = new_lease();
	uint64_t ticket = lease_attend(&l, true, 0, start);

	(void)state;
	assert_true(ticket);
	assert_int_equal(lease_others(&l, false, DEADLINE_NEVER, start), start + 200 * MS);
	/* A timer that is due earlier is the thread's. */
	assert_int_equal(lease_others(&l, false, start + 5 * MS, start), start + 5 * MS);
	assert_int_equal(lease_others(&l, false, start + 5 * MS, start + 5 * MS), 0);
	/* It took what had come: nobody attends any more, and the ticket says nothing. */
	thread_takes_over(&l, start + 200 * MS);
	assert_int_equal(lease_attended(&l, ticket, start + 201 * MS), LEASE_AS_BEFORE);
}

static void between_two_sleeps_who_attends_has_a_lease(void **state)
{
	struct lease l = new_lease();
	uint64_t ticket = lease_attend(&l, true, 0, start);

	(void)state;
	assert_int_equal(lease_attended(&l, ticket, start), LEASE_HELD);
	assert_true(lease_is_live(&l, start + 1 * MS));
	assert_false(lease_is_live(&l, start + 3 * MS));
	/* One who comes and goes has the thread sleep in short pieces and be woken for none. */
	assert_true(lease_attend(&l, true, 0, start + 1 * MS));
	assert_int_equal(lease_others(&l, false, DEADLINE_NEVER, start + 3 * MS), start + 5 * MS);
}

static void a_second_one_that_sleeps_is_served_by_the_thread(void **state)
{
	struct lease l = new_lease();
	uint64_t ticket = lease_attend(&l, true, 0, start);

	(void)state;
	assert_int_equal(lease_attend(&l, true, 0, start), 0);
	assert_int_equal(lease_attended(&l, ticket, start), LEASE_TO_THREAD);
	assert_int_equal(lease_others(&l, false, DEADLINE_NEVER, start), 0);
	/* For a while for all who come. */
	assert_int_equal(lease_attended(&l, 0, start), LEASE_AS_BEFORE);
	assert_int_equal(lease_attend(&l, true, 0, start + 9 * MS), 0);
	assert_int_equal(lease_attended(&l, 0, start + 9 * MS), LEASE_AS_BEFORE);
	assert_true(lease_attend(&l, true, 0, start + 10 * MS));
}

static void nobody_attends_where_events_are_waited_for_or_sockets_are_several(void **state)
{
	struct lease l = new_lease();

	(void)state;
	assert_int_equal(lease_attend(&l, false, 0, start), 0);
	assert_int_equal(lease_attended(&l, 0, start), LEASE_AS_BEFORE);
	lease_told(&l, true);
	assert_int_equal(lease_attend(&l, true, 0, start), 0);
	assert_int_equal(lease_attended(&l, 0, start), LEASE_AS_BEFORE);
	lease_told(&l, false);
	assert_int_not_equal(lease_attend(&l, true, 0, start), 0);
}

static void who_is_about_to_attend_has_a_lease_unless_others_wait(void **state)
{
	struct lease l = new_lease();

	(void)state;
	assert_false(lease_comes(&l, start));
	assert_true(lease_is_live(&l, start + 1 * MS));
	assert_false(lease_holds(&l, start)); /* it may well not come */
	assert_int_equal(lease_others(&l, false, DEADLINE_NEVER, start + 2 * MS), 0);
	lease_told(&l, true);
	assert_true(lease_comes(&l, start));
	assert_false(lease_is_live(&l, start));
}

static void nobody_who_waits_for_an_event_attends_beside_a_poller(void **state)
{
	struct lease l = new_lease();
	uint64_t now = poll_for(&l, start, 100 * US);

	(void)state;
	assert_true(lease_is_live(&l, now));
	assert_int_equal(lease_attend(&l, true, DEADLINE_NEVER, now), 0);
	assert_int_equal(lease_attended(&l, 0, now), LEASE_AS_BEFORE);
	/* Its own lease one has ended that is about to wait. */
	assert_false(lease_comes(&l, now));
	assert_int_not_equal(lease_attend(&l, true, DEADLINE_NEVER, now), 0);
}

static void what_the_application_calls_is_known_until_asked(void **state)
{
	struct lease l = new_lease();

	(void)state;
	assert_false(lease_called(&l));
	lease_posts(&l, start);
	assert_true(lease_called(&l));
	assert_false(lease_called(&l));
	lease_polls(&l, start);
	assert_true(lease_called(&l));
	lease_polled(&l);
	assert_true(lease_called(&l));
	assert_int_not_equal(lease_attend(&l, true, 0, start), 0);
	assert_true(lease_called(&l));
	lease_thread_received(&l, 1, start);
	assert_false(lease_called(&l));
}

static void who_keeps_time_need_not_be_looked_after_at_each_deadline(void **state)
{
	struct lease l = new_lease();

	(void)state;
	assert_int_not_equal(lease_attend(&l, true, start + 1 * MS, start), 0);
	assert_int_equal(lease_others(&l, false, start + 1 * MS, start), start + 200 * MS);
	assert_int_equal(lease_others(&l, false, start + 2 * MS, start), start + 200 * MS);
	l = new_lease();
	assert_int_not_equal(lease_attend(&l, true, 0, start), 0);
	assert_int_equal(lease_others(&l, false, start + 1 * MS, start), start + 1 * MS);
}

/* It knows nothing of what others of the process do while it sleeps. */
static void what_comes_about_while_one_that_keeps_time_sleeps_is_the_threads(void **state)
{
	struct lease l = new_lease();

	(void)state;
	assert_int_not_equal(lease_attend(&l, true, start + 50 * MS, start), 0);
	assert_int_equal(lease_others(&l, false, start + 5 * MS, start), start + 5 * MS);
	assert_int_equal(lease_others(&l, false, start + 5 * MS, start + 5 * MS), 0);
	lease_thread_begins(&l, start + 5 * MS);
	lease_thread_received(&l, 0, start + 5 * MS);
	assert_int_equal(lease_others(&l, false, start + 15 * MS, start + 5 * MS), start + 15 * MS);
	assert_int_equal(lease_others(&l, false, start + 50 * MS, start + 15 * MS),
			 start + 205 * MS);
	/* What another left behind, whose lease has ended, goes. */
	assert_int_equal(lease_others(&l, true, start + 50 * MS, start + 15 * MS), 0);
	(void)poll_for(&l, start + 20 * MS, 100 * US);
	assert_true(lease_others(&l, true, start + 50 * MS, start + 20 * MS + 100 * US));
	assert_int_equal(lease_others(&l, true, start + 50 * MS, start + 21 * MS), 0);
}

static void what_others_post_while_one_sleeps_does_not_wait_for_it(void **state)
{
	struct lease l = one_that_attended(start);

	(void)state;
	(void)post_waits(&l, start);
	assert_true(post_waits(&l, start));
	lease_sent(&l, start);
	assert_int_not_equal(lease_attend(&l, true, DEADLINE_NEVER, start), 0);
	assert_true(lease_is_live(&l, start));
	for (int i = 0; i < 3; i++)
		assert_false(post_waits(&l, start));
	/* A poller is back for it. */
	poll_for(&l, start, 100 * US);
	assert_true(post_waits(&l, start + 100 * US));
}

/* A WRITE comes every 100 us, and the program posts so long after each. */
static uint64_t answer_each(struct lease *l, uint64_t now, int n, uint64_t after)
{
	for (int i = 0; i < n; i++, now += 100 * US) {
		lease_written(l, now);
		lease_posts(l, now + after);
	}
	lease_written(l, now);
	return now;
}

static void a_write_that_is_always_answered_is_acknowledged_with_the_answer(void **state)
{
	struct lease l = new_lease();
	uint64_t now;

	(void)state;
	now = answer_each(&l, start, 7, 10 * US);
	assert_false(lease_keeps(&l, now));
	lease_posts(&l, now + 10 * US);
	assert_false(lease_keeps(&l, now + 10 * US)); /* nothing to answer */
	lease_written(&l, now += 100 * US);
	assert_true(lease_keeps(&l, now + 49 * US));
	assert_int_equal(lease_keeps_until(&l), now + 50 * US);
	assert_false(lease_keeps(&l, now + 50 * US)); /* it does not come */
}

static void who_answers_late_or_posts_or_is_written_to_besides_answers_no_more(void **state)
{
	struct lease l = new_lease();
	uint64_t now = answer_each(&l, start, 8, 10 * US);

	(void)state;
	assert_true(lease_keeps(&l, now));
	lease_posts(&l, now + 50 * US);
	lease_written(&l, now += 100 * US);
	assert_false(lease_keeps(&l, now));

	now = answer_each(&l, now + 100 * US, 9, 10 * US);
	assert_true(lease_keeps(&l, now));
	lease_posts(&l, now + 1 * US);
	lease_posts(&l, now + 2 * US);
	lease_written(&l, now += 100 * US);
	assert_false(lease_keeps(&l, now));

	now = answer_each(&l, now + 100 * US, 9, 10 * US);
	assert_true(lease_keeps(&l, now));
	lease_written(&l, now + 1 * US);
	assert_false(lease_keeps(&l, now + 1 * US));

	now = answer_each(&l, now + 100 * US, 9, 10 * US);
	assert_true(lease_keeps(&l, now));
	lease_other_came(&l); /* by a SEND, say, which comes with its data */
	assert_false(lease_keeps(&l, now));
}

static void who_only_takes_writes_has_them_acknowledged_at_once(void **state)
{
	struct lease l = new_lease();

	(void)state;
	for (uint64_t now = start; now < start + 10 * MS; now += 10 * US) {
		lease_written(&l, now);
		assert_false(lease_keeps(&l, now));
	}
}

static void who_answers_writes_has_a_lease_at_once_and_nothing_of_it_waits(void **state)
{
	struct lease l = new_lease();
	uint64_t now = answer_each(&l, start, 8, 10 * US);

	(void)state;
	assert_false(lease_is_live(&l, now));
	lease_polls(&l, now + 10 * US);
	assert_true(lease_is_live(&l, now + 400 * US));
	assert_false(lease_holds(&l, now + 11 * US));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_polls_without_a_pause_gets_a_lease),
		cmocka_unit_test(who_looks_now_and_then_gets_none),
		cmocka_unit_test(posts_between_two_polls_are_no_pause),
		cmocka_unit_test(what_its_own_sending_takes_is_no_pause_of_a_poller),
		cmocka_unit_test(who_goes_to_sleep_ends_the_lease),
		cmocka_unit_test(who_waited_for_memory_must_poll_twice_as_long_the_next_time),
		cmocka_unit_test(who_comes_back_late_or_to_poll_is_not_punished),
		cmocka_unit_test(what_is_posted_waits_only_under_a_lease),
		cmocka_unit_test(who_posted_many_between_two_polls_is_expected_to_do_so_again),
		cmocka_unit_test(
			of_what_who_attends_posts_between_two_sleeps_all_but_the_first_waits),
		cmocka_unit_test(who_attends_and_posts_on_is_not_taken_for_a_poller),
		cmocka_unit_test(what_is_posted_waits_for_no_more_than_a_tenth_of_a_millisecond),
		cmocka_unit_test(for_who_comes_late_time_and_again_nothing_waits_a_while),
		cmocka_unit_test(who_attends_is_looked_after_by_the_guard),
		cmocka_unit_test(between_two_sleeps_who_attends_has_a_lease),
		cmocka_unit_test(a_second_one_that_sleeps_is_served_by_the_thread),
		cmocka_unit_test(a_write_that_is_always_answered_is_acknowledged_with_the_answer),
		cmocka_unit_test(
			who_answers_late_or_posts_or_is_written_to_besides_answers_no_more),
		cmocka_unit_test(who_only_takes_writes_has_them_acknowledged_at_once),
		cmocka_unit_test(who_answers_writes_has_a_lease_at_once_and_nothing_of_it_waits),
		cmocka_unit_test(who_is_about_to_attend_has_a_lease_unless_others_wait),
		cmocka_unit_test(nobody_who_waits_for_an_event_attends_beside_a_poller),
		cmocka_unit_test(what_the_application_calls_is_known_until_asked),
		cmocka_unit_test(who_keeps_time_need_not_be_looked_after_at_each_deadline),
		cmocka_unit_test(what_comes_about_while_one_that_keeps_time_sleeps_is_the_threads),
		cmocka_unit_test(what_others_post_while_one_sleeps_does_not_wait_for_it),
		cmocka_unit_test(nobody_attends_where_events_are_waited_for_or_sockets_are_several),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
