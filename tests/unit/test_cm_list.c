/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the CM service tells of its ids, to whom, and how much at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cm_rc.h"

enum { USER = 60000, IDS = 49152 };

static size_t messages; /* of the last listing */

/* All that this user is told. */
static size_t list(struct host *h, uint32_t uid, struct broker_list_id *ret, size_t room)
{
	struct broker_list_id v[BROKER_LIST_MAX];
	uint64_t from = 0;
	size_t n = 0;

	messages = 0;

	do {
		uint64_t before = from;
		uint32_t got = cm_service_list(h->svc, uid, &from, v, BROKER_LIST_MAX);

		assert_true(got <= BROKER_LIST_MAX);
		assert_true(!from || (from > before && from <= before + BROKER_LIST_LOOK_AT));
		assert_true(n + got <= room);
		for (uint32_t i = 0; i < got; i++)
			ret[n++] = v[i];
		assert_true(++messages < 2048);
	} while (from);
	return n;
}

/* The only one of this client, which is in this state. */
static struct broker_list_id only(struct client *c, enum broker_list_state state)
{
	struct broker_list_id v[8], ret = {0};
	size_t n = list(c->host, 0, v, ARRAY_SIZE(v)), found = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].client == cm_client_nr(c->c) && v[i].state == state) {
			ret = v[i];
			found++;
		}
	assert_int_equal(found, 1);
	return ret;
}

static void an_id_is_told_as_it_stands(void **state)
{
	struct world *w = *state;
	struct gid *a = &w->host[1].v4, *b = &w->host[0].v4;
	static const struct gid none;
	struct broker_list_id t;
	struct pair p;

	begin(&p, w, TCP, PORT);
	t = only(&p.server, BROKER_LIST_LISTEN);
	assert_int_equal(t.id, p.listen);
	assert_int_equal(t.local_port, PORT);
	assert_true(gid_equal(&t.local, &none) && gid_equal(&t.remote, &none));
	assert_int_equal(t.families, BROKER_LIST_IPV4 | BROKER_LIST_IPV6);
	assert_int_equal(t.ps, CM_PS_TCP);
	only(&p.user, BROKER_LIST_IDLE);

	assert_true(bind_to(&p.user, p.active, a, 0) > 0);
	t = only(&p.user, BROKER_LIST_BOUND);
	assert_true(gid_equal(&t.local, a));
	assert_int_equal(connect_to(&p.user, p.active, a, b, PORT), 0);
	t = only(&p.user, BROKER_LIST_CONNECTING);
	assert_true(gid_equal(&t.remote, b));
	assert_int_equal(t.remote_port, PORT);
	carry(w);
	only(&p.server, BROKER_LIST_REQUESTED);
	p.passive = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST).id;
	assert_int_equal(accept_it(&p.server, p.passive), 0);
	only(&p.server, BROKER_LIST_ACCEPTED);
	event(&p.user, BROKER_CM_EV_CONNECT_RESPONSE);
	assert_int_equal(on_id(&p.user, BROKER_CM_ESTABLISH, p.active), 0);
	event(&p.server, BROKER_CM_EV_ESTABLISHED);

	t = only(&p.server, BROKER_LIST_ESTABLISHED);
	assert_true(gid_equal(&t.local, b) && gid_equal(&t.remote, a));
	assert_int_equal(t.local_port, PORT);
	assert_int_equal(t.remote_port, only(&p.user, BROKER_LIST_ESTABLISHED).local_port);
	assert_int_equal(t.qpn, only(&p.user, BROKER_LIST_ESTABLISHED).remote_qpn);
	assert_int_equal(t.remote_qpn, only(&p.user, BROKER_LIST_ESTABLISHED).qpn);
	assert_int_not_equal(t.qpn, t.remote_qpn);
	assert_int_equal(t.ifindex, w->host[0].nr);

	assert_int_equal(on_id(&p.user, BROKER_CM_DISCONNECT, p.active), 0);
	only(&p.user, BROKER_LIST_DISCONNECTING);
	event(&p.server, BROKER_CM_EV_DISCONNECTED);
	assert_int_equal(on_id(&p.server, BROKER_CM_DISCONNECT, p.passive), 0);
	only(&p.server, BROKER_LIST_TIMEWAIT);
	pass(w, 5 * SEC);
	only(&p.server, BROKER_LIST_CLOSED);
	only(&p.user, BROKER_LIST_CLOSED);
	cm_service_device_changed(w->host[0].svc, w->host[0].nr, BROKER_DEVICE_REMOVED, w->now);
	only(&p.server, BROKER_LIST_REMOVED);
	assert_int_equal(on_id(&p.user, BROKER_CM_DESTROY_ID, p.active), 0);
	assert_int_equal(list(&w->host[1], 0, &t, 1), 0);
	end(&p);
}

static void datagrams_are_not_connected(void **state)
{
	struct world *w = *state;
	struct broker_cm_connect r = {.msg.type = BROKER_CM_CONNECT};
	struct broker_list_id t;
	struct pair p;

	begin(&p, w, UDP, PORT);
	r.id = p.active;
	r.param = (struct broker_cm_param){
		.src = w->host[1].v6, .dst = w->host[0].v6, .dst_port = PORT};
	assert_int_equal(ask(&p.user, &r, sizeof(r)), 0);
	only(&p.user, BROKER_LIST_CONNECTING);
	r = (struct broker_cm_connect){
		.msg.type = BROKER_CM_ACCEPT,
		.id = event(&p.server, BROKER_CM_EV_CONNECT_REQUEST).id,
		.param.qpn = 0x020022,
	};
	only(&p.server, BROKER_LIST_REQUESTED);
	assert_int_equal(ask(&p.server, &r, sizeof(r)), 0);
	event(&p.user, BROKER_CM_EV_ESTABLISHED);
	t = only(&p.user, BROKER_LIST_UNCONNECTED);
	assert_true(gid_equal(&t.remote, &w->host[0].v6));
	assert_true(t.datagrams);
	only(&p.server, BROKER_LIST_UNCONNECTED);
	pass(w, 100 * SEC);
	only(&p.server, BROKER_LIST_UNCONNECTED);
	end(&p);
}

static void a_user_is_told_of_its_own_and_root_of_all(void **state)
{
	struct world *w = *state;
	struct client of[3];
	struct broker_list_id t[4];

	for (uint32_t i = 0; i < 3; i++) {
		w->uid = i ? USER + i : 0;
		open_client(&of[i], &w->host[0]);
		create(&of[i], TCP);
	}
	assert_int_equal(list(&w->host[0], 0, t, 4), 3);
	for (uint32_t i = 1; i < 3; i++) {
		assert_int_equal(list(&w->host[0], USER + i, t, 4), 1);
		assert_int_equal(t[0].client, cm_client_nr(of[i].c));
	}
	assert_int_equal(list(&w->host[0], USER, t, 4), 0);
	for (uint32_t i = 0; i < 3; i++)
		close_client(&of[i]);
}

/* Each once, in messages of which each has a bound, for somebody who has none of them as well. */
static void very_many_are_told_piece_by_piece(void **state)
{
	struct world *w = *state;
	struct broker_list_id *t = calloc(IDS + 1, sizeof(*t)), one;
	struct client c[4], other;
	uint32_t id, n = 0;
	bool *seen = calloc(1u << 16, sizeof(*seen));

	w->uid = 0;
	for (uint32_t i = 0; i < 4; i++) {
		open_client(&c[i], &w->host[0]);
		while (n < IDS && try_create(&c[i], TCP, &id) == 0)
			n++;
	}
	assert_int_equal(n, IDS);
	w->uid = USER;
	open_client(&other, &w->host[0]);
	id = create(&other, TCP);
	assert_int_equal(list(&w->host[0], 0, t, IDS + 1), IDS + 1);
	for (size_t i = 0; i < IDS + 1; i++) {
		assert_false(seen[t[i].id >> 16]);
		seen[t[i].id >> 16] = true;
	}
	assert_int_equal(list(&w->host[0], USER, &one, 1), 1);
	assert_int_equal(one.id, id);
	assert_int_equal(list(&w->host[0], USER + 1, &one, 1), 0);
	/* To find nothing takes its time, too. */
	assert_true(messages >= IDS / BROKER_LIST_LOOK_AT);
	close_client(&other);
	for (uint32_t i = 0; i < 4; i++)
		close_client(&c[i]);
	free(seen);
	free(t);
}

static void who_begins_where_nothing_is_gets_nothing(void **state)
{
	struct world *w = *state;
	const uint64_t where[] = {1, 65535, 65536, 1ull << 32, UINT64_MAX};
	struct broker_list_id v[BROKER_LIST_MAX];
	struct client c;

	open_client(&c, &w->host[0]);
	create(&c, TCP);
	for (size_t i = 0; i < ARRAY_SIZE(where); i++) {
		uint64_t from = where[i];

		assert_int_equal(cm_service_list(w->host[0].svc, 0, &from, v, BROKER_LIST_MAX), 0);
		assert_int_equal(from, 0);
	}
	close_client(&c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(an_id_is_told_as_it_stands),
		T(datagrams_are_not_connected),
		T(a_user_is_told_of_its_own_and_root_of_all),
		T(very_many_are_told_piece_by_piece),
		T(who_begins_where_nothing_is_gets_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
