/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The CM service when there is no memory: whichever allocation fails, what was asked for fails, or
 * is as if lost on the wire; nothing is left of it, and others go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm_rc.h"

static unsigned long fail_at; /* 0: none */
static bool failed;

static bool fails(void)
{
	if (!fail_at || --fail_at)
		return false;
	failed = true;
	return true;
}

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

/* ---- one who tries ----------------------------------------------------------------------------
 */

struct
try {
	struct client c;
	uint32_t id;
};

static bool begin_trying(struct try *t, struct host *h)
{
	*t = (struct try){.c = {.host = h, .fd = -1}};
	if (cm_client_create(h->svc, 0, &t->c.c) < 0)
		return false;
	if (cm_client_channel(t->c.c, &t->c.channel, &t->c.fd) == 0)
		assert_int_equal(fcntl(t->c.fd, F_SETFL, O_NONBLOCK), 0);
	return true;
}

static void end_trying(struct try *t)
{
	cm_client_destroy(t->c.c, t->c.host->w->now);
	if (t->c.fd >= 0)
		close(t->c.fd);
}

/* Does what is to be done next for every event that there is. */
static void follow(struct try *t)
{
	struct broker_cm_event ev;

	carry(t->c.host->w);
	while (t->c.fd >= 0 && read(t->c.fd, &ev, sizeof(ev)) == sizeof(ev)) {
		if (ev.type == BROKER_CM_EV_CONNECT_REQUEST) {
			(void)accept_it(&t->c, ev.id);
			t->id = ev.id;
		} else if (ev.type == BROKER_CM_EV_CONNECT_RESPONSE) {
			(void)on_id(&t->c, BROKER_CM_ESTABLISH, ev.id);
		} else if (ev.type == BROKER_CM_EV_DISCONNECTED) {
			(void)on_id(&t->c, BROKER_CM_DISCONNECT, ev.id);
		}
	}
	carry(t->c.host->w);
}

/* A connection from its beginning to its end, as far as it goes. */
static void connect_and_leave(struct world *w)
{
	struct try server, user;
	bool serves = begin_trying(&server, &w->host[0]), uses = begin_trying(&user, &w->host[1]);
	uint32_t id;

	if (serves && try_create(&server.c, TCP, &id) == 0 &&
	    bind_to(&server.c, id, NULL, PORT) == PORT)
		(void)ASK(&server.c, BROKER_CM_LISTEN, listen, .id = id);
	if (uses && try_create(&user.c, TCP, &user.id) == 0) {
		(void)ASK(&user.c, BROKER_CM_POST, post, .id = user.id,
			  .type = BROKER_CM_EV_ROUTE_RESOLVED);
		(void)connect_to(&user.c, user.id, &w->host[1].v4, &w->host[0].v4, PORT);
	}
	for (int i = 0; i < 3; i++) {
		if (serves)
			follow(&server);
		if (uses)
			follow(&user);
		pass(w, 5 * SEC);
	}
	if (uses)
		(void)on_id(&user.c, BROKER_CM_DISCONNECT, user.id);
	carry(w);
	if (serves)
		end_trying(&server);
	if (uses)
		end_trying(&user);
}

static void whichever_allocation_fails_nothing_is_left_and_others_go_on(void **state)
{
	struct world *w = *state;
	unsigned long n = 0;

	do {
		struct pair p;

		/* No MAD that was sent before is there to be used again. */
		assert_int_equal(world_teardown(state), 0);
		assert_int_equal(world_setup(state), 0);
		w = *state;
		failed = false;
		fail_at = ++n;
		connect_and_leave(w);
		fail_at = 0;
		begin(&p, w, TCP, PORT);
		establish(&p);
		end(&p);
	} while (failed);
	assert_in_range(n, 10, 1000);
}

static void a_service_without_memory_is_none_and_nothing_is_left(void **state)
{
	enum { ALLOCATIONS = 4 }; /* two tables of ids, and what they are in */
	static const struct cm_service_ops none;
	struct cm_service *svc;
	int rc;

	(void)state;
	for (unsigned long n = 1; n <= ALLOCATIONS; n++) {
		failed = false;
		fail_at = n;
		rc = cm_service_create(&svc, &none, NULL);
		fail_at = 0;
		assert_true(failed);
		assert_int_equal(rc, -ENOMEM);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(whichever_allocation_fails_nothing_is_left_and_others_go_on),
		T(a_service_without_memory_is_none_and_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
