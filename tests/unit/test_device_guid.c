/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "broker/device_guid.h"

static const uint8_t mac[6] = {0x52, 0x54, 0x00, 0x4c, 0x01, 0x02};
static const struct device_guid_key key = {.boot_id = "7c9b1c0e-0000-4000-8000-0123456789ab",
					   .netns = 4026531840};

static void a_guid_is_the_same_for_every_broker_of_a_boot(void **state)
{
	struct device_guid_key a, b;

	(void)state;
	device_guid_key_read(&a);
	device_guid_key_read(&b);
	assert_int_equal(strlen(a.boot_id), 36);
	assert_int_not_equal(a.netns, 0);
	assert_int_equal(device_guid(&a, "eth0", mac), device_guid(&b, "eth0", mac));
}

static void a_guid_is_anothers_on_another_boot_namespace_name_or_mac(void **state)
{
	uint64_t guid = device_guid(&key, "eth0", mac);
	struct device_guid_key other = key;
	uint8_t other_mac[6];

	(void)state;
	other.boot_id[35] ^= 1;
	assert_int_not_equal(device_guid(&other, "eth0", mac), guid);
	other = key;
	other.netns++;
	assert_int_not_equal(device_guid(&other, "eth0", mac), guid);
	assert_int_not_equal(device_guid(&key, "eth1", mac), guid);
	memcpy(other_mac, mac, 6);
	other_mac[5] ^= 1;
	assert_int_not_equal(device_guid(&key, "eth0", other_mac), guid);
}

static void a_guid_is_locally_administered_and_does_not_show_the_mac(void **state)
{
	(void)state;
	for (uint8_t i = 0; i < 255; i++) {
		uint8_t m[6] = {0x52, 0x54, 0, 1, 2, i};
		uint64_t v = device_guid(&key, "eth0", m);
		uint8_t guid[8];

		memcpy(guid, &v, sizeof(guid));
		assert_int_equal(guid[0] & 3, 2);
		assert_int_not_equal(memcmp(guid + 5, m + 3, 3), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_guid_is_the_same_for_every_broker_of_a_boot),
		cmocka_unit_test(a_guid_is_anothers_on_another_boot_namespace_name_or_mac),
		cmocka_unit_test(a_guid_is_locally_administered_and_does_not_show_the_mac),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
