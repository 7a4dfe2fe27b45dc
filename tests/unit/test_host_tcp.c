/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The host's side of NVMe/TCP over sockets: data, and connections that end or are none. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_tcp_bed.h"
#include "wire/nvme_auth.h"

static void data_come_and_go_as_was_agreed(void **state)
{
	static const uint8_t cpdas[] = {0, 3, 17, NVME_TCP_PDA_MAX};

	(void)state;
	for (uint8_t dgst = 0; dgst < 4; dgst++)
		for (unsigned i = 0; i < ARRAY_SIZE(cpdas); i++) {
			again(dgst, cpdas[i], 1 << 20);
			bring_up();
			assert_int_equal(far.icreq.dgst, dgst);
			assert_int_equal(far.icreq.maxr2t, TCP_HOST_R2TS_MAX - 1);
			fill(near.data, CAPSULE);
			submit_io(true, CAPSULE); /* in the capsule */
			assert_int_equal(far.capsule, CAPSULE);
			assert_memory_equal(far.place, near.data, CAPSULE);
			respond_with(0, 0);
			wait_done();
			fill(far.place, 8192);
			memset(near.data, 0, 8192);
			submit_io(false, 8192);
			assert_int_equal(far.capsule, 0);
			send_data(0, 1024, 0);
			fill(far.place, 8192);
			memmove(far.place, far.place + 1024, 7168);
			send_data(1024, 7168, NVME_TCP_DATA_LAST);
			respond_with(0, 0);
			wait_done();
			assert_int_equal(near.req.error, 0);
			fill(far.place, 8192);
			assert_memory_equal(near.data, far.place, 8192);
		}
}

static void success_with_the_data_is_enough(void **state)
{
	(void)state;
	bring_up();
	fill(far.place, 4096);
	submit_io(false, 4096);
	send_data(0, 4096, NVME_TCP_DATA_LAST | NVME_TCP_DATA_SUCCESS);
	wait_done();
	assert_int_equal(near.req.error, 0);
	assert_int_equal(near.req.cqe.status, 0);
	assert_memory_equal(near.data, far.place, 4096);
}

/* The target has them to carry out meanwhile. */
static void many_commands_do_not_wait_for_the_end_of_a_turn(void **state)
{
	enum { COMMANDS = TCP_ENOUGH_BARE + 8 };
	static struct host_request reqs[COMMANDS];
	struct tcp_host *t;

	(void)state;
	bring_up();
	t = tcp_host_of(near.t);
	t->batching = true;
	for (unsigned i = 0; i < COMMANDS; i++) {
		reqs[i] = (struct host_request){.done = done};
		host_prepare_read(&reqs[i], 1, 0, 1, near.data, 512);
		assert_int_equal(host_submit(&near.host, 1, &reqs[i], time_now_ns()), 0);
		assert_int_equal(t->queues[1].tx.bare, (i + 1) % TCP_ENOUGH_BARE);
	}
	t->batching = false;
}

/* Nor do those with data in their capsules. */
static void many_capsules_do_not_wait_for_the_end_of_a_turn(void **state)
{
	enum { COMMANDS = 2 * TCP_ENOUGH_CAPSULES / CAPSULE };
	static struct host_request reqs[COMMANDS];
	struct tcp_host *t;
	size_t waited = 0;

	(void)state;
	bring_up();
	t = tcp_host_of(near.t);
	t->batching = true;
	for (unsigned i = 0; i < COMMANDS; i++) {
		reqs[i] = (struct host_request){.done = done};
		host_prepare_write(&reqs[i], 1, 0, CAPSULE / 512, near.data, CAPSULE, false);
		assert_int_equal(host_submit(&near.host, 1, &reqs[i], time_now_ns()), 0);
		assert_true(t->queues[1].tx.bytes < TCP_ENOUGH_CAPSULES);
		waited = max_of(waited, t->queues[1].tx.bytes);
	}
	assert_true(waited > TCP_ENOUGH_CAPSULES / 2);
	t->batching = false;
}

static void more_are_sent(struct host_request *req, uint64_t now_ns)
{
	static struct host_request reqs[TCP_ENOUGH_BARE];

	done(req, now_ns);
	for (unsigned i = 0; i < ARRAY_SIZE(reqs); i++) {
		reqs[i] = (struct host_request){.done = done};
		host_prepare_read(&reqs[i], 1, 0, 1, near.data, 512);
		assert_int_equal(host_submit(&near.host, 1, &reqs[i], now_ns), 0);
	}
}

static unsigned heard;

static void hears(struct host_request *req, uint64_t now_ns)
{
	(void)now_ns;
	assert_int_equal(req->error, 0);
	heard++;
}

/* Be it that commands which are sent in the middle of that find out that there is nobody. */
static void what_came_before_a_reset_is_heard(void **state)
{
	static struct host_request second;
	const struct linger now = {.l_onoff = 1};
	struct nvme_sqe sqe, swap;

	(void)state;
	bring_up();
	heard = 0;
	submit_io(true, 512);
	near.req.done = more_are_sent;
	sqe = far.sqe;
	second = (struct host_request){.done = hears};
	host_prepare_write(&second, 1, 0, 1, near.data, 512, false);
	assert_int_equal(host_submit(&near.host, 1, &second, time_now_ns()), 0);
	expect(1, NVME_TCP_CMD);
	swap = far.sqe;
	assert_int_equal(setsockopt(far.fd[1], IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int)), 0);
	far.sqe = sqe;
	respond_with(0, 0);
	far.sqe = swap;
	respond_with(0, 0);
	assert_int_equal(setsockopt(far.fd[1], IPPROTO_TCP, TCP_CORK, &(int){0}, sizeof(int)), 0);
	assert_int_equal(setsockopt(far.fd[1], SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	close(far.fd[1]);
	far.fd[1] = -1;
	near_turn();
	assert_int_equal(heard, 1);
	assert_int_not_equal(near.host.state, HOST_LIVE);
}

/* Several R2Ts at a time, and no more in one PDU than the target takes. */
static void data_are_sent_as_they_are_asked_for(void **state)
{
	(void)state;
	again(3, 7, 8192);
	bring_up();
	fill(near.data, 64 << 10);
	memset(far.place, 0, sizeof(far.place));
	submit_io(true, 64 << 10);
	assert_int_equal(far.sqe.sgl.type, NVME_SGL_TRANSPORT_DATA_BLOCK);
	assert_int_equal(far.sqe.sgl.subtype, NVME_SGL_TRANSPORT);
	send_r2t(77, 44 << 10, 20 << 10);
	send_r2t(78, 0, 8192);
	send_r2t(79, 8192, 36 << 10);
	for (uint32_t at = 44 << 10; at < 64 << 10; at += 8192) {
		expect(1, NVME_TCP_H2C_DATA);
		assert_int_equal(far.data.ttag, 77);
		assert_int_equal(far.data.datao, at);
		assert_int_equal(!!(far.flags & NVME_TCP_DATA_LAST), at + 8192 >= 64 << 10);
	}
	expect(1, NVME_TCP_H2C_DATA);
	assert_int_equal(far.data.ttag, 78);
	assert_true(far.flags & NVME_TCP_DATA_LAST);
	for (uint32_t at = 8192; at < 44 << 10; at += 8192) {
		expect(1, NVME_TCP_H2C_DATA);
		assert_int_equal(far.data.ttag, 79);
	}
	assert_memory_equal(far.place, near.data, 64 << 10);
	respond_with(0, 0);
	wait_done();
	assert_int_equal(near.req.error, 0);
}

static void damaged_data_fail_the_command_alone(void **state)
{
	(void)state;
	again(NVME_TCP_IC_DDGST, 0, 8192);
	bring_up();
	for (int success = 0; success < 2; success++) {
		static struct tcp_out o;
		struct wcursor w;
		struct nvme_tcp_data d = {.datal = 4096};

		submit_io(false, 4096);
		d.cccid = far.sqe.cid;
		tcp_out_init(&o, NULL);
		w = tcp_out_pdu(&o, &far.tx[1], NVME_TCP_C2H_DATA,
				NVME_TCP_DATA_LAST | (success ? NVME_TCP_DATA_SUCCESS : 0), 4096);
		nvme_tcp_data_put(&w, &d);
		tcp_out_pdu_end(&o);
		tcp_out_data(&o, &far.tx[1], far.place, 4096, 0);
		o.tail[3] ^= 0x40;
		tcp_tx_push(&far.tx[1], &o);
		far_flush();
		if (!success)
			respond_with(0, 0);
		wait_done();
		assert_int_equal(near.req.error, 0);
		assert_int_equal(near.req.cqe.status, NVME_SC_TRANSIENT_TRANSPORT);
	}
	submit_io(false, 512);
	send_data(0, 512, NVME_TCP_DATA_LAST | NVME_TCP_DATA_SUCCESS);
	wait_done();
	assert_int_equal(near.req.cqe.status, 0);
}

static void no_random(void *arg, void *p, size_t len)
{
	(void)arg;
	memset(p, 7, len);
}

/* A message of that length, to whoever has room for more; with the success, or one behind it. */
static void send_message(size_t len, bool apart)
{
	assert_int_equal(nvmf_fctype(&far.sqe), NVMF_AUTH_RECV);
	assert_in_range(len, 1, far.sqe.sgl.len - 1);
	send_data(0, (uint32_t)len, NVME_TCP_DATA_LAST | (apart ? 0 : NVME_TCP_DATA_SUCCESS));
	if (apart)
		respond_with(0, 0);
}

/* Of what is fetched for authentication the host says how much it has room for. */
static void a_message_ends_where_it_ends(void **state)
{
	static const char text[] = "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
	const uint8_t cval[32] = {1};
	const char *why;

	(void)state;
	for (int apart = 0; apart < 2; apart++) {
		struct nvmf_auth_challenge ch = {
			.hl = sizeof(cval), .hash = NVMF_AUTH_SHA256, .seqnum = 1, .cval = cval};
		struct nvmf_auth_success1 su = {.hl = sizeof(cval)};
		struct wcursor w;

		again(0, 0, 1 << 20);
		assert_int_equal(auth_key_parse(text, &near.config.key, &why), 0);
		near.config.random = no_random;
		near_start();
		answer_icreq(0);
		expect(0, NVME_TCP_CMD);
		respond_with(0, 1 | NVMF_CONNECT_ATR_BIT);
		expect(0, NVME_TCP_CMD); /* Negotiate */
		ch.t_id = su.t_id = near.host.auth.t_id;
		respond_with(0, 0);
		expect(0, NVME_TCP_CMD);
		w = wcursor_init(far.place, sizeof(far.place));
		nvmf_auth_challenge_put(&w, &ch);
		send_message((size_t)(w.p - far.place), apart);
		expect(0, NVME_TCP_CMD); /* Reply */
		assert_int_equal(nvmf_fctype(&far.sqe), NVMF_AUTH_SEND);
		respond_with(0, 0);
		expect(0, NVME_TCP_CMD);
		w = wcursor_init(far.place, sizeof(far.place));
		nvmf_auth_success1_put(&w, &su);
		send_message((size_t)(w.p - far.place), apart);
		expect(0, NVME_TCP_CMD);
		assert_true(near.host.authenticated);
		assert_int_equal(near.host.state, HOST_READ_CAP);
	}
}

static void why_there_is_no_connection_is_said(void **state)
{
	struct transport_host_config config = config_of();
	char why[256], want[128];

	(void)state;
	close(far.listener);
	near_start();
	for (uint64_t end = time_now_ns() + PATIENCE;
	     near.host.state != HOST_FAILED && time_now_ns() < end;)
		near_turn();
	assert_int_equal(near.host.failure.kind, HOST_FAIL_OPEN);
	snprintf(want, sizeof(want),
		 "cannot connect to 127.0.0.1:%s: refused; does a target listen there for "
		 "NVMe/TCP?",
		 far.port);
	assert_string_equal(near.t->ops->error(near.t), want);
	far.listener = socket(AF_INET, SOCK_STREAM, 0);
	config.source = "nonsense";
	assert_null(tcp_transport.host_create(&config, why, sizeof(why)));
	assert_string_equal(why, "'nonsense' is no address that one could connect from; `ip "
				 "address` shows those there are");
}

static void the_target_s_end_is_told_with_its_reason(void **state)
{
	char want[160];

	(void)state;
	bring_up();
	submit_io(false, 512);
	far_pdu_out(NVME_TCP_C2H_TERM, 0, 24, nvme_tcp_term_put,
		    struct nvme_tcp_term s = {.fes = NVME_TCP_FES_LIMIT_EXCEEDED, .fei = 9});
	wait_done();
	assert_int_equal(near.host.state, HOST_FAILED);
	assert_int_equal(near.host.failure.kind, HOST_FAIL_LOST);
	snprintf(want, sizeof(want),
		 "connection to 127.0.0.1:%s lost: the target says that the protocol was broken: "
		 "limit exceeded (9)",
		 far.port);
	assert_string_equal(near.t->ops->error(near.t), want);
	again(0, 0, 8192);
	bring_up();
	close(far.fd[1]);
	far.fd[1] = -1;
	for (uint64_t end = time_now_ns() + PATIENCE;
	     near.host.state == HOST_LIVE && time_now_ns() < end;)
		near_turn();
	assert_int_equal(near.host.failure.kind, HOST_FAIL_LOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(data_come_and_go_as_was_agreed),
		BED_TEST(success_with_the_data_is_enough),
		BED_TEST(many_commands_do_not_wait_for_the_end_of_a_turn),
		BED_TEST(many_capsules_do_not_wait_for_the_end_of_a_turn),
		BED_TEST(what_came_before_a_reset_is_heard),
		BED_TEST(data_are_sent_as_they_are_asked_for),
		BED_TEST(damaged_data_fail_the_command_alone),
		BED_TEST(a_message_ends_where_it_ends),
		BED_TEST(why_there_is_no_connection_is_said),
		BED_TEST(the_target_s_end_is_told_with_its_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
