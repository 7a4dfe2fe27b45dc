/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What one user takes of the connection manager, and what is left to the others. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "../skip.h"
#include "base/time.h"
#include "cm_world.h"

enum { CLIENTS = 8, USER = 60000 };

/* Everything that these clients can have, one after the other. */
static uint32_t take_ids(struct client *c, uint32_t n)
{
	uint32_t got = 0, id;

	for (uint32_t i = 0; i < n; i++)
		while (try_create(&c[i], TCP, &id) == 0)
			got++;
	return got;
}

static void open_clients(struct world *w, struct client *c, uint32_t uid)
{
	w->uid = uid;
	for (uint32_t i = 0; i < CLIENTS; i++)
		open_client(&c[i], &w->host[0]);
}

static void close_clients(struct client *c)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		close_client(&c[i]);
}

static void a_users_clients_together_take_a_part_of_the_identifiers(void **state)
{
	struct world *w = *state;
	struct client c[CLIENTS], other;
	uint32_t id;

	open_clients(w, c, USER);
	assert_int_equal(take_ids(c, CLIENTS), 16384);
	assert_int_equal(try_create(&c[0], TCP, &id), -EMFILE);
	w->uid = USER + 1;
	open_client(&other, &w->host[0]);
	create(&other, TCP);
	/* What a client had is the user's again. */
	close_client(&c[0]);
	open_client(&c[0], &w->host[0]); /* the other's */
	id = create(&c[1], TCP);
	close_clients(c);
	close_client(&other);
}

static void all_users_together_leave_some_to_root(void **state)
{
	struct world *w = *state;
	struct client c[4][CLIENTS], root;
	uint32_t got = 0;

	for (uint32_t u = 0; u < 4; u++) {
		open_clients(w, c[u], USER + u);
		got += take_ids(c[u], CLIENTS);
	}
	assert_int_equal(got, 49152);
	w->uid = 0;
	open_client(&root, &w->host[0]);
	assert_int_equal(take_ids(&root, 1), 16384);
	close_client(&root);
	for (uint32_t u = 0; u < 4; u++)
		close_clients(c[u]);
}

static void root_leaves_some_to_the_users(void **state)
{
	struct world *w = *state;
	struct client c[CLIENTS], user[CLIENTS];

	open_clients(w, c, 0);
	assert_int_equal(take_ids(c, CLIENTS), 49152);
	open_clients(w, user, USER);
	assert_int_equal(take_ids(user, CLIENTS), 16384);
	close_clients(user);
	close_clients(c);
}

static void a_user_takes_a_part_of_the_ports_and_may_so_often_listen(void **state)
{
	struct world *w = *state;
	struct client c[CLIENTS], other;
	uint32_t ports = 0, listeners = 0, id;
	int rc = 1;

	open_clients(w, c, USER);
	for (uint32_t i = 0; i < CLIENTS && rc > 0; i++)
		while (try_create(&c[i], TCP, &id) == 0 && (rc = bind_to(&c[i], id, NULL, 0)) > 0) {
			ports++;
			if (ASK(&c[i], BROKER_CM_LISTEN, listen, .id = id) == 0)
				listeners++;
		}
	assert_int_equal(rc, -EMFILE);
	assert_int_equal(ports, 12288);
	assert_int_equal(listeners, 4096);
	w->uid = USER + 1;
	open_client(&other, &w->host[0]);
	assert_true(bind_to(&other, create(&other, TCP), NULL, 0) > 0);
	close_client(&other);
	close_clients(c);
}

static void a_user_takes_a_part_of_the_channels(void **state)
{
	struct world *w = *state;
	struct client c[CLIENTS], other;
	int *fd = calloc(16384, sizeof(*fd)), n = 0, rc = 0;
	long most = sysconf(_SC_OPEN_MAX);
	uint32_t nr;

	/* Of the descriptors that can be, and both ends are ours. */
	if (most < 12000)
		SKIP_CASE("fewer than 12,000 descriptors allowed");
	open_clients(w, c, USER);
	for (uint32_t i = 0; i < CLIENTS; i++)
		while ((rc = cm_client_channel(c[i].c, &nr, &fd[n])) == 0)
			n++;
	assert_int_equal(rc, -EMFILE);
	assert_in_range(n, 1024, 4096);
	w->uid = USER + 1;
	open_client(&other, &w->host[0]);
	assert_int_equal(cm_client_channel(other.c, &nr, &fd[n]), 0);
	while (n >= 0)
		close(fd[n--]);
	close_client(&other);
	close_clients(c);
	free(fd);
}

/* Of him who reads nothing, by way of however many clients. */
static void a_users_unread_events_are_bounded(void **state)
{
	struct broker_cm_post post = {.type = BROKER_CM_EV_ROUTE_RESOLVED};
	struct world *w = *state;
	struct client c[CLIENTS];
	uint32_t n = 0;

	open_clients(w, c, USER);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		post.id = create(&c[i], TCP);
		for (int rc = 0; rc == 0; n += rc == 0) {
			post.msg.type = BROKER_CM_POST;
			rc = ask(&c[i], &post, sizeof(post));
			assert_true(rc == 0 || rc == -ENOBUFS);
		}
	}
	assert_in_range(n, 65536, 65536 + CLIENTS * 64);
	close_clients(c);
}

/* Meanwhile the broker serves nobody else. */
static void a_client_that_had_all_it_may_is_gone_in_a_moment(void **state)
{
	struct world *w = *state;
	int *fd = calloc(16384, sizeof(*fd)), n = 0;
	struct client c;
	uint64_t begun;
	uint32_t nr;

	w->uid = USER;
	open_client(&c, &w->host[0]);
	assert_int_equal(take_ids(&c, 1), 16384);
	while (cm_client_channel(c.c, &nr, &fd[n]) == 0)
		n++;
	begun = time_now_ns();
	cm_client_destroy(c.c, w->now);
	assert_in_range(time_now_ns() - begun, 0, 3 * SEC);
	close(c.fd);
	while (n)
		close(fd[--n]);
	free(fd);
}

/* An interface that goes up and down, and a client that is stopped. */
static void a_watcher_that_does_not_read_is_not_told_for_ever(void **state)
{
	struct world *w = *state;
	struct broker_cm_event ev;
	struct client c;
	uint32_t n = 0;

	open_client(&c, &w->host[0]);
	assert_int_equal(on_id(&c, BROKER_CM_WATCH, c.channel), 0);
	for (int i = 0; i < 100000; i++)
		cm_service_device_changed(c.host->svc, 1, BROKER_DEVICE_PORT_ERR, w->now);
	while (read(c.fd, &ev, sizeof(ev)) == sizeof(ev)) {
		n++;
		pass(w, 1000000);
	}
	assert_in_range(n, 1024, 1024 + 64);
	close_client(&c);
}

static uint32_t resolve(struct client *c)
{
	uint32_t id = create(c, TCP);

	assert_int_equal(ASK(c, BROKER_CM_POST, post, .id = id, .type = BROKER_CM_EV_ADDR_RESOLVED,
			     .src = c->host->v4, .dst = c->host->w->host[1].v4,
			     .timeout_ms = 60000),
			 0);
	return id;
}

/* Each is looked after twenty times a second. */
static void a_user_resolves_so_many_addresses_at_a_time(void **state)
{
	struct world *w = *state;
	struct client c, other;
	uint32_t id = 0;

	w->host[0].neighbour = -EAGAIN;
	w->uid = USER;
	open_client(&c, &w->host[0]);
	for (int i = 0; i < 256; i++)
		id = resolve(&c);
	no_event(&c);
	resolve(&c);
	assert_int_equal(event(&c, BROKER_CM_EV_ADDR_RESOLVED).status, -EMFILE);
	w->uid = USER + 1;
	open_client(&other, &w->host[0]);
	resolve(&other);
	no_event(&other);
	assert_int_equal(on_id(&c, BROKER_CM_DESTROY_ID, id), 0);
	resolve(&c);
	no_event(&c);
	w->host[0].neighbour = 0;
	pass(w, SEC);
	event(&other, BROKER_CM_EV_ADDR_RESOLVED);
	close_client(&other);
	close_client(&c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(a_users_clients_together_take_a_part_of_the_identifiers),
		T(all_users_together_leave_some_to_root),
		T(root_leaves_some_to_the_users),
		T(a_user_takes_a_part_of_the_ports_and_may_so_often_listen),
		T(a_user_takes_a_part_of_the_channels),
		T(a_users_unread_events_are_bounded),
		T(a_client_that_had_all_it_may_is_gone_in_a_moment),
		T(a_user_resolves_so_many_addresses_at_a_time),
		T(a_watcher_that_does_not_read_is_not_told_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
