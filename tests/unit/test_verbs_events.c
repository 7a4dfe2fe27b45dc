/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "verbs/event_pipe.h"

static struct event_pipe pipe_;
static struct event_source a, b;

static int setup(void **state)
{
	(void)state;
	event_source_init(&a);
	event_source_init(&b);
	if (event_pipe_init(&pipe_))
		return -1;
	/* A test must not hang: what is not there is EAGAIN. */
	return fcntl(pipe_.rd, F_SETFL, O_NONBLOCK);
}

static int teardown(void **state)
{
	(void)state;
	event_pipe_close(&pipe_);
	return 0;
}

static short ready(void)
{
	struct pollfd p = {.fd = pipe_.rd, .events = POLLIN | POLLOUT};

	return poll(&p, 1, 0) > 0 ? p.revents : 0;
}

/* The source of the next event, which is taken off its count; NULL if there is none. */
static struct event_source *take(void)
{
	struct event_source *s = event_pipe_wait(&pipe_);

	if (s) {
		s->pending--;
		event_pipe_taken(&pipe_, s);
	}
	return s;
}

static void the_descriptor_is_readable_while_there_are_events_and_never_writable(void **state)
{
	(void)state;
	assert_int_equal(ready(), 0);
	event_pipe_count(&pipe_, &a);
	event_pipe_count(&pipe_, &a);
	assert_int_equal(ready(), POLLIN);
	assert_ptr_equal(take(), &a);
	assert_int_equal(ready(), POLLIN);
	assert_ptr_equal(take(), &a);
	assert_int_equal(ready(), 0);
	errno = 0;
	assert_null(take());
	assert_int_equal(errno, EAGAIN);
}

static void sources_take_turns(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		event_pipe_count(&pipe_, &a);
	event_pipe_count(&pipe_, &b);
	assert_ptr_equal(take(), &a);
	assert_ptr_equal(take(), &b);
	assert_ptr_equal(take(), &a);
	assert_ptr_equal(take(), &a);
	assert_null(take());
}

static void a_million_events_fit_and_none_is_lost(void **state)
{
	enum { MANY = 1000000 };
	int bytes, n = 0;

	(void)state;
	for (int i = 0; i < MANY; i++)
		event_pipe_count(&pipe_, i % 2 ? &a : &b);
	assert_int_equal(ioctl(pipe_.rd, FIONREAD, &bytes), 0);
	assert_int_equal(bytes, 1);
	while (take())
		n++;
	assert_int_equal(n, MANY);
	assert_int_equal(event_pipe_forget(&pipe_, &a), MANY / 2);
}

static void a_type_raised_twice_before_it_is_taken_is_one_event(void **state)
{
	struct event_source *s;

	(void)state;
	event_pipe_mark(&pipe_, &a, 1 << 3);
	event_pipe_mark(&pipe_, &a, 1 << 3);
	event_pipe_mark(&pipe_, &a, 1 << 1);
	s = event_pipe_wait(&pipe_);
	assert_ptr_equal(s, &a);
	assert_int_equal(s->pending, 1 << 3 | 1 << 1);
	s->pending &= ~(1u << 1);
	event_pipe_taken(&pipe_, s);
	s = event_pipe_wait(&pipe_);
	assert_ptr_equal(s, &a);
	assert_int_equal(s->pending, 1 << 3);
	s->pending = 0;
	event_pipe_taken(&pipe_, s);
	assert_int_equal(ready(), 0);
}

static void events_of_what_goes_away_vanish_but_those_taken_are_known(void **state)
{
	(void)state;
	event_pipe_count(&pipe_, &a);
	event_pipe_count(&pipe_, &a);
	event_pipe_count(&pipe_, &b);
	assert_ptr_equal(take(), &a);
	assert_int_equal(event_pipe_forget(&pipe_, &a), 1);
	assert_ptr_equal(take(), &b);
	assert_null(take());
	/* Nor does the descriptor say that there is something, when there is nothing left. */
	event_pipe_count(&pipe_, &b);
	assert_int_equal(ready(), POLLIN);
	assert_int_equal(event_pipe_forget(&pipe_, &b), 1);
	assert_int_equal(ready(), 0);
	assert_null(take());
	assert_int_equal(errno, EAGAIN);
	event_pipe_count(&pipe_, &a);
	assert_ptr_equal(take(), &a);
}

static void raising_after_the_end_has_no_effect(void **state)
{
	struct event_pipe p;
	struct event_source s;

	(void)state;
	event_source_init(&s);
	assert_int_equal(event_pipe_init(&p), 0);
	event_pipe_close(&p);
	event_pipe_count(&p, &s);
	event_pipe_mark(&p, &s, 1);
	assert_int_equal(event_pipe_forget(&p, &s), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(the_descriptor_is_readable_while_there_are_events_and_never_writable),
		T(sources_take_turns),
		T(a_million_events_fit_and_none_is_lost),
		T(a_type_raised_twice_before_it_is_taken_is_one_event),
		T(events_of_what_goes_away_vanish_but_those_taken_are_known),
		T(raising_after_the_end_has_no_effect),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
