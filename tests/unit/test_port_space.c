/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "broker/port_space.h"

static const struct gid a4 = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};
static const struct gid b4 = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}};
static const struct gid a6 = {{0xfd, [15] = 1}};
static const struct gid any;

static struct port_space ps;

static int begin(void **state)
{
	(void)state;
	port_space_init(&ps);
	return 0;
}

static struct port_bind want(const struct gid *addr, uint8_t families, uint16_t port, bool reuse)
{
	return (struct port_bind){.addr = *addr,
				  .families = families,
				  .port = port,
				  .reuse = reuse,
				  .af_only = families == PORT_IPV4};
}

static void a_port_is_held_once_per_address(void **state)
{
	struct port_bind x = want(&a4, PORT_IPV4, 4420, false), y = x;
	struct port_bind z = want(&b4, PORT_IPV4, 4420, false);
	struct port_bind v6 = want(&a6, PORT_IPV6, 4420, false);

	(void)state;
	assert_int_equal(port_space_bind(&ps, &x, 0), 0);
	assert_int_equal(port_space_bind(&ps, &y, 0), -EADDRINUSE);
	assert_int_equal(port_space_bind(&ps, &z, 0), 0);
	assert_int_equal(port_space_bind(&ps, &v6, 0), 0);
	port_space_release(&x);
	assert_int_equal(port_space_bind(&ps, &y, 0), 0);
}

static void a_wildcard_conflicts_with_every_address_unless_both_are_of_one_family(void **state)
{
	struct port_bind x = want(&a4, PORT_IPV4, 4420, false);
	struct port_bind both = want(&any, PORT_IPV4 | PORT_IPV6, 4420, false);
	struct port_bind only6 = want(&any, PORT_IPV6, 4420, false);
	struct port_bind only4 = want(&any, PORT_IPV4, 4420, false);
	struct port_bind elsewhere = want(&any, PORT_IPV4 | PORT_IPV6, 4420 + 1024, false);

	(void)state;
	assert_int_equal(port_space_bind(&ps, &x, 0), 0);
	assert_int_equal(port_space_bind(&ps, &both, 0), -EADDRNOTAVAIL);
	assert_int_equal(port_space_bind(&ps, &only4, 0), -EADDRNOTAVAIL);
	assert_int_equal(port_space_bind(&ps, &only6, 0), -EADDRNOTAVAIL);
	only6.af_only = true;
	assert_int_equal(port_space_bind(&ps, &only6, 0), 0);
	assert_int_equal(port_space_bind(&ps, &elsewhere, 0), 0); /* the same bucket */
}

static void with_reuse_many_may_bind_but_who_listens_is_alone(void **state)
{
	struct port_bind x = want(&a4, PORT_IPV4, 4420, true), y = x, z = x;
	struct port_bind no = want(&a4, PORT_IPV4, 4420, false);

	(void)state;
	assert_int_equal(port_space_bind(&ps, &x, 0), 0);
	assert_int_equal(port_space_bind(&ps, &y, 0), 0);
	assert_int_equal(port_space_bind(&ps, &no, 0), -EADDRINUSE);
	assert_int_equal(port_space_listen(&ps, &x), -EADDRINUSE);
	port_space_release(&x);
	assert_int_equal(port_space_listen(&ps, &y), 0);
	assert_int_equal(port_space_bind(&ps, &z, 0), -EADDRINUSE);
}

static void port_0_takes_a_free_ephemeral_port(void **state)
{
	enum { N = PORT_EPHEMERAL_LAST - PORT_EPHEMERAL_FIRST + 1 };
	struct port_bind *all = calloc(N, sizeof(*all)), one;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		all[i] = want(&a4, PORT_IPV4, 0, false);
		/* From anywhere: whoever is taken is passed over. */
		assert_int_equal(port_space_bind(&ps, &all[i], i * 2), 0);
		assert_in_range(all[i].port, PORT_EPHEMERAL_FIRST, PORT_EPHEMERAL_LAST);
	}
	one = want(&b4, PORT_IPV4, 0, false);
	assert_int_equal(port_space_bind(&ps, &one, 7), -EADDRNOTAVAIL);
	port_space_release(&all[100]);
	one.port = 0;
	assert_int_equal(port_space_bind(&ps, &one, 7), 0);
	assert_int_equal(one.port, all[100].port);
	free(all);
}

static void a_bind_covers_its_address_or_its_family(void **state)
{
	struct port_bind x = want(&a4, PORT_IPV4, 1, false);
	struct port_bind both = want(&any, PORT_IPV4 | PORT_IPV6, 1, false);
	struct port_bind only6 = want(&any, PORT_IPV6, 1, false);

	(void)state;
	assert_true(port_bind_covers(&x, &a4, 0));
	assert_false(port_bind_covers(&x, &b4, 0));
	assert_false(port_bind_covers(&x, &a6, 0));
	assert_true(port_bind_covers(&both, &a4, 0) && port_bind_covers(&both, &a6, 0));
	assert_true(!port_bind_covers(&only6, &a4, 0) && port_bind_covers(&only6, &a6, 0));
}

static void who_listens_is_found_by_its_port(void **state)
{
	struct port_bind x = want(&a4, PORT_IPV4, 7, false), y = want(&any, PORT_IPV6, 7, false);
	(void)state;
	y.af_only = x.af_only = true;
	assert_int_equal(port_space_bind(&ps, &x, 0), 0);
	assert_int_equal(port_space_bind(&ps, &y, 0), 0);
	assert_null(port_space_listener(&ps, &a4, 7)); /* it is bound, and no more */
	assert_int_equal(port_space_listen(&ps, &x), 0);
	assert_int_equal(port_space_listen(&ps, &y), 0);
	assert_ptr_equal(port_space_listener(&ps, &a4, 7), &x);
	assert_null(port_space_listener(&ps, &b4, 7));
	assert_null(port_space_listener(&ps, &a4, 7 + PORT_SPACE_BUCKETS));
	assert_ptr_equal(port_space_listener(&ps, &(struct gid){{0xfd, [15] = 1}}, 7), &y);
	port_space_release(&x);
	assert_null(port_space_listener(&ps, &a4, 7));
}

static void a_link_local_address_is_one_per_interface(void **state)
{
	static const struct gid local = {{0xfe, 0x80, [15] = 1}};
	struct port_bind x = want(&local, PORT_IPV6, 1, false), y = x, wide = x;

	(void)state;
	x.scope = 2;
	y.scope = 3;
	assert_int_equal(port_space_bind(&ps, &x, 0), 0);
	assert_int_equal(port_space_bind(&ps, &y, 0), 0);
	assert_int_equal(port_space_bind(&ps, &wide, 0), -EADDRINUSE);
	assert_true(port_bind_covers(&x, &local, 2));
	assert_false(port_bind_covers(&x, &local, 3));
	assert_true(port_bind_covers(&wide, &local, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_port_is_held_once_per_address, begin),
		cmocka_unit_test_setup(
			a_wildcard_conflicts_with_every_address_unless_both_are_of_one_family,
			begin),
		cmocka_unit_test_setup(with_reuse_many_may_bind_but_who_listens_is_alone, begin),
		cmocka_unit_test_setup(port_0_takes_a_free_ephemeral_port, begin),
		cmocka_unit_test_setup(a_bind_covers_its_address_or_its_family, begin),
		cmocka_unit_test_setup(who_listens_is_found_by_its_port, begin),
		cmocka_unit_test_setup(a_link_local_address_is_one_per_interface, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
