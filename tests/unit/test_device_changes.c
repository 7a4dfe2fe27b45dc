/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "broker/device_changes.h"

enum { ETH = 2, OTHER = 3 };

static const struct gid a = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};
static const struct gid b = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}};

static struct broker_devices old, fresh;
static struct device_notices notices;
static char told[2048];

static int begin(void **state)
{
	(void)state;
	old = (struct broker_devices){
		.count = 2,
		.dev = {{.ifindex = ETH, .up = 1, .gids[0] = {a, BROKER_GID_ROCE_V2}},
			{.ifindex = OTHER, .up = 1}},
	};
	fresh = old;
	notices.count = 0;
	return 0;
}

static void changed(void *ctx, uint32_t ifindex, enum broker_device_change change)
{
	static const char *const names[] = {
		[BROKER_DEVICE_PORT_ERR] = "err",    [BROKER_DEVICE_PORT_ACTIVE] = "active",
		[BROKER_DEVICE_GID_CHANGE] = "gid",  [BROKER_DEVICE_MAC_CHANGE] = "mac",
		[BROKER_DEVICE_REMOVED] = "removed",
	};
	size_t len = strlen(told);

	(void)ctx;
	snprintf(told + len, sizeof(told) - len, "%s%u %s", len ? ", " : "", ifindex,
		 names[change]);
}

static const char *tell(void)
{
	told[0] = 0;
	device_changes_tell(&old, &fresh, &notices, &(struct device_watcher){changed, NULL});
	return told;
}

static void notice(uint32_t ifindex, int what, const struct gid *gid)
{
	struct device_notice *n = device_notice_add(&notices);

	if (n) {
		n->ifindex = ifindex;
		n->what = what;
		n->gid = gid ? *gid : (struct gid){0};
	}
}

static void what_is_as_it_was_is_not_told(void **state)
{
	(void)state;
	assert_string_equal(tell(), "");
	fresh.dev[0].mtu = 9000; /* whoever wants to know asks */
	notice(ETH, NOTICE_UP, NULL);
	notice(ETH, NOTICE_NO_ADDRESS, &b); /* which it never had */
	assert_string_equal(tell(), "");
}

static void each_device_is_told_of_its_own_changes(void **state)
{
	(void)state;
	fresh.dev[0].up = 0;
	fresh.dev[0].gids[1] = (struct broker_gid){b, BROKER_GID_ROCE_V2};
	fresh.dev[1].mac[5] = 1;
	assert_string_equal(tell(), "2 err, 2 gid, 3 mac");
	fresh.count = 1;
	fresh.dev[0] = old.dev[1];
	assert_string_equal(tell(), "2 removed");
}

static void what_happened_between_two_readings_is_told_in_order(void **state)
{
	(void)state;
	notice(OTHER, NOTICE_DOWN, NULL);
	notice(ETH, NOTICE_DOWN, NULL);
	notice(ETH, NOTICE_DOWN, NULL); /* the same again, of something else */
	notice(ETH, NOTICE_UP, NULL);
	notice(ETH, NOTICE_DOWN, NULL);
	fresh.dev[0].up = 0;
	assert_string_equal(tell(), "2 err, 2 active, 2 err, 3 err, 3 active");
}

static void an_address_that_went_and_came_back_is_a_change(void **state)
{
	(void)state;
	notice(ETH, NOTICE_NO_ADDRESS, &a);
	assert_string_equal(tell(), "2 gid");
}

static void beyond_the_room_for_notices_the_readings_tell(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++)
		notice(ETH, i % 2 ? NOTICE_UP : NOTICE_DOWN, NULL);
	assert_int_equal(notices.count, DEVICE_NOTICES);
	fresh.dev[0].up = 0;
	tell();
	assert_string_equal(told + strlen(told) - strlen("2 active, 2 err"), "2 active, 2 err");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_is_as_it_was_is_not_told, begin),
		cmocka_unit_test_setup(each_device_is_told_of_its_own_changes, begin),
		cmocka_unit_test_setup(what_happened_between_two_readings_is_told_in_order, begin),
		cmocka_unit_test_setup(an_address_that_went_and_came_back_is_a_change, begin),
		cmocka_unit_test_setup(beyond_the_room_for_notices_the_readings_tell, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
