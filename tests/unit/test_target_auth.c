/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hosts that have to prove who they are: a host plays its side of DH-HMAC-CHAP message by message,
 * and gets them wrong in every way.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "auth_player.h"

/* --- who is let in ------------------------------------------------------------------------------
 */

static void who_has_not_proved_himself_can_do_nothing_else(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_IDENTIFY, 0, 4096);

	(void)state;
	assert_int_equal(connect_admin(), NVMF_CONNECT_ATR_BIT | 1);
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), STATUS(NVME_SC_AUTH_REQUIRED));
	s.cdw10 = NVME_CNS_CTRL;
	assert_int_equal(bed_exec(p.q, &s, NULL), STATUS(NVME_SC_AUTH_REQUIRED));
	s = bed_sqe(0xc0, 0, 0);
	assert_int_equal(bed_exec(p.q, &s, NULL), STATUS(NVME_SC_AUTH_REQUIRED));
}

static void hosts_prove_themselves_by_each_hash_and_group(void **state)
{
	(void)state;
	for (uint8_t hash = 1; hash <= 3; hash++)
		for (uint8_t g = 0; g <= NVMF_AUTH_DH_8192; g++) {
			p.host.hash = hash;
			p.host.dhgroup = g;
			p.mutual = (hash + g) % 2;
			connect_admin();
			authenticate();
			assert_int_equal(p.ch.hash, hash);
			assert_int_equal(p.ch.dhgroup, g);
			assert_int_equal(bed_property_get(p.q, NVME_PROP_CSTS, false), 0);
			bed_queue_close(p.q);
		}
	assert_int_equal(p.bed->target.counters->authentications, 18);
	assert_int_equal(p.bed->target.counters->authentications_failed, 0);
}

/* Only then: what the controller has proved is nothing that the host relies on before. */
static void a_host_that_asks_for_proof_is_let_in_when_it_has_seen_it(void **state)
{
	(void)state;
	p.mutual = true;
	connect_admin();
	to_the_reply();
	send_reply();
	fetch_success1();
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), STATUS(NVME_SC_AUTH_REQUIRED));
	assert_int_equal(send_success2(), NVME_SC_SUCCESS);
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), NVME_SC_SUCCESS);
}

static void each_queue_of_a_controller_has_to_prove_itself(void **state)
{
	struct bed_connect a = bed_connect_args(1, 1);
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512);
	uint64_t result;

	(void)state;
	connected_and_authenticated();
	bed_queue_open(p.bed, &p.bed->io, 1);
	assert_int_equal(bed_connect(&p.bed->io, &a, &result), NVME_SC_SUCCESS);
	assert_int_equal(result, NVMF_CONNECT_ATR_BIT | 1);
	p.q = &p.bed->io;
	assert_int_equal(bed_exec(p.q, &s, NULL), STATUS(NVME_SC_AUTH_REQUIRED));
	authenticate();
	assert_int_equal(bed_exec(p.q, &s, NULL), NVME_SC_SUCCESS);
}

/* Whoever knows by what names a host goes keeps it from none of its queues. */
static void who_has_not_proved_himself_takes_no_queue_id(void **state)
{
	struct bed_connect a = bed_connect_args(1, 1);
	struct bed_queue *io = &p.bed->io, *other = &p.bed->other;
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512);
	const struct target_ctrl *c;
	uint64_t result;

	(void)state;
	connected_and_authenticated();
	c = list_entry(p.bed->subsys.ctrls.next, struct target_ctrl, link);
	bed_queue_open(p.bed, other, 1);
	assert_int_equal(bed_connect(other, &a, &result), NVME_SC_SUCCESS);
	bed_queue_open(p.bed, io, 1);
	assert_int_equal(c->io_queues, 0);
	assert_int_equal(bed_connect(io, &a, &result), NVME_SC_SUCCESS);
	assert_int_equal(result, NVMF_CONNECT_ATR_BIT | 1);
	p.q = io;
	authenticate();
	assert_int_equal(bed_exec(io, &s, NULL), NVME_SC_SUCCESS);
	assert_int_equal(c->io_queues, 1);
	/* It is too late for the other one, even if it is the same host's. */
	p.q = other;
	to_the_reply();
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
	bed_queue_close(other);
	bed_queue_open(p.bed, other, 1);
	assert_int_equal(bed_connect(other, &a, &result), STATUS(NVME_SC_CMD_SEQ_ERROR));
	assert_int_equal(bed_exec(io, &s, NULL), NVME_SC_SUCCESS);
	assert_int_equal(c->io_queues, 1);
}

/* What it has goes on; of what comes in its name nobody knows whose it is. */
static void who_has_got_a_key_proves_itself_on_the_next_queue(void **state)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	struct nvme_sqe s = bed_sqe(NVME_IO_READ, 1, 512);
	uint64_t result;

	(void)state;
	target_host_remove(&p.bed->target, &p.host);
	bed_queue_open(p.bed, p.q, 0);
	assert_int_equal(bed_connect(p.q, &a, &result), NVME_SC_SUCCESS);
	assert_int_equal(result, 1);
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), NVME_SC_SUCCESS);
	assert_int_equal(target_host_add(&p.bed->target, &p.host), 0);
	assert_int_equal(bed_property_get(p.q, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
	a = bed_connect_args(1, 1);
	bed_queue_open(p.bed, &p.bed->io, 1);
	assert_int_equal(bed_connect(&p.bed->io, &a, &result), NVME_SC_SUCCESS);
	assert_int_equal(result, NVMF_CONNECT_ATR_BIT | 1);
	p.q = &p.bed->io;
	assert_int_equal(bed_exec(p.q, &s, NULL), STATUS(NVME_SC_AUTH_REQUIRED));
	authenticate();
	assert_int_equal(bed_exec(p.q, &s, NULL), NVME_SC_SUCCESS);
}

/* It goes with its controller, and keeps that no longer than others do. */
static void who_has_not_proved_himself_goes_with_the_controller(void **state)
{
	struct bed_queue *other = &p.bed->other;
	struct bed_connect a;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		connected_and_authenticated();
		a = bed_connect_args(
			1, list_entry(p.bed->subsys.ctrls.prev, struct target_ctrl, link)->cntlid);
		bed_queue_open(p.bed, other, 1);
		assert_int_equal(bed_connect(other, &a, NULL), NVME_SC_SUCCESS);
		if (i) /* alone, where it ends first */
			bed_queue_close(other);
		assert_int_equal(p.bed->ctrls_gone, i);
		bed_queue_close(p.q);
		assert_int_equal(p.bed->ctrls_gone, i + 1);
		if (!i) {
			assert_true(other->disconnect_asked);
			bed_queue_close(other);
		}
	}
}

static void hosts_without_a_key_and_discovery_are_asked_for_none(void **state)
{
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	uint64_t result;

	(void)state;
	strcpy(a.data.hostnqn, "nqn.2026-11.io.example:other");
	bed_queue_open(p.bed, p.q, 0);
	assert_int_equal(bed_connect(p.q, &a, &result), NVME_SC_SUCCESS);
	assert_int_equal(result, 1);
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), NVME_SC_SUCCESS);
	/* One that insists cannot be served. */
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_NOT_USABLE);
	bed_queue_close(p.q);
	a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);
	strcpy(a.data.subnqn, NVMF_DISCOVERY_NQN);
	bed_queue_open(p.bed, p.q, 0);
	assert_int_equal(bed_connect(p.q, &a, &result), NVME_SC_SUCCESS);
	assert_int_equal(result, 1);
	assert_int_equal(send_negotiate(), STATUS(NVME_SC_INVALID_OPCODE));
}

static void an_entry_without_a_name_is_every_hosts_that_has_none(void **state)
{
	struct target_host any = {.key = key_of(CTRL_KEY)};

	(void)state;
	assert_int_equal(target_host_add(&p.bed->target, &any), 0);
	connected_and_authenticated(); /* by its own, still */
	target_host_remove(&p.bed->target, &p.host);
	bed_queue_close(p.q);
	connect_admin();
	to_the_reply_by(CTRL_KEY);
	send_reply();
	fetch_success1();
}

static void what_is_no_host_is_not_added(void **state)
{
	struct target *t = &p.bed->target;
	struct target_host h = p.host;

	(void)state;
	assert_int_equal(target_host_add(t, &h), -EEXIST);
	strcpy(h.nqn, "no name");
	assert_int_equal(target_host_add(t, &h), -EINVAL);
	strcpy(h.nqn, "nqn.2026-11.io.example:h");
	h.hash = 4;
	assert_int_equal(target_host_add(t, &h), -EINVAL);
	h.hash = 0;
	h.dhgroup = 6;
	assert_int_equal(target_host_add(t, &h), -EINVAL);
	h.dhgroup = 0;
	h.key.len = 0; /* that of the controller alone */
	assert_int_equal(target_host_add(t, &h), -EINVAL);
	h.key.len = 32;
	t->env.random = NULL;
	assert_int_equal(target_host_add(t, &h), -EINVAL);
}

static void hosts_that_may_not_connect_are_told_so_and_may_lose_what_they_had(void **state)
{
	static const char *const others[] = {"nqn.2026-11.io.example:other"};
	static const char *const both[] = {"nqn.2026-11.io.example:other", BED_HOSTNQN};
	struct bed_connect a = bed_connect_args(0, NVMF_CNTLID_DYNAMIC);

	(void)state;
	target_subsys_allow(&p.bed->subsys, others, 1);
	bed_queue_open(p.bed, p.q, 0);
	assert_int_equal(bed_connect(p.q, &a, NULL), STATUS(NVME_SC_CONNECT_INVALID_HOST));
	target_subsys_allow(&p.bed->subsys, both, 2);
	assert_int_equal(bed_connect(p.q, &a, NULL), NVME_SC_SUCCESS);
	authenticate();
	target_subsys_allow(&p.bed->subsys, NULL, 0);
	assert_false(p.q->disconnect_asked);
	target_subsys_allow(&p.bed->subsys, others, 1);
	assert_true(p.q->disconnect_asked);
}

/* --- who is not ---------------------------------------------------------------------------------
 */

static void a_wrong_key_fails(void **state)
{
	(void)state;
	connect_admin();
	to_the_reply_by(CTRL_KEY); /* the same bytes, another transformation */
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
	assert_int_equal(p.bed->target.counters->authentications_failed, 1);
}

static void what_was_right_once_is_wrong_the_second_time(void **state)
{
	uint8_t old[NVMF_AUTH_MESSAGE_MAX];

	(void)state;
	connect_admin();
	authenticate();
	memcpy(old, p.reply, p.reply_len);
	bed_queue_close(p.q);
	connect_admin();
	to_the_reply();
	assert_memory_not_equal(old, p.reply, p.reply_len);
	assert_int_equal(send_bytes(old, p.reply_len), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_FAILED);
}

static void messages_that_are_cut_off_fail(void **state)
{
	uint8_t negotiate[72];
	struct wcursor w = wcursor_init(negotiate, sizeof(negotiate));

	(void)state;
	nvmf_auth_negotiate_put(&w, &p.offer);
	for (size_t n = 1; n < sizeof(negotiate); n++) {
		connect_admin();
		assert_int_equal(send_bytes(negotiate, n), NVME_SC_SUCCESS);
		assert_failure(NVMF_AUTH_INCORRECT_PAYLOAD);
		bed_queue_close(p.q);
	}
	p.mutual = true;
	p.host.dhgroup = NVMF_AUTH_DH_2048;
	for (size_t n = 1; n < 16 + 2 * 32 + 256; n += n < 96 ? 5 : 60) {
		connect_admin();
		to_the_reply();
		assert_int_equal(send_bytes(p.reply, n), NVME_SC_SUCCESS);
		assert_failure(NVMF_AUTH_INCORRECT_PAYLOAD);
		bed_queue_close(p.q);
	}
}

/* What stands in the wrong place, of the wrong length or of another transaction. */
static void replies_that_do_not_fit_fail(void **state)
{
	static const struct {
		size_t at;
		uint8_t is, failure;
	} wrong[] = {
		{4, 0, NVMF_AUTH_INCORRECT_PAYLOAD},	/* T_ID */
		{6, 48, NVMF_AUTH_INCORRECT_PAYLOAD},	/* the hash's length */
		{6, 0, NVMF_AUTH_INCORRECT_PAYLOAD},	/* of nothing, which would be equal */
		{10, 1, NVMF_AUTH_INCORRECT_PAYLOAD},	/* a DH value in the NULL group */
		{1, 3, NVMF_AUTH_INCORRECT_MESSAGE},	/* Success1 */
		{1, 0xf1, NVMF_AUTH_INCORRECT_MESSAGE}, /* Failure1 is not the host's */
		{0, 2, NVMF_AUTH_INCORRECT_MESSAGE},	/* no type of message */
		{16, 0, NVMF_AUTH_FAILED},		/* the response */
	};

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++) {
		connect_admin();
		to_the_reply();
		p.reply[wrong[i].at] = wrong[i].is ? wrong[i].is : (uint8_t)~p.reply[wrong[i].at];
		if (wrong[i].at == 6 && !wrong[i].is)
			p.reply[6] = 0;
		send_reply();
		assert_failure(wrong[i].failure);
		bed_queue_close(p.q);
	}
}

static void a_dh_value_that_gives_the_secret_away_fails(void **state)
{
	(void)state;
	p.host.dhgroup = NVMF_AUTH_DH_2048;
	p.dh_bad = true;
	connect_admin();
	to_the_reply();
	send_reply();
	assert_fails_with(NVMF_AUTH_INCORRECT_PAYLOAD);
}

/* What the host offers is not protected: less than was configured is nobody's wish. */
static void less_than_is_asked_for_fails_and_more_is_taken(void **state)
{
	(void)state;
	p.host.hash = NVMF_AUTH_SHA384;
	p.host.dhgroup = NVMF_AUTH_DH_3072;
	p.offer.halen = 1;
	connect_admin();
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_HASH_UNUSABLE);
	bed_queue_close(p.q);
	p.offer.halen = 3;
	p.offer.dhlen = 2;
	connect_admin();
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_DHGROUP_UNUSABLE);
	bed_queue_close(p.q);
	p.offer.hashes[0] = 9;
	p.offer.hashes[1] = 3;
	p.offer.dhlen = 3;
	p.offer.dhgroups[1] = 200;
	p.offer.dhgroups[2] = NVMF_AUTH_DH_4096;
	connect_admin();
	authenticate();
	assert_int_equal(p.ch.hash, NVMF_AUTH_SHA512);
	assert_int_equal(p.ch.dhgroup, NVMF_AUTH_DH_4096);
}

static void what_we_do_not_have_is_not_negotiated(void **state)
{
	static const struct {
		size_t at;
		uint8_t is, failure;
	} wrong[] = {
		{6, 1, NVMF_AUTH_CONCAT_MISMATCH},     {7, 0, NVMF_AUTH_NOT_USABLE},
		{8, 2, NVMF_AUTH_NOT_USABLE},	       {10, 31, NVMF_AUTH_INCORRECT_PAYLOAD},
		{11, 31, NVMF_AUTH_INCORRECT_PAYLOAD}, {10, 0, NVMF_AUTH_HASH_UNUSABLE},
		{11, 0, NVMF_AUTH_DHGROUP_UNUSABLE},   {7, 2, NVMF_AUTH_INCORRECT_PAYLOAD},
		{1, 5, NVMF_AUTH_INCORRECT_MESSAGE},
	};

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(wrong); i++) {
		uint8_t buf[72];
		struct wcursor w = wcursor_init(buf, sizeof(buf));

		nvmf_auth_negotiate_put(&w, &p.offer);
		buf[wrong[i].at] = wrong[i].is;
		connect_admin();
		assert_int_equal(send_bytes(buf, sizeof(buf)), NVME_SC_SUCCESS);
		assert_failure(wrong[i].failure);
		bed_queue_close(p.q);
	}
}

static void what_is_not_due_fails(void **state)
{
	(void)state;
	connect_admin();
	assert_fails_with(NVMF_AUTH_INCORRECT_MESSAGE); /* nothing to fetch */
	bed_queue_close(p.q);
	connect_admin();
	assert_int_equal(send_success2(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_INCORRECT_MESSAGE);
	bed_queue_close(p.q);
	connect_admin();
	to_the_reply();
	assert_fails_with(NVMF_AUTH_INCORRECT_MESSAGE); /* a second challenge */
	bed_queue_close(p.q);
	/* A proof that was right, and is sent again before its success is fetched. */
	connect_admin();
	to_the_reply();
	send_reply();
	send_reply();
	assert_fails_with(NVMF_AUTH_INCORRECT_MESSAGE);
}

static void whom_the_controller_cannot_convince_it_lets_go(void **state)
{
	static const uint8_t failure2[16] = {NVMF_AUTH_COMMON, NVMF_AUTH_FAILURE2, 0, 0,
					     T_ID & 0xff,      T_ID >> 8,	   1, 1};

	(void)state;
	p.mutual = true;
	connect_admin();
	to_the_reply();
	send_reply();
	fetch_success1();
	assert_int_equal(send_bytes(failure2, sizeof(failure2)), NVME_SC_SUCCESS);
	assert_int_equal(bed_property_set(p.q, NVME_PROP_CC, EN), STATUS(NVME_SC_AUTH_REQUIRED));
	p.bed->now += 2 * NSEC_PER_SEC;
	target_tick(&p.bed->target, p.bed->now);
	assert_true(p.q->disconnect_asked);
}

static void who_asks_a_target_without_a_key_for_proof_fails(void **state)
{
	(void)state;
	p.host.ctrl_key.len = 0;
	p.mutual = true;
	connect_admin();
	to_the_reply();
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
}

/* Who sends our challenge back would have us answer it for him. */
static void our_own_challenge_is_not_answered(void **state)
{
	(void)state;
	p.mutual = true;
	connect_admin();
	to_the_reply();
	memcpy(p.reply + 16 + p.ch.hl, p.cval, p.ch.hl);
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
}

static void commands_that_are_none_of_this_protocol_get_a_status(void **state)
{
	struct nvmf_auth_cmd cmd = {.spsp0 = 1, .spsp1 = 1, .secp = NVMF_AUTH_SECP, .len = 64};

	(void)state;
	connect_admin();
	for (int i = 0; i < 5; i++) {
		struct nvmf_auth_cmd c = cmd;
		struct nvme_sqe s = bed_sqe(NVME_FABRICS, 0, i == 4 ? 8192 : 64);

		c.spsp0 += i == 0;
		c.spsp1 += i == 1;
		c.secp += i == 2;
		c.len = i == 3 ? 0 : i == 4 ? 8192 : 64;
		nvmf_auth_cmd_to_sqe(&c, NVMF_AUTH_SEND, &s);
		assert_int_equal(bed_exec(p.q, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	}
	authenticate();
}

static void a_message_that_finds_no_room_can_be_fetched_once_more(void **state)
{
	struct nvme_sqe s;

	(void)state;
	connect_admin();
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	s = auth_sqe(NVMF_AUTH_RECV, 47);
	assert_int_equal(bed_exec(p.q, &s, NULL), STATUS(NVME_SC_INVALID_FIELD));
	fetch_challenge();
	make_reply(HOST_KEY, CTRL_KEY);
	send_reply();
	fetch_success1();
}

/* --- time and memory ----------------------------------------------------------------------------
 */

static void who_does_not_finish_in_time_is_disconnected(void **state)
{
	(void)state;
	connect_admin();
	to_the_reply();
	p.bed->now += AUTH_TIME / 2;
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	fetch_challenge();
	p.bed->now += AUTH_TIME / 2;
	target_tick(&p.bed->target, p.bed->now);
	assert_true(p.q->disconnect_asked);
	assert_string_equal(p.q->tq.why, "its host has not proved who it is");
	bed_queue_close(p.q);
	/* Who has is not. */
	connect_admin();
	authenticate();
	p.bed->now += AUTH_TIME / 8;
	target_tick(&p.bed->target, p.bed->now);
	assert_false(p.q->disconnect_asked);
}

static void who_begins_again_and_again_is_failed(void **state)
{
	unsigned int before;

	(void)state;
	connect_admin();
	before = p.bed->allocated;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
		fetch_challenge();
		assert_int_equal(p.bed->allocated, before + 1);
	}
	assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
	assert_fails_with(NVMF_AUTH_FAILED);
	assert_int_equal(p.bed->allocated, before + 1);
}

static void what_a_transaction_took_is_given_back_with_it(void **state)
{
	unsigned int before;

	(void)state;
	connect_admin();
	before = p.bed->allocated;
	authenticate();
	assert_int_equal(p.bed->allocated, before);
	assert_null(p.q->tq.auth);
}

/* --- what is counted ----------------------------------------------------------------------------
 */

static struct target_figures figures;
static struct figures_host_row hosts[FIGURES_HOSTS];
static struct figures_op_row ops[FIGURES_OPS];
static struct figures_error_row errors[FIGURES_ERRORS];
static struct figures_queue_row queues[FIGURES_QUEUES];
static struct figures_queue_error_row queue_errors[FIGURES_QUEUE_ERRORS];
static struct figures_reason_row reasons[FIGURES_REASONS];

#define UNPROVED "its host has not proved who it is"

static void count_from_here(void)
{
	memset(reasons, 0, sizeof(reasons));
	figures.hosts = hosts;
	figures.ops = ops;
	figures.errors = errors;
	figures.queues = queues;
	figures.queue_errors = queue_errors;
	figures.reasons = reasons;
	figures_init(&figures);
	p.bed->target.group.figures = &figures;
}

/* How many connects have failed, all and for one reason. */
static void assert_failed(uint64_t all, const char *reason, uint64_t for_that)
{
	uint64_t sum = 0, of_it = 0;

	for (size_t i = 0; i < FIGURES_REASONS; i++) {
		sum += reasons[i].count;
		if (reasons[i].count && strcmp((const char *)reasons[i].reason, reason) == 0)
			of_it += reasons[i].count;
	}
	assert_int_equal(sum, all);
	assert_int_equal(of_it, for_that);
}

static void time_is_up(void)
{
	p.bed->now += AUTH_TIME;
	target_tick(&p.bed->target, p.bed->now);
	assert_true(p.q->disconnect_asked);
	bed_queue_close(p.q);
}

/* Whoever fails, whoever goes without a word and whoever stays without one: once each. */
static void a_host_that_has_not_proved_itself_is_a_connect_that_failed(void **state)
{
	(void)state;
	count_from_here();
	connect_admin();
	to_the_reply_by(CTRL_KEY);
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
	bed_queue_close(p.q);
	assert_failed(1, nvmf_auth_failure_name(NVMF_AUTH_FAILED), 1);
	connect_admin();
	bed_queue_close(p.q);
	assert_failed(2, UNPROVED, 1);
	connect_admin();
	to_the_reply();
	bed_queue_close(p.q);
	assert_failed(3, UNPROVED, 2);
	connect_admin();
	time_is_up();
	assert_failed(4, UNPROVED, 3);
	assert_int_equal(p.bed->target.counters->authentications_failed, 4);
	assert_int_equal(p.bed->target.counters->queues_failed, 0);
}

static void so_is_a_queue_of_one_that_has(void **state)
{
	struct bed_connect a = bed_connect_args(1, 1);

	(void)state;
	count_from_here();
	connected_and_authenticated();
	p.q = &p.bed->io;
	for (int i = 0; i < 3; i++) {
		bed_queue_open(p.bed, p.q, 1);
		assert_int_equal(bed_connect(p.q, &a, NULL), NVME_SC_SUCCESS);
		if (i == 0)
			bed_queue_close(p.q);
		else if (i == 1)
			time_is_up();
		assert_failed(min_of(i + 1, 2), UNPROVED, min_of(i + 1, 2));
	}
	bed_queue_close(&p.bed->admin); /* its controller goes before it */
	time_is_up();
	assert_failed(3, UNPROVED, 3);
}

static void one_that_fails_later_has_come(void **state)
{
	(void)state;
	count_from_here();
	connected_and_authenticated();
	to_the_reply_by(CTRL_KEY);
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
	bed_queue_close(p.q);
	assert_failed(0, UNPROVED, 0);
	assert_int_equal(p.bed->target.counters->authentications_failed, 1);
}

/* --- once more ----------------------------------------------------------------------------------
 */

static void a_live_queue_is_authenticated_again_and_goes_on_meanwhile(void **state)
{
	(void)state;
	connected_and_authenticated();
	for (int i = 0; i < 20; i++) { /* it may as often as it likes */
		p.t_id++;
		p.mutual = i % 2;
		assert_int_equal(send_negotiate(), NVME_SC_SUCCESS);
		assert_int_equal(bed_property_get(p.q, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
		fetch_challenge();
		make_reply(HOST_KEY, CTRL_KEY);
		send_reply();
		assert_int_equal(bed_property_get(p.q, NVME_PROP_CSTS, false), NVME_CSTS_RDY);
		fetch_success1();
		if (p.mutual)
			assert_int_equal(send_success2(), NVME_SC_SUCCESS);
	}
	p.bed->now += NSEC_PER_SEC;
	target_tick(&p.bed->target, p.bed->now);
	assert_false(p.q->disconnect_asked);
}

static void a_live_controller_ends_when_its_host_fails(void **state)
{
	(void)state;
	connected_and_authenticated();
	to_the_reply_by(CTRL_KEY);
	send_reply();
	assert_fails_with(NVMF_AUTH_FAILED);
	bed_queue_close(p.q);
	assert_int_equal(p.bed->ctrls_gone, 1);
}

static void an_answer_on_a_live_queue_that_comes_late_fails(void **state)
{
	struct nvme_sqe s = bed_sqe(NVME_ADMIN_KEEP_ALIVE, 0, 0);

	(void)state;
	connected_and_authenticated();
	to_the_reply();
	for (int i = 0; i < 5; i++) {
		p.bed->now += 4 * NSEC_PER_SEC;
		target_tick(&p.bed->target, p.bed->now);
		assert_int_equal(bed_exec(p.q, &s, NULL), NVME_SC_SUCCESS);
	}
	send_reply();
	assert_fails_with(NVMF_AUTH_INCORRECT_MESSAGE);
}

#define T(name) cmocka_unit_test_setup_teardown(name, player_set_up, player_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(who_has_not_proved_himself_can_do_nothing_else),
		T(hosts_prove_themselves_by_each_hash_and_group),
		T(a_host_that_asks_for_proof_is_let_in_when_it_has_seen_it),
		T(each_queue_of_a_controller_has_to_prove_itself),
		T(who_has_not_proved_himself_takes_no_queue_id),
		T(who_has_got_a_key_proves_itself_on_the_next_queue),
		T(who_has_not_proved_himself_goes_with_the_controller),
		T(hosts_without_a_key_and_discovery_are_asked_for_none),
		T(an_entry_without_a_name_is_every_hosts_that_has_none),
		T(what_is_no_host_is_not_added),
		T(hosts_that_may_not_connect_are_told_so_and_may_lose_what_they_had),
		T(a_wrong_key_fails),
		T(what_was_right_once_is_wrong_the_second_time),
		T(messages_that_are_cut_off_fail),
		T(replies_that_do_not_fit_fail),
		T(a_dh_value_that_gives_the_secret_away_fails),
		T(less_than_is_asked_for_fails_and_more_is_taken),
		T(what_we_do_not_have_is_not_negotiated),
		T(what_is_not_due_fails),
		T(whom_the_controller_cannot_convince_it_lets_go),
		T(who_asks_a_target_without_a_key_for_proof_fails),
		T(our_own_challenge_is_not_answered),
		T(commands_that_are_none_of_this_protocol_get_a_status),
		T(a_message_that_finds_no_room_can_be_fetched_once_more),
		T(who_does_not_finish_in_time_is_disconnected),
		T(who_begins_again_and_again_is_failed),
		T(what_a_transaction_took_is_given_back_with_it),
		T(a_host_that_has_not_proved_itself_is_a_connect_that_failed),
		T(so_is_a_queue_of_one_that_has),
		T(one_that_fails_later_has_come),
		T(a_live_queue_is_authenticated_again_and_goes_on_meanwhile),
		T(a_live_controller_ends_when_its_host_fails),
		T(an_answer_on_a_live_queue_that_comes_late_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
