/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the target makes of TLS: at which port who is heard, and whom a handshake lets be who. */
#include <stdio.h>
#include <string.h>

#include "nvmf/target/internal.h"
#include "tcp_bed.h"

#define IDENTITY "NVMe0R01 " HOSTNQN " " NQN

static char refused_for[128];

static void note(void *ctx, const struct target_event *e)
{
	(void)ctx;
	if (e->type == TARGET_EVENT_REJECTED)
		snprintf(refused_for, sizeof(refused_for), "%s", e->why);
}

static int set_up(void **state)
{
	int error = tcp_bed_set_up(state);

	bed.target.env.event = note;
	refused_for[0] = 0;
	return error;
}

/* The first byte of what is no PDU, or of what is. */
static bool is_heard(uint8_t first, enum target_tls tls)
{
	struct peer *p = peer_open();
	bool heard;

	target_port_secure(&bed.target, &bed.port, tls);
	refused_for[0] = 0;
	bed.tt->now_ns = bed.now_ns;
	assert_true(tcp_queue_wire(p->q, &first, 1));
	heard = p->q->state != TCP_QUEUE_DYING;
	peer_close(p);
	return heard;
}

static void the_first_byte_says_whether_a_host_is_heard(void **state)
{
	const uint8_t plain = NVME_TCP_ICREQ, tls = TCP_TLS_FIRST_BYTE;

	(void)state;
	assert_true(is_heard(plain, TARGET_TLS_NONE));
	assert_true(is_heard(plain, TARGET_TLS_OFFERED));
	assert_true(is_heard(tls, TARGET_TLS_OFFERED));
	assert_true(is_heard(tls, TARGET_TLS_REQUIRED));
	assert_string_equal(refused_for, "");
	assert_int_equal(bed.target.counters->connections_rejected, 0);
	assert_false(is_heard(plain, TARGET_TLS_REQUIRED));
	assert_string_equal(refused_for, "it does not speak TLS, and the port requires it");
	assert_false(is_heard(tls, TARGET_TLS_NONE));
	assert_string_equal(refused_for, "it speaks TLS, and the port does not");
	assert_int_equal(bed.target.counters->connections_rejected, 2);
}

/* A handshake that does not go on has the time that any host has until its Connect. */
static void a_handshake_that_dawdles_ends(void **state)
{
	static const uint8_t part[] = {TCP_TLS_FIRST_BYTE, 3, 1, 2, 0, 1, 0};
	struct peer *p = peer_open();

	(void)state;
	target_port_secure(&bed.target, &bed.port, TARGET_TLS_REQUIRED);
	for (size_t i = 0; i < sizeof(part); i++) {
		assert_true(tcp_queue_wire(p->q, &part[i], 1));
		bed.now_ns += NSEC_PER_SEC;
		peer_turn(p);
		assert_non_null(p->q);
	}
	bed.now_ns += TARGET_CONNECT_NS;
	target_tick(&bed.target, bed.now_ns);
	assert_int_equal(p->q->state, TCP_QUEUE_DYING);
	p->q = NULL;
	peer_close(p);
}

static void rubbish_in_place_of_a_handshake_is_refused_with_its_reason(void **state)
{
	static const uint8_t rubbish[] = {TCP_TLS_FIRST_BYTE, 3, 1, 0, 4, 1, 2, 3, 4};
	struct peer *p = peer_open();

	(void)state;
	target_port_secure(&bed.target, &bed.port, TARGET_TLS_REQUIRED);
	bed.tt->now_ns = bed.now_ns;
	assert_true(tcp_queue_wire(p->q, rubbish, sizeof(rubbish)));
	if (p->q->state != TCP_QUEUE_DYING)
		tcp_queue_cut(p->q);
	assert_int_equal(p->q->state, TCP_QUEUE_DYING);
	assert_int_equal(memcmp(refused_for, "TLS: ", 5), 0);
	p->q = NULL;
	peer_close(p);
}

/* --- whom it lets be who ------------------------------------------------------------------------
 */

static uint16_t connects(struct peer *p, uint16_t qid, uint16_t cntlid)
{
	static const struct nvme_tcp_icreq zeroes;

	peer_init(p, &zeroes);
	peer_connect_send(p, qid, cntlid, 0);
	return peer_response(p).status & NVME_STATUS_CODE;
}

static void a_host_is_who_the_handshake_has_proved_it_to_be(void **state)
{
	static const struct {
		const char *identity;
		uint16_t status;
	} cases[] = {
		{IDENTITY, NVME_SC_SUCCESS},
		{"NVMe1R02 " HOSTNQN " " NQN " x=", NVME_SC_SUCCESS},
		{"NVMe0R01 " HOSTNQN "0 " NQN, NVME_SC_CONNECT_INVALID_HOST},
		{"NVMe0R01 " HOSTNQN " " NQN "0", NVME_SC_CONNECT_INVALID_HOST},
		{"NVMe0R01 " HOSTNQN " " NVMF_DISCOVERY_NQN, NVME_SC_CONNECT_INVALID_HOST},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct peer *p = peer_open();

		assert_true(target_tls_proved(&p->q->tq, cases[i].identity));
		assert_int_equal(connects(p, 0, NVMF_CNTLID_DYNAMIC), cases[i].status);
		peer_close(p);
	}
}

/* Nor does one who has proved it have queues of one who has not. */
static void nobody_comes_beside_one_who_has_proved_who_he_is(void **state)
{
	(void)state;
	for (int secure = 0; secure < 2; secure++) {
		struct peer *admin, *io[2];
		uint16_t cntlid;

		admin = peer_open();
		if (secure)
			assert_true(target_tls_proved(&admin->q->tq, IDENTITY));
		assert_int_equal(connects(admin, 0, NVMF_CNTLID_DYNAMIC), NVME_SC_SUCCESS);
		cntlid = admin->q->tq.ctrl->cntlid;
		admin->q->tq.ctrl->csts |= NVME_CSTS_RDY;
		for (int i = 0; i < 2; i++) {
			io[i] = peer_open();
			if (i)
				assert_true(target_tls_proved(&io[i]->q->tq, IDENTITY));
			assert_int_equal(connects(io[i], 1, cntlid),
					 i == secure ? NVME_SC_SUCCESS
						     : NVME_SC_CONNECT_INVALID_HOST);
		}
		peer_close(io[0]);
		peer_close(io[1]);
		peer_close(admin);
	}
}

/* --- keys ---------------------------------------------------------------------------------------
 */

static struct auth_key key = {.hash = NVMF_AUTH_SHA256, .len = 32, .key = "k"};

static bool tls_key(void *ctx, const char *hostnqn, struct auth_key *ret)
{
	(void)ctx;
	*ret = key;
	return strcmp(hostnqn, HOSTNQN) == 0;
}

static void an_identity_is_known_if_the_key_of_its_host_makes_it(void **state)
{
	struct auth_psk psk, found;

	(void)state;
	assert_false(target_tls_find(&bed.target, IDENTITY, &found)); /* there are no keys */
	bed.target.env.tls_key = tls_key;
	for (unsigned int i = 0; i < 4; i++) {
		const struct auth_psk_way way = {.version = i & 1, .compat = i & 2};

		bed.target.env.tls_compat = way.compat;
		assert_true(auth_psk_derive(&key, way, HOSTNQN, NQN, &psk));
		assert_true(target_tls_find(&bed.target, psk.identity, &found));
		assert_int_equal(found.len, 32);
		assert_memory_equal(found.key, psk.key, 32);
		bed.target.env.tls_compat = !way.compat;
		/* In version 0 both have the same name, and other keys. */
		assert_int_equal(target_tls_find(&bed.target, psk.identity, &found), !way.version);
		assert_memory_not_equal(found.key, psk.key, 32);
	}
	assert_false(target_tls_find(&bed.target, "NVMe0R01 " HOSTNQN "0 " NQN, &found));
	assert_false(target_tls_find(&bed.target, "NVMe0R02 " HOSTNQN " " NQN, &found));
	assert_false(target_tls_find(&bed.target, "NVMe0G01 " HOSTNQN " " NQN, &found));
	assert_false(target_tls_find(&bed.target, "NVMe1R01 " HOSTNQN " " NQN " abc=", &found));
	assert_false(target_tls_find(&bed.target, "", &found));
}

/* --- from group to group ------------------------------------------------------------------------
 */

static const struct nvme_tcp_icreq zeroes;

static int set_up_2(void **state)
{
	int error = tcp_bed_set_up_tls(state);

	bed.target.env.event = note;
	refused_for[0] = 0;
	return error;
}

/* The next I/O queue is the second group's. */
static struct peer *io_open(void)
{
	struct peer *p = peer_open();

	bed.target.turn = &bed.target.group;
	return p;
}

/* And is handed on where it is to be: once. */
static void wire(struct peer *p, const void *bytes, size_t len)
{
	bool there = p->q->tt != bed.tt;

	if (peer_wire(p, bytes, len))
		return;
	assert_false(there);
	tcp_hand(p->q);
	run_groups();
}

/* Connect of I/O queue 2, all of it in records; how long they are. */
static size_t connect_sealed(struct peer *p, uint8_t *ret, size_t room)
{
	uint8_t bytes[2048];

	p->keep = bytes;
	p->kept = 0;
	peer_connect_send(p, 2, 1, 0);
	p->keep = NULL;
	return peer_seal(p, bytes, p->kept, ret, room);
}

static void reads_what_it_writes(struct peer *p, uint8_t seed)
{
	struct nvme_sqe s = peer_rw(NVME_IO_WRITE, 1, seed, 512);
	uint8_t data[512];

	memset(data, seed, sizeof(data));
	s.sgl = (struct nvme_sgl){.subtype = NVME_SGL_OFFSET, .len = 512};
	peer_command(p, &s, data, sizeof(data));
	assert_int_equal(peer_response(p).status, NVME_SC_SUCCESS);
	s = peer_rw(NVME_IO_READ, 2, seed, 512);
	peer_command(p, &s, NULL, 0);
	assert_memory_equal(peer_next(p, NVME_TCP_C2H_DATA)->data, data, sizeof(data));
	assert_int_equal(peer_response(p).status, NVME_SC_SUCCESS);
}

/* In records of every size, of which a part is there when it goes and the rest comes then. */
static void what_is_said_and_what_is_sealed_go_along(void **state)
{
	static const size_t sizes[] = {0, 40, 72, 73, 90, 600};
	struct pair p = pair_open(NULL, 0);
	uint8_t sealed[8192];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (size_t at = 0; at < sizeof(sealed); at += 37) {
			struct peer *io = io_open();
			size_t len;

			peer_init(io, &zeroes);
			io->record = sizes[i];
			len = connect_sealed(io, sealed, sizeof(sealed));
			wire(io, sealed, min_of(at, len));
			wire(io, sealed + min_of(at, len), len - min_of(at, len));
			run_groups();
			peer_take(io);
			assert_int_equal(peer_response(io).status, NVME_SC_SUCCESS);
			assert_ptr_equal(io->q->tq.group, &bed.group2);
			reads_what_it_writes(io, (uint8_t)at);
			peer_close(io);
			if (at > len)
				break;
		}
	assert_int_equal(bed.target.counters->queues_failed, 0);
	pair_close(&p);
}

/* That it is agreed on what is spoken was not sent yet when it goes: it is there. */
static void what_is_not_sent_yet_goes_along(void **state)
{
	struct pair p = pair_open(NULL, 0);
	uint8_t bytes[2048], sealed[4096];
	struct peer *io = io_open();
	struct nvme_tcp_icresp r;
	struct cursor c;
	size_t len;

	(void)state;
	memset(bytes, 0, 128);
	bytes[2] = bytes[4] = 128; /* ICReq */
	io->keep = bytes;
	io->kept = 128;
	peer_connect_send(io, 2, 1, 0);
	io->keep = NULL;
	len = peer_seal(io, bytes, io->kept, sealed, sizeof(sealed));
	assert_false(peer_wire(io, sealed, len));
	tcp_hand(io->q);
	/* Connect is not answered yet. */
	assert_true(target_group_process(&bed.group2, bed.now_ns));
	assert_false(list_empty(&io->q->sending));
	run_groups();
	peer_take(io);
	c = cursor_init(peer_next(io, NVME_TCP_ICRESP)->head, 120);
	nvme_tcp_icresp_get(&c, &r);
	assert_int_equal(r.maxh2cdata, TARGET_DATA_MAX);
	assert_int_equal(peer_response(io).status, NVME_SC_SUCCESS);
	assert_ptr_equal(io->q->tq.group, &bed.group2);
	peer_close(io);
	pair_close(&p);
}

/* What a host may not send behind Connect, it is told of there. */
static void what_is_glued_to_connect_ends_it_there(void **state)
{
	struct pair p = pair_open(NULL, 0);
	uint8_t sealed[8192];
	const void *out;
	size_t len, more;

	(void)state;
	for (int i = 0; i < 5; i++) {
		struct peer *io = io_open();
		const uint8_t again[72] = {NVME_TCP_CMD, 0, 72, 0, 72};

		peer_init(io, &zeroes);
		len = connect_sealed(io, sealed, sizeof(sealed));
		switch (i) {
		case 0: /* a second command */
			len += peer_seal(io, again, 72, sealed + len, sizeof(sealed) - len);
			break;
		case 1: /* no record */
			memset(sealed + len, 0x55, 1000);
			len += 1000;
			break;
		case 2: /* one that is not what was sent */
			more = peer_seal(io, again, 72, sealed + len, sizeof(sealed) - len);
			sealed[len + more - 1] ^= 1;
			len += more;
			break;
		case 3: /* that nothing more is said */
			tcp_tls_close(io->tls);
			more = tcp_tls_out(io->tls, &out);
			memcpy(sealed + len, out, more);
			len += more;
			break;
		default: /* no PDU */
			len += peer_seal(io, sealed, 1000, sealed + len, sizeof(sealed) - len);
			break;
		}
		assert_false(peer_wire(io, sealed, len));
		tcp_hand(io->q);
		assert_true(target_group_process(&bed.group2, bed.now_ns));
		assert_ptr_equal(io->q->tq.group, &bed.group2);
		assert_int_equal(io->q->state, TCP_QUEUE_DYING);
		if (i == 1 || i == 2)
			assert_int_equal(memcmp(io->q->tq.why, "TLS: ", 5), 0);
		peer_turn(io);
		if (i == 0)
			peer_terminated(io, NVME_TCP_FES_SEQUENCE, 0);
		peer_close(io);
		assert_int_equal(bed.shares2.queue_count, 1);
	}
	assert_int_equal(bed.target.counters->queues_failed, 4);
	assert_string_equal(refused_for, "");
	reads_what_it_writes(p.io, 7);
	pair_close(&p);
}

/* After so many bytes of a handshake, and of Connect behind it. */
static void who_goes_in_the_middle_leaves_nothing_behind(void **state)
{
	struct pair p = pair_open(NULL, 0);
	uint8_t flight[4096];
	const void *out;
	size_t len;

	(void)state;
	for (size_t at = 1; at < 700; at += 41) {
		struct peer *io = io_open();

		len = tcp_tls_out(io->tls, &out);
		memcpy(flight, out, len);
		assert_true(peer_wire(io, flight, min_of(at, len)));
		if (at % 2)
			tcp_queue_cut(io->q);
		peer_close(io);
	}
	for (size_t at = 1; at < 1200; at += 41) {
		struct peer *io = io_open();

		peer_init(io, &zeroes);
		len = connect_sealed(io, flight, sizeof(flight));
		if (!peer_wire(io, flight, min_of(at, len)))
			tcp_hand(io->q); /* and it is gone when it arrives, or there */
		run_groups();
		tcp_queue_cut(io->q);
		assert_int_equal(io->q->state, TCP_QUEUE_DYING);
		peer_close(io);
	}
	assert_int_equal(bed.shares.queue_count, 1);
	assert_int_equal(bed.shares2.queue_count, 1);
	assert_int_equal(bed.port.connections, 2);
	pair_close(&p);
}

static void not_random(void *ctx, void *p, size_t len)
{
	(void)ctx;
	memset(p, 1, len);
}

/* By a key that an authentication has generated: who has come by it need prove nothing more, and it
 * is known until the last such queue has ended, wherever that was. */
static void a_generated_key_goes_along(void **state)
{
	static struct target_host known = {.nqn = HOSTNQN, .key = {.len = 32, .key = "h"}};
	struct pair p;

	(void)state;
	known.link = (struct list){0};
	bed.target.env.random = not_random;
	assert_int_equal(target_host_add(&bed.target, &known), 0);
	bed.psk = (struct auth_psk){.hash = NVMF_AUTH_SHA256, .len = 32, .key = "g"};
	strcpy(bed.psk.identity, "NVMe1G01 " HOSTNQN " " NQN " abc=");
	assert_true(tls_keep(&bed.target, &bed.psk, &known.key));
	p = pair_open(NULL, 0); /* whose Connect says that it need not prove itself */
	assert_ptr_equal(p.io->q->tq.group, &bed.group2);
	assert_non_null(p.io->q->tq.psk);
	assert_ptr_equal(p.io->q->tq.psk, p.admin->q->tq.psk);
	assert_true(p.io->q->tq.authenticated);
	reads_what_it_writes(p.io, 3);
	assert_false(list_empty(&bed.target.psks));
	pair_close(&p);
	assert_true(list_empty(&bed.target.psks));
}

#define BED_TEST(f)   cmocka_unit_test_setup_teardown(f, set_up, tcp_bed_tear_down)
#define BED_TEST_2(f) cmocka_unit_test_setup_teardown(f, set_up_2, tcp_bed_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(the_first_byte_says_whether_a_host_is_heard),
		BED_TEST(a_handshake_that_dawdles_ends),
		BED_TEST(rubbish_in_place_of_a_handshake_is_refused_with_its_reason),
		BED_TEST(a_host_is_who_the_handshake_has_proved_it_to_be),
		BED_TEST(nobody_comes_beside_one_who_has_proved_who_he_is),
		BED_TEST(an_identity_is_known_if_the_key_of_its_host_makes_it),
		BED_TEST_2(what_is_said_and_what_is_sealed_go_along),
		BED_TEST_2(what_is_not_sent_yet_goes_along),
		BED_TEST_2(what_is_glued_to_connect_ends_it_there),
		BED_TEST_2(who_goes_in_the_middle_leaves_nothing_behind),
		BED_TEST_2(a_generated_key_goes_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
