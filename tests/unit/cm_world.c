/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm_world.h"
#include "wire/bth.h"
#include "wire/cm_mad.h"

/* ---- the world ------------------------------------------------------------------------------- */

uint32_t world_random(struct world *w)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((w->random ^ w->random >> 22) >> 29);
}

static uint32_t on_random(void *ctx)
{
	return world_random(((struct host *)ctx)->w);
}

static void on_send(void *ctx, const struct packet_tx *tx)
{
	struct host *h = ctx;
	/* Not by calloc(), which test_cm_heap lets fail: this is the wire. */
	struct packet *p = reallocarray(NULL, 1, sizeof(*p));

	*p = (struct packet){0};
	h->w->sent++;
	assert_int_equal(tx->hdr_len, BTH_LEN + DETH_LEN);
	assert_int_equal(tx->payload_len, MAD_LEN);
	p->flow = *tx->flow;
	memcpy(p->data, tx->hdr, tx->hdr_len);
	p->len = tx->hdr_len;
	for (int i = 0; i < tx->niov; i++) {
		memcpy(p->data + p->len, tx->iov[i].iov_base, tx->iov[i].iov_len);
		p->len += tx->iov[i].iov_len;
	}
	if (h->w->cut || (h->w->loss && world_random(h->w) % 100 < h->w->loss))
		free(p);
	else
		list_push_tail(&h->w->wire, &p->list);
}

static bool on_local_addr(void *ctx, const struct gid *addr, uint32_t scope,
			  struct cm_local_addr *ret)
{
	struct host *h = ctx;

	(void)scope;
	if (!gid_equal(addr, &h->v4) && !gid_equal(addr, &h->v6))
		return false;
	*ret = (struct cm_local_addr){.ca_guid = 0x5054000000000000ull | h->nr,
				      .ifindex = h->nr,
				      .path_mtu = h->path_mtu};
	return true;
}

static int on_neighbour(void *ctx, const struct flow *flow, bool probe)
{
	struct host *h = ctx;

	(void)flow;
	h->probes += probe;
	return h->neighbour;
}

static void on_listen_by_tcp(void *ctx, uint32_t count)
{
	((struct host *)ctx)->by_tcp = count;
}

static const struct cm_service_ops ops = {on_random, on_send, on_local_addr, on_neighbour,
					  on_listen_by_tcp};

void carry(struct world *w)
{
	struct list *n;

	while ((n = list_pop_head(&w->wire))) {
		struct packet *p = list_entry(n, struct packet, list);
		struct packet_rx rx = {.flow = p->flow, .data = p->data, .len = p->len};

		for (int i = 0; i < 2; i++)
			if (gid_equal(&p->flow.dgid, &w->host[i].v4) ||
			    gid_equal(&p->flow.dgid, &w->host[i].v6))
				cm_service_rx(w->host[i].svc, &rx, w->now);
		free(p);
	}
}

void pass(struct world *w, uint64_t ns)
{
	uint64_t end = w->now + ns;

	for (;;) {
		uint64_t next = DEADLINE_NEVER;

		carry(w);
		for (int i = 0; i < 2; i++) {
			uint64_t d = cm_service_next_deadline(w->host[i].svc);

			next = d < next ? d : next;
		}
		if (next > end)
			break;
		w->now = next > w->now ? next : w->now;
		for (int i = 0; i < 2; i++)
			cm_service_tick(w->host[i].svc, w->now);
	}
	w->now = end;
}

int world_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	signal(SIGPIPE, SIG_IGN);
	list_init(&w->wire);
	w->now = SEC;
	w->random = 99;
	for (int i = 0; i < 2; i++) {
		struct host *h = &w->host[i];

		h->w = w;
		h->nr = (uint8_t)(i + 1);
		h->path_mtu = 5;
		h->v4 = (struct gid){{[10] = 0xff, [11] = 0xff, 10, 0, 0, h->nr}};
		h->v6 = (struct gid){{0xfd, [15] = h->nr}};
		if (cm_service_create(&h->svc, &ops, h) < 0)
			return -1;
	}
	*state = w;
	return 0;
}

int world_teardown(void **state)
{
	struct world *w = *state;

	pass(w, 1000 * SEC);
	for (int i = 0; i < 2; i++) {
		if (cm_service_next_deadline(w->host[i].svc) != DEADLINE_NEVER ||
		    cm_service_busy(w->host[i].svc)) {
			fprintf(stderr, "host %d is not at rest\n", i + 1);
			return -1;
		}
		cm_service_destroy(w->host[i].svc);
	}
	free(w);
	return 0;
}

/* ---- a client ---------------------------------------------------------------------------------
 */

void open_client(struct client *c, struct host *h)
{
	c->host = h;
	assert_int_equal(cm_client_create(h->svc, h->w->uid, &c->c), 0);
	assert_int_equal(cm_client_channel(c->c, &c->channel, &c->fd), 0);
	/* So that a test sees that nothing comes. */
	assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
}

void close_client(struct client *c)
{
	cm_client_destroy(c->c, c->host->w->now);
	close(c->fd);
	carry(c->host->w);
}

struct broker_cm_event event(struct client *c, enum broker_cm_event_type type)
{
	struct broker_cm_event ev;

	carry(c->host->w);
	assert_int_equal(read(c->fd, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.type, type);
	return ev;
}

void no_event(struct client *c)
{
	struct broker_cm_event ev;

	carry(c->host->w);
	assert_int_equal(read(c->fd, &ev, sizeof(ev)), -1);
	assert_int_equal(errno, EAGAIN);
}

int ask(struct client *c, void *req, size_t len)
{
	uint8_t reply[BROKER_CM_REPLY_MAX];
	size_t n = cm_client_request(c->c, req, len, reply, c->host->w->now);
	struct broker_msg *msg = req;
	int err;

	assert_true(n >= sizeof(*msg));
	err = ((struct broker_msg *)reply)->error;
	assert_int_equal(((struct broker_msg *)reply)->type, msg->type);
	if (err == 0 && n == len + sizeof(struct broker_cm_saved))
		memcpy(req, reply, len);
	return err;
}

int on_id(struct client *c, enum broker_cm_msg_type type, uint32_t id)
{
	return ASK(c, type, id, .id = id);
}

/* ---- identifiers ------------------------------------------------------------------------------
 */

int try_create(struct client *c, struct kind kind, uint32_t *ret)
{
	struct broker_cm_create_id r = {.msg.type = BROKER_CM_CREATE_ID,
					.channel = c->channel,
					.user = kind.user,
					.ps = kind.ps,
					.datagrams = kind.datagrams,
					.xrc = kind.xrc};
	int err = ask(c, &r, sizeof(r));

	*ret = r.id;
	return err;
}

uint32_t create(struct client *c, struct kind kind)
{
	uint32_t id;

	assert_int_equal(try_create(c, kind, &id), 0);
	return id;
}

int bind_to(struct client *c, uint32_t id, const struct gid *addr, uint16_t port)
{
	struct broker_cm_bind r = {.msg.type = BROKER_CM_BIND, .id = id, .port = port};
	int err;

	if (addr)
		r.addr = *addr;
	err = ask(c, &r, sizeof(r));
	return err < 0 ? err : r.port;
}

uint32_t listener(struct client *c, struct kind kind, uint16_t port, uint32_t backlog)
{
	uint32_t id = create(c, kind);

	assert_int_equal(bind_to(c, id, NULL, port), port);
	assert_int_equal(ASK(c, BROKER_CM_LISTEN, listen, .id = id, .backlog = backlog), 0);
	return id;
}

void begin(struct pair *p, struct world *w, struct kind kind, uint16_t port)
{
	open_client(&p->server, &w->host[0]);
	open_client(&p->user, &w->host[1]);
	kind.user = LISTENER_USER;
	p->listen = listener(&p->server, kind, port, 4);
	kind.user = ACTIVE_USER;
	p->active = create(&p->user, kind);
	p->passive = 0;
}

void end(struct pair *p)
{
	close_client(&p->user);
	close_client(&p->server);
}

struct broker_cm_param req_param(const struct gid *src, const struct gid *dst, uint16_t port)
{
	return (struct broker_cm_param){.src = *src,
					.dst = *dst,
					.dst_port = port,
					.qpn = 0x010011,
					.starting_psn = 0x123456,
					.path_mtu = 3,
					.responder_resources = 2,
					.initiator_depth = 5,
					.retry_count = 7,
					.rnr_retry_count = 6};
}
