/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The host on NVMe/TCP before a target that follows no rule: any bytes and any PDU on any queue at
 * any time. What it sends are PDUs, with data of the command that they are for and no others; each
 * request is answered once, and nothing is written but a read's own memory, and that until it is
 * answered. Sockets are pairs of this process.
 * Input: a byte of configuration, then steps, each a byte that names it and its arguments.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "nvmf/tcp/host.h"
#include "nvmf/tcp/socket.h"
#include "wire/nvme_fabrics.h"

#define QUEUES	  2 /* with the admin queue */
#define ENTRIES	  8
#define REQUESTS  6
#define COMMANDS  (HOST_ADMIN_ENTRIES + ENTRIES)
#define STEPS_MAX 300
#define CAPSULE	  4096

struct far { /* the target's end of a queue */
	int fd;
	bool asked; /* ICReq has come, and was not answered */
	struct tcp_rx rx;
	struct tcp_tx tx;
	struct nvme_sqe sqe[COMMANDS]; /* that came and were not answered, the oldest first */
	unsigned commands;
	uint8_t place[64 << 10];
};

struct request {
	struct host_request req;
	bool busy;
};

static struct world {
	struct transport_host *t;
	struct host_transport ops;
	struct host host;
	struct host_queue queue[QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + ENTRIES];
	uint8_t *scratch;
	struct far far[QUEUES];
	struct request request[REQUESTS];
	struct nvme_tcp_icresp ic; /* of the target's answer, if it is a good one */
	uint64_t now;
	const uint8_t *in, *in_end;
} w;

static uint8_t data[64 << 10];

static uint8_t take(void)
{
	return w.in < w.in_end ? *w.in++ : 0;
}

static uint32_t take32(void)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 8 | take();
	return v;
}

/* ---- connections --------------------------------------------------------------------------------
 */

static int do_open(void *t, uint16_t qid, uint16_t entries, uint16_t cntlid)
{
	struct tcp_host_queue *q = &tcp_host_of(t)->queues[qid];
	struct far *f = &w.far[qid];
	int fd[2];

	(void)cntlid;
	if (f->fd >= 0)
		close(f->fd);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
	tcp_rx_init(&f->rx, 0x3ff, sizeof(f->place));
	tcp_tx_init(&f->tx);
	f->fd = fd[1];
	f->asked = false;
	f->commands = 0;
	q->entries = entries;
	q->fd = fd[0];
	q->events = 0;
	must(tcp_host_queue_setup(q) == 0);
	tcp_host_queue_begin(q);
	return 0;
}

static void on_command(struct far *f)
{
	struct cursor c = tcp_rx_header(&f->rx);

	must(f->commands < COMMANDS);
	nvme_sqe_get(&c, &f->sqe[f->commands]);
	must(!f->rx.data_len || f->rx.data_len == f->sqe[f->commands].sgl.len);
	f->commands++;
}

static void on_h2c_data(struct far *f)
{
	struct cursor c = tcp_rx_header(&f->rx);
	struct nvme_tcp_data d;
	bool found = false;

	nvme_tcp_data_get(&c, &d);
	must(d.datal == f->rx.data_len);
	for (unsigned i = 0; i < f->commands; i++)
		found |= f->sqe[i].cid == d.cccid && d.datao <= f->sqe[i].sgl.len &&
			 d.datal <= f->sqe[i].sgl.len - d.datao;
	must(found);
}

/* What the host has sent. */
static void drain(struct far *f)
{
	static uint8_t bytes[64 << 10];
	enum tcp_rx_event e;
	ssize_t n;

	while (f->fd >= 0 && (n = recv(f->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		const uint8_t *p = bytes;

		while ((e = tcp_rx_eat(&f->rx, &p, bytes + n)) != TCP_RX_MORE) {
			must(e != TCP_RX_BAD);
			if (e == TCP_RX_HEADER) {
				tcp_rx_place(&f->rx, f->place);
				continue;
			}
			must(f->rx.data_fine);
			if (f->rx.ch.type == NVME_TCP_ICREQ)
				f->asked = true;
			else if (f->rx.ch.type == NVME_TCP_CMD)
				on_command(f);
			else if (f->rx.ch.type == NVME_TCP_H2C_DATA)
				on_h2c_data(f);
		}
	}
}

static void turn(void)
{
	for (int i = 0; i < QUEUES; i++)
		drain(&w.far[i]);
	w.t->ops->process(w.t, w.now, true);
	if (w.now >= host_next_deadline(&w.host))
		host_tick(&w.host, w.now);
	for (int i = 0; i < QUEUES; i++)
		drain(&w.far[i]);
}

/* ---- what the target sends ----------------------------------------------------------------------
 */

static void send_out(struct far *f, struct tcp_out *o, uint8_t damage)
{
	uint8_t *bytes = o->head;

	if (damage & 1)
		bytes[damage >> 1 & 31] ^= 0x10;
	tcp_tx_push(&f->tx, o);
	if (f->fd < 0 || tcp_socket_send(f->fd, &f->tx) != 0)
		tcp_tx_drop(&f->tx);
	turn();
}

static void agree(struct far *f, const struct nvme_tcp_icresp *r)
{
	f->asked = false;
	f->rx.hdgst = f->tx.hdgst = r->dgst & NVME_TCP_IC_HDGST;
	f->rx.ddgst = f->tx.ddgst = r->dgst & NVME_TCP_IC_DDGST;
	f->rx.pda = r->cpda & NVME_TCP_PDA_MAX;
}

static void send_icresp(struct far *f, const struct nvme_tcp_icresp *r)
{
	static struct tcp_out o;
	bool first = f->asked;
	struct wcursor c;

	tcp_out_init(&o, NULL);
	c = tcp_out_pdu(&o, &f->tx, NVME_TCP_ICRESP, 0, 0);
	nvme_tcp_icresp_put(&c, r);
	tcp_out_pdu_end(&o);
	if (first)
		agree(f, r);
	send_out(f, &o, 0);
}

static void send_response(struct far *f, const struct nvme_cqe *q, uint8_t damage)
{
	static struct tcp_out o;
	struct wcursor c;

	tcp_out_init(&o, NULL);
	c = tcp_out_pdu(&o, &f->tx, NVME_TCP_RESP, 0, 0);
	nvme_cqe_put(&c, q);
	tcp_out_pdu_end(&o);
	send_out(f, &o, damage);
}

static void send_data(struct far *f, const struct nvme_tcp_data *d, uint8_t flags, uint8_t damage)
{
	static struct tcp_out o;
	struct wcursor c;

	tcp_out_init(&o, NULL);
	c = tcp_out_pdu(&o, &f->tx, NVME_TCP_C2H_DATA, flags, d->datal);
	nvme_tcp_data_put(&c, d);
	tcp_out_pdu_end(&o);
	tcp_out_data(&o, &f->tx, data, d->datal, 0);
	if (damage & 0x40 && o.tail_len)
		o.tail[0] ^= 1;
	send_out(f, &o, damage);
}

static void send_r2t(struct far *f, const struct nvme_tcp_r2t *r)
{
	static struct tcp_out o;
	struct wcursor c;

	tcp_out_init(&o, NULL);
	c = tcp_out_pdu(&o, &f->tx, NVME_TCP_R2T, 0, 0);
	nvme_tcp_r2t_put(&c, r);
	tcp_out_pdu_end(&o);
	send_out(f, &o, 0);
}

static uint64_t good_result(const struct nvme_sqe *s)
{
	struct nvmf_prop p;

	if (s->opcode != NVME_FABRICS)
		return 0;
	if (nvmf_fctype(s) == NVMF_CONNECT)
		return 1;
	nvmf_prop_from_sqe(&p, s);
	switch (p.offset) {
	case NVME_PROP_CAP:
		return 1ull << 24 | NVME_CAP_CSS_NVM | 63;
	case NVME_PROP_VS:
		return NVME_VS(1, 4, 0);
	case NVME_PROP_CSTS:
		return NVME_CSTS_RDY;
	}
	return 0;
}

/* As a target should, to the oldest command. */
static void answer_well(struct far *f)
{
	struct nvme_id_ctrl id = {.sgls = NVME_SGLS_SUPPORTED | NVME_SGLS_TRANSPORT |
					  NVME_SGLS_OFFSET,
				  .ioccsz = (NVME_SQE_LEN + CAPSULE) / 16,
				  .iorcsz = 1,
				  .sqes = 0x66,
				  .cqes = 0x44,
				  .nn = 1};
	struct wcursor c = wcursor_init(data, NVME_IDENTIFY_LEN);
	struct nvme_sqe s;
	struct nvme_tcp_data d;
	struct nvme_cqe q;

	if (f->asked)
		send_icresp(f, &w.ic);
	if (!f->commands)
		return;
	s = f->sqe[0];
	d = (struct nvme_tcp_data){.cccid = s.cid, .datal = min_of(s.sgl.len, 65536u)};
	q = (struct nvme_cqe){.cid = s.cid, .result = good_result(&s)};
	if (nvmf_dir_of(&s) == NVMF_DIR_TO_HOST && d.datal) {
		nvme_id_ctrl_put(&c, &id);
		send_data(f, &d, NVME_TCP_DATA_LAST, 0);
	}
	if (nvmf_dir_of(&s) == NVMF_DIR_TO_CTRL && s.sgl.type == NVME_SGL_TRANSPORT_DATA_BLOCK &&
	    d.datal) {
		struct nvme_tcp_r2t r = {.cccid = s.cid, .ttag = 1, .r2tl = d.datal};

		send_r2t(f, &r);
	}
	if (f->commands && f->sqe[0].cid == s.cid) {
		memmove(f->sqe, f->sqe + 1, --f->commands * sizeof(f->sqe[0]));
		send_response(f, &q, 0);
	}
}

/* ---- requests -----------------------------------------------------------------------------------
 */

static void done(struct host_request *req, uint64_t now_ns)
{
	struct request *r = container_of(req, struct request, req);

	(void)now_ns;
	must(r->busy);
	r->busy = false;
	free(req->data); /* nobody may touch it any more */
	req->data = NULL;
}

static void step_submit(void)
{
	struct request *r = &w.request[take() % REQUESTS];
	uint8_t how = take();
	uint32_t len = 512 * (1 + (take() & 63));

	if (r->busy)
		return;
	r->req = (struct host_request){.done = done, .data_len = len, .again = how & 2};
	r->req.sqe.opcode = how & 1 ? NVME_IO_WRITE : NVME_IO_READ;
	r->req.sqe.nsid = 1;
	r->req.dir = how & 1 ? NVMF_DIR_TO_CTRL : NVMF_DIR_TO_HOST;
	nvme_rw_set(&r->req.sqe, 0, len / 512, 0);
	r->req.data = calloc(1, len);
	must(r->req.data);
	r->busy = true;
	if (host_submit(&w.host, how & 4 ? 0 : 1, &r->req, w.now) != 0) {
		r->busy = false;
		free(r->req.data);
	}
	turn();
}

/* ---- steps --------------------------------------------------------------------------------------
 */

/* Of one that is outstanding, mostly. */
static uint16_t some_cid(const struct far *f)
{
	uint8_t which = take();

	return f->commands && which < 0xf0 ? f->sqe[which % f->commands].cid : which;
}

static void step_data(struct far *f)
{
	struct nvme_tcp_data d = {.cccid = some_cid(f)};
	uint8_t flags = (uint8_t)(take() & 3) << 2;

	d.datao = take() * 512u;
	d.datal = min_of(1 + (take32() & 0xffff), 65536u);
	send_data(f, &d, flags, take());
}

static void step_r2t(struct far *f)
{
	struct nvme_tcp_r2t r = {.cccid = some_cid(f)};

	r.ttag = take();
	r.r2to = take() * 512u;
	r.r2tl = take32() & 0xffff;
	send_r2t(f, &r);
}

static void step_response(struct far *f)
{
	struct nvme_cqe q = {.cid = some_cid(f)};

	q.status = take() & 1 ? NVME_SC_INTERNAL : NVME_SC_SUCCESS;
	q.sqhd = take();
	for (unsigned i = 0; i < f->commands; i++)
		if (f->sqe[i].cid == q.cid) {
			memmove(f->sqe + i, f->sqe + i + 1,
				(--f->commands - i) * sizeof(f->sqe[0]));
			break;
		}
	send_response(f, &q, take());
}

static void step_bytes(struct far *f)
{
	size_t n = min_of((size_t)take(), (size_t)(w.in_end - w.in));

	if (f->fd >= 0 && send(f->fd, w.in, n, MSG_NOSIGNAL) < 0)
		must(errno == EPIPE || errno == EAGAIN || errno == ECONNRESET);
	w.in += n;
	turn();
}

static void step_icresp(struct far *f)
{
	struct nvme_tcp_icresp r = {.cpda = take() & 0x3f};

	r.dgst = take() & 3;
	r.maxh2cdata = take32();
	send_icresp(f, &r);
}

static void step(void)
{
	uint8_t what = take();
	struct far *f = &w.far[what >> 4 & 1];

	switch (what & 0xf) {
	case 0:
		step_bytes(f);
		break;
	case 1:
		step_icresp(f);
		break;
	case 2:
		answer_well(f);
		break;
	case 3:
		for (int i = take(); i > 0; i--)
			answer_well(&w.far[i & 1 && w.far[1].fd >= 0]);
		break;
	case 4:
		step_data(f);
		break;
	case 5:
		step_r2t(f);
		break;
	case 6:
		step_response(f);
		break;
	case 7:
	case 8:
		step_submit();
		break;
	case 9:
		w.now += (uint64_t)take() * NSEC_PER_SEC / 16;
		turn();
		break;
	case 10:
		host_reset(&w.host, w.now);
		turn();
		break;
	case 11:
		if (f->fd >= 0)
			close(f->fd);
		f->fd = -1;
		turn();
		break;
	default:
		turn();
		break;
	}
}

static bool ended(void)
{
	return w.host.state == HOST_FAILED || w.host.state == HOST_CLOSED;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct transport_host_config where = {
		.host = "127.0.0.1", .port = "4420", .io_queues = 1, .io_entries = ENTRIES};
	struct host_config config = {.io_queues = 1,
				     .io_entries = ENTRIES,
				     .open_timeout_ns = 4 * NSEC_PER_SEC,
				     .command_timeout_ns = 8 * NSEC_PER_SEC,
				     .shutdown_timeout_ns = 4 * NSEC_PER_SEC,
				     .reconnect_delay_ns = NSEC_PER_SEC};
	char why[256];
	uint8_t how;

	memset(&w, 0, sizeof(w));
	w.in = input;
	w.in_end = input + size;
	w.now = NSEC_PER_SEC;
	for (int i = 0; i < QUEUES; i++) {
		w.far[i].fd = -1;
		tcp_tx_init(&w.far[i].tx);
	}
	how = take();
	where.header_digest = how & 1;
	where.data_digest = how & 2;
	w.ic = (struct nvme_tcp_icresp){
		.dgst = how & 3, .cpda = how >> 2 & 7, .maxh2cdata = how & 0x20 ? 4096 : 65536};
	config.loss_timeout_ns = how & 0x40 ? 20 * NSEC_PER_SEC : 0;
	strcpy(config.subnqn, "nqn.2024-01.test:one");
	strcpy(config.hostnqn, "nqn.2024-01.test:host");
	w.t = tcp_transport.host_create(&where, why, sizeof(why));
	must(w.t);
	w.t->ops->attach(w.t, &w.host);
	w.ops = *w.t->ops->queues;
	w.ops.open = do_open;
	w.scratch = calloc(1, HOST_SCRATCH_LEN);
	must(w.scratch);
	must(host_init(&w.host, &config, &w.ops, w.t, w.queue, w.places, w.scratch) == 0);
	host_start(&w.host, w.now);
	turn();
	for (int i = 0; i < STEPS_MAX && w.in < w.in_end && !ended(); i++)
		step();
	if (!ended())
		host_shutdown(&w.host, w.now);
	for (int i = 0; i < 100 && !ended(); i++) {
		w.now += NSEC_PER_SEC;
		turn();
	}
	must(ended());
	for (int i = 0; i < REQUESTS; i++)
		must(!w.request[i].busy);
	w.t->ops->destroy(w.t);
	for (int i = 0; i < QUEUES; i++)
		if (w.far[i].fd >= 0)
			close(w.far[i].fd);
	free(w.scratch);
	return 0;
}
