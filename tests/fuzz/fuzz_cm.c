/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two connection managers and a wire between them that the input controls: what is delivered,
 * repeated, lost, changed or made up, what the consumers do, and how time passes. When the
 * handles are gone and time has passed, nothing may be left of any connection.
 * Input: a sequence of steps, each a byte that names it and its arguments.
 */
#include "fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/time.h"
#include "cm/cm_priv.h"
#include "mem.h"

#define SERVICE	  0x0000000001060000ull
#define SIDES	  2
#define IDS	  8
#define WIRE_MAX  64
#define STEPS_MAX 400
#define TICKS_MAX 5000

struct packet {
	struct flow flow;
	int to;
	uint8_t mad[MAD_LEN];
};

struct world;

struct side {
	struct world *world;
	int number;
	struct cm *cm;
	struct cm_id *id[IDS];
	uint32_t next_qpn;
};

struct world {
	struct side side[SIDES];
	struct packet wire[WIRE_MAX];
	int on_wire;
	uint64_t now;
	uint32_t random;
	struct fuzz_mem mem;
	bool ending;
	const uint8_t *in, *in_end;
};

static uint8_t take(struct world *w)
{
	return w->in < w->in_end ? *w->in++ : 0;
}

static void *do_alloc(void *ctx, size_t bytes)
{
	return fuzz_mem_alloc(&((struct side *)ctx)->world->mem, bytes);
}

static void do_free(void *ctx, void *p)
{
	fuzz_mem_free(&((struct side *)ctx)->world->mem, p);
}

static uint32_t do_random(void *ctx)
{
	struct world *w = ((struct side *)ctx)->world;

	return w->random = w->random * 1664525 + 1013904223;
}

static int slot_of(const struct side *s, const struct cm_id *id)
{
	for (int i = 0; i < IDS; i++)
		if (s->id[i] == id)
			return i;
	return -1;
}

static bool is_request(const struct cm_event *ev)
{
	return ev->type == CM_EV_REQ || ev->type == CM_EV_SIDR_REQ;
}

static void on_event(void *ctx, void *id_user, const struct cm_event *ev)
{
	struct side *s = ctx;
	int i = slot_of(s, is_request(ev) ? NULL : ev->id);

	must(id_user == s);
	must(ev->private_len <= 224);
	must(!ev->private_len || ev->private_data);
	if (is_request(ev)) {
		must(slot_of(s, ev->id) < 0 && slot_of(s, ev->listener) >= 0);
		must(ev->type == CM_EV_REQ ? ev->req != NULL : ev->sidr_req != NULL);
		if (i < 0 || s->world->ending)
			cm_id_destroy(ev->id, s->world->now);
		else
			s->id[i] = ev->id;
		return;
	}
	must(i >= 0); /* no upcall for a handle that is gone */
	must(ev->type != CM_EV_REP || ev->rep);
	must(ev->type != CM_EV_SIDR_REP ||
	     (ev->sidr_rep && ev->sidr_rep->info_len <= CM_SIDR_REP_INFO));
	must(ev->type != CM_EV_REJ || (ev->rej && ev->rej->reject_info_len <= CM_REJ_ARI));
}

static const struct cm_ops ops = {do_alloc, do_free, do_random, on_event};

static const struct gid gid[SIDES] = {{{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}},
				      {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}}};

/* Whatever a side has to send goes on the wire, or is lost when that is full. */
static void collect(struct world *w)
{
	for (int i = 0; i < SIDES; i++) {
		struct packet lost, *p;
		int sent = 0;

		do {
			p = w->on_wire < WIRE_MAX ? &w->wire[w->on_wire] : &lost;
			if (!cm_tx(w->side[i].cm, &p->flow, p->mad, w->now))
				break;
			must(gid_equal(&p->flow.sgid, &gid[i]));
			must(p->mad[1] == CM_CLASS);
			p->to = gid_equal(&p->flow.dgid, &gid[0]) ? 0 : 1;
			w->on_wire += p != &lost;
		} while (++sent <= CM_TX_MAX);
		must(sent <= CM_TX_MAX);
	}
}

static void deliver(struct world *w, int at, bool keep)
{
	struct packet p = w->wire[at];

	if (!keep)
		w->wire[at] = w->wire[--w->on_wire];
	cm_rx(w->side[p.to].cm, &p.flow, p.mad, w->now);
}

static struct cm_id *new_id(struct side *s)
{
	int i = slot_of(s, NULL);

	if (i < 0 || cm_id_create(s->cm, s, &s->id[i]))
		return NULL;
	return s->id[i];
}

static void connect_to_other(struct side *s, uint8_t arg)
{
	struct cm_id *id = new_id(s);
	struct flow f = {.sgid = gid[s->number], .dgid = gid[!s->number]};
	struct cm_req req = {
		.service_id = SERVICE | (arg & 3),
		.local_ca_guid = 0x1111 + (uint64_t)s->number,
		.local_qpn = arg & 0x40 ? 0x11 : ++s->next_qpn, /* 40: one that is in use */
		.path_mtu = 3,
		.primary = {.local_ack_timeout = arg >> 3 & 31},
	};

	if (id)
		must(cm_req_send(id, &f, &req, &arg, 1, s->world->now) == 0);
}

static void ask_other(struct side *s, uint8_t arg)
{
	struct cm_id *id = new_id(s);
	struct flow f = {.sgid = gid[s->number], .dgid = gid[!s->number]};
	struct cm_sidr_req req = {.service_id = SERVICE | (arg & 3)};

	if (id)
		must(cm_sidr_req_send(id, &f, &req, &arg, 1, s->world->now) == 0);
}

static void consumer(struct side *s, uint8_t which, uint8_t what)
{
	uint64_t now = s->world->now;
	struct cm_id *id = s->id[which % IDS];
	struct cm_rep rep = {.local_ca_guid = 0x1111 + (uint64_t)s->number,
			     .local_qpn = ++s->next_qpn};
	int err = 0;

	if (!id)
		return;
	switch (what % 9) {
	case 0: /* mostly what fits */
		err = id->sidr != (what >= 0xc0)
			      ? cm_sidr_rep_send(id, &(struct cm_sidr_rep){.status = what & 7},
						 &what, 1, now)
			      : cm_rep_send(id, &rep, &what, 1, now);
		break;
	case 1:
		err = cm_rtu(id, now);
		break;
	case 2:
		err = cm_reject(id, CM_REJ_CONSUMER_DEFINED, NULL, 0, &what, 1, now);
		break;
	case 3:
		err = cm_mra(id, what & 31, now);
		break;
	case 4:
		err = cm_dreq(id, now);
		break;
	case 5:
		err = cm_drep(id, now);
		break;
	case 6:
		err = cm_established(id, now);
		break;
	case 7:
		s->id[which % IDS] = NULL;
		cm_id_destroy(id, now);
		break;
	case 8:
		if (id->state != CM_REQ_RCVD && id->state != CM_SIDR_REQ_RCVD)
			return;
		s->id[which % IDS] = NULL;
		cm_id_forget(id);
		break;
	}
	must(err == 0 || err == -EINVAL || (what % 9 == 6 && err == -EISCONN));
}

static void tick(struct world *w)
{
	for (int i = 0; i < SIDES; i++) {
		cm_tick(w->side[i].cm, w->now);
		must(cm_next_deadline(w->side[i].cm) > w->now);
	}
}

static void step(struct world *w)
{
	uint8_t what = take(w), arg = take(w);
	struct side *s = &w->side[arg & 1];
	int at = w->on_wire ? arg % w->on_wire : 0;
	uint8_t mad[MAD_LEN];
	struct packet *p;
	struct cm_id *id;

	switch (what % 9) {
	case 0:
		if (what / 9 & 1)
			ask_other(s, arg >> 1);
		else
			connect_to_other(s, arg >> 1);
		break;
	case 1: /* in order */
		if (w->on_wire)
			deliver(w, 0, false);
		break;
	case 2: /* out of order, and perhaps twice */
		if (w->on_wire)
			deliver(w, at, what & 0x80);
		break;
	case 3: /* lost */
		if (w->on_wire)
			w->wire[at] = w->wire[--w->on_wire];
		break;
	case 4: /* changed on the way */
		if (!w->on_wire)
			break;
		p = &w->wire[at];
		for (int n = 1 + what / 64; n > 0; n--)
			p->mad[take(w)] ^= take(w);
		break;
	case 5: /* made up */
		memset(mad, 0, sizeof(mad));
		memcpy(mad, (uint8_t[]){MAD_BASE_VERSION, CM_CLASS, CM_CLASS_VERSION, 3}, 4);
		for (int i = 8; i < MAD_LEN && w->in < w->in_end; i++)
			mad[i] = take(w);
		cm_rx(s->cm, &(struct flow){.sgid = gid[!s->number], .dgid = gid[s->number]}, mad,
		      w->now);
		break;
	case 6:
		consumer(s, arg >> 1, take(w));
		break;
	case 7: /* some time, or as far as something is due */
		if (arg & 1)
			w->now += (uint64_t)arg * 10000000;
		else if (cm_next_deadline(w->side[arg >> 1 & 1].cm) != DEADLINE_NEVER)
			w->now = max_of(w->now, cm_next_deadline(w->side[arg >> 1 & 1].cm));
		tick(w);
		break;
	case 8:
		if (arg & 0x80) {
			w->mem.fail_next = true;
			break;
		}
		id = new_id(s);
		if (id)
			must(!cm_listen(id, SERVICE, arg & 2 ? UINT64_MAX : ~3ull, NULL));
		break;
	}
	collect(w);
}

/* Handles gone, nothing answered any more: all of it must come to an end by itself. */
static void wind_up(struct world *w)
{
	w->mem.fail_next = false;
	w->ending = true;
	for (int i = 0; i < SIDES; i++)
		for (int j = 0; j < IDS; j++) {
			struct cm_id *id = w->side[i].id[j];

			w->side[i].id[j] = NULL;
			if (id)
				cm_id_destroy(id, w->now);
		}
	for (int ticks = 0;; ticks++) {
		uint64_t next =
			min_of(cm_next_deadline(w->side[0].cm), cm_next_deadline(w->side[1].cm));

		w->on_wire = 0;
		collect(w);
		if (next == DEADLINE_NEVER)
			break;
		must(ticks < TICKS_MAX && next > w->now);
		w->now = next;
		tick(w);
	}
	for (int i = 0; i < SIDES; i++) {
		must(list_empty(&w->side[i].cm->ids));
		must(cm_busy(w->side[i].cm) == 0);
		cm_destroy(w->side[i].cm);
	}
	must(w->mem.blocks == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = {.now = 1000000000, .random = 7, .in = data, .in_end = data + size};

	for (int i = 0; i < SIDES; i++) {
		struct cm_id *id;

		w.side[i] = (struct side){.world = &w, .number = i, .next_qpn = 0x10};
		must(cm_create(&w.side[i].cm, &ops, &w.side[i]) == 0);
		id = new_id(&w.side[i]);
		must(id && cm_listen(id, SERVICE, ~3ull, NULL) == 0);
	}
	for (int i = 0; i < STEPS_MAX && w.in < w.in_end; i++)
		step(&w);
	wind_up(&w);
	return 0;
}
