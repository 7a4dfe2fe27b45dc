/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Queue pairs of iWARP whose streams are TCP connections, over loopback: with sockets that hold
 * little, so that they fill up, and all the ways in which connections end.
 */
#include "stream_bed.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/units.h"
#include "engine/drive.h"
#include "engine/streams.h"

#define BIG    (1u << 20)
#define MOMENT (10 * NSEC_PER_MSEC)

static struct bed {
	struct sb *sb;
	struct streams *set[2];
	struct drive drive[2];
	struct packet_tx tx[2][DRIVE_TX_BATCH];
	int fd[2]; /* as given away */
	unsigned ended[2];
	int error[2];
} bed;

static void ended(void *ctx, struct rnic_qp *qp, int error)
{
	int side = ctx == bed.sb->side[1].rnic;

	assert_ptr_equal(qp, bed.sb->side[side].qp);
	bed.ended[side]++;
	bed.error[side] = error;
}

static void connect_both(int fd[2])
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM, 0), little = 4096;
	socklen_t len = sizeof(a);

	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
	assert_int_equal(setsockopt(fd[0], SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	assert_int_equal(connect(fd[0], (struct sockaddr *)&a, sizeof(a)), 0);
	fd[1] = accept(listener, NULL, NULL);
	assert_true(fd[1] >= 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)),
				 0);
	close(listener);
}

static int open_bed(void **state)
{
	struct sb_opts opts = sb_defaults();

	(void)state;
	opts.no_streams = true;
	bed = (struct bed){.sb = sb_open(&opts, 1)};
	connect_both(bed.fd);
	for (int i = 0; i < 2; i++) {
		struct rnic *r = bed.sb->side[i].rnic;

		struct port *port;

		assert_int_equal(streams_create(&bed.set[i], ended, r), 0);
		streams_serve(bed.set[i], r);
		port = streams_port(bed.set[i]);
		drive_init(&bed.drive[i], r, &port, 1, bed.tx[i], DRIVE_TX_BATCH);
		assert_int_equal(streams_add(bed.set[i], bed.sb->side[i].qp, bed.fd[i],
					     &opts.init[i], NULL, 0, 0),
				 0);
	}
	bed.sb->now = NSEC_PER_SEC; /* they are no longer new */
	return 0;
}

static int close_bed(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		streams_drop(bed.sb->side[i].qp, bed.sb->now);
		streams_destroy(bed.set[i]);
	}
	sb_close(bed.sb);
	return 0;
}

static bool step(int side)
{
	int got = drive_receive(&bed.drive[side], bed.sb->now);

	assert_true(got >= 0);
	return drive_send(&bed.drive[side], 64, bed.sb->now) || got;
}

static bool waits(void)
{
	struct pollfd p[2] = {{.fd = streams_port(bed.set[0])->fd, .events = POLLIN},
			      {.fd = streams_port(bed.set[1])->fd, .events = POLLIN}};

	return poll(p, 2, 20) > 0;
}

/* Before it closes a side waits until the peer has been silent for a moment: that goes by. */
static bool moment_passes(void)
{
	uint64_t next = drive_next_deadline(&bed.drive[0]);

	if (drive_next_deadline(&bed.drive[1]) < next)
		next = drive_next_deadline(&bed.drive[1]);
	if (next <= bed.sb->now || next > bed.sb->now + MOMENT)
		return false;
	bed.sb->now = next;
	return true;
}

/* Until nothing has moved for a while. */
static void run(void)
{
	do
		for (int i = 0; i < 2; i++)
			while (step(i))
				;
	while (waits() || moment_passes());
}

static void more_than_sockets_hold(void **state)
{
	struct sb *b = bed.sb;

	(void)state;
	for (uint32_t i = 0; i < BIG; i++)
		b->side[0].mem[i] = b->side[1].mem[i] = (uint8_t)(i * 7 + i / 999);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(sb_recv(b, side, 5, 3 * BIG, BIG), 0);
		assert_int_equal(sb_post(b, side,
					 (struct rnic_send_wr){.wr_id = 1, .opcode = RNIC_WR_SEND},
					 0, BIG, 0),
				 0);
		assert_int_equal(
			sb_post(b, side,
				(struct rnic_send_wr){.wr_id = 2, .opcode = RNIC_WR_RDMA_WRITE}, 0,
				BIG, BIG),
			0);
		assert_int_equal(
			sb_post(b, side,
				(struct rnic_send_wr){.wr_id = 3, .opcode = RNIC_WR_RDMA_READ},
				2 * BIG, BIG, 0),
			0);
	}
	run();
	for (int side = 0; side < 2; side++) {
		for (uint64_t i = 1; i <= 3; i++)
			sb_expect(b, side, false, i, RNIC_WC_SUCCESS);
		sb_expect(b, side, true, 5, RNIC_WC_SUCCESS);
		for (uint32_t k = 1; k < 4; k++)
			assert_memory_equal(b->side[side].mem + k * BIG, b->side[side].mem, BIG);
		assert_int_equal(bed.ended[side], 0);
	}
}

static int modify(int side, enum rnic_qp_state to)
{
	return rnic_qp_modify(bed.sb->side[side].qp, &(struct rnic_qp_attr){.state = to},
			      RNIC_QP_STATE, bed.sb->now);
}

/* One side closes gracefully; what was sent before has come, and the other closes, too. */
static void a_graceful_end_loses_nothing(void **state)
{
	struct sb *b = bed.sb;

	(void)state;
	b->side[0].mem[0] = 9;
	assert_int_equal(sb_recv(b, 1, 5, 3 * BIG, BIG), 0);
	assert_int_equal(sb_recv(b, 1, 6, 3 * BIG, BIG), 0);
	assert_int_equal(sb_post(b, 0, (struct rnic_send_wr){.opcode = RNIC_WR_SEND}, 0, BIG, 0),
			 0);
	while (drive_send(&bed.drive[0], 64, 0))
		;
	run();
	assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
	run();
	sb_expect(b, 0, false, 0, RNIC_WC_SUCCESS);
	sb_expect(b, 1, true, 5, RNIC_WC_SUCCESS);
	sb_expect(b, 1, true, 6, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(b->side[1].mem[3 * BIG], 9);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(bed.ended[side], 1);
		assert_int_equal(bed.error[side], 0);
		assert_int_equal(sb_state(b, side), RNIC_QPS_ERR);
	}
}

static void an_aborted_one_is_lost_to_the_peer(void **state)
{
	(void)state;
	assert_int_equal(sb_recv(bed.sb, 1, 5, 0, 10), 0);
	assert_int_equal(modify(0, RNIC_QPS_ERR), 0);
	run();
	assert_int_equal(bed.ended[0], 1);
	assert_int_equal(bed.ended[1], 1);
	assert_int_equal(bed.error[1], -ECONNRESET);
	assert_int_equal(sb_wc(bed.sb, 1, true).vendor_err, RNIC_CAUSE_STREAM_LOST);
}

/* The Terminate gets there although the peer has still sent a lot. */
static void a_terminate_gets_to_the_peer(void **state)
{
	struct sb *b = bed.sb;

	(void)state;
	assert_int_equal(
		sb_post(b, 0,
			(struct rnic_send_wr){.wr_id = 1, .opcode = RNIC_WR_RDMA_WRITE, .rkey = 1},
			0, BIG, 0),
		0);
	assert_int_equal(sb_post(b, 0,
				 (struct rnic_send_wr){.wr_id = 2, .opcode = RNIC_WR_RDMA_READ}, 0,
				 10, 0),
			 0);
	run();
	assert_int_equal(rnic_stream_terminated(b->side[0].qp),
			 rnic_stream_terminated(b->side[1].qp));
	assert_true(rnic_stream_terminated(b->side[0].qp) > 0);
	assert_int_equal(bed.ended[0], 1);
	assert_int_equal(bed.ended[1], 1);
	assert_int_equal(bed.error[0], 0);
	assert_int_equal(bed.error[1], 0);
	assert_int_equal(drive_next_deadline(&bed.drive[1]), DEADLINE_NEVER);
}

/* A peer that does not close its side when we have closed ours has some seconds. */
static void a_peer_that_does_not_close_is_left(void **state)
{
	const uint64_t left = bed.sb->now + 5 * NSEC_PER_SEC;

	(void)state;
	assert_int_equal(sb_recv(bed.sb, 0, 2, 0, 10), 0);
	assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
	assert_false(drive_send(&bed.drive[0], 64, bed.sb->now));
	assert_int_equal(drive_next_deadline(&bed.drive[0]), left);
	assert_int_equal(drive_receive(&bed.drive[0], left - 1), 0);
	assert_int_equal(bed.ended[0], 0);
	assert_int_equal(drive_receive(&bed.drive[0], left), 0);
	assert_int_equal(bed.ended[0], 1);
	assert_int_equal(sb_state(bed.sb, 0), RNIC_QPS_ERR);
	sb_expect(bed.sb, 0, true, 2, RNIC_WC_WR_FLUSH_ERR);
	assert_int_equal(drive_next_deadline(&bed.drive[0]), DEADLINE_NEVER);
}

/* More than the sockets hold; the peer takes nothing of it. */
static void send_to_the_deaf(void)
{
	assert_int_equal(sb_post(bed.sb, 0,
				 (struct rnic_send_wr){.wr_id = 1, .opcode = RNIC_WR_SEND}, 0, BIG,
				 0),
			 0);
	assert_int_equal(sb_recv(bed.sb, 0, 2, 0, 10), 0);
	do
		while (step(0))
			;
	while (poll(&(struct pollfd){bed.fd[0], POLLOUT, 0}, 1, 50));
}

static void an_abort_waits_for_nobody(void **state)
{
	(void)state;
	send_to_the_deaf();
	assert_int_equal(modify(0, RNIC_QPS_ERR), 0);
	assert_false(drive_send(&bed.drive[0], 64, bed.sb->now));
	assert_int_equal(bed.ended[0], 1);
}

/* A graceful end, or one by a fault of ours or of the peer's, waits for one that takes what is
 * sent, a while after the last of it. */
static void who_takes_nothing_is_left(bool fault)
{
	const uint64_t wait = 5 * NSEC_PER_SEC;
	struct sb *b = bed.sb;
	uint8_t some[8192] = {0};

	send_to_the_deaf();
	if (fault)
		rnic_stream_rx(b->side[0].qp, some, sizeof(some), b->now);
	else
		assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
	assert_false(drive_send(&bed.drive[0], 64, b->now));
	assert_int_equal(drive_next_deadline(&bed.drive[0]), b->now + wait);
	b->now += wait - 1;
	assert_int_equal(drive_receive(&bed.drive[0], b->now), 0);
	assert_int_equal(bed.ended[0], 0);
	/* It takes some. */
	assert_true(recv(bed.fd[1], some, sizeof(some), 0) > 0);
	assert_int_equal(poll(&(struct pollfd){bed.fd[0], POLLOUT, 0}, 1, 5000), 1);
	while (step(0))
		;
	assert_int_equal(drive_next_deadline(&bed.drive[0]), b->now + wait);
	b->now += wait;
	assert_int_equal(drive_receive(&bed.drive[0], b->now), 0);
	assert_int_equal(bed.ended[0], 1);
	assert_int_equal(bed.error[0], -ETIMEDOUT);
	assert_int_equal(drive_next_deadline(&bed.drive[0]), DEADLINE_NEVER);
	assert_int_equal(sb_state(b, 0), RNIC_QPS_ERR);
	sb_expect(b, 0, false, 1, RNIC_WC_WR_FLUSH_ERR);
	sb_expect(b, 0, true, 2, RNIC_WC_WR_FLUSH_ERR);
}

static void a_graceful_end_does_not_wait_for_ever(void **state)
{
	(void)state;
	who_takes_nothing_is_left(false);
}

static void nor_does_one_by_a_fault(void **state)
{
	(void)state;
	who_takes_nothing_is_left(true);
}

/* Of a queue pair that is no more: not for ever either, if it takes some now and then. */
static void what_is_left_over_goes(void **state)
{
	const uint64_t most = bed.sb->now + 30 * NSEC_PER_SEC;
	uint8_t some[1024];

	(void)state;
	send_to_the_deaf();
	assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
	streams_drop(bed.sb->side[0].qp, bed.sb->now);
	assert_true(streams_linger(bed.set[0]));
	while (bed.sb->now < most) {
		assert_true(streams_linger(bed.set[0]));
		assert_true(recv(bed.fd[1], some, sizeof(some), 0) > 0);
		(void)poll(&(struct pollfd){bed.fd[0], POLLOUT, 0}, 1, 20);
		while (step(0))
			;
		assert_true(drive_next_deadline(&bed.drive[0]) <= most);
		bed.sb->now = drive_next_deadline(&bed.drive[0]) - 1;
		if (bed.sb->now == most - 1)
			break;
	}
	assert_true(drive_receive(&bed.drive[0], bed.sb->now + 1) >= 0);
	assert_false(streams_linger(bed.set[0]));
	assert_int_equal(drive_next_deadline(&bed.drive[0]), DEADLINE_NEVER);
}

static void ask_and_disconnect(void)
{
	assert_int_equal(sb_post(bed.sb, 0,
				 (struct rnic_send_wr){.wr_id = 1, .opcode = RNIC_WR_RDMA_READ}, 0,
				 8, 0),
			 0);
	assert_false(drive_send(&bed.drive[0], 64, bed.sb->now));
	assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
	assert_false(drive_send(&bed.drive[0], 64, bed.sb->now));
}

/* A peer that answers nothing. */
static void an_answer_is_not_waited_for_for_ever(void **state)
{
	const uint64_t left = bed.sb->now + 5 * NSEC_PER_SEC;
	struct sb *b = bed.sb;

	(void)state;
	ask_and_disconnect();
	assert_int_equal(drive_next_deadline(&bed.drive[0]), left);
	assert_int_equal(drive_receive(&bed.drive[0], left), 0);
	assert_int_equal(bed.ended[0], 1);
	sb_expect(b, 0, false, 1, RNIC_WC_WR_FLUSH_ERR);
}

/* One that was stopped itself does not blame the peer. */
static void an_answer_that_has_come_is_taken_late(void **state)
{
	struct sb *b = bed.sb;

	(void)state;
	ask_and_disconnect();
	while (!waits() || step(1))
		;
	b->now += 100 * NSEC_PER_SEC;
	while (drive_receive(&bed.drive[0], b->now) > 0)
		;
	sb_expect(b, 0, false, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed.ended[0], 0);
}

/* Of the peer's side, whether it has been ended. */
static bool is_shut(int side)
{
	struct pollfd p = {.fd = bed.fd[!side], .events = POLLRDHUP};

	return poll(&p, 1, 0) == 1 && p.revents & POLLRDHUP;
}

/* Who has just begun, and heard nothing, does not close yet. */
static void nobody_closes_at_once(void **state)
{
	static const uint64_t soon = 50 * NSEC_PER_MSEC;

	(void)state;
	bed.sb->now = 1;
	assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
	assert_false(drive_send(&bed.drive[0], 64, 1));
	assert_int_equal(drive_next_deadline(&bed.drive[0]), soon);
	assert_int_equal(drive_receive(&bed.drive[0], soon - 1), 0);
	assert_false(is_shut(0));
	assert_int_equal(drive_receive(&bed.drive[0], soon), 0);
	assert_true(is_shut(0));
	assert_int_equal(drive_next_deadline(&bed.drive[0]), soon + 5 * NSEC_PER_SEC);
}

/* Who has just heard the peer does not close yet, and what else comes does not change that. */
static void nobody_closes_upon_the_last_word(void **state)
{
	const uint64_t now = bed.sb->now;

	(void)state;
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(sb_recv(bed.sb, 0, i, 0, 10), 0);
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(sb_post(bed.sb, 1,
					 (struct rnic_send_wr){.wr_id = i, .opcode = RNIC_WR_SEND},
					 0, 10, 0),
				 0);
		assert_false(drive_send(&bed.drive[1], 64, now));
		assert_int_equal(drive_receive(&bed.drive[0], now + i), 1);
		if (i == 0)
			assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
		assert_false(drive_send(&bed.drive[0], 64, now + i));
		assert_int_equal(drive_next_deadline(&bed.drive[0]), now + MOMENT);
	}
	assert_int_equal(drive_receive(&bed.drive[0], now + MOMENT - 1), 0);
	assert_false(is_shut(0));
	assert_int_equal(drive_receive(&bed.drive[0], now + MOMENT), 0);
	assert_true(is_shut(0));
}

/* Nor is there anything to wait for where the peer has closed. */
static void who_is_closed_upon_closes(void **state)
{
	(void)state;
	assert_int_equal(sb_recv(bed.sb, 0, 1, 0, 10), 0);
	assert_int_equal(
		sb_post(bed.sb, 1, (struct rnic_send_wr){.opcode = RNIC_WR_SEND}, 0, 10, 0), 0);
	assert_false(drive_send(&bed.drive[1], 64, bed.sb->now));
	assert_int_equal(modify(1, RNIC_QPS_SQD), 0);
	assert_false(drive_send(&bed.drive[1], 64, bed.sb->now));
	assert_true(is_shut(1));
	while (drive_receive(&bed.drive[0], bed.sb->now))
		;
	sb_expect(bed.sb, 0, true, 1, RNIC_WC_SUCCESS);
	assert_int_equal(bed.ended[0], 1);
}

/* A request, or something wrong, that crosses the end: nothing can be said to it any more, and what
 * was sent before the end still counts. */
static void what_crosses_the_end_breaks_nothing(void **state)
{
	struct sb *b = bed.sb;

	(void)state;
	for (uint64_t i = 5; i < 7; i++)
		assert_int_equal(sb_recv(b, 1, i, BIG, 1000), 0);
	assert_int_equal(sb_post(b, 0, (struct rnic_send_wr){.opcode = RNIC_WR_SEND}, 0, 1000, 0),
			 0);
	assert_false(drive_send(&bed.drive[0], 64, b->now));
	sb_expect(b, 0, false, 0, RNIC_WC_SUCCESS);
	assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
	assert_false(drive_send(&bed.drive[0], 64, b->now));
	assert_true(is_shut(0));
	assert_int_equal(sb_post(b, 1,
				 (struct rnic_send_wr){.wr_id = 1, .opcode = RNIC_WR_RDMA_READ}, 0,
				 8, 0),
			 0);
	assert_int_equal(
		sb_post(b, 1,
			(struct rnic_send_wr){.wr_id = 2, .opcode = RNIC_WR_RDMA_WRITE, .rkey = 1},
			0, 8, 0),
		0);
	assert_false(drive_send(&bed.drive[1], 64, b->now));
	while (!waits() || step(0))
		;
	run();
	sb_expect(b, 1, true, 5, RNIC_WC_SUCCESS);
	sb_expect(b, 1, true, 6, RNIC_WC_WR_FLUSH_ERR);
	sb_expect(b, 1, false, 1, RNIC_WC_WR_FLUSH_ERR);
	for (int side = 0; side < 2; side++) {
		assert_int_equal(bed.ended[side], 1);
		assert_int_equal(bed.error[side], 0);
		assert_int_equal(sb_state(b, side), RNIC_QPS_ERR);
	}
}

/* Another stream for the queue pair. */
static void begin_again(int side, const struct rnic_stream_init *init, const void *early,
			size_t len)
{
	struct rnic_qp *qp = bed.sb->side[side].qp;

	assert_int_equal(modify(side, RNIC_QPS_ERR), 0); /* it is broken, and does not linger */
	streams_drop(qp, 0);
	assert_int_equal(modify(side, RNIC_QPS_RESET), 0);
	assert_int_equal(modify(side, RNIC_QPS_INIT), 0);
	assert_int_equal(
		rnic_qp_modify(qp,
			       &(struct rnic_qp_attr){.access_flags = RNIC_ACCESS_REMOTE_WRITE,
						      .state = RNIC_QPS_INIT},
			       RNIC_QP_STATE | RNIC_QP_ACCESS_FLAGS, 0),
		0);
	connect_both(bed.fd);
	assert_int_equal(streams_add(bed.set[side], qp, bed.fd[side], init, early, len, 0), 0);
}

/* What came along with the peer's last word on the connection is the queue pair's. */
static void early_bytes_are_taken(void **state)
{
	struct sb *b = bed.sb;
	uint8_t early[256];
	size_t len;

	(void)state;
	/* By another connection, of which the bytes are taken before the queue pair has it. */
	assert_int_equal(
		sb_post(b, 0, (struct rnic_send_wr){.opcode = RNIC_WR_RDMA_WRITE}, 0, 8, 64), 0);
	b->side[0].mem[0] = 42;
	assert_false(drive_send(&bed.drive[0], 64, 0));
	while ((len = (size_t)recv(bed.fd[1], early, sizeof(early), MSG_PEEK | MSG_DONTWAIT)) >
	       sizeof(early))
		;
	assert_int_equal(recv(bed.fd[1], early, sizeof(early), 0), len);
	begin_again(1, &b->opts.init[1], early, len);
	assert_int_equal(b->side[1].mem[64], 42);
	close(bed.fd[0]);
}

/* Whose call is answered by nothing says something that means nothing, less and less often; once
 * something comes no more. */
static void who_hears_nothing_nudges(void **state)
{
	struct rnic *peer = bed.sb->side[1].rnic;
	uint64_t now = 0;

	(void)state;
	assert_int_equal(modify(0, RNIC_QPS_RTS), 0); /* as programs say once it is */
	assert_false(drive_send(&bed.drive[0], 64, 0));
	for (uint64_t i = 0; i < 6; i++) {
		assert_int_equal(drive_next_deadline(&bed.drive[0]),
				 now + (NSEC_PER_SEC / 10 << i));
		now = drive_next_deadline(&bed.drive[0]);
		assert_int_equal(drive_receive(&bed.drive[0], now - 1), 0);
		assert_false(drive_send_pending(&bed.drive[0]));
		assert_int_equal(drive_receive(&bed.drive[0], now), 0);
		assert_false(drive_send(&bed.drive[0], 64, now));
		while (rnic_counters(peer)->rx_packets == i)
			assert_true(drive_receive(&bed.drive[1], 0) >= 0);
		assert_int_equal(rnic_counters(peer)->rx_packets, i + 1);
		assert_int_equal(rnic_counters(peer)->rx_bytes, 0);
	}
	assert_int_equal(drive_next_deadline(&bed.drive[0]), DEADLINE_NEVER);
	/* The other side, which has heard something by now. */
	assert_false(drive_send(&bed.drive[1], 64, 0));
	assert_int_equal(drive_receive(&bed.drive[1], NSEC_PER_SEC), 0);
	assert_false(drive_send_pending(&bed.drive[1]));
	assert_int_equal(drive_next_deadline(&bed.drive[1]), DEADLINE_NEVER);
	for (int side = 0; side < 2; side++)
		assert_int_equal(sb_state(bed.sb, side), RNIC_QPS_RTS);
}

/* Who is called speaks first only where the caller has not for long, and no RTR is to come. */
static void who_is_called_is_patient(void **state)
{
	static const uint64_t second = NSEC_PER_SEC;

	(void)state;
	for (int rtr = 0; rtr < 2; rtr++) {
		struct rnic_stream_init init = bed.sb->opts.init[1];
		uint8_t got[64];

		init.listens_first = true;
		init.rtr = rtr ? MPA_RTR_WRITE : MPA_RTR_NONE;
		begin_again(1, &init, NULL, 0);
		assert_int_equal(sb_post(bed.sb, 1,
					 (struct rnic_send_wr){.wr_id = 1, .opcode = RNIC_WR_SEND},
					 0, 8, 0),
				 0);
		assert_false(drive_send(&bed.drive[1], 64, 0));
		assert_int_equal(drive_next_deadline(&bed.drive[1]),
				 rtr ? DEADLINE_NEVER : 2 * second);
		assert_int_equal(drive_receive(&bed.drive[1], 2 * second - 1), 0);
		assert_false(drive_send(&bed.drive[1], 64, 2 * second - 1));
		assert_int_equal(recv(bed.fd[0], got, sizeof(got), MSG_DONTWAIT), -1);
		assert_int_equal(drive_receive(&bed.drive[1], 2 * second), 0);
		assert_false(drive_send(&bed.drive[1], 64, 2 * second));
		assert_int_equal(recv(bed.fd[0], got, sizeof(got), MSG_DONTWAIT), rtr ? -1 : 32);
		close(bed.fd[0]);
	}
}

/* Who destroys the queue pair at once, be it without a word, has sent what he has sent. */
static void outlives(bool disconnects)
{
	const uint32_t len = 60000; /* more than the sockets hold, at one go */
	struct sb *b = bed.sb;

	b->side[0].mem[len - 1] = 42;
	assert_int_equal(sb_recv(b, 1, 5, BIG, len), 0);
	assert_int_equal(sb_post(b, 0, (struct rnic_send_wr){.opcode = RNIC_WR_SEND}, 0, len, 0),
			 0);
	assert_false(drive_send(&bed.drive[0], 64, 0));
	sb_expect(b, 0, false, 0, RNIC_WC_SUCCESS);
	if (disconnects)
		assert_int_equal(modify(0, RNIC_QPS_SQD), 0);
	streams_drop(b->side[0].qp, 0);
	run();
	sb_expect(b, 1, true, 5, RNIC_WC_SUCCESS);
	assert_int_equal(b->side[1].mem[BIG + len - 1], 42);
	assert_int_equal(bed.ended[1], 1);
	assert_int_equal(bed.error[1], 0);
	assert_int_equal(bed.ended[0], 0);
	if (disconnects) /* else there is the queue pair's own */
		assert_int_equal(drive_next_deadline(&bed.drive[0]), DEADLINE_NEVER);
}

static void what_was_sent_outlives_the_queue_pair(void **state)
{
	(void)state;
	outlives(true);
}

static void so_it_does_where_nobody_disconnects(void **state)
{
	(void)state;
	outlives(false);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_bed, close_bed)
	const struct CMUnitTest tests[] = {
		T(more_than_sockets_hold),
		T(a_graceful_end_loses_nothing),
		T(an_aborted_one_is_lost_to_the_peer),
		T(a_terminate_gets_to_the_peer),
		T(a_peer_that_does_not_close_is_left),
		T(an_abort_waits_for_nobody),
		T(a_graceful_end_does_not_wait_for_ever),
		T(nor_does_one_by_a_fault),
		T(what_is_left_over_goes),
		T(an_answer_is_not_waited_for_for_ever),
		T(an_answer_that_has_come_is_taken_late),
		T(nobody_closes_at_once),
		T(nobody_closes_upon_the_last_word),
		T(who_is_closed_upon_closes),
		T(what_crosses_the_end_breaks_nothing),
		T(early_bytes_are_taken),
		T(what_was_sent_outlives_the_queue_pair),
		T(so_it_does_where_nobody_disconnects),
		T(who_hears_nothing_nudges),
		T(who_is_called_is_patient),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
