/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Who may in, and by what channel: our host and our target over each transport, by the same cases
 * but for those of secure channel concatenation.
 */
#include <errno.h>

#include "transport_bed.h"

static const char *failed_for(void)
{
	begin();
	turn_until(bed.host.state == HOST_LIVE || bed.host.state == HOST_FAILED);
	assert_string_equal(host_state_name(bed.host.state), "failed");
	assert_in_range(bed.host.failure.kind, HOST_FAIL_UNFIT, HOST_FAIL_AUTH);
	return bed.host.failure.detail;
}

static void who_has_the_keys_is_let_in_on_every_queue(void **state)
{
	(void)state;
	with_keys();
	known.dhgroup = NVMF_AUTH_DH_2048;
	bring_up();
	assert_true(bed.host.authenticated);
	assert_int_equal(bed.target.counters->authentications, 1 + IO_QUEUES);
	fill(mem.out, 65536, 3);
	assert_int_equal(do_write(0, mem.out, 65536), NVME_SC_SUCCESS);
	assert_int_equal(do_read(0, mem.in, 65536), NVME_SC_SUCCESS);
	assert_memory_equal(mem.in, mem.out, 65536);
}

static void each_hash_and_group_is_had(void **state)
{
	(void)state;
	with_keys();
	known.hash = NVMF_AUTH_SHA512;
	known.dhgroup = NVMF_AUTH_DH_8192; /* the longest messages there are */
	bed.config.io_queues = 1;
	bring_up();
	assert_true(bed.host.authenticated);
}

static void one_side_alone_proves_itself_where_that_is_enough(void **state)
{
	(void)state;
	with_keys();
	bed.config.ctrl_key.len = 0;
	bring_up();
	assert_true(bed.host.authenticated);
}

static void who_has_no_key_or_another_is_not_let_in(void **state)
{
	(void)state;
	with_keys();
	bed.config.key = known.ctrl_key;
	assert_non_null(strstr(failed_for(), "does not take"));
	assert_int_equal(bed.target.counters->authentications_failed, 1);
}

static void a_host_without_a_key_says_what_is_missing(void **state)
{
	(void)state;
	with_keys();
	bed.config.key.len = bed.config.ctrl_key.len = 0;
	assert_non_null(strstr(failed_for(), "DH-HMAC-CHAP"));
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_AUTH);
}

/* It is not what it says, or somebody stands between. */
static void a_target_with_another_key_is_not_trusted(void **state)
{
	(void)state;
	with_keys();
	bed.config.ctrl_key = known.key;
	assert_non_null(strstr(failed_for(), "controller's key"));
	assert_int_equal(bed.target.counters->authentications_failed, 1); /* it was told */
}

/* Not even if it does not ask for anything itself. */
static void a_target_that_is_to_prove_itself_has_to(void **state)
{
	(void)state;
	with_keys();
	target_host_remove(&bed.target, &known);
	assert_non_null(strstr(failed_for(), "no key"));
}

static void say_discovery(void *arg, enum host_state from, enum host_state to, uint64_t now_ns)
{
	(void)arg;
	(void)from;
	(void)now_ns;
	bed.subsys.discovery = to == HOST_IDENTIFY;
}

/* For discovery nobody proves anything, but it is who asks that says that it is. */
static void who_says_that_it_is_for_discovery_proves_itself_all_the_same(void **state)
{
	(void)state;
	with_keys();
	bed.config.changed = say_discovery;
	bed.config.loss_timeout_ns = PATIENCE;
	bring_up();
	assert_int_equal(bed.host.id.cntrltype, NVME_CNTRLTYPE_DISCOVERY);
	target_host_remove(&bed.target, &known); /* it asks for nothing itself */
	host_reset(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_FAILED || bed.host.reconnects);
	assert_string_equal(host_state_name(bed.host.state), "failed");
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_AUTH);
}

static void a_live_host_authenticates_again(void **state)
{
	(void)state;
	with_keys();
	assert_int_equal(host_authenticate(&bed.host, time_now_ns()), -ENOTCONN);
	bring_up();
	for (unsigned int i = 1; i <= 3; i++) {
		assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
		assert_int_equal(host_authenticate(&bed.host, time_now_ns()), -EALREADY);
		assert_int_equal(do_read(0, mem.in, 4096), NVME_SC_SUCCESS);
		turn_until(!bed.host.auth.again);
		assert_int_equal(bed.target.counters->authentications, 1 + IO_QUEUES + i);
	}
	known.key.key[0] ^= 1; /* changed meanwhile */
	assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_AUTH);
}

static void a_host_that_shuts_down_meanwhile_does(void **state)
{
	(void)state;
	with_keys();
	bring_up();
	assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED);
	assert_false(bed.host.broken_off);
}

static void a_host_that_shuts_down_and_is_refused_meanwhile_has_ended(void **state)
{
	(void)state;
	with_keys();
	bring_up();
	known.key.key[0] ^= 1; /* changed meanwhile */
	assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED || bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.state, HOST_CLOSED);
	assert_true(bed.host.broken_off);
}

/* --- by a channel that authentication secures ---------------------------------------------------
 */

/* All of its queues are by TLS, and as many authentications there were. */
static void assert_secured(unsigned int authentications)
{
	const struct target_ctrl *c = list_entry(bed.subsys.ctrls.next, struct target_ctrl, link);

	assert_true(bed.host.secured && bed.host.authenticated);
	assert_true(list_is_single(&bed.subsys.ctrls));
	for (int i = 0; i <= IO_QUEUES; i++)
		assert_true(c->queues[i]->secure && c->queues[i]->psk);
	assert_int_equal(bed.target.counters->authentications, authentications);
	for (size_t i = 0; i < sizeof(bed.host.auth.psk); i++)
		assert_int_equal(((const uint8_t *)&bed.host.auth.psk)[i], 0);
}

static void all_queues_go_by_the_key_that_one_has_made(void **state)
{
	(void)state;
	bring_up();
	assert_secured(1);
	fill(mem.out, 65536, 3);
	assert_int_equal(do_write(0, mem.out, 65536), NVME_SC_SUCCESS);
	assert_int_equal(do_read(0, mem.in, 65536), NVME_SC_SUCCESS);
	assert_memory_equal(mem.in, mem.out, 65536);
	host_shutdown(&bed.host, time_now_ns());
	turn_until(bed.host.state == HOST_CLOSED);
	turn_until(list_empty(&bed.target.psks));
}

static void a_host_that_asks_for_no_proof_has_its_channel_too(void **state)
{
	(void)state;
	bed.config.ctrl_key.len = 0;
	bring_up();
	assert_secured(1);
}

static void the_longest_hash_and_group_make_a_key(void **state)
{
	(void)state;
	known.hash = NVMF_AUTH_SHA384;
	known.dhgroup = NVMF_AUTH_DH_8192;
	bring_up();
	assert_secured(1);
}

static void after_a_loss_another_key_is_made(void **state)
{
	(void)state;
	bed.config.reconnect_delay_ns = NSEC_PER_MSEC;
	bed.config.loss_timeout_ns = PATIENCE;
	bring_up();
	for (unsigned int i = 2; i <= 3; i++) {
		host_reset(&bed.host, time_now_ns());
		assert_false(bed.host.secured);
		turn_until(bed.host.state == HOST_LIVE && list_is_single(&bed.subsys.ctrls));
		assert_secured(i);
	}
}

static void a_live_host_has_its_key_replaced(void **state)
{
	(void)state;
	bring_up();
	for (unsigned int i = 2; i <= 3; i++) {
		assert_int_equal(host_authenticate(&bed.host, time_now_ns()), 0);
		turn_until(!bed.host.auth.again);
		assert_secured(i);
		assert_int_equal(do_read(0, mem.in, 4096), NVME_SC_SUCCESS);
	}
}

static void where_no_tls_is_spoken_a_host_that_wants_it_does_not_stay(void **state)
{
	(void)state;
	secure(TARGET_TLS_NONE);
	assert_non_null(strstr(failed_for(), "no key of TLS"));
	assert_int_equal(bed.host.failure.state, HOST_AUTHENTICATE);
}

static void what_makes_no_key_is_not_agreed_on(void **state)
{
	(void)state;
	known.hash = NVMF_AUTH_SHA512;
	assert_non_null(strstr(failed_for(), "hash"));
}

/* As if the target had begun anew. */
static void forget_its_key(void *arg, enum host_state from, enum host_state to, uint64_t now_ns)
{
	(void)arg;
	(void)from;
	(void)now_ns;
	if (to == HOST_SECURE)
		target_host_remove(&bed.target, &known);
}

static void a_key_that_the_target_does_not_know_is_no_key(void **state)
{
	(void)state;
	bed.config.changed = forget_its_key;
	begin();
	turn_until(bed.host.state == HOST_FAILED);
	assert_int_equal(bed.host.failure.kind, HOST_FAIL_OPEN);
	assert_non_null(strstr(bed.here->ops->error(bed.here), "TLS fails"));
	assert_non_null(strstr(bed.here->ops->error(bed.here), "made by authentication"));
}

static void discovery_is_plain(void **state)
{
	(void)state;
	bed.here->ops->destroy(bed.here);
	create_host(NVMF_DISCOVERY_NQN);
	strcpy(bed.config.subnqn, NVMF_DISCOVERY_NQN);
	bring_up();
	assert_false(bed.host.secured);
	assert_int_equal(bed.target.counters->authentications, 0);
}

static void it_takes_a_key_and_a_transport_that_has_tls(void **state)
{
	struct host_transport none = *bed.here->ops->queues;

	(void)state;
	bed.config.key.len = bed.config.ctrl_key.len = 0;
	assert_int_equal(host_init(&bed.host, &bed.config, bed.here->ops->queues, bed.here,
				   bed.queues, bed.places, mem.scratch),
			 -EINVAL);
	bed.config.key = known.key;
	none.secure = NULL;
	assert_int_equal(host_init(&bed.host, &bed.config, &none, bed.here, bed.queues, bed.places,
				   mem.scratch),
			 -EINVAL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest of_concatenation[] = {
		BED_TEST(all_queues_go_by_the_key_that_one_has_made),
		BED_TEST(a_host_that_asks_for_no_proof_has_its_channel_too),
		BED_TEST(the_longest_hash_and_group_make_a_key),
		BED_TEST(after_a_loss_another_key_is_made),
		BED_TEST(a_live_host_has_its_key_replaced),
		BED_TEST(where_no_tls_is_spoken_a_host_that_wants_it_does_not_stay),
		BED_TEST(what_makes_no_key_is_not_agreed_on),
		BED_TEST(a_key_that_the_target_does_not_know_is_no_key),
		BED_TEST(discovery_is_plain),
		BED_TEST(it_takes_a_key_and_a_transport_that_has_tls),
		BED_TEST(who_has_no_key_or_another_is_not_let_in),
		BED_TEST(a_target_with_another_key_is_not_trusted),
		BED_TEST(who_says_that_it_is_for_discovery_proves_itself_all_the_same),
	};
	const struct CMUnitTest tests[] = {
		BED_TEST(who_has_the_keys_is_let_in_on_every_queue),
		BED_TEST(each_hash_and_group_is_had),
		BED_TEST(one_side_alone_proves_itself_where_that_is_enough),
		BED_TEST(who_has_no_key_or_another_is_not_let_in),
		BED_TEST(a_host_without_a_key_says_what_is_missing),
		BED_TEST(a_target_with_another_key_is_not_trusted),
		BED_TEST(a_target_that_is_to_prove_itself_has_to),
		BED_TEST(who_says_that_it_is_for_discovery_proves_itself_all_the_same),
		BED_TEST(a_live_host_authenticates_again),
		BED_TEST(a_host_that_shuts_down_meanwhile_does),
		BED_TEST(a_host_that_shuts_down_and_is_refused_meanwhile_has_ended),
	};

	if (transport_choose(argc, argv))
		return 2;
	return concat ? cmocka_run_group_tests(of_concatenation, NULL, NULL)
		      : cmocka_run_group_tests(tests, NULL, NULL);
}
