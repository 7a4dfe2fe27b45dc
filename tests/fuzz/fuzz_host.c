/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The NVMe-oF host before a controller that follows no rule, and a transport that connects late,
 * refuses, loses. Each request of the consumer is answered once, no more commands are out than
 * the controller has room for, none with the number of another, and after a shutdown it ends.
 * Input: a byte of configuration, then steps, each a byte that names it and its arguments.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "nvmf/host/discovery.h"
#include "nvmf/host/host.h"
#include "wire/nvme_log.h"

#define QUEUES	    2 /* I/O queues */
#define ENTRIES	    8
#define OUT_MAX	    (HOST_ADMIN_ENTRIES + QUEUES * ENTRIES)
#define REQUESTS    24
#define ENTRIES_MAX 6 /* of a discovery log */
#define STEPS_MAX   500
#define TICKS_MAX   20000

struct out { /* a command the controller has */
	uint16_t qid, cid;
	struct host_request *req;
};

struct request {
	struct host_request req;
	bool busy;
};

static struct world {
	struct host host;
	struct host_queue queue[1 + QUEUES];
	struct handle_place places[HOST_ADMIN_ENTRIES + QUEUES * ENTRIES];
	uint8_t scratch[HOST_SCRATCH_LEN];
	bool opening[1 + QUEUES], open[1 + QUEUES];
	uint16_t limit[1 + QUEUES];
	struct out out[OUT_MAX];
	int outs;
	struct request request[REQUESTS];
	uint8_t buffer[4096];
	struct host_known_ns known[2]; /* 0, which requests are for, and another */
	struct host_discovery discovery;
	struct nvmf_disc_entry entries[ENTRIES_MAX];
	uint8_t log[DISCOVERY_BUFFER_LEN];
	bool discovering;
	uint8_t refuse; /* so many submits are refused */
	bool refuse_for_good, refuse_open, resubmit;
	uint64_t now;
	const uint8_t *in, *in_end;
} w;

static uint8_t take(void)
{
	return w.in < w.in_end ? *w.in++ : 0;
}

static uint64_t take64(void)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | take();
	return v;
}

/* ---- the transport ------------------------------------------------------------------------------
 */

static int do_open(void *t, uint16_t qid, uint16_t entries, uint16_t cntlid)
{
	must(t == &w && qid <= QUEUES && !w.open[qid] && entries >= 2);
	must(entries <= (qid ? ENTRIES : HOST_ADMIN_ENTRIES));
	(void)cntlid;
	w.opening[qid] = !w.refuse_open;
	return w.refuse_open ? -EHOSTUNREACH : 0;
}

static void do_close(void *t, uint16_t qid)
{
	must(t == &w && qid <= QUEUES);
	w.open[qid] = w.opening[qid] = false;
	for (int i = 0; i < w.outs;)
		if (w.out[i].qid == qid)
			w.out[i] = w.out[--w.outs];
		else
			i++;
}

static int do_submit(void *t, uint16_t qid, struct host_request *req, bool in_capsule)
{
	int same_queue = 0;

	must(t == &w && qid <= QUEUES && w.open[qid]);
	must(!in_capsule || (qid && req->data_len && req->dir == NVMF_DIR_TO_CTRL));
	if (w.refuse) {
		w.refuse--;
		return w.refuse_for_good ? -EIO : -EAGAIN;
	}
	for (int i = 0; i < w.outs; i++) {
		must(w.out[i].qid != qid || w.out[i].cid != req->sqe.cid);
		must(w.out[i].req != req);
		same_queue += w.out[i].qid == qid;
	}
	must(same_queue < w.limit[qid] && w.outs < OUT_MAX);
	w.out[w.outs++] = (struct out){.qid = qid, .cid = req->sqe.cid, .req = req};
	return 0;
}

static void do_release(void *t, uint16_t qid, struct host_request *req)
{
	int i = 0;

	must(t == &w && qid <= QUEUES && w.open[qid]);
	while (i < w.outs && w.out[i].req != req)
		i++;
	must(i < w.outs && w.out[i].qid == qid); /* once for each submit */
	w.out[i] = w.out[--w.outs];
}

static const struct host_transport transport = {
	.open = do_open,
	.close = do_close,
	.submit = do_submit,
	.release = do_release,
	.keyed = true,
};

/* ---- the consumer ------------------------------------------------------------------------------
 */

static void done(struct host_request *req, uint64_t now_ns);

static void submit(uint16_t qid, uint8_t arg)
{
	struct request *r = NULL;

	for (int i = 0; i < REQUESTS && !r; i++)
		if (!w.request[i].busy)
			r = &w.request[i];
	if (!r)
		return;
	r->req = (struct host_request){.done = done, .again = arg & 1};
	r->req.sqe.opcode = arg & 2 ? NVME_IO_WRITE : NVME_IO_READ;
	r->req.dir = arg & 4 ? NVMF_DIR_NONE : arg & 2 ? NVMF_DIR_TO_CTRL : NVMF_DIR_TO_HOST;
	r->req.data_len = arg & 4 ? 0 : 512u << (arg >> 6);
	r->req.data = arg & 4 ? NULL : w.buffer;
	r->busy = true;
	if (host_submit(&w.host, qid, &r->req, w.now))
		r->busy = false; /* done() is not called */
}

static void done(struct host_request *req, uint64_t now_ns)
{
	struct request *r = container_of(req, struct request, req);

	must(r->busy && now_ns == w.now);
	must(req->error == 0 || req->error == -ENOTCONN || req->error == -ETIMEDOUT ||
	     req->error == -ECANCELED ||
	     (req->error == -ENODEV && host_ns_known(&w.host, req->sqe.nsid)->lost));
	must(req->attempts <= HOST_ATTEMPTS_MAX);
	for (int i = 0; i < w.outs; i++) /* its memory is not the controller's any more */
		must(w.out[i].req != req);
	r->busy = false;
	if (w.resubmit) {
		w.resubmit = false;
		submit(1, 0);
	}
}

static void discovered(struct host_discovery *d, uint64_t now_ns)
{
	must(w.discovering && d->count <= ENTRIES_MAX && now_ns == w.now);
	must(d->error || d->count == d->header.numrec);
	w.discovering = false;
}

static void discover(void)
{
	if (w.discovering)
		return;
	w.discovery = (struct host_discovery){
		.buffer = w.log, .entries = w.entries, .max = ENTRIES_MAX, .done = discovered};
	w.discovering = true;
	if (host_discovery_start(&w.discovery, &w.host, w.now))
		w.discovering = false;
}

static void on_event(void *arg, uint32_t result)
{
	must(arg == &w);
	(void)result;
}

static void changed(void *arg, enum host_state from, enum host_state to, uint64_t now_ns)
{
	must(arg == &w && from < HOST_STATES && to < HOST_STATES && now_ns == w.now);
	must(host_state_name(to));
}

static void namespace_lost(void *arg, uint32_t nsid)
{
	must(arg == &w && host_ns_known(&w.host, nsid)->lost);
}

static void over(void *arg, uint64_t now_ns)
{
	must(arg == &w && now_ns == w.now);
	must(w.host.state == HOST_CLOSED || w.host.state == HOST_FAILED);
	for (int i = 0; i < REQUESTS; i++)
		must(!w.request[i].busy);
}

/* ---- the controller ----------------------------------------------------------------------------
 */

static uint64_t good_result(const struct nvme_sqe *sqe)
{
	struct nvmf_prop p;

	if (sqe->opcode == NVME_ADMIN_SET_FEATURES &&
	    NVME_FEATURE_FID(sqe->cdw10) == NVME_FID_NUM_QUEUES)
		return NVME_NUM_QUEUES(QUEUES, QUEUES);
	if (sqe->opcode != NVME_FABRICS)
		return 0;
	if (nvmf_fctype(sqe) == NVMF_CONNECT)
		return 5;
	nvmf_prop_from_sqe(&p, sqe);
	switch (p.offset) {
	case NVME_PROP_CAP:
		return 127 | 1ull << NVME_CAP_TO_SHIFT | NVME_CAP_CSS_NVM;
	case NVME_PROP_CSTS:
		return w.host.state == HOST_SHUTDOWN_WAIT ? NVME_CSTS_SHST_DONE : NVME_CSTS_RDY;
	}
	return 0x10400;
}

static void good_data(const struct nvme_sqe *sqe)
{
	struct wcursor out = wcursor_init(w.scratch, sizeof(w.scratch));
	struct nvme_id_ctrl id = {
		.sgls = NVME_SGLS_SUPPORTED | NVME_SGLS_KEYED | NVME_SGLS_OFFSET,
		.oaes = NVME_OAES_NS_ATTR,
		.ioccsz = 4 + 512,
		.iorcsz = 1,
		.mdts = 5,
		.maxcmd = 64,
	};

	if (sqe->opcode == NVME_ADMIN_GET_LOG_PAGE) {
		out = wcursor_init(w.log, sizeof(w.log));
		nvmf_disc_hdr_put(&out, &(struct nvmf_disc_hdr){.genctr = 1, .numrec = 5});
		return;
	}
	if (sqe->opcode == NVME_ADMIN_IDENTIFY && w.host.state == HOST_IDENTIFY)
		nvme_id_ctrl_put(&out, &id);
}

static void respond(uint8_t how, uint8_t which)
{
	uint8_t bytes[NVME_CQE_LEN], *exact;
	struct wcursor out = wcursor_init(bytes, sizeof(bytes));
	struct nvme_cqe cqe = {0};
	uint32_t len = sizeof(bytes);
	uint16_t qid;
	struct out *o;

	if (!w.outs)
		return;
	o = &w.out[which % w.outs];
	qid = o->qid;
	cqe.cid = o->cid;
	cqe.result = good_result(&o->req->sqe);
	good_data(&o->req->sqe);
	if (how & 1)
		cqe.status = (uint16_t)(take() << 8 | take()) & 0x7fff;
	if (how & 2)
		cqe.result = take64();
	if (how & 4)
		w.scratch[(take() << 8 | take()) % sizeof(w.scratch)] = take();
	if (how & 32)
		w.log[take() % 24] = take();
	if (how & 8)
		cqe.sqhd = take();
	if (how & 16)
		cqe.cid ^= (uint16_t)(take() << 8 | take());
	if (how == 0xff)
		len = take() % sizeof(bytes);
	nvme_cqe_put(&out, &cqe);
	exact = malloc(len + !len);
	must(exact);
	memcpy(exact, bytes, len);
	host_queue_response(&w.host, qid, exact, len, w.now);
	free(exact);
}

/* ---- steps -------------------------------------------------------------------------------------
 */

static void opened(uint16_t qid, uint8_t limit)
{
	if (!w.opening[qid])
		return;
	w.opening[qid] = false;
	w.open[qid] = true;
	w.limit[qid] = limit;
	host_queue_opened(&w.host, qid, limit, w.now);
}

static void pass_time(uint64_t to)
{
	w.now = max_of(w.now, to);
	/* What is due may come to be due again at once, but not for ever. */
	for (int i = 0; host_next_deadline(&w.host) <= w.now; i++) {
		must(i < 100);
		host_tick(&w.host, w.now);
	}
}

static void step(void)
{
	uint8_t what = take(), arg = take();
	uint16_t qid = arg % (1 + QUEUES);

	switch (what % 10) {
	case 0:
		for (uint16_t i = 0; i <= QUEUES; i++)
			opened(i, arg);
		break;
	case 1:
		respond(0, arg);
		break;
	case 2:
		respond(take(), arg);
		break;
	case 3: /* good answers for a while */
		for (int i = arg % 32; i >= 0; i--) {
			for (uint16_t j = 0; j <= QUEUES; j++)
				opened(j, 32);
			respond(0, 0);
		}
		break;
	case 4:
		submit(qid, take());
		break;
	case 5:
		host_queue_lost(&w.host, qid, arg & 0x80 ? "of its own making" : NULL, w.now);
		break;
	case 6:
		if (arg & 1)
			pass_time(w.now + arg * 20000000ull);
		else if (host_next_deadline(&w.host) != UINT64_MAX)
			pass_time(host_next_deadline(&w.host));
		break;
	case 7:
		w.refuse = arg & 3;
		w.refuse_for_good = arg & 4;
		w.refuse_open = arg & 8;
		w.resubmit = arg & 16;
		break;
	case 8:
		if (arg & 0x80)
			discover();
		else
			host_queue_writable(&w.host, qid, w.now);
		break;
	case 9:
		if (arg < 16)
			host_shutdown(&w.host, w.now);
		else
			host_reset(&w.host, w.now);
		break;
	}
}

static void wind_up(void)
{
	w.refuse = 0;
	w.refuse_open = w.resubmit = false;
	host_shutdown(&w.host, w.now);
	for (int i = 0; w.host.state != HOST_CLOSED; i++) {
		must(i < TICKS_MAX && host_next_deadline(&w.host) != UINT64_MAX);
		pass_time(host_next_deadline(&w.host));
	}
	must(!w.discovering);
	must(w.outs == 0 && host_next_deadline(&w.host) == UINT64_MAX);
	for (int i = 0; i < REQUESTS; i++)
		must(!w.request[i].busy);
	for (int i = 0; i <= QUEUES; i++)
		must(!w.open[i] && !w.opening[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct host_config config = {
		.subnqn = "nqn.2024-01.test:one",
		.hostnqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000001",
		.io_entries = ENTRIES,
		.open_timeout_ns = NSEC_PER_SEC,
		.command_timeout_ns = 2 * NSEC_PER_SEC,
		.shutdown_timeout_ns = NSEC_PER_SEC,
		.reconnect_delay_ns = NSEC_PER_SEC / 10,
		.changed = changed,
		.over = over,
		.event = on_event,
		.namespace_lost = namespace_lost,
		.arg = &w,
	};
	uint8_t how;

	memset(&w, 0, sizeof(w));
	w.now = NSEC_PER_SEC;
	w.in = data;
	w.in_end = data + size;
	how = take();
	config.io_queues = how % (1 + QUEUES);
	config.keep_alive_ms = how & 4 ? 1000 : 0;
	config.loss_timeout_ns = how & 8 ? 3 * NSEC_PER_SEC : how & 16 ? UINT64_MAX : 0;
	if (how >= 250)
		memcpy(config.subnqn, NVMF_DISCOVERY_NQN, sizeof(NVMF_DISCOVERY_NQN));
	must(!host_init(&w.host, &config, &transport, &w, w.queue, w.places, w.scratch));
	for (uint32_t i = 0; how & 32 && i < ARRAY_SIZE(w.known); i++) {
		w.known[i].nsid = i;
		host_ns_know(&w.host, &w.known[i]);
	}
	host_start(&w.host, w.now);
	for (int i = 0; i < STEPS_MAX && w.in < w.in_end; i++)
		step();
	wind_up();
	return 0;
}
