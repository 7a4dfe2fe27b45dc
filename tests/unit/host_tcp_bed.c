/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host_tcp_bed.h"
#include "nvmf/tcp/socket.h"
#include "plain_host.h"

struct far far;
struct near near;

/* --- the target ---------------------------------------------------------------------------------
 */

void far_flush(void)
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

void near_turn(void)
{
	uint64_t now = time_now_ns();

	near.t->ops->process(near.t, now, true);
	if (near.host.state != HOST_IDLE && now >= host_next_deadline(&near.host))
		host_tick(&near.host, now);
}

void expect(int queue, uint8_t type)
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
void expect_end(int queue)
{
	uint64_t end = time_now_ns() + PATIENCE;

	far.now = queue;
	far.last = 0xff;
	far.closed = false;
	while (!far_take() && !far.closed && time_now_ns() < end)
		near_turn();
	assert_int_equal(far.last, 0xff);
	assert_true(far.closed);
}

void respond_with(uint16_t status, uint64_t result)
{
	far_pdu_out(
		NVME_TCP_RESP, 0, 0, nvme_cqe_put,
		struct nvme_cqe s = {
			.cid = far.sqe.cid, .status = status, .result = result, .sqhd = 0xffff});
}

void send_data(uint32_t at, uint32_t len, uint8_t flags)
{
	far_pdu_out(NVME_TCP_C2H_DATA, flags, len, nvme_tcp_data_put,
		    struct nvme_tcp_data s = {.cccid = far.sqe.cid, .datao = at, .datal = len});
}

void send_r2t(uint16_t ttag, uint32_t at, uint32_t len)
{
	far_pdu_out(NVME_TCP_R2T, 0, 0, nvme_tcp_r2t_put,
		    struct nvme_tcp_r2t s = {
			    .cccid = far.sqe.cid, .ttag = ttag, .r2to = at, .r2tl = len});
}

void answer_icreq(int queue)
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

void near_start(void)
{
	assert_int_equal(host_init(&near.host, &near.config, near.t->ops->queues, near.t,
				   near.queues, near.places, near.scratch),
			 0);
	host_start(&near.host, time_now_ns());
}

void bring_up(void)
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

	near_start();
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

void done(struct host_request *req, uint64_t now_ns)
{
	(void)req;
	(void)now_ns;
	near.done++;
}

void submit_io(bool write, uint32_t len)
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

void wait_done(void)
{
	for (uint64_t end = time_now_ns() + PATIENCE; !near.done && time_now_ns() < end;)
		near_turn();
	assert_int_equal(near.done, 1);
}

void fill(uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 29 + i / 253);
}

/* --- set-up -------------------------------------------------------------------------------------
 */

struct transport_host_config config_of(void)
{
	return (struct transport_host_config){
		.host = "127.0.0.1", .port = far.port, .io_queues = 1, .io_entries = ENTRIES};
}

int host_tcp_set_up(void **state)
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

int host_tcp_tear_down(void **state)
{
	(void)state;
	near.t->ops->destroy(near.t);
	for (int i = 0; i < 2; i++)
		if (far.fd[i] >= 0)
			close(far.fd[i]);
	close(far.listener);
	return 0;
}

void again(uint8_t dgst, uint8_t cpda, uint32_t maxh2cdata)
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