/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The broker's connection manager before a local client that follows no rule, beside one that
 * does: what the hostile one asks for never touches what is the other's, and when both are gone
 * nothing is left of either.
 * Input: a sequence of steps, each a byte that names it and its arguments.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/time.h"
#include "broker/cm_service.h"

#define STEPS_MAX    300
#define WIRE_MAX     64
#define CHANNELS_MAX 8
#define IDS_MAX	     32
#define PS_TCP	     0x0106

struct client {
	struct cm_client *c;
	uint32_t channel[CHANNELS_MAX], id[IDS_MAX];
	int fd[CHANNELS_MAX];
	uint32_t channels, ids;
};

struct packet {
	struct flow flow;
	size_t len;
	uint8_t data[512];
};

static struct world {
	struct cm_service *svc;
	struct client good, bad;
	struct packet wire[WIRE_MAX];
	size_t on_wire;
	uint64_t now;
	uint32_t random;
	struct broker_cm_saved saved; /* the last */
	const uint8_t *in, *in_end;
} world;

static uint8_t take(void)
{
	return world.in < world.in_end ? *world.in++ : 0;
}

static void take_into(void *to, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)to)[i] = take();
}

static uint32_t on_random(void *ctx)
{
	(void)ctx;
	return world.random = world.random * 1664525 + 1013904223;
}

/* The host talks to itself: whatever is sent comes in again, or is lost when too much is on the
 * way. */
static void on_send(void *ctx, const struct packet_tx *tx)
{
	struct packet *p = &world.wire[world.on_wire];

	(void)ctx;
	if (world.on_wire == WIRE_MAX)
		return;
	p->flow = *tx->flow;
	p->len = tx->hdr_len;
	memcpy(p->data, tx->hdr, tx->hdr_len);
	for (size_t i = 0; i < tx->niov; i++) {
		must(p->len + tx->iov[i].iov_len <= sizeof(p->data));
		memcpy(p->data + p->len, tx->iov[i].iov_base, tx->iov[i].iov_len);
		p->len += tx->iov[i].iov_len;
	}
	world.on_wire++;
}

static const struct gid here = {{[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

static bool on_local_addr(void *ctx, const struct gid *addr, uint32_t scope,
			  struct cm_local_addr *ret)
{
	(void)ctx;
	(void)scope;
	*ret = (struct cm_local_addr){.ca_guid = 0x1111, .ifindex = 1, .path_mtu = 5};
	return gid_equal(addr, &here);
}

static int on_neighbour(void *ctx, const struct flow *flow, bool probe)
{
	(void)ctx;
	(void)flow;
	(void)probe;
	return take() & 1 ? -EAGAIN : 0;
}

static const struct cm_service_ops ops = {on_random, on_send, on_local_addr, on_neighbour};

static void carry(void)
{
	for (int i = 0; i < 1000 && world.on_wire; i++) {
		struct packet p = world.wire[--world.on_wire];
		struct gid from = p.flow.sgid;
		struct packet_rx rx;

		p.flow.sgid = p.flow.dgid;
		p.flow.dgid = from;
		rx = (struct packet_rx){.flow = p.flow, .data = p.data, .len = p.len};
		cm_service_rx(world.svc, &rx, world.now);
	}
}

static void pass(uint64_t ns)
{
	uint64_t until = world.now + ns;

	for (int i = 0; i < 20000; i++) {
		uint64_t next = cm_service_next_deadline(world.svc);

		if (next > until)
			break;
		world.now = max_of(next, world.now);
		cm_service_tick(world.svc, world.now);
		carry();
	}
	world.now = until;
}

/* ---- clients --------------------------------------------------------------------------------- */

static void open_channel(struct client *c)
{
	uint32_t i = c->channels;

	if (i < CHANNELS_MAX && cm_client_channel(c->c, &c->channel[i], &c->fd[i]) == 0) {
		must(fcntl(c->fd[i], F_SETFL, O_NONBLOCK) == 0);
		c->channels++;
	}
}

static void open_client(struct client *c)
{
	*c = (struct client){0};
	must(cm_client_create(world.svc, 0, &c->c) == 0);
	open_channel(c);
}

static void close_client(struct client *c)
{
	cm_client_destroy(c->c, world.now);
	for (uint32_t i = 0; i < c->channels; i++)
		close(c->fd[i]);
}

static void remember(struct client *c, uint32_t id)
{
	c->id[c->ids++ % IDS_MAX] = id;
}

/* Takes up to so many events; requests bring ids of their own. */
static void read_events(struct client *c, int n)
{
	struct broker_cm_event ev;

	for (uint32_t i = 0; i < c->channels; i++)
		for (int k = 0; k < n && read(c->fd[i], &ev, sizeof(ev)) == sizeof(ev); k++) {
			must(ev.param.private_len <= BROKER_CM_PRIVATE_MAX);
			if (ev.saved.len)
				world.saved = ev.saved;
			if (ev.type == BROKER_CM_EV_CONNECT_REQUEST)
				remember(c, ev.id);
		}
}

static int32_t ask(struct client *c, void *req, size_t len, void *reply)
{
	size_t n = cm_client_request(c->c, req, len, reply, world.now);
	struct broker_msg msg;

	must(n >= sizeof(msg) && n <= BROKER_CM_REPLY_MAX);
	memcpy(&msg, reply, sizeof(msg));
	must(msg.error <= 0);
	if (msg.error == 0) {
		must(n >= sizeof(msg) + sizeof(world.saved));
		memcpy(&world.saved, (uint8_t *)reply + n - sizeof(world.saved),
		       sizeof(world.saved));
	}
	return msg.error;
}

/* ---- the good one ---------------------------------------------------------------------------- */

static uint32_t good_id(void)
{
	struct broker_cm_create_id req = {
		.msg.type = BROKER_CM_CREATE_ID, .channel = world.good.channel[0], .ps = PS_TCP};
	struct broker_cm_create_id reply;
	uint8_t room[BROKER_CM_REPLY_MAX];

	must(ask(&world.good, &req, sizeof(req), room) == 0);
	memcpy(&reply, room, sizeof(reply));
	return reply.id;
}

static void good_listens(void)
{
	uint8_t room[BROKER_CM_REPLY_MAX];
	uint32_t id = good_id();
	struct broker_cm_bind bind = {
		.msg.type = BROKER_CM_BIND, .id = id, .addr = here, .port = 1};
	struct broker_cm_listen listen = {.msg.type = BROKER_CM_LISTEN, .id = id, .backlog = 4};

	must(ask(&world.good, &bind, sizeof(bind), room) == 0);
	must(ask(&world.good, &listen, sizeof(listen), room) == 0);
	world.good.id[0] = id;
	world.good.ids = 1;
}

/* ---- the bad one ----------------------------------------------------------------------------- */

/* By the type: the request's right length. */
static size_t right_length(uint32_t type)
{
	static const size_t lengths[] = {
		sizeof(struct broker_cm_create_id), sizeof(struct broker_cm_id),
		sizeof(struct broker_cm_bind),	    sizeof(struct broker_cm_listen),
		sizeof(struct broker_cm_connect),   sizeof(struct broker_cm_connect),
		sizeof(struct broker_cm_id),	    sizeof(struct broker_cm_reject),
		sizeof(struct broker_cm_id),	    sizeof(struct broker_cm_id),
		sizeof(struct broker_cm_migrate),   sizeof(struct broker_cm_post),
		sizeof(struct broker_cm_id),
	};
	size_t i = type - BROKER_CM_FIRST;

	return i < ARRAY_SIZE(lengths) ? lengths[i] : sizeof(struct broker_msg);
}

/* A request with some fields that make sense, so that it comes far, and some bytes that need not.
 */
static void bad_request(void)
{
	union {
		struct broker_msg msg;
		struct broker_cm_create_id create;
		struct broker_cm_bind bind;
		struct broker_cm_connect connect;
		struct broker_cm_migrate migrate;
		struct broker_cm_post post;
		uint8_t bytes[sizeof(struct broker_cm_connect) + 64];
	} r = {0};
	uint32_t type = BROKER_CM_FIRST + take() % 16, id;
	uint8_t room[BROKER_CM_REPLY_MAX], how = take();
	size_t len = right_length(type);
	bool others = (how & 7) == 7;
	int32_t rc;

	/* What is behind the header and the id. */
	if (type == BROKER_CM_CREATE_ID)
		r.create.ps = PS_TCP;
	if (type == BROKER_CM_BIND) {
		r.bind.addr = here;
		r.bind.port = take() % 4;
	}
	if (type == BROKER_CM_POST) {
		r.post.type = BROKER_CM_EV_ADDR_RESOLVED;
		r.post.dst = here;
		r.post.timeout_ms = take() * 100u;
	}
	if (type == BROKER_CM_CONNECT || type == BROKER_CM_ACCEPT) {
		r.connect.param.src = r.connect.param.dst = here;
		r.connect.param.dst_port = 1 + take() % 4;
		r.connect.param.path_mtu = 3;
		r.connect.param.qpn = 0x10000u + take();
	}
	for (int i = how >> 4; i; i--) {
		size_t at =
			sizeof(r.msg) + (take() | (size_t)take() << 8) % (len - sizeof(r.msg) + 1);

		if (at < sizeof(r.bytes))
			r.bytes[at] = take();
	}
	id = others ? world.good.id[0] : world.bad.id[take() % IDS_MAX];
	r.msg.type = type;
	if (type != BROKER_CM_CREATE_ID)
		memcpy(r.bytes + sizeof(r.msg), &id, sizeof(id));
	if (type == BROKER_CM_CREATE_ID)
		r.create.channel = world.bad.channel[take() % CHANNELS_MAX];
	if (type == BROKER_CM_MIGRATE)
		r.migrate.channel = world.bad.channel[take() % CHANNELS_MAX];
	if (type == BROKER_CM_WATCH || type == BROKER_CM_CLOSE_CHANNEL)
		memcpy(r.bytes + sizeof(r.msg), &world.bad.channel[take() % CHANNELS_MAX], 4);
	if (how & 8)
		len = take() % sizeof(r.bytes);
	rc = ask(&world.bad, &r, len, room);
	if (others && type != BROKER_CM_CREATE_ID && type != BROKER_CM_WATCH &&
	    type != BROKER_CM_CLOSE_CHANNEL)
		must(rc != 0);
	if (rc == 0 && type == BROKER_CM_CREATE_ID) {
		memcpy(&r, room, sizeof(r.create));
		remember(&world.bad, r.create.id);
	}
}

/* What was saved of one of its ids, or lately of another one's, comes back, changed in places. */
static void bad_resume(void)
{
	struct broker_cm_resume r = {.msg.type = BROKER_CM_RESUME, .saved = world.saved};
	uint8_t room[BROKER_CM_REPLY_MAX], how = take();

	for (int i = how % 8; i; i--)
		r.saved.bytes[(take() | (size_t)take() << 8) % sizeof(r.saved.bytes)] = take();
	if (how & 8)
		r.saved.id = world.bad.id[take() % IDS_MAX];
	if (how & 16) { /* the same inside, where the handle stands first */
		r.saved.id += take();
		memcpy(r.saved.bytes, &r.saved.id, sizeof(r.saved.id));
	}
	if (how & 32)
		r.saved.len += take();
	if (ask(&world.bad, &r, sizeof(r), room) == 0)
		remember(&world.bad, r.saved.id);
}

/* From anywhere on: it is told of ids that are, of clients that are. */
static void bad_list(void)
{
	struct broker_list_id v[4];
	uint64_t from = take() | (uint64_t)take() << 8 | (uint64_t)take() << 60, before = from;
	uint32_t n = cm_service_list(world.svc, 0, &from, v, ARRAY_SIZE(v));

	must(n <= ARRAY_SIZE(v) && (!from || from > before));
	for (uint32_t i = 0; i < n; i++)
		must(v[i].state < BROKER_LIST_STATES &&
		     (v[i].client == cm_client_nr(world.good.c) ||
		      v[i].client == cm_client_nr(world.bad.c)));
	from = 0;
	must(cm_service_list(world.svc, 1, &from, v, ARRAY_SIZE(v)) == 0); /* nobody's */
}

static void bad_packet(void)
{
	uint8_t data[400];
	struct packet_rx rx = {.flow = {.sgid = here, .dgid = here}, .data = data};

	rx.len = min_of((size_t)take() * 2, sizeof(data));
	take_into(data, rx.len);
	cm_service_rx(world.svc, &rx, world.now);
}

static void step(void)
{
	static const uint64_t times[] = {1000000, 200000000, 5 * NSEC_PER_SEC, 100 * NSEC_PER_SEC};

	switch (take() % 8) {
	case 0:
	case 1:
	case 2:
		bad_request();
		return;
	case 3:
		carry();
		return;
	case 4:
		read_events(&world.bad, take() % 8);
		return;
	case 5:
		pass(times[take() % ARRAY_SIZE(times)]);
		return;
	case 6:
		if (take() % 4)
			bad_resume();
		else
			open_channel(&world.bad);
		return;
	default:
		switch (take() % 5) {
		case 0:
			close_client(&world.bad);
			open_client(&world.bad);
			return;
		case 1:
			bad_packet();
			return;
		case 2:
			cm_service_device_changed(world.svc, take() % 2 + 1,
						  BROKER_DEVICE_PORT_ERR + take() % 4, world.now);
			return;
		case 3:
			bad_list();
			return;
		default:
			read_events(&world.good, 100);
			return;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t room[BROKER_CM_REPLY_MAX];
	struct broker_cm_id end = {.msg.type = BROKER_CM_DESTROY_ID};

	signal(SIGPIPE, SIG_IGN);
	world = (struct world){.now = NSEC_PER_SEC, .in = data, .in_end = data + size};
	must(cm_service_create(&world.svc, &ops, NULL) == 0);
	open_client(&world.good);
	open_client(&world.bad);
	good_listens();
	for (int i = 0; i < STEPS_MAX && world.in < world.in_end; i++)
		step();
	/* What is the good one's is as it was. */
	end.id = world.good.id[0];
	must(ask(&world.good, &end, sizeof(end), room) == 0);
	must(ask(&world.good, &end, sizeof(end), room) == -ENOENT);
	close_client(&world.good);
	close_client(&world.bad);
	pass(10000 * NSEC_PER_SEC);
	must(cm_service_busy(world.svc) == 0);
	must(cm_service_next_deadline(world.svc) == DEADLINE_NEVER);
	cm_service_destroy(world.svc);
	return 0;
}
