/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The host's side of NVMe/TCP over sockets, with targets that do what targets should not. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "host_requests.h"
#include "nvmf/tcp/host.h"
#include "nvmf/tcp/socket.h"
#include "plain_host.h"
#include "wire/nvme_fabrics.h"

#define NQN	 "nqn.2026-11.io.example:tcp"
#define PATIENCE (4 * NSEC_PER_SEC)

enum { ENTRIES = 64, CAPSULE = 4096, DATA = 256 << 10 };

/* A target by hand. */
static struct far {
	int listener, fd[2], now; /* by queue ID; the one that is spoken with */
	char port[8];
	struct nvme_tcp_icresp ic;   /* its answer */
	struct nvme_tcp_icreq icreq; /* what the host asked for */
	struct tcp_rx rx[2];
	struct tcp_tx tx[2];
	uint8_t place[DATA], buffer[4096];
	struct nvme_sqe sqe; /* the last command */
	uint32_t capsule;
	struct nvme_tcp_data data; /* the last H2CData */
	struct nvme_tcp_term term;
	uint8_t last; /* type that came last; 0xff: nothing */
	uint8_t flags;
	bool closed;
} far;

static struct near {
	struct transport_host *t;
	struct host host;
	struct host_config config;
	struct host_queue queues[2];
	struct handle_place places[HOST_ADMIN_ENTRIES + ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN], data[DATA];
	struct host_request req;
	unsigned done;
} near;

/* --- the target ---------------------------------------------------------------------------------
 */

static void far_flush(void)
{
	assert_int_equal(tcp_socket_send(far.fd[far.now], &far.tx[far.now]), 0);
}

static void far_header(struct tcp_rx *rx)
{
	far.last = rx->ch.type;
	far.flags = rx->ch.flags;
	if (rx->data_len)
		tcp_rx_place(rx, far.place);
	if (rx->ch.type == NVME_TCP_H2C_DATA) {
		struct cursor c = tcp_rx_header(rx);

		nvme_tcp_data_get(&c, &far.data);
		tcp_rx_place(rx, far.place + far.data.datao);
	}
}

static void far_pdu(struct tcp_rx *rx)
{
	struct cursor c = tcp_rx_header(rx);

	assert_true(rx->data_fine);
	if (rx->ch.type == NVME_TCP_ICREQ)
		nvme_tcp_icreq_get(&c, &far.icreq);
	else if (rx->ch.type == NVME_TCP_H2C_TERM)
		nvme_tcp_term_get(&c, &far.term);
	else if (rx->ch.type == NVME_TCP_CMD) {
		nvme_sqe_get(&c, &far.sqe);
		far.capsule = rx->data_len;
	}
}

/* What has come on the queue that is spoken with; one PDU at most. */
static bool far_take(void)
{
	struct tcp_rx *rx = &far.rx[far.now];
	uint8_t byte;
	ssize_t n;

	if (far.fd[far.now] < 0)
		return false;
	while ((n = recv(far.fd[far.now], &byte, 1, MSG_DONTWAIT)) == 1) {
		const uint8_t *p = &byte;
		enum tcp_rx_event e;
		bool whole = false;

		while ((e = tcp_rx_eat(rx, &p, &byte + 1)) != TCP_RX_MORE) {
			assert_int_not_equal(e, TCP_RX_BAD);
			if (e == TCP_RX_HEADER) {
				far_header(rx);
			} else {
				far_pdu(rx);
				whole = true;
			}
		}
		if (whole)
			return true;
	}
	far.closed |= n == 0 || errno == ECONNRESET;
	return false;
}

static void near_turn(void)
{
	uint64_t now = time_now_ns();

	near.t->ops->process(near.t, now, true);
	if (near.host.state != HOST_IDLE && now >= host_next_deadline(&near.host))
		host_tick(&near.host, now);
}

/* Until a PDU of that type comes on the queue. */
static void expect(int queue, uint8_t type)
{
	uint64_t end = time_now_ns() + PATIENCE;

	far.now = queue;
	far.last = 0xff;
	far.closed = false;
	do {
		near_turn();
		if (far.fd[queue] < 0)
			far.fd[queue] = accept4(far.listener, NULL, NULL, SOCK_NONBLOCK);
	} while (!far_take() && !far.closed && time_now_ns() < end);
	assert_int_equal(far.last, type);
}

#define far_pdu_out(type, flags, len, put, ...)                                 \
	do {                                                                    \
		static struct tcp_out o_;                                       \
		const __VA_ARGS__;                                              \
		struct wcursor w_;                                              \
		tcp_out_init(&o_, NULL);                                        \
		w_ = tcp_out_pdu(&o_, &far.tx[far.now], type, flags, len);      \
		put(&w_, &s);                                                   \
		tcp_out_pdu_end(&o_);                                           \
		if (len)                                                        \
			tcp_out_data(&o_, &far.tx[far.now], far.place, len, 0); \
		tcp_tx_push(&far.tx[far.now], &o_);                             \
		far_flush();                                                    \
	} while (0)

static void respond_with(uint16_t status, uint64_t result)
{
	far_pdu_out(
		NVME_TCP_RESP, 0, 0, nvme_cqe_put,
		struct nvme_cqe s = {
			.cid = far.sqe.cid, .status = status, .result = result, .sqhd = 0xffff});
}

static void send_data(uint32_t at, uint32_t len, uint8_t flags)
{
	far_pdu_out(NVME_TCP_C2H_DATA, flags, len, nvme_tcp_data_put,
		    struct nvme_tcp_data s = {.cccid = far.sqe.cid, .datao = at, .datal = len});
}

static void send_r2t(uint16_t ttag, uint32_t at, uint32_t len)
{
	far_pdu_out(NVME_TCP_R2T, 0, 0, nvme_tcp_r2t_put,
		    struct nvme_tcp_r2t s = {
			    .cccid = far.sqe.cid, .ttag = ttag, .r2to = at, .r2tl = len});
}

static void answer_icreq(int queue)
{
	tcp_rx_init(&far.rx[queue], 0x3ff, DATA);
	tcp_tx_init(&far.tx[queue]);
	far.fd[queue] = -1;
	expect(queue, NVME_TCP_ICREQ);
	far_pdu_out(NVME_TCP_ICRESP, 0, 0, nvme_tcp_icresp_put, struct nvme_tcp_icresp s = far.ic);
	far.rx[queue].hdgst = far.tx[queue].hdgst = far.ic.dgst & NVME_TCP_IC_HDGST;
	far.rx[queue].ddgst = far.tx[queue].ddgst = far.ic.dgst & NVME_TCP_IC_DDGST;
	far.rx[queue].pda = far.ic.cpda;
}

/* Brings a controller up whose I/O queue is spoken with from then on. */
static void bring_up(void)
{
	struct nvme_id_ctrl id = {.sgls = NVME_SGLS_SUPPORTED | NVME_SGLS_TRANSPORT |
					  NVME_SGLS_OFFSET,
				  .ioccsz = (NVME_SQE_LEN + CAPSULE) / 16,
				  .iorcsz = 1,
				  .sqes = 0x66,
				  .cqes = 0x44,
				  .nn = 1};
	struct wcursor w = wcursor_init(far.place, NVME_IDENTIFY_LEN);
	struct nvmf_prop p;

	assert_int_equal(host_init(&near.host, &near.config, near.t->ops->queues, near.t,
				   near.queues, near.places, near.scratch),
			 0);
	host_start(&near.host, time_now_ns());
	answer_icreq(0);
	expect(0, NVME_TCP_CMD); /* Connect, with its data */
	assert_int_equal(far.capsule, NVMF_CONNECT_DATA_LEN);
	assert_int_equal(far.sqe.cdw11 >> 16 & NVMF_CATTR_NO_SQ_FLOW, NVMF_CATTR_NO_SQ_FLOW);
	respond_with(0, 1);
	for (;;) {
		expect(0, NVME_TCP_CMD);
		if (far.sqe.opcode == NVME_FABRICS && nvmf_fctype(&far.sqe) == NVMF_PROPERTY_GET) {
			nvmf_prop_from_sqe(&p, &far.sqe);
			respond_with(0, p.offset == NVME_PROP_CAP
						? NVME_CAP_CQR | 127 | NVME_CAP_CSS_NVM | 1ull << 24
					: p.offset == NVME_PROP_VS   ? NVME_VS(1, 4, 0)
					: p.offset == NVME_PROP_CSTS ? NVME_CSTS_RDY
								     : 0);
		} else if (far.sqe.opcode == NVME_ADMIN_IDENTIFY) {
			nvme_id_ctrl_put(&w, &id);
			send_data(0, NVME_IDENTIFY_LEN, NVME_TCP_DATA_LAST);
			respond_with(0, 0);
		} else if (far.sqe.opcode == NVME_ADMIN_SET_FEATURES) {
			respond_with(0, 0);
			if ((far.sqe.cdw10 & 0xff) == NVME_FID_NUM_QUEUES)
				break;
		} else {
			respond_with(0, 0);
		}
	}
	answer_icreq(1);
	expect(1, NVME_TCP_CMD);
	assert_int_equal(far.capsule, NVMF_CONNECT_DATA_LEN);
	respond_with(0, 1);
	for (uint64_t end = time_now_ns() + PATIENCE;
	     near.host.state != HOST_LIVE && time_now_ns() < end;)
		near_turn();
	assert_int_equal(near.host.state, HOST_LIVE);
}

/* --- requests -----------------------------------------------------------------------------------
 */

static void done(struct host_request *req, uint64_t now_ns)
{
	(void)req;
	(void)now_ns;
	near.done++;
}

static void submit_io(bool write, uint32_t len)
{
	near.req = (struct host_request){.done = done};
	near.done = 0;
	if (write)
		host_prepare_write(&near.req, 1, 0, len / 512, near.data, len, false);
	else
		host_prepare_read(&near.req, 1, 0, len / 512, near.data, len);
	assert_int_equal(host_submit(&near.host, 1, &near.req, time_now_ns()), 0);
	expect(1, NVME_TCP_CMD);
}

static void wait_done(void)
{
	for (uint64_t end = time_now_ns() + PATIENCE; !near.done && time_now_ns() < end;)
		near_turn();
	assert_int_equal(near.done, 1);
}

/* The connection is lost for that, and the target is told. */
static void violated(uint16_t fes, const char *detail)
{
	expect(1, NVME_TCP_H2C_TERM);
	assert_int_equal(far.term.fes, fes);
	assert_int_equal(near.host.state, HOST_FAILED);
	assert_int_equal(near.host.failure.kind, HOST_FAIL_PROTOCOL);
	assert_string_equal(near.host.failure.detail, detail);
	assert_int_equal(near.done, 1);
	assert_int_equal(near.req.error, -ENOTCONN);
}

static void fill(uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 29 + i / 253);
}

/* --- set-up -------------------------------------------------------------------------------------
 */

static struct transport_host_config config_of(void)
{
	return (struct transport_host_config){
		.host = "127.0.0.1", .port = far.port, .io_queues = 1, .io_entries = ENTRIES};
}

static int set_up(void **state)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	struct transport_host_config config;
	char why[256];

	(void)state;
	memset(&far, 0, sizeof(far));
	memset(&near, 0, sizeof(near));
	far.fd[0] = far.fd[1] = -1;
	far.ic = (struct nvme_tcp_icresp){.maxh2cdata = 1 << 20};
	far.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(far.listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(far.listener, 8), 0);
	assert_int_equal(getsockname(far.listener, (struct sockaddr *)&sa, &len), 0);
	snprintf(far.port, sizeof(far.port), "%u", ntohs(sa.sin_port));
	config = config_of();
	near.t = tcp_transport.host_create(&config, why, sizeof(why));
	assert_non_null(near.t);
	near.t->ops->attach(near.t, &near.host);
	near.config = plain_host(NQN, 1, ENTRIES);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	near.t->ops->destroy(near.t);
	for (int i = 0; i < 2; i++)
		if (far.fd[i] >= 0)
			close(far.fd[i]);
	close(far.listener);
	return 0;
}

static void again(uint8_t dgst, uint8_t cpda, uint32_t maxh2cdata)
{
	struct transport_host_config config = config_of();
	char why[256];

	near.t->ops->destroy(near.t);
	for (int i = 0; i < 2; i++) {
		if (far.fd[i] >= 0)
			close(far.fd[i]);
		far.fd[i] = -1;
	}
	config.header_digest = dgst & NVME_TCP_IC_HDGST;
	config.data_digest = dgst & NVME_TCP_IC_DDGST;
	near.t = tcp_transport.host_create(&config, why, sizeof(why));
	assert_non_null(near.t);
	near.t->ops->attach(near.t, &near.host);
	far.ic = (struct nvme_tcp_icresp){.dgst = dgst, .cpda = cpda, .maxh2cdata = maxh2cdata};
}

/* --- tests --------------------------------------------------------------------------------------
 */

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

static void what_it_cannot_agree_to_ends_it(void **state)
{
	static const struct {
		struct nvme_tcp_icresp ic;
		const char *detail;
	} cases[] = {
		{{.pfv = 1, .maxh2cdata = 8192}, "it speaks another version of NVMe/TCP"},
		{{.cpda = 32, .maxh2cdata = 8192}, "an alignment of data beyond 128 bytes"},
		{{.maxh2cdata = 4095}, "it takes less than 4 KiB of data at a time"},
		{{.dgst = 1, .maxh2cdata = 8192},
		 "it does not have the digests that were asked for"},
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		again(0, 0, 8192);
		far.ic = cases[i].ic;
		assert_int_equal(host_init(&near.host, &near.config, near.t->ops->queues, near.t,
					   near.queues, near.places, near.scratch),
				 0);
		host_start(&near.host, time_now_ns());
		answer_icreq(0);
		far.rx[0].hdgst = false;
		expect(0, NVME_TCP_H2C_TERM);
		assert_int_equal(near.host.failure.kind, HOST_FAIL_PROTOCOL);
		assert_string_equal(near.host.failure.detail, cases[i].detail);
	}
}

static void not_outstanding(void)
{
	submit_io(false, 512);
	far.sqe.cid ^= 1;
	respond_with(0, 0);
	violated(NVME_TCP_FES_HEADER_FIELD, "a PDU for a command that is not outstanding");
}

static void data_for_nobody(void)
{
	submit_io(false, 512);
	far.sqe.cid = 0xffff;
	send_data(0, 512, NVME_TCP_DATA_LAST);
	violated(NVME_TCP_FES_HEADER_FIELD, "a PDU for a command that is not outstanding");
}

static void data_beyond_the_end(void)
{
	submit_io(false, 512);
	send_data(0, 1024, NVME_TCP_DATA_LAST);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "data out of range, or out of order");
}

static void data_out_of_order(void)
{
	submit_io(false, 4096);
	send_data(512, 512, 0);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "data out of range, or out of order");
}

static void data_for_a_write(void)
{
	submit_io(true, 8192);
	send_data(0, 512, 0);
	violated(NVME_TCP_FES_SEQUENCE, "data that were not asked for");
}

static void success_too_early(void)
{
	submit_io(false, 4096);
	send_data(0, 512, NVME_TCP_DATA_LAST | NVME_TCP_DATA_SUCCESS);
	violated(NVME_TCP_FES_SEQUENCE, "success before the last data");
}

static void response_too_early(void)
{
	submit_io(false, 4096);
	send_data(0, 512, 0);
	respond_with(0, 0);
	violated(NVME_TCP_FES_SEQUENCE, "success before the last data");
}

static void r2t_for_a_read(void)
{
	submit_io(false, 4096);
	send_r2t(1, 0, 512);
	violated(NVME_TCP_FES_SEQUENCE, "it asks for data that there are none of");
}

static void r2t_for_what_was_in_the_capsule(void)
{
	submit_io(true, 4096);
	send_r2t(1, 0, 512);
	violated(NVME_TCP_FES_SEQUENCE, "it asks for data that there are none of");
}

static void r2t_beyond_the_end(void)
{
	submit_io(true, 8192);
	send_r2t(1, 4096, 4097);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "it asks for more than there is");
}

static void r2t_of_nothing(void)
{
	submit_io(true, 8192);
	send_r2t(1, 0, 0);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "it asks for more than there is");
}

static void r2t_twice_for_the_same(void)
{
	submit_io(true, 8192);
	send_r2t(1, 0, 8192);
	expect(1, NVME_TCP_H2C_DATA);
	send_r2t(2, 0, 1);
	violated(NVME_TCP_FES_OUT_OF_RANGE, "it asks for more than there is");
}

static void a_host_s_pdu(void)
{
	submit_io(false, 512);
	far_pdu_out(NVME_TCP_H2C_DATA, 0, 512, nvme_tcp_data_put,
		    struct nvme_tcp_data s = {.cccid = far.sqe.cid, .datal = 512});
	violated(NVME_TCP_FES_SEQUENCE, "PDU sequence error");
}

static void whoever_breaks_the_protocol_is_told_so(void **state)
{
	static void (*const cases[])(void) = {
		not_outstanding,    data_for_nobody,  data_beyond_the_end,
		data_out_of_order,  data_for_a_write, success_too_early,
		response_too_early, r2t_for_a_read,   r2t_for_what_was_in_the_capsule,
		r2t_beyond_the_end, r2t_of_nothing,   r2t_twice_for_the_same,
		a_host_s_pdu,
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		again(i & 1 ? 3 : 0, 0, 1 << 20);
		bring_up();
		cases[i]();
	}
}

/* Its memory is its owner's when it is answered. */
static void a_response_while_data_are_sent_is_a_violation(void **state)
{
	int small = 4096;

	(void)state;
	bring_up();
	submit_io(true, 256 << 10);
	assert_int_equal(setsockopt(far.fd[1], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	{
		struct tcp_host *t = tcp_host_of(near.t);

		assert_int_equal(
			setsockopt(t->queues[1].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)),
			0);
	}
	send_r2t(1, 0, 256 << 10);
	for (int i = 0; i < 100; i++)
		near_turn(); /* as much as the sockets hold */
	respond_with(0, 0);
	for (uint64_t end = time_now_ns() + PATIENCE;
	     near.host.state == HOST_LIVE && time_now_ns() < end;)
		near_turn();
	assert_int_equal(near.host.state, HOST_FAILED);
	assert_string_equal(near.host.failure.detail,
			    "a response to a command that is still being sent");
	assert_int_equal(near.done, 1);
}

static void a_damaged_header_is_told_of(void **state)
{
	static struct tcp_out o;
	struct nvme_cqe q = {0};
	struct wcursor w;

	(void)state;
	again(NVME_TCP_IC_HDGST, 0, 8192);
	bring_up();
	submit_io(false, 512);
	tcp_out_init(&o, NULL);
	w = tcp_out_pdu(&o, &far.tx[1], NVME_TCP_RESP, 0, 0);
	nvme_cqe_put(&w, &q);
	tcp_out_pdu_end(&o);
	o.head[10] ^= 1;
	tcp_tx_push(&far.tx[1], &o);
	far_flush();
	violated(NVME_TCP_FES_HEADER_DIGEST, "header digest error");
}

static void why_there_is_no_connection_is_said(void **state)
{
	struct transport_host_config config = config_of();
	char why[256], want[128];

	(void)state;
	close(far.listener);
	assert_int_equal(host_init(&near.host, &near.config, near.t->ops->queues, near.t,
				   near.queues, near.places, near.scratch),
			 0);
	host_start(&near.host, time_now_ns());
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

#define BED_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BED_TEST(data_come_and_go_as_was_agreed),
		BED_TEST(success_with_the_data_is_enough),
		BED_TEST(many_commands_do_not_wait_for_the_end_of_a_turn),
		BED_TEST(data_are_sent_as_they_are_asked_for),
		BED_TEST(damaged_data_fail_the_command_alone),
		BED_TEST(what_it_cannot_agree_to_ends_it),
		BED_TEST(whoever_breaks_the_protocol_is_told_so),
		BED_TEST(a_response_while_data_are_sent_is_a_violation),
		BED_TEST(a_damaged_header_is_told_of),
		BED_TEST(why_there_is_no_connection_is_said),
		BED_TEST(the_target_s_end_is_told_with_its_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
