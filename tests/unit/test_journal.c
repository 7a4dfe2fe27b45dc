/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "broker/journal.h"

#define ID 0x1234

static struct broker_cm_saved saved(uint64_t serial)
{
	return (struct broker_cm_saved){
		.id = ID, .len = 1, .serial = serial, .bytes = {(uint8_t)serial}};
}

/* What the next broker is told of the id. Serial 0: nothing. */
static struct broker_cm_saved told(struct journal *j)
{
	const struct broker_msg ok = {.type = BROKER_CM_RESUME};
	struct broker_cm_resume req = {0};
	struct journal_count n;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(send(pair[1], &ok, sizeof(ok), 0), sizeof(ok));
	assert_int_equal(journal_resume(j, pair[0], &n), 0);
	assert_int_equal(recv(pair[1], &req, sizeof(req), 0), n.ids ? (ssize_t)sizeof(req) : -1);
	close(pair[0]);
	close(pair[1]);
	return req.saved;
}

/* The ACCEPT's reply says REP_SENT; the event that is read in another thread, ESTABLISHED. */
static void a_reply_does_not_undo_the_event_that_overtook_it(void **state)
{
	const struct broker_cm_id accept = {.msg.type = BROKER_CM_ACCEPT, .id = ID};
	struct broker_cm_saved reply = saved(1), event = saved(2);
	struct journal j;

	(void)state;
	journal_init(&j);
	journal_saved(&j, &event);
	journal_request(&j, &accept, &reply);
	assert_int_equal(told(&j).serial, 2);
	assert_int_equal(told(&j).bytes[0], 2);
	reply = saved(3);
	journal_request(&j, &accept, &reply);
	assert_int_equal(told(&j).serial, 3);
	journal_fini(&j);
}

static void an_id_that_has_ended_is_forgotten(void **state)
{
	struct broker_cm_saved event = saved(7), end = {.id = ID};
	struct journal j;

	(void)state;
	journal_init(&j);
	journal_saved(&j, &event);
	journal_saved(&j, &end);
	assert_int_equal(told(&j).serial, 0);
	journal_fini(&j);
}

/* Where there was no broker to tell it to, the next one is told. */
static void what_the_program_has_destroyed_is_destroyed_by_the_next_broker(void **state)
{
	const struct broker_msg ok[] = {{.type = BROKER_CM_RESUME}, {.type = BROKER_CM_DESTROY_ID}};
	struct broker_cm_saved event = saved(7), late = saved(8);
	struct broker_cm_resume resume = {0};
	struct broker_cm_id destroy = {0};
	struct journal_count n;
	struct journal j;
	int pair[2];

	(void)state;
	journal_init(&j);
	journal_saved(&j, &event);
	journal_destroyed(&j, ID, -ECONNREFUSED);
	journal_saved(&j, &late); /* another thread has read it just before */
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(send(pair[1], &ok[i], sizeof(ok[i]), 0), sizeof(ok[i]));
	assert_int_equal(journal_resume(&j, pair[0], &n), 0);
	assert_int_equal(n.ids, 0);
	assert_int_equal(recv(pair[1], &resume, sizeof(resume), 0), sizeof(resume));
	assert_int_equal(resume.saved.serial, 7);
	assert_int_equal(recv(pair[1], &destroy, sizeof(destroy), 0), sizeof(destroy));
	assert_int_equal(destroy.msg.type, BROKER_CM_DESTROY_ID);
	assert_int_equal(destroy.id, ID);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(told(&j).serial, 0);
	journal_fini(&j);
}

static void what_is_destroyed_and_unknown_is_forgotten(void **state)
{
	struct broker_cm_saved event = saved(7);
	struct journal j;

	(void)state;
	journal_init(&j);
	journal_saved(&j, &event);
	journal_destroyed(&j, ID, -ENOENT);
	assert_int_equal(told(&j).serial, 0);
	journal_fini(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reply_does_not_undo_the_event_that_overtook_it),
		cmocka_unit_test(an_id_that_has_ended_is_forgotten),
		cmocka_unit_test(what_the_program_has_destroyed_is_destroyed_by_the_next_broker),
		cmocka_unit_test(what_is_destroyed_and_unknown_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
