/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Our CM in the place of either kernel of a capture. What the capture's other side said is given
 * to the CM service; where the side that we stand for said something, the application is made to
 * want the same, and what comes out must be the kernel's message byte for byte, apart from the
 * comm and transaction ids that each side chooses. Arguments: pcap files.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "broker/cm_service.h"
#include "broker/gsi.h"
#include "roce_pcap.h"
#include "wire/bth.h"
#include "wire/cm_ip.h"
#include "wire/icrc.h"

#define CONNS_MAX 64
#define SENT_MAX  8

struct conn { /* of the capture, by the comm id of the side we stand for, or by the peer's */
	uint32_t peer_id;   /* in the capture */
	uint32_t kernel_id; /* of the kernel we stand for; 0: never said */
	uint32_t our_id;    /* what our CM has instead */
	uint32_t handle;    /* of the service */
	uint64_t kernel_tid, our_tid;
};

struct replay {
	const struct roce_packet *at;
	struct gid self;
	struct cm_service *svc;
	struct cm_client *client;
	uint32_t channel;
	int fd;
	uint64_t now, guid;
	struct conn conn[CONNS_MAX];
	unsigned conns;
	uint8_t sent[SENT_MAX][MAD_LEN];
	unsigned nsent;
	unsigned compared[32]; /* by attribute id */
};

static struct roce_packets captured;
static const struct roce_packet *where; /* NULL: not in a replay */

/* Of rxe-cm-reject: a script, whose REQ has no flow label. */
static const struct gid no_kernel = {{[10] = 0xff, [11] = 0xff, 192, 168, 77, 1}};

/* ---- what the service needs ------------------------------------------------------------------ */

static uint32_t on_random(void *ctx)
{
	static uint32_t x = 5;

	(void)ctx;
	x = x * 1664525 + 1013904223;
	return x >> 3 | x << 29;
}

static void on_send(void *ctx, const struct packet_tx *tx)
{
	struct replay *r = ctx;

	assert_true(r->nsent < SENT_MAX);
	assert_true(gid_equal(&tx->flow->sgid, &r->self));
	assert_int_equal(tx->niov, 1);
	memcpy(r->sent[r->nsent++], tx->iov[0].iov_base, MAD_LEN);
}

static bool on_local_addr(void *ctx, const struct gid *addr, uint32_t scope,
			  struct cm_local_addr *ret)
{
	struct replay *r = ctx;

	(void)scope;
	*ret = (struct cm_local_addr){.ca_guid = r->guid, .ifindex = 2, .path_mtu = 5};
	return gid_equal(addr, &r->self);
}

static int ask(struct replay *r, void *req, size_t len)
{
	uint8_t reply[BROKER_CM_REPLY_MAX];
	size_t n = cm_client_request(r->client, req, len, reply, r->now);
	int err = ((struct broker_msg *)reply)->error;

	if (err == 0 && n == len + sizeof(struct broker_cm_saved))
		memcpy(req, reply, len);
	return err;
}

/* In the port space of a REQ's or SIDR_REQ's service. */
static uint32_t new_id(struct replay *r, const struct cm_msg *m)
{
	bool datagrams = m->hdr.attr_id == CM_ATTR_SIDR_REQ;
	struct broker_cm_create_id q = {.msg.type = BROKER_CM_CREATE_ID,
					.channel = r->channel,
					.ps = datagrams ? CM_PS_UDP : CM_PS_TCP,
					.datagrams = datagrams};

	assert_int_equal(ask(r, &q, sizeof(q)), 0);
	return q.id;
}

static void bind_id(struct replay *r, uint32_t id, const struct gid *addr, uint16_t port)
{
	struct broker_cm_bind q = {
		.msg.type = BROKER_CM_BIND, .id = id, .addr = *addr, .port = port, .reuse = 1};

	assert_int_equal(ask(r, &q, sizeof(q)), 0);
}

static void simple(struct replay *r, enum broker_cm_msg_type type, uint32_t handle)
{
	struct broker_cm_id q = {.msg.type = type, .id = handle};

	assert_int_equal(ask(r, &q, sizeof(q)), 0);
}

/* ---- the connections of the capture ------------------------------------------------------------
 */

static struct conn *conn_of(struct replay *r, uint32_t peer_id, uint32_t kernel_id)
{
	for (unsigned i = 0; i < r->conns; i++)
		if ((peer_id && r->conn[i].peer_id == peer_id) ||
		    (kernel_id && r->conn[i].kernel_id == kernel_id))
			return &r->conn[i];
	assert_true(r->conns < CONNS_MAX);
	r->conn[r->conns] = (struct conn){.peer_id = peer_id, .kernel_id = kernel_id};
	return &r->conn[r->conns++];
}

/* Both comm ids of a message, by name. Of a REQ only the sender's. */
static uint32_t *local_id(struct cm_msg *m)
{
	static uint32_t none;

	switch (m->hdr.attr_id) {
	case CM_ATTR_SIDR_REQ:
		return &m->sidr_req.request_id;
	case CM_ATTR_SIDR_REP:
		none = 0;
		return &none;
	case CM_ATTR_REQ:
		return &m->req.local_comm_id;
	case CM_ATTR_REJ:
		return &m->rej.local_comm_id;
	case CM_ATTR_REP:
		return &m->rep.local_comm_id;
	case CM_ATTR_RTU:
		return &m->rtu.local_comm_id;
	case CM_ATTR_DREQ:
		return &m->dreq.local_comm_id;
	case CM_ATTR_DREP:
		return &m->drep.local_comm_id;
	default:
		fail();
		return NULL;
	}
}

static uint32_t *remote_id(struct cm_msg *m)
{
	static uint32_t none;

	switch (m->hdr.attr_id) {
	case CM_ATTR_REQ:
	case CM_ATTR_SIDR_REQ:
		none = 0;
		return &none;
	case CM_ATTR_SIDR_REP:
		return &m->sidr_rep.request_id;
	case CM_ATTR_REJ:
		return &m->rej.remote_comm_id;
	case CM_ATTR_REP:
		return &m->rep.remote_comm_id;
	case CM_ATTR_RTU:
		return &m->rtu.remote_comm_id;
	case CM_ATTR_DREQ:
		return &m->dreq.remote_comm_id;
	case CM_ATTR_DREP:
		return &m->drep.remote_comm_id;
	default:
		fail();
		return NULL;
	}
}

/* ---- the application's wishes ------------------------------------------------------------------
 */

static void want_req(struct replay *r, struct conn *c, const struct cm_msg *m)
{
	const struct cm_req *req = &m->req;
	struct cm_ip_hdr ip;
	struct broker_cm_connect q = {
		.msg.type = BROKER_CM_CONNECT,
		.param = {.src = req->primary.local_gid,
			  .dst = req->primary.remote_gid,
			  .dst_port = (uint16_t)req->service_id,
			  .qpn = req->local_qpn,
			  .starting_psn = req->starting_psn,
			  .path_mtu = req->path_mtu,
			  .responder_resources = req->responder_resources,
			  .initiator_depth = req->initiator_depth,
			  .flow_control = req->end_to_end_flow_control,
			  .retry_count = req->retry_count,
			  .rnr_retry_count = req->rnr_retry_count,
			  .srq = req->srq,
			  .tos = req->primary.traffic_class,
			  .local_ack_timeout = req->primary.local_ack_timeout,
			  .private_len = CM_REQ_PRIVATE - CM_IP_HDR_LEN},
	};

	assert_int_equal(cm_ip_hdr_decode(&ip, req->private_data), 0);
	memcpy(q.param.private_data, req->private_data + CM_IP_HDR_LEN, q.param.private_len);
	q.id = c->handle = new_id(r, m);
	bind_id(r, c->handle, &ip.src, ip.port);
	assert_int_equal(ask(r, &q, sizeof(q)), 0);
}

static void want_sidr_req(struct replay *r, struct conn *c, const struct cm_msg *m)
{
	const struct cm_sidr_req *req = &m->sidr_req;
	struct cm_ip_hdr ip;
	struct broker_cm_connect q = {
		.msg.type = BROKER_CM_CONNECT,
		.param = {.dst_port = (uint16_t)req->service_id,
			  .private_len = CM_SIDR_REQ_PRIVATE - CM_IP_HDR_LEN},
	};

	assert_int_equal(cm_ip_hdr_decode(&ip, req->private_data), 0);
	memcpy(q.param.private_data, req->private_data + CM_IP_HDR_LEN, q.param.private_len);
	q.param.src = ip.src;
	q.param.dst = ip.dst;
	q.id = c->handle = new_id(r, m);
	bind_id(r, c->handle, &ip.src, ip.port);
	assert_int_equal(ask(r, &q, sizeof(q)), 0);
}

static void want_sidr_rep(struct replay *r, struct conn *c, const struct cm_msg *m)
{
	struct broker_cm_connect q = {
		.msg.type = BROKER_CM_ACCEPT,
		.id = c->handle,
		.param = {.qpn = m->sidr_rep.qpn,
			  .qkey = m->sidr_rep.qkey,
			  .private_len = CM_SIDR_REP_PRIVATE},
	};

	memcpy(q.param.private_data, m->sidr_rep.private_data, CM_SIDR_REP_PRIVATE);
	assert_int_equal(ask(r, &q, sizeof(q)), 0);
}

static void want_rep(struct replay *r, struct conn *c, const struct cm_msg *m)
{
	const struct cm_rep *rep = &m->rep;
	struct broker_cm_connect q = {
		.msg.type = BROKER_CM_ACCEPT,
		.id = c->handle,
		.param = {.qpn = rep->local_qpn,
			  .starting_psn = rep->starting_psn,
			  .responder_resources = rep->responder_resources,
			  .initiator_depth = rep->initiator_depth,
			  .flow_control = rep->end_to_end_flow_control,
			  .rnr_retry_count = rep->rnr_retry_count,
			  .srq = rep->srq,
			  .private_len = CM_REP_PRIVATE},
	};

	memcpy(q.param.private_data, rep->private_data, CM_REP_PRIVATE);
	assert_int_equal(ask(r, &q, sizeof(q)), 0);
}

static void want_rej(struct replay *r, struct conn *c, const struct cm_msg *m)
{
	struct broker_cm_reject q = {.msg.type = BROKER_CM_REJECT,
				     .id = c->handle,
				     .reason = m->rej.reason,
				     .private_len = CM_REJ_PRIVATE};

	if (m->rej.reason != CM_REJ_CONSUMER_DEFINED) { /* the CM's own doing, given time */
		r->now += 200000000;
		cm_service_tick(r->svc, r->now);
		return;
	}
	memcpy(q.private_data, m->rej.private_data, CM_REJ_PRIVATE);
	assert_int_equal(ask(r, &q, sizeof(q)), 0);
}

static void want(struct replay *r, struct conn *c, const struct cm_msg *m)
{
	switch (m->hdr.attr_id) {
	case CM_ATTR_REQ:
		want_req(r, c, m);
		return;
	case CM_ATTR_REP:
		want_rep(r, c, m);
		return;
	case CM_ATTR_REJ:
		want_rej(r, c, m);
		return;
	case CM_ATTR_SIDR_REQ:
		want_sidr_req(r, c, m);
		return;
	case CM_ATTR_SIDR_REP:
		want_sidr_rep(r, c, m);
		return;
	case CM_ATTR_RTU:
		simple(r, BROKER_CM_ESTABLISH, c->handle);
		return;
	default: /* DREQ, DREP; none is left to want where DREQs crossed */
		if (r->nsent == 0)
			simple(r, BROKER_CM_DISCONNECT, c->handle);
		return;
	}
}

/* ---- the replay
 * ----------------------------------------------------------------------------------- */

static bool is_request(const struct cm_msg *m)
{
	return m->hdr.attr_id == CM_ATTR_REQ || m->hdr.attr_id == CM_ATTR_SIDR_REQ;
}

static void said_by_kernel(struct replay *r, struct cm_msg *kernel)
{
	struct conn *c = conn_of(r, *remote_id(kernel), *local_id(kernel));
	uint8_t expected[MAD_LEN], got[MAD_LEN];
	struct cm_msg ours;

	if (*local_id(kernel))
		c->kernel_id = *local_id(kernel);
	want(r, c, kernel);
	assert_int_equal(r->nsent, 1);
	r->nsent = 0;
	assert_int_equal(cm_msg_decode(&ours, r->sent[0]), 0);
	assert_int_equal(ours.hdr.attr_id, kernel->hdr.attr_id);
	if (!c->our_id)
		c->our_id = *local_id(&ours);
	if (is_request(kernel)) {
		c->kernel_tid = kernel->hdr.tid;
		c->our_tid = ours.hdr.tid;
	}
	/* Ours: one id for a connection, as the kernel has one. */
	if (*local_id(kernel) == c->kernel_id) {
		assert_int_equal(*local_id(&ours), c->our_id);
		*local_id(&ours) = *local_id(kernel);
	}
	if (ours.hdr.tid == c->our_tid && c->our_tid)
		ours.hdr.tid = c->kernel_tid;
	if (kernel->hdr.attr_id == CM_ATTR_DREQ)
		ours.hdr.tid = kernel->hdr.tid;
	cm_msg_encode(kernel, expected);
	cm_msg_encode(&ours, got);
	assert_memory_equal(got, expected, MAD_LEN);
	r->compared[kernel->hdr.attr_id]++;
}

static void said_by_peer(struct replay *r, struct cm_msg *m)
{
	struct conn *c = conn_of(r, *local_id(m), *remote_id(m));
	struct roce_packet p = *r->at;
	uint8_t data[BTH_LEN + DETH_LEN + MAD_LEN];
	struct broker_cm_event ev;
	struct packet_rx rx = {.flow = p.flow, .data = data, .len = sizeof(data)};

	if (*local_id(m))
		c->peer_id = *local_id(m);
	if (*remote_id(m)) {
		assert_int_equal(*remote_id(m), c->kernel_id);
		*remote_id(m) = c->our_id;
	}
	if (m->hdr.tid == c->kernel_tid && c->our_tid)
		m->hdr.tid = c->our_tid;
	memcpy(data, p.udp, BTH_LEN + DETH_LEN);
	cm_msg_encode(m, data + BTH_LEN + DETH_LEN);
	cm_service_rx(r->svc, &rx, r->now);
	while (read(r->fd, &ev, sizeof(ev)) == sizeof(ev))
		if (ev.type == BROKER_CM_EV_CONNECT_REQUEST) {
			assert_true(is_request(m));
			c->handle = ev.id;
		} else {
			assert_int_equal(ev.id, c->handle);
		}
}

/* The CM message of a packet; false for all else. */
static bool decode(const struct roce_packet *p, struct cm_msg *m)
{
	struct packet_rx rx = {.flow = p->flow, .data = p->udp, .len = p->udp_len - ICRC_LEN};
	const uint8_t *mad = gsi_decode(&rx);

	return mad && cm_msg_decode(m, mad) == 0;
}

static uint64_t service_of(const struct cm_msg *m)
{
	return m->hdr.attr_id == CM_ATTR_REQ ? m->req.service_id : m->sidr_req.service_id;
}

static void listen_on(struct replay *r, const struct cm_msg *m)
{
	struct broker_cm_listen q = {.msg.type = BROKER_CM_LISTEN, .id = new_id(r, m)};

	bind_id(r, q.id, &(struct gid){{0}}, (uint16_t)service_of(m));
	assert_int_equal(ask(r, &q, sizeof(q)), 0);
}

/* Is it what only a listener's application can have said? */
static bool of_a_listener(const struct cm_msg *m)
{
	return m->hdr.attr_id == CM_ATTR_REP ||
	       (m->hdr.attr_id == CM_ATTR_REJ && m->rej.reason == CM_REJ_CONSUMER_DEFINED) ||
	       (m->hdr.attr_id == CM_ATTR_SIDR_REP && m->sidr_rep.status == CM_SIDR_SUCCESS);
}

/* Listeners where the kernel had some, and the GUID it says. */
static void prepare(struct replay *r, const struct roce_packet *p, size_t n)
{
	uint64_t services[CONNS_MAX];
	unsigned nservices = 0;
	struct cm_msg m, answer;

	for (size_t i = 0; i < n; i++) {
		if (!decode(&p[i], &m))
			continue;
		if (gid_equal(&p[i].flow.sgid, &r->self)) {
			if (m.hdr.attr_id == CM_ATTR_REQ)
				r->guid = m.req.local_ca_guid;
			if (m.hdr.attr_id == CM_ATTR_REP)
				r->guid = m.rep.local_ca_guid;
			continue;
		}
		if (!is_request(&m))
			continue;
		for (size_t k = i + 1; k < n; k++) {
			unsigned seen = 0;

			if (!decode(&p[k], &answer) || *remote_id(&answer) != *local_id(&m))
				continue;
			while (seen < nservices && services[seen] != service_of(&m))
				seen++;
			if (seen == nservices && of_a_listener(&answer)) {
				services[nservices++] = service_of(&m);
				listen_on(r, &m);
			}
			break;
		}
	}
}

static void stand_in(const struct roce_packet *p, size_t n, const struct gid *self,
		     unsigned compared[32])
{
	static const struct cm_service_ops ops = {on_random, on_send, on_local_addr};
	struct replay *r = calloc(1, sizeof(*r));
	struct cm_msg m;

	r->self = *self;
	r->now = 1000000000;
	assert_int_equal(cm_service_create(&r->svc, &ops, r), 0);
	assert_int_equal(cm_client_create(r->svc, 0, &r->client), 0);
	assert_int_equal(cm_client_channel(r->client, &r->channel, &r->fd), 0);
	assert_int_equal(fcntl(r->fd, F_SETFL, O_NONBLOCK), 0);
	prepare(r, p, n);
	for (size_t i = 0; i < n; i++) {
		if (!decode(&p[i], &m))
			continue;
		r->at = &p[i];
		r->now += 1000000;
		where = &p[i];
		if (gid_equal(&p[i].flow.sgid, self))
			said_by_kernel(r, &m);
		else if (gid_equal(&p[i].flow.dgid, self))
			said_by_peer(r, &m);
	}
	where = NULL;
	for (int k = 0; k < 32; k++)
		compared[k] += r->compared[k];
	cm_client_destroy(r->client, r->now);
	cm_service_destroy(r->svc);
	close(r->fd);
	free(r);
}

/* Every address that sends CM messages in one file is stood in for in turn. */
static void in_the_kernels_place_our_cm_says_the_same(void **state)
{
	static const enum cm_attr_id wanted[] = {CM_ATTR_REQ,	   CM_ATTR_REP,	    CM_ATTR_REJ,
						 CM_ATTR_RTU,	   CM_ATTR_DREQ,    CM_ATTR_DREP,
						 CM_ATTR_SIDR_REQ, CM_ATTR_SIDR_REP};
	unsigned compared[32] = {0};

	(void)state;
	for (size_t i = 0, n; i < captured.count; i += n) {
		const struct roce_packet *p = &captured.packet[i];
		struct gid seen[8];
		unsigned nseen = 0;

		for (n = 1; i + n < captured.count && strcmp(p[n].file, p->file) == 0;)
			n++;
		for (size_t k = 0; k < n; k++) {
			struct cm_msg m;
			unsigned s = 0;

			while (s < nseen && !gid_equal(&seen[s], &p[k].flow.sgid))
				s++;
			if (s < nseen || gid_equal(&p[k].flow.sgid, &no_kernel) ||
			    !decode(&p[k], &m))
				continue;
			assert_true(nseen < ARRAY_SIZE(seen));
			seen[nseen++] = p[k].flow.sgid;
			stand_in(p, n, &p[k].flow.sgid, compared);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		assert_true(compared[wanted[i]] >= 2);
}

static int say_where(void **state)
{
	(void)state;
	if (where)
		print_error("%s: at frame %d\n", where->file, where->frame);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(in_the_kernels_place_our_cm_says_the_same, say_where),
	};

	for (int i = 1; i < argc; i++) {
		int err = roce_pcap_read(&captured, argv[i]);

		if (err < 0) {
			print_error("%s: %s\n", argv[i], strerror(-err));
			return 1;
		}
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
