/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nvmf/lib/uri.h"

static void good(const char *text, struct nvme_uri *u)
{
	const char *why = NULL;

	if (nvme_uri_parse(text, u, &why))
		fail_msg("%s: %s", text, why);
}

static void bad(const char *text, const char *expect)
{
	struct nvme_uri u = {.nsid = 77};
	const char *why = "";

	assert_int_equal(nvme_uri_parse(text, &u, &why), -EINVAL);
	if (!strstr(why, expect))
		fail_msg("%s: said '%s', which lacks '%s'", text, why, expect);
	assert_int_equal(u.nsid, 77); /* untouched */
}

static void a_full_uri_gives_every_part(void **state)
{
	struct nvme_uri u;

	(void)state;
	good("nvme+rdma://10.0.0.1:4421/nqn.2024-01.io.weft:disk?ns=3"
	     "&hostnqn=nqn.2014-08.org.nvmexpress:uuid:1&hostid=00112233-4455-6677-8899-"
	     "aabbccddeeff&transport=iwarp",
	     &u);
	assert_string_equal(u.transport, "rdma");
	assert_string_equal(u.host, "10.0.0.1");
	assert_string_equal(u.port, "4421");
	assert_string_equal(u.nqn, "nqn.2024-01.io.weft:disk");
	assert_int_equal(u.nsid, 3);
	assert_string_equal(u.hostnqn, "nqn.2014-08.org.nvmexpress:uuid:1");
	assert_string_equal(u.hostid, "00112233-4455-6677-8899-aabbccddeeff");
	assert_string_equal(u.rdma_transport, "iwarp");
}

static void a_host_alone_is_enough(void **state)
{
	struct nvme_uri u;

	(void)state;
	good("nvme+tcp://[fd77::2]:8009", &u);
	assert_string_equal(u.transport, "tcp");
	assert_string_equal(u.port, "8009");
	good("nvme+rdma://storage.example", &u);
	assert_string_equal(u.host, "storage.example");
	assert_string_equal(u.port, "");
	assert_string_equal(u.nqn, "");
	assert_int_equal(u.nsid, 0);
	good("nvme+rdma://storage.example/", &u);
	assert_string_equal(u.nqn, "");
	good("nvme+rdma://h?ns=0x10", &u);
	assert_int_equal(u.nsid, 16);
}

static void ipv6_stands_in_brackets(void **state)
{
	struct nvme_uri u;
	char text[512];

	(void)state;
	good("nvme+rdma://[fd77::2]:4420/nqn.a", &u);
	assert_string_equal(u.host, "fd77::2");
	assert_string_equal(u.port, "4420");
	good("nvme+rdma://[fe80::1%eth0]/nqn.a", &u);
	assert_string_equal(u.host, "fe80::1%eth0");
	good("nvme+rdma://[fe80::1%25eth0]/nqn.a", &u);
	assert_string_equal(u.host, "fe80::1%eth0");
	assert_int_equal(nvme_uri_format(&u, text, sizeof(text)), 0);
	assert_string_equal(text, "nvme+rdma://[fe80::1%25eth0]/nqn.a");
	bad("nvme+rdma://[fe80::1%a%b]/nqn.a", "letters");
	bad("nvme+rdma://h%3fns=1/nqn.a", "letters");
	bad("nvme+rdma://fd77::2/nqn.a", "brackets");
	bad("nvme+rdma://[fd77::2/nqn.a", "closing bracket");
	bad("nvme+rdma://[fd77::2]4420/nqn.a", "after the host");
}

/* Encoded, its percent sign is two characters longer. */
static void the_longest_zone_comes_back(void **state)
{
	struct nvme_uri u, again;
	char in[512], text[512];

	(void)state;
	snprintf(in, sizeof(in), "nvme+rdma://[fe80::1%%%0*d]/nqn.a", (int)sizeof(u.host) - 9, 1);
	good(in, &u);
	assert_int_equal(strlen(u.host), sizeof(u.host) - 1);
	assert_int_equal(nvme_uri_format(&u, text, sizeof(text)), 0);
	good(text, &again);
	assert_string_equal(again.host, u.host);
	snprintf(in, sizeof(in), "nvme+rdma://[fe80::1%%%0*d]/nqn.a", (int)sizeof(u.host) - 8, 1);
	bad(in, "too long");
}

static void an_nqn_may_hold_slashes_and_percent_codes(void **state)
{
	struct nvme_uri u;

	(void)state;
	good("nvme+rdma://h/nqn.2024-01.org%3Aa/b%3fc?ns=1", &u);
	assert_string_equal(u.nqn, "nqn.2024-01.org:a/b?c");
	bad("nvme+rdma://h/nqn.a%0", "percent");
	bad("nvme+rdma://h/nqn.a%zz", "percent");
	bad("nvme+rdma://h/nqn.a%00b", "percent");
}

static void what_is_wrong_is_said(void **state)
{
	char text[400];

	(void)state;
	bad("http://h/nqn.a", "nvme+rdma://");
	bad("nvme+rdma:h/nqn.a", "nvme+rdma://");
	bad("nvme+quic://h/nqn.a", "transport");
	bad("nvme+://h/nqn.a", "transport");
	bad("nvme+rdma:///nqn.a", "no host");
	bad("nvme+rdma://h:0/nqn.a", "port");
	bad("nvme+rdma://h:65536/nqn.a", "port");
	bad("nvme+rdma://h:/nqn.a", "port");
	bad("nvme+rdma://h:44200000/nqn.a", "port");
	bad("nvme+rdma://h/disk", "nqn.");
	bad("nvme+rdma://h/nqn.a?ns=0", "ns=");
	bad("nvme+rdma://h/nqn.a?ns=-1", "ns=");
	bad("nvme+rdma://h/nqn.a?ns=0xffffffff", "ns=");
	bad("nvme+rdma://h/nqn.a?ns", "ns=");
	bad("nvme+rdma://h/nqn.a?hostid=12", "UUID");
	bad("nvme+rdma://h/nqn.a?hostnqn=me", "NQN");
	bad("nvme+rdma://h/nqn.a?ns=1&ns=2", "twice");
	bad("nvme+rdma://h/nqn.a?hostnqn=nqn.x&hostnqn=nqn.y", "twice");
	bad("nvme+rdma://h/nqn.a?hostid=00112233445566778899aabbccddeeff"
	    "&hostid=00112233445566778899aabbccddeeff",
	    "twice");
	bad("nvme+rdma://h/nqn.a?transport=tcp", "roce or iwarp");
	bad("nvme+rdma://h/nqn.a?transport=", "roce or iwarp");
	bad("nvme+rdma://h/nqn.a?transport=iwarp&transport=iwarp", "twice");
	bad("nvme+rdma://h/nqn.a?nsid=1", "parameters");
	snprintf(text, sizeof(text), "nvme+rdma://h/nqn.%0220d", 7);
	bad(text, "223");
}

static void format_gives_back_what_parse_took(void **state)
{
	static const char *const texts[] = {
		"nvme+rdma://10.0.0.1:4420/nqn.2024-01.io.weft:disk?ns=1",
		"nvme+rdma://[fd77::2]/nqn.a%3Fb",
		"nvme+rdma://h:1?ns=2&hostnqn=nqn.h%26i&hostid=00112233445566778899aabbccddeeff",
		"nvme+rdma://h/nqn.a?transport=iwarp",
		"nvme+rdma://h/nqn.a?ns=2&transport=roce",
		"nvme+rdma://h",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct nvme_uri u;
		char back[512];

		good(texts[i], &u);
		assert_int_equal(nvme_uri_format(&u, back, sizeof(back)), 0);
		assert_string_equal(back, texts[i]);
		assert_int_equal(nvme_uri_format(&u, back, strlen(texts[i])), -ENAMETOOLONG);
	}
}

static void uuids_are_read_with_and_without_hyphens(void **state)
{
	uint8_t a[16], b[16];
	char text[37];

	(void)state;
	assert_int_equal(nvme_uuid_parse("00112233-4455-6677-8899-aAbBcCdDeEfF", a), 0);
	assert_int_equal(nvme_uuid_parse("00112233445566778899aabbccddeeff", b), 0);
	assert_memory_equal(a, b, 16);
	nvme_uuid_format(a, text);
	assert_string_equal(text, "00112233-4455-6677-8899-aabbccddeeff");
	assert_int_equal(nvme_uuid_parse("00112233445566778899aabbccddeef", a), -EINVAL);
	assert_int_equal(nvme_uuid_parse("00112233445566778899aabbccddeeff0", a), -EINVAL);
	assert_int_equal(nvme_uuid_parse("g0112233445566778899aabbccddeeff", a), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_uri_gives_every_part),
		cmocka_unit_test(a_host_alone_is_enough),
		cmocka_unit_test(ipv6_stands_in_brackets),
		cmocka_unit_test(the_longest_zone_comes_back),
		cmocka_unit_test(an_nqn_may_hold_slashes_and_percent_codes),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(format_gives_back_what_parse_took),
		cmocka_unit_test(uuids_are_read_with_and_without_hyphens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
