/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The loop over a core and several ports: what goes by which, and what comes by any. */
#include "rnic_bed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive.h"

#define QUEUE 64

/* One end of a wire that reaches the addresses fd00:n::/32. */
struct end {
	struct port port; /* first */
	struct port_counters counters;
	struct end *peer;
	uint8_t n;
	int broken;
	size_t calls, asked;
	uint64_t at;
	struct {
		struct flow flow;
		size_t len;
		uint8_t data[256];
	} queue[QUEUE];
	size_t queued;
};

static int end_rx(struct port *p, uint64_t now, port_take *take, void *ctx)
{
	struct end *e = (struct end *)p;
	int n = (int)e->queued;

	(void)now;
	e->asked++;
	if (e->broken)
		return e->broken;
	for (size_t i = 0; i < e->queued; i++)
		take(ctx, &(struct packet_rx){.flow = e->queue[i].flow,
					      .data = e->queue[i].data,
					      .len = e->queue[i].len});
	e->queued = 0;
	return n;
}

static size_t end_tx(struct port *p, const struct packet_tx *t, size_t n, struct packet_sent *sent)
{
	struct end *e = (struct end *)p, *to = e->peer;

	assert_null(sent);
	e->calls++;
	for (size_t i = 0; i < n; i++, t++) {
		size_t len = t->hdr_len;

		assert_true(to->queued < QUEUE);
		memcpy(to->queue[to->queued].data, t->hdr, len);
		for (size_t k = 0; k < t->niov; k++) {
			memcpy(to->queue[to->queued].data + len, t->iov[k].iov_base,
			       t->iov[k].iov_len);
			len += t->iov[k].iov_len;
		}
		memset(to->queue[to->queued].data + len, 0, t->pad);
		to->queue[to->queued].len = len + t->pad;
		to->queue[to->queued++].flow = *t->flow;
	}
	return n;
}

static void end_at(struct port *p, uint64_t now)
{
	((struct end *)p)->at = now;
}

static bool end_reaches(const struct port *p, const struct flow *f)
{
	return f->dgid.raw[1] == ((const struct end *)p)->n;
}

static const struct port_ops end_ops = {
	.rx = end_rx, .tx = end_tx, .at = end_at, .reaches = end_reaches};

struct fixture {
	struct bed *bed;
	struct end end[2][2]; /* of a side, on a wire */
	struct drive drive[2];
	struct packet_tx tx[2][DRIVE_TX_BATCH];
	struct flow flow[3]; /* over the one wire, the other, and to where no wire leads */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->bed = bed_open(&(struct bed_opts){.type = RNIC_QPT_UD});
	for (int side = 0; side < 2; side++) {
		struct port *ports[2];

		for (uint8_t wire = 0; wire < 2; wire++) {
			struct end *e = &f->end[side][wire];

			*e = (struct end){
				.port = {.ops = &end_ops, .fd = -1, .counters = &e->counters},
				.peer = &f->end[!side][wire],
				.n = wire,
			};
			ports[wire] = &e->port;
		}
		drive_init(&f->drive[side], f->bed->side[side].rnic, ports, 2, f->tx[side],
			   DRIVE_TX_BATCH);
	}
	for (uint8_t i = 0; i < 3; i++)
		f->flow[i] = (struct flow){.sgid = {.raw = {0xfd, i, [15] = 1}},
					   .dgid = {.raw = {0xfd, i, [15] = 2}}};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	bed_close(f->bed);
	free(f);
	return 0;
}

static void send_by(struct fixture *f, uint64_t wr_id, int flow)
{
	struct bed *b = f->bed;
	struct rnic_sge sge = bed_sge(b, 0, 0, 8);
	struct rnic_send_wr wr = {
		.wr_id = wr_id,
		.sge = &sge,
		.num_sge = 1,
		.opcode = RNIC_WR_SEND_WITH_IMM,
		.imm_or_rkey = (uint32_t)wr_id,
		.ud = {.flow = &f->flow[flow], .qpn = rnic_qp_num(b->side[1].qp), .qkey = BED_QKEY},
	};

	assert_int_equal(bed_recv(b, 1, wr_id, 0, 256), 0);
	assert_int_equal(rnic_post_send(b->side[0].qp, &wr, b->now), 0);
}

static void a_packet_goes_by_the_port_that_reaches_its_end(void **state)
{
	static const uint8_t flow[] = {0, 0, 1, 0, 1, 1}, came[] = {0, 1, 3, 2, 4, 5};
	struct fixture *f = *state;

	for (uint64_t i = 0; i < 6; i++)
		send_by(f, i, flow[i]);
	assert_false(drive_send(&f->drive[0], SIZE_MAX, f->bed->now));
	assert_int_equal(f->end[1][0].queued, 3);
	assert_int_equal(f->end[1][1].queued, 3);
	/* Those that follow one another went together. */
	assert_int_equal(f->end[0][0].calls, 2);
	assert_int_equal(f->end[0][1].calls, 2);
	assert_int_equal(drive_receive(&f->drive[1], f->bed->now), 6);
	/* In their order on each wire. */
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(bed_wc(f->bed, 1, true).imm_or_rkey, came[i]);
}

static void what_no_port_reaches_is_lost_alone(void **state)
{
	struct fixture *f = *state;

	send_by(f, 0, 0);
	send_by(f, 1, 2);
	send_by(f, 2, 1);
	assert_false(drive_send(&f->drive[0], SIZE_MAX, f->bed->now));
	assert_int_equal(drive_receive(&f->drive[1], f->bed->now), 2);
	assert_int_equal(bed_wc(f->bed, 1, true).imm_or_rkey, 0);
	assert_int_equal(bed_wc(f->bed, 1, true).imm_or_rkey, 2);
	bed_expect_none(f->bed, 1);
	assert_int_equal(f->end[0][0].counters.tx_no_port, 1);
}

static void no_more_is_sent_than_is_asked_for(void **state)
{
	struct fixture *f = *state;

	for (uint64_t i = 0; i < 5; i++)
		send_by(f, i, 0);
	assert_true(drive_send(&f->drive[0], 3, f->bed->now));
	assert_int_equal(f->end[1][0].queued, 3);
	assert_false(drive_send(&f->drive[0], 3, f->bed->now));
	assert_int_equal(f->end[1][0].queued, 5);
}

static void ports_are_told_the_time_before_they_send(void **state)
{
	struct fixture *f = *state;

	assert_false(drive_send(&f->drive[0], SIZE_MAX, 17));
	assert_int_equal(f->end[0][0].at, 17);
	assert_int_equal(f->end[0][1].at, 17);
}

static void a_broken_port_ends_nothing_while_another_works(void **state)
{
	struct fixture *f = *state;

	f->end[1][0].broken = -EBADF;
	send_by(f, 0, 1);
	drive_send(&f->drive[0], SIZE_MAX, f->bed->now);
	assert_int_equal(drive_receive(&f->drive[1], f->bed->now), 1);
	assert_int_equal(drive_receive(&f->drive[1], f->bed->now), 0);
	assert_int_equal(f->end[1][0].asked, 1); /* once is enough */
	f->end[1][1].broken = -EIO;
	assert_int_equal(drive_receive(&f->drive[1], f->bed->now), -EIO);
}

static void what_a_broken_port_reached_goes_by_another_or_is_counted(void **state)
{
	struct fixture *f = *state;

	f->end[0][0].broken = -EBADF;
	assert_int_equal(drive_receive(&f->drive[0], f->bed->now), 0);
	send_by(f, 0, 0);
	send_by(f, 1, 1);
	drive_send(&f->drive[0], SIZE_MAX, f->bed->now);
	assert_int_equal(f->end[1][0].queued, 0);
	assert_int_equal(f->end[1][1].queued, 1);
	assert_int_equal(f->end[0][0].counters.tx_no_port, 1);
	f->end[0][1].n = 0; /* reaches that, too, now */
	send_by(f, 2, 0);
	drive_send(&f->drive[0], SIZE_MAX, f->bed->now);
	assert_int_equal(f->end[1][1].queued, 2);
	assert_int_equal(f->end[0][0].counters.tx_no_port, 1);
}

int main(void)
{
#define DRIVE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		DRIVE_TEST(a_packet_goes_by_the_port_that_reaches_its_end),
		DRIVE_TEST(what_no_port_reaches_is_lost_alone),
		DRIVE_TEST(no_more_is_sent_than_is_asked_for),
		DRIVE_TEST(ports_are_told_the_time_before_they_send),
		DRIVE_TEST(a_broken_port_ends_nothing_while_another_works),
		DRIVE_TEST(what_a_broken_port_reached_goes_by_another_or_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
