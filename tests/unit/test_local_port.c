/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The port between processes of one host: what passes, what waits, what is lost; who is woken; what
 * a peer may do to the memory that it shares; ends, and forks. The port behind only takes down what
 * it is given, and hands out what a test has put there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/units.h"
#include "port/local/entry.h"
#include "port/local/inbox.h"
#include "port/local/local_port.h"
#include "port/local/peer.h"
#include "wire/opcode.h"

#define A 3 /* slots */
#define B 200

/* ---- the port behind ------------------------------------------------------------------------- */

struct behind {
	struct port port; /* first */
	struct port_counters counters;
	unsigned sent, bells, looks;
	uint8_t bell_to;
	bool refuses, forked;
	int closes;	       /* an inbox, when it sends; 0: none */
	struct end *meanwhile; /* it sends to B before the call is back */
	struct end *sleeper;   /* receives, and sleeps again, before that */
};

static size_t sends(struct end *e, uint8_t service, uint8_t slot, uint32_t psn, uint32_t len);
static void receives_and_sleeps(struct end *e);

static size_t behind_tx(struct port *port, const struct packet_tx *pkts, size_t n,
			struct packet_sent *ret_sent)
{
	struct behind *b = (struct behind *)port;

	(void)ret_sent;
	if (b->closes)
		inbox_close(b->closes);
	if (b->meanwhile)
		assert_int_equal(sends(b->meanwhile, SERVICE_RC, B, 0, 8), 1);
	if (b->sleeper)
		receives_and_sleeps(b->sleeper);
	if (b->refuses)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (pkts[i].hdr_len + pkts[i].payload_len + ICRC_LEN == PORT_DOORBELL_LEN) {
			b->bells++;
			b->bell_to = pkts[i].hdr[5];
		} else {
			b->sent++;
		}
	}
	return n;
}

static int behind_rx(struct port *port, uint64_t now, port_take *take, void *ctx)
{
	(void)now;
	(void)take;
	(void)ctx;
	((struct behind *)port)->looks++;
	return 0;
}

static void behind_forked(struct port *port)
{
	((struct behind *)port)->forked = true;
}

static void behind_destroy(struct port *port)
{
	(void)port;
}

static const struct port_ops behind_ops = {
	.rx = behind_rx, .tx = behind_tx, .forked = behind_forked, .destroy = behind_destroy};

/* ---- two processes --------------------------------------------------------------------------- */

struct end {
	struct behind behind;
	struct port *port;
	uint64_t now;
	unsigned taken;
	uint8_t last[ENTRY_PACKET_MAX];
	struct packet_rx rx; /* of the last, whose bytes are in it */
	uint32_t next_psn;   /* what must come next, if in_order */
	bool in_order;
};

struct two {
	struct end a, b;
};

static const struct gid here = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}};
static const struct flow within = {.sgid = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
				   .dgid = {.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
				   .sport = 50001,
				   .tos = 0x6a,
				   .ttl = 9,
				   .flow_label = 77};
static uint8_t payload[4096];

static void end_open(struct end *e, uint8_t slot)
{
	e->behind = (struct behind){
		.port = {.ops = &behind_ops, .fd = -1, .counters = &e->behind.counters}};
	e->port = &e->behind.port;
	e->now = NSEC_PER_SEC;
	assert_int_equal(local_port_before(&e->port, slot), 0);
}

static void meets(struct end *from, struct end *to, uint8_t slot)
{
	int fd = dup(local_port_inbox(to->port));

	assert_true(fd >= 0);
	assert_int_equal(local_port_meet(from->port, slot, fd), 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was taken over */
}

static int setup(void **state)
{
	struct two *t = calloc(1, sizeof(*t));

	end_open(&t->a, A);
	end_open(&t->b, B);
	meets(&t->a, &t->b, B);
	meets(&t->b, &t->a, A);
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct two *t = *state;

	if (t->a.port)
		port_destroy(t->a.port);
	if (t->b.port)
		port_destroy(t->b.port);
	free(t);
	return 0;
}

static struct packet_tx packet(uint8_t service, uint8_t slot, uint32_t psn, uint32_t len)
{
	struct packet_tx t = {.flow = &within, .hdr_len = BTH_LEN, .payload_len = len, .niov = 2};

	t.hdr[0] = service | 4;
	t.hdr[5] = slot;
	st_be32(t.hdr + 8, psn);
	t.iov[0] = (struct iovec){payload, len / 3};
	t.iov[1] = (struct iovec){payload + len / 3, len - len / 3};
	t.pad = (uint8_t)(-len & 3);
	return t;
}

static size_t sends(struct end *e, uint8_t service, uint8_t slot, uint32_t psn, uint32_t len)
{
	struct packet_tx t = packet(service, slot, psn, len);

	return port_tx(e->port, &t, 1, NULL);
}

static bool take(void *ctx, const struct packet_rx *r)
{
	struct end *e = ctx;

	assert_true(r->len <= sizeof(e->last));
	memcpy(e->last, r->data, r->len);
	e->rx = *r;
	e->taken++;
	if (e->in_order)
		assert_int_equal(ld_be32(r->data + 8), e->next_psn++);
	return true;
}

static int receives(struct end *e)
{
	return port_rx(e->port, e->now, take, e);
}

static unsigned receives_all(struct end *e)
{
	unsigned before = e->taken;

	while (receives(e) > 0)
		;
	return e->taken - before;
}

static void receives_and_sleeps(struct end *e)
{
	assert_true(receives_all(e) > 0);
	assert_true(port_sleeps(e->port));
}

/* The inbox of an end, as a peer has it. */
static struct inbox *inbox_of(struct end *e)
{
	struct inbox *i;

	assert_int_equal(inbox_map(local_port_inbox(e->port), &i), 0);
	return i;
}

/* ---- what passes ----------------------------------------------------------------------------- */

static void passes_whole(void **state)
{
	struct two *t = *state;
	static const uint32_t lens[] = {0, 1, 2, 3, 8, 1024, 4093, 4096};

	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		size_t whole = BTH_LEN + (lens[i] + 3) / 4 * 4;

		assert_int_equal(sends(&t->a, SERVICE_RC, B, 7, lens[i]), 1);
		assert_int_equal(receives(&t->b), 1);
		assert_int_equal(t->b.rx.len, whole);
		assert_memory_equal(t->b.last + BTH_LEN, payload, lens[i]);
		for (size_t k = BTH_LEN + lens[i]; k < whole; k++)
			assert_int_equal(t->b.last[k], 0);
		assert_true(gid_equal(&t->b.rx.flow.sgid, &here));
		assert_true(gid_equal(&t->b.rx.flow.dgid, &here));
		assert_int_equal(t->b.rx.flow.sport, 50001);
		assert_int_equal(t->b.rx.flow.tos, 0x6a);
		assert_int_equal(t->b.rx.flow.ttl, 9);
		assert_int_equal(t->b.rx.flow.flow_label, 77);
	}
	assert_int_equal(t->a.behind.sent, 0);
	assert_int_equal(t->a.behind.counters.tx_local, 8);
	assert_int_equal(t->b.behind.counters.rx_local, 8);
}

static void says_the_ttl_that_a_system_would_have_given(void **state)
{
	struct two *t = *state;
	struct flow f = within;
	struct packet_tx p = packet(SERVICE_UD, B, 1, 8);

	f.ttl = 0;
	p.flow = &f;
	assert_int_equal(port_tx(t->a.port, &p, 1, NULL), 1);
	assert_int_equal(receives(&t->b), 1);
	assert_int_equal(t->b.rx.flow.ttl, 64);
}

/* Other hosts, slots that were not met, and the multicast QPN among them: in one call with what
 * stays within. */
static void leaves_the_rest_to_the_port_behind(void **state)
{
	struct two *t = *state;
	struct flow out = within;
	struct packet_tx p[5];

	out.dgid.raw[15] = 2;
	for (int i = 0; i < 5; i++)
		p[i] = packet(SERVICE_RC, B, (uint32_t)i, 8);
	p[0].flow = &out;
	p[2].hdr[5] = 17;
	p[4].hdr[5] = 0xff;
	assert_int_equal(port_tx(t->a.port, p, 5, NULL), 5);
	assert_int_equal(t->a.behind.sent, 3);
	assert_int_equal(receives(&t->b), 2);
	assert_int_equal(ld_be32(t->b.last + 8), 3);
}

static bool take_odd(void *ctx, const struct packet_rx *r)
{
	assert_int_equal(ld_be32(r->data + 8) % 2, 1);
	++*(unsigned *)ctx;
	return true;
}

static void keeps_who_sent_what_apart(void **state)
{
	struct two *t = *state;
	struct end c = {0};
	unsigned n = 0;

	end_open(&c, 64); /* in another word of the bells */
	meets(&c, &t->b, B);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(sends(&t->a, SERVICE_RC, B, 2 * i + 1, 100), 1);
		assert_int_equal(sends(&c, SERVICE_RC, B, 2 * i + 1, 100), 1);
	}
	assert_int_equal(port_rx(t->b.port, t->b.now, take_odd, &n), 20);
	assert_int_equal(n, 20);
	port_destroy(c.port);
}

/* Its own queue pairs are neighbours, too. */
static void reaches_itself(void **state)
{
	struct two *t = *state;

	meets(&t->a, &t->a, A);
	assert_int_equal(sends(&t->a, SERVICE_RC, A, 5, 64), 1);
	assert_int_equal(receives(&t->a), 1);
	assert_memory_equal(t->a.last + BTH_LEN, payload, 64);
}

/* ---- room ------------------------------------------------------------------------------------ */

/* Several times around, the ring's end at every place of an entry. */
static void goes_round(void **state)
{
	struct two *t = *state;
	uint32_t psn = 0;

	t->b.in_order = true;
	while (psn < 3 * INBOX_RING / 1000) {
		for (uint32_t i = psn % 9; i < 9; i++, psn++)
			assert_int_equal(sends(&t->a, SERVICE_RC, B, psn, psn * 37 % 4097), 1);
		receives_all(&t->b);
		assert_memory_equal(t->b.last + BTH_LEN, payload, (psn - 1) * 37 % 4097);
	}
	assert_int_equal(t->b.taken, psn);
}

/* What has no room waits, in order, and goes when there is some: at the next send, or when the
 * receiver rings. */
static void waits_for_room(void **state)
{
	struct two *t = *state;
	const uint32_t n = 3 * INBOX_RING / 4096;
	uint32_t psn = 0;
	struct inbox *own = inbox_of(&t->a);

	t->b.in_order = true;
	while (psn < n)
		assert_int_equal(sends(&t->a, SERVICE_RC, B, psn++, 4000), 1);
	assert_int_equal(receives(&t->a), 0); /* nothing changes by a look */
	assert_int_equal(receives_all(&t->b), INBOX_RING / entry_size(BTH_LEN + 4000));
	/* It has rung, and is told of the rest. */
	assert_int_equal(atomic_load(&own->bell[B / 64]), UINT64_C(1) << B % 64);
	assert_int_equal(receives(&t->a), 0);
	assert_int_equal(atomic_load(&own->bell[B / 64]), 0);
	assert_true(receives_all(&t->b) > 0);
	/* Again, and what is sent now comes behind. */
	assert_int_equal(sends(&t->a, SERVICE_RC, B, psn++, 4000), 1);
	while (t->b.taken < psn) {
		assert_int_equal(receives(&t->a), 0);
		assert_true(receives_all(&t->b) > 0);
	}
	assert_int_equal(t->a.behind.counters.tx_would_block, 0);
	inbox_unmap(own);
}

/* Who waits for room and sleeps is woken, also by who sends nothing back and has not met it. */
static void room_wakes_who_waits(void **state)
{
	struct two *t = *state;

	local_port_part(t->b.port, A);
	while (sends(&t->a, SERVICE_RC, B, 0, 4000) && !t->a.behind.counters.tx_would_block)
		if (t->a.behind.counters.tx_local > 2 * INBOX_RING / 4096)
			break;
	assert_true(port_sleeps(t->a.port));
	assert_int_equal(t->b.behind.bells, 0);
	receives(&t->b);
	assert_int_equal(t->b.behind.bells, 1);
	assert_int_equal(t->b.behind.bell_to, A);
}

static unsigned sends_until_lost(struct end *e)
{
	unsigned n = 0;

	while (sends(e, SERVICE_RC, B, 0, 4000)) {
		n++;
		assert_in_range(n, 0, 100000);
	}
	assert_int_equal(e->behind.counters.tx_would_block, 1);
	return n;
}

/* The bell of the slot's last holder, whom nobody has parted with yet, would wake nobody. */
static void room_wakes_the_next_of_a_slot(void **state)
{
	struct two *t = *state;

	inbox_close(local_port_inbox(t->a.port));
	port_destroy(t->a.port);
	end_open(&t->a, A);
	meets(&t->a, &t->b, B);
	for (unsigned i = 0; i < 2 * INBOX_RING / 4096; i++)
		assert_int_equal(sends(&t->a, SERVICE_RC, B, i, 4000), 1);
	receives(&t->b);
	assert_int_equal(t->b.behind.bells, 1);
	assert_int_equal(t->b.behind.bell_to, A);
}

static void loses_what_waits_too_long(void **state)
{
	struct two *t = *state;
	unsigned n = sends_until_lost(&t->a);
	size_t size = entry_size(BTH_LEN + 4000);

	assert_int_equal(n, INBOX_RING / size + PEER_WAITS_MAX / size);
	t->b.in_order = false;
	while (t->b.taken < n) {
		assert_true(receives_all(&t->b) > 0);
		receives(&t->a);
	}
	assert_int_equal(receives_all(&t->b), 0);
	/* It is as before. */
	assert_int_equal(sends(&t->a, SERVICE_RC, B, 0, 4000), 1);
	assert_int_equal(receives_all(&t->b), 1);
}

/* ---- who sleeps ------------------------------------------------------------------------------ */

static void wakes_who_sleeps_once(void **state)
{
	struct two *t = *state;

	sends(&t->a, SERVICE_RC, B, 0, 8);
	assert_int_equal(t->a.behind.bells, 0); /* nobody does */
	assert_false(port_sleeps(t->b.port));	/* that is to be received first */
	assert_int_equal(receives(&t->b), 1);
	assert_true(port_sleeps(t->b.port));
	for (uint32_t i = 1; i < 5; i++)
		sends(&t->a, SERVICE_RC, B, i, 8);
	assert_int_equal(t->a.behind.bells, 1);
	assert_int_equal(t->a.behind.bell_to, B);
	assert_int_equal(receives_all(&t->b), 4);
}

/* Who finds something instead of sleeping, and who slept and is awake: what comes next need not
 * wake them. */
static void who_is_awake_is_not_woken(void **state)
{
	struct two *t = *state;

	sends(&t->a, SERVICE_RC, B, 0, 8);
	assert_false(port_sleeps(t->b.port));
	sends(&t->a, SERVICE_RC, B, 1, 8);
	assert_int_equal(t->a.behind.bells, 0);
	assert_int_equal(receives_all(&t->b), 2);
	assert_true(port_sleeps(t->b.port));
	receives(&t->b);
	sends(&t->a, SERVICE_RC, B, 2, 8);
	assert_int_equal(t->a.behind.bells, 0);
	assert_int_equal(receives_all(&t->b), 1);
}

/* More than one batch takes is no reason to sleep, either. */
static void does_not_sleep_on_half_a_ring(void **state)
{
	struct two *t = *state;

	for (uint32_t i = 0; i < 200; i++)
		sends(&t->a, SERVICE_RC, B, i, 4000);
	assert_true(receives(&t->b) < 200);
	assert_false(port_sleeps(t->b.port));
	receives_all(&t->b);
	assert_true(port_sleeps(t->b.port));
}

static void a_bell_that_was_not_rung_is_tried_again(void **state)
{
	struct two *t = *state;

	assert_true(port_sleeps(t->b.port));
	t->a.behind.refuses = true;
	sends(&t->a, SERVICE_RC, B, 0, 8);
	t->a.behind.refuses = false;
	sends(&t->a, SERVICE_RC, B, 1, 8);
	assert_int_equal(t->a.behind.bells, 1);
}

/* One that was lost on its way: who sends again finds that nothing was taken meanwhile. */
static void a_bell_that_was_lost_is_rung_again(void **state)
{
	struct two *t = *state;

	receives(&t->a);
	assert_true(port_sleeps(t->b.port));
	sends(&t->a, SERVICE_RC, B, 0, 8);
	assert_int_equal(t->a.behind.bells, 1);
	for (unsigned i = 1; i < 4; i++) {
		t->a.now += 2 * NSEC_PER_MSEC;
		receives(&t->a);
		sends(&t->a, SERVICE_RC, B, i, 8);
		sends(&t->a, SERVICE_RC, B, i, 8);
		assert_int_equal(t->a.behind.bells, 1 + i);
	}
	/* Who takes them is not bothered. */
	receives_all(&t->b);
	t->a.now += 2 * NSEC_PER_MSEC;
	receives(&t->a);
	sends(&t->a, SERVICE_RC, B, 9, 8);
	assert_int_equal(t->a.behind.bells, 4);
}

/* Be it that the ring was full by then, and nothing more has been shown since. */
static void a_bell_that_was_lost_is_rung_again_for_a_full_ring(void **state)
{
	struct two *t = *state;

	receives(&t->a);
	assert_true(port_sleeps(t->b.port));
	for (unsigned i = 0; i < 2 * INBOX_RING / 4096; i++)
		sends(&t->a, SERVICE_RC, B, i, 4000);
	assert_int_equal(t->a.behind.bells, 1);
	for (unsigned i = 1; i < 4; i++) {
		t->a.now += 2 * NSEC_PER_MSEC;
		receives(&t->a);
		sends(&t->a, SERVICE_RC, B, 0, 8);
		sends(&t->a, SERVICE_RC, B, 0, 8);
		assert_int_equal(t->a.behind.bells, 1 + i);
	}
}

/* It need not receive for that: one that only sends datagrams finds it out, too. */
static void who_only_sends_rings_again_as_well(void **state)
{
	struct two *t = *state;

	port_at(t->a.port, t->a.now);
	assert_true(port_sleeps(t->b.port));
	sends(&t->a, SERVICE_UD, B, 0, 8);
	assert_int_equal(t->a.behind.bells, 1);
	port_at(t->a.port, t->a.now += 2 * NSEC_PER_MSEC);
	sends(&t->a, SERVICE_UD, B, 1, 8);
	sends(&t->a, SERVICE_UD, B, 1, 8);
	assert_int_equal(t->a.behind.bells, 2);
}

/* Who is stopped before it has rung keeps nobody else from it. */
static void one_that_rings_late_keeps_nobody_waiting(void **state)
{
	struct two *t = *state;
	struct end c = {0};

	end_open(&c, 64);
	meets(&c, &t->b, B);
	assert_true(port_sleeps(t->b.port));
	t->a.behind.meanwhile = &c;
	sends(&t->a, SERVICE_RC, B, 0, 8);
	assert_int_equal(c.behind.bells, 1);
	/* One bell is enough otherwise. */
	t->a.behind.meanwhile = NULL;
	sends(&c, SERVICE_RC, B, 0, 8);
	sends(&t->a, SERVICE_RC, B, 0, 8);
	assert_int_equal(c.behind.bells, 1);
	assert_int_equal(t->a.behind.bells, 1);
	port_destroy(c.port);
}

/* It has been awake meanwhile, and sleeps: that bell was for the sleep before. */
static void a_late_bell_is_not_taken_for_one_of_the_next_sleep(void **state)
{
	struct two *t = *state;
	struct end c = {0};

	end_open(&c, 64);
	meets(&c, &t->b, B);
	assert_true(port_sleeps(t->b.port));
	t->a.behind.sleeper = &t->b;
	sends(&t->a, SERVICE_RC, B, 0, 8);
	t->a.behind.sleeper = NULL;
	sends(&c, SERVICE_RC, B, 0, 8);
	assert_int_equal(c.behind.bells, 1);
	port_destroy(c.port);
}

static void rouses_its_own(void **state)
{
	struct two *t = *state;

	assert_false(port_rouse(t->b.port)); /* it has no address yet */
	assert_int_equal(t->b.behind.bells, 0);
	sends(&t->a, SERVICE_RC, B, 0, 8);
	receives(&t->b);
	assert_true(port_rouse(t->b.port));
	assert_int_equal(t->b.behind.bells, 1);
	assert_int_equal(t->b.behind.bell_to, B);
}

/* The port behind costs a call: it is looked at less often while much comes past it, but it is, and
 * always by who has slept on it. */
static void looks_behind(void **state)
{
	struct two *t = *state;

	receives(&t->b);
	assert_int_equal(t->b.behind.looks, 1);
	sends(&t->a, SERVICE_RC, B, 0, 8);
	t->b.now += 20 * NSEC_PER_USEC;
	receives(&t->b);
	assert_int_equal(t->b.behind.looks, 2);
	t->b.now += 5 * NSEC_PER_USEC;
	receives(&t->b);
	assert_int_equal(t->b.behind.looks, 2);
	t->b.now += 6 * NSEC_PER_USEC;
	receives(&t->b);
	assert_int_equal(t->b.behind.looks, 3);
	assert_true(port_sleeps(t->b.port));
	receives(&t->b);
	assert_int_equal(t->b.behind.looks, 4);
}

/* ---- hostile peers --------------------------------------------------------------------------- */

/* Whatever was done to the ring: the receiver takes no more from it, and who sends in it is told to
 * take the other way. */
static void is_refused(struct two *t)
{
	unsigned taken = t->b.taken, sent = t->a.behind.sent;

	assert_int_equal(receives(&t->b), 0);
	assert_true(port_sleeps(t->b.port));
	assert_int_equal(sends(&t->a, SERVICE_RC, B, 0, 8), 1);
	assert_int_equal(t->a.behind.sent, sent + 1);
	assert_int_equal(receives(&t->b), 0);
	assert_int_equal(t->b.taken, taken);
	assert_int_equal(local_port_meet(t->a.port, B, local_port_inbox(t->b.port)), -ECONNREFUSED);
}

static void ring_the_bell(struct inbox *i, unsigned slot)
{
	atomic_fetch_or(&i->bell[slot / 64], UINT64_C(1) << slot % 64);
}

/* Whoever wipes out that it is, and writes what makes sense. */
static void stays_refused(struct two *t, struct inbox *x)
{
	struct entry e = {.len = BTH_LEN, .gid = here};
	uint8_t *bytes;

	assert_int_equal(inbox_map_ring(local_port_inbox(t->b.port), A, &bytes), 0);
	memcpy(bytes, &e, sizeof(e));
	atomic_store(&x->ring[A].tail, entry_size(e.len));
	atomic_store(&x->refuses[A / 64], 0);
	ring_the_bell(x, A);
	assert_int_equal(receives(&t->b), 0);
	assert_int_not_equal(atomic_load(&x->refuses[A / 64]), 0);
	assert_true(port_sleeps(t->b.port));
	inbox_unmap_ring(bytes);
}

static void tails_that_cannot_be(void **state)
{
	static const uint64_t tails[] = {
		INBOX_RING + 1,		 UINT64_MAX, UINT64_MAX - INBOX_RING, 1, 16,
		sizeof(struct entry) - 1};

	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		void *s = NULL;
		struct two *t;
		struct inbox *x;

		setup(&s);
		t = s;
		x = inbox_of(&t->b);
		atomic_store(&x->ring[A].tail, tails[i]);
		ring_the_bell(x, A);
		is_refused(t);
		stays_refused(t, x);
		/* Others are served. */
		meets(&t->b, &t->b, B);
		assert_int_equal(sends(&t->b, SERVICE_RC, B, 0, 8), 1);
		assert_int_equal(receives(&t->b), 1);
		inbox_unmap(x);
		teardown(&s);
	}
	(void)state;
}

static void lengths_that_cannot_be(void **state)
{
	static const uint32_t lens[] = {0, BTH_LEN - 1, ENTRY_PACKET_MAX + 1, UINT32_MAX, 4096};

	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		struct entry e = {.len = lens[i], .gid = here};
		void *s = NULL;
		struct two *t;
		struct inbox *x;
		uint8_t *bytes;

		setup(&s);
		t = s;
		x = inbox_of(&t->b);
		assert_int_equal(inbox_map_ring(local_port_inbox(t->b.port), A, &bytes), 0);
		memcpy(bytes, &e, sizeof(e));
		atomic_store(&x->ring[A].tail, 1024); /* less than 4096: it is not whole */
		ring_the_bell(x, A);
		is_refused(t);
		stays_refused(t, x);
		inbox_unmap_ring(bytes);
		inbox_unmap(x);
		teardown(&s);
	}
	(void)state;
}

/* A receiver that says it has taken what it was never sent: there is no room, and no more. */
static void heads_that_cannot_be(void **state)
{
	static const uint64_t heads[] = {INBOX_RING * 2, UINT64_MAX, 1, 12345};
	struct two *t = *state;
	struct inbox *x = inbox_of(&t->b);

	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		for (unsigned k = 0; k < 600; k++) {
			atomic_store(&x->ring[A].head, heads[i]);
			(void)!sends(&t->a, SERVICE_UD, B, 0, 4000);
		}
		t->a.now += 2 * NSEC_PER_MSEC;
		assert_int_equal(receives(&t->a), 0);
	}
	inbox_unmap(x);
}

static void bells_of_nobody(void **state)
{
	struct two *t = *state;
	struct inbox *x = inbox_of(&t->b);

	for (unsigned i = 0; i < INBOX_WORDS; i++)
		atomic_store(&x->bell[i], UINT64_MAX);
	atomic_store(&x->ring[A].blocked, UINT32_MAX);
	assert_int_equal(receives(&t->b), 0);
	assert_true(port_sleeps(t->b.port));
	inbox_unmap(x);
}

static void what_is_no_inbox_is_not_met(void **state)
{
	struct two *t = *state;
	int fds[4], pipes[2];

	assert_int_equal(pipe(pipes), 0);
	fds[0] = pipes[0];
	fds[1] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	fds[2] = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(fcntl(fds[2], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	/* As long, and unsealed. */
	fds[3] = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fds[3], lseek(local_port_inbox(t->a.port), 0, SEEK_END)), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(local_port_meet(t->a.port, 9, fds[i]), -EINVAL);
		inbox_close(fds[i]);
		inbox_tell(fds[i]);
		close(fds[i]); /* it was left to us */
	}
	close(pipes[1]);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void who_has_gone_is_no_neighbour(void **state)
{
	struct two *t = *state;

	for (unsigned i = 0; i < 2 * INBOX_RING / 4096; i++)
		sends(&t->a, SERVICE_RC, B, i, 4000);
	inbox_close(local_port_inbox(t->b.port));
	receives(&t->a); /* what waited goes with it */
	assert_int_equal(sends(&t->a, SERVICE_RC, B, 0, 8), 1);
	assert_int_equal(t->a.behind.sent, 1);
	/* The next process of that slot. */
	port_destroy(t->b.port);
	end_open(&t->b, B);
	meets(&t->a, &t->b, B);
	assert_int_equal(sends(&t->a, SERVICE_RC, B, 1, 8), 1);
	assert_int_equal(receives(&t->b), 1);
}

/* What it has in its ring by then is lost with it, what follows goes by the other way. */
static void who_goes_within_a_batch_is_no_neighbour(void **state)
{
	struct two *t = *state;
	struct packet_tx p[4];

	for (unsigned i = 0; i < 4; i++)
		p[i] = packet(SERVICE_RC, i == 1 ? 77 : B, i, 8);
	t->a.behind.closes = local_port_inbox(t->b.port);
	assert_int_equal(port_tx(t->a.port, p, 4, NULL), 4);
	assert_int_equal(t->a.behind.sent, 2);
}

/* Who had the slot before left it anywhere, with bytes that nobody has taken. */
static void the_next_of_a_slot_goes_on_in_its_ring(void **state)
{
	struct two *t = *state;

	t->b.in_order = true;
	for (unsigned i = 0; i < 100; i++)
		sends(&t->a, SERVICE_RC, B, i, 3000);
	port_destroy(t->a.port);
	end_open(&t->a, A);
	meets(&t->a, &t->b, B);
	for (unsigned i = 100; i < 1000; i++) {
		assert_int_equal(sends(&t->a, SERVICE_RC, B, i, 3000), 1);
		receives_all(&t->b);
		receives(&t->a);
	}
	assert_int_equal(t->b.taken, 1000);
}

/* Nor did anybody say of the last one that it has gone. */
static void the_next_of_a_slot_that_cannot_be_met(void **state)
{
	struct two *t = *state;
	int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);

	assert_int_equal(local_port_meet(t->a.port, B, zero), -EINVAL);
	assert_int_equal(sends(&t->a, SERVICE_RC, B, 0, 8), 1);
	assert_int_equal(t->a.behind.sent, 1);
	close(zero);
}

static void meeting_again_loses_nothing(void **state)
{
	struct two *t = *state;
	const unsigned n = 2 * INBOX_RING / 4096;

	t->b.in_order = true;
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(sends(&t->a, SERVICE_RC, B, i, 4000), 1);
	meets(&t->a, &t->b, B);
	while (t->b.taken < n) {
		receives(&t->a);
		assert_true(receives_all(&t->b) > 0);
	}
}

static void news_are_counted(void **state)
{
	struct two *t = *state;
	uint32_t before = local_port_news(t->a.port);

	inbox_tell(local_port_inbox(t->a.port));
	assert_int_equal(local_port_news(t->a.port), before + 1);
}

/* The child has no part in it, whatever it does; the parent goes on. */
static void a_child_has_no_part(void **state)
{
	struct two *t = *state;
	int status;
	pid_t pid;

	for (unsigned i = 0; i < 2 * INBOX_RING / 4096; i++)
		sends(&t->a, SERVICE_RC, B, i, 4000);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int failed = 0;

		port_forked(t->a.port);
		failed |= !t->a.behind.forked;
		failed |= sends(&t->a, SERVICE_RC, B, 0, 8) != 0;
		failed |= receives(&t->a) != -EBADF;
		failed |= !port_sleeps(t->a.port);
		failed |= port_rouse(t->a.port);
		failed |= local_port_meet(t->a.port, 9, 0) != -EBADF;
		local_port_part(t->a.port, B);
		port_destroy(t->a.port);
		_exit(failed);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	t->b.in_order = true;
	assert_true(receives_all(&t->b) > 0);
}

/* A file that long would end who may not write one: it does without an inbox. */
static void where_files_are_to_be_short(void **state)
{
	struct rlimit before, small = {.rlim_cur = 1 << 20};
	struct behind behind = {.port = {.ops = &behind_ops, .fd = -1}};
	struct port *port = &behind.port;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(local_port_before(&port, A), -EFBIG);
	assert_ptr_equal(port, &behind.port);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* Of address space, or of memory that may be locked where all is: it does without the ring.
 */
static void where_there_is_no_memory_for_a_ring(void **state)
{
	struct rlimit before, small;
	struct two *t = *state;
	int got;

	assert_int_equal(sends(&t->a, SERVICE_RC, B, 0, 8), 1);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	small = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
	got = receives(&t->b);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(got, 0);
	is_refused(t);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(passes_whole),
		T(says_the_ttl_that_a_system_would_have_given),
		T(leaves_the_rest_to_the_port_behind),
		T(keeps_who_sent_what_apart),
		T(reaches_itself),
		T(goes_round),
		T(waits_for_room),
		T(room_wakes_who_waits),
		T(room_wakes_the_next_of_a_slot),
		T(loses_what_waits_too_long),
		T(wakes_who_sleeps_once),
		T(who_is_awake_is_not_woken),
		T(does_not_sleep_on_half_a_ring),
		T(a_bell_that_was_not_rung_is_tried_again),
		T(a_bell_that_was_lost_is_rung_again),
		T(a_bell_that_was_lost_is_rung_again_for_a_full_ring),
		T(who_only_sends_rings_again_as_well),
		T(one_that_rings_late_keeps_nobody_waiting),
		T(a_late_bell_is_not_taken_for_one_of_the_next_sleep),
		T(rouses_its_own),
		T(looks_behind),
		cmocka_unit_test(tails_that_cannot_be),
		cmocka_unit_test(lengths_that_cannot_be),
		T(heads_that_cannot_be),
		T(bells_of_nobody),
		T(what_is_no_inbox_is_not_met),
		T(who_has_gone_is_no_neighbour),
		T(who_goes_within_a_batch_is_no_neighbour),
		T(the_next_of_a_slot_goes_on_in_its_ring),
		T(the_next_of_a_slot_that_cannot_be_met),
		T(meeting_again_loses_nothing),
		T(news_are_counted),
		T(a_child_has_no_part),
		T(where_there_is_no_memory_for_a_ring),
		cmocka_unit_test(where_files_are_to_be_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
