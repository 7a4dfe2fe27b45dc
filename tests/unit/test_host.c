/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Bring-up, shutdown, keep-alive and what goes wrong in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "host_peer.h"
#include "wire/nvme_log.h"

static void start(struct peer *p)
{
	peer_init(p);
	host_start(&p->host, p->now_ns);
	peer_run(p);
}

static void failed_as(struct peer *p, enum host_failure_kind kind, enum host_state state)
{
	assert_string_equal(host_state_name(p->host.state), "failed");
	assert_int_equal(p->host.failure.kind, kind);
	assert_string_equal(host_state_name(p->host.failure.state), host_state_name(state));
	for (int i = 0; i <= PEER_QUEUES; i++)
		assert_false(p->open[i]);
	assert_int_equal(host_next_deadline(&p->host), UINT64_MAX);
}

static void bring_up_goes_through_every_step(void **state)
{
	static const enum host_state trail[] = {HOST_OPENING,	 HOST_CONNECT,	  HOST_READ_CAP,
						HOST_READ_VS,	 HOST_ENABLE,	  HOST_WAIT_READY,
						HOST_IDENTIFY,	 HOST_SET_EVENTS, HOST_SET_QUEUES,
						HOST_IO_CONNECT, HOST_LIVE};
	struct peer *p = peer_new();

	(void)state;
	peer_bring_up(p);
	assert_int_equal(p->trail_len, ARRAY_SIZE(trail));
	assert_memory_equal(p->trail, trail, sizeof(trail));
	assert_int_equal(p->host.cntlid, 7);
	assert_int_equal(p->host.io_queues, 2);
	assert_int_equal(p->host.transfer_max, 128 << 10);
	assert_int_equal(p->host.capsule_max, 4096);
	assert_int_equal(p->connect[0].sqsize, HOST_ADMIN_ENTRIES - 1);
	assert_int_equal(p->connect[0].kato_ms, 10000);
	assert_int_equal(p->connect_data[0].cntlid, NVMF_CNTLID_DYNAMIC);
	assert_string_equal(p->connect_data[0].subnqn, p->config.subnqn);
	assert_string_equal(p->connect_data[0].hostnqn, p->config.hostnqn);
	assert_memory_equal(p->connect_data[0].hostid, p->config.hostid, 16);
	assert_int_equal(p->connect[2].sqsize, PEER_ENTRIES - 1);
	assert_int_equal(p->connect[2].kato_ms, 0);
	assert_int_equal(p->connect_data[2].cntlid, 7);
	assert_int_equal(p->cc, NVME_CC_EN | NVME_CC_IOSQES_64 | NVME_CC_IOCQES_16);
	peer_free(p);
}

static void admin_data_is_never_in_the_capsule_and_io_connect_is(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	peer_bring_up(p);
	for (uint32_t i = 0; i < p->sent_count; i++)
		assert_int_equal(p->sent[i].in_capsule, p->sent[i].qid > 0);
	peer_free(p);
	p = peer_new();
	p->id.ioccsz = 4; /* nothing but the command fits */
	peer_bring_up(p);
	for (uint32_t i = 0; i < p->sent_count; i++)
		assert_false(p->sent[i].in_capsule);
	peer_free(p);
}

static void a_discovery_controller_gets_no_io_queues_and_no_events(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	strcpy(p->config.subnqn, NVMF_DISCOVERY_NQN);
	p->id.ioccsz = 0;
	peer_bring_up(p);
	assert_int_equal(p->opens, 1);
	for (uint32_t i = 0; i < p->sent_count; i++)
		assert_int_not_equal(p->sent[i].sqe.opcode, NVME_ADMIN_ASYNC_EVENT);
	peer_free(p);
}

static void a_controller_that_is_never_ready_times_out_by_cap_to(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->csts = 0;
	start(p);
	assert_int_equal(p->host.state, HOST_WAIT_READY);
	peer_advance(p, 4 * NSEC_PER_SEC / 2 - 1); /* CAP.TO is 3: (3 + 1) * 500 ms */
	assert_int_equal(p->host.state, HOST_WAIT_READY);
	peer_advance(p, 1);
	failed_as(p, HOST_FAIL_NOT_READY, HOST_WAIT_READY);
	assert_in_range(p->sent_count, 10, 60); /* it looked often, yet not all the time */
	peer_free(p);
}

static void a_controller_that_becomes_ready_late_is_waited_for(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->csts = 0;
	start(p);
	peer_advance(p, NSEC_PER_SEC);
	p->csts = NVME_CSTS_RDY;
	peer_advance(p, NSEC_PER_SEC / 5);
	assert_int_equal(p->host.state, HOST_LIVE);
	peer_free(p);
}

static void a_fatal_controller_is_told(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->csts = NVME_CSTS_CFS;
	start(p);
	failed_as(p, HOST_FAIL_FATAL, HOST_WAIT_READY);
	peer_free(p);
}

static void each_refused_step_ends_with_its_status(void **state)
{
	static const struct {
		enum host_state state;
		uint8_t opcode;
	} steps[] = {
		{HOST_CONNECT, NVME_FABRICS},
		{HOST_READ_CAP, NVME_FABRICS},
		{HOST_READ_VS, NVME_FABRICS},
		{HOST_ENABLE, NVME_FABRICS},
		{HOST_WAIT_READY, NVME_FABRICS},
		{HOST_IDENTIFY, NVME_ADMIN_IDENTIFY},
		{HOST_SET_QUEUES, NVME_ADMIN_SET_FEATURES},
		{HOST_IO_CONNECT, NVME_FABRICS},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct peer *p = peer_new();

		p->status_of_step[steps[i].state] = NVME_SC_INTERNAL | NVME_STATUS_DNR;
		start(p);
		failed_as(p, HOST_FAIL_STATUS, steps[i].state);
		assert_int_equal(p->host.failure.status, NVME_SC_INTERNAL | NVME_STATUS_DNR);
		assert_int_equal(p->host.failure.opcode, steps[i].opcode);
		peer_free(p);
	}
}

static void a_refused_connect_says_which_parameter(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->status_of_step[HOST_CONNECT] = NVME_SC_CONNECT_INVALID_PARAM | NVME_STATUS_DNR;
	p->result_of_refusal = nvmf_connect_ipo(true, NVMF_CONNECT_DATA_SUBNQN);
	start(p);
	failed_as(p, HOST_FAIL_STATUS, HOST_CONNECT);
	assert_int_equal(p->host.failure.fctype, NVMF_CONNECT);
	assert_int_equal(NVMF_CONNECT_IATTR(p->host.failure.result), 1);
	assert_int_equal(NVMF_CONNECT_IPO(p->host.failure.result), NVMF_CONNECT_DATA_SUBNQN);
	peer_free(p);
}

static void a_controller_without_event_feature_is_used_all_the_same(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->status_of_step[HOST_SET_EVENTS] = NVME_SC_INVALID_FIELD | NVME_STATUS_DNR;
	peer_bring_up(p);
	peer_free(p);
}

static void each_unanswered_step_times_out(void **state)
{
	struct peer *whole = peer_new();
	uint32_t steps;

	(void)state;
	peer_bring_up(whole);
	steps = whole->bring_up_answered;
	peer_free(whole);
	assert_in_range(steps, 8, 20);
	for (uint32_t i = 1; i <= steps; i++) {
		struct peer *p = peer_new();

		p->mute_from = i;
		start(p);
		assert_int_not_equal(p->host.state, HOST_LIVE);
		peer_advance(p, 31 * NSEC_PER_SEC);
		assert_int_equal(p->host.state, HOST_FAILED);
		assert_true(p->host.failure.kind == HOST_FAIL_TIMEOUT ||
			    p->host.failure.kind == HOST_FAIL_NOT_READY);
		peer_free(p);
	}
}

static void a_transport_that_cannot_connect_is_told(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->refuse_open = true;
	start(p);
	failed_as(p, HOST_FAIL_OPEN, HOST_OPENING);
	peer_free(p);

	p = peer_new();
	p->silent_open = true;
	start(p);
	host_queue_lost(&p->host, 0, NULL, p->now_ns);
	failed_as(p, HOST_FAIL_OPEN, HOST_OPENING);
	peer_free(p);

	p = peer_new();
	p->silent_open = true;
	start(p);
	peer_advance(p, 5 * NSEC_PER_SEC);
	failed_as(p, HOST_FAIL_OPEN, HOST_OPENING);
	peer_free(p);
}

static void all_fives(void *arg, void *p, size_t len)
{
	(void)arg;
	memset(p, 5, len);
}

/* Whoever of the two then ends the connection. */
static void why_a_controller_is_not_believed_is_told_though_it_hangs_up(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->silent_open = true;
	p->config.key = (struct auth_key){.len = 32, .key = {1}};
	p->config.random = all_fives;
	start(p);
	p->open[0] = true;
	host_queue_opened(&p->host, 0, 0xffff, p->now_ns);
	peer_answer(p, &p->sent[0], 0, 7 | NVMF_CONNECT_ATR_BIT);
	for (uint32_t i = 1; i < 3; i++) { /* it is sent zeroes where a challenge is due */
		assert_int_equal(p->sent_count, i + 1);
		peer_answer(p, &p->sent[i], 0, 0);
	}
	assert_int_equal(p->sent_count, 4);
	assert_int_equal(nvmf_fctype(&p->sent[3].sqe), NVMF_AUTH_SEND);
	host_queue_lost(&p->host, 0, NULL, p->now_ns);
	failed_as(p, HOST_FAIL_AUTH, HOST_AUTHENTICATE);
	assert_string_equal(p->host.failure.detail, "it sends another message than is due");
	peer_free(p);
}

static void fewer_queues_than_asked_are_taken(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->config.io_queues = 4;
	p->queues_granted = 3;
	peer_bring_up(p);
	assert_int_equal(p->host.io_queues, 3);
	assert_int_equal(p->opens, 4);
	peer_free(p);
}

static unsigned int rounds_to_live(uint16_t io_queues)
{
	struct peer *p = peer_new();
	unsigned int rounds = 0;

	p->config.io_queues = io_queues;
	peer_init(p);
	host_start(&p->host, p->now_ns);
	while (p->host.state != HOST_LIVE && rounds < 1000) {
		peer_round(p);
		rounds++;
	}
	assert_int_equal(p->host.state, HOST_LIVE);
	assert_int_equal(p->opens, 1 + io_queues);
	for (uint16_t i = 1; i <= io_queues; i++) {
		assert_int_equal(p->connect[i].qid, i);
		assert_int_equal(p->connect_data[i].cntlid, 7);
		assert_string_equal(p->connect_data[i].hostnqn, p->config.hostnqn);
	}
	peer_free(p);
	return rounds;
}

static void many_io_queues_take_no_longer_to_connect_than_one(void **state)
{
	unsigned int one = rounds_to_live(1);

	(void)state;
	assert_int_equal(rounds_to_live(HOST_CONNECTING_MAX), one);
	assert_in_range(rounds_to_live(HOST_CONNECTING_MAX + 2), one + 1, one + 2);
}

static void io_queues_connect_side_by_side_up_to_a_limit(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->config.io_queues = HOST_CONNECTING_MAX + 2;
	p->silent_io_open = true;
	start(p);
	assert_int_equal(p->host.state, HOST_IO_CONNECT);
	assert_int_equal(p->opens, 1 + HOST_CONNECTING_MAX);
	p->silent_io_open = false;
	peer_run(p);
	assert_int_equal(p->host.state, HOST_LIVE);
	assert_int_equal(p->opens, 1 + HOST_CONNECTING_MAX + 2);
	peer_free(p);
}

static void an_io_queue_that_is_not_opened_in_time_ends_the_bring_up(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->silent_io_open = true;
	start(p);
	host_queue_opened(&p->host, 3, PEER_ENTRIES, p->now_ns); /* none was asked for */
	peer_advance(p, 5 * NSEC_PER_SEC - 1);
	assert_int_equal(p->host.state, HOST_IO_CONNECT);
	peer_advance(p, 1);
	failed_as(p, HOST_FAIL_OPEN, HOST_IO_CONNECT);
	assert_int_equal(p->host.failure.qid, 1);
	peer_free(p);
}

static void queue_entries_bow_to_mqes_and_maxcmd(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->cap = (p->cap & ~0xffffull) | 7; /* MQES is zero-based */
	peer_bring_up(p);
	assert_int_equal(p->connect[1].sqsize, 7);
	peer_free(p);
	p = peer_new();
	p->id.maxcmd = 5;
	peer_bring_up(p);
	assert_int_equal(p->connect[1].sqsize, 5);
	peer_free(p);
}

static void mdts_counts_in_the_smallest_page(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->cap |= 1ull << 48; /* 8 KiB */
	peer_bring_up(p);
	assert_int_equal(p->host.transfer_max, 256 << 10);
	assert_int_equal(NVME_CC_MPS(p->cc), 1);
	peer_free(p);
	p = peer_new();
	p->id.mdts = 0; /* no limit: that of a keyed SGL remains */
	peer_bring_up(p);
	assert_int_equal(p->host.transfer_max, 0xfff000);
	peer_free(p);
	p = peer_new();
	p->id.mdts = 255;
	peer_bring_up(p);
	assert_int_equal(p->host.transfer_max, 0xfff000);
	peer_free(p);
	p = peer_new();
	p->transport.transfer_max = 16384;
	peer_bring_up(p);
	assert_int_equal(p->host.transfer_max, 16384);
	peer_free(p);
}

static void an_unfit_controller_is_refused(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->id.sgls = NVME_SGLS_SUPPORTED;
	start(p);
	failed_as(p, HOST_FAIL_UNFIT, HOST_IDENTIFY);
	assert_non_null(p->host.failure.detail);
	peer_free(p);
	p = peer_new();
	p->id.ioccsz = 3;
	start(p);
	failed_as(p, HOST_FAIL_UNFIT, HOST_IDENTIFY);
	peer_free(p);
}

static void keep_alives_go_out_at_half_their_timeout(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	peer_bring_up(p);
	peer_advance(p, 5 * NSEC_PER_SEC - 1);
	assert_int_equal(p->keep_alives, 0);
	peer_advance(p, 1);
	assert_int_equal(p->keep_alives, 1);
	peer_advance(p, 50 * NSEC_PER_SEC);
	assert_int_equal(p->keep_alives, 11);
	assert_int_equal(p->host.state, HOST_LIVE);
	peer_free(p);
}

static void an_admin_queue_of_one_command_is_not_held_by_the_event_request(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->limit = 1;
	peer_bring_up(p);
	peer_advance(p, 50 * NSEC_PER_SEC);
	assert_int_equal(p->keep_alives, 10);
	assert_int_equal(p->host.state, HOST_LIVE);
	peer_free(p);
}

static void an_unanswered_keep_alive_loses_the_connection(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->config.loss_timeout_ns = 0;
	peer_bring_up(p);
	p->mute_from = 1;
	peer_advance(p, 15 * NSEC_PER_SEC - 1); /* sent at 5 s, given up 10 s later */
	assert_int_equal(p->host.state, HOST_LIVE);
	peer_advance(p, 1);
	failed_as(p, HOST_FAIL_KEEP_ALIVE, HOST_LIVE);
	peer_free(p);
}

static void no_keep_alive_when_none_is_wanted(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->config.keep_alive_ms = 0;
	peer_bring_up(p);
	assert_int_equal(host_next_deadline(&p->host), UINT64_MAX);
	peer_free(p);
}

static void events_are_told_and_asked_for_again(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	peer_bring_up(p);
	for (unsigned int round = 1; round <= 3; round++) {
		struct sent *s = NULL;

		for (uint32_t i = 0; i < p->sent_count; i++)
			if (p->sent[i].sqe.opcode == NVME_ADMIN_ASYNC_EVENT &&
			    !p->sent[i].answered) {
				assert_null(s);
				s = &p->sent[i];
			}
		assert_non_null(s);
		peer_answer(p, s, 0, NVME_AER_RESULT(NVME_AER_NOTICE, 0, NVME_LID_CHANGED_NS));
		assert_int_equal(p->events, round);
		assert_int_equal(NVME_AER_LID(p->last_event), NVME_LID_CHANGED_NS);
	}
	peer_free(p);
}

static void a_refused_event_request_is_not_repeated(void **state)
{
	struct peer *p = peer_new();
	uint32_t before;

	(void)state;
	peer_bring_up(p);
	before = p->sent_count;
	peer_answer(p, &p->sent[before - 1], NVME_SC_ASYNC_LIMIT, 0);
	assert_int_equal(p->sent_count, before);
	assert_int_equal(p->events, 0);
	peer_free(p);
}

static void shutdown_writes_shn_and_waits_for_it(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->csts_after_shn = NVME_CSTS_RDY | NVME_CSTS_SHST_BUSY;
	peer_bring_up(p);
	host_shutdown(&p->host, p->now_ns);
	assert_false(p->open[1]);
	assert_true(p->open[0]);
	peer_run(p);
	assert_int_equal(NVME_CC_SHN(p->cc), 1);
	assert_int_equal(p->cc & NVME_CC_EN, NVME_CC_EN);
	assert_int_equal(p->host.state, HOST_SHUTDOWN_WAIT);
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_SHUTDOWN_WAIT);
	p->csts_after_shn = NVME_CSTS_RDY | NVME_CSTS_SHST_DONE;
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_CLOSED);
	assert_false(p->open[0]);
	peer_free(p);
}

static void shutdown_that_fails_is_told_at_once(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->csts_after_shn = NVME_CSTS_RDY | NVME_CSTS_SHST_BUSY | NVME_CSTS_CFS;
	peer_bring_up(p);
	host_shutdown(&p->host, p->now_ns);
	peer_run(p);
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_CLOSED);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_FATAL);
	assert_int_equal(p->host.failure.state, HOST_SHUTDOWN_WAIT);
	peer_free(p);
}

static void shutdown_ends_even_if_nobody_answers(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	peer_bring_up(p);
	p->mute_from = 1;
	host_shutdown(&p->host, p->now_ns);
	peer_advance(p, 5 * NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_CLOSED);
	assert_int_equal(host_next_deadline(&p->host), UINT64_MAX);
	peer_free(p);
}

static void shutdown_in_the_middle_of_bring_up_just_closes(void **state)
{
	(void)state;
	for (uint32_t i = 1; i < 10; i++) {
		struct peer *p = peer_new();

		p->mute_from = i;
		start(p);
		host_shutdown(&p->host, p->now_ns);
		assert_int_equal(p->host.state, HOST_CLOSED);
		assert_false(p->open[0]);
		host_shutdown(&p->host, p->now_ns);
		peer_free(p);
	}
}

static void bad_configurations_are_refused(void **state)
{
	struct peer *p = peer_new();
	struct host_config good = p->config;

	(void)state;
	p->config.io_entries = 1;
	assert_int_equal(
		host_init(&p->host, &p->config, &p->transport, p, p->queues, p->places, p->scratch),
		-EINVAL);
	p->config = good;
	p->config.io_entries = HOST_ENTRIES_MAX + 1;
	assert_int_equal(
		host_init(&p->host, &p->config, &p->transport, p, p->queues, p->places, p->scratch),
		-EINVAL);
	p->config = good;
	memset(p->config.subnqn, 'x', sizeof(p->config.subnqn));
	assert_int_equal(
		host_init(&p->host, &p->config, &p->transport, p, p->queues, p->places, p->scratch),
		-EINVAL);
	peer_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bring_up_goes_through_every_step),
		cmocka_unit_test(admin_data_is_never_in_the_capsule_and_io_connect_is),
		cmocka_unit_test(a_discovery_controller_gets_no_io_queues_and_no_events),
		cmocka_unit_test(a_controller_that_is_never_ready_times_out_by_cap_to),
		cmocka_unit_test(a_controller_that_becomes_ready_late_is_waited_for),
		cmocka_unit_test(a_fatal_controller_is_told),
		cmocka_unit_test(each_refused_step_ends_with_its_status),
		cmocka_unit_test(a_refused_connect_says_which_parameter),
		cmocka_unit_test(a_controller_without_event_feature_is_used_all_the_same),
		cmocka_unit_test(each_unanswered_step_times_out),
		cmocka_unit_test(a_transport_that_cannot_connect_is_told),
		cmocka_unit_test(why_a_controller_is_not_believed_is_told_though_it_hangs_up),
		cmocka_unit_test(fewer_queues_than_asked_are_taken),
		cmocka_unit_test(many_io_queues_take_no_longer_to_connect_than_one),
		cmocka_unit_test(io_queues_connect_side_by_side_up_to_a_limit),
		cmocka_unit_test(an_io_queue_that_is_not_opened_in_time_ends_the_bring_up),
		cmocka_unit_test(queue_entries_bow_to_mqes_and_maxcmd),
		cmocka_unit_test(mdts_counts_in_the_smallest_page),
		cmocka_unit_test(an_unfit_controller_is_refused),
		cmocka_unit_test(keep_alives_go_out_at_half_their_timeout),
		cmocka_unit_test(an_admin_queue_of_one_command_is_not_held_by_the_event_request),
		cmocka_unit_test(an_unanswered_keep_alive_loses_the_connection),
		cmocka_unit_test(no_keep_alive_when_none_is_wanted),
		cmocka_unit_test(events_are_told_and_asked_for_again),
		cmocka_unit_test(a_refused_event_request_is_not_repeated),
		cmocka_unit_test(shutdown_writes_shn_and_waits_for_it),
		cmocka_unit_test(shutdown_that_fails_is_told_at_once),
		cmocka_unit_test(shutdown_ends_even_if_nobody_answers),
		cmocka_unit_test(shutdown_in_the_middle_of_bring_up_just_closes),
		cmocka_unit_test(bad_configurations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
