/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Two connection managers over a link that loses, duplicates and reorders, in virtual time, with
 * consumers that do at random whatever a consumer may do. From a seed; `test_cm_pair SEED` replays
 * one, `test_cm_pair 1 LAST` goes so far.
 *
 * What must hold when the link has become good and all is quiet: both ends agree who is connected,
 * and an end that is not has said so to its consumer; and when the consumers have gone, nothing is
 * left: no id, no timer, no memory.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cm/cm_priv.h"

#define SERVICE	 0x0000000001061234ull
#define MSEC	 1000000ull
#define SEC	 NSEC_PER_SEC
#define CONNECTS 12

struct world;

struct side {
	struct world *w;
	struct cm *cm;
	struct cm_id *listener;
	struct gid gid;
	struct list conns;
	long blocks;
};

struct conn { /* an id's consumer */
	struct side *side;
	struct cm_id *id;
	struct list list;
	bool up;   /* has been told that it is connected */
	bool down; /* has been told that it is not, or no more */
	bool listener;
};

enum what { PACKET, CONNECT, ACCEPT, CONFIRM, DISCONNECT, DESTROY };

struct future { /* something to happen */
	struct timer timer;
	enum what what;
	struct side *side;
	uint32_t comm_id; /* of the id meant: it may be gone by then */
	struct flow flow;
	uint8_t mad[MAD_LEN];
};

struct world {
	struct side a, b;
	struct timer_heap futures;
	uint64_t now, random;
	unsigned loss, dup; /* percent */
	uint64_t delay_max;
	uint32_t next_qpn;
	bool consumers_idle;
	unsigned connected_once;
};

static uint32_t rnd(struct world *w)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w->random >> 33);
}

static bool chance(struct world *w, unsigned percent)
{
	return rnd(w) % 100 < percent;
}

static void *side_alloc(void *ctx, size_t bytes)
{
	((struct side *)ctx)->blocks++;
	return calloc(1, bytes);
}

static void side_free(void *ctx, void *p)
{
	((struct side *)ctx)->blocks--;
	free(p);
}

static uint32_t side_random(void *ctx)
{
	return rnd(((struct side *)ctx)->w);
}

static struct future *later(struct world *w, enum what what, struct side *side, uint64_t ns)
{
	struct future *f = calloc(1, sizeof(*f));

	f->what = what;
	f->side = side;
	timer_arm(&w->futures, &f->timer, w->now + ns);
	return f;
}

/* The consumer will do something to this id, in up to max. */
static void later_to(struct cm_id *id, enum what what, uint64_t max)
{
	struct conn *c = id->user;
	struct world *w = c->side->w;

	later(w, what, c->side, rnd(w) % (max / 1024) * 1024)->comm_id = id->local_comm_id;
}

static void drop_conn(struct conn *c)
{
	list_remove(&c->list);
	free(c);
}

static void destroy(struct conn *c)
{
	cm_id_destroy(c->id, c->side->w->now);
	drop_conn(c);
}

static struct conn *new_conn(struct side *s)
{
	struct conn *c = calloc(1, sizeof(*c));

	c->side = s;
	list_push_tail(&s->conns, &c->list);
	return c;
}

static void on_event(void *ctx, void *id_user, const struct cm_event *ev)
{
	struct side *s = ctx;
	struct world *w = s->w;
	struct conn *c = id_user;

	if (ev->type == CM_EV_REQ) {
		if (chance(w, 10)) {
			cm_id_forget(ev->id);
			return;
		}
		c = new_conn(s);
		c->id = ev->id;
		cm_id_set_user(ev->id, c);
	}
	assert_ptr_equal(c->id, ev->id);
	if (chance(w, 5)) { /* in the upcall itself */
		destroy(c);
		return;
	}
	switch (ev->type) {
	case CM_EV_REQ:
		/* Up to 20 s: the peer repeats and gets MRAs. */
		later_to(c->id, ACCEPT, chance(w, 20) ? 20 * SEC : 10 * MSEC);
		break;
	case CM_EV_REP:
		later_to(c->id, CONFIRM, chance(w, 20) ? 20 * SEC : 10 * MSEC);
		break;
	case CM_EV_RTU:
		assert_false(c->up);
		c->up = true;
		w->connected_once++;
		if (chance(w, 50))
			later_to(c->id, DISCONNECT, 60 * SEC);
		break;
	case CM_EV_DREQ:
		c->up = c->down = true; /* for the peer it was up, its RTU may have been lost */
		later_to(c->id, chance(w, 80) ? DISCONNECT : DESTROY, SEC);
		break;
	case CM_EV_REJ:
	case CM_EV_TIMEOUT:
	case CM_EV_DISCONNECTED:
		assert_false(c->down);
		c->down = true;
		if (chance(w, 50))
			later_to(c->id, DESTROY, 20 * SEC);
		break;
	case CM_EV_SIDR_REQ:
	case CM_EV_SIDR_REP:
		fail();
		break;
	case CM_EV_TIMEWAIT_EXIT:
		assert_true(c->up && c->down);
		destroy(c);
		break;
	}
}

static const struct cm_ops ops = {side_alloc, side_free, side_random, on_event};

static void connect_one(struct world *w, struct side *s)
{
	struct side *peer = s == &w->a ? &w->b : &w->a;
	struct flow flow = {.sgid = s->gid, .dgid = peer->gid};
	struct cm_req req = {.service_id = chance(w, 5) ? SERVICE + 1 : SERVICE,
			     .local_ca_guid = s->gid.raw[15],
			     .local_qpn = ++w->next_qpn,
			     .path_mtu = 3,
			     .primary.local_ack_timeout = 19};
	struct conn *c = new_conn(s);

	assert_int_equal(cm_id_create(s->cm, c, &c->id), 0);
	assert_int_equal(cm_req_send(c->id, &flow, &req, NULL, 0, w->now), 0);
	if (chance(w, 10))
		later_to(c->id, DESTROY, 30 * SEC);
}

/* -EINVAL is right where the state has changed meanwhile. */
static void act(struct world *w, struct future *f)
{
	struct cm_id *id = cm_find_local(f->side->cm, f->comm_id);
	struct conn *c = id ? id->user : NULL;
	struct cm_rep rep = {.local_ca_guid = f->side->gid.raw[15]};
	int r;

	if (!c)
		return;
	switch (f->what) {
	case ACCEPT:
		rep.local_qpn = ++w->next_qpn;
		if (chance(w, 15))
			r = cm_reject(id, 28, NULL, 0, "no", 2, w->now);
		else
			r = cm_rep_send(id, &rep, NULL, 0, w->now);
		if (r == 0 && id->state == CM_REP_SENT && chance(w, 10))
			later_to(id, DESTROY, 10 * SEC);
		break;
	case CONFIRM:
		if (chance(w, 10)) {
			r = cm_reject(id, 28, NULL, 0, NULL, 0, w->now);
		} else {
			r = cm_rtu(id, w->now);
			if (r == 0) {
				c->up = true;
				if (chance(w, 50))
					later_to(id, chance(w, 70) ? DISCONNECT : DESTROY,
						 60 * SEC);
			}
		}
		break;
	case DISCONNECT:
		r = cm_dreq(id, w->now);
		if (r == -EINVAL)
			r = cm_drep(id, w->now);
		break;
	default:
		destroy(c);
		return;
	}
	assert_true(r == 0 || r == -EINVAL);
}

static void put_on_the_link(struct world *w, struct side *from)
{
	struct side *to = from == &w->a ? &w->b : &w->a;
	struct flow flow;
	uint8_t mad[MAD_LEN];

	while (cm_tx(from->cm, &flow, mad, w->now)) {
		int copies = chance(w, w->loss) ? 0 : chance(w, w->dup) ? 2 : 1;

		assert_true(gid_equal(&flow.sgid, &from->gid));
		assert_true(gid_equal(&flow.dgid, &to->gid));
		while (copies--) {
			struct future *f = later(w, PACKET, to, 1000 + rnd(w) % w->delay_max);

			f->flow = flow;
			memcpy(f->mad, mad, MAD_LEN);
		}
	}
}

/* Runs until the time is over or nothing is left to happen. */
static void run(struct world *w, uint64_t ns)
{
	uint64_t end = w->now + ns;

	for (;;) {
		uint64_t next = timer_heap_next(&w->futures);
		struct timer *t;

		put_on_the_link(w, &w->a);
		put_on_the_link(w, &w->b);
		next = timer_heap_next(&w->futures);
		next = next < cm_next_deadline(w->a.cm) ? next : cm_next_deadline(w->a.cm);
		next = next < cm_next_deadline(w->b.cm) ? next : cm_next_deadline(w->b.cm);
		if (next == DEADLINE_NEVER || next > end)
			break;
		w->now = next;
		while ((t = timer_pop_due(&w->futures, w->now))) {
			struct future *f = container_of(t, struct future, timer);

			if (f->what == PACKET)
				cm_rx(f->side->cm, &f->flow, f->mad, w->now);
			else if (f->what == CONNECT)
				connect_one(w, f->side);
			else
				act(w, f);
			free(f);
		}
		cm_tick(w->a.cm, w->now);
		cm_tick(w->b.cm, w->now);
	}
	w->now = end;
}

static void begin_side(struct world *w, struct side *s, uint8_t addr)
{
	struct conn *c;

	s->w = w;
	s->gid = (struct gid){{[10] = 0xff, [11] = 0xff, 10, 0, 0, addr}};
	list_init(&s->conns);
	assert_int_equal(cm_create(&s->cm, &ops, s), 0);
	c = new_conn(s);
	c->listener = true;
	assert_int_equal(cm_id_create(s->cm, c, &c->id), 0);
	assert_int_equal(cm_listen(c->id, SERVICE, UINT64_MAX, NULL), 0);
}

static struct cm_id *peer_of(struct side *other, const struct cm_id *id)
{
	struct cm_id *peer = cm_find_local(other->cm, id->remote_comm_id);

	return peer && peer->remote_comm_id == id->local_comm_id ? peer : NULL;
}

/* Ends that believe themselves connected to somebody who does not. */
static unsigned disagreements(struct side *s, struct side *other)
{
	unsigned n = 0;

	list_for_each(c, &s->conns, struct conn, list) {
		struct cm_id *peer;

		if (c->listener)
			continue;
		if (c->id->state != CM_ESTABLISHED) {
			/* At rest, and the consumer knows. */
			assert_true(c->id->state == CM_IDLE || c->id->state == CM_TIMEWAIT);
			assert_true(c->down || !c->up);
			continue;
		}
		assert_true(c->up && !c->down);
		peer = peer_of(other, c->id);
		n += !peer || peer->state != CM_ESTABLISHED;
	}
	return n;
}

static void destroy_all(struct side *s)
{
	list_for_each(c, &s->conns, struct conn, list)
		destroy(c);
}

static void one_seed(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	unsigned gave_up, loss;

	w->random = seed * 0x9e3779b97f4a7c15u + 1;
	w->next_qpn = 0x10000;
	loss = w->loss = rnd(w) % 30;
	w->dup = rnd(w) % 30;
	w->delay_max = chance(w, 30) ? 3 * SEC : 5 * MSEC;
	begin_side(w, &w->a, 1);
	begin_side(w, &w->b, 2);
	for (int i = 0; i < CONNECTS; i++)
		later(w, CONNECT, chance(w, 50) ? &w->a : &w->b, rnd(w) % 60 * SEC);
	run(w, 300 * SEC);

	w->loss = w->dup = 0;
	run(w, 600 * SEC);
	gave_up = (unsigned)(cm_counters(w->a.cm)->gave_up + cm_counters(w->b.cm)->gave_up);
	if (loss < 10) /* so many tries come through */
		assert_int_equal(gave_up, 0);
	/* Who gave up told nobody, for nobody answered: that much the ends may differ. A REP that
	 * was answered is not taken back without a word. */
	gave_up += (unsigned)(cm_counters(w->a.cm)->unheard + cm_counters(w->b.cm)->unheard);
	assert_true(disagreements(&w->a, &w->b) + disagreements(&w->b, &w->a) <= gave_up);

	w->loss = rnd(w) % 30;
	destroy_all(&w->a);
	run(w, rnd(w) % 20 * MSEC);
	destroy_all(&w->b);
	run(w, 600 * SEC);
	assert_int_equal(w->a.cm->handles.live, 0);
	assert_int_equal(w->b.cm->handles.live, 0);
	assert_int_equal(cm_busy(w->a.cm) + cm_busy(w->b.cm), 0);
	assert_int_equal(cm_next_deadline(w->a.cm), DEADLINE_NEVER);
	assert_int_equal(cm_next_deadline(w->b.cm), DEADLINE_NEVER);
	cm_destroy(w->a.cm);
	cm_destroy(w->b.cm);
	assert_int_equal(w->a.blocks + w->b.blocks, 0);
	assert_null(timer_pop_due(&w->futures, UINT64_MAX - 1));
	free(w);
}

static uint64_t seed_now;
static uint64_t last_seed = 3000;

static void whatever_the_link_does_both_ends_agree_and_every_id_ends(void **state)
{
	(void)state;
	for (seed_now = 1; seed_now <= last_seed; seed_now++)
		one_seed(seed_now);
}

static int say_how_to_replay(void **state)
{
	(void)state;
	if (seed_now <= last_seed)
		fprintf(stderr, "replay: tests/unit/test_cm_pair %llu\n",
			(unsigned long long)seed_now);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(whatever_the_link_does_both_ends_agree_and_every_id_ends,
					  say_how_to_replay),
	};

	if (argc == 3) {
		last_seed = strtoull(argv[2], NULL, 0);
	} else if (argc == 2) {
		one_seed(strtoull(argv[1], NULL, 0));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
