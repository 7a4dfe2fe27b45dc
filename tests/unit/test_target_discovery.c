/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Discovery controllers that stay: who hears of which change, and what the log says then. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "target_bed.h"
#include "wire/nvme_log.h"

#define OTHER_NQN  "nqn.2026-11.io.example:other"
#define UNIQUE_NQN "nqn.2026-11.io.example:discovery"
#define STRANGER   "nqn.2014-08.org.nvmexpress:uuid:22222222-2222-4333-8444-555555555555"

static struct bed *bed;
static struct bed_cmd *aer[2]; /* of the host of bed.admin, and of the stranger of bed.other */

static struct bed_queue *queue_of(unsigned who)
{
	return who ? &bed->other : &bed->admin;
}

static void ask(unsigned who)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_ASYNC_EVENT, 0, 0);

	aer[who] = bed_send(queue_of(who), &s);
	assert_false(aer[who]->answered);
}

static uint16_t connect_as(unsigned who, const char *subnqn, uint32_t kato_ms)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

	strcpy(a.data.subnqn, subnqn);
	a.co.kato_ms = kato_ms;
	if (who)
		strcpy(a.data.hostnqn, STRANGER);
	bed_queue_open(bed, queue_of(who), 0);
	return bed_connect(queue_of(who), &a, NULL);
}

static void come(unsigned who)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_SET_FEATURES, 0, 0);

	assert_int_equal(connect_as(who, NVMF_DISCOVERY_NQN, 10000), 0);
	assert_int_equal(bed_property_set(queue_of(who), NVME_PROP_CC, NVME_CC_EN), 0);
	s.cdw10 = NVME_FID_ASYNC_EVENT;
	s.cdw11 = NVME_OAES_DISCOVERY;
	assert_int_equal(bed_exec(queue_of(who), &s, NULL), 0);
	ask(who);
}

static int begin(void **state)
{
	(void)state;
	bed = bed_create();
	come(0);
	come(1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	bed_destroy(bed);
	return 0;
}

static void tick(void)
{
	if (bed->now >= target_next_deadline(&bed->target))
		target_tick(&bed->target, bed->now);
	assert_true(target_next_deadline(&bed->target) > bed->now);
}

struct log {
	struct nvmf_disc_hdr hdr;
	struct nvmf_disc_entry e[8];
};

static struct log read_log(unsigned who, bool rae, uint8_t lsp)
{
	struct nvme_get_log g = {
		.lid = NVME_LID_DISCOVERY, .rae = rae, .lsp = lsp, .len = 9 * 1024};
	struct nvme_sqe s = bed_sqe(0, 0, (uint32_t)g.len);
	struct cursor c = cursor_init(bed->memory, g.len);
	struct log log;

	nvme_get_log_to_sqe(&g, &s);
	assert_int_equal(bed_exec(queue_of(who), &s, NULL), 0);
	nvmf_disc_hdr_get(&c, &log.hdr);
	for (int i = 0; i < 8; i++)
		nvmf_disc_entry_get(&c, &log.e[i]);
	return log;
}

/* What was not told before; and it may be told again. */
static bool told(unsigned who)
{
	bool answered;

	tick();
	answered = aer[who]->answered;
	if (answered) {
		assert_int_equal(aer[who]->cqe.result,
				 NVME_AER_RESULT(NVME_AER_NOTICE, NVME_NOTICE_DISC_CHANGED,
						 NVME_LID_DISCOVERY));
		bed_release(aer[who]);
		(void)read_log(who, false, 0);
		ask(who);
	}
	return answered;
}

static void subsys_gone(struct target_subsys *s)
{
	assert_int_equal(s->queues, 0);
}

static void who_sees_a_change_is_told_and_nobody_else(void **state)
{
	static const char *const mine[] = {BED_HOSTNQN};
	static const char *const both[] = {STRANGER, BED_HOSTNQN};
	static struct target_subsys *const none[1], *some[1];
	static const struct target_referral referrals[] = {
		{.trtype = NVMF_TRTYPE_TCP, .adrfam = NVMF_ADRFAM_IPV4, .traddr = "192.0.2.99"}};
	struct target_subsys other = {.nqn = OTHER_NQN, .hosts = mine, .host_count = 1};
	struct target_port p = {.ops = &bed_ops, .adrfam = NVMF_ADRFAM_IPV4, .traddr = "192.0.2.8"};
	uint64_t strangers = read_log(1, true, 0).hdr.genctr;

	(void)state;
	some[0] = &bed->subsys;
	assert_int_equal(target_subsys_add(&bed->target, &other), 0);
	assert_true(told(0));
	assert_false(told(1));
	assert_int_equal(read_log(1, true, 0).hdr.genctr, strangers);
	assert_int_equal(read_log(0, true, 0).hdr.genctr, bed->target.genctr);
	target_subsys_allow(&other, both, 2);
	assert_false(told(0));
	assert_true(told(1));
	assert_true(read_log(1, true, 0).hdr.genctr > strangers);
	/* Not the stranger, whom nothing is left but what he sees already. */
	target_subsys_allow(&other, mine, 1);
	target_subsys_allow(&bed->subsys, mine, 1);
	assert_false(told(0));
	assert_true(told(1));
	target_port_add(&bed->target, &p);
	assert_true(told(0));
	assert_false(told(1));
	target_port_offer(&bed->target, &p, some, 1);
	assert_true(told(0));
	target_port_offer(&bed->target, &p, none, 0);
	assert_true(told(0));
	assert_false(told(1));
	target_port_offer(&bed->target, &bed->port, some, 1);
	assert_true(told(0));
	/* Another port's referrals and number are not told here. */
	target_port_tell(&bed->target, &p, 77, referrals, 1);
	assert_false(told(0) || told(1));
	target_port_tell(&bed->target, &bed->port, 5, referrals, 1);
	assert_true(told(0));
	assert_true(told(1));
	target_port_remove(&bed->target, &p);
	assert_false(told(0) || told(1));
	target_subsys_remove(&other, subsys_gone);
	assert_false(told(0) || told(1));
}

static void many_changes_in_one_turn_are_one(void **state)
{
	struct target_port p[3];
	uint64_t before = read_log(0, true, 0).hdr.genctr;

	(void)state;
	for (int i = 0; i < 3; i++) {
		p[i] = (struct target_port){
			.ops = &bed_ops, .adrfam = NVMF_ADRFAM_IPV4, .traddr = "192.0.2.20"};
		target_port_add(&bed->target, &p[i]);
	}
	assert_int_equal(target_next_deadline(&bed->target), 0);
	assert_true(told(0));
	assert_false(told(0));
	assert_true(read_log(0, true, 0).hdr.genctr > before);
	/* What has come and gone in between was never there. */
	for (int i = 0; i < 3; i++)
		target_port_remove(&bed->target, &p[i]);
	assert_true(told(0));
	p[0] = (struct target_port){
		.ops = &bed_ops, .adrfam = NVMF_ADRFAM_IPV4, .traddr = "192.0.2.20"};
	target_port_add(&bed->target, &p[0]);
	target_port_remove(&bed->target, &p[0]);
	assert_false(told(0));
}

static void it_is_told_again_once_the_log_was_read_unless_that_was_retained(void **state)
{
	struct target_port p[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		p[i] = (struct target_port){
			.ops = &bed_ops, .adrfam = NVMF_ADRFAM_IPV4, .traddr = "192.0.2.20"};
	target_port_add(&bed->target, &p[0]);
	tick();
	assert_true(aer[0]->answered);
	bed_release(aer[0]);
	ask(0);
	target_port_add(&bed->target, &p[1]);
	tick();
	(void)read_log(0, true, 0);
	target_port_add(&bed->target, &p[2]);
	tick();
	assert_false(aer[0]->answered);
	(void)read_log(0, false, 0);
	target_port_remove(&bed->target, &p[2]);
	tick();
	assert_true(aer[0]->answered);
}

/* Base 2.0 figure 294: subtype 3 alone has flags. */
static void the_log_says_that_one_may_stay_and_where_it_is_the_same(void **state)
{
	static struct target_subsys *const none[1];
	/* The bed's end comes after this one's. */
	static struct target_port p = {
		.ops = &bed_ops, .adrfam = NVMF_ADRFAM_IPV4, .traddr = "192.0.2.8"};
	static struct target_subsys other = {.nqn = OTHER_NQN};
	static struct target_subsys *others[2];
	struct log log;

	(void)state;
	target_port_add(&bed->target, &p);
	log = read_log(0, true, 0);
	assert_int_equal(log.hdr.numrec, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(log.e[i].eflags,
				 log.e[i].subtype == NVMF_SUBTYPE_DISCOVERY
					 ? NVMF_EFLAGS_EPCSD | NVMF_EFLAGS_DUPRETINFO
					 : 0);
	/* A subsystem more at the other port. */
	assert_int_equal(target_subsys_add(&bed->target, &other), 0);
	others[0] = &bed->subsys;
	target_port_offer(&bed->target, &bed->port, others, 1);
	log = read_log(0, true, 0);
	assert_int_equal(log.hdr.numrec, 4);
	for (int i = 0; i < 4; i++)
		if (log.e[i].subtype == NVMF_SUBTYPE_DISCOVERY)
			assert_int_equal(log.e[i].eflags,
					 NVMF_EFLAGS_EPCSD | (log.e[i].portid == bed->port.portid
								      ? NVMF_EFLAGS_DUPRETINFO
								      : 0));
	/* Port local entries only. */
	log = read_log(0, true, NVME_LSP_DISCOVERY_PLEO);
	assert_int_equal(log.hdr.numrec, 2);
	assert_int_equal(log.e[0].portid, bed->port.portid);
	assert_int_equal(log.e[1].portid, bed->port.portid);
	assert_int_equal(log.e[2].portid, 0);
	target_port_offer(&bed->target, &bed->port, none, 0);
	assert_int_equal(read_log(0, true, NVME_LSP_DISCOVERY_PLEO).hdr.numrec, 1);
}

static void discovery_is_found_by_either_of_its_names(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_IDENTIFY, 0, NVME_IDENTIFY_LEN);
	struct cursor c = cursor_init(bed->memory, NVME_IDENTIFY_LEN);
	struct target_subsys same = {.nqn = NVMF_DISCOVERY_NQN};
	struct nvme_id_ctrl id;

	(void)state;
	bed_queue_close(&bed->other);
	assert_int_equal(connect_as(1, UNIQUE_NQN, 0), STATUS(NVME_SC_CONNECT_INVALID_PARAM));
	bed_queue_close(&bed->other);
	target_discovery_name(&bed->target, UNIQUE_NQN);
	assert_true(told(0));
	assert_string_equal(read_log(0, true, 0).e[0].subnqn, UNIQUE_NQN);
	come(1); /* by the well-known name */
	bed_queue_close(&bed->other);
	assert_int_equal(connect_as(1, UNIQUE_NQN, 10000), 0);
	assert_int_equal(bed_property_set(&bed->other, NVME_PROP_CC, NVME_CC_EN), 0);
	s.cdw10 = NVME_CNS_CTRL;
	assert_int_equal(bed_exec(&bed->other, &s, NULL), 0);
	nvme_id_ctrl_get(&c, &id);
	assert_string_equal(id.subnqn, UNIQUE_NQN);
	assert_int_equal(id.cntrltype, NVME_CNTRLTYPE_DISCOVERY);
	assert_int_equal(id.oaes, NVME_OAES_DISCOVERY);
	assert_int_equal(target_subsys_add(&bed->target, &same), -EEXIST);
	strcpy(same.nqn, UNIQUE_NQN);
	assert_int_equal(target_subsys_add(&bed->target, &same), -EEXIST);
	target_discovery_name(&bed->target, NULL);
	assert_string_equal(read_log(0, true, 0).e[0].subnqn, NVMF_DISCOVERY_NQN);
}

static void a_discovery_controller_stays_as_long_as_its_host_says(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);

	(void)state;
	for (int i = 0; i < 60; i++) {
		bed->now += 9 * NSEC_PER_SEC;
		target_tick(&bed->target, bed->now);
		assert_int_equal(bed_exec(&bed->admin, &s, NULL), 0);
	}
	assert_false(bed->admin.disconnect_asked);
	assert_true(bed->other.disconnect_asked); /* nobody has kept it alive */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(who_sees_a_change_is_told_and_nobody_else),
		TEST(many_changes_in_one_turn_are_one),
		TEST(it_is_told_again_once_the_log_was_read_unless_that_was_retained),
		TEST(the_log_says_that_one_may_stay_and_where_it_is_the_same),
		TEST(discovery_is_found_by_either_of_its_names),
		TEST(a_discovery_controller_stays_as_long_as_its_host_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
