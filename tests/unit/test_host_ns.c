/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Namespaces that are known: whether the same disk is there after a reconnect, and after events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "host_peer.h"
#include "host_requests.h"
#include "wire/nvme_log.h"

struct io {
	struct host_request req;
	unsigned int done;
};

static uint8_t data[4096];

static void io_done(struct host_request *req, uint64_t now_ns)
{
	struct io *io = req->arg;

	(void)now_ns;
	io->done++;
}

static int try_read(struct peer *p, uint16_t qid, uint32_t nsid, struct io *io)
{
	*io = (struct io){0};
	io->req = (struct host_request){.done = io_done, .arg = io, .again = true};
	host_prepare_read(&io->req, nsid, 0, 1, data, 512);
	return host_submit(&p->host, qid, &io->req, p->now_ns);
}

static void submit_read(struct peer *p, uint16_t qid, uint32_t nsid, struct io *io)
{
	assert_int_equal(try_read(p, qid, nsid, io), 0);
}

/* Live, with namespaces 1 and 2 known as they are. */
static struct peer *peer_with(struct host_known_ns n[2], uint8_t nguid, uint8_t uuid)
{
	struct peer *p = peer_new();

	p->config.keep_alive_ms = 0;
	peer_bring_up(p);
	for (uint32_t i = 0; i < 2; i++) {
		p->ns[i].nguid = nguid;
		p->ns[i].uuid = uuid;
		n[i] = (struct host_known_ns){.nsid = i + 1, .ids.block_shift = 9};
		memset(n[i].ids.nguid, nguid, sizeof(n[i].ids.nguid));
		memset(n[i].ids.uuid, uuid, sizeof(n[i].ids.uuid));
		host_ns_know(&p->host, &n[i]);
	}
	return p;
}

static void lose(struct peer *p)
{
	host_queue_lost(&p->host, 0, NULL, p->now_ns);
	assert_int_equal(p->host.state, HOST_WAITING);
}

static void come_back(struct peer *p)
{
	peer_advance(p, NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_LIVE);
}

/* The event that tells of changes. */
static void tell_of_changes(struct peer *p)
{
	for (uint32_t i = p->sent_count; i-- > 0;)
		if (p->sent[i].req == &p->host.event && !p->sent[i].answered) {
			peer_answer(p, &p->sent[i], 0,
				    NVME_AER_RESULT(NVME_AER_NOTICE, NVME_NOTICE_NS_CHANGED,
						    NVME_LID_CHANGED_NS));
			return;
		}
	fail_msg("no event request is out");
}

/* The log is read all the same, without which the controller tells of nothing more. */
static void nobody_looks_at_what_is_not_known(void **state)
{
	struct host_known_ns n = {.nsid = 1, .ids.block_shift = 9};
	struct peer *p = peer_new();
	struct io io;

	(void)state;
	p->config.keep_alive_ms = 0;
	peer_bring_up(p);
	submit_read(p, 1, 1, &io);
	lose(p);
	p->ns[0].nguid = 9;
	come_back(p);
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->looks, 0);
	assert_int_equal(p->logs, 1);
	assert_int_equal(peer_outstanding(p, 1), 1);
	host_ns_know(&p->host, &n);
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->logs, 2);
	assert_int_equal(p->lost, 1);
	peer_free(p);
}

static void the_same_disk_gets_what_waited(void **state)
{
	static const uint8_t ids[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 2}};
	struct host_known_ns n[2];
	struct io io, waits;

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		struct peer *p = peer_with(n, ids[i][0], ids[i][1]);

		submit_read(p, 1, 1, &io);
		lose(p);
		submit_read(p, 2, 2, &waits);
		p->ns[0].blocks = 10; /* it may be resized */
		come_back(p);
		assert_int_equal(p->looks, 4);
		assert_int_equal(p->lost, 0);
		assert_int_equal(io.done + waits.done, 0);
		peer_answer(p, peer_next(p, 1), 0, 0);
		peer_answer(p, peer_next(p, 2), 0, 0);
		assert_int_equal(io.req.error, 0);
		assert_int_equal(io.done, 1);
		assert_int_equal(waits.done, 1);
		peer_free(p);
	}
}

static void set_nguid(struct peer_ns *ns)
{
	ns->nguid = 8;
}
static void set_uuid(struct peer_ns *ns)
{
	ns->uuid = 8;
}
static void set_block_shift(struct peer_ns *ns)
{
	ns->block_shift = 12;
}
static void drop_ids(struct peer_ns *ns)
{
	ns->nguid = ns->uuid = 0;
}
static void remove_it(struct peer_ns *ns)
{
	*ns = (struct peer_ns){0};
}
static void refuse_it(struct peer_ns *ns)
{
	ns->status = NVME_SC_INVALID_NS | NVME_STATUS_DNR;
}
static void refuse_its_descriptors(struct peer_ns *ns)
{
	ns->status_of_descs = NVME_SC_INVALID_NS;
}

static void another_disk_gets_nothing(void **state)
{
	static void (*const changes[])(struct peer_ns *) = {
		set_nguid, set_uuid,  set_block_shift,	     drop_ids,
		remove_it, refuse_it, refuse_its_descriptors};
	struct host_known_ns n[2];
	struct io sent, waits, other, late, admin;

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(changes); i++) {
		struct peer *p = peer_with(n, 1, 2);

		submit_read(p, 1, 1, &sent);
		submit_read(p, 1, 2, &other);
		lose(p);
		submit_read(p, 2, 1, &waits);
		changes[i](&p->ns[0]);
		come_back(p);
		assert_int_equal(p->lost, 1);
		assert_int_equal(p->last_lost, 1);
		assert_int_equal(sent.done, 1);
		assert_int_equal(sent.req.error, -ENODEV);
		assert_int_equal(sent.req.attempts, 1);
		assert_int_equal(waits.done, 1);
		assert_int_equal(waits.req.error, -ENODEV);
		assert_int_equal(waits.req.attempts, 0);
		assert_int_equal(try_read(p, 1, 1, &late), -ENODEV);
		/* Others are as they were, and admin commands are for whoever looks. */
		assert_int_equal(other.done, 0);
		assert_ptr_equal(peer_next(p, 1)->req, &other.req);
		admin = (struct io){.req = {.done = io_done, .arg = &admin}};
		host_prepare_identify(&admin.req, NVME_CNS_NS, 1, data);
		assert_int_equal(host_submit(&p->host, 0, &admin.req, p->now_ns), 0);
		/* A reconnect alone makes it no better; the disk itself does. */
		lose(p);
		assert_int_equal(try_read(p, 1, 1, &late), -ENODEV);
		come_back(p);
		assert_int_equal(p->lost, 1);
		assert_int_equal(try_read(p, 1, 1, &late), -ENODEV);
		lose(p);
		p->ns[0] = p->ns[1];
		come_back(p);
		submit_read(p, 1, 1, &late);
		assert_int_equal(peer_outstanding(p, 1), 2);
		peer_free(p);
	}
}

static void a_controller_without_descriptors_is_taken_as_it_is(void **state)
{
	struct host_known_ns n[2];
	struct peer *p = peer_with(n, 1, 0);
	struct io io;

	(void)state;
	p->ns[0].status_of_descs = p->ns[1].status_of_descs =
		NVME_SC_INVALID_FIELD | NVME_STATUS_DNR;
	lose(p);
	come_back(p);
	assert_int_equal(p->looks, 4);
	submit_read(p, 1, 1, &io);
	p->vs = NVME_VS(1, 2, 1);
	lose(p);
	come_back(p);
	assert_int_equal(p->looks, 6);
	assert_int_equal(p->lost, 0);
	peer_free(p);
}

static void what_cannot_be_looked_at_waits(void **state)
{
	struct host_known_ns n[2];
	struct peer *p = peer_with(n, 1, 2);
	struct io io;

	(void)state;
	p->ns[1].status = NVME_SC_NS_NOT_READY;
	lose(p);
	submit_read(p, 1, 2, &io);
	peer_advance(p, 3 * NSEC_PER_SEC);
	assert_int_equal(p->host.state, HOST_WAITING);
	assert_int_equal(p->host.failure.kind, HOST_FAIL_STATUS);
	assert_int_equal(p->host.failure.state, HOST_NAMESPACES);
	assert_int_equal(io.done, 0);
	p->ns[1].status = 0;
	come_back(p);
	assert_int_equal(peer_outstanding(p, 1), 1);
	assert_int_equal(p->lost, 0);
	peer_free(p);
}

/* Nobody waits for a namespace that the controller has and cannot reach now. */
static void one_out_of_reach_stops_nobody(void **state)
{
	struct host_known_ns n[2];
	struct peer *p = peer_with(n, 1, 2);
	struct io io;

	(void)state;
	p->ns[0].status = NVME_SC_INTERNAL_PATH_ERROR;
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->host.state, HOST_LIVE);
	lose(p);
	come_back(p);
	assert_int_equal(p->lost, 0);
	submit_read(p, 1, 1, &io);
	submit_read(p, 1, 2, &io);
	/* It comes again as another disk. */
	p->ns[0].status = 0;
	p->ns[0].nguid = 3;
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->lost, 1);
	assert_int_equal(try_read(p, 1, 1, &io), -ENODEV);
	peer_free(p);
}

/* nvmet keeps a reference of one that is disabled for each command to it. */
static void what_is_not_active_is_asked_nothing(void **state)
{
	struct host_known_ns n[2];
	struct peer *p = peer_with(n, 1, 2);
	struct io io;

	(void)state;
	p->ns[0].blocks = 0;
	p->ns[0].status = NVME_SC_INTERNAL_PATH_ERROR;
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->lists, 2);
	assert_int_equal(p->looks, 2);
	assert_int_equal(p->lost, 1);
	assert_int_equal(p->last_lost, 1);
	assert_int_equal(try_read(p, 1, 1, &io), -ENODEV);
	p->ns[0].blocks = 2000;
	p->ns[0].status = 0;
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->looks, 6);
	submit_read(p, 1, 1, &io);
	peer_free(p);
}

static void a_controller_without_the_list_is_looked_at(void **state)
{
	struct host_known_ns n[2];
	struct peer *p = peer_with(n, 1, 2);

	(void)state;
	p->status_of_list = NVME_SC_INVALID_FIELD | NVME_STATUS_DNR;
	p->ns[1].uuid = 3;
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->looks, 4);
	assert_int_equal(p->lost, 1);
	assert_int_equal(p->last_lost, 2);
	peer_free(p);
}

static void an_event_has_them_looked_at(void **state)
{
	struct host_known_ns n[2];
	struct peer *p = peer_with(n, 1, 2);
	struct io sent, waits[PEER_ENTRIES], other, late;

	(void)state;
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->logs, 1);
	assert_int_equal(p->looks, 4);
	assert_int_equal(p->lost, 0);
	submit_read(p, 1, 1, &sent);
	for (unsigned int i = 0; i < PEER_ENTRIES - 1; i++)
		submit_read(p, 1, 1, &waits[i]);
	p->ns[0].nguid = 3;
	tell_of_changes(p);
	/* Another change, while they are looked at. */
	assert_true(peer_round(p));
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->logs, 3);
	assert_int_equal(p->looks, 12);
	assert_int_equal(p->lost, 1);
	/* What is out is the controller's; the last one waited for room. */
	assert_int_equal(sent.done, 0);
	assert_int_equal(waits[PEER_ENTRIES - 2].done, 1);
	assert_int_equal(waits[PEER_ENTRIES - 2].req.error, -ENODEV);
	assert_int_equal(try_read(p, 2, 1, &late), -ENODEV);
	submit_read(p, 2, 2, &other);
	p->ns[0].nguid = 1;
	tell_of_changes(p);
	peer_run(p);
	submit_read(p, 2, 1, &late);
	/* A shutdown does not wait for a look. */
	tell_of_changes(p);
	host_shutdown(&p->host, p->now_ns);
	peer_run(p);
	assert_int_equal(p->host.state, HOST_CLOSED);
	peer_free(p);
}

static void whoever_reads_the_log_is_not_robbed_of_it(void **state)
{
	struct host_known_ns n[2];
	struct peer *p = peer_with(n, 1, 2);

	(void)state;
	p->host.config.reads_changes = true;
	p->ns[1].uuid = 3;
	tell_of_changes(p);
	peer_run(p);
	assert_int_equal(p->events, 1);
	assert_int_equal(p->logs, 0);
	assert_int_equal(p->last_lost, 2);
	peer_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_looks_at_what_is_not_known),
		cmocka_unit_test(the_same_disk_gets_what_waited),
		cmocka_unit_test(another_disk_gets_nothing),
		cmocka_unit_test(a_controller_without_descriptors_is_taken_as_it_is),
		cmocka_unit_test(what_cannot_be_looked_at_waits),
		cmocka_unit_test(one_out_of_reach_stops_nobody),
		cmocka_unit_test(what_is_not_active_is_asked_nothing),
		cmocka_unit_test(a_controller_without_the_list_is_looked_at),
		cmocka_unit_test(an_event_has_them_looked_at),
		cmocka_unit_test(whoever_reads_the_log_is_not_robbed_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
