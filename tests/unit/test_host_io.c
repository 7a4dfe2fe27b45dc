/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Commands of a live association: numbering, loss, reconnect, hostile answers, discovery. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host_peer.h"
#include "host_requests.h"
#include "nvmf/host/discovery.h"
#include "wire/nvme_log.h"

struct io {
	struct host_request req;
	unsigned int done;
	struct host *resubmit; /* from within done() */
};

static uint8_t data[256 << 10];

static void io_done(struct host_request *req, uint64_t now_ns)
{
	struct io *io = req->arg;

	io->done++;
	if (io->resubmit) {
		struct host *h = io->resubmit;

		io->resubmit = NULL;
		assert_int_equal(host_submit(h, 1, req, now_ns), 0);
	}
}

static void io_read(struct io *io, uint32_t len, bool again)
{
	io->req = (struct host_request){.done = io_done, .arg = io, .again = again};
	host_prepare_read(&io->req, 1, 0, len / 512, data, len);
}

static void io_write(struct io *io, uint32_t len, bool again)
{
	io->req = (struct host_request){.done = io_done, .arg = io, .again = again};
	host_prepare_write(&io->req, 1, 0, len / 512, data, len, false);
}

static void submit(struct peer *p, uint16_t qid, struct io *io)
{
	assert_int_equal(host_submit(&p->host, qid, &io->req, p->now_ns), 0);
}

static void an_answer_reaches_its_command(void **state)
{
	struct peer *p = peer_new();
	struct io a = {0}, b = {0};
	unsigned int released;

	(void)state;
	peer_bring_up(p);
	released = p->releases;
	io_read(&a, 4096, false);
	io_read(&b, 4096, false);
	submit(p, 1, &a);
	submit(p, 1, &b);
	peer_answer(p, &p->sent[p->sent_count - 1], NVME_SC_LBA_RANGE | NVME_STATUS_DNR, 5);
	assert_int_equal(a.done, 0);
	assert_int_equal(b.done, 1);
	assert_int_equal(b.req.error, 0);
	assert_int_equal(b.req.cqe.status, NVME_SC_LBA_RANGE | NVME_STATUS_DNR);
	assert_int_equal(b.req.cqe.result, 5);
	peer_answer(p, peer_next(p, 1), 0, 0);
	assert_int_equal(a.done, 1);
	assert_int_equal(a.req.cqe.status, 0);
	assert_int_equal(p->releases, released + 2);
	peer_free(p);
}

static void commands_and_what_they_carry_are_counted(void **state)
{
	struct peer *p = peer_new();
	struct io a = {0}, b = {0}, c = {0};
	struct host_counters before, *n;

	(void)state;
	peer_bring_up(p);
	n = p->host.counters;
	before = *n;
	assert_true(before.commands > 0);
	assert_int_equal(before.reads + before.writes + before.losses, 0);
	io_read(&a, 4096, false);
	submit(p, 1, &a);
	peer_answer(p, &p->sent[p->sent_count - 1], NVME_SC_SUCCESS, 5);
	io_write(&b, 8192, false);
	submit(p, 1, &b);
	peer_answer(p, &p->sent[p->sent_count - 1], NVME_SC_SUCCESS, 6);
	io_read(&c, 4096, false);
	submit(p, 1, &c);
	peer_answer(p, &p->sent[p->sent_count - 1], NVME_SC_LBA_RANGE | NVME_STATUS_DNR, 7);
	assert_int_equal(n->commands, before.commands + 3);
	assert_int_equal(n->reads, 1);
	assert_int_equal(n->read_bytes, 4096);
	assert_int_equal(n->writes, 1);
	assert_int_equal(n->written_bytes, 8192);
	assert_int_equal(n->errors, before.errors + 1);
	peer_free(p);
}

static void small_writes_ride_in_the_capsule(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};

	(void)state;
	peer_bring_up(p);
	io_write(&io, 4096, false);
	submit(p, 1, &io);
	assert_true(p->sent[p->sent_count - 1].in_capsule);
	peer_answer(p, peer_next(p, 1), 0, 0);
	io_write(&io, 4608, false);
	submit(p, 1, &io);
	assert_false(p->sent[p->sent_count - 1].in_capsule);
	peer_answer(p, peer_next(p, 1), 0, 0);
	io_read(&io, 512, false);
	submit(p, 1, &io);
	assert_false(p->sent[p->sent_count - 1].in_capsule);
	peer_free(p);
	/* A data offset, or no offsets in SGLs: then nothing does. */
	for (int i = 0; i < 2; i++) {
		p = peer_new();
		if (i == 0)
			p->id.icdoff = 1;
		else
			p->id.sgls &= ~NVME_SGLS_OFFSET;
		peer_bring_up(p);
		io_write(&io, 512, false);
		submit(p, 1, &io);
		assert_false(p->sent[p->sent_count - 1].in_capsule);
		peer_free(p);
	}
}

static void no_more_are_out_than_the_queue_holds(void **state)
{
	struct peer *p = peer_new();
	struct io io[50] = {0};
	unsigned int done = 0;

	(void)state;
	peer_bring_up(p);
	for (int i = 0; i < 50; i++) {
		io_read(&io[i], 512, false);
		submit(p, 1, &io[i]);
	}
	assert_int_equal(peer_outstanding(p, 1), PEER_ENTRIES - 1);
	while (peer_next(p, 1)) {
		assert_in_range(peer_outstanding(p, 1), 1, PEER_ENTRIES - 1);
		/* In the order they were submitted. */
		assert_ptr_equal(peer_next(p, 1)->req, &io[done].req);
		peer_answer(p, peer_next(p, 1), 0, 0);
		done++;
	}
	assert_int_equal(done, 50);
	peer_free(p);
}

static void a_peer_with_little_room_limits_the_queue(void **state)
{
	struct peer *p = peer_new();
	struct io io[10] = {0};

	(void)state;
	p->limit = 3;
	peer_bring_up(p);
	for (int i = 0; i < 10; i++) {
		io_read(&io[i], 512, false);
		submit(p, 2, &io[i]);
	}
	assert_int_equal(peer_outstanding(p, 2), 3);
	assert_int_equal(p->connect[2].sqsize, PEER_ENTRIES - 1);
	peer_free(p);
}

static void a_command_id_is_not_reused_while_it_is_out(void **state)
{
	struct peer *p = peer_new();
	struct io slow = {0}, io = {0};
	struct sent *held;
	uint16_t cid;

	(void)state;
	peer_bring_up(p);
	io_read(&slow, 512, false);
	submit(p, 1, &slow);
	held = peer_next(p, 1);
	cid = held->sqe.cid;
	/* peer_submit() checks every ID against those that are out. */
	for (int i = 0; i < 3000; i++) {
		struct sent *s = &p->sent[p->sent_count];

		io_read(&io, 512, false);
		submit(p, 1, &io);
		assert_int_not_equal(s->sqe.cid, cid);
		peer_answer(p, s, 0, 0);
		assert_int_equal(io.done, i + 1);
	}
	peer_answer(p, held, 0, 0);
	assert_int_equal(slow.done, 1);
	peer_free(p);
}

static void a_request_may_be_submitted_from_its_done(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};

	(void)state;
	peer_bring_up(p);
	io_read(&io, 512, false);
	io.resubmit = &p->host;
	submit(p, 1, &io);
	peer_answer(p, peer_next(p, 1), 0, 0);
	peer_answer(p, peer_next(p, 1), 0, 0);
	assert_int_equal(io.done, 2);
	peer_free(p);
}

static void a_full_transport_is_waited_for(void **state)
{
	struct peer *p = peer_new();
	struct io a = {0}, b = {0};
	unsigned int submits;

	(void)state;
	peer_bring_up(p);
	p->submit_again = 1;
	io_read(&a, 512, false);
	io_read(&b, 512, false);
	submit(p, 1, &a);
	submits = p->submits;
	submit(p, 1, &b);
	assert_int_equal(p->submits, submits); /* it does not knock at a full one */
	assert_int_equal(peer_outstanding(p, 1), 0);
	host_queue_writable(&p->host, 1, p->now_ns);
	assert_int_equal(peer_outstanding(p, 1), 2);
	assert_ptr_equal(peer_next(p, 1)->req, &a.req);
	peer_free(p);
}

static void impossible_requests_are_refused(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};

	(void)state;
	peer_init(p);
	io_read(&io, 512, false);
	assert_int_equal(host_submit(&p->host, 1, &io.req, p->now_ns), -ENOTCONN);
	peer_free(p);
	p = peer_new();
	peer_bring_up(p);
	assert_int_equal(host_submit(&p->host, 3, &io.req, p->now_ns), -EINVAL);
	io_read(&io, (128 << 10) + 512, false);
	assert_int_equal(host_submit(&p->host, 1, &io.req, p->now_ns), -EINVAL);
	io_read(&io, 0, false);
	assert_int_equal(host_submit(&p->host, 1, &io.req, p->now_ns), -EINVAL);
	host_shutdown(&p->host, p->now_ns);
	io_read(&io, 512, false);
	assert_int_equal(host_submit(&p->host, 1, &io.req, p->now_ns), -ENOTCONN);
	assert_int_equal(io.done, 0);
	peer_free(p);
}

static void a_lost_connection_ends_commands_once_when_there_is_no_way_back(void **state)
{
	struct peer *p = peer_new();
	struct io io[30] = {0};

	(void)state;
	p->config.loss_timeout_ns = 0;
	peer_bring_up(p);
	for (int i = 0; i < 30; i++) {
		io_read(&io[i], 512, i % 2);
		submit(p, (uint16_t)(1 + i % 2), &io[i]);
	}
	host_queue_lost(&p->host, 2, NULL, p->now_ns);
	assert_int_equal(p->host.state, HOST_FAILED);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_LOST);
	assert_int_equal(p->host.failure.qid, 2);
	for (int i = 0; i < 30; i++) {
		assert_int_equal(io[i].done, 1);
		assert_int_equal(io[i].req.error, -ENOTCONN);
	}
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	host_shutdown(&p->host, p->now_ns);
	for (int i = 0; i < 30; i++)
		assert_int_equal(io[i].done, 1);
	peer_free(p);
}

static void commands_that_may_are_sent_again_in_order(void **state)
{
	struct peer *p = peer_new();
	struct io io[20] = {0}, once = {0};

	(void)state;
	peer_bring_up(p);
	io_write(&once, 512, false);
	submit(p, 1, &once);
	for (int i = 0; i < 20; i++) {
		io_write(&io[i], 512, true);
		submit(p, 1, &io[i]);
	}
	host_queue_lost(&p->host, 0, NULL, p->now_ns);
	assert_int_equal(p->host.state, HOST_WAITING);
	assert_int_equal(once.done, 1);
	assert_int_equal(once.req.error, -ENOTCONN);
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_LIVE);
	assert_int_equal(p->host.reconnects, 1);
	assert_int_equal(p->host.counters->reconnects, 1);
	for (int i = 0; i < 20; i++) {
		struct sent *s = peer_next(p, 1);

		assert_int_equal(io[i].done, 0);
		assert_ptr_equal(s->req, &io[i].req);
		peer_answer(p, s, 0, 0);
		assert_int_equal(io[i].done, 1);
		assert_int_equal(io[i].req.error, 0);
	}
	peer_free(p);
}

static void requests_wait_while_it_reconnects(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};

	(void)state;
	peer_bring_up(p);
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	io_read(&io, 512, false);
	submit(p, 1, &io);
	assert_int_equal(io.done, 0);
	peer_advance(p, NSEC_PER_SEC);
	peer_answer(p, peer_next(p, 1), 0, 0);
	assert_int_equal(io.done, 1);
	peer_free(p);
}

static void reconnecting_is_given_up_after_its_time(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};
	unsigned int opens;

	(void)state;
	peer_bring_up(p);
	io_read(&io, 512, true);
	submit(p, 1, &io);
	p->refuse_open = true;
	opens = p->opens;
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	peer_advance(p, 29 * NSEC_PER_SEC);
	assert_int_equal(io.done, 0);
	peer_advance(p, 2 * NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_FAILED);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_OPEN);
	assert_null(p->host.failure.detail); /* the transport knows why */
	assert_int_equal(io.done, 1);
	assert_int_equal(io.req.error, -ENOTCONN);
	assert_in_range(p->opens - opens, 29, 31);
	peer_free(p);
}

static void an_attempt_that_hangs_ends_with_the_reconnecting(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};

	(void)state;
	p->config.loss_timeout_ns = 3 * NSEC_PER_SEC;
	peer_bring_up(p);
	io_read(&io, 512, true);
	submit(p, 1, &io);
	p->silent_open = true;
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	peer_advance(p, 3 * NSEC_PER_SEC - 1);
	assert_int_equal(io.done, 0);
	peer_advance(p, 1);
	assert_int_equal(p->host.state, HOST_FAILED);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_OPEN);
	assert_string_equal(p->host.failure.detail, "no answer in time");
	assert_int_equal(io.done, 1);
	peer_free(p);
}

static void an_attempt_cut_short_does_not_hide_why_the_one_before_failed(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->config.loss_timeout_ns = 3 * NSEC_PER_SEC + NSEC_PER_SEC / 2;
	peer_bring_up(p);
	p->status_of_step[HOST_CONNECT] = NVME_SC_CONNECT_CTRL_BUSY;
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	peer_advance(p, 2 * NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_WAITING);
	p->silent_open = true;
	peer_advance(p, NSEC_PER_SEC + NSEC_PER_SEC / 4);
	assert_int_equal(p->host.state, HOST_OPENING);
	peer_advance(p, NSEC_PER_SEC / 4);
	assert_int_equal(p->host.state, HOST_FAILED);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_STATUS);
	assert_int_equal(p->host.failure.status, NVME_SC_CONNECT_CTRL_BUSY);
	peer_free(p);
}

static void who_waits_longer_than_there_is_time_gives_up_in_time(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->config.reconnect_delay_ns = 60 * NSEC_PER_SEC;
	p->config.loss_timeout_ns = 3 * NSEC_PER_SEC;
	peer_bring_up(p);
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	peer_advance(p, 3 * NSEC_PER_SEC - 1);
	assert_int_equal(p->host.state, HOST_WAITING);
	peer_advance(p, 1);
	assert_int_equal(p->host.state, HOST_FAILED);
	peer_free(p);
}

static void what_an_earlier_loss_was_for_is_not_told_again(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	p->config.loss_timeout_ns = 3 * NSEC_PER_SEC;
	peer_bring_up(p);
	p->refuse_open = true;
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	peer_advance(p, NSEC_PER_SEC);
	p->refuse_open = false;
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_LIVE);
	p->silent_open = true;
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	peer_advance(p, 3 * NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_FAILED);
	assert_string_equal(p->host.failure.detail, "no answer in time");
	peer_free(p);
}

static void a_lasting_refusal_ends_the_reconnecting(void **state)
{
	struct peer *p = peer_new();

	(void)state;
	peer_bring_up(p);
	p->status_of_step[HOST_CONNECT] = NVME_SC_CONNECT_INVALID_PARAM | NVME_STATUS_DNR;
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_FAILED);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_STATUS);
	peer_free(p);
}

static void a_command_is_not_sent_again_for_ever(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};

	(void)state;
	peer_bring_up(p);
	io_read(&io, 512, true);
	submit(p, 1, &io);
	for (int i = 0; i < HOST_ATTEMPTS_MAX; i++) {
		assert_int_equal(io.done, 0);
		assert_int_equal(peer_outstanding(p, 1), 1);
		host_queue_lost(&p->host, 1, NULL, p->now_ns);
		peer_advance(p, NSEC_PER_SEC);
		assert_int_equal(p->host.state, HOST_LIVE);
	}
	assert_int_equal(io.done, 1);
	assert_int_equal(io.req.error, -ENOTCONN);
	peer_free(p);
}

static void fewer_queues_after_a_reconnect_lose_no_request(void **state)
{
	struct peer *p = peer_new();
	struct io io[6] = {0};

	(void)state;
	peer_bring_up(p);
	for (int i = 0; i < 6; i++) {
		io_read(&io[i], 512, true);
		submit(p, (uint16_t)(1 + i % 2), &io[i]);
	}
	p->queues_granted = 1;
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.io_queues, 1);
	while (peer_next(p, 1))
		peer_answer(p, peer_next(p, 1), 0, 0);
	for (int i = 0; i < 6; i++)
		assert_int_equal(io[i].done, 1);
	peer_free(p);
}

static void an_unanswered_command_loses_the_connection(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0}, later = {0};

	(void)state;
	p->config.loss_timeout_ns = 0;
	peer_bring_up(p);
	io_read(&io, 512, false);
	submit(p, 1, &io);
	peer_advance(p, NSEC_PER_SEC);
	io_read(&later, 512, false);
	submit(p, 1, &later);
	peer_advance(p, 29 * NSEC_PER_SEC - 1);
	assert_int_equal(io.done, 0);
	peer_advance(p, 1);
	assert_int_equal(p->host.state, HOST_FAILED);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_TIMEOUT);
	assert_int_equal(p->host.failure.opcode, NVME_IO_READ);
	assert_true(p->host.failure.answers); /* keep-alives */
	assert_int_equal(io.done, 1);
	assert_int_equal(io.req.error, -ETIMEDOUT);
	assert_int_equal(later.done, 1);
	peer_free(p);
}

static void that_nothing_is_answered_any_more_is_told(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};

	(void)state;
	p->config.loss_timeout_ns = 0;
	p->config.keep_alive_ms = 0;
	peer_bring_up(p);
	io_read(&io, 512, false);
	submit(p, 1, &io);
	peer_advance(p, 30 * NSEC_PER_SEC);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_TIMEOUT);
	assert_false(p->host.failure.answers);
	peer_free(p);
}

static void a_broken_submit_is_a_lost_connection(void **state)
{
	struct peer *p = peer_new();
	struct io io = {0};

	(void)state;
	peer_bring_up(p);
	p->submit_broken = true;
	io_read(&io, 512, true);
	submit(p, 1, &io);
	/* Who submits is not called back: it comes with the next tick, which is due. */
	assert_int_equal(p->host.state, HOST_LIVE);
	assert_int_equal(host_next_deadline(&p->host), 0);
	peer_advance(p, 0);
	assert_int_equal(p->host.state, HOST_WAITING);
	p->submit_broken = false;
	peer_advance(p, NSEC_PER_SEC);
	peer_answer(p, peer_next(p, 1), 0, 0);
	assert_int_equal(io.done, 1);
	peer_free(p);
}

/* It ends, by itself, and the connection stays. */
static void who_finds_no_memory_fails_alone(void **state)
{
	struct peer *p = peer_new();
	struct io a = {0}, b = {0};

	(void)state;
	peer_bring_up(p);
	p->submit_no_memory = 1;
	io_read(&a, 512, true);
	io_read(&b, 512, true);
	a.resubmit = &p->host;
	submit(p, 1, &a);
	submit(p, 1, &b);
	/* Who submits is not called back. */
	assert_int_equal(a.done, 0);
	assert_int_equal(host_next_deadline(&p->host), 0);
	p->submit_no_memory = 1;
	host_tick(&p->host, p->now_ns);
	assert_int_equal(a.done, 1);
	assert_int_equal(a.req.error, 0); /* it has been submitted anew, and that failed, too */
	peer_advance(p, 0);
	assert_int_equal(a.done, 2);
	assert_int_equal(a.req.error, -ENOMEM);
	assert_int_equal(p->host.state, HOST_LIVE);
	assert_int_equal(p->host.counters->losses, 0);
	peer_answer(p, peer_next(p, 1), 0, 0);
	assert_int_equal(b.done, 1);
	assert_int_equal(b.req.error, 0);
	/* Nor is it forgotten where the end comes first. */
	p->submit_no_memory = 1;
	submit(p, 1, &a);
	host_shutdown(&p->host, p->now_ns);
	assert_int_equal(a.done, 3);
	assert_int_equal(a.req.error, -ENOMEM);
	peer_free(p);
}

static void violated(struct peer *p, struct io *io, const char *what)
{
	assert_int_equal(p->host.state, HOST_FAILED);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_PROTOCOL);
	if (!strstr(p->host.failure.detail, what))
		fail_msg("'%s' does not speak of %s", p->host.failure.detail, what);
	assert_int_equal(io->done, 1);
	assert_int_equal(io->req.error, -ENOTCONN);
	peer_free(p);
}

static struct peer *with_one_out(struct io *io)
{
	struct peer *p = peer_new();

	*io = (struct io){0};
	peer_bring_up(p);
	io_read(io, 512, true);
	submit(p, 1, io);
	return p;
}

static void respond_raw(struct peer *p, uint16_t cid, uint16_t sqhd, uint32_t len)
{
	struct nvme_cqe cqe = {.cid = cid, .sqhd = sqhd};
	uint8_t capsule[64] = {0};
	struct wcursor w = wcursor_init(capsule, sizeof(capsule));

	nvme_cqe_put(&w, &cqe);
	host_queue_response(&p->host, 1, capsule, len, p->now_ns);
}

static void hostile_responses_end_the_association(void **state)
{
	struct io io;
	struct peer *p;
	uint16_t cid;

	(void)state;
	p = with_one_out(&io);
	cid = peer_next(p, 1)->sqe.cid;
	respond_raw(p, (uint16_t)(cid ^ 1), 0, 16); /* another generation of its slot */
	violated(p, &io, "not outstanding");
	p = with_one_out(&io);
	respond_raw(p, 0xffff, 0, 16);
	violated(p, &io, "not outstanding");
	p = with_one_out(&io);
	respond_raw(p, peer_next(p, 1)->sqe.cid, PEER_ENTRIES, 16);
	violated(p, &io, "head");
	for (uint32_t len = 0; len <= 64; len++) {
		if (len == 16)
			continue;
		p = with_one_out(&io);
		respond_raw(p, peer_next(p, 1)->sqe.cid, 0, len);
		violated(p, &io, "16 bytes");
	}
	p = with_one_out(&io);
	host_queue_lost(&p->host, 1, "a key that was not given", p->now_ns);
	violated(p, &io, "key");
}

static void a_second_response_to_a_command_is_a_violation(void **state)
{
	struct io io;
	struct peer *p = with_one_out(&io);
	uint16_t cid = peer_next(p, 1)->sqe.cid;

	(void)state;
	respond_raw(p, cid, 0, 16);
	assert_int_equal(io.done, 1);
	respond_raw(p, cid, 0, 16);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_PROTOCOL);
	assert_int_equal(io.done, 1);
	peer_free(p);
}

static void nothing_is_taken_from_queues_that_are_closed(void **state)
{
	struct io io;
	struct peer *p = with_one_out(&io);

	(void)state;
	host_queue_response(&p->host, 99, data, 16, p->now_ns);
	host_queue_lost(&p->host, 99, NULL, p->now_ns);
	host_queue_writable(&p->host, 99, p->now_ns);
	host_queue_opened(&p->host, 1, 5, p->now_ns);
	assert_int_equal(p->host.state, HOST_LIVE);
	host_queue_lost(&p->host, 1, NULL, p->now_ns);
	assert_int_equal(p->host.state, HOST_WAITING);
	host_queue_response(&p->host, 1, data, 16, p->now_ns);
	host_queue_lost(&p->host, 1, "late", p->now_ns);
	assert_int_equal(p->host.state, HOST_WAITING);
	peer_free(p);
}

static void a_reset_comes_back(void **state)
{
	struct io io;
	struct peer *p = with_one_out(&io);

	(void)state;
	host_reset(&p->host, p->now_ns);
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_LIVE);
	peer_answer(p, peer_next(p, 1), 0, 0);
	assert_int_equal(io.done, 1);
	peer_free(p);
}

static void requests_end_when_the_host_shuts_down(void **state)
{
	struct io io[20] = {0};
	struct peer *p = peer_new();

	(void)state;
	peer_bring_up(p);
	for (int i = 0; i < 20; i++) {
		io_read(&io[i], 512, true);
		submit(p, 1, &io[i]);
	}
	host_shutdown(&p->host, p->now_ns);
	peer_run(p);
	assert_int_equal(p->host.state, HOST_CLOSED);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(io[i].done, 1);
		assert_int_equal(io[i].req.error, -ECANCELED);
	}
	peer_free(p);
}

static void a_namespace_that_cannot_be_used_is_told_why(void **state)
{
	struct nvme_id_ns id = {.nsze = 1000, .lbaf[0] = {.ds = 9}};
	struct host_namespace ns;
	const char *why = "";

	(void)state;
	assert_int_equal(host_namespace_read(&id, 3, &ns, &why), 0);
	assert_int_equal(ns.nsid, 3);
	assert_int_equal(ns.blocks, 1000);
	assert_int_equal(ns.block_bytes, 512);
	id.nsze = 0;
	assert_int_equal(host_namespace_read(&id, 3, &ns, &why), -EINVAL);
	assert_non_null(strstr(why, "no blocks"));
	assert_int_equal(host_namespace_read(&(struct nvme_id_ns){0}, 3, &ns, &why), -EINVAL);
	assert_non_null(strstr(why, "no such namespace"));
	id.nsze = 1ull << 60;
	assert_int_equal(host_namespace_read(&id, 3, &ns, &why), -EINVAL);
	id.nsze = 1000;
	id.lbaf[0].ds = 8;
	assert_int_equal(host_namespace_read(&id, 3, &ns, &why), -EINVAL);
	id.lbaf[0].ds = 200;
	assert_int_equal(host_namespace_read(&id, 3, &ns, &why), -EINVAL);
	id.lbaf[0] = (struct nvme_lbaf){.ds = 12, .ms = 8};
	assert_int_equal(host_namespace_read(&id, 3, &ns, &why), -EINVAL);
	assert_non_null(strstr(why, "metadata"));
}

/* --- discovery ----------------------------------------------------------------------------- */

struct log {
	uint64_t genctr, numrec;
	uint16_t recfmt;
	unsigned int changes; /* the counter moves before so many closing looks */
	unsigned int reads;
};

static unsigned int discovery_ended;

static void discovery_done(struct host_discovery *d, uint64_t now_ns)
{
	(void)d;
	(void)now_ns;
	discovery_ended++;
}

/* Serves the log until the reading ends. */
static void serve_log(struct peer *p, struct log *log)
{
	struct sent *s;

	while ((s = peer_next(p, 0))) {
		struct wcursor w = wcursor_init(s->req->data, s->req->data_len);
		struct nvme_get_log get;

		nvme_get_log_from_sqe(&get, &s->sqe);
		assert_int_equal(get.lid, NVME_LID_DISCOVERY);
		assert_int_equal(get.len, s->req->data_len);
		log->reads++;
		if (get.offset == 0) {
			struct nvmf_disc_hdr h = {0};

			if (log->reads > 1 && log->changes) {
				log->changes--;
				log->genctr++;
			}
			h = (struct nvmf_disc_hdr){log->genctr, log->numrec, log->recfmt};
			nvmf_disc_hdr_put(&w, &h);
		}
		for (uint64_t i = get.offset ? get.offset / 1024 - 1 : 0;
		     get.offset && i < get.offset / 1024 - 1 + get.len / 1024; i++) {
			struct nvmf_disc_entry e = {.portid = (uint16_t)i,
						    .cntlid = (uint16_t)log->genctr};

			assert_in_range(i, 0, log->numrec - 1);
			nvmf_disc_entry_put(&w, &e);
		}
		peer_answer(p, s, 0, 0);
	}
}

static struct peer *discovery_peer(void)
{
	struct peer *p = peer_new();

	strcpy(p->config.subnqn, NVMF_DISCOVERY_NQN);
	peer_bring_up(p);
	discovery_ended = 0;
	return p;
}

static void a_discovery_log_is_read_whole(void **state)
{
	static const uint64_t counts[] = {0, 1, 3, 4, 5, 100};
	struct nvmf_disc_entry *entries = calloc(100, sizeof(*entries));

	(void)state;
	for (size_t n = 0; n < ARRAY_SIZE(counts); n++) {
		struct peer *p = discovery_peer();
		struct log log = {.genctr = 5, .numrec = counts[n]};
		struct host_discovery d = {
			.buffer = data, .entries = entries, .max = 100, .done = discovery_done};

		assert_int_equal(host_discovery_start(&d, &p->host, p->now_ns), 0);
		serve_log(p, &log);
		assert_int_equal(discovery_ended, 1);
		assert_int_equal(d.error, 0);
		assert_int_equal(d.count, counts[n]);
		for (uint32_t i = 0; i < d.count; i++)
			assert_int_equal(entries[i].portid, i);
		peer_free(p);
	}
	free(entries);
}

static void a_log_that_changes_is_read_again(void **state)
{
	struct nvmf_disc_entry entries[8];
	struct host_discovery d = {
		.buffer = data, .entries = entries, .max = 8, .done = discovery_done};
	struct log log = {.genctr = 5, .numrec = 6, .changes = 3};
	struct peer *p = discovery_peer();

	(void)state;
	assert_int_equal(host_discovery_start(&d, &p->host, p->now_ns), 0);
	serve_log(p, &log);
	assert_int_equal(d.error, 0);
	assert_int_equal(d.count, 6);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(entries[i].cntlid, 8); /* all of the last generation */
	log = (struct log){.genctr = 5, .numrec = 6, .changes = 1000};
	assert_int_equal(host_discovery_start(&d, &p->host, p->now_ns), 0);
	serve_log(p, &log);
	assert_int_equal(discovery_ended, 2);
	assert_int_equal(d.error, -EAGAIN);
	peer_free(p);
}

static void a_log_beyond_reason_is_refused(void **state)
{
	struct nvmf_disc_entry entries[8];
	struct host_discovery d = {
		.buffer = data, .entries = entries, .max = 8, .done = discovery_done};
	struct log log = {.genctr = 1, .numrec = 9};
	struct peer *p = discovery_peer();

	(void)state;
	assert_int_equal(host_discovery_start(&d, &p->host, p->now_ns), 0);
	serve_log(p, &log);
	assert_int_equal(d.error, -E2BIG);
	assert_int_equal(d.header.numrec, 9);
	log.numrec = UINT64_MAX;
	assert_int_equal(host_discovery_start(&d, &p->host, p->now_ns), 0);
	serve_log(p, &log);
	assert_int_equal(d.error, -EMSGSIZE);
	log = (struct log){.numrec = 1, .recfmt = 1};
	assert_int_equal(host_discovery_start(&d, &p->host, p->now_ns), 0);
	serve_log(p, &log);
	assert_int_equal(d.error, -EPROTO);
	assert_int_equal(host_discovery_start(&d, &p->host, p->now_ns), 0);
	peer_answer(p, peer_next(p, 0), NVME_SC_INVALID_LOG_PAGE, 0);
	assert_int_equal(d.error, -EIO);
	assert_int_equal(d.request.cqe.status, NVME_SC_INVALID_LOG_PAGE);
	peer_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_reaches_its_command),
		cmocka_unit_test(commands_and_what_they_carry_are_counted),
		cmocka_unit_test(small_writes_ride_in_the_capsule),
		cmocka_unit_test(no_more_are_out_than_the_queue_holds),
		cmocka_unit_test(a_peer_with_little_room_limits_the_queue),
		cmocka_unit_test(a_command_id_is_not_reused_while_it_is_out),
		cmocka_unit_test(a_request_may_be_submitted_from_its_done),
		cmocka_unit_test(a_full_transport_is_waited_for),
		cmocka_unit_test(impossible_requests_are_refused),
		cmocka_unit_test(a_lost_connection_ends_commands_once_when_there_is_no_way_back),
		cmocka_unit_test(commands_that_may_are_sent_again_in_order),
		cmocka_unit_test(requests_wait_while_it_reconnects),
		cmocka_unit_test(reconnecting_is_given_up_after_its_time),
		cmocka_unit_test(an_attempt_that_hangs_ends_with_the_reconnecting),
		cmocka_unit_test(an_attempt_cut_short_does_not_hide_why_the_one_before_failed),
		cmocka_unit_test(what_an_earlier_loss_was_for_is_not_told_again),
		cmocka_unit_test(a_lasting_refusal_ends_the_reconnecting),
		cmocka_unit_test(a_command_is_not_sent_again_for_ever),
		cmocka_unit_test(fewer_queues_after_a_reconnect_lose_no_request),
		cmocka_unit_test(an_unanswered_command_loses_the_connection),
		cmocka_unit_test(that_nothing_is_answered_any_more_is_told),
		cmocka_unit_test(a_broken_submit_is_a_lost_connection),
		cmocka_unit_test(who_finds_no_memory_fails_alone),
		cmocka_unit_test(who_waits_longer_than_there_is_time_gives_up_in_time),
		cmocka_unit_test(hostile_responses_end_the_association),
		cmocka_unit_test(a_second_response_to_a_command_is_a_violation),
		cmocka_unit_test(nothing_is_taken_from_queues_that_are_closed),
		cmocka_unit_test(a_reset_comes_back),
		cmocka_unit_test(requests_end_when_the_host_shuts_down),
		cmocka_unit_test(a_namespace_that_cannot_be_used_is_told_why),
		cmocka_unit_test(a_discovery_log_is_read_whole),
		cmocka_unit_test(a_log_that_changes_is_read_again),
		cmocka_unit_test(a_log_beyond_reason_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
